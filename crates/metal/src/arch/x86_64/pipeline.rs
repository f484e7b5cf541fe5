//! Separate multiplications and additions as a software pipeline: x ← x·a + b, the product rounded.
//! The best order depends on the core, so [`crate::capability::fastest_variant`] selects one: Zen 4
//! prefers pairs (alternatives lose 5 to 12 %), Zen 5 loses 6 % with them.

use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

macro_rules! pipelines {
    ($($name:ident $op:ident $element:ident $isa:ident $bytes:literal $file:ident $order:ident $multiply:literal $add:literal;)+) => {
        /// Rows; the default of an operation precedes its variant.
        pub(crate) static KERNELS: &[ComputeKernel] = &[$(
            row!(stringify!($name), $name; 14, 1, false; $isa $bytes, $op $element RoundedScale None, { [$multiply 1 x;] then [$add 1 x;] }),
        )+];
        $(in_file!($file pipeline $file $name $order $multiply $add);)+
    };
}

macro_rules! instruction {
    (xmm $mnemonic:literal $i:literal $constant:literal) => {
        concat!($mnemonic, " xmm", $i, ", xmm", $constant, "\n")
    };
    (ymm $mnemonic:literal $i:literal $constant:literal) => {
        concat!($mnemonic, " ymm", $i, ", ymm", $i, ", ymm", $constant, "\n")
    };
}

macro_rules! groups {
    ($file:ident pairs $multiply:literal $add:literal; $($i:literal $j:literal $k:literal $l:literal),*) => {
        concat!($(
            instruction!($file $multiply $i "0"), instruction!($file $multiply $j "0"),
            instruction!($file $add $k "1"), instruction!($file $add $l "1"),
        )*)
    };
    ($file:ident in_turn $multiply:literal $add:literal; $($i:literal $j:literal $k:literal $l:literal),*) => {
        concat!($(
            instruction!($file $multiply $i "0"), instruction!($file $add $k "1"),
            instruction!($file $multiply $j "0"), instruction!($file $add $l "1"),
        )*)
    };
    ($file:ident sum_first $multiply:literal $add:literal; $($i:literal $j:literal $k:literal $l:literal),*) => {
        concat!($(
            instruction!($file $add $k "1"), instruction!($file $multiply $i "0"),
            instruction!($file $add $l "1"), instruction!($file $multiply $j "0"),
        )*)
    };
}

/// Register 0 is the multiplier, 1 the addend, 2 to 15 are accumulators. The upper half is
/// multiplied once before the loop, and the last iteration follows it.
macro_rules! pipeline {
    (@ $register:literal $bytes:literal $move:literal $end:literal $feature:literal $registers:tt $_all:literal
        $_next:tt $_again:tt $file:ident $name:ident $order:ident $multiply:literal $add:literal) => {
        looped!(
            /// Runs `turns` > 0 iterations on `vectors`. Safety: see `ComputeKernel::function`.
            $name [] (vectors: &mut Vectors) vectors.rows(), 14, $feature
            "" [concat!($move, " ", $register, "\\i, [{rows} + ", $bytes, "*\\i]")]
            [
                ".irp i, 9,10,11,12,13,14,15",
                instruction!($file $multiply "\\i" "0"),
                ".endr",
                "dec {turns}",
                "jz 3f",
            ]
            [
                groups!($file $order $multiply $add;
                    2 3 9 10, 4 5 11 12, 6 7 13 14, 8 9 15 2, 10 11 3 4, 12 13 5 6, 14 15 7 8),
                touch!($bytes),
                "dec {turns}",
                "jnz 2b",
                "3:",
                ".irp i, 2,3,4,5,6,7,8",
                instruction!($file $multiply "\\i" "0"),
                instruction!($file $add "\\i" "1"),
                ".endr",
                ".irp i, 9,10,11,12,13,14,15",
                instruction!($file $add "\\i" "1"),
                ".endr",
            ]
            [concat!($move, " [{rows} + ", $bytes, "*\\i], ", $register, "\\i"),]
            $end $registers []
        );
    };
}

pipelines! {
    fma_f64_sse2 FMA F64 Sse2 16 xmm pairs "mulpd" "addpd";
    fma_f32_sse2 FMA F32 Sse2 16 xmm pairs "mulps" "addps";
    fma_f64_sse2_in_turn FMA F64 Sse2 16 xmm in_turn "mulpd" "addpd";
    fma_f32_sse2_in_turn FMA F32 Sse2 16 xmm in_turn "mulps" "addps";
    mix_f64_sse2_in_turn MIX F64 Sse2 16 xmm sum_first "mulpd" "addpd";
    mix_f32_sse2_in_turn MIX F32 Sse2 16 xmm sum_first "mulps" "addps";
    mix_f64_avx2_in_turn MIX F64 Avx2 32 ymm sum_first "vmulpd" "vaddpd";
    mix_f32_avx2_in_turn MIX F32 Avx2 32 ymm sum_first "vmulps" "vaddps";
}
