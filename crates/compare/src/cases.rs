//! The cases of each side, and the matching of cases across sides.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ptr;

use plimsoll_bench::CpuDistance;
use plimsoll_machine::Machine;
use plimsoll_model::case::{Case, Key};
use plimsoll_model::limit::median;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_result::document::Run;
use plimsoll_stats::ExcludedShare;

use super::judge::RunMetric;
use super::{ComparedSide, alike};

/// The measurements of one case in the runs of one side.
pub(super) struct SideFigures<'a> {
    pub(super) side: &'a ComparedSide,
    pub(super) case: &'a Case,
    pub(super) node: Option<&'a str>,
    pub(super) name: String,
    pub(super) all: Vec<CaseMeasurement<'a>>,
    pub(super) without: Vec<CaseMeasurement<'a>>,
    on_all_cpus: bool,
}

#[derive(Clone, Copy)]
pub(super) struct CaseMeasurement<'a> {
    pub(super) run: &'a Run,
    pub(super) measurement: &'a Measurement,
    cpus: usize,
    most: usize,
}

impl CaseMeasurement<'_> {
    /// Returns whether the result is invalid because over 90 % of its time was excluded.
    pub(super) fn is_interrupted(&self) -> bool {
        let (status, _) = self.measurement.effective_status();
        let excluded = ExcludedShare::of(self.measurement.conditions.excluded);
        status == Status::Invalid && matches!(excluded, ExcludedShare::AllBut(_))
    }
}

/// Returns each side's cases with their results, by node if sides of several nodes share a node.
pub(super) fn cases_of_sides(sides: &[ComparedSide]) -> Vec<Vec<SideFigures<'_>>> {
    let names = |side: &ComparedSide| -> BTreeSet<String> {
        side.runs.iter().flat_map(|run| &run.nodes).map(|node| node.name.clone()).collect()
    };
    let names: Vec<BTreeSet<String>> = sides.iter().map(names).collect();
    let several = sides.iter().flat_map(|side| &side.runs).any(|run| run.nodes.len() > 1);
    let shared =
        names.iter().enumerate().any(|(at, all)| names[..at].iter().any(|known| !known.is_disjoint(all)));
    sides.iter().map(|side| SideFigures::of(side, several && shared)).collect()
}

impl<'a> SideFigures<'a> {
    /// Groups the measurements of a side by case, and also by node if `many`.
    fn of(side: &'a ComparedSide, many: bool) -> Vec<Self> {
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
                    found.push(Self::new(side, &measurement.case, node));
                    found.len() - 1
                });
                let [cpus, most] =
                    nodes.get(measurement.node.as_str()).copied().unwrap_or(cpus(&run.machine));
                let taken = CaseMeasurement { run, measurement, cpus, most };
                match measurement.effective_status() {
                    (Status::Ok, _) => found[place].all.push(taken),
                    _ => found[place].without.push(taken),
                }
            }
        }
        let cpus = all_cpus(&found);
        for figures in &mut found {
            let threads = figures.case.threads();
            figures.on_all_cpus = threads > 1 && cpus == Some(threads);
        }
        found
    }

    fn new(side: &'a ComparedSide, case: &'a Case, node: Option<&'a str>) -> Self {
        let before = node.map(|node| format!("{}: ", plimsoll_units::text::shown_within(node, 64)));
        let name = before.unwrap_or_default() + case.id().as_str();
        Self { side, case, node, name, all: Vec::new(), without: Vec::new(), on_all_cpus: false }
    }

    /// Returns the side's runs without a measurement of the case; empty for a published table.
    pub(super) fn absent(&self) -> Vec<&'a Run> {
        let runs = self.all.iter().chain(&self.without).map(|taken| taken.run);
        let has: HashSet<*const Run> = runs.map(ptr::from_ref).collect();
        let lacks = |run: &&Run| !self.side.is_published() && !has.contains(&ptr::from_ref(*run));
        self.side.runs.iter().filter(lacks).collect()
    }

    /// Returns the metric named like `wanted` in each run that has it; `None` if units differ.
    pub(super) fn metric(&self, wanted: &MetricResult) -> Option<Vec<RunMetric>> {
        let runs = self.all.chunk_by(|a, b| ptr::eq(a.run, b.run));
        let repeats = runs.map(|run| -> Vec<&MetricResult> {
            let metrics = run.iter().flat_map(|taken| &taken.measurement.metrics);
            metrics.filter(|metric| metric.name == wanted.name).collect()
        });
        let repeats: Vec<_> = repeats.collect();
        let same_unit = repeats.iter().flatten().all(|metric| metric.unit == wanted.unit);
        same_unit.then(|| repeats.iter().filter_map(|repeats| RunMetric::of(repeats)).collect())
    }

    pub(super) fn metrics(&self) -> Vec<&'a MetricResult> {
        distinct_metrics(self.all.iter().flat_map(|taken| &taken.measurement.metrics))
    }

    /// Returns the median core-to-core latency over the measurements that recorded it, if any.
    pub(super) fn cpu_distances(&self) -> Option<CpuDistance> {
        CpuDistance::median(self.all.iter().map(|taken| &taken.measurement.conditions))
    }

    /// Returns the median share (0 to 1) of time that other processes or guests took; throttling by
    /// a quota does not count. 0 without results.
    pub(super) fn disturbed(&self) -> f64 {
        let share = |t: &CaseMeasurement<'a>| t.measurement.conditions.disturbed(self.case, t.cpus);
        median(self.all.iter().map(share).collect()).unwrap_or(0.0)
    }

    /// Returns the median of the main results with interruptions included, in their unit, over
    /// those of which more than 10 % of the time was excluded; `None` if there are none.
    pub(super) fn median_delivered(&self) -> Option<f64> {
        let delivered = self.all.iter().filter_map(|taken| taken.measurement.delivered());
        median(delivered.map(|delivered| delivered.value).collect())
    }

    pub(super) fn excluded(&self) -> ExcludedShare {
        let share = |t: &CaseMeasurement<'a>| t.measurement.conditions.excluded.unwrap_or(0.0);
        ExcludedShare::of(median(self.all.iter().map(share).collect()))
    }
}

/// Returns how many threads use all CPUs: the number of CPUs, or that of a quota if no case has a
/// thread per CPU. `None` if the number differs within the side.
fn all_cpus(side: &[SideFigures<'_>]) -> Option<usize> {
    let same = |of: fn(&CaseMeasurement<'_>) -> usize| {
        let mut all = side.iter().flat_map(|figures| &figures.all).map(of);
        let first = all.next()?;
        all.all(|one| one == first).then_some(first)
    };
    let cpus = same(|taken| taken.cpus);
    let is_there = side.iter().any(|figures| Some(figures.case.threads()) == cpus);
    if is_there { cpus } else { same(|taken| taken.most) }
}

/// Returns the first metric of each name.
pub(super) fn distinct_metrics<'a>(all: impl Iterator<Item = &'a MetricResult>) -> Vec<&'a MetricResult> {
    let mut names = HashSet::new();
    all.filter(|metric| names.insert(metric.name.as_str())).collect()
}

/// The results of one case with the index of the side; each side at most once, in order.
pub(super) type MatchedCase<'f, 'r> = Vec<(usize, &'f SideFigures<'r>)>;

/// Matches the cases of all `sides`; returns, per case, (index of the side, its results) of each
/// side. Different cases match only if they are similar and each side lacks the other's case.
pub(super) fn match_cases<'f, 'r>(sides: &'f [Vec<SideFigures<'r>>]) -> Vec<MatchedCase<'f, 'r>> {
    let mut found: Vec<MatchedCase<'f, 'r>> = Vec::new();
    for (side, all) in sides.iter().enumerate() {
        let own: HashSet<&str> = all.iter().map(|figures| figures.name.as_str()).collect();
        // The first case of a name is the last one entered.
        let cases = found.iter().enumerate().rev();
        let names = cases.flat_map(|(at, all)| all.iter().map(move |&(_, one)| (one.name.as_str(), at)));
        let known: HashMap<&str, usize> = names.collect();
        let earlier = found.len();
        for figures in all {
            let is_free = |at: &usize| found[*at].iter().all(|(one, _)| *one != side);
            let is_near = |at: &usize| {
                let mut members = found[*at].iter().map(|(_, other)| *other);
                let other = members.find(|other| !other.all.is_empty());
                is_free(at)
                    && other
                        .is_some_and(|other| !own.contains(other.name.as_str()) && is_similar(other, figures))
            };
            let nearest = || {
                let mut candidates = (0..earlier).filter(|_| !figures.all.is_empty()).filter(is_near);
                // If two cases are equally near, neither matches.
                candidates.next().filter(|_| candidates.next().is_none())
            };
            match known.get(figures.name.as_str()).copied().filter(is_free).or_else(nearest) {
                Some(at) => found[at].push((side, figures)),
                None => found.push(vec![(side, figures)]),
            }
        }
    }
    found
}

/// Returns whether two cases of one benchmark and node differ in one parameter, or only in
/// parameters that follow the machine, such as one thread per CPU.
fn is_similar(a: &SideFigures<'_>, b: &SideFigures<'_>) -> bool {
    let follows = |name: &&str| match *name {
        "threads" => a.on_all_cpus && b.on_all_cpus,
        name => {
            let is_on_both = a.case.get(name).is_some() && b.case.get(name).is_some();
            is_on_both && Key::find(name).is_ok_and(|key| key.of_machine)
        }
    };
    let names = alike::differing(a.case, b.case);
    a.node == b.node
        && a.case.benchmark() == b.case.benchmark()
        && (names.len() == 1 || names.iter().all(follows))
}
