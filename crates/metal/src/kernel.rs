//! Compute kernels: each is a row of data beside its function, so that operations are derived and never typed twice.
//!
//! A kernel advances a recurrence in registers. Its numbers are alive: distinct in each accumulator and lane, never
//! zero, denormal or drifting to infinity, and different after each turn for longer than any timed slice, so that the
//! final state proves how much was done. [`LoadedKernel::verify`] proves it against the portable reference, bit by bit.

mod names;
mod number;
mod op;
pub mod rate;
mod tile;
mod vectors;

use crate::arch::{native, reference};
use crate::isa::{Absence, Feature, Isa};

pub use names::{Element, UnknownName};
pub use number::Number;
pub use op::{Bound, Counted, Op, Operation, rates};
pub use rate::Rate;
pub(crate) use tile::Tile;
pub(crate) use vectors::Vectors;

/// What happens to an accumulator x in one step, with the two constants a and b of its lane, or with the accumulator
/// after it in the order of the steps (the first after the last).
///
/// The recurrences of neighbours are one-to-one, so their state never runs into a corner, and its bits look random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// As `Sum` for every second accumulator, beginning with the first, and as `Product` for the others.
    SumOrProduct,
    /// x ← x ÷ b.
    Quotient,
    /// x ← √(x² + b), square and sum rounded once.
    FusedRoot,
    /// x ← √(x² + b), the square rounded before the sum.
    RoundedRoot,
    /// x ← x + next.
    NextSum,
    /// x ← x + the next but one for every second accumulator, beginning with the first, and x ← x + a, an odd number, for
    /// the others.
    RingOrSum,
    /// x ← x·next, odd numbers all.
    NextProduct,
    /// x ← x + the products of next and b, both cut into narrow integers: next unsigned where they are bytes.
    NextDot,
    /// As `NextDot`, all of them signed.
    NextSignedDot,
    /// x ← x + the products of a and b, both cut into narrow numbers. No sum is rounded, so their order is free.
    ExactDot,
    /// x ← x + the products of a's row and b's column, both cut into narrow numbers: signed ones where they are integers;
    /// as `ExactDot` where not.
    Tile,
    /// x ← b − x², rounded once. These and the rest are for binary16, whose steps are too coarse for those above.
    SquareFrom,
    /// x ← x − x·b, rounded once.
    Flip,
    /// x ← b − next.
    NextFrom,
    /// x ← next·a for every second accumulator, beginning with the first, and next·b for the others.
    NextScale,
    /// As `NextFrom` for every second accumulator, beginning with the first, and x ← next² for the others.
    NextFromOrSquare,
    /// x ← b ÷ x.
    QuotientFrom,
    /// x ← √(b − x²), square and difference rounded once.
    FusedCircle,
    /// x ← √(b − x²), the square rounded before the difference.
    RoundedCircle,
    /// x ← x + the products of a and b, both cut into narrow integers: a unsigned where they are bytes. This and the rest
    /// are for chains, which must not wait for one another.
    Dot,
    /// As `Dot`, all of them signed.
    SignedDot,
    /// x ← a − x.
    From,
    /// As `From` for every second accumulator, beginning with the first, and as `Product` for the others.
    FromOrProduct,
    /// As the row of the operation defines it ([`Operation::step`]).
    Own,
}

/// Instructions of one kind in one turn of a kernel's loop. A test compares them with the disassembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// As in the disassembly; empty where the compiler chooses.
    pub mnemonic: &'static str,
    /// How many.
    pub count: u32,
    /// Operations on each lane that count: 2 for a fused multiply-add, 0 for what only keeps the numbers alive.
    pub operations: u32,
}

/// Bits of the shortest vectors that there are.
const LEAST_VECTOR_BITS: u32 = 128;

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
    /// What it needs beyond the instruction set.
    pub needs: Option<Feature>,
    /// Results in one vector; a dot product of narrow numbers has fewer results than factors. Where the processor chooses
    /// the length of its vectors, those of this one.
    pub lanes: u32,
    /// Independent vectors in flight.
    pub accumulators: u32,
    /// Steps that every accumulator makes in one turn.
    pub steps: u32,
    /// Whether each accumulator is a chain that waits for nothing but itself, and their number is what was asked for.
    pub chains: bool,
    /// The recurrence it advances.
    pub recurrence: Recurrence,
    /// The arithmetic in one turn.
    pub parts: &'static [Part],
    /// Advances every accumulator. Needs `isa`, `needs`, `turns` > 0 and vectors made for this row.
    pub(crate) function: unsafe fn(turns: u64, vectors: &mut Vectors),
}

impl Kernel {
    /// Operations in one turn of the loop, over all lanes: FLOP or OP.
    pub fn operations_per_turn(&self) -> u64 {
        let per_lane: u32 = self.parts.iter().map(|part| part.count * part.operations).sum();
        u64::from(self.lanes) * u64::from(per_lane)
    }

    /// Operations in one step of one accumulator, over all lanes.
    pub fn operations_per_step(&self) -> f64 {
        self.operations_per_turn() as f64 / f64::from(self.accumulators * self.steps)
    }

    /// Bits of one vector.
    pub fn vector_bits(&self) -> u32 {
        self.lanes * 8 * self.result().bytes() as u32
    }

    /// Whether its instructions take one number each, where others of the set take a vector.
    pub fn is_scalar(&self) -> bool {
        self.vector_bits() < LEAST_VECTOR_BITS
    }

    /// Whether its numbers are in general registers: integers that stand alone.
    pub fn is_general(&self) -> bool {
        self.is_scalar() && !self.element.is_float()
    }

    /// Whether what counts are several instructions, as a multiplication and an addition where nothing fuses them.
    pub fn is_apart(&self) -> bool {
        let mut counted = self.parts.iter().filter(|part| part.operations > 0).map(|part| part.mnemonic);
        let first = counted.next();
        counted.any(|other| Some(other) != first)
    }

    /// The rate of cores that bounds it; `None` where none has a name.
    pub fn rate(&self) -> Option<Rate> {
        self.op.row().rates.iter().find(|bound| (bound.of)(self)).map(|bound| bound.rate)
    }

    /// The type of its results.
    pub fn result(&self) -> Element {
        self.element.summed_by(self.op)
    }

    /// Whether [`find`] gives another of its [`variants`].
    pub fn is_variant(&self) -> bool {
        find(self.op, self.element, self.isa).is_some_and(|first| first.name != self.name)
    }

    /// Whether this processor can run it.
    ///
    /// # Errors
    /// [`Absence`] with the first missing feature.
    pub fn available(&self) -> Result<(), Absence> {
        let isa = self.isa.available();
        // What the kernel itself lacks says more than what its set lacks; a foreign set says that it is foreign.
        match self.needs.filter(|feature| !feature.is_present()) {
            Some(feature) if !matches!(isa, Err(Absence::Architecture { .. })) => {
                Err(Absence::Kernel { kernel: self.name, feature: feature.name })
            }
            _ => isa,
        }
    }

    /// Loads the kernel's operands, once its instruction set is proved present.
    ///
    /// # Errors
    /// [`Absence`] if this processor lacks the instruction set.
    pub fn load(&'static self) -> Result<LoadedKernel, Absence> {
        self.available()?;
        let vectors = Vectors::seeded(self);
        Ok(LoadedKernel { kernel: self, seed: vectors.clone(), vectors })
    }
}

/// Every kernel built for this architecture, whether or not this processor can run it.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    reference::KERNELS.iter().chain(native::kernels().flatten())
}

/// The kernel of an operation, type and instruction set, if one is written: the first of its [`variants`].
pub fn find(op: Op, element: Element, isa: Isa) -> Option<&'static Kernel> {
    variants(op, element, isa).next()
}

/// The kernels that do the same by the same instructions in another order. Which is quickest differs between cores
/// ([`crate::capability::quickest`]); what bounds them is the same.
pub fn variants(op: Op, element: Element, isa: Isa) -> impl Iterator<Item = &'static Kernel> {
    kernels().filter(move |kernel| kernel.op == op && kernel.element == element && kernel.isa == isa)
}

/// The kernels of so many independent chains of dependent instructions: one for each number of chains, up to what the
/// registers hold, in vectors of each width and in scalars. They have recurrences in which no accumulator waits for
/// another.
pub fn chained() -> impl Iterator<Item = &'static Kernel> {
    native::chained().flatten()
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
    "{kernel} computed {got} where the reference has {wanted} (accumulator {accumulator}, lane {lane}, after \
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
    pub got: Number,
    /// What the reference has.
    pub wanted: Number,
}

impl LoadedKernel {
    /// The row of this kernel.
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
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.vectors.clone())
    }

    /// Whether the accumulators are, bit by bit, those of `snapshot`.
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

#[cfg(test)]
mod tests;
