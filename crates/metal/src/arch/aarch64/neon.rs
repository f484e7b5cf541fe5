//! NEON kernels: 128-bit vectors, operands and accumulators in registers throughout.
//!
//! FMLA only accumulates, so the recurrence is a sum of products. Twenty-four accumulators: four cycles of latency on
//! four pipes (Neoverse V1, V2) need sixteen.

use core::arch::asm;

use crate::isa::Isa;
use crate::kernel::{Counts, Element, Kernel, Op, Recurrence, Vectors};

pub(crate) static FMA_F64: Kernel = Kernel {
    name: "fma_f64_neon",
    op: Op::Fma,
    element: Element::F64,
    isa: Isa::Neon,
    lanes: 2,
    accumulators: 24,
    recurrence: Recurrence::FusedSum,
    counts: Counts { fma: 24, multiply: 0, add: 0, control: 2 },
    function: fma_f64_neon,
};

pub(crate) static FMA_F32: Kernel = Kernel {
    name: "fma_f32_neon",
    op: Op::Fma,
    element: Element::F32,
    isa: Isa::Neon,
    lanes: 4,
    accumulators: 24,
    recurrence: Recurrence::FusedSum,
    counts: Counts { fma: 24, multiply: 0, add: 0, control: 2 },
    function: fma_f32_neon,
};

/// v0, v1 = factors, v2 to v25 = accumulators.
macro_rules! fma {
    ($name:ident, $arrangement:literal) => {
        /// # Safety
        /// Needs NEON, `turns` > 0 and the vectors of a kernel with 2 × f64 or 4 × f32 lanes and 24 accumulators.
        #[inline(never)]
        #[target_feature(enable = "neon")]
        unsafe fn $name(turns: u64, vectors: &mut Vectors) {
            // SAFETY: the caller grants the instruction set and 26 aligned rows of 16 bytes; all registers are named.
            unsafe {
                asm!(
                    "ldr q0, [{rows}]",
                    "ldr q1, [{rows}, #16]",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    "ldr q\\i, [{rows}, #(16*\\i)]",
                    ".endr",
                    ".p2align 6",
                    "2:",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    concat!("fmla v\\i\\()", $arrangement, ", v0", $arrangement, ", v1", $arrangement),
                    ".endr",
                    "subs {turns}, {turns}, #1",
                    "b.ne 2b",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    "str q\\i, [{rows}, #(16*\\i)]",
                    ".endr",
                    rows = in(reg) vectors.rows(),
                    turns = inout(reg) turns => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _,
                    out("v14") _, out("v15") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _,
                    out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    options(nostack),
                );
            }
        }
    };
}

fma!(fma_f64_neon, ".2d");
fma!(fma_f32_neon, ".4s");
