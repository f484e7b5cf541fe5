//! Chains of dependent instructions woven into vector work: the rows that each architecture fills.
//!
//! A core that does wide vector work may hold another clock than one that adds scalars, and changes from one to the other
//! within microseconds. So the chain that shows the clock is woven into vector work of the same width: the core stays in
//! the power state of the load. The chain, and not the vector work, must decide how long a turn takes. How much vector work
//! a core can do beside it differs, so there are three densities, and calibration finds the densest that fits.

use crate::isa::Isa;
use crate::kernel::{Element, Op};

/// Runs so many turns of a loop. `rows` are the operands of the row's vector work; a chain without any ignores them.
pub(crate) type Chain = unsafe fn(turns: u64, rows: *const u8);

/// A chain of additions, and one of multiplications in the same vector work.
#[derive(Debug)]
pub(crate) struct Density {
    /// Names of the two functions, for their disassembly.
    pub(crate) names: [&'static str; 2],
    /// One addition after the other; each takes one cycle.
    pub(crate) add: Chain,
    /// Additions in a turn.
    pub(crate) adds: u64,
    /// One integer multiplication after the other; each takes the same whole number of cycles.
    pub(crate) multiply: Chain,
    /// Multiplications in a turn. No third, quarter or half of `adds`, so that a turn whose time the vector work decides
    /// does not look like a whole number of cycles for each.
    pub(crate) multiplications: u64,
}

/// What kind of vector work: processors with power levels tell these apart (Intel 248966, "Intel AVX-512 frequency").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Integer additions and the like.
    Light,
    /// Floating point, and all multiplications.
    Heavy,
}

/// Vector work with chains woven into it, the densest first.
#[derive(Debug)]
pub(crate) struct Woven {
    pub(crate) isa: Isa,
    pub(crate) weight: Weight,
    /// The kernel whose operands the vector work takes: numbers that are alive for longer than a probe.
    pub(crate) operands: (Op, Element),
    pub(crate) densities: [Density; 3],
}

/// Vector instructions in a turn of each density.
pub(crate) const VECTORS_PER_TURN: u64 = 24;
