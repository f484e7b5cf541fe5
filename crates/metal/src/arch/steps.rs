//! Length of an iteration of independent chains.

/// Minimum steps per iteration over all chains, to hide the end of the loop.
const LEAST_STEPS: u32 = 12;

/// Steps of each chain per iteration: odd, so that a value with period two shows each iteration.
pub(super) const fn steps(chains: u32) -> u32 {
    LEAST_STEPS.div_ceil(chains) | 1
}
