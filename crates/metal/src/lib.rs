//! All of plimsoll's unsafe code behind a safe face: kernels, clocks, pinned threads, memory, asynchronous I/O.
//!
//! It knows nothing of plans, statistics or printing: it does a stated amount of work and says how long it took.

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
