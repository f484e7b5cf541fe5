//! Reads the output of STREAM 5.8 to 5.10: best rate per kernel, and size of arrays.

use super::{STREAM, STREAM_KERNELS, parse_row};
use crate::stated::prelude::*;

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
    for (name, op) in STREAM_KERNELS {
        // The last line may have lost its end.
        let row = parse_row(&format!("{text}\n"), name, 1e6).map_err(|why| stated.trouble = Some(why));
        let Ok((best, [_, least, _])) = row else { continue };
        let case =
            Case::of("memory.bandwidth").with_word("op", op.name()).with_count("threads", threads as u64);
        let mut figure = StatedFigure::like(name, best, Unit::BytePerSecond, case, "bandwidth");
        let array = elements.map(|elements| elements * word);
        figure.account = array.map(|bytes| Account::of(bytes * op.arrays() as f64, least));
        figure.void = failed.then(|| "its solution does not validate".to_owned());
        let footprint = array.map(|bytes| bytes * 3.0);
        figure.subject = Subject::Memory(MemoryUse { footprint, array, may_be_cache: false });
        stated.figures.push(figure);
    }
    stated.unless_empty("its table has no whole line")
}
