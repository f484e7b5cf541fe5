//! Published tables as CSV: a row per printed number, with today's measurement.

use plimsoll_published::PublishedFigure;
use serde_json::{Value, json};

use super::cells::{ComparablePart, FilledCell, FilledTable};
use super::today::MeasuredByTool;
use super::{ReplayedReport, filled_reports};
use crate::report::tidy::{self, Column};

/// A printed number with its table, labels of row and column, and today's measurement.
struct Record<'a> {
    table: &'a FilledTable<'a>,
    row: &'a str,
    column: &'a str,
    cell: &'a FilledCell<'a>,
}

fn columns<'a>() -> Vec<Column<Record<'a>>> {
    vec![
        ("report", |of| json!(of.table.baseline.name)),
        ("table", |of| json!(of.table.table.number)),
        ("title", |of| json!(of.table.table.title)),
        ("kind", |of| json!(of.table.table.kind.word())),
        ("row", |of| json!(of.row)),
        ("column", |of| json!(of.column)),
        ("subsystem", |of| json!(of.cell.figure.subsystem)),
        ("operation", |of| json!(of.cell.figure.operation)),
        ("pattern", |of| json!(of.cell.figure.pattern)),
        ("precision", |of| json!(of.cell.figure.precision)),
        ("bytes", |of| json!(of.cell.figure.bytes)),
        ("threads", |of| json!(of.cell.figure.threads)),
        ("metric", |of| json!(of.cell.figure.metric)),
        ("statistic", |of| json!(of.cell.figure.statistic)),
        ("source", |of| json!(of.cell.figure.source)),
        ("unit", |of| json!(of.cell.unit.name)),
        ("today", |of| of.in_unit(of.cell.value())),
        ("today_stdev", |of| of.in_unit(of.point().and_then(|cell| cell.today.stdev()))),
        ("today_samples", |of| {
            json!(of.point().map(|cell| cell.today.samples.len()).filter(|count| *count > 0))
        }),
        ("today_reference", |of| of.in_unit(of.tool().map(|tool| tool.figure))),
        ("today_reference_tool", |of| json!(of.tool().map(|tool| tool.name))),
        ("today_limit", |of| of.in_unit(of.point().and_then(|cell| cell.today.limit()))),
        ("today_own_efficiency", |of| {
            percent(of.point().and_then(|cell| cell.today.share(cell.today.mean())))
        }),
        ("today_reference_efficiency", |of| percent(of.tool().and_then(|tool| tool.of_limit))),
        ("today_status", |of| json!(status(of.cell))),
        ("published", |of| json!(of.cell.figure.value)),
        ("published_unit", |of| json!(of.cell.figure.unit)),
        ("published_stdev", |of| of.value_printed(|f| f.source == "own" && f.statistic == "stdev")),
        ("published_reference", |of| of.value_printed(PublishedFigure::is_reference)),
        ("published_reference_tool", |of| json!(of.printed(PublishedFigure::is_reference).map(|f| f.source))),
        ("published_theory", |of| json!(of.theory())),
        ("published_own_efficiency", |of| of.value_printed(|f| f.source == "efficiency-own")),
        ("published_reference_efficiency", |of| of.value_printed(|f| f.source == "efficiency-reference")),
        ("published_verdict", |of| json!(of.cell.figure.doubt.map_or("", |doubt| doubt.verdict))),
        ("published_flag", |of| json!(of.cell.figure.doubt.map_or("", |doubt| doubt.why))),
        ("ratio", |of| json!(of.cell.ratio())),
        ("case", |of| json!(of.cell.today.case.map(ToString::to_string))),
        ("run", |of| json!(of.cell.today.run.map(|run| &run.id))),
        ("today_reference_differs", |of| {
            json!(of.tool().map(|tool| &tool.differs).filter(|text| !text.is_empty()))
        }),
    ]
}

/// Formats filled tables as CSV: a header and a row per published number.
pub(crate) fn csv(reports: &[ReplayedReport<'_>]) -> String {
    let reports = filled_reports(reports);
    let records = reports.iter().flat_map(|report| &report.tables).flat_map(|table| {
        table.table.rows.iter().zip(&table.rows).flat_map(move |(row, cells)| {
            cells.iter().zip(&table.table.columns).filter_map(move |(cell, column)| {
                Some(Record { table, row: &row.label, column, cell: cell.as_ref()? })
            })
        })
    });
    tidy::table(&columns(), records)
}

fn percent(share: Option<f64>) -> Value {
    json!(share.map(|share| share * 100.0))
}

impl Record<'_> {
    fn in_unit(&self, value: Option<f64>) -> Value {
        json!(value.map(|value| value / self.cell.unit.scale))
    }

    /// Returns the cell if it is a case's mean or peak; else (sample, spread, limit, share) `None`.
    fn point(&self) -> Option<&FilledCell<'_>> {
        Some(self.cell).filter(|cell| matches!(cell.part, ComparablePart::Own | ComparablePart::Peak))
    }

    fn tool(&self) -> Option<&MeasuredByTool<'_>> {
        self.point()?.today.tool.as_ref()
    }

    /// Returns the first other number of the same measured point for which `wanted` is true.
    fn printed(&self, wanted: fn(&PublishedFigure) -> bool) -> Option<&PublishedFigure> {
        let own = self.point()?.figure;
        let found = self.table.baseline.figures.iter().find(|f| f.is_of_point(own) && wanted(f));
        found.filter(|f| !std::ptr::eq(*f, own))
    }

    fn value_printed(&self, wanted: fn(&PublishedFigure) -> bool) -> Value {
        json!(self.printed(wanted).map(|f| f.value))
    }

    /// Returns the published limit for the cell's case, or else the one in the prose, in the cell's
    /// unit; `None` without one.
    fn theory(&self) -> Option<f64> {
        let (value, _) = self.table.baseline.theory(self.point()?.figure, |_| true)?.base?;
        Some(value / self.cell.unit.scale)
    }
}

/// Returns "ok", or why the run has no valid result for the cell.
fn status(cell: &FilledCell<'_>) -> String {
    match (&cell.today.invalid, &cell.today.instead, cell.value()) {
        (Some(why), ..) => format!("invalid: {why}"),
        (None, Some(why), _) => why.clone(),
        (None, None, None) => match (cell.part, cell.today.limit_unknown()) {
            (ComparablePart::Limit | ComparablePart::OwnShare | ComparablePart::ProgramShare, Some(why)) => {
                format!("limit unknown: {why}")
            }
            _ => "no such figure".to_owned(),
        },
        (None, None, Some(_)) => "ok".to_owned(),
    }
}
