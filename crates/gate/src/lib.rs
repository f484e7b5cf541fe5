//! Whether a machine does what it usually does: `plimsoll gate`. A low figure is measured again
//! until Wald's sequential test decides. A machine is sick by a real loss that nothing outside can
//! have caused, or by a [`MachineLoss`], a fault or a wrong answer.
#![forbid(unsafe_code)]

mod cause;
mod check;
mod difference;
mod document;
mod threshold;
mod usual;
mod verdict;

pub use cause::LowCause;
pub use check::{CheckProgress, CheckedQuantity, FigureCheck};
pub use difference::MachineLoss;
pub use document::GateAbout;
use plimsoll_machine::health::{HardwareFault, Health};
use plimsoll_machine::{CpuSet, Machine, Others, Virtualisation};
use plimsoll_model::case::Case;
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_model::sample::{FailureCause as Lost, WrongAnswer, WrongAnswerSource};
pub use plimsoll_stats::MISSED;
pub use threshold::{Threshold, ThresholdSource};
pub use usual::{UsualFigures, is_same_machine};
pub use verdict::{GateAnswer, GateVerdict};

use crate::cause::Quota;

/// Error rates of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Probability that a gate on a usual machine answers "sick", 0 to 1.
    pub false_alarms: f64,
    /// Loss to be found, as a share of the usual figure: 0.1 is 10 %.
    pub loss: f64,
}

/// Consecutive measurements without evidence after which a check is given up.
const IN_VAIN: usize = 5;

/// A case that is not judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Unjudged {
    /// The case.
    pub case: Case,
    /// Reason, for the user.
    pub why: String,
    /// Whether the case is measured anyway.
    pub is_measured: bool,
    /// Whether its measurement failed, so that the verdict is "unknown".
    pub failed: bool,
}

/// All checks of one gate.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Checks, in the order of the cases.
    pub checks: Vec<FigureCheck>,
    /// Cases without a check.
    pub unjudged: Vec<Unjudged>,
    /// Error rates.
    pub rates: Rates,
    /// Differences from the usual machine that need no measurement, and new settings.
    pub differences: Vec<MachineLoss>,
    /// Hardware faults that the system reports.
    pub faults: Vec<HardwareFault>,
    /// Wrong answers that this machine computed.
    pub wrong: Vec<WrongAnswer>,
    /// Whether a signal ended the gate before its time was over.
    pub interrupted: bool,
    /// Cases that prove CPUs, which have no threshold.
    pub proofs: Vec<Case>,
    /// CPUs that computed every answer of these cases rightly.
    pub proven: CpuSet,
    /// Health of this machine in its latest earlier run.
    before: Option<Health>,
    /// Whether other guests or containers may share the hardware.
    pub shares: bool,
    quota: Quota,
    /// Known usual figures, in order of preference.
    usual: Vec<UsualFigures>,
    machine: Machine,
}

impl Gate {
    /// Creates the checks of `cases` on `machine`. The threshold of a case comes from the first
    /// element of `usual` that has figures for the case.
    pub fn new(cases: &[Case], machine: &Machine, usual: &[UsualFigures], rates: Rates) -> Self {
        let mut made: Vec<(Case, CheckedQuantity, Threshold)> = Vec::new();
        let mut unjudged = Vec::new();
        let latest = usual.first();
        let quota = latest.unwrap_or(&UsualFigures::default()).quota(machine);
        let (proofs, cases): (Vec<Case>, Vec<Case>) =
            cases.iter().cloned().partition(plimsoll_bench::proves_cpus);
        for case in cases {
            match check::thresholds(&case, usual, quota, rates.loss) {
                Ok(all) => made.extend(all.into_iter().map(|(what, it)| (case.clone(), what, it))),
                Err(why) => unjudged.push(Unjudged { case, why, is_measured: true, failed: false }),
            }
        }
        // Bonferroni: each check gets an equal part of the false alarms.
        let each = rates.false_alarms / made.len().max(1) as f64;
        let mut checks = Vec::new();
        for (case, what, threshold) in made {
            match FigureCheck::new(case, what, threshold, each) {
                Ok(check) => checks.push(check),
                Err(it) => unjudged.push(it),
            }
        }
        let Virtualisation { is_virtual, container, .. } = &machine.virtualisation;
        Self {
            checks,
            unjudged,
            rates,
            differences: latest.map(|usual| usual.differences(machine)).unwrap_or_default(),
            faults: Vec::new(),
            wrong: Vec::new(),
            interrupted: false,
            proofs,
            proven: CpuSet::default(),
            before: usual.iter().find_map(|usual| usual.health.clone()),
            shares: *is_virtual != Some(false) || container.is_some(),
            quota,
            usual: usual.to_vec(),
            machine: machine.clone(),
        }
    }

    /// Records the first measurement of each case. Cases with a low figure stay open and are to be
    /// measured again. `interrupted`: the user ended the run before all cases were measured.
    pub fn record_first(&mut self, measurements: &[Measurement], interrupted: bool) {
        let missing = if interrupted { "it was interrupted" } else { "the time of the gate was over" };
        let in_time = |made: &&Measurement| made.cause != Some(Lost::OutOfTime);
        let made = |case: &Case| measurements.iter().filter(in_time).find(|made| made.case == *case);
        let is_on_files = |made: &Measurement| plimsoll_bench::subsystem_of(&made.case).on_files;
        for one in self.unjudged.iter_mut().filter(|one| one.is_measured) {
            let why = match made(&one.case) {
                None => Some(missing.to_owned()),
                // A requested disk without figures is not known to be healthy.
                Some(made) => made.reason.clone().filter(|_| {
                    made.status == Status::Failed || made.status == Status::Skipped && is_on_files(made)
                }),
            };
            if let Some(why) = why {
                (one.why, one.failed) = (why, true);
            }
        }
        for case in &self.proofs {
            let why = match made(case) {
                Some(made) if made.status == Status::Ok => {
                    let cpus = plimsoll_bench::cpus_of_case(&self.machine, case);
                    cpus.into_iter().for_each(|cpu| self.proven.insert(cpu));
                    continue;
                }
                made => made.and_then(|made| made.reason.clone()).unwrap_or_else(|| missing.to_owned()),
            };
            self.unjudged.push(Unjudged { case: case.clone(), why, is_measured: true, failed: true });
        }
        for check in &mut self.checks {
            match made(&check.case) {
                Some(measurement) => {
                    check.record_first(measurement, self.quota, is_alone(measurement, &self.machine));
                }
                None => check.state = CheckProgress::Failed(missing.to_owned()),
            }
        }
        for measurement in measurements {
            self.add_setting(measurement);
            self.add_wrong(measurement);
        }
    }

    /// Records the measurement's wrong answer; not of a network, which other machines may cause.
    fn add_wrong(&mut self, measurement: &Measurement) {
        let wrong = measurement.wrong_answer.as_deref();
        self.wrong.extend(wrong.filter(|wrong| wrong.origin != WrongAnswerSource::Network).cloned());
    }

    /// Records a new setting, such as a rate limit, that keeps a case below its usual figure; once
    /// per kind of setting.
    fn add_setting(&mut self, measurement: &Measurement) {
        let (loss, machine) = (self.rates.loss, &self.machine);
        let setting = |usual: &UsualFigures| usual.new_limiting_setting(measurement, machine, loss);
        let Some(held) = self.usual.iter().find_map(setting).flatten() else { return };
        if self.differences.iter().all(|reported| reported.code() != held.code()) {
            self.differences.push(held);
        }
    }

    /// Returns the case to measure next: first each low case once, then the case nearest to a
    /// decision. `None` if all are decided or the machine is already sick.
    pub fn next(&self) -> Option<&Case> {
        self.nearest().filter(|_| !self.answers_sick()).map(|check| &check.case)
    }

    fn nearest(&self) -> Option<&FigureCheck> {
        let open = self.checks.iter().filter(|check| check.state == CheckProgress::Suspect);
        open.min_by_key(|check| if check.repetitions.is_empty() { 0 } else { check.needed_repetitions() })
    }

    /// Returns how many further measurements of the next case to spread over time, so that one
    /// disturbance does not hit all of them. 0 if spreading makes no difference.
    pub fn repetitions_to_spread(&self) -> usize {
        self.nearest().filter(|check| !check.is_low_by_own_quota()).map_or(0, FigureCheck::needed_repetitions)
    }

    /// Records a repeated measurement of a case and the CPU use of `others` during it.
    pub fn record_repetition(&mut self, measurement: &Measurement, others: &Others) {
        self.add_wrong(measurement);
        for check in &mut self.checks {
            if check.case == measurement.case && check.state == CheckProgress::Suspect {
                check.add(measurement, others, self.quota, is_alone(measurement, &self.machine));
            }
        }
    }

    fn answers_sick(&self) -> bool {
        !self.wrong.is_empty()
            || !self.differences.is_empty()
            || self.accusing_fault().is_some()
            || self.checks.iter().any(|check| check.shows_sick_machine(self.shares))
    }

    /// Returns the first fault that alone makes the machine sick. Wear and narrow slots do not.
    fn accusing_fault(&self) -> Option<&HardwareFault> {
        self.faults.iter().find(|fault| match fault {
            HardwareFault::EdacUncorrected { .. } | HardwareFault::NvmeCriticalWarning { .. } => true,
            fault => self.is_new(fault),
        })
    }

    /// Returns whether a narrow PCIe link or lost data is new since the latest earlier run; false
    /// without one. A slot may have fewer lanes by design, and drives keep their error count.
    fn is_new(&self, fault: &HardwareFault) -> bool {
        let Some(before) = &self.before else { return false };
        match fault {
            // Links are counted: addresses change. A bridge without its GPU no longer saves power.
            HardwareFault::PcieLink { what, now, possible, saves_power: false, .. } => {
                let is_such = |of: &HardwareFault, all: bool| {
                    matches!(of, HardwareFault::PcieLink { what: a, now: b, possible: c, saves_power, .. }
                        if (a, c.lanes) == (what, possible.lanes) && b.lanes <= now.lanes && (all || !saves_power))
                };
                let count =
                    |faults: &[HardwareFault], all| faults.iter().filter(|one| is_such(one, all)).count();
                count(&self.faults, false) > count(&before.faults(), true)
            }
            // The kernel renumbers drives at each boot, so no drive may have had this count.
            HardwareFault::NvmeMediaErrors { drive, count } => {
                before.drives.iter().any(|one| one.name == *drive)
                    && before.drives.iter().all(|one| one.smart.media_errors < *count)
            }
            _ => false,
        }
    }

    /// Returns the verdict on the measurements recorded so far.
    pub fn verdict(&self) -> GateVerdict {
        verdict::of(self)
    }
}

/// Returns whether nothing unseen can have used the measured resource (such as a disk or link).
fn is_alone(measurement: &Measurement, machine: &Machine) -> bool {
    (plimsoll_bench::subsystem_of(&measurement.case).is_alone)(measurement, machine)
}

#[cfg(test)]
mod tests;
