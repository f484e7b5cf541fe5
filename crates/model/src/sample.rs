//! Results of a benchmark: samples, conditions, facts, or the reason why it could not measure.

mod achieved;
mod conditions;
pub mod energy;
mod wrong;

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_metal::team::TeamError;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::warning::Note;

pub use achieved::{Achieved, CaseFact};
pub use conditions::{Conditions, ExcludedBy, Numbers, OwnCondition};
pub use wrong::{AtFault, Elsewhere, Repeated, Trials, WrongAnswer, WrongAnswerSource};

/// Amount of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleAmount {
    /// Work in the benchmark's unit (operations, bytes, blocks or messages).
    Work(u64),
    /// Seconds.
    Seconds(f64),
}

impl SampleAmount {
    /// Returns the seconds; fails for an amount of work, for benchmarks that only measure by time.
    pub fn seconds(self) -> Result<f64, CannotMeasure> {
        let Self::Seconds(seconds) = self else {
            return Err(CannotMeasure::not_here("requires --sample-time: a fixed amount is not supported"));
        };
        Ok(seconds)
    }
}

/// One timed repetition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the start of the run; set by the run loop.
    #[serde(default)]
    pub at: f64,
    /// Seconds of the timed part.
    pub elapsed: f64,
    /// Work done, if the run loop should fix this amount for all further samples.
    pub work: Option<u64>,
    /// Metric name → value in base SI units.
    pub values: BTreeMap<String, f64>,
    /// Histograms, if operations were timed individually.
    #[serde(default)]
    pub histograms: Vec<Histogram>,
    /// Headline metric of pairs, if pairs were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrix: Vec<Cell>,
    /// Points of a search or sweep, with parameters and figures by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
    /// Whether earlier samples must be dropped, as burst credits were used up since, for example.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewed: bool,
    /// Conditions.
    #[serde(default)]
    pub conditions: Conditions,
}

/// Histogram of times: (upper edge in nanoseconds, count), ascending, without zero counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Name of the metric.
    pub metric: String,
    /// (nanoseconds, count).
    pub buckets: Vec<(u64, u64)>,
}

/// Point of a curve: name of a parameter or metric → value in base SI units.
pub type CurvePoint = BTreeMap<String, f64>;

/// Headline metric of a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Number of the row (such as a kernel CPU number).
    pub row: u32,
    /// Number of the column.
    pub column: u32,
    /// Value in the metric's unit.
    pub value: f64,
    /// Label of the pair, one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// Facts about a prepared case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Actual parameters and findings.
    pub achieved: Achieved,
    /// Warnings and notes.
    pub warnings: Vec<Note>,
    /// Reason why the figure does not belong to the target; it is kept, but marked invalid.
    pub invalid: Option<String>,
    /// Error in the rate of the clock that timed the samples, which makes every figure wrong.
    pub wrong_rate: Option<String>,
}

/// Resources of a prepared case for reference tools, so that both measure the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    /// CPUs of its threads, in order; for network benchmarks those of the client.
    pub cpus: Vec<usize>,
    /// CPUs of the server's threads, if it runs on this machine.
    pub far_cpus: Vec<usize>,
    /// Filled test file, as a path that another process can open.
    #[serde(with = "plimsoll_units::text::path::option")]
    pub file: Option<PathBuf>,
    /// Size of the test file in bytes.
    pub file_bytes: Option<u64>,
    /// Area for writes, never verified, or why there is none; `None` if not requested.
    pub writable: Option<Result<Writable, String>>,
    /// Options of the tool's job that the case was made of, as `name=value`; untrusted.
    #[serde(skip)]
    pub job: Vec<String>,
}

/// Part of a file or device that a reference tool may overwrite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Writable {
    /// File, as a path that another process can open.
    pub file: PathBuf,
    /// Offset of the part in bytes.
    pub offset: u64,
    /// Size of the part in bytes.
    pub bytes: u64,
}

impl Offer {
    /// Returns the area that a reference tool may overwrite, or the reason why there is none.
    pub fn to_write(&self) -> Result<&Writable, String> {
        let none = || Err("the case has no place for what it would write".to_owned());
        self.writable.as_ref().map_or_else(none, |place| place.as_ref().map_err(Clone::clone))
    }
}

/// Kind of failure, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureCause {
    /// Not supported on this machine: the case is skipped.
    NotHere,
    /// The run's time is up: the case is skipped.
    OutOfTime,
    /// Refused as unsafe: the case is skipped; exit code 3 if nothing else ran.
    Unsafe,
    /// No space, no memory, an I/O error or a lost worker: the case failed; exit code 4.
    Environment,
    /// Server or protocol error: the case failed; exit code 5.
    ServerFailed,
    /// The user or a signal ended the run: the case is omitted.
    Interrupted,
    /// Wrong answer: the case failed and its figure is void; exit code 1.
    WrongAnswer,
}

/// Reason why there is no figure: one line with the problem and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct CannotMeasure {
    /// Kind of failure.
    pub cause: FailureCause,
    /// Reason in one line.
    pub reason: String,
    /// Wrong answer, if that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<Box<WrongAnswer>>,
}

impl From<TeamError> for CannotMeasure {
    fn from(error: TeamError) -> Self {
        Self::environment(error)
    }
}

impl From<WrongAnswer> for CannotMeasure {
    fn from(wrong: WrongAnswer) -> Self {
        let reason = wrong.to_string();
        Self { wrong: Some(Box::new(wrong)), ..Self::new(FailureCause::WrongAnswer, reason) }
    }
}

impl CannotMeasure {
    /// Creates the reason why a case has no figure: a line with the problem and what to do.
    pub fn new(cause: FailureCause, reason: impl Into<String>) -> Self {
        Self { cause, reason: reason.into(), wrong: None }
    }

    /// Creates the failure of a case that this machine does not support; the case is skipped.
    pub fn not_here(reason: impl ToString) -> Self {
        Self::new(FailureCause::NotHere, reason.to_string())
    }

    /// Creates the failure of a case for which the run has no time left; the case is skipped.
    pub fn out_of_time(reason: impl Into<String>) -> Self {
        Self::new(FailureCause::OutOfTime, reason)
    }

    /// Creates the failure of a case that is refused as unsafe; the case is skipped.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::new(FailureCause::Unsafe, reason)
    }

    /// Creates the failure of a case by lack of space or memory, an I/O error or a lost worker.
    pub fn environment(reason: impl ToString) -> Self {
        Self::new(FailureCause::Environment, reason.to_string())
    }

    /// Creates the failure of a case by a server or protocol error.
    pub fn server_failed(reason: impl Into<String>) -> Self {
        Self::new(FailureCause::ServerFailed, reason)
    }
}

/// Agreement of the definitions of a reference tool's figure and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// Same definition: an equivalence verdict makes sense.
    Exact,
    /// Same definition after multiplication with a factor.
    Scaled,
    /// Similar definition, for orientation only; never judged equivalent.
    Related,
}

/// A figure of ours and one of a reference tool, taken one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// Our figure.
    pub own: f64,
    /// The tool's figure in the same unit.
    pub tool: f64,
}

/// Result of a reference tool for a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRun {
    /// Name of the tool.
    pub name: String,
    /// Version, if known.
    pub version: Option<String>,
    /// Metric that it measures too.
    pub metric: String,
    /// Agreement of the definitions.
    pub definition: Match,
    /// Difference of the definitions, or how they were aligned.
    pub note: String,
    /// Command with its arguments.
    pub command: Vec<String>,
    /// Input by name: a file in its working directory, or `stdin`.
    pub input: BTreeMap<String, String>,
    /// Parameters that it reported.
    pub achieved: Achieved,
    /// Pairs of figures.
    pub pairs: Vec<Paired>,
    /// Deviations from the request.
    pub warnings: Vec<Note>,
    /// Reason why it gave no (further) figures.
    pub unavailable: Option<String>,
}

/// Outcome of one case; the journal of a watch stores that of each probe, without repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Case.
    pub case: Case,
    /// Number of the plan's repetition; 0 if there is only one.
    #[serde(skip)]
    pub repeat: u32,
    /// Finished samples, without warm-up.
    pub samples: Vec<Sample>,
    /// Facts and warnings.
    pub facts: Facts,
    /// Results of reference tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<ToolRun>,
    /// Reason why it ended without a figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<CannotMeasure>,
}

impl Outcome {
    /// Returns the values of `metric`, in base SI units, in the order of the samples that have it.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.samples.iter().filter_map(|s| s.values.get(metric).copied()).collect()
    }
}
