//! Matrix multiplication tiles with fused multiply-adds. AVX2: 12 sums, 3 vectors of A and one of B
//! use all 16 registers; 12 multiply-adds need 7 loads. AVX-512: 24 sums, 3 vectors and 4 of B use
//! 31; 24 multiply-adds need 11 loads. Compilers spilled such tiles, at half the speed.

use core::arch::asm;

use crate::gemm::pack::{MatrixPart, pack_a, pack_b};
use crate::gemm::tile::{RegisterTile, TileOperands, Update};
use crate::isa::Isa;

macro_rules! step {
    ($step:literal $r:literal $type:literal $bytes:literal $vector:literal $columns:literal
        ($(($j:literal $f:literal $x:literal $y:literal $z:literal))+)) => {
        concat!(
            "vmovup", $type, " ", $r, "0, [{a} + ", $step, " * 3 * ", $vector, "]\n",
            "vmovup", $type, " ", $r, "1, [{a} + ", $step, " * 3 * ", $vector, " + ", $vector, "]\n",
            "vmovup", $type, " ", $r, "2, [{a} + ", $step, " * 3 * ", $vector, " + 2 * ", $vector, "]\n",
            $(
                "vbroadcasts", $type, " ", $r, $f, ", [{b} + ", $step, " * ", $columns, " * ", $bytes, " + ", $bytes, " * ", $j,
                "]\n",
                "vfmadd231p", $type, " ", $r, $x, ", ", $r, "0, ", $r, $f, "\n",
                "vfmadd231p", $type, " ", $r, $y, ", ", $r, "1, ", $r, $f, "\n",
                "vfmadd231p", $type, " ", $r, $z, ", ", $r, "2, ", $r, $f, "\n",
            )+
        )
    };
}

macro_rules! advance {
    ($steps:literal $bytes:literal $vector:literal $columns:literal) => {
        concat!(
            concat!("add {a}, ", $steps, " * 3 * ", $vector, "\n"),
            concat!("add {b}, ", $steps, " * ", $columns, " * ", $bytes, "\n"),
        )
    };
}

/// Eight steps with constant offsets and a prefetch in every second one: fewer instructions lose
/// less to another thread on the same core (docs/src/performance.md).
macro_rules! eight_steps {
    ($r:literal $type:literal $bytes:literal $vector:literal $columns:literal $each:tt) => {
        concat!(
            ".irp s, 0,2,4,6\n",
            step!("\\s" $r $type $bytes $vector $columns $each),
            step!("(\\s + 1)" $r $type $bytes $vector $columns $each),
            "prefetcht1 [{ahead}]\n",
            "add {ahead}, {ahead_bytes}\n",
            ".endr\n",
            advance!("8" $bytes $vector $columns),
        )
    };
}

/// Prefetches one line of each column of C in turn, to not delay A and B.
macro_rules! fetch_c {
    ($columns:literal) => {
        concat!(
            "prefetchw [{ahead_c}]\nlea {wrapped}, [{ahead_c} + {back}]\n",
            "add {ahead_c}, {c_bytes}\ndec {turns}\n",
            concat!("test {turns}, ", $columns, " - 1\n"),
            "cmovz {ahead_c}, {wrapped}\n",
        )
    };
}

macro_rules! update {
    (add $r:literal $type:literal $vector:literal ($(($j:literal $f:literal $x:literal $y:literal $z:literal))+)) => {
        concat!($(
            "vfmadd213p", $type, " ", $r, $x, ", ", $r, "0, [{c}]\n",
            "vfmadd213p", $type, " ", $r, $y, ", ", $r, "0, [{c} + ", $vector, "]\n",
            "vfmadd213p", $type, " ", $r, $z, ", ", $r, "0, [{c} + 2 * ", $vector, "]\n",
            update!(set $r $type $vector (($j $f $x $y $z))),
        )+)
    };
    (set $r:literal $type:literal $vector:literal ($(($j:literal $f:literal $x:literal $y:literal $z:literal))+)) => {
        concat!($(
            "vmovup", $type, " [{c}], ", $r, $x, "\n",
            "vmovup", $type, " [{c} + ", $vector, "], ", $r, $y, "\n",
            "vmovup", $type, " [{c} + 2 * ", $vector, "], ", $r, $z, "\n",
            "add {c}, {c_bytes}\n",
        )+)
    };
}

macro_rules! tile {
    ($tile:ident $name:ident $pack_a:ident $pack_b:ident $float:ident $type:literal $bytes:literal $rows:literal;
        $isa:ident $features:literal $r:literal $vector:literal $columns:literal $zero:literal $sums:literal
        $each:tt ($($register:tt)+)) => {
        pub(crate) static $tile: RegisterTile<$float> = RegisterTile {
            name: stringify!($name),
            isa: Isa::$isa,
            rows: $rows,
            columns: $columns,
            pack_a: $pack_a,
            pack_b: $pack_b,
            function: $name,
        };

        /// Updates the tile at `c` by the product A·B of `operands`. Safety: see `TileFunction`.
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn $name(operands: &TileOperands<$float>, c: *mut $float, c_stride: usize, update: Update) {
            let sign: $float = if update == Update::Subtract { -1.0 } else { 1.0 };
            let c_bytes = c_stride * size_of::<$float>();
            // Prefetch only the next tile: the data after it may be another thread's.
            let lines = (operands.ahead_c.addr() % 64 + 3 * $vector).div_ceil(64);
            let turns = (operands.depth / 8).min($columns * lines);
            // SAFETY: the caller grants set, strips and tile of C. Any address may be prefetched.
            unsafe {
                asm!(
                    concat!(".irp i, ", $sums),
                    concat!($zero, " ", $r, "\\i, ", $r, "\\i, ", $r, "\\i"),
                    ".endr",
                    "test {turns}, {turns}",
                    "jz 3f",
                    ".p2align 6",
                    "2:",
                    fetch_c!($columns),
                    eight_steps!($r $type $bytes $vector $columns $each),
                    "test {turns}, {turns}",
                    "jnz 2b",
                    "3:",
                    "test {eights}, {eights}",
                    "jz 5f",
                    ".p2align 6",
                    "4:",
                    eight_steps!($r $type $bytes $vector $columns $each),
                    "dec {eights}",
                    "jnz 4b",
                    "5:",
                    "test {rest}, {rest}",
                    "jz 7f",
                    "6:",
                    concat!(step!("0" $r $type $bytes $vector $columns $each), advance!("1" $bytes $vector $columns)),
                    "dec {rest}",
                    "jnz 6b",
                    "7:",
                    "test {set:e}, {set:e}",
                    "jnz 8f",
                    concat!("vbroadcasts", $type, " ", $r, "0, [{sign}]"),
                    update!(add $r $type $vector $each),
                    "jmp 9f",
                    "8:",
                    update!(set $r $type $vector $each),
                    "9:",
                    "vzeroupper",
                    a = inout(reg) operands.a => _,
                    b = inout(reg) operands.b => _,
                    c = inout(reg) c => _,
                    ahead_c = inout(reg) operands.ahead_c => _,
                    c_bytes = in(reg) c_bytes,
                    back = in(reg) 64_usize.wrapping_sub(($columns - 1) * c_bytes),
                    wrapped = out(reg) _,
                    ahead = inout(reg) operands.ahead => _,
                    ahead_bytes = in(reg) 2 * operands.ahead_bytes,
                    turns = inout(reg) turns => _,
                    eights = inout(reg) operands.depth / 8 - turns => _,
                    rest = inout(reg) operands.depth % 8 => _,
                    sign = in(reg) &sign,
                    set = in(reg) u32::from(update == Update::Set),
                    $(out($register) _,)+
                    options(nostack),
                );
            }
        }

        /// Packs A's `part` as strips `depth` long. Safety: `to` has room for whole strips.
        #[target_feature(enable = $features)]
        unsafe fn $pack_a(part: MatrixPart<$float>, depth: usize, to: *mut $float) {
            // SAFETY: granted by the caller.
            unsafe { pack_a::<$float, $rows>(part, depth, to) }
        }

        /// Packs B's `part` by rows, with zeros up to a tile's width. Safety: `to` has that room.
        #[target_feature(enable = $features)]
        unsafe fn $pack_b(part: MatrixPart<$float>, to: *mut $float) {
            // SAFETY: granted by the caller.
            unsafe { pack_b::<$float, $columns>(part, to) }
        }
    };
}

macro_rules! tiles {
    ($set:tt $($tile:ident $name:ident $pack_a:ident $pack_b:ident $float:ident $type:literal $bytes:literal $rows:literal;)+) => {
        $(tiles!(@ ($tile $name $pack_a $pack_b $float $type $bytes $rows) $set);)+
    };
    (@ ($($tile:tt)+) ($($set:tt)+)) => {
        tile!($($tile)+; $($set)+);
    };
}

tiles! {
    (Avx2 "avx2,fma" "ymm" 32 4 "vxorps" "4,5,6,7,8,9,10,11,12,13,14,15"
        ((0 "3" "4" "5" "6") (1 "3" "7" "8" "9") (2 "3" "10" "11" "12") (3 "3" "13" "14" "15"))
        ("ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12" "ymm13" "ymm14"
            "ymm15"))
    F64_AVX2 gemm_f64_avx2 pack_a_f64_avx2 pack_b_f64_avx2 f64 "d" 8 12;
    F32_AVX2 gemm_f32_avx2 pack_a_f32_avx2 pack_b_f32_avx2 f32 "s" 4 24;
}

tiles! {
    (Avx512 "avx512f" "zmm" 64 8 "vpxord" "8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
        ((0 "3" "8" "9" "10") (1 "4" "11" "12" "13") (2 "5" "14" "15" "16") (3 "6" "17" "18" "19")
            (4 "3" "20" "21" "22") (5 "4" "23" "24" "25") (6 "5" "26" "27" "28") (7 "6" "29" "30" "31"))
        ("zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11" "zmm12" "zmm13" "zmm14" "zmm15"
            "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25" "zmm26" "zmm27" "zmm28"
            "zmm29" "zmm30" "zmm31"))
    F64_AVX512 gemm_f64_avx512 pack_a_f64_avx512 pack_b_f64_avx512 f64 "d" 8 24;
    F32_AVX512 gemm_f32_avx512 pack_a_f32_avx512 pack_b_f32_avx512 f32 "s" 4 48;
}
