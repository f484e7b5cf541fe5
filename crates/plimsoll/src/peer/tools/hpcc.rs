//! HPC Challenge: its HPL section beside our solver, and its STREAM on one process beside our bandwidth.
//!
//! It runs all of its parts, and HPL last; so one reading takes a minute. Its arrays of STREAM follow from the order of
//! its matrix: a third of the matrix each.

use super::super::{Ask, Invocation, Match, Output, Package, Pairing, Peer, Reading, Tool};
use super::{hpl, stream};
use crate::case::Case;
use crate::machine::Machine;

/// The tool.
pub(super) struct Hpcc;

/// Where it writes all that it finds.
const ANSWER: &str = "hpccoutf.txt";
/// Seconds of the parts that come before HPL, for an order of some thousands.
const BEFORE: f64 = 60.0;
/// Bytes of a number.
const WORD: u64 = 8;
/// Its arrays of STREAM.
const ARRAYS: u64 = 3;

/// Our operation in its STREAM, which has one thread.
fn kernel(case: &Case) -> Option<stream::Kernel> {
    stream::kernel(case).filter(|_| case.threads() == 1)
}

/// Elements of each of our arrays.
fn elements(case: &Case) -> Option<u64> {
    let arrays = if matches!(case.word("op")?, "copy" | "scale") { 2 } else { 3 };
    Some(case.number("size")? / arrays / WORD)
}

/// The value of `KEY=` in the summary, which must be whole.
fn summary(text: &str, key: &str) -> Result<f64, String> {
    let value = text.split_inclusive('\n').find_map(|line| line.strip_prefix(key)?.strip_suffix('\n'));
    let value = value.ok_or_else(|| format!("its summary has no {}", key.trim_end_matches('=')))?;
    value.trim().parse().map_err(|_| format!("its {key} is '{}'", crate::text::shown_within(value, 40)))
}

/// What it is.
const TOOL: Tool = Tool {
    name: "hpcc",
    checks: "dense linear system (HPL), STREAM on one process",
    programs: &["hpcc"],
    package: Package::Debian("hpcc"),
    // It takes none; without its input it measures nothing and leaves a head with its version.
    version_after: "Benchmark version ",
    only_with: hpl::BENCHMARKS,
    library: Some("blas"),
    ..Tool::NONE
};

impl Peer for Hpcc {
    fn tool(&self) -> &'static Tool {
        &TOOL
    }

    fn aside(&self, stderr: &str) -> Vec<(&'static str, String)> {
        hpl::core_type(stderr)
    }

    fn declines(&self, case: &Case) -> Option<&'static str> {
        (case.benchmark() == "memory.bandwidth")
            .then_some("it has STREAM's copy, scale, add and triad, on one process")
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        if kernel(case).is_some() {
            elements(case)?;
            let note = "STREAM on one process: its best repetition and our best sample (its mean time is that of ten divided by nine), stores as its compiler chose them";
            let pairs = hpl::PAIRS;
            return Some(Pairing {
                metric: "program",
                definition: Match::Related,
                note,
                seconds: BEFORE,
                pairs,
            });
        }
        hpl::pairing(case, BEFORE + hpl::factorising(case))
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        let order = match elements(ask.case).filter(|_| kernel(ask.case).is_some()) {
            // So that a third of the matrix is one of our arrays.
            Some(elements) => ask.case.clone().with_count("n", ((elements * ARRAYS) as f64).sqrt() as u64),
            None => ask.case.clone(),
        };
        // A line between, and no further sizes for its transposition.
        let input = hpl::input(&order)? + "# ignored\n0\n0\n0\n0\n";
        Ok(Invocation {
            program: "hpcc",
            files: vec![("hpccinf.txt", input)],
            environment: hpl::environment(ask),
            cpus: ask.offer.cpus.clone(),
            output: Output::File(ANSWER),
            ..Invocation::default()
        })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String> {
        let Some(kernel) = kernel(case) else {
            let reading = hpl::parse(case, text)?;
            return match summary(text, "Success=")? {
                1.0 => Ok(reading),
                _ => Err("one of its checks failed".to_owned()),
            };
        };
        let (used, wanted) = (summary(text, "STREAM_VectorSize=")?, elements(case).unwrap_or(0) as f64);
        let (_, section) = text
            .split_once("Begin of SingleSTREAM section")
            .ok_or("its output has no 'Begin of SingleSTREAM section'")?;
        let mut reading = stream::Row::of(section, &kernel, used, 1e9)?.best()?;
        reading.achieved.insert(
            "part".to_owned(),
            format!("STREAM {} on one process", case.word("op").unwrap_or_default()),
        );
        reading.achieved.insert("elements".to_owned(), used.to_string());
        if (used / wanted - 1.0).abs() > 0.01 {
            reading.differs.push(format!("its arrays had {used} elements where ours have {wanted}"));
        }
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    const RECORDED: &str = include_str!("../../../tests/fixtures/peers/hpcc-1.5.0-1000.txt");

    #[test]
    fn its_matrix_is_chosen_so_that_its_arrays_are_as_long_as_ours() {
        let case: Case = "memory.bandwidth/op=triad/size=24000000/threads=1".parse().unwrap();
        assert_eq!(elements(&case), Some(1_000_000));
        let differs = Hpcc.parse(&case, &golden::body(RECORDED)).unwrap().differs;
        assert_eq!(differs, ["its arrays had 333333 elements where ours have 1000000"]);
    }

    #[test]
    fn a_run_of_which_a_check_failed_is_no_figure() {
        let case: Case = "cpu.linpack/n=1000/nb=192/threads=1".parse().unwrap();
        let failed = golden::body(RECORDED).replace("Success=1", "Success=0");
        assert!(Hpcc.parse(&case, &failed).unwrap_err().contains("checks failed"));
    }
}
