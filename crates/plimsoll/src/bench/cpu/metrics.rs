//! Names of the metrics of the CPU benchmarks.

/// Operations per second.
pub(crate) const RATE: &str = "rate";
/// Seconds of a sample whose amount is given.
pub(crate) const TIME: &str = "time";
/// How far a solution is from solving its system, as HPL scales it.
pub(crate) const RESIDUAL: &str = "residual";
/// Seconds until a CPU sees what another wrote.
pub(crate) const LATENCY: &str = "latency";
