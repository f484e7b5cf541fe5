//! Compute kernels: each is a function with a row of data that defines its operations. It advances
//! a recurrence whose numbers always change, so the final state proves how many iterations ran.

mod names;
mod number;
mod op;
pub(crate) mod random;
pub mod rate;
mod tile;
mod vectors;

use crate::arch::{native, reference};
use crate::isa::{Absence, Feature, Isa};

pub use names::Element;
pub use number::Number;
pub use op::{KernelBound, Op, OperationRow, RateUnit, rates};
pub use rate::CoreRate;
pub(crate) use tile::TileSize;
pub(crate) use vectors::Vectors;

/// One step of an accumulator x with its lane's constants a and b, or with the next accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recurrence {
    /// x ← x·a + b, rounded once.
    FusedScale,
    /// x ← x·a + b, the product rounded before the sum.
    RoundedScale,
    /// x ← x + a·b, rounded once.
    FusedSum,
    /// x ← x + a.
    Sum,
    /// x ← x·b.
    Product,
    /// `Sum` for every second accumulator from the first, `Product` for the rest.
    SumOrProduct,
    /// x ← x ÷ b.
    Quotient,
    /// x ← √(x² + b), square and sum rounded once.
    FusedRoot,
    /// x ← √(x² + b), the square rounded before the sum.
    RoundedRoot,
    /// x ← x + next.
    NextSum,
    /// x ← x + the next but one for every second accumulator, x ← x + a (odd) for the rest.
    RingOrSum,
    /// x ← x·next, all odd.
    NextProduct,
    /// x ← x + the products of next and b, split into narrow integers: next is unsigned if bytes.
    NextDot,
    /// `NextDot` with signed numbers.
    NextSignedDot,
    /// x ← x + the products of a and b, both split into narrow numbers; exact, so in any order.
    ExactDot,
    /// x ← x + the products of a's row and b's column, split into narrow signed or exact numbers.
    Tile,
    /// x ← b − x², rounded once. The recurrences from here on suit the coarse binary16.
    SquareFrom,
    /// x ← x − x·b, rounded once.
    Flip,
    /// x ← b − next.
    NextFrom,
    /// x ← next·a for every second accumulator from the first, next·b for the rest.
    NextScale,
    /// `NextFrom` for every second accumulator from the first, x ← next² for the rest.
    NextFromOrSquare,
    /// x ← b ÷ x.
    QuotientFrom,
    /// x ← √(b − x²), square and difference rounded once.
    FusedCircle,
    /// x ← √(b − x²), the square rounded before the difference.
    RoundedCircle,
    /// x ← x + the products of a and b, split into narrow integers: a is unsigned if bytes.
    Dot,
    /// `Dot` with signed numbers.
    SignedDot,
    /// x ← a − x.
    From,
    /// `From` for every second accumulator from the first, `Product` for the rest.
    FromOrProduct,
    /// Defined by the operation ([`OperationRow::step`]).
    Own,
}

/// Instructions of one kind per iteration of a kernel, compared with the disassembly by a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionCount {
    /// Mnemonic in the disassembly; empty if the compiler chooses.
    pub mnemonic: &'static str,
    /// Instructions per iteration.
    pub count: u32,
    /// Counted operations per lane: 2 for a fused multiply-add, 0 if not part of the arithmetic.
    pub operations: u32,
}

const LEAST_VECTOR_BITS: u32 = 128;

/// A compute kernel.
#[derive(Debug)]
pub struct ComputeKernel {
    /// Unique name, also that of the symbol, except for width and number of chains.
    pub name: &'static str,
    /// Operation.
    pub op: Op,
    /// Type of the operands.
    pub element: Element,
    /// Instruction set.
    pub isa: Isa,
    /// Feature needed beyond the instruction set.
    pub needs: Option<Feature>,
    /// Results per vector (on this processor if its vector length varies).
    pub lanes: u32,
    /// Independent vectors in flight.
    pub accumulators: u32,
    /// Steps of every accumulator per iteration.
    pub steps: u32,
    /// Whether each accumulator is an independent chain, and their number was requested.
    pub chains: bool,
    /// Recurrence of the accumulators.
    pub recurrence: Recurrence,
    /// Arithmetic instructions per iteration.
    pub parts: &'static [InstructionCount],
    /// Advances every accumulator. Needs `isa`, `needs`, `turns` > 0 and the vectors of this row.
    pub(crate) function: unsafe fn(turns: u64, vectors: &mut Vectors),
}

impl ComputeKernel {
    /// Returns the operations (FLOP or OP) per loop iteration, over all accumulators and lanes.
    pub fn operations_per_turn(&self) -> u64 {
        let per_lane: u32 = self.parts.iter().map(|part| part.count * part.operations).sum();
        u64::from(self.lanes) * u64::from(per_lane)
    }

    /// Returns the operations (FLOP or OP) of one update of one accumulator, over all its lanes.
    pub fn operations_per_step(&self) -> f64 {
        self.operations_per_turn() as f64 / f64::from(self.accumulators * self.steps)
    }

    /// Returns the width of an accumulator in bits: of a vector, or of one number if scalar.
    pub fn vector_bits(&self) -> u32 {
        self.lanes * 8 * self.result().bytes() as u32
    }

    /// Returns whether the kernel computes single numbers instead of vectors of at least 128 bits.
    pub fn is_scalar(&self) -> bool {
        self.vector_bits() < LEAST_VECTOR_BITS
    }

    /// Returns whether the kernel computes scalar integers, in general-purpose registers.
    pub fn is_general(&self) -> bool {
        self.is_scalar() && !self.element.is_float()
    }

    /// Returns whether the operation takes instructions of several kinds: a product and a sum.
    pub fn is_separate(&self) -> bool {
        let mut counted = self.parts.iter().filter(|part| part.operations > 0).map(|part| part.mnemonic);
        let first = counted.next();
        counted.any(|other| Some(other) != first)
    }

    /// Returns which instruction rate of a core limits the kernel; `None` if none is defined.
    pub fn rate(&self) -> Option<CoreRate> {
        self.op.row().rates.iter().find(|bound| (bound.of)(self)).map(|bound| bound.rate)
    }

    /// Returns the type of the accumulators, which is wider than `element` for dot products.
    pub fn result(&self) -> Element {
        self.element.summed_by(self.op)
    }

    /// Returns whether [`find`] returns another kernel for the operation, type and instruction set.
    pub fn is_variant(&self) -> bool {
        find(self.op, self.element, self.isa).is_some_and(|first| first.name != self.name)
    }

    /// Checks that this processor can run the kernel; the error names the first missing feature.
    pub fn available(&self) -> Result<(), Absence> {
        let isa = self.isa.available();
        // A feature that the kernel itself lacks is more specific, except if the set is foreign.
        match self.needs.filter(|feature| !feature.is_present()) {
            Some(feature) if !matches!(isa, Err(Absence::Architecture { .. })) => {
                Err(Absence::Kernel { kernel: self.name, feature: feature.name })
            }
            _ => isa,
        }
    }

    /// Returns the kernel with its initial operands; fails if this CPU cannot run it.
    pub fn load(&'static self) -> Result<LoadedKernel, Absence> {
        self.available()?;
        let vectors = Vectors::seeded(self);
        Ok(LoadedKernel { kernel: self, seed: vectors.clone(), vectors })
    }
}

/// Returns every compute kernel for this architecture, also those that this CPU cannot run.
pub fn kernels() -> impl Iterator<Item = &'static ComputeKernel> {
    reference::KERNELS.iter().chain(native::kernels().flatten())
}

/// Returns the preferred kernel for these three: the first of [`variants`]; `None` without any.
pub fn find(op: Op, element: Element, isa: Isa) -> Option<&'static ComputeKernel> {
    variants(op, element, isa).next()
}

/// Returns the kernels for an operation, number type and instruction set, which differ in the order
/// of instructions. The fastest depends on the core ([`crate::capability::fastest_variant`]).
pub fn variants(op: Op, element: Element, isa: Isa) -> impl Iterator<Item = &'static ComputeKernel> {
    kernels().filter(move |kernel| kernel.op == op && kernel.element == element && kernel.isa == isa)
}

/// Returns the kernels that exist once per number of independent dependency chains (1, 2, …).
pub fn chained() -> impl Iterator<Item = &'static ComputeKernel> {
    native::chained().flatten()
}

/// A kernel that this processor can run, with its operands.
#[derive(Debug, Clone)]
pub struct LoadedKernel {
    kernel: &'static ComputeKernel,
    seed: Vectors,
    vectors: Vectors,
}

/// State of a kernel's accumulators at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct AccumulatorSnapshot(Vectors);

/// A kernel's result differs from the reference.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{kernel} computed {got} where the reference has {wanted} (accumulator {accumulator}, lane {lane}, after \
     {turns} turns): this CPU or its memory computes wrongly, or the kernel is broken"
)]
pub struct WrongResult {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Index of the accumulator.
    pub accumulator: usize,
    /// Index of the lane.
    pub lane: usize,
    /// Iterations since the seed.
    pub turns: u64,
    /// Result of the kernel.
    pub got: Number,
    /// Result of the reference.
    pub wanted: Number,
}

impl LoadedKernel {
    /// Returns the description of the loaded kernel.
    pub fn kernel(&self) -> &'static ComputeKernel {
        self.kernel
    }

    /// Runs exactly `turns` iterations of the kernel's loop.
    pub fn run(&mut self, turns: u64) {
        if turns == 0 {
            return;
        }
        // SAFETY: `load` checked the set and made the vectors; `turns` is above zero.
        unsafe { (self.kernel.function)(turns, &mut self.vectors) }
    }

    /// Resets all operands and accumulators to their initial values.
    pub fn reset(&mut self) {
        self.vectors.clone_from(&self.seed);
    }

    /// Returns a copy of the accumulators.
    pub fn snapshot(&self) -> AccumulatorSnapshot {
        AccumulatorSnapshot(self.vectors.clone())
    }

    /// Returns whether the accumulators equal `snapshot` bit by bit.
    pub fn equals(&self, snapshot: &AccumulatorSnapshot) -> bool {
        self.vectors == snapshot.0
    }

    /// Sets operands and accumulators to those in `start`, a snapshot of the same kernel.
    pub fn start_from(&mut self, start: &AccumulatorSnapshot) {
        self.vectors.clone_from(&start.0);
    }

    /// Inverts one bit of one accumulator, both chosen by the number `random`.
    pub fn invert_bit(&mut self, random: u64) {
        self.vectors.invert_bit(random);
    }

    /// Computes, in portable Rust, the accumulators after `turns` iterations from `start`.
    pub fn reference(&self, start: &AccumulatorSnapshot, turns: u64) -> AccumulatorSnapshot {
        let mut wanted = start.0.clone();
        reference::advance(self.kernel, turns, &mut wanted);
        AccumulatorSnapshot(wanted)
    }

    /// Checks that `turns` iterations of [`reference`](Self::reference) from the initial operands
    /// give `snapshot`; fails with the first number that differs.
    pub fn verify(&self, snapshot: &AccumulatorSnapshot, turns: u64) -> Result<(), WrongResult> {
        let wanted = self.reference(&AccumulatorSnapshot(self.seed.clone()), turns);
        self.compare(snapshot, &wanted, turns)
    }

    /// Checks that `snapshot`, after `turns` iterations, equals `wanted`; fails at a difference.
    pub fn compare(
        &self,
        snapshot: &AccumulatorSnapshot,
        wanted: &AccumulatorSnapshot,
        turns: u64,
    ) -> Result<(), WrongResult> {
        match snapshot.0.first_difference(&wanted.0) {
            None => Ok(()),
            Some((accumulator, lane, [got, wanted])) => {
                Err(WrongResult { kernel: self.kernel.name, accumulator, lane, turns, got, wanted })
            }
        }
    }
}

#[cfg(test)]
mod tests;
