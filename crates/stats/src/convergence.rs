//! Stop rules of sampling: a fixed number, or until the median is known to the wanted precision.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::{MOST_ROUNDS, Samples, Seed, Steadiness, Summary};

/// Minimum number of samples, unless the user sets the number.
pub const MIN_SAMPLES: usize = 6;
/// Maximum number of samples, unless the user sets the number.
pub const MAX_SAMPLES: usize = 30;

/// Rule that ends the sampling of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StopRule {
    /// `--samples N`: this number, regardless of precision and time.
    Exactly(NonZeroUsize),
    /// [`MIN_SAMPLES`] to [`MAX_SAMPLES`], until the relative half-width reaches `precision`.
    Converge {
        /// Target relative half-width: 0.01 is ±1 %.
        precision: f64,
        /// Wall time until sampling ends at [`MIN_SAMPLES`]; at twice the budget with fewer.
        budget: Budget,
    },
    /// Rounds until the last five are steady by [`Steadiness`], at most `most`.
    Steady {
        /// Maximum number of rounds; `None`: [`MOST_ROUNDS`].
        most: Option<NonZeroUsize>,
        /// Maximum wall time.
        budget: Budget,
    },
}

/// Wall time limit for the sampling of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Maximum time in s.
    pub seconds: f64,
    /// Reason reported when it is used up: [`EndedBy::Budget`] or [`EndedBy::GroupBudget`].
    pub whose: EndedBy,
}

impl Budget {
    /// No limit.
    pub const NO_LIMIT: Self = Self { seconds: f64::INFINITY, whose: EndedBy::Budget };
}

/// Reason why the sampling of a case ended: `achieved.ended_by` in the run document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// The requested number of samples or rounds (`--samples`) was reached.
    Samples,
    /// The requested precision (`--precision`) was reached.
    Precision,
    /// [`MAX_SAMPLES`] was reached, the limit without `--samples`.
    SampleCap,
    /// The run's budget (`--budget`) was used up.
    Budget,
    /// The budget that the plan gives the case's group was used up.
    GroupBudget,
    /// The last rounds are steady.
    Steady,
    /// [`MOST_ROUNDS`] was reached, the limit without `--samples`.
    RoundCap,
}

/// Result of sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SamplingOutcome {
    /// The fixed number was taken, without a precision target.
    Fixed,
    /// The target precision was reached.
    Converged,
    /// The target precision was not reached.
    NotConverged {
        /// Relative half-width; `None` with too few samples or a median of zero.
        half_width: Option<f64>,
        /// Reason of the end.
        by: EndedBy,
    },
    /// The last five rounds are steady.
    Steady,
    /// The last rounds are not steady.
    NotSteady {
        /// Steadiness of the last rounds; `None` with fewer than five.
        reached: Option<Steadiness>,
        /// Reason of the end.
        by: EndedBy,
    },
}

impl SamplingOutcome {
    /// Returns the reason why sampling ended.
    pub fn ended_by(&self) -> EndedBy {
        match *self {
            SamplingOutcome::Fixed => EndedBy::Samples,
            SamplingOutcome::Converged => EndedBy::Precision,
            SamplingOutcome::Steady => EndedBy::Steady,
            SamplingOutcome::NotConverged { by, .. } | SamplingOutcome::NotSteady { by, .. } => by,
        }
    }
}

impl StopRule {
    /// Returns the result if sampling ends after `samples` of the headline metric, `None` if it
    /// goes on. `used` is the wall time in s since the first sample; `seed` is for the bootstrap.
    pub fn decide(&self, samples: &Samples, seed: Seed, used: f64) -> Option<SamplingOutcome> {
        match *self {
            StopRule::Exactly(n) => (samples.count() >= n.get()).then_some(SamplingOutcome::Fixed),
            StopRule::Converge { precision, budget } => {
                let (count, used_up) = (samples.count(), used >= budget.seconds);
                if count < MIN_SAMPLES && used < 2.0 * budget.seconds {
                    return None;
                }
                let half_width = Summary::new(samples, seed).relative_half_width();
                if count >= MIN_SAMPLES && half_width.is_some_and(|width| width <= precision) {
                    return Some(SamplingOutcome::Converged);
                }
                let by = (count >= MAX_SAMPLES).then_some(EndedBy::SampleCap);
                let by = by.or_else(|| used_up.then_some(budget.whose));
                by.map(|by| SamplingOutcome::NotConverged { half_width, by })
            }
            StopRule::Steady { most, budget } => {
                let reached = Steadiness::of_last(samples.points());
                if reached.is_some_and(|reached| reached.is_steady()) {
                    return Some(SamplingOutcome::Steady);
                }
                let (most, cap) = match most {
                    Some(most) => (most.get(), EndedBy::Samples),
                    None => (MOST_ROUNDS, EndedBy::RoundCap),
                };
                let by = (samples.count() >= most).then_some(cap);
                let by = by.or_else(|| (used >= budget.seconds).then_some(budget.whose));
                by.map(|by| SamplingOutcome::NotSteady { reached, by })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples;

    const BUDGET: f64 = 10.0;
    const BOUND: Budget = Budget { seconds: BUDGET, whose: EndedBy::Budget };
    const RULE: StopRule = StopRule::Converge { precision: 0.01, budget: BOUND };

    fn steady(n: usize) -> Vec<f64> {
        (0..n).map(|i| 100.0 + 0.01 * (i % 3) as f64).collect()
    }

    fn noisy(n: usize) -> Vec<f64> {
        (0..n).map(|i| 100.0 + 40.0 * (i * 7 % 5) as f64).collect()
    }

    fn decide(rule: StopRule, points: &[f64], used: f64) -> Option<SamplingOutcome> {
        rule.decide(&samples(points), Seed::new(0, "case", "metric"), used)
    }

    #[test]
    fn rounds_end_when_the_last_five_are_steady_or_there_are_enough() {
        let rule = |most| StopRule::Steady { most, budget: BOUND };
        let within = |points: &[f64], most| decide(rule(NonZeroUsize::new(most)), points, 0.0);
        let falling: Vec<f64> = (0..25).map(|i| 1000.0 * 0.8_f64.powi(i)).collect();
        assert_eq!(within(&[100.0; 4], 0), None);
        assert_eq!(within(&[100.0; 5], 0), Some(SamplingOutcome::Steady));
        assert_eq!(within(&falling[..24], 0), None);
        let all = within(&falling, 0);
        assert!(matches!(all, Some(SamplingOutcome::NotSteady { reached: Some(_), by: EndedBy::RoundCap })));
        let few = within(&falling[..3], 3);
        assert_eq!(few, Some(SamplingOutcome::NotSteady { reached: None, by: EndedBy::Samples }));
        let late = decide(rule(None), &falling[..6], BUDGET);
        assert!(matches!(late, Some(SamplingOutcome::NotSteady { by: EndedBy::Budget, .. })));
        let settled = [&falling[..10], &[100.0; 5]].concat();
        assert_eq!(within(&settled, 0), Some(SamplingOutcome::Steady));
    }

    #[test]
    fn a_fixed_number_is_taken_exactly() {
        for n in [1, 2, 50] {
            let rule = StopRule::Exactly(NonZeroUsize::new(n).unwrap());
            assert!(n == 1 || decide(rule, &noisy(n - 1), BUDGET * 100.0).is_none());
            assert_eq!(decide(rule, &noisy(n), 0.0), Some(SamplingOutcome::Fixed));
        }
    }

    #[test]
    fn steady_samples_stop_at_the_least_number_also_where_all_are_zero() {
        assert_eq!(decide(RULE, &steady(5), BUDGET / 2.0), None);
        assert_eq!(decide(RULE, &steady(6), BUDGET / 2.0), Some(SamplingOutcome::Converged));
        assert_eq!(decide(RULE, &[0.0; 6], 0.0), Some(SamplingOutcome::Converged));
    }

    #[test]
    fn noisy_samples_go_on_to_the_greatest_number() {
        assert_eq!(decide(RULE, &noisy(29), 0.0), None);
        let Some(SamplingOutcome::NotConverged { half_width, by }) = decide(RULE, &noisy(30), BUDGET) else {
            panic!("30 noisy samples must end without convergence");
        };
        assert!(half_width.is_some_and(|width| width > 0.01) && by == EndedBy::SampleCap);
    }

    #[test]
    fn a_used_budget_ends_it_at_six_and_twice_the_budget_at_once() {
        assert_eq!(decide(RULE, &noisy(5), BUDGET), None);
        assert!(matches!(decide(RULE, &noisy(6), BUDGET), Some(SamplingOutcome::NotConverged { .. })));
        let alone = decide(RULE, &steady(1), BUDGET * 2.0);
        assert_eq!(alone, Some(SamplingOutcome::NotConverged { half_width: None, by: EndedBy::Budget }));
        assert_eq!(decide(RULE, &steady(6), BUDGET * 2.0), Some(SamplingOutcome::Converged));
    }
}
