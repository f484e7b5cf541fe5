//! One figure of a report: an operation and a metric over blocks and thread counts.

use plimsoll_published::{Matched, PublishedFigure, PublishedReport};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::{Unit, format_size};

use super::lines::{AxisPlace, FigureAt, ReportLines, metric};
use super::shares;
use super::today::{PointToday, ToolToday};
use crate::report::context;
use crate::report::html::data::{Chart, SeriesRole};

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
    let mut all: Vec<Plot<'_>> = Vec::new();
    let key = |f: &PublishedFigure| [f.subsystem, f.metric, f.operation, f.pattern];
    for point in points(baseline) {
        match all.iter_mut().find(|plot| key(plot.points[0].figure) == key(point.figure)) {
            Some(plot) => plot.points.push(point),
            None => all.push(Plot { points: vec![point] }),
        }
    }
    all.iter_mut().for_each(Plot::sort);
    all
}

impl<'a> Plot<'a> {
    /// Sorts points by block and precision in the report's order, then by thread count.
    fn sort(&mut self) {
        let mut bands: Vec<String> = Vec::new();
        for point in &self.points {
            if !bands.contains(&point.band()) {
                bands.push(point.band());
            }
        }
        let threads = |p: &PlottedPoint<'_>| p.figure.threads.parse::<u64>().unwrap_or(0);
        self.points.sort_by_key(|p| (bands.iter().position(|band| *band == p.band()), threads(p)));
    }

    pub(super) fn subsystem(&self) -> &'static str {
        self.points[0].figure.subsystem
    }

    pub(super) fn title(&self) -> String {
        let PublishedFigure { subsystem, metric, operation, pattern, .. } = self.points[0].figure;
        let words = [*pattern, *operation].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        format!("{} {metric}: {}", context::title(subsystem), words.join(" "))
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
        std::iter::once(chart).chain(shares::chart(self, baseline, run, &today)).collect()
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
            let at =
                |value: f64, range: Option<[f64; 2]>, label: String| FigureAt { column, value, range, label };
            if let Some([mean, least, most]) = today.figure() {
                lines.add("this run", SeriesRole::Own, at(mean, Some([least, most]), point.words()));
            }
            for tool in self.tools(baseline, run, *point, today) {
                let words = [point.words(), tool.differs];
                let label = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
                lines.add(
                    &format!("{}, this run", tool.name),
                    SeriesRole::Tool,
                    at(tool.figure, None, label),
                );
            }
            if let Some(value) = today.limit() {
                lines.add("limit, this run", SeriesRole::Limit, at(value, None, point.words()));
            }
            published(&mut lines, &title, "", SeriesRole::Published, column, *point, point.figure, unit);
            for figure in
                self.published_numbers(baseline, *point).filter(|f| !f.source.starts_with("efficiency"))
            {
                let (name, role) = match figure.source {
                    "theoretical" => ("theory", SeriesRole::Theory),
                    program => (program, SeriesRole::Program),
                };
                published(&mut lines, &title, name, role, column, *point, figure, unit);
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
    ) -> Vec<ToolToday<'a>> {
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

/// Adds the published number `figure` at `column` to the line `NAME, TITLE`; doubted numbers have a
/// line of their own. Ignored if its unit is not `unit`.
#[expect(clippy::too_many_arguments)]
fn published(
    lines: &mut ReportLines,
    title: &str,
    name: &str,
    role: SeriesRole,
    column: usize,
    point: PlottedPoint<'_>,
    figure: &PublishedFigure,
    unit: Option<Unit>,
) {
    let Some(value) = figure.base.filter(|(_, of)| unit.is_none_or(|unit| unit == *of)).map(|(v, _)| v)
    else {
        return;
    };
    let printed = format!("{}, printed {} {}", point.words(), figure.value, figure.unit);
    let named = |what: &str| {
        [name, what, title].iter().filter(|s| !s.is_empty()).copied().collect::<Vec<_>>().join(", ")
    };
    let (name, role, label) = match figure.doubt {
        None => (named(""), role, printed.trim_end().to_owned()),
        Some(doubt) => {
            (named(doubt.verdict), SeriesRole::Doubted, format!("{}, {doubt}", printed.trim_end()))
        }
    };
    lines.add(&name, role, FigureAt { column, value, range: None, label });
}

impl PlottedPoint<'_> {
    /// Returns precision and block size, such as `f64 4 KiB`.
    pub(super) fn band(&self) -> String {
        let block = self.figure.bytes.parse().map_or(String::new(), size);
        let words = [self.figure.precision.to_owned(), block];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn words(&self) -> String {
        let threads = match self.figure.threads {
            "" => String::new(),
            "1" => "1 thread".to_owned(),
            n => format!("{n} threads"),
        };
        let words = [self.band(), threads];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
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
