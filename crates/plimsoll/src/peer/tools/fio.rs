//! fio: the same job on the very file that was filled for the case.
//!
//! io_uring with registered files and fixed buffers, the page cache bypassed, a new random sequence each run, and the
//! completion latency beside ours: that is `clat`, from the kernel's acceptance to the reaping.

use serde::Deserialize;

use super::super::{Ask, Invocation, Match, Package, Pairing, Peer, Reading};
use crate::case::Case;
use crate::machine::Machine;

/// The tool.
pub(super) struct Fio;

/// Blocks up to this size are judged by their rate, larger ones by bytes (as our headline is).
const SMALL: u64 = 64 << 10;

fn job(case: &Case) -> Option<&'static str> {
    if case.benchmark() != "disk.io" || case.word("cache").is_some_and(|c| c != "direct") {
        return None;
    }
    match (case.word("op")?, case.word("pattern")?) {
        ("read", "sequential") => Some("read"),
        ("read", "random") => Some("randread"),
        ("write", "sequential") => Some("write"),
        ("write", "random") => Some("randwrite"),
        _ => None,
    }
}

fn metric(case: &Case) -> Option<&'static str> {
    let (block, depth) = (case.number("block")?, case.number("depth").unwrap_or(1));
    Some(match (block, depth * case.threads() as u64) {
        (..=SMALL, 1) => "latency",
        (..=SMALL, _) => "rate",
        _ => "throughput",
    })
}

fn engine(case: &Case) -> Option<&'static [&'static str]> {
    match case.word("engine").unwrap_or("io_uring") {
        "io_uring" => Some(&["--ioengine=io_uring", "--registerfiles=1", "--fixedbufs=1"]),
        "psync" => Some(&["--ioengine=psync"]),
        _ => None,
    }
}

impl Peer for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn checks(&self) -> &'static str {
        "disk reads and writes on the same file"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["fio"]
    }

    fn package(&self) -> Package {
        Package::Debian("fio")
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    fn version(&self, text: &str) -> Option<String> {
        super::version_after(text, "fio-")
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        job(case)?;
        engine(case)?;
        let note =
            "the same file, block, depth and engine; fio's mean completion latency where latency is compared";
        let (metric, pairs) = (metric(case)?, Pairing::PAIRS);
        Some(Pairing { metric, definition: Match::Exact, note, seconds: 1.5, pairs })
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        let file = ask.offer.file.as_ref().ok_or("the case has no test file to share")?;
        let file = file.to_str().ok_or("the test file's path is not UTF-8")?;
        let (job, engine) = (job(ask.case).ok_or("no such job")?, engine(ask.case).ok_or("no such engine")?);
        let number = |key: &str| ask.case.number(key).ok_or_else(|| format!("the case has no {key}"));
        let (block, size) = (number("block")?, number("size")?);
        let depth = ask.case.number("depth").unwrap_or(1);
        let mut arguments: Vec<String> = vec![
            "--name=plimsoll".to_owned(),
            format!("--filename={}", file.replace(':', "\\:")),
            format!("--rw={job}"),
            format!("--bs={block}"),
            format!("--size={}", size / block * block),
            format!("--iodepth={depth}"),
            format!("--numjobs={}", ask.case.threads()),
            format!("--runtime={}", ask.seconds.ceil().max(1.0)),
        ];
        let fixed = ["--direct=1", "--time_based", "--group_reporting", "--thread", "--randrepeat=0"];
        let more = ["--norandommap", "--refill_buffers", "--allow_file_create=0", "--output-format=json"];
        arguments.extend(engine.iter().chain(&fixed).chain(&more).map(|s| (*s).to_owned()));
        Ok(Invocation { program: "fio", arguments, cpus: ask.offer.cpus.clone(), ..Invocation::default() })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String> {
        // Notes may stand before the document.
        let start = text.find('{').ok_or("its output is no JSON")?;
        let report: Report =
            serde_json::from_str(&text[start..]).map_err(|e| format!("its JSON cannot be read: {e}"))?;
        let job = report.jobs.first().ok_or("its JSON has no job")?;
        if job.error != 0 {
            return Err(format!("its job failed with errno {}", job.error));
        }
        let side = if case.word("op") == Some("write") { &job.write } else { &job.read };
        let value = match metric(case).ok_or("the case has no block")? {
            "latency" => side.clat_ns.mean * 1e-9,
            "rate" => side.iops,
            _ => side.bw_bytes,
        };
        let mut reading = Reading::of(value)?;
        let depth = case.number("depth").unwrap_or(1);
        let reached = job.iodepth_level.get(&level(depth)).copied().unwrap_or(0.0);
        reading.achieved.insert("depth".to_owned(), format!("{reached:.0} % at {}", level(depth)));
        if reached < 90.0 {
            reading.differs.push(format!("its queue was {depth} deep only {reached:.0} % of the time"));
        }
        Ok(reading)
    }
}

/// The name of fio's class of depths that holds this one: the powers of two up to 64 and more.
fn level(depth: u64) -> String {
    match depth {
        0..=1 => "1".to_owned(),
        64.. => ">=64".to_owned(),
        // Its classes: 2 holds 2 and 3, 4 holds 4 to 7, and so on.
        d => (1u64 << d.ilog2()).to_string(),
    }
}

#[derive(Deserialize)]
struct Report {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    error: i64,
    read: Side,
    write: Side,
    #[serde(default)]
    iodepth_level: std::collections::BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Side {
    bw_bytes: f64,
    iops: f64,
    clat_ns: Times,
}

#[derive(Deserialize)]
struct Times {
    mean: f64,
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    const DEEP: &str = include_str!("../../../tests/fixtures/peers/fio-3.33-randread-32.json");
    const WRITE: &str = include_str!("../../../tests/fixtures/peers/fio-3.33-write-8.json");

    fn case(op: &str, pattern: &str, block: u64, depth: u64) -> Case {
        Case::of("disk.io")
            .with_word("op", op)
            .with_word("pattern", pattern)
            .with_size("block", block)
            .with_count("depth", depth)
            .with_size("size", 64 << 20)
            .with_word("engine", "io_uring")
            .with_word("cache", "direct")
            .with_count("threads", 1)
    }

    #[test]
    fn recorded_output_is_read() {
        let deep = Fio.parse(&case("read", "random", 4096, 32), &golden::body(DEEP)).unwrap();
        assert!(deep.value > 1000.0 && deep.differs.is_empty(), "{deep:?}");
        let write = Fio.parse(&case("write", "sequential", 1 << 20, 8), &golden::body(WRITE)).unwrap();
        assert!(write.value > 1e6 && write.differs.is_empty(), "{write:?}");
    }

    #[test]
    fn a_queue_that_was_not_deep_enough_is_told() {
        let reading = Fio.parse(&case("read", "random", 4096, 8), &golden::body(DEEP)).unwrap();
        assert_eq!(reading.differs.len(), 1);
    }

    #[test]
    fn damaged_output_gives_a_line() {
        golden::survives_damage(&Fio, &case("read", "random", 4096, 32), DEEP);
        golden::survives_damage(&Fio, &case("write", "sequential", 1 << 20, 8), WRITE);
    }

    #[test]
    fn the_metric_is_the_headline_of_the_case() {
        assert_eq!(metric(&case("read", "random", 4096, 1)), Some("latency"));
        assert_eq!(metric(&case("read", "random", 4096, 32)), Some("rate"));
        assert_eq!(metric(&case("read", "sequential", 1 << 20, 8)), Some("throughput"));
    }
}
