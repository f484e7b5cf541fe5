//! Published tables for terminals.

use unicode_width::UnicodeWidthStr;

use super::sheet::{SheetLine, TableSheet};
use crate::report::style::{Style, TextRole};
use crate::report::wrap::{flowed, paragraph};

const COLUMN_GAP: usize = 2;

/// Formats a table; columns that do not fit follow below, with the row names repeated.
pub(super) fn sheet(sheet: &TableSheet, style: &Style) -> String {
    let mut text = String::from("\n");
    for (at, line) in flowed(&style.styled(&sheet.title), style.width.max(20)).iter().enumerate() {
        let lead = if at == 0 { "" } else { "  " };
        text += &format!("{lead}{}\n", style.paint(TextRole::Strong, line));
    }
    for remark in &sheet.remarks {
        text += &paragraph(style, TextRole::Dim, "  ", remark);
    }
    let label = widest(sheet.rows.iter().map(|row| style.styled(&row.label)));
    let lines = sheet.rows.iter().flat_map(|row| &row.lines);
    let name = widest(lines.map(|(line, _)| line.name().to_owned()));
    let lead = COLUMN_GAP + label + COLUMN_GAP + name;
    for columns in chunks(sheet, style, lead) {
        text += &part(sheet, style, [label, name], &columns);
    }
    for formula in &sheet.formulas {
        text += &paragraph(style, TextRole::Dim, "  ", formula);
    }
    for (index, note) in sheet.notes.iter().enumerate() {
        let lead = format!("    [{}] ", index + 1);
        text += &paragraph(style, TextRole::Dim, &lead, note);
    }
    text
}

fn widest(texts: impl Iterator<Item = String>) -> usize {
    texts.map(|text| text.width()).max().unwrap_or(0)
}

/// Splits columns, as (index, width), into groups that fit the terminal beside row names of width
/// `lead`.
fn chunks(sheet: &TableSheet, style: &Style, lead: usize) -> Vec<Vec<(usize, usize)>> {
    let width = |at: usize| {
        let cells = sheet.rows.iter().flat_map(|row| &row.lines).filter_map(|(_, cells)| cells.get(at));
        let head = sheet.columns.get(at).into_iter().flat_map(|name| name.split(", ").map(ToOwned::to_owned));
        widest(cells.map(|cell| style.styled(cell)).chain(head.map(|part| style.styled(&part))))
    };
    let mut parts: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
    let mut used = lead;
    for at in 0..sheet.columns.len() {
        let width = width(at);
        let is_full =
            used + COLUMN_GAP + width > style.width && parts.last().is_some_and(|part| !part.is_empty());
        if is_full {
            parts.push(Vec::new());
            used = lead;
        }
        used += COLUMN_GAP + width;
        if let Some(part) = parts.last_mut() {
            part.push((at, width));
        }
    }
    parts
}

fn part(sheet: &TableSheet, style: &Style, lead: [usize; 2], columns: &[(usize, usize)]) -> String {
    let right = |cell: &str, width: usize| {
        let cell = style.styled(cell);
        format!("{}{}{cell}", " ".repeat(COLUMN_GAP), " ".repeat(width.saturating_sub(cell.width())))
    };
    let left = |cell: &str, width: usize| {
        let cell = style.styled(cell);
        format!("{}{cell}{}", " ".repeat(COLUMN_GAP), " ".repeat(width.saturating_sub(cell.width())))
    };
    let [label, name] = lead;
    let mut text = String::new();
    for at in 0..columns.iter().map(|(at, _)| stacked(sheet, *at, 0).len()).max().unwrap_or(0) {
        let high = columns.iter().map(|(column, _)| stacked(sheet, *column, 0).len()).max().unwrap_or(0);
        let names = columns.iter().map(|(column, width)| {
            let name = stacked(sheet, *column, high);
            right(name.get(at).copied().unwrap_or_default(), *width)
        });
        let head = format!("{}{}{}", left("", label), left("", name), names.collect::<String>());
        text += &format!("{}\n", style.paint(TextRole::Dim, head.trim_end()));
    }
    for row in &sheet.rows {
        let is_here =
            |cells: &[String]| columns.iter().any(|(at, _)| cells.get(*at).is_some_and(|c| !c.is_empty()));
        let lines = row.lines.iter().filter(|(_, cells)| is_here(cells)).enumerate();
        for (index, (line, cells)) in lines {
            let shown = if index == 0 { left(&row.label, label) } else { left("", label) };
            let cells = columns.iter().filter_map(|(at, width)| Some(right(cells.get(*at)?, *width)));
            let rest = format!("{}{}", left(line.name(), name), cells.collect::<String>());
            let role = match line {
                SheetLine::Today => TextRole::Strong,
                SheetLine::Published | SheetLine::Ratio => TextRole::Plain,
                _ => TextRole::Dim,
            };
            text += &format!("{shown}{}\n", style.paint(role, rest.trim_end()));
        }
    }
    text
}

/// Splits a column name at commas into lines for the heading, with empty lines above to make `high`
/// lines.
fn stacked(sheet: &TableSheet, column: usize, high: usize) -> Vec<&str> {
    let parts: Vec<&str> = sheet.columns.get(column).map_or(Vec::new(), |name| name.split(", ").collect());
    let missing = high.saturating_sub(parts.len());
    std::iter::repeat_n("", missing).chain(parts).collect()
}
