//! What the loop is given: cases, each with how it is sampled. It knows no plan.

use plimsoll_bench::Candidate;
use plimsoll_model::plan::Sampling;
use plimsoll_reference::Against;

/// A case of a plan, and how it is sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The case, and whether this machine can measure it.
    pub candidate: Candidate,
    /// How it is sampled.
    pub sampling: Sampling,
    /// The tools beside it.
    pub against: Against,
    /// The most seconds for it, where its group has a budget.
    pub budget: Option<f64>,
    /// The options of the reference tool's job that it was made of.
    pub job: Vec<String>,
    /// Index of its group in the plan.
    pub group: usize,
    /// Which repeat of the plan, from 1; 0 in a plan that is measured once.
    pub repeat: u32,
}
