//! cyclictest (rt-tests): wake-ups of a thread by clock_nanosleep at an interval, in whole µs.

use crate::tools::prelude::*;
use plimsoll_model::job::os::{CaseWord, Sleep, wake_interval};

/// Returns the case's wake-up interval in µs; `None` if cyclictest does not measure such a case.
fn interval_micros(case: &Case) -> Option<f64> {
    let sleep = Sleep::of(case).filter(|_| case.benchmark() == "os.wake")?;
    let micros = (wake_interval(case)?.as_secs_f64() * 1e6).round().max(1.0);
    (sleep != Sleep::LeastSlack).then_some(micros)
}

pub(crate) const CYCLICTEST: RefTool = RefTool {
    name: "cyclictest",
    checks: "wake-up latency (rt-tests)",
    package: Package::Debian("rt-tests"),
    version: ("--help", "cyclictest V "),
    explains: &["os.wake"],
    declines: |_| "it keeps the usual timer slack, or runs in real time",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    interval_micros(case)?;
    has_only_parameters(case, "op interval affinity threads").then_some(())?;
    (case.threads() == 1).then_some(())?;
    let note = "the same sleep at the same interval; it rounds its mean down to microseconds";
    Some(Pairing::new("latency", Match::Exact, note, 1.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let interval = interval_micros(&ask.case).ok_or("it has no such sleep")?;
    let loops = (ask.seconds * 1e6 / interval).max(100.0) as u64;
    // --laptop leaves the idle states of the CPUs as they are.
    let realtime = if Sleep::of(&ask.case) == Some(Sleep::Realtime) { "-p 1" } else { "" };
    Ok(ask.call(words(&format!("-q --laptop -t 1 -i {interval} -l {loops} {realtime}"))))
}

fn parse(_: &Case, text: &str) -> Result<ToolFigure, String> {
    let [count, least, mean, most] = ["C:", "Min:", "Avg:", "Max:"].map(|label| number_after(text, label));
    let (count, least, mean, most) = (count?, least?, mean?, most?);
    if !(least <= mean && mean <= most) {
        return Err(format!("its mean {mean} is not between its minimum {least} and maximum {most}"));
    }
    ToolFigure::of(mean * 1e-6, Account::of(count, Seconds::OF_ITS_LIFE))
}
