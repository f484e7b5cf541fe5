//! Architectures without their own folder: no assembly, so no core clock.

/// Additions in one turn of the chain's loop; meaningless here, where there is no chain.
pub(crate) const ADDS_PER_TURN: u64 = 1;

/// The chain of dependent one-cycle additions: none is written for this architecture.
pub(crate) const ADD_CHAIN: Option<fn(u64)> = None;
