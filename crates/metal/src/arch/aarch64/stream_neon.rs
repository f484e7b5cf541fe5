//! NEON bandwidth kernels: four 128-bit vectors per array and iteration, in pairs. `stnp` is a hint
//! that the data is not reused soon.

use core::arch::asm;

use crate::isa::Isa;
use crate::stream::{StoreKind, StreamKernel, StreamOp, Terms};

const PREFETCH_DISTANCES: [u32; 3] = [256, 1024, 3072];

/// x9, x10 and x11 are addresses in a, b and c; x12 counts the iterations of a pass, x14 the
/// passes; x15 is the prefetch distance. v0 to v3 are stored, v4 to v7 are a second source, v16 to
/// v19 sums, v31 the scalar in both lanes.
macro_rules! stream_kernel {
    (
        $name:ident: $op:ident, $store:ident,
        prefetch [$($source:literal),*],
        step [$($step:literal),*],
        write [$($move:literal)?]
    ) => {{
        /// Runs `terms.passes` passes; returns the sum read. Safety: see `StreamKernel::function`.
        #[inline(never)]
        unsafe fn $name(a: *mut f64, b: *const f64, c: *const f64, terms: Terms) -> u64 {
            let Terms { bytes, passes, ahead, scalar } = terms;
            let sum;
            // SAFETY: the caller grants the instruction set and the arrays; each pointer advances
            // over `bytes` bytes. A prefetch beyond an array does nothing. All registers are named.
            unsafe {
                asm!(
                    "dup v31.2d, v31.d[0]",
                    "movi v16.2d, #0",
                    "movi v17.2d, #0",
                    "movi v18.2d, #0",
                    "movi v19.2d, #0",
                    "3:",
                    "mov x9, {a}",
                    "mov x10, {b}",
                    "mov x11, {c}",
                    "lsr x12, {bytes}, #6",
                    ".p2align 6",
                    "2:",
                    $(concat!("prfm pldl1strm, [", $source, ", x15]"),)*
                    $($step,)*
                    $(
                        concat!($move, " q0, q1, [x9]"),
                        concat!($move, " q2, q3, [x9, #32]"),
                    )?
                    "add x9, x9, #64",
                    "add x10, x10, #64",
                    "add x11, x11, #64",
                    "subs x12, x12, #1",
                    "b.ne 2b",
                    "subs x14, x14, #1",
                    "b.ne 3b",
                    "add v16.2d, v16.2d, v17.2d",
                    "add v18.2d, v18.2d, v19.2d",
                    "add v16.2d, v16.2d, v18.2d",
                    "addp d16, v16.2d",
                    "fmov {sum}, d16",
                    a = in(reg) a,
                    b = in(reg) b,
                    c = in(reg) c,
                    bytes = in(reg) bytes,
                    sum = lateout(reg) sum,
                    inout("x14") passes => _,
                    in("x15") ahead,
                    out("x9") _, out("x10") _, out("x11") _, out("x12") _,
                    inout("v31") scalar => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                    options(nostack),
                );
            }
            sum
        }
        const SOURCES: &[&str] = &[$($source),*];
        StreamKernel {
            name: stringify!($name),
            op: StreamOp::$op,
            isa: Isa::Neon,
            store: StoreKind::$store,
            prefetched: SOURCES.len() as u32,
            distances: if SOURCES.is_empty() { &[0] } else { &PREFETCH_DISTANCES },
            turn: 64,
            function: $name,
        }
    }};
}

macro_rules! streams {
    ($($op:ident $step:tt {$(
        $name:ident $store:ident [$($move:literal)?] [$($source:literal),*];
    )+})+) => {
        pub(super) static KERNELS: [StreamKernel; 21] = [$($(
            stream_kernel!($name: $op, $store, prefetch [$($source),*], step $step, write [$($move)?]),
        )+)+];
    };
}

streams! {
    Read [
        "ldp q0, q1, [x10]", "ldp q2, q3, [x10, #32]",
        "add v16.2d, v16.2d, v0.2d", "add v17.2d, v17.2d, v1.2d",
        "add v18.2d, v18.2d, v2.2d", "add v19.2d, v19.2d, v3.2d"
    ] {
        read_neon Ordinary [] [];
        read_ahead_neon Ordinary [] ["x10"];
    }
    Write [
        "mov v0.16b, v31.16b", "mov v1.16b, v31.16b",
        "mov v2.16b, v31.16b", "mov v3.16b, v31.16b"
    ] {
        write_neon Ordinary ["stp"] [];
        write_nt_neon NonTemporal ["stnp"] [];
    }
    Copy ["ldp q0, q1, [x10]", "ldp q2, q3, [x10, #32]"] {
        copy_neon Ordinary ["stp"] [];
        copy_ahead_neon Ordinary ["stp"] ["x10"];
        copy_nt_neon NonTemporal ["stnp"] [];
        copy_nt_ahead_neon NonTemporal ["stnp"] ["x10"];
    }
    Scale [
        "ldp q0, q1, [x10]", "ldp q2, q3, [x10, #32]",
        "fmul v0.2d, v0.2d, v31.2d", "fmul v1.2d, v1.2d, v31.2d",
        "fmul v2.2d, v2.2d, v31.2d", "fmul v3.2d, v3.2d, v31.2d"
    ] {
        scale_neon Ordinary ["stp"] [];
        scale_ahead_neon Ordinary ["stp"] ["x10"];
        scale_nt_neon NonTemporal ["stnp"] [];
        scale_nt_ahead_neon NonTemporal ["stnp"] ["x10"];
    }
    Add [
        "ldp q0, q1, [x10]", "ldp q2, q3, [x10, #32]",
        "ldp q4, q5, [x11]", "ldp q6, q7, [x11, #32]",
        "fadd v0.2d, v0.2d, v4.2d", "fadd v1.2d, v1.2d, v5.2d",
        "fadd v2.2d, v2.2d, v6.2d", "fadd v3.2d, v3.2d, v7.2d"
    ] {
        add_neon Ordinary ["stp"] [];
        add_ahead_neon Ordinary ["stp"] ["x10", "x11"];
        add_nt_neon NonTemporal ["stnp"] [];
        add_nt_ahead_neon NonTemporal ["stnp"] ["x10", "x11"];
    }
    Triad [
        "ldp q0, q1, [x10]", "ldp q2, q3, [x10, #32]",
        "ldp q4, q5, [x11]", "ldp q6, q7, [x11, #32]",
        "fmla v0.2d, v4.2d, v31.2d", "fmla v1.2d, v5.2d, v31.2d",
        "fmla v2.2d, v6.2d, v31.2d", "fmla v3.2d, v7.2d, v31.2d"
    ] {
        triad_neon Ordinary ["stp"] [];
        triad_ahead_neon Ordinary ["stp"] ["x10", "x11"];
        triad_nt_neon NonTemporal ["stnp"] [];
        triad_nt_ahead_neon NonTemporal ["stnp"] ["x10", "x11"];
    }
    Update [
        "ldp q0, q1, [x9]", "ldp q2, q3, [x9, #32]",
        "fmul v0.2d, v0.2d, v31.2d", "fmul v1.2d, v1.2d, v31.2d",
        "fmul v2.2d, v2.2d, v31.2d", "fmul v3.2d, v3.2d, v31.2d"
    ] {
        update_neon Ordinary ["stp"] [];
    }
}
