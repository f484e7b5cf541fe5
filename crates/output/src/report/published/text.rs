//! Published tables for terminals.

use unicode_width::UnicodeWidthStr;

use super::sheet::{SheetLine, TableSheet};
use crate::report::style::{Style, TextRole};
use crate::report::wrap::{flowed, left, paragraph, right};

const COLUMN_GAP: usize = 2;

/// Formats a table; columns that do not fit the terminal follow below, with the row names repeated.
pub(super) fn sheet(sheet: &TableSheet, style: &Style) -> String {
    let mut text = String::from("\n");
    for (at, line) in flowed(&style.styled(&sheet.title), style.width.max(20)).iter().enumerate() {
        let lead = if at == 0 { "" } else { "  " };
        text += &format!("{lead}{}\n", style.paint(TextRole::Strong, line));
    }
    text.extend(sheet.remarks.iter().map(|remark| paragraph(style, TextRole::Dim, "  ", remark)));
    let label = widest(sheet.rows.iter().map(|row| style.styled(&row.label)));
    let lines = sheet.rows.iter().flat_map(|row| &row.lines);
    let name = widest(lines.map(|(line, _)| line.name().to_owned()));
    let lead = COLUMN_GAP + label + COLUMN_GAP + name;
    text.extend(chunks(sheet, style, lead).iter().map(|of| part(sheet, style, [label, name], of)));
    text.extend(sheet.formulas.iter().map(|formula| paragraph(style, TextRole::Dim, "  ", formula)));
    for (index, note) in sheet.notes.iter().enumerate() {
        let lead = format!("    [{}] ", index + 1);
        text += &paragraph(style, TextRole::Dim, &lead, note);
    }
    text
}

fn widest(texts: impl Iterator<Item = String>) -> usize {
    texts.map(|text| text.width()).max().unwrap_or(0)
}

/// Splits the columns (index, width) into groups that fit beside row names of width `lead`.
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
        used += COLUMN_GAP + width;
        match parts.last_mut() {
            Some(part) if part.is_empty() || used <= style.width => part.push((at, width)),
            _ => {
                parts.push(vec![(at, width)]);
                used = lead + COLUMN_GAP + width;
            }
        }
    }
    parts
}

fn part(sheet: &TableSheet, style: &Style, [label, name]: [usize; 2], columns: &[(usize, usize)]) -> String {
    let gap = " ".repeat(COLUMN_GAP);
    let right = |cell: &str, width: usize| format!("{gap}{}", right(&style.styled(cell), width));
    let left = |cell: &str, width: usize| format!("{gap}{}", left(&style.styled(cell), width));
    let head = |(at, width): &(usize, usize)| {
        (sheet.columns.get(*at).map_or(Vec::new(), |name| name.split(", ").collect()), *width)
    };
    // Names of columns are split at commas into lines, of which the last one is always there.
    let heads: Vec<(Vec<&str>, usize)> = columns.iter().map(head).collect();
    let mut text = String::new();
    for below in (0..heads.iter().map(|(parts, _)| parts.len()).max().unwrap_or(0)).rev() {
        let names = heads
            .iter()
            .map(|(parts, width)| right(parts.iter().rev().nth(below).copied().unwrap_or_default(), *width));
        let head = left("", label) + &left("", name) + &names.collect::<String>();
        text += &format!("{}\n", style.paint(TextRole::Dim, head.trim_end()));
    }
    for row in &sheet.rows {
        let has = |cells: &[String], at: usize| cells.get(at).is_some_and(|cell| !cell.is_empty());
        let is_here = |cells: &[String]| columns.iter().any(|(at, _)| has(cells, *at));
        let lines = row.lines.iter().filter(|(_, cells)| is_here(cells)).enumerate();
        for (index, (line, cells)) in lines {
            let shown = left(if index == 0 { &row.label } else { "" }, label);
            let cells = columns.iter().filter_map(|(at, width)| Some(right(cells.get(*at)?, *width)));
            let rest = left(line.name(), name) + &cells.collect::<String>();
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
