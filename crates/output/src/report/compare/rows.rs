//! Comparison as a table: a row per metric, or per side of a metric for ranks and prices.

use plimsoll_bench::{label, spans_all_machines};
use plimsoll_compare::{ComparedMetric, Comparison, DifferenceVerdict, Ranked, RankedSide, letter};
use plimsoll_model::case::Case;
use plimsoll_units::quantity::{Quantity, percent, significant};
use unicode_width::UnicodeWidthStr;

use super::{ShownMetrics, signed, word};
use crate::report::row::with_delivered;
use crate::report::style::{Style, TextRole};
use crate::report::wrap::{cut, left, paragraph, right, widths};
use crate::report::{escape, listed};

const OF_SIDE: [&str; 8] =
    ["case", "side", "figure", "rank", "by price", "rank by price", "of limit", "with"];

const DIFFERENCE: [&str; 4] = ["change", "95 % CI", "detectable", "verdict"];

/// Columns that are omitted on narrow terminals, in this order.
const SPARED: [&str; 7] =
    ["with", "detectable", "95 % CI", "of limit", "change", "by price", "rank by price"];

const MAX_NAME_COLUMNS: usize = 28;

const SIDE: usize = 20;

pub(crate) struct ComparisonTable<'a> {
    pub(crate) head: Vec<String>,
    pub(crate) lines: Vec<ComparisonRow<'a>>,
}

pub(crate) struct ComparisonRow<'a> {
    pub(crate) cells: Vec<String>,
    pub(crate) case: Option<&'a Case>,
    pub(crate) compared: Option<&'a ComparedMetric>,
}

/// Returns whether the table has a row per side, with ranks: with prices, or three or more sides.
pub(crate) fn has_ranks(comparison: &Comparison) -> bool {
    comparison.sides.len() > 2 || comparison.prices.is_some()
}

/// Returns whether the column with the heading `column` contains words instead of numbers.
pub(crate) fn is_of_words(column: &str) -> bool {
    ["case", "side", "with", "verdict"].contains(&column)
}

impl<'a> ComparisonTable<'a> {
    pub(crate) fn of(comparison: &'a Comparison, shown: ShownMetrics) -> Self {
        let mut differences: Vec<Vec<&ComparedMetric>> = vec![Vec::new(); comparison.ranked.len()];
        for one in &comparison.compared {
            differences.get_mut(one.row).into_iter().for_each(|row| row.push(one));
        }
        let rows: Vec<(&Ranked, Vec<&ComparedMetric>)> = comparison.ranked.iter().zip(differences).collect();
        let is_shown = |(row, differences): &(&Ranked, Vec<&ComparedMetric>)| {
            shown == ShownMetrics::All || row.headline || differences.iter().any(|one| is_real(one))
        };
        let rows = rows.into_iter().filter(is_shown);
        match has_ranks(comparison) {
            true => Self::of_sides(comparison, &rows.collect::<Vec<_>>()),
            false => {
                let head = ["case", "A", "B"].into_iter().chain(DIFFERENCE).map(str::to_owned).collect();
                Self { head, lines: rows.flat_map(|(_, differences)| differences).map(of_two).collect() }
            }
        }
    }

    fn of_sides(comparison: &'a Comparison, rows: &[(&'a Ranked, Vec<&'a ComparedMetric>)]) -> Self {
        let places = || rows.iter().flat_map(|(row, _)| &row.places);
        let has = |column: &&str| match *column {
            "by price" | "rank by price" => comparison.prices.is_some(),
            "of limit" => places().any(|place| place.of_limit.is_some()),
            "with" => places().any(|place| !place.with.is_empty()),
            _ => true,
        };
        let head: Vec<&str> = OF_SIDE.into_iter().filter(has).chain(DIFFERENCE).collect();
        let mut lines = Vec::new();
        for (row, differences) in rows {
            for (index, place) in row.places.iter().enumerate() {
                let compared = differences.iter().copied().find(|one| one.sides[1] == place.side);
                let cell = |column: &&str| match *column {
                    "case" if index == 0 => name_of(row),
                    "case" => String::new(),
                    column => of_side(comparison, row, place, column)
                        .unwrap_or_else(|| difference(compared, column)),
                };
                let cells = head.iter().map(cell).collect();
                lines.push(ComparisonRow { cells, case: Some(&row.case), compared });
            }
        }
        Self { head: head.into_iter().map(str::to_owned).collect(), lines }
    }

    /// Builds the table of the sides' scores (side, score, 95 % interval); `None` without scores.
    pub(crate) fn of_scores(comparison: &Comparison) -> Option<Self> {
        let line = |score: &plimsoll_compare::Score| {
            let half = score.half.map_or("unknown".to_owned(), |half| format!("± {}", percent(half, 2)));
            let cells = vec![side(comparison, score.side), significant(score.value, 3), half];
            ComparisonRow { cells, case: None, compared: None }
        };
        let lines: Vec<ComparisonRow<'_>> = comparison.scores.iter().map(line).collect();
        let head = ["side", "score", "95 % CI"].map(str::to_owned).to_vec();
        (!lines.is_empty()).then_some(Self { head, lines })
    }

    /// Formats aligned rows. On narrow terminals, drops columns and lists them in a note, then
    /// moves long names to their own lines.
    pub(super) fn aligned(&self, style: &Style) -> String {
        let styled = |cells: &[String]| cells.iter().map(|cell| style.styled(cell)).collect::<Vec<_>>();
        let mut lines = vec![(styled(&self.head), TextRole::Dim)];
        lines.extend(self.lines.iter().map(|line| (styled(&line.cells), role(line.compared))));
        let widths = widths(&lines.iter().map(|(cells, _)| cells.as_slice()).collect::<Vec<_>>());
        let longest = widths.first().copied().unwrap_or(0);
        let has_rank = self.head.iter().any(|column| column == "rank");
        let stays = |spared: &[&str], of: &str| !spared.contains(&of) || of == "change" && !has_rank;
        let shown_without = |spared: &[&str]| -> Vec<usize> {
            (1..self.head.len()).filter(|column| stays(spared, &self.head[*column])).collect()
        };
        let room = |shown: &[usize]| style.width.saturating_sub(shown.iter().map(|at| widths[*at] + 2).sum());
        let fits = |shown: &Vec<usize>| room(shown) >= longest.min(MAX_NAME_COLUMNS);
        let shown = (0..SPARED.len()).map(|count| shown_without(&SPARED[..count])).find(fits);
        let shown = shown.unwrap_or_else(|| shown_without(&SPARED));
        let name = if fits(&shown) { longest.min(room(&shown)) } else { 0 };
        let mut text = String::new();
        for (cells, role) in &lines {
            let mut out = match cells[0].width() <= name {
                true => left(&cells[0], name),
                false => format!("{}\n{}", cells[0], " ".repeat(name)),
            };
            for &column in &shown {
                let (cell, width) = (&cells[column], widths[column]);
                let is_last = column + 1 == cells.len();
                let cell = match is_of_words(&self.head[column]) {
                    _ if is_last => cell.clone(),
                    true => left(cell, width),
                    false => right(cell, width),
                };
                let is_painted = is_last || *role == TextRole::Dim;
                out += &format!("  {}", if is_painted { style.paint(*role, &cell) } else { cell });
            }
            text += &format!("{}\n", out.trim_end());
        }
        let left_out = (1..self.head.len()).filter(|at| !shown.contains(at)).map(|at| self.head[at].as_str());
        if let Some(names) = listed(left_out, ", ") {
            let note = format!("also in a wider terminal and in every --format: {names}");
            text += &paragraph(style, TextRole::Dim, "", &note);
        }
        text
    }

    /// Formats the table as GitHub Markdown; empty without rows.
    pub(super) fn markdown(&self) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let rule = |column: &String| match column.as_str() {
            "95 % CI" => ":---:",
            column if is_of_words(column) => "---",
            _ => "---:",
        };
        let mut text =
            row(self.head.clone()) + &row(self.head.iter().map(|column| rule(column).to_owned()).collect());
        for line in &self.lines {
            let mut cells: Vec<String> = line.cells.iter().map(|cell| escape::markdown(cell)).collect();
            if line.compared.is_some_and(is_real)
                && let Some(last) = cells.last_mut()
            {
                *last = format!("**{last}**");
            }
            text += &row(cells);
        }
        text + "\n"
    }
}

fn is_real(one: &ComparedMetric) -> bool {
    matches!(one.verdict, DifferenceVerdict::Improvement | DifferenceVerdict::Regression)
}

fn of_two(row: &ComparedMetric) -> ComparisonRow<'_> {
    let figure = |value: f64, delivered| with_delivered(value, delivered, row.unit);
    let mut name = name(&row.case, row.node.as_deref(), (!row.headline).then_some(&row.metric));
    if !row.differs.is_empty() {
        name += &format!(" [{}]", row.differs.join(", "));
    }
    let [a, b] = row.delivered;
    let mut cells = vec![name, figure(row.a, a), figure(row.b, b)];
    cells.extend(DIFFERENCE.map(|column| difference(Some(row), column)));
    ComparisonRow { cells, case: Some(&row.case), compared: Some(row) }
}

pub(crate) fn name_of(row: &Ranked) -> String {
    name(&row.case, row.node.as_deref(), (!row.headline).then_some(&row.metric))
}

/// Returns `NODE: LABEL, METRIC`, each part if given; no node for cases of all nodes together.
pub(super) fn name(case: &Case, node: Option<&str>, metric: Option<&String>) -> String {
    let of_one = node.filter(|_| !spans_all_machines(case));
    let node = of_one.map(|node| format!("{}: ", plimsoll_units::text::shown_within(node, 20)));
    let metric = metric.map(|metric| format!(", {metric}"));
    node.unwrap_or_default() + &label::label(case) + &metric.unwrap_or_default()
}

fn side(comparison: &Comparison, index: usize) -> String {
    let name = comparison.sides.get(index).map(|name| cut(name, SIDE));
    format!("{} {}", letter(index), name.unwrap_or_default())
}

/// Formats the best and worst possible rank: `1` if both are equal, else `2–3`.
fn rank([best, worst]: [usize; 2]) -> String {
    if best == worst { best.to_string() } else { format!("{best}–{worst}") }
}

/// Formats the cell of a side in `column`; `None` if the column describes a difference of sides.
fn of_side(comparison: &Comparison, row: &Ranked, place: &RankedSide, column: &str) -> Option<String> {
    let none = || "–".to_owned();
    Some(match column {
        "side" => side(comparison, place.side),
        "figure" => with_delivered(place.value, place.delivered, row.unit),
        "rank" => rank(place.ranks),
        "by price" => place.per_price.map_or_else(none, |value| Quantity::new(value, row.unit).to_string()),
        "rank by price" => place.ranks_per_price.map_or_else(none, rank),
        "of limit" => place.of_limit.map_or_else(none, |share| percent(share, 3)),
        "with" => place.with.join(", "),
        _ => return None,
    })
}

/// Formats the cell of a difference of two sides in `column`; `–` without a value.
fn difference(compared: Option<&ComparedMetric>, column: &str) -> String {
    let none = || "–".to_owned();
    let Some(row) = compared else { return none() };
    match column {
        "change" => row.difference.map_or_else(none, signed),
        "95 % CI" => row.interval.map_or_else(none, |[low, high]| {
            let low = signed(low);
            format!("{} … {}", low.strip_suffix(" %").unwrap_or(&low), signed(high))
        }),
        "detectable" => match row.smallest {
            Some(share) => format!("{} %", super::digits(share * 100.0)),
            None if row.verdict == DifferenceVerdict::Inconclusive => "unknown".to_owned(),
            None => none(),
        },
        _ => word(row.verdict).to_owned(),
    }
}

fn role(compared: Option<&ComparedMetric>) -> TextRole {
    match compared.map(|one| one.verdict) {
        Some(DifferenceVerdict::Improvement) => TextRole::Good,
        Some(DifferenceVerdict::Regression) => TextRole::Bad,
        Some(DifferenceVerdict::Inconclusive) => TextRole::Warning,
        Some(DifferenceVerdict::NoChange | DifferenceVerdict::Informative) | None => TextRole::Plain,
    }
}
