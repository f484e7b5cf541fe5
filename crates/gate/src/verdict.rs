use plimsoll_bench::label;
use plimsoll_units::quantity::percent;
use plimsoll_units::text::{format_count, shown_within};

use crate::check::{CheckProgress, CheckedQuantity, FigureCheck};
use crate::difference::MachineLoss;
use crate::threshold::ThresholdSource;
use crate::{Gate, LowCause};

const VERDICT_COLUMNS: usize = 80;

const OTHERS_MAY_BE_THE_CAUSE: &str = "others may be the cause";

const WRONG_ANSWER: &str = "wrong-answer";

/// Answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// No judged figure is low.
    Healthy,
    /// A loss, difference, fault or wrong answer is attributed to this machine.
    Sick,
    /// The evidence does not decide.
    Unknown,
}

impl GateAnswer {
    /// Returns the answer in lower case.
    pub fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Sick => "sick",
            Self::Unknown => "unknown",
        }
    }
}

/// Answer with its one-line explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct GateVerdict {
    /// The answer.
    pub answer: GateAnswer,
    /// Answer, cause and evidence, in at most 80 characters.
    pub line: String,
    /// Stable identifier of the cause, if known.
    pub cause: Option<&'static str>,
}

pub(super) fn of(gate: &Gate) -> GateVerdict {
    sick(gate).or_else(|| unknown(gate)).unwrap_or_else(|| healthy(gate))
}

/// Returns the verdict with the line `ANSWER: first; then` of ≤ 80 characters, `then` if it fits.
fn verdict(answer: GateAnswer, cause: Option<&'static str>, first: &str, then: &str) -> GateVerdict {
    let short = format!("{}: {first}", answer.word());
    let long = format!("{short}; {then}");
    let fits = !then.is_empty() && long.chars().count() <= VERDICT_COLUMNS;
    let shown = shown_within(if fits { &long } else { &short }, 4 * VERDICT_COLUMNS);
    let line = match shown.chars().count() {
        ..=VERDICT_COLUMNS => shown,
        _ => shown.chars().take(VERDICT_COLUMNS - 1).chain(['…']).collect(),
    };
    GateVerdict { answer, cause, line }
}

/// Returns the verdict on a low figure: cause and loss, or loss and `otherwise` without a cause.
fn by_cause(answer: GateAnswer, check: &FigureCheck, otherwise: &str) -> GateVerdict {
    match check.cause() {
        Some(cause) => verdict(answer, Some(cause.code()), &cause.to_string(), &evidence(check)),
        None => verdict(answer, None, &evidence(check), otherwise),
    }
}

fn sick(gate: &Gate) -> Option<GateVerdict> {
    if let Some(wrong) = gate.wrong.iter().find(|wrong| wrong.cpu().is_some()).or(gate.wrong.first()) {
        let (first, then) = (wrong.headline(), wrong.conclusion());
        return Some(verdict(GateAnswer::Sick, Some(WRONG_ANSWER), &first, &then));
    }
    // A measured cause is stronger evidence than a setting that differs.
    let sick = gate.checks.iter().filter(|check| check.shows_sick_machine(gate.shares));
    if let Some(check) = sick.max_by(|a, b| lost(a).total_cmp(&lost(b))) {
        return Some(by_cause(GateAnswer::Sick, check, "cause unknown"));
    }
    if let Some(fault) = gate.accusing_fault() {
        let then = if gate.is_new(fault) { "not so before" } else { "" };
        return Some(verdict(GateAnswer::Sick, Some(fault.code()), &fault.to_string(), then));
    }
    let all: Vec<String> = gate.differences.iter().map(MachineLoss::to_string).collect();
    let code = gate.differences.first().map(MachineLoss::code);
    let (first, rest) = all.split_first()?;
    Some(verdict(GateAnswer::Sick, code, first, &rest.join("; ")))
}

fn unknown(gate: &Gate) -> Option<GateVerdict> {
    if let Some(check) = gate.checks.iter().find(|check| check.state == CheckProgress::Low) {
        return Some(verdict(GateAnswer::Unknown, None, &evidence(check), OTHERS_MAY_BE_THE_CAUSE));
    }
    let passed = gate.checks.iter().any(|check| check.state == CheckProgress::Passed);
    // CPU time taken by other work does not cast doubt on figures that passed.
    let is_theirs = |check: &FigureCheck| {
        passed && check.quantity == CheckedQuantity::CpuTime && check.is_without_evidence()
    };
    let of = |state| gate.checks.iter().find(|check| check.state == state && !is_theirs(check));
    if let Some(check) = of(CheckProgress::GivenUp) {
        return Some(by_cause(GateAnswer::Unknown, check, OTHERS_MAY_BE_THE_CAUSE));
    }
    if let Some(check) = of(CheckProgress::Suspect) {
        let first = check.cause().filter(|cause| !cause.is_own()).map(LowCause::to_string);
        let first = first.unwrap_or(evidence(check));
        let then = if gate.interrupted { "interrupted" } else { "not decided in time" };
        return Some(verdict(GateAnswer::Unknown, Some("not-decided"), &first, then));
    }
    let failed = gate.checks.iter().find_map(|check| match &check.state {
        CheckProgress::Failed(why) => Some((&check.case, why)),
        _ => None,
    });
    // An unreachable server is no evidence about the health of this machine.
    let tried = gate.unjudged.iter().find(|one| one.failed).map(|one| (&one.case, &one.why));
    if let Some((case, why)) = failed.or(tried) {
        let first = format!("{}: {why}", label::full(case));
        return Some(verdict(GateAnswer::Unknown, Some("not-measured"), &first, ""));
    }
    let nothing = "no figure can be judged here; runs of the gate's plan make a history";
    (!passed).then(|| verdict(GateAnswer::Unknown, Some("not-judged"), nothing, ""))
}

fn healthy(gate: &Gate) -> GateVerdict {
    let passed = gate.checks.iter().filter(|check| check.state == CheckProgress::Passed).count();
    let mut first = format!("{} passed", format_count(passed, "check"));
    if !gate.proven.is_empty() {
        let cpus = if gate.proven.len() == 1 { "CPU" } else { "CPUs" };
        first += &format!(", {cpus} {} proven", gate.proven);
    }
    let busy = gate.checks.iter().filter(|check| check.is_without_evidence()).find_map(FigureCheck::cause);
    if !gate.unjudged.is_empty() {
        first += &format!("; {} not judged", format_count(gate.unjudged.len(), "case"));
    }
    let then = busy.map(LowCause::to_string).unwrap_or_default();
    verdict(GateAnswer::Healthy, None, &first, &then)
}

fn lost(check: &FigureCheck) -> f64 {
    check.value_shown().map_or(0.0, |value| check.threshold.lost(value))
}

/// Describes the loss that a check found: "cpu fma f64 avx512 49 % below its limit".
fn evidence(check: &FigureCheck) -> String {
    let of = match check.threshold.source {
        ThresholdSource::Limit => "its limit",
        ThresholdSource::History { .. } => "usual",
        ThresholdSource::Fleet { .. } => "its fleet",
        ThresholdSource::Whole => {
            let share = check.value_shown().unwrap_or_default();
            return format!("{} had {} of the CPU time", label::full(&check.case), percent(share, 2));
        }
    };
    format!("{} {} below {of}", label::full(&check.case), percent(lost(check), 2))
}
