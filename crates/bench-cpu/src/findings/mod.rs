mod chains;
mod explained;
mod shared_core;
pub(crate) mod siblings;

use plimsoll_model::view::{PlainFinding, RunView};

pub(super) fn peak(run: &RunView<'_>) -> Vec<PlainFinding> {
    [shared_core::find, chains::find, explained::find].iter().flat_map(|find| find(run)).collect()
}
