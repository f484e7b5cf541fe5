use std::time::Duration;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::clock::named_maximum_hz;
use plimsoll_metal::sliced::{SliceEnd, Sliced, SlicedError, SlicedLoad, TeamOutcome};
use plimsoll_metal::team::{Team, TeamMember};

use super::how::{clocks_of, kinds, note_threads};
use super::warning::CpuWarning;
use plimsoll_bench_api::distances::NeighbourDistances;
use plimsoll_machine::cgroup::CpuQuota;
use plimsoll_machine::cpu::CoreKind;
use plimsoll_model::sample::ExcludedBy;
use plimsoll_model::warning::Note;

const MAX_SECONDS: f64 = 1e6;

const MAX_RETRIES: usize = 20;

/// Factor by which a core may seem to exceed its maximum clock (uncertainty).
const ABOVE_MAXIMUM: f64 = 1.02;

#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    /// Operations or bytes per turn of the load.
    pub(super) counted: u64,
    /// Turns per thread and sample, if fixed.
    pub(super) fixed: Option<u64>,
}

pub(super) struct Slices<L> {
    sliced: Sliced<L>,
    turns: Turns,
    quota: Option<CpuQuota>,
    distances: Option<NeighbourDistances>,
    warm: bool,
    /// Number of cores; `None` if a hypervisor hides that some CPUs share a core.
    pub(super) cores: Option<usize>,
    facts: Facts,
    kinds: Vec<CoreKind>,
    /// Highest clock of a sample, in Hz.
    fastest: Option<f64>,
}

impl<L: SlicedLoad> Slices<L> {
    pub(super) fn prepare(
        machine: &Machine,
        cpus: &[usize],
        turns: Turns,
        make: impl Fn(TeamMember<'_>) -> L + Sync,
    ) -> Result<Self, CannotMeasure> {
        let team = Team::new(cpus)?;
        let sliced = Sliced::prepare(team, make).map_err(CannotMeasure::environment)?;
        let set: CpuSet = cpus.iter().copied().collect();
        let quota = machine.cgroup.cpu_quota.clone().filter(|quota| quota.cpus() < set.len() as f64);
        let mut facts = Facts::default();
        note_threads(&mut facts, machine, cpus);
        let hidden = machine.cpu.hidden_among(&set);
        let cores = hidden.is_empty().then(|| machine.cpu.cores_of(&set).unwrap_or(set.len()).max(1));
        facts.warnings.extend(cores.is_none().then(|| Note::from(CpuWarning::HiddenSiblings(hidden))));
        Ok(Self {
            sliced,
            turns,
            distances: quota
                .is_none()
                .then(|| NeighbourDistances::of(machine, crate::SUBSYSTEM.topology, cpus)),
            quota,
            warm: false,
            cores,
            facts,
            kinds: kinds(machine, &set),
            fastest: None,
        })
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = (usize, &L)> {
        self.sliced.cpus().iter().copied().zip(self.sliced.loads())
    }

    pub(super) fn measure(&mut self, amount: SampleAmount) -> Result<TeamOutcome, CannotMeasure> {
        let until = self.until(amount);
        let outcome = self.sliced.measure_repeatedly(until, MAX_RETRIES);
        let outcome = outcome.map_err(|error| CannotMeasure::environment(self.why(&error)))?;
        self.fastest = self.fastest.into_iter().chain(outcome.clock_hz()).reduce(f64::max);
        Ok(outcome)
    }

    /// Returns operations or bytes per second of undisturbed slices, under a CPU quota of all.
    pub(super) fn rate(&self, outcome: &TeamOutcome) -> f64 {
        if self.quota.is_some() { self.delivered(outcome) } else { self.undisturbed(outcome) }
    }

    /// Returns operations or bytes per second of the slices in which nothing disturbed the threads.
    pub(super) fn undisturbed(&self, outcome: &TeamOutcome) -> f64 {
        outcome.turns_per_second() * self.turns.counted as f64
    }

    /// Returns operations or bytes per second of all slices, including disturbed slices.
    fn delivered(&self, outcome: &TeamOutcome) -> f64 {
        outcome.delivered_turns_per_second * self.turns.counted as f64
    }

    pub(super) fn conditions(&mut self, outcome: &TeamOutcome) -> Conditions {
        let clocks: Vec<_> = outcome.cpus.iter().map(|cpu| (cpu.cpu, cpu.clock_hz)).collect();
        Conditions {
            clock_hz: outcome.clock_hz(),
            // Under a quota the result is the delivered rate and excludes nothing.
            excluded: self.quota.is_none().then(|| outcome.excluded_share()),
            delivered: Some(self.delivered(outcome)),
            excluded_by: ExcludedBy::of(&outcome.causes()),
            vector_units_shared: outcome.units_shared(),
            core_to_core: self.distances.as_mut().and_then(|distances| distances.probe(outcome.clock_hz())),
            more: clocks_of(&self.kinds, &clocks),
            ..Conditions::default()
        }
    }

    pub(super) fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        facts.warnings.extend(self.distances.as_ref().and_then(NeighbourDistances::warning).map(Note::from));
        facts.warnings.extend(self.fastest.and_then(above_maximum).map(Note::from));
        facts.warnings.extend(self.sliced.clock_unknown().map(|why| CpuWarning::ClockUnknown(why).into()));
        facts
    }

    /// Returns `seconds` rounded up to whole periods of the CPU quota, for equal shares per sample.
    fn whole_periods(&self, seconds: f64) -> Duration {
        let period = self.quota.as_ref().map_or(0.0, |quota| quota.period_us as f64 * 1e-6);
        let seconds = seconds.clamp(0.0, MAX_SECONDS);
        Duration::from_secs_f64(if period > 0.0 { (seconds / period).ceil() * period } else { seconds })
    }

    fn until(&mut self, amount: SampleAmount) -> SliceEnd {
        let first = !std::mem::replace(&mut self.warm, true);
        match (amount, self.turns.fixed) {
            (_, Some(turns)) if !first => SliceEnd::Turns(turns),
            // Loop iterations per thread for at least `amount` operations over all threads.
            (SampleAmount::Work(amount), _) => {
                let per_turn = self.turns.counted.saturating_mul(self.sliced.cpus().len() as u64);
                SliceEnd::Turns(amount.div_ceil(per_turn.max(1)).max(1))
            }
            (SampleAmount::Seconds(seconds), _) => SliceEnd::Elapsed(self.whole_periods(seconds)),
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

fn above_maximum(clock_hz: f64) -> Option<CpuWarning> {
    let maximum_hz = named_maximum_hz().filter(|maximum| clock_hz > maximum * ABOVE_MAXIMUM)?;
    Some(CpuWarning::AboveMaximum { clock_hz, maximum_hz })
}
