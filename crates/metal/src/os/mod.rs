//! Requests to the kernel, each by the shortest way, for benchmarks of what they cost.

pub mod call;
pub mod link;
pub mod process;
pub mod region;
pub mod schedule;
