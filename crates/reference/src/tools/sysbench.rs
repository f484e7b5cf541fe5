//! sysbench cpu: prime numbers by trial division, with one integer remainder per divisor up to the
//! root. It is only related: plimsoll measures quotients.

mod stated;

use crate::tools::prelude::*;
use stated::{read, recognises, starts};

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
    programs: &["sysbench"],
    package: Package::Debian("sysbench"),
    version_arguments: &["--version"],
    version_after: "sysbench ",
    results: ResultFormat::of_text("text output of cpu, memory and fileio", recognises, starts, read),
    declines: |case| {
        (case.benchmark() == "cpu.peak")
            .then_some("its events are integer remainders: compare it with --op div")
    },
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let asked = case.word("op") == Some("div") && case.number("chains").is_none();
    (case.benchmark() == "cpu.peak" && asked).then_some(())?;
    let note = "events × 117 526 integer remainders each, as its loops take them";
    Some(Pairing::new("rate", Match::Related, note, 1.1))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let prime = format!("--cpu-max-prime={LARGEST_PRIME}");
    let (threads, time) = (ask.case.threads(), ask.seconds.ceil().max(1.0));
    let arguments =
        words(&["cpu", &prime, &format!("--threads={threads}"), &format!("--time={time}"), "run"]);
    Ok(ask.call("sysbench", arguments))
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
