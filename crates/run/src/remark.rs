//! Warnings about a case as a whole: its hardware, its budget, its rounds and its tools.

use std::fmt;

use plimsoll_model::warning::{Warn, Warning, more_rounds};
use plimsoll_stats::{EndedBy, Steadiness, WINDOW_ROUNDS};
use plimsoll_units::quantity::{Quantity, Unit, percent};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CaseRemark {
    ThermalThrottling {
        times: u64,
    },
    MemoryCorrected {
        count: u64,
        controllers: String,
    },
    MemoryUncorrected {
        count: u64,
        controllers: String,
    },
    NicErrors {
        interface: String,
        received: u64,
        sent: u64,
    },
    NicDrops {
        interface: String,
        received: u64,
        sent: u64,
    },
    /// The case of `took` s ended `past` s after the end of the budget `of`.
    BudgetExceeded {
        took: f64,
        budget: f64,
        past: f64,
        of: &'static str,
        is_fixed: bool,
    },
    NotSteady {
        rounds: usize,
        reached: Option<Steadiness>,
        by: EndedBy,
    },
    /// The first level was faster, as with burst credit or a write cache.
    Burst {
        seconds: f64,
        first: Quantity,
        last: Quantity,
    },
    FewPairs {
        taken: usize,
        wanted: usize,
    },
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

impl fmt::Display for CaseRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThermalThrottling { times } => write!(
                f,
                "too hot {times}: so many times the processor slowed itself down because of its temperature (thermal_throttle), so a cooler one is faster; check fans, heat sinks and the room"
            ),
            Self::MemoryCorrected { count, controllers } => write!(
                f,
                "memory errors {count}: so many were corrected during the case ({controllers}, EDAC), and each correction takes time; replace the module that the kernel log names if more follow"
            ),
            Self::MemoryUncorrected { count, controllers } => write!(
                f,
                "uncorrected memory errors {count}: so many during the case ({controllers}, EDAC), so results may be wrong; replace the module that the kernel log names"
            ),
            Self::NicErrors { interface, received, sent } => write!(
                f,
                "NIC errors: {interface} received {received} damaged packets and failed to send {sent} during the case, and each is sent again or lost; check cable, transceiver and switch port"
            ),
            Self::NicDrops { interface, received, sent } => write!(
                f,
                "NIC drops: {interface} dropped {received} received packets and {sent} to be sent during the case; use a lower rate; ethtool -g shows the sizes of its rings"
            ),
            Self::BudgetExceeded { took, budget, past, of, is_fixed } => {
                let [took, budget, past] =
                    [took, budget, past].map(|s| Quantity::new(*s, Unit::Second).human(2));
                let why = match is_fixed {
                    true => "a fixed number of samples is completed; use fewer --samples or a larger budget",
                    false => {
                        "set-up and a sample that has begun are completed (a sample of a search is a whole search); use a shorter --sample-time or a larger budget"
                    }
                };
                write!(
                    f,
                    "budget exceeded: the case took {took} and ended {past} after {of} ({budget}): {why}"
                )
            }
            Self::NotSteady { rounds, reached, by } => {
                write!(f, "not steady after {rounds} rounds: ")?;
                match reached.map(|Steadiness { range, excursion }| [range, excursion].map(|x| percent(x, 2)))
                {
                    None => write!(f, "at least {WINDOW_ROUNDS} are needed")?,
                    Some([range, excursion]) => write!(
                        f,
                        "the last {WINDOW_ROUNDS} spread by {range} of their mean (20 % is steady) and drift by {excursion} (10 %)"
                    )?,
                }
                write!(f, "; {}", more_rounds(*by))
            }
            Self::Burst { seconds, first, last } => write!(
                f,
                "{first} in the first {seconds:.1} s, then only {last}: burst credit or a write cache was used up; the figure is that of the last {WINDOW_ROUNDS} rounds"
            ),
            Self::FewPairs { taken, wanted } => write!(
                f,
                "{taken} pairs instead of {wanted}: the time for reference tools was used up; use a larger --budget"
            ),
        }
    }
}
