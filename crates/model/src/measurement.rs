//! Measurements, as stored in the run document (`schema/run.v1.json`): names are a contract.

mod matrix;
mod tool_results;

pub use matrix::{LabelMedian, Matrix};
pub use tool_results::{Availability, ToolResult};

pub use crate::job::network::Flow;
pub use crate::warning::Note;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_stats::{ALL_BUT_EXCLUDED, ExcludedShare, Samples, Seed, Summary, TimedPoint};
use plimsoll_units::quantity::{Unit, percent, write_distinct};
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::limit::Limit;
use crate::metric::Better;
use crate::sample::{self, Achieved, CannotMeasure, Conditions, FailureCause, Outcome, Sample, WrongAnswer};

/// Outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Measured.
    Ok,
    /// Measured, but not credible; `reason` explains why.
    Invalid,
    /// Started, but failed.
    Failed,
    /// Not started.
    Skipped,
}

impl Status {
    /// Returns the name in the run document, such as `ok`.
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
    /// Case.
    pub case: Case,
    /// Name of the node that ran it.
    pub node: String,
    /// Number of the plan's repetition.
    pub repeat: u32,
    /// Outcome.
    pub status: Status,
    /// Reason in one line, unless `ok`.
    pub reason: Option<String>,
    /// Metrics, the headline first.
    pub metrics: Vec<MetricResult>,
    /// Actual parameters.
    pub achieved: Achieved,
    /// Conditions over all samples.
    pub conditions: Conditions,
    /// Warnings and notes.
    pub warnings: Vec<Note>,
    /// Cause if there is no figure; decides the exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
    /// Wrong answer, if that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_answer: Option<Box<WrongAnswer>>,
}

/// One metric of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// Name.
    pub name: String,
    /// Unit of all values.
    pub unit: Unit,
    /// Direction.
    pub better: Better,
    /// One value per sample.
    pub samples: Vec<f64>,
    /// Time and conditions of each sample.
    pub series: Vec<SamplePoint>,
    /// Statistics of the samples.
    pub summary: Summary,
    /// Percentiles over all operations, if they were timed individually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<BTreeMap<String, f64>>,
    /// Histogram of (upper edge, count), if operations were timed individually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Vec<(f64, u64)>>,
    /// One value per pair, if pairs were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// Points of a search or sweep; only for the headline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Vec<sample::CurvePoint>>,
    /// Tightest known limit, or the unknown one with its reason; null if no limit makes sense.
    pub limit: Option<Limit>,
    /// Other limits (looser, unknown or refuted), tightest first.
    pub other_limits: Vec<Limit>,
    /// Median of the samples' shares of their limits; 1 is best.
    pub of_limit: Option<f64>,
    /// Results of reference tools for the same metric in the same run.
    #[serde(rename = "references")]
    pub tool_results: Vec<ToolResult>,
}

impl MetricResult {
    /// Creates a result of `samples` with statistics (bootstrap by `seed`); the rest is empty.
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
            tool_results: Vec::new(),
        }
    }

    /// Returns the median share of the limit (1 is best); `None` if unknown, not finite, or if this
    /// machine need not reach the limit (see [`Limit::scope`]).
    pub fn rated_share(&self) -> Option<f64> {
        let is_rated = self.limit.as_ref().is_none_or(|limit| limit.scope.is_none());
        self.of_limit.filter(|share| is_rated && share.is_finite())
    }

    /// Returns the value of each sample with its time in seconds since the start of the run.
    pub fn timed(&self) -> Vec<TimedPoint> {
        let timed = self.series.iter().zip(&self.samples);
        timed.map(|(point, &value)| TimedPoint { t: point.t, value }).collect()
    }
}

/// Time and conditions of the sample with the same index in `samples`. Shares are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplePoint {
    /// Seconds since the start of the run.
    pub t: f64,
    /// Mean core clock in Hz.
    pub clock_hz: Option<f64>,
    /// Stolen share of the time (the hypervisor ran other guests).
    pub steal: Option<f64>,
    /// Share of the time in interrupted slices, which is excluded from the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<f64>,
    /// Share of the time throttled by a cgroup quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<f64>,
    /// Largest share of the time that a thread was runnable without a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Delivered figure in the metric's unit, if the headline excludes interruptions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<f64>,
}

/// Delivered figure of a headline, interruptions included, next to the undisturbed one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivered {
    /// Delivered figure in the headline's unit.
    pub value: f64,
    /// Headline figure, without the excluded time.
    pub undisturbed: f64,
    /// Share of the time that is excluded from the headline.
    pub excluded: f64,
    /// Main cause of the excluded time.
    pub cause: LossCause,
}

/// Cause of lost time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The hypervisor: other guests, or a limit of its own.
    Hypervisor,
    /// CPU quota of a control group.
    Quota,
    /// Other processes on this machine.
    OtherProcesses,
    /// Unknown.
    Unknown,
}

impl LossCause {
    /// Returns the name, as the subject of a sentence: `other processes`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OtherProcesses => "other processes",
            Self::Hypervisor => "the hypervisor",
            Self::Quota => "the CPU quota",
            Self::Unknown => "something",
        }
    }
}

/// Share of the time below which a loss explains nothing.
pub const NOTABLE: f64 = 0.05;

/// Excluded share of the time above which the delivered figure is shown too.
pub const DELIVERED_SHOWN: f64 = 0.1;

impl Measurement {
    /// Returns the headline (first metric) with interruptions included; `None` unless more than
    /// [`DELIVERED_SHOWN`] of the time is excluded. If it was not measured or is implausible, it is
    /// derived from the undisturbed figure as if no work was done in the excluded time.
    pub fn delivered(&self) -> Option<Delivered> {
        let metric = self.metrics.first()?;
        let excluded = self.conditions.excluded.filter(|share| *share > DELIVERED_SHOWN)?.min(1.0);
        let undisturbed = metric.summary.median;
        // If threads take turns, each counts only its own time: the sum is too good.
        let (least, is_better): (f64, fn(&f64, &f64) -> bool) = match metric.better {
            Better::Higher => (undisturbed * (1.0 - excluded), f64::gt),
            Better::Lower => (undisturbed / (1.0 - excluded), f64::lt),
        };
        let delivered = self.conditions.delivered.filter(|delivered| !is_better(delivered, &undisturbed));
        let value = delivered.unwrap_or(least);
        Some(Delivered { value, undisturbed, excluded, cause: self.loss_cause() })
    }

    /// Returns whether more than half of the time is excluded, which makes the figures unreliable.
    pub fn is_mostly_excluded(&self) -> bool {
        ExcludedShare::of(self.conditions.excluded) != ExcludedShare::Little
    }

    fn loss_cause(&self) -> LossCause {
        let conditions = &self.conditions;
        let throttled = conditions.throttled.unwrap_or(0.0);
        let shares = [
            (LossCause::Hypervisor, conditions.steal.unwrap_or(0.0)),
            (LossCause::Quota, throttled),
            (LossCause::OtherProcesses, conditions.waited.unwrap_or(0.0) - throttled),
        ];
        let most = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|(_, share)| *share > NOTABLE).map_or(LossCause::Unknown, |(cause, _)| cause)
    }

    /// Returns why there is no valid figure if almost all of the time is excluded; else `None`.
    pub fn all_but_excluded(&self) -> Option<String> {
        let ExcludedShare::AllBut(share) = ExcludedShare::of(self.conditions.excluded) else { return None };
        let [share, most] = write_distinct([share, ALL_BUT_EXCLUDED], 3, percent);
        let cause = self.loss_cause().name();
        Some(format!(
            "{cause} interrupted so often that {share} of the time is excluded (at most {most} may be)"
        ))
    }

    /// Returns the first metric; `None` unless the status is [`Status::Ok`].
    pub fn headline(&self) -> Option<&MetricResult> {
        (self.status == Status::Ok).then(|| self.metrics.first()).flatten()
    }

    /// Returns whether the case was skipped because it is unsafe.
    pub fn is_refused(&self) -> bool {
        self.status == Status::Skipped && self.cause == Some(FailureCause::Unsafe)
    }

    /// Returns status and reason, but [`Status::Invalid`] if almost all of the time was excluded,
    /// even if the stored document has `ok`.
    pub fn effective_status(&self) -> (Status, Option<String>) {
        match (self.status, self.all_but_excluded()) {
            (Status::Ok, Some(reason)) => (Status::Invalid, Some(reason)),
            (status, _) => (status, self.reason.clone()),
        }
    }

    /// Returns whether the measurement has a warning with this code.
    pub fn warns(&self, code: &str) -> bool {
        self.warnings.iter().any(|note| note.code == code)
    }

    /// Returns the codes of the warnings, each once, in order of first occurrence.
    pub fn warning_codes(&self) -> Vec<&str> {
        let mut known = BTreeSet::new();
        self.warnings.iter().map(Note::code).filter(|code| known.insert(*code)).collect()
    }

    /// Returns the samples' values and clocks as an [`Outcome`], from which limits of other cases
    /// are derived. It contains an error unless the status is `ok`.
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
        Outcome {
            case: self.case.clone(),
            repeat: self.repeat,
            samples: (0..longest).map(sample).collect(),
            facts: sample::Facts { achieved: self.achieved.clone(), ..sample::Facts::default() },
            tool_results: Vec::new(),
            ended: (self.status != Status::Ok).then(|| CannotMeasure::environment("not to be believed")),
        }
    }
}
