/// Minimum steps per iteration over all chains, to hide the end of the loop.
const LEAST_STEPS: u32 = 12;

/// Returns the steps per iteration of each of `chains` chains: odd, to change values of period 2.
pub(super) const fn steps(chains: u32) -> u32 {
    LEAST_STEPS.div_ceil(chains) | 1
}

/// Returns the name of a kernel's function without its last part, the width of its vectors.
pub(super) const fn without_width(name: &'static str) -> &'static str {
    let mut end = name.len();
    while end > 0 && name.as_bytes()[end - 1] != b'_' {
        end -= 1;
    }
    name.split_at(end.saturating_sub(1)).0
}
