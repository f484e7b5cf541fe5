use plimsoll_model::metric::Better;
use plimsoll_model::sample::WrongAnswer;
use serde::Serialize;

use crate::check::{CheckProgress, CheckedQuantity, FigureCheck};
use crate::{Gate, MISSED, ThresholdSource, Unjudged};

/// Name and version of the schema.
pub const GATE_SCHEMA: &str = "plimsoll.gate.v1";

/// JSON document of a gate.
#[derive(Debug, Serialize)]
pub struct GateDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    about: GateAbout<'a>,
    answer: &'static str,
    line: String,
    cause: Option<&'static str>,
    false_alarms: f64,
    missed: f64,
    differences: Vec<LossInDocument>,
    faults: Vec<LossInDocument>,
    wrong_answers: &'a [WrongAnswer],
    proven: Vec<usize>,
    checks: Vec<CheckInDocument<'a>>,
    not_judged: Vec<NotJudged<'a>>,
}

/// Data about a gate that its checks do not contain.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct GateAbout<'a> {
    /// Version of this program.
    pub version: &'a str,
    /// Start, RFC 3339.
    pub started: &'a str,
    /// Duration in seconds.
    pub elapsed_s: f64,
    /// Host name.
    pub host: Option<&'a str>,
    /// Fingerprint of the machine.
    pub machine: &'a str,
    /// Level of the gate, 1 to 3.
    pub level: u8,
}

#[derive(Debug, Serialize)]
struct LossInDocument {
    code: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct NotJudged<'a> {
    case: String,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct CheckInDocument<'a> {
    case: String,
    what: &'static str,
    state: &'static str,
    reason: Option<&'a str>,
    better: Better,
    value: Option<f64>,
    usual: f64,
    threshold: f64,
    from: &'static str,
    figures: Option<usize>,
    loss: f64,
    low_by_chance: f64,
    measured_again: usize,
    low: usize,
    fewest: usize,
    cause: Option<&'static str>,
    evidence: Option<String>,
}

impl<'a> GateDocument<'a> {
    /// Creates the JSON document of a gate with its present verdict and all checks.
    pub fn of(gate: &'a Gate, about: GateAbout<'a>) -> Self {
        let verdict = gate.verdict();
        let not_judged = |it: &'a Unjudged| NotJudged { case: it.case.id().to_string(), reason: &it.why };
        Self {
            schema: GATE_SCHEMA,
            about,
            answer: verdict.answer.word(),
            line: verdict.line,
            cause: verdict.cause,
            false_alarms: gate.rates.false_alarms,
            missed: MISSED,
            differences: gate.differences.iter().map(|it| lost(it.code(), it)).collect(),
            faults: gate.faults.iter().map(|it| lost(it.code(), it)).collect(),
            wrong_answers: &gate.wrong,
            proven: gate.proven.iter().collect(),
            checks: gate.checks.iter().map(row).collect(),
            not_judged: gate.unjudged.iter().map(not_judged).collect(),
        }
    }
}

fn lost(code: &'static str, what: &dyn std::fmt::Display) -> LossInDocument {
    LossInDocument { code, text: what.to_string() }
}

fn row(check: &FigureCheck) -> CheckInDocument<'_> {
    let (state, reason) = check.state.words();
    let (from, figures) = match check.threshold.source {
        ThresholdSource::Limit => ("limit", None),
        ThresholdSource::History { runs } => ("history", Some(runs)),
        ThresholdSource::Fleet { machines } => ("fleet", Some(machines)),
        ThresholdSource::Whole => ("whole", None),
    };
    CheckInDocument {
        case: check.case.id().to_string(),
        what: check.quantity.code(),
        state,
        reason,
        better: check.threshold.better,
        value: check.value_shown(),
        usual: check.threshold.usual,
        threshold: check.threshold.low,
        from,
        figures,
        loss: check.threshold.loss,
        low_by_chance: check.threshold.false_alarm_rate,
        measured_again: check.repetitions.len(),
        low: check.repetitions.iter().filter(|round| round.is_low).count(),
        fewest: check.min_low_count(),
        cause: check.cause().map(crate::LowCause::code),
        evidence: check.cause().map(ToString::to_string),
    }
}

impl CheckedQuantity {
    /// Returns the identifier of the quantity in the document, such as `share-of-limit`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Figure => "figure",
            Self::OfLimit => "share-of-limit",
            Self::CpuTime => "cpu-time-share",
        }
    }
}

impl CheckProgress {
    /// Returns the identifier of the state in the document, and the reason if the state has one.
    pub fn words(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Waiting => ("not measured", None),
            Self::Passed => ("usual", None),
            Self::Suspect => ("not decided", None),
            Self::Low => ("low", None),
            Self::GivenUp => ("others", None),
            Self::NotReported(why) => ("not judged", Some(why)),
            Self::Failed(why) => ("not measured", Some(why)),
        }
    }
}
