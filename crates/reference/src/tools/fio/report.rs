//! What fio prints as JSON: 3.x, and 2.x with its other names and units.
//!
//! 2.x has bytes in KiB and latencies in µs (`io_bytes`, `clat`), 3.x bytes and ns (`bw_bytes`, `clat_ns`); a client has
//! `client_stats` in place of `jobs` (fio's stat.c and client.c).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{Account, Seconds, json};

/// The document.
#[derive(Deserialize)]
pub(super) struct Report {
    #[serde(default, rename = "fio version")]
    pub(super) version: Option<String>,
    /// Seconds since 1970, and the same in milliseconds.
    #[serde(default)]
    pub(super) timestamp: Option<f64>,
    #[serde(default)]
    pub(super) timestamp_ms: Option<f64>,
    #[serde(default, rename = "global options")]
    pub(super) global: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) jobs: Vec<Measured>,
    #[serde(default)]
    pub(super) client_stats: Vec<Measured>,
    #[serde(default)]
    pub(super) disk_util: Vec<Disk>,
}

/// A job, or a group of them.
#[derive(Deserialize)]
pub(super) struct Measured {
    #[serde(default)]
    pub(super) jobname: String,
    #[serde(default)]
    pub(super) groupid: Option<i64>,
    /// Milliseconds of all jobs in it together.
    #[serde(default)]
    pub(super) job_runtime: Option<f64>,
    #[serde(default)]
    pub(super) error: i64,
    /// Whole seconds since fio began, rounded up.
    #[serde(default)]
    pub(super) elapsed: Option<f64>,
    #[serde(default)]
    pub(super) hostname: Option<String>,
    #[serde(default, rename = "job options")]
    pub(super) options: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) read: Side,
    #[serde(default)]
    pub(super) write: Side,
    #[serde(default)]
    pub(super) trim: Side,
    #[serde(default)]
    pub(super) mixed: Side,
    #[serde(default)]
    pub(super) sync: Option<Synced>,
    #[serde(default)]
    pub(super) iodepth_level: BTreeMap<String, f64>,
}

impl Measured {
    /// Mean latency, submission included, over both directions.
    pub(super) fn latency_ns(&self) -> f64 {
        let all = [&self.read, &self.write];
        let count: f64 = all.iter().map(|side| side.transfers()).sum();
        let latency = |side: &Side| side.latency_ns().filter(|ns| ns.is_finite()).unwrap_or(0.0);
        all.iter().map(|side| side.transfers() * latency(side)).sum::<f64>() / count
    }

    /// What it did, and in how many of its milliseconds. As latencies its transfers fill that time so often as there are of
    /// them in flight, but for what it does between two.
    pub(super) fn account(&self, metric: &str, in_flight: f64) -> Account {
        const BUSY: f64 = 0.02;
        let Self { read, write, .. } = self;
        let runtime = read.runtime.unwrap_or(0.0).max(write.runtime.unwrap_or(0.0));
        let seconds = Seconds::whole(runtime).times(1e-3);
        let transfers = read.transfers() + write.transfers();
        match metric {
            "latency" => Account::of(transfers / in_flight, seconds.filled(BUSY)),
            "rate" => Account::of(transfers, seconds),
            _ => Account::of(read.io_bytes.unwrap_or(0.0) + write.io_bytes.unwrap_or(0.0), seconds),
        }
    }
}

/// One direction.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Side {
    /// Bytes a second (3.x).
    #[serde(deserialize_with = "json::number")]
    pub(super) bw_bytes: Option<f64>,
    /// KiB a second.
    #[serde(deserialize_with = "json::number")]
    pub(super) bw: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    pub(super) iops: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    pub(super) total_ios: Option<f64>,
    /// Bytes; KiB in most of 2.x.
    #[serde(deserialize_with = "json::number")]
    pub(super) io_bytes: Option<f64>,
    /// KiB (3.1 and later).
    #[serde(deserialize_with = "json::number")]
    pub(super) io_kbytes: Option<f64>,
    /// Milliseconds.
    #[serde(deserialize_with = "json::number")]
    pub(super) runtime: Option<f64>,
    pub(super) slat_ns: Option<Times>,
    pub(super) clat_ns: Option<Times>,
    pub(super) lat_ns: Option<Times>,
    /// Microseconds.
    pub(super) lat: Option<Times>,
}

impl Side {
    /// Transfers that it made.
    pub(super) fn transfers(&self) -> f64 {
        self.total_ios.unwrap_or(0.0)
    }

    /// Mean nanoseconds of a transfer, submission included.
    pub(super) fn latency_ns(&self) -> Option<f64> {
        let mean = |times: &Option<Times>| times.as_ref()?.mean;
        match (mean(&self.slat_ns).filter(|ns| ns.is_finite()), mean(&self.clat_ns)) {
            (Some(submission), Some(completion)) => Some(submission + completion),
            _ => mean(&self.lat_ns).or_else(|| Some(mean(&self.lat)? * 1e3)),
        }
    }

    /// Mean nanoseconds from submission to the end.
    pub(super) fn completion_ns(&self) -> Option<f64> {
        self.clat_ns.as_ref()?.mean
    }
}

#[derive(Deserialize)]
pub(super) struct Synced {
    pub(super) lat_ns: Times,
}

#[derive(Deserialize)]
pub(super) struct Times {
    #[serde(default, deserialize_with = "json::number")]
    pub(super) mean: Option<f64>,
}

/// What the kernel counted at a disk meanwhile. Sectors, of 512 bytes, since 3.37.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Disk {
    pub(super) name: String,
    pub(super) read_ios: Option<f64>,
    pub(super) write_ios: Option<f64>,
    pub(super) read_merges: Option<f64>,
    pub(super) write_merges: Option<f64>,
    pub(super) read_sectors: Option<f64>,
    pub(super) write_sectors: Option<f64>,
}
