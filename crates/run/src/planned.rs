//! Input of the run loop: cases with their sampling, independent of the plan.

use plimsoll_bench::Candidate;
use plimsoll_model::plan::Sampling;
use plimsoll_reference::Against;

/// A planned case and its sampling parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The case, and whether this machine can measure it.
    pub candidate: Candidate,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Selection of reference tools.
    pub against: Against,
    /// Time limit in s from the budget of its group, if any.
    pub budget: Option<f64>,
    /// Options of the job (of fio, for example) from which the case was derived.
    pub job: Vec<String>,
    /// Index of its group in the plan.
    pub group: usize,
    /// Repetition of the plan, from 1; 0 for a plan that is measured once.
    pub repeat: u32,
}
