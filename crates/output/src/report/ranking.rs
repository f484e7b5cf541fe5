//! Several runs ranked by metric, as text for a terminal, as Markdown and as rows. Pure: a ranking in, text out.

use std::collections::BTreeSet;
use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::compare::{SIDE, differing, grouped, noise_sources};
use super::row::with_delivered;
use super::style::{Role, Style};
use super::tidy::cell;
use super::wrap::{cut, pad, paragraph, widths};
use crate::bench::Better;
use crate::compare::Origin;
use crate::compare::rank::{Metric, Place, Ranking, Unweighed};
use crate::label;
use crate::quantity::{Quantity, Unit, percent, significant};
use crate::text::counted;

/// Reasons that are given of a metric.
const WHYS: usize = 3;
/// Names of one reason that are given.
const NAMES: usize = 8;

/// The text for a terminal.
pub fn text(ranking: &Ranking, style: &Style) -> String {
    let mut text = paragraph(style, Role::Strong, "", &title(ranking));
    for line in sides(ranking) {
        text += &paragraph(style, Role::Plain, "  ", &line);
    }
    for line in differing(&ranking.differs, &ranking.sides) {
        text += &paragraph(style, Role::Warning, "! ", &line);
    }
    if ranking.metrics.is_empty() {
        return text + "\nnothing to rank: no case has figures of two sides\n";
    }
    for metric in &ranking.metrics {
        text += &format!("\n{}\n", style.paint(Role::Strong, &style.say(&name(metric))));
        let rows = rows(metric, ranking);
        let columns = fitting(&rows, style);
        text += &aligned(&rows, columns, style);
        let is_cut = rows.first().is_some_and(|head| columns < head.len());
        let with = with(metric, ranking).filter(|_| is_cut);
        for note in remarks(metric, ranking).into_iter().chain(with) {
            text += &paragraph(style, Role::Dim, "  ", &note);
        }
    }
    if !ranking.scores.is_empty() {
        text += &format!("\n{}\n", style.paint(Role::Strong, SCORE));
        let rows = scores(ranking);
        text += &aligned(&rows, fitting(&rows, style), style);
    }
    text.push('\n');
    for note in notes(ranking) {
        text += &paragraph(style, Role::Dim, "", &note);
    }
    text
}

/// The text for a pull request or a forum.
pub fn markdown(ranking: &Ranking) -> String {
    let safe = super::escape::markdown;
    let mut text = format!("### {}\n\n", safe(&title(ranking)));
    sides(ranking).iter().for_each(|line| text += &format!("- {}\n", safe(line)));
    let differing = differing(&ranking.differs, &ranking.sides);
    differing.iter().for_each(|line| text += &format!("- ⚠ {}\n", safe(line)));
    let table = |rows: &[Vec<String>]| -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| safe(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let columns = rows.first().map_or(0, Vec::len);
        let [head, rest @ ..] = rows else { return String::new() };
        let rest: String = rest.iter().map(|row| line(row)).collect();
        line(head) + &format!("|{}\n", " --- |".repeat(columns)) + &rest
    };
    for metric in &ranking.metrics {
        text += &format!("\n**{}**\n\n{}", safe(&name(metric)), table(&rows(metric, ranking)));
        remarks(metric, ranking).iter().for_each(|note| text += &format!("\n{}\n", safe(note)));
    }
    if !ranking.scores.is_empty() {
        text += &format!("\n**{SCORE}**\n\n{}", table(&scores(ranking)));
    }
    text.push('\n');
    notes(ranking).iter().for_each(|note| text += &format!("{}\n\n", safe(note)));
    text
}

/// The columns of [`csv`].
const COLUMNS: &str = "case,metric,unit,better,headline,side,runs,best_rank,worst_rank,value,ci95_half_share,of_limit,delivered,with,price,\
                       price_unit,per_price,best_rank_per_price,worst_rank_per_price";

/// A row for each side of each metric, in base units, also where the side has no figure; a score is a metric without a case.
///
/// # Errors
/// What `out` says.
pub fn csv(ranking: &Ranking, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{COLUMNS}\r")?;
    for metric in &ranking.metrics {
        let lead = [
            cell(metric.case.id().as_str()),
            cell(&metric.metric),
            metric.unit.name().to_owned(),
            metric.better.word().to_owned(),
            metric.headline.to_string(),
        ];
        for place in &metric.places {
            row_of(ranking, &lead, place.side, &figures_of(place), out)?;
        }
        for index in &metric.without {
            row_of(ranking, &lead, *index, &Default::default(), out)?;
        }
    }
    let lead = ["", "score", Unit::One.name(), Better::Higher.word(), ""].map(str::to_owned);
    for score in &ranking.scores {
        let mut figures: [String; 10] = Default::default();
        (figures[2], figures[3]) = (score.value.to_string(), optional(score.half));
        row_of(ranking, &lead, score.side, &figures, out)?;
    }
    Ok(())
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Ranks, value, interval, share, parameters, and the same by price.
fn figures_of(place: &Place) -> [String; 10] {
    let by_price = |index: usize| optional(place.ranks_per_price.map(|ranks| ranks[index]));
    [
        place.ranks[0].to_string(),
        place.ranks[1].to_string(),
        place.value.to_string(),
        optional(place.half),
        optional(place.of_limit),
        optional(place.delivered),
        cell(&place.with.join(" ")),
        optional(place.per_price),
        by_price(0),
        by_price(1),
    ]
}

fn row_of(
    ranking: &Ranking,
    lead: &[String; 5],
    index: usize,
    figures: &[String; 10],
    out: &mut dyn Write,
) -> io::Result<()> {
    let of_side = [
        ranking.sides.get(index).map(|name| cell(name)).unwrap_or_default(),
        optional(ranking.runs.get(index)),
    ];
    let prices = ranking.prices.as_ref();
    let price = [
        optional(prices.and_then(|prices| prices.values.get(index))),
        prices.map(|prices| cell(&prices.unit)).unwrap_or_default(),
    ];
    let (own, by_price) = figures.split_at(7);
    let cells = [lead.as_slice(), &of_side, own, &price, by_price].concat();
    write!(out, "{}\r\n", cells.join(","))
}

/// What the score is called.
pub(super) const SCORE: &str = "score by the given weights";

pub(super) fn title(ranking: &Ranking) -> String {
    format!("{} ranked by {}", counted(ranking.sides.len(), "side"), counted(ranking.metrics.len(), "metric"))
}

fn side(ranking: &Ranking, index: usize) -> String {
    ranking.sides.get(index).map(|name| cut(name, SIDE)).unwrap_or_default()
}

/// Each run or tag, with its number of runs and its price.
pub(super) fn sides(ranking: &Ranking) -> Vec<String> {
    let one = |(index, name): (usize, &String)| {
        let runs = ranking.runs.get(index).copied().filter(|runs| *runs != 1);
        let runs = runs.map(|runs| counted(runs, "run"));
        let price = ranking
            .prices
            .as_ref()
            .and_then(|prices| Some(format!("{} {}", prices.values.get(index)?, prices.unit)));
        let more: Vec<String> = runs.into_iter().chain(price).collect();
        if more.is_empty() { name.clone() } else { format!("{name} ({})", more.join(", ")) }
    };
    ranking.sides.iter().enumerate().map(one).collect()
}

/// The parameters that are not as on the other sides, where there is no room for their column.
fn with(metric: &Metric, ranking: &Ranking) -> Option<String> {
    let places = metric.places.iter().filter(|place| !place.with.is_empty());
    let places = places.map(|place| (place.with.join(", "), side(ranking, place.side)));
    let groups = grouped(places);
    (!groups.is_empty()).then(|| format!("with {}", groups.join("; ")))
}

/// A case and, where it is not the headline, the metric.
pub(super) fn name(metric: &Metric) -> String {
    let all = label::full(&metric.case);
    match metric.headline {
        true => all,
        false => format!("{all}, {}", metric.metric),
    }
}

/// "1", or "2–3" where the noise leaves both possible.
fn rank([best, worst]: [usize; 2]) -> String {
    if best == worst { best.to_string() } else { format!("{best}–{worst}") }
}

/// Head and rows: a side each, the best first.
pub(super) fn rows(metric: &Metric, ranking: &Ranking) -> Vec<Vec<String>> {
    let has = |of: fn(&Place) -> bool| metric.places.iter().any(of);
    let figure = |value: f64| Quantity::new(value, metric.unit).to_string();
    let (limit, with) = (has(|place| place.of_limit.is_some()), has(|place| !place.with.is_empty()));
    let prices = ranking.prices.as_ref();
    let mut head = vec!["rank".to_owned(), "side".to_owned(), "figure".to_owned(), "95 % CI".to_owned()];
    // What does not fit is left out from the right.
    if let Some(prices) = prices {
        let verb = if metric.better == Better::Higher { "per" } else { "×" };
        head.extend([format!("{verb} {}", prices.unit), "rank by price".to_owned()]);
    }
    head.extend(limit.then(|| "of limit".to_owned()));
    head.extend(with.then(|| "with".to_owned()));
    let row = |place: &Place| {
        let mut cells = vec![
            rank(place.ranks),
            side(ranking, place.side),
            with_delivered(place.value, place.delivered, metric.unit),
        ];
        cells.push(place.half.map_or_else(|| "unknown".to_owned(), |half| format!("± {}", percent(half, 2))));
        if prices.is_some() {
            cells.push(place.per_price.map(figure).unwrap_or_default());
            cells.push(place.ranks_per_price.map(rank).unwrap_or_default());
        }
        if limit {
            cells.push(place.of_limit.map_or_else(|| "–".to_owned(), |share| percent(share, 3)));
        }
        cells.extend(with.then(|| place.with.join(", ")));
        cells
    };
    std::iter::once(head).chain(metric.places.iter().map(row)).collect()
}

/// What is to be said of one metric.
pub(super) fn remarks(metric: &Metric, ranking: &Ranking) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let without: Vec<String> = metric.without.iter().map(|index| side(ranking, *index)).collect();
    if !without.is_empty() {
        found.push(format!("no figure: {}", without.join(", ")));
    }
    found.extend(metric.whys.iter().take(WHYS).map(|why| format!("not ordered: {why}")));
    found
}

/// Head and rows of the scores.
pub(super) fn scores(ranking: &Ranking) -> Vec<Vec<String>> {
    let head = ["side", "score", "95 % CI"].map(str::to_owned).to_vec();
    let row = |score: &crate::compare::rank::Score| {
        let half = score.half.map_or_else(|| "unknown".to_owned(), |half| format!("± {}", percent(half, 2)));
        vec![side(ranking, score.side), significant(score.value, 3), half]
    };
    std::iter::once(head).chain(ranking.scores.iter().map(row)).collect()
}

/// How to read it.
pub(super) fn notes(ranking: &Ranking) -> Vec<String> {
    let mut notes = vec![format!(
        "A rank of 2–3 is one that noise leaves open. All orders together are right with a probability of {} (Holm's correction over all pairs and metrics).",
        percent(1.0 - ranking.family, 2)
    )];
    let known = noise_sources(|origin| ranking.noise.contains(&origin));
    notes.push(known.map_or_else(
        || "The noise between runs is unknown, so nothing is ordered: run plimsoll doctor on these machines, or rank tags of several runs each.".to_owned(),
        |known| format!("Noise between runs: {known}."),
    ));
    if ranking.noise.contains(&Origin::Declared) {
        notes.push("To have it from the runs, rank tags of several runs each.".to_owned());
    }
    if !ranking.scores.is_empty() {
        notes.push(
            "Score: the weighted geometric mean of the figures, each as a share of the best one.".to_owned(),
        );
    }
    notes.extend(unweighed(&ranking.unweighed));
    notes
}

/// What is in no score, a sentence for each reason.
fn unweighed(all: &[Unweighed]) -> Vec<String> {
    let whys: BTreeSet<&str> = all.iter().map(|one| one.why.as_str()).collect();
    let sentence = |why: &str| {
        let names: Vec<&str> = all.iter().filter(|one| one.why == why).map(|one| one.name.as_str()).collect();
        let more = names.len().saturating_sub(NAMES);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names.into_iter().take(NAMES).collect::<Vec<_>>().join(", ");
        format!("Not in the score, because {why}: {names}{rest}.")
    };
    whys.into_iter().map(sentence).collect()
}

/// The cells as they are shown.
fn said(rows: &[Vec<String>], style: &Style) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|cell| style.say(cell)).collect()).collect()
}

/// How many columns have room, from the left.
fn fitting(rows: &[Vec<String>], style: &Style) -> usize {
    let widths = widths(&said(rows, style));
    let mut columns = widths.len();
    let width = |columns: usize| widths.iter().take(columns).map(|width| width + 2).sum::<usize>();
    while columns > 3 && width(columns) > style.width {
        columns -= 1;
    }
    columns
}

/// So many columns of the rows, aligned; the first row is a head.
fn aligned(rows: &[Vec<String>], columns: usize, style: &Style) -> String {
    let said = said(rows, style);
    let widths = widths(&said);
    let mut text = String::new();
    for (index, row) in said.iter().enumerate() {
        let cells = row.iter().take(columns).zip(&widths).enumerate().map(|(column, (cell, width))| {
            // Names and words begin at the left, figures end at the right.
            let is_word = column == 1 || column + 1 == row.len() && row.len() > 4 && cell.width() > 12;
            let space = pad(cell, *width);
            if is_word { format!("  {cell}{space}") } else { format!("  {space}{cell}") }
        });
        let line = cells.collect::<String>();
        let line = line.trim_end();
        text += &if index == 0 { style.paint(Role::Dim, line) } else { line.to_owned() };
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::compare::Difference;
    use crate::compare::rank::{Prices, Score};

    #[test]
    fn as_rows_each_side_of_a_metric_has_one_with_as_many_cells_as_the_head() {
        let mut out = Vec::new();
        csv(&ranking(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> =
            text.split_terminator("\r\n").map(|row| row.split(',').collect()).collect();
        assert_eq!(rows.len(), 1 + 4 + 1, "head, four sides, a score: {text}");
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        let column = |name: &str| rows[0].iter().position(|one| *one == name).unwrap();
        let of = |row: usize, name: &str| rows[row][column(name)];
        assert_eq!(
            ["side", "best_rank", "worst_rank", "value", "unit"].map(|name| of(1, name)),
            ["m7a", "1", "1", "200000000000", "FLOP/s"]
        );
        assert_eq!(
            ["side", "value", "price", "price_unit"].map(|name| of(4, name)),
            ["t3", "", "0.1", "$/h"],
            "no figure"
        );
        assert_eq!(
            ["case", "metric", "side", "value", "best_rank"].map(|name| of(5, name)),
            ["", "score", "m7a", "1", ""]
        );
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    fn ranking() -> Ranking {
        let place = |side: usize, value: f64, ranks: [usize; 2]| Place {
            side,
            value,
            half: Some(0.012),
            ranks,
            of_limit: Some(0.8123),
            delivered: None,
            with: vec![format!("isa {}", ["avx2", "avx512", "avx2"][side])],
            per_price: Some(value / 0.1),
            ranks_per_price: Some([1, 3]),
        };
        let case: Case = "cpu.peak/op=fma/type=f64/isa=avx512/threads=2".parse().unwrap();
        let metric = Metric {
            case,
            metric: "flops".to_owned(),
            headline: true,
            unit: Unit::FlopPerSecond,
            better: Better::Higher,
            places: vec![place(1, 200e9, [1, 1]), place(0, 101e9, [2, 3]), place(2, 99e9, [2, 3])],
            without: vec![3],
            whys: Vec::new(),
        };
        Ranking {
            sides: ["c7i", "m7a", "a | hostile\u{1b}[31m name", "t3"].map(str::to_owned).to_vec(),
            runs: vec![5, 5, 1, 1],
            prices: Some(Prices { values: vec![0.1, 0.25, 0.1, 0.1], unit: "$/h".to_owned() }),
            family: 0.01,
            differs: vec![Difference {
                code: "kernel",
                what: "different operating system kernels",
                values: ["6.1", "6.8", "6.1", "6.1"].map(str::to_owned).to_vec(),
            }],
            metrics: vec![metric],
            scores: vec![Score { side: 1, value: 1.0, half: Some(0.02) }],
            unweighed: ["disk.io", "disk.fsync"]
                .map(|name| Unweighed { name: name.to_owned(), why: "not all sides have it".to_owned() })
                .to_vec(),
            noise: vec![Origin::Runs],
        }
    }

    #[test]
    fn a_ranking_reads_like_this() {
        insta::assert_snapshot!(text(&ranking(), &Style::plain(100)));
    }

    #[test]
    fn a_narrow_terminal_has_less_and_no_line_is_too_long() {
        for width in [40, 60, 80] {
            let text = text(&ranking(), &Style::plain(width));
            assert!(text.lines().all(|line| line.width() <= width.max(50)), "{text}");
        }
    }

    #[test]
    fn what_differs_is_told_where_its_column_has_no_room() {
        let with = "with isa avx512 (m7a); isa avx2 (c7i, ";
        assert!(text(&ranking(), &Style::plain(100)).contains(with));
        let wide = text(&ranking(), &Style::plain(200));
        assert!(!wide.contains(with) && wide.contains("isa avx512"), "{wide}");
    }

    #[test]
    fn a_reason_has_its_names_and_not_too_many() {
        let one = |n: usize| Unweighed { name: format!("n{n}"), why: format!("of {}", n % 2) };
        let said = unweighed(&(0..20).map(one).collect::<Vec<_>>());
        assert_eq!(said.len(), 2);
        assert!(said[0].starts_with("Not in the score, because of 0: n0, n2,"), "{said:?}");
        assert!(said[0].ends_with("n14 and 2 more."), "{said:?}");
    }

    #[test]
    fn as_markdown_it_reads_like_this() {
        insta::assert_snapshot!(markdown(&ranking()));
    }
}
