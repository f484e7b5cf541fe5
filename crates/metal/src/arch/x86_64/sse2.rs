//! SSE2 kernels: 128-bit vectors. Twelve accumulators, as AVX2; the multiply-add is in `pipeline`.

use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

kernels! { xmm Sse2 16 6;
    add_f64_sse2 ADD F64 Sum ["addpd" 1 x a;];
    mul_f64_sse2 MUL F64 Product ["mulpd" 1 x b;];
    mix_f64_sse2 MIX F64 SumOrProduct ["addpd" 1 x a;] / ["mulpd" 1 x b;];
    div_f64_sse2 DIV F64 Quotient ["divpd" 1 x b;];
    sqrt_f64_sse2 SQRT F64 RoundedRoot { ["mulpd" 0 x x;] then ["addpd" 0 x b;] then ["sqrtpd" 1 x x;] };
    add_f32_sse2 ADD F32 Sum ["addps" 1 x a;];
    mul_f32_sse2 MUL F32 Product ["mulps" 1 x b;];
    mix_f32_sse2 MIX F32 SumOrProduct ["addps" 1 x a;] / ["mulps" 1 x b;];
    div_f32_sse2 DIV F32 Quotient ["divps" 1 x b;];
    sqrt_f32_sse2 SQRT F32 RoundedRoot { ["mulps" 0 x x;] then ["addps" 0 x b;] then ["sqrtps" 1 x x;] };
    add_i64_sse2 ADD I64 RingOrSum ["paddq" 1 x m;] / ["paddq" 1 x a;];
    add_i32_sse2 ADD I32 RingOrSum ["paddd" 1 x m;] / ["paddd" 1 x a;];
    add_i16_sse2 ADD I16 RingOrSum ["paddw" 1 x m;] / ["paddw" 1 x a;];
    add_i8_sse2 ADD I8 RingOrSum ["paddb" 1 x m;] / ["paddb" 1 x a;];
    mul_i32_sse2 MUL I32 NextProduct ["pmulld" 1 x n;] needs SSE41;
    mul_i16_sse2 MUL I16 NextProduct ["pmullw" 1 x n;];
}
