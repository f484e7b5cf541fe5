//! JSON for github-action-benchmark's tools `customBiggerIsBetter` and `customSmallerIsBetter`
//! (<https://github.com/benchmark-action/github-action-benchmark#examples>). That action accepts
//! one direction per file, so rates and times are two formats.

use std::io;

use plimsoll_bench::Better;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_units::quantity::{Quantity, percent};
use serde::Serialize;

use super::bmf::benchmark;
use super::{Format, OneRun};
use crate::report::listed;

pub(super) static BIGGER: Format = Format {
    name: "github-bigger",
    about: "for github-action-benchmark, tool customBiggerIsBetter: main metrics for which higher is better",
    extension: "json",
    run: Some(|of| text(of, Better::Higher)),
    leaves_out: |measurement| headline(measurement, Better::Higher).is_none(),
    elsewhere: |measurement| headline(measurement, Better::Lower).map(|_| SMALLER.name),
    ..Format::NONE
};

pub(super) static SMALLER: Format = Format {
    name: "github-smaller",
    about: "for github-action-benchmark, tool customSmallerIsBetter: main metrics for which lower is better",
    run: Some(|of| text(of, Better::Lower)),
    leaves_out: |measurement| headline(measurement, Better::Lower).is_none(),
    elsewhere: |measurement| headline(measurement, Better::Higher).map(|_| BIGGER.name),
    ..BIGGER
};

#[derive(Serialize)]
struct GithubFigure {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<String>,
}

fn headline(measurement: &Measurement, better: Better) -> Option<&MetricResult> {
    let believed = measurement.headline().filter(|_| measurement.status == Status::Ok);
    believed.filter(|metric| metric.better == better && metric.summary.median.is_finite())
}

fn text(of: &OneRun<'_>, better: Better) -> io::Result<String> {
    let figure = |measurement: &Measurement| {
        let metric = headline(measurement, better)?;
        let ends = metric.summary.ci95.filter(|ends| ends.iter().all(|end| end.is_finite()));
        let range = ends.map(|[low, high]| format!("± {}", (high - low) / 2.0));
        let (name, extra) = (benchmark(of.run, measurement), extra(measurement, metric));
        Some(GithubFigure { name, unit: metric.unit.name(), value: metric.summary.median, range, extra })
    };
    let figures: Vec<GithubFigure> = of.run.measurements.iter().filter_map(figure).collect();
    Ok(serde_json::to_string_pretty(&figures)? + "\n")
}

/// Formats the share of the limit, and if the result excludes interruptions the value that includes
/// them: `90 % of the limit, undisturbed; 22 GFLOP/s delivered`. `None` if it has neither.
fn extra(measurement: &Measurement, metric: &MetricResult) -> Option<String> {
    let limit = metric.of_limit.filter(|share| share.is_finite());
    let limit = limit.map(|share| format!("{} of the limit", percent(share, 3)));
    let delivered = measurement.delivered().map(|delivered| Quantity::new(delivered.value, metric.unit));
    let delivered = delivered.map(|delivered| format!("undisturbed; {delivered} delivered"));
    listed(limit.into_iter().chain(delivered), ", ")
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;
    use crate::report::Style;
    use crate::report::format::left_out;

    fn written(format: &Format) -> serde_json::Value {
        let (run, style) = (fixture::run(), Style::plain(100));
        let text = format.run.unwrap()(&OneRun { run: &run, held: &[], style: &style }).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn rates_and_times_are_in_files_of_their_own() {
        let run = fixture::run();
        let all =
            run.measurements.iter().filter(|m| m.status == Status::Ok && m.headline().is_some()).count();
        let [bigger, smaller] = [&BIGGER, &SMALLER].map(written);
        let count = |list: &serde_json::Value| list.as_array().unwrap().len();
        assert_eq!(count(&bigger) + count(&smaller), all);
        for figure in bigger.as_array().unwrap().iter().chain(smaller.as_array().unwrap()) {
            assert!(["name", "unit"].iter().all(|key| figure[key].is_string()), "{figure}");
            assert!(figure["value"].is_f64(), "{figure}");
        }
        let left = run.measurements.iter().filter(|m| (BIGGER.leaves_out)(m)).count();
        assert_eq!(left, run.measurements.len() - count(&bigger));
    }

    #[test]
    fn a_figure_of_the_other_direction_is_no_invalid_one() {
        let mut run = fixture::run();
        let all = run.measurements.len();
        let invalid = run.measurements.iter().filter(|m| m.headline().is_none()).count();
        let wanted = format!("{invalid} of {all} cases have no valid figure and are not in ");
        for format in [&BIGGER, &SMALLER] {
            assert!(left_out(format, &run).unwrap().starts_with(&wanted));
        }
        run.measurements.retain(|m| headline(m, Better::Higher).is_some());
        assert_eq!(left_out(&BIGGER, &run), None);
        let stated = left_out(&SMALLER, &run).unwrap();
        assert!(stated.ends_with("the other direction: use --format github-bigger"), "{stated}");
    }
}
