//! Comparison as a terminal table and as Markdown for a pull request. Pure functions.

pub(super) mod csv;
pub(super) mod left;
pub(super) mod rows;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_bench::label;
use plimsoll_compare::{
    ComparedMetric, Comparison, ConditionDifference, DifferenceVerdict, FAMILY, Missing, NoiseOrigin,
    RequirementResult, UncomparedKind, Unweighed, letter,
};
use plimsoll_units::quantity::{percent, write_distinct};
use plimsoll_units::text::format_count;

use super::format::Sides;
use super::style::TextRole;
use super::wrap::{cut, paragraph};
use super::{and_more, grouped, listed};
use rows::ComparisonTable;

/// Metrics to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownMetrics {
    /// Headlines and changed metrics.
    Telling,
    /// All metrics.
    All,
}

pub(super) const NOTHING: &str = "nothing to compare: no case has figures of two sides";

/// Formats a comparison of runs as text for a terminal.
pub fn table(of: &Sides<'_>) -> String {
    let &Sides { comparison, held, shown, style, .. } = of;
    let mut text = String::new();
    for (index, side) in sides(comparison).iter().enumerate() {
        text += &paragraph(style, TextRole::Strong, &format!("{:<3}", letter(index)), side);
    }
    let warning = |line: String| paragraph(style, TextRole::Warning, "! ", &line);
    text.extend(warnings(comparison).into_iter().map(warning));
    let table = ComparisonTable::of(comparison, shown);
    let rows = if table.lines.is_empty() { format!("{NOTHING}\n") } else { table.aligned(style) };
    text += &format!("\n{rows}");
    if let Some(scores) = ComparisonTable::of_scores(comparison) {
        text += &format!("\n{}\n{}\n", style.paint(TextRole::Strong, SCORE), scores.aligned(style));
    }
    text.extend(notes(comparison, &table).iter().map(|note| paragraph(style, TextRole::Dim, "", note)));
    for left in left::groups(comparison) {
        text += &paragraph(style, left.colour().0, "", &format!("{}:", left.head));
        left.cases.iter().for_each(|case| text += &paragraph(style, TextRole::Plain, "  ", case));
    }
    for one in held {
        let (mark, role) = if one.met { ("met: ", TextRole::Good) } else { ("NOT MET: ", TextRole::Bad) };
        text += &paragraph(style, role, mark, &describe_requirement(one));
    }
    text += &blindness(comparison).map(warning).unwrap_or_default();
    text + &paragraph(style, TextRole::Strong, "", &tally(comparison))
}

/// Formats a comparison as GitHub Markdown.
pub fn markdown(of: &Sides<'_>) -> String {
    let &Sides { comparison, held, shown, missing, .. } = of;
    let safe = super::escape::markdown;
    let mut text = format!("### {}\n\n{}\n\n", safe(&title(comparison)), safe(&tally(comparison)));
    let warnings: Vec<String> = warnings(comparison).into_iter().chain(blindness(comparison)).collect();
    text.extend(warnings.iter().map(|warning| format!("> ⚠ {}\n", safe(warning))));
    text += if warnings.is_empty() { "" } else { "\n" };
    let table = ComparisonTable::of(comparison, shown);
    text += &table.markdown();
    if let Some(scores) = ComparisonTable::of_scores(comparison) {
        text += &format!("**{SCORE}**\n\n{}", scores.markdown());
    }
    text.extend(notes(comparison, &table).iter().map(|note| format!("{}\n\n", safe(note))));
    for left in left::groups(comparison) {
        let mark = match (left.kind, missing) {
            (UncomparedKind::Lost, Missing::Fail) => "❌ ",
            (UncomparedKind::Lost, Missing::Ignore) => "➖ ",
            _ => "",
        };
        text += &format!("- {mark}{}\n", safe(&left.text()));
    }
    for one in held {
        let mark = if one.met { "✅" } else { "❌" };
        text += &format!("- {mark} {}\n", safe(&describe_requirement(one)));
    }
    text
}

pub(super) fn describe_requirement(one: &RequirementResult) -> String {
    let case = one.case.as_deref().map(|case| format!(" {}:", label::of_id(case))).unwrap_or_default();
    format!("{}:{case} {}", one.requirement, one.found)
}

pub(super) fn blindness(comparison: &Comparison) -> Option<String> {
    comparison.gate.as_ref()?.blindness()
}

pub(super) const SCORE: &str = "score by the given weights";

const SIDE: usize = 28;

/// Returns per side its name with number of runs (unless 1) and price: `NAME (3 runs, 0.5 USD)`.
fn sides(comparison: &Comparison) -> Vec<String> {
    let one = |(index, name): (usize, &String)| {
        let runs = comparison.runs.get(index).filter(|runs| **runs != 1);
        let runs = runs.map(|runs| format_count(*runs, "run"));
        let prices = comparison.prices.as_ref();
        let price = prices.and_then(|prices| Some(format!("{} {}", prices.values.get(index)?, prices.unit)));
        let more: Vec<String> = runs.into_iter().chain(price).collect();
        if more.is_empty() { name.clone() } else { format!("{name} ({})", more.join(", ")) }
    };
    comparison.sides.iter().enumerate().map(one).collect()
}

/// Returns lines to print before the results: facts that differ between sides, with the sides that
/// have each value (`kernel: 6.1 (a, b); 6.8 (c)`), then [`Comparison::notes`].
pub(super) fn warnings(comparison: &Comparison) -> Vec<String> {
    let line = |one: &ConditionDifference| {
        let values = one.values.iter().zip(&comparison.sides);
        let groups = grouped(values.map(|(value, side)| (value, cut(side, SIDE))));
        let groups = groups.into_iter().map(|(value, sides)| format!("{value} ({})", sides.join(", ")));
        format!("{}: {}", one.what, groups.collect::<Vec<_>>().join("; "))
    };
    comparison.differs.iter().map(line).chain(comparison.notes.iter().cloned()).collect()
}

const NOISE_ORIGINS: [(NoiseOrigin, &str); 3] = [
    (NoiseOrigin::Runs, "the spread of the runs of a side"),
    (NoiseOrigin::Doctor, "plimsoll doctor (A/A)"),
    (NoiseOrigin::Declared, "the benchmark's default, not measured on these machines"),
];

pub(super) fn title(comparison: &Comparison) -> String {
    let sides = sides(comparison).into_iter().enumerate();
    let sides: Vec<String> = sides.map(|(index, side)| format!("{} = {side}", letter(index))).collect();
    sides.join(", ")
}

/// Formats a relative difference (0.1 is 10 %) in percent with its sign: `+10.0 %`.
pub(super) fn signed(share: f64) -> String {
    format!("{}{} %", if share < 0.0 { "−" } else { "+" }, digits(share.abs() * 100.0))
}

fn digits(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

pub(super) fn word(verdict: DifferenceVerdict) -> &'static str {
    if verdict == DifferenceVerdict::NoChange { "no change" } else { verdict.code() }
}

/// Returns notes below `table`: reasons of undecided verdicts, noise sources, how to read ranks.
pub(super) fn notes(comparison: &Comparison, table: &ComparisonTable<'_>) -> Vec<String> {
    let rows: Vec<&ComparedMetric> = table.lines.iter().filter_map(|line| line.compared).collect();
    let mut notes: Vec<String> = Vec::new();
    let mut whys: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().filter_map(|row| row.why.as_deref()).for_each(|why| *whys.entry(why).or_default() += 1);
    notes.extend(whys.into_iter().map(|(why, n)| format!("inconclusive ({n}): {why}")));
    let is_there = |origin: NoiseOrigin| rows.iter().any(|row| row.noise == Some(origin));
    let known = NOISE_ORIGINS.into_iter().filter(|(origin, _)| is_there(*origin)).map(|(_, words)| words);
    notes.extend(listed(known, "; ").map(|known| format!("noise floor between runs: {known}")));
    let outliers = rows.iter().filter(|row| row.outliers > 0).count();
    if outliers > 0 {
        notes.push(format!(
            "outliers excluded from the noise floor in {outliers} of {} rows (generalised ESD test, at most one per ten runs)",
            rows.len()
        ));
    }
    if rows::has_ranks(comparison) && !table.lines.is_empty() {
        notes.push(format!(
            "a rank of 2–3 is one that noise leaves open; all ranks are right with a probability of {} (Holm's correction over all pairs and metrics)",
            percent(1.0 - FAMILY, 2)
        ));
    }
    let price = "by price: a rate is divided by the price, a time multiplied by it";
    notes.extend(comparison.prices.is_some().then(|| price.to_owned()));
    let score = "score: the weighted geometric mean of the figures, each as a share of the best one";
    notes.extend((!comparison.scores.is_empty()).then(|| score.to_owned()));
    notes.extend(unweighed(&comparison.unweighed));
    notes
}

/// Returns a line per reason why weighted cases are in no score, with at most 8 of their names.
fn unweighed(all: &[Unweighed]) -> Vec<String> {
    const MAX_NAMES: usize = 8;
    let whys: BTreeSet<&str> = all.iter().map(|one| one.why.as_str()).collect();
    let line = |why: &str| {
        let names: Vec<&str> = all.iter().filter(|one| one.why == why).map(|one| one.name.as_str()).collect();
        format!("not in the score, because {why}: {}", and_more(&names, MAX_NAMES))
    };
    whys.into_iter().map(line).collect()
}

pub(super) fn tally(comparison: &Comparison) -> String {
    let informative = comparison.count(DifferenceVerdict::Informative);
    let informative = if informative > 0 { format!("; {informative} informative") } else { String::new() };
    let what = if comparison.sides.len() > 2 { "difference" } else { "metric" };
    format!("{}: {}{informative}", format_count(comparison.decided.of, what), comparison.decided)
}

/// Returns ` in C`, a suffix that names the side with index `side`; empty for only two sides.
pub fn of_several(comparison: &Comparison, side: usize) -> String {
    if comparison.sides.len() > 2 { format!(" in {}", letter(side)) } else { String::new() }
}

/// Returns a line per regression of more than `share` (0.05 is 5 %), the value of `--fail-on`.
pub fn failed(comparison: &Comparison, share: f64) -> Vec<String> {
    let line = |c: &ComparedMetric| {
        let [loss, _] = write_distinct([c.loss(), share], 3, percent);
        let how = if c.difference.is_some() { format!("of {loss}") } else { format!("from 0 to {loss}") };
        let (case, side) = (label::full(&c.case), of_several(comparison, c.sides[1]));
        format!("{case}, {}: regression {how}{side}", c.metric)
    };
    comparison.worse_than(share).map(line).collect()
}

/// Returns a line per lost case, which fails `--fail-on`: side A has a result, but a later side or
/// one of its runs does not. At most 10 lines, then a count of the rest.
pub fn lost(comparison: &Comparison) -> Vec<String> {
    const MAX_CASES_NAMED: usize = 10;
    let all: Vec<String> = left::lost(comparison).collect();
    let more = all.len().saturating_sub(MAX_CASES_NAMED);
    let rest = (more > 0).then(|| format!("and {more} more, which the comparison lists"));
    all.into_iter().take(MAX_CASES_NAMED).chain(rest).collect()
}

#[cfg(test)]
mod tests;
