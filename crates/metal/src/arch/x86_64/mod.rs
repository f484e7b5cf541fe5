//! x86-64: the chain of dependent additions that shows the core clock.

use core::arch::asm;

/// Additions in one turn of [`add_chain`]'s loop.
pub(crate) const ADDS_PER_TURN: u64 = 64;

/// The chain of dependent one-cycle additions, if this architecture has one.
pub(crate) const ADD_CHAIN: Option<fn(u64)> = Some(add_chain);

/// Runs `turns` × [`ADDS_PER_TURN`] integer additions, each waiting for the one before.
///
/// Register + register, because newer cores fold additions of immediates away in the renamer (Golden Cove does).
/// The loop's own counter runs far ahead of the chain, so it costs no time.
fn add_chain(turns: u64) {
    if turns == 0 {
        return;
    }
    // SAFETY: baseline integer instructions on registers declared below; no memory or stack is touched.
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            ".rept 64",
            "add {sum}, {step}",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            sum = inout(reg) 1_u64 => _,
            step = in(reg) 3_u64,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
}
