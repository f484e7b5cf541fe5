//! Charts of reference tools without own points, such as LINPACK by size, STREAM by operation.

use plimsoll_published::{Matched, PublishedFigure, PublishedReport, THROUGHPUT_METRIC};
use plimsoll_result::document::Run;

use super::lines::{AxisPlace, ReportLines, metric};
use super::plot::{covers, points};
use super::today::PointToday;
use crate::report::html::data::{Chart, SeriesRole};
use crate::report::{context, grouped, joined};

struct ProgramFigures<'a> {
    first: &'a PublishedFigure,
    all: Vec<(&'a PublishedFigure, &'a Matched)>,
}

/// Builds a chart per reference tool whose cases the run has; returns it with its subsystem.
pub(super) fn of(baseline: &PublishedReport, run: &Run) -> Vec<(&'static str, Chart)> {
    let programs = baseline.figures.iter().filter(|f| f.is_reference() && f.metric == THROUGHPUT_METRIC);
    let with_case = programs.filter_map(|f| Some((f, f.matched.as_ref().filter(|m| m.value.is_some())?)));
    let alone = with_case.filter(|(f, _)| !points(baseline).any(|point| covers(f, point.figure)));
    let by_program = grouped(alone.map(|one| ((one.0.subsystem, one.0.source), one))).into_iter();
    let programs = by_program.filter_map(|(_, all)| Some(ProgramFigures { first: all.first()?.0, all }));
    let chart = |program: ProgramFigures<'_>| Some((program.first.subsystem, program.chart(baseline, run)?));
    programs.filter_map(chart).collect()
}

impl ProgramFigures<'_> {
    fn chart(&self, baseline: &PublishedReport, run: &Run) -> Option<Chart> {
        let cases = grouped(self.all.iter().map(|(figure, matched)| (&matched.case, (*figure, *matched))));
        let cases: Vec<_> = cases.into_iter().filter_map(|(_, all)| Some((all.first()?.1, all))).collect();
        let name = |matched: &Matched| self.name(matched, run.plan.scale);
        let columns = cases.iter().map(|(m, _)| AxisPlace { band: String::new(), name: name(m) });
        let mut lines = ReportLines::new(columns.collect());
        let title = baseline.title();
        let mut unit = None;
        for (column, (matched, figures)) in cases.iter().enumerate() {
            let today = PointToday::of(run, matched);
            let first = today.measurements().first();
            let words = first.map(|m| plimsoll_bench::label::label(&m.case)).unwrap_or_default();
            unit = unit.or(today.unit());
            if let Some(values) = today.figure() {
                lines.add("this run", SeriesRole::Own, column, &values, words.clone());
            }
            for tool in today.tools() {
                let name = format!("{}, this run", tool.name);
                lines.add(&name, SeriesRole::Tool, column, &[tool.figure], words.clone());
            }
            if let Some(value) = today.limit() {
                lines.add("limit, this run", SeriesRole::Limit, column, &[value], words.clone());
            }
            for (figure, _) in figures {
                let Some((value, _)) = figure.base else { continue };
                let printed = format!("printed {} {}", figure.value, figure.unit);
                let label = format!("{} {}, {printed}", name(matched), figure.pattern);
                let word = match figure.statistic {
                    "mean" => " mean",
                    "peak" => " best",
                    _ => "",
                };
                let (what, role) = figure
                    .doubt
                    .map_or(("", SeriesRole::Program), |doubt| (doubt.verdict, SeriesRole::Doubted));
                let name = joined(&[&format!("{}{word}", figure.source), what, &title], ", ");
                lines.add(&name, role, column, &[value], label);
            }
        }
        let title = format!("{} throughput: {}", context::title(self.first.subsystem), self.first.source);
        let note = "a reference program of the report, and the case that measures the same";
        let y = metric(self.first.matched.as_ref()?, unit);
        lines.has(SeriesRole::Own).then(|| lines.chart(title, note.to_owned(), &self.axis(), y))
    }

    /// Returns the parameters that differ between the cases; for a single case its first parameter.
    fn varying(&self) -> Vec<&'static str> {
        let Some((_, first)) = self.all.first() else { return Vec::new() };
        let names = || first.case.params().iter().map(|(name, _)| *name);
        let differs =
            |name: &&'static str| self.all.iter().any(|(_, m)| m.case.get(name) != first.case.get(name));
        let found: Vec<&'static str> = names().filter(differs).collect();
        if found.is_empty() { names().take(1).collect() } else { found }
    }

    fn axis(&self) -> String {
        let word = |name: &'static str| if name == "op" { "operation" } else { name };
        self.varying().into_iter().map(word).collect::<Vec<_>>().join(", ")
    }

    /// Names a case by its parameters that differ; a matrix order that `scale` made smaller is `500
    /// of 1000`.
    fn name(&self, matched: &Matched, scale: f64) -> String {
        let value = |name: &str| {
            let order = matched.smaller_order(scale).filter(|_| name == "n");
            let text = order.map(|(measured, published)| format!("{measured} of {published}"));
            text.or_else(|| matched.case.get(name).map(ToString::to_string))
        };
        self.varying().into_iter().filter_map(value).collect::<Vec<_>>().join(" ")
    }
}
