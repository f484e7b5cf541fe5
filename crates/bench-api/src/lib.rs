//! The contract of every benchmark: what a subsystem, a benchmark and a prepared case are, and what several subsystems measure with.
//!
//! A benchmark states its cases without touching the machine; a prepared case does the work, one sample a call.
//! Prepared cases live in a worker process: what they allocate, break or crash is theirs alone.

#![forbid(unsafe_code)]

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Instant;

use plimsoll_machine::Machine;
use plimsoll_model::case::{Case, Value};
use plimsoll_model::limit::{self, Limit, Question};
use plimsoll_model::measurement::Measurement;
use plimsoll_model::plan::Group;
use plimsoll_model::sample::{Amount, CannotMeasure, Facts, Offer, Point, Sample, Writable};
use plimsoll_model::view::{Finding, RunView};
use plimsoll_model::warning::Loss;
use plimsoll_model::words;
use plimsoll_server::wire::Key;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub mod apart;
pub mod buffer;
pub mod fixed;
mod help;
pub mod identity;
pub mod setting;
mod target;
mod warning;

pub use crate::apart::{Look, Stay};
pub use crate::help::help_of;
pub use crate::setting::Setting;
pub use crate::target::{Consent, RawTarget, RequestedSize};
pub use plimsoll_model::metric::{Better, Curve, Metric, OfTransfers, Role, Roofline};
pub use plimsoll_model::place::{Placement, place, placed, places};
pub use plimsoll_model::words::{PATTERN, Say};

/// CPUs of a case on a machine.
pub type Cpus = fn(&Machine, &Case) -> Vec<usize>;

/// What the benchmarks of one subsystem have in common.
pub struct Subsystem {
    /// The part of their names before the dot.
    pub name: &'static str,
    /// Its benchmarks, in the order of lists and reports.
    pub benchmarks: &'static [&'static dyn Benchmark],
    /// As a heading.
    pub title: &'static str,
    /// What its command measures, as the list of commands says it.
    pub about: &'static str,
    /// What of a machine they measure, the most telling first; the measurement is the first below the heading.
    pub context: fn(&Machine, &Measurement) -> Vec<String>,
    /// Options that its short help shows, the most wanted first.
    pub asked_first: &'static [&'static str],
    /// Help of parameters that mean the same to all its benchmarks, and something else than elsewhere.
    pub help: &'static [(&'static str, &'static str)],
    /// Parameters whose value is each thread's own, so that all threads together have so many times as much.
    pub of_each_thread: &'static [&'static str],
    /// The CPUs that its threads usually take, for a reference tool; none where they are not pinned.
    pub cpus: Cpus,
    /// Whether it is a command, `plimsoll NAME`.
    pub is_command: bool,
    /// Whether its cases work on test files, or on a device in their place: `--dir` and `--target` are for it.
    pub on_files: bool,
    /// Whether `--size sweep` stands for many sizes.
    pub sweeps_sizes: bool,
    /// What to use instead of `--threads`, where that is not for it.
    pub instead_of_threads: Option<&'static str>,
    /// What a second cost of the work means, which is seen in its samples.
    pub second_cost: Loss,
    /// Where CPUs must stay for its figures to be of one place.
    pub stay: Stay,
    /// Whether its cases send through network interfaces, so that their errors and drops are theirs.
    pub uses_interfaces: bool,
    /// The rate that a setting of the machine holds the headline to; none where nobody set one.
    pub setting: fn(&Measurement, &Machine) -> Option<Setting>,
    /// Whether nobody else can have used what it measures without being seen. Who uses a disk or a link needs little CPU time for it.
    pub is_alone: fn(&Measurement, &Machine) -> bool,
}

impl Subsystem {
    /// One that is like most.
    pub const USUAL: Self = Self {
        name: "",
        benchmarks: &[],
        title: "",
        about: "",
        context: |_, _| Vec::new(),
        asked_first: &[],
        help: &[],
        of_each_thread: &[],
        cpus: placed,
        is_command: true,
        on_files: false,
        sweeps_sizes: false,
        instead_of_threads: None,
        second_cost: Loss::MemoryShared,
        stay: Stay::AtCaches,
        uses_interfaces: false,
        setting: |_, _| None,
        is_alone: |_, _| true,
    };

    /// A case of one of its benchmarks in words, with the subsystem's name: `memory read 512 MiB ×2`.
    pub fn label(&self, case: &Case) -> String {
        let benchmark = self.find(case.benchmark());
        words::full(benchmark.map(|benchmark| benchmark.descriptor().words).unwrap_or_default(), case)
    }

    /// The limits of one metric of a case of one of its benchmarks. A figure that is the sum over pairs of machines has the sum of
    /// their limits.
    pub fn limits(&self, question: &Question<'_>) -> Vec<Limit> {
        let benchmark = self.find(question.case.benchmark());
        let limits = benchmark.map(|benchmark| benchmark.limits(question)).unwrap_or_default();
        match question.condition(&limit::PAIRS) {
            Some(pairs) => limits.into_iter().map(|limit| limit.of_pairs(pairs)).collect(),
            None => limits,
        }
    }

    /// Its benchmark of that name.
    pub fn find(&self, name: &str) -> Option<&'static dyn Benchmark> {
        self.benchmarks.iter().copied().find(|benchmark| benchmark.name() == name)
    }
}

/// A case's parameters as its benchmark understood them, in a type of its own: made once, where cases are planned, and what
/// the worker gets. Empty where the case itself says all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parsed(serde_json::Value);

impl Parsed {
    /// The parameters in the benchmark's own type.
    ///
    /// # Errors
    /// They are those of another benchmark.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, CannotMeasure> {
        let wrong = |e| CannotMeasure::environment(format!("the parameters are of another benchmark: {e}"));
        T::deserialize(&self.0).map_err(wrong)
    }
}

/// A case, and whether this machine can measure it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The case.
    pub case: Case,
    /// What its benchmark made of its parameters.
    pub parsed: Parsed,
    /// `Err` says why it is listed and not measured.
    pub feasible: Result<(), CannotMeasure>,
}

impl Candidate {
    /// A case that says by itself what is to be done.
    pub fn new(case: Case, feasible: Result<(), CannotMeasure>) -> Self {
        Self { case, parsed: Parsed::default(), feasible }
    }

    /// The same, with what its benchmark made of its parameters.
    #[must_use]
    pub fn parsed(self, parameters: &impl Serialize) -> Self {
        // Plain numbers and names, which are always written.
        Self { parsed: Parsed(serde_json::to_value(parameters).unwrap_or_default()), ..self }
    }
}

/// What is known of a benchmark without its code: one row, from which command line, lists, help and docs follow.
#[derive(Debug)]
pub struct Descriptor {
    /// `subsystem.noun`.
    pub name: &'static str,
    /// One line for lists and docs.
    pub about: &'static str,
    /// The parameters it takes, in the order of its ids.
    pub keys: &'static [&'static str],
    /// Help of parameters that mean something of their own here, where they do not to the whole subsystem.
    pub help: &'static [(&'static str, &'static str)],
    /// A case in words, for tables and messages; none: its name.
    pub words: &'static [Say],
    /// Whether it runs when nothing is named.
    pub by_default: bool,
    /// What it does by other means than the benchmarks that say the same here: charts lay their figures over each other.
    pub common: Option<&'static str>,
    /// What the curve of a search or sweep is drawn over.
    pub curves: &'static [Curve],
    /// Whether all machines of a run measure it together, and none alone.
    pub of_all_machines: bool,
    /// Whether the next case of this benchmark may run in the same worker, so that what is dear to make
    /// (a filled file) is made once. See [`Keep`].
    pub shares_worker: bool,
    /// Whether setting up and samples wait for a device, which may be slower than anyone thought: a budget ends them then.
    pub waits_for_a_device: bool,
    /// The size of the test file that a case needs in its directory, by what [`Benchmark::cases`] made of its parameters; `None` where it needs none.
    pub file: fn(&Parsed) -> Option<RequestedSize>,
    /// Measures what default cases rest on and no file tells, and notes it in the machine. Called before a run, where this
    /// benchmark has cases whose sizes were not asked for; takes a second at most.
    pub look: fn(&mut Machine),
    /// What bounds one metric of a case: limits with formula, inputs and source; what is not known is [`Limit::unknown`] with the
    /// reason and the remedy. None where a limit has no meaning. Pure, and nothing that measures knows them: they are computed
    /// when the case has ended.
    pub limits: fn(&Question<'_>) -> Vec<Limit>,
    /// What its figures of one machine say, by rules of its own; rules for all benchmarks are in the crate `result`.
    pub findings: fn(&RunView<'_>) -> Vec<Finding>,
    /// What answered in a measurement, as its row says it after what was chosen for `best`.
    pub answered: fn(&Measurement) -> Option<String>,
    /// What a name in the row means, said once below all rows that have one.
    pub remark: fn(&Measurement) -> Option<&'static str>,
    /// A point of the headline's curve, as the row says it.
    pub point: fn(&Point) -> Option<String>,
}

impl Descriptor {
    /// One that is like most.
    pub const USUAL: Self = Self {
        name: "",
        about: "",
        keys: &[],
        help: &[],
        words: &[],
        by_default: true,
        common: None,
        curves: &[],
        of_all_machines: false,
        shares_worker: false,
        waits_for_a_device: false,
        file: |_| None,
        look: |_| (),
        limits: |_| Vec::new(),
        findings: |_| Vec::new(),
        answered: |_| None,
        remark: |_| None,
        point: |_| None,
    };
}

/// One family of measurement.
pub trait Benchmark: Sync {
    /// What lists, help, docs and plans know of it.
    fn descriptor(&self) -> &Descriptor;

    /// `subsystem.noun`.
    fn name(&self) -> &'static str {
        self.descriptor().name
    }

    /// The parameters it takes, in the order of its ids.
    fn keys(&self) -> &'static [&'static str] {
        self.descriptor().keys
    }

    /// Every metric that a case of it can have, the usual headline first.
    fn all_metrics(&self) -> &'static [Metric];

    /// A row of [`Benchmark::all_metrics`] as a case has it; `None` where the case does not have it.
    fn metric_of(&self, _: &Case, row: Metric) -> Option<Metric> {
        Some(row)
    }

    /// The metric that heads a case, where that is not the first of its rows.
    fn headline(&self, _: &Case) -> Option<&'static str> {
        None
    }

    /// The metrics of a case, the headline first.
    fn metrics(&self, case: &Case) -> Vec<Metric> {
        let rows = self.all_metrics().iter();
        let mut found: Vec<Metric> = rows.filter_map(|row| self.metric_of(case, *row)).collect();
        let headline = self.headline(case);
        if let Some(place) = headline.and_then(|name| found.iter().position(|metric| metric.name == name)) {
            found[..=place].rotate_right(1);
        }
        found
    }

    /// The cases that a group asks for on this machine. Pure: `--dry-run` and `--list` stop here.
    ///
    /// # Errors
    /// A typed value that no machine could measure (an unknown operation, zero threads), in one line.
    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String>;

    /// Whether a case searches: it makes probes of many sizes within one sample.
    fn searches(&self, _: &Case) -> bool {
        false
    }

    /// Where a case is on a roofline.
    fn roofline(&self, _: &Case) -> Roofline {
        Roofline::No
    }

    /// What else the row of a measurement says: what a search found, where both ends ran.
    fn details(&self, _: &Measurement) -> Vec<String> {
        Vec::new()
    }

    /// See [`Descriptor::limits`].
    fn limits(&self, question: &Question<'_>) -> Vec<Limit> {
        (self.descriptor().limits)(question)
    }

    /// Seconds that a sample takes on an average machine, where the case states its amount: for estimates before a run.
    fn sample_seconds(&self, _: &Case) -> Option<f64> {
        None
    }

    /// The share by which two runs of the same case differ on a quiet machine at most, where the method allows to promise
    /// one for this metric; `plimsoll doctor` measures it for the machine at hand.
    fn noise(&self, _: &str) -> Option<f64> {
        None
    }

    /// Sets a case up: allocates, opens, fills, starts threads. Nothing in here is timed. `parsed` is what [`Benchmark::cases`]
    /// made of the case's parameters.
    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> Ready;
}

/// A case that is ready to be sampled, or why it cannot be measured here and now.
pub type Ready = Result<Box<dyn Prepared>, CannotMeasure>;

/// A case that is ready to be sampled. Dropping it tears everything down.
pub trait Prepared {
    /// Does one sample. A first call may be a warm-up; the run loop decides.
    ///
    /// # Errors
    /// Why the figure cannot be had.
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure>;

    /// What a reference tool may use to measure the same thing.
    fn offer(&self) -> Offer {
        Offer::default()
    }

    /// Makes a place in which reference tools may write, laid out like the case's own.
    ///
    /// # Errors
    /// Why there is none, in one line.
    fn lend(&mut self) -> Result<Writable, String> {
        Err("the case has no place for what it would write".to_owned())
    }

    /// Frees the CPUs while something else is being measured.
    fn pause(&mut self) {}

    /// Undoes [`Prepared::pause`].
    fn resume(&mut self) {}

    /// Checks the answer after timing.
    ///
    /// # Errors
    /// The answer is wrong ([`plimsoll_model::sample::WrongAnswer`]), or why it could not be checked: then nothing is known of it. The
    /// measurement is void in both cases.
    fn verify(&mut self) -> Result<(), CannotMeasure>;

    /// What was really used, and what the reader must know. Asked after the last sample.
    fn facts(&self) -> Facts {
        Facts::default()
    }
}

/// What a case may use while it is prepared.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The machine as discovered by the parent.
    pub machine: &'a Machine,
    /// What the user chose.
    pub options: &'a Options,
    /// Things kept from case to case in this worker.
    pub keep: &'a Keep,
}

/// What the user chose and every case may need. Crosses the pipe to the worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Directory of the test files.
    #[serde(with = "plimsoll_units::text::path")]
    pub dir: PathBuf,
    /// Seed of the run; mix the case id in.
    pub seed: u64,
    /// A block device to be measured itself, in the place of a file in `dir`; from the command line alone.
    #[serde(default)]
    pub target: Option<RawTarget>,
    /// The key of the server that network benchmarks name.
    #[serde(default)]
    pub key: Option<Key>,
    /// When the case that is prepared must be ready, where the run has a budget; each worker keeps its own.
    #[serde(skip)]
    pub until: Option<Instant>,
}

/// Values kept alive from one case to the next in the same worker, by name and type.
#[derive(Default)]
pub struct Keep {
    values: RefCell<HashMap<String, Box<dyn Any>>>,
}

impl Keep {
    /// Takes the value out, if it is there and of this type.
    pub fn take<T: Any>(&self, name: &str) -> Option<T> {
        let value = self.values.borrow_mut().remove(name)?;
        value.downcast::<T>().ok().map(|boxed| *boxed)
    }

    /// Puts a value in for a later case.
    pub fn put<T: Any>(&self, name: &str, value: T) {
        self.values.borrow_mut().insert(name.to_owned(), Box::new(value));
    }
}

/// The thread counts that are measured when none are named: one, and the most that get their own CPU.
pub fn default_threads(machine: &Machine) -> Vec<u64> {
    match machine.most_threads() as u64 {
        0 | 1 => vec![1],
        most => vec![1, most],
    }
}

/// The numbers that a group asks for under this key, or the usual ones, each from 1 to `most`.
///
/// # Errors
/// One that is not, in one line.
pub fn counts(group: &Group, key: &str, usual: &[u64], most: u64) -> Result<Vec<u64>, String> {
    group.numbers(key, usual).into_iter().map(|n| within(1..=most, key, n)).collect()
}

/// The sizes asked for of a parameter that may be a mix elsewhere, or the usual ones.
///
/// # Errors
/// A mix, in one line.
pub fn whole_sizes(of: &dyn Benchmark, group: &Group, key: &str, usual: &[u64]) -> Result<Vec<u64>, String> {
    let mix = |value: &&Value| matches!(value, Value::Mix(_));
    match group.lists.get(key).and_then(|values| values.iter().find(mix)) {
        Some(mix) => Err(format!("{key} must be one size: the mix {mix} is not supported on {}", of.name())),
        None => Ok(group.numbers(key, usual)),
    }
}

/// The value of a parameter, if it is within the range.
///
/// # Errors
/// It is not, in one line.
pub fn within(range: RangeInclusive<u64>, key: &str, n: u64) -> Result<u64, String> {
    match range.contains(&n) {
        true => Ok(n),
        false => Err(format!("{key} must be between {} and {}: {n} is not", range.start(), range.end())),
    }
}
