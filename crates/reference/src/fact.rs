//! What reference tools tell of their runs: parameters that they say they used, and what decides their figure. Values are as
//! they print them.

use crate::sample::Fact;

const fn row(name: &'static str, about: &'static str) -> Fact<String> {
    Fact::new(name, about)
}

/// Threads.
pub const THREADS: Fact<String> = row("threads", "threads that it used");
/// Bytes worked on.
pub const SIZE: Fact<String> = row("size", "bytes that it worked on");
/// Bytes of a block.
pub const BLOCK: Fact<String> = row("block", "bytes of a block");
/// Bytes of a message.
pub const MESSAGE: Fact<String> = row("message", "bytes of a message");
/// Streams.
pub const STREAMS: Fact<String> = row("streams", "streams that it had");
/// How deep its queue was.
pub const DEPTH: Fact<String> = row("depth", "how long its queue was as deep as asked");
/// Equations.
pub const N: Fact<String> = row("n", "equations of its system");
/// Columns of a panel.
pub const NB: Fact<String> = row("nb", "columns of a panel");
/// Rows of its grid.
pub const P: Fact<String> = row("p", "rows of its grid of processes");
/// Columns of its grid.
pub const Q: Fact<String> = row("q", "columns of its grid of processes");
/// Its check.
pub const RESIDUAL: Fact<String> = row("residual", "scaled residual of its solution");
/// Which kernels its library took.
pub const BLAS_CORE: Fact<String> = row("blas_core", "the core that its library has kernels for here");
/// A part of several.
pub const PART: Fact<String> = row("part", "which of its parts gave the figure");
/// Elements of an array.
pub const ELEMENTS: Fact<String> = row("elements", "elements of an array");
/// Processes.
pub const PROCESSES: Fact<String> = row("processes", "processes that it had");
/// The largest number of a search.
pub const LARGEST: Fact<String> = row("largest", "the largest number that it tested");
/// The runtime.
pub const RUNTIME: Fact<String> = row("runtime", "the runtime that ran it");
/// Which statistic its figure is, where that is not the mean.
pub const STATISTIC: Fact<String> =
    row("statistic", "which statistic its figure is, where that is not the mean");
/// Its version.
pub const VERSION: Fact<String> = row("version", "its version, where it tells that with its results only");
/// Its file.
pub const SHA256: Fact<String> = row("sha256", "SHA-256 of its program");
/// A shared call.
pub const TAKEN_BESIDE: Fact<String> = row("taken_beside", "the case for which it was run");
/// Its libraries.
pub const LIBRARIES: Fact<Vec<String>> =
    Fact::new("libraries", "files of the libraries that decide its figure");
