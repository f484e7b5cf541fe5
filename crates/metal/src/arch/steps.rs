/// Minimum steps per iteration over all chains, to hide the end of the loop.
const LEAST_STEPS: u32 = 12;

/// Returns the steps of each chain per iteration: odd, so that values of period two change.
pub(super) const fn steps(chains: u32) -> u32 {
    LEAST_STEPS.div_ceil(chains) | 1
}
