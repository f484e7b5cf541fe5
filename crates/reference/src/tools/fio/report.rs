//! fio's JSON output. 2.x writes KiB and µs (`io_bytes`, `clat`), 3.x bytes and ns (`bw_bytes`,
//! `clat_ns`); a client writes `client_stats` instead of `jobs` (fio's stat.c and client.c).

use std::collections::BTreeMap;

use plimsoll_units::quantity::significant;
use serde::Deserialize;
use serde_json::Value;

use crate::{Account, Seconds, json};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FioReport {
    #[serde(rename = "fio version")]
    pub(super) version: Option<String>,
    /// Seconds since 1970.
    pub(super) timestamp: Option<f64>,
    pub(super) timestamp_ms: Option<f64>,
    #[serde(rename = "global options")]
    pub(super) global: BTreeMap<String, Value>,
    pub(super) jobs: Vec<FioJobReport>,
    pub(super) client_stats: Vec<FioJobReport>,
    pub(super) disk_util: Vec<FioDisk>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FioJobReport {
    pub(super) jobname: String,
    pub(super) groupid: Option<i64>,
    /// Sum over its jobs, in milliseconds.
    pub(super) job_runtime: Option<f64>,
    pub(super) error: i64,
    /// Whole seconds since fio started, rounded up.
    pub(super) elapsed: Option<f64>,
    pub(super) hostname: Option<String>,
    #[serde(rename = "job options")]
    pub(super) options: BTreeMap<String, Value>,
    pub(super) read: FioSide,
    pub(super) write: FioSide,
    pub(super) trim: FioSide,
    pub(super) mixed: FioSide,
    pub(super) sync: Option<Synced>,
    pub(super) iodepth_level: BTreeMap<String, f64>,
}

impl FioJobReport {
    /// Returns the mean latency of reads and writes together in ns, submission included.
    pub(super) fn latency_ns(&self) -> f64 {
        let all = [&self.read, &self.write];
        let count: f64 = all.iter().map(|side| side.transfers()).sum();
        let latency = |side: &FioSide| side.latency_ns().filter(|ns| ns.is_finite()).unwrap_or(0.0);
        all.iter().map(|side| side.transfers() * latency(side)).sum::<f64>() / count
    }

    /// Returns the work and time behind `metric`: transfers for `rate`, transfers ÷ `in_flight` for
    /// `latency` (of at least 2 % of the time), else bytes.
    pub(super) fn account(&self, metric: &str, in_flight: f64) -> Account {
        const BUSY: f64 = 0.02;
        let Self { read, write, .. } = self;
        let runtime = read.runtime.unwrap_or(0.0).max(write.runtime.unwrap_or(0.0));
        let seconds = Seconds::whole(runtime).scale(1e-3);
        let transfers = read.transfers() + write.transfers();
        match metric {
            "latency" => Account::of(transfers / in_flight, seconds.scale_lower_bound(BUSY)),
            "rate" => Account::of(transfers, seconds),
            _ => Account::of(read.io_bytes.unwrap_or(0.0) + write.io_bytes.unwrap_or(0.0), seconds),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FioSide {
    /// Bytes/s (3.x).
    #[serde(deserialize_with = "json::number")]
    pub(super) bw_bytes: Option<f64>,
    /// KiB/s.
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
    pub(super) slat_ns: Option<FioTimes>,
    pub(super) clat_ns: Option<FioTimes>,
    pub(super) lat_ns: Option<FioTimes>,
    /// Microseconds.
    pub(super) lat: Option<FioTimes>,
}

impl FioSide {
    pub(super) fn transfers(&self) -> f64 {
        self.total_ios.unwrap_or(0.0)
    }

    /// Returns the mean latency in ns, submission included; `None` if the file lacks it.
    pub(super) fn latency_ns(&self) -> Option<f64> {
        let mean = |times: &Option<FioTimes>| times.as_ref()?.mean;
        match (mean(&self.slat_ns).filter(|ns| ns.is_finite()), mean(&self.clat_ns)) {
            (Some(submission), Some(completion)) => Some(submission + completion),
            _ => mean(&self.lat_ns).or_else(|| Some(mean(&self.lat)? * 1e3)),
        }
    }

    /// Returns why a count or rate is impossible, if so; idle directions may have -nan, as in 2.x.
    pub(super) fn impossible_count(&self) -> Option<String> {
        let counts = [
            ("io_bytes", self.io_bytes),
            ("io_kbytes", self.io_kbytes),
            ("total_ios", self.total_ios),
            ("runtime", self.runtime),
        ];
        let rates = [("bw", self.bw), ("bw_bytes", self.bw_bytes), ("iops", self.iops)];
        let worked = counts.iter().any(|(_, value)| value.is_some_and(|value| value != 0.0));
        counts.into_iter().chain(rates).find_map(|(name, value)| {
            let value = value.filter(|value| *value < 0.0 || worked && !value.is_finite())?;
            Some(format!("the file has {value} for {name}"))
        })
    }

    /// Returns why a latency is impossible; `None` if all are possible.
    pub(super) fn impossible_latency(&self) -> Option<String> {
        let all = [
            ("slat_ns", &self.slat_ns),
            ("clat_ns", &self.clat_ns),
            ("lat_ns", &self.lat_ns),
            ("lat", &self.lat),
        ];
        all.into_iter().find_map(|(name, times)| times.as_ref()?.impossible(name))
    }
}

#[derive(Deserialize)]
pub(super) struct Synced {
    pub(super) lat_ns: FioTimes,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FioTimes {
    #[serde(deserialize_with = "json::number")]
    max: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    pub(super) mean: Option<f64>,
}

impl FioTimes {
    /// Returns why these times, called `name`, are impossible; `None` if they are not. The maximum
    /// is 0 if nothing was timed. The mean may be below the minimum: fio counts untimed writes.
    fn impossible(&self, name: &str) -> Option<String> {
        /// The maximum is a whole number, and the mean is a rounded sum.
        const MEAN_ROUNDING: f64 = 1e-3;
        let (mean, most) = (self.mean?, self.max.unwrap_or(0.0));
        if mean < 0.0 || most > 0.0 && !mean.is_finite() {
            return Some(format!("the file has a mean of {mean} for {name}"));
        }
        let is_above = most > 0.0 && mean > most * (1.0 + MEAN_ROUNDING) + 1.0;
        is_above.then(|| {
            let mean = significant(mean, 4);
            format!("the file has a mean of {mean} for {name}, and none above {most}")
        })
    }
}

/// The kernel's counts for a disk during the run. Sectors of 512 bytes, since 3.37.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FioDisk {
    pub(super) name: String,
    pub(super) read_ios: Option<f64>,
    pub(super) write_ios: Option<f64>,
    pub(super) read_merges: Option<f64>,
    pub(super) write_merges: Option<f64>,
    pub(super) read_sectors: Option<f64>,
    pub(super) write_sectors: Option<f64>,
}
