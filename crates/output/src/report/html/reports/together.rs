//! Charts of all reports together: published and measured points by thread count.

use std::collections::BTreeSet;

use plimsoll_published::{LATENCY_METRIC, PublishedReport, THROUGHPUT_METRIC};
use plimsoll_result::document::Run;
use plimsoll_units::text::shown_within;

use super::plot::{PlottedPoint, points};
use super::today::PointToday;
use crate::report::html::data::{Chart, ChartAxis, ChartSeries, SeriesRole, number};
use crate::report::{context, joined};

const CHARTED_METRICS: &[&str] = &[THROUGHPUT_METRIC, LATENCY_METRIC];

/// Builds the charts of all published reports together; empty if no run replays a report.
pub(in super::super) fn together(runs: &[Run]) -> Vec<Chart> {
    if !runs.iter().any(|run| plimsoll_published::find(&run.plan.name).is_some()) {
        return Vec::new();
    }
    let reports: Vec<PublishedReport> =
        plimsoll_published::names().into_iter().filter_map(plimsoll_published::find).collect();
    let mut charts = Vec::new();
    for metric in CHARTED_METRICS {
        for subsystem in plimsoll_bench::commands() {
            charts.extend(chart(&reports, runs, subsystem, metric));
        }
    }
    number(&mut charts, "together");
    charts
}

/// Thread count, value and description of a point.
type Dot = (u64, f64, String);

struct Dots {
    name: String,
    role: SeriesRole,
    colour: usize,
    all: Vec<Dot>,
}

fn chart(reports: &[PublishedReport], runs: &[Run], subsystem: &str, metric: &str) -> Option<Chart> {
    let is = |p: &PlottedPoint<'_>| p.figure.subsystem == subsystem && p.figure.metric == metric;
    let mut lines: Vec<Dots> = Vec::new();
    for run in runs {
        let colour = reports.iter().position(|report| report.name == run.plan.name).unwrap_or(reports.len());
        let name = name(run, runs.len(), &lines);
        lines.push(Dots { name, role: SeriesRole::Own, colour, all: measured(reports, run, is) });
    }
    for (colour, report) in reports.iter().enumerate() {
        let dot = |p: PlottedPoint<'_>| {
            let value = p.figure.base.filter(|_| p.figure.believed().is_some())?.0;
            Some((p.figure.threads.parse().ok()?, value, words(&p)))
        };
        let all = points(report).filter(is).filter_map(dot).collect();
        lines.push(Dots { name: report.title(), role: SeriesRole::Published, colour, all });
    }
    lines.retain(|dots| !dots.all.is_empty());
    if lines.iter().filter(|dots| dots.role == SeriesRole::Published).count() < 2 {
        return None;
    }
    let unit = reports.iter().flat_map(points).filter(is).find_map(|p| Some(p.figure.base?.1))?;
    let threads: BTreeSet<u64> = lines.iter().flat_map(|dots| dots.all.iter().map(|(n, ..)| *n)).collect();
    Some(Chart {
        title: format!("{} {metric} of all reports", context::title(subsystem)),
        note: "each point that is to be believed, of all operations and blocks: circles measured, squares published".to_owned(),
        x: ChartAxis::places("threads", threads.iter().map(u64::to_string).collect()),
        y: ChartAxis::log(metric, unit.name()),
        series: side_by_side(lines, &threads),
        ..Chart::default()
    })
}

/// Names a run: "this run" if `runs`, the number of runs, is 1, else by its plan. Adds its id if
/// that name is in `known`.
fn name(run: &Run, runs: usize, known: &[Dots]) -> String {
    let name = match runs {
        1 => "this run".to_owned(),
        _ => format!("run of {}", shown_within(&run.plan.name, 40)),
    };
    if known.iter().any(|dots| dots.name == name) { format!("{name} ({})", run.id) } else { name }
}

/// Converts `lines` to series; each is shifted sideways in the columns of `threads`, the thread
/// counts.
fn side_by_side(lines: Vec<Dots>, threads: &BTreeSet<u64>) -> Vec<ChartSeries> {
    let count = lines.len() as f64;
    let one = |(index, dots): (usize, Dots)| {
        let shift = (index as f64 - (count - 1.0) / 2.0) * 0.8 / count;
        let place = |n: u64| threads.iter().position(|known| *known == n).map(|x| x as f64 + shift);
        let points = dots.all.iter().map(|(n, value, _)| vec![place(*n), Some(*value)]).collect();
        let labels = dots.all.into_iter().map(|(.., words)| words).collect();
        ChartSeries {
            labels,
            scattered: true,
            colour: Some(dots.colour),
            ..ChartSeries::new(dots.name, dots.role, points)
        }
    };
    lines.into_iter().enumerate().map(one).collect()
}

/// Returns thread count, mean and label of the measured points for which `is` is true, each case
/// once.
fn measured(reports: &[PublishedReport], run: &Run, is: impl Fn(&PlottedPoint<'_>) -> bool) -> Vec<Dot> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for point in reports.iter().flat_map(points).filter(is) {
        let today = PointToday::of(run, point.matched);
        let Some(case) = today.measurements().first().map(|m| m.case.id().as_str().to_owned()) else {
            continue;
        };
        let (Some([mean, ..]), Ok(threads)) = (today.figure(), point.figure.threads.parse()) else {
            continue;
        };
        if seen.insert((case, point.matched.metric)) {
            found.push((threads, mean, words(&point)));
        }
    }
    found
}

fn words(point: &PlottedPoint<'_>) -> String {
    format!("{}, {}", joined(&[point.figure.pattern, point.figure.operation], " "), point.words())
}
