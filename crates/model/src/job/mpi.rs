//! Job of the MPI benchmarks.

use plimsoll_metal::kernel::Element;

use crate::case::Case;

/// Messages of an MPI case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiMessages {
    /// Bytes per message; `None` for a barrier.
    pub size: Option<u64>,
    /// Type of the numbers that are summed; `None` without a sum.
    pub element: Option<Element>,
}

impl MpiMessages {
    /// Reads the parameters of a case.
    pub fn of(case: &Case) -> Self {
        let element = Element::ALL.into_iter().find(|element| case.word("type") == Some(element.name()));
        Self { size: case.number("message"), element }
    }
}
