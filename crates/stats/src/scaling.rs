//! Speed-up and parallel efficiency over thread counts.

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

/// Returns the speed-up of each (threads, rate) over the rate with the fewest threads, ascending by
/// threads, that first. Ignores repeated thread counts and invalid rates; empty below two counts.
pub fn scaling(rates: &[(u32, f64)]) -> Vec<ScalingStep> {
    let usable = |(threads, rate): &&(u32, f64)| *threads > 0 && rate.is_finite() && *rate > 0.0;
    let mut rates: Vec<(u32, f64)> = rates.iter().filter(usable).copied().collect();
    rates.sort_by_key(|(threads, _)| *threads);
    rates.dedup_by_key(|(threads, _)| *threads);
    let &[(base_threads, base), _, ..] = rates.as_slice() else { return Vec::new() };
    let compare = |&(threads, rate): &(u32, f64)| {
        let speed_up = rate / base;
        let efficiency = speed_up * f64::from(base_threads) / f64::from(threads);
        ScalingStep { threads, base_threads, speed_up, efficiency }
    };
    rates.iter().map(compare).filter(|s| s.speed_up.is_finite() && s.efficiency.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn speed_up_is_relative_to_one_thread_or_the_fewest() {
        let found = scaling(&[(4, 300.0), (1, 100.0), (2, 198.0)]);
        let found: Vec<_> = found.iter().map(|s| (s.threads, s.speed_up, s.efficiency)).collect();
        assert_eq!(found, [(1, 1.0, 1.0), (2, 1.98, 0.99), (4, 3.0, 0.75)]);
        let found = scaling(&[(2, 100.0), (8, 300.0)]);
        assert_eq!((found[1].base_threads, found[1].speed_up, found[1].efficiency), (2, 3.0, 0.75));
    }

    #[test]
    fn one_point_or_none_scales_nothing() {
        let few: [&[_]; 4] = [&[], &[(1, 5.0)], &[(1, 0.0), (2, 5.0)], &[(0, 1.0), (2, 5.0), (4, f64::NAN)]];
        assert!(few.iter().all(|points| scaling(points).is_empty()));
    }

    proptest! {
        #[test]
        fn no_rates_give_a_number_that_is_none(points in prop::collection::vec((any::<u32>(), any::<f64>()), 0..8)) {
            for s in scaling(&points) {
                prop_assert!(s.speed_up.is_finite() && s.efficiency.is_finite() && s.threads >= s.base_threads);
            }
        }
    }
}
