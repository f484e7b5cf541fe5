//! Common loop of x86-64 bandwidth kernels: four vectors of each array per iteration. More were
//! slower (Zen 4, reading with AVX2: 8 vectors −7 %, 16 vectors −15 %), because prefetchers learn
//! sooner from few load instructions.

use crate::stream::StreamKernel;

use super::{stream_string, stream_vectors};

pub(crate) static STREAM_KERNELS: [&[StreamKernel]; 4] =
    [&stream_vectors::SSE2, &stream_vectors::AVX2, &stream_vectors::AVX512, &stream_string::KERNELS];

/// Returns the prefetch distances in bytes for the instruction `hint`; 0 for "". Copies beyond the
/// caches gain 6 to 17 % with `prefetcht1` and lose 36 % with `prefetchnta` on Emerald Rapids, and
/// gain with it on Zen 4 and 5 (docs/src/performance.md).
pub(super) const fn distances(hint: &str) -> &'static [u32] {
    match hint.as_bytes() {
        b"" => &[0],
        b"prefetchnta" => &[256, 1024, 3072],
        _ => &[2048, 4096],
    }
}

/// rdi, rsi and rdx point behind the arrays a, b and c; rcx counts up to 0 and is added to each; r8
/// is rsi and r11 rdx plus the prefetch distance; r9 is −bytes and r10 the remaining passes. `\k`
/// is the number of a vector, 0 to 3, and of its register; `\l` a line within an iteration. `start`
/// may use s in xmm15; `end` leaves the sum in rax.
macro_rules! stream_kernel {
    (
        $name:ident: $op:ident, $isa:ident, $store:ident, turn $turn:literal,
        start [$($start:expr),*],
        prefetch $hint:literal [$($source:literal),*] lines $lines:literal,
        step [$($step:expr),*],
        write [$($write:expr)?],
        end [$($end:expr),*]
    ) => {{
        /// Runs `terms.passes` passes; returns the sum read. Safety: see `StreamKernel::function`.
        #[inline(never)]
        unsafe fn $name(a: *mut f64, b: *const f64, c: *const f64, terms: Terms) -> u64 {
            let Terms { bytes, passes, ahead, scalar } = terms;
            let sum;
            // SAFETY: the caller grants the instruction set and the arrays; indices cover exactly
            // their bytes. A prefetch beyond an array does nothing. All registers are named.
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
            store: StoreKind::$store,
            prefetched: SOURCES.len() as u32,
            distances: distances($hint),
            turn: $turn,
            function: $name,
        }
    }};
}
pub(super) use stream_kernel;
