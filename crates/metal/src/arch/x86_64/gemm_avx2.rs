//! AVX2 tiles of the matrix multiplication: 12 × 4 numbers of 64 bits, 24 × 4 of 32 bits.
//!
//! Three vectors of A times four numbers of B: 12 sums, 3 vectors and a broadcast are all 16 registers; 7 loads stand
//! against 12 multiply-adds, and 12 sums cover 5 cycles of latency on 2 pipes. All is assembly: compilers were seen to
//! spill such tiles, at half the speed.

use core::arch::asm;

use crate::gemm::pack::{Part, pack_a, pack_b};
use crate::gemm::tile::{Operands, Tile, Update};
use crate::isa::Isa;

pub(crate) static F64: Tile<f64> = Tile {
    name: "gemm_f64_avx2",
    isa: Isa::Avx2,
    rows: 12,
    columns: 4,
    pack_a: pack_a_f64,
    pack_b: pack_b_f64,
    function: gemm_f64_avx2,
};

pub(crate) static F32: Tile<f32> = Tile {
    name: "gemm_f32_avx2",
    isa: Isa::Avx2,
    rows: 24,
    columns: 4,
    pack_a: pack_a_f32,
    pack_b: pack_b_f32,
    function: gemm_f32_avx2,
};

/// One column of A times one row of B: ymm0 to ymm2 × ymm3, into ymm4 to ymm15.
macro_rules! step {
    ($type:literal, $bytes:literal) => {
        concat!(
            "vmovup",
            $type,
            " ymm0, [{a}]\n",
            "vmovup",
            $type,
            " ymm1, [{a} + 32]\n",
            "vmovup",
            $type,
            " ymm2, [{a} + 64]\n",
            step!($type, $bytes, "0", "3", "4", "5", "6"),
            step!($type, $bytes, "1", "3", "7", "8", "9"),
            step!($type, $bytes, "2", "3", "10", "11", "12"),
            step!($type, $bytes, "3", "3", "13", "14", "15"),
            "prefetcht1 [{ahead}]\n",
            "add {ahead}, {ahead_bytes}\n",
            "add {a}, {a_bytes}\n",
            "add {b}, 4 * ",
            $bytes,
            "\n",
        )
    };
    ($type:literal, $bytes:literal, $j:literal, $f:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "vbroadcasts",
            $type,
            " ymm",
            $f,
            ", [{b} + ",
            $bytes,
            " * ",
            $j,
            "]\n",
            "vfmadd231p",
            $type,
            " ymm",
            $x,
            ", ymm0, ymm",
            $f,
            "\n",
            "vfmadd231p",
            $type,
            " ymm",
            $y,
            ", ymm1, ymm",
            $f,
            "\n",
            "vfmadd231p",
            $type,
            " ymm",
            $z,
            ", ymm2, ymm",
            $f,
            "\n",
        )
    };
}

/// Adds the sums, with their sign in ymm0, to C, or puts them there.
macro_rules! update {
    (add $type:literal) => {
        concat!(
            update!(add $type, "4", "5", "6"),
            update!(add $type, "7", "8", "9"),
            update!(add $type, "10", "11", "12"),
            update!(add $type, "13", "14", "15"),
        )
    };
    (set $type:literal) => {
        concat!(
            update!(set $type, "4", "5", "6"),
            update!(set $type, "7", "8", "9"),
            update!(set $type, "10", "11", "12"),
            update!(set $type, "13", "14", "15"),
        )
    };
    (add $type:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "vfmadd213p", $type, " ymm", $x, ", ymm0, [{c}]\n",
            "vfmadd213p", $type, " ymm", $y, ", ymm0, [{c} + 32]\n",
            "vfmadd213p", $type, " ymm", $z, ", ymm0, [{c} + 64]\n",
            update!(set $type, $x, $y, $z),
        )
    };
    (set $type:literal, $x:literal, $y:literal, $z:literal) => {
        concat!(
            "vmovup", $type, " [{c}], ymm", $x, "\n",
            "vmovup", $type, " [{c} + 32], ymm", $y, "\n",
            "vmovup", $type, " [{c} + 64], ymm", $z, "\n",
            "add {c}, {c_bytes}\n",
        )
    };
}

macro_rules! tile {
    ($name:ident, $float:ty, $type:literal, $bytes:literal) => {
        /// # Safety
        /// As [`crate::gemm::tile::TileFunction`].
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $name(operands: &Operands<$float>, c: *mut $float, c_stride: usize, update: Update) {
            let sign: $float = if update == Update::Subtract { -1.0 } else { 1.0 };
            let c_bytes = c_stride * size_of::<$float>();
            // The next tile of C is fetched while the first turns are made, and no more: what follows may be another
            // thread's.
            let lines = (operands.ahead_c.addr() % 64 + 96).div_ceil(64);
            let turns = (operands.depth / 8).min(4 * lines);
            // SAFETY: the caller grants the instruction set, the strips and the whole tile of C. A prefetch of any
            // address is harmless.
            unsafe {
                asm!(
                    ".irp i, 4,5,6,7,8,9,10,11,12,13,14,15",
                    "vxorps ymm\\i, ymm\\i, ymm\\i",
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
                    "test {turns}, 3",
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
                    concat!("vbroadcasts", $type, " ymm0, [{sign}]"),
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
                    back = in(reg) 64_usize.wrapping_sub(3 * c_bytes),
                    wrapped = out(reg) _,
                    ahead = inout(reg) operands.ahead => _,
                    ahead_bytes = in(reg) operands.ahead_bytes,
                    turns = inout(reg) turns => _,
                    rest = inout(reg) operands.depth - 8 * turns => _,
                    sign = in(reg) &sign,
                    set = in(reg) u32::from(update == Update::Set),
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                    out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _,
                    out("ymm11") _, out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                    options(nostack),
                );
            }
        }
    };
}

tile!(gemm_f64_avx2, f64, "d", "8");
tile!(gemm_f32_avx2, f32, "s", "4");

macro_rules! packing {
    ($a:ident, $b:ident, $float:ty, $rows:literal) => {
        /// # Safety
        /// As [`crate::gemm::pack::PackA`].
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $a(part: Part<$float>, depth: usize, to: *mut $float) {
            // SAFETY: granted by the caller.
            unsafe { pack_a::<$float, $rows>(part, depth, to) }
        }

        /// # Safety
        /// As [`crate::gemm::pack::PackB`].
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $b(part: Part<$float>, to: *mut $float) {
            // SAFETY: granted by the caller.
            unsafe { pack_b::<$float, 4>(part, to) }
        }
    };
}

packing!(pack_a_f64, pack_b_f64, f64, 12);
packing!(pack_a_f32, pack_b_f32, f32, 24);
