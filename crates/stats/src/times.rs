//! Histogram of latencies in ns, after Gil Tene's HdrHistogram (hdrhistogram.org) with three
//! significant digits: 1024 buckets per power of two, below 2048 one per ns.

/// Number of leading bits that determine the bucket.
const BITS: u32 = 11;

const HALF: usize = 1 << (BITS - 1);

/// Initial range in ns: 17 ms.
const EXPECTED_NS: u64 = (1 << 24) - 1;

/// Histogram of times in ns. No time is too long, and no count overflows.
#[derive(Debug, Clone)]
pub struct Times {
    counts: Vec<u32>,
    /// Counts that exceed u32: (bucket, count).
    carried: Vec<(usize, u64)>,
    sum_ns: u64,
}

/// Returns the upper edge of the bucket that contains the quantile `share` (0 to 1) of `buckets`:
/// (upper edge, count), ascending. `None` without buckets.
pub fn quantile_edge(buckets: &[(u64, u64)], share: f64) -> Option<u64> {
    let total = buckets.iter().map(|(_, count)| *count).fold(0, u64::saturating_add);
    let rank = ((share * total as f64).ceil() as u64).max(1);
    let mut seen = 0_u64;
    let contains = |(_, count): &&(u64, u64)| {
        seen = seen.saturating_add(*count);
        seen >= rank
    };
    buckets.iter().find(contains).or(buckets.last()).map(|(edge, _)| *edge)
}

#[inline]
fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - BITS) - (ns | (2 * HALF as u64 - 1)).leading_zeros();
    shift as usize * HALF + (ns >> shift) as usize
}

fn edges(bucket: usize) -> (u64, u64) {
    let shift = (bucket / HALF).saturating_sub(1);
    let low = ((bucket - shift * HALF) as u64) << shift;
    (low, low + ((1 << shift) - 1))
}

impl Default for Times {
    fn default() -> Self {
        Times { counts: vec![0; bucket(EXPECTED_NS) + 1], carried: Vec::new(), sum_ns: 0 }
    }
}

impl Times {
    /// Records `times` operations that took `ns` nanoseconds each.
    #[inline]
    pub fn record(&mut self, ns: u64, times: u32) {
        self.sum_ns = self.sum_ns.saturating_add(ns.saturating_mul(times.into()));
        let bucket = bucket(ns.max(1));
        let count = self.counts.get_mut(bucket);
        match count.and_then(|count| Some((count.checked_add(times)?, count))) {
            Some((sum, count)) => *count = sum,
            None => self.make_room(bucket, times.into()),
        }
    }

    #[cold]
    fn make_room(&mut self, bucket: usize, times: u64) {
        if bucket >= self.counts.len() {
            // Up to the next power of two, because later times are likely close.
            self.counts.resize((bucket + 1).next_multiple_of(HALF), 0);
        }
        let sum = u64::from(self.counts[bucket]).saturating_add(times);
        self.counts[bucket] = u32::try_from(sum).unwrap_or_else(|_| {
            self.carried.push((bucket, sum));
            0
        });
    }

    /// Adds all times recorded in `other`.
    pub fn add(&mut self, other: &Times) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        for (bucket, count) in other.filled() {
            self.make_room(bucket, count);
        }
    }

    /// Removes all times, and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.carried.clear();
        self.sum_ns = 0;
    }

    fn filled(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().enumerate().filter_map(|(bucket, count)| {
            let carried = self.carried.iter().filter(|(of, _)| *of == bucket).map(|(_, count)| count);
            let count = carried.fold(u64::from(*count), |sum, count| sum.saturating_add(*count));
            (count > 0).then_some((bucket, count))
        })
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.filled().map(|(_, count)| count).fold(0, u64::saturating_add)
    }

    /// Returns the exact sum of the recorded times in ns.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the exact mean time in seconds; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 * 1e-9 / count as f64)
    }

    /// Returns the standard deviation in seconds, from the middles of the buckets; `None` if empty.
    pub fn stdev(&self) -> Option<f64> {
        let middles = || {
            self.filled().map(|(bucket, count)| {
                let (low, high) = edges(bucket);
                (low as f64 + (high - low) as f64 / 2.0, count as f64)
            })
        };
        let count: f64 = middles().map(|(_, count)| count).sum();
        let mean = middles().map(|(ns, count)| ns * count).sum::<f64>() / count;
        let squares: f64 = middles().map(|(ns, count)| (ns - mean).powi(2) * count).sum();
        (count > 0.0).then(|| (squares / count).sqrt() * 1e-9)
    }

    /// Returns the quantile `share` (0 to 1) in ns, as the upper edge of its bucket; 0 if empty.
    pub fn at(&self, share: f64) -> u64 {
        quantile_edge(&self.buckets(), share).unwrap_or(0)
    }

    /// Returns (upper edge in ns, count) of each non-empty bucket, ascending.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.filled().map(|(bucket, count)| (edges(bucket).1, count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_ns() -> impl Strategy<Value = u64> {
        (0_u32..64, any::<u64>()).prop_map(|(shift, ns)| ns >> shift)
    }

    #[test]
    fn buckets_follow_one_another_without_gap() {
        let last = bucket(u64::MAX);
        assert_eq!((edges(0), edges(last).1), ((0, 0), u64::MAX));
        for bucket in 1..=last {
            assert_eq!(edges(bucket).0, edges(bucket - 1).1 + 1, "{bucket}");
        }
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_own_and_is_a_thousandth_wide(ns in any_ns()) {
            let (low, high) = edges(bucket(ns));
            prop_assert!((low..=high).contains(&ns));
            prop_assert!((high - low) as f64 <= low as f64 / 1000.0);
        }

        #[test]
        fn it_says_what_the_times_say(
            mut all in prop::collection::vec((any_ns(), 1_u32..4), 1..200), share in 0.0_f64..=1.0, split: prop::sample::Index,
        ) {
            let mut halves = [Times::default(), Times::default()];
            let split = split.index(all.len());
            for (nth, (ns, times)) in all.iter().enumerate() {
                halves[usize::from(nth < split)].record(*ns, *times);
            }
            let [mut times, other] = halves;
            times.add(&other);
            all.sort_unstable();
            let each: Vec<u64> = all.iter().flat_map(|(ns, times)| std::iter::repeat_n(*ns, *times as usize)).collect();
            prop_assert_eq!(times.count(), each.len() as u64);
            prop_assert_eq!(times.sum_ns(), each.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns)));
            let rank = ((share * each.len() as f64).ceil() as usize).max(1);
            let (exact, reported) = (each[rank - 1].max(1), times.at(share));
            prop_assert!(reported >= exact && reported - exact <= exact / 1000, "{} for {}", reported, exact);
            let buckets = times.buckets();
            prop_assert!(buckets.is_sorted() && buckets.iter().all(|(_, count)| *count > 0));
            prop_assert_eq!(buckets.last().map(|(upper, _)| *upper), Some(times.at(1.0)));
            times.clear();
            prop_assert_eq!((times.count(), times.sum_ns(), times.mean(), times.stdev(), times.at(0.5)), (0, 0, None, None, 0));
        }

        #[test]
        fn mean_and_deviation_are_those_of_the_times(all in prop::collection::vec(1_u64..1 << 40, 2..200)) {
            let mut times = Times::default();
            all.iter().for_each(|ns| times.record(*ns, 1));
            let mean = all.iter().map(|ns| *ns as f64).sum::<f64>() / all.len() as f64;
            let variance = all.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum::<f64>() / all.len() as f64;
            prop_assert!((times.mean().expect("some") * 1e9 / mean - 1.0).abs() < 1e-9);
            let most = all.iter().max().map_or(0.0, |ns| *ns as f64);
            prop_assert!((times.stdev().expect("some") * 1e9 - variance.sqrt()).abs() <= most / 1000.0);
        }
    }

    #[test]
    fn no_count_is_lost_when_a_bucket_is_full() {
        let mut times = Times::default();
        for _ in 0..3 {
            times.record(7, u32::MAX);
        }
        times.record(9, 1);
        let mut both = times.clone();
        both.add(&times);
        let full = u64::from(u32::MAX);
        assert_eq!(times.buckets(), [(7, 3 * full), (9, 1)]);
        assert_eq!(both.buckets(), [(7, 6 * full), (9, 2)]);
        assert_eq!((both.count(), both.sum_ns(), both.at(0.5)), (6 * full + 2, 42 * full + 18, 7));
    }

    #[test]
    fn the_longest_time_there_is_has_its_place() {
        let mut times = Times::default();
        times.record(u64::MAX, 2);
        times.record(3_600_000_000_000, 1);
        assert_eq!((times.count(), times.at(1.0), times.sum_ns()), (3, u64::MAX, u64::MAX));
    }
}
