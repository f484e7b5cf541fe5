//! Facts that reference tools report about their runs; values are as printed.

use plimsoll_model::sample::CaseFact;

const fn row(name: &'static str, about: &'static str) -> CaseFact<String> {
    CaseFact::new(name, about)
}

/// Number of threads.
pub const THREAD_COUNT: CaseFact<String> = row("threads", "threads that it used");
/// Working set, in bytes.
pub const WORKING_SET_BYTES: CaseFact<String> = row("size", "bytes that it worked on");
/// Block size, in bytes.
pub const BLOCK_BYTES: CaseFact<String> = row("block", "bytes of a block");
/// Message size, in bytes.
pub const MESSAGE_BYTES: CaseFact<String> = row("message", "bytes of a message");
/// Number of streams.
pub const STREAM_COUNT: CaseFact<String> = row("streams", "streams that it had");
/// Share of the time with the requested queue depth.
pub const DEPTH_SHARE: CaseFact<String> = row("depth", "how long its queue was as deep as asked");
/// Order of the system of equations.
pub const N: CaseFact<String> = row("n", "equations of its system");
/// Columns of a panel (block size).
pub const NB: CaseFact<String> = row("nb", "columns of a panel");
/// Rows of the process grid.
pub const P: CaseFact<String> = row("p", "rows of its grid of processes");
/// Columns of the process grid.
pub const Q: CaseFact<String> = row("q", "columns of its grid of processes");
/// Scaled residual of the solution.
pub const RESIDUAL: CaseFact<String> = row("residual", "scaled residual of its solution");
/// Core type whose kernels the BLAS library used.
pub const BLAS_CORE: CaseFact<String> = row("blas_core", "the core that its library has kernels for here");
/// Part of the tool that gave the figure.
pub const PART: CaseFact<String> = row("part", "which of its parts gave the figure");
/// Elements of an array.
pub const ELEMENTS: CaseFact<String> = row("elements", "elements of an array");
/// Number of processes.
pub const PROCESSES: CaseFact<String> = row("processes", "processes that it had");
/// Largest number that a prime search tested.
pub const LARGEST_NUMBER: CaseFact<String> = row("largest", "the largest number that it tested");
/// Language runtime that ran the tool.
pub const RUNTIME: CaseFact<String> = row("runtime", "the runtime that ran it");
/// Statistic of the figure, if it is not the mean.
pub const STATISTIC: CaseFact<String> =
    row("statistic", "which statistic its figure is, where that is not the mean");
/// Version, if it is printed only with results.
pub const VERSION: CaseFact<String> =
    row("version", "its version, where it tells that with its results only");
/// SHA-256 of the program.
pub const SHA256: CaseFact<String> = row("sha256", "SHA-256 of its program");
/// Case for which a shared reading was taken.
pub const TAKEN_DURING_CASE: CaseFact<String> = row("taken_beside", "the case for which it was run");
/// Files of the libraries that decide the performance.
pub const LIBRARIES: CaseFact<Vec<String>> =
    CaseFact::new("libraries", "files of the libraries that decide its figure");
