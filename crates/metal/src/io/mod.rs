//! File and device I/O: engines, mappings and device commands.

pub mod aio;
pub mod discard;
pub mod mapped;
pub mod nvme;
pub mod residency;
pub mod slots;
pub mod uring;
