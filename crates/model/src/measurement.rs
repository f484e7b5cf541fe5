//! A measurement: a case with its metrics, samples, summaries, limits, conditions and warnings.
//!
//! These types are the stored run document (`schema/run.v1.json`): names and units are a contract. `evaluate` makes them
//! of what was sampled.

mod matrix;
mod peers;

pub use matrix::{Alike, Flow, Matrix, Measured};
pub use peers::{Availability, Parity, PeerResult};

pub use crate::warning::Note;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::limit::Limit;
use crate::metric::Better;
use crate::quantity::{Unit, apart, percent};
use crate::sample::{self, Achieved, CannotMeasure, Cause, Conditions, Outcome, Sample, WrongAnswer};
use crate::stats::{ALL_BUT_EXCLUDED, Excluded, Samples, Seed, Summary, Timed};

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
    /// Why there is no figure: which exit-code rule it falls under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The wrong answer, if that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_answer: Option<Box<WrongAnswer>>,
}

/// One metric of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Reference tools that measured the same in the same run.
    #[serde(rename = "references")]
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

    /// The samples in time.
    pub fn timed(&self) -> Vec<Timed> {
        self.series.iter().zip(&self.samples).map(|(point, &value)| Timed { t: point.t, value }).collect()
    }
}

/// When a sample was taken and under which conditions; its value is the one in the same place of `samples`. Shares are between 0
/// and 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Seconds since the run began.
    pub t: f64,
    /// Core clock held, Hz.
    pub clock_hz: Option<f64>,
    /// Share of the time that the hypervisor gave to others.
    pub steal: Option<f64>,
    /// Share of the time in slices that were interrupted and are not in the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<f64>,
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

/// The delivered figure of a headline, interruptions included, beside the undisturbed one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivered {
    /// The delivered figure, in the headline's unit.
    pub value: f64,
    /// The headline: the figure without the excluded time.
    pub undisturbed: f64,
    /// The share of the time that is excluded from the headline.
    pub excluded: f64,
    /// The cause of most of that time.
    pub cause: LossCause,
}

/// A cause of lost time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The hypervisor, for other guests or by a limit of its own.
    Hypervisor,
    /// A CPU quota of a control group.
    Quota,
    /// Other processes of this machine.
    OtherProcesses,
    /// Interruptions whose cause is unknown.
    Unknown,
}

/// A share of lost time below which nothing is named as its cause.
const NOTABLE_LOSS: f64 = 0.05;

/// The excluded share of the time above which a figure is shown together with what was delivered.
pub const DELIVERED_SHOWN: f64 = 0.1;

impl Measurement {
    /// The delivered figure of the headline, if more than [`DELIVERED_SHOWN`] of the time is excluded from the headline.
    ///
    /// A benchmark that does not measure it is taken to have delivered nothing in the excluded time. So is a case whose rate
    /// delivered is above the undisturbed one: threads that did a little work in turns each counted their own time alone.
    pub fn delivered(&self) -> Option<Delivered> {
        let metric = self.metrics.first()?;
        let excluded = self.conditions.excluded.filter(|share| *share > DELIVERED_SHOWN)?.min(1.0);
        let undisturbed = metric.summary.median;
        let least = match metric.better {
            Better::Higher => undisturbed * (1.0 - excluded),
            Better::Lower => undisturbed / (1.0 - excluded),
        };
        let is_better = |delivered: f64| match metric.better {
            Better::Higher => delivered > undisturbed,
            Better::Lower => delivered < undisturbed,
        };
        let value = self.conditions.delivered.filter(|delivered| !is_better(*delivered)).unwrap_or(least);
        Some(Delivered { value, undisturbed, excluded, cause: self.loss_cause() })
    }

    /// Whether more than half of the time is excluded from the headline: it is no good figure, however near its limit.
    pub fn is_mostly_excluded(&self) -> bool {
        Excluded::of(self.conditions.excluded) != Excluded::Little
    }

    /// The cause of most of the time that this case lost.
    fn loss_cause(&self) -> LossCause {
        let conditions = &self.conditions;
        let throttled = conditions.throttled.unwrap_or(0.0);
        let shares = [
            (LossCause::Hypervisor, conditions.steal.unwrap_or(0.0)),
            (LossCause::Quota, throttled),
            (LossCause::OtherProcesses, conditions.waited.unwrap_or(0.0) - throttled),
        ];
        let most = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|(_, share)| *share > NOTABLE_LOSS).map_or(LossCause::Unknown, |(cause, _)| cause)
    }

    /// The first metric, where it is to be believed.
    pub fn headline(&self) -> Option<&MetricResult> {
        (self.status == Status::Ok).then(|| self.metrics.first()).flatten()
    }

    /// Whether it was not tried because that is not safe.
    pub fn is_refused(&self) -> bool {
        self.status == Status::Skipped && self.cause == Some(Cause::Unsafe)
    }

    /// What became of it, and why it is no figure where it is none: a document that calls it measured although all but
    /// nothing of its time was excluded is not believed.
    pub fn standing(&self) -> (Status, Option<String>) {
        let excluded = all_but_excluded(Excluded::of(self.conditions.excluded));
        match (self.status, excluded) {
            (Status::Ok, Some(reason)) => (Status::Invalid, Some(reason)),
            (status, _) => (status, self.reason.clone()),
        }
    }

    /// Whether it has a warning of this code.
    pub fn warns(&self, code: &str) -> bool {
        self.warnings.iter().any(|note| note.code == code)
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
            ended: (!believed).then(|| CannotMeasure::environment("not to be believed")),
        }
    }
}

/// Why there is no figure, if next to nothing of its time is left.
pub fn all_but_excluded(excluded: Excluded) -> Option<String> {
    let Excluded::AllBut(share) = excluded else { return None };
    let [share, most] = apart([share, ALL_BUT_EXCLUDED], 3, percent);
    Some(format!(
        "{share} of the time was excluded (at most {most} may be); the other warnings name the cause"
    ))
}
