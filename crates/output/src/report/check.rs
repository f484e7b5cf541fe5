//! Verdicts on results of other tools, as text. Pure functions.

use plimsoll_check::{Checked, CheckedFigure, Plausibility};
use plimsoll_model::limit::LimitKind;
use plimsoll_units::quantity::{Quantity, percent};
use plimsoll_units::text::format_count;
use unicode_width::UnicodeWidthStr;

use super::style::{Style, TextRole};
use super::wrap::{aligned, left, paragraph, widths};

const COLUMN_TITLES: [&str; 5] = ["figure", "measured", "limit", "% of limit", "verdict"];

/// Formats checks of other tools' results: per file a table with reasons below rows, then totals.
pub fn text(files: &[Checked], style: &Style) -> String {
    let text: String = files.iter().map(|file| one(file, style) + "\n").collect();
    text + &paragraph(style, TextRole::Strong, "", &tally(files))
}

fn one(file: &Checked, style: &Style) -> String {
    let version = file.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let title = format!("{}: {}{version}", title(&file.file, file.document), file.tool);
    let mut text = paragraph(style, TextRole::Strong, "", &title);
    if let Some(trouble) = &file.trouble {
        text += &paragraph(style, TextRole::Warning, "! ", &format!("the tool says: {trouble}"));
    }
    if file.rows.is_empty() {
        return text + &paragraph(style, TextRole::Dim, "", "no figure in it");
    }
    let mut stated = vec![COLUMN_TITLES.map(|cell| style.styled(cell))];
    stated.extend(file.rows.iter().map(|row| cells(row).map(|cell| style.styled(&cell))));
    let widths = widths(&stated);
    text += &line(&stated[0], &widths, TextRole::Dim, style);
    let mut before = "";
    for (cells, row) in stated.iter().skip(1).zip(&file.rows) {
        text += &line(cells, &widths, role(row), style);
        let reason = if row.reason == before { "for the same reason" } else { &row.reason };
        if !row.reason.is_empty() {
            text += &paragraph(style, TextRole::Plain, "    ", reason);
        }
        before = &row.reason;
    }
    text
}

/// Returns `FILE`, or `FILE, result 2` if `document` numbers one of several results in the file.
pub fn title(file: &str, document: Option<usize>) -> String {
    document.map_or_else(|| file.to_owned(), |number| format!("{file}, result {number}"))
}

/// Formats a table row of name, numbers and verdict, which has the colour of `role`. `widths` are
/// the widths of all columns; a name that is longer than the room left gets its own line.
fn line(row: &[String], widths: &[usize], role: TextRole, style: &Style) -> String {
    const MIN_NAME_COLUMNS: usize = 12;
    let ([name, numbers @ .., verdict], [longest, others @ ..]) = (row, widths) else { return String::new() };
    let room = style.width.saturating_sub(others.iter().map(|width| width + 2).sum());
    let room = if room >= MIN_NAME_COLUMNS { room.min(*longest) } else { 0 };
    let name = if name.width() <= room { left(name, room) } else { format!("{name}\n{}", " ".repeat(room)) };
    let numbers = aligned(numbers, others, |_| true);
    format!("{name}  {numbers}  {}\n", style.paint(role, verdict))
}

fn role(row: &CheckedFigure) -> TextRole {
    match row.verdict {
        Plausibility::Fine => TextRole::Good,
        Plausibility::Impossible => TextRole::Bad,
        Plausibility::Unjudged => TextRole::Warning,
    }
}

fn cells(row: &CheckedFigure) -> [String; 5] {
    let quantity = |value| Quantity::new(value, row.unit).to_string();
    let limit = row.limit.as_ref().map_or("unknown".to_owned(), |bound| {
        let sign = if bound.kind == LimitKind::Floor { "≥" } else { "≤" };
        format!("{sign} {}", quantity(bound.value))
    });
    let share = row.of_limit.map_or("-".to_owned(), |share| percent(share, 3));
    let verdict = match (row.verdict, row.cause) {
        (Plausibility::Fine, _) => "fine".to_owned(),
        (Plausibility::Unjudged, _) => "cannot be judged".to_owned(),
        (Plausibility::Impossible, Some(cause)) => format!("IMPOSSIBLE: {}", cause.word()),
        (Plausibility::Impossible, None) => "IMPOSSIBLE".to_owned(),
    };
    [row.name.clone(), quantity(row.value), limit, share, verdict]
}

fn tally(files: &[Checked]) -> String {
    let count = |verdict| files.iter().map(|file| file.count(verdict)).sum::<usize>();
    let all: usize = files.iter().map(|file| file.rows.len()).sum();
    let several = files.iter().any(|file| file.document.is_some());
    let files = format_count(files.len() as u64, if several { "result" } else { "file" });
    let [impossible, fine, unjudged] =
        [Plausibility::Impossible, Plausibility::Fine, Plausibility::Unjudged].map(count);
    let all = format_count(all as u64, "figure");
    format!("{all} in {files}: {impossible} impossible, {fine} fine, {unjudged} cannot be judged")
}

#[cfg(test)]
mod tests {
    use plimsoll_check::{ImpossibleCause, LimitShown};
    use plimsoll_units::quantity::Unit;

    use super::*;

    fn row(name: &str, verdict: Plausibility, cause: Option<ImpossibleCause>, reason: &str) -> CheckedFigure {
        let (kind, formula) = (LimitKind::Ceiling, "line rate × lanes".to_owned());
        let limit = LimitShown { value: 7.877e9, kind, formula, inputs: Vec::new() };
        let is_judged = verdict != Plausibility::Unjudged;
        let (limit, of_limit) = (is_judged.then_some(limit), is_judged.then_some(0.203));
        CheckedFigure {
            name: name.to_owned(),
            value: 1.6e9,
            unit: Unit::BytePerSecond,
            limit,
            of_limit,
            verdict,
            cause,
            certain: cause.map(|_| true),
            reason: reason.to_owned(),
            contradicts_itself: false,
        }
    }

    fn at(width: usize) -> String {
        let cached = |name| {
            let cause = Some(ImpossibleCause::PageCache);
            row(name, Plausibility::Impossible, cause, "buffered: the disk moved less")
        };
        let rows = vec![
            row("seq: read bandwidth", Plausibility::Fine, None, ""),
            cached("cached: read bandwidth"),
            cached("cached: read IOPS"),
            row("4 jobs of group 0: read bandwidth", Plausibility::Unjudged, None, "no limit is known"),
        ];
        let (version, trouble) = (Some("3.33".to_owned()), Some("interrupted".to_owned()));
        let file = "x.json".to_owned();
        let file = Checked { file, document: None, tool: "fio", version, trouble, rows };
        text(&[file], &Style::plain(width))
    }

    #[test]
    fn a_file_is_a_table_at_100_and_80_columns() {
        insta::assert_snapshot!("a_file_is_a_table_with_its_reasons", at(100));
        insta::assert_snapshot!("long_names_are_on_lines_of_their_own_where_there_is_no_room", at(80));
    }
}
