//! Line wrapping by width in terminal columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::report::listed;
use crate::report::style::{Style, TextRole};

/// Wraps a text to the style's width; starts with `lead`, and indents further lines by its width.
pub(crate) fn paragraph(style: &Style, role: TextRole, lead: &str, text: &str) -> String {
    let lead = style.styled(lead);
    let lines =
        with_leads(&lead, lead.width(), &style.styled(text), style.width.saturating_sub(lead.width()));
    lines.iter().map(|(lead, line)| format!("{lead}{}\n", style.paint(role, line))).collect()
}

/// Wraps `text` to lines in `room` columns, with `lead` before the first, else `indent` blanks.
pub(crate) fn with_leads(lead: &str, indent: usize, text: &str, room: usize) -> Vec<(String, String)> {
    let leads = std::iter::once(lead.to_owned()).chain(std::iter::repeat(" ".repeat(indent)));
    leads.zip(flowed(text, room.max(1))).collect()
}

/// Formats a list with bullets below its title; empty without items.
pub(crate) fn list(style: &Style, role: TextRole, title: &str, items: &[impl ToString]) -> String {
    let items = items.iter().map(|item| paragraph(style, role, "  • ", &item.to_string()));
    let title = format!("\n{}\n", style.paint(TextRole::Strong, title));
    listed(items, "").map(|items| title + &items).unwrap_or_default()
}

/// Returns the width (in terminal columns) of each table column's widest cell.
pub(crate) fn widths<R: AsRef<[String]>>(rows: &[R]) -> Vec<usize> {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let cells = |column| rows.iter().filter_map(move |row| row.as_ref().get(column));
    (0..columns).map(|column| cells(column).map(|cell| cell.width()).max().unwrap_or(0)).collect()
}

/// Returns the spaces that pad `text` to `width` terminal columns; empty if `text` is wider.
pub(crate) fn pad(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.width()))
}

/// Pads `text` on the left to `width` terminal columns; a wider text is unchanged.
pub(crate) fn right(text: &str, width: usize) -> String {
    pad(text, width) + text
}

/// Pads `text` on the right to `width` terminal columns; a wider text is unchanged.
pub(crate) fn left(text: &str, width: usize) -> String {
    text.to_owned() + &pad(text, width)
}

/// Formats the cells of a row with the `widths` of their columns; numbers are on the right.
pub(crate) fn aligned(cells: &[String], widths: &[usize], is_number: impl Fn(usize) -> bool) -> String {
    let cells = cells.iter().zip(widths).enumerate();
    let cells = cells.map(|(at, (cell, width))| if is_number(at) { right } else { left }(cell, *width));
    cells.collect::<Vec<_>>().join("  ")
}

/// Wraps to lines of at most `room` columns, but not between a number and its unit or sign.
pub(crate) fn flowed(text: &str, room: usize) -> Vec<String> {
    let lines = wrapped(&glued(text), room).into_iter().map(|line| line.replace(GLUE, " ").trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

const GLUE: char = '\u{a0}';

/// Replaces spaces after numbers, signs and `--options`, and before `·`, by unbreakable ones.
fn glued(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        out.push_str(word);
        if let Some(next) = words.peek() {
            let glue = holds_the_next(word) || *next == "·" || *next == "|";
            out.push(if glue { GLUE } else { ' ' });
        }
    }
    out
}

fn holds_the_next(word: &str) -> bool {
    let sign = ["±", "+/-", "≥", ">=", "≤", "<=", "×", "÷", "="].contains(&word);
    let is_flag = word.starts_with("--") && word.len() > 2;
    sign || is_flag || word.trim_start_matches(['(', '<', '~']).parse::<f64>().is_ok()
}

/// Wraps words to lines of at most `room` columns; longer words are cut. Returns at least one line.
pub(crate) fn wrapped(value: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in value.split(' ').flat_map(|word| pieces(word, room)) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&word),
            Some(line) if line.width() + 1 + word.width() <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Cuts a word into pieces of at most `room` columns; no piece is a single punctuation mark.
fn pieces(word: &str, room: usize) -> Vec<String> {
    let mut pieces = cut_up(word, room);
    if let [.., before, last] = pieces.as_mut_slice()
        && last.chars().all(|c| c.is_ascii_punctuation())
        && before.chars().count() > 1
        && before.chars().next_back().is_some_and(|c| last.width() + c.width().unwrap_or(0) <= room)
        && let Some(c) = before.pop()
    {
        last.insert(0, c);
    }
    pieces
}

fn cut_up(word: &str, room: usize) -> Vec<String> {
    let (mut pieces, mut used) = (vec![String::new()], 0);
    for c in word.chars() {
        let wide = c.width().unwrap_or(0);
        used += wide;
        match pieces.last_mut() {
            Some(piece) if used <= room => piece.push(c),
            _ => {
                pieces.push(c.to_string());
                used = wide;
            }
        }
    }
    pieces
}

pub(crate) fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    cut_up(text, room).swap_remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_keep_their_units_and_flags_their_values() {
        assert_eq!(flowed("limit 118 GFLOP/s", 10), ["limit", "118 GFLOP/", "s"]);
        assert_eq!(flowed("figure ± 0.24 % of", 14), ["figure", "± 0.24 % of"]);
        assert_eq!(flowed("give --limits FILE", 15), ["give", "--limits FILE"]);
        assert_eq!(flowed("a - b", 3), ["a -", "b"]);
        assert_eq!(flowed("abc,", 3), ["ab", "c,"]);
        assert_eq!(flowed("-漢%- ", 3), ["-漢", "%-"], "a wide character has no room there");
    }

    #[test]
    fn what_fits_is_not_cut() {
        assert_eq!(cut("漢字", 4), "漢字");
        assert_eq!(cut("漢字", 3), "漢");
        assert_eq!(cut("ab", 0), "");
    }

    proptest! {
        #[test]
        fn lines_fit_and_no_word_is_lost(text in "[a-z0-9±%漢 -]{0,80}", room in 2usize..40) {
            let lines = flowed(&text, room);
            prop_assert!(lines.iter().all(|line| line.width() <= room));
            let kept: String = lines.concat().split_whitespace().collect();
            prop_assert_eq!(kept, text.split_whitespace().collect::<String>());
        }
    }
}
