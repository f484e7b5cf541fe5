//! Comparison of sides with one or more runs each. Pure: reads no file and prints nothing. A
//! difference is real if it exceeds the noise between runs and is significant after Holm's
//! correction over all metrics and pairs of sides. Without known noise nothing is real.
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

pub use alike::ConditionDifference;
use cases::{CaseMeasurement, MatchedCase};
pub use decided::{Decisions, FailOnResult, UnjudgedMetrics};
pub use judge::{FAMILY, MOST_TAKEN, Undecided};
use judge::{JudgedDifference, RunMetric, SideLogarithm, Why};
pub use noise::{Floors, NoiseFloor, RunNoise};
pub use rank::{Prices, Ranked, RankedSide, Score, Unweighed};
use rank::{RankEntry, RankedMetric};
pub use require::{Requirement, RequirementResult};
pub use uncompared::{Missing, Standing, Uncompared, UncomparedKind};

use plimsoll_bench::Better;
use plimsoll_model::case::Case;
use plimsoll_result::document::Run;
use plimsoll_stats::{ExcludedShare, MOSTLY_EXCLUDED};
use plimsoll_units::quantity::{Quantity, Unit, percent, write_distinct};

/// Prefix of the name of a side that is a published table.
pub const PUBLISHED: &str = "published:";

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct ComparedSide {
    /// Name given by the user.
    pub name: String,
    /// Runs, oldest first.
    pub runs: Vec<Run>,
}

/// Verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceVerdict {
    /// Real, in the metric's good direction.
    Improvement,
    /// Real, in the metric's bad direction.
    Regression,
    /// Within the noise between runs.
    NoChange,
    /// Undecided; [`ComparedMetric::why`] has the reason.
    Inconclusive,
    /// Not judged: the metric has no direction.
    Informative,
}

impl DifferenceVerdict {
    /// Returns the word for documents, such as `no-change`.
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

/// Difference of one metric of one case between two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedMetric {
    /// Indices of the two sides, A and B.
    pub sides: [usize; 2],
    /// Index of the metric in [`Comparison::ranked`].
    pub row: usize,
    /// The case of the second side.
    pub case: Case,
    /// Node, if a side has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// Whether it is the case's headline.
    pub headline: bool,
    /// Unit of both results.
    pub unit: Unit,
    /// Better direction; null for a metric without one ([`plimsoll_bench::Role::Informative`]).
    pub better: Option<Better>,
    /// Result of the first side: the median over its runs.
    pub a: f64,
    /// Result of the second side.
    pub b: f64,
    /// Delivered headline of each side, interruptions included; null if little time was excluded.
    pub delivered: [Option<f64>; 2],
    /// b ÷ a − 1; null if there is no ratio.
    pub difference: Option<f64>,
    /// 95 % interval of the difference, noise between runs included; null if the noise is unknown.
    pub interval: Option<[f64; 2]>,
    /// Smallest difference that would be real, as a share; null if the noise is unknown.
    pub smallest: Option<f64>,
    /// Largest loss that would not be a regression, as a share; null if unlimited or not judged.
    pub unseen: Option<f64>,
    /// Source of the noise between runs.
    pub noise: Option<NoiseOrigin>,
    /// Outlier runs that the noise leaves out.
    pub outliers: usize,
    /// Probability of such a difference without a cause, corrected for the number of metrics.
    pub p: Option<f64>,
    /// Verdict.
    pub verdict: DifferenceVerdict,
    /// Reason of an inconclusive verdict.
    pub why: Option<String>,
    /// Cause of an inconclusive verdict; null if it is decided.
    pub doubt: Option<Undecided>,
    /// Parameters that differ: `threads 2 → 1`.
    pub differs: Vec<String>,
}

/// Source of a noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NoiseOrigin {
    /// Spread of a side's own runs.
    Runs,
    /// `plimsoll doctor` on this machine.
    Doctor,
    /// Declared by the benchmark, not measured.
    Declared,
}

/// A comparison of sides.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Names of the sides; each one is compared with the first.
    pub sides: Vec<String>,
    /// Number of runs per side.
    pub runs: Vec<usize>,
    /// Price of each side; null without prices.
    pub prices: Option<Prices>,
    /// Differences between the sides besides their results.
    pub differs: Vec<ConditionDifference>,
    /// Remarks on a baseline, each a sentence.
    pub notes: Vec<String>,
    /// Metrics that at least two sides have, with the possible ranks.
    pub ranked: Vec<Ranked>,
    /// Metrics that the first side and another side have.
    pub compared: Vec<ComparedMetric>,
    /// Cases, and metrics of compared cases, without a result on one or both sides.
    pub uncompared: Vec<Uncompared>,
    /// Summary of the differences from the first side.
    pub decided: Decisions,
    /// Result of the gate; null without `--fail-on`.
    pub gate: Option<FailOnResult>,
    /// Scores, best first; empty without weights.
    pub scores: Vec<Score>,
    /// Weighted cases that are in no score.
    pub unweighed: Vec<Unweighed>,
}

/// Options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// Loss that the user wants to detect, as a share.
    pub fail_on: Option<f64>,
    /// Price of each side.
    pub prices: Option<Prices>,
    /// Weights of benchmarks in the score; empty for no score.
    pub weights: BTreeMap<String, f64>,
}

/// Most sides of a comparison.
pub const MAX_SIDES: usize = 30;
/// Least runs of a side from which their spread determines the noise.
const ENOUGH_RUNS: usize = 5;

/// Returns the letters that name the side with index `side`: A, B … Z, AA, AB …
pub fn letter(side: usize) -> String {
    let last = char::from(b'A' + (side % 26) as u8);
    let before = (side / 26).checked_sub(1).map(letter);
    format!("{}{last}", before.unwrap_or_default())
}

/// Compares every two sides. `floors` has the noise that doctor measured, per machine.
pub fn compare(sides: &[ComparedSide], floors: &[Floors], wanted: &CompareOptions) -> Comparison {
    let figures = cases::cases_of_sides(sides);
    let cases: Vec<MatchedCase<'_, '_>> = cases::match_cases(&figures);
    let prices = wanted.prices.as_ref().map(|prices| prices.values.as_slice());
    let judged = |members| RankedMetric::all(members, floors, prices, wanted.fail_on);
    let mut metrics: Vec<Vec<RankedMetric<'_, '_>>> = cases.iter().map(judged).collect();
    let all = metrics.iter_mut().flatten().flat_map(|one| one.compared.iter_mut().chain(&mut one.by_price));
    judge::correct(all.collect());
    let ranked: Vec<Ranked> = metrics.iter().flatten().map(|one| one.ranked(floors, prices)).collect();
    let uncompared = uncompared::find(sides, &cases, &metrics);
    let with_first = |(row, metric): (usize, RankedMetric<'_, '_>)| {
        let all = metric.compared.into_iter().filter(|one| one.sides[0] == 0);
        all.map(move |one| ComparedMetric { row, ..one }).collect::<Vec<_>>()
    };
    let compared: Vec<ComparedMetric> =
        metrics.into_iter().flatten().enumerate().flat_map(with_first).collect();
    let (scores, unweighed) = rank::scores(&ranked, sides.len(), &wanted.weights);
    Comparison {
        sides: sides.iter().map(|side| side.name.clone()).collect(),
        runs: sides.iter().map(|side| side.runs.len()).collect(),
        prices: wanted.prices.clone(),
        differs: alike::differences(sides),
        notes: Vec::new(),
        ranked,
        gate: wanted.fail_on.map(|share| FailOnResult::of(share, &compared, &uncompared)),
        decided: Decisions::of(&compared, &uncompared),
        compared,
        uncompared,
        scores,
        unweighed,
    }
}

impl ComparedSide {
    /// Returns whether the side is a published report, so that it does not have every result.
    pub fn is_published(&self) -> bool {
        self.name.starts_with(PUBLISHED)
    }
}

impl Comparison {
    /// Returns the number of compared metrics with `verdict`.
    pub fn count(&self, verdict: DifferenceVerdict) -> usize {
        self.compared.iter().filter(|c| c.verdict == verdict).count()
    }

    /// Yields the regressions with a loss above `share` (0.05 is 5 %).
    pub fn worse_than(&self, share: f64) -> impl Iterator<Item = &ComparedMetric> {
        regressions(&self.compared, share)
    }
}

fn regressions(compared: &[ComparedMetric], share: f64) -> impl Iterator<Item = &ComparedMetric> {
    compared.iter().filter(move |c| c.verdict == DifferenceVerdict::Regression && c.loss() > share)
}

impl ComparedMetric {
    /// Returns the loss as a share: 0.1 is a tenth less work in the same time, below 0 is a gain.
    /// If the first side is a share of 0, returns the share on the second side.
    pub fn loss(&self) -> f64 {
        match (self.difference, self.better) {
            (Some(difference), Some(better)) => -better.gain(difference),
            (None, Some(Better::Lower)) if self.unit == Unit::One && self.a == 0.0 => self.b,
            _ => 0.0,
        }
    }
}

/// Returns the reason for no verdict if over half the time of a side is excluded.
fn excluded(pair: [&RankEntry<'_, '_>; 2]) -> Option<Why> {
    pair.into_iter().find_map(|entry| {
        let (side, excluded) = (letter(entry.side), entry.figures.excluded());
        let (ExcludedShare::Mostly(share) | ExcludedShare::AllBut(share)) = excluded else { return None };
        let [share, most] = write_distinct([share, MOSTLY_EXCLUDED], 2, percent);
        let text = format!(
            "{share} of the time of {side} is excluded (interrupted slices), more than {most}: measure {side} again on an idle machine"
        );
        Some(Why::new(Undecided::Interrupted, text))
    })
}

/// Returns an external cause of the difference (moved vCPUs, other work), if any.
fn foreign(pair: [&RankEntry<'_, '_>; 2]) -> Option<Why> {
    let [a, b] = pair.map(|entry| (letter(entry.side), entry.figures.disturbed()));
    let (side, share) = if a.1 >= b.1 { a } else { b };
    let disturbed = || {
        let share = percent(share, 2);
        let text = format!(
            "other work took {share} of the CPU time of {side} (steal, or waiting for a CPU): measure {side} again on an idle machine"
        );
        Why::new(Undecided::Interrupted, text)
    };
    moved(pair).or_else(|| (share > MOST_TAKEN).then(disturbed))
}

fn moved([a, b]: [&RankEntry<'_, '_>; 2]) -> Option<Why> {
    let (case, a, b) = (b.figures.case, a.figures.cpu_distances()?, b.figures.cpu_distances()?);
    let time = |seconds| Quantity::new(seconds, Unit::Second);
    plimsoll_bench::subsystem_of(case).topology.has_moved(a, b).then(|| {
        let [a, b] = [a, b].map(|distance| time(distance.seconds));
        let what = "the hypervisor ran the vCPUs on other cores";
        Why::new(Undecided::Migrated, format!("{what}: core-to-core latency {a} and {b}"))
    })
}

/// Returns which direction of the metric is better: the benchmark's, or `by_document` if the
/// benchmark does not know the metric; `None` if the metric is not judged.
fn direction_of(case: &Case, metric: &str, by_document: Better) -> Option<Better> {
    match plimsoll_bench::metric(case, metric) {
        Some(known) => (known.role == plimsoll_bench::Role::Judged).then_some(known.better),
        None => Some(by_document),
    }
}

#[derive(Clone, Copy, Debug)]
struct KnownNoise {
    noise: RunNoise,
    smallest: f64,
    origin: NoiseOrigin,
    outliers: usize,
}

impl KnownNoise {
    fn new(noise: RunNoise, origin: NoiseOrigin) -> Self {
        Self { noise, smallest: noise.smallest(), origin, outliers: 0 }
    }
}

/// Returns the noise between the runs of a side, and the number of excluded outliers; `None` for
/// fewer than [`ENOUGH_RUNS`] runs.
fn spread(all: &[RunMetric]) -> Option<(RunNoise, usize)> {
    let values: Vec<f64> = all.iter().map(|run| run.median).collect();
    (values.len() >= ENOUGH_RUNS).then(|| RunNoise::of_runs(&values)).flatten()
}

/// Returns the noise of `metric` between runs: from the runs of two sides if there are enough, else
/// from doctor's `floors`, else as the benchmark declares; `None` if unknown.
fn noise_of(pair: [&RankEntry<'_, '_>; 2], metric: &str, floors: &[Floors]) -> Option<KnownNoise> {
    match pair.map(|entry| spread(&entry.runs)) {
        [Some((a, n)), Some((b, m))] => {
            let (noise, smallest) = RunNoise::of_sides([a, b], pair.map(|entry| entry.runs.len() as f64));
            return Some(KnownNoise { noise, smallest, origin: NoiseOrigin::Runs, outliers: n + m });
        }
        [Some((noise, outliers)), None] | [None, Some((noise, outliers))] => {
            return Some(KnownNoise { outliers, ..KnownNoise::new(noise, NoiseOrigin::Runs) });
        }
        [None, None] => {}
    }
    let measured = |t: &CaseMeasurement<'_>| {
        floors.iter().find(|f| f.machine == t.run.machine.id)?.find(&t.measurement.case, metric)
    };
    let [a, b] = pair.map(|entry| entry.figures);
    let of_doctor: Option<Vec<RunNoise>> = a.all.iter().chain(&b.all).map(measured).collect();
    if let Some(noise) = of_doctor.and_then(|all| all.into_iter().reduce(RunNoise::noisier_of)) {
        return Some(KnownNoise::new(noise, NoiseOrigin::Doctor));
    }
    Some(KnownNoise::new(declared_noise(b.case)?, NoiseOrigin::Declared))
}

fn declared_noise(case: &Case) -> Option<RunNoise> {
    plimsoll_bench::find(case.benchmark())?.descriptor().noise.map(RunNoise::declared)
}

#[cfg(test)]
mod tests;
