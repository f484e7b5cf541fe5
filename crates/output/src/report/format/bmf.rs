//! Bencher Metric Format for Bencher's adapter `json`: benchmark → measure → value with bounds
//! (<https://bencher.dev/docs/reference/bencher-metric-format/>). Names are stable between runs, as
//! Bencher's history requires.

use std::collections::BTreeMap;
use std::io;

use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_result::document::Run;
use serde::Serialize;

use super::openmetrics::unit_name;
use super::{Format, OneRun};

pub(super) static FORMAT: Format = Format {
    name: "bmf",
    about: "Bencher Metric Format: medians with their confidence intervals, for continuous benchmarking",
    extension: "json",
    run: Some(run),
    leaves_out: |measurement| figures(measurement).next().is_none(),
    ..Format::NONE
};

#[derive(Serialize)]
struct BmfFigure {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

fn run(of: &OneRun<'_>) -> io::Result<String> {
    let all = of.run.measurements.iter();
    let all = all.map(|m| (benchmark(of.run, m), figures(m).collect::<BTreeMap<String, BmfFigure>>()));
    let benchmarks: BTreeMap<_, _> = all.filter(|(_, figures)| !figures.is_empty()).collect();
    Ok(serde_json::to_string_pretty(&benchmarks)? + "\n")
}

/// Returns the case id, with node and repetition if there are several: `cpu.peak node=a repeat=1`.
pub(super) fn benchmark(run: &Run, measurement: &Measurement) -> String {
    let mut name = measurement.case.id().as_str().to_owned();
    if run.nodes.len() > 1 {
        name += &format!(" node={}", measurement.node);
    }
    if run.plan.repeat > 1 {
        name += &format!(" repeat={}", measurement.repeat);
    }
    plimsoll_units::text::shown_within(&name, MAX_NAME_CHARACTERS)
}

/// Longest name that Bencher accepts, in characters.
const MAX_NAME_CHARACTERS: usize = 1024;

fn figures(measurement: &Measurement) -> impl Iterator<Item = (String, BmfFigure)> {
    let believed = measurement.metrics.iter().filter(|_| measurement.status == Status::Ok);
    let believed = believed.filter(|metric| metric.summary.median.is_finite());
    believed.map(|metric| (measure(metric), figure(metric))).chain(delivered(measurement))
}

/// Returns `METRIC-UNIT-delivered` and the main metric's value with interruptions included; `None`
/// unless more than 10 % of the time was excluded as interrupted.
fn delivered(measurement: &Measurement) -> Option<(String, BmfFigure)> {
    let metric = measurement.headline()?;
    let value = measurement.delivered()?.value;
    let figure = BmfFigure { value, lower_value: None, upper_value: None };
    value.is_finite().then(|| (format!("{}-delivered", measure(metric)), figure))
}

fn figure(metric: &MetricResult) -> BmfFigure {
    let bounds = metric.summary.ci95.filter(|ci| ci.iter().all(|bound| bound.is_finite()));
    let [lower_value, upper_value] = bounds.map_or([None; 2], |bounds| bounds.map(Some));
    BmfFigure { value: metric.summary.median, lower_value, upper_value }
}

/// Returns Bencher's name of a metric, with its unit: `latency-seconds`.
fn measure(metric: &MetricResult) -> String {
    let words = format!("{} {}", metric.name, unit_name(metric.unit)).to_ascii_lowercase();
    let words = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;
    use crate::report::Style;

    fn written(run: &Run) -> String {
        super::run(&OneRun { run, held: &[], style: &Style::plain(100) }).unwrap()
    }

    #[test]
    fn the_document_of_a_run() {
        insta::assert_snapshot!(written(&fixture::run()));
    }

    /// Schema of <https://bencher.dev/bmf.json>, and the longest name of a measure (64 characters).
    #[test]
    fn the_document_is_as_the_published_schema_says() {
        let number = serde_json::json!({ "type": "number" });
        let schema = serde_json::json!({
            "$schema": "http://json-schema.org/draft-07/schema",
            "type": "object",
            "patternProperties": { ".+": {
                "type": "object",
                "patternProperties": { ".+": {
                    "type": "object",
                    "properties": { "value": number, "lower_value": number, "upper_value": number },
                    "required": ["value"],
                } },
                "propertyNames": { "maxLength": 64, "pattern": "^[0-9a-z]+(-[0-9a-z]+)*$" },
            } },
            "propertyNames": { "maxLength": 1024 },
        });
        let schema = jsonschema::validator_for(&schema).unwrap();
        for run in [fixture::run(), fixture::with_tools()] {
            let document: serde_json::Value = serde_json::from_str(&written(&run)).unwrap();
            let errors: Vec<String> = schema.iter_errors(&document).map(|e| e.to_string()).collect();
            assert_eq!(errors, [""; 0]);
            assert!(!document.as_object().unwrap().is_empty());
        }
        assert!(!schema.is_valid(&serde_json::json!({ "a": { "b": { "lower_value": 1 } } })));
    }

    #[test]
    fn what_is_not_believed_is_left_out_and_repeats_have_names_of_their_own() {
        let mut run = fixture::run();
        let believed = run.measurements.iter().filter(|m| m.status == Status::Ok).count();
        let out = run.measurements.iter().filter(|m| (FORMAT.leaves_out)(m)).count();
        assert_eq!(believed + out, run.measurements.len());
        run.plan.repeat = 2;
        let mut again = run.measurements.clone();
        again.iter_mut().for_each(|m| m.repeat = 1);
        run.measurements.extend(again);
        let document: serde_json::Value = serde_json::from_str(&written(&run)).unwrap();
        assert_eq!(document.as_object().unwrap().len(), 2 * believed);
        run.measurements[0].metrics[0].summary.median = f64::NAN;
        assert!(!written(&run).contains("null"), "JSON has no such number");
    }
}
