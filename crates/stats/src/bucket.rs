//! Detection of a token bucket: a burst rate at first, and later a lower rate that holds. At most
//! `held + base × t` bytes pass within t of the bucket being full (RFC 2697, RFC 2698; Cruz, "A
//! calculus for network delay", IEEE Trans. Inf. Theory 37, 1991).

use super::changepoint::TimedPoint;
use super::samples::median;
use super::trend::Trend;

/// An amount that arrived in an interval of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalStretch {
    /// Start in seconds.
    pub from: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Amount that arrived, in any unit.
    pub amount: f64,
}

/// A detected token bucket, in the unit of the amounts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Rate per second while there are tokens.
    pub burst: f64,
    /// Sustained rate per second.
    pub base: f64,
    /// Tokens in the bucket: the amount beyond the base rate.
    pub tokens: f64,
    /// Time at which they were used up, in seconds after the first arrival.
    pub until: f64,
}

/// Minimum length of the equal pieces in seconds, and their maximum and minimum number.
const PIECE: f64 = 0.01;
const MAX_PIECES: usize = 64;
const MIN_PIECES: usize = 12;
/// Minimum number of pieces at the base rate.
const MIN_BASE_PIECES: usize = 8;
/// Maximum deviation of their running sum from a line, as a share of the sum.
const STRAY: f64 = 0.08;
/// Minimum excess as a multiple of that deviation, extrapolated to all pieces.
const CLEAR: f64 = 3.0;
/// Minimum excess in standard deviations that independent fluctuations of the pieces cause.
const SIGNIFICANT: f64 = 1.5;
/// Number of runs of pieces that show the fluctuations: shorter runs show the sender's batches.
const FLUCTUATION_RUNS: usize = 12;
/// Median difference of two normal values, in standard deviations: 0.6745 × √2.
const MEDIAN_DIFFERENCE: f64 = 0.9539;
/// Minimum burst rate ÷ base rate, and minimum tokens as a share of all arrivals.
const BURST: f64 = 1.2;
const MIN_EXCESS_SHARE: f64 = 0.01;
/// Share of the excess at which the tokens count as used up.
const USED_UP_SHARE: f64 = 0.95;
/// Minimum share of the time that must remain after a burst.
const LEFT: f64 = 0.25;

/// Detects a token bucket in chronological arrivals: a burst, then a lower rate; `None` without.
pub fn bucket(arrivals: &[ArrivalStretch]) -> Option<Bucket> {
    let arrivals = trimmed(arrivals);
    let (seconds, amounts) = pieces(arrivals)?;
    let (count, all) = (amounts.len(), amounts.iter().sum::<f64>());
    [2, 4, 8].into_iter().find_map(|part| {
        let tail = count.div_ceil(part);
        let (base, stray) = level(seconds, &amounts, tail)?;
        let mut sum = 0.0;
        let beyond = |amount: &f64| {
            sum += amount - base * seconds;
            sum
        };
        let excess: Vec<f64> = amounts.iter().map(beyond).collect();
        let held = median(excess.get(count - tail..)?.to_vec())?;
        let drawn = count as f64 / tail as f64;
        let chance = fluctuation(&amounts)? * (count - tail) as f64 / (tail as f64).sqrt();
        let enough =
            held >= CLEAR * drawn * stray && held >= SIGNIFICANT * chance && held >= MIN_EXCESS_SHARE * all;
        let used_up = arrivals_until_excess(arrivals, base, USED_UP_SHARE * held).filter(|_| enough)?;
        let burst = used_up.amount / used_up.seconds;
        let (tokens, until) = (held, used_up.seconds);
        let is_before = until <= seconds * (count - tail) as f64 + seconds;
        (burst >= BURST * base && is_before).then_some(Bucket { burst, base, tokens, until })
    })
}

/// Returns the first burst of one transfer above rate `base` (amount per second), up to 95 % of its
/// largest excess; `None` if the rate never exceeds `base`.
pub fn burst(arrivals: &[ArrivalStretch], base: f64) -> Option<Bucket> {
    let arrivals = trimmed(arrivals);
    let held = peak(arrivals, base);
    let used_up = arrivals_until_excess(arrivals, base, USED_UP_SHARE * held).filter(|_| held > 0.0)?;
    Some(Bucket { burst: used_up.amount / used_up.seconds, base, tokens: held, until: used_up.seconds })
}

/// Returns the rate (amount per second) of one transfer after its burst above `base`, of all if
/// there is no burst; `None` if less than a quarter of the time is left.
pub fn sustained(arrivals: &[ArrivalStretch], base: f64) -> Option<f64> {
    let arrivals = trimmed(arrivals);
    let (ArrivalStretch { from, seconds, amount: all }, _) = walk(arrivals, base).last()?;
    let held = peak(arrivals, base);
    if held < MIN_EXCESS_SHARE / 2.0 * all {
        return Some(all / seconds).filter(|rate| rate.is_finite());
    }
    let burst = arrivals_until_excess(arrivals, base, USED_UP_SHARE * held)?;
    let after = arrivals.iter().find(|one| one.from - from >= burst.seconds + one.seconds / 2.0)?;
    let left = seconds - (after.from - from);
    let mut amount = 0.0;
    let sum = |one: &ArrivalStretch| {
        amount += one.amount;
        TimedPoint { t: one.from + one.seconds, value: amount }
    };
    let sums: Vec<TimedPoint> = arrivals.iter().filter(|one| one.from >= after.from).map(sum).collect();
    let rate = Trend::fit(&sums).map_or(amount / left, |trend| trend.slope);
    (left >= LEFT * seconds).then_some(rate)
}

fn trimmed(arrivals: &[ArrivalStretch]) -> &[ArrivalStretch] {
    let some = |one: &ArrivalStretch| one.amount > 0.0;
    let (first, last) = (arrivals.iter().position(some), arrivals.iter().rposition(some));
    first.zip(last).and_then(|(first, last)| arrivals.get(first..=last)).unwrap_or_default()
}

/// Splits the whole time into equal pieces; returns the seconds per piece and the amount in each.
/// `None` if there would be fewer than 12.
fn pieces(arrivals: &[ArrivalStretch]) -> Option<(f64, Vec<f64>)> {
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
    Some((seconds, amounts))
}

/// Returns the rate (amount per second) of the last `tail` pieces of `seconds` each, and the range,
/// an amount, of their running sum about it. `None` above 8 % of the sum, or with too few pieces.
fn level(seconds: f64, amounts: &[f64], tail: usize) -> Option<(f64, f64)> {
    let amounts = amounts.get(amounts.len().checked_sub(tail)?..)?;
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
    (stray <= STRAY * each * tail as f64).then_some((each / seconds, stray))
}

/// Estimates the standard deviation of `amounts` by differences; a step hardly changes it.
fn fluctuation(amounts: &[f64]) -> Option<f64> {
    let length = (amounts.len() / FLUCTUATION_RUNS).max(1);
    let runs: Vec<f64> = amounts.chunks_exact(length).map(|run| run.iter().sum()).collect();
    let differences = runs.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
    Some(median(differences)? / MEDIAN_DIFFERENCE / (length as f64).sqrt())
}

fn peak(arrivals: &[ArrivalStretch], base: f64) -> f64 {
    walk(arrivals, base).map(|(_, excess)| excess).fold(0.0, f64::max)
}

/// Sums the arrivals until their excess over rate `base` reaches `wanted`; `None` if it never does.
fn arrivals_until_excess(arrivals: &[ArrivalStretch], base: f64, wanted: f64) -> Option<ArrivalStretch> {
    walk(arrivals, base).find(|(_, excess)| *excess >= wanted).map(|(upto, _)| upto)
}

fn walk(arrivals: &[ArrivalStretch], base: f64) -> impl Iterator<Item = (ArrivalStretch, f64)> {
    let from = arrivals.first().map_or(0.0, |first| first.from);
    let mut amount = 0.0;
    arrivals.iter().map(move |one| {
        amount += one.amount;
        let seconds = one.from + one.seconds - from;
        (ArrivalStretch { from, seconds, amount }, amount - base * seconds)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Arrivals through a bucket with `held` tokens at an offered rate `peak`, in stretches of
    /// `width`; the share `late` of each moves to the next.
    fn through(
        peak: f64,
        base: f64,
        held: f64,
        width: f64,
        count: usize,
        late: impl Fn(usize) -> f64,
    ) -> Vec<ArrivalStretch> {
        let knee = held / (peak - base).max(1e-9);
        let upto = |t: f64| if t < knee { peak * t } else { held + base * t };
        let mut carried = 0.0;
        (0..count)
            .map(|i| {
                let from = i as f64 * width;
                let came = upto(from + width) - upto(from) + carried;
                carried = came * late(i);
                ArrivalStretch { from, seconds: width, amount: came - carried }
            })
            .collect()
    }

    /// Deterministic pseudorandom numbers from 0 to 1.
    fn chance(seed: u64, i: usize) -> f64 {
        let x = (seed ^ (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ (x >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) as f64 / u64::MAX as f64
    }

    /// A second at a constant rate after `start`, with independent noise.
    fn fluctuating(rate: f64, noise: f64, seed: u64, start: f64) -> Vec<ArrivalStretch> {
        let stretch = |i: usize| {
            let grown = (i as f64 / 100.0 / start.max(1e-3)).min(1.0);
            let amount = rate * grown * (1.0 + noise * (2.0 * chance(seed, i) - 1.0));
            ArrivalStretch { from: i as f64 * 0.01, seconds: 0.01, amount }
        };
        (0..100).map(stretch).collect()
    }

    #[test]
    fn of_noise_few_in_a_thousand_look_like_a_bucket() {
        let one = |i: u64| fluctuating(1e6, (i % 100) as f64 / 100.0, i, (i % 7) as f64 / 14.0);
        let found = (0..4000).filter(|i| bucket(&one(*i)).is_some()).count();
        assert!(found <= 20, "{found} of 4000");
    }

    proptest! {
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
            prop_assert!((found.tokens / held - 1.0).abs() < 0.35, "{found:?} {held}");
            prop_assert!(found.burst > 1.1 * base && found.burst <= peak * 1.01, "{found:?} {peak}");
        }

        #[test]
        fn where_no_lower_rate_holds_there_is_none(rate in 1e3f64..1e12, noise in 0.0f64..0.1, seed: u64, start in 0.0f64..0.5) {
            prop_assert_eq!(bucket(&fluctuating(rate, noise, seed, start)), None);
        }

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
            let mut course: Vec<ArrivalStretch> =
                course.into_iter().map(|(from, seconds, amount)| ArrivalStretch { from, seconds, amount }).collect();
            course.sort_by(|a, b| a.from.total_cmp(&b.from));
            bucket(&course);
            sustained(&course, base);
        }
    }

    #[test]
    fn pauses_fill_the_bucket_and_count_as_time() {
        let mut course = Vec::new();
        for transfer in 0..10 {
            let held = if transfer == 0 { 60.0 } else { 10.0 };
            let one = through(1000.0, 100.0, held, 0.005, 40, |_| 0.0);
            let after = 0.3 * f64::from(transfer);
            course.extend(one.into_iter().map(|s| ArrivalStretch { from: s.from + after, ..s }));
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
