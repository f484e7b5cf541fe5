//! Names of the metrics of the disk benchmarks.

/// Transfers per second.
pub(crate) const RATE: &str = "rate";
/// Bytes per second.
pub(crate) const THROUGHPUT: &str = "throughput";
/// Seconds of a transfer, from its beginning to its end.
pub(crate) const LATENCY: &str = "latency";
/// The standard deviation of these.
pub(crate) const LATENCY_STDEV: &str = "latency-stdev";
/// Seconds of a transfer until the kernel has it.
pub(crate) const SUBMIT: &str = "submit";
/// Seconds of a transfer from then on.
pub(crate) const COMPLETE: &str = "complete";
/// Seconds of processor time for each transfer.
pub(crate) const CPU: &str = "cpu";
/// Transfers in flight, on average.
pub(crate) const DEPTH: &str = "depth";
/// Threads at work.
pub(crate) const THREADS: &str = "threads";
/// Context switches for each transfer.
pub(crate) const SWITCHES: &str = "switches";
/// The share of the time that the device had something to do.
pub(crate) const BUSY: &str = "busy";
/// Seconds of a call that keeps what was written for good.
pub(crate) const SYNC: &str = "sync";
/// Bytes per second that were read, of a mixed load.
pub(crate) const READ: &str = "read";
/// Bytes per second that were written.
pub(crate) const WRITE: &str = "write";
/// Seconds of a read, of a mixed load.
pub(crate) const READ_LATENCY: &str = "read-latency";
/// Seconds of a write.
pub(crate) const WRITE_LATENCY: &str = "write-latency";
