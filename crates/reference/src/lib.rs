//! Reference tools: how each is called for a case, and how its output is read. A tool is one file
//! and one line in [`REF_TOOLS`]; its code is pure.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
pub use plimsoll_model::sample::Match;
use plimsoll_model::sample::{Achieved, CaseFact, Offer};

mod account;
mod answers;
mod choice;
mod documents;
pub mod fact;
pub mod json;
mod other_tools;
mod plausible;
pub mod process;
mod search;
mod session;
pub mod stated;
pub mod supervise;
mod through;
mod tools;
mod version;

pub use account::{Account, Seconds};
pub use choice::{Against, how_to_get, remedy, tools_without_cases, untrusted_programs};
pub use documents::read_all;
pub use plausible::impossible;
pub use plimsoll_system::trust::Trust;
pub use search::ProgramSearch;
pub use session::{PreparedTool, ReferenceTools, Selection};
pub use stated::Stated;
pub use through::ToolLauncher;
pub use tools::REF_TOOLS;

/// A metric of a case that a tool also measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairing {
    /// Name of plimsoll's metric.
    pub metric: &'static str,
    /// How far the definitions agree.
    pub definition: Match,
    /// Difference between the definitions, or how it was removed; one phrase.
    pub note: &'static str,
    /// Estimated seconds of a reading; four times this, 20 s to 30 min, is its time limit.
    pub seconds: f64,
    /// Estimated seconds of the smaller problem, if any, that it solves in a plan scaled down.
    pub seconds_scaled_down: Option<f64>,
    /// Number of pairs to take; a confidence interval needs at least 3.
    pub pairs: usize,
}

impl Pairing {
    fn new(metric: &'static str, definition: Match, note: &'static str, seconds: f64) -> Self {
        Self { metric, definition, note, seconds, seconds_scaled_down: None, pairs: 5 }
    }
}

/// A further figure for the same metric, such as the rate of another pass over the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// The tool's name for it.
    pub name: &'static str,
    /// How far the definitions agree.
    pub definition: Match,
    /// Difference between the definitions, or how it was removed; one phrase.
    pub note: &'static str,
}

/// Source of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// Package in Debian's main section.
    Debian(&'static str),
    /// Package in Debian's non-free section.
    DebianNonFree(&'static str),
    /// No package: the command that downloads and builds it.
    Source(&'static str),
}

/// Input of [`RefTool::invocation`].
#[derive(Clone)]
pub struct InvocationInput {
    /// Case that the tool is to measure.
    pub case: Case,
    /// Machine that it runs on.
    pub machine: Machine,
    /// CPUs and test file that the case has prepared.
    pub offer: Offer,
    /// Duration of a reading in seconds, for tools with an option for it.
    pub seconds: f64,
    /// Whether the plan is scaled down, so that a smaller problem of the tool is enough.
    pub is_scaled_down: bool,
    /// Host name or address of the tool's server: 127.0.0.1 on this machine.
    pub host: String,
    /// TCP and UDP port of the server; on this machine, it is free now.
    pub port: u16,
    /// Whether the server is started on this machine; otherwise it listens already.
    pub is_local: bool,
}

impl InvocationInput {
    /// Returns a call of the tool with `arguments`, bound to the CPUs of the case. Starts nothing.
    fn call(&self, arguments: Vec<String>) -> Invocation {
        let mut cpus = self.offer.cpus.clone();
        cpus.dedup();
        Invocation { arguments, cpus, ..Invocation::default() }
    }

    fn test_file(&self) -> Result<&str, String> {
        let file = self.offer.file.as_ref().ok_or("the case has no test file to share")?;
        Ok(file.to_str().ok_or("the test file's path is not UTF-8")?)
    }
}

/// Destination of a tool's results.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Output {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
    /// A file of this name in its directory.
    File(&'static str),
}

/// A server that must listen before the tool starts.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerProgram {
    /// Name, to be shown.
    pub program: &'static str,
    /// Command-line arguments.
    pub arguments: Vec<String>,
    /// Port it will listen on.
    pub port: u16,
    /// Whether it listens for UDP instead of TCP.
    pub is_udp: bool,
    /// CPUs it may use.
    pub cpus: Vec<usize>,
}

/// How a tool is called for a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Invocation {
    /// Command-line arguments.
    pub arguments: Vec<String>,
    /// Input files: name in its directory, content.
    pub files: Vec<(&'static str, String)>,
    /// Variables added to an otherwise clean environment.
    pub environment: Vec<(&'static str, String)>,
    /// Text for its standard input.
    pub stdin: Option<String>,
    /// Destination of the results.
    pub output: Output,
    /// Server that must listen first.
    pub server: Option<ServerProgram>,
    /// CPUs it is bound to from outside; empty if it binds its own threads.
    pub cpus: Vec<usize>,
    /// Processes that the MPI launcher starts; 0 or 1: started without it.
    pub processes: usize,
    /// Size of the files that it makes in its directory, in bytes.
    pub disk_bytes: u64,
    /// Whether its output also holds for other cases with the same command: they share one call.
    pub answers_others: bool,
}

/// Value of [`fact::STATISTIC`] for the best of several repetitions.
pub const BEST_STATISTIC: &str = "best";

/// Parsed output of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFigure {
    /// Figure in the unit of plimsoll's metric, any factor applied.
    pub value: f64,
    /// Work and time behind it.
    pub account: Account,
    /// Figures of further passes, by name.
    pub passes: BTreeMap<&'static str, (f64, Account)>,
    /// Parameters that it reports; those of the case are compared.
    pub achieved: Achieved,
    /// Differences from the requested parameters, one phrase each.
    pub differs: Vec<String>,
}

impl ToolFigure {
    /// Returns a figure without reported parameters; `value` is in the metric's base unit, such as
    /// B/s. Fails if `value` is not finite and positive.
    pub fn of(value: f64, account: Account) -> Result<Self, String> {
        let (passes, achieved, differs) = Default::default();
        match value.is_finite() && value > 0.0 {
            true => Ok(Self { value, account, passes, achieved, differs }),
            false => Err(format!("it printed {value}, which is not a figure")),
        }
    }

    /// Records that the figure is the best of several repetitions, not their mean.
    #[must_use]
    pub fn best(mut self) -> Self {
        self.record(&fact::STATISTIC, BEST_STATISTIC);
        self
    }

    /// Records a parameter that the tool reported, such as the number of threads, as text.
    pub fn record(&mut self, fact: &CaseFact<String>, value: impl ToString) {
        const MOST: usize = 200;
        self.achieved.set(fact, plimsoll_units::text::shown_within(&value.to_string(), MOST));
    }

    /// Records the value that the tool `used` for the parameter `fact`, and a difference if it is
    /// more than `tolerance` × `wanted` away from `wanted`, the value of the case.
    pub fn compare(&mut self, fact: &CaseFact<String>, used: f64, wanted: f64, tolerance: f64) {
        self.record(fact, used);
        if (used - wanted).abs() > tolerance * wanted {
            self.differs.push(format!("it ran with {}={used} instead of {wanted}", fact.name));
        }
    }
}

/// A fact about a run of a tool, such as the version of its library, with its value.
pub type ToolFact = (CaseFact<String>, String);

/// A reference tool: its properties, and pure functions that call it and read its output.
#[derive(Debug)]
pub struct RefTool {
    /// Name for `--against`.
    pub name: &'static str,
    /// Subjects that it measures, in a few words.
    pub checks: &'static str,
    /// Name of its program, if it is another one.
    pub program: Option<&'static str>,
    /// Name of its server, if it is another program.
    pub server: Option<&'static str>,
    /// Directories of its package that are not on PATH.
    pub directories: &'static [&'static str],
    /// Package or build command.
    pub package: Package,
    /// Argument that prints its version; empty: it is not called for it. Text before the version,
    /// in that output or above its results; empty: it prints none.
    pub version: (&'static str, &'static str),
    /// Default port of its server, if it needs one.
    pub port: Option<u16>,
    /// `--against installed` and `all` require one of these benchmarks in the plan; empty: none.
    pub only_with: &'static [&'static str],
    /// Part of the name of a library whose exact version is recorded.
    pub library: Option<&'static str>,
    /// Result files that can be read.
    pub results: ResultFormat,
    /// Benchmarks, or their subsystem, for which `declines` has a reason.
    pub explains: &'static [&'static str],
    /// Returns why the tool cannot measure a case of these benchmarks.
    pub declines: fn(&Case) -> &'static str,
    /// Returns the name of the tool's benchmark that measures the case; `None` if it has only one.
    pub benchmark_name: fn(&Case) -> Option<&'static str>,
    /// Returns the further figures in the tool's output for a case, such as those of a second pass.
    pub passes: fn(&Case) -> Vec<Pass>,
    /// Parses facts about the run from standard error; empty if it has none.
    pub stderr_facts: fn(&str) -> Vec<ToolFact>,
    /// Returns whether the tool writes to the test file of the case.
    pub writes: fn(&Case) -> bool,
    /// Returns the metric of the case that the tool measures, too; `None` if it has none.
    pub pairing: fn(&Case, &Machine) -> Option<Pairing>,
    /// Returns how to call the tool for a case. Fails, with one line, if it cannot measure it.
    pub invocation: fn(&InvocationInput) -> Result<Invocation, String>,
    /// Parses the tool's output for the case. Fails, with one line, if the text is invalid.
    pub parse: fn(&Case, &str) -> Result<ToolFigure, String>,
}

/// How result files of a tool are recognised and read.
#[derive(Debug)]
pub struct ResultFormat {
    /// Results that can be read, in a few words; empty: none.
    pub about: &'static str,
    /// Returns whether the text is output of this tool.
    pub recognises: fn(&str) -> bool,
    /// Returns the byte offsets at which this tool's results start in a text without JSON.
    pub starts: fn(&str) -> Vec<usize>,
    /// Returns whether the second JSON text continues the result of the first one.
    pub continues: fn(&str, &str) -> bool,
    /// Parses all figures of a text with one result of this tool. Fails, with one line, if invalid.
    pub read: fn(&str) -> Result<Stated, String>,
}

impl ResultFormat {
    const NONE: Self = Self {
        about: "",
        recognises: |_| false,
        starts: |_| Vec::new(),
        continues: |_, _| false,
        read: |_| Err(String::new()),
    };

    const fn of_text(
        about: &'static str,
        recognises: fn(&str) -> bool,
        starts: fn(&str) -> Vec<usize>,
        read: fn(&str) -> Result<Stated, String>,
    ) -> Self {
        Self { about, recognises, starts, read, ..Self::NONE }
    }
}

impl RefTool {
    const NONE: Self = Self {
        name: "",
        checks: "",
        program: None,
        server: None,
        directories: &[],
        package: Package::Source(""),
        version: ("", ""),
        port: None,
        only_with: &[],
        library: None,
        results: ResultFormat::NONE,
        explains: &[],
        declines: |_| "",
        benchmark_name: |_| None,
        passes: |_| Vec::new(),
        stderr_facts: |_| Vec::new(),
        writes: |_| false,
        pairing: |_, _| None,
        invocation: |_| Err(String::new()),
        parse: |_, _| Err(String::new()),
    };

    /// Returns why the tool cannot measure the case; `None` if it is not among `explains`.
    fn reason(&self, case: &Case) -> Option<&'static str> {
        let is_of_case = |name: &&str| [case.benchmark(), case.subsystem()].contains(name);
        self.explains.iter().any(is_of_case).then(|| (self.declines)(case))
    }

    /// Finds the version in output: the word after the text before it, if it starts with a digit.
    pub fn version(&self, text: &str) -> Option<String> {
        let (_, rest) = text.split_once(Some(self.version.1).filter(|lead| !lead.is_empty())?)?;
        let word = rest.split_whitespace().next()?;
        let version = word.starts_with(|c: char| c.is_ascii_digit());
        version.then(|| word.trim_end_matches([',', ';', ')']).to_owned())
    }
}

/// Returns the tool with this name, such as `fio`; `None` if there is none.
pub fn find(name: &str) -> Option<&'static RefTool> {
    REF_TOOLS.iter().copied().find(|p| p.name == name)
}

/// A tool that is installed.
#[derive(Clone)]
pub struct InstalledTool {
    /// The tool.
    pub ref_tool: &'static RefTool,
    /// Path of its program.
    pub program: PathBuf,
    /// Path of its server, often the same program; `None` if that is not installed or not trusted.
    pub server: Option<PathBuf>,
}

impl InstalledTool {
    /// Finds program and server of a tool. Fails if the program is not installed or not trusted.
    pub fn find_programs(ref_tool: &'static RefTool, search: &ProgramSearch) -> Result<Self, String> {
        let RefTool { name, program, server, directories, .. } = ref_tool;
        let program = search.find(name, program.unwrap_or(name), directories)?;
        let part = |server: &str| search.find_part(name, server, directories).ok();
        let server = server.map_or_else(|| Some(program.clone()), part);
        Ok(Self { ref_tool, program, server })
    }
}
