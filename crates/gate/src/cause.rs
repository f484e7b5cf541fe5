use plimsoll_machine::Others;
use plimsoll_model::measurement::{Measurement, NOTABLE};
use plimsoll_units::quantity::{format_cpus, percent};

/// CPUs used by other processes from which these may be the cause. A mean over the measurement:
/// they may have run during its samples only, and may take memory bandwidth rather than CPU time.
const MIN_BUSY_CPUS: f64 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quota {
    /// No usual quota; the CPUs that a quota allows now, if known.
    New(Option<f64>),
    /// The quota was there when the usual figures were measured, so it explains no loss.
    Usual,
}

/// Cause of a low figure.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LowCause {
    /// A CPU quota stopped the threads.
    #[error("{}, throttled {} of the time", name_quota(*.cpus), percent(*.share, 2))]
    Quota {
        /// CPUs that the quota allows, if known.
        cpus: Option<f64>,
        /// Share of the time, 0 to 1.
        share: f64,
    },
    /// Other processes used the CPUs.
    #[error("others use {}{}", format_cpus(*.cpus, 2), name_most(.most.as_ref()))]
    Busy {
        /// CPUs that they used.
        cpus: f64,
        /// Name and process id of the one that used most.
        most: Option<(String, u32)>,
    },
    /// The hypervisor gave the CPUs to other guests.
    #[error("hypervisor took {} of the CPU time", percent(*.share, 2))]
    Stolen {
        /// Share of the time, 0 to 1.
        share: f64,
    },
    /// Threads waited for a CPU, and no process was seen to use it.
    #[error("threads waited for a CPU {} of the time", percent(*.share, 2))]
    Waited {
        /// Share of the time, 0 to 1.
        share: f64,
    },
}

impl LowCause {
    /// Returns the most likely cause of a low figure; `None` if no condition is notable. `others`:
    /// CPU use of other processes during the measurement. `quota`: whether a CPU quota is new.
    pub(super) fn of(measurement: &Measurement, others: &Others, quota: Quota) -> Option<Self> {
        let conditions = &measurement.conditions;
        let notable = |share: Option<f64>| share.filter(|share| *share >= NOTABLE);
        let is_usual = quota == Quota::Usual;
        // A quota that covers all threads of the case stops them only if its group uses more time.
        let is_small = |cpus: f64| cpus < measurement.case.busy_threads() as f64;
        let quota = match quota {
            Quota::New(cpus) if cpus.map_or(others.cpus < MIN_BUSY_CPUS, is_small) => Some(cpus),
            _ => None,
        };
        let by_quota = quota.zip(notable(throttled(measurement)));
        let busy = || {
            let most = others.most.as_ref().map(|most| (most.name.clone(), most.id));
            (others.cpus >= MIN_BUSY_CPUS).then_some(Self::Busy { cpus: others.cpus, most })
        };
        let stolen = || notable(conditions.steal).map(|share| Self::Stolen { share });
        // A thread that a quota stops also waits and is switched from its CPU.
        let stopped = throttled(measurement).filter(|_| is_usual).unwrap_or(0.0);
        let lost = [conditions.waited, conditions.excluded_by.switched].into_iter().flatten();
        let lost = lost.map(|share| share - stopped).reduce(f64::max);
        let waited = || notable(lost).map(|share| Self::Waited { share });
        let by_quota = by_quota.map(|(cpus, share)| Self::Quota { cpus, share });
        by_quota.or_else(busy).or_else(stolen).or_else(waited)
    }

    /// Returns true for a setting of this machine, and false for other work running at the moment.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Quota { .. })
    }

    /// Returns the stable identifier of the cause, such as `cpu-quota`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Quota { .. } => "cpu-quota",
            Self::Busy { .. } => "busy",
            Self::Stolen { .. } => "stolen",
            Self::Waited { .. } => "preempted",
        }
    }
}

/// Returns the share of the time (0 to 1) in which a CPU quota stopped the threads, if known: what
/// the kernel counts for the whole group, at most the time that CPU-bound threads waited.
pub(super) fn throttled(measurement: &Measurement) -> Option<f64> {
    let subsystem = plimsoll_bench::subsystem_of(&measurement.case);
    let conditions = &measurement.conditions;
    let is_cpu_bound = !subsystem.on_files && !subsystem.uses_interfaces;
    let most = conditions.waited.filter(|_| is_cpu_bound).unwrap_or(f64::INFINITY);
    conditions.throttled.map(|share| share.min(most))
}

fn name_quota(cpus: Option<f64>) -> String {
    cpus.map_or("a CPU quota".to_owned(), |cpus| format!("CPU quota of {}", format_cpus(cpus, 2)))
}

fn name_most(most: Option<&(String, u32)>) -> String {
    most.map(|(name, id)| format!(", most of it {name} (pid {id})")).unwrap_or_default()
}
