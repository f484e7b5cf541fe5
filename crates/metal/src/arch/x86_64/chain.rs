//! Clock chains of x86-64: alone, and interleaved with vector work of each width. Register +
//! register, because newer cores eliminate additions of immediates (Golden Cove).

use core::arch::asm;

use crate::arch::chain::{Density, Weight, Woven};
use crate::isa::Isa;
use crate::kernel::{Element, Op};

macro_rules! density {
    ($add:ident $adds:literal $multiply:ident $multiplications:literal) => {
        Density {
            names: [stringify!($add), stringify!($multiply)],
            add: $add,
            adds: $adds,
            multiply: $multiply,
            multiplications: $multiplications,
        }
    };
}

pub(crate) const SCALAR_CHAINS: Option<&Density> = Some(&SCALAR_DENSITY);

static SCALAR_DENSITY: Density = density!(chain_add 64 chain_multiply 25);

macro_rules! alone {
    ($name:ident $link:literal $count:literal) => {
        /// Runs `turns` iterations. Safety: `turns` > 0.
        #[inline(never)]
        unsafe fn $name(turns: u64, _: *const u8) {
            // SAFETY: baseline integer instructions on declared registers, without memory or stack.
            unsafe {
                asm!(
                    ".p2align 6",
                    "2:",
                    concat!(".rept ", $count),
                    $link,
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    sum = inout(reg) 1_u64 => _,
                    step = in(reg) 3_u64,
                    turns = inout(reg) turns => _,
                    options(nomem, nostack),
                );
            }
        }
    };
}

alone!(chain_add "add {sum}, {step}" 64);
alone!(chain_multiply "imul {sum}, {step}" 25);

macro_rules! weave {
    ($file:literal $link:literal $each:literal $even:tt $odd:tt; $($i:literal $j:literal $k:literal),+) => {
        concat!($(
            step!($file $i $j $k $even), step!($file $j $k "no other" $odd), ".rept ", $each, "\n", $link, "\n.endr\n",
        )+)
    };
}

macro_rules! woven {
    (xmm $even:tt $odd:tt $name:ident $link:literal $each:literal $last:literal) => {
        woven!(@ $name "xmm" 16 "movups" "" $even $odd $link $each $last; "sse2" "2,3,4,5,6,7,8,9,10,11,12,13"
            (2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 2, 2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 2)
            ("xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7" "xmm8" "xmm9" "xmm10" "xmm11" "xmm12" "xmm13"));
    };
    (ymm $even:tt $odd:tt $name:ident $link:literal $each:literal $last:literal) => {
        woven!(@ $name "ymm" 32 "vmovups" "vzeroupper" $even $odd $link $each $last; "avx2" "2,3,4,5,6,7,8,9,10,11,12,13"
            (2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 2, 2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 2)
            ("ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12" "ymm13"));
    };
    (zmm $even:tt $odd:tt $name:ident $link:literal $each:literal $last:literal) => {
        woven!(@ $name "zmm" 64 "vmovups" "vzeroupper" $even $odd $link $each $last; "avx512f"
            "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25"
            (2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 14, 14 15 16, 16 17 18, 18 19 20, 20 21 22, 22 23 24, 24 25 2)
            ("zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11" "zmm12" "zmm13"
                "zmm14" "zmm15" "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25"));
    };
    (@ $name:ident $file:literal $bytes:literal $move:literal $end:literal $even:tt $odd:tt
        $link:literal $each:literal $last:literal; $feature:literal $all:literal
        ($($i:literal $j:literal $k:literal),+) ($($register:tt)+)) => {
        /// Runs `turns` > 0 iterations. Safety: needs the set; `rows` are operands of its kernels.
        #[inline(never)]
        #[target_feature(enable = $feature)]
        unsafe fn $name(turns: u64, rows: *const u8) {
            // SAFETY: the caller grants set and rows without gaps; all registers are named.
            unsafe {
                asm!(
                    concat!($move, " ", $file, "0, [{rows}]"),
                    concat!($move, " ", $file, "1, [{rows} + ", $bytes, "]"),
                    concat!(".irp i, ", $all),
                    concat!($move, " ", $file, "\\i, [{rows} + ", $bytes, "*\\i]"),
                    ".endr",
                    ".p2align 6",
                    "2:",
                    weave!($file $link $each $even $odd; $($i $j $k),+),
                    concat!(".rept ", $last),
                    $link,
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    $end,
                    rows = in(reg) rows,
                    sum = inout(reg) 1_u64 => _,
                    step = in(reg) 3_u64,
                    turns = inout(reg) turns => _,
                    $(out($register) _,)+
                    options(nostack, readonly),
                );
            }
        }
    };
}

macro_rules! rows {
    ($($file:ident $isa:ident $weight:ident $op:ident $element:ident $even:tt $odd:tt
        ($dense:ident $middle:ident $sparse:ident) ($dense_multiply:ident $middle_multiply:ident $sparse_multiply:ident);)+) => {
        pub(crate) static WOVEN_KERNELS: &[Woven] = &[$(
            Woven {
                isa: Isa::$isa,
                weight: Weight::$weight,
                operands: (Op::$op, Element::$element),
                densities: [
                    density!($dense 13 $dense_multiply 5),
                    density!($middle 36 $middle_multiply 14),
                    density!($sparse 108 $sparse_multiply 41),
                ],
            },
        )+];
        $(
            woven!($file $even $odd $dense "add {sum}, {step}" 1 1);
            woven!($file $even $odd $middle "add {sum}, {step}" 3 0);
            woven!($file $even $odd $sparse "add {sum}, {step}" 9 0);
            woven!($file $even $odd $dense_multiply "imul {sum}, {step}" 0 5);
            woven!($file $even $odd $middle_multiply "imul {sum}, {step}" 1 2);
            woven!($file $even $odd $sparse_multiply "imul {sum}, {step}" 3 5);
        )+
    };
}

rows! {
    xmm Sse2 Heavy MIX F64 ["addpd" 1 x a;] ["mulpd" 1 x b;]
        (chain_add_mix_sse2_13 chain_add_mix_sse2_36 chain_add_mix_sse2_108)
        (chain_multiply_mix_sse2_5 chain_multiply_mix_sse2_14 chain_multiply_mix_sse2_41);
    xmm Sse2 Light ADD I64 ["paddq" 1 x n;] ["paddq" 1 x n;]
        (chain_add_paddq_sse2_13 chain_add_paddq_sse2_36 chain_add_paddq_sse2_108)
        (chain_multiply_paddq_sse2_5 chain_multiply_paddq_sse2_14 chain_multiply_paddq_sse2_41);
    ymm Avx2 Heavy FMA F64 ["vfmadd213pd" 2 x a b;] ["vfmadd213pd" 2 x a b;]
        (chain_add_fma_avx2_13 chain_add_fma_avx2_36 chain_add_fma_avx2_108)
        (chain_multiply_fma_avx2_5 chain_multiply_fma_avx2_14 chain_multiply_fma_avx2_41);
    ymm Avx2 Light ADD I64 ["vpaddq" 1 x x n;] ["vpaddq" 1 x x n;]
        (chain_add_paddq_avx2_13 chain_add_paddq_avx2_36 chain_add_paddq_avx2_108)
        (chain_multiply_paddq_avx2_5 chain_multiply_paddq_avx2_14 chain_multiply_paddq_avx2_41);
    zmm Avx512 Heavy FMA F64 ["vfmadd213pd" 2 x a b;] ["vfmadd213pd" 2 x a b;]
        (chain_add_fma_avx512_13 chain_add_fma_avx512_36 chain_add_fma_avx512_108)
        (chain_multiply_fma_avx512_5 chain_multiply_fma_avx512_14 chain_multiply_fma_avx512_41);
    zmm Avx512 Light ADD I64 ["vpaddq" 1 x x n;] ["vpaddq" 1 x x n;]
        (chain_add_paddq_avx512_13 chain_add_paddq_avx512_36 chain_add_paddq_avx512_108)
        (chain_multiply_paddq_avx512_5 chain_multiply_paddq_avx512_14 chain_multiply_paddq_avx512_41);
}
