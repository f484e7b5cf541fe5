//! Shared by `hpcc` and `xhpl`, which run HPL with the same input and print the same result line.
//! One process has all BLAS threads of the case (P × Q = 1 × 1): no message passing.

use crate::tools::prelude::*;
use plimsoll_bench_cpu::operations;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::Element;

pub(super) const BENCHMARKS: &[&str] = &["cpu.linpack", "cpu.hpl"];

/// Number of pairs: each reading is at least one factorisation.
pub(super) const HPL_PAIRS: usize = 3;

pub(super) const RESULT_COLUMNS: usize = 7;

/// Returns HPL's pairing if `case` solves a dense f64 system; a run's `seconds` set its time limit.
pub(super) fn pairing(case: &Case, seconds: f64) -> Option<Pairing> {
    let is_f64 = CpuKernel::of(case).element.is_none_or(|element| element == Element::F64);
    let solves = BENCHMARKS.contains(&case.benchmark()) && is_f64;
    let note = "the same order, blocks and count of operations; the BLAS library decides";
    solves.then(|| Pairing { pairs: HPL_PAIRS, ..Pairing::new("rate", Match::Exact, note, seconds) })
}

/// Returns the seconds to solve the case at 4 GFLOP/s per thread, the lowest in twenty years.
pub(super) fn expected_seconds(case: &Case) -> f64 {
    const SLOW: f64 = 4e9;
    let n = DenseProblem::of(case).n.unwrap_or(0) as f64;
    2.0 / 3.0 * n.powi(3) / (SLOW * case.threads() as f64)
}

/// Returns the environment variables of OpenBLAS and Debian's other BLAS libraries: `threads` per
/// process, and the core type for the case's `isa`.
pub(super) fn environment(ask: &InvocationInput, threads: usize) -> Vec<(&'static str, String)> {
    let threads = threads.to_string();
    let mut all = vec![
        ("OPENBLAS_NUM_THREADS", threads.clone()),
        ("OMP_NUM_THREADS", threads.clone()),
        ("BLIS_NUM_THREADS", threads),
        ("OPENBLAS_VERBOSE", "2".to_owned()),
    ];
    let core = match CpuKernel::of(&ask.case).isa {
        Some(Isa::Avx512) => Some("SkylakeX"),
        Some(Isa::Avx2) => Some("Haswell"),
        _ => None,
    };
    all.extend(core.map(|core| ("OPENBLAS_CORETYPE", core.to_owned())));
    all
}

/// Returns the text of HPL.dat, also the first 31 lines of hpccinf.txt. All values except N, NB, P
/// and Q are HPL's defaults. Fails if the case has no N.
pub(super) fn input(case: &Case) -> Result<String, String> {
    const USUAL_BLOCK: u64 = 192;
    let DenseProblem { n, nb, grid } = DenseProblem::of(case);
    let n = n.ok_or("the case has no n")?.to_string();
    let nb = nb.unwrap_or(USUAL_BLOCK).to_string();
    let [p, q] = grid.map(|count| count.unwrap_or(1).to_string());
    let lines: &[[&str; 2]] = &[
        ["HPLinpack benchmark input file", ""],
        ["written for one case", ""],
        ["HPL.out", "output file name (if any)"],
        ["6", "device out (6=stdout,7=stderr,file)"],
        ["1", "# of problems sizes (N)"],
        [&n, "Ns"],
        ["1", "# of NBs"],
        [&nb, "NBs"],
        ["0", "PMAP process mapping (0=Row-,1=Column-major)"],
        ["1", "# of process grids (P x Q)"],
        [&p, "Ps"],
        [&q, "Qs"],
        ["16.0", "threshold"],
        ["1", "# of panel fact"],
        ["2", "PFACTs (0=left, 1=Crout, 2=Right)"],
        ["1", "# of recursive stopping criterium"],
        ["4", "NBMINs (>= 1)"],
        ["1", "# of panels in recursion"],
        ["2", "NDIVs"],
        ["1", "# of recursive panel fact."],
        ["1", "RFACTs (0=left, 1=Crout, 2=Right)"],
        ["1", "# of broadcast"],
        ["1", "BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)"],
        ["1", "# of lookahead depth"],
        ["1", "DEPTHs (>=0)"],
        ["2", "SWAP (0=bin-exch,1=long,2=mix)"],
        ["64", "swapping threshold"],
        ["0", "L1 in (0=transposed,1=no-transposed) form"],
        ["0", "U  in (0=transposed,1=no-transposed) form"],
        ["1", "Equilibration (0=no,1=yes)"],
        ["8", "memory alignment in double (> 0)"],
    ];
    Ok(lines.iter().map(|[value, about]| format!("{value:<12} {about}\n")).collect())
}

/// Parses the core type that OpenBLAS prints to standard error; empty if there is none.
pub(super) fn core_type(stderr: &str) -> Vec<ToolFact> {
    let core = stderr.lines().find_map(|line| line.strip_prefix("Core: "));
    core.map(|core| (fact::BLAS_CORE, shown_within(core.trim(), 40))).into_iter().collect()
}

/// Returns the words of a line `WR11C2R4 N NB P Q Time Gflops` (or more); `None` for other lines.
pub(super) fn columns(line: &str) -> Option<[&str; RESULT_COLUMNS]> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let columns: [&str; RESULT_COLUMNS] = *words.first_chunk()?;
    let [variant, counts @ .., _, _] = columns;
    let is_variant = variant.len() >= 3 && (variant.starts_with("WR") || variant.starts_with("WC"));
    (is_variant && counts.iter().all(|word| word.parse::<u64>().is_ok())).then_some(columns)
}

/// Parses the result line. Fails if the residual check has not passed; records other N, NB, P, Q.
pub(super) fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let words = whole_lines(text).find_map(columns);
    let words = words.ok_or("its output has no line of result (T/V N NB P Q Time Gflops)")?;
    let column = |at: usize, name: &str| number(name, words[at]);
    let checked = text.lines().find(|line| line.starts_with("||Ax-b||"));
    let residual = checked.and_then(|line| line.split('=').next_back()?.split_whitespace().next());
    match checked.and_then(|line| line.split_whitespace().last()) {
        Some("PASSED") => {}
        Some("FAILED") => return Err("its residual check failed".to_owned()),
        _ => return Err("its output has no residual check".to_owned()),
    }
    let account = Account::of(operations(column(1, "N")?), Seconds::printed(words[5])?);
    let mut reading = ToolFigure::of(column(6, "Gflops")? * 1e9, account)?;
    if let Some(residual) = residual {
        reading.record(&fact::RESIDUAL, residual);
    }
    let DenseProblem { n, nb, grid: [p, q] } = DenseProblem::of(case);
    for (at, row, wanted) in [(1, fact::N, n), (2, fact::NB, nb), (3, fact::P, p), (4, fact::Q, q)] {
        let used = column(at, row.name)? as u64;
        reading.compare(&row, used as f64, wanted.unwrap_or(used) as f64, 0.0);
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(n: u64) -> Case {
        Case::of("cpu.linpack").with_count("n", n).with_count("nb", 192).with_word("isa", "avx512")
    }

    #[test]
    fn the_input_has_hpls_lines_in_their_order() {
        let text = input(&case(7200)).unwrap();
        let values: Vec<&str> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(values.len(), 31);
        assert_eq!((values[5], values[7], values[10], values[11]), ("7200", "192", "1", "1"));
        assert!(input(&Case::of("cpu.linpack")).is_err());
    }

    #[test]
    fn a_failed_check_is_no_figure() {
        let line = "WR11C2R4        1000   192     1     1               0.06              1.051e+01\n";
        let failed = format!("{line}||Ax-b||_oo/(eps*…)*N)=       99.0 ...... FAILED\n");
        assert!(parse(&case(1000), &failed).unwrap_err().contains("residual"));
        let passed = failed.replace("FAILED", "PASSED");
        assert_eq!(parse(&case(1000), &passed).unwrap().value, 10.51e9);
        assert_eq!(parse(&case(2000), &passed).unwrap().differs, ["it ran with n=1000 instead of 2000"]);
    }

    #[test]
    fn the_core_type_is_read() {
        let reported = core_type("x\nCore: SkylakeX\n");
        assert_eq!((reported[0].0.name, reported[0].1.as_str()), ("blas_core", "SkylakeX"));
        assert!(core_type("").is_empty());
    }
}
