//! Token buckets: the rate falls, and is high again after a pause. Results show the base rate.

use std::time::{Duration, Instant};

use crate::condition::BASE_RATE;
use crate::fact::{TOKEN_BUCKET_DOWN, TOKEN_BUCKET_UP, TokenBucket};
use crate::warning::NetworkWarning;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::sample::Numbers;
use plimsoll_server::traffic::nanos;
use plimsoll_server::wire::{ArrivalTimeline, Direction};
use plimsoll_stats::{ArrivalStretch, Bucket};

const PAUSE: Duration = Duration::from_millis(250);
/// Share of the refilled tokens that must be seen again.
const REFILLED_SHARE: f64 = 0.4;
const MIN_BURST_SECONDS: f64 = 0.3;
const MAX_BURST_SECONDS: f64 = 2.0;
/// Pauses that must each refill the bucket: a fluctuating rate is high after one by chance.
const REFILL_PAUSES: usize = 2;
/// Number of rate steps that are examined; after that, steps count as noise.
const TRIES: usize = 2;
const SAME_RATE_DEVIATION: f64 = 0.1;
const MAX_KEPT_RATES: usize = 64;

/// Arrivals so far and the detected buckets. Amounts in bits.
#[derive(Debug)]
pub(super) struct BucketDetector {
    began: Instant,
    direction: Direction,
    /// Whether the path may have a bucket. Loopback without a shaper has none.
    watches: bool,
    ways: [Vec<Vec<ArrivalStretch>>; 2],
    found: [Option<Bucket>; 2],
    tried: usize,
    spoilt: usize,
}

/// Converts each interval of `timeline` to a stretch with its start and length in s and the amount
/// that arrived in bits. The transfer started at `at` s.
fn to_stretches(timeline: &ArrivalTimeline, at: f64) -> impl Iterator<Item = ArrivalStretch> {
    let seconds = timeline.width as f64 * 1e-9;
    timeline.bytes.iter().enumerate().map(move |(number, bytes)| ArrivalStretch {
        from: at + number as f64 * seconds,
        seconds,
        amount: *bytes as f64 * 8.0,
    })
}

impl BucketDetector {
    pub(super) fn new(direction: Direction, watches: bool) -> Self {
        BucketDetector {
            began: Instant::now(),
            direction,
            watches,
            ways: Default::default(),
            found: [None, None],
            tried: 0,
            spoilt: 0,
        }
    }

    /// Records a transfer that started at `began`; `timelines` has the arrivals of each direction.
    pub(super) fn note(&mut self, began: Instant, timelines: &[&ArrivalTimeline]) {
        if !self.watches || self.is_found() {
            return;
        }
        let at = began.saturating_duration_since(self.began).as_secs_f64();
        for (transfers, timeline) in self.ways.iter_mut().zip(timelines) {
            transfers.push(to_stretches(timeline, at).collect());
            // The first one, which has the largest burst, is kept.
            if transfers.len() > MAX_KEPT_RATES {
                transfers.remove(1);
            }
        }
    }

    pub(super) const fn is_found(&self) -> bool {
        self.found[0].is_some() || self.found[1].is_some()
    }

    /// Returns whether recorded transfers show a new token bucket, which further transfers prove.
    /// `transfer` transfers for the given ns, at most `most`, and returns arrivals per direction.
    pub(super) fn detect_bucket(
        &mut self,
        most: u64,
        mut transfer: impl FnMut(u64) -> Result<Vec<ArrivalTimeline>, CannotMeasure>,
    ) -> bool {
        if !self.watches || self.is_found() || self.tried >= TRIES {
            return false;
        }
        let steps = [find_bucket(&self.ways[0]), find_bucket(&self.ways[1])];
        let longest = steps.iter().flatten().map(|step| refilled_tokens(step) / (step.burst - step.base));
        let Some(longest) = longest.reduce(f64::max) else { return false };
        self.tried += 1;
        let Some(time) = time_of_proof(longest, most) else { return false };
        let mut bases = [Some(0.0); 2];
        for _ in 0..REFILL_PAUSES {
            std::thread::sleep(PAUSE);
            let Ok(timelines) = transfer(nanos(time)) else { return false };
            bases = proven_base_rates(&steps, &timelines, bases);
            if bases == [None, None] {
                break;
            }
        }
        for ((found, base), transfers) in self.found.iter_mut().zip(bases).zip(&self.ways) {
            // The largest burst of all transfers is the capacity of the bucket.
            let bursts = base.map(|base| {
                transfers.iter().filter_map(move |transfer| plimsoll_stats::burst(transfer, base))
            });
            *found = bursts.and_then(|bursts| bursts.max_by(|a, b| a.tokens.total_cmp(&b.tokens)));
        }
        self.ways = Default::default();
        self.is_found()
    }

    pub(super) fn judged(&mut self, spoilt: bool) {
        self.spoilt += usize::from(spoilt);
    }

    /// Returns each direction's rate after a token bucket's burst, bit/s; `timelines` has arrivals
    /// and overall rates. `None` without a bucket, or if the burst lasted for most of the transfer.
    pub(super) fn sustained(&self, timelines: &[(&ArrivalTimeline, f64)]) -> Option<Vec<f64>> {
        if !self.is_found() {
            return None;
        }
        let one = |(found, (timeline, whole)): (&Option<Bucket>, &(&ArrivalTimeline, f64))| match found {
            Some(found) => {
                let timeline: Vec<ArrivalStretch> = to_stretches(timeline, 0.0).collect();
                plimsoll_stats::sustained(&timeline, found.base)
            }
            None => Some(*whole),
        };
        self.found.iter().zip(timelines).map(one).collect()
    }

    /// Returns the sum of each direction's base rate, bit/s, as a condition; empty until all known.
    pub(super) fn condition(&self) -> Numbers {
        let found: Vec<f64> = self.found.iter().flatten().map(|bucket| bucket.base).collect();
        let is_whole = found.len() == self.direction.count();
        is_whole.then(|| (BASE_RATE, found.iter().sum::<f64>())).into_iter().collect()
    }

    /// Returns the lower base rate of the directions, bit/s; `None` before a bucket was found.
    pub(super) fn base(&self) -> Option<f64> {
        self.found.iter().flatten().map(|bucket| bucket.base).reduce(f64::min)
    }

    pub(super) fn record_facts(&self, facts: &mut Facts) {
        for (index, found) in self.found.iter().enumerate() {
            let Some(bucket) = *found else { continue };
            let (direction, fact) = match (self.direction, index) {
                (Direction::Up, _) | (Direction::Both, 0) => ("up", TOKEN_BUCKET_UP),
                (Direction::Down, _) | (Direction::Both, _) => ("down", TOKEN_BUCKET_DOWN),
            };
            facts.warnings.push(NetworkWarning::TokenBucket { direction, bucket }.into());
            let Bucket { burst: burst_rate, base: base_rate, tokens, until: until_s } = bucket;
            let burst_bytes = tokens / 8.0;
            facts.achieved.set(&fact, TokenBucket { burst_rate, base_rate, burst_bytes, until_s });
        }
        if self.spoilt > 0 {
            facts.warnings.push(NetworkWarning::BurstInSample { samples: self.spoilt }.into());
        }
    }
}

/// Returns the number of tokens, in bits, that the bucket `step` gains in a pause of [`PAUSE`]: at
/// most its capacity.
fn refilled_tokens(step: &Bucket) -> f64 {
    step.tokens.min(step.base * PAUSE.as_secs_f64())
}

/// Returns the token bucket that all transfers of a direction show together, else the one that the
/// last transfer shows; `None` if neither does.
fn find_bucket(transfers: &[Vec<ArrivalStretch>]) -> Option<Bucket> {
    plimsoll_stats::bucket(&transfers.concat()).or_else(|| plimsoll_stats::bucket(transfers.last()?))
}

/// Returns how long to transfer to prove a burst of `burst` s; `None` if it takes over `most` ns.
fn time_of_proof(burst: f64, most: u64) -> Option<Duration> {
    let most = Duration::from_nanos(most).as_secs_f64();
    let time = (3.0 * burst).clamp(MIN_BURST_SECONDS, MAX_BURST_SECONDS).min(most);
    (time >= MIN_BURST_SECONDS.max(2.0 * burst).min(MAX_BURST_SECONDS)).then(|| Duration::from_secs_f64(time))
}

/// Returns each direction's base rate, bit/s: the larger of this transfer's and that of the one
/// `before`; `None` unless both prove it.
fn proven_base_rates(
    steps: &[Option<Bucket>; 2],
    timelines: &[ArrivalTimeline],
    before: [Option<f64>; 2],
) -> [Option<f64>; 2] {
    let one = |index: usize| {
        let again: Vec<ArrivalStretch> = to_stretches(timelines.get(index)?, 0.0).collect();
        Some(proven_base_rate(&steps[index]?, &again)?.max(before[index]?))
    };
    [one(0), one(1)]
}

/// Returns the base rate, bit/s, if the arrivals after a pause, `again`, show the refilled tokens
/// and then the rate of `step` again; else `None`.
fn proven_base_rate(step: &Bucket, again: &[ArrivalStretch]) -> Option<f64> {
    let burst = plimsoll_stats::burst(again, step.base)?;
    let rate = plimsoll_stats::sustained(again, step.base)?;
    let is_same = (rate / step.base - 1.0).abs() <= SAME_RATE_DEVIATION;
    // A busy machine makes either rate lower, never higher.
    (burst.tokens >= REFILLED_SHARE * refilled_tokens(step) && is_same).then_some(rate.max(step.base))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns 100 stretches of 10 ms through a bucket; rates in MB/s, its content `held` in MB.
    fn timeline(peak: f64, base: f64, held: f64) -> ArrivalTimeline {
        let knee = held / (peak - base);
        let upto = |t: f64| if t < knee { peak * t } else { held + base * t };
        let bytes = (0..100).map(|i| {
            let t = f64::from(i) * 0.01;
            ((upto(t + 0.01) - upto(t)) * 1e6) as u64
        });
        ArrivalTimeline { width: 10_000_000, bytes: bytes.collect(), delays: Vec::new() }
    }

    fn watched(after_the_pause: ArrivalTimeline) -> (BucketDetector, bool) {
        let mut watch = BucketDetector::new(Direction::Up, true);
        watch.note(Instant::now(), &[&timeline(100.0, 10.0, 5.0)]);
        let found = watch.detect_bucket(u64::MAX, |_| Ok(vec![after_the_pause.clone()]));
        (watch, found)
    }

    #[test]
    fn a_step_that_a_pause_undoes_is_a_bucket_and_is_named() {
        let (watch, found) = watched(timeline(100.0, 10.0, 2.5));
        assert!(found);
        let rate = watch.condition().get(&BASE_RATE).unwrap();
        assert!((rate / 80e6 - 1.0).abs() < 0.01, "{rate}");
        let mut facts = Facts::default();
        watch.record_facts(&mut facts);
        assert_eq!(facts.warnings[0].code(), "token-bucket");
        let text = facts.warnings[0].to_string();
        assert!(text.contains("80.0 Mbit/s; the figure is the base rate"), "{text}");
        let later = timeline(100.0, 10.0, 0.5);
        let sustained = watch.sustained(&[(&later, 84e6)]).unwrap()[0];
        assert!((sustained / 80e6 - 1.0).abs() < 0.01, "{sustained}");
        assert_eq!(watch.sustained(&[(&timeline(100.0, 10.0, 80.0), 800e6)]), None);
    }

    #[test]
    fn a_step_that_stays_is_none_and_is_not_asked_for_for_ever() {
        let (mut watch, found) = watched(timeline(10.1, 10.0, 0.0));
        assert!(!found && watch.condition() == Numbers::default());
        for _ in 0..2 {
            watch.note(Instant::now(), &[&timeline(100.0, 10.0, 5.0)]);
            let _ = watch.detect_bucket(u64::MAX, |_| Ok(vec![timeline(10.1, 10.0, 0.0)]));
        }
        watch.note(Instant::now(), &[&timeline(100.0, 10.0, 5.0)]);
        assert!(!watch.detect_bucket(u64::MAX, |_| panic!("asked a third time")));
        let mut facts = Facts::default();
        watch.record_facts(&mut facts);
        assert_eq!(facts, Facts::default());
    }

    #[test]
    fn nothing_is_watched_within_a_machine_that_shapes_nothing() {
        let mut watch = BucketDetector::new(Direction::Up, false);
        watch.note(Instant::now(), &[&timeline(100.0, 10.0, 5.0)]);
        assert!(!watch.detect_bucket(u64::MAX, |_| panic!("asked")));
    }

    #[test]
    fn a_step_that_only_one_of_two_pauses_undoes_is_none() {
        let mut watch = BucketDetector::new(Direction::Up, true);
        watch.note(Instant::now(), &[&timeline(100.0, 10.0, 5.0)]);
        let mut after = vec![timeline(10.1, 10.0, 0.0), timeline(100.0, 10.0, 2.5)];
        assert!(!watch.detect_bucket(u64::MAX, |_| Ok(vec![after.pop().unwrap()])));
        assert!(after.is_empty() && watch.condition() == Numbers::default());
    }

    #[test]
    fn a_proof_that_the_server_does_not_allow_is_none_and_no_failure() {
        assert_eq!(time_of_proof(0.2, 60_000_000_000), Some(Duration::from_millis(600)));
        assert_eq!(time_of_proof(0.2, 500_000_000), Some(Duration::from_millis(500)));
        assert_eq!(time_of_proof(0.2, 300_000_000), None);
        assert_eq!(time_of_proof(0.01, 200_000_000), None);
        let mut watch = BucketDetector::new(Direction::Up, true);
        watch.note(Instant::now(), &[&timeline(100.0, 10.0, 5.0)]);
        assert!(!watch.detect_bucket(100_000_000, |_| panic!("asked")));
        assert!(!watch.detect_bucket(u64::MAX, |_| Err(CannotMeasure::server_failed("busy"))));
    }

    #[test]
    fn a_sample_that_is_all_burst_is_told() {
        let (mut watch, _) = watched(timeline(100.0, 10.0, 2.5));
        [true, false].into_iter().for_each(|spoilt| watch.judged(spoilt));
        let mut facts = Facts::default();
        watch.record_facts(&mut facts);
        assert_eq!(facts.warnings[1].code(), "burst-in-sample");
        assert!(facts.warnings[1].to_string().contains("1 of the samples"), "{}", facts.warnings[1]);
    }

    fn chance(state: &mut u64) -> f64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// 100 stretches of 10 ms whose rate fluctuates by `share`, correlated over `alike` seconds.
    fn fluctuating(share: f64, alike: f64, state: &mut u64) -> ArrivalTimeline {
        let kept = (-0.01 / alike).exp();
        let mut normal = || (0..12).map(|_| chance(state)).sum::<f64>() - 6.0;
        let mut now = normal();
        let bytes = (0..100).map(|_| {
            now = kept * now + (1.0 - kept * kept).sqrt() * normal();
            ((1.0 + share * now).clamp(0.05, 3.0) * 1e5) as u64
        });
        ArrivalTimeline { width: 10_000_000, bytes: bytes.collect(), delays: Vec::new() }
    }

    fn finds(rounds: usize, mut next: impl FnMut(bool) -> ArrivalTimeline) -> bool {
        let first: Vec<ArrivalStretch> = to_stretches(&next(true), 0.0).collect();
        let steps = [find_bucket(&[first]), None];
        let proven = |bases: [Option<f64>; 2], _| proven_base_rates(&steps, &[next(false)], bases);
        steps[0].is_some() && (0..rounds).fold([Some(0.0); 2], proven)[0].is_some()
    }

    #[test]
    fn a_path_that_fluctuates_has_no_bucket_and_a_bucket_on_one_is_found() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let (mut all, mut once, mut twice) = (0, 0, 0);
        for share in [0.2, 0.25, 0.3] {
            for alike in [0.03, 0.1, 0.3] {
                for _ in 0..300 {
                    all += 1;
                    once += usize::from(finds(1, |_| fluctuating(share, alike, &mut state)));
                    twice += usize::from(finds(REFILL_PAUSES, |_| fluctuating(share, alike, &mut state)));
                }
            }
        }
        assert!(twice * 500 <= all, "{twice} of {all}, {once} with one round");
        let bucket = |first: bool| timeline(100.0, 10.0, if first { 5.0 } else { 2.5 });
        assert!(finds(REFILL_PAUSES, bucket));
    }
}
