//! STREAM (J. D. McCalpin), built by the user: the size of its arrays is fixed when it is compiled.
//!
//! It counts as our `program` does, per 10⁶, and reports the best of its repetitions where ours is a median; its
//! arrays need not be ours, so it is told what they were.

use super::super::{Ask, Invocation, Match, Package, Pairing, Peer, Reading, Tool};
use super::number_after;
use crate::case::Case;
use crate::machine::Machine;

/// The tool.
pub(super) struct Stream;

fn row(case: &Case) -> Option<&'static str> {
    (case.benchmark() == "memory.bandwidth").then_some(())?;
    match case.word("op")? {
        "copy" => Some("Copy:"),
        "scale" => Some("Scale:"),
        "add" => Some("Add:"),
        "triad" => Some("Triad:"),
        _ => None,
    }
}

/// What it is.
const TOOL: Tool = Tool {
    name: "stream",
    checks: "memory copy, scale, add, triad",
    programs: &["stream"],
    package: Package::Source("www.cs.virginia.edu/stream (gcc -O3 -march=native -fopenmp)"),
    // It takes none and would measure.
    version_after: "$Revision: ",
    ..Tool::NONE
};

impl Peer for Stream {
    fn tool(&self) -> &'static Tool {
        &TOOL
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        row(case)?;
        let note = "the best of its repetitions, arrays of the size it was compiled for";
        Some(Pairing {
            metric: "program",
            definition: Match::Related,
            note,
            seconds: 3.0,
            pairs: Pairing::PAIRS,
        })
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        let environment =
            vec![("OMP_NUM_THREADS", ask.case.threads().to_string()), ("OMP_PROC_BIND", "true".to_owned())];
        Ok(Invocation {
            program: "stream",
            environment,
            cpus: ask.offer.cpus.clone(),
            ..Invocation::default()
        })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String> {
        let row = row(case).ok_or("it has no such kernel")?;
        let line = text.split_inclusive('\n').find(|line| line.starts_with(row));
        let line = line.ok_or_else(|| format!("its output has no line {row}"))?;
        if line.split_whitespace().count() < 5 {
            return Err(format!("its line {row} is cut off"));
        }
        let mut reading = Reading::of(number_after(line, row)? * 1e6)?;
        if !text.contains("\nSolution Validates") {
            return Err("its solution does not validate".to_owned());
        }
        if let Ok(elements) = number_after(text, "Array size = ") {
            reading.achieved.insert("elements".to_owned(), elements.to_string());
        }
        // Built without OpenMP it says nothing of threads.
        let threads = number_after(text, "Number of Threads counted = ").unwrap_or(1.0);
        reading.achieved.insert("threads".to_owned(), threads.to_string());
        if (threads - case.threads() as f64).abs() > 0.5 {
            let thread = if threads > 1.0 { "threads" } else { "thread" };
            reading.differs.push(format!("it used {threads} {thread} where ours has {}", case.threads()));
        }
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    const TWO: &str = include_str!("../../../tests/fixtures/peers/stream-5.10-2threads.txt");
    const SERIAL: &str = include_str!("../../../tests/fixtures/peers/stream-5.10-serial.txt");

    fn case(op: &str, threads: u64) -> Case {
        Case::of("memory.bandwidth")
            .with_word("op", op)
            .with_size("size", 1 << 30)
            .with_count("threads", threads)
    }

    #[test]
    fn recorded_output_is_read() {
        let value = |op| Stream.parse(&case(op, 2), &golden::body(TWO)).unwrap().value;
        assert_eq!(value("copy"), 57_026.0e6);
        assert_eq!(value("triad"), 49_849.4e6);
    }

    #[test]
    fn other_threads_than_ours_are_told_also_by_a_build_that_has_one_only() {
        let differs = |recording, threads| {
            Stream.parse(&case("add", threads), &golden::body(recording)).unwrap().differs
        };
        assert_eq!(differs(TWO, 1), ["it used 2 threads where ours has 1"]);
        assert_eq!(differs(SERIAL, 2), ["it used 1 thread where ours has 2"]);
        assert_eq!(differs(SERIAL, 1), Vec::<String>::new());
    }

    #[test]
    fn a_solution_that_does_not_validate_is_no_figure() {
        let failed = golden::body(TWO).replace("Solution Validates", "Failed Validation");
        assert!(Stream.parse(&case("copy", 2), &failed).unwrap_err().contains("validate"));
    }
}
