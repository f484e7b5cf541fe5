//! Published tables as CSV: a row per printed number, with today's measurement.

use std::io::{self, Write};

use plimsoll_published::{PublishedFigure, PublishedReport};
use serde::Serialize;

use super::FilledReport;
use super::cells::{ComparablePart, FilledCell, FilledTable};
use crate::report::tidy;

#[derive(Default, Serialize)]
struct Record<'a> {
    report: &'a str,
    table: usize,
    title: &'a str,
    kind: &'a str,
    row: &'a str,
    column: &'a str,
    subsystem: &'a str,
    operation: &'a str,
    pattern: &'a str,
    precision: &'a str,
    bytes: &'a str,
    threads: &'a str,
    metric: &'a str,
    statistic: &'a str,
    source: &'a str,
    unit: &'a str,
    today: Option<f64>,
    today_stdev: Option<f64>,
    today_samples: Option<usize>,
    today_reference: Option<f64>,
    today_reference_tool: Option<&'a str>,
    today_limit: Option<f64>,
    today_own_efficiency: Option<f64>,
    today_reference_efficiency: Option<f64>,
    today_status: String,
    published: &'a str,
    published_unit: &'a str,
    published_stdev: Option<&'a str>,
    published_reference: Option<&'a str>,
    published_reference_tool: Option<&'a str>,
    published_theory: Option<f64>,
    published_own_efficiency: Option<&'a str>,
    published_reference_efficiency: Option<&'a str>,
    published_verdict: &'a str,
    published_flag: &'a str,
    ratio: Option<f64>,
    case: Option<String>,
    run: Option<&'a str>,
    today_reference_differs: Option<&'a str>,
}

/// Writes the filled tables as CSV with a header line, a row per published number. Fails if writing
/// fails.
pub(in crate::report) fn csv(reports: &[FilledReport<'_>], out: impl Write) -> io::Result<()> {
    let filled: Vec<(&FilledReport<'_>, Vec<FilledTable<'_>>)> =
        reports.iter().map(|report| (report, report.filled())).collect();
    let tables = filled.iter().flat_map(|(report, tables)| tables.iter().map(move |table| (*report, table)));
    let records = tables.flat_map(|(report, filled)| {
        let rows = filled.table.rows.iter().zip(&filled.rows);
        rows.flat_map(move |(row, cells)| {
            cells.iter().zip(&filled.table.columns).filter_map(move |(cell, column)| {
                Some(record(report.baseline, filled, [&row.label, column], cell.as_ref()?))
            })
        })
    });
    tidy::table(records, out)
}

fn record<'a>(
    baseline: &'a PublishedReport,
    filled: &'a FilledTable<'_>,
    names: [&'a str; 2],
    cell: &'a FilledCell<'_>,
) -> Record<'a> {
    let PublishedFigure {
        subsystem,
        operation,
        pattern,
        precision,
        bytes,
        threads,
        metric,
        statistic,
        source,
        ..
    } = cell.figure;
    let (table, [row, column]) = (filled.table, names);
    let named = Record {
        report: baseline.name,
        table: table.number,
        title: &table.title,
        kind: table.kind.word(),
        row,
        column,
        subsystem,
        operation,
        pattern,
        precision,
        bytes,
        threads,
        metric,
        statistic,
        source,
        unit: &cell.unit.name,
        ratio: cell.ratio(),
        ..Record::default()
    };
    let named = with_today(named, cell);
    if is_point(cell) { with_published(named, baseline, cell) } else { named }
}

/// Returns whether the cell is a case's mean or peak, not a sample or a spread.
fn is_point(cell: &FilledCell<'_>) -> bool {
    matches!(cell.part, ComparablePart::Own | ComparablePart::Peak)
}

fn with_today<'a>(record: Record<'a>, cell: &'a FilledCell<'_>) -> Record<'a> {
    let today = &cell.today;
    let in_unit = |value: f64| value / cell.unit.scale;
    let record = Record {
        today: cell.value().map(in_unit).filter(|value| value.is_finite()),
        today_status: status(cell),
        published: cell.figure.value,
        published_unit: cell.figure.unit,
        published_verdict: cell.figure.doubt.map_or("", |doubt| doubt.verdict.word()),
        published_flag: cell.figure.doubt.map_or("", |doubt| doubt.why),
        case: today.case.map(ToString::to_string),
        run: today.run.map(|run| run.id.as_str()),
        ..record
    };
    if !is_point(cell) {
        return record;
    }
    let percent = |share: f64| share * 100.0;
    let tool = today.tool.as_ref();
    Record {
        today_stdev: today.stdev().map(in_unit),
        today_samples: (!today.samples.is_empty()).then_some(today.samples.len()),
        today_reference: tool.map(|tool| in_unit(tool.figure)),
        today_reference_tool: tool.map(|tool| tool.name),
        today_reference_differs: tool.map(|tool| tool.differs.as_str()).filter(|text| !text.is_empty()),
        today_limit: today.limit().map(in_unit),
        today_own_efficiency: today.share(today.mean()).map(percent),
        today_reference_efficiency: tool.and_then(|tool| tool.of_limit).map(percent),
        ..record
    }
}

fn with_published<'a>(
    record: Record<'a>,
    baseline: &'a PublishedReport,
    cell: &'a FilledCell<'_>,
) -> Record<'a> {
    let of_point = |wanted: &dyn Fn(&PublishedFigure) -> bool| {
        let found = baseline.figures.iter().find(|f| f.is_of_point(cell.figure) && wanted(f));
        found.filter(|f| !std::ptr::eq(*f, cell.figure))
    };
    let reference = of_point(&|f| f.is_reference());
    Record {
        published_stdev: of_point(&|f| f.source == "own" && f.statistic == "stdev").map(|f| f.value),
        published_reference: reference.map(|f| f.value),
        published_reference_tool: reference.map(|f| f.source),
        published_theory: theory(baseline, cell),
        published_own_efficiency: of_point(&|f| f.source == "efficiency-own").map(|f| f.value),
        published_reference_efficiency: of_point(&|f| f.source == "efficiency-reference").map(|f| f.value),
        ..record
    }
}

/// Returns "ok", or why there is no valid result.
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

/// Returns the published limit for the cell's case, or else the one in the text, in the cell's
/// unit; `None` without one.
fn theory(baseline: &PublishedReport, cell: &FilledCell<'_>) -> Option<f64> {
    let all = || baseline.figures.iter().filter(|f| f.source == "theoretical");
    let found = all()
        .find(|f| f.is_of_point(cell.figure))
        .or_else(|| all().find(|f| f.is_of_text() && cell.figure.matches_text(f)))?;
    let (value, _) = found.base?;
    Some(value / cell.unit.scale)
}
