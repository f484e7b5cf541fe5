//! A run over many machines: who takes part, in which order they measure, and what became of each.
//!
//! The machines are the ranks of an MPI world that `mpirun` or `srun` made; one rank a machine measures. All that
//! passes between them is in [`message`]; a [`Fabric`] carries it, and says who was lost. Rank 0 leads ([`Lead`]): it
//! admits the others, gives them their turn and collects their run documents. The others follow ([`Follow`]).

pub mod fabric;
mod follow;
mod lead;
mod link;
pub mod message;
#[cfg(feature = "mpi")]
mod mpi;
mod roster;

pub use fabric::{Fabric, Incoming};
pub use follow::{Follow, Part};
pub use lead::{Ended, Lead, Lost, introduced};
pub use message::{Finished, Hello, Order, Welcome};
pub use roster::{Member, Roster};

use std::io;

use crossbeam_channel::Sender;

/// Where a launcher says which rank a process is: Open MPI and PMIx, then PMI of MPICH and Slurm.
const RANKS: &[&str] = &["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];

/// The rank that a launcher gave to this process; `None` when it was started by hand.
pub fn launched() -> Option<usize> {
    RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Joins the world that the launcher made. When a rank is lost, `alarm` gets a message.
///
/// # Errors
/// This build has no MPI, or MPI cannot start.
#[cfg(feature = "mpi")]
pub fn join(alarm: Sender<()>) -> io::Result<Fabric> {
    Fabric::new(mpi::World::join, alarm)
}

/// Without MPI there is no world to join.
///
/// # Errors
/// Always.
#[cfg(not(feature = "mpi"))]
pub fn join(_: Sender<()>) -> io::Result<Fabric> {
    Err(io::Error::other("this build has no MPI; make cluster builds one that has"))
}
