//! The names of the metrics of disk benchmarks. Times are of one transfer as the program sees it, in seconds.

/// Bytes a second.
pub const THROUGHPUT: &str = "throughput";
/// Transfers, or commits, a second.
pub const RATE: &str = "rate";
/// From submission to completion: fio's lat.
pub const LATENCY: &str = "latency";
/// The standard deviation of single latencies.
pub const LATENCY_STDEV: &str = "latency-stdev";
/// The part of the latency that submission took, as fio's slat.
pub const SLAT: &str = "slat";
/// The rest of it, as fio's clat.
pub const CLAT: &str = "clat";
/// What syncing takes each time.
pub const SYNC: &str = "sync";
/// CPU time of one.
pub const CPU: &str = "cpu";
/// Context switches for one.
pub const SWITCHES: &str = "switches";
/// The mean number in flight.
pub const DEPTH: &str = "depth";
/// Threads at the knee.
pub const THREADS: &str = "threads";
/// The share of the time in which the kernel counts the device as working.
pub const BUSY: &str = "busy";
/// The mean time of a request in block layer and device, as the kernel counts it.
pub const AWAIT: &str = "await";
/// Bytes read a second, where both directions are told apart.
pub const READ: &str = "read";
/// Bytes written a second.
pub const WRITE: &str = "write";
/// The latency of reads alone.
pub const READ_LATENCY: &str = "read-latency";
/// The latency of writes alone.
pub const WRITE_LATENCY: &str = "write-latency";
