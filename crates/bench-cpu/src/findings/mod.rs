//! What the figures of the CPU benchmarks say of the cores.

mod chains;
mod explained;
mod shared_core;
mod siblings;

use plimsoll_model::view::{Finding, RunView};

/// Of `cpu.peak`.
pub(super) fn peak(run: &RunView<'_>) -> Vec<Finding> {
    [shared_core::find, chains::find, explained::find].iter().flat_map(|find| find(run)).collect()
}

/// Of `cpu.core-to-core`.
pub(super) fn core_to_core(run: &RunView<'_>) -> Vec<Finding> {
    siblings::find(run)
}
