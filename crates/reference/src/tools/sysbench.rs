//! sysbench cpu: prime numbers by trial division, with one integer remainder per divisor up to the
//! root. It is only related: plimsoll measures quotients.

use crate::tools::prelude::*;
use plimsoll_metal::kernel::Op;

const LARGEST_PRIME: u64 = 10_000;

/// Returns the number of integer remainders in an event, the search for primes below `largest`.
fn remainders(largest: u64) -> u64 {
    let tried = |number: u64| -> u64 {
        let divisors = (2..).take_while(|divisor| divisor * divisor <= number);
        // It stops after the first divisor.
        let first = divisors.clone().position(|divisor| number.is_multiple_of(divisor));
        first.map_or(divisors.count(), |at| at + 1) as u64
    };
    (3..largest).map(tried).sum()
}

pub(super) const SYSBENCH: RefTool = RefTool {
    name: "sysbench",
    checks: "integer remainders (related to cpu.peak --op div)",
    package: Package::Debian("sysbench"),
    version: ("--version", "sysbench "),
    results: ResultFormat::of_text("text output of cpu, memory and fileio", recognises, starts, read),
    explains: &["cpu.peak"],
    declines: |_| "its events are integer remainders: compare it with --op div",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let CpuKernel { op, chains, .. } = CpuKernel::of(case);
    (case.benchmark() == "cpu.peak" && op == Some(Op::DIV) && chains.is_none()).then_some(())?;
    let note = "events × 117 526 integer remainders each, as its loops take them";
    Some(Pairing::new("rate", Match::Related, note, 1.1))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let (threads, time) = (ask.case.threads(), whole_seconds(ask));
    let line = format!("cpu --cpu-max-prime={LARGEST_PRIME} --threads={threads} --time={time} run");
    Ok(ask.call(words(&line)))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let events = number_after(text, "events per second:")?;
    let seconds = Seconds::printed(word_after(text, "total time:")?.trim_end_matches('s'))?;
    let total = number_after(text, "total number of events:")? * remainders(LARGEST_PRIME) as f64;
    let mut reading = ToolFigure::of(events * remainders(LARGEST_PRIME) as f64, Account::of(total, seconds))?;
    for (row, label, wanted) in [
        (fact::THREAD_COUNT, "Number of threads:", case.threads() as u64),
        (fact::LARGEST_NUMBER, "Prime numbers limit:", LARGEST_PRIME),
    ] {
        let used = number_after(text, label)?;
        reading.compare(&row, used, wanted as f64, 0.0);
    }
    Ok(reading)
}

/// Largest number whose remainders are counted, as counting takes time.
const MOST_COUNTED: u64 = 20_000;

fn recognises(text: &str) -> bool {
    text.contains("sysbench") && text.contains("Number of threads:")
}

fn starts(text: &str) -> Vec<usize> {
    let above = |at: usize| text[..at.saturating_sub(1)].rfind('\n').map_or(0, |end| end + 1);
    // The banner is at most two lines above.
    let banner = |at: usize| {
        let mut lines = [above(at), above(above(at))].into_iter();
        lines.find(|from| text[*from..].starts_with("sysbench ")).unwrap_or(at)
    };
    let tests = line_starts(text, |line| line.starts_with("Running the test with following options"));
    tests.into_iter().map(banner).collect()
}

/// Reads the output of sysbench's tests cpu, memory and fileio, 0.4.12 to 1.1. The memory test has
/// one block, shared by all threads if the scope is global (sb_memory.c).
fn read(text: &str) -> Result<Stated, String> {
    let version = text.find("sysbench ").and_then(|at| SYSBENCH.version(&text[at..]));
    if text.lines().filter(|line| line.contains("total time:")).count() > 1 {
        return Err("it has results of several runs in one: give each run an output of its own".to_owned());
    }
    let general = General::of(text)?;
    let figures = match text {
        _ if text.contains("Prime numbers limit:") || text.contains("Maximum prime number checked") => {
            cpu(text, &general)
        }
        _ if text.contains(" transferred (") && text.contains("lock size:") => memory(text, &general)?,
        _ if text.contains("Doing ") && text.contains("Block size ") => fileio(text, &general)?,
        _ => return Err("its test is none of cpu, memory and fileio".to_owned()),
    };
    Stated { version, figures, ..Stated::default() }.unless_empty("it has no figure")
}

struct General {
    threads: f64,
    seconds: Option<Seconds>,
    events: Option<f64>,
    /// Number of busy threads that the times add up to.
    busy: Option<f64>,
}

impl General {
    fn of(text: &str) -> Result<Self, String> {
        let threads = number_after(text, "Number of threads:")?;
        let seconds = word_after(text, "total time:").ok().map(|word| word.trim_end_matches('s'));
        let seconds = seconds.and_then(|word| Seconds::printed(word).ok());
        let events = number_after(text, "total number of events:").ok();
        // In ms since 1.0, in s before.
        let sum = number_after(text, " sum:").ok().map(|ms| ms * 1e-3);
        let sum = sum.or_else(|| number_after(text, "total time taken by event execution:").ok());
        let busy = sum.zip(seconds).map(|(sum, seconds)| sum / seconds.value());
        Ok(Self { threads, seconds, events, busy: busy.filter(|busy| busy.is_finite()) })
    }
}

fn cpu(text: &str, general: &General) -> Vec<StatedFigure> {
    let counted = general.events.zip(general.seconds).map(|(events, time)| Account::of(events, time));
    let stated = number_after(text, "events per second:").ok();
    let rate = stated.or_else(|| counted.map(|account| account.amount / account.seconds.value()));
    let Some(rate) = rate else { return Vec::new() };
    let no = "its largest number to test is not in the file".to_owned();
    let mut figure = StatedFigure::new("cpu: events per second", rate, Unit::PerSecond, Err(no));
    figure.account = counted.filter(|_| stated.is_some());
    let largest = ["Prime numbers limit:", "Maximum prime number checked in CPU test:"];
    let largest =
        largest.iter().find_map(|label| number_after(text, label).ok()).filter(|number| *number >= 3.0);
    // An event with a larger number takes at least as many.
    let remainders = largest.map(|number| remainders((number as u64).min(MOST_COUNTED)) as f64);
    let General { threads, busy: by_time, .. } = *general;
    figure.subject = Subject::Cores(CoreUse { threads, by_time, remainders, ..CoreUse::default() });
    vec![figure]
}

fn memory(text: &str, general: &General) -> Result<Vec<StatedFigure>, String> {
    let line =
        text.lines().find(|line| line.contains(" transferred (")).ok_or("it has no line transferred")?;
    let (amount, rate) = line.split_once(" transferred (").ok_or("its line transferred is cut off")?;
    let amount = bytes(amount).ok_or("its amount is no number")?;
    let rate = bytes(rate.split("/sec").next().unwrap_or_default()).ok_or("its rate is no number")?;
    let op = if text.contains("operation: read") { "read" } else { "write" };
    let label = if text.contains("block size:") { "block size:" } else { "Memory block size:" };
    let block = text.split_once(label).and_then(|(_, rest)| bytes(rest.lines().next()?));
    let local = text.contains("scope: local") || text.contains("memory scope type: local");
    let footprint = block.map(|block| if local { block * general.threads } else { block });
    let used = MemoryUse { footprint, array: footprint, may_be_cache: false };
    let figure = StatedFigure::of_memory(&format!("memory: {op}"), rate, (op, general.threads), used);
    let account = general.seconds.map(|seconds| Account::of(amount, seconds));
    Ok(vec![StatedFigure { account, ..figure }])
}

/// Parses `10240.00 MiB`, `1KiB`, `1K` or `8388608` as bytes; powers of 1024 also for old MB.
fn bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    let word = text.split_whitespace().next()?;
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'));
    // A number separate from its unit may be any, also nan.
    let digits = if word.parse::<f64>().is_ok() { word.len() } else { text.len() - digits.len() };
    let number: f64 = text.get(..digits)?.parse().ok()?;
    let unit = text.get(digits..)?.split_whitespace().next().unwrap_or_default();
    Some(number * binary_factor(unit.trim_end_matches("iB").trim_end_matches(['B', 'b']))?)
}

fn fileio(text: &str, general: &General) -> Result<Vec<StatedFigure>, String> {
    let block = text.split_once("Block size ").and_then(|(_, rest)| bytes(rest.lines().next()?));
    let flags = text.lines().find(|line| line.starts_with("Extra file open flags:")).unwrap_or_default();
    let mapped = text.contains("memory mapped");
    let cached = (!flags.is_empty()).then(|| mapped || !flags.contains("direct") && !flags.contains("16384"));
    let file_bytes = text.lines().find_map(|line| bytes(line.split_once("total file size")?.0));
    let random = text.contains("Doing random");
    let mut figures = Vec::new();
    for (op, requests, throughput) in
        [("read", "reads/s:", "read, MiB/s:"), ("write", "writes/s:", "written, MiB/s:")]
    {
        let seconds = general.seconds;
        let rate = number_after(text, requests).ok().filter(|rate| *rate != 0.0);
        let mib = number_after(text, throughput).ok().filter(|rate| *rate != 0.0);
        let mut case = Case::of("disk.io").with_word("op", op);
        case = case.with_word("pattern", if random { "random" } else { "sequential" });
        case = block.map_or(case.clone(), |block| case.with_size("block", block as u64));
        case = case.with_count("depth", 1).with_count("threads", general.threads as u64);
        let like = |metric| Ok(EquivalentCase::of(case.clone().with_word("cache", "direct"), metric));
        let moved = mib.zip(seconds).map_or(0.0, |(mib, seconds)| mib * BYTES_PER_MIB * seconds.value());
        let used = DiskUse { cached, writes: op == "write", moved, file_bytes, ..DiskUse::default() };
        let account = rate.zip(block).map(|(rate, block)| Account::of(rate * block, Seconds::of(1.0)));
        let bandwidth = mib.map(|mib| {
            let (name, rate) = (format!("fileio: {op} bandwidth"), mib * BYTES_PER_MIB);
            let figure = StatedFigure::new(&name, rate, Unit::BytePerSecond, like("throughput"));
            StatedFigure { account, ..figure }
        });
        let iops = rate.map(|rate| {
            StatedFigure::new(&format!("fileio: {op} IOPS"), rate, Unit::IoPerSecond, like("rate"))
        });
        let with_use = |figure: StatedFigure| StatedFigure { subject: Subject::Disk(used.clone()), ..figure };
        figures.extend(bandwidth.into_iter().chain(iops).map(with_use));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_runs_in_one_output_are_refused() {
        let result = "events per second: 900.5\ntotal time: 10.0s\ntotal number of events: 9005\n";
        let text = format!(
            "sysbench 1.0.20\nRunning the test with following options:\nNumber of threads: 1\nPrime numbers limit: 10000\n{result}"
        );
        assert_eq!(read(&text).map(|stated| stated.figures.len()), Ok(1));
        assert!(read(&format!("{text}{result}")).is_err_and(|why| why.contains("several runs")));
    }

    #[test]
    fn the_remainders_are_those_of_its_loops() {
        let mut count = 0;
        for number in 3..LARGEST_PRIME {
            for divisor in 2..=number.isqrt() {
                count += 1;
                if number % divisor == 0 {
                    break;
                }
            }
        }
        assert_eq!((remainders(LARGEST_PRIME), count), (117_526, 117_526));
    }
}
