//! AVX-512 kernels: 512-bit vectors, operands and accumulators in registers throughout.
//!
//! Sixteen accumulators: four cycles of latency on two pipes need eight, the rest is slack for the scheduler.

use core::arch::asm;

use crate::isa::Isa;
use crate::kernel::{Counts, Element, Kernel, Op, Recurrence, Vectors};

pub(crate) static FMA_F64: Kernel = Kernel {
    name: "fma_f64_avx512",
    op: Op::Fma,
    element: Element::F64,
    isa: Isa::Avx512,
    lanes: 8,
    accumulators: 16,
    recurrence: Recurrence::FusedScale,
    counts: Counts { fma: 16, multiply: 0, add: 0, control: 2 },
    function: fma_f64_avx512,
};

pub(crate) static FMA_F32: Kernel = Kernel {
    name: "fma_f32_avx512",
    op: Op::Fma,
    element: Element::F32,
    isa: Isa::Avx512,
    lanes: 16,
    accumulators: 16,
    recurrence: Recurrence::FusedScale,
    counts: Counts { fma: 16, multiply: 0, add: 0, control: 2 },
    function: fma_f32_avx512,
};

/// zmm0 = multiplier, zmm1 = addend, zmm2 to zmm17 = accumulators.
macro_rules! fma {
    ($name:ident, $instruction:literal) => {
        /// # Safety
        /// Needs AVX-512F, `turns` > 0 and the vectors of a kernel with 8 × f64 or 16 × f32 lanes and 16 accumulators.
        #[inline(never)]
        #[target_feature(enable = "avx512f")]
        unsafe fn $name(turns: u64, vectors: &mut Vectors) {
            // SAFETY: the caller grants the instruction set and 18 aligned rows of 64 bytes; all registers are named.
            unsafe {
                asm!(
                    "vmovapd zmm0, [{rows}]",
                    "vmovapd zmm1, [{rows} + 64]",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
                    "vmovapd zmm\\i, [{rows} + 64*\\i]",
                    ".endr",
                    ".p2align 6",
                    "2:",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
                    concat!($instruction, " zmm\\i, zmm0, zmm1"),
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
                    "vmovapd [{rows} + 64*\\i], zmm\\i",
                    ".endr",
                    "vzeroupper",
                    rows = in(reg) vectors.rows(),
                    turns = inout(reg) turns => _,
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                    out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                    out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _, out("zmm17") _,
                    options(nostack),
                );
            }
        }
    };
}

fma!(fma_f64_avx512, "vfmadd213pd");
fma!(fma_f32_avx512, "vfmadd213ps");
