//! Facts that disk cases record.

use plimsoll_model::sample::CaseFact;

pub(super) const FILE_SYSTEM: CaseFact<String> =
    CaseFact::new("file_system", "the file system of the test file");
pub(super) const DEVICE: CaseFact<String> =
    CaseFact::new("device", "the device below it, and what that is made of");
pub(super) const FILE_BYTES: CaseFact<u64> =
    CaseFact::new("size", "bytes of the file that are worked on, over all threads");
pub(crate) const ENGINE: CaseFact<String> = CaseFact::new("engine", "the engine that did the work");
pub(super) const CACHE: CaseFact<String> =
    CaseFact::new("cache", "whether transfers go through the page cache");
pub(super) const SYNC: CaseFact<String> = CaseFact::new("sync", "when data is asked to be kept");
pub(super) const SEGMENT: CaseFact<u64> =
    CaseFact::new("segment", "bytes that are allocated, and begun anew when they are full");
pub(super) const LOGS: CaseFact<usize> = CaseFact::new("logs", "files that are appended to");
pub(super) const COMMITS: CaseFact<u64> = CaseFact::new("depth", "commits of each file under way at once");
pub(super) const COUNT: CaseFact<f64> =
    CaseFact::new("count", "transfers of each sample: of each thread, or of all");
pub(super) const VOLUME: CaseFact<f64> =
    CaseFact::new("volume", "bytes of each sample: of each thread, or of all");
pub(super) const QUEUE_DEPTH: CaseFact<f64> =
    CaseFact::new("depth", "transfers of each thread in flight, mean");
pub(super) const TRANSFER_RATE: CaseFact<f64> = CaseFact::new("rate", "transfers a second, over all threads");
pub(super) const PAGE_CACHE: CaseFact<f64> =
    CaseFact::new("page_cache", "share of the file that is in the page cache");
pub(super) const DEVICE_SHARE: CaseFact<f64> =
    CaseFact::new("device_share", "what the device moved, as a share of what was counted");
pub(crate) const FIGURE_THREADS: CaseFact<u64> = CaseFact::new("threads", "threads of the figure");
pub(crate) const DEEPEST_QUEUE: CaseFact<Option<u64>> = CaseFact::new(
    "deepest",
    "the deepest queue that holds a latency target (null: the search found none), or that a sweep chose",
);
pub(crate) const WITHIN_TARGET: CaseFact<f64> =
    CaseFact::new("within_target", "share of the samples' transfers within the bound of the latency target");
pub(crate) const TARGET_HELD: CaseFact<bool> =
    CaseFact::new("target_held", "whether that is the share that the latency target asks for");
