//! A link: a fixed number of dependent instructions whose time gives the core clock.

use std::time::Instant;

use super::seconds;
use crate::arch::chain::{Chain, Density, Woven};
use crate::kernel::{Vectors, find};

/// Returns initial operands of the vector work in `woven`; `None` if this CPU cannot run it.
pub(super) fn seed_operands(woven: &Woven) -> Option<Vectors> {
    let (op, element) = woven.operands;
    let kernel = find(op, element, woven.isa).filter(|kernel| kernel.available().is_ok())?;
    Some(Vectors::seeded(kernel))
}

#[derive(Debug, Clone)]
pub(super) struct ChainLink {
    chain: Chain,
    turns: u64,
    /// Dependent instructions, as a number of one-cycle additions.
    pub(super) instructions: f64,
    pub(super) woven: bool,
    /// Constant overhead in seconds.
    pub(super) constant: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainKind {
    Additions,
    Multiplications,
}

impl ChainLink {
    /// Makes a link: dependent instructions of kind `of`, at least `cycles` cycles if a
    /// multiplication takes 3; amid vector work if `woven`. Safety: if `woven`, run it with the
    /// operands of its vector work, on a CPU with its instruction set.
    pub(super) unsafe fn new(density: &Density, of: ChainKind, cycles: u64, woven: bool) -> Self {
        let (chain, each, wanted) = match of {
            ChainKind::Additions => (density.add, density.adds, cycles),
            ChainKind::Multiplications => (density.multiply, density.multiplications, cycles / 3),
        };
        let turns = wanted.div_ceil(each).max(1);
        Self { chain, turns, instructions: (turns * each) as f64, woven, constant: 0.0 }
    }

    /// Returns a link about `times` times shorter, and how many times shorter exactly.
    pub(super) fn shorter(&self, times: u64) -> (Self, f64) {
        let turns = (self.turns / times).max(1);
        let share = turns as f64 / self.turns as f64;
        (Self { turns, instructions: self.instructions * share, ..self.clone() }, 1.0 / share)
    }

    /// Returns the link for the case that each of its instructions takes `cycles` cycles, not one.
    pub(super) fn with_instruction_cycles(self, cycles: f64) -> Self {
        Self { instructions: self.instructions * cycles, ..self }
    }

    pub(super) fn run(&self, operands: Option<&Vectors>) {
        // SAFETY: `turns` is above zero; the caller of `new` granted set and operands.
        unsafe { (self.chain)(self.turns, operands.map_or(std::ptr::null(), Vectors::first_row)) }
    }

    pub(super) fn time(&self, operands: Option<&Vectors>) -> f64 {
        let start = Instant::now();
        self.run(operands);
        seconds(start, Instant::now())
    }

    /// Returns the seconds per cycle if a run of the link took `seconds`; `None` below overhead.
    pub(super) fn addition_seconds(&self, seconds: f64) -> Option<f64> {
        let time = seconds - self.constant;
        (time > 0.0).then(|| time / self.instructions)
    }
}
