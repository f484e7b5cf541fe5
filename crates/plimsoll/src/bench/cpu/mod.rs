//! CPU benchmarks: what the cores compute, with the clock that they held while doing so.

mod chains;
mod core_to_core;
mod dense;
pub(crate) mod fact;
mod findings;
mod gemm;
mod hidden;
mod how;
pub mod hpl;
pub mod identity;
mod linpack;
mod matrix;
pub(crate) mod metrics;
mod pairs;
mod part;
pub mod peak;
mod warning;

pub use chains::kernel_of;
pub use core_to_core::CoreToCore;
pub use gemm::MatrixProduct;
pub use how::{KIND_CLOCK, word_of};
pub use hpl::Hpl;
pub use linpack::{Linpack, operations};
pub use part::PART;
pub use peak::{PER_CYCLE, Peak, STEPS_PER_CYCLE};

use crate::machine::Machine;

/// Looks at the cores before a run: what they start in a cycle, and which CPUs of a guest share one.
fn look(machine: &mut Machine) {
    identity::look(machine);
    hidden::look(machine);
}
