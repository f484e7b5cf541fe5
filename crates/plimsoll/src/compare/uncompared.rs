//! What either side has and is not compared: nothing is left out without a word.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::cases::{Figures, Pair, Without};
use super::{Compared, Side};
use crate::bench;
use crate::case::Case;
use crate::document::{Run, RunStatus};
use crate::measurement::{Measurement, MetricResult, Status};
use crate::quantity::Unit;

/// A case, or a metric of a compared case, that has no figure on one side or both, or not in all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Uncompared {
    /// The case.
    pub case: Case,
    /// The machine, where a side has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The metric, where the case itself is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// What it is for a gate.
    pub kind: Kind,
    /// On the first side.
    pub a: Standing,
    /// On the second.
    pub b: Standing,
}

/// What it is for a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The first side has a figure and the second, or one of its runs, has not: `--fail-on` fails.
    Lost,
    /// Both sides have figures, and some of their measurements gave none.
    Partly,
    /// Neither side has one.
    Neither,
    /// The second side alone has one.
    New,
}

/// What a side has of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// What became of it there.
    pub status: Has,
    /// Why there is no figure, or not everywhere.
    pub reason: Option<String>,
    /// Measurements with a figure.
    pub ok: usize,
    /// Measurements in all.
    pub of: usize,
    /// The headline, or the metric that is meant, in its last measurement that has one; also of an invalid one.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: Option<Unit>,
}

/// What became of a case on a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Has {
    /// It has a figure.
    Ok,
    /// Its figure is not to be believed.
    Invalid,
    /// It failed.
    Failed,
    /// It was skipped.
    Skipped,
    /// The side does not have it.
    Missing,
}

impl Has {
    /// The word of the document.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => Status::Ok.word(),
            Self::Invalid => Status::Invalid.word(),
            Self::Failed => Status::Failed.word(),
            Self::Skipped => Status::Skipped.word(),
            Self::Missing => "missing",
        }
    }
}

impl From<Status> for Has {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Self::Ok,
            Status::Invalid => Self::Invalid,
            Status::Failed => Self::Failed,
            Status::Skipped => Self::Skipped,
        }
    }
}

/// Everything that is not, or not wholly, among what was compared of each pair: first the cases of the first side, then those
/// of the second alone, then what pairs lack.
pub(super) fn find(
    sides: [&Side; 2],
    [a, b]: [&[Figures<'_>]; 2],
    pairs: &[Pair<'_, '_>],
    compared: &[Vec<Compared>],
) -> Vec<Uncompared> {
    let named = |all: &'_ [Figures<'_>]| -> HashMap<String, usize> {
        all.iter().enumerate().map(|(at, figures)| (figures.name.clone(), at)).collect()
    };
    let (in_a, in_b) = (named(a), named(b));
    let paired_a: HashSet<&str> = pairs.iter().map(|pair| pair.a.name.as_str()).collect();
    let paired_b: HashSet<&str> = pairs.iter().map(|pair| pair.b.name.as_str()).collect();
    let mut found = Vec::new();
    for figures in a.iter().filter(|f| !paired_a.contains(f.name.as_str())) {
        let other = in_b.get(&figures.name).map(|at| Standing::of(&b[*at]));
        let published = other.is_none() && sides[1].is_published();
        let other = other.unwrap_or_else(|| Standing::missing(sides[1]));
        let one = Uncompared::of_case(figures, Standing::of(figures), other);
        found.push(if published { Uncompared { kind: Kind::Neither, ..one } } else { one });
    }
    for figures in b.iter().filter(|f| !paired_b.contains(f.name.as_str()) && !in_a.contains_key(&f.name)) {
        found.push(Uncompared::of_case(figures, Standing::missing(sides[0]), Standing::of(figures)));
    }
    for (pair, compared) in pairs.iter().zip(compared) {
        found.extend(partly(pair));
        found.extend(metrics(pair, compared, sides[1]));
    }
    found
}

impl Uncompared {
    fn of_case(figures: &Figures<'_>, a: Standing, b: Standing) -> Self {
        let kind = match (a.status, b.status) {
            (Has::Ok, _) => Kind::Lost,
            (_, Has::Ok) => Kind::New,
            _ => Kind::Neither,
        };
        Self { case: figures.case.clone(), node: figures.node.map(str::to_owned), metric: None, kind, a, b }
    }
}

/// A compared case of which some measurements gave no figure; a run of the second side that has none of it has lost it.
fn partly(pair: &Pair<'_, '_>) -> Option<Uncompared> {
    if pair.a.without.is_empty() && pair.b.without.is_empty() {
        return None;
    }
    let has = |run: &Run| pair.b.all.iter().any(|taken| std::ptr::eq(taken.run, run));
    let lost = pair.b.without.iter().any(|without| !has(without.run));
    let of_case = Uncompared::of_case(pair.b, Standing::of(pair.a), Standing::of(pair.b));
    Some(Uncompared { kind: if lost { Kind::Lost } else { Kind::Partly }, ..of_case })
}

/// The metrics of a compared case that are not among what was compared.
fn metrics(pair: &Pair<'_, '_>, compared: &[Compared], second: &Side) -> Vec<Uncompared> {
    let known = |metric: &MetricResult| compared.iter().any(|c| c.metric == metric.name);
    let (a, b) = (pair.a.metrics(), pair.b.metrics());
    let mut lone: Vec<&MetricResult> = a.iter().copied().filter(|m| !known(m)).collect();
    lone.extend(b.iter().copied().filter(|m| !known(m) && !a.iter().any(|known| known.name == m.name)));
    let one = |metric: &MetricResult| {
        let on = |all: &[&MetricResult], figures: &Figures<'_>| {
            let own = all.iter().copied().find(|m| m.name == metric.name);
            Standing::of_metric(own, metric, figures)
        };
        let (a, b) = (on(&a, pair.a), on(&b, pair.b));
        let one = Uncompared { metric: Some(metric.name.clone()), ..Uncompared::of_case(pair.b, a, b) };
        // What only tells how a figure came about fails no gate.
        let told = bench::TOLD.contains(&metric.name.as_str()) || second.is_published();
        if told && one.kind == Kind::Lost { Uncompared { kind: Kind::Partly, ..one } } else { one }
    };
    lone.into_iter().map(one).collect()
}

impl Standing {
    fn of(figures: &Figures<'_>) -> Self {
        let (ok, of) = (figures.all.len(), figures.all.len() + figures.without.len());
        let last = figures.without.last();
        let status = match (ok, last) {
            (0, Some(without)) => without.status.into(),
            (0, None) => Has::Missing,
            _ => Has::Ok,
        };
        let shown = figures.all.last().map(|taken| taken.measurement).or(last.map(|w| w.measurement));
        let headline = shown.and_then(|m: &Measurement| m.metrics.first());
        let why = |without: &Without<'_>| {
            let reason = without.reason.as_deref().unwrap_or("no reason given");
            match ok {
                0 => reason.to_owned(),
                _ => format!("{}: {reason}", without.status.word()),
            }
        };
        Self {
            status,
            reason: last.map(why).map(|text| crate::text::shown(&text)),
            ok,
            of,
            value: headline.map(|m| m.summary.median),
            unit: headline.map(|m| m.unit),
        }
    }

    /// Of a side that has nothing of it.
    fn missing(side: &Side) -> Self {
        let partial = side.runs.iter().any(|run| run.status == RunStatus::Partial);
        let reason = match () {
            () if side.is_published() => "not published",
            () if partial => "the run is partial: it ended before this case, or its plan lacks it",
            () => "its plan lacks it",
        };
        Self { status: Has::Missing, reason: Some(reason.to_owned()), ok: 0, of: 0, value: None, unit: None }
    }

    /// Of a metric; `wanted` is that of the side that has it.
    fn of_metric(own: Option<&MetricResult>, wanted: &MetricResult, figures: &Figures<'_>) -> Self {
        let usable = |m: &&MetricResult| {
            m.unit == wanted.unit && !figures.metric(wanted).unwrap_or_default().is_empty()
        };
        let reason = match own {
            None => Some("the case has no such metric there".to_owned()),
            Some(own) if own.unit != wanted.unit => Some(format!("it is in {} there", own.unit)),
            Some(own) if !usable(&own) => Some("its runs give it in several units".to_owned()),
            Some(_) => None,
        };
        let status = match (&reason, own) {
            (None, _) => Has::Ok,
            (Some(_), None) => Has::Missing,
            (Some(_), Some(_)) => Has::Invalid,
        };
        let count = figures.all.len();
        Self {
            ok: if status == Has::Ok { count } else { 0 },
            of: count,
            value: own.map(|m| m.summary.median),
            unit: own.map(|m| m.unit),
            status,
            reason,
        }
    }
}
