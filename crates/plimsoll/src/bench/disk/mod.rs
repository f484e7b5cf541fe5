//! Disk benchmarks: `disk.io`, transfers that the device carries out, and `disk.fsync`, what a commit costs.
//!
//! Everything works on one nameless test file below `--dir` ([`target`]), filled before it is read ([`fill`]), with
//! the page cache bypassed. [`load`] is the measured loop, [`engine`] how it talks to the kernel, [`pattern`] where
//! it goes and [`data`] what it writes.

pub mod data;
pub mod dir;
pub mod engine;
pub mod file;
pub mod filesystem;
pub mod fill;
pub mod fsync;
pub mod io;
pub mod load;
pub mod pattern;
pub mod target;

use hdrhistogram::Histogram;

use crate::sample;

/// A latency distribution in the form that crosses the pipe.
fn distribution(metric: &str, latency: &Histogram<u64>) -> sample::Histogram {
    let buckets = latency.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
    sample::Histogram { metric: metric.to_owned(), buckets }
}
