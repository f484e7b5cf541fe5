//! AVX-512 bandwidth kernels: 512-bit vectors.

use core::arch::asm;

use super::stream::{AHEAD, stream_kernel};
use crate::isa::Isa;
use crate::stream::{Store, StreamKernel, StreamOp, Terms};

/// A kernel that reads: four sums, folded to one at the end. With sources, it prefetches them.
macro_rules! read {
    ($name:ident, [$($source:literal),*]) => {
        stream_kernel!(
            $name: Read, Avx512, Ordinary, turn 256,
            start ["vpxor xmm0, xmm0, xmm0", "vpxor xmm1, xmm1, xmm1", "vpxor xmm2, xmm2, xmm2", "vpxor xmm3, xmm3, xmm3"],
            prefetch [$($source),*] lines "0,64,128,192",
            step ["vpaddq zmm\\k, zmm\\k, [rsi + rcx + 64*\\k]"],
            write [],
            end [
                "vpaddq zmm0, zmm0, zmm1",
                "vpaddq zmm2, zmm2, zmm3",
                "vpaddq zmm0, zmm0, zmm2",
                "vextracti64x4 ymm1, zmm0, 1",
                "vpaddq ymm0, ymm0, ymm1",
                "vextracti128 xmm1, ymm0, 1",
                "vpaddq xmm0, xmm0, xmm1",
                "vpshufd xmm1, xmm0, 0xee",
                "vpaddq xmm0, xmm0, xmm1",
                "vmovq rax, xmm0",
                "vzeroupper"
            ]
        )
    };
}

/// A kernel that writes what its steps leave in the first four registers; the sixteenth is the scalar in every lane.
macro_rules! write {
    ($name:ident: $op:ident, Ordinary, [$($step:expr),*], [$($source:literal),*]) => {
        write!(@ $name: $op, Ordinary, "vmovapd", [$($step),*], [$($source),*], ["vzeroupper"])
    };
    ($name:ident: $op:ident, NonTemporal, [$($step:expr),*], [$($source:literal),*]) => {
        write!(@ $name: $op, NonTemporal, "vmovntpd", [$($step),*], [$($source),*], ["vzeroupper", "sfence"])
    };
    (@ $name:ident: $op:ident, $store:ident, $move:literal, [$($step:expr),*], [$($source:literal),*], [$($end:expr),*]) => {
        stream_kernel!(
            $name: $op, Avx512, $store, turn 256,
            start ["vbroadcastsd zmm15, xmm15"],
            prefetch [$($source),*] lines "0,64,128,192",
            step [$($step),*],
            write [concat!($move, " [rdi + rcx + 64*\\k], zmm\\k")],
            end [$($end),*]
        )
    };
}

pub(super) static KERNELS: [StreamKernel; 21] = [
    read!(read_avx512, []),
    read!(read_ahead_avx512, ["r8"]),
    write!(write_avx512: Write, Ordinary, ["vmovapd zmm\\k, zmm15"], []),
    write!(write_nt_avx512: Write, NonTemporal, ["vmovapd zmm\\k, zmm15"], []),
    write!(copy_avx512: Copy, Ordinary, ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]"], []),
    write!(copy_ahead_avx512: Copy, Ordinary, ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]"], ["r8"]),
    write!(copy_nt_avx512: Copy, NonTemporal, ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]"], []),
    write!(copy_nt_ahead_avx512: Copy, NonTemporal, ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]"], ["r8"]),
    write!(scale_avx512: Scale, Ordinary, ["vmulpd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"], []),
    write!(scale_ahead_avx512: Scale, Ordinary, ["vmulpd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"], ["r8"]),
    write!(scale_nt_avx512: Scale, NonTemporal, ["vmulpd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"], []),
    write!(scale_nt_ahead_avx512: Scale, NonTemporal, ["vmulpd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"], ["r8"]),
    write!(add_avx512: Add, Ordinary, ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]", "vaddpd zmm\\k, zmm\\k, [rdx + rcx + 64*\\k]"], []),
    write!(add_ahead_avx512: Add, Ordinary, ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]", "vaddpd zmm\\k, zmm\\k, [rdx + rcx + 64*\\k]"], ["r8", "r11"]),
    write!(add_nt_avx512: Add, NonTemporal, ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]", "vaddpd zmm\\k, zmm\\k, [rdx + rcx + 64*\\k]"], []),
    write!(add_nt_ahead_avx512: Add, NonTemporal, ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]", "vaddpd zmm\\k, zmm\\k, [rdx + rcx + 64*\\k]"], ["r8", "r11"]),
    write!(triad_avx512: Triad, Ordinary, ["vmovupd zmm\\k, [rdx + rcx + 64*\\k]", "vfmadd213pd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"], []),
    write!(triad_ahead_avx512: Triad, Ordinary, ["vmovupd zmm\\k, [rdx + rcx + 64*\\k]", "vfmadd213pd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"], ["r8", "r11"]),
    write!(triad_nt_avx512: Triad, NonTemporal, ["vmovupd zmm\\k, [rdx + rcx + 64*\\k]", "vfmadd213pd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"], []),
    write!(triad_nt_ahead_avx512: Triad, NonTemporal, ["vmovupd zmm\\k, [rdx + rcx + 64*\\k]", "vfmadd213pd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"], ["r8", "r11"]),
    write!(update_avx512: Update, Ordinary, ["vmulpd zmm\\k, zmm15, [rdi + rcx + 64*\\k]"], []),
];
