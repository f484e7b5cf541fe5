//! Kernels by number of chains: each accumulator is a chain, and only constants are shared. Scalars
//! are floating-point only: integers use other registers and units. A number after a name is the
//! accumulators, as in `vectors`, of another kernel of the same function.

use crate::arch::steps::{steps, without_width};
use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

pub(crate) fn kernels() -> impl Iterator<Item = &'static [ComputeKernel]> {
    [NARROW, BOTH, WIDE].into_iter().flatten().copied()
}

pub(crate) fn full() -> impl Iterator<Item = &'static [ComputeKernel]> {
    [FULL_SSE2, FULL_AVX2, FULL_AVX512].into_iter().flatten().copied()
}

macro_rules! each {
    ($file:literal { $phase:tt }) => {
        each!($file $phase)
    };
    ($file:literal { $phase:tt then $($later:tt)+ }) => {
        concat!(each!($file $phase), each!($file { $($later)+ }))
    };
    ($file:literal $step:tt) => {
        concat!(".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n.if \\i - 2 < {chains}\n", step!($file "\\i" "" "" $step), ".endif\n.endr\n")
    };
    ($file:literal $even:tt $odd:tt) => {
        concat!(
            ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n.if \\i - 2 < {chains}\n.if \\i & 1\n", step!($file "\\i" "" "" $odd),
            ".else\n", step!($file "\\i" "" "" $even), ".endif\n.endif\n.endr\n",
        )
    };
}

macro_rules! chain {
    (@ $file:literal $_bytes:literal $_move:literal $_end:literal $_feature:literal $registers:tt $_all:literal
        $_next:tt $_again:tt $bytes:literal $move:literal $end:literal $feature:literal $name:ident $($step:tt)+) => {
        body!($file $bytes $move $end $feature $registers $name [<const CHAINS: u32>] CHAINS, steps(CHAINS);
            each!($file $($step)+));
    };
}

macro_rules! rows {
    (zmm $name:ident $row:tt $even:tt) => {
        &chained_rows!($name $row ($even) 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24)
    };
    (zmm $name:ident $row:tt $even:tt $odd:tt) => {
        &chained_rows!($name $row ($even $odd) 2 4 6 8 10 12 14 16 18 20 22 24)
    };
    ($file:ident $name:ident $row:tt $even:tt) => {
        &chained_rows!($name $row ($even) 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    };
    ($file:ident $name:ident $row:tt $even:tt $odd:tt) => {
        &chained_rows!($name $row ($even $odd) 2 4 6 8 10 12 14)
    };
}

macro_rules! chained {
    ($kernels:ident $full:ident; $($file:ident $isa:ident $feature:literal $bytes:literal $move:literal $end:literal {$(
        $name:ident $($all:literal)? $op:ident $element:ident $recurrence:ident
            $even:tt $(/ $odd:tt)? $(needs $needs:ident)?;
    )+})+) => {
        static $kernels: &[&[ComputeKernel]] = &[$($(
            rows!($file $name ($isa $bytes, $op $element $recurrence needs!($($needs)?)) $even $($odd)?),
        )+)+];
        static $full: &[&[ComputeKernel]] = &[$($(
            &full_row!($name ($isa $bytes, $op $element $recurrence needs!($($needs)?)) ($even $($odd)?) $($all)?),
        )+)+];
        $($(in_file!($file chain $bytes $move $end $feature $name $even $($odd)?);)+)+
    };
}

chained! { NARROW FULL_SSE2;
    xmm Sse2 "sse2" 8 "movsd" "" {
        fma_f64_sse2_scalar FMA F64 RoundedScale { ["mulsd" 1 x a;] then ["addsd" 1 x b;] };
        add_f64_sse2_scalar ADD F64 Sum ["addsd" 1 x a;];
        mul_f64_sse2_scalar MUL F64 Product ["mulsd" 1 x b;];
        mix_f64_sse2_scalar MIX F64 SumOrProduct ["addsd" 1 x a;] / ["mulsd" 1 x b;];
        div_f64_sse2_scalar DIV F64 Quotient ["divsd" 1 x b;];
        sqrt_f64_sse2_scalar SQRT F64 RoundedRoot { ["mulsd" 0 x x;] then ["addsd" 0 x b;] then ["sqrtsd" 1 x x;] };
    }
    xmm Sse2 "sse2" 4 "movss" "" {
        fma_f32_sse2_scalar FMA F32 RoundedScale { ["mulss" 1 x a;] then ["addss" 1 x b;] };
        add_f32_sse2_scalar ADD F32 Sum ["addss" 1 x a;];
        mul_f32_sse2_scalar MUL F32 Product ["mulss" 1 x b;];
        mix_f32_sse2_scalar MIX F32 SumOrProduct ["addss" 1 x a;] / ["mulss" 1 x b;];
        div_f32_sse2_scalar DIV F32 Quotient ["divss" 1 x b;];
        sqrt_f32_sse2_scalar SQRT F32 RoundedRoot { ["mulss" 0 x x;] then ["addss" 0 x b;] then ["sqrtss" 1 x x;] };
    }
    xmm Sse2 "sse2" 16 "movups" "" {
        fma_f64_sse2_128 FMA F64 RoundedScale { ["mulpd" 1 x a;] then ["addpd" 1 x b;] };
        add_f64_sse2_128 12 ADD F64 Sum ["addpd" 1 x a;];
        mul_f64_sse2_128 12 MUL F64 Product ["mulpd" 1 x b;];
        mix_f64_sse2_128 12 MIX F64 SumOrProduct ["addpd" 1 x a;] / ["mulpd" 1 x b;];
        div_f64_sse2_128 12 DIV F64 Quotient ["divpd" 1 x b;];
        sqrt_f64_sse2_128 12 SQRT F64 RoundedRoot { ["mulpd" 0 x x;] then ["addpd" 0 x b;] then ["sqrtpd" 1 x x;] };
        fma_f32_sse2_128 FMA F32 RoundedScale { ["mulps" 1 x a;] then ["addps" 1 x b;] };
        add_f32_sse2_128 12 ADD F32 Sum ["addps" 1 x a;];
        mul_f32_sse2_128 12 MUL F32 Product ["mulps" 1 x b;];
        mix_f32_sse2_128 12 MIX F32 SumOrProduct ["addps" 1 x a;] / ["mulps" 1 x b;];
        div_f32_sse2_128 12 DIV F32 Quotient ["divps" 1 x b;];
        sqrt_f32_sse2_128 12 SQRT F32 RoundedRoot { ["mulps" 0 x x;] then ["addps" 0 x b;] then ["sqrtps" 1 x x;] };
        add_i64_sse2_128 ADD I64 Sum ["paddq" 1 x a;];
        add_i32_sse2_128 ADD I32 Sum ["paddd" 1 x a;];
        add_i16_sse2_128 ADD I16 Sum ["paddw" 1 x a;];
        add_i8_sse2_128 ADD I8 Sum ["paddb" 1 x a;];
        mul_i32_sse2_128 MUL I32 Product ["pmulld" 1 x b;] needs SSE41;
        mul_i16_sse2_128 MUL I16 Product ["pmullw" 1 x b;];
    }
    xmm Avx2 "avx2" 8 "vmovsd" "" {
        fma_f64_avx2_scalar FMA F64 FusedScale ["vfmadd213sd" 2 x a b;];
        add_f64_avx2_scalar ADD F64 Sum ["vaddsd" 1 x x a;];
        mul_f64_avx2_scalar MUL F64 Product ["vmulsd" 1 x x b;];
        mix_f64_avx2_scalar MIX F64 SumOrProduct ["vaddsd" 1 x x a;] / ["vmulsd" 1 x x b;];
        div_f64_avx2_scalar DIV F64 Quotient ["vdivsd" 1 x x b;];
        sqrt_f64_avx2_scalar SQRT F64 FusedRoot { ["vfmadd213sd" 0 x x b;] then ["vsqrtsd" 1 x x x;] };
    }
    xmm Avx2 "avx2" 4 "vmovss" "" {
        fma_f32_avx2_scalar FMA F32 FusedScale ["vfmadd213ss" 2 x a b;];
        add_f32_avx2_scalar ADD F32 Sum ["vaddss" 1 x x a;];
        mul_f32_avx2_scalar MUL F32 Product ["vmulss" 1 x x b;];
        mix_f32_avx2_scalar MIX F32 SumOrProduct ["vaddss" 1 x x a;] / ["vmulss" 1 x x b;];
        div_f32_avx2_scalar DIV F32 Quotient ["vdivss" 1 x x b;];
        sqrt_f32_avx2_scalar SQRT F32 FusedRoot { ["vfmadd213ss" 0 x x b;] then ["vsqrtss" 1 x x x;] };
    }
}

macro_rules! both {
    ($($narrow:ident $wide:ident $($all:literal)? ($($row:tt)+))+) => {
        chained! { BOTH FULL_AVX2;
            xmm Avx2 "avx2" 16 "vmovups" "" { $($narrow $($row)+)+ }
            ymm Avx2 "avx2" 32 "vmovups" "vzeroupper" { $($wide $($all)? $($row)+)+ }
        }
    };
}

both! {
    fma_f64_avx2_128 fma_f64_avx2_256 12 (FMA F64 FusedScale ["vfmadd213pd" 2 x a b;];)
    add_f64_avx2_128 add_f64_avx2_256 12 (ADD F64 Sum ["vaddpd" 1 x x a;];)
    mul_f64_avx2_128 mul_f64_avx2_256 12 (MUL F64 Product ["vmulpd" 1 x x b;];)
    mix_f64_avx2_128 mix_f64_avx2_256 12 (MIX F64 SumOrProduct ["vaddpd" 1 x x a;] / ["vmulpd" 1 x x b;];)
    div_f64_avx2_128 div_f64_avx2_256 12 (DIV F64 Quotient ["vdivpd" 1 x x b;];)
    sqrt_f64_avx2_128 sqrt_f64_avx2_256 12 (SQRT F64 FusedRoot { ["vfmadd213pd" 0 x x b;] then ["vsqrtpd" 1 x x;] };)
    fma_f32_avx2_128 fma_f32_avx2_256 12 (FMA F32 FusedScale ["vfmadd213ps" 2 x a b;];)
    add_f32_avx2_128 add_f32_avx2_256 12 (ADD F32 Sum ["vaddps" 1 x x a;];)
    mul_f32_avx2_128 mul_f32_avx2_256 12 (MUL F32 Product ["vmulps" 1 x x b;];)
    mix_f32_avx2_128 mix_f32_avx2_256 12 (MIX F32 SumOrProduct ["vaddps" 1 x x a;] / ["vmulps" 1 x x b;];)
    div_f32_avx2_128 div_f32_avx2_256 12 (DIV F32 Quotient ["vdivps" 1 x x b;];)
    sqrt_f32_avx2_128 sqrt_f32_avx2_256 12 (SQRT F32 FusedRoot { ["vfmadd213ps" 0 x x b;] then ["vsqrtps" 1 x x;] };)
    add_i64_avx2_128 add_i64_avx2_256 (ADD I64 Sum ["vpaddq" 1 x x a;];)
    add_i32_avx2_128 add_i32_avx2_256 (ADD I32 Sum ["vpaddd" 1 x x a;];)
    add_i16_avx2_128 add_i16_avx2_256 (ADD I16 Sum ["vpaddw" 1 x x a;];)
    add_i8_avx2_128 add_i8_avx2_256 (ADD I8 Sum ["vpaddb" 1 x x a;];)
    mul_i32_avx2_128 mul_i32_avx2_256 (MUL I32 Product ["vpmulld" 1 x x b;];)
    mul_i16_avx2_128 mul_i16_avx2_256 (MUL I16 Product ["vpmullw" 1 x x b;];)
    dot_i8_avx2_128 dot_i8_avx2_256 (DOT I8 Dot [vex "vpdpbusd" 8 x a b;] needs AVX_VNNI;)
    dot_i16_avx2_128 dot_i16_avx2_256 (DOT I16 Dot [vex "vpdpwssd" 4 x a b;] needs AVX_VNNI;)
}

chained! { WIDE FULL_AVX512;
    zmm Avx512 "avx512f" 64 "vmovups" "vzeroupper" {
        fma_f64_avx512_512 24 FMA F64 FusedScale ["vfmadd213pd" 2 x a b;];
        add_f64_avx512_512 24 ADD F64 Sum ["vaddpd" 1 x x a;];
        mul_f64_avx512_512 24 MUL F64 Product ["vmulpd" 1 x x b;];
        mix_f64_avx512_512 24 MIX F64 SumOrProduct ["vaddpd" 1 x x a;] / ["vmulpd" 1 x x b;];
        div_f64_avx512_512 24 DIV F64 Quotient ["vdivpd" 1 x x b;];
        sqrt_f64_avx512_512 24 SQRT F64 FusedRoot { ["vfmadd213pd" 0 x x b;] then ["vsqrtpd" 1 x x;] };
        fma_f32_avx512_512 24 FMA F32 FusedScale ["vfmadd213ps" 2 x a b;];
        add_f32_avx512_512 24 ADD F32 Sum ["vaddps" 1 x x a;];
        mul_f32_avx512_512 24 MUL F32 Product ["vmulps" 1 x x b;];
        mix_f32_avx512_512 24 MIX F32 SumOrProduct ["vaddps" 1 x x a;] / ["vmulps" 1 x x b;];
        div_f32_avx512_512 24 DIV F32 Quotient ["vdivps" 1 x x b;];
        sqrt_f32_avx512_512 24 SQRT F32 FusedRoot { ["vfmadd213ps" 0 x x b;] then ["vsqrtps" 1 x x;] };
        fma_f16_avx512_512 24 FMA F16 SquareFrom ["vfnmadd213ph" 2 x x b;] needs AVX512_FP16;
        add_f16_avx512_512 ADD F16 From ["vsubph" 1 x a x;] needs AVX512_FP16;
        mul_f16_avx512_512 MUL F16 Product ["vmulph" 1 x x b;] needs AVX512_FP16;
        mix_f16_avx512_512 MIX F16 FromOrProduct ["vsubph" 1 x a x;] / ["vmulph" 1 x x b;] needs AVX512_FP16;
        div_f16_avx512_512 24 DIV F16 QuotientFrom ["vdivph" 1 x b x;] needs AVX512_FP16;
        sqrt_f16_avx512_512 24 SQRT F16 FusedCircle { ["vfnmadd213ph" 0 x x b;] then ["vsqrtph" 1 x x;] } needs AVX512_FP16;
        add_i64_avx512_512 ADD I64 Sum ["vpaddq" 1 x x a;];
        add_i32_avx512_512 ADD I32 Sum ["vpaddd" 1 x x a;];
        add_i16_avx512_512 ADD I16 Sum ["vpaddw" 1 x x a;];
        add_i8_avx512_512 ADD I8 Sum ["vpaddb" 1 x x a;];
        mul_i64_avx512_512 MUL I64 Product ["vpmullq" 1 x x b;];
        mul_i32_avx512_512 MUL I32 Product ["vpmulld" 1 x x b;];
        mul_i16_avx512_512 MUL I16 Product ["vpmullw" 1 x x b;];
        dot_i8_avx512_512 DOT I8 Dot ["vpdpbusd" 8 x a b;] needs AVX512_VNNI;
        dot_i16_avx512_512 DOT I16 Dot ["vpdpwssd" 4 x a b;] needs AVX512_VNNI;
        dot_bf16_avx512_512 24 DOT Bf16 ExactDot ["vdpbf16ps" 4 x a b;] needs AVX512_BF16;
    }
}
