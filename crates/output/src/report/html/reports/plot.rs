//! One figure of a report: an operation and a metric over blocks and thread counts.

use std::iter;

use plimsoll_published::{Matched, PublishedFigure, PublishedReport};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::{Unit, format_size};

use super::lines::{AxisPlace, ReportLines, metric};
use super::shares;
use super::today::PointToday;
use crate::report::html::data::{Chart, SeriesRole};
use crate::report::published::evaluation::threads;
use crate::report::published::today::MeasuredByTool;
use crate::report::{context, distinct, grouped, joined};

#[derive(Clone, Copy)]
pub(super) struct PlottedPoint<'a> {
    pub(super) figure: &'a PublishedFigure,
    pub(super) matched: &'a Matched,
}

pub(super) struct Plot<'a> {
    pub(super) points: Vec<PlottedPoint<'a>>,
}

pub(super) fn points(baseline: &PublishedReport) -> impl Iterator<Item = PlottedPoint<'_>> {
    let own = baseline.figures.iter().filter(|figure| figure.is_own_point());
    own.filter_map(|figure| Some(PlottedPoint { figure, matched: figure.matched.as_ref()? }))
}

pub(super) fn plots(baseline: &PublishedReport) -> Vec<Plot<'_>> {
    let key = |f: &PublishedFigure| [f.subsystem, f.metric, f.operation, f.pattern];
    let plots = grouped(points(baseline).map(|point| (key(point.figure), point))).into_iter();
    let mut all: Vec<Plot<'_>> = plots.map(|(_, points)| Plot { points }).collect();
    all.iter_mut().for_each(Plot::sort);
    all
}

impl<'a> Plot<'a> {
    /// Sorts points by block and precision in the report's order, then by thread count.
    fn sort(&mut self) {
        let bands = distinct(self.points.iter().map(PlottedPoint::band));
        let threads = |p: &PlottedPoint<'_>| p.figure.threads.parse::<u64>().unwrap_or(0);
        self.points.sort_by_key(|p| (bands.iter().position(|band| *band == p.band()), threads(p)));
    }

    pub(super) fn subsystem(&self) -> &'static str {
        self.points[0].figure.subsystem
    }

    pub(super) fn title(&self) -> String {
        let PublishedFigure { subsystem, metric, operation, pattern, .. } = self.points[0].figure;
        format!("{} {metric}: {}", context::title(subsystem), joined(&[pattern, operation], " "))
    }

    /// Builds the charts of results and efficiencies; empty if `run` has results of none of the
    /// points.
    pub(super) fn charts(&self, baseline: &PublishedReport, run: &Run) -> Vec<Chart> {
        let today: Vec<PointToday<'_>> = self.points.iter().map(|p| PointToday::of(run, p.matched)).collect();
        let measured = today.iter().filter(|today| today.figure().is_some()).count();
        if measured == 0 {
            return Vec::new();
        }
        let mut note = Vec::new();
        if measured < today.len() {
            note.push(format!("this run has {measured} of {} points", today.len()));
        }
        let mute = self.points.iter().filter(|p| p.matched.value.is_none()).count();
        if mute > 0 {
            note.push(format!("{mute} published points have no unit that is known"));
        }
        for tool in self.points.iter().zip(&today).flat_map(|(p, t)| self.tools(baseline, run, *p, t)) {
            let differs = format!("{}: {}", tool.name, tool.differs);
            if !tool.differs.is_empty() && !note.contains(&differs) {
                note.push(differs);
            }
        }
        let unit = self.unit().or_else(|| today.iter().find_map(PointToday::unit));
        let lines = self.lines(baseline, run, &today);
        let y = metric(self.points[0].matched, unit);
        let chart = lines.chart(self.title(), note.join("; "), self.axis(), y);
        iter::once(chart).chain(shares::chart(self, baseline, run, &today)).collect()
    }

    pub(super) fn columns(&self) -> Vec<AxisPlace> {
        let column = |p: &PlottedPoint<'_>| AxisPlace { band: p.band(), name: p.figure.threads.to_owned() };
        self.points.iter().map(column).collect()
    }

    pub(super) fn axis(&self) -> &'static str {
        let several = |of: fn(&PublishedFigure) -> &str| {
            self.points.iter().any(|p| of(p.figure) != of(self.points[0].figure))
        };
        match (several(|f| f.bytes), several(|f| f.precision)) {
            (true, _) => "threads, by block",
            (_, true) => "threads, by type",
            _ => "threads",
        }
    }

    fn unit(&self) -> Option<Unit> {
        self.points.iter().find_map(|p| Some(p.matched.value?.1))
    }

    /// Yields the published numbers of reference tools, theory and efficiencies for `point`.
    pub(super) fn published_numbers(
        &self,
        baseline: &'a PublishedReport,
        point: PlottedPoint<'a>,
    ) -> impl Iterator<Item = &'a PublishedFigure> {
        let other = |f: &&PublishedFigure| f.source != "own" && covers(f, point.figure);
        baseline.figures.iter().filter(other)
    }

    fn lines(&self, baseline: &'a PublishedReport, run: &'a Run, today: &[PointToday<'a>]) -> ReportLines {
        let mut lines = ReportLines::new(self.columns());
        let unit = self.unit();
        let title = baseline.title();
        for (column, (point, today)) in self.points.iter().zip(today).enumerate() {
            let words = point.words();
            if let Some(values) = today.figure() {
                lines.add("this run", SeriesRole::Own, column, &values, words.clone());
            }
            for tool in self.tools(baseline, run, *point, today) {
                let (name, label) =
                    (format!("{}, this run", tool.name), joined(&[&words, &tool.differs], ", "));
                lines.add(&name, SeriesRole::Tool, column, &[tool.figure], label);
            }
            if let Some(value) = today.limit() {
                lines.add("limit, this run", SeriesRole::Limit, column, &[value], words.clone());
            }
            let others = self.published_numbers(baseline, *point);
            let others = others.filter(|f| !f.source.starts_with("efficiency")).map(|f| match f.source {
                "theoretical" => ("theory", SeriesRole::Theory, f),
                program => (program, SeriesRole::Program, f),
            });
            for (name, role, figure) in iter::once(("", SeriesRole::Published, point.figure)).chain(others) {
                let value = figure.base.filter(|(_, of)| unit.is_none_or(|unit| unit == *of));
                let Some((value, _)) = value else { continue };
                let printed = format!("{words}, printed {} {}", figure.value, figure.unit);
                let printed = printed.trim_end().to_owned();
                let (what, role, label) = match figure.doubt {
                    None => ("", role, printed),
                    // Doubted numbers have a line of their own.
                    Some(doubt) => (doubt.verdict, SeriesRole::Doubted, format!("{printed}, {doubt}")),
                };
                lines.add(&joined(&[name, what, &title], ", "), role, column, &[value], label);
            }
        }
        lines
    }

    /// Returns the tools' results for the case of `point`, else for the case of the tool that the
    /// report shows there. `today` is this run's measurement of `point`.
    fn tools(
        &self,
        baseline: &'a PublishedReport,
        run: &'a Run,
        point: PlottedPoint<'a>,
        today: &PointToday<'a>,
    ) -> Vec<MeasuredByTool<'a>> {
        let own = today.tools();
        if !own.is_empty() {
            return own;
        }
        let others = self
            .published_numbers(baseline, point)
            .filter(|f| f.is_reference())
            .filter_map(|f| f.matched.as_ref());
        let same = others.filter(|m| m.metric == point.matched.metric && m.case != point.matched.case);
        same.flat_map(|matched| PointToday::of(run, matched).tools()).collect()
    }
}

impl PlottedPoint<'_> {
    /// Returns precision and block size, such as `f64 4 KiB`.
    pub(super) fn band(&self) -> String {
        let block = self.figure.bytes.parse().map_or(String::new(), size);
        joined(&[self.figure.precision, &block], " ")
    }

    pub(super) fn words(&self) -> String {
        joined(&[&self.band(), &threads(self.figure)], ", ")
    }
}

fn size(bytes: u64) -> String {
    match format_size(bytes) {
        size if size.ends_with(|c: char| c.is_ascii_digit()) => format!("{size} B"),
        size => format!("{} {}iB", &size[..size.len() - 1], &size[size.len() - 1..]),
    }
}

/// Returns whether all properties that `figure` states are those of `point`.
pub(super) fn covers(figure: &PublishedFigure, point: &PublishedFigure) -> bool {
    let pattern = if figure.pattern.starts_with("headline") { "" } else { figure.pattern };
    let same = |general: &str, own: &str| general.is_empty() || general == own;
    figure.subsystem == point.subsystem
        && figure.metric == point.metric
        && same(figure.operation, point.operation)
        && same(pattern, point.pattern)
        && same(figure.precision, point.precision)
        && same(figure.bytes, point.bytes)
        && same(figure.threads, point.threads)
}
