//! Facts that disk cases record.

use plimsoll_model::sample::CaseFact;

pub(super) const FILE_SYSTEM: CaseFact<String> = CaseFact::new("file_system");
pub(super) const DEVICE: CaseFact<String> = CaseFact::new("device");
pub(super) const FILE_BYTES: CaseFact<u64> = CaseFact::new("size");
pub(crate) const ENGINE: CaseFact<String> = CaseFact::new("engine");
pub(super) const CACHE: CaseFact<String> = CaseFact::new("cache");
pub(super) const SYNC: CaseFact<String> = CaseFact::new("sync");
/// Bytes that are allocated, and written again from the start when they are full.
pub(super) const SEGMENT: CaseFact<u64> = CaseFact::new("segment");
pub(super) const LOGS: CaseFact<usize> = CaseFact::new("logs");
/// Commits of each file under way at the same time.
pub(super) const COMMITS: CaseFact<u64> = CaseFact::new("depth");
/// Transfers of each sample: of each thread, or of all.
pub(super) const COUNT: CaseFact<f64> = CaseFact::new("count");
/// Bytes of each sample: of each thread, or of all.
pub(super) const VOLUME: CaseFact<f64> = CaseFact::new("volume");
/// Mean number of transfers of each thread in flight.
pub(super) const QUEUE_DEPTH: CaseFact<f64> = CaseFact::new("depth");
pub(super) const TRANSFER_RATE: CaseFact<f64> = CaseFact::new("rate");
/// Share of the file that is in the page cache.
pub(super) const PAGE_CACHE: CaseFact<f64> = CaseFact::new("page_cache");
/// Bytes that the device moved, as a share of those that were counted.
pub(super) const DEVICE_SHARE: CaseFact<f64> = CaseFact::new("device_share");
pub(crate) const FIGURE_THREADS: CaseFact<u64> = CaseFact::new("threads");
/// Deepest queue that holds a latency target (null: none), or that a sweep chose.
pub(crate) const DEEPEST_QUEUE: CaseFact<Option<u64>> = CaseFact::new("deepest");
/// Share of the samples' transfers within the bound of the latency target.
pub(crate) const WITHIN_TARGET: CaseFact<f64> = CaseFact::new("within_target");
/// Whether [`WITHIN_TARGET`] is the share that the latency target requires.
pub(crate) const TARGET_HELD: CaseFact<bool> = CaseFact::new("target_held");
