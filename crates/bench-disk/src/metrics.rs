//! Metric names of the disk benchmarks. Times are per transfer as seen by the program, in seconds.

/// Bytes per second.
pub const THROUGHPUT_METRIC: &str = "throughput";
/// Transfers or commits per second.
pub const RATE_METRIC: &str = "rate";
/// From submission to completion, as fio's lat.
pub const LATENCY_METRIC: &str = "latency";
/// Standard deviation of the latency.
pub const LATENCY_STDEV: &str = "latency-stdev";
/// Submission part of the latency, as fio's slat.
pub const SLAT: &str = "slat";
/// Rest of the latency, as fio's clat.
pub const CLAT: &str = "clat";
/// Time of a sync.
pub const SYNC: &str = "sync";
/// CPU time per transfer.
pub const CPU_METRIC: &str = "cpu";
/// Context switches per transfer.
pub const SWITCHES: &str = "switches";
/// Mean transfers in flight.
pub const DEPTH_METRIC: &str = "depth";
/// Threads at the saturation point.
pub const THREADS_METRIC: &str = "threads";
/// Share of the time in which the device is busy, as counted by the kernel.
pub const BUSY_METRIC: &str = "busy";
/// Mean time of a request in block layer and device, as counted by the kernel.
pub const AWAIT: &str = "await";
/// Bytes read per second, if both directions are separate.
pub const READ: &str = "read";
/// Bytes written per second.
pub const WRITE: &str = "write";
/// Latency of reads alone.
pub const READ_LATENCY: &str = "read-latency";
/// Latency of writes alone.
pub const WRITE_LATENCY: &str = "write-latency";
