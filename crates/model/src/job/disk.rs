//! Disk jobs: [`DiskTransfers`], reads and writes over a test file, and [`FsyncLoad`], the commits of a log.

mod order;

use std::fmt;
use std::time::Duration;

use plimsoll_metal::uring::Polling;
use serde::{Deserialize, Serialize};

use super::{Scaling, meaning, scaling};
use crate::case::{Case, Value};
use crate::quantity::{Mix, format_duration, format_size, parse_duration};
use crate::text::shown;

pub use order::{BlockOrder, FileZones, STRIDE_BLOCKS};

/// Percentage of reads in a mixed load that names no share.
pub const DEFAULT_READ_SHARE: u8 = 70;

/// Blocks up to this size are judged by their rate, larger ones by their bytes.
pub const MAX_SMALL_BLOCK_BYTES: u64 = 64 << 10;

/// Transfers over a test file or device: the parameters of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskTransfers {
    /// What the transfers do.
    pub operation: DiskOperation,
    /// In which order they visit the blocks.
    pub order: BlockOrder,
    /// Bytes of a transfer; 0 if the case names no block.
    pub blocks: BlockSizes,
    /// Offsets are multiples of this many bytes, if it is asked for.
    pub align: Option<u64>,
    /// Transfers in flight per thread.
    pub depth: u64,
    /// Threads.
    pub threads: u64,
    /// How transfers are handed to the kernel.
    pub engine: DiskEngine,
    /// What the page cache does for them.
    pub cache: CacheMode,
    /// All threads go over the whole file, instead of one part per thread.
    pub shared: bool,
    /// Whether each write waits for the device.
    pub through: WriteThrough,
    /// When earlier writes are flushed to the device.
    pub flush: Flush,
    /// Bytes of the file, if they are asked for.
    pub size: Option<u64>,
    /// The target rate of an open loop.
    pub open_loop: Option<OpenLoop>,
    /// A latency for which the deepest queue is sought.
    pub target: Option<LatencyTarget>,
    /// The amount of each sample, if it is fixed: per thread or of all threads, as `scaling` says.
    pub amount: Option<TransferAmount>,
    /// Whose amount is fixed.
    pub scaling: Scaling,
    /// Every block is checked whenever it is read.
    pub verify: bool,
    /// The file is overwritten at random before it is measured, in rounds.
    pub steady: bool,
}

impl TryFrom<&Case> for DiskTransfers {
    type Error = String;

    /// Reads the parameters. What the case leaves out has its default: one random read at a time by io_uring, past the
    /// page cache, of one thread.
    fn try_from(case: &Case) -> Result<Self, String> {
        let read_share = read_share(case)?;
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
            shared: meaning(case, "layout", LAYOUTS, false)?,
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
}

impl DiskTransfers {
    /// Mean bytes of a transfer; `None` if the case names no block.
    pub fn mean_block(&self) -> Option<f64> {
        Some(self.blocks.mean()).filter(|bytes| *bytes > 0.0)
    }

    /// Transfers in flight, over all threads.
    pub fn in_flight(&self) -> f64 {
        self.threads as f64 * self.depth as f64
    }

    /// Whether one transfer at a time is in flight, over all threads.
    pub fn is_lone(&self) -> bool {
        (self.threads, self.depth) == (1, 1)
    }

    /// Whether the blocks are so small that their rate is the figure, and not their bytes per second.
    pub fn is_small(&self) -> bool {
        self.mean_block().is_some_and(|bytes| bytes <= MAX_SMALL_BLOCK_BYTES as f64)
    }

    /// Transfers of each sample, if its amount is fixed.
    pub fn fixed_transfers(&self) -> Option<u64> {
        Some(match self.amount? {
            // The cast saturates.
            TransferAmount::Bytes(bytes) => ((bytes as f64 / self.blocks.mean()).round() as u64).max(1),
            TransferAmount::Transfers(transfers) => transfers,
        })
    }

    /// Offsets are multiples of this many bytes.
    pub fn unit(&self) -> u64 {
        self.align.unwrap_or_else(|| self.blocks.unit())
    }

    /// Parts into which the threads divide the file.
    pub fn parts(&self) -> u64 {
        if self.shared { 1 } else { self.threads }
    }

    /// The word of ids for its `sync`, if that has a number.
    pub fn canonical_sync(&self) -> Option<String> {
        match self.flush {
            Flush::Every { writes, call: SyncCall::DataSync } => Some(format!("every:{writes}")),
            Flush::Every { writes, call: SyncCall::Sync } => Some(format!("fsync:{writes}")),
            _ => None,
        }
    }
}

/// The operation of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskOperation {
    /// Reads what was filled.
    Read,
    /// Writes over what was filled.
    Write,
    /// Writes where nothing is yet, so that space is allocated; a full file is emptied and begun anew.
    Append,
    /// Reads and writes.
    Mixed {
        /// Reads in a hundred.
        read_share: u8,
    },
    /// Reads a block of one file and writes it to the same offset of another.
    Copy,
    /// Frees blocks; when all are freed, the file is filled anew.
    Trim,
}

impl DiskOperation {
    /// Every operation with the word that names it; the share of a mixed load is a parameter of its own.
    const ALL: &'static [(&'static str, Self)] = &[
        ("read", Self::Read),
        ("write", Self::Write),
        ("append", Self::Append),
        ("mixed", Self::Mixed { read_share: DEFAULT_READ_SHARE }),
        ("copy", Self::Copy),
        ("trim", Self::Trim),
    ];

    /// The word that names it.
    pub fn word(self) -> &'static str {
        let same = |known: &Self| std::mem::discriminant(known) == std::mem::discriminant(&self);
        Self::ALL.iter().find(|(_, known)| same(known)).map_or("", |(word, _)| word)
    }

    /// Whether it writes data that it generates.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Append | Self::Mixed { .. })
    }

    /// Whether the file must be filled or emptied again after each pass over it.
    pub fn uses_up(self) -> bool {
        matches!(self, Self::Append | Self::Trim)
    }
}

/// Percentage of reads of a mixed load.
fn read_share(case: &Case) -> Result<u8, String> {
    let share = case.number("read-share").unwrap_or(u64::from(DEFAULT_READ_SHARE));
    u8::try_from(share)
        .ok()
        .filter(|share| *share <= 100)
        .ok_or_else(|| format!("read-share must be between 0 and 100, a percentage: {share} is not"))
}

/// Bytes of the blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockSizes {
    /// Always the same.
    One(u64),
    /// By weight.
    Mixed(Mix),
}

impl BlockSizes {
    /// Bytes of the largest block.
    pub fn largest(&self) -> u64 {
        match self {
            Self::One(bytes) => *bytes,
            Self::Mixed(mix) => mix.parts().iter().map(|part| part.bytes).max().unwrap_or(1),
        }
    }

    /// Bytes of the smallest block.
    pub fn smallest(&self) -> u64 {
        match self {
            Self::One(bytes) => *bytes,
            Self::Mixed(mix) => mix.parts().iter().map(|part| part.bytes).min().unwrap_or_default(),
        }
    }

    /// Mean bytes of a block.
    pub fn mean(&self) -> f64 {
        match self {
            Self::One(bytes) => *bytes as f64,
            Self::Mixed(mix) => mix.mean(),
        }
    }

    /// The greatest common divisor of all blocks: the unit of offsets.
    pub fn unit(&self) -> u64 {
        match self {
            Self::One(bytes) => *bytes,
            Self::Mixed(mix) => mix.parts().iter().map(|part| part.bytes).fold(0, common_divisor),
        }
    }
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(bytes) => f.write_str(&format_size(*bytes)),
            Self::Mixed(mix) => mix.fmt(f),
        }
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// How transfers are handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskEngine {
    /// Many transfers in flight, requested in batches.
    IoUring(#[serde(with = "SerdePolling")] Polling),
    /// Many transfers in flight: io_submit(2), io_getevents(2).
    Libaio,
    /// One transfer at a time: preadv2(2), pwritev2(2).
    Psync,
    /// One transfer at a time: copied from and to a mapping of the file, through the page cache.
    Mmap,
    /// Many transfers that finish at once without being done: the overhead of a ring.
    Null,
    /// One transfer at a time that is not done: the overhead of the synchronous engines.
    NullCall,
}

/// [`Polling`] as it crosses to the worker.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Polling")]
struct SerdePolling {
    submission: bool,
    completion: bool,
}

const fn ring(submission: bool, completion: bool) -> DiskEngine {
    DiskEngine::IoUring(Polling { submission, completion })
}

impl DiskEngine {
    /// io_uring without polling.
    pub const PLAIN: Self = ring(false, false);

    /// Every engine that can be asked for, with the word that names it.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("io_uring", Self::PLAIN),
        ("io_uring+sqpoll", ring(true, false)),
        ("io_uring+iopoll", ring(false, true)),
        ("io_uring+sqpoll+iopoll", ring(true, true)),
        ("libaio", Self::Libaio),
        ("psync", Self::Psync),
        ("mmap", Self::Mmap),
    ];

    /// The engine of that name, if it does one transfer at a time.
    pub fn lone(word: &str) -> Option<Self> {
        Self::from_word(word).filter(|engine| engine.is_one_at_a_time())
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, engine)| *engine)
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, engine)| *engine == self).map_or("null", |(name, _)| name)
    }

    /// Whether it does one transfer at a time, whatever depth is asked for.
    pub fn is_one_at_a_time(self) -> bool {
        matches!(self, Self::Psync | Self::Mmap | Self::NullCall)
    }
}

/// What the page cache does for the transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheMode {
    /// It is bypassed with `O_DIRECT`.
    Direct,
    /// It holds the file from the start.
    Buffered,
    /// It holds nothing of the file at the start of each pass over it.
    Cold,
}

impl CacheMode {
    const ALL: &'static [(&'static str, Self)] =
        &[("direct", Self::Direct), ("buffered", Self::Buffered), ("cold", Self::Cold)];

    /// The word that names it.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(word, _)| word)
    }
}

/// Whether threads share the file, with the words for it.
const LAYOUTS: &[(&str, bool)] = &[("private", false), ("shared", true)];

/// Whether the device must have a write before it counts as finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteThrough {
    /// The data of each write.
    Yes,
    /// The data of each write and the metadata of the file.
    Whole,
    /// None, or later.
    No,
}

/// When writes are flushed to the device, beside what each write does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flush {
    /// Never.
    Never,
    /// After a number of writes.
    Every {
        /// How many.
        writes: u64,
        /// By which call.
        call: SyncCall,
    },
    /// At the end of each sample.
    AtEnd {
        /// By which call.
        call: SyncCall,
    },
}

/// The call that flushes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncCall {
    /// fdatasync(2): what is needed to read the data again.
    DataSync,
    /// fsync(2): the metadata of the file too.
    Sync,
}

/// The meaning of `sync`; `every N` also as `every:N`, the form of ids.
fn sync(word: &str) -> Result<(WriteThrough, Flush), String> {
    let after =
        |name: &str| word.strip_prefix(name).map(|rest| rest.trim_start_matches([' ', ':', '-', '=']));
    let every = after("every").map(|writes| (writes, SyncCall::DataSync));
    let every = every.or(after("fsync").map(|writes| (writes, SyncCall::Sync)));
    match (word, every) {
        ("none", _) => Ok((WriteThrough::No, Flush::Never)),
        ("each", _) => Ok((WriteThrough::Yes, Flush::Never)),
        ("o_sync", _) => Ok((WriteThrough::Whole, Flush::Never)),
        ("end", _) => Ok((WriteThrough::No, Flush::AtEnd { call: SyncCall::DataSync })),
        ("fsync-end", _) => Ok((WriteThrough::No, Flush::AtEnd { call: SyncCall::Sync })),
        (_, Some((writes, call))) => match writes.parse() {
            Ok(writes @ 1..=1_000_000_000) => Ok((WriteThrough::No, Flush::Every { writes, call })),
            _ => Err(format!(
                "sync every:N must have an N between 1 and 1000000000, such as every:32: '{}' has not",
                shown(word)
            )),
        },
        _ => Err(format!(
            "sync must be none, each, o_sync, every:N, fsync:N, end or fsync-end: '{}' is none of them",
            shown(word)
        )),
    }
}

/// The target rate of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// How intended starts follow one another.
    pub arrivals: ArrivalProcess,
    /// Intended starts per second, over all threads.
    pub per_second: f64,
}

/// How the intended starts of an open loop follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrivalProcess {
    /// Independently of each other, as from many users: exponential gaps.
    Poisson,
    /// At equal gaps.
    Even,
}

impl ArrivalProcess {
    const ALL: &'static [(&'static str, Self)] = &[("poisson", Self::Poisson), ("even", Self::Even)];
}

fn open_loop(case: &Case) -> Result<Option<OpenLoop>, String> {
    match case.get("rate") {
        Some(Value::Rate(per_second)) => Ok(Some(OpenLoop {
            arrivals: meaning(case, "arrivals", ArrivalProcess::ALL, ArrivalProcess::Poisson)?,
            per_second: *per_second,
        })),
        _ if case.word("arrivals").is_some() => Err("--arrivals requires --rate".to_owned()),
        _ => Ok(None),
    }
}

/// A latency that must hold for a share of the transfers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyTarget {
    /// The share, between 0 and 1.
    pub share: f64,
    /// Nanoseconds.
    pub ns: u64,
}

impl LatencyTarget {
    /// Reads `p99=2ms` or, in the form of ids, `p99:2ms`; any percentile from p1 to p99.99.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn parse(word: &str) -> Result<Self, String> {
        let wrong = || {
            let shown = shown(word);
            format!(
                "latency-target must be a percentile from p1 to p99.99 and a time above 0, such as p99=2ms: '{shown}' is not"
            )
        };
        let (percentile, time) = word.split_once(['=', ':']).ok_or_else(wrong)?;
        let percent: f64 = percentile.strip_prefix('p').and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
        let time = parse_duration(time).map_err(|e| {
            let e = e.to_string();
            let why = e.split_once(": ").map_or(e.as_str(), |(_, why)| why);
            format!("latency-target must be a percentile and a time such as p99=2ms: {why}")
        })?;
        let ns = u64::try_from(time.as_nanos()).map_err(|_| wrong())?;
        if !(1.0..=99.99).contains(&percent) || ns == 0 {
            return Err(wrong());
        }
        Ok(Self { share: percent / 100.0, ns })
    }

    /// The percentile's name.
    pub fn percentile(&self) -> String {
        format!("p{}", (self.share * 1e6).round() / 1e4)
    }

    /// The time as it is typed: `2ms`.
    pub fn time(&self) -> String {
        format_duration(Duration::from_nanos(self.ns))
    }
}

/// The form of ids: `p99:2ms`.
impl fmt::Display for LatencyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.percentile(), self.time())
    }
}

/// The fixed amount of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferAmount {
    /// Bytes.
    Bytes(u64),
    /// Transfers.
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

/// Commits to a log per thread: appends through the page cache, each with fdatasync(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsyncLoad {
    /// Bytes of a commit, up to a segment.
    pub block: u64,
    /// Threads, each with a log.
    pub threads: u64,
}

impl FsyncLoad {
    /// Bytes of a log segment: etcd's and RocksDB's default.
    pub const SEGMENT_BYTES: u64 = 64 << 20;
}

impl TryFrom<&Case> for FsyncLoad {
    type Error = String;

    /// Reads the parameters; one thread if the case names none.
    fn try_from(case: &Case) -> Result<Self, String> {
        let block = case.number("block").ok_or("the case has no block")?;
        Ok(Self { block, threads: case.number("threads").unwrap_or(1) })
    }
}

#[cfg(test)]
mod tests;
