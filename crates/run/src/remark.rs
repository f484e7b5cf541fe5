//! Warnings about a case as a whole: its hardware, its budget, its rounds and its tools.

use plimsoll_model::warning::{Warn, Warning, more_rounds};
use plimsoll_stats::{EndedBy, Steadiness, WINDOW_ROUNDS};
use plimsoll_units::quantity::{Quantity, Unit, percent};

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum CaseRemark {
    #[error(
        "too hot {times}: so many times the processor slowed itself down because of its temperature (thermal_throttle), so a cooler one is faster; check fans, heat sinks and the room"
    )]
    ThermalThrottling { times: u64 },
    #[error(
        "memory errors {count}: so many were corrected during the case ({controllers}, EDAC), and each correction takes time; replace the module that the kernel log names if more follow"
    )]
    MemoryCorrected { count: u64, controllers: String },
    #[error(
        "uncorrected memory errors {count}: so many during the case ({controllers}, EDAC), so results may be wrong; replace the module that the kernel log names"
    )]
    MemoryUncorrected { count: u64, controllers: String },
    #[error(
        "NIC errors: {interface} received {received} damaged packets and failed to send {sent} during the case, and each is sent again or lost; check cable, transceiver and switch port"
    )]
    NicErrors { interface: String, received: u64, sent: u64 },
    #[error(
        "NIC drops: {interface} dropped {received} received packets and {sent} to be sent during the case; use a lower rate; ethtool -g shows the sizes of its rings"
    )]
    NicDrops { interface: String, received: u64, sent: u64 },
    /// The case of `took` s ended `past` s after the end of the budget `of`.
    #[error(
        "budget exceeded: the case took {} and ended {} after {of} ({}): {}",
        seconds(*.took), seconds(*.past), seconds(*.budget), completed(*.is_fixed)
    )]
    BudgetExceeded { took: f64, budget: f64, past: f64, of: &'static str, is_fixed: bool },
    #[error("not steady after {rounds} rounds: {}; {}", spread(*.reached), more_rounds(*.by))]
    NotSteady { rounds: usize, reached: Option<Steadiness>, by: EndedBy },
    /// The first level was faster, as with burst credit or a write cache.
    #[error(
        "{first} in the first {seconds:.1} s, then only {last}: burst credit or a write cache was used up; the figure is that of the last {WINDOW_ROUNDS} rounds"
    )]
    Burst { seconds: f64, first: Quantity, last: Quantity },
    #[error(
        "{taken} pairs instead of {wanted}: the time for reference tools was used up; use a larger --budget"
    )]
    FewPairs { taken: usize, wanted: usize },
}

impl Warn for CaseRemark {
    fn code(&self) -> &'static str {
        match self {
            Self::ThermalThrottling { .. } => Warning::TOO_HOT,
            Self::MemoryCorrected { .. } => "memory-errors-corrected",
            Self::MemoryUncorrected { .. } => "memory-errors-uncorrected",
            Self::NicErrors { .. } => "nic-errors",
            Self::NicDrops { .. } => "nic-drops",
            Self::BudgetExceeded { .. } => "budget-exceeded",
            Self::NotSteady { .. } => "not-steady",
            Self::Burst { .. } => "burst-credit",
            Self::FewPairs { .. } => "few-pairs",
        }
    }
}

fn seconds(time: f64) -> String {
    Quantity::new(time, Unit::Second).human(2)
}

fn completed(is_fixed: bool) -> &'static str {
    match is_fixed {
        true => "a fixed number of samples is completed; use fewer --samples or a larger budget",
        false => {
            "set-up and a sample that has begun are completed (a sample of a search is a whole search); use a shorter --sample-time or a larger budget"
        }
    }
}

fn spread(reached: Option<Steadiness>) -> String {
    let Some(Steadiness { range, excursion }) = reached else {
        return format!("at least {WINDOW_ROUNDS} are needed");
    };
    let [range, excursion] = [range, excursion].map(|x| percent(x, 2));
    format!(
        "the last {WINDOW_ROUNDS} spread by {range} of their mean (20 % is steady) and drift by {excursion} (10 %)"
    )
}
