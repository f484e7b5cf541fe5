#[macro_use]
mod body;

mod amx;
mod chain;
mod chained;
mod feature;
mod gemm_fma;
mod general;
mod lu;
mod pipeline;
mod probe;
mod stream;
mod stream_string;
mod stream_vectors;
mod vectors;

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::arch::is_x86_feature_detected;

use crate::gemm::tile::RegisterTile;
use crate::isa::{self, Absence, Isa};
use crate::kernel::ComputeKernel;
use crate::lu::narrow::Narrow;
use crate::ticks::Ticks;

pub(crate) use chain::{SCALAR_CHAINS, WOVEN_KERNELS};
pub(crate) use probe::PROBE_LOOPS;
pub(crate) use stream::STREAM_KERNELS;

/// Whether cores read a cache line before ordinary stores overwrite all of it.
pub(crate) const READS_BEFORE_OVERWRITING: bool = true;

pub(crate) fn kernels() -> impl Iterator<Item = &'static [ComputeKernel]> {
    chained::full().chain([vectors::KERNELS, amx::KERNELS, pipeline::KERNELS, general::KERNELS])
}

pub(crate) fn chained() -> impl Iterator<Item = &'static [ComputeKernel]> {
    chained::kernels().chain(amx::chained()).chain(general::CHAINED.iter().copied())
}

/// Matrix multiplication tiles, except the portable ones; the best last.
pub(crate) static TILES_F64: [&RegisterTile<f64>; 2] = [&gemm_fma::F64_AVX2, &gemm_fma::F64_AVX512];

pub(crate) static TILES_F32: [&RegisterTile<f32>; 2] = [&gemm_fma::F32_AVX2, &gemm_fma::F32_AVX512];

pub(crate) static NARROW_KERNELS: [&Narrow; 2] = [&lu::AVX2, &lu::AVX512];

/// Prefetches the cache line at `place` (any address, even an invalid one) into the level-1 cache.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    // SAFETY: a prefetch has no visible effect and never faults; SSE is part of the baseline.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
}

/// Time counter that programs may read, named like the kernel's clock source.
pub(crate) const TICK_COUNTER: Option<Ticks> = Some(Ticks { name: "tsc", read: time_stamp_counter, fence });

/// Returns the TSC; the CPU may reorder the reading with the instructions around it.
#[inline]
fn time_stamp_counter() -> u64 {
    // SAFETY: every x86-64 processor has it; `clock_gettime` also fails under PR_SET_TSC.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Waits until all earlier instructions are complete (Intel, RDTSC; also on AMD under Linux).
fn fence() {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { core::arch::x86_64::_mm_lfence() }
}

/// Returns whether the TSC has a constant rate: CPUID 8000_0007, EDX bit 8 (Intel 325383).
pub(crate) fn has_steady_counter() -> bool {
    const LEAF: u32 = 0x8000_0007;
    let highest = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    highest >= LEAF && core::arch::x86_64::__cpuid(LEAF).edx >> 8 & 1 == 1
}

/// Returns the highest core clock in Hz from CPUID 0x16, EBX; `None` on AMD and in most guests.
pub(crate) fn named_maximum_hz() -> Option<f64> {
    const LEAF: u32 = 0x16;
    let highest = core::arch::x86_64::__cpuid(0).eax;
    let megahertz = (highest >= LEAF).then(|| core::arch::x86_64::__cpuid(LEAF).ebx & 0xffff);
    megahertz.filter(|megahertz| *megahertz > 0).map(|megahertz| f64::from(megahertz) * 1e6)
}

/// Returns the TSC rate in Hz that the hypervisor (in a guest) or the processor reports; `None` if
/// none is from 0.1 to 10 GHz. Leaf 0x4000_0010, EAX, in kHz (docs.kernel.org: x86 hypervisor
/// timing leaf); leaf 0x15, crystal × EBX / EAX; leaf 0x16, EAX, in MHz (Intel 325383).
pub(crate) fn stated_counter_hz() -> Option<f64> {
    const FEATURES: u32 = 1;
    const HYPERVISOR_BIT: u32 = 31;
    const HYPERVISOR: u32 = 0x4000_0000;
    const HYPERVISOR_TIMING: u32 = 0x4000_0010;
    const COUNTER: u32 = 0x15;
    const FREQUENCIES: u32 = 0x16;
    let leaf = core::arch::x86_64::__cpuid;
    let is_guest = leaf(FEATURES).ecx >> HYPERVISOR_BIT & 1 == 1;
    let has_timing = is_guest && (HYPERVISOR_TIMING..HYPERVISOR + 0x100).contains(&leaf(HYPERVISOR).eax);
    let highest = leaf(0).eax;
    let of_hypervisor = has_timing.then(|| f64::from(leaf(HYPERVISOR_TIMING).eax) * 1e3);
    let has = |number: u32| !is_guest && highest >= number;
    let of_crystal = has(COUNTER).then(|| leaf(COUNTER)).filter(|counter| counter.eax > 0);
    let of_crystal = of_crystal.map(|c| f64::from(c.ecx) * f64::from(c.ebx) / f64::from(c.eax));
    let of_base = has(FREQUENCIES).then(|| f64::from(leaf(FREQUENCIES).eax & 0xffff) * 1e6);
    [of_hypervisor, of_crystal, of_base].into_iter().flatten().find(|hz| (1e8..1e10).contains(hz))
}

/// Returns EAX, EBX, ECX and EDX after CPUID; always `Some` on x86-64.
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    let core::arch::x86_64::CpuidResult { eax, ebx, ecx, edx } =
        core::arch::x86_64::__cpuid_count(leaf, subleaf);
    Some([eax, ebx, ecx, edx])
}

pub(crate) fn available(isa: Isa) -> Result<(), Absence> {
    let features: &[(&'static str, bool)] = match isa {
        Isa::Portable => &[],
        Isa::Sse2 => &[("sse2", is_x86_feature_detected!("sse2"))],
        Isa::Avx2 => &[("avx2", is_x86_feature_detected!("avx2")), ("fma", is_x86_feature_detected!("fma"))],
        Isa::Avx512 => &[
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512dq", is_x86_feature_detected!("avx512dq")),
            ("avx512bw", is_x86_feature_detected!("avx512bw")),
            ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ],
        Isa::Amx => &[("amx_tile", amx::request_tile_state())],
        Isa::Neon | Isa::Sve | Isa::Mmla => return Err(Absence::Architecture(isa)),
    };
    match features.iter().find(|(feature, present)| !present || isa::is_hidden(feature)) {
        Some(&(feature, _)) => Err(Absence::Feature { isa, feature }),
        None => Ok(()),
    }
}
