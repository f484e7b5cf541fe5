//! What a case demands of a device: how its transfers divide into reads and writes, how many are in flight, and what a
//! figure counts of them.

use plimsoll_model::job::disk::{CacheMode, DiskOperation, DiskTransfers, FsyncLoad};

/// A figure counts bytes, or transfers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Counted {
    /// Bytes.
    Bytes,
    /// Transfers of `block` bytes.
    Transfers {
        /// Bytes of one, in the mean.
        block: f64,
    },
}

impl Counted {
    /// Bytes of one.
    pub(crate) fn bytes(self) -> f64 {
        match self {
            Counted::Bytes => 1.0,
            Counted::Transfers { block } => block,
        }
    }

    /// The end of a formula in bytes that makes it one of what is counted.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Counted::Bytes => "",
            Counted::Transfers { .. } => " ÷ block",
        }
    }
}

/// How much of what is counted goes which way: of a copy all of it goes both ways.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shares {
    /// Share that is read.
    pub(crate) read: f64,
    /// Share that is written.
    pub(crate) write: f64,
}

impl Shares {
    /// Of an operation.
    ///
    /// # Errors
    /// It moves no data.
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

    /// What comes out where each way has its own bound; `None` where one that is needed is not known.
    pub(crate) fn bound(self, read: Option<f64>, write: Option<f64>) -> Option<f64> {
        let ways = [(self.read, read), (self.write, write)];
        let ways = ways.iter().filter(|(share, _)| *share > 0.0);
        ways.map(|(share, bound)| Some((*bound)? / share))
            .try_fold(f64::INFINITY, |least, one| Some(least.min(one?)))
    }

    /// What comes out of `bound` where both ways share it, or each way has it for itself.
    pub(crate) fn within(self, bound: f64, duplex: bool) -> f64 {
        bound / if duplex { self.read.max(self.write) } else { self.read + self.write }
    }

    /// The end of the formula.
    pub(crate) fn suffix(self) -> &'static str {
        if self.read > 0.0 && self.write > 0.0 { ", by the shares of reads and writes" } else { "" }
    }
}

/// What the transfers of a case demand of the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceDemand {
    pub(crate) shares: Shares,
    /// Mean bytes of a transfer, if they are known.
    pub(crate) block: Option<f64>,
    /// Transfers in flight, over all threads.
    pub(crate) in_flight: f64,
    /// Each transfer is one of the device.
    pub(crate) reaches_the_device: bool,
    /// A new transfer begins as soon as one ends.
    pub(crate) is_kept_full: bool,
}

impl DeviceDemand {
    /// The demand of transfers.
    ///
    /// # Errors
    /// They move no data.
    pub(crate) fn of(job: &DiskTransfers) -> Result<Self, String> {
        Ok(Self {
            shares: Shares::of(job.operation)?,
            block: job.mean_block(),
            in_flight: job.in_flight(),
            reaches_the_device: job.cache == CacheMode::Direct,
            is_kept_full: job.open_loop.is_none() && job.target.is_none(),
        })
    }

    /// What is counted, as transfers of this block; `None` if it is not known.
    pub(crate) fn transfers(&self) -> Option<Counted> {
        self.block.map(|block| Counted::Transfers { block })
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
