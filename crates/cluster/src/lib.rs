//! A run over many machines: each is reached by a launcher ([`ssh`]), carries out an order and sends its run document back; then pairs of
//! them measure the network between them ([`between`]).
#![forbid(unsafe_code)]

pub mod between;
pub mod ssh;

pub use between::{Answer, Between, Figure, Place};

use plimsoll_model::{case, sample};
use plimsoll_result::document;
#[cfg(test)]
use plimsoll_result::fixture;
use plimsoll_units::text;

/// Environment variables with the number of this process: Open MPI and PMIx, PMI of MPICH, Slurm.
const RANKS: &[&str] = &["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];
/// Environment variables with the number of processes that the launcher started.
const SIZES: &[&str] = &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// The number of this process and how many `mpirun` or `srun` started; `None` if this is the only one.
pub fn started_with_others() -> Option<(usize, usize)> {
    let number =
        |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok());
    let size = number(SIZES).filter(|size| *size > 1)?;
    Some((number(RANKS)?, size))
}
