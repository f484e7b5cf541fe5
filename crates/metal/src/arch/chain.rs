//! Chains of dependent instructions interleaved with vector work, which keeps the core in the power
//! state of the load. The chain must limit the time; how much vector work fits beside it differs
//! between cores, so calibration selects one of three densities.

use crate::isa::Isa;
use crate::kernel::{Element, Op};

/// Runs `turns` iterations. `rows` are the operands of the vector work, ignored without any.
pub(crate) type Chain = unsafe fn(turns: u64, rows: *const u8);

/// A chain of additions and one of multiplications, in the same vector work.
#[derive(Debug)]
pub(crate) struct Density {
    pub(crate) names: [&'static str; 2],
    pub(crate) add: Chain,
    pub(crate) adds: u64,
    /// Dependent integer multiplications, each with the same whole number of cycles.
    pub(crate) multiply: Chain,
    /// Not a third, quarter or half of `adds`, so that an iteration limited by the vector work does
    /// not look like whole cycles per multiplication.
    pub(crate) multiplications: u64,
}

/// Kind of vector work, for processors with power levels (Intel 248966, "Intel AVX-512 frequency").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Integer additions and similar.
    Light,
    /// Floating point, and all multiplications.
    Heavy,
}

#[derive(Debug)]
pub(crate) struct Woven {
    pub(crate) isa: Isa,
    pub(crate) weight: Weight,
    /// Kernel with the operands of the vector work: numbers that change for longer than a probe.
    pub(crate) operands: (Op, Element),
    pub(crate) densities: [Density; 3],
}

/// Vector instructions per iteration, in each density.
pub(crate) const VECTORS_PER_TURN: u64 = 24;
