mod concurrency;
mod lost_cache;
mod saturation_point;

use plimsoll_model::view::{PlainFinding, RunView};

pub(super) fn bandwidth(run: &RunView<'_>) -> Vec<PlainFinding> {
    concurrency::find(run)
}

pub(super) fn latency(run: &RunView<'_>) -> Vec<PlainFinding> {
    lost_cache::find(run)
}

pub(super) fn loaded(run: &RunView<'_>) -> Vec<PlainFinding> {
    saturation_point::find(run)
}
