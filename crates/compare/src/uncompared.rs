//! Cases and metrics of either side that are not compared, so that none is dropped silently.

use std::collections::HashSet;
use std::ptr;

use plimsoll_model::case::Case;
use plimsoll_model::measurement::{MetricResult, Status};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_units::quantity::Unit;
use serde::{Serialize, Serializer};

use super::cases::{CaseMeasurement, MatchedCase, SideFigures, distinct_metrics};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
                    let all = metrics.iter().flat_map(|metric| &metric.compared);
                    let compared: Vec<&ComparedMetric> = all.filter(|one| one.sides == [0, side]).collect();
                    let whole = replaced([a, b], &compared).into_iter().chain(partly([a, b]));
                    whole.chain(lone_metrics([a, b], &compared)).collect()
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
        figures.map_or_else(|| Standing::missing(side), Standing::of)
    };
    let one = Uncompared::of_case(a.or(b)?, on(a, first), on(b, second));
    let interrupted = a.zip(b).is_some_and(|(a, b)| is_interrupted([a, b]));
    let kind = match one.kind {
        UncomparedKind::Lost if b.is_none() && second.is_published() => UncomparedKind::Neither,
        UncomparedKind::Lost if interrupted => UncomparedKind::Interrupted,
        kind => kind,
    };
    Some(Uncompared { kind, ..one })
}

/// Returns whether `a` lacks results by interruptions, and `b`, the second side, by nothing else.
fn is_interrupted([a, b]: [&SideFigures<'_>; 2]) -> bool {
    a.without.iter().any(CaseMeasurement::is_interrupted)
        && b.absent().is_empty()
        && b.without.iter().all(CaseMeasurement::is_interrupted)
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
fn replaced([a, b]: [&SideFigures<'_>; 2], compared: &[&ComparedMetric]) -> Option<Uncompared> {
    use DifferenceVerdict::{Improvement, NoChange, Regression};
    let judged = |c: &&ComparedMetric| c.headline && matches!(c.verdict, Improvement | Regression | NoChange);
    let differs = alike::difference(a.case, b.case);
    if differs.is_empty() || b.side.is_published() || compared.iter().any(judged) {
        return None;
    }
    let instead = format!("compared with another case, {}, and inconclusive", differs.join(", "));
    let reason = Some(plimsoll_units::text::shown(&instead));
    let b = Standing { reason, ..Standing::missing(b.side) };
    Some(Uncompared::of_case(a, Standing::of(a), b))
}

/// Returns a compared case if results are missing: as lost if a run of the second side has none.
fn partly([a, b]: [&SideFigures<'_>; 2]) -> Option<Uncompared> {
    let has: HashSet<*const Run> = b.all.iter().map(|taken| ptr::from_ref(taken.run)).collect();
    let interrupted = is_interrupted([a, b]);
    let lost = !b.side.is_published()
        && !interrupted
        && b.side.runs.iter().any(|run| !has.contains(&ptr::from_ref(run)));
    if !lost && a.without.is_empty() && b.without.is_empty() {
        return None;
    }
    let of_case = Uncompared::of_case(b, Standing::of(a), Standing::of(b));
    Some(Uncompared { kind: if lost { UncomparedKind::Lost } else { UncomparedKind::Partly }, ..of_case })
}

/// Returns the metrics of a compared case that are not among `compared`.
fn lone_metrics([a, b]: [&SideFigures<'_>; 2], compared: &[&ComparedMetric]) -> Vec<Uncompared> {
    let known = |metric: &MetricResult| compared.iter().any(|c| c.metric == metric.name);
    let one = |metric: &MetricResult| {
        let [of_a, of_b] = [a, b].map(|figures| Standing::of_metric(figures, metric));
        let one = Uncompared { metric: Some(metric.name.clone()), ..Uncompared::of_case(b, of_a, of_b) };
        let ungated = plimsoll_bench::is_informative(b.case, &metric.name) || b.side.is_published();
        let is_partly = ungated && one.kind == UncomparedKind::Lost;
        Uncompared { kind: if is_partly { UncomparedKind::Partly } else { one.kind }, ..one }
    };
    let all = distinct_metrics([a, b].into_iter().flat_map(SideFigures::metrics));
    all.into_iter().filter(|metric| !known(metric)).map(one).collect()
}

impl Standing {
    /// Returns the word of the status for documents, such as `failed` or `missing`.
    pub fn word(&self) -> &'static str {
        self.status.map_or(MISSING_CASE, Status::word)
    }

    fn of(figures: &SideFigures<'_>) -> Self {
        let absent = figures.absent();
        let (ok, of) = (figures.all.len(), figures.all.len() + figures.without.len() + absent.len());
        let last = figures.without.last();
        let headline = figures.all.last().or(last).and_then(|taken| taken.measurement.metrics.first());
        let last = last.map(|taken| taken.measurement.effective_status());
        let status = if ok > 0 { Some(Status::Ok) } else { last.as_ref().map(|(status, _)| *status) };
        let why = |(status, reason): (Status, Option<String>)| {
            let reason = reason.unwrap_or_else(|| "no reason given".to_owned());
            if ok == 0 { reason } else { format!("{}: {reason}", status.word()) }
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

    /// Returns the state of the metric named like `wanted` on the side of `figures`.
    fn of_metric(figures: &SideFigures<'_>, wanted: &MetricResult) -> Self {
        let own = figures.metrics().into_iter().find(|metric| metric.name == wanted.name);
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
