//! Facts that disk cases record.

use plimsoll_model::sample::Fact;

pub(super) const FILE_SYSTEM: Fact<String> = Fact::new("file_system", "the file system of the test file");
pub(super) const DEVICE: Fact<String> = Fact::new("device", "the device below it, and what that is made of");
pub(super) const SIZE: Fact<u64> =
    Fact::new("size", "bytes of the file that are worked on, over all threads");
pub(crate) const ENGINE: Fact<String> = Fact::new("engine", "the engine that did the work");
pub(super) const CACHE: Fact<String> = Fact::new("cache", "whether transfers go through the page cache");
pub(super) const SYNC: Fact<String> = Fact::new("sync", "when data is asked to be kept");
pub(super) const SEGMENT: Fact<u64> =
    Fact::new("segment", "bytes that are allocated, and begun anew when they are full");
pub(super) const LOGS: Fact<usize> = Fact::new("logs", "files that are appended to");
pub(super) const COMMITS: Fact<u64> = Fact::new("depth", "commits of each file under way at once");
pub(super) const COUNT: Fact<f64> = Fact::new("count", "transfers of each sample: of each thread, or of all");
pub(super) const VOLUME: Fact<f64> = Fact::new("volume", "bytes of each sample: of each thread, or of all");
pub(super) const DEPTH: Fact<f64> = Fact::new("depth", "transfers of each thread in flight, mean");
pub(super) const RATE: Fact<f64> = Fact::new("rate", "transfers a second, over all threads");
pub(super) const PAGE_CACHE: Fact<f64> =
    Fact::new("page_cache", "share of the file that is in the page cache");
pub(super) const DEVICE_SHARE: Fact<f64> =
    Fact::new("device_share", "what the device moved, as a share of what was counted");
pub(crate) const THREADS: Fact<u64> = Fact::new("threads", "threads of the figure");
pub(crate) const DEEPEST: Fact<Option<u64>> = Fact::new(
    "deepest",
    "the deepest queue that holds a latency target (null: the search found none), or that a sweep chose",
);
pub(crate) const WITHIN_TARGET: Fact<f64> =
    Fact::new("within_target", "share of the samples' transfers within the bound of the latency target");
pub(crate) const TARGET_HELD: Fact<bool> =
    Fact::new("target_held", "whether that is the share that the latency target asks for");
