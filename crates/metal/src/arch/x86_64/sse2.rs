//! SSE2 kernels: 128-bit vectors, a multiplication and an addition where newer sets fuse them.
//!
//! Twelve accumulators, as AVX2; the multiply-add has fourteen: a chain of 3 + 3 cycles (Zen) with two of each a cycle
//! needs twelve.

use core::arch::asm;

use crate::isa::{Feature, Isa};
use crate::kernel::{Element, Kernel, Op, Part, Recurrence, Vectors};

kernels! { xmm Sse2 16 6;
    add_f64_sse2 Add F64 Sum ["addpd" 1 x a;];
    mul_f64_sse2 Mul F64 Product ["mulpd" 1 x b;];
    mix_f64_sse2 Mix F64 SumOrProduct ["addpd" 1 x a;] / ["mulpd" 1 x b;];
    div_f64_sse2 Div F64 Quotient ["divpd" 1 x b;];
    sqrt_f64_sse2 Sqrt F64 RoundedRoot { ["mulpd" 0 x x;] then ["addpd" 0 x b;] then ["sqrtpd" 1 x x;] };
    add_f32_sse2 Add F32 Sum ["addps" 1 x a;];
    mul_f32_sse2 Mul F32 Product ["mulps" 1 x b;];
    mix_f32_sse2 Mix F32 SumOrProduct ["addps" 1 x a;] / ["mulps" 1 x b;];
    div_f32_sse2 Div F32 Quotient ["divps" 1 x b;];
    sqrt_f32_sse2 Sqrt F32 RoundedRoot { ["mulps" 0 x x;] then ["addps" 0 x b;] then ["sqrtps" 1 x x;] };
    add_i64_sse2 Add I64 NextSum ["paddq" 1 x n;];
    add_i32_sse2 Add I32 NextSum ["paddd" 1 x n;];
    add_i16_sse2 Add I16 NextSum ["paddw" 1 x n;];
    add_i8_sse2 Add I8 NextSum ["paddb" 1 x n;];
    mul_i32_sse2 Mul I32 NextProduct ["pmulld" 1 x n;] needs Sse41;
    mul_i16_sse2 Mul I16 NextProduct ["pmullw" 1 x n;];
}

/// The multiply-add, whose body is its own: an order of instructions that keeps four pipes busy.
pub(crate) static FUSED: [Kernel; 2] = [
    fused("fma_f64_sse2", Element::F64, &FUSED_F64, fma_f64_sse2),
    fused("fma_f32_sse2", Element::F32, &FUSED_F32, fma_f32_sse2),
];

static FUSED_F64: [Part; 2] = [
    Part { mnemonic: "mulpd", count: 14, operations: 1 },
    Part { mnemonic: "addpd", count: 14, operations: 1 },
];
static FUSED_F32: [Part; 2] = [
    Part { mnemonic: "mulps", count: 14, operations: 1 },
    Part { mnemonic: "addps", count: 14, operations: 1 },
];

const fn fused(
    name: &'static str,
    element: Element,
    parts: &'static [Part],
    function: unsafe fn(u64, &mut Vectors),
) -> Kernel {
    Kernel {
        name,
        op: Op::Fma,
        element,
        isa: Isa::Sse2,
        needs: None,
        lanes: (16 / element.bytes()) as u32,
        accumulators: 14,
        steps: 1,
        chains: false,
        recurrence: Recurrence::RoundedScale,
        parts,
        function,
    }
}

/// Groups of four: multiplies the first two accumulators and adds to the last two.
macro_rules! pairs {
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
                    pairs!($multiply, $add;
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
