//! Checks results of plimsoll itself against the limits in their own document.

use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_units::quantity::Unit;
use plimsoll_units::text;

use crate::verdict::{Checked, CheckedFigure, ImpossibleCause, LimitShown, Plausibility};

/// Judges the measurements of a plimsoll run: wrong answers and invalid figures are impossible,
/// figures with a limit fine, all else unjudged. `document` is the number of the run in the file,
/// from 1, if the file has several.
pub fn check_measurements(
    file: &str,
    document: Option<usize>,
    version: &str,
    measurements: &[Measurement],
) -> Checked {
    Checked {
        file: text::shown(file),
        document,
        tool: "plimsoll",
        version: Some(text::shown(version)),
        trouble: None,
        rows: measurements.iter().map(row).collect(),
    }
}

fn row(made: &Measurement) -> CheckedFigure {
    let metric = made.metrics.first();
    let limit = metric.and_then(|metric| metric.limit.as_ref()).and_then(LimitShown::of);
    let (verdict, cause) = match made.status {
        _ if made.wrong_answer.is_some() => (Plausibility::Impossible, Some(ImpossibleCause::WrongAnswer)),
        Status::Invalid => (Plausibility::Impossible, Some(ImpossibleCause::Unexplained)),
        Status::Ok if limit.is_some() => (Plausibility::Fine, None),
        Status::Ok | Status::Failed | Status::Skipped => (Plausibility::Unjudged, None),
    };
    let reason = made.wrong_answer.as_ref().map(|wrong| wrong.headline());
    let reason = reason.or_else(|| made.reason.clone()).unwrap_or_default();
    let known_unit = || {
        let benchmark = plimsoll_bench::find(made.case.benchmark())?;
        benchmark.metrics(&made.case).first().map(|metric| metric.unit)
    };
    CheckedFigure {
        name: text::shown(&format!("{}: {}", made.node, made.case.id())),
        value: metric.map_or(f64::NAN, |metric| metric.summary.median),
        unit: metric.map(|metric| metric.unit).or_else(known_unit).unwrap_or(Unit::Second),
        limit,
        of_limit: metric.and_then(|metric| metric.of_limit),
        verdict,
        cause,
        certain: cause.map(|cause| cause == ImpossibleCause::WrongAnswer),
        reason: text::shown(&reason),
        contradicts_itself: false,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::fixture;
    use plimsoll_model::limit::LimitKind;
    use plimsoll_model::sample::{WrongAnswer, WrongAnswerSource};

    use super::*;

    #[test]
    fn a_wrong_answer_is_impossible_and_a_figure_without_a_limit_is_not_fine() {
        let limit = fixture::derived(120e9, LimitKind::Ceiling, "a formula");
        let known = fixture::measured("cpu.peak/op=fma", "rate", Unit::FlopPerSecond, 100e9).limited(limit);
        let unknown = fixture::measured("cpu.peak/op=fma", "rate", Unit::FlopPerSecond, 100e9);
        let answer = WrongAnswer::new(WrongAnswerSource::Cpu(57), "fma_f64_avx2", "9.25");
        let (status, wrong_answer) = (Status::Failed, Some(Box::new(answer)));
        let wrong = Measurement { status, metrics: Vec::new(), wrong_answer, ..unknown.clone() };
        let checked = check_measurements("run.json", None, "0.1.0", &[known, unknown, wrong]);
        let verdicts: Vec<_> = checked.rows.iter().map(|row| (row.verdict, row.cause)).collect();
        let impossible = (Plausibility::Impossible, Some(ImpossibleCause::WrongAnswer));
        assert_eq!(verdicts, [(Plausibility::Fine, None), (Plausibility::Unjudged, None), impossible]);
        assert!(!checked.passes() && checked.rows[2].reason.contains("CPU 57"), "{checked:?}");
    }
}
