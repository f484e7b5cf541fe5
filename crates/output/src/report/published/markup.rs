//! The tables as Markdown and as a page that needs no other file.

use maud::{Markup, html};

use super::Report;
use super::sheet::{Line, Sheet};
use crate::report::escape::markdown as escaped;
use crate::report::html::plain;

/// All of it as Markdown.
pub(in crate::report) fn markdown(reports: &[Report<'_>]) -> String {
    let mut text = String::new();
    for report in reports {
        text += &format!("## {}\n\n", escaped(&report.title()));
        text += &report.remarks().iter().map(|remark| format!("- {}\n", escaped(remark))).collect::<String>();
        text += &report.sheets().iter().map(table).collect::<String>();
    }
    text
}

fn table(sheet: &Sheet) -> String {
    let line = |cells: Vec<&str>| {
        let cells: Vec<String> = cells.into_iter().map(escaped).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = format!("\n### {}\n\n", escaped(&sheet.title));
    text += &sheet.remarks.iter().map(|remark| format!("{}\n\n", escaped(remark))).collect::<String>();
    text += &line(["", ""].into_iter().chain(sheet.columns.iter().map(String::as_str)).collect());
    text += &format!("| --- | --- |{}\n", " ---: |".repeat(sheet.columns.len()));
    for row in &sheet.rows {
        for (index, (name, cells)) in row.lines.iter().enumerate() {
            let label = if index == 0 { row.label.as_str() } else { "" };
            text += &line([label, name.name()].into_iter().chain(cells.iter().map(String::as_str)).collect());
        }
    }
    let notes = sheet.notes.iter().enumerate();
    let notes: String = notes.map(|(at, note)| format!("{}. {}\n", at + 1, escaped(note))).collect();
    if notes.is_empty() { text } else { format!("{text}\n{notes}") }
}

/// All of it as a page.
pub(in crate::report) fn page(reports: &[Report<'_>]) -> String {
    let names: Vec<&str> = reports.iter().map(|report| report.baseline.name).collect();
    let body = html! {
        @for report in reports {
            @let sheets = report.sheets();
            header { div.name { h1 { (report.title()) } } @for remark in report.remarks() { p.run { (remark) } } }
            main {
                details.figures {
                    summary { (sheets.len()) " tables" }
                    ul { @for (at, sheet) in sheets.iter().enumerate() {
                        li { a href=(format!("#{}-{}", report.baseline.name, at + 1)) { (sheet.title) } }
                    } }
                }
                @for (at, sheet) in sheets.iter().enumerate() {
                    (section(sheet, &format!("{}-{}", report.baseline.name, at + 1)))
                }
            }
        }
    };
    plain::page(&format!("plimsoll: {}", names.join(", ")), &body, STYLE)
}

const STYLE: &str = "
table.published { width: auto; } table.published th.n, table.published td.n { padding-left: 18px; }
table.published th { vertical-align: bottom; } table.published tbody th { color: var(--text); vertical-align: top; white-space: nowrap; }
table.published tbody td, table.published tbody th { border-bottom: none; padding-top: 0; padding-bottom: 0; }
table.published tbody tr:last-child td { padding-bottom: 5px; } table.published tbody tr:first-child > * { border-top: 1px solid var(--line); padding-top: 4px; }
table.published .today { font-weight: 600; } table.published .between { color: var(--dim); } table.published tr.ratio { color: var(--own); }
section ol { margin: 4px 0; color: var(--dim); font-size: 12px; } h2 { font-size: 16px; } main ul { columns: 2; }
";

fn section(sheet: &Sheet, id: &str) -> Markup {
    html! {
        section id=(id) {
            h2 { (sheet.title) }
            @for remark in &sheet.remarks { p.note { (remark) } }
            div.wide { table.published {
                thead { tr { th {} th {} @for column in &sheet.columns { th.n { (column) } } } }
                @for row in &sheet.rows { tbody {
                    @for (index, (line, cells)) in row.lines.iter().enumerate() {
                        tr.(class(*line)) {
                            @if index == 0 { th rowspan=(row.lines.len()) scope="rowgroup" { (row.label) } }
                            td { (line.name()) }
                            @for cell in cells { td.n { (cell) } }
                        }
                    }
                } }
            } }
            @if !sheet.notes.is_empty() { ol { @for note in &sheet.notes { li { (note) } } } }
        }
    }
}

fn class(line: Line) -> &'static str {
    match line {
        Line::Today => "today",
        Line::Published => "published-line",
        Line::Ratio => "ratio",
        _ => "between",
    }
}
