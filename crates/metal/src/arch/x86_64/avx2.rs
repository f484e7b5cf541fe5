//! AVX2 + FMA kernels: 256-bit vectors. Five cycles of latency (Haswell) on two pipes need ten
//! accumulators. Twelve, because alternating operations lose 5 % on Zen 4 with fourteen.

use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

kernels! { ymm Avx2 32 6;
    fma_f64_avx2 FMA F64 FusedScale ["vfmadd213pd" 2 x a b;];
    add_f64_avx2 ADD F64 Sum ["vaddpd" 1 x x a;];
    mul_f64_avx2 MUL F64 Product ["vmulpd" 1 x x b;];
    mix_f64_avx2 MIX F64 SumOrProduct ["vaddpd" 1 x x a;] / ["vmulpd" 1 x x b;];
    div_f64_avx2 DIV F64 Quotient ["vdivpd" 1 x x b;];
    sqrt_f64_avx2 SQRT F64 FusedRoot { ["vfmadd213pd" 0 x x b;] then ["vsqrtpd" 1 x x;] };
    fma_f32_avx2 FMA F32 FusedScale ["vfmadd213ps" 2 x a b;];
    add_f32_avx2 ADD F32 Sum ["vaddps" 1 x x a;];
    mul_f32_avx2 MUL F32 Product ["vmulps" 1 x x b;];
    mix_f32_avx2 MIX F32 SumOrProduct ["vaddps" 1 x x a;] / ["vmulps" 1 x x b;];
    div_f32_avx2 DIV F32 Quotient ["vdivps" 1 x x b;];
    sqrt_f32_avx2 SQRT F32 FusedRoot { ["vfmadd213ps" 0 x x b;] then ["vsqrtps" 1 x x;] };
    add_i64_avx2 ADD I64 RingOrSum ["vpaddq" 1 x x m;] / ["vpaddq" 1 x x a;];
    add_i32_avx2 ADD I32 RingOrSum ["vpaddd" 1 x x m;] / ["vpaddd" 1 x x a;];
    add_i16_avx2 ADD I16 RingOrSum ["vpaddw" 1 x x m;] / ["vpaddw" 1 x x a;];
    add_i8_avx2 ADD I8 RingOrSum ["vpaddb" 1 x x m;] / ["vpaddb" 1 x x a;];
    mul_i32_avx2 MUL I32 NextProduct ["vpmulld" 1 x x n;];
    mul_i16_avx2 MUL I16 NextProduct ["vpmullw" 1 x x n;];
    dot_i8_avx2 DOT I8 NextDot [vex "vpdpbusd" 8 x n b;] needs AVX_VNNI;
    dot_i16_avx2 DOT I16 NextDot [vex "vpdpwssd" 4 x n b;] needs AVX_VNNI;
}
