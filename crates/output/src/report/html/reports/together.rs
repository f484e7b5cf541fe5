//! Charts of all reports together: published and measured points by thread count.

use std::collections::BTreeSet;

use plimsoll_published::{LATENCY_METRIC, OwnPoint, PublishedFigure, PublishedReport, THROUGHPUT_METRIC};
use plimsoll_result::document::Run;
use plimsoll_units::text::shown_within;

use super::lines::shift;
use super::plots::words;
use crate::report::html::charts::as_places;
use crate::report::html::data::{AxisScale, Chart, ChartAxis, ChartKind, ChartSeries, SeriesRole, number};
use crate::report::published::today::ReplayRuns;
use crate::report::{context, joined};

const CHARTED_METRICS: &[&str] = &[THROUGHPUT_METRIC, LATENCY_METRIC];

/// Builds charts of all published reports and `runs`; empty if no run replays a report.
pub(in super::super) fn together(runs: &[Run]) -> Vec<Chart> {
    if !runs.iter().any(|run| plimsoll_published::find(&run.plan.name).is_some()) {
        return Vec::new();
    }
    let reports: Vec<PublishedReport> =
        plimsoll_published::names().into_iter().filter_map(plimsoll_published::find).collect();
    let pairs = CHARTED_METRICS.iter().flat_map(|name| plimsoll_bench::commands().map(move |of| (of, name)));
    let mut charts: Vec<Chart> = pairs.filter_map(|(of, metric)| chart(&reports, runs, of, metric)).collect();
    number(&mut charts, "together");
    charts
}

/// Thread count, value and description of a point.
type Dot = (u64, f64, String);

fn chart(reports: &[PublishedReport], runs: &[Run], subsystem: &str, metric: &str) -> Option<Chart> {
    let is = |(of, _): &OwnPoint<'_>| of.subsystem == subsystem && of.metric == metric;
    let mut series: Vec<ChartSeries> = Vec::new();
    for run in runs {
        let colour = reports.iter().position(|report| report.name == run.plan.name).unwrap_or(reports.len());
        let name = name(run, runs.len(), &series);
        series.push(dots(name, SeriesRole::Own, colour, measured(reports, run, is)));
    }
    for (colour, report) in reports.iter().enumerate() {
        let dot = |(figure, _): OwnPoint<'_>| {
            let value = figure.base.filter(|_| figure.believed().is_some())?.0;
            Some((figure.threads.parse().ok()?, value, describe(figure)))
        };
        let all = report.own_points().filter(is).filter_map(dot).collect();
        series.push(dots(report.title(), SeriesRole::Published, colour, all));
    }
    series.retain(|one| !one.points.is_empty());
    if series.iter().filter(|one| one.role == SeriesRole::Published).count() < 2 {
        return None;
    }
    let mut points = reports.iter().flat_map(PublishedReport::own_points).filter(is);
    let unit = points.find_map(|(figure, _)| Some(figure.base?.1))?;
    let mut chart = Chart {
        title: format!("{} {metric} of all reports", context::title(subsystem)),
        note: "each point that is to be believed, of all operations and blocks: circles measured, squares published".to_owned(),
        x: ChartAxis::linear("threads", ""),
        y: ChartAxis::log(metric, unit.name()),
        series,
        ..Chart::default()
    };
    as_places(&mut chart, ChartKind::Lines);
    chart.x.scale = AxisScale::Places;
    let distance = 0.8 / chart.series.len() as f64;
    shift(chart.series.iter_mut().collect(), distance);
    Some(chart)
}

/// Names a run: "this run" if `runs`, the number of runs, is 1, else by its plan. Adds its id if
/// that name is in `known`.
fn name(run: &Run, runs: usize, known: &[ChartSeries]) -> String {
    let name = match runs {
        1 => "this run".to_owned(),
        _ => format!("run of {}", shown_within(&run.plan.name, 40)),
    };
    if known.iter().any(|one| one.name == name) { format!("{name} ({})", run.id) } else { name }
}

fn dots(name: String, role: SeriesRole, colour: usize, all: Vec<Dot>) -> ChartSeries {
    let dot = |(threads, value, label)| (vec![Some(threads as f64), Some(value)], label);
    let (points, labels) = all.into_iter().map(dot).unzip();
    ChartSeries { labels, scattered: true, colour: Some(colour), ..ChartSeries::new(name, role, points) }
}

/// Returns (threads, mean, label) of each case of `run` that a report has and `is` selects, once.
fn measured(reports: &[PublishedReport], run: &Run, is: impl Fn(&OwnPoint<'_>) -> bool) -> Vec<Dot> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for report in reports {
        let runs = ReplayRuns::new(report, std::iter::once(run));
        for (figure, matched) in report.own_points().filter(&is) {
            let today = runs.of(matched, "");
            let mean = today.believed().filter(|mean| *mean > 0.0);
            let (Some(case), Some(mean), Ok(threads)) = (today.case, mean, figure.threads.parse()) else {
                continue;
            };
            if seen.insert((case.id().as_str().to_owned(), matched.metric)) {
                found.push((threads, mean, describe(figure)));
            }
        }
    }
    found
}

fn describe(figure: &PublishedFigure) -> String {
    format!("{}, {}", joined(&[figure.pattern, figure.operation], " "), words(figure))
}
