//! Architectures without their own folder: portable kernels, and no assembly, so no core clock.

use crate::arch::chain::{Density, Woven};
use crate::capability::Loop;
use crate::gemm::tile::Tile;
use crate::isa::{Absence, Isa};
use crate::kernel::Kernel;
use crate::lu::narrow::Narrow;
use crate::stream::StreamKernel;
use crate::ticks::Ticks;

/// Whether the cores read a line before ordinary stores overwrite all of it.
pub(crate) const READS_BEFORE_OVERWRITING: bool = true;

/// Kernels of this architecture beyond the portable ones.
pub(crate) fn kernels() -> impl Iterator<Item = &'static [Kernel]> {
    std::iter::empty()
}

/// Kernels of so many chains: none is written for this architecture.
pub(crate) fn chained() -> impl Iterator<Item = &'static [Kernel]> {
    std::iter::empty()
}

/// Bandwidth kernels of this architecture beyond the portable ones: none is written yet.
pub(crate) static STREAMS: [&[StreamKernel]; 0] = [];

/// Tiles of the matrix multiplication beyond the portable ones: none is written yet.
pub(crate) static TILES_F64: [&Tile<f64>; 0] = [];

/// As [`TILES_F64`], for 32 bits.
pub(crate) static TILES_F32: [&Tile<f32>; 0] = [];

/// The functions of the factorisation beyond the portable ones: none is written yet.
pub(crate) static NARROWS: [&Narrow; 0] = [];

/// No prefetch is written for this architecture.
pub(crate) fn prefetch<T>(_: *const T) {}

/// The chains that show the core clock: none is written for this architecture.
pub(crate) const SCALAR: Option<&Density> = None;

/// Loops that show loads and latencies: none is written yet.
pub(crate) static LOOPS: [Loop; 0] = [];

/// Chains in vector work: none.
pub(crate) static WOVEN: &[Woven] = &[];

/// A counter of time that programs may read, and what the kernel calls it: none is known here.
pub(crate) const TICKS: Option<Ticks> = None;

/// Whether the processor promises that the counter keeps one pace: there is no second one to compare with.
pub(crate) fn has_steady_counter() -> bool {
    false
}

/// The rate of the time counter that the processor states, in Hz: there is no second counter to compare with.
pub(crate) fn stated_counter_hz() -> Option<f64> {
    None
}

/// The highest core clock that the processor names, in Hz: it names none.
pub(crate) fn named_maximum_hz() -> Option<f64> {
    None
}

/// There is no CPUID.
pub(crate) fn cpuid(_leaf: u32, _subleaf: u32) -> Option<[u32; 4]> {
    None
}

/// Whether this processor has `isa`.
pub(crate) fn available(isa: Isa) -> Result<(), Absence> {
    Err(Absence::Architecture { isa })
}
