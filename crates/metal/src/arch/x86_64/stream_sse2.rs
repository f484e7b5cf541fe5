//! SSE2 bandwidth kernels: 128-bit vectors, multiplication and addition apart.
//!
//! Sources are loaded by instructions of their own: as an operand of arithmetic they would have to be aligned.

use core::arch::asm;

use super::stream::{AHEAD, stream_kernel};
use crate::isa::Isa;
use crate::stream::{Store, StreamKernel, StreamOp, Terms};

/// A kernel that reads: four sums, folded to one at the end. With sources, it prefetches them.
macro_rules! read {
    ($name:ident, [$($source:literal),*]) => {
        stream_kernel!(
            $name: Read, Sse2, Ordinary, turn 64,
            start ["pxor xmm0, xmm0", "pxor xmm1, xmm1", "pxor xmm2, xmm2", "pxor xmm3, xmm3"],
            prefetch [$($source),*] lines "0",
            step ["movdqu xmm8, [rsi + rcx + 16*\\k]", "paddq xmm\\k, xmm8"],
            write [],
            end [
                "paddq xmm0, xmm1",
                "paddq xmm2, xmm3",
                "paddq xmm0, xmm2",
                "pshufd xmm1, xmm0, 0xee",
                "paddq xmm0, xmm1",
                "movq rax, xmm0"
            ]
        )
    };
}

/// A kernel that writes what its steps leave in the first four registers; the sixteenth is the scalar in every lane.
macro_rules! write {
    ($name:ident: $op:ident, Ordinary, [$($step:expr),*], [$($source:literal),*]) => {
        write!(@ $name: $op, Ordinary, "movapd", [$($step),*], [$($source),*], [])
    };
    ($name:ident: $op:ident, NonTemporal, [$($step:expr),*], [$($source:literal),*]) => {
        write!(@ $name: $op, NonTemporal, "movntpd", [$($step),*], [$($source),*], ["sfence"])
    };
    (@ $name:ident: $op:ident, $store:ident, $move:literal, [$($step:expr),*], [$($source:literal),*], [$($end:expr),*]) => {
        stream_kernel!(
            $name: $op, Sse2, $store, turn 64,
            start ["unpcklpd xmm15, xmm15"],
            prefetch [$($source),*] lines "0",
            step [$($step),*],
            write [concat!($move, " [rdi + rcx + 16*\\k], xmm\\k")],
            end [$($end),*]
        )
    };
}

pub(super) static KERNELS: [StreamKernel; 21] = [
    read!(read_sse2, []),
    read!(read_ahead_sse2, ["r8"]),
    write!(write_sse2: Write, Ordinary, ["movapd xmm\\k, xmm15"], []),
    write!(write_nt_sse2: Write, NonTemporal, ["movapd xmm\\k, xmm15"], []),
    write!(copy_sse2: Copy, Ordinary, ["movupd xmm\\k, [rsi + rcx + 16*\\k]"], []),
    write!(copy_ahead_sse2: Copy, Ordinary, ["movupd xmm\\k, [rsi + rcx + 16*\\k]"], ["r8"]),
    write!(copy_nt_sse2: Copy, NonTemporal, ["movupd xmm\\k, [rsi + rcx + 16*\\k]"], []),
    write!(copy_nt_ahead_sse2: Copy, NonTemporal, ["movupd xmm\\k, [rsi + rcx + 16*\\k]"], ["r8"]),
    write!(scale_sse2: Scale, Ordinary, ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15"], []),
    write!(scale_ahead_sse2: Scale, Ordinary, ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15"], ["r8"]),
    write!(scale_nt_sse2: Scale, NonTemporal, ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15"], []),
    write!(scale_nt_ahead_sse2: Scale, NonTemporal, ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15"], ["r8"]),
    write!(add_sse2: Add, Ordinary, ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "movupd xmm8, [rdx + rcx + 16*\\k]", "addpd xmm\\k, xmm8"], []),
    write!(add_ahead_sse2: Add, Ordinary, ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "movupd xmm8, [rdx + rcx + 16*\\k]", "addpd xmm\\k, xmm8"], ["r8", "r11"]),
    write!(add_nt_sse2: Add, NonTemporal, ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "movupd xmm8, [rdx + rcx + 16*\\k]", "addpd xmm\\k, xmm8"], []),
    write!(add_nt_ahead_sse2: Add, NonTemporal, ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "movupd xmm8, [rdx + rcx + 16*\\k]", "addpd xmm\\k, xmm8"], ["r8", "r11"]),
    write!(triad_sse2: Triad, Ordinary, ["movupd xmm\\k, [rdx + rcx + 16*\\k]", "movupd xmm8, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15", "addpd xmm\\k, xmm8"], []),
    write!(triad_ahead_sse2: Triad, Ordinary, ["movupd xmm\\k, [rdx + rcx + 16*\\k]", "movupd xmm8, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15", "addpd xmm\\k, xmm8"], ["r8", "r11"]),
    write!(triad_nt_sse2: Triad, NonTemporal, ["movupd xmm\\k, [rdx + rcx + 16*\\k]", "movupd xmm8, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15", "addpd xmm\\k, xmm8"], []),
    write!(triad_nt_ahead_sse2: Triad, NonTemporal, ["movupd xmm\\k, [rdx + rcx + 16*\\k]", "movupd xmm8, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15", "addpd xmm\\k, xmm8"], ["r8", "r11"]),
    write!(update_sse2: Update, Ordinary, ["movapd xmm\\k, [rdi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15"], []),
];
