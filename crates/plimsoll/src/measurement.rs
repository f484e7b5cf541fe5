//! A measurement: a case with its metrics, samples, summaries, limits, conditions and warnings.
//!
//! These types are the stored run document (`schema/run.v2.json`): names and units are a contract. Everything
//! here is a pure function of the raw [`Outcome`], the machine and the run's evidence, so a stored run can be
//! summarised again by a newer version.

mod curve;
mod doubt;
mod like;
mod matrix;
mod peers;
mod rating;
mod stored;

use doubt::Doubt;
pub use like::converted;
pub use matrix::{Alike, Flow, Matrix, Measured};
pub use peers::{Availability, Parity, PeerResult};

pub use crate::warning::Note;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bench::{self, Better, Metric};
use crate::case::Case;
use crate::limit::user::UserLimits;
use crate::limit::{self, Evidence, Kind, Limit, Question, Source};
use crate::machine::Machine;
use crate::quantity::{Unit, apart, percent};
use crate::sample::{self, Achieved, Cause, Conditions, End, ExcludedBy, Numbers, Outcome, Sample};
use crate::stats::{ALL_BUT_EXCLUDED, Excluded, Samples, Seed, Summary};
use crate::warning::Warning;

/// A figure this much past its limit is invalid: beyond it no uncertainty of clock or formula explains it.
pub const TOLERANCE: f64 = 1.02;

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Measured.
    Ok,
    /// Measured, and not to be believed; `reason` says why.
    Invalid,
    /// Tried, and failed.
    Failed,
    /// Not tried.
    Skipped,
}

impl Status {
    /// The word of the run document.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One case of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The case.
    pub case: Case,
    /// Name of the node it ran on.
    pub node: String,
    /// Which repeat of the plan.
    pub repeat: u32,
    /// What became of it.
    pub status: Status,
    /// One line, unless `ok`.
    pub reason: Option<String>,
    /// Metrics, the headline first.
    pub metrics: Vec<MetricResult>,
    /// Parameters as they were.
    pub achieved: Achieved,
    /// Conditions over all samples.
    pub conditions: Conditions,
    /// What the reader must know.
    pub warnings: Vec<Note>,
    /// Which exit-code rule a failure falls under; not stored.
    #[serde(skip)]
    pub cause: Option<Cause>,
}

/// One metric of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "stored::Stored")]
pub struct MetricResult {
    /// Name.
    pub name: String,
    /// Unit of all its values.
    pub unit: Unit,
    /// Direction.
    pub better: Better,
    /// One value a sample.
    pub samples: Vec<f64>,
    /// The samples in time.
    pub series: Vec<Point>,
    /// Statistics of the samples.
    pub summary: Summary,
    /// Percentiles over all operations, where single operations were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<BTreeMap<String, f64>>,
    /// The distribution: (upper edge, count), where single operations were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Vec<(f64, u64)>>,
    /// A value for each pair, where pairs were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// The points of a search or sweep; the headline's, where one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Vec<sample::Point>>,
    /// The tightest known limit, or the unknown one with its reason; null where none has a meaning.
    pub limit: Option<Limit>,
    /// The limits that it is not held to: looser, unknown or refuted; tightest first.
    pub other_limits: Vec<Limit>,
    /// Median of the samples' own shares of their limit; 1 is best.
    pub of_limit: Option<f64>,
    /// Reference tools beside it.
    pub peers: Vec<PeerResult>,
}

impl MetricResult {
    /// A metric of these samples and their statistics; nothing else is known of it yet.
    pub fn of(name: &str, unit: Unit, better: Better, samples: &Samples, seed: Seed) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            better,
            samples: samples.points().to_vec(),
            series: Vec::new(),
            summary: Summary::new(samples, seed),
            percentiles: None,
            histogram: None,
            matrix: None,
            curve: None,
            limit: None,
            other_limits: Vec::new(),
            of_limit: None,
            peers: Vec::new(),
        }
    }
}

/// One sample in time. Shares are between 0 and 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Seconds since the run began.
    pub t: f64,
    /// Value in the metric's unit: that of the sample in the same place, which alone is stored.
    #[serde(skip)]
    pub value: f64,
    /// Core clock held, Hz.
    pub clock_hz: Option<f64>,
    /// Share of the time that the hypervisor gave to others.
    pub steal: Option<f64>,
    /// Share of the time in slices that were interrupted and are not in the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<f64>,
    /// Share of the time that a cgroup quota throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<f64>,
    /// The largest share of the time that a thread was ready to run and had no CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// What came out with the interruptions in it, in the metric's unit; the headline's, where the value is without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<f64>,
}

/// What turns outcomes into measurements.
#[derive(Clone, Copy)]
pub struct Maker<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Name of the node.
    pub node: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// Limits that the user gave.
    pub user_limits: &'a UserLimits,
    /// Within this share two figures are the same for the reader.
    pub margin: f64,
}

impl Maker<'_> {
    /// The measurement of one outcome, with the evidence there is.
    pub fn measurement(&self, outcome: &Outcome, evidence: Evidence<'_>) -> Measurement {
        let mut made = self.without_verdict(outcome, evidence);
        match &outcome.ended {
            Some(End::Cannot(cannot)) => {
                made.status = match cannot.cause {
                    Cause::NotHere | Cause::Unsafe | Cause::Interrupted => Status::Skipped,
                    Cause::Environment | Cause::FarEnd => Status::Failed,
                };
                (made.cause, made.reason) = (Some(cannot.cause), Some(cannot.reason.clone()));
                made.metrics.clear();
            }
            Some(End::Wrong(wrong)) => {
                made.status = Status::Failed;
                (made.cause, made.reason) = (Some(Cause::Environment), Some(wrong.to_string()));
                made.metrics.clear();
            }
            None => {
                let excluded = Excluded::of(made.conditions.set_aside);
                if let Excluded::Mostly(share) = excluded {
                    made.warnings.push(Warning::MostlyExcluded { share }.into());
                }
                let refuted = made.metrics.iter().flat_map(|metric| &metric.other_limits);
                let refuted: Vec<Note> = refuted
                    .filter_map(|limit| limit.refuted.clone())
                    .map(|why| Doubt::Refuted { why }.into())
                    .collect();
                made.warnings.extend(refuted);
                let uncertain: Vec<Note> =
                    made.metrics.iter().filter_map(Doubt::of).map(Note::from).collect();
                made.warnings.extend(uncertain);
                let past = || made.metrics.iter().find_map(|metric| past_limit(&outcome.case, metric));
                made.reason =
                    all_but_excluded(excluded).or_else(past).or_else(|| outcome.facts.invalid.clone());
                made.status = if made.reason.is_some() { Status::Invalid } else { Status::Ok };
            }
        }
        made
    }

    fn without_verdict(&self, outcome: &Outcome, evidence: Evidence<'_>) -> Measurement {
        let named =
            bench::find(outcome.case.benchmark()).map(|b| b.metrics(&outcome.case)).unwrap_or_default();
        // One seed for all metrics of a case: figures that are each other's multiples get intervals that are, too.
        let seed =
            Seed::new(self.seed, outcome.case.id().as_str(), named.first().map_or("elapsed", |m| m.name));
        let made = named.iter().filter_map(|metric| self.metric(*metric, outcome, seed, evidence));
        let mut metrics: Vec<MetricResult> = made.collect();
        if let Some(headline) = metrics.first_mut() {
            headline.note_delivered(&outcome.samples);
            headline.matrix = Matrix::of(&outcome.samples);
            headline.curve = curve::of(&outcome.samples);
        }
        Measurement {
            case: outcome.case.clone(),
            node: self.node.to_owned(),
            repeat: outcome.repeat,
            status: Status::Ok,
            reason: None,
            metrics,
            achieved: outcome.facts.achieved.clone(),
            conditions: over_all(&outcome.samples),
            warnings: outcome.facts.warnings.clone(),
            cause: None,
        }
    }

    fn metric(
        &self,
        metric: Metric,
        outcome: &Outcome,
        seed: Seed,
        evidence: Evidence<'_>,
    ) -> Option<MetricResult> {
        let samples: Vec<&Sample> =
            outcome.samples.iter().filter(|s| s.values.contains_key(metric.name)).collect();
        let values = outcome.values(metric.name);
        let proved = Samples::new(values.clone()).ok()?;
        let mut limits = limit::limits(&Question {
            machine: self.machine,
            case: &outcome.case,
            metric: metric.name,
            samples: &outcome.samples,
            evidence,
        });
        limits.extend(self.user_limits.of(&outcome.case, metric));
        limit::tightest_first(&mut limits);
        if outcome.ended.is_none() {
            rating::refute(&mut limits, metric.name, &values, least_that_refutes(&outcome.samples));
        }
        let chosen = rating::chosen(&outcome.case, &limits, &values);
        limits.retain(|limit| !chosen.as_ref().is_some_and(|chosen| chosen.is(limit)));
        let (percentiles, histogram) = distribution(metric.name, &outcome.samples);
        let heard = outcome.peers.iter().filter(|heard| heard.metric == metric.name);
        let peers =
            heard.map(|heard| PeerResult::of(heard, self.margin).with_shares(chosen.as_ref())).collect();
        Some(MetricResult {
            series: samples.iter().map(|s| point(s, metric.name)).collect(),
            of_limit: chosen.as_ref().and_then(|l| share_of(l, &values)),
            percentiles,
            histogram,
            limit: chosen,
            other_limits: limits,
            peers,
            ..MetricResult::of(metric.name, metric.unit, metric.better, &proved, seed)
        })
    }
}

impl Measurement {
    /// Whether it was not tried because that is not safe.
    pub fn is_refused(&self) -> bool {
        self.status == Status::Skipped && self.cause == Some(Cause::Unsafe)
    }

    /// What became of it, and why it is no figure where it is none: by today's rule for the excluded share of the time also
    /// where an earlier version stored it as measured.
    pub fn standing(&self) -> (Status, Option<String>) {
        let excluded = all_but_excluded(Excluded::of(self.conditions.set_aside));
        match (self.status, excluded) {
            (Status::Ok, Some(reason)) => (Status::Invalid, Some(reason)),
            (status, _) => (status, self.reason.clone()),
        }
    }

    /// The codes of its warnings, in their order, none twice.
    pub fn warning_codes(&self) -> Vec<&str> {
        let mut codes: Vec<&str> = Vec::new();
        for Note { code, .. } in &self.warnings {
            if !codes.contains(&code.as_str()) {
                codes.push(code);
            }
        }
        codes
    }

    /// What a stored measurement says as evidence for the limits of others: its values and the clock held.
    pub fn evidence(&self) -> Outcome {
        let longest = self.metrics.iter().map(|metric| metric.samples.len()).max().unwrap_or(0);
        let sample = |index: usize| {
            let values = self.metrics.iter().filter_map(|m| Some((m.name.clone(), *m.samples.get(index)?)));
            let point = self.metrics.first().and_then(|m| m.series.get(index));
            let clock_hz = point.and_then(|p| p.clock_hz).or(self.conditions.clock_hz);
            Sample {
                at: point.map_or(0.0, |p| p.t),
                values: values.collect(),
                conditions: Conditions { clock_hz, ..Conditions::default() },
                ..Sample::default()
            }
        };
        let believed = matches!(self.status, Status::Ok);
        Outcome {
            case: self.case.clone(),
            repeat: self.repeat,
            samples: (0..longest).map(sample).collect(),
            facts: sample::Facts { achieved: self.achieved.clone(), ..sample::Facts::default() },
            peers: Vec::new(),
            ended: (!believed).then(|| End::Wrong(sample::WrongAnswer("not to be believed".to_owned()))),
        }
    }
}

impl MetricResult {
    /// Puts the condition `delivered` beside the values that it belongs to.
    fn note_delivered(&mut self, samples: &[Sample]) {
        let with_value = samples.iter().filter(|s| s.values.contains_key(&self.name));
        for (point, sample) in self.series.iter_mut().zip(with_value) {
            point.delivered = sample.conditions.delivered;
        }
    }
}

/// The share of each sample's own limit, and the median of these.
fn share_of(limit: &Limit, values: &[f64]) -> Option<f64> {
    limit::median(shares_of(limit, values)?.collect())
}

/// The share of each sample, at its own limit.
fn shares_of(limit: &Limit, values: &[f64]) -> Option<impl Iterator<Item = f64>> {
    let fixed = limit.value?;
    let each = move |(i, value): (usize, &f64)| {
        let own = if limit.per_sample.len() == values.len() { limit.per_sample[i] } else { fixed };
        limit.share(*value, own)
    };
    Some(values.iter().enumerate().map(each).filter(|share| share.is_finite()))
}

/// Why there is no figure, if next to nothing of its time is left.
fn all_but_excluded(excluded: Excluded) -> Option<String> {
    let Excluded::AllBut(share) = excluded else { return None };
    let [share, most] = apart([share, ALL_BUT_EXCLUDED], 3, percent);
    Some(format!(
        "{share} of the time is excluded, and above {most} what is left is no figure; its warnings name the cause"
    ))
}

/// Share of the probes that a busy sibling may disturb: beside one the clock reads some per cent low.
const MOST_SHARED: f64 = 0.05;

/// Share of a limit that no disturbed probe explains: beside a busy sibling a clock reads a fifth low at most.
const PAST_ALL_PROBES: f64 = 1.5;

/// The share of its limit from which a figure refutes it: more where the clock was not precise.
fn least_that_refutes(samples: &[Sample]) -> f64 {
    let shared = over_time(samples, |conditions| conditions.vector_units_shared);
    if shared.is_none_or(|share| share <= MOST_SHARED) { TOLERANCE } else { PAST_ALL_PROBES }
}

/// Why a figure cannot be true, if it is past its limit.
fn past_limit(case: &Case, metric: &MetricResult) -> Option<String> {
    let (share, limit) = (metric.of_limit?, metric.limit.as_ref()?);
    // Somebody's word, or this run's own conclusion: what passes it says nothing of the figure.
    let is_physical = !matches!(limit.source, Source::Documented | Source::Inferred);
    // A row of a chip is refuted, or the clock did not tell.
    if share <= TOLERANCE || !is_physical || limit.fact.is_some() {
        return None;
    }
    let cause = match (metric.unit, limit.kind) {
        _ if limit.source == Source::User => {
            "the limit that --limits or the plan gives is not this machine's"
        }
        (_, Kind::Floor) => "something nearer than the thing measured answered (a cache)",
        (Unit::BitPerSecond, _) => "the traffic did not cross the link",
        _ if case.subsystem() == "disk" => {
            "the page cache or the host's cache answered instead of the device"
        }
        _ if case.subsystem() == "memory" => {
            "a cache answered instead of memory, or this machine has more or faster memory than its limit counts"
        }
        (Unit::FlopPerSecond | Unit::OpPerSecond, _) => {
            "a machine did more than its own limit, see its cpu.peak"
        }
        _ => "a cache answered instead of the device",
    };
    Some(format!("{} is {:.1} % of its limit: {cause}", metric.name, share * 100.0))
}

fn point(sample: &Sample, metric: &str) -> Point {
    let conditions = &sample.conditions;
    Point {
        t: sample.at,
        value: sample.values.get(metric).copied().unwrap_or(f64::NAN),
        clock_hz: conditions.clock_hz,
        steal: conditions.steal,
        set_aside: conditions.set_aside,
        throttled: conditions.throttled,
        waited: conditions.waited,
        delivered: None,
    }
}

/// Conditions of the whole case: the time-weighted mean of the samples'.
fn over_all(samples: &[Sample]) -> Conditions {
    let mean = |read: &dyn Fn(&Conditions) -> Option<f64>| over_time(samples, read);
    Conditions {
        clock_hz: mean(&|c| c.clock_hz),
        steal: mean(&|c| c.steal),
        set_aside: mean(&|c| c.set_aside),
        throttled: mean(&|c| c.throttled),
        core_to_core: mean(&|c| c.core_to_core),
        delivered: mean(&|c| c.delivered),
        excluded: ExcludedBy::each(|read| mean(&|c| read(&c.excluded))),
        pages_swapped: mean(&|c| c.pages_swapped),
        vector_units_shared: mean(&|c| c.vector_units_shared),
        waited: mean(&|c| c.waited),
        more: Numbers::each(samples.iter().map(|s| &s.conditions.more), |read| mean(&|c| read(&c.more))),
    }
}

/// The mean of a condition over the samples that have it, weighted by their time.
pub fn over_time(samples: &[Sample], read: impl Fn(&Conditions) -> Option<f64>) -> Option<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for sample in samples {
        if let Some(value) = read(&sample.conditions) {
            sum += value * sample.elapsed;
            weight += sample.elapsed;
        }
    }
    (weight > 0.0).then(|| sum / weight)
}

/// The percentiles that are reported, as (name, share).
const PERCENTILES: &[(&str, f64)] = &[
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
    ("max", 1.0),
];

type Percentiles = Option<BTreeMap<String, f64>>;
type Buckets = Option<Vec<(f64, u64)>>;

/// Merges the samples' histograms of one metric; times come out in seconds.
fn distribution(metric: &str, samples: &[Sample]) -> (Percentiles, Buckets) {
    let mut merged: BTreeMap<u64, u64> = BTreeMap::new();
    for (edge, count) in
        samples.iter().flat_map(|s| &s.histograms).filter(|h| h.metric == metric).flat_map(|h| &h.buckets)
    {
        *merged.entry(*edge).or_default() += count;
    }
    let total: u64 = merged.values().sum();
    if total == 0 {
        return (None, None);
    }
    let at = |share: f64| {
        let rank = ((share * total as f64).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let edge = merged.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        edge.map_or(f64::NAN, |(edge, _)| *edge as f64 * 1e-9)
    };
    let percentiles = PERCENTILES.iter().map(|(name, share)| ((*name).to_owned(), at(*share))).collect();
    (Some(percentiles), Some(merged.into_iter().map(|(edge, count)| (edge as f64 * 1e-9, count)).collect()))
}
