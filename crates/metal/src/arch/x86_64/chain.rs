//! Clock chains of x86-64: alone, and interleaved with vector work of each width. Register +
//! register, because newer cores eliminate additions of immediates (Golden Cove).

use core::arch::asm;

use crate::arch::chain::{Density, Weight, Woven};
use crate::isa::Isa;
use crate::kernel::{Element, Op};

macro_rules! weave {
    ($file:literal $link:literal $each:literal $even:tt $odd:tt; $($i:literal $j:literal $k:literal),*) => {
        concat!($(
            step!($file $i $j $k $even), step!($file $j $k "no other" $odd), ".rept ", $each, "\n", $link, "\n.endr\n",
        )*)
    };
}

macro_rules! woven {
    ($file:ident ($even:tt $odd:tt) $($more:tt)+) => {
        in_file!($file woven $even $odd $($more)+);
    };
    (@ $file:literal $bytes:literal $move:literal $end:literal $feature:literal $registers:tt $chains:literal
        ($($i:literal $j:literal $k:literal),+) ($($l:literal $m:literal $n:literal),*) $even:tt $odd:tt $name:ident $link:literal $each:literal $last:literal) => {
        looped!(
            /// Runs `turns` > 0 iterations of dependent integer instructions amid vector work.
            /// Safety: needs the instruction set, and at `rows` the operands of its kernels.
            $name [] (rows: *const u8) rows, $chains, $feature
            "" [concat!($move, " ", $file, "\\i, [{rows} + ", $bytes, "*\\i]")]
            [] [
                concat!(
                    weave!($file $link $each $even $odd; $($i $j $k),+),
                    weave!($file $link $each $even $odd; $($l $m $n),*),
                ),
                concat!(".rept ", $last),
                $link,
                ".endr",
                "dec {turns}",
                "jnz 2b",
            ]
            [] $end $registers [sum = inout(reg) 1_u64 => _, step = in(reg) 3_u64,]
        );
    };
}

chains! { ("add {sum}, {step}" "imul {sum}, {step}" "dec {turns}" "jnz 2b")
    xmm Sse2 Heavy MIX F64 (["addpd" 1 x a;] ["mulpd" 1 x b;])
        (chain_add_mix_sse2_13 chain_add_mix_sse2_36 chain_add_mix_sse2_108)
        (chain_multiply_mix_sse2_5 chain_multiply_mix_sse2_14 chain_multiply_mix_sse2_41);
    xmm Sse2 Light ADD I64 (["paddq" 1 x n;] ["paddq" 1 x n;])
        (chain_add_paddq_sse2_13 chain_add_paddq_sse2_36 chain_add_paddq_sse2_108)
        (chain_multiply_paddq_sse2_5 chain_multiply_paddq_sse2_14 chain_multiply_paddq_sse2_41);
    ymm Avx2 Heavy FMA F64 (["vfmadd213pd" 2 x a b;] ["vfmadd213pd" 2 x a b;])
        (chain_add_fma_avx2_13 chain_add_fma_avx2_36 chain_add_fma_avx2_108)
        (chain_multiply_fma_avx2_5 chain_multiply_fma_avx2_14 chain_multiply_fma_avx2_41);
    ymm Avx2 Light ADD I64 (["vpaddq" 1 x x n;] ["vpaddq" 1 x x n;])
        (chain_add_paddq_avx2_13 chain_add_paddq_avx2_36 chain_add_paddq_avx2_108)
        (chain_multiply_paddq_avx2_5 chain_multiply_paddq_avx2_14 chain_multiply_paddq_avx2_41);
    zmm Avx512 Heavy FMA F64 (["vfmadd213pd" 2 x a b;] ["vfmadd213pd" 2 x a b;])
        (chain_add_fma_avx512_13 chain_add_fma_avx512_36 chain_add_fma_avx512_108)
        (chain_multiply_fma_avx512_5 chain_multiply_fma_avx512_14 chain_multiply_fma_avx512_41);
    zmm Avx512 Light ADD I64 (["vpaddq" 1 x x n;] ["vpaddq" 1 x x n;])
        (chain_add_paddq_avx512_13 chain_add_paddq_avx512_36 chain_add_paddq_avx512_108)
        (chain_multiply_paddq_avx512_5 chain_multiply_paddq_avx512_14 chain_multiply_paddq_avx512_41);
}
