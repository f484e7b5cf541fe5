//! Reduces long tests under an emulator, which is some hundred times slower.

/// Returns whether an emulator runs the tests, as the variable of `make test-arm` indicates.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("PLIMSOLL_TEST_EMULATED").is_some()
}

/// Returns `whole`, or under an emulator a sixteenth of it, rounded up.
pub(crate) fn of(whole: u64) -> u64 {
    if is_emulated() { whole.div_ceil(16) } else { whole }
}

pub(crate) fn cases(whole: u32) -> proptest::prelude::ProptestConfig {
    proptest::prelude::ProptestConfig::with_cases(of(whole.into()) as u32)
}
