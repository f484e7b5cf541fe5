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

use plimsoll_bench_api::RequestedSize;
use plimsoll_bench_api::prelude::*;

/// Checks, without creating anything, that `dir` can hold test files. Returns its file system and
/// free space (on tmpfs, at most the memory of `machine`). The cause of a failure is `Unsafe` if
/// another user could redirect the path.
pub fn check(dir: &Path, machine: &Machine) -> Result<DirFacts, CannotMeasure> {
    Ok(check_dir(dir)?.within_memory(machine))
}

/// Returns the size of the test file that the candidate needs; `None` if it uses no file.
pub fn file_of(candidate: &Candidate) -> Option<RequestedSize> {
    SUBSYSTEM.find(candidate.case.benchmark()).and_then(|of| (of.descriptor().file)(&candidate.parsed))
}
