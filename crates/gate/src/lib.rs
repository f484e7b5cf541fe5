//! Whether a machine does what it usually does: `plimsoll gate`.
//!
//! Each case has one or more [`Check`]s, each with a figure below which a measurement is low. What is low is measured again until Wald's
//! sequential test ([`plimsoll_stats::Sequential`]) says that it is usual or that the loss is there. Thresholds come from the derived limit, from this
//! machine's own history or from its fleet ([`Usual`]); where none of them knows, nothing is judged. Pure: measurements in, a verdict out.
//!
//! A machine is sick where the loss is there and either a new quota causes it or nobody else can have taken what is missing; where it has less of
//! something than is usual ([`Difference`]); where it has a fault; or where an answer is wrong. What other processes, guests or containers may have taken makes it unknown,
//! never sick.
#![forbid(unsafe_code)]

mod cause;
mod check;
mod difference;
mod document;
mod threshold;
mod usual;
mod verdict;

pub use cause::Cause;
pub use check::{Check, State, What};
pub use difference::Difference;
pub use document::{About, Document, GATE_SCHEMA};
use plimsoll_machine::health::{Fault, Health};
use plimsoll_machine::{Machine, Others};
use plimsoll_model::case::Case;
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_model::sample::{Cause as Lost, WrongAnswer};
pub use plimsoll_stats::MISSED;
pub use threshold::{Source, Threshold};
pub use usual::{Usual, is_same};
pub use verdict::{Answer, Verdict};

use crate::cause::Quota;

/// How sure it must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The share of gates on usual machines that may call one sick.
    pub false_alarms: f64,
    /// The loss that is to be found, as a share: 0.1 is 10 %.
    pub loss: f64,
}

/// Codes of faults for which a machine is sick, whatever its figures are.
const DRAINING: [&str; 2] = ["edac-uncorrected", "nvme-critical-warning"];

/// Measurements in a row that say nothing, after which a check is given up.
const IN_VAIN: usize = 5;

/// A case that is measured and not judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Unjudged {
    /// The case.
    pub case: Case,
    /// Why.
    pub why: String,
    /// Whether it is measured all the same.
    pub is_measured: bool,
    /// Whether it was tried and failed: then the gate does not know.
    pub failed: bool,
}

/// All checks of one gate.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The checks, in the order of the cases.
    pub checks: Vec<Check>,
    /// Cases without a check.
    pub unjudged: Vec<Unjudged>,
    /// How sure it is.
    pub rates: Rates,
    /// What differs from what is usual without any measurement.
    pub differences: Vec<Difference>,
    /// Faults of the hardware that the system tells.
    pub faults: Vec<Fault>,
    /// Wrong answers that this machine gave.
    pub wrong: Vec<WrongAnswer>,
    /// What the latest earlier run of this machine kept of its health.
    before: Option<Health>,
    /// Whether others may share its hardware.
    shares: bool,
    /// Its CPU quota, against what it usually has.
    quota: Quota,
    /// What is known of its figures.
    usual: Vec<Usual>,
    machine: Machine,
}

impl Gate {
    /// The checks of these cases on this machine. `usual` is what is known of their figures; the first that knows a case is asked.
    pub fn new(cases: &[Case], machine: &Machine, usual: &[Usual], rates: Rates) -> Self {
        let mut made: Vec<(Case, What, Threshold)> = Vec::new();
        let mut unjudged = Vec::new();
        let quota = usual.first().unwrap_or(&Usual::default()).quota(machine);
        for case in cases {
            match check::thresholds(case, usual, quota, rates.loss) {
                Ok(thresholds) => {
                    made.extend(thresholds.into_iter().map(|(what, it)| (case.clone(), what, it)))
                }
                Err(why) => {
                    unjudged.push(Unjudged { case: case.clone(), why, is_measured: true, failed: false })
                }
            }
        }
        // Bonferroni: each check has its part of the false alarms.
        let each = rates.false_alarms / made.len().max(1) as f64;
        let mut checks = Vec::new();
        for (case, what, threshold) in made {
            match Check::new(case, what, threshold, each) {
                Ok(check) => checks.push(check),
                Err(it) => unjudged.push(it),
            }
        }
        Self {
            checks,
            unjudged,
            rates,
            differences: usual.first().map(|usual| usual.differences(machine)).unwrap_or_default(),
            faults: Vec::new(),
            wrong: Vec::new(),
            before: usual.iter().find_map(|usual| usual.health().cloned()),
            shares: may_share(machine),
            quota,
            usual: usual.to_vec(),
            machine: machine.clone(),
        }
    }

    /// Takes the first measurement of each case: what is not low passes, the rest is to be measured again. `interrupted`: somebody ended it
    /// before all were measured.
    pub fn screen(&mut self, measurements: &[Measurement], interrupted: bool) {
        let missing = if interrupted { "it was interrupted" } else { "the time of the gate was over" };
        // The budget of the run is the gate's own, and no option of its user.
        let in_time = |made: &&Measurement| made.cause != Some(Lost::OutOfTime);
        let made = |case: &Case| measurements.iter().filter(in_time).find(|made| made.case == *case);
        for one in self.unjudged.iter_mut().filter(|one| one.is_measured) {
            let why = match made(&one.case) {
                None => Some(missing.to_owned()),
                Some(made) if is_failed(made) => made.reason.clone(),
                Some(_) => None,
            };
            if let Some(why) = why {
                (one.why, one.failed) = (why, true);
            }
        }
        for check in &mut self.checks {
            match made(&check.case) {
                Some(measurement) => {
                    check.screen(measurement, self.quota, is_alone(measurement, &self.machine));
                }
                None => check.state = State::Failed(missing.to_owned()),
            }
        }
        for measurement in measurements {
            self.add_setting(measurement);
            self.add_wrong(measurement);
        }
    }

    /// Adds a wrong answer, unless a path to other machines gave it.
    fn add_wrong(&mut self, measurement: &Measurement) {
        let wrong = measurement.wrong_answer.as_deref().filter(|wrong| wrong.is_of_this_machine());
        self.wrong.extend(wrong.cloned());
    }

    /// Takes the setting that newly holds a case below what is usual. One that holds several cases is told once.
    fn add_setting(&mut self, measurement: &Measurement) {
        let (loss, machine) = (self.rates.loss, &self.machine);
        let held = self.usual.iter().find_map(|usual| usual.newly_held(measurement, machine, loss)).flatten();
        let is_told = |held: &Difference| self.differences.iter().any(|told| told.code() == held.code());
        self.differences.extend(held.filter(|held| !is_told(held)));
    }

    /// The case to be measured next: first each that is low, then the one that is nearest to being decided. None where all is known, or
    /// where the machine is sick already.
    pub fn next(&self) -> Option<&Case> {
        if self.answers_sick() {
            return None;
        }
        self.nearest().map(|check| &check.case)
    }

    /// The open check that is measured next.
    fn nearest(&self) -> Option<&Check> {
        let open = self.checks.iter().filter(|check| check.state == State::Suspect);
        open.min_by_key(|check| if check.rounds.is_empty() { 0 } else { check.needed() })
    }

    /// The fewest further measurements of the case that is next, where they should be spread over time: what disturbs one shall not disturb
    /// all. 0 where that makes no difference.
    pub fn spread(&self) -> usize {
        self.nearest().filter(|check| !check.is_stated()).map_or(0, Check::needed)
    }

    /// Takes a further measurement of a case, beside which others used the CPUs as `others` says.
    pub fn add(&mut self, measurement: &Measurement, others: &Others) {
        self.add_wrong(measurement);
        for check in &mut self.checks {
            if check.case == measurement.case && check.state == State::Suspect {
                check.add(measurement, others, self.quota, is_alone(measurement, &self.machine));
            }
        }
    }

    fn answers_sick(&self) -> bool {
        !self.wrong.is_empty()
            || !self.differences.is_empty()
            || self.accusing_fault().is_some()
            || self.checks.iter().any(|check| check.accuses(self.shares))
    }

    /// A fault for which a machine should get no work. What wears out or is slower by the way it is built is only told.
    fn accusing_fault(&self) -> Option<&Fault> {
        self.faults.iter().find(|fault| DRAINING.contains(&fault.code()) || self.is_new(fault))
    }

    /// Whether a narrow link or lost data was not there at the latest run of this machine. A slot may have fewer lanes by design, and a drive
    /// keeps its count for life, so without an earlier look at the same device they say nothing.
    fn is_new(&self, fault: &Fault) -> bool {
        let Some(before) = &self.before else { return false };
        match fault {
            // The kernel may give a device another address, and an idle link may be slower. So links of one kind that have as few lanes are
            // counted, and one more than before is new. A bridge that lost its GPU saves no power any more: of before, all are counted.
            Fault::PcieLink { what, now, possible, saves_power: false, .. } => {
                let is_such = |of: &Fault, all: bool| {
                    matches!(of, Fault::PcieLink { what: a, now: b, possible: c, saves_power, .. }
                        if (a, c.lanes) == (what, possible.lanes) && b.lanes <= now.lanes && (all || !saves_power))
                };
                let count = |faults: &[Fault], all| faults.iter().filter(|one| is_such(one, all)).count();
                count(&self.faults, false) > count(&before.faults(), true)
            }
            // The kernel numbers drives anew at each boot, so no drive may have had so many.
            Fault::NvmeMediaErrors { drive, count } => {
                before.drives.iter().any(|one| one.name == *drive)
                    && before.drives.iter().all(|one| one.smart.media_errors < *count)
            }
            _ => false,
        }
    }

    /// What it comes to, as far as it is known.
    pub fn verdict(&self) -> Verdict {
        verdict::of(self)
    }

    /// Whether others may take what this machine has: guests of the same hypervisor, containers of the same host.
    pub fn shares(&self) -> bool {
        self.shares
    }
}

/// Whether it was tried and could not be measured. The disk that was asked for is not known to be well without its figures.
fn is_failed(measurement: &Measurement) -> bool {
    let is_disk =
        || measurement.status == Status::Skipped && plimsoll_bench::subsystem_of(&measurement.case).on_files;
    measurement.status == Status::Failed || is_disk()
}

/// Whether nobody else can have used what a measurement is of without being seen.
fn is_alone(measurement: &Measurement, machine: &Machine) -> bool {
    (plimsoll_bench::subsystem_of(&measurement.case).is_alone)(measurement, machine)
}

/// Whether others may share the hardware: where it is not certain that nobody does.
fn may_share(machine: &Machine) -> bool {
    machine.virtualisation.is_virtual != Some(false) || machine.virtualisation.container.is_some()
}

#[cfg(test)]
mod tests;
