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

/// Groups of four: multiplies the first two accumulators and adds to the last two.
macro_rules! turn {
    ($multiply:literal, $add:literal; $($i:literal $j:literal $k:literal $l:literal),*) => {
        concat!($(
            $multiply, " xmm", $i, ", xmm0\n", $multiply, " xmm", $j, ", xmm0\n",
            $add, " xmm", $k, ", xmm1\n", $add, " xmm", $l, ", xmm1\n",
        )*)
    };
}

/// xmm0 = multiplier, xmm1 = addend, xmm2 to xmm15 = accumulators.
///
/// The order is a software pipeline: pairs of products and of sums in turn, each half a turn from the one it waits
/// for. On Zen 4, which can start two of each in every cycle, other orders lose 5 to 12 % for good, by an unlucky phase.
/// The upper half of the accumulators is therefore multiplied once before the loop, and the last turn stands after it.
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
                    ".irp i, 9,10,11,12,13,14,15",
                    concat!($multiply, " xmm\\i, xmm0"),
                    ".endr",
                    "dec {turns}",
                    "jz 3f",
                    ".p2align 6",
                    "2:",
                    turn!($multiply, $add;
                        2 3 9 10, 4 5 11 12, 6 7 13 14, 8 9 15 2, 10 11 3 4, 12 13 5 6, 14 15 7 8),
                    "dec {turns}",
                    "jnz 2b",
                    "3:",
                    ".irp i, 2,3,4,5,6,7,8",
                    concat!($multiply, " xmm\\i, xmm0"),
                    concat!($add, " xmm\\i, xmm1"),
                    ".endr",
                    ".irp i, 9,10,11,12,13,14,15",
                    concat!($add, " xmm\\i, xmm1"),
                    ".endr",
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
