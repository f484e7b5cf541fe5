//! Published tables as Markdown.

use super::FilledReport;
use super::evaluation;
use super::sheet::TableSheet;
use crate::report::escape::markdown as escaped;

pub(crate) fn markdown(reports: &[FilledReport<'_>]) -> String {
    let mut text = String::new();
    for report in reports {
        text += &format!("## {}\n\n", escaped(&report.title()));
        let filled = report.filled();
        let item = |text: &str| format!("- {}\n", escaped(text));
        text += &report.remarks(&filled).iter().map(|remark| item(remark)).collect::<String>();
        text += &report.sheets(&filled).iter().map(table).collect::<String>();
        text += &format!("\n### {}\n\n", evaluation::TITLE);
        let statements = evaluation::statements(report.baseline, &filled);
        text += &statements.iter().map(|statement| item(&statement.to_string())).collect::<String>();
        text += &format!("\n### {}\n\n", evaluation::OPEN_TITLE);
        let open = report.baseline.open_points();
        text += &open.iter().map(|point| item(&point.to_string())).collect::<String>();
    }
    text
}

fn table(sheet: &TableSheet) -> String {
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
    text += &sheet.formulas.iter().map(|formula| format!("\n{}\n", escaped(formula))).collect::<String>();
    let notes = sheet.notes.iter().enumerate();
    let notes: String = notes.map(|(at, note)| format!("{}. {}\n", at + 1, escaped(note))).collect();
    if notes.is_empty() { text } else { format!("{text}\n{notes}") }
}
