//! All reports in one chart of each subsystem and metric: every published point that is to be believed, by number of
//! threads, and what the runs of the page measured of the same points.

use std::collections::BTreeSet;

use super::plot::{Point, points};
use super::today::Today;
use crate::document::Run;
use crate::published::{self, Baseline};
use crate::report::context;
use crate::report::html::data::{Axis, Chart, Kind, Role, Scale, Series};
use crate::text::shown_within;

/// Metrics of which a chart is made, as the reports name them.
const METRICS: &[&str] = &["throughput", "latency"];

/// The charts; none where no run of the page replays a report.
pub(in super::super) fn together(runs: &[Run]) -> Vec<Chart> {
    if !runs.iter().any(|run| published::find(&run.plan.name).is_some()) {
        return Vec::new();
    }
    let reports: Vec<Baseline> = published::names().into_iter().filter_map(published::find).collect();
    let mut charts = Vec::new();
    for metric in METRICS {
        for subsystem in ["cpu", "memory", "disk", "network"] {
            charts.extend(chart(&reports, runs, subsystem, metric));
        }
    }
    charts.iter_mut().enumerate().for_each(|(index, chart)| chart.id = format!("together-{index}"));
    charts
}

fn chart(reports: &[Baseline], runs: &[Run], subsystem: &str, metric: &str) -> Option<Chart> {
    let of = |report: &'_ Baseline| -> Vec<(u64, f64, String)> {
        let all = points(report).filter(|p| p.figure.subsystem == subsystem && p.figure.metric == metric);
        all.filter_map(|p| Some((p.figure.threads.parse().ok()?, p.figure.believed()?, words(&p)))).collect()
    };
    let mut lines: Vec<(String, Role, Vec<(u64, f64, String)>)> = Vec::new();
    for run in runs {
        let name = match runs.len() {
            1 => "this run".to_owned(),
            _ => format!("run of {}", shown_within(&run.plan.name, 40)),
        };
        let name = if lines.iter().any(|(known, ..)| *known == name) {
            format!("{name} ({})", run.id)
        } else {
            name
        };
        lines.push((name, Role::Own, measured(reports, run, subsystem, metric)));
    }
    lines.extend(reports.iter().map(|report| (report.title(), Role::Published, of(report))));
    lines.retain(|(_, _, points)| !points.is_empty());
    if lines.iter().filter(|(_, role, _)| *role == Role::Published).count() < 2 {
        return None;
    }
    let unit = reports.iter().flat_map(points).find_map(|p| {
        let same = p.figure.subsystem == subsystem && p.figure.metric == metric;
        p.matched.value.filter(|_| same).map(|(_, unit)| unit)
    })?;
    let threads: BTreeSet<u64> = lines.iter().flat_map(|(_, _, all)| all.iter().map(|(n, ..)| *n)).collect();
    let count = lines.len();
    let series = lines.into_iter().enumerate().map(|(index, (name, role, all))| {
        let shift = (index as f64 - (count as f64 - 1.0) / 2.0) * 0.8 / count as f64;
        let place = |n: u64| threads.iter().position(|known| *known == n).map(|x| x as f64 + shift);
        let points = all.iter().map(|(n, value, _)| vec![place(*n), Some(*value)]).collect();
        let labels = all.into_iter().map(|(.., words)| words).collect();
        Series { labels, scattered: true, ..Series::new(name, role, points) }
    });
    Some(Chart {
        id: String::new(),
        title: format!("{} {metric} of all reports", context::title(subsystem)),
        note: "each point of each report that is to be believed, all operations and blocks; the hover names them".to_owned(),
        kind: Kind::Lines,
        x: Axis::places("threads", threads.iter().map(u64::to_string).collect()),
        y: Axis { scale: Scale::Log, ..Axis::of(unit, metric) },
        series: series.collect(),
        bands: Vec::new(),
    })
}

/// What a run measured of the points of any report, each case once.
fn measured(reports: &[Baseline], run: &Run, subsystem: &str, metric: &str) -> Vec<(u64, f64, String)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for point in reports.iter().flat_map(points) {
        if point.figure.subsystem != subsystem || point.figure.metric != metric {
            continue;
        }
        let today = Today::of(run, point.matched);
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

fn words(point: &Point<'_>) -> String {
    let operation =
        [point.figure.pattern, point.figure.operation].into_iter().filter(|word| !word.is_empty());
    let operation = operation.collect::<Vec<_>>().join(" ");
    format!("{operation}, {}", point.words())
}
