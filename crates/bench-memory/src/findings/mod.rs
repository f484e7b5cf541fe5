//! What the figures of the memory benchmarks say of memory.

mod concurrency;
mod knee;
mod lost_cache;

use plimsoll_model::view::{Finding, RunView};

/// Of `memory.bandwidth`, with the latencies of the same run.
pub(super) fn bandwidth(run: &RunView<'_>) -> Vec<Finding> {
    concurrency::find(run)
}

/// Of `memory.latency`.
pub(super) fn latency(run: &RunView<'_>) -> Vec<Finding> {
    lost_cache::find(run)
}

/// Of `memory.loaded-latency`.
pub(super) fn loaded(run: &RunView<'_>) -> Vec<Finding> {
    knee::find(run)
}
