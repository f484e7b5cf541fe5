//! AVX-512 kernels: 512-bit vectors. Twenty-four accumulators: on Zen 4, whose pipes take two
//! cycles per instruction, sixteen lose 5 % in integer additions and 13 % in `mix`.

use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

kernels! { zmm Avx512 64 12;
    fma_f64_avx512 FMA F64 FusedScale ["vfmadd213pd" 2 x a b;];
    add_f64_avx512 ADD F64 Sum ["vaddpd" 1 x x a;];
    mul_f64_avx512 MUL F64 Product ["vmulpd" 1 x x b;];
    mix_f64_avx512 MIX F64 SumOrProduct ["vaddpd" 1 x x a;] / ["vmulpd" 1 x x b;];
    div_f64_avx512 DIV F64 Quotient ["vdivpd" 1 x x b;];
    sqrt_f64_avx512 SQRT F64 FusedRoot { ["vfmadd213pd" 0 x x b;] then ["vsqrtpd" 1 x x;] };
    fma_f32_avx512 FMA F32 FusedScale ["vfmadd213ps" 2 x a b;];
    add_f32_avx512 ADD F32 Sum ["vaddps" 1 x x a;];
    mul_f32_avx512 MUL F32 Product ["vmulps" 1 x x b;];
    mix_f32_avx512 MIX F32 SumOrProduct ["vaddps" 1 x x a;] / ["vmulps" 1 x x b;];
    div_f32_avx512 DIV F32 Quotient ["vdivps" 1 x x b;];
    sqrt_f32_avx512 SQRT F32 FusedRoot { ["vfmadd213ps" 0 x x b;] then ["vsqrtps" 1 x x;] };
    fma_f16_avx512 FMA F16 SquareFrom ["vfnmadd213ph" 2 x x b;] needs AVX512_FP16;
    add_f16_avx512 ADD F16 NextFrom ["vsubph" 1 x b n;] needs AVX512_FP16;
    mul_f16_avx512 MUL F16 NextScale ["vmulph" 1 x n a;] / ["vmulph" 1 x n b;] needs AVX512_FP16;
    mix_f16_avx512 MIX F16 NextFromOrSquare ["vsubph" 1 x b n;] / ["vmulph" 1 x n n;] needs AVX512_FP16;
    div_f16_avx512 DIV F16 QuotientFrom ["vdivph" 1 x b x;] needs AVX512_FP16;
    sqrt_f16_avx512 SQRT F16 FusedCircle { ["vfnmadd213ph" 0 x x b;] then ["vsqrtph" 1 x x;] } needs AVX512_FP16;
    add_i64_avx512 ADD I64 NextSum ["vpaddq" 1 x x n;];
    add_i32_avx512 ADD I32 NextSum ["vpaddd" 1 x x n;];
    add_i16_avx512 ADD I16 NextSum ["vpaddw" 1 x x n;];
    add_i8_avx512 ADD I8 NextSum ["vpaddb" 1 x x n;];
    mul_i64_avx512 MUL I64 NextProduct ["vpmullq" 1 x x n;];
    mul_i32_avx512 MUL I32 NextProduct ["vpmulld" 1 x x n;];
    mul_i16_avx512 MUL I16 NextProduct ["vpmullw" 1 x x n;];
    dot_i8_avx512 DOT I8 NextDot ["vpdpbusd" 8 x n b;] needs AVX512_VNNI;
    dot_i16_avx512 DOT I16 NextDot ["vpdpwssd" 4 x n b;] needs AVX512_VNNI;
    dot_bf16_avx512 DOT Bf16 ExactDot ["vdpbf16ps" 4 x a b;] needs AVX512_BF16;
}
