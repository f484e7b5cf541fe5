//! Names of the metrics of the memory benchmarks.

/// Bytes per second that the program asked for.
pub(crate) const PROGRAM: &str = "program";
/// Bytes per second that went over the bus: lines are read before they are written.
pub(crate) const BUS: &str = "bus";
/// Seconds that a load or a block takes.
pub(crate) const LATENCY: &str = "latency";
/// The same for each byte of a small block.
pub(crate) const LATENCY_PER_BYTE: &str = "latency_per_byte";
/// Bytes per second of blocks.
pub(crate) const THROUGHPUT: &str = "throughput";
