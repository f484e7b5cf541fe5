//! Reduces long tests under an emulator, which is some hundred times slower.

/// Returns whether `PLIMSOLL_TEST_EMULATED` is set: `make test-arm` runs tests in an emulator.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("PLIMSOLL_TEST_EMULATED").is_some()
}

/// Returns the test size `whole`, or a sixteenth of it, rounded up, if [`is_emulated`].
pub(crate) fn of(whole: u64) -> u64 {
    if is_emulated() { whole.div_ceil(16) } else { whole }
}

pub(crate) fn cases(whole: u32) -> proptest::prelude::ProptestConfig {
    proptest::prelude::ProptestConfig::with_cases(of(whole.into()) as u32)
}
