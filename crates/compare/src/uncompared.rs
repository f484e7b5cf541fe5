//! Cases and metrics of either side that are not compared, so that none is dropped silently.

use std::collections::HashSet;
use std::ptr;

use plimsoll_model::case::Case;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_units::quantity::Unit;
use serde::{Serialize, Serializer};

use super::cases::{CasePair, MatchedCase, MissingResult, SideFigures};
use super::rank::RankedMetric;
use super::{ComparedMetric, ComparedSide, DifferenceVerdict, alike};

/// A case, or a metric of a compared case, without a result on one or both sides, or in some runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Uncompared {
    /// Index of the second side; the first one is that of the comparison.
    pub side: usize,
    /// The case.
    pub case: Case,
    /// Node, if a side has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Name of the metric, if the case itself is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Effect on a gate.
    pub kind: UncomparedKind,
    /// State on the first side.
    pub a: Standing,
    /// State on the second side.
    pub b: Standing,
}

/// Effect of an uncompared case or metric on a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UncomparedKind {
    /// The first side has a result, but the second or one of its runs does not: `--fail-on` fails.
    Lost,
    /// Interruptions made results on both sides invalid: the gate is blind.
    Interrupted,
    /// Both sides have results, but some of their measurements do not.
    Partly,
    /// Neither side has a result.
    Neither,
    /// Only the second side has a result.
    New,
}

/// Policy of a gate for a result that the second side has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The gate fails.
    Fail,
    /// The loss is reported, but the gate passes.
    Ignore,
}

/// State of a case or metric on one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Status; `None`, as the word `missing`, if the side does not have it.
    #[serde(serialize_with = "serialize_word")]
    pub status: Option<Status>,
    /// Reason for missing results.
    pub reason: Option<String>,
    /// Number of measurements with a result.
    pub ok: usize,
    /// Number of measurements; a run without the case counts as one.
    pub of: usize,
    /// Headline, or the metric in question, of the last measurement that has it, valid or not.
    pub value: Option<f64>,
    /// Unit of `value`.
    pub unit: Option<Unit>,
}

/// Status, as documents name it, of a case or metric that a side does not have.
const MISSING_CASE: &str = "missing";

fn serialize_word<S: Serializer>(status: &Option<Status>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(status.map_or(MISSING_CASE, Status::word))
}

/// Returns the cases and metrics that are not fully compared between the first side and each other
/// side. `metrics` has the compared metrics of each entry of `cases`.
pub(super) fn find(
    sides: &[ComparedSide],
    cases: &[MatchedCase<'_, '_>],
    metrics: &[Vec<RankedMetric<'_, '_>>],
) -> Vec<Uncompared> {
    let [first, others @ ..] = sides else { return Vec::new() };
    let mut found = Vec::new();
    for (side, second) in others.iter().enumerate().map(|(index, second)| (index + 1, second)) {
        for (members, metrics) in cases.iter().zip(metrics) {
            let on = |side: usize| members.iter().find(|(one, _)| *one == side).map(|(_, figures)| *figures);
            let all: Vec<Uncompared> = match [on(0), on(side)] {
                [Some(a), Some(b)] if !a.all.is_empty() && !b.all.is_empty() => {
                    let own = |metric: &RankedMetric<'_, '_>| {
                        metric.compared.iter().find(|one| one.sides == [0, side]).cloned()
                    };
                    let compared: Vec<ComparedMetric> = metrics.iter().filter_map(own).collect();
                    let (pair, sides) = (CasePair { a, b }, [first, second]);
                    let whole = replaced(&pair, &compared, sides).into_iter().chain(partly(&pair, sides));
                    whole.chain(lone_metrics(&pair, &compared, second)).collect()
                }
                on => of_one(on, [first, second]).into_iter().collect(),
            };
            found.extend(all.into_iter().map(|one| Uncompared { side, ..one }));
        }
    }
    found
}

fn of_one([a, b]: [Option<&SideFigures<'_>>; 2], [first, second]: [&ComparedSide; 2]) -> Option<Uncompared> {
    let on = |figures: Option<&SideFigures<'_>>, side| {
        figures.map_or_else(|| Standing::missing(side), |figures| Standing::of(figures, side))
    };
    let one = Uncompared::of_case(a.or(b)?, on(a, first), on(b, second));
    let interrupted = a.zip(b).is_some_and(|(a, b)| is_interrupted([a, b], second));
    let kind = match one.kind {
        UncomparedKind::Lost if b.is_none() && second.is_published() => UncomparedKind::Neither,
        UncomparedKind::Lost if interrupted => UncomparedKind::Interrupted,
        kind => kind,
    };
    Some(Uncompared { kind, ..one })
}

/// Returns whether `a` lacks results by interruptions, and `b`, the second side, by nothing else.
fn is_interrupted([a, b]: [&SideFigures<'_>; 2], second: &ComparedSide) -> bool {
    a.without.iter().any(MissingResult::is_interrupted)
        && b.absent(second).is_empty()
        && b.without.iter().all(MissingResult::is_interrupted)
}

impl Uncompared {
    fn of_case(figures: &SideFigures<'_>, a: Standing, b: Standing) -> Self {
        let kind = match (a.status, b.status) {
            (Some(Status::Ok), _) => UncomparedKind::Lost,
            (_, Some(Status::Ok)) => UncomparedKind::New,
            _ => UncomparedKind::Neither,
        };
        let node = figures.node.map(str::to_owned);
        Self { side: 1, case: figures.case.clone(), node, metric: None, kind, a, b }
    }
}

/// Returns the first side's case as lost if the second side has only a similar case, and no main
/// metric of the pair has a verdict; else `None`.
fn replaced(
    pair: &CasePair<'_, '_>,
    compared: &[ComparedMetric],
    [first, second]: [&ComparedSide; 2],
) -> Option<Uncompared> {
    use DifferenceVerdict::{Improvement, NoChange, Regression};
    let judged = |c: &ComparedMetric| c.headline && matches!(c.verdict, Improvement | Regression | NoChange);
    let differs = alike::difference(pair.a.case, pair.b.case);
    if differs.is_empty() || second.is_published() || compared.iter().any(judged) {
        return None;
    }
    let instead = format!("compared with another case, {}, and inconclusive", differs.join(", "));
    let reason = Some(plimsoll_units::text::shown(&instead));
    let b = Standing { reason, ..Standing::missing(second) };
    Some(Uncompared::of_case(pair.a, Standing::of(pair.a, first), b))
}

/// Returns a compared case if results are missing: as lost if a run of the second side has none.
fn partly(pair: &CasePair<'_, '_>, [first, second]: [&ComparedSide; 2]) -> Option<Uncompared> {
    let has: HashSet<*const Run> = pair.b.all.iter().map(|taken| ptr::from_ref(taken.run)).collect();
    let interrupted = is_interrupted([pair.a, pair.b], second);
    let lost = !second.is_published()
        && !interrupted
        && second.runs.iter().any(|run| !has.contains(&ptr::from_ref(run)));
    if !lost && pair.a.without.is_empty() && pair.b.without.is_empty() {
        return None;
    }
    let of_case = Uncompared::of_case(pair.b, Standing::of(pair.a, first), Standing::of(pair.b, second));
    Some(Uncompared { kind: if lost { UncomparedKind::Lost } else { UncomparedKind::Partly }, ..of_case })
}

/// Returns the metrics of a compared case that are not among `compared`.
fn lone_metrics(
    pair: &CasePair<'_, '_>,
    compared: &[ComparedMetric],
    second: &ComparedSide,
) -> Vec<Uncompared> {
    let known = |metric: &MetricResult| compared.iter().any(|c| c.metric == metric.name);
    let (a, b) = (pair.a.metrics(), pair.b.metrics());
    let mut lone: Vec<&MetricResult> = a.iter().copied().filter(|m| !known(m)).collect();
    lone.extend(b.iter().copied().filter(|m| !known(m) && !a.iter().any(|known| known.name == m.name)));
    let one = |metric: &MetricResult| {
        let on = |all: &[&MetricResult], figures: &SideFigures<'_>| {
            let own = all.iter().copied().find(|m| m.name == metric.name);
            Standing::of_metric(own, metric, figures)
        };
        let (a, b) = (on(&a, pair.a), on(&b, pair.b));
        let one = Uncompared { metric: Some(metric.name.clone()), ..Uncompared::of_case(pair.b, a, b) };
        let ungated = plimsoll_bench::is_informative(pair.b.case, &metric.name) || second.is_published();
        match one.kind {
            UncomparedKind::Lost if ungated => Uncompared { kind: UncomparedKind::Partly, ..one },
            _ => one,
        }
    };
    lone.into_iter().map(one).collect()
}

impl Standing {
    /// Returns the word of the status for documents, such as `failed` or `missing`.
    pub fn word(&self) -> &'static str {
        self.status.map_or(MISSING_CASE, Status::word)
    }

    fn of(figures: &SideFigures<'_>, side: &ComparedSide) -> Self {
        let absent = figures.absent(side);
        let (ok, of) = (figures.all.len(), figures.all.len() + figures.without.len() + absent.len());
        let last = figures.without.last();
        let status = if ok > 0 { Some(Status::Ok) } else { last.map(|without| without.status) };
        let shown = figures.all.last().map(|taken| taken.measurement).or(last.map(|w| w.measurement));
        let headline = shown.and_then(|m: &Measurement| m.metrics.first());
        let why = |without: &MissingResult<'_>| {
            let reason = without.reason.as_deref().unwrap_or("no reason given");
            if ok == 0 { reason.to_owned() } else { format!("{}: {reason}", without.status.word()) }
        };
        let lacks = || (!absent.is_empty()).then(|| format!("{MISSING_CASE}: {}", lacks(&absent)));
        let reason = last.map(why).or_else(lacks);
        Self {
            status,
            reason: reason.map(|text| plimsoll_units::text::shown(&text)),
            ok,
            of,
            value: headline.map(|m| m.summary.median),
            unit: headline.map(|m| m.unit),
        }
    }

    fn missing(side: &ComparedSide) -> Self {
        let why = || lacks(&side.runs.iter().collect::<Vec<_>>());
        let reason = if side.is_published() { "not published" } else { why() };
        Self { status: None, reason: Some(reason.to_owned()), ok: 0, of: 0, value: None, unit: None }
    }

    /// Returns the state of metric `wanted` on a side; `own` is the metric there, if present.
    fn of_metric(own: Option<&MetricResult>, wanted: &MetricResult, figures: &SideFigures<'_>) -> Self {
        let is_usable = || figures.metric(wanted).is_some_and(|runs| !runs.is_empty());
        let (status, reason) = match own {
            None => (None, Some("the case has no such metric there".to_owned())),
            Some(own) if own.unit != wanted.unit => {
                (Some(Status::Invalid), Some(format!("it is in {} there", own.unit)))
            }
            Some(_) if is_usable() => (Some(Status::Ok), None),
            Some(_) => (Some(Status::Invalid), Some("its runs give it in several units".to_owned())),
        };
        let count = figures.all.len();
        Self {
            ok: if status == Some(Status::Ok) { count } else { 0 },
            of: count,
            value: own.map(|m| m.summary.median),
            unit: own.map(|m| m.unit),
            status,
            reason,
        }
    }
}

fn lacks(runs: &[&Run]) -> &'static str {
    match runs.iter().any(|run| run.status == RunStatus::Partial) {
        true => "the run is partial: it ended before this case, or its plan lacks it",
        false => "its plan lacks it",
    }
}
