//! How long a turn of independent chains is, on every architecture.

/// The least steps in a turn, over all chains: so that the end of the turn costs next to nothing.
const LEAST_STEPS: u32 = 12;

/// Steps of each of so many chains in a turn: an odd number, so that what comes back after two steps shows each turn.
pub(super) const fn steps(chains: u32) -> u32 {
    LEAST_STEPS.div_ceil(chains) | 1
}
