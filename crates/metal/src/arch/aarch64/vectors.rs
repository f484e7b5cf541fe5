//! NEON and SVE kernels, in registers throughout. FMLA only accumulates, so its recurrence is a sum
//! of products. Four cycles of latency on four pipes (Neoverse V1, V2) need sixteen accumulators.

use std::sync::LazyLock;

use super::sve_vector_bytes;
use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

macro_rules! full {
    ($name:ident $how:tt $lanes:tt $even:tt) => {
        full!($name $how $lanes $even $even);
    };
    ($name:ident $how:tt $lanes:tt $even:tt $odd:tt) => {
        body!($name [] $how 24, 1;
            turn!($lanes $even $odd; 2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 14, 14 15 16, 16 17 18, 18 19 20, 20 21 22, 22 23 24, 24 25 2),);
    };
}

macro_rules! kernels {
    ($kernels:ident; $($isa:ident $needs:ident $bytes:tt $how:tt {$(
        $name:ident $op:ident $element:ident $lanes:tt $recurrence:ident $even:tt $(/ $odd:tt)?;
    )+})+) => {
        pub(crate) static $kernels: LazyLock<Vec<ComputeKernel>> = LazyLock::new(|| vec![$($(
            row!(stringify!($name), $name; 24, 1, false; $isa $bytes, $op $element $recurrence needs!($needs), $even $($odd)?),
        )+)+]);
        $($(full!($name $how $lanes $even $($odd)?);)+)+
    };
}

kernels! { NEON;
    Neon nothing 16 ("neon" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        fma_f64_neon FMA F64 ("v" ".2d" ".2d") FusedSum ["fmla" 2 x a b;];
        add_f64_neon ADD F64 ("v" ".2d" ".2d") Sum ["fadd" 1 x x a;];
        mul_f64_neon MUL F64 ("v" ".2d" ".2d") Product ["fmul" 1 x x b;];
        mix_f64_neon MIX F64 ("v" ".2d" ".2d") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f64_neon DIV F64 ("v" ".2d" ".2d") Quotient ["fdiv" 1 x x b;];
        sqrt_f64_neon SQRT F64 ("v" ".2d" ".2d") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x x;];
        fma_f32_neon FMA F32 ("v" ".4s" ".4s") FusedSum ["fmla" 2 x a b;];
        add_f32_neon ADD F32 ("v" ".4s" ".4s") Sum ["fadd" 1 x x a;];
        mul_f32_neon MUL F32 ("v" ".4s" ".4s") Product ["fmul" 1 x x b;];
        mix_f32_neon MIX F32 ("v" ".4s" ".4s") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f32_neon DIV F32 ("v" ".4s" ".4s") Quotient ["fdiv" 1 x x b;];
        sqrt_f32_neon SQRT F32 ("v" ".4s" ".4s") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x x;];
        add_i64_neon ADD I64 ("v" ".2d" ".2d") NextSum ["add" 1 x x n;];
        add_i32_neon ADD I32 ("v" ".4s" ".4s") NextSum ["add" 1 x x n;];
        add_i16_neon ADD I16 ("v" ".8h" ".8h") NextSum ["add" 1 x x n;];
        add_i8_neon ADD I8 ("v" ".16b" ".16b") NextSum ["add" 1 x x n;];
        mul_i32_neon MUL I32 ("v" ".4s" ".4s") NextProduct ["mul" 1 x x n;];
        mul_i16_neon MUL I16 ("v" ".8h" ".8h") NextProduct ["mul" 1 x x n;];
        mul_i8_neon MUL I8 ("v" ".16b" ".16b") NextProduct ["mul" 1 x x n;];
    }
    Neon FP16 16 ("neon,fp16" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        fma_f16_neon FMA F16 ("v" ".8h" ".8h") Flip ["fmls" 2 x x b;];
        add_f16_neon ADD F16 ("v" ".8h" ".8h") NextFrom ["fsub" 1 x b n;];
        mul_f16_neon MUL F16 ("v" ".8h" ".8h") NextScale ["fmul" 1 x n a;] / ["fmul" 1 x n b;];
        mix_f16_neon MIX F16 ("v" ".8h" ".8h") NextFromOrSquare ["fsub" 1 x b n;] / ["fmul" 1 x n n;];
        div_f16_neon DIV F16 ("v" ".8h" ".8h") QuotientFrom ["fdiv" 1 x b x;];
        sqrt_f16_neon SQRT F16 ("v" ".8h" ".8h") RoundedCircle ["fmul" 0 x x x; "fsub" 0 x b x; "fsqrt" 1 x x;];
    }
    Neon DOT_PROD 16 ("neon,dotprod" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_i8_neon DOT I8 ("v" ".4s" ".16b") NextSignedDot ["sdot" 8 x n b;];
    }
    Neon BF16 16 ("neon,bf16" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_bf16_neon DOT Bf16 ("v" ".4s" ".8h") ExactDot ["bfdot" 4 x a b;];
    }
    Mmla I8MM 16 ("neon,i8mm" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_i8_mmla DOT I8 ("v" ".4s" ".16b") Tile ["smmla" 16 x a b;];
    }
    Mmla BF16 16 ("neon,bf16" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_bf16_mmla DOT Bf16 ("v" ".4s" ".8h") Tile ["bfmmla" 8 x a b;];
    }
}

kernels! { SVE;
    Sve nothing (sve_vector_bytes()) ("sve" "ptrue p0.b" "ldr z\\i, [{rows}, #\\i, mul vl]" "str z\\i, [{rows}, #\\i, mul vl]") {
        fma_f64_sve FMA F64 ("z" ".d" ".d") FusedSum ["fmla" 2 x p a b;];
        add_f64_sve ADD F64 ("z" ".d" ".d") Sum ["fadd" 1 x x a;];
        mul_f64_sve MUL F64 ("z" ".d" ".d") Product ["fmul" 1 x x b;];
        mix_f64_sve MIX F64 ("z" ".d" ".d") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f64_sve DIV F64 ("z" ".d" ".d") Quotient ["fdiv" 1 x p x b;];
        sqrt_f64_sve SQRT F64 ("z" ".d" ".d") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x p x;];
        fma_f32_sve FMA F32 ("z" ".s" ".s") FusedSum ["fmla" 2 x p a b;];
        add_f32_sve ADD F32 ("z" ".s" ".s") Sum ["fadd" 1 x x a;];
        mul_f32_sve MUL F32 ("z" ".s" ".s") Product ["fmul" 1 x x b;];
        mix_f32_sve MIX F32 ("z" ".s" ".s") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f32_sve DIV F32 ("z" ".s" ".s") Quotient ["fdiv" 1 x p x b;];
        sqrt_f32_sve SQRT F32 ("z" ".s" ".s") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x p x;];
        fma_f16_sve FMA F16 ("z" ".h" ".h") Flip ["fmls" 2 x p x b;];
        add_f16_sve ADD F16 ("z" ".h" ".h") NextFrom ["fsub" 1 x b n;];
        mul_f16_sve MUL F16 ("z" ".h" ".h") NextScale ["fmul" 1 x n a;] / ["fmul" 1 x n b;];
        mix_f16_sve MIX F16 ("z" ".h" ".h") NextFromOrSquare ["fsub" 1 x b n;] / ["fmul" 1 x n n;];
        div_f16_sve DIV F16 ("z" ".h" ".h") QuotientFrom ["fdivr" 1 x p x b;];
        sqrt_f16_sve SQRT F16 ("z" ".h" ".h") RoundedCircle ["fmul" 0 x x x; "fsub" 0 x b x; "fsqrt" 1 x p x;];
        add_i64_sve ADD I64 ("z" ".d" ".d") NextSum ["add" 1 x x n;];
        add_i32_sve ADD I32 ("z" ".s" ".s") NextSum ["add" 1 x x n;];
        add_i16_sve ADD I16 ("z" ".h" ".h") NextSum ["add" 1 x x n;];
        add_i8_sve ADD I8 ("z" ".b" ".b") NextSum ["add" 1 x x n;];
        mul_i64_sve MUL I64 ("z" ".d" ".d") NextProduct ["mul" 1 x p x n;];
        mul_i32_sve MUL I32 ("z" ".s" ".s") NextProduct ["mul" 1 x p x n;];
        mul_i16_sve MUL I16 ("z" ".h" ".h") NextProduct ["mul" 1 x p x n;];
        mul_i8_sve MUL I8 ("z" ".b" ".b") NextProduct ["mul" 1 x p x n;];
        dot_i8_sve DOT I8 ("z" ".s" ".b") NextSignedDot ["sdot" 8 x n b;];
    }
    Sve BF16 (sve_vector_bytes()) ("sve,bf16" "ptrue p0.b" "ldr z\\i, [{rows}, #\\i, mul vl]" "str z\\i, [{rows}, #\\i, mul vl]") {
        dot_bf16_sve DOT Bf16 ("z" ".s" ".h") ExactDot ["bfdot" 4 x a b;];
    }
}
