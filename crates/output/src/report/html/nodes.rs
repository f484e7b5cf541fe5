//! Many machines in one picture: each figure as a share of the machines' median, and how each figure is distributed.

use std::collections::BTreeMap;

use super::data::{Axis, Chart, Kind, Role, Series};
use crate::document::Run;
use crate::label::label;
use crate::limit::median;
use crate::measurement::{Measurement, MetricResult, Status};
use crate::quantity::percent;

/// Machines that a picture has room for; of more, those that are furthest from the median are shown.
const SHOWN: usize = 96;
/// Machines that a distribution names.
const NAMED: usize = 12;
/// Cases of which a distribution is drawn.
const DISTRIBUTIONS: usize = 24;

/// One case over all machines.
struct Across<'a> {
    like: &'a Measurement,
    metric: &'a MetricResult,
    /// Figure by node.
    values: BTreeMap<&'a str, f64>,
    median: f64,
}

/// The charts of a run over many machines; none for a run on one.
pub(super) fn of(run: &Run) -> Vec<Chart> {
    if run.nodes.len() < 2 {
        return Vec::new();
    }
    let all = across(run);
    let shown = furthest(run, &all);
    let mut charts: Vec<Chart> = heat(run, &all, &shown).into_iter().collect();
    charts.extend(all.iter().take(DISTRIBUTIONS).map(|one| distribution(run, one)));
    for (index, chart) in charts.iter_mut().enumerate() {
        chart.id = format!("machines-{index}");
    }
    charts
}

/// The rows of the first machine alone, which stand for their kind; the run itself where there is no other.
pub(super) fn first(run: &Run) -> Run {
    let name = run.nodes.first().map(|node| node.name.as_str()).unwrap_or_default();
    let own = |m: &&Measurement| run.nodes.len() < 2 || m.node == name;
    let measurements = run.measurements.iter().filter(own).cloned().collect();
    Run {
        measurements,
        nodes: run.nodes.clone(),
        machine: run.machine.clone(),
        clock_steps: run.clock_steps.clone(),
        plan: run.plan.clone(),
        findings: run.findings.clone(),
        schema: run.schema.clone(),
        id: run.id.clone(),
        started: run.started.clone(),
        version: run.version.clone(),
        ..*run
    }
}

fn across(run: &Run) -> Vec<Across<'_>> {
    let mut found: Vec<Across<'_>> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for measurement in run.measurements.iter().filter(|m| m.status == Status::Ok) {
        let Some(metric) = measurement.metrics.first() else { continue };
        let place = *places.entry(measurement.case.id().to_string()).or_insert_with(|| {
            found.push(Across { like: measurement, metric, values: BTreeMap::new(), median: f64::NAN });
            found.len() - 1
        });
        // Of several repeats the first stands for all.
        found[place].values.entry(&measurement.node).or_insert(metric.summary.median);
    }
    for one in &mut found {
        one.median = median(one.values.values().copied().collect()).unwrap_or(f64::NAN);
    }
    found.retain(|one| one.values.len() > 1 && one.median > 0.0);
    found
}

/// The machines that are shown, in the order of the run.
fn furthest<'a>(run: &'a Run, all: &[Across<'_>]) -> Vec<&'a str> {
    let away = |name: &str| {
        let shares = all.iter().filter_map(|one| Some((one.values.get(name)? / one.median - 1.0).abs()));
        shares.fold(0.0, f64::max)
    };
    let mut names: Vec<(usize, &str, f64)> = run
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| (index, node.name.as_str(), away(&node.name)))
        .collect();
    names.sort_by(|a, b| b.2.total_cmp(&a.2));
    names.truncate(SHOWN);
    names.sort_by_key(|(index, ..)| *index);
    names.into_iter().map(|(_, name, _)| name).collect()
}

fn shown(name: &str) -> String {
    crate::text::shown_within(name, 64)
}

fn heat(run: &Run, all: &[Across<'_>], names: &[&str]) -> Option<Chart> {
    let mut points = Vec::new();
    for (row, one) in all.iter().enumerate() {
        for (column, name) in names.iter().enumerate() {
            if let Some(value) = one.values.get(name) {
                points.push(vec![Some(column as f64), Some(row as f64), Some(100.0 * value / one.median)]);
            }
        }
    }
    let part = match names.len() {
        few if few < run.nodes.len() => {
            format!("; the {few} of {} that are furthest from it", run.nodes.len())
        }
        _ => String::new(),
    };
    let rows = all.iter().map(|one| label(&one.like.case)).collect();
    (!points.is_empty()).then(|| Chart {
        id: String::new(),
        title: "Machines and figures".to_owned(),
        note: format!("each figure as a share of the machines' median{part}"),
        kind: Kind::Heat,
        x: Axis::categories("machine", names.iter().map(|name| shown(name)).collect()),
        y: Axis { unit: "%", ..Axis::categories("figure", rows) },
        series: vec![Series::new("of the median", Role::Own, points)],
        bands: Vec::new(),
    })
}

/// The figures in order of size; those that stand out are points of their own, with their names.
fn distribution(run: &Run, one: &Across<'_>) -> Chart {
    let id = one.like.case.id();
    let is_outlier = |name: &str| {
        run.findings
            .iter()
            .any(|f| f.code == "outlier" && f.evidence["node"] == name && f.evidence["case"] == id.as_str())
    };
    let mut sorted: Vec<(&str, f64)> = one.values.iter().map(|(name, value)| (*name, *value)).collect();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    // A few stand there by name, many by their number.
    let few = sorted.len() <= NAMED;
    let place = |index: usize| Some(if few { index } else { index + 1 } as f64);
    let point = |(index, (_, value)): (usize, &(&str, f64))| vec![place(index), Some(*value)];
    let unit = one.metric.unit;
    let mut series =
        vec![Series::new(one.metric.name.clone(), Role::Own, sorted.iter().enumerate().map(point).collect())];
    let outliers = sorted.iter().enumerate().filter(|(_, (name, _))| is_outlier(name)).take(SHOWN / 4);
    for (index, (name, value)) in outliers {
        let away = value / one.median - 1.0;
        let told = format!(
            "{}: {} {}",
            shown(name),
            percent(away.abs(), 2),
            if away < 0.0 { "below" } else { "above" }
        );
        series.push(Series::new(told, Role::Peer, vec![vec![place(index), Some(*value)]]));
    }
    Chart {
        id: String::new(),
        title: format!("{} on {} machines", label(&one.like.case), sorted.len()),
        note: "machines in order of their figure; those that stand out are named".to_owned(),
        kind: Kind::Lines,
        x: match few {
            true => Axis::categories("machine", sorted.iter().map(|(name, _)| shown(name)).collect()),
            false => Axis::linear("machines, the lowest figure first", ""),
        },
        y: Axis::of(unit, &one.metric.name),
        series,
        bands: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn many(nodes: usize) -> Run {
        let mut run = fixture::run();
        let node = run.nodes[0].clone();
        let measurement = run.measurements[0].clone();
        run.nodes.clear();
        run.measurements.clear();
        for index in 0..nodes {
            let name = format!("n{index}");
            let mut own = Measurement { node: name.clone(), ..measurement.clone() };
            own.metrics[0].summary.ci95 = None;
            own.metrics[0].summary.median = if index == 3 { 50.0 } else { 100.0 + index as f64 / 1e3 };
            run.nodes.push(crate::document::Node { name, machine: node.machine.clone() });
            run.measurements.push(own);
        }
        run.findings = crate::finding::findings(&run.measurements);
        run
    }

    #[test]
    fn machines_stand_beside_each_other_and_the_outlier_is_named() {
        let charts = of(&many(5));
        assert_eq!(charts.iter().map(|c| c.kind).collect::<Vec<_>>(), [Kind::Heat, Kind::Lines]);
        assert_eq!(charts[0].x.categories, ["n0", "n1", "n2", "n3", "n4"]);
        let share = charts[0].series[0].points[3][2].unwrap();
        assert!((share - 50.0).abs() < 0.1, "{share}");
        assert_eq!(charts[1].series[1].name, "n3: 50 % below");
        assert_eq!(charts[1].series[0].points[0], [Some(0.0), Some(50.0)]);
        assert_eq!(charts[1].x.categories[..2], ["n3", "n0"]);
        assert_eq!(of(&many(30))[1].series[0].points[0], [Some(1.0), Some(50.0)]);
    }

    #[test]
    fn of_very_many_the_furthest_are_shown_and_one_machine_has_no_such_chart() {
        let charts = of(&many(300));
        assert!(charts[0].x.categories.len() == SHOWN && charts[0].x.categories.contains(&"n3".to_owned()));
        assert!(charts[0].note.contains("96 of 300"), "{}", charts[0].note);
        assert_eq!(of(&fixture::run()), []);
        assert_eq!(first(&many(5)).measurements.len(), 1);
    }
}
