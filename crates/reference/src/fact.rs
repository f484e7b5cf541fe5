//! What reference tools tell of their runs: parameters that they say they used, and what decides their figure. Values are as
//! they print them.

use crate::sample::Fact;

const fn row(name: &'static str, about: &'static str) -> Fact<String> {
    Fact::new(name, about)
}

pub const THREADS: Fact<String> = row("threads", "threads that it used");
pub const SIZE: Fact<String> = row("size", "bytes that it worked on");
pub const BLOCK: Fact<String> = row("block", "bytes of a block");
pub const MESSAGE: Fact<String> = row("message", "bytes of a message");
pub const STREAMS: Fact<String> = row("streams", "streams that it had");
pub const DEPTH: Fact<String> = row("depth", "how long its queue was as deep as asked");
pub const N: Fact<String> = row("n", "equations of its system");
pub const NB: Fact<String> = row("nb", "columns of a panel");
pub const P: Fact<String> = row("p", "rows of its grid of processes");
pub const Q: Fact<String> = row("q", "columns of its grid of processes");
pub const RESIDUAL: Fact<String> = row("residual", "scaled residual of its solution");
pub const BLAS_CORE: Fact<String> = row("blas_core", "the core that its library has kernels for here");
pub const PART: Fact<String> = row("part", "which of its parts gave the figure");
pub const ELEMENTS: Fact<String> = row("elements", "elements of an array");
pub const PROCESSES: Fact<String> = row("processes", "processes that it had");
pub const LARGEST: Fact<String> = row("largest", "the largest number that it tested");
pub const RUNTIME: Fact<String> = row("runtime", "the runtime that ran it");
pub const STATISTIC: Fact<String> =
    row("statistic", "which statistic its figure is, where that is not the mean");
pub const VERSION: Fact<String> = row("version", "its version, where it tells that with its results only");
pub const SHA256: Fact<String> = row("sha256", "SHA-256 of its program");
pub const TAKEN_BESIDE: Fact<String> = row("taken_beside", "the case for which it was run");
pub const LIBRARIES: Fact<Vec<String>> =
    Fact::new("libraries", "files of the libraries that decide its figure");
