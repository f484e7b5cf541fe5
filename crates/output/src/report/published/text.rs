//! Published tables for terminals.

use unicode_width::UnicodeWidthStr;

use super::sheet::{SheetBlock, SheetLine, TableSheet};
use crate::report::style::{Style, TextRole};
use crate::report::wrap::{left, paragraph, right, widths, with_leads};

const COLUMN_GAP: usize = 2;

/// Label and lines of a row: name, role, and a cell per column.
type StyledRow = (String, Vec<(&'static str, TextRole, Vec<String>)>);

/// Formats a table; columns that do not fit the terminal follow below, with the row names repeated.
pub(super) fn sheet(sheet: &TableSheet, style: &Style) -> String {
    let mut text = String::from("\n");
    let title = with_leads("", 2, &style.styled(&sheet.title), style.width.max(20));
    text.extend(title.iter().map(|(lead, line)| format!("{lead}{}\n", style.paint(TextRole::Strong, line))));
    text.extend(sheet.remarks.iter().map(|remark| paragraph(style, TextRole::Dim, "  ", remark)));
    let mut rows = vec![heads(sheet, style)];
    rows.extend(sheet.rows.iter().map(|block| row(block, style)));
    let label = rows.iter().map(|(label, _)| label.width()).max().unwrap_or(0);
    let lines = || rows.iter().flat_map(|(_, lines)| lines);
    let name = lines().map(|(name, ..)| name.width()).max().unwrap_or(0);
    let widths = widths(&lines().map(|(.., cells)| cells).collect::<Vec<_>>());
    let columns: Vec<(usize, usize)> = widths.into_iter().enumerate().collect();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let mut used = 2 * COLUMN_GAP + label + name;
        let fits = |(_, width): &&(usize, usize)| {
            used += COLUMN_GAP + width;
            used <= style.width
        };
        let (columns, further) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        text += &part(&rows, style, [label, name], columns);
        rest = further;
    }
    text.extend(sheet.formulas.iter().map(|formula| paragraph(style, TextRole::Dim, "  ", formula)));
    for (index, note) in sheet.notes.iter().enumerate() {
        let lead = format!("    [{}] ", index + 1);
        text += &paragraph(style, TextRole::Dim, &lead, note);
    }
    text
}

/// Splits the names of the columns at commas into lines, of which the last one is always there.
fn heads(sheet: &TableSheet, style: &Style) -> StyledRow {
    let names: Vec<Vec<&str>> = sheet.columns.iter().map(|name| name.rsplit(", ").collect()).collect();
    let part = |at: usize, parts: &Vec<&str>| parts.get(at).map_or(String::new(), |part| style.styled(part));
    let line = |at: usize| ("", TextRole::Dim, names.iter().map(|parts| part(at, parts)).collect());
    (String::new(), (0..names.iter().map(Vec::len).max().unwrap_or(0)).rev().map(line).collect())
}

fn row(block: &SheetBlock, style: &Style) -> StyledRow {
    let line = |(line, cells): &(SheetLine, Vec<String>)| {
        let role = match line {
            SheetLine::Today => TextRole::Strong,
            SheetLine::Published | SheetLine::Ratio => TextRole::Plain,
            _ => TextRole::Dim,
        };
        (line.name(), role, cells.iter().map(|cell| style.styled(cell)).collect())
    };
    (style.styled(&block.label), block.lines.iter().map(line).collect())
}

/// Formats the lines that have a cell in any of the `columns` (place, width).
fn part(rows: &[StyledRow], style: &Style, [label, name]: [usize; 2], columns: &[(usize, usize)]) -> String {
    let mut text = String::new();
    let has = |cells: &[String], at: usize| cells.get(at).is_some_and(|cell| !cell.is_empty());
    for (title, lines) in rows {
        let here = lines.iter().filter(|(.., cells)| columns.iter().any(|(at, _)| has(cells, *at)));
        for (index, (line, role, cells)) in here.enumerate() {
            let title = left(if index == 0 { title.as_str() } else { "" }, label);
            let cells = columns.iter().filter_map(|(at, width)| Some(right(cells.get(*at)?, *width)));
            let parts = std::iter::once(left(line, name)).chain(cells);
            let rest: String = parts.map(|part| format!("{:COLUMN_GAP$}{part}", "")).collect();
            text += &format!("{:COLUMN_GAP$}{title}{}\n", "", style.paint(*role, rest.trim_end()));
        }
    }
    text
}
