//! Demand of a case on a device: shares of reads and writes, transfers in flight, unit of figures.

use plimsoll_model::job::disk::{CacheMode, DiskOperation, DiskTransfers, FsyncLoad};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DemandUnit {
    Bytes,
    Transfers { block: f64 },
}

impl DemandUnit {
    /// Returns the bytes per unit: 1 for `Bytes`, the block size for `Transfers`.
    pub(crate) fn bytes(self) -> f64 {
        if let DemandUnit::Transfers { block } = self { block } else { 1.0 }
    }

    pub(crate) fn unit(self) -> &'static str {
        if self == DemandUnit::Bytes { "B/s" } else { "IO/s" }
    }

    /// Returns what turns a formula of a rate in bytes into this unit: nothing, or " ÷ block".
    pub(crate) fn suffix(self) -> &'static str {
        if self == DemandUnit::Bytes { "" } else { " ÷ block" }
    }
}

/// Shares of reads and writes, 0 to 1; both are 1 for a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shares {
    pub(crate) read: f64,
    pub(crate) write: f64,
}

impl Shares {
    /// Returns bytes read and written per byte of throughput: (1, 0) for reads, (0.7, 0.3) for a
    /// mix with 70 % reads, (1, 1) for a copy. Fails for trims, which move no data.
    pub(crate) fn of(operation: DiskOperation) -> Result<Shares, String> {
        let (read, write) = match operation {
            DiskOperation::Read => (1.0, 0.0),
            DiskOperation::Write | DiskOperation::Append => (0.0, 1.0),
            DiskOperation::Mixed { read_share } => {
                let read = f64::from(read_share) / 100.0;
                (read, 1.0 - read)
            }
            DiskOperation::Copy => (1.0, 1.0),
            DiskOperation::Trim => return Err(format!("{} moves no data over the link", operation.word())),
        };
        Ok(Shares { read, write })
    }

    /// Returns the highest throughput with reads limited to `read` and writes to `write`, in their
    /// unit; `None` if the limit of a direction in use is unknown.
    pub(crate) fn max_rate_by_limits(self, read: Option<f64>, write: Option<f64>) -> Option<f64> {
        let ways = [(self.read, read), (self.write, write)];
        let mut ways = ways.iter().filter(|(share, _)| *share > 0.0);
        ways.try_fold(f64::INFINITY, |least, (share, bound)| Some(least.min((*bound)? / share)))
    }

    /// Returns the highest throughput, in the unit of `bound`, over a link that carries `bound` in
    /// each direction if `duplex`, else in both together.
    pub(crate) fn max_rate_on_link(self, bound: f64, duplex: bool) -> f64 {
        bound / if duplex { self.read.max(self.write) } else { self.read + self.write }
    }

    pub(crate) fn suffix(self) -> &'static str {
        if self.read > 0.0 && self.write > 0.0 { ", by the shares of reads and writes" } else { "" }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceDemand {
    pub(crate) shares: Shares,
    pub(crate) block: Option<f64>,
    /// Transfers in flight, over all threads.
    pub(crate) in_flight: f64,
    pub(crate) reaches_the_device: bool,
    /// Whether a new transfer starts as soon as one ends.
    pub(crate) is_kept_full: bool,
}

impl DeviceDemand {
    /// Returns the shares of directions, mean block and queue depth of `job`; `None` for trims.
    pub(crate) fn of(job: &DiskTransfers) -> Option<Self> {
        Some(Self {
            shares: Shares::of(job.operation).ok()?,
            block: job.mean_block(),
            in_flight: job.in_flight(),
            reaches_the_device: job.cache == CacheMode::Direct,
            is_kept_full: job.open_loop.is_none() && job.target.is_none(),
        })
    }

    /// Returns the unit of IO/s: transfers of the mean block size; `None` if that size is unknown.
    pub(crate) fn transfer_unit(&self) -> Option<DemandUnit> {
        self.block.map(|block| DemandUnit::Transfers { block })
    }
}

/// Each commit writes at least its block.
impl From<FsyncLoad> for DeviceDemand {
    fn from(load: FsyncLoad) -> Self {
        Self {
            shares: Shares { read: 0.0, write: 1.0 },
            block: Some(load.block as f64),
            in_flight: load.threads as f64,
            reaches_the_device: true,
            is_kept_full: true,
        }
    }
}
