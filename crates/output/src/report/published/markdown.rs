//! Published tables as Markdown.

use super::sheet::TableSheet;
use super::{ReplayedReport, evaluation, filled_reports};
use crate::report::escape::{line, markdown as escaped};

pub(crate) fn markdown(reports: &[ReplayedReport<'_>]) -> String {
    let mut text = String::new();
    for report in &filled_reports(reports) {
        text += &format!("## {}\n\n", escaped(&report.title()));
        text += &report.remarks().iter().map(item).collect::<String>();
        text += &report.sheets().iter().map(table).collect::<String>();
        text += &format!("\n### {}\n\n", evaluation::TITLE);
        text += &evaluation::statements(&report.tables).iter().map(item).collect::<String>();
        text += &format!("\n### {}\n\n", evaluation::OPEN_TITLE);
        text += &report.runs.baseline.open_points().iter().map(item).collect::<String>();
    }
    text
}

fn item(text: &impl ToString) -> String {
    format!("- {}\n", escaped(&text.to_string()))
}

fn table(sheet: &TableSheet) -> String {
    let mut text = format!("\n### {}\n\n", escaped(&sheet.title));
    text += &sheet.remarks.iter().map(|remark| format!("{}\n\n", escaped(remark))).collect::<String>();
    let row = |label: &str, name: &str, cells: &[String]| {
        line(&[&[label.to_owned(), name.to_owned()], cells].concat())
    };
    text += &row("", "", &sheet.columns);
    text += &format!("| --- | --- |{}\n", " ---: |".repeat(sheet.columns.len()));
    for block in &sheet.rows {
        for (index, (name, cells)) in block.lines.iter().enumerate() {
            text += &row(if index == 0 { &block.label } else { "" }, name.name(), cells);
        }
    }
    text += &sheet.formulas.iter().map(|formula| format!("\n{}\n", escaped(formula))).collect::<String>();
    let notes = sheet.notes.iter().enumerate();
    let notes: String = notes.map(|(at, note)| format!("{}. {}\n", at + 1, escaped(note))).collect();
    if notes.is_empty() { text } else { format!("{text}\n{notes}") }
}
