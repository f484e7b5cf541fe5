//! Steady state by SNIA's two criteria (Solid State Storage Performance Test Specification 2.0.2,
//! §2.1.24): over five rounds the values' range is at most 20 % of their mean, and the fitted line
//! changes by at most 10 % of it.

/// Rounds per window.
pub const WINDOW_ROUNDS: usize = 5;
/// Maximum number of rounds.
pub const MOST_ROUNDS: usize = 25;
/// Maximum range of the values as a share of their mean.
const RANGE: f64 = 0.20;
/// Maximum change of the fitted line over the window, as a share of the mean.
const EXCURSION: f64 = 0.10;

/// Deviation of a window from steady state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Largest minus smallest value, as a share of the mean.
    pub range: f64,
    /// Absolute change of the fitted line from the first round to the last, as a share of the mean.
    pub excursion: f64,
}

impl Steadiness {
    /// Evaluates the last 5 values; `None` with fewer, or if their mean is not positive.
    pub fn of_last(values: &[f64]) -> Option<Self> {
        let window = values.get(values.len().checked_sub(WINDOW_ROUNDS)?..)?;
        let n = WINDOW_ROUNDS as f64;
        let mean = window.iter().sum::<f64>() / n;
        if mean.is_nan() || mean <= 0.0 {
            return None;
        }
        let extreme = |pick: fn(f64, f64) -> f64| window.iter().copied().reduce(pick).unwrap_or(mean);
        let middle = (n - 1.0) / 2.0;
        let from_middle = |i: usize| i as f64 - middle;
        let products = window.iter().enumerate().map(|(i, value)| from_middle(i) * value);
        let squares = (0..WINDOW_ROUNDS).map(|i| from_middle(i) * from_middle(i));
        let slope = products.sum::<f64>() / squares.sum::<f64>();
        let range = (extreme(f64::max) - extreme(f64::min)) / mean;
        Some(Self { range, excursion: (slope * (n - 1.0)).abs() / mean })
    }

    /// Returns whether `range` is at most 20 % and `excursion` at most 10 %.
    pub fn is_steady(&self) -> bool {
        self.range <= RANGE && self.excursion <= EXCURSION
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[f64]) -> Steadiness {
        Steadiness::of_last(values).unwrap()
    }

    #[test]
    fn both_criteria_are_needed() {
        assert!(of(&[100.0; 5]).is_steady());
        let falling = of(&[108.0, 104.0, 100.0, 96.0, 92.0]);
        assert!((falling.range - 0.16).abs() < 1e-12 && (falling.excursion - 0.16).abs() < 1e-12);
        assert!(!falling.is_steady());
        let spread = of(&[100.0, 115.0, 85.0, 115.0, 100.0]);
        assert!(spread.excursion < 0.10 && !spread.is_steady(), "{spread:?}");
        assert!(of(&[100.0, 110.0, 100.0, 90.0, 100.0]).is_steady());
    }

    #[test]
    fn only_the_last_five_count_and_fewer_say_nothing() {
        assert_eq!([[1.0; 4].as_slice(), &[], &[0.0; 5]].map(Steadiness::of_last), [None; 3]);
        assert!(of(&[900.0, 500.0, 100.0, 101.0, 99.0, 100.0, 100.0]).is_steady());
    }

    proptest! {
        #[test]
        fn a_straight_line_is_measured_exactly(slope in -20.0_f64..20.0) {
            let line: Vec<f64> = (0..5).map(|i| 100.0 + slope * (f64::from(i) - 2.0)).collect();
            let found = of(&line);
            prop_assert!((found.excursion - (4.0 * slope / 100.0).abs()).abs() < 1e-9);
            prop_assert!((found.range - found.excursion).abs() < 1e-9);
            prop_assert_eq!(found.is_steady(), found.excursion <= EXCURSION);
        }

        #[test]
        fn scaled_values_are_as_steady(values in proptest::collection::vec(0.0..1e9, 0..12), scale in 1e-6..1e6) {
            let scaled: Vec<f64> = values.iter().map(|v| v * scale).collect();
            match (Steadiness::of_last(&values), Steadiness::of_last(&scaled)) {
                (Some(a), Some(b)) => prop_assert!((a.range - b.range).abs() < 1e-6 && (a.excursion - b.excursion).abs() < 1e-6),
                (a, b) => prop_assert_eq!(a.is_some(), b.is_some()),
            }
        }
    }
}
