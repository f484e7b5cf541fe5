//! What is to be known beside the figure of a CPU case.

use std::fmt;

use plimsoll_metal::clock::ClockUnknown;

use super::pairs::ALL_PAIRS_OF;
use crate::machine::CpuSet;
use crate::quantity::{Quantity, Unit};
use crate::warning::Warn;

/// A remark on a CPU case.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CpuWarning {
    /// CPUs of the case are siblings of one core each.
    SmtSiblings(Vec<CpuSet>),
    /// CPUs share a core though the kernel shows one for each.
    HiddenSiblings(Vec<CpuSet>),
    /// A core seems to run faster than the maximum that it names, both in Hz.
    AboveMaximum { clock_hz: f64, maximum_hz: f64 },
    /// The core clock could not be measured.
    ClockUnknown(ClockUnknown),
    /// So many pairs are measured, and not all of them.
    PairsChosen { measured: usize, of: usize },
    /// A pair was left out of so many samples; why, the last time.
    PairsStalled { times: usize, why: String },
    /// The order of a system was chosen by time, and memory of so many bytes used where there is room for a larger one.
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

impl fmt::Display for CpuWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmtSiblings(cores) => write!(
                f,
                "CPUs {} are siblings of one core each and share its units; the limit counts each core once",
                named(cores)
            ),
            Self::HiddenSiblings(cores) => write!(
                f,
                "CPUs {} shared a core before the run, which the hypervisor hides: work took twice as long on each while the \
                 other worked; the limit counts the core once, unless the figure shows that they have left it",
                named(cores)
            ),
            Self::AboveMaximum { clock_hz, maximum_hz } => write!(
                f,
                "the core clock is measured as {}, the processor names {} as its highest (CPUID 0x16): the hypervisor hides \
                 which processor it is, or additions take less than a cycle here",
                Quantity::new(*clock_hz, Unit::Hertz),
                Quantity::new(*maximum_hz, Unit::Hertz)
            ),
            Self::ClockUnknown(why) => why.fmt(f),
            Self::PairsChosen { measured, of } => write!(
                f,
                "{measured} of {of} pairs are measured, SMT siblings and others chosen by the seed: all pairs of more than \
                 {ALL_PAIRS_OF} CPUs take too long; allow fewer CPUs (taskset) to see every one of theirs"
            ),
            Self::PairsStalled { times, why } => {
                write!(f, "{times} × a pair was left out of a sample; the last: {why}")
            }
            Self::DefaultSize { n, bytes, most } => write!(
                f,
                "n = {n} ({}) was chosen for some seconds a sample; memory has room for --n {most}, which comes nearer the limit",
                Quantity::new(*bytes as f64, Unit::Byte)
            ),
        }
    }
}

fn named(cores: &[CpuSet]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<String>>().join("; ")
}
