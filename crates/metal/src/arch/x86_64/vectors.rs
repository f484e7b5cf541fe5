//! Vector kernels whose accumulators use each other. Five cycles of latency (Haswell) on two pipes
//! need ten. Twelve, because alternating operations lose 5 % on Zen 4 with fourteen; of AVX-512
//! twenty-four: on Zen 4, whose pipes take two cycles per instruction, sixteen lose 5 % in integer
//! additions and 13 % in `mix`. SSE2's multiply-add is in `pipeline`.

use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

macro_rules! ring {
    ($file:ident $name:ident $chains:literal $even:tt) => {
        in_file!($file ring $name $chains $even $even);
    };
    ($file:ident $name:ident $chains:literal $even:tt $odd:tt) => {
        in_file!($file ring $name $chains $even $odd);
    };
    (@ $file:literal $bytes:literal $move:literal $end:literal $feature:literal $registers:tt $_all:literal
        ($($next:tt)+) $_again:tt $name:ident $chains:literal $even:tt $odd:tt) => {
        body!($file $bytes $move $end $feature $registers $name [] $chains, 1;
            turn!($file $even $odd; $($next)+));
    };
}

macro_rules! kernels {
    ($($file:ident $isa:ident $bytes:literal $chains:literal {$(
        $name:ident $op:ident $element:ident $recurrence:ident $even:tt $(/ $odd:tt)? $(needs $feature:ident)?;
    )+})+) => {
        pub(crate) static KERNELS: &[ComputeKernel] = &[$($(
            row!(stringify!($name), $name; $chains, 1, false; $isa $bytes, $op $element $recurrence needs!($($feature)?), $even $($odd)?),
        )+)+];
        $($(ring!($file $name $chains $even $($odd)?);)+)+
    };
}

kernels! {
    xmm Sse2 16 12 {
        add_i64_sse2 ADD I64 RingOrSum ["paddq" 1 x m;] / ["paddq" 1 x a;];
        add_i32_sse2 ADD I32 RingOrSum ["paddd" 1 x m;] / ["paddd" 1 x a;];
        add_i16_sse2 ADD I16 RingOrSum ["paddw" 1 x m;] / ["paddw" 1 x a;];
        add_i8_sse2 ADD I8 RingOrSum ["paddb" 1 x m;] / ["paddb" 1 x a;];
        mul_i32_sse2 MUL I32 NextProduct ["pmulld" 1 x n;] needs SSE41;
        mul_i16_sse2 MUL I16 NextProduct ["pmullw" 1 x n;];
    }
    ymm Avx2 32 12 {
        add_i64_avx2 ADD I64 RingOrSum ["vpaddq" 1 x x m;] / ["vpaddq" 1 x x a;];
        add_i32_avx2 ADD I32 RingOrSum ["vpaddd" 1 x x m;] / ["vpaddd" 1 x x a;];
        add_i16_avx2 ADD I16 RingOrSum ["vpaddw" 1 x x m;] / ["vpaddw" 1 x x a;];
        add_i8_avx2 ADD I8 RingOrSum ["vpaddb" 1 x x m;] / ["vpaddb" 1 x x a;];
        mul_i32_avx2 MUL I32 NextProduct ["vpmulld" 1 x x n;];
        mul_i16_avx2 MUL I16 NextProduct ["vpmullw" 1 x x n;];
        dot_i8_avx2 DOT I8 NextDot [vex "vpdpbusd" 8 x n b;] needs AVX_VNNI;
        dot_i16_avx2 DOT I16 NextDot [vex "vpdpwssd" 4 x n b;] needs AVX_VNNI;
    }
    zmm Avx512 64 24 {
        add_f16_avx512 ADD F16 NextFrom ["vsubph" 1 x b n;] needs AVX512_FP16;
        mul_f16_avx512 MUL F16 NextScale ["vmulph" 1 x n a;] / ["vmulph" 1 x n b;] needs AVX512_FP16;
        mix_f16_avx512 MIX F16 NextFromOrSquare ["vsubph" 1 x b n;] / ["vmulph" 1 x n n;] needs AVX512_FP16;
        add_i64_avx512 ADD I64 NextSum ["vpaddq" 1 x x n;];
        add_i32_avx512 ADD I32 NextSum ["vpaddd" 1 x x n;];
        add_i16_avx512 ADD I16 NextSum ["vpaddw" 1 x x n;];
        add_i8_avx512 ADD I8 NextSum ["vpaddb" 1 x x n;];
        mul_i64_avx512 MUL I64 NextProduct ["vpmullq" 1 x x n;];
        mul_i32_avx512 MUL I32 NextProduct ["vpmulld" 1 x x n;];
        mul_i16_avx512 MUL I16 NextProduct ["vpmullw" 1 x x n;];
        dot_i8_avx512 DOT I8 NextDot ["vpdpbusd" 8 x n b;] needs AVX512_VNNI;
        dot_i16_avx512 DOT I16 NextDot ["vpdpwssd" 4 x n b;] needs AVX512_VNNI;
    }
}
