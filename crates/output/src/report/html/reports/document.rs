//! Document of a published report: contents, machine, tables with charts, evaluation, findings.

use maud::{Markup, html};
use plimsoll_bench::label::label;
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_published::tables::TableKind;
use plimsoll_result::document::Run;
use plimsoll_units::text::format_count;

use super::tables::{DrawnChart, MissingChart, charts};
use super::{StatedCases, single};
use crate::report::context;
use crate::report::html::data::{Chart, number};
use crate::report::html::{page, parts};
use crate::report::published::FilledReport;
use crate::report::published::evaluation::{self, Statement};
use crate::report::published::sheet::{SheetLine, SheetLines, TableSheet, is_measured};

struct TableSection<'a> {
    sheet: &'a TableSheet,
    name: String,
    id: String,
    /// Number of such tables in a line.
    per_line: usize,
    folded: Option<&'static str>,
    charts: Vec<DrawnChart>,
}

/// Returns how many tables of this width with `charts` charts fit side by side on the page: 1 to 3.
fn count_per_line(sheet: &TableSheet, charts: usize) -> usize {
    const MAX_LETTERS: [usize; 2] = [74, 116];
    let longest = |at: usize| {
        let lines = sheet.rows.iter().flat_map(|row| grouped(&row.lines));
        let cells = lines.filter_map(|(_, cells)| cells.get(at).map(|cell| cell.chars().count()));
        cells.max().unwrap_or(0) + 2
    };
    let label = sheet.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
    let letters = label + 11 + (0..sheet.columns.len()).map(longest).sum::<usize>();
    let fitting = 3 - MAX_LETTERS.iter().filter(|most| letters > **most).count();
    fitting.min(4 - charts.clamp(1, 3))
}

struct MachinePartTables<'a> {
    subsystem: &'static str,
    title: &'static str,
    sections: Vec<TableSection<'a>>,
    series: Vec<DrawnChart>,
}

/// Builds the part of a page for its report number `index`, and the charts to embed in the page.
/// `folded`, other results of the report's runs, is folded at its end.
pub(crate) fn document(report: &FilledReport<'_>, index: usize, folded: &Markup) -> (Markup, Vec<Chart>) {
    let sheets = report.sheets();
    let runs = &report.runs.runs;
    let mut parts = parts_of(report, index, &sheets);
    let drawn = parts.iter_mut().flat_map(|part| {
        part.sections.iter_mut().flat_map(|section| &mut section.charts).chain(&mut part.series)
    });
    let mut charts: Vec<&mut Chart> = drawn.filter_map(|drawn| drawn.as_mut().ok()).collect();
    number(charts.iter_mut().map(|chart| &mut **chart), &format!("d{index}"));
    let all = charts.into_iter().map(|chart| chart.clone()).collect();
    let statements = evaluation::statements(&report.tables);
    let ends = ["evaluation", "findings", "rest"].map(|name| format!("d{index}-{name}"));
    let body = html! {
        @if let Some(run) = runs.first() { (parts::header(run)) }
        main.document {
            section {
                h2 { (report.title()) }
                @for remark in report.remarks() { p.note { (remark) } }
                p.note { (HOW) }
                (contents(&parts, &ends))
            }
            @for part in &parts {
                section {
                    h2 { (part.title) }
                    div.tables {
                        @for section in &part.sections { (table(section)) }
                        @for drawn in &part.series { div.third { (figure(drawn)) } }
                    }
                }
            }
            section id=(ends[0]) {
                h2 { (evaluation::TITLE) }
                ul.evaluation { @for statement in &statements { (stated(statement, index)) } }
                details.alone {
                    summary { strong { (evaluation::OPEN_TITLE) } }
                    ul.evaluation { @for point in report.runs.baseline.open_points() { li { (point.to_string()) } } }
                }
            }
            div id=(ends[1]) { @for run in runs { (parts::findings(run)) } }
            details.folded id=(ends[2]) {
                summary { "All other charts and results of these runs" }
                (folded)
            }
        }
    };
    (body, all)
}

/// Builds links to all tables and to the sections with the ids `ends`: evaluation, findings, rest.
fn contents(parts: &[MachinePartTables<'_>], ends: &[String; 3]) -> Markup {
    let [evaluation, findings, rest] = ends.each_ref().map(|id| format!("#{id}"));
    html! {
        nav.contents aria-label="Contents" {
            @for part in parts { div {
                strong { (part.title) }
                @for section in &part.sections { a href=(format!("#{}", section.id)) { (section.name) } }
            } }
            div {
                strong { "All tables" }
                a href=(evaluation) { (evaluation::TITLE) }
                a href=(findings) { "Findings" }
                a href=(rest) { "All other charts and results" }
            }
        }
    }
}

const HOW: &str = "in each row: own, today's mean ± standard deviation; reference, the \
reference tool of today (its efficiency, the share of the limit); theory, today's limit (own efficiency); published, the report's number (today ÷ published)";

fn parts_of<'a>(
    report: &FilledReport<'_>,
    index: usize,
    sheets: &'a [TableSheet],
) -> Vec<MachinePartTables<'a>> {
    let mut found: Vec<MachinePartTables<'a>> = Vec::new();
    for (table, sheet) in report.tables.iter().zip(sheets) {
        let is_text = table.table.figures().all(|figure| figure.is_of_text());
        let first = table.table.figures().next().filter(|_| !is_text);
        let subsystem = first.map_or("text", |first| first.subsystem);
        if found.last().is_none_or(|part| part.subsystem != subsystem) {
            let title = if is_text { "Text" } else { context::title(subsystem) };
            found.push(MachinePartTables { subsystem, title, sections: Vec::new(), series: Vec::new() });
        }
        let charts = charts(table);
        let drawn = charts.iter().filter(|one| one.is_ok()).count();
        let section = TableSection {
            sheet,
            name: format!("{}. {}", table.table.number, table.table.title),
            id: anchor(index, table.table.number),
            per_line: count_per_line(sheet, drawn),
            folded: match table.table.kind {
                TableKind::Text => Some("what the report's text has besides its tables"),
                TableKind::Program if !is_measured(table) => Some("published numbers alone, with the reason"),
                TableKind::Program if charts.len() > 1 => {
                    Some("a screen of a reference program, line by line")
                }
                _ => None,
            },
            charts,
        };
        if let Some(part) = found.last_mut() {
            part.sections.push(section);
        }
    }
    for (subsystem, drawn) in report.runs.runs.iter().flat_map(|run| series(run)) {
        if let Some(part) = found.iter_mut().rfind(|part| part.subsystem == subsystem) {
            part.series.push(drawn);
        }
    }
    found.iter_mut().for_each(|part| widen(&mut part.sections));
    found
}

/// Lowers `per_line`, how many such tables fit in a line, to the number that will share its line.
fn widen(sections: &mut [TableSection<'_>]) {
    let mut rest = sections;
    while let Some(first) = rest.first() {
        let narrowest = |n: usize| rest.iter().take(n).map(|section| section.per_line).min().unwrap_or(1);
        let most = first.per_line.min(rest.len());
        let count = (1..=most).rev().find(|n| narrowest(*n) >= *n).unwrap_or(1);
        let (line, further) = std::mem::take(&mut rest).split_at_mut(count);
        line.iter_mut().for_each(|section| section.per_line = count);
        rest = further;
    }
}

fn anchor(index: usize, number: usize) -> String {
    format!("d{index}-table-{number}")
}

/// Returns subsystem and chart, or why there is none, of each time series that the plan requests.
pub(crate) fn series(run: &Run) -> Vec<(&str, DrawnChart)> {
    let stated = StatedCases::of(run);
    let asked = run.measurements.iter().filter(|m| stated.is_series(&m.case));
    let draw = |measurement: &Measurement| {
        let metric = measurement.metrics.first();
        let valid = metric.filter(|_| measurement.status == Status::Ok);
        let reason = measurement.reason.as_deref().unwrap_or("no reason is recorded");
        let why = match (measurement.status, metric) {
            (Status::Ok, Some(metric)) => {
                let samples = format_count(metric.samples.len(), "sample");
                format!("{samples} in time are too few for a series")
            }
            (Status::Ok, None) => "it has no metric".to_owned(),
            (Status::Invalid, _) => format!("invalid today: {reason}"),
            (status, _) => format!("{}: {reason}", status.word()),
        };
        let title = format!("{} over time", label(&measurement.case));
        let drawn = valid.and_then(|metric| single::series(measurement, metric, run.seed));
        drawn.ok_or(MissingChart { title, why })
    };
    asked.map(|measurement| (measurement.case.subsystem(), draw(measurement))).collect()
}

fn table(section: &TableSection<'_>) -> Markup {
    let class = ["whole", "half", "third"][section.per_line.clamp(1, 3) - 1];
    html! {
        section.(class) id=(section.id) {
            @if let Some(why) = section.folded {
                details.alone {
                    summary { strong { (section.sheet.title) } " · " (why) }
                    (content(section))
                }
            } @else {
                h3 { (section.sheet.title) }
                (content(section))
            }
        }
    }
}

fn content(section: &TableSection<'_>) -> Markup {
    let sheet = section.sheet;
    let single = section.charts.len() == 1;
    html! {
            div.wide { table.published {
                thead { tr { th {} th {} @for column in &sheet.columns { th.n { (column) } } } }
                @for row in &sheet.rows { tbody {
                    @let lines = grouped(&row.lines);
                    @for (at, (line, cells)) in lines.iter().enumerate() {
                        @let [name, class] = name_and_class(*line);
                        tr.(class) {
                            @if at == 0 { th rowspan=(lines.len()) scope="rowgroup" { (row.label) } }
                            td { (name) }
                            @for cell in cells { td.n { (cell) } }
                        }
                    }
                } }
            } }
            p.note.formula { (sheet.formulas.join(" · ")) }
            p.note { (sheet.remarks.join(" · ")) }
            @if !sheet.notes.is_empty() { ol { @for note in &sheet.notes { li { (note) } } } }
            div.figures.single[single] { @for drawn in &section.charts { (figure(drawn)) } }
    }
}

/// Merges lines of standard deviations, shares and ratios into those of their values: `103 ± 2`.
fn grouped(lines: &[(SheetLine, Vec<String>)]) -> SheetLines {
    let mut found = SheetLines::new();
    for (line, cells) in lines {
        let (into, [before, after]) = match line {
            SheetLine::Deviation => (SheetLine::Today, ["± ", ""]),
            SheetLine::OwnShare => (SheetLine::Limit, ["(", ")"]),
            SheetLine::ReferenceShare => (SheetLine::Reference, ["(", ")"]),
            SheetLine::Ratio => (SheetLine::Published, ["(", ")"]),
            _ => (*line, ["", ""]),
        };
        match found.iter_mut().find(|(known, _)| *known == into) {
            None => found.push((*line, cells.clone())),
            Some((_, existing)) => {
                for (cell, more) in existing.iter_mut().zip(cells).filter(|(_, more)| !more.is_empty()) {
                    *cell = format!("{cell} {before}{more}{after}");
                }
            }
        }
    }
    found
}

fn name_and_class(line: SheetLine) -> [&'static str; 2] {
    match line {
        SheetLine::Today => ["own", "today"],
        SheetLine::Limit => ["theory", "between"],
        SheetLine::Published => [line.name(), "published-line"],
        SheetLine::Ratio => [line.name(), "ratio"],
        _ => [line.name(), "between"],
    }
}

fn figure(drawn: &DrawnChart) -> Markup {
    match drawn {
        Ok(chart) => page::figure(chart),
        Err(MissingChart { title, why }) => html! {
            figure.missing { figcaption { strong { (title) } span.note { "no chart: " (why) } } }
        },
    }
}

fn stated(statement: &Statement, index: usize) -> Markup {
    html! {
        li {
            (statement.text) " ("
            @for (at, number) in statement.tables.iter().enumerate() {
                @if at > 0 { ", " }
                a href=(format!("#{}", anchor(index, *number))) { "table " (number) }
            }
            ")"
        }
    }
}
