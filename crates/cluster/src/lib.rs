//! A run over many machines: who takes part, in which order they measure, and what became of each.
//!
//! The machines are the ranks of an MPI world that `mpirun` or `srun` made; one rank a machine measures. All that
//! passes between them is in [`message`]; a [`Fabric`] carries it, and says who was lost. Rank 0 leads ([`Lead`]): it
//! admits the others, gives them their turn and collects their run documents. The others follow ([`Follow`]).
//!
//! Without MPI, [`ssh`] carries an order to each machine and its run document back.
#![forbid(unsafe_code)]

pub mod between;
pub mod exercise;
pub mod fabric;
mod follow;
mod lead;
mod link;
pub mod message;
#[cfg(feature = "mpi")]
mod mpi;
mod pulse;
mod roster;
pub mod ssh;
mod watch;

pub use between::{Actor, Answer, Between, Figure, Place};
pub use exercise::{Exercise, Timed};
pub use fabric::{Fabric, Incoming, Voice};
pub use follow::{Follow, Part};
pub use lead::{Ended, Lead, Lost, introduced};
pub use link::{Link, Parcel};
pub use message::{Finished, Hello, Order, Welcome};
pub use roster::{Member, Roster};

use plimsoll_bench as bench;
use plimsoll_machine as machine;
use plimsoll_model::{case, sample};
use plimsoll_result::document;
#[cfg(test)]
use plimsoll_result::fixture;
use plimsoll_run as run;
use plimsoll_server::{traffic, wire};
use plimsoll_units::text;

use std::io;
#[cfg(feature = "mpi")]
use std::time::Duration;

use crossbeam_channel::Sender;

/// Where a launcher says which rank a process is: Open MPI and PMIx, then PMI of MPICH and Slurm.
const RANKS: &[&str] = &["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];

/// Where it says how many there are.
const SIZES: &[&str] = &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];
/// How long ranks may take to join, and more for each of them.
#[cfg(feature = "mpi")]
const JOINING: Duration = Duration::from_secs(24);
#[cfg(feature = "mpi")]
const JOINING_RANK: Duration = Duration::from_millis(20);

/// The rank that a launcher gave to this process; `None` when it was started by hand, or alone and without MPI to join
/// anybody: that is an ordinary run.
pub fn launched() -> Option<usize> {
    let alone = cfg!(not(feature = "mpi")) && told(SIZES) == Some(1);
    told(RANKS).filter(|_| !alone)
}

/// The first of these variables that is a number.
fn told(names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// How many tasks a scheduler started beside this one without a way to join them: `srun` with `--mpi=none`.
#[cfg(feature = "mpi")]
pub fn unjoined() -> Option<usize> {
    let first = launched().is_none() && told(&["SLURM_PROCID"]) == Some(0);
    told(&["SLURM_STEP_NUM_TASKS"]).filter(|tasks| first && *tasks > 1)
}

/// A program without MPI joins nothing.
#[cfg(not(feature = "mpi"))]
pub fn unjoined() -> Option<usize> {
    None
}

/// Joins the world that the launcher made. When a rank is lost, `alarm` gets a message.
///
/// # Errors
/// This build has no MPI, or MPI cannot start.
#[cfg(feature = "mpi")]
pub fn join(alarm: Sender<()>) -> io::Result<Fabric> {
    // What MPI asks of every rank before any may begin grows with their number.
    let ranks = told(SIZES).and_then(|ranks| u32::try_from(ranks).ok()).unwrap_or(1);
    Fabric::new(mpi::World::join, alarm, JOINING + JOINING_RANK.saturating_mul(ranks))
}

/// The MPI library and its version, in a line.
#[cfg(feature = "mpi")]
pub fn library() -> Option<String> {
    let told = ::mpi::environment::library_version().ok()?;
    // Open MPI tells where it was built after a comma.
    Some(text::shown_within(told.split([',', '\n']).next()?.trim(), 64))
}

/// Without MPI there is no library.
#[cfg(not(feature = "mpi"))]
pub fn library() -> Option<String> {
    None
}

/// Without MPI there is no world to join.
///
/// # Errors
/// Always.
#[cfg(not(feature = "mpi"))]
pub fn join(_: Sender<()>) -> io::Result<Fabric> {
    Err(io::Error::other("this build has no MPI; make cluster builds one that has"))
}
