//! All unsafe code of plimsoll behind safe interfaces: kernels, clocks, pinned threads, memory,
//! I/O.
//!
//! The crate does a given amount of work and returns the time; it knows no plans, statistics or
//! output.

pub mod affinity;
pub mod aio;
mod arch;
pub mod backing;
pub mod block;
pub mod buffer;
pub mod capability;
pub mod chase;
pub mod clock;
pub mod counter;
pub mod cpuid;
pub mod datagram;
pub mod discard;
#[cfg(test)]
mod effort;
pub mod gemm;
pub mod handover;
pub mod isa;
pub mod kernel;
pub mod lu;
pub mod mapped;
pub mod numa;
pub mod nvme;
pub mod one_core;
pub mod residency;
pub mod signal;
pub mod sliced;
pub mod stream;
pub mod tcp;
pub mod team;
pub mod ticks;
pub mod uring;
pub mod usage;
pub mod watch;
