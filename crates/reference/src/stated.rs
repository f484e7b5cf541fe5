//! Results that somebody made with a tool: what its file says was measured, and what it tells of how.
//!
//! The file of a tool reads its answers as it reads them beside a case ([`crate::Peer::stated`]), and says which case of ours has
//! the same figure, so that the limits of that case hold for it. Whether a figure can be true is not said here.

use crate::case::Case;
use crate::quantity::Unit;
use crate::sample::Sample;
use crate::text::shown_within;
use crate::{Account, PEERS, Peer, other_tools};

/// Most figures of one file.
pub const MAX_FIGURES: usize = 10_000;
/// Threads of a case whose file does not show them, as a BLAS library's: there may be one for each CPU.
pub(crate) const AS_MANY_AS_CPUS: u64 = 4096;
/// Characters of a name that are kept.
const LONGEST: usize = 80;

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stated {
    /// The tool that wrote it.
    pub tool: &'static str,
    /// Its version, where the file has it.
    pub version: Option<String>,
    /// What it says of the machine it was made on.
    pub origin: Origin,
    /// What the tool says went wrong.
    pub trouble: Option<String>,
    /// Its figures, in its order.
    pub figures: Vec<Figure>,
}

/// What a file says of the machine it was made on, as far as it does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// Operating system, as `uname -s` prints it.
    pub system: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Architecture, as `uname -m` says it.
    pub architecture: Option<String>,
}

/// One figure of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Where it is in the file, and what it is: `randread: read bw`. Safe to print.
    pub name: String,
    /// In the base unit, as the file has it: it may be negative, infinite or no number.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
    /// The case of ours with the same figure and the metric there, or why there is none.
    pub like: Result<Like, String>,
    /// What the tool did for it and how long that took, where the file says so independently of the figure.
    pub account: Option<Account>,
    /// Why it is no figure, where the tool says so: a job that failed, a check that did not pass.
    pub void: Option<String>,
    /// A contradiction to the figure in its own file, though the figure may be possible.
    pub contradiction: Option<String>,
    /// The reason why the file's own numbers cannot be true on any machine, if the value alone does not show it.
    pub absurd: Option<String>,
    /// What it is said to be a figure of.
    pub subject: Subject,
}

/// The case of ours that has the same figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Like {
    /// The case.
    pub case: Case,
    /// The metric, by name.
    pub metric: &'static str,
    /// What a sample of ours would tell besides, as far as the file does.
    pub sample: Sample,
}

/// What a figure is said to be of, with what the file tells of it.
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
    /// Whether transfers went through the page cache; `None` where the file does not say.
    pub cached: Option<bool>,
    /// The engine, where it is named.
    pub engine: Option<String>,
    /// Files, directories and devices, as given to the tool.
    pub paths: Vec<String>,
    /// Whether it wrote.
    pub writes: bool,
    /// Whether the kernel read straight from the device: `direct=1` with an engine of system calls.
    pub reads_directly: bool,
    /// Whether the tool waits until what it wrote is on the device, beside the writing itself.
    pub syncs: bool,
    /// Bytes that all jobs of the file moved in this direction.
    pub moved: f64,
    /// Bytes of the figure's own jobs.
    pub own: f64,
    /// How many transfers those were, where all of them were at random places.
    pub random: Option<f64>,
    /// Seconds that they took.
    pub seconds: Option<f64>,
    /// What the kernel counted meanwhile at each disk.
    pub counted: Vec<Counted>,
    /// Bytes of all files of the job, where known.
    pub file_bytes: Option<f64>,
    /// The option by which data is zero or can be compressed.
    pub compressible: Option<String>,
    /// Bytes of a transfer, where known.
    pub block: Option<f64>,
    /// Whether each write, or every few of them, waits until it is on the device.
    pub syncs_each: bool,
    /// Mean seconds of a transfer, where each took its own time at the disk: at a random place, or direct and alone.
    pub lone_seconds: Option<f64>,
    /// The client that ran the job, where it was another machine's.
    pub client: Option<String>,
}

/// What the kernel counted at a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// The disk.
    pub name: String,
    /// Requests in this direction, those that were merged into others included.
    pub asked: f64,
    /// Requests after merging.
    pub requests: f64,
    /// Bytes, where they are counted.
    pub bytes: Option<f64>,
    /// Whether nothing at all was counted, in either direction.
    pub silent: bool,
}

/// How a link was used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkUse {
    /// The ends, as addresses or names.
    pub ends: Option<[String; 2]>,
    /// What the file calls the other end.
    pub to: Option<String>,
    /// Streams at once in this direction.
    pub streams: u64,
    /// Payload of a full segment.
    pub segment: Option<f64>,
    /// Whether packets are of IPv6.
    pub is_v6: bool,
    /// Seconds of the test.
    pub seconds: Option<f64>,
    /// What streams of each direction say by themselves, in bit/s, where both ran at once: this one and the other.
    pub each_way: Option<[f64; 2]>,
    /// The rate that was asked for, in bit/s.
    pub asked: Option<f64>,
    /// Whether it counts what was sent, and not what arrived.
    pub is_sent: bool,
    /// Bytes of a datagram; `None`: a stream.
    pub datagram: Option<f64>,
}

/// How memory was used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Bytes of everything that was gone over again and again.
    pub footprint: Option<f64>,
    /// Bytes of the smallest array.
    pub array: Option<f64>,
    /// Whether the tool says openly that this is not main memory's figure where the footprint is small.
    pub may_be_cache: bool,
}

/// How cores were used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreUse {
    /// Threads, as the file says.
    pub threads: f64,
    /// Threads that its own times add up to.
    pub by_time: Option<f64>,
    /// Integer remainders that one unit of its work takes, if it counts such work.
    pub remainders: Option<f64>,
    /// Bytes of its data, if the file shows them.
    pub working_set: Option<f64>,
}

impl Counted {
    /// Whether it is memory, which may be read without requests and sooner than a disk: persistent, of a RAM disk, or of the
    /// kernel's null device.
    pub fn is_memory(&self) -> bool {
        ["pmem", "ram", "zram", "nullb"].iter().any(|kind| self.name.starts_with(kind))
    }
}

impl Figure {
    /// A figure without anything known of it.
    pub fn new(name: &str, value: f64, unit: Unit, like: Result<Like, String>) -> Self {
        let name = shown_within(name, LONGEST);
        Self {
            name,
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
}

impl Like {
    /// This metric of this case.
    pub fn of(case: Case, metric: &'static str) -> Self {
        Self { case, metric, sample: Sample::default() }
    }
}

impl Stated {
    /// Nothing yet of this tool.
    pub fn by(tool: &'static str, version: Option<&str>) -> Self {
        Self { tool, version: version.map(|v| shown_within(v, 40)), ..Self::default() }
    }
}

/// The tools whose results can be read, by name.
pub fn formats() -> impl Iterator<Item = &'static str> {
    readable().map(|peer| peer.tool().name)
}

/// What is read of the results of that tool, as a list of formats says it.
pub fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
    PEERS.iter().filter_map(|peer| Some((peer.tool().name, peer.tool().results?)))
}

/// The tools whose results can be read.
pub(crate) fn readable() -> impl Iterator<Item = &'static dyn Peer> {
    PEERS.iter().copied().filter(|peer| peer.tool().results.is_some())
}

/// Reads a text with one result: of the named tool, or of the tool that it is recognised by.
///
/// # Errors
/// That no tool is recognised, or what is wrong with the text, in one line.
pub fn read(text: &str, format: Option<&str>) -> Result<Stated, String> {
    let chosen = match format {
        Some(name) => readable().find(|peer| peer.tool().name == name),
        None => readable().find(|peer| peer.recognises(text)),
    };
    let what = if text.trim().is_empty() { "it is empty" } else { "no known tool wrote it" };
    let peer = chosen.ok_or_else(|| unrecognised(text, what))?;
    let stated = peer.stated(text).map_err(|why| format!("as a result of {}: {why}", peer.tool().name))?;
    if stated.figures.len() > MAX_FIGURES {
        return Err(too_many());
    }
    Ok(stated)
}

/// The error of a file with too many figures.
pub(crate) fn too_many() -> String {
    format!("it has more than {MAX_FIGURES} figures")
}

/// The error of a text that no tool is recognised by, with `what` it is if no other tool is.
pub(crate) fn unrecognised(text: &str, what: &str) -> String {
    let names: Vec<&str> = formats().collect();
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

    /// Every recording of a tool whose results are read is recognised as its own, also behind other text.
    #[test]
    fn recordings_are_recognised_and_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/peers");
        let mut read_in_all = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let tool = formats().find(|tool| name.starts_with(tool.split('-').next().unwrap_or(tool)));
            // Another tool's name may begin alike.
            let Some(tool) =
                tool.filter(|tool| name.as_bytes().get(tool.len()) == Some(&b'-') || tool.contains('-'))
            else {
                continue;
            };
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
        let why = read("a text", None).unwrap_err();
        assert!(
            why.contains(
                "results of likwid-bench, xhpl, hpcc, sysbench, stream, lat_mem_rd, mbw, fio, iperf3"
            ),
            "{why}"
        );
        assert!(read("a text", Some("fio")).unwrap_err().contains("as a result of fio"));
        assert!(read("a text", Some("ioping")).is_err());
        let dd = "1+0 records in\n1+0 records out\n512 bytes copied, 0.1 s, 5.1 kB/s\n";
        assert!(read(dd, None).unwrap_err().contains("a result of dd, which check does not read"));
    }
}
