//! CPU benchmarks: compute rates, with the core clock measured in the same time.
#![forbid(unsafe_code)]

mod chains;
mod core_to_core;
mod crypto;
mod dense;
pub(crate) mod fact;
mod findings;
#[cfg(test)]
mod fixture;
mod foreign;
mod gemm;
mod hidden;
mod how;
pub mod hpl;
mod integrity;
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
pub use integrity::Integrity;
pub use linpack::{Linpack, operations};
pub use part::SUBSYSTEM;
pub use peak::{PER_CYCLE, Peak, STEPS_PER_CYCLE};

use plimsoll_metal::kernel::{Element, Op, RateUnit};

use plimsoll_machine::Machine;
use plimsoll_model::job::cpu::{CaseWord, CpuKernel, DenseProblem};
use plimsoll_units::quantity::Unit;

/// Returns the unit of `op`'s rate: B/s if it counts bytes, OP/s on integers, else FLOP/s.
pub fn counted_in(op: Option<Op>, element: Option<Element>) -> Unit {
    match op.map_or(RateUnit::Operations, |op| op.row().counted) {
        RateUnit::Bytes => Unit::BytePerSecond,
        RateUnit::Operations if element.is_some_and(|element| !element.is_float()) => Unit::OpPerSecond,
        RateUnit::Operations => Unit::FlopPerSecond,
    }
}

/// Name of the metric of operations per second.
pub const RATE_METRIC: &str = "rate";
/// Name of the metric of the time of a fixed amount.
pub const TIME_METRIC: &str = "time";
/// Name of the metric of the scaled residual of a solution, as in HPL.
pub const RESIDUAL: &str = "residual";
/// Name of the metric of the unscaled residual.
pub const RESIDUAL_UNSCALED: &str = "residual-unscaled";
/// Name of the metric of the latency between CPUs.
pub const LATENCY_METRIC: &str = "latency";

/// Measures into `machine`: instruction rates per kind of core, and hidden SMT siblings in a guest.
fn look(machine: &mut Machine) {
    plimsoll_bench_api::identity::measure_capabilities(machine);
    hidden::look(machine);
}
