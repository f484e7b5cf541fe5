//! `plimsoll report RUN… --tables published`: tables of a published report with today's results,
//! several lines per row. Doubted numbers have a mark with the reason, and are never divided by.

pub(super) mod cells;
pub(super) mod evaluation;
mod markdown;
mod records;
pub(super) mod sheet;
mod text;
pub(super) mod today;
mod units;

use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_published::PublishedReport;
use plimsoll_published::tables::{TableKind, build_tables};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::{Quantity, significant};
use plimsoll_units::text::format_count;

use super::style::{Style, TextRole};
use super::wrap::{list, paragraph};
use super::{grouped, listed};
use cells::FilledTable;
use sheet::TableSheet;
use today::ReplayRuns;

pub(super) use markdown::markdown;
pub(super) use records::csv;

/// A report with the runs of its plan.
pub type ReplayedReport<'a> = (PublishedReport, Vec<&'a Run>);

/// Groups runs by the published benchmark report whose plan they ran; other runs are left out.
pub fn replays(runs: &[Run]) -> Vec<ReplayedReport<'_>> {
    let by_plan = grouped(runs.iter().map(|run| (&run.plan.name, run)));
    let reports = by_plan.into_iter().filter_map(|(plan, mut of)| {
        let mut known = std::collections::HashSet::new();
        of.retain(|run| known.insert(&run.id));
        Some((plimsoll_published::find(plan)?, of))
    });
    reports.collect()
}

/// Builds the tables of each report, filled with results of its runs.
pub(super) fn filled_reports<'a>(all: &'a [ReplayedReport<'a>]) -> Vec<FilledReport<'a>> {
    let report = |(baseline, runs): &'a ReplayedReport<'a>| {
        let runs = ReplayRuns::new(baseline, runs.iter().copied());
        let tables = build_tables(baseline).into_iter();
        FilledReport { tables: tables.map(|table| FilledTable::new(table, &runs)).collect(), runs }
    };
    all.iter().map(report).collect()
}

pub(super) fn text(reports: &[ReplayedReport<'_>], style: &Style) -> String {
    filled_reports(reports).iter().map(|report| report.text(style)).collect()
}

/// A report's tables, with the runs that fill them.
pub(crate) struct FilledReport<'a> {
    pub(super) tables: Vec<FilledTable<'a>>,
    pub(super) runs: ReplayRuns<'a>,
}

impl FilledReport<'_> {
    pub(super) fn sheets(&self) -> Vec<TableSheet> {
        self.tables.iter().map(|table| TableSheet::new(table, self.tables.len())).collect()
    }

    pub(super) fn title(&self) -> String {
        format!("{}: the tables of its report, with today's figures", self.runs.baseline.name)
    }

    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![self.runs.baseline.title()];
        remarks.extend(self.runs.runs.iter().map(|run| format!("today: {}", taken(run, &self.tables))));
        let shared = points(&self.tables).filter(|cell| cell.today.is_in_others).count();
        if shared > 0 {
            let (verb, figures) = (if shared == 1 { "is" } else { "are" }, format_count(shared, "figure"));
            let how = "in more than one of these runs: taken from the later one";
            remarks.push(format!("{figures} {verb} {how}"));
        }
        if let Some(scale) = self.runs.runs.iter().map(|run| run.plan.scale).find(|scale| *scale != 1.0) {
            let what = "volumes, work and file sizes of today are scaled to";
            let why = "such short measurements say little about the machine";
            remarks.push(format!("{what} {scale}: {why}"));
        }
        let how =
            "published numbers are as printed; ratio is today ÷ published; eff. is the share of the limit";
        remarks.push(how.to_owned());
        remarks
    }

    fn text(&self, style: &Style) -> String {
        let mut text = format!("{}\n", style.paint(TextRole::Strong, &style.styled(&self.title())));
        text.extend(self.remarks().iter().map(|remark| paragraph(style, TextRole::Dim, "  ", remark)));
        self.sheets().iter().for_each(|sheet| text += &text::sheet(sheet, style));
        text += &list(style, TextRole::Plain, evaluation::TITLE, &evaluation::statements(&self.tables));
        text + &list(style, TextRole::Plain, evaluation::OPEN_TITLE, &self.runs.baseline.open_points())
    }
}

/// Yields the cells with results of the reports' own programs: no reference tools, no limits.
fn points<'a, 'b>(filled: &'b [FilledTable<'a>]) -> impl Iterator<Item = &'b cells::FilledCell<'a>> {
    let own = filled.iter().filter(|filled| filled.table.kind == TableKind::Own);
    own.flat_map(FilledTable::cells).filter(|cell| cell.part == cells::ComparablePart::Own)
}

/// Describes a run: number of its results per subsystem in `filled`, id, start, host, processor.
fn taken(run: &Run, filled: &[FilledTable<'_>]) -> String {
    let own = points(filled).filter(|cell| cell.today.run.is_some_and(|of| of.id == run.id));
    let own = own.filter(|cell| cell.value().is_some()).map(|cell| (cell.figure.subsystem, ()));
    let part = |(part, all): (&str, Vec<()>)| format!("{part} ({})", format_count(all.len(), "figure"));
    let what = listed(grouped(own).into_iter().map(part), ", ").unwrap_or_else(|| "nothing".to_owned());
    let started = run.started.get(..16).unwrap_or(&run.started).replace('T', " ");
    let host = run.machine.host.as_deref().unwrap_or("this machine");
    let model = run.machine.cpu.model_name.as_deref().unwrap_or("unknown processor");
    let stated = format!("{what} from run {} of {started} UTC on {host}, {model}", run.id);
    plimsoll_units::text::shown_within(&stated, 300)
}

/// Returns a phrase per metric for which the report has a number, too: that number, and how many
/// times as high the measured value is, or why the number is doubted.
pub(super) fn published_lines(baseline: &PublishedReport, measurement: &Measurement) -> Vec<String> {
    let one = |metric: &MetricResult| {
        let figure = baseline.own_figure(&measurement.case, &metric.name)?;
        let value = figure.as_ours().map(|value| Quantity::new(value, metric.unit));
        let value = value.map_or(figure.value.to_owned(), |value| value.to_string());
        let stated = match (figure.doubt, figure.believed()) {
            (None, Some(then)) if measurement.status == Status::Ok => {
                format!("{value}, here {} ×", significant(metric.summary.median / then, 3))
            }
            (None, _) => value,
            (Some(doubt), _) => format!("{value}, {doubt}"),
        };
        Some(format!("{} {} {stated}", baseline.title(), metric.name))
    };
    measurement.metrics.iter().filter_map(one).collect()
}

#[cfg(test)]
pub(super) mod tests;
