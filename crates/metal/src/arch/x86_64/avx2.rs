//! AVX2 + FMA kernels: 256-bit vectors, operands and accumulators in registers throughout.
//!
//! Fourteen accumulators fill the register file; five cycles of latency (Haswell) on two pipes need ten.

use core::arch::asm;

use crate::isa::Isa;
use crate::kernel::{Counts, Element, Kernel, Op, Recurrence, Vectors};

pub(crate) static FMA_F64: Kernel = Kernel {
    name: "fma_f64_avx2",
    op: Op::Fma,
    element: Element::F64,
    isa: Isa::Avx2,
    lanes: 4,
    accumulators: 14,
    recurrence: Recurrence::FusedScale,
    counts: Counts { fma: 14, multiply: 0, add: 0, control: 2 },
    function: fma_f64_avx2,
};

pub(crate) static FMA_F32: Kernel = Kernel {
    name: "fma_f32_avx2",
    op: Op::Fma,
    element: Element::F32,
    isa: Isa::Avx2,
    lanes: 8,
    accumulators: 14,
    recurrence: Recurrence::FusedScale,
    counts: Counts { fma: 14, multiply: 0, add: 0, control: 2 },
    function: fma_f32_avx2,
};

/// ymm0 = multiplier, ymm1 = addend, ymm2 to ymm15 = accumulators.
macro_rules! fma {
    ($name:ident, $instruction:literal) => {
        /// # Safety
        /// Needs FMA, `turns` > 0 and the vectors of a kernel with 4 × f64 or 8 × f32 lanes and 14 accumulators.
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $name(turns: u64, vectors: &mut Vectors) {
            // SAFETY: the caller grants the instruction set and 16 aligned rows of 32 bytes; all registers are named.
            unsafe {
                asm!(
                    "vmovapd ymm0, [{rows}]",
                    "vmovapd ymm1, [{rows} + 32]",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    "vmovapd ymm\\i, [{rows} + 32*\\i]",
                    ".endr",
                    ".p2align 6",
                    "2:",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    concat!($instruction, " ymm\\i, ymm0, ymm1"),
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    "vmovapd [{rows} + 32*\\i], ymm\\i",
                    ".endr",
                    "vzeroupper",
                    rows = in(reg) vectors.rows(),
                    turns = inout(reg) turns => _,
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                    out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                    out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                    options(nostack),
                );
            }
        }
    };
}

fma!(fma_f64_avx2, "vfmadd213pd");
fma!(fma_f32_avx2, "vfmadd213ps");
