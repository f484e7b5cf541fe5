//! NEON kernels: 128-bit vectors, in registers throughout. FMLA only accumulates, so its recurrence
//! is a sum of products. Four cycles of latency on four pipes (Neoverse V1, V2) need sixteen
//! accumulators.

use super::feature;
use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

/// Text of one operand: `x` the accumulator, `n` the next one, `a` and `b` the constants.
macro_rules! operand {
    (($wide:literal $narrow:literal) $i:literal $next:literal x) => {
        concat!("v", $i, $wide)
    };
    (($wide:literal $narrow:literal) $i:literal $next:literal n) => {
        concat!("v", $next, $narrow)
    };
    (($wide:literal $narrow:literal) $i:literal $next:literal a) => {
        concat!("v0", $narrow)
    };
    (($wide:literal $narrow:literal) $i:literal $next:literal b) => {
        concat!("v1", $narrow)
    };
}

macro_rules! body {
    ($name:ident $features:literal $lanes:tt $even:tt) => {
        body!($name $features $lanes $even $even);
    };
    ($name:ident $features:literal $lanes:tt $even:tt $odd:tt) => {
        /// Runs `turns` > 0 iterations. Safety: needs the kernel's instruction set and vectors.
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn $name(turns: u64, vectors: &mut Vectors) {
            // SAFETY: the caller grants the set and 26 16-byte rows; all registers are named.
            unsafe {
                core::arch::asm!(
                    "ldr q0, [{rows}]",
                    "ldr q1, [{rows}, #16]",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    "ldr q\\i, [{rows}, #(16*\\i)]",
                    ".endr",
                    ".p2align 6",
                    "2:",
                    turn!($lanes $even $odd; 2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 14, 14 15 16, 16 17 18, 18 19 20, 20 21 22, 22 23 24, 24 25 2),
                    "subs {turns}, {turns}, #1",
                    "b.ne 2b",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    "str q\\i, [{rows}, #(16*\\i)]",
                    ".endr",
                    rows = in(reg) vectors.rows(),
                    turns = inout(reg) turns => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _, out("v14") _, out("v15") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! needs {
    ("neon") => {
        None
    };
    ("neon,fp16") => {
        Some(feature::FP16)
    };
    ("neon,bf16") => {
        Some(feature::BF16)
    };
    ("neon,i8mm") => {
        Some(feature::I8MM)
    };
    ("neon,dotprod") => {
        Some(feature::DOT_PROD)
    };
}

macro_rules! kernels {
    ($($isa:ident $features:tt {$(
        $name:ident $op:ident $element:ident $lanes:tt $recurrence:ident $even:tt $(/ $odd:tt)?;
    )+})+) => {
        pub(crate) static KERNELS: &[ComputeKernel] = &[$($(
            ComputeKernel {
                name: stringify!($name),
                op: Op::$op,
                element: Element::$element,
                isa: Isa::$isa,
                needs: needs!($features),
                lanes: (16 / Element::$element.summed_by(Op::$op).bytes()) as u32,
                accumulators: 24,
                steps: 1,
                chains: false,
                recurrence: Recurrence::$recurrence,
                parts: parts!([24, 12] $even $($odd)?),
                function: $name,
            },
        )+)+];
        $($(body!($name $features $lanes $even $($odd)?);)+)+
    };
}

kernels! {
    Neon "neon" {
        fma_f64_neon FMA F64 (".2d" ".2d") FusedSum ["fmla" 2 x a b;];
        add_f64_neon ADD F64 (".2d" ".2d") Sum ["fadd" 1 x x a;];
        mul_f64_neon MUL F64 (".2d" ".2d") Product ["fmul" 1 x x b;];
        mix_f64_neon MIX F64 (".2d" ".2d") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f64_neon DIV F64 (".2d" ".2d") Quotient ["fdiv" 1 x x b;];
        sqrt_f64_neon SQRT F64 (".2d" ".2d") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x x;];
        fma_f32_neon FMA F32 (".4s" ".4s") FusedSum ["fmla" 2 x a b;];
        add_f32_neon ADD F32 (".4s" ".4s") Sum ["fadd" 1 x x a;];
        mul_f32_neon MUL F32 (".4s" ".4s") Product ["fmul" 1 x x b;];
        mix_f32_neon MIX F32 (".4s" ".4s") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f32_neon DIV F32 (".4s" ".4s") Quotient ["fdiv" 1 x x b;];
        sqrt_f32_neon SQRT F32 (".4s" ".4s") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x x;];
        add_i64_neon ADD I64 (".2d" ".2d") NextSum ["add" 1 x x n;];
        add_i32_neon ADD I32 (".4s" ".4s") NextSum ["add" 1 x x n;];
        add_i16_neon ADD I16 (".8h" ".8h") NextSum ["add" 1 x x n;];
        add_i8_neon ADD I8 (".16b" ".16b") NextSum ["add" 1 x x n;];
        mul_i32_neon MUL I32 (".4s" ".4s") NextProduct ["mul" 1 x x n;];
        mul_i16_neon MUL I16 (".8h" ".8h") NextProduct ["mul" 1 x x n;];
        mul_i8_neon MUL I8 (".16b" ".16b") NextProduct ["mul" 1 x x n;];
    }
    Neon "neon,fp16" {
        fma_f16_neon FMA F16 (".8h" ".8h") Flip ["fmls" 2 x x b;];
        add_f16_neon ADD F16 (".8h" ".8h") NextFrom ["fsub" 1 x b n;];
        mul_f16_neon MUL F16 (".8h" ".8h") NextScale ["fmul" 1 x n a;] / ["fmul" 1 x n b;];
        mix_f16_neon MIX F16 (".8h" ".8h") NextFromOrSquare ["fsub" 1 x b n;] / ["fmul" 1 x n n;];
        div_f16_neon DIV F16 (".8h" ".8h") QuotientFrom ["fdiv" 1 x b x;];
        sqrt_f16_neon SQRT F16 (".8h" ".8h") RoundedCircle ["fmul" 0 x x x; "fsub" 0 x b x; "fsqrt" 1 x x;];
    }
    Neon "neon,dotprod" {
        dot_i8_neon DOT I8 (".4s" ".16b") NextSignedDot ["sdot" 8 x n b;];
    }
    Neon "neon,bf16" {
        dot_bf16_neon DOT Bf16 (".4s" ".8h") ExactDot ["bfdot" 4 x a b;];
    }
    Mmla "neon,i8mm" {
        dot_i8_mmla DOT I8 (".4s" ".16b") Tile ["smmla" 16 x a b;];
    }
    Mmla "neon,bf16" {
        dot_bf16_mmla DOT Bf16 (".4s" ".8h") Tile ["bfmmla" 8 x a b;];
    }
}
