//! Rounds until a device is steady (`--steady`): the last five are the result, all are recorded.

use plimsoll_bench::Metric;
use plimsoll_model::sample::CaseFact;
use plimsoll_model::warning::Note;
use plimsoll_stats::{SamplingOutcome as Ending, Seed, Segment, TimedPoint, WINDOW_ROUNDS, segments};
use plimsoll_units::quantity::Quantity;

use super::CaseSamples;
use crate::remark::CaseRemark;

const ROUNDS_MADE: CaseFact<usize> = CaseFact::new("rounds");
/// Headline metric of each round, in its unit.
const ROUND_VALUES: CaseFact<Vec<f64>> = CaseFact::new("round_values");

/// A drop below this share of the first level is reported.
const FALL: f64 = 0.9;

impl CaseSamples {
    /// Keeps the last five samples (rounds until the device is steady), records all values, and
    /// adds warnings. `ending`: why sampling ended; `seed`: for the search for changes in `metric`.
    pub(super) fn keep_last_rounds(&mut self, ending: Ending, metric: Metric, seed: Seed) {
        let rounds = self.headline.len();
        self.facts.achieved.set(&ROUNDS_MADE, rounds);
        self.facts.achieved.set(&ROUND_VALUES, self.headline.clone());
        if let Ending::NotSteady { reached, by } = ending {
            self.facts.warnings.push(CaseRemark::NotSteady { rounds, reached, by }.into());
        }
        let timed = self.samples.iter().zip(&self.headline);
        let series: Vec<TimedPoint> =
            timed.map(|(sample, value)| TimedPoint { t: sample.at, value: *value }).collect();
        self.facts.warnings.extend(burst(&segments(&series, seed), metric).map(Note::from));
        let before = rounds.saturating_sub(WINDOW_ROUNDS);
        self.samples.drain(..before);
        self.headline.drain(..before);
    }
}

/// Returns a warning if the first of `levels` was faster, as with burst credit or a write cache.
fn burst(levels: &[Segment], metric: Metric) -> Option<CaseRemark> {
    let (first, last) = (levels.first()?, levels.last()?);
    let share = metric.better.ratio(last.median, first.median);
    let value = |value| Quantity { value, unit: metric.unit };
    (levels.len() > 1 && share < FALL).then(|| CaseRemark::Burst {
        seconds: levels[1].from - first.from,
        first: value(first.median),
        last: value(last.median),
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_bench::Better;
    use plimsoll_model::sample::Sample;
    use plimsoll_stats::{EndedBy, Steadiness};
    use plimsoll_units::quantity::Unit;

    use super::*;

    fn taken(values: &[f64]) -> CaseSamples {
        let samples = (0..values.len()).map(|i| Sample { at: i as f64, ..Sample::default() }).collect();
        CaseSamples { samples, headline: values.to_vec(), ..CaseSamples::default() }
    }

    fn reported(values: &[f64], ending: Ending) -> (CaseSamples, Vec<String>) {
        let mut taken = taken(values);
        let rate = Metric::new("rate", Unit::IoPerSecond, Better::Higher);
        taken.keep_last_rounds(ending, rate, Seed::new(1, "case", "rate"));
        let codes = taken.facts.warnings.iter().map(|warning| warning.code().to_owned()).collect();
        (taken, codes)
    }

    #[test]
    fn the_last_five_are_the_samples_and_all_are_kept() {
        let values = [90.0, 110.0, 100.0, 101.0, 99.0, 100.0, 100.0];
        let (taken, codes) = reported(&values, Ending::Steady);
        assert_eq!(codes, Vec::<String>::new());
        assert_eq!(taken.headline, values[2..]);
        assert_eq!((taken.samples.len(), taken.samples[0].at), (5, 2.0));
        assert_eq!(taken.facts.achieved.get(&ROUNDS_MADE), Some(7));
        assert_eq!(taken.facts.achieved.get(&ROUND_VALUES), Some(values.to_vec()));
    }

    #[test]
    fn a_device_that_ran_on_credit_is_found_out() {
        let noise = |level: f64, i: usize| level * (1.0 + 0.004 * (i * 7 % 5) as f64);
        let fast = (0..8).map(|i| noise(3000.0, i));
        let values: Vec<f64> = fast.chain((0..12).map(|i| noise(300.0, i))).collect();
        let (taken, codes) = reported(&values, Ending::Steady);
        assert_eq!(codes, ["burst-credit"]);
        let text = taken.facts.warnings[0].to_string();
        let parts = ["in the first 8.0 s", "kIOPS"];
        assert!(text.starts_with("3.0") && parts.iter().all(|part| text.contains(part)), "{text}");
        // A device that becomes faster had no credit.
        let rising: Vec<f64> = values.iter().rev().copied().collect();
        assert_eq!(reported(&rising, Ending::Steady).1, Vec::<String>::new());
    }

    #[test]
    fn what_is_not_steady_says_by_how_much() {
        let reached = Some(Steadiness { range: 0.34, excursion: 0.12 });
        let told = |values: &[f64], reached, by| {
            let (taken, codes) = reported(values, Ending::NotSteady { reached, by });
            assert_eq!(codes, ["not-steady"]);
            taken.facts.warnings[0].to_string()
        };
        let text = told(&[100.0, 60.0, 100.0, 70.0, 90.0, 60.0], reached, EndedBy::RoundCap);
        assert!(text.contains("after 6 rounds") && text.contains("34") && text.contains("12"), "{text}");
        let few = told(&[1.0, 2.0], None, EndedBy::Budget);
        assert!(few.contains("after 2 rounds: at least 5 are needed; the budget ended it"), "{few}");
    }
}
