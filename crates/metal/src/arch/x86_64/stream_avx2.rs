//! AVX2 + FMA bandwidth kernels: 256-bit vectors.

use core::arch::asm;

use super::stream::{AHEAD, stream_kernel};
use crate::isa::Isa;
use crate::stream::{Store, StreamKernel, StreamOp, Terms};

/// A kernel that reads: four sums, folded to one at the end. With sources, it prefetches them.
macro_rules! read {
    ($name:ident, [$($source:literal),*]) => {
        stream_kernel!(
            $name: Read, Avx2, Ordinary, turn 128,
            start ["vpxor xmm0, xmm0, xmm0", "vpxor xmm1, xmm1, xmm1", "vpxor xmm2, xmm2, xmm2", "vpxor xmm3, xmm3, xmm3"],
            prefetch [$($source),*] lines "0,64",
            step ["vpaddq ymm\\k, ymm\\k, [rsi + rcx + 32*\\k]"],
            write [],
            end [
                "vpaddq ymm0, ymm0, ymm1",
                "vpaddq ymm2, ymm2, ymm3",
                "vpaddq ymm0, ymm0, ymm2",
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
            $name: $op, Avx2, $store, turn 128,
            start ["vbroadcastsd ymm15, xmm15"],
            prefetch [$($source),*] lines "0,64",
            step [$($step),*],
            write [concat!($move, " [rdi + rcx + 32*\\k], ymm\\k")],
            end [$($end),*]
        )
    };
}

pub(super) static KERNELS: [StreamKernel; 21] = [
    read!(read_avx2, []),
    read!(read_ahead_avx2, ["r8"]),
    write!(write_avx2: Write, Ordinary, ["vmovapd ymm\\k, ymm15"], []),
    write!(write_nt_avx2: Write, NonTemporal, ["vmovapd ymm\\k, ymm15"], []),
    write!(copy_avx2: Copy, Ordinary, ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]"], []),
    write!(copy_ahead_avx2: Copy, Ordinary, ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]"], ["r8"]),
    write!(copy_nt_avx2: Copy, NonTemporal, ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]"], []),
    write!(copy_nt_ahead_avx2: Copy, NonTemporal, ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]"], ["r8"]),
    write!(scale_avx2: Scale, Ordinary, ["vmulpd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"], []),
    write!(scale_ahead_avx2: Scale, Ordinary, ["vmulpd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"], ["r8"]),
    write!(scale_nt_avx2: Scale, NonTemporal, ["vmulpd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"], []),
    write!(scale_nt_ahead_avx2: Scale, NonTemporal, ["vmulpd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"], ["r8"]),
    write!(add_avx2: Add, Ordinary, ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]", "vaddpd ymm\\k, ymm\\k, [rdx + rcx + 32*\\k]"], []),
    write!(add_ahead_avx2: Add, Ordinary, ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]", "vaddpd ymm\\k, ymm\\k, [rdx + rcx + 32*\\k]"], ["r8", "r11"]),
    write!(add_nt_avx2: Add, NonTemporal, ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]", "vaddpd ymm\\k, ymm\\k, [rdx + rcx + 32*\\k]"], []),
    write!(add_nt_ahead_avx2: Add, NonTemporal, ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]", "vaddpd ymm\\k, ymm\\k, [rdx + rcx + 32*\\k]"], ["r8", "r11"]),
    write!(triad_avx2: Triad, Ordinary, ["vmovupd ymm\\k, [rdx + rcx + 32*\\k]", "vfmadd213pd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"], []),
    write!(triad_ahead_avx2: Triad, Ordinary, ["vmovupd ymm\\k, [rdx + rcx + 32*\\k]", "vfmadd213pd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"], ["r8", "r11"]),
    write!(triad_nt_avx2: Triad, NonTemporal, ["vmovupd ymm\\k, [rdx + rcx + 32*\\k]", "vfmadd213pd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"], []),
    write!(triad_nt_ahead_avx2: Triad, NonTemporal, ["vmovupd ymm\\k, [rdx + rcx + 32*\\k]", "vfmadd213pd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"], ["r8", "r11"]),
    write!(update_avx2: Update, Ordinary, ["vmulpd ymm\\k, ymm15, [rdi + rcx + 32*\\k]"], []),
];
