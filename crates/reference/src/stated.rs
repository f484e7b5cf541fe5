//! Reads figures from files of other tools ([`crate::RefTool::results`]), each with the case
//! of plimsoll that has the same figure, so that the limits of this case apply.

use plimsoll_model::case::Case;
use plimsoll_model::sample::Sample;
use plimsoll_units::quantity::Unit;
use plimsoll_units::text::shown_within;
use serde::de::IgnoredAny;

use crate::{Account, REF_TOOLS, RefTool, Seconds, other_tools};

/// Most figures in one file.
pub const MAX_FIGURES: usize = 10_000;
/// Threads of a case whose file does not show them, such as those of a BLAS library.
pub(crate) const AS_MANY_AS_CPUS: u64 = 4096;

/// Content of a result file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stated {
    /// Name of the tool that wrote it; [`read`] adds it.
    pub tool: &'static str,
    /// Version of the tool, if the file has it.
    pub version: Option<String>,
    /// Machine it was made on.
    pub origin: StatedMachine,
    /// Problem that the tool reports.
    pub trouble: Option<String>,
    /// Figures, in the order of the file.
    pub figures: Vec<StatedFigure>,
}

/// Machine that made a file, as far as the file names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatedMachine {
    /// Operating system, as `uname -s` prints it.
    pub system: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Architecture, as `uname -m` prints it.
    pub architecture: Option<String>,
}

/// One figure of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct StatedFigure {
    /// Position in the file, and metric: `randread: read bw`. Safe to print.
    pub name: String,
    /// Value in the base unit, as in the file: may be negative, infinite or NaN.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
    /// Case and metric of plimsoll with the same figure, or why there is none.
    pub like: Result<EquivalentCase, String>,
    /// Work and time behind it, if the file has them independently of the figure.
    pub account: Option<Account>,
    /// Why the tool itself rejects the figure: a failed job or check.
    pub void: Option<String>,
    /// Contradiction to the figure in the same file, though the figure is possible.
    pub contradiction: Option<String>,
    /// Why the file's own numbers are impossible, if the value alone does not show it.
    pub absurd: Option<String>,
    /// Measured subject.
    pub subject: Subject,
}

/// Case of plimsoll with the same figure.
#[derive(Clone, Debug, PartialEq)]
pub struct EquivalentCase {
    /// Case with the same parameters.
    pub case: Case,
    /// Name of the metric.
    pub metric: &'static str,
    /// Further values of a sample, if the file has them.
    pub sample: Sample,
}

/// Subject of a figure, with details from the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// Transfers of a disk.
    Disk(DiskUse),
    /// A stream over a link.
    Link(LinkUse),
    /// Main memory.
    Memory(MemoryUse),
    /// Cores.
    Cores(CoreUse),
    /// None of these.
    Other,
}

/// How a disk was used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUse {
    /// Whether transfers went through the page cache; `None` if unknown.
    pub cached: Option<bool>,
    /// I/O engine, if named.
    pub engine: Option<String>,
    /// Files, directories and devices, as given to the tool.
    pub paths: Vec<String>,
    /// Whether the figure is for writes.
    pub writes: bool,
    /// Whether the kernel read straight from the device: `direct=1` with an engine of system calls.
    pub reads_directly: bool,
    /// Whether the tool also waits until written data is on the device.
    pub syncs: bool,
    /// Bytes that all jobs of the file moved in this direction.
    pub moved: f64,
    /// Bytes that the figure's own jobs moved.
    pub own: f64,
    /// Number of transfers of the figure's own jobs, if all had random offsets.
    pub random: Option<f64>,
    /// Duration of the transfers in seconds.
    pub seconds: Option<f64>,
    /// The kernel's counts for each disk during the run.
    pub counted: Vec<DiskCounters>,
    /// Size of all files of the job in bytes, if known.
    pub file_bytes: Option<f64>,
    /// Option by which data is zero or compressible.
    pub compressible: Option<String>,
    /// Block size in bytes, if known.
    pub block: Option<f64>,
    /// Whether each write, or every few writes, wait until the data is on the device.
    pub syncs_each: bool,
    /// Mean seconds of a transfer that is served alone: random, or direct at depth 1.
    pub lone_seconds: Option<f64>,
    /// Remote client that ran the job.
    pub client: Option<String>,
}

/// The kernel's counts for a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskCounters {
    /// Name of the disk.
    pub name: String,
    /// Requests in this direction, merged ones included.
    pub asked: f64,
    /// Requests after merging.
    pub requests: f64,
    /// Bytes, if counted.
    pub bytes: Option<f64>,
    /// Whether all counts of both directions are 0.
    pub silent: bool,
}

/// How a link was used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkUse {
    /// Both ends, as addresses or names.
    pub ends: Option<[String; 2]>,
    /// The file's name for the server.
    pub to: Option<String>,
    /// Simultaneous streams in this direction.
    pub streams: u64,
    /// Payload of a full segment, in bytes.
    pub segment: Option<f64>,
    /// Whether packets are IPv6.
    pub is_v6: bool,
    /// Duration of the test in seconds.
    pub seconds: Option<f64>,
    /// Sums of the streams per direction in bit/s, if both ran at once: this direction, the other.
    pub both_directions: Option<[f64; 2]>,
    /// Requested rate in bit/s.
    pub asked: Option<f64>,
    /// Whether it counts sent data, not received data.
    pub is_sent: bool,
    /// Bytes of a datagram; `None` for a stream.
    pub datagram: Option<f64>,
}

/// How memory was used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Bytes of everything that was accessed repeatedly.
    pub footprint: Option<f64>,
    /// Bytes of the smallest array.
    pub array: Option<f64>,
    /// Whether the tool documents that a small footprint measures caches instead of main memory.
    pub may_be_cache: bool,
}

/// How cores were used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreUse {
    /// Number of threads in the file.
    pub threads: f64,
    /// Number of busy threads that its times add up to.
    pub by_time: Option<f64>,
    /// Integer remainders per unit of work, if it counts such work.
    pub remainders: Option<f64>,
    /// Working set in bytes, if the file shows it.
    pub working_set: Option<f64>,
}

impl DiskCounters {
    /// Returns whether the name is that of a disk in memory (RAM disk), readable without requests.
    pub fn is_memory(&self) -> bool {
        ["pmem", "ram", "zram", "nullb"].iter().any(|kind| self.name.starts_with(kind))
    }
}

impl StatedFigure {
    /// Returns a figure without details. `name` is shortened and made safe to print; `like` is
    /// plimsoll's case that measures the same, or why there is none.
    pub fn new(name: &str, value: f64, unit: Unit, like: Result<EquivalentCase, String>) -> Self {
        Self {
            name: shown_within(name, 80),
            value,
            unit,
            like,
            account: None,
            void: None,
            contradiction: None,
            absurd: None,
            subject: Subject::Other,
        }
    }

    /// Returns a figure that plimsoll measures as the `metric` of `case`.
    pub fn like(name: &str, value: f64, unit: Unit, case: Case, metric: &'static str) -> Self {
        Self::new(name, value, unit, Ok(EquivalentCase::of(case, metric)))
    }

    /// Adds an account by which the figure is checked: `amount`, counted separately, in `seconds`.
    pub(crate) fn counted(mut self, amount: f64, seconds: f64) -> Self {
        self.account = (amount > 0.0 && seconds > 0.0).then(|| Account::of(amount, Seconds::of(seconds)));
        self
    }
}

impl EquivalentCase {
    /// Returns a reference to the `metric` of `case`, without sample values.
    pub fn of(case: Case, metric: &'static str) -> Self {
        Self { case, metric, sample: Sample::default() }
    }
}

impl Stated {
    /// Returns the result, or `Err(why)` if it has no figure.
    pub(crate) fn unless_empty(self, why: &str) -> Result<Self, String> {
        if self.figures.is_empty() { Err(why.to_owned()) } else { Ok(self) }
    }
}

/// Returns (name of the tool, description of its results) for each tool whose results can be read.
pub fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
    readable().map(|ref_tool| (ref_tool.name, ref_tool.results.about))
}

pub(crate) fn readable() -> impl Iterator<Item = &'static RefTool> {
    REF_TOOLS.iter().copied().filter(|ref_tool| !ref_tool.results.about.is_empty())
}

/// Parses a text with one result. `format` is the name of its tool; if `None`, the tool is
/// recognised. Fails if no known tool wrote it or its figures cannot be read.
pub fn read(text: &str, format: Option<&str>) -> Result<Stated, String> {
    let chosen = match format {
        Some(name) => readable().find(|ref_tool| ref_tool.name == name),
        None => readable().find(|ref_tool| (ref_tool.results.recognises)(text)),
    };
    let is_cut_off = || serde_json::from_str::<IgnoredAny>(text).is_err_and(|e| e.is_eof());
    let what = match text.trim_start().chars().next() {
        None => "it is empty",
        Some('{' | '[') if is_cut_off() => "its JSON is cut off",
        Some(_) => "no known tool wrote it",
    };
    let ref_tool = chosen.ok_or_else(|| unrecognised(text, what))?;
    let stated = (ref_tool.results.read)(text).map_err(|why| {
        let mut others = readable().filter(|_| !(ref_tool.results.recognises)(text));
        match others.find(|other| (other.results.recognises)(text)) {
            Some(other) => format!("it is a result of {}, not of {}", other.name, ref_tool.name),
            None => format!("as a result of {}: {why}", ref_tool.name),
        }
    })?;
    if stated.figures.len() > MAX_FIGURES {
        return Err(too_many());
    }
    let version = stated.version.map(|version| shown_within(&version, 40));
    Ok(Stated { tool: ref_tool.name, version, ..stated })
}

pub(crate) fn too_many() -> String {
    format!("it has more than {MAX_FIGURES} figures")
}

/// Returns the error for `text`: `what`, as `it is empty`, or the unsupported tool that wrote it.
pub(crate) fn unrecognised(text: &str, what: &str) -> String {
    let names: Vec<&str> = described().map(|(name, _)| name).collect();
    let what = match other_tools::named(text) {
        Some(tool) => format!("it is a result of {tool}, which check does not read"),
        None => what.to_owned(),
    };
    format!("{what}; results of {} are read, and --format names one", names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn recordings_are_recognised_and_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/peers");
        let mut read_in_all = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_own = |(tool, _): &(&str, &str)| tool.split('-').next() == name.split('-').next();
            let Some((tool, _)) = described().find(is_own) else { continue };
            let text = fs::read_to_string(&path).unwrap();
            let stated = read(&text, None).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(stated.tool, tool, "{name}");
            assert!(!stated.figures.is_empty(), "{name}");
            assert!(stated.figures.iter().all(|figure| figure.value > 0.0), "{name}");
            read_in_all += 1;
        }
        assert!(read_in_all >= 18, "{read_in_all}");
    }

    #[test]
    fn what_no_tool_wrote_is_refused_with_the_list_of_tools() {
        assert!(read("", None).unwrap_err().starts_with("it is empty"));
        let cut_off = read("{\"a\": 1, ", None).unwrap_err();
        assert!(cut_off.starts_with("its JSON is cut off"), "{cut_off}");
        let why = read("a text", None).unwrap_err();
        let list = "results of likwid-bench, xhpl, hpcc, sysbench, stream, lat_mem_rd, mbw, fio, iperf3";
        assert!(why.contains(list), "{why}");
        assert!(read("a text", Some("fio")).unwrap_err().contains("as a result of fio"));
        assert!(read("a text", Some("ioping")).is_err());
        let dd = "1+0 records in\n1+0 records out\n512 bytes copied, 0.1 s, 5.1 kB/s\n";
        assert!(read(dd, None).unwrap_err().contains("a result of dd, which check does not read"));
    }
}
