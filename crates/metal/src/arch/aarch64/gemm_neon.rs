//! NEON tiles of the matrix multiplication: 8 × 6 f64 or 16 × 6 f32. 24 sums, 4 vectors of A and 3
//! of B use 31 of 32 registers; 24 multiply-adds need 4 or 7 loads.

use core::arch::asm;

use crate::gemm::pack::{pack_a, pack_b};
use crate::gemm::tile::{RegisterTile, TileOperands, Update};
use crate::isa::Isa;

/// One multiple of A for each column: its factor, and the registers of the column's sums.
macro_rules! columns {
    ($lanes:literal ($(($factor:literal $w:literal $x:literal $y:literal $z:literal))+)) => {
        concat!($(
            "fmla v", $w, $lanes, ", v0", $lanes, ", ", $factor, "\n",
            "fmla v", $x, $lanes, ", v1", $lanes, ", ", $factor, "\n",
            "fmla v", $y, $lanes, ", v2", $lanes, ", ", $factor, "\n",
            "fmla v", $z, $lanes, ", v3", $lanes, ", ", $factor, "\n",
        )+)
    };
}

macro_rules! update {
    (add $lanes:literal $sign:literal ($(($factor:literal $w:literal $x:literal $y:literal $z:literal))+)) => {
        concat!($(
            "ldp q0, q1, [{c}]\nldp q2, q3, [{c}, #32]\n",
            "fmla v0", $lanes, ", v", $w, $lanes, ", ", $sign, "\n",
            "fmla v1", $lanes, ", v", $x, $lanes, ", ", $sign, "\n",
            "fmla v2", $lanes, ", v", $y, $lanes, ", ", $sign, "\n",
            "fmla v3", $lanes, ", v", $z, $lanes, ", ", $sign, "\n",
            "stp q0, q1, [{c}]\nstp q2, q3, [{c}, #32]\nadd {c}, {c}, {c_bytes}\n",
        )+)
    };
    (set ($(($factor:literal $w:literal $x:literal $y:literal $z:literal))+)) => {
        concat!($(
            "stp q", $w, ", q", $x, ", [{c}]\nstp q", $y, ", q", $z, ", [{c}, #32]\nadd {c}, {c}, {c_bytes}\n",
        )+)
    };
}

macro_rules! tile {
    ($tile:ident $name:ident $float:ident $rows:literal $lanes:literal $load_b:literal $load_sign:literal $sign:literal
        $each:tt) => {
        pub(crate) static $tile: RegisterTile<$float> = RegisterTile {
            name: stringify!($name),
            isa: Isa::Neon,
            rows: $rows,
            columns: 6,
            // NEON is part of the baseline: the compiler uses it here as well.
            pack_a: pack_a::<$float, $rows>,
            pack_b: pack_b::<$float, 6>,
            function: $name,
        };

        /// Updates the tile at `c` by the product A·B of `operands`. Safety: see `TileFunction`.
        #[inline(never)]
        #[target_feature(enable = "neon")]
        unsafe fn $name(operands: &TileOperands<$float>, c: *mut $float, c_stride: usize, update: Update) {
            let sign: $float = if update == Update::Subtract { -1.0 } else { 1.0 };
            // SAFETY: the caller grants set, strips and tile of C. Any address may be prefetched.
            unsafe {
                asm!(
                    ".rept 6",
                    "prfm pstl1keep, [{ahead_c}]",
                    "prfum pstl1keep, [{ahead_c}, #63]",
                    "add {ahead_c}, {ahead_c}, {c_bytes}",
                    ".endr",
                    ".irp i, 8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                    "movi v\\i\\().16b, #0",
                    ".endr",
                    "cbz {depth}, 3f",
                    ".p2align 6",
                    "2:",
                    "ldp q0, q1, [{a}]",
                    "ldp q2, q3, [{a}, #32]",
                    $load_b,
                    columns!($lanes $each),
                    "prfm pldl2keep, [{ahead}]",
                    "add {ahead}, {ahead}, {ahead_bytes}",
                    "add {a}, {a}, #64",
                    "add {b}, {b}, {b_bytes}",
                    "subs {depth}, {depth}, #1",
                    "b.ne 2b",
                    "3:",
                    "cbnz {set:w}, 4f",
                    $load_sign,
                    update!(add $lanes $sign $each),
                    "b 5f",
                    "4:",
                    update!(set $each),
                    "5:",
                    depth = inout(reg) operands.depth => _,
                    a = inout(reg) operands.a => _,
                    b = inout(reg) operands.b => _,
                    b_bytes = in(reg) 6 * size_of::<$float>(),
                    ahead = inout(reg) operands.ahead => _,
                    ahead_bytes = in(reg) operands.ahead_bytes,
                    c = inout(reg) c => _,
                    c_bytes = in(reg) c_stride * size_of::<$float>(),
                    ahead_c = inout(reg) operands.ahead_c => _,
                    sign = in(reg) &raw const sign,
                    set = in(reg) u32::from(update == Update::Set),
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _,
                    out("v14") _, out("v15") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                    out("v20") _, out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    out("v26") _, out("v27") _, out("v28") _, out("v29") _, out("v30") _, out("v31") _,
                    options(nostack),
                );
            }
        }
    };
}

tile! { F64 gemm_f64_neon f64 8 ".2d" "ldp q4, q5, [{b}]\nldr q6, [{b}, #32]" "ldr d4, [{sign}]" "v4.d[0]"
    (("v4.d[0]" "8" "9" "10" "11") ("v4.d[1]" "12" "13" "14" "15") ("v5.d[0]" "16" "17" "18" "19")
        ("v5.d[1]" "20" "21" "22" "23") ("v6.d[0]" "24" "25" "26" "27") ("v6.d[1]" "28" "29" "30" "31"))
}

tile! { F32 gemm_f32_neon f32 16 ".4s" "ldr q4, [{b}]\nldr d5, [{b}, #16]" "ldr s4, [{sign}]" "v4.s[0]"
    (("v4.s[0]" "8" "9" "10" "11") ("v4.s[1]" "12" "13" "14" "15") ("v4.s[2]" "16" "17" "18" "19")
        ("v4.s[3]" "20" "21" "22" "23") ("v5.s[0]" "24" "25" "26" "27") ("v5.s[1]" "28" "29" "30" "31"))
}
