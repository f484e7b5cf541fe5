//! Disk benchmarks: `disk.io`, transfers that the device carries out, and `disk.fsync`, what a commit costs.
//!
//! Everything works on one nameless test file below `--dir` ([`storage::target`]), filled before it is read ([`storage::fill`]), with
//! the page cache bypassed. [`load`] is the measured loop, [`load::driver`] the thread it is on, [`engine`] how it talks to the kernel, [`load::pattern`] where
//! it goes and [`load::data`] what it writes.
#![forbid(unsafe_code)]

mod device;
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

pub use job::MAX_DEPTH;
pub use part::SUBSYSTEM;
use plimsoll_bench_api::{Candidate, Context, RequestedSize};
use plimsoll_machine::Machine;
use plimsoll_model::sample;
use plimsoll_stats::Times;
use plimsoll_units::quantity::{Quantity, Unit};
pub use storage::dir::DirError;
use storage::dir::{DirFacts, NoSpace, check_dir};

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

/// A size for the reader: `64 MiB`.
fn human(n: u64) -> Quantity {
    Quantity::new(n as f64, Unit::Byte)
}

/// A latency distribution in the form that crosses the pipe.
fn distribution(metric: &str, times: &Times) -> sample::Histogram {
    sample::Histogram { metric: metric.to_owned(), buckets: times.buckets() }
}
/// The device that a case works on, or the directory of its test files, for messages.
fn path_of(cx: &Context<'_>) -> String {
    match &cx.options.target {
        Some(target) => plimsoll_units::text::shown_bytes(target.device.as_os_str().as_encoded_bytes()),
        None => format!(
            "a test file in {}",
            plimsoll_units::text::shown_bytes(cx.options.dir.as_os_str().as_encoded_bytes())
        ),
    }
}
