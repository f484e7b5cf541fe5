//! Equivalence of two tools: paired ratios, their confidence interval, and two one-sided tests
//! against a margin stated in advance (Schuirmann, "A comparison of the two one-sided tests
//! procedure and the power approach", J. Pharmacokinet. Biopharm. 15, 1987).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::samples::{ascending, median};

/// Minimum number of pairs for an interval.
pub const MIN_PAIRS: usize = 3;

/// Result of comparing pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EquivalenceVerdict {
    /// The 90 % interval of the ratio is within the margin.
    Equivalent,
    /// The 95 % interval is above 1.
    Higher,
    /// The 95 % interval is below 1.
    Lower,
    /// None of these.
    Inconclusive,
}

/// Ratio of paired values, such as our figures and those of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Median of the ratios of the pairs.
    pub median: f64,
    /// 95 % confidence interval by Student's t on the logarithms, extended to include the median;
    /// `None` below [`MIN_PAIRS`].
    pub ci95: Option<[f64; 2]>,
}

impl Ratio {
    /// Returns the ratio first ÷ second over the `pairs` of positive numbers; `None` if none is.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Ratio> {
        let logs = logarithms(pairs);
        let median = median(logs.clone())?.exp();
        let ci95 = interval(&logs, 0.975).map(|[low, high]| [low.min(median), high.max(median)]);
        Some(Ratio { median, ci95 })
    }
}

impl EquivalenceVerdict {
    /// Compares the ratio of `pairs` with a margin: with 0.03, 1 ÷ 1.03 to 1.03 is equivalent.
    pub fn of(pairs: &[(f64, f64)], margin: f64) -> Self {
        let (ci95, tost) = (Ratio::of(pairs).and_then(|r| r.ci95), interval(&logarithms(pairs), 0.95));
        let edge = 1.0 + margin.max(0.0);
        match ci95.zip(tost) {
            Some((_, [least, most])) if least > 1.0 / edge && most < edge => Self::Equivalent,
            Some(([low, _], _)) if low > 1.0 => Self::Higher,
            Some(([_, high], _)) if high < 1.0 => Self::Lower,
            _ => Self::Inconclusive,
        }
    }
}

/// Returns the logarithms of the ratios of pairs of positive numbers, ascending.
fn logarithms(pairs: &[(f64, f64)]) -> Vec<f64> {
    let usable = pairs.iter().filter(|(own, other)| *own > 0.0 && *other > 0.0);
    ascending(usable.map(|(own, other)| (own / other).ln()).filter(|log| log.is_finite()).collect())
}

/// Returns the mean ratio's interval up to `quantile` of Student's t; `None` below [`MIN_PAIRS`].
fn interval(logs: &[f64], quantile: f64) -> Option<[f64; 2]> {
    let n = logs.len();
    if n < MIN_PAIRS {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let error = (squares / (n - 1) as f64 / n as f64).sqrt();
    let t = StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()?.inverse_cdf(quantile);
    Some([(mean - t * error).exp(), (mean + t * error).exp()])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(ratios: &[f64]) -> Vec<(f64, f64)> {
        ratios.iter().map(|r| (r * 7.0, 7.0)).collect()
    }

    #[test]
    fn close_pairs_are_equivalent_and_far_ones_are_not() {
        let verdict = |ratios: &[f64]| EquivalenceVerdict::of(&pairs(ratios), 0.03);
        assert_eq!(verdict(&[1.0, 1.01, 0.995, 1.002, 1.0]), EquivalenceVerdict::Equivalent);
        assert_eq!(verdict(&[1.2, 1.21, 1.19, 1.2, 1.22]), EquivalenceVerdict::Higher);
        assert_eq!(verdict(&[0.5, 0.51, 0.49, 0.5, 0.5]), EquivalenceVerdict::Lower);
        assert_eq!(verdict(&[0.9, 1.2, 0.8, 1.1, 1.0]), EquivalenceVerdict::Inconclusive);
        assert_eq!(verdict(&[1.0, 1.0]), EquivalenceVerdict::Inconclusive, "two pairs decide nothing");
    }

    #[test]
    fn the_interval_is_students() {
        // Logs 0.1, 0.2, 0.3: mean 0.2, standard error 0.1/√3, t(0.975, 2) = 4.302653 (any table).
        let logs = [0.1f64, 0.2, 0.3].map(f64::exp);
        let ratio = Ratio::of(&pairs(&logs)).unwrap();
        let half = 4.302_653 * 0.1 / 3f64.sqrt();
        let [low, high] = ratio.ci95.unwrap();
        assert!((low.ln() - (0.2 - half)).abs() < 1e-6 && (high.ln() - (0.2 + half)).abs() < 1e-6);
        assert!((ratio.median.ln() - 0.2).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_positive_gives_no_ratio() {
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[(0.0, 1.0), (1.0, -1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)]), None);
    }

    proptest! {
        #[test]
        fn swapping_the_tools_swaps_the_verdict(
            pairs in prop::collection::vec((1e-9f64..1e12, 1e-9f64..1e12), 1..20), margin in 0.0f64..0.5,
        ) {
            let swapped: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let mirrored = match EquivalenceVerdict::of(&swapped, margin) {
                EquivalenceVerdict::Higher => EquivalenceVerdict::Lower,
                EquivalenceVerdict::Lower => EquivalenceVerdict::Higher,
                same => same,
            };
            prop_assert_eq!(EquivalenceVerdict::of(&pairs, margin), mirrored);
        }

        #[test]
        fn the_interval_holds_the_median(pairs in prop::collection::vec((1e-3f64..1e3, 1e-3f64..1e3), 3..20)) {
            let ratio = Ratio::of(&pairs).unwrap();
            let [low, high] = ratio.ci95.unwrap();
            prop_assert!(low <= ratio.median && ratio.median <= high);
        }
    }
}
