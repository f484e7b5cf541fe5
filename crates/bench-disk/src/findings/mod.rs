//! Findings from the results of the disk benchmarks.

pub(crate) mod pattern;
pub(crate) mod queue;
