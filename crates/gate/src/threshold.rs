use plimsoll_compare::RunNoise;
use plimsoll_model::metric::Better;
use plimsoll_stats::median;
use plimsoll_units::text::format_count;

use crate::MISSED;

/// Origin of a threshold.
#[derive(Clone, Debug, PartialEq)]
pub enum ThresholdSource {
    /// Derived limit of the figure.
    Limit,
    /// Earlier runs of this machine.
    History {
        /// Number of runs that have the case.
        runs: usize,
    },
    /// Machines of the same kind.
    Fleet {
        /// Number of machines that have the case.
        machines: usize,
    },
    /// All of the CPU time.
    Whole,
}

impl ThresholdSource {
    /// Describes the origin in words, such as "12 earlier runs".
    pub fn words(&self) -> String {
        match self {
            Self::Limit => "its limit".to_owned(),
            Self::History { runs } => format!("{runs} earlier runs"),
            Self::Fleet { machines } => format!("{machines} machines of its kind"),
            Self::Whole => "all of the time".to_owned(),
        }
    }
}

/// Usual figure, and the figure at which a measurement becomes low.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// Usual figure, in its unit.
    pub usual: f64,
    /// Figure at which a measurement becomes low.
    pub low: f64,
    /// Direction of a better figure.
    pub better: Better,
    /// Loss that is found, 0 to 1: the requested one, or the smallest that exceeds the noise.
    pub loss: f64,
    /// Probability that a measurement is low although nothing is wrong.
    pub false_alarm_rate: f64,
    /// Probability that a measurement is low if the loss is real.
    pub detection_rate: f64,
    /// Origin.
    pub source: ThresholdSource,
}

const LOSSES: [f64; 5] = [0.1, 0.15, 0.2, 0.3, 0.5];
pub(super) const MIN_USUAL_COUNT: usize = 3;
/// Assumed probability that a figure with a derived limit is low by chance: no measurement gives
/// it, so this is the most cautious number with which repetitions still decide.
const UNKNOWN_CHANCE: f64 = 0.5;
/// Assumed probability that such a figure is low if the loss is real.
const UNKNOWN_LOSS: f64 = 0.98;

impl Threshold {
    /// Returns the threshold of a share that is at least `share` on a healthy machine:
    /// √(`share` × (1 − `loss`)), where both factors are from 0 to 1.
    pub(super) fn reached(share: f64, loss: f64, source: ThresholdSource) -> Self {
        Self {
            usual: 1.0,
            low: (share * (1.0 - loss)).sqrt(),
            better: Better::Higher,
            loss,
            false_alarm_rate: UNKNOWN_CHANCE,
            detection_rate: UNKNOWN_LOSS,
            source,
        }
    }

    /// Returns the threshold m × √(1 − `loss`) (÷ if lower is better), or that of a larger loss if
    /// noise hides this one; m is the median of the earlier `values`. `source` makes the origin
    /// from their number. `Err`: why they are not enough.
    pub(super) fn usual(
        values: &[f64],
        better: Better,
        loss: f64,
        source: impl Fn(usize) -> ThresholdSource,
    ) -> Result<Self, String> {
        let values: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite() && *value > 0.0).collect();
        let n = values.len();
        let few = || format!("{} known, {MIN_USUAL_COUNT} required", format_count(n, "earlier figure"));
        let (noise, _) = RunNoise::of_runs(&values).filter(|_| n >= MIN_USUAL_COUNT).ok_or_else(few)?;
        let middle = median(values.clone()).ok_or_else(few)?;
        // The next figure differs from the median of n by its own noise and by theirs.
        let spread = 1.0 + 1.0 / n as f64;
        let wider = RunNoise { deviation: noise.deviation * spread.sqrt(), ..noise };
        let losses = std::iter::once(loss).chain(LOSSES.into_iter().filter(|larger| *larger > loss));
        let halves = losses.map(|loss| (loss, -(1.0 - loss).ln() / 2.0));
        let found = halves.map(|(loss, half)| (loss, half, wider.probability_below(half)));
        let Some((loss, half, missed)) = found.into_iter().find(|(.., missed)| *missed <= MISSED) else {
            return Err(format!("its {n} earlier figures differ by chance too much to find a loss of 50 %"));
        };
        let seen = values.iter().filter(|value| better.gain((**value / middle).ln()) < -half).count();
        Ok(Self {
            usual: middle,
            low: middle * better.gain(-half).exp(),
            better,
            loss,
            // Laplace's rule of succession: an unseen event may happen once in n + 2 figures.
            false_alarm_rate: missed.max((seen + 1) as f64 / (n + 2) as f64),
            detection_rate: 1.0 - missed,
            source: source(n),
        })
    }

    /// Returns whether a figure is past the threshold: below it, or above it if lower is better.
    pub fn is_low(&self, value: f64) -> bool {
        self.better.gain(value) < self.better.gain(self.low)
    }

    /// Returns the lost share (0 to 1) of the usual figure; if lower is better, of the usual speed.
    pub fn lost(&self, value: f64) -> f64 {
        1.0 - self.better.ratio(value, self.usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64], better: Better) -> Result<Threshold, String> {
        Threshold::usual(values, better, 0.1, |runs| ThresholdSource::History { runs })
    }

    #[test]
    fn quiet_figures_find_the_loss_that_was_asked_for() {
        let values: Vec<f64> = (0..12).map(|n| 100.0 + f64::from(n % 5) * 0.4).collect();
        let it = of(&values, Better::Higher).unwrap();
        assert_eq!((it.loss, it.source.clone()), (0.1, ThresholdSource::History { runs: 12 }));
        assert!(it.is_low(90.0) && !it.is_low(97.0), "{it:?}");
        assert!(it.false_alarm_rate >= 1.0 / 14.0 && it.detection_rate > 0.99, "{it:?}");
        let it = of(&values, Better::Lower).unwrap();
        assert!(it.is_low(112.0) && !it.is_low(103.0), "{it:?}");
        assert!((it.lost(201.6) - 0.5).abs() < 0.01);
    }

    #[test]
    fn noise_makes_the_loss_that_is_found_larger_and_then_unknown() {
        let noisy =
            |spread: f64| -> Vec<f64> { (0..10).map(|n| 100.0 + f64::from(n % 5) * spread).collect() };
        let loss = |spread| of(&noisy(spread), Better::Higher).map(|it| it.loss);
        assert_eq!(loss(0.5), Ok(0.1));
        assert!(loss(4.0).unwrap() > 0.1);
        assert!(loss(90.0).unwrap_err().contains("differ by chance too much"));
        assert_eq!(of(&[1.0, 1.0], Better::Higher).unwrap_err(), "2 earlier figures known, 3 required");
        assert!(of(&[5.0, 5.0, 5.0], Better::Higher).unwrap().false_alarm_rate >= 0.2);
    }

    proptest! {
        #[test]
        fn the_usual_figure_is_not_low_and_the_loss_is(
            values in prop::collection::vec(0.9..1.1_f64, 3..40), scale in 1e-9..1e12_f64, higher: bool
        ) {
            let better = if higher { Better::Higher } else { Better::Lower };
            let values: Vec<f64> = values.iter().map(|value| value * scale).collect();
            if let Ok(it) = of(&values, better) {
                prop_assert!(!it.is_low(it.usual) && it.false_alarm_rate > 0.0 && it.detection_rate > 0.5);
                let lost = if higher { it.usual * (1.0 - it.loss) } else { it.usual / (1.0 - it.loss) };
                prop_assert!(it.is_low(lost));
                prop_assert!((it.lost(lost) - it.loss).abs() < 1e-9);
            }
        }
    }
}
