//! AArch64: detection, the NEON and SVE kernels, and the chains that show the core clock.

#[macro_use]
mod table;

mod chain;
mod chained;
mod feature;
mod gemm_neon;
mod general;
mod neon;
mod stream_neon;
mod sve;

use core::arch::asm;
use std::arch::is_aarch64_feature_detected;

use crate::capability::Loop;
use crate::gemm::tile::Tile;
use crate::isa::{Absence, Isa, is_hidden};
use crate::kernel::Kernel;
use crate::lu::narrow::{Narrow, above, step, substitute, subtract};
use crate::stream::StreamKernel;
use crate::ticks::Ticks;

pub(crate) use chain::{SCALAR, WOVEN};

/// Whether the cores read a line before ordinary stores overwrite all of it.
pub(crate) const READS_BEFORE_OVERWRITING: bool = false;

/// Kernels of this architecture beyond the portable ones.
pub(crate) fn kernels() -> impl Iterator<Item = &'static [Kernel]> {
    let tables: [&'static [Kernel]; 3] = [neon::KERNELS, &sve::KERNELS, general::KERNELS];
    tables.into_iter()
}

/// Kernels of so many chains.
pub(crate) fn chained() -> impl Iterator<Item = &'static [Kernel]> {
    chained::kernels().chain(general::CHAINED.iter().copied())
}

/// Bandwidth kernels of this architecture beyond the portable ones.
pub(crate) static STREAMS: [&[StreamKernel]; 1] = [&stream_neon::KERNELS];

/// Tiles of the matrix multiplication beyond the portable ones.
pub(crate) static TILES_F64: [&Tile<f64>; 1] = [&gemm_neon::F64];

/// As [`TILES_F64`], for 32 bits.
pub(crate) static TILES_F32: [&Tile<f32>; 1] = [&gemm_neon::F32];

/// The functions of the factorisation. NEON is part of the baseline, so they need no functions of their own.
static NARROW: Narrow = Narrow {
    isa: Isa::Neon,
    above: above::<true, 8>,
    step: step::<true, 8>,
    substitute: substitute::<true>,
    subtract: subtract::<true, 8>,
};

/// As [`NARROW`], in a list.
pub(crate) static NARROWS: [&Narrow; 1] = [&NARROW];

/// Fetches the cache line of an address, which may be any. Free of effects otherwise.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    // SAFETY: a prefetch changes nothing that a program can see and never faults.
    unsafe {
        asm!("prfm pldl1keep, [{place}]", place = in(reg) place, options(nostack, readonly, preserves_flags))
    };
}

/// Loops that show loads and latencies: none is written yet.
pub(crate) static LOOPS: [Loop; 0] = [];

/// The counter of time is what `clock_gettime` reads here, at little more cost.
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
    match isa {
        Isa::Portable => Ok(()),
        Isa::Neon | Isa::Mmla if is_aarch64_feature_detected!("neon") => Ok(()),
        Isa::Neon | Isa::Mmla => Err(Absence::Feature { isa, feature: "asimd" }),
        Isa::Sve if is_aarch64_feature_detected!("sve") && !is_hidden("sve") => Ok(()),
        Isa::Sve => Err(Absence::Feature { isa, feature: "sve" }),
        _ => Err(Absence::Architecture { isa }),
    }
}

/// Bytes of the least SVE vector.
const LEAST_SVE_VECTOR: usize = 16;

/// Bytes of an SVE vector as the system gives it to this process; the least there can be where there is no SVE.
fn sve_vector_bytes() -> usize {
    #[target_feature(enable = "sve")]
    fn counted() -> usize {
        let bytes: usize;
        // SAFETY: writes one register; the function's feature is there when it is called.
        unsafe { asm!("cntb {bytes}", bytes = out(reg) bytes, options(nomem, nostack, preserves_flags)) };
        bytes
    }
    if available(Isa::Sve).is_err() {
        return LEAST_SVE_VECTOR;
    }
    // SAFETY: SVE was just found.
    unsafe { counted() }
}
