//! Runs over many machines: network namespaces joined by a bridge are the hosts, and Open MPI starts the program on them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod agreement;
mod between;
#[path = "../common.rs"]
mod common;
mod hosts;
mod hpl;
mod lost;
mod mpi;
mod outliers;
mod shared;
mod slurm;
