//! lmbench lat_mem_rd: time of dependent loads, for all working sets up to one size, with `-t` in
//! random order. It prints lines of MiB (2²⁰ bytes) and nanoseconds to standard error. Each size
//! takes 100 ms in any case, so a reading takes seconds.

use plimsoll_metal::buffer::Pages;

use crate::tools::bw_mem::{DIRECTORIES, environment};

use crate::tools::prelude::*;

/// Bytes between loads: plimsoll's stride beyond the second-level cache, less below.
const FAR_STRIDE: u64 = 256;
const NEAR_STRIDE: u64 = 128;
const SMALL_WORKING_SET: u64 = 1 << 20;
/// Reach of the smallest first-level TLBs: up to this the page size makes no difference.
const TLB_REACH_BYTES: u64 = 32 * 4096;
/// Working sets above this multiple of the last-level cache have the same latency.
const BEYOND: u64 = 4;
const CALIBRATION_MICROS: u64 = 5_000;

/// Returns the bytes of the tool's working set: the case's, at most [`BEYOND`] × last-level cache.
fn area(chase: &PointerChase, machine: &Machine) -> u64 {
    let far = machine.cpu.last_level_bytes().map_or(u64::MAX, |last| last.saturating_mul(BEYOND));
    chase.site.size.min(far)
}

fn stride(area: u64) -> u64 {
    if area > SMALL_WORKING_SET { FAR_STRIDE } else { NEAR_STRIDE }
}

/// Returns the expected seconds for `area` bytes: 23 sizes to 1 MiB, two per doubling, 0.12 s each.
fn seconds(area: u64) -> f64 {
    let mib = (area as f64 / BYTES_PER_MIB).max(1.0);
    2.7 + 0.23 * mib.log2() + mib / 60.0
}

pub(crate) const LAT_MEM_RD: RefTool = RefTool {
    name: "lat_mem_rd",
    checks: "memory latency, random order (lmbench)",
    directories: DIRECTORIES,
    package: Package::DebianNonFree("lmbench"),
    results: ResultFormat::of_text("its text output", recognises, starts, read),
    explains: &["memory.latency"],
    declines: |_| "it has one chase, in ordinary pages or transparent huge ones",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, machine: &Machine) -> Option<Pairing> {
    let chase = PointerChase::of(case).filter(|chase| chase.chases == 1)?;
    matches!(chase.site.pages, Pages::Small | Pages::Thp).then_some(())?;
    let seconds = seconds(area(&chase, machine));
    let (definition, note) = match chase.site.size {
        size if TLB_REACH_BYTES < size && size <= SMALL_WORKING_SET && chase.site.pages == Pages::Thp => {
            (Match::Related, "in ordinary pages, for its area is smaller than a huge one")
        }
        size if size <= SMALL_WORKING_SET || chase.group as u64 >= size => {
            (Match::Exact, "dependent loads in random order")
        }
        _ => (
            Match::Related,
            "random over the whole area, where ours leaves a group of 64 pages only when done",
        ),
    };
    Some(Pairing::new("latency", definition, note, seconds))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let size = area(&PointerChase::of(&ask.case).ok_or("it has no such loads")?, &ask.machine);
    // The working set is whole MiB; all smaller sizes are lines of its output.
    let (mib, stride) = ((size as f64 / BYTES_PER_MIB).ceil(), stride(size));
    let environment = environment(CALIBRATION_MICROS);
    let arguments = words(&format!("-P 1 -W 0 -N 1 -t {mib} {stride}"));
    Ok(Invocation { environment, output: Output::Stderr, ..ask.call(arguments) })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let wanted = PointerChase::of(case).ok_or("it has no such loads")?.site.size as f64;
    let (_, table) = text.split_once("\"stride=").ok_or("its output has no '\"stride='")?;
    let whole = table.strip_suffix("\n\n").ok_or("its output is cut off")?;
    let rows = whole.lines().filter_map(|line| line.split_once(' '));
    let rows = rows
        .filter_map(|(mib, ns)| Some((mib.parse::<f64>().ok()? * BYTES_PER_MIB, ns.parse::<f64>().ok()?)));
    let near = |bytes: f64| (bytes / wanted - 1.0).abs();
    let beyond = rows.clone().all(|(bytes, _)| bytes < wanted);
    let nearest = rows.min_by(|a, b| near(a.0).total_cmp(&near(b.0)));
    // Listed sizes are an eighth to a half apart; the case's may be larger than all of them.
    let nearest = nearest.filter(|(bytes, _)| near(*bytes) < 0.2 || beyond);
    let (bytes, ns) =
        nearest.ok_or_else(|| format!("its output has no line of {} MiB", wanted / BYTES_PER_MIB))?;
    // It passes the working set at least once and prints no time.
    let places = bytes / stride(bytes as u64) as f64;
    let mut reading = ToolFigure::of(ns * 1e-9, Account::of(places, Seconds::OF_ITS_LIFE))?;
    reading.compare(&fact::WORKING_SET_BYTES, bytes.round(), wanted, 0.01);
    Ok(reading)
}

const HEADING: &str = "\"stride=";

fn recognises(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with(HEADING))
}

fn starts(text: &str) -> Vec<usize> {
    line_starts(text, recognises)
}

/// Reads results of lmbench's lat_mem_rd: a line with the stride, then MiB and nanoseconds.
fn read(text: &str) -> Result<Stated, String> {
    let table = text.lines().skip_while(|line| !line.trim_start().starts_with(HEADING)).skip(1);
    let row = |line: &str| -> Option<(f64, f64)> {
        let (mib, ns) = line.trim().split_once(char::is_whitespace)?;
        Some((mib.parse().ok()?, ns.trim().parse().ok()?))
    };
    let figure = |(mib, ns): (f64, f64)| {
        let no = "its loads may be fetched ahead, so plimsoll derives no limit".to_owned();
        let bytes = Quantity::new((mib * BYTES_PER_MIB).round(), Unit::Byte);
        let figure = StatedFigure::new(&format!("load of {bytes}"), ns * 1e-9, Unit::Second, Err(no));
        StatedFigure { absurd: BoundedEvent::Load.too_short(figure.value), ..figure }
    };
    let figures = table.map_while(row).map(figure).collect();
    Stated { figures, ..Stated::default() }.unless_empty("its table has no line of MiB and nanoseconds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::golden;

    #[test]
    fn no_line_is_near_enough_to_a_size_below_all_of_its_areas() {
        let text = golden::body("lmbench-3.0-a9-lat_mem_rd-random-16m.txt");
        assert!(parse(&Case::of("memory.latency").with_size("size", 700), &text).is_err());
    }

    #[test]
    fn each_table_is_read_to_its_end() {
        let text = "\"stride=128\n0.00049 1.250\n64.00000 95.500\n\nother 1\n";
        let figures = read(text).unwrap().figures;
        assert!(figures.len() == 2 && (figures[1].value - 95.5e-9).abs() < 1e-15, "{figures:?}");
        assert_eq!(figures[1].name, "load of 64 MiB");
        assert!(read("\"stride=64\n").is_err());
        let figures = read(&text.replace("1.250", "0.001")).unwrap().figures;
        assert!(figures[0].absurd.is_some() && figures[1].absurd.is_none());
    }
}
