//! HPC Challenge: HPL for linear systems; SingleSTREAM for one thread, StarSTREAM (all processes at
//! once) for several. It runs all parts, HPL last, so a reading takes a minute.

use super::{hpl, stream};

use crate::tools::prelude::*;

const ANSWER: &str = "hpccoutf.txt";
/// Seconds of the parts before HPL, for an order of 5000.
const BEFORE: f64 = 60.0;

/// Returns the expected seconds of hpcc before its HPL part. About 1 s was measured for an order of
/// 1000; the estimate is higher because a tool that takes four times as long is ended.
fn seconds_before_hpl(case: &Case) -> f64 {
    let order = DenseProblem::of(case).n.map_or(5000.0, |n| n as f64);
    5.0 + BEFORE * (order / 5000.0).powi(2).min(1.0)
}

/// Largest order for STREAM (arrays of 170 MB): above, other parts take many minutes.
const MAX_STREAM_ORDER: u64 = 8000;
/// Largest order for STREAM in a scaled-down plan (arrays of 7 MB): all parts take 2 to 6 s.
const MAX_STREAM_ORDER_SCALED_DOWN: u64 = 1600;

fn processes(case: &Case) -> usize {
    if stream::kernel(case).is_some() { case.threads() } else { 1 }
}

fn section<'a>(text: &'a str, name: &str) -> Result<&'a str, String> {
    let begin = text.split_once(&format!("Begin of {name} section"));
    let (_, rest) = begin.ok_or_else(|| format!("its output has no 'Begin of {name} section'"))?;
    let end = rest.split_once(&format!("\nEnd of {name} section"));
    Ok(end.ok_or_else(|| format!("its {name} section is cut off"))?.0)
}

/// Returns the rate of `op` by all `processes` together in B/s: their mean in the text `section` ×
/// their number. Fails if minimum, mean, maximum or `of_one`, the first process, contradict.
fn of_all(section: &str, op: &str, processes: f64, of_one: &ToolFigure) -> Result<ToolFigure, String> {
    let figure = |what: &str| number_after(section, &format!("{what} {op} GB/s ")).map(|rate| rate * 1e9);
    let [least, mean, most] = [figure("Minimum")?, figure("Average")?, figure("Maximum")?];
    // Four decimals in the table, six below it.
    const TABLE_ROUNDING: f64 = 1e-3;
    let is_between =
        |value: f64| least * (1.0 - TABLE_ROUNDING) <= value && value <= most * (1.0 + TABLE_ROUNDING);
    if !is_between(of_one.value) || !is_between(mean) {
        return Err(format!("its figures of {op} by all processes contradict that of the first"));
    }
    let bytes = of_one.account.amount;
    let account = Account::of(bytes * processes, Seconds::of(bytes / mean));
    Ok(ToolFigure::of(mean * processes, account)?.best())
}

/// Returns the number of elements of each of the case's arrays; `None` if it is no STREAM kernel.
fn elements(case: &Case) -> Option<u64> {
    let MemoryStream { op, site, .. } = MemoryStream::of(case).ok()?;
    Some(site.size / op.arrays() / 8)
}

pub(super) const HPCC: RefTool = RefTool {
    name: "hpcc",
    checks: "dense linear system (HPL); STREAM on one process, and on all at once",
    package: Package::Debian("hpcc"),
    // It has no such arguments; without input it only prints a heading with its version.
    version: ("", "Benchmark version "),
    only_with: hpl::BENCHMARKS,
    library: Some("blas"),
    results: ResultFormat::of_text("its hpccoutf.txt", recognises, starts, read),
    stderr_facts: hpl::core_type,
    explains: &["memory.bandwidth"],
    declines: |_| "it has STREAM's copy, scale, add and triad, with a process on a CPU for each thread",
    benchmark_name,
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn benchmark_name(case: &Case) -> Option<&'static str> {
    stream::kernel(case).map(|_| "STREAM")
}

fn pairing(case: &Case, machine: &Machine) -> Option<Pairing> {
    if stream::kernel(case).is_none() {
        return hpl::pairing(case, seconds_before_hpl(case) + hpl::expected_seconds(case));
    }
    (case.threads() <= machine.cpu.allowed.len().max(1)).then_some(())?;
    let note = if case.threads() > 1 {
        "StarSTREAM, on a process for each thread: the sum of their best repetitions and our best sample, stores as its compiler chose them"
    } else {
        "SingleSTREAM, on one process: its best repetition and our best sample (its mean time is that of ten divided by nine), stores as its compiler chose them"
    };
    let pairing = Pairing::new("bandwidth", Match::Related, note, BEFORE);
    Some(Pairing { pairs: 1, seconds_scaled_down: Some(5.0), ..pairing })
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let processes = processes(&ask.case);
    let max_order = if ask.is_scaled_down { MAX_STREAM_ORDER_SCALED_DOWN } else { MAX_STREAM_ORDER };
    let order = match stream::kernel(&ask.case).and_then(|_| elements(&ask.case)) {
        // A third of each process's part of the matrix equals one array of the case.
        Some(elements) => {
            let n = ((elements * 3 * processes as u64) as f64).sqrt() as u64;
            let grid = ask.case.clone().with_count("p", 1).with_count("q", processes as u64);
            grid.with_count("n", n.min(max_order))
        }
        None => ask.case.clone(),
    };
    // An ignored line, and no further sizes for the transposition.
    let input = hpl::input(&order)? + "# ignored\n0\n0\n0\n0\n";
    let threads = ask.case.threads().div_ceil(processes.max(1));
    Ok(Invocation {
        files: vec![("hpccinf.txt", input)],
        environment: hpl::environment(ask, threads),
        output: Output::File(ANSWER),
        processes,
        answers_others: benchmark_name(&ask.case).is_some(),
        ..ask.call(Vec::new())
    })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let Some(kernel) = stream::kernel(case) else {
        let reading = hpl::parse(case, text)?;
        return match number_of(text, "Success")? {
            1.0 => Ok(reading),
            _ => Err("one of its checks failed".to_owned()),
        };
    };
    let (used, wanted) = (number_of(text, "STREAM_VectorSize")?, elements(case).unwrap_or(0) as f64);
    let part = if case.threads() > 1 { "StarSTREAM" } else { "SingleSTREAM" };
    let section = section(text, part)?;
    let op = kernel.0;
    let mut reading = stream::StreamRow::of(section, kernel, used, 1e9)?.best()?;
    if case.threads() > 1 {
        reading = of_all(section, op, case.threads() as f64, &reading)?;
    }
    let count = number_of(text, "CommWorldProcs")?;
    reading.record(&fact::PART, format!("{part} {op}"));
    reading.compare(&fact::ELEMENTS, used, wanted, 0.01);
    reading.record(&fact::PROCESSES, count);
    if (count - case.threads() as f64).abs() > 0.5 {
        return Err(format!("it ran {count} processes instead of {}", case.threads()));
    }
    Ok(reading)
}

/// Figures without a limit: key, factor, unit.
const OTHERS: [(&str, f64, Unit); 8] = [
    ("PTRANS_GBs", 1e9, Unit::BytePerSecond),
    ("MPIRandomAccess_GUPs", 1e9, Unit::PerSecond),
    ("StarRandomAccess_GUPs", 1e9, Unit::PerSecond),
    ("SingleRandomAccess_GUPs", 1e9, Unit::PerSecond),
    ("MPIFFT_Gflops", 1e9, Unit::FlopPerSecond),
    ("RandomlyOrderedRingBandwidth_GBytes", 1e9, Unit::BytePerSecond),
    ("RandomlyOrderedRingLatency_usec", 1e-6, Unit::Second),
    ("MaxPingPongLatency_usec", 1e-6, Unit::Second),
];

fn recognises(text: &str) -> bool {
    text.contains("HPC Challenge Benchmark") || text.contains("Begin of Summary section.")
}

fn starts(text: &str) -> Vec<usize> {
    line_starts(text, |line| line.contains("HPC Challenge Benchmark version"))
}

/// Reads the summary of hpcc's hpccoutf.txt.
fn read(text: &str) -> Result<Stated, String> {
    // A part that did not run has -1.
    let number = |key: &str| number_of(text, key).ok().filter(|number| *number != -1.0);
    let host = text.split_once("Hostname: '").and_then(|(_, rest)| rest.split('\'').next());
    let origin = StatedMachine { host: host.map(|host| shown_within(host, 64)), ..StatedMachine::default() };
    let mut stated = Stated { version: HPCC.version(text), origin, ..Stated::default() };
    let failed = (number("Success") == Some(0.0)).then(|| "one of its checks failed (Success=0)".to_owned());
    stated.trouble.clone_from(&failed);
    stated.figures.extend(solved(&number));
    for key in ["StarDGEMM_Gflops", "SingleDGEMM_Gflops"] {
        let case = Case::of("cpu.gemm").with_word("type", "f64").with_count("threads", AS_MANY_AS_CPUS);
        stated.figures.extend(number(key).map(|rate| cores(key, rate * 1e9, case.clone(), &number)));
    }
    stated.figures.extend(streams(&number));
    for (key, factor, unit) in OTHERS {
        let Some(value) = number(key).map(|value| value * factor) else { continue };
        let no = Err("plimsoll derives no limit for it".to_owned());
        let absurd = BoundedEvent::Message.too_short(value).filter(|_| unit == Unit::Second);
        stated.figures.push(StatedFigure { absurd, ..StatedFigure::new(key, value, unit, no) });
    }
    stated.figures.retain(|figure| figure.value != 0.0);
    if let Some(why) = failed {
        stated.figures.iter_mut().for_each(|figure| figure.void = Some(why.clone()));
    }
    stated.unless_empty("its summary has no figure")
}

fn cores(key: &str, rate: f64, case: Case, number: &impl Fn(&str) -> Option<f64>) -> StatedFigure {
    let mut figure = StatedFigure::like(key, rate, Unit::FlopPerSecond, case, "rate");
    let threads = number("CommWorldProcs").unwrap_or(1.0);
    let working_set = number("HPL_N").filter(|_| key == "HPL_Tflops").map(|n| 8.0 * n * n);
    figure.subject = Subject::Cores(CoreUse { threads, working_set, ..CoreUse::default() });
    figure
}

fn solved(number: &impl Fn(&str) -> Option<f64>) -> Option<StatedFigure> {
    let rate = number("HPL_Tflops")? * 1e12;
    let case = Case::of("cpu.linpack").with_count("threads", AS_MANY_AS_CPUS);
    let mut figure = cores("HPL_Tflops", rate, case, number);
    let work = number("HPL_N").map(plimsoll_bench_cpu::operations);
    let time = number("HPL_time").filter(|time| *time > 0.0);
    figure.account = work.zip(time).map(|(work, time)| Account::of(work, Seconds::of(time)));
    Some(figure)
}

fn streams(number: &impl Fn(&str) -> Option<f64>) -> Vec<StatedFigure> {
    let array = number("STREAM_VectorSize").map(|elements| elements * 8.0);
    let processes = number("CommWorldProcs").unwrap_or(1.0);
    let mut figures = Vec::new();
    for (part, processes) in [("StarSTREAM", processes), ("SingleSTREAM", 1.0)] {
        for (kernel, op) in stream::STREAM_KERNELS {
            let key = format!("{part}_{kernel}");
            let Some(rate) = number(&key) else { continue };
            let array = array.map(|bytes| bytes * processes);
            let used = MemoryUse { footprint: array.map(|bytes| bytes * 3.0), array, may_be_cache: false };
            figures.push(StatedFigure::of_memory(&key, rate * 1e9, (op.name(), processes), used));
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    const RECORDED: &str = "hpcc-1.5.0-1000.txt";

    #[test]
    fn its_matrix_is_chosen_so_that_its_arrays_are_as_long_as_ours() {
        let case: Case = "memory.bandwidth/op=triad/size=24000000/threads=1".parse().unwrap();
        assert_eq!(elements(&case), Some(1_000_000));
        let differs = parse(&case, &golden::body(RECORDED)).unwrap().differs;
        assert_eq!(differs, ["it ran with elements=333333 instead of 1000000"]);
    }

    #[test]
    fn for_several_threads_it_has_a_process_for_each_and_their_sum_counts() {
        let case: Case = "memory.bandwidth/op=copy/size=10666656/threads=2".parse().unwrap();
        let text = golden::body("hpcc-1.5.0-two-processes.txt");
        let reading = parse(&case, &text).unwrap();
        assert_eq!(reading.differs, Vec::<String>::new());
        assert_eq!(reading.achieved.get(&fact::PART).as_deref(), Some("StarSTREAM Copy"));
        assert_eq!(reading.achieved.get(&fact::PROCESSES).as_deref(), Some("2"));
        assert_eq!((benchmark_name(&case), processes(&case)), (Some("STREAM"), 2));
        let one = case.clone().with_count("threads", 1);
        assert!(parse(&one, &text).is_err(), "two processes are not one");
        let four = case.with_count("threads", 4);
        assert!(parse(&four, &text).unwrap_err().contains("2 processes"));
        let other = text.replace("Average Copy GB/s 42.4", "Average Copy GB/s 84.9");
        assert!(parse(&four.with_count("threads", 2), &other).unwrap_err().contains("contradict"));
        let linpack: Case = "cpu.linpack/n=1000/nb=192/threads=2".parse().unwrap();
        assert_eq!((benchmark_name(&linpack), processes(&linpack)), (None, 1));
    }

    #[test]
    fn all_operations_are_asked_for_by_one_command_and_too_large_arrays_are_shortened() {
        let invoked = |id: &str| golden::invoked(&HPCC, id, false);
        let order_at = |id: &str, is_scaled_down: bool| {
            let text = golden::invoked(&HPCC, id, is_scaled_down).files.remove(0).1;
            let line = |n: usize| text.lines().nth(n).unwrap().split_whitespace().next().unwrap().to_owned();
            [line(5), line(10), line(11)]
        };
        let order = |id: &str| order_at(id, false);
        let copy = "memory.bandwidth/op=copy/size=128M/threads=2";
        assert_eq!(invoked(copy), invoked("memory.bandwidth/op=triad/size=192M/threads=2"));
        assert_eq!(order(copy), ["7094", "1", "2"]);
        assert_eq!(order("memory.bandwidth/op=copy/size=256M/threads=1"), ["7094", "1", "1"]);
        assert_eq!(order("memory.bandwidth/op=copy/size=4G/threads=1"), ["8000", "1", "1"]);
        assert_eq!(order_at("memory.bandwidth/op=copy/size=4G/threads=2", true), ["1600", "1", "2"]);
        let [smaller, ..] = order_at("memory.bandwidth/op=copy/size=1M/threads=1", true);
        assert_eq!(smaller, "443", "it stays");
        assert_eq!((invoked(copy).processes, invoked(copy).answers_others), (2, true));
    }

    #[test]
    fn a_run_of_which_a_check_failed_is_no_figure() {
        let case: Case = "cpu.linpack/n=1000/nb=192/threads=1".parse().unwrap();
        let failed = golden::body(RECORDED).replace("Success=1", "Success=0");
        assert!(parse(&case, &failed).unwrap_err().contains("checks failed"));
    }
}
