//! NEON tiles of the matrix multiplication: 8 × 6 f64 or 16 × 6 f32. 24 sums, 4 vectors of A and 3
//! of B use 31 of 32 registers; 24 multiply-adds need 4 or 7 loads.

use core::arch::asm;

use crate::gemm::pack::{pack_a, pack_b};
use crate::gemm::tile::{RegisterTile, TileOperands, Update};
use crate::isa::Isa;

pub(crate) static F64: RegisterTile<f64> = RegisterTile {
    name: "gemm_f64_neon",
    isa: Isa::Neon,
    rows: 8,
    columns: 6,
    // NEON is part of the baseline: the compiler uses it here as well.
    pack_a: pack_a::<f64, 8>,
    pack_b: pack_b::<f64, 6>,
    function: gemm_f64_neon,
};

pub(crate) static F32: RegisterTile<f32> = RegisterTile {
    name: "gemm_f32_neon",
    isa: Isa::Neon,
    rows: 16,
    columns: 6,
    pack_a: pack_a::<f32, 16>,
    pack_b: pack_b::<f32, 6>,
    function: gemm_f32_neon,
};

macro_rules! column {
    ($lanes:literal, $factor:literal, $w:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "fmla v", $w, $lanes, ", v0", $lanes, ", ", $factor, "\n", "fmla v", $x, $lanes, ", v1", $lanes,
            ", ", $factor, "\n", "fmla v", $y, $lanes, ", v2", $lanes, ", ", $factor, "\n", "fmla v", $z,
            $lanes, ", v3", $lanes, ", ", $factor, "\n",
        )
    };
}

macro_rules! update {
    (add $lanes:literal, $sign:literal, $w:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "ldp q0, q1, [{c}]\n",
            "ldp q2, q3, [{c}, #32]\n",
            "fmla v0",
            $lanes,
            ", v",
            $w,
            $lanes,
            ", ",
            $sign,
            "\n",
            "fmla v1",
            $lanes,
            ", v",
            $x,
            $lanes,
            ", ",
            $sign,
            "\n",
            "fmla v2",
            $lanes,
            ", v",
            $y,
            $lanes,
            ", ",
            $sign,
            "\n",
            "fmla v3",
            $lanes,
            ", v",
            $z,
            $lanes,
            ", ",
            $sign,
            "\n",
            "stp q0, q1, [{c}]\n",
            "stp q2, q3, [{c}, #32]\n",
            "add {c}, {c}, {c_bytes}\n",
        )
    };
    (set $w:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "stp q",
            $w,
            ", q",
            $x,
            ", [{c}]\n",
            "stp q",
            $y,
            ", q",
            $z,
            ", [{c}, #32]\n",
            "add {c}, {c}, {c_bytes}\n",
        )
    };
}

macro_rules! tile {
    (
        $name:ident, $float:ty, $lanes:literal, $load_b:literal, $load_sign:literal, $sign:literal,
        $f0:literal, $f1:literal, $f2:literal, $f3:literal, $f4:literal, $f5:literal
    ) => {
        /// Updates a tile of C by a product. Safety: see [`crate::gemm::tile::TileFunction`].
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
                    column!($lanes, $f0, "8", "9", "10", "11"),
                    column!($lanes, $f1, "12", "13", "14", "15"),
                    column!($lanes, $f2, "16", "17", "18", "19"),
                    column!($lanes, $f3, "20", "21", "22", "23"),
                    column!($lanes, $f4, "24", "25", "26", "27"),
                    column!($lanes, $f5, "28", "29", "30", "31"),
                    "prfm pldl2keep, [{ahead}]",
                    "add {ahead}, {ahead}, {ahead_bytes}",
                    "add {a}, {a}, #64",
                    "add {b}, {b}, {b_bytes}",
                    "subs {depth}, {depth}, #1",
                    "b.ne 2b",
                    "3:",
                    "cbnz {set:w}, 4f",
                    $load_sign,
                    update!(add $lanes, $sign, "8", "9", "10", "11"),
                    update!(add $lanes, $sign, "12", "13", "14", "15"),
                    update!(add $lanes, $sign, "16", "17", "18", "19"),
                    update!(add $lanes, $sign, "20", "21", "22", "23"),
                    update!(add $lanes, $sign, "24", "25", "26", "27"),
                    update!(add $lanes, $sign, "28", "29", "30", "31"),
                    "b 5f",
                    "4:",
                    update!(set "8", "9", "10", "11"),
                    update!(set "12", "13", "14", "15"),
                    update!(set "16", "17", "18", "19"),
                    update!(set "20", "21", "22", "23"),
                    update!(set "24", "25", "26", "27"),
                    update!(set "28", "29", "30", "31"),
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

tile!(
    gemm_f64_neon,
    f64,
    ".2d",
    "ldp q4, q5, [{b}]\nldr q6, [{b}, #32]",
    "ldr d4, [{sign}]",
    "v4.d[0]",
    "v4.d[0]",
    "v4.d[1]",
    "v5.d[0]",
    "v5.d[1]",
    "v6.d[0]",
    "v6.d[1]"
);
tile!(
    gemm_f32_neon,
    f32,
    ".4s",
    "ldr q4, [{b}]\nldr d5, [{b}, #16]",
    "ldr s4, [{sign}]",
    "v4.s[0]",
    "v4.s[0]",
    "v4.s[1]",
    "v4.s[2]",
    "v4.s[3]",
    "v5.s[0]",
    "v5.s[1]"
);
