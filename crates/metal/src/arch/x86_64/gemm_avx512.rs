//! AVX-512 tiles of the matrix multiplication: 24 × 8 numbers of 64 bits, 48 × 8 of 32 bits.
//!
//! Three vectors of A times eight numbers of B: 24 sums, 3 vectors and 4 broadcasts in turn are 31 of the 32 registers,
//! and 11 loads stand against 24 multiply-adds, so that neither loads nor latency (4 cycles on 2 pipes) set the pace.
//! All is assembly: compilers were seen to spill such tiles.

use core::arch::asm;

use crate::gemm::pack::{Part, pack_a, pack_b};
use crate::gemm::tile::{Operands, Tile, Update};
use crate::isa::Isa;

pub(crate) static F64: Tile<f64> = Tile {
    name: "gemm_f64_avx512",
    isa: Isa::Avx512,
    rows: 24,
    columns: 8,
    pack_a: pack_a_f64,
    pack_b: pack_b_f64,
    function: gemm_f64_avx512,
};

pub(crate) static F32: Tile<f32> = Tile {
    name: "gemm_f32_avx512",
    isa: Isa::Avx512,
    rows: 48,
    columns: 8,
    pack_a: pack_a_f32,
    pack_b: pack_b_f32,
    function: gemm_f32_avx512,
};

/// One column of A times one row of B: zmm0 to zmm2 × zmm3 to zmm6 in turn, into zmm8 to zmm31.
macro_rules! step {
    ($type:literal, $bytes:literal) => {
        concat!(
            "vmovup",
            $type,
            " zmm0, [{a}]\n",
            "vmovup",
            $type,
            " zmm1, [{a} + 64]\n",
            "vmovup",
            $type,
            " zmm2, [{a} + 128]\n",
            step!($type, $bytes, "0", "3", "8", "9", "10"),
            step!($type, $bytes, "1", "4", "11", "12", "13"),
            step!($type, $bytes, "2", "5", "14", "15", "16"),
            step!($type, $bytes, "3", "6", "17", "18", "19"),
            step!($type, $bytes, "4", "3", "20", "21", "22"),
            step!($type, $bytes, "5", "4", "23", "24", "25"),
            step!($type, $bytes, "6", "5", "26", "27", "28"),
            step!($type, $bytes, "7", "6", "29", "30", "31"),
            "prefetcht1 [{ahead}]\n",
            "add {ahead}, {ahead_bytes}\n",
            "add {a}, {a_bytes}\n",
            "add {b}, 8 * ",
            $bytes,
            "\n",
        )
    };
    ($type:literal, $bytes:literal, $j:literal, $f:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "vbroadcasts",
            $type,
            " zmm",
            $f,
            ", [{b} + ",
            $bytes,
            " * ",
            $j,
            "]\n",
            "vfmadd231p",
            $type,
            " zmm",
            $x,
            ", zmm0, zmm",
            $f,
            "\n",
            "vfmadd231p",
            $type,
            " zmm",
            $y,
            ", zmm1, zmm",
            $f,
            "\n",
            "vfmadd231p",
            $type,
            " zmm",
            $z,
            ", zmm2, zmm",
            $f,
            "\n",
        )
    };
}

/// Adds the sums, with their sign in zmm0, to C, or puts them there.
macro_rules! update {
    (add $type:literal) => {
        concat!(
            update!(add $type, "8", "9", "10"),
            update!(add $type, "11", "12", "13"),
            update!(add $type, "14", "15", "16"),
            update!(add $type, "17", "18", "19"),
            update!(add $type, "20", "21", "22"),
            update!(add $type, "23", "24", "25"),
            update!(add $type, "26", "27", "28"),
            update!(add $type, "29", "30", "31"),
        )
    };
    (set $type:literal) => {
        concat!(
            update!(set $type, "8", "9", "10"),
            update!(set $type, "11", "12", "13"),
            update!(set $type, "14", "15", "16"),
            update!(set $type, "17", "18", "19"),
            update!(set $type, "20", "21", "22"),
            update!(set $type, "23", "24", "25"),
            update!(set $type, "26", "27", "28"),
            update!(set $type, "29", "30", "31"),
        )
    };
    (add $type:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "vfmadd213p", $type, " zmm", $x, ", zmm0, [{c}]\n",
            "vfmadd213p", $type, " zmm", $y, ", zmm0, [{c} + 64]\n",
            "vfmadd213p", $type, " zmm", $z, ", zmm0, [{c} + 128]\n",
            update!(set $type, $x, $y, $z),
        )
    };
    (set $type:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "vmovup", $type, " [{c}], zmm", $x, "\n",
            "vmovup", $type, " [{c} + 64], zmm", $y, "\n",
            "vmovup", $type, " [{c} + 128], zmm", $z, "\n",
            "add {c}, {c_bytes}\n",
        )
    };
}

macro_rules! tile {
    ($name:ident, $float:ty, $type:literal, $bytes:literal) => {
        /// # Safety
        /// As [`crate::gemm::tile::TileFunction`].
        #[inline(never)]
        #[target_feature(enable = "avx512f")]
        unsafe fn $name(operands: &Operands<$float>, c: *mut $float, c_stride: usize, update: Update) {
            let sign: $float = if update == Update::Subtract { -1.0 } else { 1.0 };
            let c_bytes = c_stride * size_of::<$float>();
            // The next tile of C is fetched while the first turns are made, and no more: what follows may be another
            // thread's.
            let lines = (operands.ahead_c.addr() % 64 + 192).div_ceil(64);
            let turns = (operands.depth / 8).min(8 * lines);
            // SAFETY: the caller grants the instruction set, the strips and the whole tile of C. A prefetch of any
            // address is harmless.
            unsafe {
                asm!(
                    ".irp i, 8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                    "vpxord zmm\\i, zmm\\i, zmm\\i",
                    ".endr",
                    "test {turns}, {turns}",
                    "jz 3f",
                    ".p2align 6",
                    "2:",
                    // A line of each column in turn, then the next line of each: all at once would hold up A and B.
                    "prefetchw [{ahead_c}]",
                    "lea {wrapped}, [{ahead_c} + {back}]",
                    "add {ahead_c}, {c_bytes}",
                    "dec {turns}",
                    "test {turns}, 7",
                    "cmovz {ahead_c}, {wrapped}",
                    ".rept 8",
                    step!($type, $bytes),
                    ".endr",
                    "test {turns}, {turns}",
                    "jnz 2b",
                    "3:",
                    "test {rest}, {rest}",
                    "jz 5f",
                    ".p2align 6",
                    "4:",
                    step!($type, $bytes),
                    "dec {rest}",
                    "jnz 4b",
                    "5:",
                    "test {set:e}, {set:e}",
                    "jnz 6f",
                    concat!("vbroadcasts", $type, " zmm0, [{sign}]"),
                    update!(add $type),
                    "jmp 7f",
                    "6:",
                    update!(set $type),
                    "7:",
                    "vzeroupper",
                    a = inout(reg) operands.a => _,
                    a_bytes = in(reg) operands.a_stride * size_of::<$float>(),
                    b = inout(reg) operands.b => _,
                    c = inout(reg) c => _,
                    ahead_c = inout(reg) operands.ahead_c => _,
                    c_bytes = in(reg) c_bytes,
                    back = in(reg) 64_usize.wrapping_sub(7 * c_bytes),
                    wrapped = out(reg) _,
                    ahead = inout(reg) operands.ahead => _,
                    ahead_bytes = in(reg) operands.ahead_bytes,
                    turns = inout(reg) turns => _,
                    rest = inout(reg) operands.depth - 8 * turns => _,
                    sign = in(reg) &sign,
                    set = in(reg) u32::from(update == Update::Set),
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                    out("zmm6") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                    out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _,
                    out("zmm17") _, out("zmm18") _, out("zmm19") _, out("zmm20") _, out("zmm21") _,
                    out("zmm22") _, out("zmm23") _, out("zmm24") _, out("zmm25") _, out("zmm26") _,
                    out("zmm27") _, out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
                    options(nostack),
                );
            }
        }
    };
}

tile!(gemm_f64_avx512, f64, "d", "8");
tile!(gemm_f32_avx512, f32, "s", "4");

macro_rules! packing {
    ($a:ident, $b:ident, $float:ty, $rows:literal) => {
        /// # Safety
        /// As [`crate::gemm::pack::PackA`].
        #[target_feature(enable = "avx512f")]
        unsafe fn $a(part: Part<$float>, depth: usize, to: *mut $float) {
            // SAFETY: granted by the caller.
            unsafe { pack_a::<$float, $rows>(part, depth, to) }
        }

        /// # Safety
        /// As [`crate::gemm::pack::PackB`].
        #[target_feature(enable = "avx512f")]
        unsafe fn $b(part: Part<$float>, to: *mut $float) {
            // SAFETY: granted by the caller.
            unsafe { pack_b::<$float, 8>(part, to) }
        }
    };
}

packing!(pack_a_f64, pack_b_f64, f64, 24);
packing!(pack_a_f32, pack_b_f32, f32, 48);
