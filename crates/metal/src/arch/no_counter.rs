//! Items of architectures without a time counter that programs may read, and without CPUID.

use crate::capability::InstructionLoop;
use crate::ticks::Ticks;

pub(crate) static PROBE_LOOPS: [InstructionLoop; 0] = [];

/// None: `clock_gettime` reads the time counter, at little more cost.
pub(crate) const TICK_COUNTER: Option<Ticks> = None;

pub(crate) fn has_steady_counter() -> bool {
    false
}

pub(crate) fn stated_counter_hz() -> Option<f64> {
    None
}

pub(crate) fn named_maximum_hz() -> Option<f64> {
    None
}

pub(crate) fn cpuid(_leaf: u32, _subleaf: u32) -> Option<[u32; 4]> {
    None
}
