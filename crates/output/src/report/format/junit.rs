//! JUnit XML for build servers: a test case per measurement and per requirement.

use plimsoll_compare::RequirementResult;
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::{Quantity, percent};

use super::Format;

pub(super) static FORMAT: Format = Format {
    name: "junit",
    about: "JUnit XML for build servers: one test case for each measurement, and for each case that a --require names",
    extension: "xml",
    run: Some(|of| Ok(text(of.run, of.held))),
    ..Format::NONE
};

fn text(run: &Run, held: &[RequirementResult]) -> String {
    let is_bad = |m: &&Measurement| matches!(m.status, Status::Failed | Status::Invalid);
    let (errors, failures): (Vec<_>, Vec<_>) =
        run.measurements.iter().filter(is_bad).partition(|m| m.wrong_answer.is_some());
    let unmet = held.iter().filter(|h| !h.met).count();
    let skipped = run.measurements.iter().filter(|m| m.status == Status::Skipped).count();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let (name, started, time) = (escaped(&run.plan.name), escaped(&run.started), run.elapsed_s.max(0.0));
    let tests = run.measurements.len() + held.len();
    let (failures, errors) = (failures.len() + unmet, errors.len());
    text += &format!(
        "<testsuite name=\"plimsoll {name}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\" errors=\"{errors}\" time=\"{time:.3}\" timestamp=\"{started}\">\n"
    );
    run.measurements.iter().for_each(|m| text += &case(m));
    for one in held {
        let name = format!("{} {}", one.requirement, one.case.as_deref().unwrap_or_default());
        let (name, found) = (escaped(name.trim()), escaped(&one.found));
        let inside = match one.met {
            true => format!("<system-out>{found}</system-out>"),
            false => format!("<failure message=\"{found}\"/>"),
        };
        text += &format!("  <testcase classname=\"requirement\" name=\"{name}\">{inside}</testcase>\n");
    }
    text + "</testsuite>\n"
}

fn case(measurement: &Measurement) -> String {
    let reason = escaped(measurement.reason.as_deref().unwrap_or("no reason given"));
    let verdict = match measurement.status {
        Status::Ok => String::new(),
        Status::Failed if measurement.wrong_answer.is_some() => {
            format!("<error type=\"wrong-answer\" message=\"{reason}\"/>")
        }
        Status::Invalid | Status::Failed => format!("<failure message=\"{reason}\"/>"),
        Status::Skipped => format!("<skipped message=\"{reason}\"/>"),
    };
    let stated = (measurement.status == Status::Ok).then(|| figure(measurement));
    let warned = measurement.warnings.iter().map(|w| format!("warning {}: {}", w.code, w.text));
    let lines: Vec<String> = stated.into_iter().chain(warned).map(|line| escaped(&line)).collect();
    let lines = lines.join("\n");
    let out = if lines.is_empty() { lines } else { format!("<system-out>{lines}</system-out>") };
    let inside = verdict + &out;
    let series = measurement.metrics.first().map_or(&[][..], |m| m.series.as_slice());
    let time = series.first().zip(series.last()).map_or(0.0, |(first, last)| (last.t - first.t).max(0.0));
    let (class, name) = (escaped(measurement.case.benchmark()), escaped(measurement.case.id().as_str()));
    format!("  <testcase classname=\"{class}\" name=\"{name}\" time=\"{time:.3}\">{inside}</testcase>\n")
}

fn figure(measurement: &Measurement) -> String {
    let Some(metric) = measurement.metrics.first() else { return String::new() };
    let share = metric.of_limit.map(|s| format!(", {} of limit", percent(s, 3))).unwrap_or_default();
    let value = Quantity::new(metric.summary.median, metric.unit);
    match measurement.delivered().map(|delivered| Quantity::new(delivered.value, metric.unit)) {
        None => format!("{} {value}{share}", metric.name),
        Some(delivered) => format!("{} {value} undisturbed{share}, {delivered} delivered", metric.name),
    }
}

fn escaped(text: &str) -> String {
    let safe = plimsoll_units::text::shown_within(text, 1000);
    let safe = safe.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // The last two are not characters in XML 1.0.
    safe.replace('"', "&quot;").replace('\'', "&apos;").replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use plimsoll_model::sample::{WrongAnswer, WrongAnswerSource};
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn measurements_and_requirements_are_cases() {
        let requirement = "cpu rate >= \"80%\" <of> limit".to_owned();
        let found = "no case of the run has such a name".to_owned();
        let held = [RequirementResult { requirement, case: None, met: false, found }];
        insta::assert_snapshot!(text(&fixture::run(), &held));
    }

    #[test]
    fn a_wrong_answer_is_an_error_and_no_failure() {
        let mut run = fixture::run();
        let failures = text(&run, &[]).matches("<failure").count();
        let wrong = WrongAnswer::new(WrongAnswerSource::Cpu(57), "fma_f64_avx2", "9.25");
        run.measurements[9].wrong_answer = Some(Box::new(wrong));
        let text = text(&run, &[]);
        assert_eq!((text.matches("<error ").count(), text.matches("<failure").count()), (1, failures - 1));
        assert!(text.contains("errors=\"1\""), "{text}");
    }

    #[test]
    fn nothing_outside_becomes_markup() {
        let mut run = fixture::run();
        run.plan.name = "\"/><x>&\u{1b}\u{ffff}".to_owned();
        run.measurements[9].reason = Some("]]></failure><evil/>".to_owned());
        run.measurements[0].warnings = vec![fixture::note("other", "</system-out><evil/>")];
        let text = text(&run, &[]);
        assert!(!text.contains("<x>") && !text.contains("<evil") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(text.matches("<testcase").count(), text.matches("</testcase>").count());
    }
}
