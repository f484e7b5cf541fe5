//! The loop of every x86-64 bandwidth kernel, written once; the instruction sets fill in their instructions.
//!
//! A turn is four vectors of each array. Longer turns were slower (Zen 4, reading with AVX2: 8 vectors −7 %, 16 vectors
//! −15 %): prefetchers follow load instructions, and learn sooner from few of them. Four sums are enough for a read
//! never to wait: an integer addition takes one cycle, and no core loads more than three vectors in one.

use crate::stream::StreamKernel;

use super::{stream_avx2, stream_avx512, stream_sse2};

/// The bandwidth kernels of this architecture beyond the portable ones, by instruction set.
pub(crate) static STREAMS: [&[StreamKernel]; 3] =
    [&stream_sse2::KERNELS, &stream_avx2::KERNELS, &stream_avx512::KERNELS];

/// One kernel: its function around the common loop, and its row.
///
/// rdi, rsi and rdx point behind the arrays a, b and c; rcx counts up to 0 and is added to each. `\k` is the number of
/// a vector, 0 to 3, and of the register for it; `\l` a line within a turn. `start` may use s in xmm15; `end` leaves
/// the sum in rax.
macro_rules! stream_kernel {
    (
        $name:ident: $op:ident, $isa:ident, $store:ident, turn $turn:literal,
        start [$($start:expr),*],
        prefetch [$($ahead:literal, lines $lines:literal)?],
        step [$($step:expr),*],
        write [$($write:expr)?],
        end [$($end:expr),*]
    ) => {{
        /// # Safety
        /// As `StreamKernel::function` demands.
        #[inline(never)]
        unsafe fn $name(a: *mut f64, b: *const f64, c: *const f64, bytes: usize, s: f64) -> u64 {
            let sum;
            // SAFETY: the caller grants the instruction set and the arrays; indices run over their bytes from first to
            // last and end at 0. A prefetch beyond an array does nothing. All registers are named or clobbered.
            unsafe {
                asm!(
                    $($start,)*
                    ".p2align 6",
                    "2:",
                    $(
                        concat!(".irp l, ", $lines),
                        concat!("prefetchnta [rsi + rcx + ", $ahead, " + \\l]"),
                        ".endr",
                    )?
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
                    $($end,)*
                    in("rdi") a.wrapping_byte_add(bytes),
                    in("rsi") b.wrapping_byte_add(bytes),
                    in("rdx") c.wrapping_byte_add(bytes),
                    inout("rcx") bytes.wrapping_neg() => _,
                    inout("rax") 0_u64 => sum,
                    inout("xmm15") s => _,
                    clobber_abi("C"),
                    options(nostack),
                );
            }
            sum
        }
        StreamKernel {
            name: stringify!($name),
            op: StreamOp::$op,
            isa: Isa::$isa,
            store: Store::$store,
            prefetch: 0 $(+ $ahead)?,
            turn: $turn,
            function: $name,
        }
    }};
}
pub(super) use stream_kernel;
