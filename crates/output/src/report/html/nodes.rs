//! Charts of many nodes: results relative to the median, results per kind of machine, and a table.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use plimsoll_bench::label::label;
use plimsoll_model::limit::median;
use plimsoll_model::measurement::{Measurement, MetricResult};
use plimsoll_result::document::{Finding, Run};
use plimsoll_result::finding::evidence::OutlierEvidence;
use plimsoll_result::fleet;
use plimsoll_units::quantity::Quantity;

use super::data::{Chart, ChartAxis, ChartKind, ChartPoint, ChartSeries, SeriesRole, number};
use crate::report::grouped;

/// Limit of nodes per chart; the nodes furthest from the median are kept.
const MAX_MACHINES_DRAWN: usize = 96;
const STRIPS: usize = 60;
const STRIP_WIDTH: f64 = 0.7;
const FAR_LIMIT_RATIO: f64 = 3.0;
const OUTLIER: &str = "outlier";

struct NodesOfCase<'a> {
    like: &'a Measurement,
    metric: &'a MetricResult,
    values: BTreeMap<&'a str, f64>,
    limits: BTreeMap<&'a str, f64>,
    median: f64,
}

/// Returns the charts that compare the nodes of a run; empty for a single node.
pub(super) fn of(run: &Run) -> Vec<Chart> {
    if run.nodes.len() < 2 {
        return Vec::new();
    }
    let all = across(run);
    let shown = furthest(run, &all);
    let mut charts: Vec<Chart> = heat(run, &all, &shown).into_iter().collect();
    let kinds = fleet::kinds(run);
    charts.extend(all.iter().take(STRIPS).map(|one| strip(run, one, &kinds)));
    number(&mut charts, "machines");
    charts
}

/// Returns a copy of the run with the measurements of its first node only.
pub(super) fn first(run: &Run) -> Run {
    let name = run.nodes.first().map(|node| node.name.as_str()).unwrap_or_default();
    let own = |m: &&Measurement| run.nodes.len() < 2 || m.node == name;
    // The measurements of a thousand nodes are not copied.
    let measurements = run.measurements.iter().filter(own).cloned().collect();
    Run { measurements, ..run.header() }
}

fn across(run: &Run) -> Vec<NodesOfCase<'_>> {
    let measured = run.measurements.iter().filter_map(|m| Some((m.case.id(), (m, m.headline()?))));
    let of_cases = grouped(measured).into_iter().filter_map(|(_, all)| {
        let (like, metric) = *all.first()?;
        // In a map the last one stays: of several repetitions on a node, the first.
        let on_nodes = || all.iter().rev().map(|(m, metric)| (m.node.as_str(), *metric));
        let limit = |(node, metric): (_, &MetricResult)| Some((node, metric.limit.as_ref()?.value?));
        let values: BTreeMap<&str, f64> = on_nodes().map(|(node, of)| (node, of.summary.median)).collect();
        let limits = on_nodes().filter_map(limit).collect();
        let median = median(values.values().copied().collect())?;
        (values.len() > 1 && median > 0.0).then_some(NodesOfCase { like, metric, values, limits, median })
    });
    of_cases.collect()
}

/// Returns the names of the (at most 96) nodes furthest from the median, in the run's order.
fn furthest<'a>(run: &'a Run, all: &[NodesOfCase<'_>]) -> Vec<&'a str> {
    let away = |name: &str| {
        let shares = all.iter().filter_map(|one| Some((one.values.get(name)? / one.median - 1.0).abs()));
        shares.fold(0.0, f64::max)
    };
    let mut nodes: Vec<(usize, &str)> = run.nodes.iter().map(|node| node.name.as_str()).enumerate().collect();
    nodes.sort_by(|(_, a), (_, b)| away(b).total_cmp(&away(a)));
    nodes.truncate(MAX_MACHINES_DRAWN);
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, name)| name).collect()
}

fn shown(name: &str) -> String {
    plimsoll_units::text::shown_within(name, 64)
}

fn heat(run: &Run, all: &[NodesOfCase<'_>], names: &[&str]) -> Option<Chart> {
    let point = |(row, one): (usize, &NodesOfCase<'_>), (column, name): (usize, &&str)| {
        let share = 100.0 * one.metric.better.ratio(*one.values.get(name)?, one.median);
        Some(vec![Some(column as f64), Some(row as f64), Some(share)])
    };
    let rows = all.iter().enumerate();
    let points = rows.flat_map(|row| names.iter().enumerate().filter_map(move |column| point(row, column)));
    let points: Vec<ChartPoint> = points.collect();
    let (few, nodes) = (names.len(), run.nodes.len());
    let part = format!("; the {few} of {nodes} that are furthest from it");
    let part = if few < nodes { &part } else { "" };
    let rows = all.iter().map(|one| label(&one.like.case)).collect();
    (!points.is_empty()).then(|| Chart {
        title: "Machines and figures".to_owned(),
        note: format!("100 % is the median of the machines; above is better, below is worse{part}"),
        kind: ChartKind::Heat,
        x: ChartAxis::categories("machine", names.iter().map(|name| shown(name)).collect()),
        y: ChartAxis { unit: "%", ..ChartAxis::categories("figure", rows) },
        series: vec![ChartSeries::new("of the median", SeriesRole::Own, points)],
        ..Chart::default()
    })
}

/// Builds the chart of one case: a point per node, median and limit per kind of node, outliers as
/// their own series. `kinds` has the names of the nodes of each kind.
fn strip(run: &Run, one: &NodesOfCase<'_>, kinds: &BTreeMap<String, BTreeSet<&str>>) -> Chart {
    let id = one.like.case.id();
    let found = run.findings.iter().filter(|finding| finding.code == OUTLIER);
    let found = found.filter_map(Finding::evidence_as::<OutlierEvidence>);
    let outliers: BTreeSet<String> =
        found.filter(|outlier| outlier.case == id.as_str()).map(|outlier| outlier.node).collect();
    let [mut usual, mut outlying]: [(Vec<ChartPoint>, Vec<String>); 2] = Default::default();
    let (mut medians, mut limits) = (Vec::new(), Vec::new());
    for (place, names) in kinds.values().enumerate() {
        let here = || names.iter().filter_map(|name| Some((*name, *one.values.get(name)?)));
        for (index, (name, value)) in here().enumerate() {
            let (points, names) = if outliers.contains(name) { &mut outlying } else { &mut usual };
            points.push(vec![Some(place as f64 + jitter(index)), Some(value)]);
            names.push(shown(name));
        }
        let level = |value: Option<f64>| vec![Some(place as f64), value];
        medians.push(level(median(here().map(|(_, value)| value).collect())));
        limits.push(level(median(names.iter().filter_map(|name| one.limits.get(name)).copied().collect())));
    }
    let highest = one.values.values().copied().fold(0.0, f64::max);
    let far = |limit: f64| limit > FAR_LIMIT_RATIO * highest || limit * FAR_LIMIT_RATIO < highest;
    let outside = limits.iter().filter_map(|level| level[1]).find(|limit| far(*limit));
    let outside = outside.map(|limit| Quantity { value: limit, unit: one.metric.unit });
    let note = outside.map(|limit| format!("; the limit, {limit}, is outside of it")).unwrap_or_default();
    limits.iter_mut().for_each(|level| level[1] = level[1].filter(|limit| !far(*limit)));
    let line = |name: &str, role, colour, (points, labels)| ChartSeries {
        colour: Some(colour),
        scattered: true,
        labels,
        ..ChartSeries::new(name, role, points)
    };
    let mut series = vec![
        line("machines", SeriesRole::Own, 0, usual),
        line("outlier", SeriesRole::Own, 1, outlying),
        line("median", SeriesRole::Theory, 0, (medians, Vec::new())),
        line("limit", SeriesRole::Limit, 2, (limits, Vec::new())),
    ];
    series.retain(|one| one.points.iter().any(|point| point[1].is_some()));
    Chart {
        title: format!("{} on {} machines", label(&one.like.case), one.values.len()),
        note: format!("a point a machine, by kind{note}"),
        kind: ChartKind::Strip,
        x: ChartAxis::places("kind of machine", kinds.keys().map(|kind| shown(kind)).collect()),
        y: ChartAxis::linear(&one.metric.name, one.metric.unit.name()),
        series,
        ..Chart::default()
    }
}

/// Returns the sideways offset (-0.35 to 0.35) of point number `index` of a chart: deterministic,
/// far from those of its neighbours.
fn jitter(index: usize) -> f64 {
    /// Fractional part of the golden ratio: its multiples fill a range evenly.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let share = ((index as f64 * GOLDEN).fract() - 0.5) * STRIP_WIDTH;
    (share * 1e3).round() / 1e3
}

/// Builds the table of all nodes (rows) and cases (columns), which the page's script can sort.
pub(super) fn table(run: &Run) -> Markup {
    let all = across(run);
    let kinds = fleet::kinds(run);
    let kind_of =
        |name: &str| kinds.iter().find(|(_, names)| names.contains(name)).map(|(kind, _)| kind.as_str());
    let cell = |one: &NodesOfCase<'_>, name: &str| match one.values.get(name) {
        Some(value) => html! { td.n data-value=(value) { (Quantity::new(*value, one.metric.unit)) } },
        None => html! { td.n { "–" } },
    };
    html! {
        details.figures {
            summary { "All machines" }
            div.wide { table.sortable {
                thead { tr {
                    th { "machine" }
                    @if kinds.len() > 1 { th { "kind" } }
                    @for one in &all { th.n { (label(&one.like.case)) } }
                } }
                tbody { @for node in &run.nodes { tr {
                    td { (shown(&node.name)) }
                    @if kinds.len() > 1 { td { (kind_of(&node.name).unwrap_or_default()) } }
                    @for one in &all { (cell(one, &node.name)) }
                } } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::metric::Better;
    use plimsoll_result::fixture;

    use super::*;

    fn many(nodes: usize) -> Run {
        let one = fixture::run_of(vec![fixture::cpu("f64", 1, 117.4e9, 117.9e9)]);
        let names: Vec<String> = (0..nodes).map(|index| format!("n{index}")).collect();
        let mut run = fixture::on_nodes(&one, &names);
        for (index, own) in run.measurements.iter_mut().enumerate() {
            let median = if index == 3 { 50.0 } else { 100.0 + index as f64 / 1e3 };
            let summary = &mut own.metrics[0].summary;
            (summary.median, summary.ci95) = (median, None);
        }
        run.findings = plimsoll_result::finding::findings(&run.measurements);
        run
    }

    #[test]
    fn machines_stand_beside_each_other_and_the_outlier_is_named() {
        let charts = of(&many(5));
        assert_eq!(charts.iter().map(|c| c.kind).collect::<Vec<_>>(), [ChartKind::Heat, ChartKind::Strip]);
        assert_eq!(charts[0].x.categories, ["n0", "n1", "n2", "n3", "n4"]);
        let share = charts[0].series[0].points[3][2].unwrap();
        assert!((share - 50.0).abs() < 0.1, "{share}");
        let outlying = charts[1].series.iter().find(|one| one.name == "outlier").unwrap();
        assert_eq!((outlying.labels.concat(), outlying.points[0][1]), ("n3".to_owned(), Some(50.0)));
        let usual = charts[1].series.iter().find(|one| one.name == "machines").unwrap();
        assert_eq!(usual.labels, ["n0", "n1", "n2", "n4"]);
        assert!(usual.points.iter().all(|point| point[0].is_some_and(|x| x.abs() <= STRIP_WIDTH / 2.0)));
        assert_eq!(charts[1].x.categories.len(), 1, "one kind of machine");
    }

    #[test]
    fn of_a_time_less_is_better() {
        let mut run = many(5);
        run.measurements.iter_mut().for_each(|m| m.metrics[0].better = Better::Lower);
        let share = of(&run)[0].series[0].points[3][2].unwrap();
        assert!((share - 200.0).abs() < 0.1, "{share}");
    }

    #[test]
    fn a_limit_is_drawn_where_there_is_room_and_named_elsewhere() {
        let of_limit = |times: f64| {
            let mut run = many(5);
            let limits = run.measurements.iter_mut().filter_map(|m| m.metrics[0].limit.as_mut());
            limits.for_each(|limit| limit.value = Some(100.0 * times));
            let chart = of(&run).remove(1);
            (chart.series.iter().any(|one| one.name == "limit"), chart.note)
        };
        assert_eq!(of_limit(1.2), (true, "a point a machine, by kind".to_owned()));
        let (drawn, note) = of_limit(50.0);
        assert!(!drawn && note.ends_with("the limit, 5.00 kFLOP/s, is outside of it"), "{note}");
    }

    #[test]
    fn every_machine_is_a_row_and_its_name_is_text() {
        let mut run = many(3);
        run.nodes[1].name = "<b>x".to_owned();
        let page = table(&run).into_string();
        assert_eq!((page.matches("<tr>").count(), page.matches("&lt;b&gt;x").count()), (4, 1));
        assert!(page.contains("data-value=\"100\""), "{page}");
    }

    #[test]
    fn of_very_many_the_furthest_are_shown_and_one_machine_has_no_such_chart() {
        let charts = of(&many(300));
        let shown = &charts[0].x.categories;
        assert!(shown.len() == MAX_MACHINES_DRAWN && shown.contains(&"n3".to_owned()));
        assert!(charts[0].note.contains("96 of 300"), "{}", charts[0].note);
        assert_eq!(of(&fixture::run()), []);
        assert_eq!(first(&many(5)).measurements.len(), 1);
    }
}
