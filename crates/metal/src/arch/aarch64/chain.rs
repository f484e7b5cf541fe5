use core::arch::asm;

use crate::arch::chain::{Density, Weight, Woven};
use crate::isa::Isa;
use crate::kernel::{Element, Op};

macro_rules! weave {
    ($lanes:tt $link:literal $each:literal $step:tt; $($i:literal $j:literal $k:literal),+) => {
        concat!($(
            step!($lanes $i $j $step), step!($lanes $j $k $step), ".rept ", $each, "\n", $link, "\n.endr\n",
        )+)
    };
}

/// Registers 0 and 1 are constants, the rest accumulators, which are discarded.
macro_rules! woven {
    (neon $step:tt $name:ident $link:literal $each:literal $last:literal) => {
        woven!(@ ("v" ".2d" ".2d") "neon" "" "ldr q\\i, [{rows}, #(16*\\i)]" $step $name $link $each $last);
    };
    (sve $step:tt $name:ident $link:literal $each:literal $last:literal) => {
        woven!(@ ("z" ".d" ".d") "sve" "ptrue p0.b" "ldr z\\i, [{rows}, #\\i, mul vl]" $step $name $link $each $last);
    };
    (@ $lanes:tt $feature:literal $begin:literal $load:literal $step:tt $name:ident $link:literal $each:literal
        $last:literal) => {
        looped!(
            /// Runs `turns` > 0 iterations of dependent integer instructions amid vector work.
            /// Safety: needs the instruction set, and at `rows` the operands of its kernels.
            $name [] (rows: *const u8) rows, 24, $feature
            $begin [$load]
            [] [
                weave!($lanes $link $each $step; 2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 14, 14 15 16, 16 17 18, 18 19 20, 20 21 22, 22 23 24, 24 25 2),
                concat!(".rept ", $last),
                $link,
                ".endr",
                "subs {turns}, {turns}, #1",
                "b.ne 2b",
            ]
            [] ""
            ("p0" "v0" "v1" "v2" "v3" "v4" "v5" "v6" "v7" "v8" "v9" "v10" "v11" "v12" "v13" "v14" "v15" "v16" "v17" "v18" "v19" "v20" "v21" "v22" "v23" "v24" "v25")
            [sum = inout(reg) 1_u64 => _, step = in(reg) 3_u64,]
        );
    };
}

chains! { ("add {sum}, {sum}, {step}" "mul {sum}, {sum}, {step}" "subs {turns}, {turns}, #1" "b.ne 2b")
    neon Neon Heavy FMA F64 ["fmla" 2 x a b;]
        (chain_add_fma_neon_13 chain_add_fma_neon_36 chain_add_fma_neon_108)
        (chain_multiply_fma_neon_5 chain_multiply_fma_neon_14 chain_multiply_fma_neon_41);
    neon Neon Light ADD I64 ["add" 1 x x n;]
        (chain_add_add_neon_13 chain_add_add_neon_36 chain_add_add_neon_108)
        (chain_multiply_add_neon_5 chain_multiply_add_neon_14 chain_multiply_add_neon_41);
    sve Sve Heavy FMA F64 ["fmla" 2 x p a b;]
        (chain_add_fma_sve_13 chain_add_fma_sve_36 chain_add_fma_sve_108)
        (chain_multiply_fma_sve_5 chain_multiply_fma_sve_14 chain_multiply_fma_sve_41);
    sve Sve Light ADD I64 ["add" 1 x x n;]
        (chain_add_add_sve_13 chain_add_add_sve_36 chain_add_add_sve_108)
        (chain_multiply_add_sve_5 chain_multiply_add_sve_14 chain_multiply_add_sve_41);
}
