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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
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

fn verdict(
    answer: GateAnswer,
    cause: Option<&'static str>,
    first: &str,
    then: Option<String>,
) -> GateVerdict {
    let short = format!("{}: {first}", answer.word());
    let long =
        then.map(|then| format!("{short}; {then}")).filter(|long| long.chars().count() <= VERDICT_COLUMNS);
    GateVerdict { answer, cause, line: cut(&long.unwrap_or(short)) }
}

fn cut(line: &str) -> String {
    let shown = shown_within(line, 4 * VERDICT_COLUMNS);
    match shown.chars().count() {
        ..=VERDICT_COLUMNS => shown,
        _ => shown.chars().take(VERDICT_COLUMNS - 1).chain(['…']).collect(),
    }
}

fn sick(gate: &Gate) -> Option<GateVerdict> {
    if let Some(wrong) = gate.wrong.iter().find(|wrong| wrong.cpu().is_some()).or(gate.wrong.first()) {
        let then = Some(wrong.conclusion()).filter(|then| !then.is_empty());
        return Some(verdict(GateAnswer::Sick, Some(WRONG_ANSWER), &wrong.headline(), then));
    }
    let found = gate
        .checks
        .iter()
        .filter(|check| check.shows_sick_machine(gate.shares))
        .max_by(|a, b| lost(a).total_cmp(&lost(b)));
    // A measured cause is stronger evidence than a setting that differs.
    if let Some(check) = found {
        return Some(match check.cause() {
            Some(cause) => {
                verdict(GateAnswer::Sick, Some(cause.code()), &cause.to_string(), Some(evidence(check)))
            }
            None => verdict(GateAnswer::Sick, None, &evidence(check), Some("cause unknown".to_owned())),
        });
    }
    if let Some(fault) = gate.accusing_fault() {
        let then = gate.is_new(fault).then(|| "not so before".to_owned());
        return Some(verdict(GateAnswer::Sick, Some(fault.code()), &fault.to_string(), then));
    }
    let all: Vec<String> = gate.differences.iter().map(MachineLoss::to_string).collect();
    let (first, rest) = all.split_first()?;
    let rest = Some(rest.join("; ")).filter(|rest| !rest.is_empty());
    Some(verdict(GateAnswer::Sick, gate.differences.first().map(MachineLoss::code), first, rest))
}

fn unknown(gate: &Gate) -> Option<GateVerdict> {
    let of = |is: fn(&FigureCheck) -> bool| gate.checks.iter().find(|check| is(check));
    if let Some(check) = of(|check| check.state == CheckProgress::Low) {
        return Some(verdict(
            GateAnswer::Unknown,
            None,
            &evidence(check),
            Some(OTHERS_MAY_BE_THE_CAUSE.to_owned()),
        ));
    }
    let passed = gate.checks.iter().any(|check| check.state == CheckProgress::Passed);
    // CPU time taken by other work does not cast doubt on figures that passed.
    let is_theirs = |check: &FigureCheck| {
        passed && check.quantity == CheckedQuantity::CpuTime && check.is_without_evidence()
    };
    if let Some(check) =
        gate.checks.iter().find(|check| check.state == CheckProgress::GivenUp && !is_theirs(check))
    {
        return Some(match check.cause() {
            Some(cause) => {
                verdict(GateAnswer::Unknown, Some(cause.code()), &cause.to_string(), Some(evidence(check)))
            }
            None => {
                verdict(GateAnswer::Unknown, None, &evidence(check), Some(OTHERS_MAY_BE_THE_CAUSE.to_owned()))
            }
        });
    }
    if let Some(check) =
        gate.checks.iter().find(|check| check.state == CheckProgress::Suspect && !is_theirs(check))
    {
        let first = check.cause().filter(|cause| !cause.is_own()).map(LowCause::to_string);
        let then = Some("not decided in time".to_owned());
        return Some(verdict(
            GateAnswer::Unknown,
            Some("not-decided"),
            &first.unwrap_or(evidence(check)),
            then,
        ));
    }
    let failed = gate.checks.iter().find_map(|check| match &check.state {
        CheckProgress::Failed(why) => Some((check, why)),
        _ => None,
    });
    // An unreachable server is no evidence about the health of this machine.
    let tried = gate.unjudged.iter().find(|one| one.failed).map(|one| (&one.case, &one.why));
    if let Some((case, why)) = failed.map(|(check, why)| (&check.case, why)).or(tried) {
        let first = format!("{}: {why}", label::full(case));
        return Some(verdict(GateAnswer::Unknown, Some("not-measured"), &first, None));
    }
    let nothing = "no figure can be judged here; runs of the gate's plan make a history";
    (!passed).then(|| verdict(GateAnswer::Unknown, Some("not-judged"), nothing, None))
}

fn healthy(gate: &Gate) -> GateVerdict {
    let passed = gate.checks.iter().filter(|check| check.state == CheckProgress::Passed).count();
    let mut first = format!("{} passed", format_count(passed, "check"));
    if !gate.proven.is_empty() {
        let cpus = if gate.proven.len() == 1 { "CPU" } else { "CPUs" };
        first += &format!(", {cpus} {} proven", gate.proven);
    }
    let busy = gate.checks.iter().filter(|check| check.is_without_evidence()).find_map(FigureCheck::cause);
    let then = match (busy, gate.unjudged.len()) {
        (Some(cause), _) => Some(cause.to_string()),
        (None, 0) => None,
        (None, n) => Some(format!("{} not judged", format_count(n, "case"))),
    };
    verdict(GateAnswer::Healthy, None, &first, then)
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
