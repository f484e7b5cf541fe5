//! Disk jobs: [`DiskTransfers`] to a test file, and [`FsyncLoad`], commits to a log.

mod order;

use std::fmt;
use std::time::Duration;

use plimsoll_metal::uring::Polling;
pub use plimsoll_units::quantity::BlockSizes;
use plimsoll_units::quantity::{format_duration, parse_duration};
use plimsoll_units::text::shown;
use serde::{Deserialize, Serialize};

use super::{Scaling, meaning, scaling};
use crate::case::{Case, Value};

pub use order::{BlockOrder, FileZones, STRIDE_BLOCKS};

/// Default percentage of reads in a mixed load.
pub const DEFAULT_READ_SHARE: u8 = 70;

/// Maximum block in bytes for which the rate is the headline; larger blocks have bytes per second.
pub const MAX_SMALL_BLOCK_BYTES: u64 = 64 << 10;

/// Parameters of transfers to a test file or device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskTransfers {
    /// Operation of the transfers.
    pub operation: DiskOperation,
    /// Order in which blocks are visited.
    pub order: BlockOrder,
    /// Bytes per transfer; 0 if the case names no block.
    pub blocks: BlockSizes,
    /// Requested alignment of offsets, in bytes.
    pub align: Option<u64>,
    /// Queue depth: transfers in flight per thread.
    pub depth: u64,
    /// Number of threads.
    pub threads: u64,
    /// I/O engine.
    pub engine: DiskEngine,
    /// Use of the page cache.
    pub cache: CacheMode,
    /// Whether all threads access the whole file, instead of one part per thread.
    pub shared: bool,
    /// Whether each write waits for the device.
    pub through: WriteThrough,
    /// When earlier writes are flushed to the device.
    pub flush: Flush,
    /// Requested bytes of the file.
    pub size: Option<u64>,
    /// Target rate of an open loop.
    pub open_loop: Option<OpenLoop>,
    /// Latency for which the largest queue depth is searched.
    pub target: Option<LatencyTarget>,
    /// Fixed amount per sample: per thread or in total, depending on `scaling`.
    pub amount: Option<TransferAmount>,
    /// Scope of the fixed amount.
    pub scaling: Scaling,
    /// Whether every block is verified when it is read.
    pub verify: bool,
    /// Whether the file is first overwritten at random, in rounds.
    pub steady: bool,
}

impl DiskTransfers {
    /// Reads a `disk.io` case; fails for an invalid value or one that contradicts another.
    pub fn of(case: &Case) -> Result<Self, String> {
        let read_share = case.number("read-share").unwrap_or(u64::from(DEFAULT_READ_SHARE));
        let read_share = u8::try_from(read_share).ok().filter(|share| *share <= 100).ok_or_else(|| {
            format!("read-share must be between 0 and 100, a percentage: {read_share} is not")
        })?;
        let operation = match meaning(case, "op", DiskOperation::ALL, DiskOperation::Read)? {
            DiskOperation::Mixed { .. } => DiskOperation::Mixed { read_share },
            operation => operation,
        };
        let (through, flush) = sync(case.word("sync").unwrap_or("none"))?;
        Ok(Self {
            operation,
            order: case.word("pattern").map_or(Ok(BlockOrder::Random), BlockOrder::parse)?,
            blocks: match case.mix("block") {
                Some(mix) => BlockSizes::Mixed(mix.clone()),
                None => BlockSizes::One(case.number("block").unwrap_or(0)),
            },
            align: case.number("align"),
            depth: case.number("depth").unwrap_or(1),
            threads: case.number("threads").unwrap_or(1),
            engine: meaning(case, "engine", DiskEngine::ALL, DiskEngine::PLAIN)?,
            cache: meaning(case, "cache", CacheMode::ALL, CacheMode::Direct)?,
            shared: meaning(case, "layout", &[("private", false), ("shared", true)], false)?,
            through,
            flush,
            size: case.number("size"),
            open_loop: open_loop(case)?,
            target: case.word("latency-target").map(LatencyTarget::parse).transpose()?,
            amount: amount(case)?,
            scaling: scaling(case)?,
            verify: case.word("verify") == Some("on"),
            steady: case.word("steady") == Some("on"),
        })
    }

    /// Returns the mean bytes per transfer; `None` if the case names no block size.
    pub fn mean_block(&self) -> Option<f64> {
        Some(self.blocks.mean()).filter(|bytes| *bytes > 0.0)
    }

    /// Returns the number of transfers in flight over all threads: threads × depth.
    pub fn in_flight(&self) -> f64 {
        self.threads as f64 * self.depth as f64
    }

    /// Returns whether only one transfer is in flight over all threads.
    pub fn has_one_in_flight(&self) -> bool {
        (self.threads, self.depth) == (1, 1)
    }

    /// Returns whether the mean block is at most 64 KiB: the headline is then IOPS, not B/s.
    pub fn is_small(&self) -> bool {
        self.mean_block().is_some_and(|bytes| bytes <= MAX_SMALL_BLOCK_BYTES as f64)
    }

    /// Returns how many transfers a sample has, by `scaling` per thread or in total, if fixed.
    pub fn fixed_transfers(&self) -> Option<u64> {
        Some(match self.amount? {
            TransferAmount::Bytes(bytes) => ((bytes as f64 / self.blocks.mean()).round() as u64).max(1),
            TransferAmount::Transfers(transfers) => transfers,
        })
    }

    /// Returns the alignment of offsets in bytes: `align`, or the largest divisor of the blocks.
    pub fn unit(&self) -> u64 {
        self.align.unwrap_or_else(|| self.blocks.unit())
    }

    /// Returns into how many parts the threads divide the file: 1 if they share it.
    pub fn parts(&self) -> u64 {
        if self.shared { 1 } else { self.threads }
    }

    /// Returns parameter `sync` as in ids, if it counts writes (`every:32`); else `None`.
    pub fn canonical_sync(&self) -> Option<String> {
        match self.flush {
            Flush::Every { writes, call: SyncCall::DataSync } => Some(format!("every:{writes}")),
            Flush::Every { writes, call: SyncCall::Sync } => Some(format!("fsync:{writes}")),
            _ => None,
        }
    }
}

/// Operation of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskOperation {
    /// Reads filled blocks.
    Read,
    /// Overwrites filled blocks.
    Write,
    /// Writes to unallocated space; a full file is emptied and restarted.
    Append,
    /// Reads and writes.
    Mixed {
        /// Percentage of reads.
        read_share: u8,
    },
    /// Copies blocks from one file to the same offsets of another.
    Copy,
    /// Frees blocks; once all are freed, the file is filled again.
    Trim,
}

impl DiskOperation {
    const ALL: &'static [(&'static str, Self)] = &[
        ("read", Self::Read),
        ("write", Self::Write),
        ("append", Self::Append),
        ("mixed", Self::Mixed { read_share: DEFAULT_READ_SHARE }),
        ("copy", Self::Copy),
        ("trim", Self::Trim),
    ];

    /// Returns the name of the operation in ids, such as `read`.
    pub fn word(self) -> &'static str {
        let same = |known: &Self| std::mem::discriminant(known) == std::mem::discriminant(&self);
        Self::ALL.iter().find(|(_, known)| same(known)).map_or("", |(word, _)| word)
    }

    /// Returns whether the operation writes generated data: write, append and mixed.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Append | Self::Mixed { .. })
    }

    /// Returns whether a pass uses the file up, which is then refilled or emptied: append, trim.
    pub fn uses_up(self) -> bool {
        matches!(self, Self::Append | Self::Trim)
    }
}

/// I/O engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskEngine {
    /// io_uring: many transfers in flight, submitted in batches.
    IoUring(Polling),
    /// io_submit(2) and io_getevents(2): many transfers in flight.
    Libaio,
    /// preadv2(2) and pwritev2(2): one transfer at a time.
    Psync,
    /// Copies from and to a mapping of the file, through the page cache: one transfer at a time.
    Mmap,
    /// Completes at once without a transfer, many in flight: measures the overhead of a ring.
    Null,
    /// Like [`DiskEngine::Null`], one at a time: measures the overhead of synchronous engines.
    NullCall,
}

const fn ring(submission: bool, completion: bool) -> DiskEngine {
    DiskEngine::IoUring(Polling { submission, completion })
}

impl DiskEngine {
    /// io_uring without polling.
    pub const PLAIN: Self = ring(false, false);

    /// All selectable engines with their names.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("io_uring", Self::PLAIN),
        ("io_uring+sqpoll", ring(true, false)),
        ("io_uring+iopoll", ring(false, true)),
        ("io_uring+sqpoll+iopoll", ring(true, true)),
        ("libaio", Self::Libaio),
        ("psync", Self::Psync),
        ("mmap", Self::Mmap),
    ];

    /// Parses the name of an engine with one transfer at a time: `psync` or `mmap`; else `None`.
    pub fn parse_synchronous(word: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, engine)| *engine).filter(|engine| engine.is_one_at_a_time())
    }

    /// Returns the name of the engine in ids, such as `io_uring`.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, engine)| *engine == self).map_or("null", |(name, _)| name)
    }

    /// Returns whether the engine has one transfer in flight at any depth, such as psync and mmap.
    pub fn is_one_at_a_time(self) -> bool {
        matches!(self, Self::Psync | Self::Mmap | Self::NullCall)
    }
}

/// Use of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheMode {
    /// Bypassed with `O_DIRECT`.
    Direct,
    /// Holds the file from the start.
    Buffered,
    /// Holds nothing of the file at the start of each pass.
    Cold,
}

impl CacheMode {
    const ALL: &'static [(&'static str, Self)] =
        &[("direct", Self::Direct), ("buffered", Self::Buffered), ("cold", Self::Cold)];

    /// Returns the name of the mode in ids, such as `direct`.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(word, _)| word)
    }
}

/// Whether a write finishes only once the device has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteThrough {
    /// With its data (`O_DSYNC`).
    Yes,
    /// With its data and the file's metadata (`O_SYNC`).
    Whole,
    /// No.
    No,
}

/// When writes are flushed to the device, in addition to [`WriteThrough`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flush {
    /// Never.
    #[default]
    Never,
    /// After a number of writes.
    Every {
        /// Number of writes.
        writes: u64,
        /// Flushing call.
        call: SyncCall,
    },
    /// At the end of each sample.
    AtEnd {
        /// Flushing call.
        call: SyncCall,
    },
}

/// System call that flushes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncCall {
    /// fdatasync(2): data and the metadata needed to read it.
    DataSync,
    /// fsync(2): data and all metadata.
    Sync,
}

/// Parses parameter `sync`: `none`; write-through `each` (O_DSYNC), `o_sync`; flush by fdatasync(2)
/// (`end` of the sample, `every:N` writes) or fsync(2) (`fsync-end`, `fsync:N`). Else fails.
fn sync(word: &str) -> Result<(WriteThrough, Flush), String> {
    let after =
        |(name, call)| Some((word.strip_prefix(name)?.trim_start_matches([' ', ':', '-', '=']), call));
    let every = [("every", SyncCall::DataSync), ("fsync", SyncCall::Sync)].into_iter().find_map(after);
    Ok(match (word, every) {
        ("none", _) => (WriteThrough::No, Flush::Never),
        ("each", _) => (WriteThrough::Yes, Flush::Never),
        ("o_sync", _) => (WriteThrough::Whole, Flush::Never),
        ("end", _) => (WriteThrough::No, Flush::AtEnd { call: SyncCall::DataSync }),
        ("fsync-end", _) => (WriteThrough::No, Flush::AtEnd { call: SyncCall::Sync }),
        (_, Some((writes, call))) => {
            let writes = writes.parse().ok().filter(|writes| (1..=1_000_000_000).contains(writes));
            let writes = writes.ok_or_else(|| {
                let why = "sync every:N must have an N between 1 and 1000000000, such as every:32";
                format!("{why}: '{}' has not", shown(word))
            })?;
            (WriteThrough::No, Flush::Every { writes, call })
        }
        _ => {
            let why = "sync must be none, each, o_sync, every:N, fsync:N, end or fsync-end";
            return Err(format!("{why}: '{}' is none of them", shown(word)));
        }
    })
}

/// Target rate of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Spacing of intended starts.
    pub arrivals: ArrivalProcess,
    /// Intended starts per second, over all threads.
    pub per_second: f64,
}

/// Spacing of the intended starts of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrivalProcess {
    /// Exponentially distributed gaps, as from many independent users.
    Poisson,
    /// Equal gaps.
    Even,
}

/// Refused target rate in transfers/s: no disk reaches it, and fio's `rate=100M` means bytes.
const MAX_TRANSFER_RATE: f64 = 1e7;

fn open_loop(case: &Case) -> Result<Option<OpenLoop>, String> {
    match case.get("rate") {
        Some(Value::Rate(per_second)) if *per_second >= MAX_TRANSFER_RATE => Err(format!(
            "--rate must be below {MAX_TRANSFER_RATE:.0} transfers per second: {per_second:.0} is not; for a rate in bytes per second divide it by --block"
        )),
        Some(Value::Rate(per_second)) => {
            let known = [("poisson", ArrivalProcess::Poisson), ("even", ArrivalProcess::Even)];
            let arrivals = meaning(case, "arrivals", &known, ArrivalProcess::Poisson)?;
            Ok(Some(OpenLoop { arrivals, per_second: *per_second }))
        }
        _ if case.word("arrivals").is_some() => Err("--arrivals requires --rate".to_owned()),
        _ => Ok(None),
    }
}

/// A latency that a share of the transfers must meet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyTarget {
    /// Share between 0 and 1.
    pub share: f64,
    /// Latency in nanoseconds.
    pub ns: u64,
}

impl LatencyTarget {
    /// Parses `p99=2ms` or, as in ids, `p99:2ms`; fails for percentiles outside p1 to p99.99.
    pub fn parse(word: &str) -> Result<Self, String> {
        let wrong = || {
            let what =
                "latency-target must be a percentile from p1 to p99.99 and a time above 0, such as p99=2ms";
            format!("{what}: '{}' is not", shown(word))
        };
        let (percentile, time) = word.split_once(['=', ':']).ok_or_else(wrong)?;
        let percent: f64 = percentile.strip_prefix('p').and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
        let time =
            parse_duration(time).map_err(|e| format!("latency-target: the time of {percentile} {e}"))?;
        let ns = u64::try_from(time.as_nanos()).map_err(|_| wrong())?;
        if !(1.0..=99.99).contains(&percent) || ns == 0 {
            return Err(wrong());
        }
        Ok(Self { share: percent / 100.0, ns })
    }

    /// Returns the name of the percentile, such as `p99`.
    pub fn percentile(&self) -> String {
        format!("p{}", (self.share * 1e6).round() / 1e4)
    }

    /// Returns the latency with its unit, such as `2ms`.
    pub fn time(&self) -> String {
        format_duration(Duration::from_nanos(self.ns))
    }
}

impl fmt::Display for LatencyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.percentile(), self.time())
    }
}

/// Fixed amount of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferAmount {
    /// Bytes.
    Bytes(u64),
    /// Number of transfers.
    Transfers(u64),
}

fn amount(case: &Case) -> Result<Option<TransferAmount>, String> {
    match (case.number("volume"), case.number("count")) {
        (Some(_), Some(_)) => Err("--volume and --count are mutually exclusive".to_owned()),
        (None, None) if case.get("scaling").is_some() => {
            Err("--scaling requires --volume or --count".to_owned())
        }
        (None, None) => Ok(None),
        (Some(0), _) | (_, Some(0)) => Err("volume or count must be at least 1: 0 is not".to_owned()),
        (Some(bytes), _) => Ok(Some(TransferAmount::Bytes(bytes))),
        (_, Some(transfers)) => Ok(Some(TransferAmount::Transfers(transfers))),
    }
}

/// Commits to one log per thread: appends through the page cache, each with fdatasync(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsyncLoad {
    /// Bytes per commit, at most a segment.
    pub block: u64,
    /// Number of threads.
    pub threads: u64,
}

impl FsyncLoad {
    /// Bytes of a log segment: the default of etcd and RocksDB.
    pub const SEGMENT_BYTES: u64 = 64 << 20;

    /// Reads a `disk.fsync` case; one thread by default. Fails without a block.
    pub fn of(case: &Case) -> Result<Self, String> {
        let block = case.number("block").ok_or("the case has no block")?;
        Ok(Self { block, threads: case.number("threads").unwrap_or(1) })
    }
}

#[cfg(test)]
mod tests;
