//! Metric names of the disk benchmarks. Times are per transfer as seen by the program, in seconds.

use plimsoll_bench_api::prelude::*;

pub(crate) const THROUGHPUT_METRIC: &str = "throughput";
/// Transfers or commits per second.
pub(crate) const RATE_METRIC: &str = "rate";
/// From submission to completion, as fio's lat.
pub(crate) const LATENCY_METRIC: &str = "latency";
/// Standard deviation of the latency.
pub(crate) const LATENCY_STDEV: &str = "latency-stdev";
/// Submission part of the latency, as fio's slat.
pub(crate) const SLAT: &str = "slat";
/// Rest of the latency, as fio's clat.
pub(crate) const CLAT: &str = "clat";
pub(crate) const SYNC: &str = "sync";
pub(crate) const CPU_METRIC: &str = "cpu";
/// Context switches per transfer.
pub(crate) const SWITCHES: &str = "switches";
pub(crate) const DEPTH_METRIC: &str = "depth";
/// Threads at the saturation point.
pub(crate) const THREADS_METRIC: &str = "threads";
/// Share of the time in which the device is busy, as counted by the kernel.
pub(crate) const BUSY_METRIC: &str = "busy";
/// Mean time of a request in block layer and device, as counted by the kernel.
pub(crate) const AWAIT: &str = "await";
/// Bytes read per second, if both directions are separate.
pub(crate) const READ: &str = "read";
pub(crate) const WRITE: &str = "write";
pub(crate) const READ_LATENCY: &str = "read-latency";
pub(crate) const WRITE_LATENCY: &str = "write-latency";

/// Returns a metric `name` in seconds, lower is better, with the description `about`.
pub(crate) const fn seconds(name: &'static str, about: &'static str) -> Metric {
    Metric::new(name, Unit::Second, Better::Lower).about(about)
}
