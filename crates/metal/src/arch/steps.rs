/// Minimum steps per iteration over all chains, to hide the end of the loop.
const LEAST_STEPS: u32 = 12;

/// Returns the steps per iteration of each of `chains` chains: odd, to change values of period 2.
pub(super) const fn steps(chains: u32) -> u32 {
    LEAST_STEPS.div_ceil(chains) | 1
}
