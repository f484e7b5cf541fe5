//! What is usual: figures of earlier runs of this machine, or of machines of its kind.

use std::collections::BTreeMap;

use crate::case::Case;
use crate::difference::Difference;
use crate::machine::Machine;
use crate::machine::health::Health;
use crate::metric::Better;
use crate::run::Run;
use crate::threshold::{Source, Threshold};

/// Machines of a kind from which on they say what is usual.
const LEAST_MACHINES: usize = 5;

/// Figures by case, and what the machine that they are of has.
#[derive(Clone, Debug)]
pub struct Usual {
    figures: BTreeMap<String, Vec<f64>>,
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
        let figures = figures(std::slice::from_ref(run), |node| alike.contains(&node));
        let typical = run.nodes.iter().filter(|node| alike.contains(&node.name.as_str()));
        let machine = most_common(typical.map(|node| run.machine_of(node)));
        Ok(Self { figures, machine: machine.cloned(), health: None, is_fleet: true })
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

/// The one whose CPUs and quota most have.
fn most_common<'a>(machines: impl Iterator<Item = &'a Machine>) -> Option<&'a Machine> {
    let mut kinds: BTreeMap<(usize, u64), (usize, &Machine)> = BTreeMap::new();
    for machine in machines {
        let quota = machine.cgroup.cpu_quota.as_ref().map_or(0, |quota| (quota.cpus() * 100.0) as u64);
        kinds.entry((machine.cpu.allowed.len(), quota)).or_insert((0, machine)).0 += 1;
    }
    kinds.into_values().max_by_key(|(count, _)| *count).map(|(_, machine)| machine)
}
