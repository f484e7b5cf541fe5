//! Linear trend, robust against 29 % outliers: the median slope of all pairs (Theil 1950; Sen,
//! "Estimates of the regression coefficient based on Kendall's tau", J. Am. Stat. Assoc. 63, 1968).

use super::changepoint::TimedPoint;
use super::samples::median;

const MIN_TREND_POINTS: usize = 5;
/// Standard deviation of a normal distribution ÷ its median absolute deviation.
const NORMAL: f64 = 1.4826;

/// Linear trend of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Change of the value per second.
    pub slope: f64,
    /// Standard error of the slope, from the distances of the points to the line.
    pub error: f64,
}

impl Trend {
    /// Fits a line, with the median slope of all pairs, to `points` in order of time. `None` with
    /// fewer than five points, or if the first and last have the same time.
    pub fn fit(points: &[TimedPoint]) -> Option<Self> {
        let count = points.len();
        let (first, last) = (points.first()?, points.last()?);
        let seconds = last.t - first.t;
        let pairs =
            points.iter().enumerate().flat_map(|(i, a)| points.iter().skip(i + 1).map(move |b| (a, b)));
        let slopes = pairs.map(|(a, b)| (b.value - a.value) / (b.t - a.t)).filter(|slope| slope.is_finite());
        let slope = median(slopes.collect()).filter(|_| count >= MIN_TREND_POINTS && seconds > 0.0)?;
        let offsets: Vec<f64> = points.iter().map(|p| p.value - slope * p.t).collect();
        let offset = median(offsets.clone())?;
        let distance = median(offsets.iter().map(|o| (o - offset).abs()).collect())?;
        let error = NORMAL * distance * (12.0 / count as f64).sqrt() / seconds;
        Some(Trend { slope, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn outliers_do_not_turn_the_line(slope in -5.0f64..5.0, far in 1.0f64..1e3, count in 20usize..64) {
            let point = |i: usize| TimedPoint { t: i as f64 * 0.01, value: slope * i as f64 * 0.01 + if i % 5 == 2 { far } else { 0.0 } };
            let found = Trend::fit(&(0..count).map(point).collect::<Vec<_>>()).unwrap();
            prop_assert!((found.slope - slope).abs() < 1e-6 + 1e-9 * far, "{found:?}");
        }
    }

    #[test]
    fn few_points_have_none_and_noise_has_its_error() {
        let at = |t: f64, value: f64| TimedPoint { t, value };
        assert_eq!(Trend::fit(&[at(0.0, 1.0), at(1.0, 2.0)]), None);
        assert_eq!(Trend::fit(&[at(1.0, 1.0); 9]), None, "no time passes");
        let noisy: Vec<TimedPoint> = (0..50).map(|i| at(f64::from(i) * 0.02, f64::from(i * 7 % 5))).collect();
        let found = Trend::fit(&noisy).unwrap();
        assert!(found.slope.abs() < 3.0 * found.error && found.error > 0.1, "{found:?}");
    }
}
