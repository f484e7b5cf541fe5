use serde_json::{Value, json};

use crate::check::{CheckProgress, CheckedQuantity, FigureCheck};
use crate::{Gate, LowCause, MISSED, ThresholdSource, Unjudged};

/// Name and version of the schema.
pub const GATE_SCHEMA: &str = "plimsoll.gate.v1";

/// Data about a gate that its checks do not contain.
#[derive(Clone, Copy, Debug)]
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

/// Returns the JSON document of a gate.
pub fn document(gate: &Gate, about: GateAbout<'_>) -> Value {
    let GateAbout { version, started, elapsed_s, host, machine, level } = about;
    let verdict = gate.verdict();
    let lost = |code: &str, text: String| json!({ "code": code, "text": text });
    let not_judged = |it: &Unjudged| json!({ "case": it.case.id(), "reason": it.why });
    let differences = gate.differences.iter().map(|it| lost(it.code(), it.to_string()));
    let faults = gate.faults.iter().map(|it| lost(it.code(), it.to_string()));
    json!({
        "schema": GATE_SCHEMA,
        "version": version, "started": started, "elapsed_s": elapsed_s,
        "host": host, "machine": machine, "level": level,
        "answer": verdict.answer.word(), "line": verdict.line, "cause": verdict.cause,
        "false_alarms": gate.rates.false_alarms, "missed": MISSED,
        "differences": differences.collect::<Vec<Value>>(),
        "faults": faults.collect::<Vec<Value>>(),
        "wrong_answers": gate.wrong,
        "proven": gate.proven.iter().collect::<Vec<usize>>(),
        "checks": gate.checks.iter().map(row).collect::<Vec<Value>>(),
        "not_judged": gate.unjudged.iter().map(not_judged).collect::<Vec<Value>>(),
    })
}

fn row(check: &FigureCheck) -> Value {
    let (state, reason) = check.state.words();
    let (threshold, cause) = (&check.threshold, check.cause());
    let (from, figures) = match threshold.source {
        ThresholdSource::Limit => ("limit", None),
        ThresholdSource::History { runs } => ("history", Some(runs)),
        ThresholdSource::Fleet { machines } => ("fleet", Some(machines)),
        ThresholdSource::Whole => ("whole", None),
    };
    json!({
        "case": check.case.id(), "what": check.quantity.code(), "state": state, "reason": reason,
        "better": threshold.better, "value": check.value_shown(), "usual": threshold.usual,
        "threshold": threshold.low, "from": from, "figures": figures, "loss": threshold.loss,
        "low_by_chance": threshold.false_alarm_rate, "measured_again": check.repetitions.len(),
        "low": check.repetitions.iter().filter(|round| round.is_low).count(),
        "fewest": check.min_low_count(), "cause": cause.map(LowCause::code),
        "evidence": cause.map(ToString::to_string),
    })
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
