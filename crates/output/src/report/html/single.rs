//! Charts of single measurements (series, distributions, curves, matrices), and of reference tools.

use plimsoll_bench::label::label;
use plimsoll_bench::{Better, Curve};
use plimsoll_model::case::{ALL_PAIRS, Case, KEYS};
use plimsoll_model::measurement::{Flow, Measurement, MetricResult, NOTABLE, SamplePoint};
use plimsoll_model::words::human;
use plimsoll_result::document::Run;
use plimsoll_stats::{Ratio, Seed, segments};

use super::alike::short_names;
use super::data::{self, Band, Chart, ChartAxis, ChartKind, ChartPoint, ChartSeries, SeriesRole, number};
use crate::report::grouped;

const LEAST_SERIES: usize = 30;

const LONG: f64 = 30.0;
const LEAST_LONG: usize = 5;

const MOST_DISTRIBUTIONS: usize = 8;

const MOST_STEPS: usize = 200;

/// Builds the charts of single measurements of a subsystem (distributions, curves, heat maps, time
/// series); no time series of measurements for which `elsewhere` is true.
pub(super) fn of(run: &Run, subsystem: &str, elsewhere: impl Fn(&Measurement) -> bool) -> Vec<Chart> {
    let own = run.measurements.iter().filter(|m| m.case.subsystem() == subsystem);
    let all: Vec<_> = own.filter_map(|m| Some((m, m.headline()?))).collect();
    let mut charts = distributions(&all);
    for (measurement, metric) in &all {
        charts.extend(curve(measurement, metric));
        charts.extend(heat(run, measurement, metric));
        charts.extend(series(measurement, metric, run.seed).filter(|_| !elsewhere(measurement)));
    }
    number(&mut charts, &format!("{subsystem}-single"));
    charts
}

pub(super) fn series(measurement: &Measurement, metric: &MetricResult, seed: u64) -> Option<Chart> {
    let timed = metric.timed();
    let span = timed.last().zip(timed.first()).map_or(0.0, |(last, first)| last.t - first.t);
    if timed.len() < if span >= LONG { LEAST_LONG } else { LEAST_SERIES } {
        return None;
    }
    // Unit of the time axis, and the factor from seconds to it.
    let (unit, second) = match timed.last().map_or(0.0, |last| last.t) {
        span if span >= 3.0 * 3600.0 => ("h", 1.0 / 3600.0),
        span if span >= 1200.0 => ("min", 1.0 / 60.0),
        _ => ("s", 1.0),
    };
    let points = timed.iter().map(|p| vec![Some(p.t * second), Some(p.value)]).collect();
    let id = measurement.case.id();
    let levels = segments(&timed, Seed::new(seed, id.as_str(), &metric.name));
    let mut lines = vec![ChartSeries::new(metric.name.clone(), SeriesRole::Own, points)];
    let level = |s: &plimsoll_stats::Segment| [s.from, s.to].map(|t| vec![Some(t * second), Some(s.median)]);
    let differs = |(point, value): (&SamplePoint, &f64)| {
        point.delivered.is_some_and(|delivered| (delivered / value - 1.0).abs() >= NOTABLE)
    };
    if metric.series.iter().zip(&metric.samples).any(differs) {
        let points = metric.series.iter().map(|p| vec![Some(p.t * second), p.delivered]).collect();
        lines.push(ChartSeries::new("delivered", SeriesRole::Delivered, points));
    }
    lines.push(ChartSeries::new("level", SeriesRole::Fit, levels.iter().flat_map(level).collect()));
    let note = match levels.len().saturating_sub(1) {
        0 => "no lasting change of level".to_owned(),
        n => format!("{} of level", plimsoll_units::text::format_count(n, "lasting change")),
    };
    Some(Chart {
        title: format!("{} over time", label(&measurement.case)),
        note,
        x: ChartAxis::linear("time", unit),
        y: ChartAxis::linear(&metric.name, metric.unit.name()),
        series: lines,
        ..Chart::default()
    })
}

/// Draws operation time distributions in one chart, or for over 8 cases one per operation size.
fn distributions(all: &[(&Measurement, &MetricResult)]) -> Vec<Chart> {
    type Timed<'a> = (&'a Measurement, &'a [(f64, u64)]);
    let timed = all.iter().filter_map(|(of, _)| {
        let mut histograms = of.metrics.iter().filter_map(|m| m.histogram.as_deref());
        Some((*of, histograms.next()?))
    });
    let timed: Vec<Timed<'_>> = timed.collect();
    let split_by_size = timed.len() > MOST_DISTRIBUTIONS;
    let size = |m: &Measurement| {
        let mut sizes = KEYS.iter().filter(|key| key.is_transfer_size && split_by_size);
        sizes.find_map(|key| Some(format!(" · {} {}", key.name, human(m.case.get(key.name)?))))
    };
    let groups = grouped(timed.into_iter().map(|one| (size(one.0).unwrap_or_default(), one)));
    let chart = |(size, group): (String, Vec<Timed<'_>>)| {
        let names = distinguishing_words(&group.iter().map(|(m, _)| &m.case).collect::<Vec<_>>());
        let series = names.into_iter().zip(&group);
        let series = series.map(|(name, (_, all))| ChartSeries::new(name, SeriesRole::Own, steps(all)));
        Chart {
            title: format!("Latency of single operations{size}"),
            note: "share of operations with at most this latency; further left is better".to_owned(),
            x: ChartAxis::log("latency", "s"),
            y: ChartAxis::linear("share of operations", "%"),
            series: series.collect(),
            ..Chart::default()
        }
    };
    groups.into_iter().map(chart).collect()
}

/// Returns a name per case without parameters that all share, or full names if these are ambiguous.
fn distinguishing_words(cases: &[&Case]) -> Vec<String> {
    let differs = |key: &str| cases.windows(2).any(|pair| pair[0].get(key) != pair[1].get(key));
    let shared = KEYS.iter().filter(|key| !key.titled && !differs(key.name)).map(|key| key.name);
    let shared: Vec<&str> = shared.collect();
    let short: Vec<Case> = cases.iter().map(|case| (*case).clone().without(&shared)).collect();
    let names = short_names(&short.iter().collect::<Vec<_>>());
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    if distinct.len() == cases.len() { names } else { cases.iter().map(|case| label(case)).collect() }
}

/// Converts a histogram (upper edge, count) to about [`MOST_STEPS`] points (edge, cumulative %).
fn steps(histogram: &[(f64, u64)]) -> Vec<ChartPoint> {
    let total: u64 = histogram.iter().map(|(_, n)| n).sum();
    let (mut seen, mut last) = (0, f64::NEG_INFINITY);
    let mut points = Vec::new();
    for (index, (edge, count)) in histogram.iter().enumerate() {
        seen += count;
        let share = seen as f64 / total.max(1) as f64 * 100.0;
        if share - last >= 100.0 / MOST_STEPS as f64 || index + 1 == histogram.len() {
            points.push(vec![Some(rounded(*edge)), Some(rounded(share))]);
            last = share;
        }
    }
    points
}

/// Rounds to five significant digits, to shorten a page with half a million such numbers.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// Draws the curves of a search or sweep, over the axes that the benchmark defines; may be empty.
fn curve(measurement: &Measurement, metric: &MetricResult) -> Vec<Chart> {
    let kinds = plimsoll_bench::find(measurement.case.benchmark()).map(|of| of.descriptor().curves);
    let (Some(curve), Some(kinds)) = (&metric.curve, kinds) else { return Vec::new() };
    let draw = |kind: &Curve| {
        let mut points: Vec<ChartPoint> =
            curve.iter().filter_map(|p| Some(vec![Some(*p.get(kind.x)?), Some(*p.get(kind.y)?)])).collect();
        points.sort_by(|a, b| a[0].unwrap_or(0.0).total_cmp(&b[0].unwrap_or(0.0)));
        (points.len() > 1).then(|| Chart {
            title: format!("{}: {} by {}", label(&measurement.case), kind.y, kind.x),
            x: if kind.log { ChartAxis::log } else { ChartAxis::linear }(kind.x, kind.x_unit),
            y: ChartAxis::linear(kind.y, kind.y_unit),
            series: vec![ChartSeries::new(kind.y, SeriesRole::Own, points)],
            ..Chart::default()
        })
    };
    kinds.iter().filter_map(draw).collect()
}

fn heat(run: &Run, measurement: &Measurement, metric: &MetricResult) -> Option<Chart> {
    let matrix = metric.matrix.as_ref()?;
    let machines = measurement.case.server() == Some(ALL_PAIRS);
    let place = |number: &u32| match run.nodes.get(*number as usize).filter(|_| machines) {
        Some(node) => plimsoll_units::text::shown_within(&node.name, 64),
        None => number.to_string(),
    };
    let flow = Flow::of(&measurement.case, metric.better == Better::Higher);
    let names = |numbers: &[u32]| numbers.iter().map(place).collect::<Vec<_>>();
    let point = |row: usize, (column, value): (usize, &Option<f64>)| {
        value.map(|value| vec![Some(column as f64), Some(row as f64), Some(value)])
    };
    let rows = matrix.values.iter().enumerate();
    let points = rows.flat_map(|(row, all)| all.iter().enumerate().filter_map(move |one| point(row, one)));
    Some(Chart {
        title: format!("{}: from each to each", label(&measurement.case)),
        note: if machines { flow.orientation().to_owned() } else { String::new() },
        kind: ChartKind::Heat,
        x: ChartAxis::categories("to", names(&matrix.columns)),
        y: ChartAxis { unit: metric.unit.name(), ..ChartAxis::categories("from", names(&matrix.rows)) },
        series: vec![ChartSeries::new(metric.name.clone(), SeriesRole::Own, points.collect())],
        ..Chart::default()
    })
}

/// Builds the chart of our result ÷ each reference tool's, with intervals; `None` without ratios.
pub(super) fn forest(run: &Run) -> Option<Chart> {
    let cases: Vec<&Case> = run.measurements.iter().map(|m| &m.case).collect();
    let (mut rows, mut margin) = (Vec::new(), 0.0_f64);
    for (measurement, name) in run.measurements.iter().zip(short_names(&cases)) {
        for tool_result in measurement.metrics.iter().flat_map(|metric| &metric.tool_results) {
            margin = margin.max(tool_result.margin);
            let row = |ratio: Ratio| (format!("{} · {name}", tool_result.tool), ratio.median, ratio.ci95);
            rows.extend(tool_result.ratio.map(row));
        }
    }
    let chart = Chart {
        id: "forest".to_owned(),
        title: "plimsoll ÷ reference tool".to_owned(),
        note: "1: equal; points: median of the pairs' ratios; bars: 95 % interval; shaded: the margin for equivalent"
            .to_owned(),
        bands: vec![Band { name: "margin".to_owned(), from: Some(1.0 / (1.0 + margin)), to: Some(1.0 + margin) }],
        ..Chart::default()
    };
    data::forest(chart, "ratio", rows)
}
