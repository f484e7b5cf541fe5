//! The cases of each side, and which of them belong together.

use std::collections::{HashMap, HashSet};
use std::ptr;

use super::judge::OfRun;
use super::{Side, alike};
use crate::bench::Look;
use crate::case::Case;
use crate::document::Run;
use crate::limit::median;
use crate::machine::Machine;
use crate::measurement::{Measurement, MetricResult, Status};
use crate::stats::Excluded;

/// The measurements of one case in the runs of one side.
pub(super) struct Figures<'a> {
    pub(super) case: &'a Case,
    /// The machine, where a side has several.
    pub(super) node: Option<&'a str>,
    /// The case, behind its machine where there are several.
    pub(super) name: String,
    /// Those with figures.
    pub(super) all: Vec<Taken<'a>>,
    /// The others, each with what became of it and why.
    pub(super) without: Vec<Without<'a>>,
}

#[derive(Clone, Copy)]
pub(super) struct Taken<'a> {
    pub(super) run: &'a Run,
    pub(super) measurement: &'a Measurement,
    /// CPUs that its machine has for it.
    cpus: usize,
    /// The most threads that its machine has by default.
    most: usize,
}

/// A measurement that gives no figure to compare.
pub(super) struct Without<'a> {
    pub(super) run: &'a Run,
    pub(super) measurement: &'a Measurement,
    pub(super) status: Status,
    pub(super) reason: Option<String>,
}

impl Without<'_> {
    /// Whether other work took too much of the CPU time for a figure.
    pub(super) fn is_interrupted(&self) -> bool {
        let excluded = Excluded::of(self.measurement.conditions.excluded);
        self.status == Status::Invalid && matches!(excluded, Excluded::AllBut(_))
    }
}

impl Taken<'_> {
    /// CPUs that its machine has for it.
    pub(super) fn cpus(&self) -> usize {
        self.cpus
    }

    /// The most threads that its machine has by default: fewer than CPUs under a quota.
    pub(super) fn most_threads(&self) -> usize {
        self.most
    }
}

impl<'a> Figures<'a> {
    /// By case, and with `many` machines by machine.
    pub(super) fn of(side: &'a Side, many: bool) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut places = HashMap::new();
        for run in &side.runs {
            let cpus = |machine: &Machine| [machine.cpu.allowed.len(), machine.most_threads()];
            let nodes: HashMap<&str, [usize; 2]> =
                run.nodes.iter().map(|node| (node.name.as_str(), cpus(run.machine_of(node)))).collect();
            for measurement in &run.measurements {
                let id = measurement.case.id().as_str().to_owned();
                let node = many.then_some(measurement.node.as_str());
                let place = *places.entry((id, node)).or_insert_with(|| {
                    found.push(Self::new(&measurement.case, node));
                    found.len() - 1
                });
                let [cpus, most] =
                    nodes.get(measurement.node.as_str()).copied().unwrap_or(cpus(&run.machine));
                match measurement.standing() {
                    (Status::Ok, _) => found[place].all.push(Taken { run, measurement, cpus, most }),
                    (status, reason) => {
                        found[place].without.push(Without { run, measurement, status, reason });
                    }
                }
            }
        }
        found
    }

    fn new(case: &'a Case, node: Option<&'a str>) -> Self {
        let before = node.map(|node| format!("{}: ", crate::text::shown_within(node, 64)));
        let name = before.unwrap_or_default() + case.id().as_str();
        Self { case, node, name, all: Vec::new(), without: Vec::new() }
    }

    /// The runs of its side that have nothing of it, not even a failure; a published table lacks nothing.
    pub(super) fn absent<'s>(&self, side: &'s Side) -> Vec<&'s Run> {
        let runs = self.all.iter().map(|taken| taken.run).chain(self.without.iter().map(|one| one.run));
        let has: HashSet<*const Run> = runs.map(ptr::from_ref).collect();
        let lacks = |run: &&Run| !side.is_published() && !has.contains(&ptr::from_ref(*run));
        side.runs.iter().filter(lacks).collect()
    }

    /// Whether other work took the figure of one of its measurements.
    pub(super) fn has_interrupted(&self) -> bool {
        self.without.iter().any(Without::is_interrupted)
    }

    /// Whether each run of its side has a figure, or lost it to other work.
    pub(super) fn lacks_only_interrupted(&self, side: &Side) -> bool {
        self.absent(side).is_empty() && self.without.iter().all(Without::is_interrupted)
    }

    /// The metric in each run; `None` where one has another unit.
    pub(super) fn metric(&self, wanted: &MetricResult) -> Option<Vec<OfRun>> {
        // What a run repeats stands together.
        let runs = self.all.chunk_by(|a, b| ptr::eq(a.run, b.run));
        let repeats = runs.map(|run| -> Vec<&MetricResult> {
            let metrics = run.iter().flat_map(|taken| &taken.measurement.metrics);
            metrics.filter(|metric| metric.name == wanted.name).collect()
        });
        let repeats: Vec<_> = repeats.collect();
        let same_unit = repeats.iter().flatten().all(|metric| metric.unit == wanted.unit);
        same_unit.then(|| repeats.iter().filter_map(|repeats| OfRun::of(repeats)).collect())
    }

    /// Every metric that any of its measurements has, in their order.
    pub(super) fn metrics(&self) -> Vec<&'a MetricResult> {
        let mut found: Vec<&'a MetricResult> = Vec::new();
        for metric in self.all.iter().flat_map(|taken| &taken.measurement.metrics) {
            if !found.iter().any(|known| known.name == metric.name) {
                found.push(metric);
            }
        }
        found
    }

    /// How far apart the CPUs of the case are, as medians over the runs that tell it.
    pub(super) fn look(&self) -> Option<Look> {
        Look::median(self.all.iter().map(|taken| &taken.measurement.conditions))
    }

    /// The share of the time that was taken away from the figure without a quota, as a median over the runs.
    pub(super) fn disturbed(&self) -> f64 {
        let share = |t: &Taken<'a>| t.measurement.conditions.disturbed(self.case, t.cpus);
        median(self.all.iter().map(share).collect()).unwrap_or(0.0)
    }

    /// The delivered headline, as a median over the runs from which much was excluded; `None` without any.
    pub(super) fn delivered(&self) -> Option<f64> {
        let delivered = self.all.iter().filter_map(|taken| taken.measurement.delivered());
        median(delivered.map(|delivered| delivered.value).collect())
    }

    /// What the share of the time that is excluded makes of its figure, as a median over the runs.
    pub(super) fn excluded(&self) -> Excluded {
        let share = |t: &Taken<'a>| t.measurement.conditions.excluded.unwrap_or(0.0);
        Excluded::of(median(self.all.iter().map(share).collect()))
    }
}

/// The same case on both sides, or the one that comes nearest; both have figures.
pub(super) struct Pair<'f, 'r> {
    pub(super) a: &'f Figures<'r>,
    pub(super) b: &'f Figures<'r>,
    pub(super) differs: Vec<String>,
}

/// The pairs. A case is only brought together with another one where the other side has nothing of it at all, not even a failure.
pub(super) fn paired<'f, 'r>(a: &'f [Figures<'r>], b: &'f [Figures<'r>]) -> Vec<Pair<'f, 'r>> {
    let in_a: HashMap<&str, &'f Figures<'r>> = a.iter().map(|f| (f.name.as_str(), f)).collect();
    let in_b: HashSet<&str> = b.iter().map(|f| f.name.as_str()).collect();
    let lone: Vec<&Figures<'r>> =
        a.iter().filter(|f| !f.all.is_empty() && !in_b.contains(f.name.as_str())).collect();
    let mut taken: HashSet<&str> = HashSet::new();
    let mut pairs = Vec::new();
    for this in b.iter().filter(|f| !f.all.is_empty()) {
        if let Some(a) = in_a.get(this.name.as_str()) {
            if !a.all.is_empty() {
                pairs.push(Pair { a, b: this, differs: Vec::new() });
            }
            continue;
        }
        let one = |other: &&&Figures<'r>| {
            other.node == this.node
                && !taken.contains(other.name.as_str())
                && alike::difference(other.case, this.case).len() == 1
        };
        let mut candidates = lone.iter().filter(one);
        // Two that are as near: neither is it.
        if let (Some(a), None) = (candidates.next(), candidates.next()) {
            taken.insert(a.name.as_str());
            pairs.push(Pair { a, b: this, differs: alike::difference(a.case, this.case) });
        }
    }
    pairs
}
