//! Runs over many nodes: a launcher starts plimsoll on each ([`ssh`]), then pairs of nodes measure
//! the network between them ([`between`]).
#![forbid(unsafe_code)]

pub mod between;
pub mod ssh;

use plimsoll_model::{case, sample};
use plimsoll_result::document;
#[cfg(test)]
use plimsoll_result::fixture;
use plimsoll_units::text;

/// Environment variables with the rank of this process: Open MPI and PMIx, PMI of MPICH, Slurm.
const RANKS: &[&str] = &["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];
const SIZES: &[&str] = &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// Returns (rank of this process, number of processes) if `mpirun` or `srun` started several.
pub fn started_with_others() -> Option<(usize, usize)> {
    let number =
        |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok());
    let size = number(SIZES).filter(|size| *size > 1)?;
    Some((number(RANKS)?, size))
}
