//! Wald's sequential probability ratio test of a share: how many measurements are needed until "nothing is wrong" or "something is" can be
//! said at stated error rates.
//!
//! A. Wald, "Sequential Tests of Statistical Hypotheses", Annals of Mathematical Statistics 16(2), 1945, pp. 117–186. Each measurement is low
//! or it is not; nothing is assumed of the distribution of the figures but these two probabilities, and that measurements are independent.

/// What the measurements so far say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// Nothing is wrong.
    Usual,
    /// The loss is there.
    Low,
    /// More measurements are needed.
    Open,
}

/// The test of one check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wald {
    /// What a low measurement adds to the logarithm of the ratio.
    low: f64,
    /// The same of one whose cause the system states.
    stated: f64,
    /// What another one adds; below 0.
    usual: f64,
    upper: f64,
    lower: f64,
}

/// A probability is never taken to be nearer to 0 or 1 than this: a few measurements do not show more.
const LEAST: f64 = 1e-3;
/// The probability that a measurement is low though nothing is wrong, where the system itself states the cause beside it: that it is another
/// one than the loss that is looked for.
const STATED: f64 = 0.01;

impl Wald {
    /// A test that calls a usual machine low with the probability `false_alarm` at most, and misses the loss with `missed`. `by_chance` is
    /// the probability that one measurement is low though nothing is wrong, `of_a_loss` that it is where the loss is there.
    ///
    /// `None` where measurements cannot tell the two apart.
    pub fn new(false_alarm: f64, missed: f64, by_chance: f64, of_a_loss: f64) -> Option<Self> {
        let (p0, p1) = (by_chance.clamp(LEAST, 1.0 - LEAST), of_a_loss.clamp(LEAST, 1.0 - LEAST));
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

    /// What `low` low measurements of `all` say, of which `stated` have a cause that the system states.
    pub fn decided(&self, low: usize, stated: usize, all: usize) -> Decided {
        let stated = stated.min(low);
        let ratio = (low - stated) as f64 * self.low
            + stated as f64 * self.stated
            + all.saturating_sub(low) as f64 * self.usual;
        match ratio {
            _ if ratio >= self.upper => Decided::Low,
            _ if ratio <= self.lower => Decided::Usual,
            _ => Decided::Open,
        }
    }

    /// The fewest measurements, all of them low, that say that the loss is there.
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

    /// Of so many trials the shares that ended low, with measurements that are low with this probability.
    fn low(test: &Wald, probability: f64, trials: usize, seed: u64) -> f64 {
        let mut generator = Seed::new(seed, "wald", "low").generator();
        let mut one = || {
            let (mut low, mut all) = (0, 0);
            loop {
                low += usize::from(generator.random_range(0.0..1.0) < probability);
                all += 1;
                match test.decided(low, 0, all) {
                    Decided::Open => {}
                    other => break other == Decided::Low,
                }
            }
        };
        (0..trials).filter(|_| one()).count() as f64 / trials as f64
    }

    #[test]
    fn both_error_rates_hold() {
        for (by_chance, of_a_loss) in [(0.05, 0.95), (0.2, 0.9), (0.5, 0.98)] {
            let test = Wald::new(0.01, 0.05, by_chance, of_a_loss).unwrap();
            assert!(low(&test, by_chance, 20_000, 1) <= 0.012, "{by_chance}");
            assert!(low(&test, of_a_loss, 20_000, 2) >= 0.94, "{of_a_loss}");
            // At a share that is usual more rarely than assumed there are fewer false alarms still.
            assert!(low(&test, by_chance / 2.0, 20_000, 3) <= 0.01, "{by_chance}");
        }
    }

    #[test]
    fn one_that_is_not_low_is_enough_where_a_loss_shows_nearly_always() {
        let test = Wald::new(5e-6, 0.05, 0.5, 0.98).unwrap();
        assert_eq!(test.decided(0, 0, 1), Decided::Usual);
        assert_eq!(test.decided(test.fewest(), 0, test.fewest()), Decided::Low);
        assert_eq!(test.decided(test.fewest() - 1, 0, test.fewest() - 1), Decided::Open);
        assert_eq!(test.decided(3, 3, 3), Decided::Low);
        assert_eq!(test.decided(2, 2, 2), Decided::Open);
        assert_eq!(test.fewest(), 19);
        assert_eq!(Wald::new(1e-4, 0.05, 0.9, 0.5), None);
    }

    proptest! {
        #[test]
        fn a_smaller_false_alarm_rate_needs_more(
            rate in 1e-9..0.1_f64, by_chance in 0.01..0.6_f64, of_a_loss in 0.7..0.999_f64
        ) {
            let fewest = |rate| Wald::new(rate, 0.05, by_chance, of_a_loss).unwrap().fewest();
            prop_assert!(fewest(rate) >= fewest(rate * 2.0));
        }
    }
}
