//! A Java runtime: loops of cpu.peak, disk.io and network.tcp as one file that `java` compiles and
//! runs. Starting it takes longer than a loop, so one call runs the loops of several cases.

use crate::tools::prelude::*;
use plimsoll_model::job::disk::{BlockSizes, CacheMode, DiskEngine, DiskTransfers};

const SOURCE: (&str, &str) = ("Loops.java", include_str!("java/Loops.java"));
const MAX_BLOCK_BYTES: u64 = 16 << 20;
const FILE: u64 = 64 << 20;
/// Seconds for the runtime, the compiler, and the loops before they are compiled.
const START: f64 = 2.0;

pub(super) const JAVA: RefTool = RefTool {
    name: "java",
    checks: "the same loops in Java: arithmetic, file and TCP transfers",
    package: Package::Debian("default-jdk-headless"),
    version: ("--version", "openjdk "),
    // It must be named, as no plan has such a benchmark: it measures another language.
    only_with: &["java"],
    explains: &["cpu.peak", "disk.io", "network.tcp"],
    declines: |_| {
        "it has sums of i32 and f64, fma and mix of f64; psync reads and writes in order or at random; TCP in one \
         direction on this machine"
    },
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

const TRANSFERS: &[&str] = &["write:sequential", "read:sequential", "write:random", "read:random"];
const ARITHMETIC: &[&str] = &["add:i32", "fma:f64", "mix:f64"];

const COMMON_MESSAGE_BYTES: &[u64] = &[1, 1 << 10, 64 << 10, 1 << 20];

struct JavaArguments {
    words: Vec<String>,
    of_case: String,
    metric: &'static str,
    threads: u64,
    file: Option<JavaFile>,
}

struct JavaFile {
    job: DiskTransfers,
    block: u64,
    bytes: u64,
}

fn asked(case: &Case) -> Option<JavaArguments> {
    match case.benchmark() {
        "cpu.peak" => {
            has_only_parameters(case, "op type isa affinity threads").then_some(())?;
            let [op, element, _] = CpuKernel::of(case).names();
            matches!((op, element), ("add", "i32" | "f64") | ("fma" | "mix", "f64")).then_some(())?;
            let of_case = format!("{op}:{element}");
            let other = (!ARITHMETIC.contains(&of_case.as_str())).then_some(of_case.as_str());
            let loops: Vec<&str> = ARITHMETIC.iter().copied().chain(other).collect();
            let threads = case.threads() as u64;
            let words = words(&format!("cpu loops={} threads={threads}", loops.join(",")));
            Some(JavaArguments { words, of_case, metric: "rate", threads, file: None })
        }
        "disk.io" => {
            let known = has_only_parameters(case, "op pattern block depth threads engine cache size");
            let job = DiskTransfers::of(case).ok()?;
            (known && (job.depth, job.engine) == (1, DiskEngine::Psync)).then_some(())?;
            let of_case = format!("{}:{}", job.operation.word(), job.order.word());
            TRANSFERS.contains(&of_case.as_str()).then_some(())?;
            let BlockSizes::One(block @ 1..=MAX_BLOCK_BYTES) = job.blocks else { return None };
            let (threads, bytes) = (job.threads, FILE.max(block * 4 * job.threads));
            let (loops, cache) = (TRANSFERS.join(","), job.cache.word());
            let words = words(&format!(
                "disk loops={loops} block={block} size={bytes} cache={cache} threads={threads}"
            ));
            let metric = if job.is_small() { "rate" } else { "throughput" };
            let file = Some(JavaFile { job, block, bytes });
            Some(JavaArguments { words, of_case, metric, threads, file })
        }
        "network.tcp" => {
            has_only_parameters(case, "message streams direction").then_some(())?;
            let NetworkStreams { message, streams, direction, .. } = NetworkStreams::of(case);
            (direction == Flow::Up).then_some(())?;
            let message = message.filter(|message| (1..=MAX_BLOCK_BYTES).contains(message))?;
            let other = (!COMMON_MESSAGE_BYTES.contains(&message)).then_some(message);
            let loops: Vec<String> =
                COMMON_MESSAGE_BYTES.iter().copied().chain(other).map(|m| m.to_string()).collect();
            let words = words(&format!("tcp loops={} threads={streams}", loops.join(",")));
            let of_case = message.to_string();
            Some(JavaArguments { words, of_case, metric: "goodput", threads: streams, file: None })
        }
        _ => None,
    }
}

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let JavaArguments { metric, .. } = asked(case)?;
    let note = match case.benchmark() {
        "cpu.peak" => "Java: its numbers lie in the first cache, and its compiler chooses the instructions",
        "disk.io" => "Java: FileChannel on a file of its own",
        _ => "Java: both ends in one process, sockets of its library",
    };
    Some(Pairing { pairs: 1, ..Pairing::new(metric, Match::Related, note, START) })
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let JavaArguments { words: mut arguments, file, .. } = asked(&ask.case).ok_or("it has no such loop")?;
    if ask.case.benchmark() == "network.tcp" && !ask.is_local {
        return Err(
            "its client and server are one process, but the case's server is on another machine".to_owned()
        );
    }
    // Waits for the compiler, so that compiled code is measured also on a busy machine.
    arguments.splice(0..0, ["-Xbatch".to_owned(), SOURCE.0.to_owned()]);
    arguments.push(format!("seconds={}", ask.seconds));
    let mut cpus = [ask.offer.cpus.as_slice(), &ask.offer.far_cpus].concat();
    cpus.sort_unstable();
    cpus.dedup();
    Ok(Invocation {
        files: vec![(SOURCE.0, SOURCE.1.to_owned())],
        cpus,
        answers_others: true,
        disk_bytes: file.map_or(0, |file| file.bytes),
        ..ask.call(arguments)
    })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let JavaArguments { of_case, metric, threads, file, .. } = asked(case).ok_or("it has no such loop")?;
    let line = whole_lines(text).find_map(|line| line.strip_prefix(&format!("loop={of_case} ")));
    let line = line.ok_or_else(|| format!("its output has no line 'loop={of_case} work=… seconds=…'"))?;
    let word = |key: &str| value_of(line.split(' '), key);
    let number = |key: &str| number(key, word(key)?);
    let block = file.as_ref().filter(|_| metric == "throughput").map_or(1.0, |file| file.block as f64);
    let (work, seconds) = (number("work")? * block, number("seconds")?);
    let mut reading = ToolFigure::of(work / seconds, Account::of(work, Seconds::of(seconds)))?;
    for row in [fact::RUNTIME, fact::WORKING_SET_BYTES, fact::MESSAGE_BYTES, fact::BLOCK_BYTES] {
        if let Ok(value) = word(row.name) {
            reading.record(&row, value);
        }
    }
    reading.compare(&fact::THREAD_COUNT, number("threads")?, threads as f64, 0.0);
    let Some(JavaFile { job, .. }) = file else { return Ok(reading) };
    let used = word("size").ok().and_then(|size| size.parse::<u64>().ok());
    if let Some((asked, used)) = job.size.zip(used).filter(|(asked, used)| asked != used) {
        reading.differs.push(format!("its file had {used} bytes where {asked} were asked"));
    }
    if word("direct").is_ok_and(|direct| direct == "false") && job.cache != CacheMode::Buffered {
        reading.differs.push("it went through the page cache".to_owned());
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_beside_the_loops_that_it_has() {
        let asked = |id: &str| {
            let found = asked(&id.parse().unwrap())?;
            Some(format!("{}; {}; {}", found.words.join(" "), found.of_case, found.metric))
        };
        let words = asked("cpu.peak/op=fma/type=f64/isa=avx2/threads=4/work=1000000/scaling=strong");
        assert_eq!(words.unwrap(), "cpu loops=add:i32,fma:f64,mix:f64 threads=4; fma:f64; rate");
        let words = asked("network.tcp/message=64K/streams=2/direction=up/count=1000/scaling=strong");
        assert_eq!(words.unwrap(), "tcp loops=1,1024,65536,1048576 threads=2; 65536; goodput");
        let disk = "disk.io/op=read/pattern=random/block=1M/depth=1/threads=2/engine=psync/cache=direct";
        let words = asked(disk).unwrap();
        assert!(words.contains("loops=write:sequential,read:sequential,write:random,read:random"), "{words}");
        assert!(words.ends_with("; read:random; throughput"), "{words}");
        assert!(asked("cpu.peak/op=add/type=f64/threads=1").unwrap().contains("mix:f64,add:f64"));
        assert!(asked("cpu.peak/op=sqrt/type=f64/threads=1").is_none());
        let queue = "disk.io/op=read/pattern=random/block=4K/depth=32/threads=1/engine=io_uring";
        assert!(asked(queue).is_none());
        assert!(asked("network.tcp/message=64K/streams=2/direction=down").is_none());
    }
}
