//! What is usual: figures of earlier runs of this machine, or of machines of its kind.

use std::collections::BTreeMap;

use crate::bench;
use crate::case::Case;
use crate::cause::Quota;
use crate::difference::{Difference, TIGHTER};
use crate::machine::Machine;
use crate::machine::health::Health;
use crate::measurement::Measurement;
use crate::metric::Better;
use crate::quantity::Quantity;
use crate::run::Run;
use crate::threshold::{LEAST, Source, Threshold};

/// Machines of a kind from which on they say what is usual.
const LEAST_MACHINES: usize = 5;

/// Figures by case, and what the machine that they are of has.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    figures: BTreeMap<String, Vec<f64>>,
    /// The tightest rate that a setting held a case to.
    settings: BTreeMap<String, f64>,
    machine: Option<Machine>,
    health: Option<Health>,
    is_fleet: bool,
}

impl Usual {
    /// Of runs of this machine, the oldest first. `None` without any.
    pub fn of_history(runs: &[Run]) -> Option<Self> {
        let latest = runs.last()?;
        Some(Self {
            figures: figures(runs, |_| true),
            settings: settings(runs, |_| true),
            machine: Some(latest.machine.clone()),
            health: latest.health.first().map(|one| one.shown.clone()),
            is_fleet: false,
        })
    }

    /// Of the machines of a gathered run that are of the kind of `machine`, this one itself left out.
    ///
    /// # Errors
    /// There are fewer than five of them.
    pub fn of_fleet(run: &Run, machine: &Machine) -> Result<Self, String> {
        let is_alike = |other: &Machine| other.id == machine.id;
        let of_others = |name: &str| Some(name) != machine.host.as_deref();
        let alike: Vec<&str> = run
            .nodes
            .iter()
            .filter(|node| is_alike(run.machine_of(node)) && of_others(&node.name))
            .map(|node| node.name.as_str())
            .collect();
        if alike.len() < LEAST_MACHINES {
            return Err(format!(
                "the fleet has {} of the kind of this machine, and {LEAST_MACHINES} are needed",
                crate::text::counted(alike.len(), "other machine")
            ));
        }
        let runs = std::slice::from_ref(run);
        let is_of = |node: &str| alike.contains(&node);
        let (figures, settings) = (figures(runs, is_of), settings(runs, is_of));
        let typical = run.nodes.iter().filter(|node| alike.contains(&node.name.as_str()));
        let machine = most_common(typical.map(|node| run.machine_of(node)));
        Ok(Self { figures, settings, machine: machine.cloned(), health: None, is_fleet: true })
    }

    /// The threshold of a case; `None` where no figure of it is known.
    pub(super) fn threshold(
        &self,
        case: &Case,
        better: Better,
        loss: f64,
    ) -> Option<Result<Threshold, String>> {
        let values = self.figures.get(case.id().as_str())?;
        let source = |count| match self.is_fleet {
            true => Source::Fleet { machines: count },
            false => Source::History { runs: count },
        };
        Some(Threshold::usual(values, better, loss, source))
    }

    /// The health of this machine at its latest run.
    pub(super) fn health(&self) -> Option<&Health> {
        self.health.as_ref()
    }

    /// The setting that holds a case below what is usual, where none did so when that was measured. It needs no figure that is low: short samples may
    /// pass it, and what is usual may differ by chance. `None` where no figures of the case are known.
    pub(super) fn newly_held(
        &self,
        measurement: &Measurement,
        machine: &Machine,
        loss: f64,
    ) -> Option<Option<Difference>> {
        let id = measurement.case.id().to_string();
        let figures = self.figures.get(id.as_str()).filter(|figures| figures.len() >= LEAST)?;
        let usual = crate::stats::median(figures.clone())?;
        let held = || {
            let now = (bench::subsystem_of(&measurement.case).setting)(measurement, machine)?;
            let rate = now.rate.value;
            let is_tighter = self.settings.get(&id).is_none_or(|before| rate < before * TIGHTER);
            let is_refuted = measurement.headline().is_some_and(|it| now.is_refuted_by(it.summary.median));
            let is_low = rate < usual * (1.0 - loss).sqrt();
            let usual = Quantity { value: usual, unit: now.rate.unit };
            (is_tighter && is_low && !is_refuted).then_some(Difference::Setting { now, usual })
        };
        Some(held())
    }

    /// The CPU quota of this machine, against what it had when this was measured.
    pub(super) fn quota(&self, machine: &Machine) -> Quota {
        let cpus = |machine: &Machine| machine.cgroup.cpu_quota.as_ref().map(|quota| quota.cpus());
        let (now, before) = (cpus(machine), self.machine.as_ref().and_then(cpus));
        match now.zip(before) {
            Some((now, before)) if now >= before * TIGHTER => Quota::Usual,
            _ => Quota::New(now),
        }
    }

    /// What this machine lacks of what is usual.
    pub(super) fn differences(&self, machine: &Machine) -> Vec<Difference> {
        let before = if self.is_fleet { "others" } else { "before" };
        self.machine.as_ref().map(|usual| Difference::between(usual, machine, before)).unwrap_or_default()
    }
}

/// The headlines by case.
fn figures(runs: &[Run], is_of: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for measurement in runs.iter().flat_map(|run| &run.measurements).filter(|m| is_of(&m.node)) {
        if let Some(headline) = measurement.headline() {
            all.entry(measurement.case.id().to_string()).or_default().push(headline.summary.median);
        }
    }
    all
}

/// The tightest rate that a setting held each case to.
fn settings(runs: &[Run], is_of: impl Fn(&str) -> bool) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for run in runs {
        for measurement in run.measurements.iter().filter(|m| is_of(&m.node)) {
            let machine = run.nodes.iter().find(|node| node.name == measurement.node);
            let machine = machine.map_or(&run.machine, |node| run.machine_of(node));
            if let Some(setting) = (bench::subsystem_of(&measurement.case).setting)(measurement, machine) {
                let rate = setting.rate.value;
                all.entry(measurement.case.id().to_string())
                    .and_modify(|tightest: &mut f64| *tightest = tightest.min(rate))
                    .or_insert(rate);
            }
        }
    }
    all
}

/// The one whose CPUs and quota most have.
fn most_common<'a>(machines: impl Iterator<Item = &'a Machine>) -> Option<&'a Machine> {
    let mut kinds: BTreeMap<(usize, u64), (usize, &Machine)> = BTreeMap::new();
    for machine in machines {
        let quota = machine.cgroup.cpu_quota.as_ref().map_or(0, |quota| (quota.cpus() * 100.0) as u64);
        kinds.entry((machine.cpu.allowed.len(), quota)).or_insert((0, machine)).0 += 1;
    }
    kinds.into_values().max_by_key(|(count, _)| *count).map(|(_, machine)| machine)
}
