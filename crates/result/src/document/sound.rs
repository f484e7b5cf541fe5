//! Recomputes what follows from the rest of a run document, and rejects contradictions.

use std::collections::HashSet;
use std::hash::Hash;

use plimsoll_model::limit::{Limit, Varies, median};
use plimsoll_model::measurement::{Measurement, MetricResult, SamplePoint, Status, ToolResult};
use plimsoll_model::metric::Metric;
use plimsoll_model::sample::Conditions;
use plimsoll_stats::Ratio;
use plimsoll_units::quantity::{WRITTEN_ROUNDING, is_rounded};
use plimsoll_units::text::shown_within;

use super::Run;

/// Longest accepted duration of a run, in seconds: ten years.
pub(super) const LONGEST_RUN: f64 = 3.2e8;

pub(super) fn is_span(seconds: f64) -> bool {
    (0.0..=LONGEST_RUN).contains(&seconds)
}

/// Describes the first node, case or metric that `run` has twice; `None` if there is none.
pub(super) fn find_duplicate(run: &Run) -> Option<String> {
    if let Some(name) = first_duplicate(run.nodes.iter().map(|node| node.name.as_str())) {
        return Some(format!("machine '{}'", shown_within(name, 60)));
    }
    if let Some((id, node, repeat)) =
        first_duplicate(run.measurements.iter().map(|m| (m.case.id(), m.node.as_str(), m.repeat)))
    {
        return Some(format!("{id} of '{}', repetition {repeat}", shown_within(node, 60)));
    }
    run.measurements.iter().find_map(|of| {
        let name = first_duplicate(of.metrics.iter().map(|metric| metric.name.as_str()))?;
        Some(format!("metric '{}' of {}", shown_within(name, 40), of.case.id()))
    })
}

fn first_duplicate<T: Clone + Eq + Hash>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = HashSet::new();
    all.find(|one| !seen.insert(one.clone()))
}

/// Checks all measurements of a run. Fails with the first contradiction.
pub(super) fn check(run: &Run) -> Result<(), String> {
    let nodes: HashSet<&str> = run.nodes.iter().map(|node| node.name.as_str()).collect();
    run.measurements.iter().try_for_each(|measurement| {
        let about = |what: String| format!("{}: {what}", measurement.case.id());
        if !nodes.contains(measurement.node.as_str()) {
            let node = shown_within(&measurement.node, 40);
            return Err(about(format!("node '{node}' is not in nodes")));
        }
        let status = measurement.status;
        if matches!(status, Status::Ok | Status::Invalid) && measurement.metrics.is_empty() {
            return Err(about(format!("status is {}, and it has no metrics", status.word())));
        }
        conditions(measurement).map_err(about)?;
        let case = &measurement.case;
        let known = plimsoll_bench::find(case.benchmark()).map(|b| b.metrics(case)).unwrap_or_default();
        measurement.metrics.iter().try_for_each(|one| {
            let name = shown_within(&one.name, 40);
            metric(&known, one).map_err(|what| format!("{} {name}: {what}", case.id()))
        })
    })
}

/// Name of a condition, and its value for a case and for one sample.
type ConditionRow = (&'static str, fn(&Conditions) -> Option<f64>, fn(&SamplePoint) -> Option<f64>);

/// Shares of time that are means over the samples.
const SHARES: [ConditionRow; 4] = [
    ("steal", |all| all.steal, |one| one.steal),
    ("excluded", |all| all.excluded, |one| one.excluded),
    ("throttled", |all| all.throttled, |one| one.throttled),
    ("waited", |all| all.waited, |one| one.waited),
];

/// Fails if a share of time, such as steal, is not 0 to 1, or its mean not in its samples' range.
fn conditions(measurement: &Measurement) -> Result<(), String> {
    let points = || measurement.metrics.iter().flat_map(|metric| &metric.series);
    for (name, of_all, of_one) in SHARES {
        let known: Vec<f64> = points().filter_map(of_one).collect();
        let all = of_all(&measurement.conditions);
        if let Some(share) = known.iter().chain(&all).find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(format!("{name} is {share:?}, and shares are 0 to 1"));
        }
        let (least, most) =
            known.iter().fold((1.0_f64, 0.0_f64), |(least, most), x| (least.min(*x), most.max(*x)));
        let range = least - WRITTEN_ROUNDING..=most + WRITTEN_ROUNDING;
        if let Some(mean) = all.filter(|mean| !known.is_empty() && !range.contains(mean)) {
            return Err(format!("{name} of its conditions is {mean:?}, which is no mean of its series"));
        }
    }
    Ok(())
}

/// Fails if `metric` contradicts itself, or its row in `known`, the metrics of its case.
fn metric(known: &[Metric], metric: &MetricResult) -> Result<(), String> {
    if let Some(known) = known.iter().find(|known| known.name == metric.name) {
        if known.better != metric.better {
            return Err(format!("better is {}, and it is {}", metric.better.word(), known.better.word()));
        }
        if known.unit != metric.unit {
            return Err(format!("its unit is {}, and it is {}", metric.unit.name(), known.unit.name()));
        }
    }
    summary(metric)?;
    series(metric)?;
    limit(metric)?;
    metric.tool_results.iter().try_for_each(|one| {
        let about = |what| format!("reference tool {}: {what}", shown_within(&one.tool, 40));
        tool_result(one).map_err(about)
    })
}

fn summary(metric: &MetricResult) -> Result<(), String> {
    let (samples, summary) = (&metric.samples, &metric.summary);
    let middle = median(samples.clone()).ok_or("has no sample")?;
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let ordered = |[low, high]: [f64; 2]| low <= high;
    let alike = summary.n == samples.len()
        && is_rounded(summary.median, middle)
        && is_rounded(summary.min, least)
        && is_rounded(summary.max, most)
        && summary.ci95.is_none_or(ordered);
    let why = "its summary is not that of its samples: the document was changed by hand";
    if alike { Ok(()) } else { Err(why.to_owned()) }
}

/// Fails unless the series, if any, has a point per sample, each within the longest possible run.
fn series(metric: &MetricResult) -> Result<(), String> {
    let count = metric.series.len();
    if count > 0 && count != metric.samples.len() {
        return Err(format!("its series has {count} points of {} samples", metric.samples.len()));
    }
    let why = "a sample was taken before the run or long after it: see t in its series";
    if metric.series.iter().all(|point| is_span(point.t)) { Ok(()) } else { Err(why.to_owned()) }
}

/// Fails unless the share of the limit follows from the limit and the samples.
fn limit(metric: &MetricResult) -> Result<(), String> {
    let limit = metric.limit.as_ref();
    let value = limit.and_then(|limit| limit.value);
    let (Some(limit), Some(value)) = (limit, value) else {
        let wrong = |share| Err(format!("of_limit is {share:?}, and no limit is known"));
        return metric.of_limit.map_or(Ok(()), wrong);
    };
    let right = shares(metric, limit, value);
    let is_right = match (metric.of_limit, right) {
        (Some(share), Some([low, high])) => {
            low * (1.0 - WRITTEN_ROUNDING) <= share && share <= high * (1.0 + WRITTEN_ROUNDING)
        }
        (stated, right) => stated.is_none() && right.is_none(),
    };
    if is_right {
        return Ok(());
    }
    let stated = metric.of_limit.map_or("null".to_owned(), |share| format!("{share:?}"));
    let right = right.map_or("none".to_owned(), |[low, high]| format!("{low:?} to {high:?}"));
    Err(format!("of_limit is {stated}, and samples and limit give {right}"))
}

/// Returns the least and largest possible median of the samples' shares of the limit; `None` if no
/// sample has one. If the limit follows the clock, each sample has its own limit, within the spread
/// of the clocks. If it varies with data outside the document, any positive share is valid.
fn shares(metric: &MetricResult, limit: &Limit, value: f64) -> Option<[f64; 2]> {
    let share = |sample: &f64| Some(limit.share(*sample, value)).filter(|share| share.is_finite());
    let mut sorted: Vec<f64> = metric.samples.iter().filter_map(share).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len();
    let (low, high) = (*sorted.get(count.saturating_sub(1) / 2)?, *sorted.get(count / 2)?);
    let spread = match limit.varies() {
        Varies::Not => 1.0,
        Varies::WithClock => clock_spread(metric),
        Varies::Otherwise => return Some([0.0, f64::MAX]),
    };
    Some([low / spread, high * spread])
}

/// Returns the ratio of the highest to the lowest core clock of the samples, at least 1.
fn clock_spread(metric: &MetricResult) -> f64 {
    let clocks = || metric.series.iter().filter_map(|point| point.clock_hz).filter(|clock| *clock > 0.0);
    match (clocks().reduce(f64::min), clocks().reduce(f64::max)) {
        (Some(least), Some(most)) => most / least,
        _ => 1.0,
    }
}

/// Fails unless the median and ratio of a reference tool follow from its samples and plimsoll's.
fn tool_result(tool_result: &ToolResult) -> Result<(), String> {
    let same = |stated: Option<f64>, right: Option<f64>| match (stated, right) {
        (Some(stated), Some(right)) => is_rounded(stated, right),
        (stated, right) => stated.is_none() && right.is_none(),
    };
    if tool_result.own.len() != tool_result.samples.len()
        || !same(tool_result.median, median(tool_result.samples.clone()))
    {
        return Err("its median does not match its samples".to_owned());
    }
    let pairs: Vec<(f64, f64)> =
        tool_result.own.iter().copied().zip(tool_result.samples.iter().copied()).collect();
    let [stated, right] = [tool_result.ratio, Ratio::of(&pairs)].map(|ratio| Some(ratio?.median));
    if same(stated, right) { Ok(()) } else { Err("its ratio is not that of its pairs".to_owned()) }
}

#[cfg(test)]
mod tests;
