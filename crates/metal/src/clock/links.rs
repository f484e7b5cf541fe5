//! One link of a chain: so many dependent instructions, in vector work or alone, whose time tells the core clock.

use std::time::Instant;

use super::seconds;
use crate::arch::chain::{Chain, Density, Woven};
use crate::kernel::{Vectors, find};

/// What the vector work computes with, for the calling thread alone: numbers of a kernel, which stay as they are.
#[derive(Debug, Clone)]
pub(super) struct Operands(Option<Vectors>);

impl Operands {
    /// Those of a row; `None` if its kernel cannot run here.
    pub(super) fn of(woven: &Woven) -> Option<Self> {
        let (op, element) = woven.operands;
        let kernel = find(op, element, woven.isa).filter(|kernel| kernel.available().is_ok())?;
        Some(Self(Some(Vectors::seeded(kernel))))
    }

    /// None, for a chain alone.
    pub(super) fn none() -> Self {
        Self(None)
    }

    fn rows(&self) -> *const u8 {
        self.0.as_ref().map_or(std::ptr::null(), Vectors::first_row)
    }
}

/// A chain of some length. Only `Calibration` makes them: of [`native::SCALAR`](crate::arch::native), or of rows whose
/// operands it has.
#[derive(Debug, Clone)]
pub(super) struct Link {
    chain: Chain,
    turns: u64,
    /// Dependent instructions in it, in additions of a cycle.
    instructions: f64,
    woven: bool,
    /// Seconds that it seems longer than its instructions.
    pub(super) constant: f64,
}

/// Which of the two chains of a density.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Additions,
    Multiplications,
}

impl Link {
    /// A link of at least so many cycles, if a multiplication takes three.
    ///
    /// # Safety
    /// Where `woven`, it must be run with operands of the density's own row, whose instruction set this processor has.
    pub(super) unsafe fn new(density: &Density, of: Of, cycles: u64, woven: bool) -> Self {
        let (chain, each, wanted) = match of {
            Of::Additions => (density.add, density.adds, cycles),
            Of::Multiplications => (density.multiply, density.multiplications, cycles / 3),
        };
        let turns = wanted.div_ceil(each).max(1);
        Self { chain, turns, instructions: (turns * each) as f64, woven, constant: 0.0 }
    }

    /// The same chain, so many times shorter at least; with how many times it is.
    pub(super) fn shorter(&self, times: u64) -> (Self, f64) {
        let turns = (self.turns / times).max(1);
        let share = turns as f64 / self.turns as f64;
        (Self { turns, instructions: self.instructions * share, ..self.clone() }, 1.0 / share)
    }

    /// The same, with an instruction counted as so many additions of a cycle each.
    pub(super) fn of_cycles(self, cycles: f64) -> Self {
        Self { instructions: self.instructions * cycles, ..self }
    }

    pub(super) fn run(&self, operands: &Operands) {
        // SAFETY: the turns are above zero, and `new` was granted the instructions and their operands.
        unsafe { (self.chain)(self.turns, operands.rows()) }
    }

    /// How long it takes, in seconds.
    pub(super) fn time(&self, operands: &Operands) -> f64 {
        let start = Instant::now();
        self.run(operands);
        seconds(start, Instant::now())
    }

    /// Seconds of one instruction, from the time of the link; `None` where it took none.
    pub(super) fn addition(&self, seconds: f64) -> Option<f64> {
        let time = seconds - self.constant;
        (time > 0.0).then(|| time / self.instructions)
    }

    pub(super) fn additions(&self) -> f64 {
        self.instructions
    }

    pub(super) fn is_woven(&self) -> bool {
        self.woven
    }
}
