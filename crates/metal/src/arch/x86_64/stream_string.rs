//! Bandwidth kernels of one instruction, `rep movsb` or `rep stosb`: fast with ERMS.

use core::arch::asm;

use crate::isa::Isa;
use crate::stream::{StoreKind, StreamKernel, StreamOp, Terms};

/// Copies `b` to `a` in each pass and returns 0. Safety: see `StreamKernel::function`.
#[inline(never)]
unsafe fn copy_rep_movsb(a: *mut f64, b: *const f64, _: *const f64, terms: Terms) -> u64 {
    for _ in 0..terms.passes {
        // SAFETY: the caller grants `bytes` bytes at a and b; the direction flag is clear.
        unsafe {
            asm!(
                "rep movsb",
                inout("rdi") a => _,
                inout("rsi") b => _,
                inout("rcx") terms.bytes => _,
                options(nostack, preserves_flags),
            );
        }
    }
    0
}

/// Fills `a` with the scalar in each pass, returns 0. Safety: see `StreamKernel::function`.
#[inline(never)]
unsafe fn write_rep_stosb(a: *mut f64, _: *const f64, _: *const f64, terms: Terms) -> u64 {
    let pattern = terms.scalar.to_bits();
    let of_one_byte = pattern == u64::from(pattern as u8) * 0x0101_0101_0101_0101;
    for _ in 0..terms.passes {
        match of_one_byte {
            // SAFETY: the caller grants `bytes` bytes at a; the direction flag is clear.
            true => unsafe {
                asm!(
                    "rep stosb",
                    inout("rdi") a => _,
                    inout("rcx") terms.bytes => _,
                    in("rax") pattern,
                    options(nostack, preserves_flags),
                );
            },
            // SAFETY: as above; the bytes are whole elements.
            false => unsafe {
                asm!(
                    "rep stosq",
                    inout("rdi") a => _,
                    inout("rcx") terms.bytes / 8 => _,
                    in("rax") pattern,
                    options(nostack, preserves_flags),
                );
            },
        }
    }
    0
}

pub(super) static KERNELS: [StreamKernel; 2] = [
    StreamKernel {
        name: "copy_rep_movsb",
        op: StreamOp::Copy,
        isa: Isa::Sse2,
        store: StoreKind::String,
        prefetched: 0,
        distances: &[0],
        turn: 64,
        function: copy_rep_movsb,
    },
    StreamKernel {
        name: "write_rep_stosb",
        op: StreamOp::Write,
        isa: Isa::Sse2,
        store: StoreKind::String,
        prefetched: 0,
        distances: &[0],
        turn: 64,
        function: write_rep_stosb,
    },
];
