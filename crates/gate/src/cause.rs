//! Why a figure is low, by what was seen beside the measurement.

use std::fmt;

use plimsoll_machine::Others;
use plimsoll_model::measurement::Measurement;
use plimsoll_model::view::NOTABLE;
use plimsoll_units::quantity::{format_cpus, percent};

/// CPUs that others use from which on they may be why, however many CPUs there are and whatever is lost. It is no share of what the case uses:
/// this is the mean of the whole measurement, and others may have been at work in its samples alone; and what a process takes of a cache or of
/// memory bandwidth is more than its CPU time.
const MIN_BUSY_CPUS: f64 = 0.25;

/// The CPU quota of a machine, against what it usually has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quota {
    /// It has none that is known of, or a new one; the CPUs that it allows, where they are known.
    New(Option<f64>),
    /// It had the same one when what is usual was measured, so that it explains no loss.
    Usual,
}

/// Why a figure is low.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// A CPU quota stopped the threads.
    Quota {
        /// CPUs that it allows, where it is known.
        cpus: Option<f64>,
        /// Share of the time.
        share: f64,
    },
    /// Other processes used the CPUs.
    Busy {
        /// CPUs that they used.
        cpus: f64,
        /// The one that used most, and its id.
        most: Option<(String, u32)>,
    },
    /// The hypervisor gave the CPUs to others.
    Stolen {
        /// Share of the time.
        share: f64,
    },
    /// Threads waited for a CPU, and nobody was seen to use it.
    Waited {
        /// Share of the time.
        share: f64,
    },
}

impl Cause {
    /// What was seen beside a measurement whose figure is low.
    pub(super) fn of(measurement: &Measurement, others: &Others, quota: Quota) -> Option<Self> {
        let conditions = &measurement.conditions;
        let notable = |share: Option<f64>| share.filter(|share| *share >= NOTABLE);
        // A quota that allows all of the case's threads stops them only for what others in its group use.
        let is_small = |cpus: f64| cpus < measurement.case.busy_threads() as f64;
        let by_quota = || match quota {
            Quota::New(cpus) if cpus.map_or(others.cpus < MIN_BUSY_CPUS, is_small) => {
                notable(throttled(measurement)).map(|share| Self::Quota { cpus, share })
            }
            _ => None,
        };
        let busy = || {
            (others.cpus >= MIN_BUSY_CPUS).then(|| Self::Busy {
                cpus: others.cpus,
                most: others.most.as_ref().map(|most| (most.name.clone(), most.id)),
            })
        };
        let stolen = || notable(conditions.steal).map(|share| Self::Stolen { share });
        // What a quota stops waits for its CPU, too, and is switched from it.
        let stopped = throttled(measurement).filter(|_| quota == Quota::Usual).unwrap_or(0.0);
        let lost = [conditions.waited, conditions.excluded_by.switched].into_iter().flatten();
        let lost = lost.map(|share| share - stopped).reduce(f64::max);
        let waited = || notable(lost).map(|share| Self::Waited { share });
        by_quota().or_else(busy).or_else(stolen).or_else(waited)
    }

    /// Whether it is this machine's own setting, and no work that somebody else does at the moment.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Quota { .. })
    }

    /// Its stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Quota { .. } => "cpu-quota",
            Self::Busy { .. } => "busy",
            Self::Stolen { .. } => "stolen",
            Self::Waited { .. } => "preempted",
        }
    }
}

/// The share of the time in which a quota stopped the threads. The kernel counts the stops of the whole group; threads that are there for the whole case, as
/// those of CPU and memory are, waited for no less than theirs.
pub(super) fn throttled(measurement: &Measurement) -> Option<f64> {
    let subsystem = plimsoll_bench::subsystem_of(&measurement.case);
    let conditions = &measurement.conditions;
    let stay = !subsystem.on_files && !subsystem.uses_interfaces;
    let most = conditions.waited.filter(|_| stay).unwrap_or(f64::INFINITY);
    conditions.throttled.map(|share| share.min(most))
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { cpus: Some(cpus), share } => {
                write!(
                    f,
                    "CPU quota of {}, throttled {} of the time",
                    format_cpus(*cpus, 2),
                    percent(*share, 2)
                )
            }
            Self::Quota { cpus: None, share } => {
                write!(f, "a CPU quota, throttled {} of the time", percent(*share, 2))
            }
            Self::Busy { cpus, most: Some((name, id)) } => {
                write!(f, "others use {}, most of it {name} (pid {id})", format_cpus(*cpus, 2))
            }
            Self::Busy { cpus, most: None } => write!(f, "others use {}", format_cpus(*cpus, 2)),
            Self::Stolen { share } => write!(f, "hypervisor took {} of the CPU time", percent(*share, 2)),
            Self::Waited { share } => {
                write!(f, "threads waited for a CPU {} of the time", percent(*share, 2))
            }
        }
    }
}
