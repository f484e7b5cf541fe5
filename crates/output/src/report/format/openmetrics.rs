//! OpenMetrics text (<https://github.com/prometheus/OpenMetrics>, version 1.0), as node_exporter's textfile collector
//! and Prometheus read it: one gauge a kind of metric and unit, a line a case.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Format;
use crate::document::Run;
use crate::measurement::Status;
use crate::quantity::Unit;

/// The format.
pub(super) static FORMAT: Format = Format {
    name: "openmetrics",
    about: "gauges for Prometheus and node_exporter's textfile collector",
    extension: "prom",
    run: Some(|of, out| out.write_all(text(of.run).as_bytes())),
    ..Format::NONE
};

/// The text.
fn text(run: &Run) -> String {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut add = |name: String, unit: &'static str, help: String, line: Line| {
        families.entry(name).or_insert_with(|| Family { unit, help, lines: Vec::new() }).lines.push(line);
    };
    for measurement in &run.measurements {
        let case = measurement.case.id();
        let repeat = measurement.repeat.to_string();
        let labels = |more: &[(&str, &str)]| {
            let mut all = vec![("case", case.as_str()), ("node", measurement.node.as_str())];
            // One series a repeat, or a scraper would see the same series twice.
            all.extend((run.plan.repeat > 1).then_some(("repeat", repeat.as_str())));
            all.extend_from_slice(more);
            labelled(&all)
        };
        for code in measurement.warning_codes() {
            let help = "1: the case carries this warning".to_owned();
            let labels = labels(&[("code", code)]);
            add("plimsoll_case_warning".to_owned(), "", help, Line { labels, value: 1.0 });
        }
        let believed = measurement.metrics.iter().filter(|_| measurement.status == Status::Ok);
        for metric in believed {
            let unit = unit_name(metric.unit);
            let stem = format!("plimsoll_{}_{}", word(measurement.case.benchmark()), word(&metric.name));
            let name = if unit.is_empty() { stem.clone() } else { format!("{stem}_{unit}") };
            let help = format!("{} of {}, median of the samples", metric.name, measurement.case.benchmark());
            add(name, unit, help, Line { labels: labels(&[]), value: metric.summary.median });
            if let Some(share) = metric.of_limit {
                let help = "share of the physical limit, 1 is best".to_owned();
                let labels = labels(&[("metric", &metric.name)]);
                add("plimsoll_of_limit_ratio".to_owned(), "ratio", help, Line { labels, value: share });
            }
        }
    }
    let started = run.started.parse::<jiff::Timestamp>().map_or(0.0, |t| t.as_millisecond() as f64 / 1e3);
    let labels = labelled(&[("run", &run.id), ("plan", &run.plan.name), ("version", &run.version)]);
    let help = "when the run began, seconds since 1970".to_owned();
    add(
        "plimsoll_run_started_timestamp_seconds".to_owned(),
        "seconds",
        help,
        Line { labels, value: started },
    );
    let failed =
        run.measurements.iter().filter(|m| matches!(m.status, Status::Failed | Status::Invalid)).count();
    let help = "cases that failed or are invalid".to_owned();
    add("plimsoll_run_bad_cases".to_owned(), "", help, Line { labels: String::new(), value: failed as f64 });
    families.iter().map(|(name, family)| family.text(name)).collect::<String>() + "# EOF\n"
}

struct Family {
    unit: &'static str,
    help: String,
    lines: Vec<Line>,
}

struct Line {
    labels: String,
    value: f64,
}

impl Family {
    fn text(&self, name: &str) -> String {
        let mut text = format!("# TYPE {name} gauge\n");
        if !self.unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {}", self.unit);
        }
        let _ = writeln!(text, "# HELP {name} {}", escaped(&self.help));
        for line in &self.lines {
            let _ = writeln!(text, "{name}{} {}", line.labels, number(line.value));
        }
        text
    }
}

/// A unit's name must end the metric's.
pub(super) fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::BytePerSecond => "bytes_per_second",
        Unit::BitPerSecond => "bits_per_second",
        Unit::FlopPerSecond => "flop_per_second",
        Unit::OpPerSecond => "operations_per_second",
        Unit::IoPerSecond => "io_per_second",
        Unit::PerSecond => "per_second",
        Unit::Second => "seconds",
        Unit::One => "",
        Unit::Byte => "bytes",
        Unit::Hertz => "hertz",
    }
}

fn word(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        v => v.to_string(),
    }
}

fn labelled(labels: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
    format!("{{{}}}", labels.iter().map(one).collect::<Vec<_>>().join(","))
}

fn escaped(text: &str) -> String {
    crate::text::shown_within(text, 1000).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_text_of_a_run() {
        insta::assert_snapshot!(text(&fixture::run()));
    }

    #[test]
    fn every_family_stands_together_and_ends_in_its_unit() {
        let text = text(&fixture::run());
        assert!(text.ends_with("# EOF\n"));
        let mut seen = Vec::new();
        for line in text.lines().filter(|l| !l.starts_with("# ")) {
            let name = line.split(['{', ' ']).next().unwrap().to_owned();
            if seen.last() != Some(&name) {
                assert!(!seen.contains(&name), "{name} stands in two places");
                seen.push(name.clone());
            }
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            if let Some(unit) = text.lines().find_map(|l| l.strip_prefix(&format!("# UNIT {name} "))) {
                assert!(name.ends_with(unit), "{name} {unit}");
            }
        }
        assert!(seen.len() > 5, "{seen:?}");
    }

    #[test]
    fn no_series_stands_twice_when_all_was_measured_twice() {
        let mut run = fixture::run();
        let mut again = run.measurements.clone();
        again.iter_mut().for_each(|m| m.repeat = 1);
        run.measurements.extend(again);
        run.plan.repeat = 2;
        let text = text(&run);
        let mut series: Vec<&str> = text
            .lines()
            .filter(|l| !l.starts_with('#'))
            .filter_map(|l| l.rsplit_once(' '))
            .map(|(s, _)| s)
            .collect();
        let all = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), all);
    }

    #[test]
    fn hostile_labels_stay_in_their_quotes() {
        let mut run = fixture::run();
        run.measurements[0].node = "a\"} 1\n# EOF\n\\".to_owned();
        let text = text(&run);
        assert_eq!(text.matches("\n# EOF").count(), 1);
        assert!(text.contains(r#"node="a\"} 1\\u{a}# EOF\\u{a}\\""#), "{text}");
    }
}
