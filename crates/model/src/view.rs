//! What a benchmark sees of a run when it says what its figures mean, and what it hands back.
//!
//! A finding is a pure function of the measurements. It speaks only where the figures carry what it says, and hands over
//! the figures it rests on; where they do not, it is silent.

use serde_json::Value;

use crate::measurement::Measurement;
use crate::metric::Better;
use crate::stats::{Rate, Scaling, scaling};
use crate::warning::Warning;

/// What findings are about, in the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Which CPUs are one core.
    Cores,
    /// What further threads are worth.
    Scaling,
    /// What changed while it was measured.
    Change,
    /// What a load does to a latency.
    Load,
    /// From where on more independent work adds nothing.
    Saturation,
    /// How many transfers in flight are worth it.
    Queue,
    /// What the order of accesses costs.
    Order,
    /// What one thread can have under way.
    Concurrency,
    /// What is between a figure and its limit.
    Limit,
    /// What power and energy it took.
    Energy,
}

/// A sentence that follows from the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What it is about.
    pub topic: Topic,
    /// Stable code.
    pub code: &'static str,
    /// The sentence.
    pub text: String,
    /// The figures it rests on.
    pub evidence: Value,
}

/// The measurements of one machine.
#[derive(Clone, Copy, Debug)]
pub struct RunView<'a> {
    measurements: &'a [Measurement],
}

impl<'a> RunView<'a> {
    /// A view of these.
    pub fn new(measurements: &'a [Measurement]) -> Self {
        Self { measurements }
    }

    /// All of them, in the order of the run.
    pub fn measurements(&self) -> &'a [Measurement] {
        self.measurements
    }

    /// Those of a benchmark, in the order of the run.
    pub fn of(&self, benchmark: &str) -> impl Iterator<Item = &'a Measurement> {
        self.measurements.iter().filter(move |made| made.case.benchmark() == benchmark)
    }

    /// Measurements that differ in nothing but the number of threads, each compared with that of the fewest. Only rates
    /// are compared.
    pub fn compared(&self) -> Vec<Compared<'a>> {
        let rates: Vec<&Measurement> = self.measurements.iter().filter(|m| is_comparable(m)).collect();
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
}

/// One case at one number of threads, compared with the same case at the fewest.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// With the fewest threads.
    pub base: &'a Measurement,
    /// With more.
    pub this: &'a Measurement,
    /// What they gain.
    pub scaling: Scaling,
    /// From the slowest that this and the fastest that the base may be, to the other extreme; as wide as both
    /// intervals together. Equal ends where either has none.
    pub between: [f64; 2],
}

/// Everything but the number of threads that makes two measurements of one kind.
pub fn kind(measurement: &Measurement) -> String {
    let case = &measurement.case;
    let params = case.params().iter().filter(|(name, _)| *name != "threads");
    let params: String = params.map(|(name, value)| format!(" {name}={value}")).collect();
    format!("{}{params}", case.benchmark())
}

fn compared_alike<'a>(alike: &[&'a Measurement]) -> Vec<Compared<'a>> {
    let threads = |m: &Measurement| u32::try_from(m.case.threads()).unwrap_or(u32::MAX);
    let points: Vec<Rate> = alike
        .iter()
        .filter_map(|m| Some(Rate { threads: threads(m), rate: m.headline()?.summary.median }))
        .collect();
    let with = |count: u32| alike.iter().copied().find(|m| threads(m) == count);
    let compare = |scaling: Scaling| {
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

/// Whether other numbers of threads can be compared with it: the case has such a number, and its headline is work per time. A figure of which most is excluded is no base, and
/// no step; threads that take turns on their CPUs exclude much of each other's time, which says nothing.
fn is_comparable(measurement: &Measurement) -> bool {
    let rate = measurement.headline().is_some_and(|metric| metric.better == Better::Higher);
    let sound = !measurement.warns(Warning::MOSTLY_EXCLUDED) || measurement.warns(Warning::CROWDED);
    rate && sound && measurement.case.number("threads").is_some()
}

/// What took time away from a case, and how large a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lost {
    /// To what.
    pub what: &'static str,
    /// Of the time, 0 to 1.
    pub share: f64,
}

/// The losses of time during a case that are known. Time set aside is not in the figure, so it explains nothing of it.
pub fn losses(measurement: &Measurement) -> impl Iterator<Item = Lost> {
    let conditions = &measurement.conditions;
    // A thread that a quota keeps from its CPU waits for it as well.
    let throttled = conditions.throttled.unwrap_or_default();
    let waited = conditions.waited.map(|waited| (waited - throttled).max(0.0));
    let losses = [
        ("steal", conditions.steal),
        ("throttled by the CPU quota", conditions.throttled),
        ("threads waited for a CPU", waited),
    ];
    losses.into_iter().filter_map(|(what, share)| Some(Lost { what, share: share? }))
}

/// The largest loss of time during a case, zero if none is known.
pub fn lost(measurement: &Measurement) -> Lost {
    losses(measurement).fold(Lost { what: "nothing", share: 0.0 }, |most, next| {
        if next.share > most.share { next } else { most }
    })
}

/// Losses below this share of the time explain nothing.
pub const NOTABLE: f64 = 0.05;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
