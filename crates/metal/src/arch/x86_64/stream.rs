//! The loop of every x86-64 bandwidth kernel, written once; the instruction sets fill in their instructions.
//!
//! A turn is four vectors of each array. Longer turns were slower (Zen 4, reading with AVX2: 8 vectors −7 %, 16 vectors
//! −15 %): prefetchers follow load instructions, and learn sooner from few of them. Four sums are enough for a read
//! never to wait: an integer addition takes one cycle, and no core loads more than three vectors in one.
//!
//! Nothing but the reset of the index lies between two passes: in the first cache a pass takes some hundred cycles.

use crate::stream::StreamKernel;

use super::{stream_string, stream_vectors};

/// The bandwidth kernels of this architecture beyond the portable ones, by instruction set.
pub(crate) static STREAMS: [&[StreamKernel]; 4] =
    [&stream_vectors::SSE2, &stream_vectors::AVX2, &stream_vectors::AVX512, &stream_string::KERNELS];

/// How far ahead a kernel prefetches, in bytes, by the instruction that it does so with: past the second-level cache
/// (`prefetchnta`) from a few lines to a small page, and further into the first (`prefetcht0`) or second level (`prefetcht1`). On Emerald Rapids copies past the caches gain 6 to 17 % by `prefetcht1` and lose 36 % by
/// `prefetchnta`; on Zen 4 and 5 they gain by the latter (docs/performance.md).
pub(super) const fn distances(hint: &str) -> &'static [u32] {
    match hint.as_bytes() {
        b"" => &[0],
        b"prefetchnta" => &[256, 1024, 3072],
        _ => &[2048, 4096],
    }
}

/// One kernel: its function around the common loops, and its row.
///
/// rdi, rsi and rdx point behind the arrays a, b and c; rcx counts up to 0 and is added to each; r8 is rsi, and r11 rdx,
/// plus the distance of prefetching; r9 is −bytes and r10 the passes left. `\k` is the number of a vector, 0 to 3, and of
/// the register for it; `\l` a line within a turn. `start` may use s in xmm15; `end` leaves the sum in rax.
macro_rules! stream_kernel {
    (
        $name:ident: $op:ident, $isa:ident, $store:ident, turn $turn:literal,
        start [$($start:expr),*],
        prefetch $hint:literal [$($source:literal),*] lines $lines:literal,
        step [$($step:expr),*],
        write [$($write:expr)?],
        end [$($end:expr),*]
    ) => {{
        /// # Safety
        /// As `StreamKernel::function` demands.
        #[inline(never)]
        unsafe fn $name(a: *mut f64, b: *const f64, c: *const f64, terms: Terms) -> u64 {
            let Terms { bytes, passes, ahead, scalar } = terms;
            let sum;
            // SAFETY: the caller grants the instruction set and the arrays; indices run over their bytes from first to
            // last and end at 0. A prefetch beyond an array does nothing. All registers are named or clobbered.
            unsafe {
                asm!(
                    $($start,)*
                    "mov rcx, r9",
                    ".p2align 6",
                    "2:",
                    $(
                        concat!(".irp l, ", $lines),
                        concat!($hint, " [", $source, " + rcx + \\l]"),
                        ".endr",
                    )*
                    ".irp k, 0,1,2,3",
                    $($step,)*
                    ".endr",
                    $(
                        ".irp k, 0,1,2,3",
                        $write,
                        ".endr",
                    )?
                    concat!("add rcx, ", $turn),
                    "jnz 2b",
                    "mov rcx, r9",
                    "dec r10",
                    "jnz 2b",
                    $($end,)*
                    in("rdi") a.wrapping_byte_add(bytes),
                    in("rsi") b.wrapping_byte_add(bytes),
                    in("rdx") c.wrapping_byte_add(bytes),
                    out("rcx") _,
                    inout("r8") b.wrapping_byte_add(bytes).wrapping_byte_add(ahead) => _,
                    inout("r9") bytes.wrapping_neg() => _,
                    inout("r10") passes => _,
                    inout("r11") c.wrapping_byte_add(bytes).wrapping_byte_add(ahead) => _,
                    inout("rax") 0_u64 => sum,
                    inout("xmm15") scalar => _,
                    clobber_abi("C"),
                    options(nostack),
                );
            }
            sum
        }
        const SOURCES: &[&str] = &[$($source),*];
        StreamKernel {
            name: stringify!($name),
            op: StreamOp::$op,
            isa: Isa::$isa,
            store: Store::$store,
            prefetched: SOURCES.len() as u32,
            distances: distances($hint),
            turn: $turn,
            function: $name,
        }
    }};
}
pub(super) use stream_kernel;
