//! Speed-up and parallel efficiency over thread counts.

/// Rate with a number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadRate {
    /// Number of threads.
    pub threads: u32,
    /// Total amount per second, in any unit.
    pub rate: f64,
}

/// Speed-up of one rate over that with the fewest threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalingStep {
    /// Number of threads.
    pub threads: u32,
    /// Number of threads of the base: the fewest measured.
    pub base_threads: u32,
    /// rate(threads) ÷ rate(base).
    pub speed_up: f64,
    /// speed-up ÷ (threads ÷ base threads); 1 is perfect.
    pub efficiency: f64,
}

/// Compares each rate with that of the fewest threads; ascending by threads, the base first.
/// Ignores repeated thread counts and invalid rates; empty with fewer than two thread counts.
pub fn scaling(rates: &[ThreadRate]) -> Vec<ScalingStep> {
    let usable = |r: &&ThreadRate| r.threads > 0 && r.rate.is_finite() && r.rate > 0.0;
    let mut rates: Vec<ThreadRate> = rates.iter().filter(usable).copied().collect();
    rates.sort_by_key(|r| r.threads);
    rates.dedup_by_key(|r| r.threads);
    let &[base, _, ..] = rates.as_slice() else {
        return Vec::new();
    };
    let compare = |r: &ThreadRate| {
        let speed_up = r.rate / base.rate;
        let efficiency = speed_up * f64::from(base.threads) / f64::from(r.threads);
        ScalingStep { threads: r.threads, base_threads: base.threads, speed_up, efficiency }
    };
    rates.iter().map(compare).filter(|s| s.speed_up.is_finite() && s.efficiency.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(threads: u32, rate: f64) -> ThreadRate {
        ThreadRate { threads, rate }
    }

    #[test]
    fn speed_up_is_relative_to_one_thread() {
        let found = scaling(&[rate(4, 300.0), rate(1, 100.0), rate(2, 198.0)]);
        assert_eq!(found.iter().map(|s| s.threads).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(found.iter().map(|s| s.speed_up).collect::<Vec<_>>(), [1.0, 1.98, 3.0]);
        assert_eq!(found.iter().map(|s| s.efficiency).collect::<Vec<_>>(), [1.0, 0.99, 0.75]);
    }

    #[test]
    fn without_one_thread_the_fewest_are_the_base() {
        let found = scaling(&[rate(2, 100.0), rate(8, 300.0)]);
        assert_eq!((found[1].base_threads, found[1].speed_up, found[1].efficiency), (2, 3.0, 0.75));
    }

    #[test]
    fn one_point_or_none_scales_nothing() {
        assert!(scaling(&[]).is_empty());
        assert!(scaling(&[rate(1, 5.0)]).is_empty());
        assert!(scaling(&[rate(1, 0.0), rate(2, 5.0)]).is_empty());
        assert!(scaling(&[rate(0, 1.0), rate(2, 5.0), rate(4, f64::NAN)]).is_empty());
    }

    proptest! {
        #[test]
        fn no_rates_give_a_number_that_is_none(points in prop::collection::vec((any::<u32>(), any::<f64>()), 0..8)) {
            let rates: Vec<ThreadRate> = points.iter().map(|&(t, r)| rate(t, r)).collect();
            for s in scaling(&rates) {
                prop_assert!(s.speed_up.is_finite() && s.efficiency.is_finite() && s.threads >= s.base_threads);
            }
        }
    }
}
