use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::health::Health;
use plimsoll_machine::{Machine, Virtualisation};
use plimsoll_model::case::Case;
use plimsoll_model::measurement::Measurement;
use plimsoll_model::metric::Better;
use plimsoll_result::document::{Node, Run};
use plimsoll_units::quantity::Quantity;
use plimsoll_units::text::format_count;

use crate::cause::Quota;
use crate::difference::{MachineLoss, TIGHTER};
use crate::threshold::{MIN_USUAL_COUNT, Threshold, ThresholdSource};

const LEAST_MACHINES: usize = 5;

/// Usual figures by case, and usual resources of the machine.
#[derive(Clone, Debug, Default)]
pub struct UsualFigures {
    figures: BTreeMap<String, Vec<f64>>,
    /// Rates that settings limited each case to; infinite without a setting.
    settings: BTreeMap<String, Vec<f64>>,
    /// CPU quotas, in CPUs; infinite without a quota.
    quotas: Vec<f64>,
    machine: Option<Machine>,
    pub(super) health: Option<Health>,
    is_fleet: bool,
}

impl UsualFigures {
    /// Collects the usual figures of `machine` from its earlier `runs`, the oldest first, without
    /// cases on files if its disks have changed. `None` without runs.
    pub fn from_history(runs: &[Run], machine: &Machine) -> Option<Self> {
        let latest = runs.last()?;
        Some(Self {
            quotas: runs.iter().map(|run| quota(&run.machine)).collect(),
            machine: Some(latest.machine.clone()),
            health: latest.health.first().map(|one| one.shown.clone()),
            ..Self::of_nodes(runs, machine, |_| true)
        })
    }

    /// Collects figures and configured rate limits (infinite: none) from nodes of `runs` whose
    /// names `is_of` accepts. Excludes cases on files if the disks differ from those of `now`.
    fn of_nodes(runs: &[Run], now: &Machine, is_of: impl Fn(&str) -> bool) -> Self {
        let mut all = Self::default();
        for run in runs {
            for measurement in run.measurements.iter().filter(|made| is_of(&made.node)) {
                let subsystem = plimsoll_bench::subsystem_of(&measurement.case);
                let node = run.nodes.iter().find(|node| node.name == measurement.node);
                let machine = node.map_or(&run.machine, |node| run.machine_of(node));
                if subsystem.on_files && !has_such_disks(machine, now) {
                    continue;
                }
                let id = measurement.case.id().to_string();
                if let Some(headline) = measurement.headline() {
                    all.figures.entry(id.clone()).or_default().push(headline.summary.median);
                }
                let setting = (subsystem.setting)(measurement, machine);
                let rate = setting.map_or(f64::INFINITY, |setting| setting.rate.value);
                all.settings.entry(id).or_default().push(rate);
            }
        }
        all
    }

    /// Collects usual figures from the nodes of `run` with the kind of `machine`, without `machine`
    /// itself. If a node is `machine` at an earlier time, it gives the kind, because CPUs or memory
    /// may be lost since. Fails with fewer than five such nodes.
    pub fn from_fleet(run: &Run, machine: &Machine) -> Result<Self, String> {
        let then = node_by_host(run, machine).map(|node| run.machine_of(node));
        let kind = &then.filter(|then| is_same_machine(then, machine)).unwrap_or(machine).id;
        let others = run.nodes.iter().filter(|node| !is_own(run, node, machine));
        let alike: BTreeSet<&str> =
            others.filter(|node| run.machine_of(node).id == *kind).map(|node| node.name.as_str()).collect();
        if alike.len() < LEAST_MACHINES {
            return Err(format!(
                "it has {} of the kind of this one, and {LEAST_MACHINES} are required",
                format_count(alike.len(), "other machine")
            ));
        }
        let is_of = |node: &str| alike.contains(node);
        let typical = || run.nodes.iter().filter(|node| is_of(&node.name)).map(|node| run.machine_of(node));
        Ok(Self {
            quotas: typical().map(quota).collect(),
            machine: typical_machine(typical(), machine),
            is_fleet: true,
            ..Self::of_nodes(std::slice::from_ref(run), machine, is_of)
        })
    }

    /// Returns the threshold of a case for detecting the lost share `loss` (0 to 1), or why its
    /// figures define none; `None` if no figure of the case is known.
    pub(super) fn threshold(
        &self,
        case: &Case,
        better: Better,
        loss: f64,
    ) -> Option<Result<Threshold, String>> {
        let values = self.figures.get(case.id().as_str())?;
        let source = |count| match self.is_fleet {
            true => ThresholdSource::Fleet { machines: count },
            false => ThresholdSource::History { runs: count },
        };
        Some(Threshold::usual(values, better, loss, source))
    }

    /// Returns the new setting that limits a case below √(1 − `loss`) of its usual figure, even if
    /// the measured figure is not low: short samples may exceed the rate. Outer `None`: too few
    /// known figures. Inner `None`: no such setting.
    pub(super) fn new_limiting_setting(
        &self,
        measurement: &Measurement,
        machine: &Machine,
        loss: f64,
    ) -> Option<Option<MachineLoss>> {
        let id = measurement.case.id().to_string();
        let figures = self.figures.get(id.as_str()).filter(|figures| figures.len() >= MIN_USUAL_COUNT)?;
        let usual = plimsoll_stats::median(figures.clone())?;
        let held = || {
            let now = (plimsoll_bench::subsystem_of(&measurement.case).setting)(measurement, machine)?;
            let headline = measurement.headline()?;
            // √(1 − loss) as a logarithm.
            let low = (1.0 - loss).ln() / 2.0;
            let is_low = |value: f64| headline.better.gain((value / usual).ln()) < low;
            let before = self.settings.get(&id).and_then(|rates| plimsoll_stats::median(rates.clone()));
            let is_tighter = before.is_none_or(|before| now.rate.value < before * TIGHTER);
            let figure = headline.summary.median;
            let is_refuted = now.is_refuted_by(figure, is_low(figure));
            let usual = Quantity { value: usual, unit: headline.unit };
            (is_tighter && is_low(now.bound.value) && !is_refuted)
                .then_some(MachineLoss::Setting { now, usual })
        };
        Some(held())
    }

    pub(super) fn quota(&self, machine: &Machine) -> Quota {
        let now = quota(machine);
        let usual = plimsoll_stats::median(self.quotas.clone())
            .filter(|usual| self.quotas.len() >= MIN_USUAL_COUNT && usual.is_finite());
        match usual.is_some_and(|usual| now >= usual * TIGHTER) {
            true => Quota::Usual,
            false => Quota::New(Some(now).filter(|cpus| cpus.is_finite())),
        }
    }

    pub(super) fn differences(&self, machine: &Machine) -> Vec<MachineLoss> {
        let before = if self.is_fleet { "in the fleet" } else { "before" };
        let all = self.machine.iter().flat_map(|usual| MachineLoss::find_losses(usual, machine, before));
        let is_usual = self.quota(machine) == Quota::Usual;
        all.filter(|one| !is_usual || !matches!(one, MachineLoss::Quota { .. })).collect()
    }
}

/// Returns whether `before` and `now`, which must have the same host name, describe one machine: by
/// equal IDs, or by equal CPU model and virtualisation with no other instance type. The number of
/// CPUs and the memory may differ, because the machine may have lost some.
pub fn is_same_machine(before: &Machine, now: &Machine) -> bool {
    let facts = |machine: &Machine| {
        // Excluded: evidence (its wording may change) and instance type (not always known).
        let all = Virtualisation { instance: None, evidence: Vec::new(), ..machine.virtualisation.clone() };
        (machine.cpu.vendor.clone(), machine.cpu.model_name.clone(), all)
    };
    let instances = [before, now].map(|machine| machine.virtualisation.instance.as_ref());
    let is_resized = matches!(instances, [Some(before), Some(now)] if before != now);
    before.id == now.id || (facts(before) == facts(now) && !is_resized)
}

/// Returns whether file system, layers and disks of two machines are equal in kind, model and size.
/// If not, disk figures of one are no measure for the other.
fn has_such_disks(then: &Machine, now: &Machine) -> bool {
    let kinds = |machine: &Machine| {
        let storage = machine.storage.as_ref()?;
        let file_system = storage.file_system.as_ref().map(|file_system| file_system.fs_type.clone());
        let layers: Vec<_> = storage.layers.iter().map(|layer| layer.kind).collect();
        let disks = storage.disks.iter().map(|disk| (disk.model.clone(), disk.size_bytes, disk.kind));
        let mut disks: Vec<_> = disks.collect();
        disks.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        Some((file_system, layers, disks))
    };
    kinds(then) == kinds(now)
}

/// Returns the CPU quota in CPUs; infinite without one.
fn quota(machine: &Machine) -> f64 {
    machine.cgroup.cpu_quota.as_ref().map_or(f64::INFINITY, |quota| quota.cpus())
}

/// Returns the node of a run with the host name of `machine`; `None` if absent or `localhost`.
fn node_by_host<'a>(run: &'a Run, machine: &Machine) -> Option<&'a Node> {
    let host = machine.host.as_deref().filter(|host| !host.starts_with("localhost"))?;
    run.nodes.iter().find(|node| node.name == host)
}

/// Returns whether a node of the run is `machine` itself: by node name, else by a host name that is
/// unique in the run. Good only for leaving a node out: images share host names.
fn is_own(run: &Run, node: &Node, machine: &Machine) -> bool {
    let own = node_by_host(run, machine).or_else(|| {
        let is_of = |node: &&Node| machine.host.is_some() && run.machine_of(node).host == machine.host;
        let mut by_host = run.nodes.iter().filter(is_of);
        by_host.next().filter(|_| by_host.next().is_none())
    });
    own.is_some_and(|own| own.name == node.name)
}

/// Returns the first machine of `all`, with the CPUs and quota that more than half of `all` have;
/// without such a majority, with those of `machine`. `None` if `all` is empty.
fn typical_machine<'a>(all: impl Iterator<Item = &'a Machine> + Clone, machine: &Machine) -> Option<Machine> {
    let mut typical = all.clone().next()?.clone();
    let cpus = |of: &Machine| of.cpu.allowed.len() as u64;
    let hundredths = |of: &Machine| (quota(of).min(cpus(of) as f64) * 100.0) as u64;
    let (by_cpus, by_quota) = (majority_machine(all.clone(), cpus), majority_machine(all, hundredths));
    typical.cpu.allowed = by_cpus.unwrap_or(machine).cpu.allowed.clone();
    typical.cgroup.cpu_quota = by_quota.unwrap_or(machine).cgroup.cpu_quota.clone();
    Some(typical)
}

/// Returns a machine whose `number` more than half of `all` have; `None` without such a majority.
fn majority_machine<'a>(
    all: impl Iterator<Item = &'a Machine>,
    number: impl Fn(&Machine) -> u64,
) -> Option<&'a Machine> {
    let mut kinds: BTreeMap<u64, (usize, &Machine)> = BTreeMap::new();
    for machine in all {
        kinds.entry(number(machine)).or_insert((0, machine)).0 += 1;
    }
    let all: usize = kinds.values().map(|(count, _)| count).sum();
    kinds.into_values().find(|(count, _)| count * 2 > all).map(|(_, machine)| machine)
}
