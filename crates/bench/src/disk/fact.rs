//! What disk cases tell of themselves.

use crate::sample::Fact;

/// What the file is on.
pub(super) const FILE_SYSTEM: Fact<String> = Fact::new("file_system", "the file system of the test file");
/// The way down.
pub(super) const DEVICE: Fact<String> = Fact::new("device", "the device below it, and what that is made of");
/// Bytes worked on.
pub(super) const SIZE: Fact<u64> =
    Fact::new("size", "bytes of the file that are worked on, over all threads");
/// The engine that ran.
pub(crate) const ENGINE: Fact<String> = Fact::new("engine", "the engine that did the work");
/// How it goes by the page cache.
pub(super) const CACHE: Fact<String> = Fact::new("cache", "whether transfers go through the page cache");
/// When data is kept.
pub(super) const SYNC: Fact<String> = Fact::new("sync", "when data is asked to be kept");
/// Bytes before a log begins anew.
pub(super) const SEGMENT: Fact<u64> =
    Fact::new("segment", "bytes that are allocated, and begun anew when they are full");
/// Files of commits.
pub(super) const LOGS: Fact<usize> = Fact::new("logs", "files that are appended to");
/// Commits under way.
pub(super) const COMMITS: Fact<u64> = Fact::new("depth", "commits of each file under way at once");
/// Transfers of a sample.
pub(super) const COUNT: Fact<f64> = Fact::new("count", "transfers of each sample: of each thread, or of all");
/// Bytes of a sample.
pub(super) const VOLUME: Fact<f64> = Fact::new("volume", "bytes of each sample: of each thread, or of all");
/// In flight.
pub(super) const DEPTH: Fact<f64> = Fact::new("depth", "transfers of each thread in flight, mean");
/// The rate.
pub(super) const RATE: Fact<f64> = Fact::new("rate", "transfers a second, over all threads");
/// Share in the page cache.
pub(super) const PAGE_CACHE: Fact<f64> =
    Fact::new("page_cache", "share of the file that is in the page cache");
/// Share that the device moved.
pub(super) const DEVICE_SHARE: Fact<f64> =
    Fact::new("device_share", "what the device moved, as a share of what was counted");
/// Threads.
pub(crate) const THREADS: Fact<u64> = Fact::new("threads", "threads of the figure");
/// What a search found.
pub(crate) const DEEPEST: Fact<Option<u64>> = Fact::new(
    "deepest",
    "the deepest queue that holds a latency target (null: the search found none), or that a sweep chose",
);
/// How well a target is held.
pub(crate) const WITHIN_TARGET: Fact<f64> =
    Fact::new("within_target", "share of the samples' transfers within the bound of the latency target");
/// Whether it is.
pub(crate) const TARGET_HELD: Fact<bool> =
    Fact::new("target_held", "whether that is the share that the latency target asks for");
