mod chains;
mod explained;
mod shared_core;
pub(crate) mod siblings;

use plimsoll_model::measurement::Measurement;
use plimsoll_model::view::PlainFinding;

pub(super) fn peak(run: &[Measurement]) -> Vec<PlainFinding> {
    [shared_core::find, chains::find, explained::find].iter().flat_map(|find| find(run)).collect()
}
