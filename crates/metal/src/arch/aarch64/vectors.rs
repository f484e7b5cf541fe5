//! NEON and SVE kernels whose accumulators use each other, and a product of matrices, in registers
//! throughout. Four cycles of latency on four pipes (Neoverse V1, V2) need sixteen accumulators.

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
        add_i64_neon ADD I64 ("v" ".2d" ".2d") NextSum ["add" 1 x x n;];
        add_i32_neon ADD I32 ("v" ".4s" ".4s") NextSum ["add" 1 x x n;];
        add_i16_neon ADD I16 ("v" ".8h" ".8h") NextSum ["add" 1 x x n;];
        add_i8_neon ADD I8 ("v" ".16b" ".16b") NextSum ["add" 1 x x n;];
        mul_i32_neon MUL I32 ("v" ".4s" ".4s") NextProduct ["mul" 1 x x n;];
        mul_i16_neon MUL I16 ("v" ".8h" ".8h") NextProduct ["mul" 1 x x n;];
        mul_i8_neon MUL I8 ("v" ".16b" ".16b") NextProduct ["mul" 1 x x n;];
    }
    Neon FP16 16 ("neon,fp16" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        add_f16_neon ADD F16 ("v" ".8h" ".8h") NextFrom ["fsub" 1 x b n;];
        mul_f16_neon MUL F16 ("v" ".8h" ".8h") NextScale ["fmul" 1 x n a;] / ["fmul" 1 x n b;];
        mix_f16_neon MIX F16 ("v" ".8h" ".8h") NextFromOrSquare ["fsub" 1 x b n;] / ["fmul" 1 x n n;];
    }
    Neon DOT_PROD 16 ("neon,dotprod" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_i8_neon DOT I8 ("v" ".4s" ".16b") NextSignedDot ["sdot" 8 x n b;];
    }
    Mmla I8MM 16 ("neon,i8mm" "" "ldr q\\i, [{rows}, #(16*\\i)]" "str q\\i, [{rows}, #(16*\\i)]") {
        dot_i8_mmla DOT I8 ("v" ".4s" ".16b") Tile ["smmla" 16 x a b;];
    }
}

kernels! { SVE;
    Sve nothing (sve_vector_bytes()) ("sve" "ptrue p0.b" "ldr z\\i, [{rows}, #\\i, mul vl]" "str z\\i, [{rows}, #\\i, mul vl]") {
        add_f16_sve ADD F16 ("z" ".h" ".h") NextFrom ["fsub" 1 x b n;];
        mul_f16_sve MUL F16 ("z" ".h" ".h") NextScale ["fmul" 1 x n a;] / ["fmul" 1 x n b;];
        mix_f16_sve MIX F16 ("z" ".h" ".h") NextFromOrSquare ["fsub" 1 x b n;] / ["fmul" 1 x n n;];
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
}
