//! Interfaces of benchmarks, and shared measuring functions. A prepared case takes one sample per
//! call, in a worker process that isolates its memory and crashes.

#![forbid(unsafe_code)]

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Instant;

use plimsoll_machine::Machine;
use plimsoll_model::case::{Case, Value};
use plimsoll_model::limit::{self, Limit, Question};
use plimsoll_model::measurement::Measurement;
use plimsoll_model::plan::Group;
use plimsoll_model::sample::{CannotMeasure, CurvePoint, Facts, Offer, Sample, SampleAmount, Writable};
use plimsoll_model::view::PlainFinding;
use plimsoll_model::warning::{Loss, Warning};
use plimsoll_model::words;
use plimsoll_server::wire::SharedKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub mod buffer;
pub mod distances;
pub mod fixed;
mod help;
pub mod identity;
pub mod prelude;
pub mod setting;
mod target;

pub use crate::distances::{CpuDistance, FixedTopology};
pub use crate::help::help_of;
pub use crate::setting::Setting;
pub use crate::target::{Consent, RawTarget, RequestedSize};
pub use plimsoll_model::metric::{Better, Curve, Metric, OfTransfers, Role, Roofline};
pub use plimsoll_model::place::{ThreadOrder, check_affinities, cpus_of_case, spread_cpus};
pub use plimsoll_model::words::{LabelPart, PATTERN};

/// Properties shared by the benchmarks of one subsystem.
pub struct Subsystem {
    /// Part of the benchmark names before the dot.
    pub name: &'static str,
    /// The benchmarks, in the order of lists and reports.
    pub benchmarks: &'static [&'static dyn Benchmark],
    /// Title for headings.
    pub title: &'static str,
    /// Description for the list of commands.
    pub about: &'static str,
    /// Description of the measured part of a machine, most important line first.
    pub context: fn(&Machine, &Measurement) -> Vec<String>,
    /// Whether rows show percentiles of single operations.
    pub has_percentiles: bool,
    /// Options in its short help, most important first.
    pub asked_first: &'static [&'static str],
    /// Words that users try as its command.
    pub synonyms: &'static [&'static str],
    /// Help of parameters with one meaning in all its benchmarks: (name, text).
    pub help: &'static [(&'static str, &'static str)],
    /// Parameters whose value applies per thread, so that all threads together use a multiple.
    pub of_each_thread: &'static [&'static str],
    /// CPUs that its threads usually use, for a reference tool; empty if threads are not pinned.
    pub cpus: fn(&Machine, &Case) -> Vec<usize>,
    /// Whether it is a command, `plimsoll NAME`.
    pub is_command: bool,
    /// Whether its cases use test files or a target device (`--dir`, `--target`).
    pub on_files: bool,
    /// Whether `--size sweep` stands for a list of sizes.
    pub sweeps_sizes: bool,
    /// Replacement for `--threads`, if it does not support that option.
    pub instead_of_threads: Option<&'static str>,
    /// Cause of a second cost of the work in its samples.
    pub second_cost: Loss,
    /// Topology of CPUs that its results depend on.
    pub topology: FixedTopology,
    /// Whether its cases use network interfaces, whose errors and drops are then its own.
    pub uses_interfaces: bool,
    /// Rate limit of this machine that applies to the headline metric, if any.
    pub setting: fn(&Measurement, &Machine) -> Option<Setting>,
    /// Whether unnoticed use of the measured device by other programs is impossible.
    pub is_alone: fn(&Measurement, &Machine) -> bool,
}

impl Subsystem {
    /// Default values.
    pub const USUAL: Self = Self {
        name: "",
        benchmarks: &[],
        title: "",
        about: "",
        context: |_, _| Vec::new(),
        has_percentiles: false,
        asked_first: &[],
        synonyms: &[],
        help: &[],
        of_each_thread: &[],
        cpus: cpus_of_case,
        is_command: true,
        on_files: false,
        sweeps_sizes: false,
        instead_of_threads: None,
        second_cost: Loss::MemoryContended,
        topology: FixedTopology::AtCaches,
        uses_interfaces: false,
        setting: |_, _| None,
        is_alone: |_, _| true,
    };

    /// Returns the label of a case with the subsystem's name: `memory read 512 MiB ×2`.
    pub fn label(&self, case: &Case) -> String {
        let benchmark = self.find(case.benchmark());
        words::full(benchmark.map(|benchmark| benchmark.descriptor().words).unwrap_or_default(), case)
    }

    /// Returns the limits of the metric in `question`, times the number of pairs of machines that
    /// run at once, if several. Empty if the subsystem does not have the case's benchmark.
    pub fn limits(&self, question: &Question<'_>) -> Vec<Limit> {
        let benchmark = self.find(question.case.benchmark());
        let limits = benchmark.map(|benchmark| benchmark.limits(question)).unwrap_or_default();
        match question.condition(&limit::SUMMED_PAIRS) {
            Some(pairs) => limits.into_iter().map(|limit| limit.of_pairs(pairs)).collect(),
            None => limits,
        }
    }

    /// Returns the benchmark called `name` (`disk.io`); `None` if there is none.
    pub fn find(&self, name: &str) -> Option<&'static dyn Benchmark> {
        self.benchmarks.iter().copied().find(|benchmark| benchmark.name() == name)
    }
}

/// Parameters of a case in the benchmark's own type, sent to the worker; empty if there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parsed(serde_json::Value);

impl Parsed {
    /// Deserializes the parameters as type `T`; fails if they have another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, CannotMeasure> {
        let wrong = |e| CannotMeasure::environment(format!("the parameters are of another benchmark: {e}"));
        T::deserialize(&self.0).map_err(wrong)
    }
}

/// A case, with the result of checking whether this machine can measure it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The case.
    pub case: Case,
    /// The parsed parameters.
    pub parsed: Parsed,
    /// `Err`: the reason why it is listed but not measured.
    pub feasible: Result<(), CannotMeasure>,
}

impl Candidate {
    /// Creates a candidate without parsed parameters; `feasible` is an error if the case is listed
    /// but cannot be measured.
    pub fn new(case: Case, feasible: Result<(), CannotMeasure>) -> Self {
        Self { case, parsed: Parsed::default(), feasible }
    }

    /// Sets the parsed parameters to `parameters`, which [`Parsed::read`] returns.
    #[must_use]
    pub fn parsed(self, parameters: &impl Serialize) -> Self {
        // Serialization of plain numbers and names does not fail.
        Self { parsed: Parsed(serde_json::to_value(parameters).unwrap_or_default()), ..self }
    }
}

/// Description of a benchmark: source of command line, lists, help and documentation.
#[derive(Debug)]
pub struct Descriptor {
    /// Name, `subsystem.noun`.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Words that users of other tools try instead of its name.
    pub synonyms: &'static [&'static str],
    /// Names of its parameters, in the order of case ids.
    pub keys: &'static [&'static str],
    /// Help of parameters with a meaning specific to this benchmark.
    pub help: &'static [(&'static str, &'static str)],
    /// All metrics that its cases can have, the usual headline first.
    pub metrics: &'static [Metric],
    /// Words of a case label; empty: the benchmark's name.
    pub words: &'static [LabelPart],
    /// Whether it runs by default.
    pub by_default: bool,
    /// Name of the work that several benchmarks do: charts overlay their results.
    pub common: Option<&'static str>,
    /// Axes of the curves of a search or sweep.
    pub curves: &'static [Curve],
    /// Whether it proves the CPUs of its threads: a gate chooses them and has no threshold for it.
    pub proves_cpus: bool,
    /// Whether it is measured by all machines of a run together and never by one alone.
    pub of_all_machines: bool,
    /// Whether the next case may run in the same worker, to reuse expensive state (see
    /// [`WorkerCache`]).
    pub shares_worker: bool,
    /// Whether it waits for a device, which may be very slow: a time budget then interrupts it.
    pub waits_for_a_device: bool,
    /// Largest relative difference (0.01: 1 %) of each metric between runs on a quiet machine; else
    /// `None`.
    pub noise: Option<f64>,
    /// Pace by which [`Benchmark::sample_seconds`] estimates a fixed amount, if one fits all cases.
    pub pace: Option<fixed::AveragePace>,
    /// Size of the test file that a case with these parameters needs, if any.
    pub file: fn(&Parsed) -> Option<RequestedSize>,
    /// Measures properties that default cases need into the machine; at most 1 s, before a run.
    pub look: fn(&mut Machine),
    /// Limits of one metric of a case: [`Limit::unknown`] with reason and remedy if not known,
    /// empty if a limit has no meaning. Pure.
    pub limits: fn(&Question<'_>) -> Vec<Limit>,
    /// Findings specific to this benchmark on one machine; general rules are in the crate `result`.
    pub findings: fn(&[Measurement]) -> Vec<PlainFinding>,
    /// Text in the row for the memory level that served the accesses.
    pub answered: fn(&Measurement) -> Option<String>,
    /// Explanation of a name in the row, printed once below all rows that have it.
    pub remark: fn(&Measurement) -> Option<&'static str>,
    /// Texts to append to the row of the results table, such as the result of a search.
    pub details: fn(&Measurement) -> Vec<String>,
    /// Text for a point of the headline's curve in the row.
    pub point: fn(&CurvePoint) -> Option<String>,
}

impl Descriptor {
    /// Default values.
    pub const USUAL: Self = Self {
        name: "",
        about: "",
        synonyms: &[],
        keys: &[],
        help: &[],
        metrics: &[],
        words: &[],
        by_default: true,
        common: None,
        curves: &[],
        proves_cpus: false,
        of_all_machines: false,
        shares_worker: false,
        waits_for_a_device: false,
        noise: None,
        pace: None,
        file: |_| None,
        look: |_| (),
        limits: |_| Vec::new(),
        findings: |_| Vec::new(),
        answered: |_| None,
        remark: |_| None,
        details: |_| Vec::new(),
        point: |_| None,
    };
}

/// A benchmark: one kind of measurement.
pub trait Benchmark: Sync {
    /// Returns the static description: name, parameters, help, words and limits.
    fn descriptor(&self) -> &Descriptor;

    /// Returns the name, `subsystem.noun`, such as `disk.io`.
    fn name(&self) -> &'static str {
        self.descriptor().name
    }

    /// Returns the names of the benchmark's parameters, in the order of case ids.
    fn keys(&self) -> &'static [&'static str] {
        self.descriptor().keys
    }

    /// Returns all metrics that cases of this benchmark can have, the usual headline first.
    fn all_metrics(&self) -> &'static [Metric] {
        self.descriptor().metrics
    }

    /// Returns `row`, an entry of [`Benchmark::all_metrics`], adapted to a case (such as its unit);
    /// `None` if the case does not have this metric.
    fn metric_of(&self, _: &Case, row: Metric) -> Option<Metric> {
        Some(row)
    }

    /// Returns the name of the headline metric; `None` if it is the first metric of the case.
    fn headline(&self, _: &Case) -> Option<&'static str> {
        None
    }

    /// Returns the metrics of a case, the headline first.
    fn metrics(&self, case: &Case) -> Vec<Metric> {
        let rows = self.all_metrics().iter();
        let mut found: Vec<Metric> = rows.filter_map(|row| self.metric_of(case, *row)).collect();
        let headline = self.headline(case);
        if let Some(place) = headline.and_then(|name| found.iter().position(|metric| metric.name == name)) {
            found[..=place].rotate_right(1);
        }
        found
    }

    /// Returns the cases of `group` (its parameter lists combined) without accessing the machine.
    /// Fails, in one line, for a value that no machine could measure (zero threads).
    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String>;

    /// Returns whether a sample of the case is a search that probes many settings, such as depths.
    fn searches(&self, _: &Case) -> bool {
        false
    }

    /// Returns the location of a case on a roofline chart; `Roofline::No` by default.
    fn roofline(&self, _: &Case) -> Roofline {
        Roofline::No
    }

    /// Returns the limits of the metric in `question`; see [`Descriptor::limits`].
    fn limits(&self, question: &Question<'_>) -> Vec<Limit> {
        (self.descriptor().limits)(question)
    }

    /// Estimates the seconds per sample on this machine; `None` for a timed case.
    fn sample_seconds(&self, _: &Machine, case: &Case) -> Option<f64> {
        fixed::estimate_seconds(case, self.descriptor().pace?)
    }

    /// Returns the seconds at the start of each sample that do not count as part of it (`--omit`).
    fn omitted_seconds(&self, _: &Case) -> f64 {
        0.0
    }

    /// Sets a case up (memory, files, threads), untimed. `parsed` is that of [`Benchmark::cases`].
    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase;
}

/// A prepared case, or the reason why it cannot be measured here and now.
pub type PreparedCase = Result<Box<dyn Prepared>, CannotMeasure>;

/// A case ready for sampling. Dropping it releases everything.
pub trait Prepared {
    /// Takes one sample of `amount` (seconds, or operations in the benchmark's unit); fails with
    /// the reason why there is none.
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure>;

    /// Returns the CPUs, file and sizes that a reference tool may use to measure the same thing.
    fn offer(&self) -> Offer {
        Offer::default()
    }

    /// Creates a file, or an area of the device, for reference tools to write, laid out like the
    /// case's own; fails with a reason in one line.
    fn provide_file(&mut self) -> Result<Writable, String> {
        Err("the case has no place for what it would write".to_owned())
    }

    /// Frees the CPUs while something else is measured; does nothing by default.
    fn pause(&mut self) {}

    /// Ends a [`Prepared::pause`] before the next sample; does nothing by default.
    fn resume(&mut self) {}

    /// Checks the result after the last sample; returns properties of the case, and warnings. Fails
    /// if the result is wrong ([`plimsoll_model::sample::WrongAnswer`]) or cannot be checked.
    fn verify(&mut self) -> Result<Facts, CannotMeasure>;
}

/// Context of preparing a case.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The machine as detected by the parent process.
    pub machine: &'a Machine,
    /// Options of the user.
    pub options: &'a Options,
    /// Values kept between cases in this worker.
    pub keep: &'a WorkerCache,
}

/// User options that every case may need. Serialized for the worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Directory of the test files.
    #[serde(with = "plimsoll_units::text::path")]
    pub dir: PathBuf,
    /// Seed of the run; combine it with the case id.
    pub seed: u64,
    /// Block device to measure instead of a file in `dir`; settable only on the command line.
    pub target: Option<RawTarget>,
    /// Key of the server for network benchmarks.
    pub key: Option<SharedKey>,
    /// Deadline for preparing the case, if the run has a time budget; local to each worker.
    #[serde(skip)]
    pub until: Option<Instant>,
}

/// Values kept from one case to the next in a worker, by name and type.
#[derive(Default)]
pub struct WorkerCache {
    values: RefCell<HashMap<String, Box<dyn Any>>>,
}

impl WorkerCache {
    /// Removes the value stored as `name` and returns it; `None` if there is none of type `T`.
    pub fn take<T: Any>(&self, name: &str) -> Option<T> {
        let value = self.values.borrow_mut().remove(name)?;
        value.downcast::<T>().ok().map(|boxed| *boxed)
    }

    /// Stores `value` as `name` for a later case, which removes it by [`WorkerCache::take`].
    pub fn put<T: Any>(&self, name: &str, value: T) {
        self.values.borrow_mut().insert(name.to_owned(), Box::new(value));
    }
}

/// Returns the default thread counts: 1 and, if larger, [`Machine::most_threads`].
pub fn default_threads(machine: &Machine) -> Vec<u64> {
    match machine.most_threads() as u64 {
        0 | 1 => vec![1],
        most => vec![1, most],
    }
}

/// Adds warnings to `facts` if threads, one on each of `cpus`, share CPUs or a smaller quota.
pub fn note_threads(facts: &mut Facts, machine: &Machine, cpus: &[usize]) {
    let (threads, cpus) = (cpus.len(), cpus.iter().collect::<BTreeSet<_>>().len());
    if threads > cpus {
        facts.warnings.push(Warning::MoreThreadsThanCpus { threads, cpus }.into());
    }
    let quota = machine.cgroup.cpu_quota.as_ref().map(|quota| quota.cpus());
    if let Some(cpus) = quota.filter(|quota| *quota < cpus as f64) {
        facts.warnings.push(Warning::CpuQuota { cpus }.into());
    }
}

/// Returns the numbers given for parameter `key` in `group`, else `usual`; fails in one line if a
/// number is not between 1 and `most`.
pub fn counts_in_range(group: &Group, key: &str, usual: &[u64], most: u64) -> Result<Vec<u64>, String> {
    group.numbers(key, usual).into_iter().map(|n| check_range(1..=most, key, n)).collect()
}

/// Returns the sizes in bytes given for parameter `key` in `group`, else `usual`; fails, naming
/// benchmark `of`, for a mix of sizes such as `4K@70+64K@30`.
pub fn whole_sizes(of: &dyn Benchmark, group: &Group, key: &str, usual: &[u64]) -> Result<Vec<u64>, String> {
    let mix = |value: &&Value| matches!(value, Value::Mix(_));
    match group.lists.get(key).and_then(|values| values.iter().find(mix)) {
        Some(mix) => Err(format!("{key} must be one size: the mix {mix} is not supported on {}", of.name())),
        None => Ok(group.numbers(key, usual)),
    }
}

/// Returns `n` if it is within `range`, else an error in one line that names parameter `key`.
pub fn check_range(range: RangeInclusive<u64>, key: &str, n: u64) -> Result<u64, String> {
    match range.contains(&n) {
        true => Ok(n),
        false => Err(format!("{key} must be between {} and {}: {n} is not", range.start(), range.end())),
    }
}
