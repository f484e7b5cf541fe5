//! Outliers by the generalized extreme Studentized deviate test (B. Rosner, "Percentage points for
//! a generalized ESD many-outlier procedure", Technometrics 25(2), 1983).

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Probability of an outlier among normal values without any.
const ALPHA: f64 = 0.01;

/// Returns the values, in order, without up to `most` outliers; unchanged if fewer than five.
pub fn without_outliers(values: &[f64], most: usize) -> Vec<f64> {
    const MIN_POINTS: usize = 5;
    let mut left = values.to_vec();
    let mut kept = left.clone();
    for _ in 0..most {
        let Some((index, extreme)) = furthest(&left).filter(|_| left.len() >= MIN_POINTS) else { break };
        let critical = critical(left.len());
        left.remove(index);
        // The last value beyond its bound counts, also if earlier ones are within theirs (masking).
        if extreme > critical {
            kept.clone_from(&left);
        }
    }
    kept
}

fn furthest(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let away = values.iter().map(|x| (x - mean).abs() / deviation).enumerate();
    away.filter(|(_, away)| away.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns Rosner's λ: how many standard deviations away the furthest of `n` values is an outlier.
fn critical(n: usize) -> f64 {
    let n = n as f64;
    let t =
        StudentsT::new(0.0, 1.0, n - 2.0).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - ALPHA / (2.0 * n)));
    (n - 1.0) * t / ((n - 2.0 + t * t) * n).sqrt()
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::Seed;

    const TEN: [f64; 9] = [-0.9, 0.4, 1.1, -0.2, 0.1, -1.3, 0.6, 0.0, -0.5];

    #[test]
    fn one_far_value_is_left_out_and_ordinary_ones_are_not() {
        let with = |far: f64| without_outliers(&[TEN.as_slice(), &[far]].concat(), 1);
        assert_eq!((with(8.0).len(), with(2.0).len(), with(-1e9)), (9, 10, TEN.to_vec()));
        assert_eq!(without_outliers(&[1.0; 9], 1).len(), 9);
        assert_eq!(without_outliers(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e-3], 1), [0.0; 7]);
        assert_eq!(without_outliers(&[1.0, 1.0, 1.0, 9.0], 1).len(), 4, "of four nothing can be said");
    }

    #[test]
    fn two_that_hide_each_other_are_found_together() {
        let twice: Vec<f64> = TEN.iter().chain(&TEN).copied().chain([60.0, 61.0]).collect();
        assert_eq!(without_outliers(&twice, 2).len(), 18);
        let eleven = [TEN.as_slice(), &[60.0, 61.0]].concat();
        assert_eq!(without_outliers(&eleven, 1).len(), 11, "two of eleven are no accident");
    }

    #[test]
    fn the_bound_is_rosners() {
        // Grubbs's two-sided bound at 1 % for ten values: 2.482 (ASTM E178).
        assert!((critical(10) - 2.482).abs() < 1e-3, "{}", critical(10));
    }

    #[test]
    fn normal_values_keep_their_deviation() {
        let mut random = Seed::new(3, "esd", "normal").generator();
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        for n in [5, 10, 20] {
            let (mut found, mut squares, mut freedom) = (0, 0.0, 0.0);
            for _ in 0..1000 {
                let values: Vec<f64> = (0..n).map(|_| normal()).collect();
                let kept = without_outliers(&values, 1);
                let mean = kept.iter().sum::<f64>() / kept.len() as f64;
                squares += kept.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
                freedom += (kept.len() - 1) as f64;
                found += usize::from(kept.len() < n);
            }
            assert!(found < 25, "{found} of 1000 sets of {n}");
            assert!((0.97..1.03).contains(&(squares / freedom).sqrt()), "{n}");
        }
    }
}
