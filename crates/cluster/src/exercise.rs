//! What ranks do with MPI itself while it is timed, and how each knows that it got what was sent.
//!
//! One rank begins an exercise and calls the others into it; each does its part in the thread that owns MPI, so that
//! nothing else uses it meanwhile. Bytes and numbers follow from a seed, so that each end knows what must have come.

use serde::{Deserialize, Serialize};

use crate::bench::mpi::What;

/// An exercise of some ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exercise {
    /// What is done.
    pub what: What,
    /// How often.
    pub times: u64,
    /// Who takes part, the one that begins it first.
    pub ranks: Vec<usize>,
    /// What tells its bytes from those of another.
    pub seed: u64,
}

impl Exercise {
    /// How often it is done first without being timed: connections and buffers are made then.
    #[cfg(any(test, feature = "mpi"))]
    pub(super) fn warm_up(&self) -> u64 {
        (self.times / 10).clamp(1, 200)
    }
}

/// What an exercise took.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// Seconds of one trip (both ways), window, sum or barrier; of the last two the mean over the ranks.
    pub seconds: f64,
    /// What was wrong with what came, if anything.
    pub wrong: Option<String>,
}

/// The bytes that the rank at this place sends. None is 0, which a buffer holds before anything came.
#[cfg(any(test, feature = "mpi"))]
pub(super) fn pattern(bytes: usize, seed: u64, place: usize) -> Vec<u8> {
    // A prime, so that nothing that is moved by a power of two looks the same.
    const PERIOD: u64 = 251;
    let begin = (seed % PERIOD + 97 * (place as u64 % PERIOD)) % PERIOD;
    (0..bytes as u64).map(|at| u8::try_from((begin + at) % PERIOD).unwrap_or(0) + 1).collect()
}

/// The number that the rank at this place adds. All sums of a few thousand ranks are whole numbers that `f32` holds exactly.
#[cfg(any(test, feature = "mpi"))]
pub(super) fn summand(place: usize, at: usize) -> u16 {
    const PLACES: usize = 1024;
    u16::try_from((place % PLACES + 1) * (at % 4 + 1)).unwrap_or(0)
}

/// The sum of all ranks' numbers.
#[cfg(any(test, feature = "mpi"))]
pub(super) fn total(ranks: usize, at: usize) -> f64 {
    (0..ranks).map(|place| f64::from(summand(place, at))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_two_ends_and_the_next_exercise_send_other_bytes(bytes in 1..9000_usize, seed: u64) {
            let own = pattern(bytes, seed, 0);
            prop_assert_eq!(own.len(), bytes);
            prop_assert!(!own.contains(&0));
            prop_assert_ne!(&own, &pattern(bytes, seed, 1));
            prop_assert_ne!(&own, &pattern(bytes, seed.wrapping_add(1), 0));
        }

        #[test]
        fn bytes_in_another_place_are_seen(bytes in 600..9000_usize, seed: u64, moved in 1..250_usize) {
            let own = pattern(bytes, seed, 0);
            prop_assert_ne!(&own[moved..], &own[..bytes - moved]);
        }

        #[test]
        fn sums_are_exact_in_single_precision(ranks in 1..3000_usize, at in 0..9_usize) {
            let single: f32 = (0..ranks).map(|place| f32::from(summand(place, at))).sum();
            prop_assert_eq!(f64::from(single), total(ranks, at));
        }

        #[test]
        fn a_missing_rank_is_seen_in_every_sum(ranks in 2..3000_usize, at in 0..9_usize) {
            prop_assert!(total(ranks - 1, at) < total(ranks, at));
        }
    }

    #[test]
    fn there_is_always_a_warm_up_and_never_a_long_one() {
        let of = |times| Exercise { what: What::Barriers, times, ranks: Vec::new(), seed: 0 }.warm_up();
        assert_eq!([of(1), of(100), of(1_000_000)], [1, 10, 200]);
    }
}
