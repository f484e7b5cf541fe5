//! CPU benchmarks: what the cores compute, with the clock that they held while doing so.
#![forbid(unsafe_code)]

mod chains;
mod core_to_core;
mod crypto;
mod dense;
pub(crate) mod fact;
mod findings;
mod foreign;
mod gemm;
mod hidden;
mod how;
pub mod hpl;
mod limit;
mod linpack;
mod matrix;
mod pairs;
mod part;
pub mod peak;
mod sliced;
mod warning;

pub use chains::kernel_of;
pub use core_to_core::CoreToCore;
pub use crypto::Crypto;
pub use gemm::MatrixProduct;
pub use how::{KIND_CLOCK, word_of};
pub use hpl::Hpl;
pub use linpack::{Linpack, operations};
pub use part::SUBSYSTEM;
pub use peak::{PER_CYCLE, Peak, STEPS_PER_CYCLE};

use plimsoll_metal::kernel::{Counted, Element, Op};

use plimsoll_machine::Machine;
use plimsoll_units::quantity::Unit;

/// In what the rate of an operation on numbers of a type is counted.
pub fn counted_in(op: Option<Op>, element: Option<Element>) -> Unit {
    match op.map_or(Counted::Operations, |op| op.row().counted) {
        Counted::Bytes => Unit::BytePerSecond,
        Counted::Operations if element.is_some_and(|element| !element.is_float()) => Unit::OpPerSecond,
        Counted::Operations => Unit::FlopPerSecond,
    }
}

/// Name of the metric of what is computed, in operations a second.
pub const RATE: &str = "rate";
/// Name of the metric of the time that a fixed amount takes.
pub const TIME: &str = "time";
/// Name of the metric of how far a solution is from the exact one, as HPL scales it.
pub const RESIDUAL: &str = "residual";
/// How far the answer of a solver is from right, before it is scaled.
pub const RESIDUAL_UNSCALED: &str = "residual-unscaled";
/// Name of the metric of the time from one CPU to another.
pub const LATENCY: &str = "latency";

/// Looks at the cores before a run: what they start in a cycle, and which CPUs of a guest share one.
fn look(machine: &mut Machine) {
    plimsoll_bench_api::identity::look(machine);
    hidden::look(machine);
}
