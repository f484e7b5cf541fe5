//! Summary of one metric, as in the run document.

use serde::{Deserialize, Serialize};

use super::samples::{ascending, median_of_sorted};
use super::{Samples, Seed, median_interval};

/// Statistics of the samples of one metric, in its unit; all finite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Number of samples, at least 1.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with n − 1; `None` below 2 samples.
    pub stdev: Option<f64>,
    /// Median, the reported result.
    pub median: f64,
    /// Median absolute deviation, *unscaled*: of normal samples, × 1.4826 is `stdev`.
    pub mad: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// 95 % confidence interval of the median (see [`median_interval`]); `None` below 5 samples.
    pub ci95: Option<[f64; 2]>,
}

impl Summary {
    /// Summarises `samples`; `seed` determines the bootstrap of the confidence interval.
    pub fn new(samples: &Samples, seed: Seed) -> Self {
        let sorted = samples.sorted();
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        let median = median_of_sorted(&sorted);
        let mean = mean(&sorted).clamp(min, max);
        Summary {
            n: sorted.len(),
            mean,
            stdev: stdev(&sorted, mean),
            median,
            mad: mad(&sorted, median),
            min,
            max,
            ci95: median_interval(samples, seed),
        }
    }

    /// Returns half the width of `ci95` ÷ the median: the precision. `None` without an interval, or
    /// if the median is zero and the width is not.
    pub fn relative_half_width(&self) -> Option<f64> {
        let [low, high] = self.ci95?;
        if low == high {
            return Some(0.0);
        }
        let relative = (high / 2.0 - low / 2.0) / self.median.abs();
        relative.is_finite().then_some(relative)
    }
}

fn unit_scale(sorted: &[f64]) -> f64 {
    let largest = sorted[0].abs().max(sorted[sorted.len() - 1].abs());
    match largest {
        l if l > 1e100 => 2f64.powi(-600),
        l if l < 1e-100 => 2f64.powi(600),
        _ => 1.0,
    }
}

fn mean(sorted: &[f64]) -> f64 {
    let scale = unit_scale(sorted);
    let n = sorted.len() as f64;
    let first = sorted.iter().map(|x| x * scale).sum::<f64>() / n;
    let rest = sorted.iter().map(|x| x * scale - first).sum::<f64>() / n;
    (first + rest) / scale
}

/// Returns the two-pass standard deviation (Chan, Golub & LeVeque 1983); `None` below 2 values.
fn stdev(sorted: &[f64], mean: f64) -> Option<f64> {
    if sorted.len() < 2 {
        return None;
    }
    let scale = unit_scale(sorted);
    let squares: f64 = sorted.iter().map(|x| (x * scale - mean * scale).powi(2)).sum();
    let variance = squares / (sorted.len() - 1) as f64;
    Some((variance.sqrt() / scale).min(f64::MAX))
}

pub(super) fn mad(sorted: &[f64], median: f64) -> f64 {
    let deviations = sorted.iter().map(|x| (x - median).abs().min(f64::MAX)).collect();
    median_of_sorted(&ascending(deviations))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::finite;
    use proptest::prelude::*;

    fn summary(points: &[f64]) -> Summary {
        Summary::new(&Samples::new(points.to_vec()).unwrap(), Seed::new(1, "case", "metric"))
    }

    #[test]
    fn a_known_set_has_the_known_summary() {
        let s = summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((s.n, s.mean, s.median, s.mad), (8, 5.0, 4.5, 0.5));
        assert_eq!((s.min, s.max), (2.0, 9.0));
        assert!((s.stdev.unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn one_sample_has_no_deviation_and_no_interval_and_null_in_a_document() {
        let s = summary(&[3.0]);
        assert_eq!((s.mean, s.stdev, s.median, s.mad, s.ci95), (3.0, None, 3.0, 0.0, None));
        assert_eq!(s.relative_half_width(), None);
        let json = serde_json::to_value(&s).unwrap();
        assert!(json["stdev"].is_null() && json["ci95"].is_null());
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), s);
        assert_eq!(summary(&[3.0, 5.0]).stdev, Some(2f64.sqrt()));
    }

    #[test]
    fn deviation_survives_a_large_offset() {
        assert_eq!(summary(&[4.0, 7.0, 13.0, 16.0].map(|point| 1e9 + point)).stdev, Some(30f64.sqrt()));
    }

    #[test]
    fn precision_is_half_the_interval_over_the_median() {
        let precision = |points: &[f64]| summary(points).relative_half_width();
        assert_eq!(precision(&[98.0, 99.0, 100.0, 101.0, 102.0]), Some(0.02));
        assert_eq!([precision(&[0.0; 10]), precision(&[-2.0, -1.0, 0.0, 1.0, 2.0])], [Some(0.0), None]);
    }

    #[test]
    fn the_interval_of_a_known_set_never_changes() {
        let points: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 20)).collect();
        assert_eq!(summary(&points).ci95, Some([5.356481481481481, 13.693877551020408]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn every_number_is_finite_and_in_range(points in prop::collection::vec(finite(), 1..12)) {
            let s = summary(&points);
            prop_assert!(s.min <= s.median && s.median <= s.max);
            prop_assert!(s.min <= s.mean && s.mean <= s.max);
            prop_assert!(s.mad.is_finite() && s.mad >= 0.0);
            prop_assert_eq!(s.stdev.is_some(), s.n >= 2);
            prop_assert!(s.stdev.is_none_or(|d| d.is_finite() && d >= 0.0));
            prop_assert_eq!(s.ci95.is_some(), s.n >= 5);
            prop_assert!(s.ci95.is_none_or(|[low, high]| s.min <= low && low <= high && high <= s.max));
            prop_assert!(s.relative_half_width().is_none_or(|w| w.is_finite() && w >= 0.0));
        }

        #[test]
        fn equal_samples_have_no_spread(value in finite(), n in 2usize..30) {
            let s = summary(&vec![value; n]);
            prop_assert_eq!((s.mean, s.median, s.mad), (value, value, 0.0));
            prop_assert_eq!(s.stdev, Some(0.0));
        }

        #[test]
        fn order_does_not_matter(points in prop::collection::vec(-1e9f64..1e9, 1..12).prop_shuffle()) {
            let forward = summary(&points);
            let backward = summary(&points.iter().rev().copied().collect::<Vec<_>>());
            prop_assert_eq!(forward, backward);
        }
    }
}
