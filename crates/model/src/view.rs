//! Findings: sentences derived from the measurements of a run, with the figures they rest on.

use plimsoll_stats::{ScalingStep, scaling};
use plimsoll_units::group::grouped;
use serde_json::Value;

use crate::measurement::Measurement;
use crate::metric::Better;
use crate::warning::Warning;

/// Topics of findings, in the order of presentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// CPUs that share a core.
    Cores,
    /// Gain from more threads.
    Scaling,
    /// Changes during the measurement.
    Change,
    /// Effect of load on latency.
    Load,
    /// Saturation point of independent work.
    Saturation,
    /// Useful queue depth.
    Queue,
    /// Cost of the access order.
    Order,
    /// Requests in flight of one thread.
    Concurrency,
    /// Gap between a figure and its limit.
    Limit,
    /// Power and energy.
    Energy,
}

/// A sentence derived from figures.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainFinding {
    /// Topic.
    pub topic: Topic,
    /// Stable code.
    pub code: &'static str,
    /// Sentence.
    pub text: String,
    /// Figures that it rests on.
    pub evidence: Value,
}

/// Yields the measurements of `benchmark` (`cpu.peak`), in the order of the run.
pub fn select<'a>(run: &'a [Measurement], benchmark: &str) -> impl Iterator<Item = &'a Measurement> {
    run.iter().filter(move |made| made.case.benchmark() == benchmark)
}

/// Compares each rate with that of the same case, node and repetition at the fewest threads.
pub fn compare_threads(run: &[Measurement]) -> Vec<Compared<'_>> {
    let rates = run.iter().filter(|m| is_comparable(m));
    let groups = grouped(rates.map(|rate| ((kind(rate), &rate.node, rate.repeat), rate)));
    groups.iter().flat_map(|(_, alike)| compared_alike(alike)).collect()
}

/// A case compared with the same case at the fewest threads.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// Measurement with the fewest threads.
    pub base: &'a Measurement,
    /// Measurement with more threads.
    pub this: &'a Measurement,
    /// Speed-up.
    pub scaling: ScalingStep,
    /// Range of the speed-up over both 95 % confidence intervals; equal ends without intervals.
    pub between: [f64; 2],
}

/// Returns benchmark and parameters, without the threads, as text: `cpu.peak op=fma`.
pub fn kind(measurement: &Measurement) -> String {
    let case = &measurement.case;
    let params = case.params().iter().filter(|(name, _)| *name != "threads");
    let params: String = params.map(|(name, value)| format!(" {name}={value}")).collect();
    format!("{}{params}", case.benchmark())
}

fn compared_alike<'a>(alike: &[&'a Measurement]) -> Vec<Compared<'a>> {
    let threads = |m: &Measurement| u32::try_from(m.case.threads()).unwrap_or(u32::MAX);
    let rates = alike.iter().filter_map(|m| Some((threads(m), m.headline()?.summary.median)));
    let points: Vec<(u32, f64)> = rates.collect();
    let with = |count: u32| alike.iter().copied().find(|m| threads(m) == count);
    let compare = |scaling: ScalingStep| {
        let (base, this) = (with(scaling.base_threads)?, with(scaling.threads)?);
        Some(Compared { base, this, scaling, between: between(base, this, scaling.speed_up) })
    };
    scaling(&points).into_iter().filter(|s| s.threads > s.base_threads).filter_map(compare).collect()
}

fn between(base: &Measurement, this: &Measurement, speed_up: f64) -> [f64; 2] {
    let interval = |m: &Measurement| m.headline().and_then(|metric| metric.summary.ci95);
    match (interval(base), interval(this)) {
        (Some([base_low, base_high]), Some([low, high])) if base_low > 0.0 => {
            [low / base_high, high / base_low]
        }
        _ => [speed_up, speed_up],
    }
}

/// Returns whether the headline is a rate that compares with other numbers of threads: not if most
/// of the time was excluded as disturbed, unless by the case's own threads on shared CPUs.
fn is_comparable(measurement: &Measurement) -> bool {
    let rate = measurement.headline().is_some_and(|metric| metric.better == Better::Higher);
    let sound = !measurement.warns(Warning::MOSTLY_EXCLUDED) || measurement.warns(Warning::CROWDED);
    rate && sound && measurement.case.get("threads").is_some()
}

/// Cause and share of lost time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lost {
    /// Cause.
    pub what: &'static str,
    /// Share of the time, 0 to 1.
    pub share: f64,
}

/// Yields the known losses of CPU time, the share 0 included: steal, quota, waits for a CPU.
pub fn losses(measurement: &Measurement) -> impl Iterator<Item = Lost> {
    let conditions = &measurement.conditions;
    // A thread that a quota throttles waits for its CPU too.
    let throttled = conditions.throttled.unwrap_or_default();
    let waited = conditions.waited.map(|waited| (waited - throttled).max(0.0));
    let losses = [
        ("steal", conditions.steal),
        ("throttled by the CPU quota", conditions.throttled),
        ("threads waited for a CPU", waited),
    ];
    losses.into_iter().filter_map(|(what, share)| Some(Lost { what, share: share? }))
}

/// Returns the largest of [`losses`]; share 0 if none is known.
pub fn lost(measurement: &Measurement) -> Lost {
    losses(measurement).fold(Lost { what: "nothing", share: 0.0 }, |most, next| {
        if next.share > most.share { next } else { most }
    })
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
