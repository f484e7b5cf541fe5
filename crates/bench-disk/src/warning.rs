//! Warnings of disk cases: about the file or device, and about the transfers.

use crate::display::human;
use plimsoll_model::job::disk::{DiskEngine, Flush};
use plimsoll_model::warning::Warn;
use plimsoll_units::quantity::{Quantity, Unit, format_size, percent_below, significant};

/// A warning about the file, the device or the transfers of a case.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum DiskWarning {
    /// The file is smaller than planned.
    #[error("the test file has only {}: {why}; use another --dir for a larger one", format_size(*.bytes))]
    Small { bytes: u64, why: String },
    #[error(
        "{file_system} has no nameless files (O_TMPFILE): the test file had a name for a moment; a kill in that moment leaves an empty .plimsoll-* file, which the next run removes"
    )]
    Named { file_system: String },
    /// Incompressible data takes less space than its bytes.
    #[error(
        "{} of incompressible test data takes only {} on {file_system}: the file system does not write all data to the device",
        human(*.bytes), human(*.taken)
    )]
    SpaceSaved { bytes: u64, taken: u64, file_system: String },
    #[error(
        "the contents of {device} are unknown: the device may answer reads of parts that were never written, or trimmed, without reading its medium"
    )]
    ContentsUnknown { device: String },
    /// Users of a device could not be checked completely; one sentence about what is unknown.
    #[error("{why}")]
    UsersUnknown { why: String },
    #[error(
        "only {} of {} were overwritten before the first round, because time was short; set a smaller --size or a larger --budget",
        human(*.written), human(*.bytes)
    )]
    PreconditionCut { written: u64, bytes: u64 },
    /// The steady state is that of a part of the device; bytes of the file and the device.
    #[error(
        "the steady state is that of this file of {}; the device has {} and reaches its own steady state when most of it is written: use a larger --size, or --target",
        human(*.bytes), human(*.device)
    )]
    PartOfDevice { bytes: u64, device: u64 },
    /// The file of loop device `above` is cached: disk `below` moved this share of the bytes.
    #[error(
        "{below} moved only {:.1} % of what went through {above}: the file of the loop device is cached, so the figure is memory's as much as the disk's; use a --dir on the disk itself",
        .share * 100.0
    )]
    CachedBelow { below: String, share: f64, above: String },
    /// The device stores its bytes in memory, perhaps compressed.
    #[error(
        "{device} is {}: no disk was measured; use a --dir or --target on a disk",
        if *.is_compressed { "compressed memory (zram)" } else { "memory" }
    )]
    InMemory { device: String, is_compressed: bool },
    /// A process or another machine serves the file system, perhaps from its memory.
    #[error(
        "{file_system} is served by a process or by the host, which may answer from memory: the device behind it is unknown; use a --dir on a disk of this machine"
    )]
    Served { file_system: String },
    /// Transfers went through the page cache; whether it can be bypassed.
    #[error(
        "transfers went through the page cache: the figure is memory's as much as the device's{}",
        if *.avoidable { "; --cache direct measures the device" } else { "" }
    )]
    PageCache { avoidable: bool },
    #[error(
        "no room for a separate test file for the reference tool ({why}): it writes to the case's file, which is filled again after each of its samples"
    )]
    SharedWithTool { why: String },
    /// Another engine than the requested one was used.
    #[error("{} was asked for, {} did the work: {why}", .wanted.word(), .used.word())]
    EngineFellBack { wanted: DiskEngine, used: DiskEngine, why: String },
    /// Buffers were not registered with the kernel.
    #[error("{why}")]
    NotRegistered { why: String },
    /// Fewer transfers per thread were in flight than requested.
    #[error(
        "queue depth not reached ({got:.1} of {wanted}): the device, an I/O limit or one CPU holds it back"
    )]
    DepthNotReached { wanted: u64, got: f64 },
    /// The queue was not full because each sync empties it.
    #[error(
        "queue depth not reached ({got:.1} of {wanted}): each sync empties the queue; {}",
        sync_advice(.flush)
    )]
    EmptiedBySyncs { wanted: u64, got: f64, flush: Flush },
    /// The queue was not full because the engine is synchronous; `deeper`: io_uring would help.
    #[error(
        "queue depth not reached (1 of {wanted}): {} does one transfer at a time{}",
        .engine.word(), if *.deeper { "; io_uring does more" } else { "" }
    )]
    OneAtATime { wanted: u64, engine: DiskEngine, deeper: bool },
    #[error(
        "the search ended at depth {most} instead of {asked}: {engine} does one transfer at a time; io_uring does more"
    )]
    SearchedLess { most: u64, asked: u64, engine: &'static str },
    #[error(
        "the device does {} of the {} transfers per second that --rate asks for: the queue and the latency grow as long as the run lasts; use a lower --rate or a higher --depth",
        rate(*.done), rate(*.offered)
    )]
    RateNotHeld { offered: f64, done: f64 },
    /// The search alone missed the latency target; the samples at depth 1 meet it.
    #[error(
        "the search was inconclusive: it missed {target} at depth 1, which the samples meet, so the deepest queue is unknown; measure again, or use a longer --sample-time"
    )]
    TargetMissedInSearch { target: String },
    /// No depth meets the latency target; share of the transfers within it.
    #[error(
        "no queue depth meets {target}: at depth 1, {} of the transfers do; the figures are those of depth 1",
        percent_below(*.within)
    )]
    TargetMissed { target: String, within: f64 },
    /// Samples missed the latency target, unlike the search; share of their transfers within it.
    #[error(
        "{target} was met at depth {depth} in the search, but not in the samples: {} of their transfers meet it; use a longer --sample-time or a wider target",
        percent_below(*.within)
    )]
    TargetNotHeld { target: String, within: f64, depth: u64 },
    /// Samples of a fixed amount were cut after `seconds`; `done` and `wanted` in bytes.
    #[error(
        "samples were ended after {} s with {} of {} done; use a smaller --volume or --count",
        significant(*.seconds, 2), bytes(*.done), bytes(*.wanted)
    )]
    VolumeCut { seconds: f64, done: f64, wanted: f64 },
}

impl Warn for DiskWarning {
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
            Self::EngineFellBack { .. } => "engine-fell-back",
            Self::NotRegistered { .. } => "buffers-not-registered",
            Self::DepthNotReached { .. }
            | Self::EmptiedBySyncs { .. }
            | Self::OneAtATime { .. }
            | Self::SearchedLess { .. } => "depth-not-reached",
            Self::RateNotHeld { .. } => "rate-not-held",
            Self::TargetMissedInSearch { .. } => "latency-search-disturbed",
            Self::TargetMissed { .. } => "latency-target-missed",
            Self::TargetNotHeld { .. } => "latency-target-not-held",
            Self::VolumeCut { .. } => "volume-cut",
        }
    }
}

fn sync_advice(flush: &Flush) -> &'static str {
    match flush {
        Flush::Every { .. } => "use a larger N in --sync every:N",
        Flush::AtEnd { .. } | Flush::Never => "use a longer --sample-time",
    }
}

fn bytes(bytes: f64) -> Quantity {
    Quantity::new(bytes.round(), Unit::Byte)
}

fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}
