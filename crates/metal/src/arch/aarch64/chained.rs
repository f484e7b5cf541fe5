//! Kernels by number of chains: NEON, matrix products, SVE, and scalar floating-point numbers. A
//! number after a name is the accumulators, as in `vectors`, of another kernel of this function.
//! FMLA only accumulates, so its recurrence is a sum of products.

use std::sync::LazyLock;

use super::sve_vector_bytes;
use crate::arch::steps::{steps, without_width};
use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

pub(crate) fn kernels() -> impl Iterator<Item = &'static [ComputeKernel]> {
    FIXED.iter().chain(SVE.iter()).map(Vec::as_slice)
}

pub(crate) fn full() -> impl Iterator<Item = &'static [ComputeKernel]> {
    FULL_FIXED.iter().chain(FULL_SVE.iter()).map(Vec::as_slice)
}

/// Step of one chain. `\()` ends the assembler's parameter; repetition strips one level.
macro_rules! each {
    ($lanes:tt $step:tt) => {
        concat!(step!($lanes "\\i\\\\()()" "" $step))
    };
    ($lanes:tt $even:tt $odd:tt) => {
        concat!(".if \\i & 1\n", step!($lanes "\\i\\\\()()" "" $odd), ".else\n", step!($lanes "\\i\\\\()()" "" $even), ".endif\n")
    };
}

macro_rules! rows {
    ($name:ident $row:tt $even:tt) => {
        chained_rows!($name $row ($even) 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24)
    };
    ($name:ident $row:tt $even:tt $odd:tt) => {
        chained_rows!($name $row ($even $odd) 2 4 6 8 10 12 14 16 18 20 22 24)
    };
}

macro_rules! chained {
    ($kernels:ident $full:ident; $($isa:ident $needs:ident $bytes:tt $how:tt {$(
        $name:ident $($all:literal)? $op:ident $element:ident $lanes:tt $recurrence:ident $even:tt $(/ $odd:tt)?;
    )+})+) => {
        static $kernels: LazyLock<Vec<Vec<ComputeKernel>>> = LazyLock::new(|| vec![$($(
            rows!($name ($isa $bytes, $op $element $recurrence needs!($needs)) $even $($odd)?).into(),
        )+)+]);
        static $full: LazyLock<Vec<Vec<ComputeKernel>>> = LazyLock::new(|| vec![$($(
            full_row!($name ($isa $bytes, $op $element $recurrence needs!($needs)) ($even $($odd)?) $($all)?).into(),
        )+)+]);
        $($(body!($name [<const CHAINS: u32>] $how CHAINS, steps(CHAINS);
            ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
            ".if \\i - 2 < {chains}",
            each!($lanes $even $($odd)?),
            ".endif",
            ".endr",);)+)+
    };
}

chained! { FIXED FULL_FIXED;
    Neon nothing 8 ("neon" "" "ldr d\\i, [{rows}, #(8*\\i)]" "str d\\i, [{rows}, #(8*\\i)]") {
        fma_f64_neon_scalar FMA F64 ("d" "" "") FusedSum ["fmadd" 2 x a b x;];
        add_f64_neon_scalar ADD F64 ("d" "" "") Sum ["fadd" 1 x x a;];
        mul_f64_neon_scalar MUL F64 ("d" "" "") Product ["fmul" 1 x x b;];
        mix_f64_neon_scalar MIX F64 ("d" "" "") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f64_neon_scalar DIV F64 ("d" "" "") Quotient ["fdiv" 1 x x b;];
        sqrt_f64_neon_scalar SQRT F64 ("d" "" "") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x x;];
    }
    Neon nothing 4 ("neon" "" "ldr s\\i, [{rows}, #(4*\\i)]" "str s\\i, [{rows}, #(4*\\i)]") {
        fma_f32_neon_scalar FMA F32 ("s" "" "") FusedSum ["fmadd" 2 x a b x;];
        add_f32_neon_scalar ADD F32 ("s" "" "") Sum ["fadd" 1 x x a;];
        mul_f32_neon_scalar MUL F32 ("s" "" "") Product ["fmul" 1 x x b;];
        mix_f32_neon_scalar MIX F32 ("s" "" "") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f32_neon_scalar DIV F32 ("s" "" "") Quotient ["fdiv" 1 x x b;];
        sqrt_f32_neon_scalar SQRT F32 ("s" "" "") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x x;];
    }
    Neon nothing 16 ("neon" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        fma_f64_neon_128 24 FMA F64 ("v" ".2d" ".2d") FusedSum ["fmla" 2 x a b;];
        add_f64_neon_128 24 ADD F64 ("v" ".2d" ".2d") Sum ["fadd" 1 x x a;];
        mul_f64_neon_128 24 MUL F64 ("v" ".2d" ".2d") Product ["fmul" 1 x x b;];
        mix_f64_neon_128 24 MIX F64 ("v" ".2d" ".2d") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f64_neon_128 24 DIV F64 ("v" ".2d" ".2d") Quotient ["fdiv" 1 x x b;];
        sqrt_f64_neon_128 24 SQRT F64 ("v" ".2d" ".2d") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x x;];
        fma_f32_neon_128 24 FMA F32 ("v" ".4s" ".4s") FusedSum ["fmla" 2 x a b;];
        add_f32_neon_128 24 ADD F32 ("v" ".4s" ".4s") Sum ["fadd" 1 x x a;];
        mul_f32_neon_128 24 MUL F32 ("v" ".4s" ".4s") Product ["fmul" 1 x x b;];
        mix_f32_neon_128 24 MIX F32 ("v" ".4s" ".4s") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f32_neon_128 24 DIV F32 ("v" ".4s" ".4s") Quotient ["fdiv" 1 x x b;];
        sqrt_f32_neon_128 24 SQRT F32 ("v" ".4s" ".4s") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x x;];
        add_i64_neon_128 ADD I64 ("v" ".2d" ".2d") Sum ["add" 1 x x a;];
        add_i32_neon_128 ADD I32 ("v" ".4s" ".4s") Sum ["add" 1 x x a;];
        add_i16_neon_128 ADD I16 ("v" ".8h" ".8h") Sum ["add" 1 x x a;];
        add_i8_neon_128 ADD I8 ("v" ".16b" ".16b") Sum ["add" 1 x x a;];
        mul_i32_neon_128 MUL I32 ("v" ".4s" ".4s") Product ["mul" 1 x x b;];
        mul_i16_neon_128 MUL I16 ("v" ".8h" ".8h") Product ["mul" 1 x x b;];
        mul_i8_neon_128 MUL I8 ("v" ".16b" ".16b") Product ["mul" 1 x x b;];
    }
    Neon FP16 16 ("neon,fp16" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        fma_f16_neon_128 24 FMA F16 ("v" ".8h" ".8h") Flip ["fmls" 2 x x b;];
        add_f16_neon_128 ADD F16 ("v" ".8h" ".8h") From ["fsub" 1 x a x;];
        mul_f16_neon_128 MUL F16 ("v" ".8h" ".8h") Product ["fmul" 1 x x b;];
        mix_f16_neon_128 MIX F16 ("v" ".8h" ".8h") FromOrProduct ["fsub" 1 x a x;] / ["fmul" 1 x x b;];
        div_f16_neon_128 24 DIV F16 ("v" ".8h" ".8h") QuotientFrom ["fdiv" 1 x b x;];
        sqrt_f16_neon_128 24 SQRT F16 ("v" ".8h" ".8h") RoundedCircle ["fmul" 0 x x x; "fsub" 0 x b x; "fsqrt" 1 x x;];
    }
    Neon DOT_PROD 16 ("neon,dotprod" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_i8_neon_128 DOT I8 ("v" ".4s" ".16b") SignedDot ["sdot" 8 x a b;];
    }
    Neon BF16 16 ("neon,bf16" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_bf16_neon_128 24 DOT Bf16 ("v" ".4s" ".8h") ExactDot ["bfdot" 4 x a b;];
    }
    Mmla I8MM 16 ("neon,i8mm" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_i8_mmla_128 DOT I8 ("v" ".4s" ".16b") Tile ["smmla" 16 x a b;];
    }
    Mmla BF16 16 ("neon,bf16" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_bf16_mmla_128 24 DOT Bf16 ("v" ".4s" ".8h") Tile ["bfmmla" 8 x a b;];
    }
}

chained! { SVE FULL_SVE;
    Sve nothing (sve_vector_bytes()) ("sve" "ptrue p0.b" "ldr z\\i, [{rows}, #\\i, mul vl]" "str z\\i, [{rows}, #\\i, mul vl]") {
        fma_f64_sve_full 24 FMA F64 ("z" ".d" ".d") FusedSum ["fmla" 2 x p a b;];
        add_f64_sve_full 24 ADD F64 ("z" ".d" ".d") Sum ["fadd" 1 x x a;];
        mul_f64_sve_full 24 MUL F64 ("z" ".d" ".d") Product ["fmul" 1 x x b;];
        mix_f64_sve_full 24 MIX F64 ("z" ".d" ".d") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f64_sve_full 24 DIV F64 ("z" ".d" ".d") Quotient ["fdiv" 1 x p x b;];
        sqrt_f64_sve_full 24 SQRT F64 ("z" ".d" ".d") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x p x;];
        fma_f32_sve_full 24 FMA F32 ("z" ".s" ".s") FusedSum ["fmla" 2 x p a b;];
        add_f32_sve_full 24 ADD F32 ("z" ".s" ".s") Sum ["fadd" 1 x x a;];
        mul_f32_sve_full 24 MUL F32 ("z" ".s" ".s") Product ["fmul" 1 x x b;];
        mix_f32_sve_full 24 MIX F32 ("z" ".s" ".s") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f32_sve_full 24 DIV F32 ("z" ".s" ".s") Quotient ["fdiv" 1 x p x b;];
        sqrt_f32_sve_full 24 SQRT F32 ("z" ".s" ".s") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x p x;];
        fma_f16_sve_full 24 FMA F16 ("z" ".h" ".h") Flip ["fmls" 2 x p x b;];
        add_f16_sve_full ADD F16 ("z" ".h" ".h") From ["fsub" 1 x a x;];
        mul_f16_sve_full MUL F16 ("z" ".h" ".h") Product ["fmul" 1 x x b;];
        mix_f16_sve_full MIX F16 ("z" ".h" ".h") FromOrProduct ["fsub" 1 x a x;] / ["fmul" 1 x x b;];
        div_f16_sve_full 24 DIV F16 ("z" ".h" ".h") QuotientFrom ["fdivr" 1 x p x b;];
        sqrt_f16_sve_full 24 SQRT F16 ("z" ".h" ".h") RoundedCircle ["fmul" 0 x x x; "fsub" 0 x b x; "fsqrt" 1 x p x;];
        add_i64_sve_full ADD I64 ("z" ".d" ".d") Sum ["add" 1 x x a;];
        add_i32_sve_full ADD I32 ("z" ".s" ".s") Sum ["add" 1 x x a;];
        add_i16_sve_full ADD I16 ("z" ".h" ".h") Sum ["add" 1 x x a;];
        add_i8_sve_full ADD I8 ("z" ".b" ".b") Sum ["add" 1 x x a;];
        mul_i64_sve_full MUL I64 ("z" ".d" ".d") Product ["mul" 1 x p x b;];
        mul_i32_sve_full MUL I32 ("z" ".s" ".s") Product ["mul" 1 x p x b;];
        mul_i16_sve_full MUL I16 ("z" ".h" ".h") Product ["mul" 1 x p x b;];
        mul_i8_sve_full MUL I8 ("z" ".b" ".b") Product ["mul" 1 x p x b;];
        dot_i8_sve_full DOT I8 ("z" ".s" ".b") SignedDot ["sdot" 8 x a b;];
    }
    Sve BF16 (sve_vector_bytes()) ("sve,bf16" "ptrue p0.b" "ldr z\\i, [{rows}, #\\i, mul vl]" "str z\\i, [{rows}, #\\i, mul vl]") {
        dot_bf16_sve_full 24 DOT Bf16 ("z" ".s" ".h") ExactDot ["bfdot" 4 x a b;];
    }
}
