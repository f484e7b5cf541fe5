//! What the figures of the disk benchmarks say of the device.

mod pattern;
mod queue;

use plimsoll_model::view::{Finding, RunView};

/// Of `disk.io`, but for its searches.
pub(super) fn io(run: &RunView<'_>) -> Vec<Finding> {
    pattern::find(run)
}

/// Of the searches over the number of transfers in flight, of `disk.knee` and `disk.io`.
pub(super) fn searches(run: &RunView<'_>) -> Vec<Finding> {
    queue::find(run)
}
