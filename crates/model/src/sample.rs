//! What a benchmark hands back: samples, conditions, achieved facts, or the reason why it could not measure.
//!
//! Plain values that cross the pipe between worker and parent as JSON.

mod achieved;
mod conditions;
pub mod energy;
mod wrong;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::warning::Note;

pub use achieved::{Achieved, Fact};
pub use conditions::{Condition, Conditions, ExcludedBy, Numbers};
pub use wrong::{AtFault, Elsewhere, Origin, Repeated, Trials, WrongAnswer};

/// How much one sample does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// This much work, in the benchmark's own unit (operations, bytes, blocks or messages).
    Work(u64),
    /// This many seconds.
    Seconds(f64),
}

/// One timed repetition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the run began; the run loop sets it.
    #[serde(default)]
    pub at: f64,
    /// Seconds that the timed part took.
    pub elapsed: f64,
    /// Work done, where repeating exactly this amount makes sense: the run loop then fixes it for all samples.
    #[serde(default)]
    pub work: Option<u64>,
    /// Metric name → value in base SI units.
    pub values: BTreeMap<String, f64>,
    /// Distributions, where the benchmark times single operations.
    #[serde(default)]
    pub histograms: Vec<Histogram>,
    /// The headline metric of single pairs, where the benchmark measures between things.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrix: Vec<Cell>,
    /// The points of a search or sweep, where the benchmark makes one: each names its parameters and figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<Point>,
    /// Whether it shows that the samples before it were of another state, as before a burst of credit was used up: they
    /// do not count then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewed: bool,
    /// Under which conditions.
    #[serde(default)]
    pub conditions: Conditions,
}

/// A distribution of times: (upper edge in nanoseconds, count), ascending, no zero counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The metric it belongs to.
    pub metric: String,
    /// (nanoseconds, count).
    pub buckets: Vec<(u64, u64)>,
}

/// One point of a curve: name of a parameter or metric → value in base SI units.
pub type Point = BTreeMap<String, f64>;

/// The headline metric between two things.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Number of the one (a CPU, as the kernel numbers it).
    pub row: u32,
    /// Number of the other.
    pub column: u32,
    /// In the metric's unit.
    pub value: f64,
    /// What is to be known of this pair, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// What a prepared case turned out to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// What was really used or found, beside what was asked for.
    #[serde(default)]
    pub achieved: Achieved,
    /// What the reader must know.
    #[serde(default)]
    pub warnings: Vec<Note>,
    /// Why the figure is not that of the thing measured: it is kept and marked invalid.
    #[serde(default)]
    pub invalid: Option<String>,
    /// How the clock that timed the samples runs at a wrong rate: no figure is right then.
    #[serde(default)]
    pub wrong_rate: Option<String>,
}

/// What a prepared case lets a reference tool use, so that both measure the same thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The CPUs that its threads are pinned to, in their order; of a network benchmark those of the near end.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Those of the far end, where it is on this machine.
    #[serde(default)]
    pub far_cpus: Vec<usize>,
    /// The filled test file, as a path that another process can open.
    #[serde(default, with = "crate::text::path::option")]
    pub file: Option<PathBuf>,
    /// Its bytes.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// Where it may write, or why there is no such place; `None` where nobody asked for one. Nothing that is there is ever
    /// checked, and what is checked is written by plimsoll alone.
    #[serde(default)]
    pub writable: Option<Result<Writable, String>>,
    /// The options of the tool's job that the case was made of, as `name=value`: a stranger's.
    #[serde(skip)]
    pub job: Vec<String>,
}

/// A part of a file or device that a reference tool may write to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Writable {
    /// The file, as a path that another process can open.
    pub file: PathBuf,
    /// Where the part begins, in bytes.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
}

impl Offer {
    /// Where a tool may write.
    ///
    /// # Errors
    /// Why nowhere, in one line.
    pub fn to_write(&self) -> Result<&Writable, String> {
        let none = || Err("the case has no place for what it would write".to_owned());
        self.writable.as_ref().map_or_else(none, |place| place.as_ref().map_err(Clone::clone))
    }
}

/// Which rule of the exit codes a failure falls under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// This machine cannot do it: the case is skipped.
    NotHere,
    /// The time that the run has was over: the case is skipped.
    OutOfTime,
    /// It could do harm: the case is skipped; exit 3 if nothing else ran.
    Unsafe,
    /// No space, no memory, an I/O error, a lost worker: the case failed; exit 4.
    Environment,
    /// The far end or the protocol: the case failed; exit 5.
    FarEnd,
    /// The user or a signal ended the run: the case is left out.
    Interrupted,
    /// The answer is wrong: the case failed and its figure is void; exit 1.
    WrongAnswer,
}

/// Why there is no figure: one line that says what, where, why, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CannotMeasure {
    /// What kind of reason.
    pub cause: Cause,
    /// One line.
    pub reason: String,
    /// The wrong answer, if that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<Box<WrongAnswer>>,
}

impl From<WrongAnswer> for CannotMeasure {
    fn from(wrong: WrongAnswer) -> Self {
        let reason = wrong.to_string();
        Self { wrong: Some(Box::new(wrong)), ..Self::new(Cause::WrongAnswer, reason) }
    }
}

impl CannotMeasure {
    /// A reason of this kind.
    pub fn new(cause: Cause, reason: impl Into<String>) -> Self {
        Self { cause, reason: reason.into(), wrong: None }
    }

    /// This machine lacks something.
    pub fn not_here(reason: impl Into<String>) -> Self {
        Self::new(Cause::NotHere, reason)
    }

    /// The budget of the run is used up.
    pub fn out_of_time(reason: impl Into<String>) -> Self {
        Self::new(Cause::OutOfTime, reason)
    }

    /// Refused for safety.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::new(Cause::Unsafe, reason)
    }

    /// The environment failed.
    pub fn environment(reason: impl Into<String>) -> Self {
        Self::new(Cause::Environment, reason)
    }

    /// The far end failed.
    pub fn far_end(reason: impl Into<String>) -> Self {
        Self::new(Cause::FarEnd, reason)
    }
}

impl fmt::Display for CannotMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for CannotMeasure {}

/// How far a reference tool's figure and ours are the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// The same definition: an equivalence verdict has a meaning.
    Exact,
    /// The same after a factor.
    Scaled,
    /// Something near: shown for orientation, never judged equivalent.
    Related,
}

/// A figure of ours and one of a reference tool, taken one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// Ours.
    pub own: f64,
    /// The tool's, in the same unit.
    pub peer: f64,
}

/// What a reference tool gave beside a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Its name.
    pub name: String,
    /// Its version, if it says.
    pub version: Option<String>,
    /// The metric that it measures too.
    pub metric: String,
    /// How far the definitions agree.
    pub definition: Match,
    /// Where they differ, or how they were brought together.
    pub note: String,
    /// The command, as it could be typed.
    pub command: Vec<String>,
    /// What it reads, by name: a file of that name in its directory, or `stdin`.
    pub input: BTreeMap<String, String>,
    /// Parameters that it says it used.
    pub achieved: Achieved,
    /// The pairs.
    pub pairs: Vec<Paired>,
    /// What it did otherwise than asked.
    pub warnings: Vec<Note>,
    /// Why it gave nothing (more).
    pub unavailable: Option<String>,
}

/// All that became of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// Which repeat of the plan; 0 where it is measured once.
    pub repeat: u32,
    /// Finished samples, warm-up excluded.
    pub samples: Vec<Sample>,
    /// What was achieved, and warnings.
    pub facts: Facts,
    /// What reference tools gave beside it.
    pub peers: Vec<Beside>,
    /// Why it ended without a figure.
    pub ended: Option<CannotMeasure>,
}

impl Outcome {
    /// The values of one metric, a value a sample.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.samples.iter().filter_map(|s| s.values.get(metric).copied()).collect()
    }
}
