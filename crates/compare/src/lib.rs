//! Two sides, one or more runs each: per metric the difference, its interval, and whether it is real.
//!
//! Real is what goes beyond the noise between runs and is still unlikely after Holm's correction over all metrics.
//! Where the noise is not known nothing is called real. Pure: no file is read and nothing is printed here.
#![forbid(unsafe_code)]

mod alike;
mod cases;
mod decided;
mod judge;
pub mod lasting;
mod noise;
pub mod rank;
mod require;
mod uncompared;

use plimsoll_bench as bench;
use plimsoll_machine as machine;
use plimsoll_model::{case, limit, measurement, sample};
use plimsoll_result::document;
#[cfg(test)]
use plimsoll_result::fixture;
use plimsoll_stats as stats;
use plimsoll_units::{quantity, text};

use serde::Serialize;

pub use alike::Difference;
use cases::{Figures, Pair, Taken, paired};
pub use decided::{Blind, Decided, Gate, Tone};
pub use judge::{Doubt, FAMILY, Judged, MOST_TAKEN};
use judge::{OfRun, Why};
pub use noise::{Floor, Floors, Noise};
pub use require::{Holds, Requirement};
pub use uncompared::{Has, Kind, Missing, Standing, Uncompared};

use crate::bench::Better;
use crate::case::Case;
use crate::document::Run;
use crate::limit::median;
use crate::measurement::MetricResult;
use crate::quantity::{Quantity, Unit, apart, percent};
use crate::stats::{Excluded, MOSTLY_EXCLUDED};

/// What the name of a side begins with that is a published table.
pub const PUBLISHED: &str = "published:";

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
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Real, and in the metric's good direction.
    Improvement,
    /// Real, and in its bad one.
    Regression,
    /// Within the noise between runs.
    NoChange,
    /// Not known; `why` says why.
    Inconclusive,
    /// Not judged: the metric has no direction.
    Informative,
}

impl Verdict {
    /// The word of the document.
    pub fn code(self) -> &'static str {
        match self {
            Self::Improvement => "improvement",
            Self::Regression => "regression",
            Self::NoChange => "no-change",
            Self::Inconclusive => "inconclusive",
            Self::Informative => "informative",
        }
    }
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
    /// Direction; null where neither is good ([`bench::Role::Informative`]).
    pub better: Option<Better>,
    /// The first side's figure: the median over its runs.
    pub a: f64,
    /// The second side's.
    pub b: f64,
    /// The delivered headline of each side, interruptions included; null if little was excluded from the figure.
    pub delivered: [Option<f64>; 2],
    /// b ÷ a − 1; null where there is no ratio.
    pub difference: Option<f64>,
    /// 95 % interval of the difference, noise between runs included; null where that is unknown.
    pub interval: Option<[f64; 2]>,
    /// The smallest difference that would be called real; null where the noise is unknown.
    pub smallest: Option<f64>,
    /// The largest loss that would not be called a regression, as a share; null where the noise is unknown, where something else leaves
    /// it inconclusive whatever the loss, and where nothing is judged.
    pub unseen: Option<f64>,
    /// Where the noise between runs is known from.
    pub noise: Option<Origin>,
    /// Runs that the noise leaves out as outliers.
    pub outliers: usize,
    /// Probability of such a difference without a cause, corrected for the number of metrics.
    pub p: Option<f64>,
    /// What it is.
    pub verdict: Verdict,
    /// Why it is inconclusive.
    pub why: Option<String>,
    /// The kind of that; null where it is decided.
    pub doubt: Option<Doubt>,
    /// Parameters that differ: `threads 2 → 1`.
    pub differs: Vec<String>,
}

/// Where a noise is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The spread of the runs of one side.
    Runs,
    /// `plimsoll doctor` on this machine.
    Doctor,
    /// Declared with the benchmark, and measured nowhere near.
    Declared,
}

/// The comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Names of the sides; the second is compared with the first.
    pub sides: [String; 2],
    /// Runs on each side.
    pub runs: [usize; 2],
    /// Differences between the sides besides their figures.
    pub differs: Vec<Difference>,
    /// Remarks on a baseline, each a sentence.
    pub notes: Vec<String>,
    /// All metrics that both sides have.
    pub compared: Vec<Compared>,
    /// All else that either side has: each case, and each metric of a compared case, without a figure on one side or both.
    pub uncompared: Vec<Uncompared>,
    /// What was decided.
    pub decided: Decided,
    /// What the gate sees; null where none was asked for.
    pub gate: Option<Gate>,
}

/// What two sides are called.
const LETTERS: [&str; 2] = ["A", "B"];
/// Runs of a side from which on their own spread tells the noise.
const ENOUGH_RUNS: usize = 5;

/// Compares two sides. `floors` has what doctor measured on the machines at hand; `fail_on` is the loss from which on the user
/// wants to know of it: what would not be seen then is not called no change.
pub fn compare(a: &Side, b: &Side, floors: &[Floors], fail_on: Option<f64>) -> Comparison {
    let many = a.runs.iter().chain(&b.runs).any(|run| run.nodes.len() > 1);
    let (cases_a, cases_b) = (Figures::of(a, many), Figures::of(b, many));
    let pairs = paired(&cases_a, &cases_b);
    let of_pairs: Vec<Vec<Compared>> = pairs.iter().map(|pair| metrics(pair, floors, fail_on)).collect();
    let counts: Vec<usize> = of_pairs.iter().map(Vec::len).collect();
    let mut compared: Vec<Compared> = of_pairs.into_iter().flatten().collect();
    judge::correct(&mut compared);
    let mut rest = compared.as_slice();
    let of_pairs = counts.into_iter().map(|n| rest.split_off(..n).unwrap_or_default());
    let of_pairs: Vec<&[Compared]> = of_pairs.collect();
    let uncompared = uncompared::find([a, b], [&cases_a, &cases_b], &pairs, &of_pairs);
    let decided = Decided::of(&compared, &uncompared);
    Comparison {
        sides: [a, b].map(|side| side.name.clone()),
        runs: [a.runs.len(), b.runs.len()],
        differs: alike::differences(&[a, b]),
        notes: Vec::new(),
        gate: fail_on.map(|share| Gate::of(share, &compared, &uncompared)),
        compared,
        uncompared,
        decided,
    }
}

impl Side {
    /// Whether it is a published table, which lacks what was not published.
    pub fn is_published(&self) -> bool {
        self.name.starts_with(PUBLISHED)
    }
}

impl Comparison {
    /// How many metrics have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.compared.iter().filter(|c| c.verdict == verdict).count()
    }

    /// What is worse by more than this share.
    pub fn worse_than(&self, share: f64) -> impl Iterator<Item = &Compared> {
        self.compared.iter().filter(move |c| c.verdict == Verdict::Regression && c.loss() > share)
    }
}

impl Compared {
    /// The share that is lost, whatever direction is good: 0.1 is a tenth less work in the same time. Of a share that was zero
    /// before, such as the loss of a connection, it is the share itself.
    pub fn loss(&self) -> f64 {
        match (self.difference, self.better) {
            (Some(difference), Some(Better::Higher)) => -difference,
            (Some(difference), Some(Better::Lower)) => difference,
            (None, Some(Better::Lower)) if self.unit == Unit::One && self.a == 0.0 => self.b,
            _ => 0.0,
        }
    }
}

/// Why nothing is decided by the figures of a side, given by name: too little of their time is in them.
fn excluded(pair: &Pair<'_, '_>, [a, b]: [&str; 2]) -> Option<Why> {
    let sides = [(a, pair.a.excluded()), (b, pair.b.excluded())];
    sides.into_iter().find_map(|(side, excluded)| {
        let (Excluded::Mostly(share) | Excluded::AllBut(share)) = excluded else { return None };
        let [share, most] = apart([share, MOSTLY_EXCLUDED], 2, percent);
        let text = format!(
            "{share} of the time of {side} is excluded (interrupted slices), more than {most}: measure {side} again on an idle machine"
        );
        Some(Why::new(Doubt::Interrupted, text))
    })
}

/// What came between the two sides: a hypervisor that had their CPUs in different places, or others that took the time.
fn foreign(pair: &Pair<'_, '_>, [a, b]: [&str; 2]) -> Option<Why> {
    let taken = [(a, pair.a.disturbed()), (b, pair.b.disturbed())];
    let [(side, share), _] = if taken[0].1 >= taken[1].1 { taken } else { [taken[1], taken[0]] };
    let disturbed = || {
        let share = percent(share, 2);
        let text = format!(
            "other work took {share} of the CPU time of {side} (steal, or waiting for a CPU): measure {side} again on an idle machine"
        );
        Why::new(Doubt::Interrupted, text)
    };
    moved(pair).or_else(|| (share > MOST_TAKEN).then(disturbed))
}

fn moved(pair: &Pair<'_, '_>) -> Option<Why> {
    let (case, a, b) = (pair.b.case, pair.a.look()?, pair.b.look()?);
    let time = |seconds| Quantity::new(seconds, Unit::Second);
    bench::subsystem_of(case).stay.has_moved(a, b).then(|| {
        let text = format!(
            "the hypervisor ran the vCPUs on other cores: core-to-core latency {} and {}",
            time(a.seconds),
            time(b.seconds)
        );
        Why::new(Doubt::Migrated, text)
    })
}

fn metrics(pair: &Pair<'_, '_>, floors: &[Floors], fail_on: Option<f64>) -> Vec<Compared> {
    let (foreign, excluded) = (foreign(pair, LETTERS), excluded(pair, LETTERS));
    let headline = pair.b.all.first().and_then(|first| first.measurement.metrics.first());
    let one = |metric: &MetricResult| {
        let (a, b) = (pair.a.metric(metric)?, pair.b.metric(metric)?);
        let figure = |all: &[OfRun]| median(all.iter().map(|run| run.median).collect());
        let known = noise_of(pair, &metric.name, [&a, &b], floors);
        let judged = Judged {
            a: judge::Evidence::of(&a),
            b: judge::Evidence::of(&b),
            noise: known.as_ref().map(|known| known.noise),
            disturbed: pair.a.disturbed().max(pair.b.disturbed()),
            foreign: foreign.clone(),
            excluded: excluded.clone(),
            fail_on,
        };
        let blank = Compared {
            case: pair.b.case.clone(),
            node: pair.b.node.map(str::to_owned),
            metric: metric.name.clone(),
            headline: headline.is_some_and(|headline| headline.name == metric.name),
            unit: metric.unit,
            better: direction_of(pair.b.case, &metric.name, metric.better),
            a: figure(&a)?,
            b: figure(&b)?,
            delivered: match headline.is_some_and(|headline| headline.name == metric.name) {
                true => [pair.a.delivered(), pair.b.delivered()],
                false => [None, None],
            },
            difference: None,
            interval: None,
            smallest: None,
            unseen: None,
            noise: known.as_ref().map(|known| known.origin),
            outliers: known.map_or(0, |known| known.outliers),
            p: None,
            verdict: Verdict::Inconclusive,
            why: None,
            doubt: None,
            differs: pair.differs.clone(),
        };
        Some(judged.enter(blank))
    };
    pair.b.metrics().into_iter().filter_map(one).collect()
}

/// The direction in which a metric is judged: as its benchmark gives it; as the document says, where this program does not have
/// the metric; none where more of it is neither good nor bad.
fn direction_of(case: &Case, metric: &str, by_document: Better) -> Option<Better> {
    match bench::metric(case, metric) {
        Some(known) => (known.role == bench::Role::Judged).then_some(known.better),
        None => Some(by_document),
    }
}

/// A noise between runs, and what it is known from.
struct Known {
    noise: Noise,
    origin: Origin,
    outliers: usize,
}

/// The noise between runs for this metric, the best source first.
fn noise_of(pair: &Pair<'_, '_>, metric: &str, sides: [&[OfRun]; 2], floors: &[Floors]) -> Option<Known> {
    let spread = |all: &[OfRun]| {
        let values: Vec<f64> = all.iter().map(|run| run.median).collect();
        (values.len() >= ENOUGH_RUNS).then(|| Noise::of_runs(&values)).flatten()
    };
    let worse = |(one, n): (Noise, usize), (other, m): (Noise, usize)| (one.worse(other), n + m);
    if let Some((noise, outliers)) = sides.into_iter().filter_map(spread).reduce(worse) {
        return Some(Known { noise, origin: Origin::Runs, outliers });
    }
    let benchmark = pair.b.case.benchmark();
    let measured = |t: &Taken<'_>| {
        floors.iter().find(|f| f.machine == t.run.machine.id)?.find(&t.measurement.case, metric)
    };
    let of_doctor: Option<Vec<Noise>> = pair.a.all.iter().chain(&pair.b.all).map(measured).collect();
    if let Some(noise) = of_doctor.and_then(|all| all.into_iter().reduce(Noise::worse)) {
        return Some(Known { noise, origin: Origin::Doctor, outliers: 0 });
    }
    let declared = bench::find(benchmark).and_then(|b| b.noise(metric))?;
    Some(Known { noise: Noise::declared(declared), origin: Origin::Declared, outliers: 0 })
}

#[cfg(test)]
mod tests;
