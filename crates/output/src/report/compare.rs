//! A comparison as a table for terminals and as Markdown for a pull request. Pure: a comparison in, text out.

pub(super) mod left;

use unicode_width::UnicodeWidthStr;

use super::row::with_delivered;
use super::style::{Role, Style};
use super::wrap::{cut, pad, paragraph, widths};
use crate::bench::is_of_all;
use crate::compare::{Compared, Comparison, Difference, Holds, Kind, Missing, Origin, Verdict};
use crate::label;
use crate::quantity::{apart, percent};
use crate::text::counted;

/// Which metrics are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Headlines, and what changed.
    Telling,
    /// Every one.
    All,
}

/// The text for a terminal.
pub fn table(comparison: &Comparison, held: &[Holds], shown: Shown, style: &Style) -> String {
    let [a, b] = sides(comparison);
    let mut text = paragraph(style, Role::Strong, "A  ", &a) + &paragraph(style, Role::Strong, "B  ", &b);
    for line in warnings(comparison) {
        text += &paragraph(style, Role::Warning, "! ", &line);
    }
    let rows: Vec<&Compared> = chosen(comparison, shown);
    if rows.is_empty() {
        text += "\nnothing to compare: no case has figures on both sides\n";
    } else {
        let mut lines = vec![Line { cells: HEAD.map(str::to_owned).to_vec(), role: Role::Dim }];
        lines.extend(rows.iter().map(|row| Line { cells: cells(row), role: role(row.verdict) }));
        text += "\n";
        text += &aligned(&lines, style);
    }
    for note in notes(&rows) {
        text += &paragraph(style, Role::Dim, "", &note);
    }
    for left in left::groups(comparison) {
        text += &paragraph(style, left.role(), "", &format!("{}:", left.head));
        left.cases.iter().for_each(|case| text += &paragraph(style, Role::Plain, "  ", case));
    }
    for one in held {
        let (mark, role) = if one.met { ("met: ", Role::Good) } else { ("NOT MET: ", Role::Bad) };
        text += &paragraph(style, role, mark, &required(one));
    }
    if let Some(line) = blindness(comparison) {
        text += &paragraph(style, Role::Warning, "! ", &line);
    }
    text += &paragraph(style, Role::Strong, "", &tally(comparison));
    text
}

/// The text for a pull request: GitHub's Markdown. What was lost has the mark of a failure unless it is ignored.
pub fn markdown(comparison: &Comparison, held: &[Holds], shown: Shown, missing: Missing) -> String {
    let safe = super::escape::markdown;
    let mut text = format!("### {}\n\n{}\n\n", safe(&title(comparison)), safe(&tally(comparison)));
    let warnings: Vec<String> = warnings(comparison).into_iter().chain(blindness(comparison)).collect();
    for warning in &warnings {
        text += &format!("> ⚠ {}\n", safe(warning));
    }
    if !warnings.is_empty() {
        text.push('\n');
    }
    let rows = chosen(comparison, shown);
    if !rows.is_empty() {
        text += &format!("| {} |\n", HEAD.join(" | "));
        text += "| --- | ---: | ---: | ---: | :---: | ---: | --- |\n";
        for row in &rows {
            let cells: Vec<String> = cells(row).iter().map(|cell| safe(cell)).collect();
            let bold = matches!(row.verdict, Verdict::Improvement | Verdict::Regression);
            let last = cells.len() - 1;
            let cells = cells.iter().enumerate().map(|(index, cell)| match bold && index == last {
                true => format!("**{cell}**"),
                false => cell.clone(),
            });
            text += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        }
        text.push('\n');
    }
    for note in notes(&rows) {
        text += &format!("{}\n\n", safe(&note));
    }
    for left in left::groups(comparison) {
        let mark = match (left.kind, missing) {
            (Kind::Lost, Missing::Fail) => "❌ ",
            (Kind::Lost, Missing::Ignore) => "➖ ",
            _ => "",
        };
        text += &format!("- {mark}{}\n", safe(&left.text()));
    }
    for one in held {
        let mark = if one.met { "✅" } else { "❌" };
        text += &format!("- {mark} {}\n", safe(&required(one)));
    }
    text
}

/// A requirement and what was found.
pub(super) fn required(one: &Holds) -> String {
    let case = one.case.as_deref().map(|case| format!(" {}:", label::of_id(case))).unwrap_or_default();
    format!("{}:{case} {}", one.requirement, one.found)
}

/// That the gate is blind, where one was asked for and it is.
pub(super) fn blindness(comparison: &Comparison) -> Option<String> {
    comparison.gate.as_ref()?.blindness()
}

/// The columns of the table.
pub(super) const HEAD: [&str; 7] = ["case", "A", "B", "change", "95 % CI", "detectable", "verdict"];

struct Line {
    cells: Vec<String>,
    role: Role,
}

/// Columns that give way where the terminal is narrow, the first before the second.
const SPARED: [&str; 2] = ["detectable", "95 % CI"];

/// Columns of the name of a side.
pub(super) const SIDE: usize = 28;

/// A name up to this long stays in its row.
const NAME: usize = 28;

/// The lines with their last cell in colour, the columns aligned. What does not fit gives way: first two columns, then long
/// names, which get lines of their own.
fn aligned(lines: &[Line], style: &Style) -> String {
    let said: Vec<Vec<String>> =
        lines.iter().map(|l| l.cells.iter().map(|c| style.say(c)).collect()).collect();
    let widths = widths(&said);
    let longest = widths.first().copied().unwrap_or(0);
    let shown_without = |spared: &[&str]| -> Vec<usize> {
        (1..HEAD.len()).filter(|column| !spared.contains(&HEAD[*column])).collect()
    };
    let room = |shown: &[usize]| style.width.saturating_sub(shown.iter().map(|at| widths[*at] + 2).sum());
    let fits = |shown: &Vec<usize>| room(shown) >= longest.min(NAME);
    let least = shown_without(&SPARED);
    let shown = [shown_without(&[]), shown_without(&SPARED[..1])].into_iter().find(fits).unwrap_or(least);
    let name = if fits(&shown) { longest.min(room(&shown)) } else { 0 };
    let mut text = String::new();
    for (line, cells) in lines.iter().zip(&said) {
        let mut out = match cells[0].width() <= name {
            true => format!("{}{}", cells[0], pad(&cells[0], name)),
            false => format!("{}\n{}", cells[0], " ".repeat(name)),
        };
        for &column in &shown {
            let (cell, pad) = (&cells[column], pad(&cells[column], widths[column]));
            out += &match column + 1 == cells.len() {
                true => format!("  {}", style.paint(line.role, cell)),
                false if line.role == Role::Dim => format!("  {}", style.paint(Role::Dim, &(pad + cell))),
                false => format!("  {pad}{cell}"),
            };
        }
        text += out.trim_end();
        text.push('\n');
    }
    if shown.len() < HEAD.len() - 1 {
        let left_out: Vec<&str> =
            (1..HEAD.len()).filter(|at| !shown.contains(at)).map(|at| HEAD[at]).collect();
        let note = format!("also in a wider terminal and in every --format: {}", left_out.join(", "));
        text += &paragraph(style, Role::Dim, "", &note);
    }
    text
}

/// Both sides by name, with their number of runs.
fn sides(comparison: &Comparison) -> [String; 2] {
    let side = |name: &str, runs: usize| match runs {
        1 => name.to_owned(),
        n => format!("{name} ({n} runs)"),
    };
    let ([a, b], [runs_a, runs_b]) = (&comparison.sides, comparison.runs);
    [side(a, runs_a), side(b, runs_b)]
}

/// A line for each fact that differs: its values, each with the sides that have it.
pub(super) fn differing(differs: &[Difference], sides: &[String]) -> Vec<String> {
    let line = |one: &Difference| {
        let values = one.values.iter().zip(sides);
        let groups = grouped(values.map(|(value, side)| (value.clone(), cut(side, SIDE))));
        format!("{}: {}", one.what, groups.join("; "))
    };
    differs.iter().map(line).collect()
}

/// Each value once, in their order, with what has it: `6.1 (a, b)`.
pub(super) fn grouped(all: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (value, one) in all {
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, known)) => known.push(one),
            None => groups.push((value, vec![one])),
        }
    }
    groups.into_iter().map(|(value, sides)| format!("{value} ({})", sides.join(", "))).collect()
}

/// Returns the lines that are printed before the figures of a comparison.
pub(super) fn warnings(comparison: &Comparison) -> Vec<String> {
    let mut lines = differing(&comparison.differs, &comparison.sides);
    lines.extend_from_slice(&comparison.notes);
    lines
}

/// Names the sources of the noise between runs; `None` if it is not known.
pub(super) fn noise_sources(has: impl Fn(Origin) -> bool) -> Option<String> {
    let origins = [
        (Origin::Runs, "the spread of the runs of a side"),
        (Origin::Doctor, "plimsoll doctor (A/A)"),
        (Origin::Declared, "the benchmark's default, not measured on these machines"),
    ];
    let known = origins.into_iter().filter(|(origin, _)| has(*origin)).map(|(_, words)| words);
    Some(known.collect::<Vec<_>>().join("; ")).filter(|known| !known.is_empty())
}

pub(super) fn title(comparison: &Comparison) -> String {
    let [a, b] = sides(comparison);
    format!("A = {a}, B = {b}")
}

pub(super) fn chosen(comparison: &Comparison, shown: Shown) -> Vec<&Compared> {
    let telling = |c: &&Compared| {
        c.headline || matches!(c.verdict, Verdict::Improvement | Verdict::Regression) || shown == Shown::All
    };
    comparison.compared.iter().filter(telling).collect()
}

pub(super) fn cells(row: &Compared) -> Vec<String> {
    let figure = |value: f64, delivered| with_delivered(value, delivered, row.unit);
    let [delivered_a, delivered_b] = row.delivered;
    let of_one = row.node.as_deref().filter(|_| !is_of_all(&row.case));
    let node = of_one.map(|node| format!("{}: ", crate::text::shown_within(node, 20)));
    let mut name = node.unwrap_or_default() + &label::label(&row.case);
    if !row.headline {
        name += &format!(", {}", row.metric);
    }
    if !row.differs.is_empty() {
        name += &format!(" [{}]", row.differs.join(", "));
    }
    let interval = row.interval.map(|[low, high]| {
        let low = signed(low);
        format!("{} … {}", low.strip_suffix(" %").unwrap_or(&low), signed(high))
    });
    vec![
        name,
        figure(row.a, delivered_a),
        figure(row.b, delivered_b),
        row.difference.map_or("–".to_owned(), signed),
        interval.unwrap_or_else(|| "–".to_owned()),
        match row.smallest {
            Some(share) => format!("{} %", digits(share * 100.0)),
            None if row.verdict == Verdict::Inconclusive => "unknown".to_owned(),
            None => "–".to_owned(),
        },
        word(row.verdict).to_owned(),
    ]
}

/// A difference as per cent, with its sign.
pub(super) fn signed(share: f64) -> String {
    let value = share * 100.0;
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{} %", digits(value.abs()))
}

fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NoChange => "no change",
        other => other.code(),
    }
}

fn role(verdict: Verdict) -> Role {
    match verdict {
        Verdict::Improvement => Role::Good,
        Verdict::Regression => Role::Bad,
        Verdict::NoChange | Verdict::Informative => Role::Plain,
        Verdict::Inconclusive => Role::Warning,
    }
}

/// Why some are inconclusive, and where the noise is known from.
pub(super) fn notes(rows: &[&Compared]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut whys: Vec<&str> = rows.iter().filter_map(|row| row.why.as_deref()).collect();
    whys.dedup();
    whys.sort_unstable();
    whys.dedup();
    for why in whys {
        let n = rows.iter().filter(|row| row.why.as_deref() == Some(why)).count();
        notes.push(format!("inconclusive ({n}): {why}"));
    }
    let known = noise_sources(|origin| rows.iter().any(|row| row.noise == Some(origin)));
    notes.extend(known.map(|known| format!("noise floor between runs: {known}")));
    let outliers = rows.iter().filter(|row| row.outliers > 0).count();
    if outliers > 0 {
        notes.push(format!(
            "outliers excluded from the noise floor in {outliers} of {} rows (generalised ESD test, at most one per ten runs)",
            rows.len()
        ));
    }
    notes
}

/// What was decided, over all metrics.
pub(super) fn tally(comparison: &Comparison) -> String {
    let informative = match comparison.count(Verdict::Informative) {
        0 => String::new(),
        n => format!("; {n} informative"),
    };
    format!("{}: {}{informative}", counted(comparison.decided.of, "metric"), comparison.decided)
}

/// What a failed `--fail-on` says.
pub fn failed(comparison: &Comparison, share: f64) -> Vec<String> {
    let line = |c: &Compared| {
        let [loss, _] = apart([c.loss(), share], 3, percent);
        let how = if c.difference.is_some() { format!("of {loss}") } else { format!("from 0 to {loss}") };
        format!("{}, {}: regression {how}", label::full(&c.case), c.metric)
    };
    comparison.worse_than(share).map(line).collect()
}

/// What `--fail-on` says of what was lost: a line for each of the first, and how many more there are.
pub fn lost(comparison: &Comparison) -> Vec<String> {
    const NAMED: usize = 10;
    let all: Vec<String> = left::lost(comparison).collect();
    let more = all.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("and {more} more, which the comparison lists"));
    all.into_iter().take(NAMED).chain(rest).collect()
}

#[cfg(test)]
mod tests;
