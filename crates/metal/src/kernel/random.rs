//! Numbers of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).

/// Difference of two consecutive states.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the output of the generator SplitMix64 for `state`.
#[inline(always)]
pub(crate) const fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Advances the SplitMix64 generator `state` and returns its next number.
#[inline(always)]
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    mixed(*state)
}
