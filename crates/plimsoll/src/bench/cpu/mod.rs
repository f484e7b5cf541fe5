//! CPU benchmarks: what the cores compute, with the clock that they held while doing so.

mod peak;

pub use peak::Peak;
