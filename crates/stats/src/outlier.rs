//! Signs that samples depend on each other or are mixed: outliers and autocorrelation.

use super::Samples;
use super::samples::{ascending, median_of_sorted};

/// Minimum modified Z-score (Iglewicz & Hoaglin, "How to Detect and Handle Outliers", 1993).
const THRESHOLD: f64 = 3.5;
/// For normal samples MAD = 0.6745 σ, and the mean absolute deviation = σ / 1.2533.
const MAD_OVER_SIGMA: f64 = 0.6745;
const SIGMA_OVER_MEAN_DEVIATION: f64 = 1.253_314;

/// Returns the number of samples with a modified Z-score, 0.6745 × |x − median| ÷ MAD, above 3.5.
/// If MAD is zero, the mean absolute deviation replaces it.
pub fn outlier_count(samples: &Samples) -> usize {
    let median = samples.median();
    let deviations: Vec<f64> = samples.points().iter().map(|x| (x - median).abs().min(f64::MAX)).collect();
    let mad = median_of_sorted(&ascending(deviations.clone()));
    let n = samples.count() as f64;
    let mean_deviation: f64 = deviations.iter().map(|d| d / n).sum();
    let sigma = if mad > 0.0 { mad / MAD_OVER_SIGMA } else { mean_deviation * SIGMA_OVER_MEAN_DEVIATION };
    if sigma > 0.0 { deviations.iter().filter(|d| **d / sigma > THRESHOLD).count() } else { 0 }
}

/// Returns the correlation of successive samples, −1 to 1; `None` below 3 samples or if all are
/// equal. A high value (drift, throttling) makes confidence intervals too narrow.
/// r₁ = Σ (xᵢ − m)(xᵢ₊₁ − m) ÷ Σ (xᵢ − m)² (Box, Jenkins & Reinsel, "Time Series Analysis", ch. 2).
pub fn lag1_autocorrelation(samples: &Samples) -> Option<f64> {
    let points = samples.points();
    if points.len() < 3 {
        return None;
    }
    let largest = points.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    if largest == 0.0 {
        return None;
    }
    // Scaled to −1 … 1, so that squares neither overflow nor vanish.
    let scaled: Vec<f64> = points.iter().map(|x| x / largest).collect();
    let mean = scaled.iter().sum::<f64>() / scaled.len() as f64;
    let squares: f64 = scaled.iter().map(|x| (x - mean).powi(2)).sum();
    let products: f64 = scaled.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    // Differences of the order of rounding are no signal.
    let noise = scaled.len() as f64 * f64::EPSILON.powi(2) * 16.0;
    (squares > noise).then(|| (products / squares).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples;
    use proptest::prelude::*;

    #[test]
    fn one_wild_sample_is_one_outlier_also_among_equal_ones() {
        assert_eq!(outlier_count(&samples(&[10.0, 10.1, 9.9, 10.2, 9.8, 50.0])), 1);
        assert_eq!(outlier_count(&samples(&[10.0, 10.1, 9.9, 10.2, 9.8])), 0);
        assert_eq!(outlier_count(&samples(&[1.0; 20])), 0);
        assert_eq!(outlier_count(&samples(&[1.0])), 0);
        assert_eq!(outlier_count(&samples(&[&[1.0; 19][..], &[2.0]].concat())), 1);
    }

    #[test]
    fn drift_correlates_and_alternation_anticorrelates() {
        let drift: Vec<f64> = (0..30).map(f64::from).collect();
        assert!(lag1_autocorrelation(&samples(&drift)).unwrap() > 0.8);
        let alternating: Vec<f64> = (0..30).map(|i| f64::from(i % 2)).collect();
        assert!(lag1_autocorrelation(&samples(&alternating)).unwrap() < -0.9);
        let known = lag1_autocorrelation(&samples(&[1.0, 4.0, 2.0, 3.0])).unwrap();
        assert!((known - -0.65).abs() < 1e-12, "{known}");
    }

    #[test]
    fn too_few_or_equal_samples_have_no_correlation() {
        assert_eq!(lag1_autocorrelation(&samples(&[1.0, 2.0])), None);
        assert_eq!(lag1_autocorrelation(&samples(&[0.1; 10])), None);
        assert_eq!(lag1_autocorrelation(&samples(&[0.0; 10])), None);
    }

    proptest! {
        #[test]
        fn any_samples_give_sane_answers(points in prop::collection::vec(any::<f64>().prop_filter("finite", |x| x.is_finite()), 1..20)) {
            let samples = samples(&points);
            prop_assert!(outlier_count(&samples) <= points.len() / 2);
            prop_assert!(lag1_autocorrelation(&samples).is_none_or(|r| (-1.0..=1.0).contains(&r)));
        }
    }
}
