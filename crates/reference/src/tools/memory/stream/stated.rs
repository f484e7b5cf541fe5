//! Reads the output of STREAM 5.8 to 5.10: best rate per kernel, and size of arrays.

use super::{BestRepetition, STREAM, StreamTableKernel};
use crate::stated::prelude::*;

const STATED_KERNELS: [(StreamTableKernel, &str); 4] = [
    (StreamTableKernel { row: "Copy:", arrays: 2 }, "copy"),
    (StreamTableKernel { row: "Scale:", arrays: 2 }, "scale"),
    (StreamTableKernel { row: "Add:", arrays: 3 }, "add"),
    (StreamTableKernel { row: "Triad:", arrays: 3 }, "triad"),
];

pub(super) fn recognises(text: &str) -> bool {
    let has = |line: &str| text.contains(line);
    has("\nTriad:") && (has("STREAM version") || has("Array size =") && has("Function"))
}

pub(super) fn starts(text: &str) -> Vec<usize> {
    line_starts(text, |line| line.starts_with("STREAM version"))
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    let mut stated = Stated::by(STREAM.name, STREAM.version(text).as_deref());
    let elements = number_after(text, "Array size =").ok();
    let word = number_after(text, "This system uses").unwrap_or(8.0);
    let threads = ["Number of Threads counted =", "Number of Threads requested ="];
    let threads = threads.iter().find_map(|label| number_after(text, label).ok()).unwrap_or(1.0);
    let failed = text.contains("Failed Validation");
    for (kernel, op) in STATED_KERNELS {
        let BestRepetition { best, least } = match BestRepetition::of(text, &kernel) {
            Ok(line) => line,
            Err(why) => {
                stated.trouble = Some(format!("its line {} cannot be read: {why}", kernel.row));
                continue;
            }
        };
        let case = Case::of("memory.bandwidth").with_word("op", op).with_count("threads", threads as u64);
        let mut figure =
            StatedFigure::like(kernel.name(), best * 1e6, Unit::BytePerSecond, case, "bandwidth");
        let array = elements.map(|elements| elements * word);
        figure.account = array.map(|bytes| Account::of(bytes * kernel.arrays as f64, least));
        figure.void = failed.then(|| "its solution does not validate".to_owned());
        let footprint = array.map(|bytes| bytes * 3.0);
        figure.subject = Subject::Memory(MemoryUse { footprint, array, may_be_cache: false });
        stated.figures.push(figure);
    }
    stated.unless_empty("its table has no whole line")
}

impl BestRepetition {
    /// Parses the best rate and the shortest time of `kernel` in STREAM's table.
    fn of(table: &str, kernel: &StreamTableKernel) -> Result<Self, String> {
        let line = table.lines().find_map(|line| line.strip_prefix(kernel.row)).ok_or("no line")?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [best, _, least, _] = words[..] else { return Err("cut off".to_owned()) };
        Ok(Self { best: best.parse().map_err(|_| "no rate")?, least: Seconds::printed(least)? })
    }
}
