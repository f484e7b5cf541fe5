//! Disk benchmarks: `disk.io`, transfers that the device carries out, and `disk.fsync`, what a commit costs.
//!
//! Everything works on one nameless test file below `--dir` ([`backing::regular_file`]), filled before it is read ([`storage::fill`]), with
//! the page cache bypassed. [`load`] is the measured loop, [`load::driver`] the thread it is on, [`engine`] how it talks to the kernel, [`load::pattern`] where
//! it goes and [`load::data`] what it writes.
#![forbid(unsafe_code)]

pub mod backing;
mod device;
mod display;
pub mod engine;
pub(crate) mod fact;
mod findings;
pub mod fio;
pub mod fsync;
pub mod io;
mod job;
pub mod knee;
pub mod load;
pub mod metrics;
pub mod null;
mod part;
pub mod storage;
pub mod warning;
mod words;

use std::path::Path;

pub use backing::dir::DirError;
use backing::dir::{DirFacts, NoSpace, check_dir};
pub use job::MAX_DEPTH;
pub use part::SUBSYSTEM;
use plimsoll_bench_api::{Candidate, RequestedSize};
use plimsoll_machine::Machine;

/// Why the disk cases of a plan cannot be measured in a directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The directory cannot be used: bad input.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// There is too little space: the environment.
    #[error(transparent)]
    Space(#[from] NoSpace),
}

/// Checks the directory, and that the files of all `cases` fit there, before any load. Creates nothing.
///
/// # Errors
/// Why not, in one line.
pub fn check<'a>(
    dir: &Path,
    machine: &Machine,
    cases: impl IntoIterator<Item = &'a Candidate>,
) -> Result<DirFacts, Refusal> {
    let facts = check_dir(dir)?.within_memory(machine);
    for candidate in cases {
        file_of(candidate).map_or(Ok(()), |size| facts.file_size(size).map(drop))?;
    }
    Ok(facts)
}

/// How large the file of a case is to be; `None` where it uses none.
pub fn file_of(candidate: &Candidate) -> Option<RequestedSize> {
    SUBSYSTEM.find(candidate.case.benchmark()).and_then(|of| (of.descriptor().file)(&candidate.parsed))
}
