//! `perf bench`: the same loops around getppid(2) and around two pipes; means over the whole run.

use crate::tools::prelude::*;
use plimsoll_metal::os::link::LinkKind;
use plimsoll_model::job::os::{CallKind, CaseWord, FollowerKind, SharedPart};

struct PerfBench {
    words: &'static str,
    /// Name of its operations in its output.
    counted: &'static str,
    /// Figures of plimsoll in one operation.
    times: f64,
    /// Operations in a second on an average machine.
    pace: f64,
}

const SYSCALL: PerfBench =
    PerfBench { words: "bench syscall basic", counted: " getppid() calls", times: 1.0, pace: 5e6 };
const PIPE: PerfBench = PerfBench {
    words: "bench sched pipe",
    counted: " pipe operations between two processes",
    times: 2.0,
    pace: 1e5,
};
const PIPE_THREADS: PerfBench =
    PerfBench { words: "bench sched pipe -T", counted: " pipe operations between two threads", ..PIPE };

fn bench(case: &Case) -> Option<PerfBench> {
    let is_getppid = CallKind::of(case) == Some(CallKind::GetParent) && case.threads() == 1;
    let is_pipe = LinkKind::of(case) == Some(LinkKind::Pipe);
    match (case.benchmark(), FollowerKind::of(case)) {
        ("os.syscall", _) if is_getppid => Some(SYSCALL),
        ("os.switch", Some(FollowerKind::Process)) if is_pipe => Some(PIPE),
        ("os.switch", Some(FollowerKind::Thread)) if is_pipe => Some(PIPE_THREADS),
        _ => None,
    }
}

pub(crate) const PERF: RefTool = RefTool {
    name: "perf",
    checks: "system calls, switches by pipe (perf bench)",
    package: Package::Debian("linux-perf"),
    version: ("--version", "perf version "),
    explains: &["os.syscall", "os.switch"],
    declines: |_| "it has getppid on one thread, and pipes",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    bench(case)?;
    has_only_parameters(case, "op threads affinity between distance").then_some(())?;
    let (definition, note) = match SharedPart::of(case) {
        None => (Match::Exact, "the same call in a loop"),
        Some(SharedPart::Cpu) => (Match::Scaled, "÷ 2: it counts a round trip, which is two hand-overs"),
        _ => (Match::Related, "÷ 2: a round trip; the kernel chooses the CPU of each of the two"),
    };
    Some(Pairing::new("latency", definition, note, 0.5))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let bench = bench(&ask.case).ok_or("it has no such loop")?;
    let loops = ((ask.seconds * bench.pace) as u64).max(1000);
    Ok(ask.call(words(&format!("{} -l {loops}", bench.words))))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let bench = bench(case).ok_or("it has no such loop")?;
    let count = number_before(text, bench.counted)?;
    let micros = number_before(text, " usecs/op\n")?;
    let seconds = Seconds::printed(word_after(text, "Total time:")?)?;
    ToolFigure::of(micros * 1e-6 / bench.times, Account::of(count * bench.times, seconds))
}

/// Parses the word directly before `label` as a number. Fails if there is no such number.
fn number_before(text: &str, label: &str) -> Result<f64, String> {
    let before = text.split_once(label).map(|(before, _)| before);
    let word = before.and_then(|before| before.rsplit(char::is_whitespace).next()).unwrap_or_default();
    word.parse().map_err(|_| format!("its output has no number before '{}'", label.trim()))
}
