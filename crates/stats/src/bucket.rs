//! A token bucket in the course of arrivals: a rate at first, and from some moment on a lower one that holds.
//!
//! What passes a bucket is bounded by a line: no more than `held + base × t` bytes arrive within t of its being full, and
//! exactly as many where more is offered all the time (RFC 2697, RFC 2698; Cruz, "A calculus for network delay", IEEE
//! Trans. Inf. Theory 37, 1991). So above the base rate, the excess of the arrivals grows while there are tokens and is flat
//! afterwards. Time without arrivals counts: the bucket fills in it.

use super::changepoint::Timed;
use super::samples::median;
use super::trend::Trend;

/// What arrived in a stretch of time. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// When it began.
    pub from: f64,
    /// How long it was.
    pub seconds: f64,
    /// What arrived in it, in any one unit.
    pub amount: f64,
}

/// A bucket that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Per second while there were tokens.
    pub burst: f64,
    /// Per second afterwards.
    pub base: f64,
    /// What came beyond the base rate: the tokens that were in the bucket.
    pub held: f64,
    /// When they were used up, in seconds after the first arrival.
    pub until: f64,
}

/// Equal pieces that arrivals are looked at in: the shortest, in seconds, and how many at most and at least. In shorter ones
/// the receiver's own waking shows.
const PIECE: f64 = 0.01;
const MAX_PIECES: usize = 64;
const MIN_PIECES: usize = 12;
/// Pieces of the base rate at least.
const MIN_BASE_PIECES: usize = 8;
/// The most by which their sum may stray from a line, as a share of it. Single pieces may stray more: some senders give
/// 64 KiB at once.
const STRAY: f64 = 0.08;
/// The excess is at least so many times what strays, as far as the line is drawn back beyond the pieces that it is fitted to.
const CLEAR: f64 = 3.0;
/// And so many standard deviations of what independent fluctuations of the pieces make of it.
const SIGNIFICANT: f64 = 1.5;
/// Runs of pieces of which the fluctuations are told: shorter ones show how a sender packs what it sends.
const FLUCTUATION_RUNS: usize = 12;
/// The median of the difference of two normal values is so many of their standard deviations: 0.6745 × √2.
const MEDIAN_DIFFERENCE: f64 = 0.9539;
/// A burst is at least so many times the base rate, and its tokens this share of all that came.
const BURST: f64 = 1.2;
const MIN_EXCESS_SHARE: f64 = 0.01;
/// The tokens are used up when all but this share of the excess has come.
const USED_UP_SHARE: f64 = 0.95;
/// Of a course with a burst at its beginning at least this share must be left to be judged.
const LEFT: f64 = 0.25;

/// The bucket in these arrivals, which are in the order of time: none where no lower rate holds from some moment on.
pub fn bucket(arrivals: &[Stretch]) -> Option<Bucket> {
    let arrivals = trimmed(arrivals);
    let pieces = pieces(arrivals)?;
    let all: f64 = pieces.amounts.iter().sum();
    [2, 4, 8].into_iter().find_map(|part| {
        let tail = pieces.amounts.len().div_ceil(part);
        let (base, stray) = level(&pieces, tail)?;
        let excess = excess(&pieces, base);
        let held = median(excess.get(excess.len() - tail..)?.to_vec())?;
        let drawn = pieces.amounts.len() as f64 / tail as f64;
        let chance =
            fluctuation(&pieces.amounts)? * (pieces.amounts.len() - tail) as f64 / (tail as f64).sqrt();
        let enough =
            held >= CLEAR * drawn * stray && held >= SIGNIFICANT * chance && held >= MIN_EXCESS_SHARE * all;
        let used_up = used_up(arrivals, base, USED_UP_SHARE * held).filter(|_| enough)?;
        let burst = used_up.amount / used_up.seconds;
        let before = pieces.seconds * (pieces.amounts.len() - tail) as f64;
        (burst >= BURST * base && used_up.seconds <= before + pieces.seconds).then_some(Bucket {
            burst,
            base,
            held,
            until: used_up.seconds,
        })
    })
}

/// The largest burst of one transfer over a base rate: none where nothing is beyond it.
pub fn burst(arrivals: &[Stretch], base: f64) -> Option<Bucket> {
    let arrivals = trimmed(arrivals);
    let held = peak(arrivals, base);
    let used_up = used_up(arrivals, base, USED_UP_SHARE * held).filter(|_| held > 0.0)?;
    Some(Bucket { burst: used_up.amount / used_up.seconds, base, held, until: used_up.seconds })
}

/// The rate of one transfer through a bucket of this base rate without what tokens gave at its beginning; `None` where
/// they lasted for too much of it.
pub fn sustained(arrivals: &[Stretch], base: f64) -> Option<f64> {
    let arrivals = trimmed(arrivals);
    let (first, last) = (arrivals.first()?, arrivals.last()?);
    let seconds = last.from + last.seconds - first.from;
    let all: f64 = arrivals.iter().map(|one| one.amount).sum();
    let held = peak(arrivals, base);
    if held < MIN_EXCESS_SHARE / 2.0 * all {
        return Some(all / seconds).filter(|rate| rate.is_finite());
    }
    let burst = used_up(arrivals, base, USED_UP_SHARE * held)?;
    // The stretch in which they were used up is half of each.
    let after = arrivals.iter().find(|one| one.from - first.from >= burst.seconds + one.seconds / 2.0)?;
    let left = seconds - (after.from - first.from);
    let mut amount = 0.0;
    let sum = |one: &Stretch| {
        amount += one.amount;
        Timed { t: one.from + one.seconds, value: amount }
    };
    let sums: Vec<Timed> = arrivals.iter().filter(|one| one.from >= after.from).map(sum).collect();
    // What is left of the tokens comes first, and the last stretch may be a part of one: neither turns the line.
    let rate = Trend::of(&sums).map_or(amount / left, |trend| trend.slope);
    (left >= LEFT * seconds).then_some(rate)
}

/// Without the stretches before the first arrival and after the last.
fn trimmed(arrivals: &[Stretch]) -> &[Stretch] {
    let some = |one: &Stretch| one.amount > 0.0;
    let (first, last) = (arrivals.iter().position(some), arrivals.iter().rposition(some));
    first.zip(last).and_then(|(first, last)| arrivals.get(first..=last)).unwrap_or_default()
}

struct Pieces {
    seconds: f64,
    amounts: Vec<f64>,
}

/// Divides the whole time, that between stretches included, into equal pieces.
fn pieces(arrivals: &[Stretch]) -> Option<Pieces> {
    let (first, last) = (arrivals.first()?, arrivals.last()?);
    let whole = last.from + last.seconds - first.from;
    let count = ((whole / PIECE) as usize).min(MAX_PIECES);
    if count < MIN_PIECES || !whole.is_finite() {
        return None;
    }
    let seconds = whole / count as f64;
    let mut amounts = vec![0.0; count];
    for one in arrivals.iter().filter(|one| one.seconds > 0.0) {
        let (from, to) = (one.from - first.from, one.from - first.from + one.seconds);
        let touched = ((from / seconds) as usize).min(count - 1)..=((to / seconds) as usize).min(count - 1);
        for (place, slot) in amounts.iter_mut().enumerate().skip(*touched.start()).take(touched.count()) {
            let (start, end) = (place as f64 * seconds, (place + 1) as f64 * seconds);
            *slot += one.amount * ((to.min(end) - from.max(start)) / one.seconds).clamp(0.0, 1.0);
        }
    }
    Some(Pieces { seconds, amounts })
}

/// The rate of the last pieces, and how far their sum strays from it; `None` where they do not hold one.
fn level(pieces: &Pieces, tail: usize) -> Option<(f64, f64)> {
    let amounts = pieces.amounts.get(pieces.amounts.len().checked_sub(tail)?..)?;
    let each = amounts.iter().sum::<f64>() / tail as f64;
    if tail < MIN_BASE_PIECES || each.is_nan() || each <= 0.0 {
        return None;
    }
    let (mut sum, mut low, mut high) = (0.0, 0.0_f64, 0.0_f64);
    for amount in amounts {
        sum += amount - each;
        (low, high) = (low.min(sum), high.max(sum));
    }
    let stray = high - low;
    (stray <= STRAY * each * tail as f64).then_some((each / pieces.seconds, stray))
}

/// Standard deviation of a piece, of what is independent from piece to piece; one step of the rate does not count.
fn fluctuation(amounts: &[f64]) -> Option<f64> {
    let length = (amounts.len() / FLUCTUATION_RUNS).max(1);
    let runs: Vec<f64> = amounts.chunks_exact(length).map(|run| run.iter().sum()).collect();
    let differences = runs.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
    Some(median(differences)? / MEDIAN_DIFFERENCE / (length as f64).sqrt())
}

/// What had come beyond the base rate at the end of each piece.
fn excess(pieces: &Pieces, base: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let beyond = |amount: &f64| {
        sum += amount - base * pieces.seconds;
        sum
    };
    pieces.amounts.iter().map(beyond).collect()
}

/// The largest excess over the base rate at the end of any stretch.
fn peak(arrivals: &[Stretch], base: f64) -> f64 {
    walk(arrivals, base).map(|(_, excess)| excess).fold(0.0, f64::max)
}

/// From the first arrival to the end of the stretch in which the excess reaches `wanted`.
fn used_up(arrivals: &[Stretch], base: f64, wanted: f64) -> Option<Stretch> {
    let (upto, _) = walk(arrivals, base).find(|(_, excess)| *excess >= wanted)?;
    Some(upto)
}

/// All that came until the end of each stretch, and its excess.
fn walk(arrivals: &[Stretch], base: f64) -> impl Iterator<Item = (Stretch, f64)> {
    let from = arrivals.first().map_or(0.0, |first| first.from);
    let mut amount = 0.0;
    arrivals.iter().map(move |one| {
        amount += one.amount;
        let seconds = one.from + one.seconds - from;
        (Stretch { from, seconds, amount }, amount - base * seconds)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a receiver sees of a bucket with `held` tokens that is offered `peak` all the time, in stretches of `width`;
    /// `late` moves that share of each stretch into the next one.
    fn through(
        peak: f64,
        base: f64,
        held: f64,
        width: f64,
        count: usize,
        late: impl Fn(usize) -> f64,
    ) -> Vec<Stretch> {
        let knee = held / (peak - base).max(1e-9);
        let upto = |t: f64| if t < knee { peak * t } else { held + base * t };
        let mut carried = 0.0;
        (0..count)
            .map(|i| {
                let from = i as f64 * width;
                let came = upto(from + width) - upto(from) + carried;
                carried = came * late(i);
                Stretch { from, seconds: width, amount: came - carried }
            })
            .collect()
    }

    /// Numbers from 0 to 1 that look like chance and are the same each time.
    fn chance(seed: u64, i: usize) -> f64 {
        let mixed =
            (seed ^ (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) as f64 / u64::MAX as f64
    }

    /// A second of a rate that has grown after `start`, with independent noise.
    fn fluctuating(rate: f64, noise: f64, seed: u64, start: f64) -> Vec<Stretch> {
        let stretch = |i: usize| {
            let grown = (i as f64 / 100.0 / start.max(1e-3)).min(1.0);
            let amount = rate * grown * (1.0 + noise * (2.0 * chance(seed, i) - 1.0));
            Stretch { from: i as f64 * 0.01, seconds: 0.01, amount }
        };
        (0..100).map(stretch).collect()
    }

    /// Noise of any height looks like a bucket by chance, and seldom enough.
    #[test]
    fn of_noise_few_in_a_thousand_look_like_a_bucket() {
        let one = |i: u64| fluctuating(1e6, (i % 100) as f64 / 100.0, i, (i % 7) as f64 / 14.0);
        let found = (0..4000).filter(|i| bucket(&one(*i)).is_some()).count();
        assert!(found <= 20, "{found} of 4000");
    }

    proptest! {
        /// Over a grid of buckets and a receiver that sometimes wakes late: the rates and the tokens are found.
        #[test]
        fn a_bucket_is_found_with_its_rates(
            base in 1e6f64..1e9, times in 1.6f64..50.0, share in 0.05f64..0.4, seconds in 0.6f64..20.0, seed: u64,
        ) {
            let (count, peak) = (100, base * times);
            let held = share * base * seconds;
            prop_assume!(held / (peak - base) < seconds * 0.45);
            let late = |i| if chance(seed, i) < 0.1 { 0.3 * chance(seed ^ 1, i) } else { 0.0 };
            let found = bucket(&through(peak, base, held, seconds / count as f64, count, late)).unwrap();
            prop_assert!((found.base / base - 1.0).abs() < 0.03, "{found:?} {base}");
            prop_assert!((found.held / held - 1.0).abs() < 0.35, "{found:?} {held}");
            prop_assert!(found.burst > 1.1 * base && found.burst <= peak * 1.01, "{found:?} {peak}");
        }

        /// A constant rate and one that grows as TCP's does have no bucket.
        #[test]
        fn where_no_lower_rate_holds_there_is_none(rate in 1e3f64..1e12, noise in 0.0f64..0.1, seed: u64, start in 0.0f64..0.5) {
            prop_assert_eq!(bucket(&fluctuating(rate, noise, seed, start)), None);
        }

        /// What a pause let into the bucket is not in the rate that holds.
        #[test]
        fn a_transfer_is_judged_without_its_burst(base in 1e6f64..1e9, times in 2.0f64..50.0, share in 0.0f64..0.3) {
            let held = share * base;
            let course = through(base * times, base, held, 0.01, 100, |_| 0.0);
            let found = sustained(&course, base);
            prop_assert!(found.is_some_and(|rate| (rate / base - 1.0).abs() < 0.01), "{found:?} of {base}");
        }

        #[test]
        fn anything_is_looked_at_without_harm(
            course in prop::collection::vec((0.0f64..1e6, 0.0f64..1e3, 0.0f64..1e12), 0..200), base in 0.0f64..1e12,
        ) {
            let mut course: Vec<Stretch> =
                course.into_iter().map(|(from, seconds, amount)| Stretch { from, seconds, amount }).collect();
            course.sort_by(|a, b| a.from.total_cmp(&b.from));
            bucket(&course);
            sustained(&course, base);
        }
    }

    #[test]
    fn pauses_fill_the_bucket_and_count_as_time() {
        // Ten transfers of 0.2 s with pauses of 0.1 s between them: each begins with what came into the bucket meanwhile.
        let mut course = Vec::new();
        for transfer in 0..10 {
            let held = if transfer == 0 { 60.0 } else { 10.0 };
            let one = through(1000.0, 100.0, held, 0.005, 40, |_| 0.0);
            course.extend(one.into_iter().map(|s| Stretch { from: s.from + 0.3 * f64::from(transfer), ..s }));
        }
        let found = bucket(&course);
        assert!(found.is_none_or(|found| (found.base / 100.0 - 1.0).abs() < 0.15), "{found:?}");
    }

    #[test]
    fn where_the_tokens_last_to_the_end_nothing_is_left_to_judge() {
        let course = through(1000.0, 100.0, 800.0, 0.01, 100, |_| 0.0);
        assert_eq!(sustained(&course, 100.0), None);
        assert_eq!(sustained(&[], 100.0), None);
        assert_eq!(bucket(&[]), None);
    }
}
