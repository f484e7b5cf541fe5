//! CPU benchmarks: what the cores compute, with the clock that they held while doing so.

mod core_to_core;
mod dense;
mod gemm;
mod how;
mod hpl;
pub(crate) mod identity;
mod linpack;
mod matrix;
mod pairs;
mod peak;
mod together;

pub use core_to_core::CoreToCore;
pub use gemm::MatrixProduct;
pub use how::kind_clock;
pub use linpack::{Linpack, operations};
pub use peak::{PER_CYCLE, Peak};
pub use together::Hpl;
