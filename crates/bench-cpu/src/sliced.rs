//! What CPU cases share whose work is cut into slices (`plimsoll_metal::sliced`): threads and their quota, how much a sample
//! does, the conditions of a sample, and what is to be known beside its figure.

use std::time::Duration;

use plimsoll_metal::clock::named_maximum_hz;
use plimsoll_metal::sliced::{Load, Outcome, Sliced, SlicedError, Until};
use plimsoll_metal::team::{Member, Team};

use super::fact::CPUS;
use super::how::{clocks_of, kinds, siblings};
use super::warning::CpuWarning;
use plimsoll_bench_api::apart::Apart;
use plimsoll_machine::cgroup::CpuQuota;
use plimsoll_machine::cpu::CoreKind;
use plimsoll_machine::{CpuSet, Machine};
use plimsoll_model::sample::{Amount, CannotMeasure, Conditions, ExcludedBy, Facts};
use plimsoll_model::warning::{Note, Warning};

/// Longest sample that is asked of the slices; far longer than any plan.
const MAX_SECONDS: f64 = 1e6;

/// How often a sample without one undisturbed slice is taken again before the case is given up: short samples on a busy
/// machine often have none.
const AGAIN: usize = 20;

/// Share by which a core may run faster than the maximum that it names, by the uncertainty of both.
const ABOVE_MAXIMUM: f64 = 1.02;

/// How much work a sample has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    /// What a turn of the load counts.
    pub(super) counted: u64,
    /// Turns of each thread in each sample, where the amount is fixed.
    pub(super) fixed: Option<u64>,
}

/// A load on every thread of a pinned team.
pub(super) struct Slices<L> {
    sliced: Sliced<L>,
    turns: Turns,
    /// A quota that gives less time than the CPUs have.
    quota: Option<CpuQuota>,
    apart: Option<Apart>,
    /// Whether the warm-up is over.
    warm: bool,
    cores: usize,
    siblings: Vec<CpuSet>,
    /// Those that the kernel does not show.
    hidden: Vec<CpuSet>,
    /// The kinds of core that the threads are on, where there are several on this machine.
    kinds: Vec<CoreKind>,
    /// The highest clock of a sample, in Hz.
    fastest: Option<f64>,
}

impl<L: Load> Slices<L> {
    /// Pins a thread to each of the CPUs and makes a load on each.
    ///
    /// # Errors
    /// That threads could not be pinned, or a load panicked.
    pub(super) fn prepare(
        machine: &Machine,
        cpus: &[usize],
        turns: Turns,
        make: impl Fn(Member<'_>) -> L + Sync,
    ) -> Result<Self, CannotMeasure> {
        let team = Team::new(cpus).map_err(|error| CannotMeasure::environment(error.to_string()))?;
        let sliced =
            Sliced::prepare(team, make).map_err(|error| CannotMeasure::environment(error.to_string()))?;
        let set: CpuSet = cpus.iter().copied().collect();
        let quota = machine.cgroup.cpu_quota.clone().filter(|quota| quota.cpus() < set.len() as f64);
        Ok(Self {
            sliced,
            turns,
            // A look would be taken from the quota.
            apart: quota.is_none().then(|| Apart::of(machine, crate::SUBSYSTEM.stay, cpus)),
            quota,
            warm: false,
            cores: machine.cpu.cores_of(&set).unwrap_or(set.len()),
            siblings: siblings(machine, &set),
            hidden: machine.cpu.hidden_among(&set),
            kinds: kinds(machine, &set),
            fastest: None,
        })
    }

    /// The cores that the threads are on; `None` where the host may have moved CPUs that shared one.
    pub(super) fn cores(&self) -> Option<usize> {
        self.hidden.is_empty().then_some(self.cores.max(1))
    }

    /// The CPU of each thread, with its load.
    pub(super) fn loads(&self) -> impl Iterator<Item = (usize, &L)> {
        self.sliced.cpus().iter().copied().zip(self.sliced.loads())
    }

    /// Does one sample.
    pub(super) fn measure(&mut self, amount: Amount) -> Result<Outcome, CannotMeasure> {
        let until = self.until(amount);
        let mut outcome = self.sliced.measure(until);
        for _ in 0..AGAIN {
            if !matches!(outcome, Err(SlicedError::AllDisturbed { .. })) {
                break;
            }
            outcome = self.sliced.measure(until);
        }
        let outcome = outcome.map_err(|error| CannotMeasure::environment(self.why(&error)))?;
        self.fastest = self.fastest.into_iter().chain(outcome.clock_hz()).reduce(f64::max);
        Ok(outcome)
    }

    /// What was counted in a second: without what was interrupted, or, where a quota gives less than the CPUs, what it gave.
    pub(super) fn rate(&self, outcome: &Outcome) -> f64 {
        if self.quota.is_some() { self.delivered(outcome) } else { self.undisturbed(outcome) }
    }

    /// The same without interruptions.
    pub(super) fn undisturbed(&self, outcome: &Outcome) -> f64 {
        outcome.turns_per_second() * self.turns.counted as f64
    }

    /// What the program got, disturbed slices and all.
    fn delivered(&self, outcome: &Outcome) -> f64 {
        outcome.delivered_turns_per_second * self.turns.counted as f64
    }

    /// What held while the sample was taken.
    pub(super) fn conditions(&mut self, outcome: &Outcome) -> Conditions {
        let clocks: Vec<_> = outcome.cpus.iter().map(|cpu| (cpu.cpu, cpu.clock_hz)).collect();
        Conditions {
            clock_hz: outcome.clock_hz(),
            // Under a quota the figure is what was delivered, and leaves nothing out.
            excluded: self.quota.is_none().then(|| outcome.set_aside()),
            delivered: Some(self.delivered(outcome)),
            excluded_by: ExcludedBy::of(&outcome.causes()),
            vector_units_shared: outcome.units_shared(),
            core_to_core: self.apart.as_mut().and_then(|apart| apart.look(outcome.clock_hz())),
            more: clocks_of(&self.kinds, &clocks),
            ..Conditions::default()
        }
    }

    /// Tells where the threads ran and what bounds them.
    pub(super) fn tell(&self, facts: &mut Facts) {
        let threads = self.sliced.cpus().len();
        let cpus: CpuSet = self.sliced.cpus().iter().copied().collect();
        let distinct = cpus.len();
        facts.achieved.set(&CPUS, cpus.iter().collect::<Vec<_>>());
        facts.warnings.extend(self.apart.as_ref().and_then(Apart::warning).map(Note::from));
        if threads > distinct {
            facts.warnings.push(Warning::MoreThreadsThanCpus { threads, cpus: distinct }.into());
        }
        if let Some(quota) = &self.quota {
            facts.warnings.push(Warning::CpuQuota { cpus: quota.cpus() }.into());
        }
        if !self.siblings.is_empty() {
            facts.warnings.push(CpuWarning::SmtSiblings(self.siblings.clone()).into());
        }
        if !self.hidden.is_empty() {
            facts.warnings.push(CpuWarning::HiddenSiblings(self.hidden.clone()).into());
        }
        facts.warnings.extend(self.fastest.and_then(above_maximum).map(Note::from));
        let clock_unknown = self.sliced.clock_unknown().map(CpuWarning::ClockUnknown);
        facts.warnings.extend(clock_unknown.map(Note::from));
    }

    /// Turns on each thread that count at least `amount` over all threads.
    fn turns(&self, amount: u64) -> u64 {
        let per_turn = self.turns.counted.saturating_mul(self.sliced.cpus().len() as u64);
        amount.div_ceil(per_turn.max(1)).max(1)
    }

    /// A time of at least `seconds` that has whole periods of the quota, so that each sample has its share of it.
    fn whole_periods(&self, seconds: f64) -> Duration {
        let period = self.quota.as_ref().map_or(0.0, |quota| quota.period_us as f64 * 1e-6);
        let seconds = seconds.clamp(0.0, MAX_SECONDS);
        Duration::from_secs_f64(if period > 0.0 { (seconds / period).ceil() * period } else { seconds })
    }

    fn until(&mut self, amount: Amount) -> Until {
        let first = !std::mem::replace(&mut self.warm, true);
        match (amount, self.turns.fixed) {
            (_, Some(turns)) if !first => Until::Turns(turns),
            (Amount::Work(amount), _) => Until::Turns(self.turns(amount)),
            (Amount::Seconds(seconds), _) => Until::Elapsed(self.whole_periods(seconds)),
        }
    }

    fn why(&self, error: &SlicedError) -> String {
        match (&self.quota, error) {
            (Some(quota), SlicedError::AllDisturbed { cpu, slices }) => format!(
                "CPU {cpu}: none of {slices} slices can be used, because a cgroup quota allows the time of {:.2} CPUs; raise it, or use a longer --sample-time",
                quota.cpus()
            ),
            _ => error.to_string(),
        }
    }
}

/// A warning where a core seems to run faster than the maximum that it names.
fn above_maximum(clock_hz: f64) -> Option<CpuWarning> {
    let maximum_hz = named_maximum_hz().filter(|maximum| clock_hz > maximum * ABOVE_MAXIMUM)?;
    Some(CpuWarning::AboveMaximum { clock_hz, maximum_hz })
}
