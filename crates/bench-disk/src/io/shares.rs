//! How the transfers of a case divide into reads and writes, and what a figure counts of them.

use crate::fsync::DiskFsync;
use crate::io::job::READ_SHARE;
use plimsoll_bench_api::Benchmark;
use plimsoll_model::case::Case;

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
    /// Reads the shares from a case.
    ///
    /// # Errors
    /// Its operation moves no data.
    pub(crate) fn of(case: &Case) -> Result<Shares, String> {
        let usual = if case.benchmark() == DiskFsync.name() { "write" } else { "read" };
        let (read, write) = match case.word("op").unwrap_or(usual) {
            "read" => (1.0, 0.0),
            "write" | "append" => (0.0, 1.0),
            "mixed" => {
                let read = case.number("read-share").unwrap_or(u64::from(READ_SHARE)) as f64 / 100.0;
                (read, 1.0 - read)
            }
            "copy" => (1.0, 1.0),
            op => return Err(format!("{op} moves no data over the link")),
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
