//! CPU benchmarks: what the cores compute, with the clock that they held while doing so.

mod chains;
mod core_to_core;
mod dense;
mod gemm;
mod hidden;
mod how;
mod hpl;
pub mod identity;
mod linpack;
mod matrix;
mod pairs;
mod peak;
mod together;

pub use chains::kernel_of;
pub use core_to_core::CoreToCore;
pub use gemm::MatrixProduct;
pub use how::kind_clock;
pub use linpack::{Linpack, operations};
pub use peak::{PER_CYCLE, Peak, STEPS_PER_CYCLE};
pub use together::Hpl;

use plimsoll_metal::kernel::{Counted, Element, Op};

use crate::machine::Machine;
use crate::quantity::Unit;

/// In what the rate of an operation on numbers of a type is counted.
pub fn counted_in(op: Option<Op>, element: Option<Element>) -> Unit {
    match op.map_or(Counted::Operations, |op| op.row().counted) {
        Counted::Bytes => Unit::BytePerSecond,
        Counted::Operations if element.is_some_and(|element| !element.is_float()) => Unit::OpPerSecond,
        Counted::Operations => Unit::FlopPerSecond,
    }
}

/// Looks at the cores before a run: what they start in a cycle, and which CPUs of a guest share one.
fn look(machine: &mut Machine) {
    identity::look(machine);
    hidden::look(machine);
}
