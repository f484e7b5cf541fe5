//! Findings from the results of the memory benchmarks.

mod concurrency;
mod knee;
mod lost_cache;

use plimsoll_model::view::{Finding, RunView};

pub(super) fn bandwidth(run: &RunView<'_>) -> Vec<Finding> {
    concurrency::find(run)
}

pub(super) fn latency(run: &RunView<'_>) -> Vec<Finding> {
    lost_cache::find(run)
}

pub(super) fn loaded(run: &RunView<'_>) -> Vec<Finding> {
    knee::find(run)
}
