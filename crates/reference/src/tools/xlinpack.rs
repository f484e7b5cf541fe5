//! Intel's Optimized LINPACK Benchmark, `xlinpack_xeon64`. It counts 2/3·N³ + 2·N² operations, HPL
//! and plimsoll 2/3·N³ + 3/2·N²: the figure is converted.

use plimsoll_bench_cpu::operations;

use super::hpl;

use crate::tools::prelude::*;

const INPUT: &str = "lininput_plimsoll";
/// Alignment of arrays in KiB, as in its sample file.
const ALIGNMENT: u64 = 4;

/// Returns a leading dimension of at least `n`: a multiple of 8, not 16, as in the tool's sample.
fn leading(n: u64) -> u64 {
    let multiple = n.next_multiple_of(8);
    if multiple.is_multiple_of(16) { multiple + 8 } else { multiple }
}

/// Returns plimsoll's operation count for order `n`, divided by the tool's count.
fn factor(n: f64) -> f64 {
    (2.0 / 3.0 * n + 1.5) / (2.0 / 3.0 * n + 2.0)
}

pub(super) const XLINPACK: RefTool = RefTool {
    name: "xlinpack",
    checks: "dense linear system (Intel MKL)",
    program: Some("xlinpack_xeon64"),
    package: Package::Source(
        "curl -L https://downloadmirror.intel.com/793598/l_onemklbench_p_2024.0.0_49515.tgz | tar xz",
    ),
    version: ("-v", "LINPACK Benchmark version "),
    only_with: hpl::BENCHMARKS,
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let pairing = hpl::pairing(case, 10.0 + hpl::expected_seconds(case))?;
    let note = "× (2/3·N + 3/2) ÷ (2/3·N + 2), its count of operations; it chooses its blocks";
    Some(Pairing { definition: Match::Scaled, note, ..pairing })
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let n = DenseProblem::of(&ask.case).n.ok_or("the case has no n")?;
    let (lda, threads) = (leading(n), ask.case.threads().to_string());
    let title = "one case\nIntel(R) Optimized LINPACK Benchmark data\n";
    let file = format!(
        "{title}1 # number of tests\n{n} # problem sizes\n{lda} # leading dimensions\n1 # times to run a test\n{ALIGNMENT} # alignment values (in KBytes)\n"
    );
    Ok(Invocation {
        files: vec![(INPUT, file)],
        environment: vec![
            ("OMP_NUM_THREADS", threads.clone()),
            ("MKL_NUM_THREADS", threads),
            ("KMP_AFFINITY", "nowarnings,compact".to_owned()),
        ],
        // Prompts: data or help, equations, leading dimension, trials, alignment, continue.
        stdin: Some(format!("data\n{n}\n{lda}\n1\n{ALIGNMENT}\nno\n")),
        ..ask.call(vec![INPUT.to_owned()])
    })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let table = text.split_once("Residual(norm)").map(|(_, rest)| rest);
    let table = table.ok_or("its output has no table (Size LDA Align. Time(s) GFlops Residual)")?;
    let wanted = DenseProblem::of(case).n;
    let rows = whole_lines(table).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows = rows.take_while(|words| words.first() != Some(&"Performance"));
    let found = rows.find_map(|words| {
        // Size LDA Align. Time(s) GFlops Residual Residual(norm) Check.
        let [n, _, _, time, rate, _, _, check] = words[..] else { return None };
        let n = n.parse::<u64>().ok().filter(|n| wanted.is_none_or(|wanted| wanted == *n))?;
        Some((n as f64, time, rate, check))
    });
    let (n, time, rate, check) = found.ok_or("its table has no line of this order")?;
    if check != "pass" {
        return Err("its residual check failed".to_owned());
    }
    let rate: f64 = rate.parse().map_err(|_| "its GFlops are no number")?;
    let account = Account::of(operations(n), Seconds::printed(time)?);
    let mut reading = ToolFigure::of(rate * 1e9 * factor(n), account)?;
    reading.record(&fact::N, n);
    if let Ok(threads) = number_after(text, "Number of threads:") {
        reading.compare(&fact::THREAD_COUNT, threads, case.threads() as f64, 0.0);
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leading_dimension_holds_the_matrix_and_avoids_a_power_of_two() {
        for n in 1..5000 {
            let lda = leading(n);
            assert!(lda >= n && lda < n + 16 && lda % 16 == 8, "{n}: {lda}");
        }
    }
}
