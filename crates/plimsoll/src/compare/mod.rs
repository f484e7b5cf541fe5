//! Two sides, one or more runs each: per metric the difference, its interval, and whether it is real.
//!
//! Real is what goes beyond the noise between runs and is still unlikely after Holm's correction over all metrics.
//! Where the noise is not known nothing is called real. Pure: no file is read and nothing is printed here.

mod alike;
mod judge;
mod noise;
mod require;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

pub use alike::{Flag, flags};
pub use judge::{FAMILY, Judged};
use judge::{MOST_TAKEN, OfRun};
pub use noise::{Floor, Floors, Noise};
pub use require::{Holds, Requirement};

use crate::bench::{self, Better};
use crate::case::Case;
use crate::document::Run;
use crate::limit::median;
use crate::machine::Machine;
use crate::measurement::{Measurement, MetricResult, Status};
use crate::quantity::{Quantity, Unit, percent};
use crate::sample::{CORE_TO_CORE, has_moved};

/// One side.
#[derive(Clone, Debug)]
pub struct Side {
    /// As the user named it.
    pub name: String,
    /// Its runs, the oldest first.
    pub runs: Vec<Run>,
}

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Real, and in the metric's good direction.
    Better,
    /// Real, and in its bad one.
    Worse,
    /// Within the noise between runs.
    Same,
    /// Not known; `why` says why.
    Undecided,
    /// Not judged: the metric has no direction.
    Told,
}

/// One metric of one case on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The case, as the second side has it.
    pub case: Case,
    /// The machine, where a side has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// Whether it is the case's headline.
    pub headline: bool,
    /// Unit of both figures.
    pub unit: Unit,
    /// Direction; null where neither is good and the metric is only told ([`bench::TOLD`]).
    pub better: Option<Better>,
    /// The first side's figure: the median over its runs.
    pub a: f64,
    /// The second side's.
    pub b: f64,
    /// b ÷ a − 1; null where there is no ratio.
    pub difference: Option<f64>,
    /// 95 % interval of the difference, noise between runs included; null where that is unknown.
    pub interval: Option<[f64; 2]>,
    /// The smallest difference that would be called real; null where the noise is unknown.
    pub smallest: Option<f64>,
    /// Where the noise between runs is known from.
    pub noise: Option<Origin>,
    /// Probability of such a difference without a cause, corrected for the number of metrics.
    pub p: Option<f64>,
    /// What it is.
    pub verdict: Verdict,
    /// Why it is undecided.
    pub why: Option<String>,
    /// Parameters that differ: `threads 2 → 1`.
    pub differs: Vec<String>,
}

/// Where a noise is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The spread of the runs of one side.
    Runs,
    /// `plimsoll doctor` on this machine.
    Doctor,
    /// The benchmark's own word.
    Declared,
}

/// The comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of the first side, the one that is compared with.
    pub a: String,
    /// Name of the second.
    pub b: String,
    /// Runs on each side.
    pub runs: [usize; 2],
    /// What else is different than what was to be compared.
    pub flags: Vec<Flag>,
    /// All metrics that both sides have.
    pub compared: Vec<Compared>,
    /// Cases with figures on the first side alone.
    pub only_a: Vec<String>,
    /// Cases with figures on the second side alone.
    pub only_b: Vec<String>,
}

/// Runs of a side from which on their own spread tells the noise.
const ENOUGH_RUNS: usize = 5;

/// Compares two sides. `floors` has what doctor measured on the machines at hand.
pub fn compare(a: &Side, b: &Side, floors: &[Floors]) -> Comparison {
    let many = a.runs.iter().chain(&b.runs).any(|run| run.nodes.len() > 1);
    let (cases_a, cases_b) = (Figures::of(a, many), Figures::of(b, many));
    let pairs = paired(&cases_a, &cases_b);
    let mut compared: Vec<Compared> = pairs.iter().flat_map(|pair| metrics(pair, floors)).collect();
    judge::correct(&mut compared);
    let unpaired = |all: &[Figures<'_>], has: &dyn Fn(&Pair<'_, '_>) -> String| -> Vec<String> {
        let used: HashSet<String> = pairs.iter().map(has).collect();
        all.iter().map(Figures::name).filter(|name| !used.contains(name)).collect()
    };
    Comparison {
        a: a.name.clone(),
        b: b.name.clone(),
        runs: [a.runs.len(), b.runs.len()],
        flags: flags(a, b),
        only_a: unpaired(&cases_a, &|pair| pair.a.name()),
        only_b: unpaired(&cases_b, &|pair| pair.b.name()),
        compared,
    }
}

impl Comparison {
    /// How many metrics have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.compared.iter().filter(|c| c.verdict == verdict).count()
    }

    /// What is worse by more than this share.
    pub fn worse_than(&self, share: f64) -> impl Iterator<Item = &Compared> {
        self.compared.iter().filter(move |c| c.verdict == Verdict::Worse && c.loss() > share)
    }
}

impl Compared {
    /// The share that is lost, whatever direction is good: 0.1 is a tenth less work in the same time.
    pub fn loss(&self) -> f64 {
        match (self.difference, self.better) {
            (Some(difference), Some(Better::Higher)) => -difference,
            (Some(difference), Some(Better::Lower)) => difference,
            _ => 0.0,
        }
    }
}

/// The measurements of one case in the runs of one side; each has figures.
struct Figures<'a> {
    case: &'a Case,
    /// The machine, where a side has several.
    node: Option<&'a str>,
    all: Vec<Taken<'a>>,
}

#[derive(Clone, Copy)]
struct Taken<'a> {
    run: &'a Run,
    measurement: &'a Measurement,
    /// CPUs that its machine has for it.
    cpus: usize,
}

impl<'a> Figures<'a> {
    /// By case, and with `many` machines by machine.
    fn of(side: &'a Side, many: bool) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut places = HashMap::new();
        for run in &side.runs {
            let cpus = |machine: &Machine| machine.cpu.allowed.len();
            let nodes: HashMap<&str, usize> =
                run.nodes.iter().map(|node| (node.name.as_str(), cpus(&node.machine))).collect();
            for measurement in run.measurements.iter().filter(|m| m.status == Status::Ok) {
                let id = measurement.case.id().as_str().to_owned();
                let node = many.then_some(measurement.node.as_str());
                let place = *places.entry((id, node)).or_insert_with(|| {
                    found.push(Self { case: &measurement.case, node, all: Vec::new() });
                    found.len() - 1
                });
                let cpus = nodes.get(measurement.node.as_str()).copied().unwrap_or(cpus(&run.machine));
                found[place].all.push(Taken { run, measurement, cpus });
            }
        }
        found
    }

    /// The case, behind its machine where there are several.
    fn name(&self) -> String {
        let node =
            self.node.map(|node| format!("{}: ", crate::text::shown_within(node, 64))).unwrap_or_default();
        node + self.case.id().as_str()
    }

    /// The metric in each run; `None` where one has another unit.
    fn metric(&self, wanted: &MetricResult) -> Option<Vec<OfRun>> {
        // What a run repeats stands together.
        let runs = self.all.chunk_by(|a, b| std::ptr::eq(a.run, b.run));
        let repeats = runs.map(|run| -> Vec<&MetricResult> {
            let metrics = run.iter().flat_map(|taken| &taken.measurement.metrics);
            metrics.filter(|metric| metric.name == wanted.name).collect()
        });
        let repeats: Vec<_> = repeats.collect();
        let same_unit = repeats.iter().flatten().all(|metric| metric.unit == wanted.unit);
        same_unit.then(|| repeats.iter().filter_map(|repeats| OfRun::of(repeats)).collect())
    }

    /// Seconds from one CPU of the case to the next, as a median over the runs that tell them.
    fn core_to_core(&self) -> Option<f64> {
        let told = |t: &Taken<'a>| t.measurement.conditions.more.get(CORE_TO_CORE).copied();
        median(self.all.iter().filter_map(told).collect())
    }

    /// The share of the time that was taken away from the figure without a quota, as a median over the runs.
    fn disturbed(&self) -> f64 {
        let share = |t: &Taken<'a>| t.measurement.conditions.disturbed(self.case, t.cpus);
        median(self.all.iter().map(share).collect()).unwrap_or(0.0)
    }
}

/// The same case on both sides, or the one that comes nearest.
struct Pair<'f, 'r> {
    a: &'f Figures<'r>,
    b: &'f Figures<'r>,
    differs: Vec<String>,
}

fn paired<'f, 'r>(a: &'f [Figures<'r>], b: &'f [Figures<'r>]) -> Vec<Pair<'f, 'r>> {
    let by_name: HashMap<String, &'f Figures<'r>> = a.iter().map(|f| (f.name(), f)).collect();
    let names: HashSet<String> = b.iter().map(Figures::name).collect();
    let lone: Vec<&Figures<'r>> = a.iter().filter(|f| !names.contains(&f.name())).collect();
    let mut taken: HashSet<String> = HashSet::new();
    let mut pairs = Vec::new();
    for this in b {
        let found = by_name.get(&this.name()).map(|a| Pair { a, b: this, differs: Vec::new() });
        let nearest = || {
            let one = |other: &&&Figures<'r>| {
                other.node == this.node
                    && !taken.contains(&other.name())
                    && alike::difference(other.case, this.case).len() == 1
            };
            let mut candidates = lone.iter().filter(one);
            let a = *candidates.next()?;
            // Two that are as near: neither is it.
            candidates.next().is_none().then(|| Pair {
                a,
                b: this,
                differs: alike::difference(a.case, this.case),
            })
        };
        if let Some(pair) = found.or_else(nearest) {
            taken.insert(pair.a.name());
            pairs.push(pair);
        }
    }
    pairs
}

/// What came between the two sides: a hypervisor that had their CPUs in different places, or others that took the time.
fn foreign(pair: &Pair<'_, '_>) -> Option<String> {
    let taken = [("A", pair.a.disturbed()), ("B", pair.b.disturbed())];
    let [(side, share), _] = if taken[0].1 >= taken[1].1 { taken } else { [taken[1], taken[0]] };
    let disturbed = || {
        let share = percent(share, 2);
        format!(
            "others took {share} of the time of {side} (steal, or waiting for a CPU): repeat it when they rest"
        )
    };
    moved(pair).or_else(|| (share > MOST_TAKEN).then(disturbed))
}

fn moved(pair: &Pair<'_, '_>) -> Option<String> {
    let (case, a, b) = (pair.b.case, pair.a.core_to_core()?, pair.b.core_to_core()?);
    let time = |seconds| Quantity::new(seconds, Unit::Second);
    has_moved(case, a, b).then(|| {
        format!(
            "the hypervisor had the CPUs in other places: {} and {} from one to the next",
            time(a),
            time(b)
        )
    })
}

fn metrics(pair: &Pair<'_, '_>, floors: &[Floors]) -> Vec<Compared> {
    let Some(first) = pair.b.all.first() else { return Vec::new() };
    let foreign = foreign(pair);
    let names = first.measurement.metrics.iter().enumerate();
    names
        .filter_map(|(index, metric)| {
            let (a, b) = (pair.a.metric(metric)?, pair.b.metric(metric)?);
            let figure = |all: &[OfRun]| median(all.iter().map(|run| run.median).collect());
            let (noise, origin) = noise_of(pair, &metric.name, [&a, &b], floors).unzip();
            let judged = Judged {
                a: judge::Evidence::of(&a),
                b: judge::Evidence::of(&b),
                noise,
                disturbed: pair.a.disturbed().max(pair.b.disturbed()),
                foreign: foreign.clone(),
            };
            let blank = Compared {
                case: pair.b.case.clone(),
                node: pair.b.node.map(str::to_owned),
                metric: metric.name.clone(),
                headline: index == 0,
                unit: metric.unit,
                better: (!bench::TOLD.contains(&metric.name.as_str())).then_some(metric.better),
                a: figure(&a)?,
                b: figure(&b)?,
                difference: None,
                interval: None,
                smallest: None,
                noise: origin,
                p: None,
                verdict: Verdict::Undecided,
                why: None,
                differs: pair.differs.clone(),
            };
            Some(judged.enter(blank))
        })
        .collect()
}

/// The noise between runs for this metric, the best source first.
fn noise_of(
    pair: &Pair<'_, '_>,
    metric: &str,
    sides: [&[OfRun]; 2],
    floors: &[Floors],
) -> Option<(Noise, Origin)> {
    let spread = |all: &[OfRun]| {
        let values: Vec<f64> = all.iter().map(|run| run.median).collect();
        (values.len() >= ENOUGH_RUNS).then(|| Noise::of([values.as_slice()])).flatten()
    };
    let of_runs = sides.into_iter().filter_map(spread).reduce(Noise::worse);
    if let Some(noise) = of_runs {
        return Some((noise, Origin::Runs));
    }
    let benchmark = pair.b.case.benchmark();
    let measured = |t: &Taken<'_>| {
        floors.iter().find(|f| f.machine == t.run.machine.id)?.find(&t.measurement.case, metric)
    };
    let of_doctor: Option<Vec<Noise>> = pair.a.all.iter().chain(&pair.b.all).map(measured).collect();
    if let Some(noise) = of_doctor.and_then(|all| all.into_iter().reduce(Noise::worse)) {
        return Some((noise, Origin::Doctor));
    }
    let declared = bench::find(benchmark).and_then(|b| b.noise(metric));
    declared.map(|share| (Noise::declared(share), Origin::Declared))
}

#[cfg(test)]
mod tests;
