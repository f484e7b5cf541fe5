//! Verdicts on results of other tools, as text. Pure functions.

use plimsoll_check::{Checked, CheckedFigure, LimitShown, Plausibility};
use plimsoll_model::limit::LimitKind;
use plimsoll_units::quantity::{Quantity, percent};
use plimsoll_units::text::format_count;
use unicode_width::UnicodeWidthStr;

use super::style::{Style, TextRole};
use super::wrap::{pad, paragraph, widths};

const COLUMN_TITLES: [&str; 5] = ["figure", "measured", "limit", "% of limit", "verdict"];

/// Formats the checks of `files`: a table per file with reasons below its rows, and a total line.
pub fn text(files: &[Checked], style: &Style) -> String {
    let mut text = String::new();
    for file in files {
        text += &one(file, style);
        text.push('\n');
    }
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
    let mut cells = vec![COLUMN_TITLES.map(str::to_owned)];
    cells.extend(file.rows.iter().map(self::cells));
    let stated: Vec<Vec<String>> =
        cells.iter().map(|row| row.iter().map(|cell| style.styled(cell)).collect()).collect();
    let widths = widths(&stated);
    for (index, row) in stated.iter().enumerate() {
        let reported = index.checked_sub(1).and_then(|index| file.rows.get(index));
        let role = reported.map_or(TextRole::Dim, role);
        text += &line(row, &widths, role, style);
        let before = index.checked_sub(2).and_then(|index| file.rows.get(index));
        let same = before.zip(reported).is_some_and(|(before, reported)| before.reason == reported.reason);
        let reason = reported.map(|row| row.reason.as_str()).filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| if same { "for the same reason" } else { reason });
        text += &reason.map(|reason| paragraph(style, TextRole::Plain, "    ", reason)).unwrap_or_default();
    }
    text
}

/// Returns `FILE`, or `FILE, result 2` if `document` is the number of one of several results in the
/// file.
pub fn title(file: &str, document: Option<usize>) -> String {
    document.map_or_else(|| file.to_owned(), |number| format!("{file}, result {number}"))
}

/// Formats a table row (name, numbers, verdict); `role` colours the verdict. A name that leaves too
/// little room gets its own line. `widths`: columns before the verdict.
fn line(row: &[String], widths: &[usize], role: TextRole, style: &Style) -> String {
    const MIN_NAME_COLUMNS: usize = 12;
    let [name, numbers @ .., verdict] = row else { return String::new() };
    let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    let longest = widths.first().copied().unwrap_or(0);
    let room = Some(style.width.saturating_sub(others)).filter(|room| *room >= MIN_NAME_COLUMNS).unwrap_or(0);
    let room = room.min(longest);
    let mut out = match name.width() <= room {
        true => format!("{name}{}", pad(name, room)),
        false => format!("{name}\n{}", " ".repeat(room)),
    };
    for (cell, width) in numbers.iter().zip(widths.iter().skip(1)) {
        out += &format!("  {}{cell}", pad(cell, *width));
    }
    format!("{out}  {}\n", style.paint(role, verdict))
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
    let limit = row.limit.as_ref().map(|bound: &LimitShown| {
        let sign = if bound.kind == LimitKind::Floor { "≥" } else { "≤" };
        format!("{sign} {}", quantity(bound.value))
    });
    let limit = limit.unwrap_or_else(|| "unknown".to_owned());
    let share = row.of_limit.map_or_else(|| "-".to_owned(), |share| percent(share, 3));
    [row.name.clone(), quantity(row.value), limit, share, verdict(row)]
}

fn verdict(row: &CheckedFigure) -> String {
    match (row.verdict, row.cause) {
        (Plausibility::Fine, _) => "fine".to_owned(),
        (Plausibility::Unjudged, _) => "cannot be judged".to_owned(),
        (Plausibility::Impossible, Some(cause)) => format!("IMPOSSIBLE: {}", cause.word()),
        (Plausibility::Impossible, None) => "IMPOSSIBLE".to_owned(),
    }
}

fn tally(files: &[Checked]) -> String {
    let count = |verdict| files.iter().map(|file| file.count(verdict)).sum::<usize>();
    let all: usize = files.iter().map(|file| file.rows.len()).sum();
    let several = files.iter().any(|file| file.document.is_some());
    format!(
        "{} in {}: {} impossible, {} fine, {} cannot be judged",
        format_count(all as u64, "figure"),
        format_count(files.len() as u64, if several { "result" } else { "file" }),
        count(Plausibility::Impossible),
        count(Plausibility::Fine),
        count(Plausibility::Unjudged)
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_check::ImpossibleCause;
    use plimsoll_units::quantity::Unit;

    use super::*;

    fn row(name: &str, verdict: Plausibility, cause: Option<ImpossibleCause>, reason: &str) -> CheckedFigure {
        let limit = LimitShown {
            value: 7.877e9,
            kind: LimitKind::Ceiling,
            formula: "line rate × lanes".to_owned(),
            inputs: Vec::new(),
        };
        CheckedFigure {
            name: name.to_owned(),
            value: 1.6e9,
            unit: Unit::BytePerSecond,
            limit: (verdict != Plausibility::Unjudged).then_some(limit),
            of_limit: (verdict != Plausibility::Unjudged).then_some(0.203),
            verdict,
            cause,
            certain: cause.map(|_| true),
            reason: reason.to_owned(),
            contradicts_itself: false,
        }
    }

    fn at(width: usize) -> String {
        let rows = vec![
            row("seq: read bandwidth", Plausibility::Fine, None, ""),
            row(
                "cached: read bandwidth",
                Plausibility::Impossible,
                Some(ImpossibleCause::PageCache),
                "buffered: the disk moved less",
            ),
            row(
                "cached: read IOPS",
                Plausibility::Impossible,
                Some(ImpossibleCause::PageCache),
                "buffered: the disk moved less",
            ),
            row("4 jobs of group 0: read bandwidth", Plausibility::Unjudged, None, "no limit is known"),
        ];
        let trouble = Some("interrupted".to_owned());
        let file = Checked {
            file: "x.json".to_owned(),
            document: None,
            tool: "fio",
            version: Some("3.33".to_owned()),
            trouble,
            rows,
        };
        let style = Style::plain(width);
        text(&[file], &style)
    }

    #[test]
    fn a_file_is_a_table_with_its_reasons() {
        insta::assert_snapshot!(at(100));
    }

    #[test]
    fn long_names_are_on_lines_of_their_own_where_there_is_no_room() {
        insta::assert_snapshot!(at(80));
    }
}
