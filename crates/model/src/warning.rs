//! Warnings: types with a stable code and a sentence with the remedy; stored as [`Note`]s.

mod codes;

use std::fmt;

use serde::{Deserialize, Serialize};

use plimsoll_stats::{EndedBy, MAX_SAMPLES, MOST_ROUNDS, MOSTLY_EXCLUDED};
use plimsoll_units::quantity::{percent, write_distinct};
use plimsoll_units::text::format_count;

pub use codes::{ENTRIES, Entry};

/// A warning next to a figure; `Display` is one sentence with its remedy.
pub trait Warn: fmt::Display {
    /// Returns the stable code in the run document: one of [`ENTRIES`].
    fn code(&self) -> &'static str;
}

/// A warning as shown and stored; created only from types that implement [`Warn`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Stable code.
    pub code: String,
    /// Sentence.
    pub text: String,
}

impl Note {
    /// Returns the stable code, such as `few-samples`.
    pub fn code(&self) -> &str {
        &self.code
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<W: Warn> From<W> for Note {
    fn from(warning: W) -> Self {
        debug_assert!(ENTRIES.iter().any(|entry| entry.code == warning.code()), "{}", warning.code());
        Self { code: warning.code().to_owned(), text: warning.to_string() }
    }
}

/// Warnings of several benchmarks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Warning {
    /// The confidence interval did not become as narrow as requested.
    #[error("not converged: {}: {}", half_widths(*.reached, *.wanted), wider(*.by))]
    NotConverged {
        /// Reached half-width, as a share of the median.
        reached: f64,
        /// Requested half-width, as a share of the median.
        wanted: f64,
        /// Reason for the end of sampling.
        by: EndedBy,
    },
    /// Too few samples for a confidence interval.
    #[error("no CI: {}", more_samples(*.n, *.by))]
    FewSamples {
        /// Number of samples.
        n: usize,
        /// Reason for the end of sampling.
        by: EndedBy,
    },
    /// Most of the time is excluded, so the rest may not be representative.
    #[error("{}", mostly_excluded(*.share, *.crowded))]
    MostlyExcluded {
        /// Excluded share of the time.
        share: f64,
        /// Whether threads of the case share a CPU.
        crowded: bool,
    },
    /// Time was lost or excluded for one cause.
    #[error("{} {:.1} %: {}", .how.words().0, .share * 100.0, .how.words().1)]
    Lost {
        /// Share of the time (of the work for a second cost).
        share: f64,
        /// Cause.
        how: Loss,
    },
    /// More threads than CPUs.
    #[error("{threads} threads share {}; the limit counts CPUs, not threads", format_count(*.cpus, "CPU"))]
    MoreThreadsThanCpus {
        /// Number of threads.
        threads: usize,
        /// Number of allowed CPUs.
        cpus: usize,
    },
    /// A CPU quota is below the number of threads.
    #[error(
        "a cgroup quota allows the time of {cpus:.2} CPUs; raise it (cpu.max) to measure the whole machine"
    )]
    CpuQuota {
        /// Quota in CPUs.
        cpus: f64,
    },
}

/// Cause of lost or excluded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A thread was preempted, or was runnable without a CPU.
    Preempted,
    /// Steal time of the hypervisor.
    Stolen,
    /// Slices took longer although no thread left its CPU.
    Gaps,
    /// A CPU quota stopped the threads.
    Throttled,
    /// The clock changed during slices.
    ClockChanged,
    /// Work at a second cost, on units shared by two hardware threads.
    SiblingBusy,
    /// Work at a second cost, without another visible user of the units.
    TwoRates,
    /// Work at a second cost, on memory or caches.
    MemoryContended,
}

/// Codes of warnings that name the cause of lost or excluded time.
pub const CAUSES: [&str; 9] = [
    "clock-changed",
    Warning::CPUS_MOVED,
    "cpus-on-one-core",
    "memory-contended",
    "preempted",
    "sibling-busy",
    "stolen",
    "throttled",
    "two-rates",
];

impl Loss {
    fn code(self) -> &'static str {
        match self {
            Loss::Preempted => "preempted",
            Loss::Stolen | Loss::Gaps => "stolen",
            Loss::Throttled => "throttled",
            Loss::ClockChanged => "clock-changed",
            Loss::SiblingBusy => "sibling-busy",
            Loss::TwoRates => "two-rates",
            Loss::MemoryContended => "memory-contended",
        }
    }

    /// Returns the short name (`stolen`) and a sentence with evidence and remedy.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Loss::Preempted => (
                "preempted",
                "other threads ran on the CPUs of the case for this share of the time (involuntary switches, run-queue wait, time off the CPU); measure when the machine is idle",
            ),
            Loss::Stolen => (
                "stolen",
                "the hypervisor gave this share of the CPU time to others (steal time); choose a quieter or dedicated host",
            ),
            Loss::Gaps => (
                "stolen",
                "the hypervisor, interrupts or firmware used the CPU for this share of the time, which is excluded; choose a quieter or dedicated host",
            ),
            Loss::Throttled => (
                "throttled",
                "a CPU quota of the control group stopped it for this share of the time; measure in a group with a larger quota (cpu.max, cpu.cfs_quota_us)",
            ),
            Loss::ClockChanged => (
                "clock changes",
                "the core clock changed, or could not be measured, during this share of the time, which is excluded; a fixed frequency excludes less (of a virtual machine, only its host can fix it)",
            ),
            Loss::SiblingBusy => (
                "SMT sibling busy",
                "this share of the work took longer by a fixed factor: another thread or guest used the same core (of several CPUs the one shared most counts); measure when the machine is idle, or choose a host that rents whole cores",
            ),
            Loss::TwoRates => (
                "two rates",
                "this share of the work took longer by a fixed factor, and is excluded; the cause is unknown: no other work was seen on the same core",
            ),
            Loss::MemoryContended => (
                "memory contended",
                "this share of the work took another time although no thread left its CPU, as when others use the same cache or memory; measure when the machine is idle, or choose a dedicated host",
            ),
        }
    }
}

impl Warn for Warning {
    fn code(&self) -> &'static str {
        match self {
            Warning::NotConverged { .. } => "not-converged",
            Warning::MostlyExcluded { .. } => Self::MOSTLY_EXCLUDED,
            Warning::FewSamples { .. } => Self::FEW_SAMPLES,
            Warning::Lost { how, .. } => how.code(),
            Warning::MoreThreadsThanCpus { .. } => Self::CROWDED,
            Warning::CpuQuota { .. } => Self::QUOTA,
        }
    }
}

impl Warning {
    /// Code of [`Warning::MoreThreadsThanCpus`].
    pub const CROWDED: &str = "more-threads-than-cpus";
    /// Code of [`Warning::CpuQuota`].
    pub const QUOTA: &str = "cpu-quota";
    /// Code: a hypervisor moved the CPUs during a case.
    pub const CPUS_MOVED: &str = "cpus-moved";
    /// Code: the processor throttled because of its temperature.
    pub const TOO_HOT: &str = "thermal-throttling";

    /// Code of [`Warning::MostlyExcluded`].
    pub const MOSTLY_EXCLUDED: &str = "mostly-excluded";
    /// Code of [`Warning::FewSamples`].
    pub const FEW_SAMPLES: &str = "few-samples";

    /// Returns whether warnings with this `code` follow from a case's samples alone.
    pub fn is_of_samples(code: &str) -> bool {
        let lost = CAUSES.iter().filter(|cause| !cause.starts_with("cpus-"));
        ["not-converged", Self::MOSTLY_EXCLUDED, Self::FEW_SAMPLES]
            .iter()
            .chain(lost)
            .any(|known| *known == code)
    }
}

fn half_widths(reached: f64, wanted: f64) -> String {
    // Enough decimals that the requested half-width is not shown as zero.
    let least = (1..9).find(|n| wanted * 100.0 >= 0.5 * 0.1_f64.powi(*n)).unwrap_or(1);
    let digits = usize::try_from(least).unwrap_or(1);
    let [reached, wanted] = write_distinct([reached, wanted], digits, |x, n| format!("{:.n$} %", x * 100.0));
    format!("± {reached} instead of ± {wanted}")
}

fn mostly_excluded(share: f64, crowded: bool) -> String {
    let [share, most] = write_distinct([share, MOSTLY_EXCLUDED], 3, percent);
    let cause = match crowded {
        true => "threads that share a CPU wait for each other, use at most one per CPU",
        false => "the other warnings name the cause",
    };
    format!(
        "mostly excluded {share}: slices of the time that were interrupted are excluded as a whole; above {most} the figure may be off; {cause}"
    )
}

/// Minimum number of samples of a confidence interval.
const FOR_AN_INTERVAL: usize = 5;

/// Returns why the confidence interval is too wide and what to do; `by` is what ended sampling.
fn wider(by: EndedBy) -> String {
    larger_budget(by, "", " or a looser --precision").unwrap_or_else(|| match by {
        EndedBy::SampleCap | EndedBy::Precision => format!(
            "{MAX_SAMPLES} samples are the maximum by default; use more --samples, a longer --sample-time, or a looser --precision"
        ),
        EndedBy::RoundCap => more_rounds(by),
        _ => "use more --samples".to_owned(),
    })
}

/// Returns why there are only `n` samples and what to do; `by` is what ended sampling.
fn more_samples(n: usize, by: EndedBy) -> String {
    let of = format!("{n} of the {FOR_AN_INTERVAL} samples that an interval needs");
    larger_budget(by, &format!(" after {of}"), " or a shorter --sample-time")
        .unwrap_or_else(|| format!("{of}; use --samples {FOR_AN_INTERVAL} or more"))
}

/// Returns why a device got no more rounds to become steady and what to do; `by` ended them.
pub fn more_rounds(by: EndedBy) -> String {
    larger_budget(by, "", "").unwrap_or_else(|| match by {
        EndedBy::RoundCap => format!(
            "{MOST_ROUNDS} rounds are the maximum by default; use more --samples or a longer --sample-time"
        ),
        _ => "use more --samples (rounds) or a longer --sample-time".to_owned(),
    })
}

/// Returns reason and advice if a budget ended sampling, else `None`. `when` follows the reason,
/// `or` the advice to use a larger budget.
fn larger_budget(by: EndedBy, when: &str, or: &str) -> Option<String> {
    let (whose, larger) = match by {
        EndedBy::Budget => ("the budget", "--budget"),
        EndedBy::GroupBudget if or.is_empty() => ("its group's budget in the plan", "budget there"),
        EndedBy::GroupBudget => ("its group's budget in the plan", "budget there,"),
        _ => return None,
    };
    Some(format!("{whose} ended it{when}; use a larger {larger}{or}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENDS: [EndedBy; 5] =
        [EndedBy::Samples, EndedBy::SampleCap, EndedBy::Budget, EndedBy::GroupBudget, EndedBy::RoundCap];

    proptest! {
        #[test]
        fn advice_names_what_ended_the_sampling_and_nothing_else(
            reached in 0.010_000_1f64..0.5, n in 1usize..5, end in 0usize..5,
        ) {
            let by = ENDS[end];
            let (helps, idle) = match by {
                EndedBy::Budget => ("--budget", "--samples"),
                EndedBy::GroupBudget => ("budget in the plan", "--budget"),
                _ => ("--samples", "budget"),
            };
            for text in [
                Warning::NotConverged { reached, wanted: 0.01, by }.to_string(),
                Warning::FewSamples { n, by }.to_string(),
                more_rounds(by),
            ] {
                prop_assert!(text.contains(helps) && !text.contains(idle), "{by:?}: {text}");
                prop_assert!(!text.contains('\n'));
            }
        }

        #[test]
        fn what_was_missed_never_looks_like_what_was_asked(excess in 1e-9f64..0.5) {
            let text = Warning::NotConverged { reached: 0.01 + excess, wanted: 0.01, by: EndedBy::Budget }.to_string();
            let half_widths: Vec<&str> = text.split("± ").skip(1).map(|rest| rest.split(' ').next().unwrap()).collect();
            prop_assert!(half_widths.len() == 2 && half_widths[0] != half_widths[1], "{text}");
        }
    }

    #[test]
    fn the_rule_and_its_advice_agree_on_every_end() {
        let tight = Warning::NotConverged { reached: 0.003, wanted: 0.0001, by: EndedBy::Budget }.to_string();
        assert!(tight.contains("± 0.30 % instead of ± 0.01 %"), "{tight}");
        let stated =
            Warning::NotConverged { reached: 0.032, wanted: 0.01, by: EndedBy::SampleCap }.to_string();
        let start = "not converged: ± 3.2 % instead of ± 1.0 %: 30 samples are the maximum";
        assert!(stated.starts_with(start), "{stated}");
        let few = Warning::FewSamples { n: 1, by: EndedBy::Budget }.to_string();
        assert_eq!(
            few,
            "no CI: the budget ended it after 1 of the 5 samples that an interval needs; use a larger --budget or a shorter --sample-time"
        );
    }
}
