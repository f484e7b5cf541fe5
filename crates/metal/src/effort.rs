//! How much of the long tests is done: an emulator takes some hundred times as long as a processor.

/// Whether an emulator runs the tests. `make test-arm` says so; nothing that the emulated program sees does.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("PLIMSOLL_TEST_EMULATED").is_some()
}

/// So many on a processor, a sixteenth under an emulator.
pub(crate) fn of(whole: u64) -> u64 {
    if is_emulated() { whole.div_ceil(16) } else { whole }
}

/// As many random cases as [`of`] says.
pub(crate) fn cases(whole: u32) -> proptest::prelude::ProptestConfig {
    proptest::prelude::ProptestConfig::with_cases(of(whole.into()) as u32)
}
