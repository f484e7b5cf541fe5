//! A Java runtime: the loops of cpu.peak, disk.io and network.tcp as one source file of our own, which `java` runs.
//!
//! The figures are what a program gets whose code is compiled while it runs and whose calls go through its library. It is
//! taken only where it is named. Its start takes longer than a loop, so one call runs the loops of several cases. A runtime without a compiler (a JRE alone) cannot run a source file, and says so.

use super::super::{
    Account, Ask, Far, Invocation, Match, Package, Pairing, Peer, Reading, Seconds, Tool, fact,
};
use super::only;
use crate::case::Case;
use crate::machine::Machine;

pub(super) struct Java;

/// Its program, and the name of the file.
const SOURCE: (&str, &str) = ("Loops.java", include_str!("java/Loops.java"));
/// The largest message and block.
const LARGEST: u64 = 16 << 20;
/// Blocks up to this size are judged by their rate, larger ones by bytes (as our headline is).
const SMALL: u64 = 64 << 10;
/// Bytes of its file.
const FILE: u64 = 64 << 20;
/// Seconds of its start: the runtime, the compiler, and the loops before they are compiled.
const START: f64 = 2.0;

const TOOL: Tool = Tool {
    name: "java",
    checks: "the same loops in Java: arithmetic, file and TCP transfers",
    programs: &["java"],
    package: Package::Debian("default-jdk-headless"),
    version_arguments: &["--version"],
    version_after: "openjdk ",
    // No plan has such a benchmark: it is another language and not another measurement, so it must be named.
    only_with: &["java"],
    ..Tool::NONE
};

/// The loops of transfers, which a call runs all.
const TRANSFERS: &[&str] = &["write:sequential", "read:sequential", "write:random", "read:random"];
/// The loops of arithmetic that a call runs, and that of the case where it is another.
const ARITHMETIC: &[&str] = &["add:i32", "fma:f64", "mix:f64"];

/// The messages of the streams that a call sends, and that of the case where it is another.
const MESSAGES: &[u64] = &[1, 1 << 10, 64 << 10, 1 << 20];

/// A case in the program's words.
struct Asked {
    /// What it is called with.
    words: Vec<String>,
    /// Which of its loops is the case's.
    of_case: String,
    metric: &'static str,
}

fn asked(case: &Case) -> Option<Asked> {
    let number = |key: &str| case.number(key);
    let named = |kind: &str, pairs: &[(&str, String)]| {
        let pairs = pairs.iter().map(|(key, value)| format!("{key}={value}"));
        std::iter::once(kind.to_owned()).chain(pairs).collect::<Vec<_>>()
    };
    match case.benchmark() {
        "cpu.peak" => {
            only(case, &["op", "type", "isa", "place", "threads"]).then_some(())?;
            let (op, element) = (case.word("op")?, case.word("type")?);
            matches!((op, element), ("add", "i32" | "f64") | ("fma" | "mix", "f64")).then_some(())?;
            let of_case = format!("{op}:{element}");
            let other = (!ARITHMETIC.contains(&of_case.as_str())).then_some(of_case.as_str());
            let loops: Vec<&str> = ARITHMETIC.iter().copied().chain(other).collect();
            let pairs = [("loops", loops.join(",")), ("threads", case.threads().to_string())];
            Some(Asked { words: named("cpu", &pairs), of_case, metric: "rate" })
        }
        "disk.io" => {
            let known =
                only(case, &["op", "pattern", "block", "depth", "threads", "engine", "cache", "size"]);
            let one = number("depth").unwrap_or(1) == 1 && case.word("engine") == Some("psync");
            (known && one).then_some(())?;
            let (op, pattern) = (case.word("op")?, case.word("pattern")?);
            let of_case = format!("{op}:{pattern}");
            TRANSFERS.contains(&of_case.as_str()).then_some(())?;
            let block = number("block").filter(|block| (1..=LARGEST).contains(block))?;
            let size = FILE.max(block * 4 * case.threads() as u64);
            let pairs = [
                ("loops", TRANSFERS.join(",")),
                ("block", block.to_string()),
                ("size", size.to_string()),
                ("cache", case.word("cache").unwrap_or("direct").to_owned()),
                ("threads", case.threads().to_string()),
            ];
            let metric = if block <= SMALL { "rate" } else { "throughput" };
            Some(Asked { words: named("disk", &pairs), of_case, metric })
        }
        "network.tcp" => {
            only(case, &["message", "streams", "direction"]).then_some(())?;
            case.word("direction").is_none_or(|direction| direction == "up").then_some(())?;
            let message = number("message").filter(|message| (1..=LARGEST).contains(message))?;
            let other = (!MESSAGES.contains(&message)).then_some(message);
            let loops: Vec<String> = MESSAGES.iter().copied().chain(other).map(|m| m.to_string()).collect();
            let pairs = [("loops", loops.join(",")), ("threads", number("streams").unwrap_or(1).to_string())];
            Some(Asked { words: named("tcp", &pairs), of_case: message.to_string(), metric: "goodput" })
        }
        _ => None,
    }
}

impl Peer for Java {
    fn tool(&self) -> &'static Tool {
        &TOOL
    }

    fn declines(&self, case: &Case) -> Option<&'static str> {
        matches!(case.benchmark(), "cpu.peak" | "disk.io" | "network.tcp").then_some(
            "it has sums of i32 and f64, fma and mix of f64; psync reads and writes in order or at random; TCP in one \
             direction on this machine",
        )
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        let Asked { metric, .. } = asked(case)?;
        let note = match case.benchmark() {
            "cpu.peak" => {
                "Java: its numbers lie in the first cache, and its compiler chooses the instructions"
            }
            "disk.io" => "Java: FileChannel on a file of its own",
            _ => "Java: both ends in one process, sockets of its library",
        };
        // One reading: its start takes longer than what it measures.
        Some(Pairing { metric, definition: Match::Related, note, seconds: START, pairs: 1 })
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        let Asked { words: mut arguments, .. } = asked(ask.case).ok_or("it has no such loop")?;
        if ask.case.benchmark() == "network.tcp" && matches!(ask.far, Far::There(..)) {
            return Err(
                "both its ends are in one process, and the server of the case is elsewhere".to_owned()
            );
        }
        // It waits for its compiler: the figure is that of compiled code, also on a busy machine.
        arguments.splice(0..0, ["-Xbatch".to_owned(), SOURCE.0.to_owned()]);
        arguments.push(format!("seconds={}", ask.seconds));
        let disk = ask.case.subsystem() == "disk";
        let near = ask.offer.cpus.iter().chain(&ask.offer.far_cpus).copied();
        let mut cpus: Vec<usize> = near.collect();
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Invocation {
            program: "java",
            arguments,
            files: vec![(SOURCE.0, SOURCE.1.to_owned())],
            cpus,
            answers_others: true,
            disk_bytes: if disk {
                FILE.max(ask.case.number("block").unwrap_or(1) * 4 * ask.case.threads() as u64)
            } else {
                0
            },
            ..Invocation::default()
        })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String> {
        let Asked { of_case, metric, .. } = asked(case).ok_or("it has no such loop")?;
        let mut whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let line = whole.find_map(|line| line.strip_prefix(&format!("loop={of_case} ")));
        let line = line.ok_or_else(|| format!("its output has no line 'loop={of_case} work=… seconds=…'"))?;
        let word = |key: &str| {
            let mut pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        let number = |key: &str| {
            let text = word(key).ok_or_else(|| format!("its line has no {key}"))?;
            let shown = || format!("its {key} is '{}'", crate::text::shown_within(text, 40));
            text.parse::<f64>().map_err(|_| shown())
        };
        let block = if metric == "throughput" { case.number("block").unwrap_or(1) as f64 } else { 1.0 };
        let (work, seconds) = (number("work")? * block, number("seconds")?);
        let mut reading = Reading::of(work / seconds, Account::of(work, Seconds::of(seconds)))?;
        for row in [fact::THREADS, fact::RUNTIME, fact::SIZE, fact::MESSAGE, fact::BLOCK] {
            if let Some(value) = word(row.name) {
                reading.tell(&row, value);
            }
        }
        let threads = case.number("streams").unwrap_or(case.threads() as u64) as f64;
        if (number("threads")? - threads).abs() > 0.5 {
            reading.differs.push(format!("it had {} threads where {threads} were asked", number("threads")?));
        }
        let file = word("size").and_then(|size| size.parse::<u64>().ok());
        if let Some((asked, file)) = case.number("size").zip(file).filter(|(asked, file)| asked != file) {
            reading.differs.push(format!("its file had {file} bytes where {asked} were asked"));
        }
        if word("direct") == Some("false") && case.word("cache") != Some("buffered") {
            reading.differs.push("it went through the page cache".to_owned());
        }
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_beside_the_loops_that_it_has() {
        let asked = |id: &str| {
            asked(&id.parse().unwrap()).map(|found| (found.words.join(" "), found.of_case, found.metric))
        };
        assert_eq!(
            asked("cpu.peak/op=fma/type=f64/isa=avx2/threads=4/work=1000000/scaling=strong"),
            Some(("cpu loops=add:i32,fma:f64,mix:f64 threads=4".to_owned(), "fma:f64".to_owned(), "rate"))
        );
        assert_eq!(
            asked("network.tcp/message=64K/streams=2/direction=up/count=1000/scaling=strong"),
            Some(("tcp loops=1,1024,65536,1048576 threads=2".to_owned(), "65536".to_owned(), "goodput"))
        );
        let disk =
            asked("disk.io/op=read/pattern=random/block=1M/depth=1/threads=2/engine=psync/cache=direct");
        let disk = disk.unwrap();
        assert_eq!((disk.1.as_str(), disk.2), ("read:random", "throughput"));
        assert!(
            disk.0.contains("loops=write:sequential,read:sequential,write:random,read:random"),
            "{}",
            disk.0
        );
        assert!(asked("cpu.peak/op=add/type=f64/threads=1").unwrap().0.contains("mix:f64,add:f64"));
        assert!(asked("cpu.peak/op=sqrt/type=f64/threads=1").is_none());
        assert!(
            asked("disk.io/op=read/pattern=random/block=4K/depth=32/threads=1/engine=io_uring").is_none()
        );
        assert!(asked("network.tcp/message=64K/streams=2/direction=down").is_none());
    }
}
