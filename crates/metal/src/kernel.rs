//! Compute kernels: each is a row of data beside its function, so that operations are derived and never typed twice.
//!
//! A kernel advances a recurrence in registers. Its numbers are alive: distinct in each accumulator and lane, never
//! zero, denormal or drifting to infinity, and different after each turn for longer than any timed slice, so that the
//! final state proves how much was done. [`LoadedKernel::verify`] proves it against the portable reference, bit by bit.

mod vectors;

use std::fmt;
use std::str::FromStr;

use crate::arch::{native, reference};
use crate::isa::{Absence, Isa};

pub(crate) use vectors::Vectors;

/// What a kernel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Multiplication and addition, fused where the instruction set can.
    Fma,
}

/// The numbers a kernel computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Element {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
}

/// What happens to an accumulator x in one step, with its two operands a and b.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recurrence {
    /// x ← x·a + b, rounded once.
    FusedScale,
    /// x ← x·a + b, the product rounded before the sum.
    RoundedScale,
    /// x ← x + a·b, rounded once.
    FusedSum,
}

/// Instructions in one turn of a kernel's loop. A test compares them with the disassembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Fused multiply-adds: two operations a lane.
    pub fma: u32,
    /// Multiplications.
    pub multiply: u32,
    /// Additions.
    pub add: u32,
    /// The loop's own counter and branch; in a portable kernel the compiler decides, and it is 0 here.
    pub control: u32,
}

/// One kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Unique name, also of the function's symbol.
    pub name: &'static str,
    /// What it computes.
    pub op: Op,
    /// The numbers it computes with.
    pub element: Element,
    /// The instruction set it is written in.
    pub isa: Isa,
    /// Elements in one vector.
    pub lanes: u32,
    /// Independent vectors in flight.
    pub accumulators: u32,
    /// The recurrence it advances.
    pub recurrence: Recurrence,
    /// Instructions in one turn.
    pub counts: Counts,
    /// Advances every accumulator. Needs `isa`, `turns` > 0 and vectors made for this row.
    pub(crate) function: unsafe fn(turns: u64, vectors: &mut Vectors),
}

impl Kernel {
    /// Floating-point operations in one turn of the loop, over all lanes.
    #[must_use]
    pub fn flops_per_turn(&self) -> u64 {
        let per_lane = 2 * self.counts.fma + self.counts.multiply + self.counts.add;
        u64::from(self.lanes) * u64::from(per_lane)
    }

    /// Steps of the recurrence that each accumulator makes in one turn.
    #[must_use]
    pub fn steps_per_turn(&self) -> u64 {
        u64::from(self.counts.fma.max(self.counts.multiply) / self.accumulators)
    }

    /// Loads the kernel's operands, once its instruction set is proved present.
    ///
    /// # Errors
    /// [`Absence`] if this processor lacks the instruction set.
    pub fn load(&'static self) -> Result<LoadedKernel, Absence> {
        self.isa.available()?;
        let vectors = Vectors::seeded(self);
        Ok(LoadedKernel { kernel: self, seed: vectors.clone(), vectors })
    }
}

static PORTABLE: [&Kernel; 2] = [&reference::FMA_F64, &reference::FMA_F32];

/// Every kernel built for this architecture, whether or not this processor can run it.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    PORTABLE.into_iter().chain(native::KERNELS)
}

/// The kernel of an operation, type and instruction set, if one is written.
#[must_use]
pub fn find(op: Op, element: Element, isa: Isa) -> Option<&'static Kernel> {
    kernels().find(|kernel| kernel.op == op && kernel.element == element && kernel.isa == isa)
}

/// A kernel that this processor can run, with its operands.
#[derive(Debug, Clone)]
pub struct LoadedKernel {
    kernel: &'static Kernel,
    seed: Vectors,
    vectors: Vectors,
}

/// The accumulators of a kernel at one moment, to compare with others of the same kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot(Vectors);

/// A kernel's result that is not the reference's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{kernel} computed {got:e} where the reference has {wanted:e} (accumulator {accumulator}, lane {lane}, after \
     {turns} turns): this CPU or its memory computes wrongly, or the kernel is broken"
)]
pub struct WrongResult {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Which accumulator, from 0.
    pub accumulator: usize,
    /// Which lane, from 0.
    pub lane: usize,
    /// Turns since the seed.
    pub turns: u64,
    /// What the kernel left.
    pub got: f64,
    /// What the reference has.
    pub wanted: f64,
}

impl LoadedKernel {
    /// The row of this kernel.
    #[must_use]
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    /// Does exactly `turns` turns of the loop.
    pub fn run(&mut self, turns: u64) {
        if turns == 0 {
            return;
        }
        // SAFETY: `Kernel::load`, the only constructor, proved the instruction set and made the vectors for this
        // row; `turns` is above zero.
        unsafe { (self.kernel.function)(turns, &mut self.vectors) }
    }

    /// Puts the operands back to where they began.
    pub fn reset(&mut self) {
        self.vectors.clone_from(&self.seed);
    }

    /// The accumulators as they stand.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.vectors.clone())
    }

    /// Whether the accumulators are, bit by bit, those of `snapshot`.
    #[must_use]
    pub fn equals(&self, snapshot: &Snapshot) -> bool {
        self.vectors == snapshot.0
    }

    /// Computes `turns` turns from the seed with the portable reference and compares every bit of `snapshot`.
    ///
    /// # Errors
    /// [`WrongResult`] with the first number that differs.
    pub fn verify(&self, snapshot: &Snapshot, turns: u64) -> Result<(), WrongResult> {
        let mut wanted = self.seed.clone();
        reference::advance(self.kernel, turns, &mut wanted);
        match snapshot.0.first_difference(&wanted) {
            None => Ok(()),
            Some(place) => Err(WrongResult {
                kernel: self.kernel.name,
                accumulator: place.accumulator,
                lane: place.lane,
                turns,
                got: place.left,
                wanted: place.right,
            }),
        }
    }
}

/// A text that names no operation or type of number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {text:?}: choose {choices}")]
pub struct UnknownName {
    what: &'static str,
    text: String,
    choices: &'static str,
}

impl Op {
    /// Every operation that has kernels.
    pub const ALL: [Self; 1] = [Self::Fma];

    /// Its name in cases and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fma => "fma",
        }
    }
}

impl Element {
    /// Every type that has kernels.
    pub const ALL: [Self; 2] = [Self::F64, Self::F32];

    /// Its name in cases and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
        }
    }

    /// Bytes of one number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Op {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|op| op.name() == text).ok_or_else(|| UnknownName {
            what: "operation",
            text: text.to_owned(),
            choices: "fma",
        })
    }
}

impl FromStr for Element {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|element| element.name() == text).ok_or_else(|| UnknownName {
            what: "type of number",
            text: text.to_owned(),
            choices: "f64 or f32",
        })
    }
}

#[cfg(test)]
mod tests;
