//! Warning about a case that ran past the end of its budget.

use std::fmt;

use plimsoll_model::warning::Warn;
use plimsoll_units::quantity::{Quantity, Unit};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Overrun {
    pub(super) took: f64,
    pub(super) budget: f64,
    /// Time from the end of the budget to the end of the case.
    pub(super) past: f64,
    pub(super) of: &'static str,
    pub(super) is_fixed: bool,
}

impl Warn for Overrun {
    fn code(&self) -> &'static str {
        "budget-exceeded"
    }
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [took, budget, past] =
            [self.took, self.budget, self.past].map(|s| Quantity::new(s, Unit::Second).human(2));
        let why = match self.is_fixed {
            true => "a fixed number of samples is completed; use fewer --samples or a larger budget",
            false => {
                "set-up and a sample that has begun are completed (a sample of a search is a whole search); use a shorter --sample-time or a larger budget"
            }
        };
        let of = self.of;
        write!(f, "budget exceeded: the case took {took} and ended {past} after {of} ({budget}): {why}")
    }
}
