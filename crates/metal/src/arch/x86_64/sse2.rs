//! SSE2 kernels: 128-bit vectors, a multiplication and an addition where newer sets fuse them.
//!
//! Fourteen accumulators fill the register file; a chain of 3 + 3 cycles (Zen) with two of each a cycle needs twelve.

use core::arch::asm;

use crate::isa::Isa;
use crate::kernel::{Counts, Element, Kernel, Op, Recurrence, Vectors};

pub(crate) static FMA_F64: Kernel = Kernel {
    name: "fma_f64_sse2",
    op: Op::Fma,
    element: Element::F64,
    isa: Isa::Sse2,
    lanes: 2,
    accumulators: 14,
    recurrence: Recurrence::RoundedScale,
    counts: Counts { fma: 0, multiply: 14, add: 14, control: 2 },
    function: fma_f64_sse2,
};

pub(crate) static FMA_F32: Kernel = Kernel {
    name: "fma_f32_sse2",
    op: Op::Fma,
    element: Element::F32,
    isa: Isa::Sse2,
    lanes: 4,
    accumulators: 14,
    recurrence: Recurrence::RoundedScale,
    counts: Counts { fma: 0, multiply: 14, add: 14, control: 2 },
    function: fma_f32_sse2,
};

/// xmm0 = multiplier, xmm1 = addend, xmm2 to xmm15 = accumulators. All products come before all sums, so that a
/// scheduler that looks little ahead still finds independent work.
macro_rules! multiply_add {
    ($name:ident, $multiply:literal, $add:literal) => {
        /// # Safety
        /// Needs `turns` > 0 and the vectors of a kernel with 2 × f64 or 4 × f32 lanes and 14 accumulators.
        #[inline(never)]
        #[target_feature(enable = "sse2")]
        unsafe fn $name(turns: u64, vectors: &mut Vectors) {
            // SAFETY: SSE2 is the baseline; the caller grants 16 aligned rows of 16 bytes; all registers are named.
            unsafe {
                asm!(
                    "movapd xmm0, [{rows}]",
                    "movapd xmm1, [{rows} + 16]",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    "movapd xmm\\i, [{rows} + 16*\\i]",
                    ".endr",
                    ".p2align 6",
                    "2:",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    concat!($multiply, " xmm\\i, xmm0"),
                    ".endr",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    concat!($add, " xmm\\i, xmm1"),
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    "movapd [{rows} + 16*\\i], xmm\\i",
                    ".endr",
                    rows = in(reg) vectors.rows(),
                    turns = inout(reg) turns => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                    out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack),
                );
            }
        }
    };
}

multiply_add!(fma_f64_sse2, "mulpd", "addpd");
multiply_add!(fma_f32_sse2, "mulps", "addps");
