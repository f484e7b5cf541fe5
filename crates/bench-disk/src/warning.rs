//! Warnings of disk cases: about the file or device, and about the transfers.

use std::fmt;

use crate::display::human;
use plimsoll_model::job::disk::{DiskEngine, Flush};
use plimsoll_model::warning::Warn;
use plimsoll_units::quantity::{Quantity, Unit, format_size, percent_below, significant};

/// A warning about the file or device of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum FileWarning {
    /// The file is smaller than planned.
    Small {
        /// Bytes of the file.
        bytes: u64,
        /// Reason.
        why: String,
    },
    /// The file had a name for a moment.
    Named {
        /// File system.
        file_system: String,
    },
    /// Incompressible data takes less space than its bytes.
    SpaceSaved {
        /// Bytes of data.
        bytes: u64,
        /// Bytes of space.
        taken: u64,
        /// File system.
        file_system: String,
    },
    /// A device was read whose contents are unknown.
    ContentsUnknown {
        /// Device name.
        device: String,
    },
    /// Users of a device could not be checked completely.
    UsersUnknown {
        /// One sentence about what is unknown.
        why: String,
    },
    /// Preconditioning ended before all was overwritten.
    PreconditionCut {
        /// Bytes overwritten.
        written: u64,
        /// Bytes in all.
        bytes: u64,
    },
    /// The steady state is that of a part of the device.
    PartOfDevice {
        /// Bytes of the file.
        bytes: u64,
        /// Bytes of the device.
        device: u64,
    },
    /// The file of a loop device is cached.
    CachedBelow {
        /// Disk below the loop device.
        below: String,
        /// Share of the bytes that the disk moved.
        share: f64,
        /// Loop device.
        above: String,
    },
    /// The device stores its bytes in memory.
    InMemory {
        /// Device name.
        device: String,
        /// Whether it compresses them.
        is_compressed: bool,
    },
    /// A process or another machine serves the file system, perhaps from its memory.
    Served {
        /// File system type.
        file_system: String,
    },
    /// Transfers went through the page cache.
    PageCache {
        /// Whether the page cache can be bypassed.
        avoidable: bool,
    },
    /// A reference tool had no file of its own.
    SharedWithTool {
        /// Reason.
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

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TransferWarning {
    /// Another engine than the requested one was used.
    EngineFellBack { wanted: DiskEngine, used: DiskEngine, why: String },
    /// Buffers were not registered with the kernel.
    NotRegistered { why: String },
    /// Fewer transfers per thread were in flight than requested.
    DepthNotReached { wanted: u64, got: f64 },
    /// The queue was not full because each sync empties it.
    EmptiedBySyncs { wanted: u64, got: f64, flush: Flush },
    /// The queue was not full because the engine is synchronous; `deeper`: io_uring would help.
    OneAtATime { wanted: u64, engine: DiskEngine, deeper: bool },
    /// The search ended early because the engine is synchronous.
    SearchedLess { most: u64, asked: u64, engine: &'static str },
    /// The achieved rate is below the target rate, in transfers per second.
    RateNotHeld { offered: f64, done: f64 },
    /// Missed latency target; `within`: share of the transfers within it.
    Target { target: String, within: f64, missed: Missed },
    /// Samples of a fixed amount were cut after `seconds`; `done` and `wanted` in bytes.
    VolumeCut { seconds: f64, done: f64, wanted: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Missed {
    /// In the search alone; the samples at depth 1 meet it.
    InTheSearch,
    Everywhere,
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
            Self::Target { target, within, missed } => missed.write_text(f, target, &percent_below(*within)),
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
    fn write_text(self, f: &mut fmt::Formatter<'_>, target: &str, got: &str) -> fmt::Result {
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

fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}
