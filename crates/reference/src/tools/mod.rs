mod figures;
mod fio;
mod hpcc;
mod hpl;
mod ioping;
mod iozone;
mod iperf;
mod iperf3;
mod java;
mod likwid;
mod memory;
mod netperf;
mod openssl;
mod os;
mod osu;
mod ping;
mod sockperf;
mod sysbench;
mod xhpl;
mod xlinpack;

#[cfg(test)]
#[path = "tests/golden.rs"]
mod golden;

pub(crate) use memory::{bw_mem, lat_mem_rd, mbw, pmbw, stream};

use plimsoll_metal::buffer::Pages;
use plimsoll_model::case::Case;
use plimsoll_model::job::memory::read_pages;
use plimsoll_model::sample::Offer;
use plimsoll_units::text::shown_within;

use super::{Invocation, InvocationInput, RefTool, ServerProgram};

/// Names that several tools use: for calls, for readers of output and files, and of cases' jobs.
mod prelude {
    pub(super) use super::{
        BYTES_PER_MIB, NO_ECHO, binary_factor, client_and_server, has_only_parameters, number, number_after,
        number_of, value_of, whole_lines, whole_seconds, word_after, words,
    };
    pub(super) use crate::documents::line_starts;
    pub(super) use crate::plausible::{BoundedEvent, Messages, impossible_figure};
    pub(super) use crate::stated::{
        AS_MANY_AS_CPUS, CoreUse, DiskCounters, DiskUse, EquivalentCase, LinkUse, MAX_FIGURES, MemoryUse,
        Stated, StatedFigure, StatedMachine, Subject, too_many,
    };
    pub(super) use crate::{
        Account, Invocation, InvocationInput, Match, Output, Package, Pairing, Pass, RefTool, ResultFormat,
        Seconds, ToolFact, ToolFigure, fact, json,
    };
    pub(super) use plimsoll_machine::Machine;
    pub(super) use plimsoll_metal::stream::StreamOp;
    pub(super) use plimsoll_model::case::Case;
    pub(super) use plimsoll_model::job::cpu::{CpuKernel, DenseProblem};
    pub(super) use plimsoll_model::job::network::{Flow, NetworkStreams, NetworkTrips, TripProtocol};
    pub(super) use plimsoll_model::job::{BlockJob, MemorySite, MemoryStream, PointerChase};
    pub(super) use plimsoll_units::quantity::{Quantity, Unit};
    pub(super) use plimsoll_units::text::shown_within;
}

/// All reference tools, in the order of subsystems.
pub const REF_TOOLS: &[&RefTool] = &[
    &likwid::LIKWID,
    &xhpl::XHPL,
    &hpcc::HPCC,
    &xlinpack::XLINPACK,
    &sysbench::SYSBENCH,
    &openssl::OPENSSL,
    &stream::STREAM,
    &pmbw::PMBW,
    &bw_mem::BW_MEM,
    &lat_mem_rd::LAT_MEM_RD,
    &mbw::MBW,
    &fio::FIO,
    &iozone::IOZONE,
    &ioping::IOPING,
    &iperf3::IPERF3,
    &iperf::IPERF,
    &netperf::NETPERF,
    &sockperf::SOCKPERF,
    &ping::PING_TOOL,
    &os::perf::PERF,
    &os::lmbench::LAT_SYSCALL,
    &os::lmbench::LAT_PIPE,
    &os::lmbench::LAT_CTX,
    &os::lmbench::LAT_PROC,
    &os::lmbench::LAT_PAGEFAULT,
    &os::cyclictest::CYCLICTEST,
    &java::JAVA,
    &osu::LATENCY,
    &osu::BANDWIDTH,
    &osu::ALLREDUCE,
    &osu::BARRIER,
];

/// Returns the environment variable for huge pages in malloc (glibc 2.35) if the case has them or
/// is `disk.io`: without, likwid-bench read memory 20 to 50 % longer, fio lost a third of its rate.
pub(super) fn huge_pages(case: &Case) -> Option<(&'static str, String)> {
    let wanted = read_pages(case) == Some(Pages::Thp) || case.benchmark() == "disk.io";
    wanted.then(|| ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1".to_owned()))
}

const BYTES_PER_MIB: f64 = (1 << 20) as f64;

pub(crate) const NO_ECHO: &str =
    "the limit of a round trip is an ICMP echo of the same run, which the file does not have";

/// Returns the word after the first `label`, in its line and without a `,` or `;` at its end. Fails
/// without such a word, or at the end of the text: there it may be incomplete.
pub(crate) fn word_after<'a>(text: &'a str, label: &str) -> Result<&'a str, String> {
    let line = text.split_inclusive('\n').find_map(|line| line.split_once(label)).map(|(_, rest)| rest);
    let word = line.and_then(|rest| Some(rest.trim_start().split_once(char::is_whitespace)?.0));
    let word = word.filter(|word| !word.is_empty());
    let word = word.ok_or_else(|| format!("its output has no '{}' and number", label.trim()))?;
    Ok(word.trim_end_matches([',', ';']))
}

/// Parses the number after `label`, as [`word_after`] finds it.
pub(crate) fn number_after(text: &str, label: &str) -> Result<f64, String> {
    let word = word_after(text, label)?;
    let shown =
        || format!("'{}' is followed by '{}', which is no number", label.trim(), shown_within(word, 40));
    word.parse().map_err(|_| shown())
}

/// Returns the bytes of a unit: 1024 for `k`, 1024² for `M` …; 1 if empty, `None` if unknown.
pub(crate) fn binary_factor(prefix: &str) -> Option<f64> {
    let power = ["", "k", "m", "g", "t"].iter().position(|known| known.eq_ignore_ascii_case(prefix))?;
    Some(1024_f64.powi(power as i32))
}

/// Parses the number `word`; `what` names it in the error.
fn number(what: &str, word: &str) -> Result<f64, String> {
    word.parse().map_err(|_| format!("its {what} is '{}'", shown_within(word, 40)))
}

/// Returns the value of `key` among `words` of the form KEY=VALUE. Fails if there is none.
fn value_of<'a>(words: impl Iterator<Item = &'a str>, key: &str) -> Result<&'a str, String> {
    let mut pairs = words.filter_map(|word| word.split_once('='));
    let value = pairs.find(|(name, _)| *name == key).map(|(_, value)| value.trim());
    value.ok_or_else(|| format!("its output has no {key}="))
}

/// Parses the number of `key` among the complete lines `KEY=VALUE` of a text.
fn number_of(text: &str, key: &str) -> Result<f64, String> {
    number(key, value_of(whole_lines(text), key)?)
}

/// Returns the lines that have an end: the last one may be incomplete.
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

/// Returns the calls of client and server, bound to the CPUs of the case; if the server's are
/// unknown, to the first and the last one. A server on another host is not started.
fn client_and_server(
    ask: &InvocationInput,
    arguments: Vec<String>,
    (program, served): (&'static str, Vec<String>),
    is_udp: bool,
) -> Invocation {
    let Offer { cpus, far_cpus, .. } = &ask.offer;
    let (near_cpus, far_cpus) = match (cpus.as_slice(), far_cpus.as_slice()) {
        ([first, .., last], []) => (vec![*first], vec![*last]),
        (all, []) => (all.to_vec(), all.to_vec()),
        (near, far) => (near.to_vec(), far.to_vec()),
    };
    let server = ServerProgram { program, arguments: served, port: ask.port, is_udp, cpus: far_cpus };
    Invocation { cpus: near_cpus, server: Some(server).filter(|_| ask.is_local), ..ask.call(arguments) }
}

/// Returns the seconds of a reading as a whole number, for tools that accept no other.
fn whole_seconds(ask: &InvocationInput) -> String {
    ask.seconds.ceil().max(1.0).to_string()
}

/// Splits arguments at blanks, for fixed words, numbers and names of hosts: a path may have blanks.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Returns whether the case has only parameters in `known`, names with blanks between, or those
/// that set the amount of work per sample, not what is measured.
fn has_only_parameters(case: &Case, known: &str) -> bool {
    let mut names = case.params().iter().map(|(name, _)| name);
    names.all(|name| {
        ["work", "volume", "count", "scaling"].contains(name) || known.split(' ').any(|key| key == *name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Package, RefTool};
    use super::*;

    #[test]
    fn buffers_lie_in_pages_as_large_as_ours() {
        let asked = |id: &str| huge_pages(&id.parse().unwrap());
        assert!(asked("memory.bandwidth/op=read/size=128M/pages=thp").is_some());
        assert_eq!(asked("memory.bandwidth/op=read/size=128M/pages=4k"), None);
        assert!(asked("disk.io/op=read/pattern=random/block=4K/depth=1").is_some());
        assert_eq!(asked("cpu.peak/op=fma/type=f64"), None);
    }

    #[test]
    fn names_are_unique_and_every_tool_says_what_it_checks() {
        let mut names: Vec<_> = REF_TOOLS.iter().map(|p| p.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REF_TOOLS.len());
        assert!(REF_TOOLS.iter().all(|p| !p.checks.is_empty()));
        assert!(REF_TOOLS.iter().all(|p| p.package != Package::Source("")));
    }

    #[test]
    fn a_number_is_read_after_its_label() {
        assert_eq!(number_after("a\nMByte/s:\t\t12.5\n", "MByte/s:"), Ok(12.5));
        assert!(number_after("MByte/s:\t12.5", "MByte/s:").is_err(), "it may have been cut");
        assert!(number_after("MByte/s:\n", "MByte/s:").unwrap_err().contains("no 'MByte/s:'"));
        assert!(number_after("x: y\n", "x:").unwrap_err().contains("no number"));
    }

    #[test]
    fn a_version_begins_with_a_digit_after_its_lead() {
        let tool = |before| RefTool { version: ("", before), ..RefTool::NONE };
        assert_eq!(tool("iperf ").version("iperf 3.12 (cJSON)").as_deref(), Some("3.12"));
        assert_eq!(tool("iperf ").version("iperf failed"), None);
        assert_eq!(tool("").version("3.12"), None);
    }
}
