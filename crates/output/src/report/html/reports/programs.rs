//! Charts of reference tools without own points, such as LINPACK by size, STREAM by operation.

use plimsoll_published::{Matched, PublishedFigure, PublishedReport, THROUGHPUT_METRIC};
use plimsoll_result::document::Run;

use super::lines::{AxisPlace, FigureAt, ReportLines, metric};
use super::plot::{covers, points};
use super::today::PointToday;
use crate::report::context;
use crate::report::html::data::{Chart, SeriesRole};

struct ProgramFigures<'a> {
    first: &'a PublishedFigure,
    all: Vec<(&'a PublishedFigure, &'a Matched)>,
}

/// Builds a chart per reference tool whose cases the run has; returns it with its subsystem.
pub(super) fn of(baseline: &PublishedReport, run: &Run) -> Vec<(&'static str, Chart)> {
    let chart = |program: &ProgramFigures<'_>| Some((program.first.subsystem, program.chart(baseline, run)?));
    programs(baseline).iter().filter_map(chart).collect()
}

fn programs(baseline: &PublishedReport) -> Vec<ProgramFigures<'_>> {
    let mut found: Vec<ProgramFigures<'_>> = Vec::new();
    for figure in baseline.figures.iter().filter(|f| f.is_reference() && f.metric == THROUGHPUT_METRIC) {
        let Some(matched) = figure.matched.as_ref().filter(|m| m.value.is_some()) else { continue };
        if points(baseline).any(|point| covers(figure, point.figure)) {
            continue;
        }
        let same = |p: &&mut ProgramFigures<'_>| {
            p.first.subsystem == figure.subsystem && p.first.source == figure.source
        };
        match found.iter_mut().find(same) {
            Some(program) => program.all.push((figure, matched)),
            None => found.push(ProgramFigures { first: figure, all: vec![(figure, matched)] }),
        }
    }
    found
}

impl ProgramFigures<'_> {
    fn chart(&self, baseline: &PublishedReport, run: &Run) -> Option<Chart> {
        let mut cases: Vec<&Matched> = Vec::new();
        for (_, matched) in &self.all {
            if !cases.iter().any(|known| known.case == matched.case) {
                cases.push(matched);
            }
        }
        let column = |m: &&Matched| AxisPlace { band: String::new(), name: self.name(m, run.plan.scale) };
        let mut lines = ReportLines::new(cases.iter().map(column).collect());
        let title = baseline.title();
        let mut unit = None;
        for (column, matched) in cases.iter().enumerate() {
            let at =
                |value: f64, range: Option<[f64; 2]>, label: String| FigureAt { column, value, range, label };
            let today = PointToday::of(run, matched);
            let words = today
                .measurements()
                .first()
                .map(|m| plimsoll_bench::label::label(&m.case))
                .unwrap_or_default();
            unit = unit.or(today.unit());
            if let Some([mean, least, most]) = today.figure() {
                lines.add("this run", SeriesRole::Own, at(mean, Some([least, most]), words.clone()));
            }
            for tool in today.tools() {
                let name = format!("{}, this run", tool.name);
                lines.add(&name, SeriesRole::Tool, at(tool.figure, None, words.clone()));
            }
            if let Some(value) = today.limit() {
                lines.add("limit, this run", SeriesRole::Limit, at(value, None, words.clone()));
            }
            for (figure, _) in self.all.iter().filter(|(_, m)| m.case == matched.case) {
                let Some((value, _)) = figure.base else { continue };
                let label = format!(
                    "{} {}, printed {} {}",
                    self.name(matched, run.plan.scale),
                    figure.pattern,
                    figure.value,
                    figure.unit
                );
                let word = match figure.statistic {
                    "mean" => " mean",
                    "peak" => " best",
                    _ => "",
                };
                let (name, role) = match figure.doubt {
                    None => (format!("{}{word}, {title}", figure.source), SeriesRole::Program),
                    Some(doubt) => {
                        let name = format!("{}{word}, {}, {title}", figure.source, doubt.verdict);
                        (name, SeriesRole::Doubted)
                    }
                };
                lines.add(&name, role, at(value, None, label));
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
