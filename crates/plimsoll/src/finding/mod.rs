//! Findings: sentences that follow from the figures, each by a rule of its own.
//!
//! A rule is a pure function of the measurements. It speaks only where the figures carry what it says, and hands
//! over the figures it rests on; where they do not, it is silent. A new rule is one file and one line in [`RULES`].

mod bottleneck;
mod chains;
mod changed;
mod clock_steps;
mod concurrency;
mod explained;
mod knee;
mod outlier;
mod pairs;
mod pattern;
mod queue;
mod scales;
mod shared_core;
mod shortfall;
mod siblings;

pub use clock_steps::clock_steps;
pub use pairs::{PairPath, pairs};

use crate::document::Finding;
use crate::measurement::{Measurement, MetricResult, Status};
use crate::stats::{Rate, Scaling, scaling};

/// What a rule finds in the measurements of a run.
pub type Rule = fn(&[Measurement]) -> Vec<Finding>;

/// Every rule, in the order in which their findings are told.
pub const RULES: &[Rule] = &[
    shared_core::find,
    siblings::find,
    scales::find,
    changed::find,
    knee::find,
    chains::find,
    queue::find,
    pattern::find,
    concurrency::find,
    shortfall::find,
    explained::find,
    bottleneck::find,
];

/// Machines up to which the findings of each are told; above, only how they differ.
const FEW: usize = 8;

/// All that the rules find: of several machines first how they differ, then what each of them shows.
pub fn findings(measurements: &[Measurement]) -> Vec<Finding> {
    let mut nodes: Vec<&str> = Vec::new();
    for measurement in measurements {
        // Measurements of one machine stand together.
        if nodes.last() != Some(&measurement.node.as_str()) && !nodes.contains(&measurement.node.as_str()) {
            nodes.push(&measurement.node);
        }
    }
    if nodes.len() < 2 {
        return RULES.iter().flat_map(|rule| rule(measurements)).collect();
    }
    let mut found = outlier::find(measurements);
    if nodes.len() <= FEW {
        found.extend(nodes.iter().flat_map(|node| of_node(measurements, node)));
    }
    found
}

/// What one of several machines shows, with its name.
fn of_node(measurements: &[Measurement], node: &str) -> Vec<Finding> {
    let own: Vec<Measurement> = measurements.iter().filter(|m| m.node == node).cloned().collect();
    let named = |f: Finding| Finding { text: format!("{node}: {}", f.text), ..f };
    RULES.iter().flat_map(|rule| rule(&own)).map(named).collect()
}

fn finding(code: &str, text: String, evidence: serde_json::Value) -> Finding {
    Finding { code: code.to_owned(), text, evidence }
}

/// The first metric of a measurement that is to be believed.
fn headline(measurement: &Measurement) -> Option<&MetricResult> {
    (measurement.status == Status::Ok).then(|| measurement.metrics.first()).flatten()
}

/// One case at one number of threads, compared with the same case at the fewest.
struct Compared<'a> {
    base: &'a Measurement,
    this: &'a Measurement,
    scaling: Scaling,
    /// From the slowest that this and the fastest that the base may be, to the other extreme; as wide as both
    /// intervals together. Equal ends where either has none.
    between: [f64; 2],
}

/// Everything but the number of threads that makes two measurements of one kind.
fn kind(measurement: &Measurement) -> String {
    let case = &measurement.case;
    let params = case.params().iter().filter(|(name, _)| *name != "threads");
    let params: String = params.map(|(name, value)| format!(" {name}={value}")).collect();
    format!("{}{params}", case.benchmark())
}

/// Measurements that differ in nothing but the number of threads, each compared with that of the fewest. Only rates
/// are compared.
fn compared(measurements: &[Measurement]) -> Vec<Compared<'_>> {
    let rates: Vec<&Measurement> = measurements.iter().filter(|m| has_rate(m)).collect();
    let same =
        |a: &Measurement, b: &Measurement| (kind(a), &a.node, a.repeat) == (kind(b), &b.node, b.repeat);
    let mut found = Vec::new();
    for (index, first) in rates.iter().enumerate() {
        if rates[..index].iter().any(|earlier| same(earlier, first)) {
            continue;
        }
        let alike: Vec<&Measurement> = rates.iter().copied().filter(|m| same(m, first)).collect();
        found.extend(compared_alike(&alike));
    }
    found
}

fn compared_alike<'a>(alike: &[&'a Measurement]) -> Vec<Compared<'a>> {
    let threads = |m: &Measurement| u32::try_from(m.case.threads()).unwrap_or(u32::MAX);
    let points: Vec<Rate> = alike
        .iter()
        .filter_map(|m| Some(Rate { threads: threads(m), rate: headline(m)?.summary.median }))
        .collect();
    let with = |count: u32| alike.iter().copied().find(|m| threads(m) == count);
    let compare = |scaling: Scaling| {
        let (base, this) = (with(scaling.base_threads)?, with(scaling.threads)?);
        Some(Compared { base, this, scaling, between: between(base, this, scaling.speed_up) })
    };
    scaling(&points).into_iter().filter(|s| s.threads > s.base_threads).filter_map(compare).collect()
}

fn between(base: &Measurement, this: &Measurement, speed_up: f64) -> [f64; 2] {
    let interval = |m| headline(m).and_then(|metric| metric.summary.ci95);
    match (interval(base), interval(this)) {
        (Some([base_low, base_high]), Some([low, high])) if base_low > 0.0 => {
            [low / base_high, high / base_low]
        }
        _ => [speed_up, speed_up],
    }
}

/// Whether the case has a number of threads and its headline is work per time.
fn has_rate(measurement: &Measurement) -> bool {
    use crate::bench::Better;
    let rate = headline(measurement).is_some_and(|metric| metric.better == Better::Higher);
    rate && measurement.case.number("threads").is_some()
}

/// What took time away from a case, and how large a share.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lost {
    what: &'static str,
    share: f64,
}

/// The largest loss of time during a case, zero where nothing is known. Time set aside is not in the figure, so it
/// explains nothing of it.
fn lost(measurement: &Measurement) -> Lost {
    let conditions = &measurement.conditions;
    // A thread that a quota keeps from its CPU waits for it as well.
    let throttled = conditions.throttled.unwrap_or_default();
    let waited = conditions.waited.map(|waited| (waited - throttled).max(0.0));
    let losses = [
        ("steal", conditions.steal),
        ("throttled by the CPU quota", conditions.throttled),
        ("threads waited for a CPU", waited),
    ];
    let known = losses.into_iter().filter_map(|(what, share)| Some(Lost { what, share: share? }));
    known.fold(
        Lost { what: "nothing", share: 0.0 },
        |most, next| if next.share > most.share { next } else { most },
    )
}

/// Losses below this share of the time explain nothing.
const NOTABLE: f64 = 0.05;

#[cfg(test)]
mod testing;
