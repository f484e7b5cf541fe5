//! Sides of one or more runs each: per metric the difference of every two, its interval, and whether it is real; from that the ranks
//! that a side may have.
//!
//! Real is what goes beyond the noise between runs and is still unlikely after Holm's correction over all metrics and pairs of sides.
//! Where the noise is not known nothing is called real. Pure: no file is read and nothing is printed here.
#![forbid(unsafe_code)]

mod alike;
mod cases;
mod decided;
mod judge;
pub mod lasting;
mod noise;
mod rank;
mod require;
mod uncompared;

use std::collections::BTreeMap;

use serde::Serialize;

pub use alike::Difference;
use cases::{Members, Pair, Taken};
pub use decided::{Blind, Decided, Gate, Tone};
pub use judge::{Doubt, FAMILY, MOST_TAKEN};
use judge::{Evidence, Judged, OfRun, Why};
pub use noise::{Floor, Floors, Noise};
use rank::Metric;
pub use rank::{Place, Prices, Ranked, Score, Unweighed};
pub use require::{Holds, Requirement};
pub use uncompared::{Has, Kind, Missing, Standing, Uncompared};

use plimsoll_bench::Better;
use plimsoll_model::case::Case;
use plimsoll_result::document::Run;
use plimsoll_stats::{Excluded, MOSTLY_EXCLUDED};
use plimsoll_units::quantity::{Quantity, Unit, apart, percent};

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

/// One metric of one case on two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Indices of the sides: A and B of this difference.
    pub sides: [usize; 2],
    /// Index of the metric in [`Comparison::ranked`].
    pub row: usize,
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
    /// Direction; null where neither is good ([`plimsoll_bench::Role::Informative`]).
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
    /// Names of the sides; each other one is compared with the first.
    pub sides: Vec<String>,
    /// Runs on each side.
    pub runs: Vec<usize>,
    /// The price of each side; null without prices.
    pub prices: Option<Prices>,
    /// Differences between the sides besides their figures.
    pub differs: Vec<Difference>,
    /// Remarks on a baseline, each a sentence.
    pub notes: Vec<String>,
    /// All metrics that two sides have, with the ranks that each side may have.
    pub ranked: Vec<Ranked>,
    /// All metrics that the first side and another one have.
    pub compared: Vec<Compared>,
    /// All else that either of them has: each case, and each metric of a compared case, without a figure on one side or both.
    pub uncompared: Vec<Uncompared>,
    /// The decisions on the differences from the first side.
    pub decided: Decided,
    /// What the gate sees; null where none was asked for.
    pub gate: Option<Gate>,
    /// Scores, the best first; empty without weights.
    pub scores: Vec<Score>,
    /// Weighted cases that are in no score.
    pub unweighed: Vec<Unweighed>,
}

/// The options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The loss from which on the user wants to know of it: what would not be seen then is not called no change.
    pub fail_on: Option<f64>,
    /// The price of each side.
    pub prices: Option<Prices>,
    /// Weights of benchmarks in the score; without any there is no score.
    pub weights: BTreeMap<String, f64>,
}

/// Most sides that are compared.
pub const MAX_SIDES: usize = 30;
/// Runs of a side from which on their own spread tells the noise.
const ENOUGH_RUNS: usize = 5;

/// The letters of a side: A, B … Z, AA, AB …
pub fn letter(side: usize) -> String {
    let last = char::from(b'A' + (side % 26) as u8);
    let before = (side / 26).checked_sub(1).map(letter);
    format!("{}{last}", before.unwrap_or_default())
}

/// Compares every two sides. `floors` has what doctor measured on the machines at hand.
pub fn compare(sides: &[Side], floors: &[Floors], wanted: &Wanted) -> Comparison {
    let figures = cases::of_sides(sides);
    let cases: Vec<Members<'_, '_>> = cases::together(&figures);
    let prices = wanted.prices.as_ref().map(|prices| prices.values.as_slice());
    let judged = |members| Metric::all(members, floors, prices, wanted.fail_on);
    let mut metrics: Vec<Vec<Metric<'_, '_>>> = cases.iter().map(judged).collect();
    let all = metrics.iter_mut().flatten().flat_map(|one| one.compared.iter_mut().chain(&mut one.by_price));
    judge::correct(all.collect());
    let ranked: Vec<Ranked> = metrics.iter().flatten().map(|one| one.ranked(floors, prices)).collect();
    let uncompared = uncompared::find(sides, &cases, &metrics);
    let with_first = |(row, metric): (usize, Metric<'_, '_>)| {
        let all = metric.compared.into_iter().filter(|one| one.sides[0] == 0);
        all.map(move |one| Compared { row, ..one }).collect::<Vec<_>>()
    };
    let compared: Vec<Compared> = metrics.into_iter().flatten().enumerate().flat_map(with_first).collect();
    let (scores, unweighed) = rank::scores(&ranked, sides.len(), &wanted.weights);
    Comparison {
        sides: sides.iter().map(|side| side.name.clone()).collect(),
        runs: sides.iter().map(|side| side.runs.len()).collect(),
        prices: wanted.prices.clone(),
        differs: alike::differences(sides),
        notes: Vec::new(),
        ranked,
        decided: Decided::of(&compared, &uncompared),
        gate: wanted.fail_on.map(|share| Gate::of(share, &compared, &uncompared)),
        compared,
        uncompared,
        scores,
        unweighed,
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
fn excluded(pair: &Pair<'_, '_>, [a, b]: &[String; 2]) -> Option<Why> {
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
fn foreign(pair: &Pair<'_, '_>, [a, b]: &[String; 2]) -> Option<Why> {
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
    plimsoll_bench::subsystem_of(case).stay.has_moved(a, b).then(|| {
        let text = format!(
            "the hypervisor ran the vCPUs on other cores: core-to-core latency {} and {}",
            time(a.seconds),
            time(b.seconds)
        );
        Why::new(Doubt::Migrated, text)
    })
}

/// The direction in which a metric is judged: as its benchmark gives it; as the document says, where this program does not have
/// the metric; none where more of it is neither good nor bad.
fn direction_of(case: &Case, metric: &str, by_document: Better) -> Option<Better> {
    match plimsoll_bench::metric(case, metric) {
        Some(known) => (known.role == plimsoll_bench::Role::Judged).then_some(known.better),
        None => Some(by_document),
    }
}

/// A noise between runs, and what it is known from.
#[derive(Clone, Copy, Debug)]
struct Known {
    noise: Noise,
    /// The smallest difference of the sides that may be called real, as a logarithm.
    smallest: f64,
    origin: Origin,
    outliers: usize,
}

impl Known {
    fn new(noise: Noise, origin: Origin) -> Self {
        Self { noise, smallest: noise.smallest(), origin, outliers: 0 }
    }
}

/// The spread of a side's own runs and the number of outliers that it leaves out; `None` for fewer runs than [`ENOUGH_RUNS`].
fn spread(all: &[OfRun]) -> Option<(Noise, usize)> {
    let values: Vec<f64> = all.iter().map(|run| run.median).collect();
    (values.len() >= ENOUGH_RUNS).then(|| Noise::of_runs(&values)).flatten()
}

/// The noise between runs for this metric, the best source first.
fn noise_of(pair: &Pair<'_, '_>, metric: &str, sides: [&[OfRun]; 2], floors: &[Floors]) -> Option<Known> {
    match sides.map(spread) {
        [Some((a, n)), Some((b, m))] => {
            let (noise, smallest) = Noise::of_sides([a, b], sides.map(|runs| runs.len() as f64));
            return Some(Known { noise, smallest, origin: Origin::Runs, outliers: n + m });
        }
        [Some((noise, outliers)), None] | [None, Some((noise, outliers))] => {
            return Some(Known { outliers, ..Known::new(noise, Origin::Runs) });
        }
        [None, None] => {}
    }
    let measured = |t: &Taken<'_>| {
        floors.iter().find(|f| f.machine == t.run.machine.id)?.find(&t.measurement.case, metric)
    };
    let of_doctor: Option<Vec<Noise>> = pair.a.all.iter().chain(&pair.b.all).map(measured).collect();
    if let Some(noise) = of_doctor.and_then(|all| all.into_iter().reduce(Noise::worse)) {
        return Some(Known::new(noise, Origin::Doctor));
    }
    let declared = plimsoll_bench::find(pair.b.case.benchmark()).and_then(|b| b.noise(metric))?;
    Some(Known::new(Noise::declared(declared), Origin::Declared))
}

#[cfg(test)]
mod tests;
