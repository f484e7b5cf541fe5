//! What a benchmark hands back: samples, conditions, achieved facts, or the reason why it could not measure.
//!
//! Plain values that cross the pipe between worker and parent as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::warning::Warning;

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

/// Conditions during one sample, or over a whole case. Shares are between 0 and 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Core clock held, measured, mean over the threads, in Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
    /// Share of the time that the hypervisor gave to others (from /proc/stat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
    /// Share of the time in slices that were interrupted and are not in the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<f64>,
    /// Share of the time that a cgroup quota throttled, as the mean over the CPUs of the case's threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<f64>,
    /// Further numbers under names of their own.
    #[serde(default, flatten)]
    pub more: BTreeMap<String, f64>,
}

impl Conditions {
    /// The share of the time that others took away from the figure of a case on so many CPUs. What a quota stops waits as well,
    /// and is a cause of its own, and so do threads that crowd the CPUs.
    pub fn disturbed(&self, case: &Case, cpus: usize) -> f64 {
        let waited = self.more.get(WAITED).copied().unwrap_or(0.0) - case.crowding(cpus);
        self.steal.unwrap_or(0.0).max(waited - self.throttled.unwrap_or(0.0)).clamp(0.0, 1.0)
    }
}

/// Name of a condition: the share of the probes of the clock beside which another thread used the vector units of the
/// same core, from 0 to 1; of the processor where it is largest.
pub const UNITS_SHARED: &str = "vector_units_shared";

/// Name in [`Conditions::more`]: the largest share of the time that a thread was ready to run and had no CPU.
pub const WAITED: &str = "waited";

/// Names in [`Conditions::more`]: parts of [`Conditions::set_aside`] by their cause, as shares of the time.
pub mod excluded {
    /// A thread left its CPU.
    pub const SWITCHED: &str = "excluded_switched";
    /// The core clock was another one after a slice than before it.
    pub const CLOCK: &str = "excluded_clock";
    /// Slices of a second common cost.
    pub const SECOND: &str = "excluded_second_cost";
    /// Slices that took longer although no thread left its CPU and the clock held.
    pub const GAPS: &str = "excluded_gaps";
    /// By how much the dearer of those took longer than their work does.
    pub const TAKEN: &str = "excluded_gaps_taken";
    /// The share of the work that was done at a second common cost.
    pub const SECOND_WORK: &str = "second_cost_work";
    /// That cost, over the most common one.
    pub const SECOND_COST: &str = "second_cost";
}

/// The causes of excluded time, by their names among the conditions.
pub fn excluded_by(causes: &plimsoll_metal::sliced::Causes) -> impl Iterator<Item = (String, f64)> {
    let shares = [
        (excluded::SWITCHED, Some(causes.switched)),
        (excluded::CLOCK, Some(causes.clock)),
        (excluded::SECOND, Some(causes.second)),
        (excluded::GAPS, Some(causes.gaps)),
        (excluded::TAKEN, Some(causes.taken)),
        (excluded::SECOND_WORK, Some(causes.second_work)),
        (excluded::SECOND_COST, causes.second_cost),
    ];
    shares
        .into_iter()
        .filter_map(|(name, share)| Some((name.to_owned(), share.filter(|share| *share > 0.0)?)))
}

/// Name in [`Conditions::more`]: how long one CPU of the case took to see what its neighbour wrote, mean over the pairs, in
/// seconds; told where a hypervisor may move CPUs.
pub const CORE_TO_CORE: &str = "core_to_core";

/// Whether two such times are of different places, as far as it matters to the case. What CPUs get from memory depends on
/// whether they share a cache; what they compute only on whether they share a core, whose two threads see each other in
/// less than 15 ns (10 ns here, 27 within a cache and 110 beyond).
pub fn has_moved(case: &Case, one: f64, other: f64) -> bool {
    const ANOTHER_CACHE: f64 = 1.5;
    const SAME_CORE: f64 = 15e-9;
    match case.subsystem() {
        "cpu" => (one < SAME_CORE) != (other < SAME_CORE),
        _ => one.max(other) > ANOTHER_CACHE * one.min(other),
    }
}

/// Name in [`Conditions::more`]: the rate in bit/s that a queueing discipline of the kernel holds what leaves the interface to.
pub const SHAPED: &str = "path_shaped";

/// The same of what comes in by it: a policer of the kernel drops the rest.
pub const POLICED: &str = "path_policed";

/// The same of the server's interface, as the server says.
pub const FAR_SHAPED: &str = "far_shaped";

/// The same of what comes in at the server.
pub const FAR_POLICED: &str = "far_policed";

/// Name in [`Conditions::more`]: the rate in bit/s that the server allows in each direction, where that is less than it
/// allows if nothing is asked, or is reached.
pub const SERVER_CAP: &str = "server_max_rate";

/// Name in [`Conditions::more`]: the rate in bit/s at which data arrived for good when the burst of a token bucket was used
/// up.
pub const BASE_RATE: &str = "path_base_rate";

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
    /// Parameter → what was really used, beside what was asked for.
    #[serde(default)]
    pub achieved: BTreeMap<String, serde_json::Value>,
    /// What the reader must know.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Why the figure is not that of the thing measured: it is kept and marked invalid.
    #[serde(default)]
    pub invalid: Option<String>,
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
    /// It could do harm: the case is skipped; exit 3 if nothing else ran.
    Unsafe,
    /// No space, no memory, an I/O error, a lost worker: the case failed; exit 4.
    Environment,
    /// The far end or the protocol: the case failed; exit 5.
    FarEnd,
    /// The user or a signal ended the run: the case is left out.
    Interrupted,
}

/// Why there is no figure: one line that says what, where, why, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CannotMeasure {
    /// What kind of reason.
    pub cause: Cause,
    /// One line.
    pub reason: String,
}

impl CannotMeasure {
    /// This machine lacks something.
    pub fn not_here(reason: impl Into<String>) -> Self {
        Self { cause: Cause::NotHere, reason: reason.into() }
    }

    /// Refused for safety.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self { cause: Cause::Unsafe, reason: reason.into() }
    }

    /// The environment failed.
    pub fn environment(reason: impl Into<String>) -> Self {
        Self { cause: Cause::Environment, reason: reason.into() }
    }

    /// The far end failed.
    pub fn far_end(reason: impl Into<String>) -> Self {
        Self { cause: Cause::FarEnd, reason: reason.into() }
    }
}

impl fmt::Display for CannotMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for CannotMeasure {}

/// The answer after timing was wrong: the figure is void.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("wrong answer: {0}")]
pub struct WrongAnswer(pub String);

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
    pub achieved: BTreeMap<String, serde_json::Value>,
    /// The pairs.
    pub pairs: Vec<Paired>,
    /// What it did otherwise than asked.
    pub warnings: Vec<Warning>,
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
    pub ended: Option<End>,
}

/// How a case ended when it did not end well.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// It could not be measured.
    Cannot(CannotMeasure),
    /// It was measured and the answer is wrong.
    Wrong(WrongAnswer),
}

impl Outcome {
    /// The values of one metric, a value a sample.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.samples.iter().filter_map(|s| s.values.get(metric).copied()).collect()
    }
}
