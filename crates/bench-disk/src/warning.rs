//! What is to be known beside the figure of a disk case: of the file or device that it works on, and of its transfers.

use std::fmt;

use crate::display::human;
use plimsoll_model::job::disk::{DiskEngine, Flush};
use plimsoll_model::warning::Warn;
use plimsoll_units::quantity::{Quantity, Unit, format_size, percent_below, significant};

/// Of the file or device that a case works on.
#[derive(Clone, Debug, PartialEq)]
pub enum FileWarning {
    /// The file could not be as large as planned.
    Small {
        /// Bytes of the file.
        bytes: u64,
        /// Why.
        why: String,
    },
    /// The file had a name for a moment.
    Named {
        /// What it is on.
        file_system: String,
    },
    /// Incompressible data takes less space than it has bytes.
    SpaceSaved {
        /// Bytes of data.
        bytes: u64,
        /// Bytes of space.
        taken: u64,
        /// What it is on.
        file_system: String,
    },
    /// A device was read that nobody wrote.
    ContentsUnknown {
        /// Its name.
        device: String,
    },
    /// Other users of a device could not be looked for everywhere.
    UsersUnknown {
        /// Where not, in one line.
        why: String,
    },
    /// Not all was overwritten before the first round.
    PreconditionCut {
        /// Bytes that were.
        written: u64,
        /// Bytes that there are.
        bytes: u64,
    },
    /// What is steady is a part of its device.
    PartOfDevice {
        /// Bytes of the file.
        bytes: u64,
        /// Bytes of the device.
        device: u64,
    },
    /// A loop device's file is answered from a cache.
    CachedBelow {
        /// The disk below.
        below: String,
        /// Share of the bytes that it moved.
        share: f64,
        /// The loop device.
        above: String,
    },
    /// The device keeps its bytes in memory.
    InMemory {
        /// Its name.
        device: String,
        /// Whether it compresses them.
        is_compressed: bool,
    },
    /// A process or another machine serves the file system, perhaps from its memory.
    Served {
        /// Its type.
        file_system: String,
    },
    /// Transfers went through the page cache.
    PageCache {
        /// Whether there is a way past it.
        avoidable: bool,
    },
    /// A reference tool had no file of its own.
    SharedWithTool {
        /// Why not.
        why: String,
    },
}

impl Warn for FileWarning {
    fn code(&self) -> &'static str {
        match self {
            Self::Small { .. } => "small-file",
            Self::Named { .. } => "named-file",
            Self::SpaceSaved { .. } => "space-saved",
            Self::ContentsUnknown { .. } => "contents-unknown",
            Self::UsersUnknown { .. } => "device-users-unknown",
            Self::PreconditionCut { .. } => "precondition-cut",
            Self::PartOfDevice { .. } => "part-of-device",
            Self::CachedBelow { .. } => "cached-below",
            Self::InMemory { .. } => "memory-device",
            Self::Served { .. } => "served-file-system",
            Self::PageCache { .. } => "page-cache",
            Self::SharedWithTool { .. } => "tool-shares-file",
        }
    }
}

impl fmt::Display for FileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small { bytes, why } => {
                let bytes = format_size(*bytes);
                write!(f, "the test file has only {bytes}: {why}; use another --dir for a larger one")
            }
            Self::Named { file_system } => write!(
                f,
                "{file_system} has no nameless files (O_TMPFILE): the test file had a name for a moment; a kill in that moment leaves an empty .plimsoll-* file, which the next run removes"
            ),
            Self::SpaceSaved { bytes, taken, file_system } => write!(
                f,
                "{} of incompressible test data takes only {} on {file_system}: the file system does not write all data to the device",
                human(*bytes),
                human(*taken)
            ),
            Self::ContentsUnknown { device } => write!(
                f,
                "the contents of {device} are unknown: the device may answer reads of parts that were never written, or trimmed, without reading its medium"
            ),
            Self::UsersUnknown { why } => f.write_str(why),
            Self::PreconditionCut { written, bytes } => write!(
                f,
                "only {} of {} were overwritten before the first round, because time was short; set a smaller --size or a larger --budget",
                human(*written),
                human(*bytes)
            ),
            Self::PartOfDevice { bytes, device } => write!(
                f,
                "the steady state is that of this file of {}; the device has {} and reaches its own steady state when most of it is written: use a larger --size, or --target",
                human(*bytes),
                human(*device)
            ),
            Self::CachedBelow { below, share, above } => write!(
                f,
                "{below} moved only {:.1} % of what went through {above}: the file of the loop device is cached, so the figure is memory's as much as the disk's; use a --dir on the disk itself",
                share * 100.0
            ),
            Self::InMemory { device, is_compressed } => write!(
                f,
                "{device} is {}: no disk was measured; use a --dir or --target on a disk",
                if *is_compressed { "compressed memory (zram)" } else { "memory" }
            ),
            Self::Served { file_system } => write!(
                f,
                "{file_system} is served by a process or by the host, which may answer from memory: the device behind it is unknown; use a --dir on a disk of this machine"
            ),
            Self::PageCache { avoidable } => {
                f.write_str(
                    "transfers went through the page cache: the figure is memory's as much as the device's",
                )?;
                f.write_str(if *avoidable { "; --cache direct measures the device" } else { "" })
            }
            Self::SharedWithTool { why } => write!(
                f,
                "no room for a separate test file for the reference tool ({why}): it writes to the case's file, which is \
                 filled again after each of its samples"
            ),
        }
    }
}

/// Of the transfers of a case: engine, depth, rate, latency target, amount.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TransferWarning {
    /// An engine was asked for and another one did the work.
    EngineFellBack { wanted: DiskEngine, used: DiskEngine, why: String },
    /// Buffers were not registered with the kernel; why.
    NotRegistered { why: String },
    /// Fewer transfers were in flight than asked for, of each thread.
    DepthNotReached { wanted: u64, got: f64 },
    /// The same, because each sync empties the queue.
    EmptiedBySyncs { wanted: u64, got: f64, flush: Flush },
    /// The same, because the engine does one at a time; whether another one does more.
    OneAtATime { wanted: u64, engine: DiskEngine, deeper: bool },
    /// A search went less deep than asked for, because the engine does one transfer at a time.
    SearchedLess { most: u64, asked: u64, engine: &'static str },
    /// Less was done than offered, in transfers a second.
    RateNotHeld { offered: f64, done: f64 },
    /// What the samples say of a latency target and the search for it.
    Target { target: String, within: f64, missed: Missed },
    /// Samples of a fixed amount were cut after so many seconds, with so many bytes done.
    VolumeCut { seconds: f64, done: f64, wanted: f64 },
}

/// How a latency target was missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Missed {
    /// By the search alone: the samples at depth 1 hold it.
    InTheSearch,
    /// By every queue.
    Everywhere,
    /// By the samples at this depth.
    InTheSamples(u64),
}

impl Warn for TransferWarning {
    fn code(&self) -> &'static str {
        match self {
            Self::EngineFellBack { .. } => "engine-fell-back",
            Self::NotRegistered { .. } => "buffers-not-registered",
            Self::DepthNotReached { .. }
            | Self::EmptiedBySyncs { .. }
            | Self::OneAtATime { .. }
            | Self::SearchedLess { .. } => "depth-not-reached",
            Self::RateNotHeld { .. } => "rate-not-held",
            Self::Target { missed: Missed::InTheSearch, .. } => "latency-search-disturbed",
            Self::Target { missed: Missed::Everywhere, .. } => "latency-target-missed",
            Self::Target { missed: Missed::InTheSamples(_), .. } => "latency-target-not-held",
            Self::VolumeCut { .. } => "volume-cut",
        }
    }
}

impl fmt::Display for TransferWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EngineFellBack { wanted, used, why } => {
                write!(f, "{} was asked for, {} did the work: {why}", wanted.word(), used.word())
            }
            Self::NotRegistered { why } => f.write_str(why),
            Self::DepthNotReached { wanted, got } => {
                write!(
                    f,
                    "queue depth not reached ({got:.1} of {wanted}): the device, an I/O limit or one CPU holds it back"
                )
            }
            Self::EmptiedBySyncs { wanted, got, flush } => write!(
                f,
                "queue depth not reached ({got:.1} of {wanted}): each sync empties the queue; {}",
                match flush {
                    Flush::Every { .. } => "use a larger N in --sync every:N",
                    Flush::AtEnd { .. } | Flush::Never => "use a longer --sample-time",
                }
            ),
            Self::OneAtATime { wanted, engine, deeper } => write!(
                f,
                "queue depth not reached (1 of {wanted}): {} does one transfer at a time{}",
                engine.word(),
                if *deeper { "; io_uring does more" } else { "" }
            ),
            Self::SearchedLess { most, asked, engine } => write!(
                f,
                "the search ended at depth {most} instead of {asked}: {engine} does one transfer at a time; io_uring does more"
            ),
            Self::RateNotHeld { offered, done } => write!(
                f,
                "the device does {1} of the {0} transfers per second that --rate asks for: the queue and the latency grow as long as the run lasts; use a lower --rate or a higher --depth",
                rate(*offered),
                rate(*done)
            ),
            Self::Target { target, within, missed } => missed.told(f, target, &percent_below(*within)),
            Self::VolumeCut { seconds, done, wanted } => write!(
                f,
                "samples were ended after {} s with {} of {} done; use a smaller --volume or --count",
                significant(*seconds, 2),
                Quantity::new(done.round(), Unit::Byte),
                Quantity::new(wanted.round(), Unit::Byte)
            ),
        }
    }
}

impl Missed {
    /// `got` is the share of the samples' transfers within the bound.
    fn told(self, f: &mut fmt::Formatter<'_>, target: &str, got: &str) -> fmt::Result {
        match self {
            Self::InTheSearch => write!(
                f,
                "the search was inconclusive: it missed {target} at depth 1, which the samples meet, so the deepest queue is unknown; measure again, or use a longer --sample-time"
            ),
            Self::Everywhere => write!(
                f,
                "no queue depth meets {target}: at depth 1, {got} of the transfers do; the figures are those of depth 1"
            ),
            Self::InTheSamples(depth) => write!(
                f,
                "{target} was met at depth {depth} in the search, but not in the samples: {got} of their transfers meet it; use a longer --sample-time or a wider target"
            ),
        }
    }
}

/// Transfers a second, with a decimal where they are few.
fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}
