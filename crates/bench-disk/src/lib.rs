//! Disk benchmarks: `disk.io` (transfers to the device) and `disk.fsync` (commits), on one
//! nameless, filled test file below `--dir` or on a device. `load` is the measured loop,
//! `engine` the interface to the kernel.
#![forbid(unsafe_code)]

pub mod backing;
mod device;
mod display;
mod engine;
mod fact;
mod findings;
pub mod fio;
mod fsync;
mod io;
mod job;
mod load;
mod metrics;
mod null;
mod part;
mod saturation;
mod storage;
mod warning;
mod words;

use std::path::Path;

use backing::{DirFacts, check_dir};
pub use job::MAX_DEPTH;
pub use part::SUBSYSTEM;

use plimsoll_bench_api::{Candidate, RequestedSize};
use plimsoll_machine::Machine;
use plimsoll_model::sample::CannotMeasure;

/// Checks, without creating anything, that the test file of each case, one at a time, fits into
/// `dir` (on tmpfs, into the memory of `machine`). Returns file system and free space of `dir`. The
/// cause of a failure is `Unsafe` if another user could redirect the path.
pub fn check<'a>(
    dir: &Path,
    machine: &Machine,
    cases: impl IntoIterator<Item = &'a Candidate>,
) -> Result<DirFacts, CannotMeasure> {
    let facts = check_dir(dir)?.within_memory(machine);
    for candidate in cases {
        file_of(candidate).map_or(Ok(()), |size| facts.file_size(size).map(drop))?;
    }
    Ok(facts)
}

/// Returns the size of the test file that the candidate needs; `None` if it uses no file.
pub fn file_of(candidate: &Candidate) -> Option<RequestedSize> {
    SUBSYSTEM.find(candidate.case.benchmark()).and_then(|of| (of.descriptor().file)(&candidate.parsed))
}
