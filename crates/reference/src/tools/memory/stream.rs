//! STREAM (J. D. McCalpin), built by the user: its arrays have a fixed size. It prints the best
//! rate, but plimsoll's samples are means, so the rate is computed from the mean time.

use crate::tools::prelude::*;

/// STREAM's kernels, as its table and hpcc name them.
pub(crate) const STREAM_KERNELS: [(&str, StreamOp); 4] = [
    ("Copy", StreamOp::Copy),
    ("Scale", StreamOp::Scale),
    ("Add", StreamOp::Add),
    ("Triad", StreamOp::Triad),
];

/// Returns STREAM's kernel for the operation of the case; `None` if it has none.
pub(crate) fn kernel(case: &Case) -> Option<(&'static str, StreamOp)> {
    let wanted = MemoryStream::of(case).ok()?.op;
    STREAM_KERNELS.into_iter().find(|(_, op)| *op == wanted)
}

/// Parses the rate in B/s, and mean, minimum and maximum time, in the line of the kernel `name`:
/// `Copy: BEST-RATE AVG-TIME MIN-TIME MAX-TIME`. `unit` is the B/s of a printed 1.
fn parse_row(table: &str, name: &str, unit: f64) -> Result<(f64, [Seconds; 3]), String> {
    let line = whole_lines(table).find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.ok_or_else(|| format!("its output has no line {name}:"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let [best, mean, least, most] = words[..] else { return Err(format!("its line {name}: is cut off")) };
    let best = best.parse::<f64>().map_err(|_| format!("its line {name}: has no rate"))? * unit;
    Ok((best, [Seconds::printed(mean)?, Seconds::printed(least)?, Seconds::printed(most)?]))
}

/// A line of the table with the bytes that a repetition moves.
pub(crate) struct StreamRow {
    bytes: f64,
    best: f64,
    times: [Seconds; 3],
}

impl StreamRow {
    /// Parses the line of a kernel in `table`, for arrays of `elements` numbers, as [`parse_row`].
    /// Fails if the line is incomplete, or best rate and shortest time differ.
    pub(crate) fn of(
        table: &str,
        (name, op): (&str, StreamOp),
        elements: f64,
        unit: f64,
    ) -> Result<Self, String> {
        const WORD: f64 = 8.0;
        let (best, times) = parse_row(table, name, unit)?;
        let bytes = elements * op.arrays() as f64 * WORD;
        let wrong = Account::of(bytes, times[1]).contradicts(best, Unit::BytePerSecond, f64::INFINITY);
        wrong.map_or(Ok(Self { bytes, best, times }), Err)
    }

    /// Returns the mean rate; the best, marked so, if the mean time is rounded by over 2 % or not
    /// between minimum and maximum. Fails if the rate is not finite and positive.
    pub(crate) fn mean(&self) -> Result<ToolFigure, String> {
        const MEAN_TIME_ROUNDING: f64 = 0.02;
        let [mean, least, most] = self.times;
        let between = least.value() <= mean.value() && mean.value() <= most.value();
        if !between || mean.rounding() > MEAN_TIME_ROUNDING {
            return self.best();
        }
        ToolFigure::of(self.bytes / mean.value(), Account::of(self.bytes, mean))
    }

    pub(crate) fn best(&self) -> Result<ToolFigure, String> {
        Ok(ToolFigure::of(self.best, Account::of(self.bytes, self.times[1]))?.best())
    }
}

pub(crate) const STREAM: RefTool = RefTool {
    name: "stream",
    checks: "memory copy, scale, add, triad",
    package: Package::Source(
        "curl -LO https://www.cs.virginia.edu/stream/FTP/Code/stream.c && gcc -O3 -march=native -fopenmp stream.c -o stream",
    ),
    // It has no arguments, and would start to measure.
    version: ("", "$Revision: "),
    results: ResultFormat::of_text("its text output", recognises, starts, read),
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    kernel(case)?;
    let note = "bytes ÷ the mean time of its repetitions, arrays of the size it was compiled for";
    Some(Pairing::new("bandwidth", Match::Related, note, 3.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let environment =
        vec![("OMP_NUM_THREADS", ask.case.threads().to_string()), ("OMP_PROC_BIND", "true".to_owned())];
    Ok(Invocation { environment, ..ask.call(Vec::new()) })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let kernel = kernel(case).ok_or("it has no such kernel")?;
    let elements = number_after(text, "Array size = ")?;
    let mut reading = StreamRow::of(text, kernel, elements, 1e6)?.mean()?;
    if !text.contains("\nSolution Validates") {
        return Err("its solution does not validate".to_owned());
    }
    reading.record(&fact::ELEMENTS, elements);
    // Without OpenMP it prints no threads.
    let threads = number_after(text, "Number of Threads counted = ").unwrap_or(1.0);
    reading.compare(&fact::THREAD_COUNT, threads, case.threads() as f64, 0.0);
    Ok(reading)
}

fn recognises(text: &str) -> bool {
    let has = |line: &str| text.contains(line);
    has("\nTriad:") && (has("STREAM version") || has("Array size =") && has("Function"))
}

fn starts(text: &str) -> Vec<usize> {
    line_starts(text, |line| line.starts_with("STREAM version"))
}

/// Reads the output of STREAM 5.8 to 5.10: best rate per kernel, and size of arrays.
fn read(text: &str) -> Result<Stated, String> {
    let mut stated = Stated { version: STREAM.version(text), ..Stated::default() };
    let elements = number_after(text, "Array size =").ok();
    let word = number_after(text, "This system uses").unwrap_or(8.0);
    let threads = ["Number of Threads counted =", "Number of Threads requested ="];
    let threads = threads.iter().find_map(|label| number_after(text, label).ok()).unwrap_or(1.0);
    let failed = text.contains("Failed Validation");
    for (name, op) in STREAM_KERNELS {
        // The last line may have lost its end.
        let row = parse_row(&format!("{text}\n"), name, 1e6).map_err(|why| stated.trouble = Some(why));
        let Ok((best, [_, least, _])) = row else { continue };
        let array = elements.map(|elements| elements * word);
        let used = MemoryUse { footprint: array.map(|bytes| bytes * 3.0), array, may_be_cache: false };
        let mut figure = StatedFigure::of_memory(name, best, (op.name(), threads), used);
        figure.account = array.map(|bytes| Account::of(bytes * op.arrays() as f64, least));
        figure.void = failed.then(|| "its solution does not validate".to_owned());
        stated.figures.push(figure);
    }
    stated.unless_empty("its table has no whole line")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::golden;

    fn copy() -> Case {
        "memory.bandwidth/op=copy/size=1G/threads=2".parse().unwrap()
    }

    #[test]
    fn a_mean_time_of_few_digits_or_of_none_of_its_times_gives_the_best_rate() {
        let kernel = kernel(&copy()).unwrap();
        let read = |line: &str| StreamRow::of(line, kernel, 1e6, 1e6).and_then(|row| row.mean());
        let mean = read("Copy:  20000.0  0.001000  0.000800  0.001300\n").unwrap();
        assert_eq!((mean.value, mean.achieved.is_empty()), (16e6 / 0.001, true));
        for line in
            ["Copy:  20000.0  0.0010  0.0008  0.0013\n", "Copy:  20000.0  0.001400  0.000800  0.001300\n"]
        {
            let best = read(line).unwrap();
            let statistic = best.achieved.get(&fact::STATISTIC);
            assert_eq!((best.value, statistic.as_deref()), (20e9, Some("best")), "{line}");
        }
        let why = read("Copy:  200000.0  0.001000  0.000800  0.001300\n").unwrap_err();
        assert!(why.contains("contradicts its own run time"), "{why}");
        assert!(read("Copy:  20000.0  0.001000  0.000800\n").is_err() && read("Copy:").is_err());
    }

    #[test]
    fn a_solution_that_does_not_validate_is_no_figure() {
        let text = golden::body("stream-5.10-2threads.txt");
        let failed = text.replace("Solution Validates", "Failed Validation");
        assert!(parse(&copy(), &failed).unwrap_err().contains("validate"));
    }
}
