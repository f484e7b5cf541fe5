use crate::fingerprint::FactDifference;
use crate::level::LevelLoss;
use crate::span::{CAUSES, Disturbance, DisturbedSpan, MIN_EFFECT, Series};
use crate::watch::CommandInterval;
use plimsoll_units::quantity::percent;
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};

/// Shortest run that can be judged, in seconds: some ticks of the kernel's counters.
const MIN_SECONDS: f64 = 0.05;
/// Most causes that a verdict names.
const MAX_CAUSES: usize = 3;
/// Most differences of machines that a verdict names.
const MAX_DIFFERENCES: usize = 4;

/// Answer of a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SteadyAnswer {
    /// Nothing took a notable part of the command's time.
    HeldStill,
    /// The machine differs from that of the baseline.
    AnotherMachine,
    /// Something took a notable part of the command's time.
    Disturbed,
    /// It cannot be known.
    #[default]
    Unknown,
}

/// Verdict on one run of the command, or on all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyVerdict {
    /// Answer.
    pub answer: SteadyAnswer,
    /// Answer with its reason in one line.
    pub line: String,
    /// Disturbed times, by cause, the cause of the largest loss first.
    pub spans: Vec<DisturbedSpan>,
    /// Share of the command's time that was disturbed, 0 to 1.
    pub share: f64,
}

/// Judges one run of a command by its `intervals`, in order and without gaps. `cache` is the size
/// of the cache of one core in bytes.
pub fn judge(intervals: &[CommandInterval], cache: u64) -> SteadyVerdict {
    if let Some(last) = intervals.last().filter(|last| last.to < MIN_SECONDS) {
        let line = format!("unknown: the command ran for {}, too short a time to judge", seconds(last.to));
        return SteadyVerdict { answer: SteadyAnswer::Unknown, line, spans: Vec::new(), share: 0.0 };
    }
    let series = Series::new(intervals, cache);
    let mut found: Vec<DisturbedSpan> = CAUSES.iter().flat_map(|(cause, _)| series.spans(*cause)).collect();
    found.sort_by(|a, b| b.lost.unwrap_or(0.0).total_cmp(&a.lost.unwrap_or(0.0)));
    let mut spans: Vec<DisturbedSpan> = Vec::new();
    for one in found {
        // A cause that took more explains the same time.
        if spans.iter().map(|known| overlap(known, &one)).sum::<f64>() < 0.5 * one.seconds() {
            spans.push(one);
        }
    }
    let wall = intervals.last().map_or(0.0, |last| last.to);
    let mut causes = causes(&spans);
    causes.sort_by(|(a, _), (b, _)| b.lost.unwrap_or(0.0).total_cmp(&a.lost.unwrap_or(0.0)));
    let order = |span: &DisturbedSpan| causes.iter().position(|(cause, _)| cause.cause == span.cause);
    spans.sort_by_key(|span| order(span));
    let share = (union(&spans) / wall.max(1e-9)).min(1.0);
    let (answer, line) = match (causes.is_empty(), blindness(intervals)) {
        (false, _) => (SteadyAnswer::Disturbed, disturbed_line(&causes, share)),
        (true, Some(why)) => (SteadyAnswer::Unknown, format!("unknown: {why}")),
        (true, None) => {
            let text = "held still: nothing took 5 % of the command's time";
            (SteadyAnswer::HeldStill, format!("{text} ({})", seconds(wall)))
        }
    };
    SteadyVerdict { answer, line, spans, share }
}

/// Judges all runs of a command together, in one line: differences from the baseline, which are
/// empty without one, then the runs, then figures of the probe that got worse.
pub fn summary(
    runs: &[SteadyVerdict],
    (baseline, differences, losses): (&str, &[FactDifference], &[LevelLoss]),
    levels: &[LevelLoss],
) -> (SteadyAnswer, String) {
    if let Some(line) = other_machine(baseline, differences, losses) {
        return (SteadyAnswer::AnotherMachine, line);
    }
    let of = |answer: SteadyAnswer| {
        let mut own = runs.iter().filter(|run| run.answer == answer);
        let line = &own.next()?.line;
        let text = match runs.len() {
            1 => line.clone(),
            all => format!("{} of {all} repetitions: {line}", 1 + own.count()),
        };
        Some((answer, text))
    };
    let slower = |worst: &LevelLoss| {
        let line = format!(
            "disturbed by {} between the two probes: {} was {} worse after the command than before",
            Disturbance::Level.words(),
            worst.name,
            percent(worst.loss, 2)
        );
        (SteadyAnswer::Disturbed, line)
    };
    let found = of(SteadyAnswer::Disturbed).or_else(|| worst(levels).map(slower));
    found.or_else(|| of(SteadyAnswer::Unknown)).unwrap_or_else(|| match runs {
        [] => (SteadyAnswer::Unknown, "unknown: nothing was observed".to_owned()),
        [run] => (SteadyAnswer::HeldStill, run.line.clone()),
        all => (SteadyAnswer::HeldStill, format!("held still in all {} repetitions", all.len())),
    })
}

fn worst(levels: &[LevelLoss]) -> Option<&LevelLoss> {
    levels.iter().max_by(|a, b| a.loss.total_cmp(&b.loss))
}

fn other_machine(name: &str, differences: &[FactDifference], losses: &[LevelLoss]) -> Option<String> {
    let words = "another machine than the baseline";
    if differences.is_empty() {
        let worst = worst(losses)?;
        let loss = percent(worst.loss, 2);
        return Some(format!("{words} {name}: {} is {loss} worse than there, of equal hardware", worst.name));
    }
    let shown = differences.iter().take(MAX_DIFFERENCES).map(|one| {
        let [there, here] = [&one.baseline, &one.here].map(|text| shown_within(text, 40));
        format!("{} {there} there, {here} here", one.fact)
    });
    let more = differences.len().saturating_sub(MAX_DIFFERENCES);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Some(format!("{words} {name}: {}{more}", shown.collect::<Vec<_>>().join("; ")))
}

/// Joins all spans of each cause into one, with their number.
fn causes(spans: &[DisturbedSpan]) -> Vec<(DisturbedSpan, usize)> {
    let mut found: Vec<(DisturbedSpan, usize)> = Vec::new();
    for span in spans {
        let Some((known, count)) = found.iter_mut().find(|(one, _)| one.cause == span.cause) else {
            found.push((span.clone(), 1));
            continue;
        };
        known.lost = known.lost.zip(span.lost).map(|(a, b)| a + b);
        (known.from, known.to) = (known.from.min(span.from), known.to.max(span.to));
        for name in &span.by {
            if !known.by.contains(name) {
                known.by.push(name.clone());
            }
        }
        *count += 1;
    }
    found
}

fn disturbed_line(causes: &[(DisturbedSpan, usize)], share: f64) -> String {
    let one = |(cause, count): &(DisturbedSpan, usize)| {
        let by = if cause.by.is_empty() { String::new() } else { format!(" ({})", cause.by.join(", ")) };
        let spans = if *count > 1 { format!(" in {count} spans") } else { String::new() };
        let unseen = || ", with an effect that only counters of the processor could show".to_owned();
        let lost = cause.lost.map_or_else(unseen, |lost| format!(", which took {} of it", seconds(lost)));
        let (words, from, to) = (cause.cause.words(), seconds(cause.from), seconds(cause.to));
        format!("{words}{by} from {from} to {to}{spans}{lost}")
    };
    let named: Vec<String> = causes.iter().take(MAX_CAUSES).map(one).collect();
    format!("disturbed {} of the time: by {}", percent(share, 2), named.join("; by "))
}

/// Returns why a run without a visible disturbance may have had one; `None` if it is visible.
fn blindness(intervals: &[CommandInterval]) -> Option<String> {
    let Some(last) = intervals.last() else { return Some("nothing was observed".to_owned()) };
    let sum = |of: fn(&CommandInterval) -> f64| intervals.iter().map(of).sum::<f64>();
    let wall = last.to.max(1e-9);
    let no_wait = intervals.iter().all(|one| one.wait.is_none());
    let no_others = intervals.iter().all(|one| one.others.is_none());
    if no_wait && no_others {
        return Some("this system shows neither waiting for a CPU nor CPU time of others".to_owned());
    }
    let others = sum(|one| one.others.unwrap_or(0.0) + one.elsewhere.unwrap_or(0.0));
    if no_wait && others >= MIN_EFFECT * wall {
        let used = percent(others / wall, 2);
        return Some(format!(
            "other processes used {used} of a CPU, and this kernel does not show whether the command waited (/proc/PID/schedstat)"
        ));
    }
    let wait = sum(|one| one.wait.unwrap_or(0.0));
    if no_others && wait >= MIN_EFFECT * wall {
        let waited = percent(wait / wall, 2);
        return Some(format!(
            "the command waited for a CPU {waited} of the time, and this system does not show who used it (/proc/stat)"
        ));
    }
    None
}

fn overlap(a: &DisturbedSpan, b: &DisturbedSpan) -> f64 {
    (a.to.min(b.to) - a.from.max(b.from)).max(0.0)
}

/// Returns the length of the times covered by any span, in seconds.
fn union(spans: &[DisturbedSpan]) -> f64 {
    let mut all: Vec<(f64, f64)> = spans.iter().map(|span| (span.from, span.to)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut end) = (0.0, 0.0_f64);
    for (from, to) in all {
        sum += (to - from.max(end)).max(0.0);
        end = end.max(to);
    }
    sum
}

fn seconds(time: f64) -> String {
    if time < 0.95 { format!("{time:.2} s") } else { format!("{time:.1} s") }
}
