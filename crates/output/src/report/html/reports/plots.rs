//! Charts of a report by operation and metric, and by reference program without own points.

use std::iter;

use plimsoll_model::case::Case;
use plimsoll_published::tables::{PublishedRow, PublishedTable, TableKind};
use plimsoll_published::{OwnPoint, PublishedFigure, PublishedReport, THROUGHPUT_METRIC};
use plimsoll_units::quantity::{Quantity, Unit};

use super::tables::{figure, places, shares};
use crate::report::html::data::Chart;
use crate::report::published::cells::{ComparablePart, FilledTable};
use crate::report::published::evaluation::threads;
use crate::report::published::today::ReplayRuns;
use crate::report::{context, distinct, grouped, joined};

/// A chart's numbers as a table with a row per point, the point's own number first.
pub(super) struct Plot<'a> {
    pub(super) subsystem: &'static str,
    metric: &'static str,
    axis: String,
    pub(super) table: PublishedTable<'a>,
}

/// Returns a plot per operation that the report's own benchmark measured, and per reference program
/// with further results. `scale` (`--scale` of the run) only changes labels: `500 of 5000`.
pub(super) fn plots(baseline: &PublishedReport, scale: f64) -> Vec<Plot<'_>> {
    let key = |f: &PublishedFigure| [f.subsystem, f.metric, f.operation, f.pattern];
    let operations = grouped(baseline.own_points().map(|(figure, _)| (key(figure), figure)));
    let operations = operations.into_iter().filter_map(|(_, figures)| operation(baseline, figures));
    let numbers = baseline.figures.iter().filter(|f| f.is_reference() && f.metric == THROUGHPUT_METRIC);
    let with_case = numbers.filter_map(|f| Some((f, f.matched.as_ref().filter(|_| f.base.is_some())?)));
    let alone = with_case.filter(|(f, _)| !baseline.own_points().any(|(point, _)| covers(f, point)));
    let programs = grouped(alone.map(|one| ([one.0.subsystem, one.0.source], one)));
    let programs = programs.into_iter().map(|(key, numbers)| program(key, &numbers, scale));
    operations.chain(programs).collect()
}

fn operation<'a>(baseline: &'a PublishedReport, mut figures: Vec<&'a PublishedFigure>) -> Option<Plot<'a>> {
    let PublishedFigure { subsystem, metric, operation, pattern, .. } = *figures.first()?;
    let bands = distinct(figures.iter().map(|figure| band(figure)));
    figures.sort_by_key(|f| {
        (bands.iter().position(|known| *known == band(f)), f.threads.parse::<u64>().unwrap_or(0))
    });
    let differing = |name: &'static str, of: fn(&PublishedFigure) -> &str| {
        if distinct(figures.iter().map(|f| of(f))).len() > 1 { name } else { "" }
    };
    let threads = differing("threads", |f| f.threads);
    let block = differing("block", |f| f.bytes);
    let varying = joined(&[threads, block, differing("type", |f| f.precision)], ", by ");
    let others = |point: &PublishedFigure| {
        let is_other =
            |f: &&PublishedFigure| f.source != "own" && covers(f, point) && is_of(baseline, f, point);
        baseline.figures.iter().filter(is_other).collect::<Vec<_>>()
    };
    let row = |point: &&'a PublishedFigure| PublishedRow {
        label: words(point),
        cells: iter::once(*point).chain(others(point)).map(Some).collect(),
    };
    let rows: Vec<PublishedRow<'_>> = figures.iter().map(row).collect();
    let title = format!("{} {metric}: {}", context::title(subsystem), joined(&[pattern, operation], " "));
    let axis = if varying.is_empty() { "threads".to_owned() } else { varying };
    Some(Plot { subsystem, metric, axis, table: table(TableKind::Own, title, rows) })
}

/// Returns the plot of a program's results without own ones; `scale` is the run's `--scale`.
fn program<'a>([subsystem, source]: [&'static str; 2], numbers: &[OwnPoint<'a>], scale: f64) -> Plot<'a> {
    let cases: Vec<&Case> = numbers.iter().map(|(_, matched)| &matched.case).collect();
    let names = || cases.iter().take(1).flat_map(|case| case.params()).map(|(name, _)| *name);
    let differs = |name: &&str| cases.windows(2).any(|pair| pair[0].get(name) != pair[1].get(name));
    let mut varying: Vec<&str> = names().filter(differs).collect();
    if varying.is_empty() {
        varying.extend(names().take(1));
    }
    let row = |(figure, matched): &OwnPoint<'a>| {
        let value = |name: &&str| {
            let order = matched.smaller_order(scale).filter(|_| *name == "n");
            let text = order.map(|(measured, published)| format!("{measured} of {published}"));
            text.or_else(|| matched.case.get(name).map(ToString::to_string))
        };
        let name = varying.iter().filter_map(value).collect::<Vec<_>>().join(" ");
        let statistic = if figure.statistic == "single" { "" } else { figure.statistic };
        PublishedRow { label: joined(&[&name, figure.pattern, statistic], ", "), cells: vec![Some(*figure)] }
    };
    let rows = numbers.iter().map(row).collect();
    let title = format!("{} {THROUGHPUT_METRIC}: {source}", context::title(subsystem));
    let axis: Vec<&str> = varying.iter().map(|name| if *name == "op" { "operation" } else { name }).collect();
    Plot {
        subsystem,
        metric: THROUGHPUT_METRIC,
        axis: axis.join(", "),
        table: table(TableKind::Program, title, rows),
    }
}

fn table(kind: TableKind, title: String, rows: Vec<PublishedRow<'_>>) -> PublishedTable<'_> {
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    PublishedTable { number: 0, title, kind, columns: vec![String::new(); columns], rows }
}

impl Plot<'_> {
    /// Builds charts of results and shares of limits; empty if `runs` have no results of the plot.
    pub(super) fn charts(&self, runs: &ReplayRuns<'_>) -> Vec<Chart> {
        let filled = FilledTable::new(self.table.clone(), runs);
        let places = places(&filled, self.metric);
        if !places.iter().any(|place| place.own.today.has_figure()) {
            return Vec::new();
        }
        let title = &self.table.title;
        let mut drawn = vec![figure(runs.baseline.machine, title, self.metric, &places)];
        if [ComparablePart::OwnShare, ComparablePart::ProgramShare].into_iter().any(|part| filled.has(part)) {
            drawn.push(shares(runs.baseline.machine, &format!("{title}, efficiency"), self.metric, &places));
        }
        let mut charts: Vec<Chart> = drawn.into_iter().filter_map(Result::ok).collect();
        charts.iter_mut().for_each(|chart| chart.x.name.clone_from(&self.axis));
        charts
    }
}

/// Returns precision and block size of a published number: `DP 4 KiB`.
fn band(figure: &PublishedFigure) -> String {
    let block = figure.bytes.parse().map(|bytes| Quantity::new(bytes, Unit::Byte).to_string());
    joined(&[figure.precision, &block.unwrap_or_default()], " ")
}

pub(super) fn words(figure: &PublishedFigure) -> String {
    joined(&[&band(figure), &threads(figure)], ", ")
}

/// Returns whether properties that `figure` states (operation, size …) are those of `point`.
fn covers(figure: &PublishedFigure, point: &PublishedFigure) -> bool {
    let pattern = if figure.pattern.starts_with("headline") { "" } else { figure.pattern };
    let same = |general: &str, own: &str| general.is_empty() || general == own;
    point.matches_text(figure)
        && same(pattern, point.pattern)
        && same(figure.precision, point.precision)
        && same(figure.threads, point.threads)
}

/// Returns whether the share of the limit `efficiency` belongs to `point`. If the prose states it,
/// it belongs to the points with the result that the prose states, or to all points if none has it.
fn is_of(baseline: &PublishedReport, efficiency: &PublishedFigure, point: &PublishedFigure) -> bool {
    if efficiency.source != "efficiency-own" || !efficiency.is_of_text() {
        return true;
    }
    let stated = |own: &&PublishedFigure| own.source == "own" && own.is_of_text() && point.matches_text(own);
    let numbers: Vec<f64> =
        baseline.figures.iter().filter(stated).filter_map(PublishedFigure::number).collect();
    let has_it = |f: &PublishedFigure| f.number().is_some_and(|number| numbers.contains(&number));
    has_it(point) || !baseline.own_points().any(|(f, _)| f.matches_text(efficiency) && has_it(f))
}
