//! Search for the deepest queue that meets a latency target (`--latency-target p99=2ms`).

use std::collections::BTreeMap;

use crate::fact::{DEEPEST_QUEUE, FIGURE_THREADS, TARGET_HELD, WITHIN_TARGET};
use crate::io::transfers::{Probe, Transfers};
use crate::metrics;
use crate::warning::DiskWarning;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::disk::LatencyTarget;
use plimsoll_model::warning::Note;

/// Returns the largest number from 1 to `most` for which `holds` is true, by doubling and
/// bisection; `None` if it is false for 1. `holds` must stay false once it is false.
fn search_largest<E>(most: u64, mut holds: impl FnMut(u64) -> Result<bool, E>) -> Result<Option<u64>, E> {
    let (mut good, mut bad) = (0, most + 1);
    let mut next = 1;
    while good + 1 < bad {
        (good, bad) = if holds(next)? { (next, bad) } else { (good, next) };
        next = if bad > most { (good * 2).min(most) } else { good + (bad - good) / 2 };
    }
    Ok((good > 0).then_some(good))
}

/// Calls `probe`, and once more if its latency percentile is above `ns` ns, because disturbances
/// only slow down; returns the faster result.
fn probe_confirmed<E>(ns: u64, mut probe: impl FnMut() -> Result<Probe, E>) -> Result<Probe, E> {
    let first = probe()?;
    if first.percentile_ns <= ns {
        return Ok(first);
    }
    let again = probe()?;
    Ok(if again.percentile_ns < first.percentile_ns { again } else { first })
}

#[derive(Debug, Default)]
struct TargetTally {
    held: u64,
    all: u64,
}

impl TargetTally {
    fn add(&mut self, sample: &Sample, ns: u64) {
        let latencies = sample.histograms.iter().filter(|h| h.metric == metrics::LATENCY_METRIC);
        for (edge, count) in latencies.flat_map(|h| &h.buckets) {
            self.all += count;
            self.held += if *edge <= ns { *count } else { 0 };
        }
    }

    fn share(&self) -> Option<f64> {
        (self.all > 0).then(|| self.held as f64 / self.all as f64)
    }
}

pub(crate) struct Deepest {
    transfers: Transfers,
    target: LatencyTarget,
    asked: u64,
    most: u64,
    found: Option<Option<u64>>,
    curve: Vec<CurvePoint>,
    within: TargetTally,
}

impl Deepest {
    /// Creates a search for the deepest queue (up to the engine's depth) that meets `target`.
    pub(crate) fn new(transfers: Transfers, target: LatencyTarget) -> Self {
        let (asked, most) = (transfers.job.depth, transfers.reachable_depth());
        let within = TargetTally::default();
        Deepest { transfers, target, asked, most, found: None, curve: Vec::new(), within }
    }

    fn search(&mut self, amount: SampleAmount) -> Result<(), CannotMeasure> {
        let Deepest { transfers, target, most, curve, .. } = self;
        let found = search_largest(*most, |depth| {
            let probe = probe_confirmed(target.ns, || transfers.probe(depth, amount, target.share))?;
            curve.push(point(&probe, transfers.job.threads, &target.percentile()));
            Ok::<_, CannotMeasure>(probe.percentile_ns <= target.ns)
        })?;
        curve.sort_by(|a, b| a[metrics::DEPTH_METRIC].total_cmp(&b[metrics::DEPTH_METRIC]));
        self.found = Some(found);
        self.transfers.settle_at(found.unwrap_or(1))
    }
}

pub(crate) fn point(probe: &Probe, threads: u64, percentile: &str) -> CurvePoint {
    BTreeMap::from([
        (metrics::THREADS_METRIC.to_owned(), threads as f64),
        (metrics::DEPTH_METRIC.to_owned(), probe.depth as f64),
        (metrics::RATE_METRIC.to_owned(), probe.rate),
        (metrics::LATENCY_METRIC.to_owned(), probe.latency),
        (percentile.to_owned(), probe.percentile_ns as f64 * 1e-9),
    ])
}

/// Returns the deepest queue that meets `target` (`None`: none does), and a warning if the samples
/// or the search contradict it. `found`: deepest queue by the search, which goes up to depth
/// `most`; `within`: share (0 to 1) of the samples' transfers that meet the time of `target`.
fn conclude(
    target: &LatencyTarget,
    most: u64,
    found: Option<u64>,
    within: f64,
) -> (Option<u64>, Option<DiskWarning>) {
    let held = within >= target.share;
    // If only depth 1 is possible, the samples decide.
    let deepest = found.or((held && most == 1).then_some(1));
    let target = format!("{} ≤ {}", target.percentile(), target.time());
    let warning = match deepest {
        Some(_) if held => None,
        // The samples are longer than any probe.
        None if held => Some(DiskWarning::TargetMissedInSearch { target }),
        None => Some(DiskWarning::TargetMissed { target, within }),
        Some(depth) => Some(DiskWarning::TargetNotHeld { target, within, depth }),
    };
    (deepest, warning)
}

impl Prepared for Deepest {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let warms_up = self.found.is_none();
        if warms_up {
            self.search(amount)?;
        }
        let mut sample = self.transfers.sample(amount)?;
        if !warms_up {
            self.within.add(&sample, self.target.ns);
        }
        sample.curve = self.curve.clone();
        Ok(sample)
    }

    fn pause(&mut self) {
        self.transfers.pause();
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let mut facts = self.transfers.verify()?;
        facts.achieved.set(&FIGURE_THREADS, self.transfers.job.threads);
        if let (Some(found), Some(within)) = (self.found, self.within.share()) {
            let (deepest, warning) = conclude(&self.target, self.most, found, within);
            facts.achieved.set(&DEEPEST_QUEUE, deepest);
            facts.achieved.set(&WITHIN_TARGET, within);
            facts.achieved.set(&TARGET_HELD, within >= self.target.share);
            facts.warnings.extend(warning.map(Note::from));
            let (engine, most, asked) = (self.transfers.kind.word(), self.most, self.asked);
            let less = DiskWarning::SearchedLess { most, asked, engine };
            facts.warnings.extend((most < asked).then(|| less.into()));
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use plimsoll_model::sample::Histogram;
    use plimsoll_model::warning::Warn;

    proptest! {
        #[test]
        fn the_deepest_that_holds_is_found(most in 1_u64..2000, bound in 0_u64..2500) {
            let mut asked = 0;
            let found = search_largest(most, |depth| {
                asked += 1;
                assert!((1..=most).contains(&depth));
                Ok::<_, ()>(depth <= bound)
            });
            let right = bound.min(most);
            prop_assert_eq!(found, Ok((right > 0).then_some(right)));
            prop_assert!(asked <= 2 * (64 - most.leading_zeros()) + 2, "{asked} questions");
        }

        #[test]
        fn what_stays_within_is_what_the_percentile_says(
            times in prop::collection::vec(1_u64..5_000_000, 1..300),
            ns in 1_u64..5_000_000, share in 0.01_f64..0.9999,
        ) {
            let mut all = plimsoll_stats::Times::default();
            for time in times.iter().copied().chain([ns, ns + 1, ns - ns / 1000]) {
                all.record(time, 1);
            }
            let mut within = TargetTally::default();
            let histograms = vec![crate::display::distribution("latency", &all)];
            within.add(&Sample { histograms, ..Sample::default() }, ns);
            prop_assert_eq!(within.share().expect("samples") >= share, all.at(share) <= ns);
        }

        #[test]
        fn one_disturbed_probe_decides_nothing(most in 1_u64..300, bound in 0_u64..400, disturbed in 0_usize..40) {
            let mut made = 0;
            let found = search_largest(most, |depth| {
                let one = probe_confirmed(bound, || {
                    made += 1;
                    let percentile_ns = if made == disturbed + 1 { u64::MAX } else { depth };
                    Ok::<_, ()>(Probe { depth, rate: 1.0, latency: 1e-9, percentile_ns })
                })?;
                Ok::<_, ()>(one.percentile_ns <= bound)
            });
            let right = bound.min(most);
            prop_assert_eq!(found, Ok((right > 0).then_some(right)));
        }
    }

    #[test]
    fn the_samples_have_the_last_word() {
        let target = LatencyTarget::parse("p99=2ms").expect("a target");
        let latency = |buckets: &[(u64, u64)]| Sample {
            histograms: vec![
                Histogram { metric: "latency".to_owned(), buckets: buckets.to_vec() },
                Histogram { metric: "slat".to_owned(), buckets: vec![(1, 1000)] },
            ],
            ..Sample::default()
        };
        let answer = |found, samples: &[&[(u64, u64)]]| {
            let mut within = TargetTally::default();
            samples.iter().for_each(|buckets| within.add(&latency(buckets), target.ns));
            let (deepest, warning) = conclude(&target, 32, found, within.share().expect("samples"));
            let code = warning.as_ref().map_or("", Warn::code);
            (deepest, code, warning.map(|warning| warning.to_string()).unwrap_or_default())
        };
        let (good, bad): (&[_], &[_]) = (&[(2_000_000, 99), (2_000_001, 1)], &[(1_000, 98), (9_000_000, 2)]);
        assert_eq!(answer(Some(24), &[good, good]), (Some(24), "", String::new()));
        let (deepest, code, text) = answer(Some(24), &[good, bad]);
        assert_eq!((deepest, code), (Some(24), "latency-target-not-held"));
        assert!(["p99 ≤ 2ms", "depth 24", "98.50 %"].iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(answer(None, &[bad]).1, "latency-target-missed");
        let near = answer(None, &[&[(1_000, 98_998), (9_000_000, 1_002)]]).2;
        assert!(near.contains("98.99 % of the transfers do"), "{near}");
        let (deepest, code, _) = answer(None, &[good]);
        assert_eq!((deepest, code), (None, "latency-search-disturbed"));
        assert_eq!(conclude(&target, 1, None, 0.99).0, Some(1), "nothing deeper was asked for");
        assert!(TargetTally::default().share().is_none());
    }

    #[test]
    fn targets_are_written_as_percentile_and_time() {
        let target = LatencyTarget::parse("p99=2ms").expect("a target");
        assert_eq!((target.share, target.ns, target.to_string().as_str()), (0.99, 2_000_000, "p99:2ms"));
        assert_eq!(LatencyTarget::parse("p99.9:500us").expect("a target").to_string(), "p99.9:500us");
        assert_eq!(LatencyTarget::parse("p42=1s").expect("a target").share, 0.42);
        for wrong in " p99 99=2ms p0=2ms p0.99=1s p99.991=1s p100=2ms p99=0s p99=2 pNaN=1s".split(' ') {
            assert!(LatencyTarget::parse(wrong).is_err(), "{wrong}");
        }
        assert!(LatencyTarget::parse("p0=2ms").is_err_and(|why| why.contains("from p1 to p99.99")));
    }
}
