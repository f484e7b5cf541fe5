//! AMX kernels: tiles of 16 × 64 bytes, two with constants and six accumulators. An instruction
//! takes 16 cycles with a latency of 52, so four suffice (Intel 248966, chapter on AMX).

use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

const TILE: usize = 1024;
const SUMS: u32 = 6;

const fn steps(chains: u32) -> u32 {
    SUMS.div_ceil(chains)
}

/// Palette 1 with all eight tiles at full size (LDTILECFG in Intel 325383).
#[repr(C, align(64))]
struct Config([u8; 64]);

static FULL_TILES: Config = Config(full());

const fn full() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    bytes
}

pub(crate) fn chained() -> impl Iterator<Item = &'static [ComputeKernel]> {
    CHAINED.iter().copied()
}

macro_rules! kernels {
    ($($name:ident $element:ident $mnemonic:literal $operations:literal needs $feature:ident;)+) => {
        pub(crate) static KERNELS: &[ComputeKernel] = &[$(
            row!(stringify!($name), $name::<SUMS>; SUMS, 1, false;
                Amx TILE, DOT $element Tile Some($crate::arch::native::feature::$feature), [$mnemonic $operations x;]),
        )+];
        static CHAINED: &[&[ComputeKernel]] = &[$(
            &chained_rows!($name (Amx TILE, DOT $element Tile Some($crate::arch::native::feature::$feature))
                ([$mnemonic $operations x;]) 1 2 3 4 5 6),
        )+];
        $(
            /// Runs `turns` > 0 kernel iterations. Safety: see `ComputeKernel::function`.
            #[inline(never)]
            unsafe fn $name<const CHAINS: u32>(turns: u64, vectors: &mut Vectors) {
                // SAFETY: the caller grants the instructions and eight tiles without gaps, 64 bytes
                // per row; all tiles are named, and their state is released at the end.
                unsafe {
                    core::arch::asm!(
                        "ldtilecfg [{config}]",
                        ".irp i, 0,1,2,3,4,5,6,7",
                        ".if \\i - 2 < {chains}",
                        "tileloadd tmm\\i, [{rows} + {stride}]",
                        "add {rows}, 1024",
                        ".endif",
                        ".endr",
                        ".p2align 6",
                        "2:",
                        ".rept {steps}",
                        ".irp i, 2,3,4,5,6,7",
                        ".if \\i - 2 < {chains}",
                        concat!($mnemonic, " tmm\\i, tmm0, tmm1"),
                        ".endif",
                        ".endr",
                        ".endr",
                        "dec {turns}",
                        "jnz 2b",
                        ".irp i, 7,6,5,4,3,2",
                        ".if \\i - 2 < {chains}",
                        "sub {rows}, 1024",
                        "tilestored [{rows} + {stride}], tmm\\i",
                        ".endif",
                        ".endr",
                        "tilerelease",
                        config = in(reg) &raw const FULL_TILES,
                        rows = inout(reg) vectors.rows() => _,
                        stride = in(reg) 64_u64,
                        turns = inout(reg) turns => _,
                        chains = const CHAINS,
                        steps = const steps(CHAINS),
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                        options(nostack),
                    );
                }
            }
        )+
    };
}

kernels! {
    dot_i8_amx I8 "tdpbssd" 128 needs AMX_INT8;
    dot_bf16_amx Bf16 "tdpbf16ps" 64 needs AMX_BF16;
}

/// Number of the tiles' state in the kernel (arch/x86/include/asm/fpu/types.h).
const XFEATURE_XTILE_DATA: libc::c_ulong = 18;
/// Code of `arch_prctl` to request a state component (Documentation/arch/x86/xstate.rst).
const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;

/// Bits of CPUID leaf 7, sub-leaf 0, EDX (Intel 325383, CPUID).
const TILE_BIT: u32 = 24;
pub(super) const INT8_BIT: u32 = 25;
pub(super) const BF16_BIT: u32 = 22;

/// Requests AMX tile state for this process; returns whether the CPU has it and Linux grants it.
pub(crate) fn request_tile_state() -> bool {
    if !bit(TILE_BIT) || !is_x86_feature_detected!("xsave") {
        return false;
    }
    // SAFETY: this request takes a number and no pointer; an older kernel refuses it.
    let granted = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA) };
    granted == 0
}

pub(super) fn bit(which: u32) -> bool {
    let leaves = core::arch::x86_64::__cpuid(0).eax;
    leaves >= 7 && core::arch::x86_64::__cpuid_count(7, 0).edx >> which & 1 == 1
}
