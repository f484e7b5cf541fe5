//! Verdict of a gate: healthy, sick or unknown, with its evidence, in at most 80 characters.

use plimsoll_bench::label;
use plimsoll_units::quantity::percent;
use plimsoll_units::text::{counted, shown_within};

use crate::check::{Check, State, What};
use crate::difference::Difference;
use crate::threshold::Source;
use crate::{Cause, Gate};

const VERDICT_COLUMNS: usize = 80;

/// Explanation of a loss that may have a cause outside the machine.
const OTHERS_MAY_BE_THE_CAUSE: &str = "others may be the cause";

/// Stable identifier of the cause if answers are wrong.
const WRONG_ANSWER: &str = "wrong-answer";

/// Answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// No judged figure is low.
    Healthy,
    /// A loss, difference, fault or wrong answer is attributed to this machine.
    Sick,
    /// The evidence does not decide.
    Unknown,
}

impl Answer {
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
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// Answer, cause and evidence, in at most 80 characters.
    pub line: String,
    /// Stable identifier of the cause, if known.
    pub cause: Option<&'static str>,
}

pub(super) fn of(gate: &Gate) -> Verdict {
    sick(gate).or_else(|| unknown(gate)).unwrap_or_else(|| healthy(gate))
}

fn verdict(answer: Answer, cause: Option<&'static str>, first: &str, then: Option<String>) -> Verdict {
    let short = format!("{}: {first}", answer.word());
    let long =
        then.map(|then| format!("{short}; {then}")).filter(|long| long.chars().count() <= VERDICT_COLUMNS);
    Verdict { answer, cause, line: cut(&long.unwrap_or(short)) }
}

fn cut(line: &str) -> String {
    let shown = shown_within(line, 4 * VERDICT_COLUMNS);
    match shown.chars().count() {
        ..=VERDICT_COLUMNS => shown,
        _ => shown.chars().take(VERDICT_COLUMNS - 1).chain(['…']).collect(),
    }
}

fn sick(gate: &Gate) -> Option<Verdict> {
    // A wrong answer is wrong at any speed.
    if let Some(wrong) = gate.wrong.iter().find(|wrong| wrong.cpu().is_some()).or(gate.wrong.first()) {
        let then = Some(wrong.conclusion()).filter(|then| !then.is_empty());
        return Some(verdict(Answer::Sick, Some(WRONG_ANSWER), &wrong.headline(), then));
    }
    let found = gate
        .checks
        .iter()
        .filter(|check| check.accuses(gate.shares))
        .max_by(|a, b| lost(a).total_cmp(&lost(b)));
    // A measured cause is stronger evidence than a setting that differs.
    if let Some(check) = found {
        return Some(match check.cause() {
            Some(cause) => {
                verdict(Answer::Sick, Some(cause.code()), &cause.to_string(), Some(evidence(check)))
            }
            None => verdict(Answer::Sick, None, &evidence(check), Some("cause unknown".to_owned())),
        });
    }
    if let Some(fault) = gate.accusing_fault() {
        let then = gate.is_new(fault).then(|| "not so before".to_owned());
        return Some(verdict(Answer::Sick, Some(fault.code()), &fault.to_string(), then));
    }
    let all: Vec<String> = gate.differences.iter().map(Difference::to_string).collect();
    let (first, rest) = all.split_first()?;
    let rest = Some(rest.join("; ")).filter(|rest| !rest.is_empty());
    Some(verdict(Answer::Sick, gate.differences.first().map(Difference::code), first, rest))
}

fn unknown(gate: &Gate) -> Option<Verdict> {
    let of = |is: fn(&Check) -> bool| gate.checks.iter().find(|check| is(check));
    if let Some(check) = of(|check| check.state == State::Low) {
        return Some(verdict(
            Answer::Unknown,
            None,
            &evidence(check),
            Some(OTHERS_MAY_BE_THE_CAUSE.to_owned()),
        ));
    }
    let passed = gate.checks.iter().any(|check| check.state == State::Passed);
    // CPU time taken by other work does not cast doubt on figures that passed.
    let is_theirs = |check: &Check| passed && check.what == What::CpuTime && check.is_in_vain();
    if let Some(check) = gate.checks.iter().find(|check| check.state == State::InVain && !is_theirs(check)) {
        return Some(match check.cause() {
            Some(cause) => {
                verdict(Answer::Unknown, Some(cause.code()), &cause.to_string(), Some(evidence(check)))
            }
            None => {
                verdict(Answer::Unknown, None, &evidence(check), Some(OTHERS_MAY_BE_THE_CAUSE.to_owned()))
            }
        });
    }
    if let Some(check) = gate.checks.iter().find(|check| check.state == State::Suspect && !is_theirs(check)) {
        let first = check.cause().filter(|cause| !cause.is_own()).map(Cause::to_string);
        let then = Some("not decided in time".to_owned());
        return Some(verdict(Answer::Unknown, Some("not-decided"), &first.unwrap_or(evidence(check)), then));
    }
    let failed = gate.checks.iter().find_map(|check| match &check.state {
        State::Failed(why) => Some((check, why)),
        _ => None,
    });
    // An unreachable server is no evidence about the health of this machine.
    let tried = gate.unjudged.iter().find(|one| one.failed).map(|one| (&one.case, &one.why));
    if let Some((case, why)) = failed.map(|(check, why)| (&check.case, why)).or(tried) {
        let first = format!("{}: {why}", label::full(case));
        return Some(verdict(Answer::Unknown, Some("not-measured"), &first, None));
    }
    let nothing = "no figure can be judged here; runs of the gate's plan make a history";
    (!passed).then(|| verdict(Answer::Unknown, Some("not-judged"), nothing, None))
}

fn healthy(gate: &Gate) -> Verdict {
    let passed = gate.checks.iter().filter(|check| check.state == State::Passed).count();
    let first = format!("{} passed", counted(passed, "check"));
    let busy = gate.checks.iter().filter(|check| check.is_in_vain()).find_map(Check::cause);
    // The line has room for one of them.
    let then = match (busy, gate.unjudged.len()) {
        (Some(cause), _) => Some(cause.to_string()),
        (None, 0) => None,
        (None, n) => Some(format!("{} not judged", counted(n, "case"))),
    };
    verdict(Answer::Healthy, None, &first, then)
}

fn lost(check: &Check) -> f64 {
    check.value_shown().map_or(0.0, |value| check.threshold.lost(value))
}

/// Describes a loss: "cpu fma f64 avx512 49 % below its limit".
fn evidence(check: &Check) -> String {
    let of = match check.threshold.source {
        Source::Limit => "its limit",
        Source::History { .. } => "usual",
        Source::Fleet { .. } => "its fleet",
        Source::Whole => {
            let share = check.value_shown().unwrap_or_default();
            return format!("{} had {} of the CPU time", label::full(&check.case), percent(share, 2));
        }
    };
    format!("{} {} below {of}", label::full(&check.case), percent(lost(check), 2))
}
