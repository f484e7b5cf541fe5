//! What limits of CPU cases share: the clock of each sample, and how many cores' worth of time the threads have.

use plimsoll_machine::{Cpu, CpuSet, Machine};
use plimsoll_model::limit::microarchitecture::{Core, Unknown};
use plimsoll_model::limit::{Input, Question, median};

/// The core clock of the samples.
pub(super) struct Clocks {
    /// Of each sample, in Hz.
    pub(super) each: Vec<f64>,
    /// Of all.
    pub(super) median: f64,
}

impl Clocks {
    /// The clock of each sample.
    ///
    /// # Errors
    /// One has none, or there is no sample.
    pub(super) fn of(question: &Question<'_>) -> Result<Self, Unknown> {
        let each: Option<Vec<f64>> =
            question.samples.iter().map(|sample| sample.conditions.clock_hz).collect();
        let each = each.ok_or_else(|| Unknown("the core clock could not be measured".to_owned()))?;
        let median =
            median(each.clone()).ok_or_else(|| Unknown("there is no sample with a clock".to_owned()))?;
        Ok(Self { each, median })
    }

    /// The clock as an input of a formula.
    pub(super) fn input(median: f64) -> Input {
        let from = "measured between the slices of each sample, in work of the same kind; median";
        Input::new("clock", median, "Hz", from)
    }
}

/// The core that all these CPUs are.
///
/// # Errors
/// What is not known of one, that they are of several kinds, or that there is none.
pub(super) fn core_of(machine: &Machine, cpus: &CpuSet) -> Result<Core, Unknown> {
    let mut cores = cpus.iter().map(|number| Core::of(machine, number));
    let core =
        cores.next().ok_or_else(|| Unknown("no CPU is known that the threads ran on".to_owned()))??;
    for other in cores {
        if other?.name != core.name {
            return Err(Unknown(
                "the threads ran on cores of several kinds; choose the CPUs of one kind with --affinity"
                    .to_owned(),
            ));
        }
    }
    Ok(core)
}

/// How many cores' worth of time the threads have.
pub(super) struct Share {
    /// Cores, or CPUs of a quota.
    pub(super) cpus: f64,
    /// Whether that is what a quota leaves.
    pub(super) is_quota: bool,
    /// What is counted, as in a formula.
    pub(super) name: &'static str,
    /// Where the number is from.
    pub(super) from: String,
    /// How many times this much there can be for a short time.
    pub(super) burst: Option<f64>,
}

impl Share {
    /// The cores of these CPUs, or what a quota leaves of them.
    pub(super) fn of(question: &Question<'_>, cpus: &CpuSet) -> Self {
        let cores = question.machine.cpu.cores_of(cpus).unwrap_or(cpus.len()) as f64;
        match question.machine.cgroup.cpu_quota.as_ref().filter(|quota| quota.cpus() < cores) {
            Some(quota) => Self {
                cpus: quota.cpus(),
                is_quota: true,
                name: "CPUs of the quota",
                from: format!("{} of each {} µs, by {}", quota.quota_us, quota.period_us, quota.group),
                burst: Some(cores / quota.cpus()),
            },
            None => {
                let from = format!("of CPUs {cpus}");
                Self { cpus: cores, is_quota: false, name: "cores", from, burst: None }
            }
        }
    }
}

/// The most of these CPUs that one core has.
pub(super) fn most_of_a_core(cpu: &Cpu, cpus: &CpuSet) -> usize {
    let of = |number| cpu.logical(number).map_or(1, |logical| logical.siblings.common(cpus).len());
    let hidden = cpu.hidden_siblings.iter().map(|siblings| siblings.common(cpus).len());
    cpus.iter().map(of).chain(hidden).max().unwrap_or(1).max(1)
}
