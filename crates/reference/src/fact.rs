//! Facts that reference tools report about their runs; values are as printed.

use plimsoll_model::sample::CaseFact;

/// Number of threads.
pub const THREAD_COUNT: CaseFact<String> = CaseFact::new("threads");
/// Working set, in bytes.
pub const WORKING_SET_BYTES: CaseFact<String> = CaseFact::new("size");
/// Block size, in bytes.
pub const BLOCK_BYTES: CaseFact<String> = CaseFact::new("block");
/// Message size, in bytes.
pub const MESSAGE_BYTES: CaseFact<String> = CaseFact::new("message");
/// Number of streams.
pub const STREAM_COUNT: CaseFact<String> = CaseFact::new("streams");
/// Share of the time with the requested queue depth.
pub const DEPTH_SHARE: CaseFact<String> = CaseFact::new("depth");
/// Order of the system of equations.
pub const N: CaseFact<String> = CaseFact::new("n");
/// Columns of a panel (block size).
pub const NB: CaseFact<String> = CaseFact::new("nb");
/// Rows of the process grid.
pub const P: CaseFact<String> = CaseFact::new("p");
/// Columns of the process grid.
pub const Q: CaseFact<String> = CaseFact::new("q");
/// Scaled residual of the solution.
pub const RESIDUAL: CaseFact<String> = CaseFact::new("residual");
/// Core type whose kernels the BLAS library used.
pub const BLAS_CORE: CaseFact<String> = CaseFact::new("blas_core");
/// Part of the tool that gave the figure.
pub const PART: CaseFact<String> = CaseFact::new("part");
/// Elements of an array.
pub const ELEMENTS: CaseFact<String> = CaseFact::new("elements");
/// Number of processes.
pub const PROCESSES: CaseFact<String> = CaseFact::new("processes");
/// Largest number that a prime search tested.
pub const LARGEST_NUMBER: CaseFact<String> = CaseFact::new("largest");
/// Language runtime that ran the tool.
pub const RUNTIME: CaseFact<String> = CaseFact::new("runtime");
/// Statistic of the figure, if it is not the mean.
pub const STATISTIC: CaseFact<String> = CaseFact::new("statistic");
/// Version, if it is printed only with results.
pub const VERSION: CaseFact<String> = CaseFact::new("version");
/// SHA-256 of the program.
pub const SHA256: CaseFact<String> = CaseFact::new("sha256");
/// Case for which a shared reading was taken.
pub const TAKEN_DURING_CASE: CaseFact<String> = CaseFact::new("taken_beside");
/// Files of the libraries that decide the performance.
pub const LIBRARIES: CaseFact<Vec<String>> = CaseFact::new("libraries");
