//! All unsafe code of plimsoll behind safe interfaces: kernels, clocks, threads, memory, I/O.

mod arch;
pub mod backing;
pub mod block;
pub mod buffer;
pub mod chase;
pub mod clock;
pub mod counter;
pub mod cpu;
#[cfg(test)]
mod effort;
pub mod fault;
pub mod gemm;
pub mod handover;
pub mod io;
pub mod kernel;
pub mod lu;
pub mod net;
pub mod os;
pub mod signal;
pub mod sliced;
pub mod stream;
pub mod team;
pub mod ticks;
pub mod usage;
pub mod watch;

pub use cpu::{affinity, capability, cpuid, isa, numa, one_core};

pub use net::{datagram, tcp};

pub use io::{aio, discard, mapped, nvme, residency, uring};
