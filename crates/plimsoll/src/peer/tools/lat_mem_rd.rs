//! lmbench lat_mem_rd: the time of dependent loads, for all sizes up to one.
//!
//! `-t` lets the pages of the area, and the places within each, follow in random order, as ours do. It answers on
//! standard error, lines of MiB (2²⁰ bytes) and nanoseconds; the line of our size is taken. Its pages are those that
//! malloc gets: huge ones only where the C library is told to ask for them.

use super::super::{Ask, Invocation, Match, Output, Package, Pairing, Peer, Reading, Tool};
use super::bw_mem::{DIRECTORIES, environment};
use super::last_level_bytes;
use super::words;
use crate::case::Case;
use crate::machine::Machine;

/// The tool.
pub(super) struct LatMemRd;

const MIB: f64 = (1 << 20) as f64;
/// Bytes from a place to the next: ours beyond the second cache, and less below, so that a small area has places.
const FAR_STRIDE: u64 = 256;
const NEAR_STRIDE: u64 = 128;
const NEAR: u64 = 1 << 20;
/// A larger area than this takes it a quarter of a minute to set up, and beyond four times the last cache says the same.
const LARGE: u64 = 128 << 20;
/// µs of each of its measurements: it makes some forty, one a size, and starts a process for each.
const ENOUGH: u64 = 5_000;

/// Bytes of its area: ours, or where that is far beyond the last cache, what is still beyond.
fn area(case: &Case, machine: &Machine) -> Option<u64> {
    let size = case.number("size")?;
    let beyond = last_level_bytes(machine).is_some_and(|last| last.saturating_mul(4) <= LARGE);
    Some(if beyond { size.min(LARGE) } else { size })
}

/// What it is.
const TOOL: Tool = Tool {
    name: "lat_mem_rd",
    checks: "memory latency, random order (lmbench)",
    programs: &["lat_mem_rd"],
    directories: DIRECTORIES,
    package: Package::DebianNonFree("lmbench"),
    ..Tool::NONE
};

impl Peer for LatMemRd {
    fn tool(&self) -> &'static Tool {
        &TOOL
    }

    fn declines(&self, case: &Case) -> Option<&'static str> {
        (case.benchmark() == "memory.latency")
            .then_some("it has one chase, in pages of 4 KiB or transparent huge ones")
    }

    fn pairing(&self, case: &Case, machine: &Machine) -> Option<Pairing> {
        (case.benchmark() == "memory.latency" && case.number("chases").unwrap_or(1) == 1).then_some(())?;
        matches!(case.word("pages"), None | Some("4k" | "thp")).then_some(())?;
        let mib = area(case, machine)? as f64 / MIB;
        // It makes and walks every size up to ours.
        let seconds = 1.0 + mib / 40.0;
        let (definition, note) = match case.number("size")? {
            size if size <= NEAR || case.number("group").is_some_and(|group| group >= size) => {
                (Match::Exact, "dependent loads in random order")
            }
            _ => (
                Match::Related,
                "random over the whole area, where ours leaves a group of 64 pages only when done",
            ),
        };
        Some(Pairing { metric: "latency", definition, note, seconds, pairs: Pairing::PAIRS })
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        let size = area(ask.case, ask.machine).ok_or("the case has no size")?;
        let stride = if size > NEAR { FAR_STRIDE } else { NEAR_STRIDE };
        // Its areas are whole MiB, and every smaller one is a line of its answer.
        let mib = (size as f64 / MIB).ceil().to_string();
        let mut environment = environment(ENOUGH);
        if ask.case.word("pages") == Some("thp") {
            // malloc then asks for huge pages where the kernel gives them on request (glibc 2.35, "Malloc Tunables").
            environment.push(("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1".to_owned()));
        }
        Ok(Invocation {
            program: "lat_mem_rd",
            arguments: words(&["-P", "1", "-W", "0", "-N", "1", "-t", &mib, &stride.to_string()]),
            environment,
            cpus: ask.offer.cpus.clone(),
            output: Output::Stderr,
            ..Invocation::default()
        })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String> {
        let wanted = case.number("size").ok_or("the case has no size")? as f64;
        let (_, table) = text.split_once("\"stride=").ok_or("its output has no '\"stride='")?;
        let lines = table.split_inclusive('\n').skip(1).filter_map(|line| line.strip_suffix('\n'));
        let rows = lines
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(mib, ns)| Some((mib.parse::<f64>().ok()? * MIB, ns.parse::<f64>().ok()?)));
        let near = |bytes: f64| (bytes / wanted - 1.0).abs();
        let nearest = rows.min_by(|a, b| near(a.0).total_cmp(&near(b.0)));
        // Its sizes are an eighth to a half apart; that of a cut answer is further away, unless it is all of a large area.
        let large = |bytes: f64| wanted > LARGE as f64 && (bytes / LARGE as f64 - 1.0).abs() < 0.01;
        let nearest = nearest.filter(|(bytes, _)| near(*bytes) < 0.2 || large(*bytes));
        let (bytes, ns) = nearest.ok_or_else(|| format!("its output has no line of {} MiB", wanted / MIB))?;
        let mut reading = Reading::of(ns * 1e-9)?;
        reading.achieved.insert("size".to_owned(), bytes.round().to_string());
        if near(bytes) > 0.01 {
            reading.differs.push(format!("its area had {} bytes where ours has {wanted}", bytes.round()));
        }
        Ok(reading)
    }
}
