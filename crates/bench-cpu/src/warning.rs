use plimsoll_metal::clock::ClockUnknown;

use super::pairs::ALL_PAIRS_OF;
use plimsoll_machine::CpuSet;
use plimsoll_model::warning::Warn;
use plimsoll_units::quantity::{Quantity, Unit};

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum CpuWarning {
    #[error(
        "CPUs {} are hardware threads of one core each and share its units; the limit counts each core once",
        named(.0)
    )]
    SmtSiblings(Vec<CpuSet>),
    /// CPUs share a core although the kernel shows separate ones.
    #[error(
        "CPUs {} shared a core before the run, which the hypervisor hides (each took twice as long while the other worked); the limit counts the core once, unless the figure shows that they have separate cores now",
        named(.0)
    )]
    HiddenSiblings(Vec<CpuSet>),
    /// A core seems to exceed its stated maximum clock; both in Hz.
    #[error(
        "the measured core clock is {}, but the processor states a maximum of {} (CPUID 0x16): the hypervisor hides the processor's model, or additions take less than a cycle",
        Quantity::new(*.clock_hz, Unit::Hertz), Quantity::new(*.maximum_hz, Unit::Hertz)
    )]
    AboveMaximum { clock_hz: f64, maximum_hz: f64 },
    /// The core clock could not be measured.
    #[error("{0}")]
    ClockUnknown(ClockUnknown),
    /// Only a part of the pairs was measured.
    #[error(
        "{measured} of {of} pairs were measured (SMT siblings, and others at random), because all pairs of more than {ALL_PAIRS_OF} CPUs take too long; allow fewer CPUs (taskset) to measure every pair"
    )]
    PairsChosen { measured: usize, of: usize },
    /// Pairs were missing in this number of samples, with the last reason.
    #[error("a pair of CPUs was left out of a sample {times} times; the last: {why}")]
    PairsStalled { times: usize, why: String },
    /// A larger order (`most`) fits into memory than the default, chosen by time.
    #[error(
        "n = {n} ({}) was chosen so that a sample takes seconds; --n {most} fits memory and comes nearer the limit",
        Quantity::new(*.bytes as f64, Unit::Byte)
    )]
    DefaultSize { n: u64, bytes: u64, most: u64 },
}

impl Warn for CpuWarning {
    fn code(&self) -> &'static str {
        match self {
            Self::SmtSiblings(_) => "smt-siblings",
            Self::HiddenSiblings(_) => "hidden-siblings",
            Self::AboveMaximum { .. } => "clock-above-maximum",
            Self::ClockUnknown(_) => "clock-unknown",
            Self::PairsChosen { .. } => "pairs-chosen",
            Self::PairsStalled { .. } => "pairs-stalled",
            Self::DefaultSize { .. } => "default-size",
        }
    }
}

fn named(cores: &[CpuSet]) -> String {
    let mut names: Vec<String> = cores.iter().take(MAX_NAMED_CPUS).map(ToString::to_string).collect();
    if cores.len() > MAX_NAMED_CPUS {
        names.push(format!("and {} more cores", cores.len() - MAX_NAMED_CPUS));
    }
    names.join("; ")
}

const MAX_NAMED_CPUS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_cores_the_first_are_named() {
        let cores: Vec<CpuSet> = (0..64).map(|cpu| [cpu, cpu + 64].into_iter().collect()).collect();
        assert_eq!(named(&cores[..2]), "0,64; 1,65");
        assert!(named(&cores).ends_with("; 7,71; and 56 more cores"), "{}", named(&cores));
        assert!(named(&cores[..8]).ends_with("; 7,71"));
    }
}
