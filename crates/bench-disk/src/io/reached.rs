//! Depth and rate that samples reached, and warnings if they fell short.

use crate::warning::DiskWarning;
use plimsoll_model::job::disk::{DiskEngine, DiskTransfers};

/// Least mean depth, as a share of the requested one, without a warning.
const DEPTH_REACHED: f64 = 0.9;

/// Least amount, in queues, that is judged: a smaller one is dominated by filling and draining.
const FEW_QUEUES: f64 = 10.0;

/// Largest missing share of the target rate, for inexact clocks and ends of samples.
const RATE_MISSED: f64 = 0.05;

/// Standard deviations (roots of the count) that random arrivals do not exceed by chance.
const SCATTER: f64 = 4.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reached {
    pub(crate) depth: f64,
    pub(crate) rate: f64,
    pub(crate) transfers: u64,
    /// Sum over threads of the seconds under load.
    pub(crate) thread_seconds: f64,
    pub(crate) flushed: bool,
}

pub(crate) fn mean(samples: &[Reached], of: fn(&Reached) -> f64) -> f64 {
    samples.iter().map(of).sum::<f64>() / samples.len().max(1) as f64
}

/// Returns a warning with the cause if the mean depth of `samples` is clearly below the depth of
/// `job`; `kind` is the engine in use, perhaps a fallback.
pub(crate) fn depth_missed(
    job: &DiskTransfers,
    kind: DiskEngine,
    samples: &[Reached],
) -> Option<DiskWarning> {
    let (wanted, queue) = (job.depth, (job.depth * job.threads) as f64);
    let depth = mean(samples, |sample| sample.depth);
    if samples.is_empty() || depth >= DEPTH_REACHED * queue {
        return None;
    }
    if kind.is_one_at_a_time() {
        // A requested asynchronous engine fell back, so there is none to suggest.
        let deeper = !matches!(job.engine, DiskEngine::IoUring(_) | DiskEngine::Libaio);
        return (wanted > 1).then_some(DiskWarning::OneAtATime { wanted, engine: kind, deeper });
    }
    if job.amount.is_some() && mean(samples, |sample| sample.transfers as f64) <= FEW_QUEUES * queue {
        return None;
    }
    let got = depth / job.threads as f64;
    Some(match samples.iter().any(|sample| sample.flushed) {
        true => DiskWarning::EmptiedBySyncs { wanted, got, flush: job.flush },
        // At depth 1 the queue is empty between two transfers anyway.
        false if wanted == 1 => return None,
        false => DiskWarning::DepthNotReached { wanted, got },
    })
}

/// Returns a warning if `samples` clearly miss the rate `per_second` of all `threads` together.
pub(crate) fn rate_missed(per_second: f64, threads: u64, samples: &[Reached]) -> Option<DiskWarning> {
    let thread_seconds: f64 = samples.iter().map(|sample| sample.thread_seconds).sum();
    let done = samples.iter().map(|sample| sample.transfers).sum::<u64>() as f64;
    let expected = per_second / threads as f64 * thread_seconds;
    let missing = expected - done;
    // A transfer may be on either side of each end of a thread's sample.
    let by_chance = SCATTER * expected.sqrt() + samples.len() as f64 * threads as f64;
    let done = done / thread_seconds * threads as f64;
    (missing > RATE_MISSED * expected && missing > by_chance)
        .then_some(DiskWarning::RateNotHeld { offered: per_second, done })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::StartSchedule;
    use plimsoll_model::job::disk::ArrivalProcess;
    use plimsoll_model::warning::Warn;

    fn sample(transfers: u64, thread_seconds: f64) -> Reached {
        let rate = transfers as f64 / thread_seconds;
        Reached { depth: 1.0, rate, transfers, thread_seconds, flushed: false }
    }

    fn at_depth(depth: f64, transfers: u64, flushed: bool) -> Reached {
        Reached { depth, flushed, ..sample(transfers, 1.0) }
    }

    fn reported(tail: &str, kind: DiskEngine, seen: Reached) -> Option<String> {
        let case = format!("disk.io/op=write/block=4K/depth=8/threads=2{tail}");
        let job = crate::job::checked(&case.parse().expect("an id")).expect("a job");
        depth_missed(&job, kind, &[seen]).map(|warning| {
            assert_eq!(warning.code(), "depth-not-reached");
            warning.to_string()
        })
    }

    #[test]
    fn an_empty_queue_is_told_by_what_emptied_it() {
        let ring = DiskEngine::PLAIN;
        assert_eq!(reported("", ring, at_depth(15.0, 1000, false)), None);
        let by_device = reported("", ring, at_depth(9.0, 1000, false)).expect("a warning");
        assert!(by_device.contains("(4.5 of 8)"), "{by_device}");
        assert!(by_device.contains("an I/O limit or one CPU"), "{by_device}");
        let by_syncs = reported("/sync=every:16", ring, at_depth(9.0, 1000, true)).expect("a warning");
        assert!(by_syncs.contains("each sync empties the queue"), "{by_syncs}");
        assert!(!by_syncs.contains("device"), "{by_syncs}");
        let said = reported("/sync=end", ring, at_depth(9.0, 1000, true));
        assert!(said.is_some_and(|text| text.contains("longer")));
        let never = reported("/sync=every:1000000", ring, at_depth(9.0, 1000, false)).expect("a warning");
        assert!(never.contains("the device"), "{never}");
        let alone = reported("/sync=every:16", DiskEngine::Psync, at_depth(2.0, 1000, true)).expect("one");
        assert!(alone.contains("psync does one transfer at a time"), "{alone}");
    }

    #[test]
    fn few_transfers_begin_and_end_with_an_empty_queue() {
        for tail in ["/count=80", "/volume=320K", "/count=160/scaling=strong"] {
            assert_eq!(reported(tail, DiskEngine::PLAIN, at_depth(9.0, 160, false)), None, "{tail}");
        }
        assert!(reported("/count=81", DiskEngine::PLAIN, at_depth(9.0, 162, false)).is_some());
    }

    /// Returns a sample of `seconds` on a device without latency, which ends with the first
    /// completion after its time; starts are random, `per_second` on average.
    fn as_they_arrive(per_second: f64, seconds: f64, seed: u64) -> Reached {
        let mut schedule = StartSchedule::new(ArrivalProcess::Poisson, per_second, seed);
        schedule.begin(0);
        let (mut transfers, mut at_ns) = (0, 0);
        while (at_ns as f64) < seconds * 1e9 {
            at_ns = schedule.take();
            transfers += 1;
        }
        sample(transfers, at_ns as f64 * 1e-9)
    }

    #[test]
    fn the_scatter_of_random_arrivals_is_no_warning() {
        for seed in 0..2000_u64 {
            let (per_second, number) = (10.0 * (1 + seed % 40) as f64, seed % 6 + 1);
            let samples: Vec<Reached> =
                (0..number).map(|n| as_they_arrive(per_second, 0.2, seed * 100 + n)).collect();
            assert_eq!(rate_missed(per_second, 1, &samples), None, "{samples:?}");
        }
    }

    #[test]
    fn few_that_fell_short_are_told_by_what_was_done() {
        assert_eq!(rate_missed(50.0, 1, &[sample(47, 1.0)]), None, "that is chance");
        assert_eq!(rate_missed(50.0, 1, &[]), None);
        let text = rate_missed(50.0, 2, &[sample(250, 20.0)]).expect("half is missing").to_string();
        assert!(text.starts_with("the device does 25.0 of the 50.0 transfers per second"), "{text}");
    }

    proptest! {
        #[test]
        fn a_device_that_does_nine_tenths_is_told(
            per_second in 1_000.0_f64..1e6, threads in 1_u64..8, number in 1_usize..20,
        ) {
            let seconds = 4_000.0 / per_second;
            let done = (0.9 * per_second * seconds) as u64;
            let samples = vec![sample(done, seconds * threads as f64); number];
            prop_assert!(rate_missed(per_second, threads, &samples).is_some());
        }
    }
}
