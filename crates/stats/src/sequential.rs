//! Wald's sequential probability ratio test: repeats a measurement until a regression is confirmed
//! or refuted at given error rates (A. Wald, "Sequential Tests of Statistical Hypotheses", Annals
//! of Mathematical Statistics 16(2), 1945, pp. 117–186). Measurements must be independent.

/// Result of the measurements so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequentialDecision {
    /// No regression.
    Usual,
    /// Regression.
    Low,
    /// More measurements are needed.
    Open,
}

/// Sequential test of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequential {
    low: f64,
    /// Increase of the log likelihood ratio by a low measurement with a reported cause.
    stated: f64,
    usual: f64,
    upper: f64,
    lower: f64,
}

/// Minimum distance of probabilities from 0 and 1: a few measurements do not show more.
const MIN_PROBABILITY: f64 = 1e-3;
/// Maximum error rate of a test: above it a single measurement decides.
const LARGEST_RATE: f64 = 0.49;
/// Probability that a test misses a regression.
pub const MISSED: f64 = 0.05;
/// Probability of a low measurement with a reported cause although there is no regression.
const STATED: f64 = 0.01;

impl Sequential {
    /// Creates a test that reports a regression of a normal machine with a probability of at most
    /// `false_alarm`, and misses one with at most `missed`. A measurement is low with probability
    /// `by_chance` without a regression, `of_a_loss` with one. `None` if no such test exists.
    pub fn new(false_alarm: f64, missed: f64, by_chance: f64, of_a_loss: f64) -> Option<Self> {
        let [p0, p1] = [by_chance, of_a_loss].map(|p| p.clamp(MIN_PROBABILITY, 1.0 - MIN_PROBABILITY));
        let rates = [false_alarm, missed];
        if p1 <= p0 || rates.iter().any(|rate| !(*rate > 0.0 && *rate < 0.5)) {
            return None;
        }
        Some(Self {
            low: (p1 / p0).ln(),
            stated: (p1 / p0.min(STATED)).ln(),
            usual: ((1.0 - p1) / (1.0 - p0)).ln(),
            upper: ((1.0 - missed) / false_alarm).ln(),
            lower: (missed / (1.0 - false_alarm)).ln(),
        })
    }

    /// Makes `most` low measurements enough for a regression, if necessary with more false alarms.
    #[must_use]
    pub fn with_max_low(self, most: usize) -> Self {
        Self { upper: self.upper.min(self.low * most as f64), ..self }
    }

    /// Creates the test for outliers among `looked_at` values, with `by_chance` of them caused by
    /// noise; at most `allowed` of these are reported on average. `None` if no such test exists.
    pub fn of_outlier(by_chance: f64, looked_at: usize, allowed: f64) -> Option<Self> {
        const DECIDED_PROBABILITY: f64 = 0.98;
        let chance = (by_chance.max(1.0) / looked_at.max(1) as f64).min(0.5);
        Self::new((allowed / by_chance).min(LARGEST_RATE), MISSED, chance, DECIDED_PROBABILITY)
    }

    /// Decides after `all` measurements, `low` of them low, `stated` of those with a known cause.
    pub fn decide(&self, low: usize, stated: usize, all: usize) -> SequentialDecision {
        let stated = stated.min(low);
        let ratio = (low - stated) as f64 * self.low
            + stated as f64 * self.stated
            + all.saturating_sub(low) as f64 * self.usual;
        match ratio {
            _ if ratio >= self.upper => SequentialDecision::Low,
            _ if ratio <= self.lower => SequentialDecision::Usual,
            _ => SequentialDecision::Open,
        }
    }

    /// Returns the smallest number of measurements, all of them low, that confirms a regression.
    pub fn fewest(&self) -> usize {
        (self.upper / self.low).ceil() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use proptest::prelude::*;
    use rand::RngExt;

    fn low(test: &Sequential, probability: f64, trials: usize, seed: u64) -> f64 {
        let mut generator = Seed::new(seed, "sequential", "low").generator();
        let mut one = || {
            let (mut low, mut all) = (0, 0);
            loop {
                low += usize::from(generator.random_range(0.0..1.0) < probability);
                all += 1;
                match test.decide(low, 0, all) {
                    SequentialDecision::Open => {}
                    other => break other == SequentialDecision::Low,
                }
            }
        };
        (0..trials).filter(|_| one()).count() as f64 / trials as f64
    }

    #[test]
    fn both_error_rates_hold() {
        for (by_chance, of_a_loss) in [(0.05, 0.95), (0.2, 0.9), (0.5, 0.98)] {
            let test = Sequential::new(0.01, 0.05, by_chance, of_a_loss).unwrap();
            assert!(low(&test, by_chance, 20_000, 1) <= 0.012, "{by_chance}");
            assert!(low(&test, of_a_loss, 20_000, 2) >= 0.94, "{of_a_loss}");
            assert!(low(&test, by_chance / 2.0, 20_000, 3) <= 0.01, "{by_chance}");
        }
    }

    #[test]
    fn one_that_is_not_low_is_enough_where_a_loss_shows_nearly_always() {
        let test = Sequential::new(5e-6, 0.05, 0.5, 0.98).unwrap();
        assert_eq!((test.fewest(), test.decide(0, 0, 1)), (19, SequentialDecision::Usual));
        let enough = [(19, 0, 19), (3, 3, 3)].map(|(low, again, all)| test.decide(low, again, all));
        let few = [(18, 0, 18), (2, 2, 2)].map(|(low, again, all)| test.decide(low, again, all));
        assert_eq!((enough, few), ([SequentialDecision::Low; 2], [SequentialDecision::Open; 2]));
        assert_eq!(Sequential::new(1e-4, 0.05, 0.9, 0.5), None);
    }

    fn of_outlier(by_chance: f64, looked_at: usize, allowed: f64) -> Sequential {
        Sequential::of_outlier(by_chance, looked_at, allowed).unwrap()
    }

    #[test]
    fn an_outlier_is_measured_the_more_often_the_more_chance_makes() {
        let (allowed, fewest) = (0.01 / 23.0, |test: Sequential| test.with_max_low(6).fewest());
        for looked_at in [3, 8, 200, 4600] {
            assert_eq!(fewest(of_outlier(allowed, looked_at, allowed)), 1);
        }
        assert_eq!(fewest(of_outlier(2.0, 200, allowed)), 2);
        assert_eq!(fewest(of_outlier(17.0, 200, allowed)), 5);
        assert_eq!(fewest(of_outlier(1.0, 0, allowed)), 6);
        for by_chance in [allowed, 2.0, 100.0] {
            assert_eq!(of_outlier(by_chance, 200, allowed).decide(0, 0, 1), SequentialDecision::Usual);
        }
    }

    #[test]
    fn outliers_by_chance_are_confirmed_rarely_and_real_ones_nearly_always() {
        for by_chance in [2.0, 5.0, 17.0, 40.0] {
            let (looked_at, allowed) = (200, 0.01);
            let test = of_outlier(by_chance, looked_at, allowed);
            let confirmed = low(&test, by_chance / looked_at as f64, 50_000, 4);
            assert!(confirmed * by_chance <= allowed * 1.2, "{by_chance}: {confirmed}");
            assert!(low(&test.with_max_low(6), 0.98, 20_000, 5) >= 0.95, "{by_chance}");
        }
    }

    proptest! {
        #[test]
        fn outliers_that_all_stand_out_again_are_rare_enough(by_chance in 1u32..50, looked_at in 1usize..5000) {
            let (allowed, by_chance) = (0.002, f64::from(by_chance));
            let fewest = of_outlier(by_chance, looked_at, allowed).fewest();
            let chance = (by_chance / looked_at as f64).min(0.5);
            prop_assert!(by_chance * chance.powi(i32::try_from(fewest).unwrap()) <= allowed * 1.06);
        }

        #[test]
        fn a_smaller_false_alarm_rate_needs_more(
            rate in 1e-9..0.1_f64, by_chance in 0.01..0.6_f64, of_a_loss in 0.7..0.999_f64
        ) {
            let fewest = |rate| Sequential::new(rate, 0.05, by_chance, of_a_loss).unwrap().fewest();
            prop_assert!(fewest(rate) >= fewest(rate * 2.0));
        }
    }
}
