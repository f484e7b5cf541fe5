//! Results of a gate for people, schedulers and monitoring systems. Pure functions.

use plimsoll_bench::label::full;
use plimsoll_gate::{
    CheckProgress, CheckedQuantity, FigureCheck, Gate, GateAbout, GateAnswer, LowCause, MISSED,
    ThresholdSource,
};
use plimsoll_units::quantity::{Quantity, Unit, percent, significant};
use serde_json::{Value, json};

use super::format::{Families, since_1970};
use super::style::{Style, TextRole};
use super::wrap::{aligned, paragraph, widths};
use super::{and_more, grouped};

const COLUMN_TITLES: [&str; 6] = ["figure", "measured", "usual", "low from", "threshold from", "answer"];

/// Formats the result of a gate (short health check): verdict and a table of checks.
pub fn for_people(gate: &Gate, style: &Style) -> String {
    let verdict = gate.verdict();
    let role = match verdict.answer {
        GateAnswer::Healthy => TextRole::Good,
        GateAnswer::Sick => TextRole::Bad,
        GateAnswer::Unknown => TextRole::Warning,
    };
    let mut out = format!("{}\n", style.paint(role, &style.styled(&verdict.line)));
    out.extend(gate.wrong.iter().map(|wrong| paragraph(style, TextRole::Bad, "  ! ", &wrong.to_string())));
    out += &differences(gate, style);
    for fault in &gate.faults {
        out += &paragraph(style, TextRole::Warning, "  ! ", &format!("{fault}: {}", fault.remedy()));
    }
    out += &table(gate, style, |check| {
        let (state, reason) = check.state.words();
        let low = check.repetitions.iter().filter(|r| r.is_low).count();
        let again = match check.repetitions.len() {
            0 => String::new(),
            n => format!(", {low} of {n} measured again are low"),
        };
        let cause = check.cause().map(|cause| format!(": {cause}")).unwrap_or_default();
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{state}{reason}{again}{cause}")
    });
    out + &not_judged(gate, style)
}

/// Explains what a health check (gate) of `level` 1 to 3 measures, and which losses it detects.
pub fn explained(gate: &Gate, level: u32, style: &Style) -> String {
    let rate = significant(1.0 / gate.rates.false_alarms, 2);
    let most = ["15 seconds", "2 minutes", "15 minutes"][(level.clamp(1, 3) - 1) as usize];
    let intro = format!(
        "Level {level} takes up to {most}. Of {rate} gates of healthy machines at most one answers sick. This \
         assumes that no disturbance which the system does not show lasts for the whole gate. Each check finds the loss in its row in {} of gates.",
        percent(1.0 - MISSED, 2)
    );
    let mut out = paragraph(style, TextRole::Plain, "", &intro);
    out += &differences(gate, style);
    out += &table(gate, style, |check| {
        let (loss, count) = (percent(check.threshold.loss, 2), check.min_low_count());
        format!("finds a loss of {loss}; {count} low measurements show it")
    });
    if gate.shares {
        let text = "Others may share this hardware: a loss without a visible cause gives the answer unknown.";
        out += &paragraph(style, TextRole::Plain, "", text);
    }
    for case in &gate.proofs {
        let text = format!("{}: one wrong answer is sick, and names the CPU", full(case));
        out += &paragraph(style, TextRole::Plain, "", &text);
    }
    out + &not_judged(gate, style)
}

fn differences(gate: &Gate, style: &Style) -> String {
    gate.differences.iter().map(|one| paragraph(style, TextRole::Bad, "  ! ", &one.to_string())).collect()
}

/// Formats a line per reason why the gate does not judge cases, with at most 3 of their names.
fn not_judged(gate: &Gate, style: &Style) -> String {
    const MAX_CASES_NAMED: usize = 3;
    let line = |(why, cases): (&String, Vec<String>)| {
        let named = and_more(&cases, MAX_CASES_NAMED);
        paragraph(style, TextRole::Dim, "  ", &format!("not judged: {named}: {why}"))
    };
    grouped(gate.unjudged.iter().map(|it| (&it.why, full(&it.case)))).into_iter().map(line).collect()
}

/// Formats a row per check; `last` formats its last cell, which has its own line if it is too long.
fn table(gate: &Gate, style: &Style, last: impl Fn(&FigureCheck) -> String) -> String {
    if gate.checks.is_empty() {
        return String::new();
    }
    let styled = |check: &FigureCheck| cells(check, &last).map(|cell| style.styled(&cell));
    let mut rows = vec![(COLUMN_TITLES.map(|cell| style.styled(cell)), TextRole::Dim)];
    rows.extend(gate.checks.iter().map(|check| (styled(check), role(check))));
    let widths = widths(&rows.iter().map(|(row, _)| &row[..5]).collect::<Vec<_>>());
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let mut out = String::new();
    for (index, ([cells @ .., end], role)) in rows.iter().enumerate() {
        let line = aligned(cells, &widths, |at| at > 0);
        out += &match used + end.chars().count() <= style.width {
            true => format!("{line}  {}\n", style.paint(*role, end)),
            false if index == 0 => format!("{line}\n"),
            false => format!("{line}\n{}", paragraph(style, *role, "    ", end)),
        };
    }
    out
}

fn role(check: &FigureCheck) -> TextRole {
    match check.state {
        CheckProgress::Passed => TextRole::Good,
        CheckProgress::Low => TextRole::Bad,
        CheckProgress::Waiting | CheckProgress::NotReported(_) => TextRole::Dim,
        CheckProgress::Suspect | CheckProgress::GivenUp | CheckProgress::Failed(_) => TextRole::Warning,
    }
}

fn cells(check: &FigureCheck, last: &impl Fn(&FigureCheck) -> String) -> [String; 6] {
    let quantity = match check.quantity {
        CheckedQuantity::Figure => "",
        CheckedQuantity::OfLimit => ", of its limit",
        CheckedQuantity::CpuTime => ", CPU time",
    };
    let shown = |value: f64| match check.unit() {
        Some(unit) => Quantity { value, unit }.to_string(),
        None => percent(value, 3),
    };
    [
        full(&check.case) + quantity,
        check.value_shown().map_or_else(|| "-".to_owned(), shown),
        shown(check.threshold.usual),
        shown(check.threshold.low),
        check.threshold.source.words(),
        last(check),
    ]
}

/// Formats a gate with its verdict and all checks as JSON, as schema/gate.v1.json defines it.
pub fn json(gate: &Gate, about: GateAbout<'_>) -> String {
    let verdict = gate.verdict();
    let lost = |code: &str, text: String| json!({ "code": code, "text": text });
    let differences = gate.differences.iter().map(|it| lost(it.code(), it.to_string()));
    let faults = gate.faults.iter().map(|it| lost(it.code(), it.to_string()));
    let not_judged = gate.unjudged.iter().map(|it| json!({ "case": it.case.id(), "reason": it.why }));
    let document = json!({
        "schema": "plimsoll.gate.v1", "version": about.version, "started": about.started,
        "elapsed_s": about.elapsed_s, "host": about.host, "machine": about.machine, "level": about.level,
        "answer": verdict.answer.word(), "line": verdict.line, "cause": verdict.cause,
        "false_alarms": gate.rates.false_alarms, "missed": MISSED,
        "differences": differences.collect::<Vec<_>>(), "faults": faults.collect::<Vec<_>>(),
        "wrong_answers": gate.wrong, "proven": gate.proven.iter().collect::<Vec<_>>(),
        "checks": gate.checks.iter().map(check_in_json).collect::<Vec<_>>(),
        "not_judged": not_judged.collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn check_in_json(check: &FigureCheck) -> Value {
    let (state, reason) = check.state.words();
    let threshold = &check.threshold;
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
        "fewest": check.min_low_count(), "cause": check.cause().map(LowCause::code),
        "evidence": check.cause().map(ToString::to_string),
    })
}

/// Formats Nagios plug-in output (<https://nagios-plugins.org/doc/guidelines.html>): a line, `|`,
/// and `'label'=value[UOM];;crit` per check. `crit` is the range without alarm (`low:` for a
/// minimum, `high` for a maximum); it is empty for undecided checks.
pub fn nagios(gate: &Gate) -> String {
    let verdict = gate.verdict();
    let word = match verdict.answer {
        GateAnswer::Healthy => "OK",
        GateAnswer::Sick => "CRITICAL",
        GateAnswer::Unknown => "UNKNOWN",
    };
    // A bar would start performance data.
    let mut out = format!("PLIMSOLL {word} - {}", verdict.line.replace('|', "/"));
    let mut separator = " |";
    for (check, value) in gate.checks.iter().filter_map(|check| Some((check, check.value_shown()?))) {
        let label = format!("{} {}", full(&check.case), check.quantity.code()).replace(['\'', '=', '|'], " ");
        let unit = if check.unit() == Some(Unit::Second) { "s" } else { "" };
        let end = if check.threshold.better == plimsoll_bench::Better::Higher { ":" } else { "" };
        let is_decided = matches!(check.state, CheckProgress::Passed | CheckProgress::Low);
        // A value beyond a threshold alarms, also one that is no evidence.
        let alarm = if is_decided { format!("{}{end}", check.threshold.low) } else { String::new() };
        out += &format!("{separator} '{label}'={value}{unit};;{alarm}");
        separator = "";
    }
    out + "\n"
}

/// Formats answer, cause, level, times and checks as OpenMetrics gauges for node_exporter.
pub fn metrics(gate: &Gate, about: GateAbout<'_>) -> String {
    let verdict = gate.verdict();
    let mut families = Families::default();
    let is = |answer: GateAnswer| (answer.word(), answer == verdict.answer);
    let answers = [GateAnswer::Healthy, GateAnswer::Sick, GateAnswer::Unknown].map(is);
    families.state("plimsoll_gate_answer", "1 for the answer of the gate", &Vec::new(), "answer", &answers);
    let cause = [("cause", verdict.cause.unwrap_or_default()), ("line", &verdict.line)];
    families.gauge("plimsoll_gate_info", "", "the answer in words, with its cause", &cause, 1.0);
    families.gauge("plimsoll_gate_level", "", "the level of the gate", &[], f64::from(about.level));
    let took = "time that the gate took";
    families.gauge("plimsoll_gate_duration_seconds", "seconds", took, &[], about.elapsed_s);
    let began = "when the gate began, seconds since 1970";
    let time = since_1970(about.started);
    families.gauge("plimsoll_gate_start_time_seconds", "seconds", began, &[], time);
    for check in &gate.checks {
        let id = check.case.id();
        let labels = [("case", id.as_str()), ("what", check.quantity.code())];
        if let Some(value) = check.value_shown() {
            let help = "the figure of a check, in its base unit";
            families.gauge("plimsoll_gate_value", "", help, &labels, value);
        }
        let low = "the figure from which it is low";
        families.gauge("plimsoll_gate_threshold", "", low, &labels, check.threshold.low);
        let is_low = f64::from(u8::from(check.state == CheckProgress::Low));
        families.gauge("plimsoll_gate_low", "", "1 where the loss is there", &labels, is_low);
    }
    families.text()
}
