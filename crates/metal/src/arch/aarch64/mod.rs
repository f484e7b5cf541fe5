#[macro_use]
mod table;

mod chain;
mod chained;
mod feature;
mod gemm_neon;
mod general;
mod stream_neon;
mod vectors;

use core::arch::asm;
use std::arch::is_aarch64_feature_detected;

use crate::gemm::tile::RegisterTile;
use crate::isa::{Absence, Isa, is_hidden};
use crate::kernel::ComputeKernel;
use crate::lu::narrow::{Narrow, solve_above_diagonal, step, substitute, subtract};
use crate::stream::StreamKernel;

pub(crate) use super::no_counter::*;
pub(crate) use chain::{SCALAR_CHAINS, WOVEN_KERNELS};

pub(crate) const READS_BEFORE_OVERWRITING: bool = false;

pub(crate) fn kernels() -> impl Iterator<Item = &'static [ComputeKernel]> {
    let tables: [&'static [ComputeKernel]; 3] = [&vectors::NEON, &vectors::SVE, general::KERNELS];
    chained::full().chain(tables)
}

pub(crate) fn chained() -> impl Iterator<Item = &'static [ComputeKernel]> {
    chained::kernels().chain(general::CHAINED.iter().copied())
}

pub(crate) static STREAM_KERNELS: [&[StreamKernel]; 1] = [&stream_neon::KERNELS];

pub(crate) static TILES_F64: [&RegisterTile<f64>; 1] = [&gemm_neon::F64];

pub(crate) static TILES_F32: [&RegisterTile<f32>; 1] = [&gemm_neon::F32];

/// Functions of the LU factorization. NEON is part of the baseline, so they are the generic ones.
static NARROW: Narrow = Narrow {
    isa: Isa::Neon,
    above: solve_above_diagonal::<true, 8>,
    step: step::<true, 8>,
    substitute: substitute::<true>,
    subtract: subtract::<true, 8>,
};

pub(crate) static NARROW_KERNELS: [&Narrow; 1] = [&NARROW];

#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    // SAFETY: a prefetch has no visible effect and never faults.
    unsafe {
        asm!("prfm pldl1keep, [{place}]", place = in(reg) place, options(nostack, readonly, preserves_flags))
    };
}

pub(crate) fn available(isa: Isa) -> Result<(), Absence> {
    match isa {
        Isa::Portable => Ok(()),
        Isa::Neon | Isa::Mmla if is_aarch64_feature_detected!("neon") => Ok(()),
        Isa::Neon | Isa::Mmla => Err(Absence::Feature { isa, feature: "asimd" }),
        Isa::Sve if is_aarch64_feature_detected!("sve") && !is_hidden("sve") => Ok(()),
        Isa::Sve => Err(Absence::Feature { isa, feature: "sve" }),
        _ => Err(Absence::Architecture(isa)),
    }
}

const LEAST_SVE_VECTOR: usize = 16;

/// Returns the bytes of an SVE vector in this process; 16 without SVE.
fn sve_vector_bytes() -> usize {
    #[target_feature(enable = "sve")]
    fn counted() -> usize {
        let bytes: usize;
        // SAFETY: writes one register; the caller checked the function's feature.
        unsafe { asm!("cntb {bytes}", bytes = out(reg) bytes, options(nomem, nostack, preserves_flags)) };
        bytes
    }
    if available(Isa::Sve).is_err() {
        return LEAST_SVE_VECTOR;
    }
    // SAFETY: SVE is available.
    unsafe { counted() }
}
