//! Architectures without their own folder: portable kernels, and no assembly, so no core clock.

use crate::isa::{Absence, Isa};
use crate::kernel::Kernel;
use crate::stream::StreamKernel;

/// Kernels of this architecture beyond the portable ones.
pub(crate) static KERNELS: [&Kernel; 0] = [];

/// Bandwidth kernels of this architecture beyond the portable ones: none is written yet.
pub(crate) static STREAMS: [&[StreamKernel]; 0] = [];

/// Additions in one turn of the chain's loop; meaningless here, where there is no chain.
pub(crate) const ADDS_PER_TURN: u64 = 1;

/// The chain of dependent one-cycle additions: none is written for this architecture.
pub(crate) const ADD_CHAIN: Option<fn(u64)> = None;

/// Whether this processor has `isa`.
pub(crate) fn available(isa: Isa) -> Result<(), Absence> {
    Err(Absence::Architecture { isa })
}
