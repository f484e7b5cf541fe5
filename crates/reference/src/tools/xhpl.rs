//! HPL's own program, built by the user with MPI and BLAS libraries.

use plimsoll_bench_cpu::operations;

use super::hpl;

use crate::tools::prelude::*;

pub(super) const XHPL: RefTool = RefTool {
    name: "xhpl",
    checks: "dense linear system (HPL)",
    package: Package::Source(
        "curl -L https://netlib.org/benchmark/hpl/hpl-2.3.tar.gz | tar xz && cd hpl-2.3 && ./configure && make",
    ),
    // It has no such arguments, but prints its version above its results and with an error.
    version: ("", "HPLinpack "),
    only_with: hpl::BENCHMARKS,
    library: Some("blas"),
    results: ResultFormat::of_text("its HPL.out", recognises, starts, read),
    stderr_facts: hpl::core_type,
    pairing,
    invocation,
    parse: hpl::parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    hpl::pairing(case, 10.0 + hpl::expected_seconds(case))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    Ok(Invocation {
        files: vec![("HPL.dat", hpl::input(&ask.case)?)],
        environment: hpl::environment(ask, ask.case.threads()),
        ..ask.call(Vec::new())
    })
}

/// Lower-case words that occur only in results of builds for accelerators.
const ACCELERATED: [&str; 6] = ["nvidia", "rochpl", "cuda", "gpu", "hpl-mxp", "tesla"];

/// Returns whether a text is HPL's output and not hpcc's, which contains the same lines.
fn recognises(text: &str) -> bool {
    let is_result = |line: &str| hpl::columns(line).is_some();
    !text.contains("HPC Challenge") && (text.contains("HPLinpack") || text.lines().any(is_result))
}

fn starts(text: &str) -> Vec<usize> {
    let mut is_in_hpcc = false;
    line_starts(text, |line| {
        is_in_hpcc = line.contains("HPC Challenge Benchmark")
            || is_in_hpcc && !line.contains("End of HPC Challenge tests");
        !is_in_hpcc && line.trim_start().starts_with("HPLinpack ")
    })
}

/// Reads results of HPL (HPL.out): a line and a residual check per solved system.
fn read(text: &str) -> Result<Stated, String> {
    let mut stated = Stated { version: XHPL.version(text), ..Stated::default() };
    let lower = text.to_ascii_lowercase();
    let is_accelerated = ACCELERATED.iter().any(|name| lower.contains(name));
    for line in text.lines() {
        if let Some(words) = hpl::columns(line) {
            stated.figures.push(solved(&words, is_accelerated)?);
        } else if line.trim_start().starts_with("||Ax-b||")
            && line.contains("FAILED")
            && let Some(last) = stated.figures.last_mut()
        {
            last.void = Some("its residual check failed".to_owned());
        }
    }
    stated.unless_empty("it has no line of result (T/V N NB P Q Time Gflops)")
}

/// Parses the words `T/V N NB P Q Time Gflops`; fails unless numbers. If accelerated, has no limit.
fn solved(words: &[&str; hpl::RESULT_COLUMNS], is_accelerated: bool) -> Result<StatedFigure, String> {
    let number = |at: usize| -> Result<f64, String> {
        words[at].parse().map_err(|_| format!("'{}' is no number", shown_within(words[at], 40)))
    };
    let [n, nb, p, q, time, rate] = [number(1)?, number(2)?, number(3)?, number(4)?, number(5)?, number(6)?];
    let case = Case::of("cpu.linpack").with_count("threads", AS_MANY_AS_CPUS);
    let like = match is_accelerated {
        true => Err("accelerators made it, and plimsoll derives no limit for them".to_owned()),
        false => Ok(EquivalentCase::of(case, "rate")),
    };
    let mut figure =
        StatedFigure::new(&format!("N={n} NB={nb} P={p} Q={q}"), rate * 1e9, Unit::FlopPerSecond, like);
    let seconds = Seconds::printed(words[5])?;
    figure.account = (time > 0.0).then(|| Account::of(operations(n), seconds));
    figure.absurd = (!time.is_finite() || time < 0.0).then(|| format!("its time is {time} s"));
    figure.subject =
        Subject::Cores(CoreUse { threads: p * q, working_set: Some(8.0 * n * n), ..CoreUse::default() });
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "HPLinpack 2.3  --  High-Performance Linpack benchmark\n";

    #[test]
    fn a_failed_check_belongs_to_the_line_before_it() {
        let text = format!(
            "{HEADING}WR11C2R4 1000 192 1 2 0.06 1.051e+01\n||Ax-b||_oo/(eps) = 0.0039 ...... PASSED\n\
             WR11C2R4 2000 192 1 2 0.62 8.574e+00\n||Ax-b||_oo/(eps) = 99.0 ...... FAILED\n"
        );
        let stated = read(&text).unwrap();
        let void: Vec<bool> = stated.figures.iter().map(|figure| figure.void.is_some()).collect();
        assert_eq!((void, stated.version.as_deref()), (vec![false, true], Some("2.3")));
        assert_eq!(stated.figures[0].value, 10.51e9);
    }

    #[test]
    fn results_of_accelerators_have_no_limit() {
        let nvidia = "HPL-NVIDIA 23.10.0  -- NVIDIA accelerated HPL benchmark -- NVIDIA\n\
            WC0          264192  1024     4     2              113.05              1.087e+05 ( 1.359e+04)\n";
        assert!(recognises(nvidia));
        let figure = read(nvidia).unwrap().figures.remove(0);
        assert!(figure.value == 1.087e14 && figure.like.is_err(), "{figure:?}");
    }

    #[test]
    fn lines_within_the_results_of_hpcc_start_nothing() {
        let line = "WR11C2R4 1000 192 1 2 0.06 1.051e+01\n";
        let hpcc =
            format!("HPC Challenge Benchmark version 1.5\n{HEADING}{line}End of HPC Challenge tests.\n");
        assert!(starts(&hpcc).is_empty());
        assert_eq!(starts(&format!("{hpcc}{HEADING}{line}")), [hpcc.len()]);
    }

    #[test]
    fn a_time_that_no_run_has_is_absurd() {
        for time in ["-5.00", "nan", "inf"] {
            let stated = read(&format!("{HEADING}WR11C2R4 1000 192 1 2 {time} 1.051e+01\n")).unwrap();
            assert!(stated.figures[0].absurd.is_some(), "{time}");
        }
    }
}
