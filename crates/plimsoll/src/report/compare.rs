//! A comparison as a table for terminals and as Markdown for a pull request. Pure: a comparison in, text out.

use unicode_width::UnicodeWidthStr;

use super::style::{Role, Style};
use super::wrap::paragraph;
use crate::cluster::between::is_of_all;
use crate::compare::{Compared, Comparison, Holds, Origin, Verdict};
use crate::label::label;
use crate::quantity::{Quantity, percent};

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
    let mut text = format!("{}\n", style.paint(Role::Strong, &style.say(&title(comparison))));
    for flag in &comparison.flags {
        text += &paragraph(style, Role::Warning, "! ", &flag.text);
    }
    let rows: Vec<&Compared> = chosen(comparison, shown);
    if rows.is_empty() {
        text += "\nnothing to compare: no case has figures on both sides\n";
    } else {
        let head = ["case", "A", "B", "difference", "95 % interval", "real from", "verdict"];
        let mut lines = vec![Line { cells: head.map(str::to_owned).to_vec(), role: Role::Dim }];
        lines.extend(rows.iter().map(|row| Line { cells: cells(row), role: role(row.verdict) }));
        text += "\n";
        text += &aligned(&lines, style);
    }
    for note in notes(comparison, &rows) {
        text += &paragraph(style, Role::Dim, "", &note);
    }
    for one in held {
        let (mark, role) = if one.met { ("met: ", Role::Good) } else { ("NOT MET: ", Role::Bad) };
        let case = one.case.as_deref().map(|case| format!(" {case}:")).unwrap_or_default();
        text += &paragraph(style, role, mark, &format!("{}:{case} {}", one.requirement, one.found));
    }
    text += &paragraph(style, Role::Strong, "", &tally(comparison));
    text
}

/// The text for a pull request: GitHub's Markdown.
pub fn markdown(comparison: &Comparison, held: &[Holds], shown: Shown) -> String {
    let safe = super::markdown::escaped;
    let mut text = format!("### {}\n\n{}\n\n", safe(&title(comparison)), safe(&tally(comparison)));
    for flag in &comparison.flags {
        text += &format!("> ⚠ {}\n", safe(&flag.text));
    }
    if !comparison.flags.is_empty() {
        text.push('\n');
    }
    let rows = chosen(comparison, shown);
    if !rows.is_empty() {
        text += "| case | A | B | difference | 95 % interval | real from | verdict |\n";
        text += "| --- | ---: | ---: | ---: | :---: | ---: | --- |\n";
        for row in &rows {
            let cells: Vec<String> = cells(row).iter().map(|cell| safe(cell)).collect();
            let bold = matches!(row.verdict, Verdict::Better | Verdict::Worse);
            let last = cells.len() - 1;
            let cells = cells.iter().enumerate().map(|(index, cell)| match bold && index == last {
                true => format!("**{cell}**"),
                false => cell.clone(),
            });
            text += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        }
        text.push('\n');
    }
    for note in notes(comparison, &rows) {
        text += &format!("{}\n\n", safe(&note));
    }
    for one in held {
        let mark = if one.met { "✅" } else { "❌" };
        let case = one.case.as_deref().map(|case| format!(" {case}:")).unwrap_or_default();
        text += &format!("- {mark} {}\n", safe(&format!("{}:{case} {}", one.requirement, one.found)));
    }
    text
}

struct Line {
    cells: Vec<String>,
    role: Role,
}

/// The lines with their last cell in colour, the columns aligned; cases on lines of their own where it is narrow.
fn aligned(lines: &[Line], style: &Style) -> String {
    let said: Vec<Vec<String>> =
        lines.iter().map(|l| l.cells.iter().map(|c| style.say(c)).collect()).collect();
    let mut text = String::new();
    let widths = widths(&said);
    let all: usize = widths.iter().map(|w| w + 2).sum();
    let apart = all > style.width + 2;
    for (line, cells) in lines.iter().zip(&said) {
        let mut out = String::new();
        for (index, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            let last = index + 1 == cells.len();
            out += &match (index, apart) {
                (0, true) => format!("{cell}\n "),
                (0, false) => format!("{cell}{pad}"),
                _ if last => format!("  {}", style.paint(line.role, cell)),
                _ if line.role == Role::Dim => format!("  {}", style.paint(Role::Dim, &(pad + cell))),
                _ => format!("  {pad}{cell}"),
            };
        }
        text += out.trim_end();
        text.push('\n');
    }
    text
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    (0..columns).map(|column| widest(column).unwrap_or(0)).collect()
}

pub(super) fn title(comparison: &Comparison) -> String {
    let side = |name: &str, runs: usize| match runs {
        1 => name.to_owned(),
        n => format!("{name} ({n} runs)"),
    };
    let [a, b] = comparison.runs;
    format!("A = {}, B = {}", side(&comparison.a, a), side(&comparison.b, b))
}

pub(super) fn chosen(comparison: &Comparison, shown: Shown) -> Vec<&Compared> {
    let telling = |c: &&Compared| {
        c.headline || matches!(c.verdict, Verdict::Better | Verdict::Worse) || shown == Shown::All
    };
    comparison.compared.iter().filter(telling).collect()
}

pub(super) fn cells(row: &Compared) -> Vec<String> {
    let figure = |value: f64| Quantity::new(value, row.unit).to_string();
    let of_one = row.node.as_deref().filter(|_| !is_of_all(&row.case));
    let node = of_one.map(|node| format!("{}: ", crate::text::shown_within(node, 20)));
    let mut name = node.unwrap_or_default() + &label(&row.case);
    if !row.headline {
        name += &format!(", {}", row.metric);
    }
    if !row.differs.is_empty() {
        name += &format!(" [{}]", row.differs.join(", "));
    }
    let interval = row.interval.map(|[low, high]| format!("{} … {}", signed(low), signed(high)));
    vec![
        name,
        figure(row.a),
        figure(row.b),
        row.difference.map_or("–".to_owned(), signed),
        interval.unwrap_or_else(|| "–".to_owned()),
        match row.smallest {
            Some(share) => format!("{} %", digits(share * 100.0)),
            None if row.verdict == Verdict::Told => "–".to_owned(),
            None => "unknown".to_owned(),
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
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "same",
        Verdict::Undecided => "undecided",
        Verdict::Told => "told",
    }
}

fn role(verdict: Verdict) -> Role {
    match verdict {
        Verdict::Better => Role::Good,
        Verdict::Worse => Role::Bad,
        Verdict::Same | Verdict::Told => Role::Plain,
        Verdict::Undecided => Role::Warning,
    }
}

/// Why some are undecided, what stands on one side alone, and where the noise is known from.
pub(super) fn notes(comparison: &Comparison, rows: &[&Compared]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut whys: Vec<&str> = rows.iter().filter_map(|row| row.why.as_deref()).collect();
    whys.dedup();
    whys.sort_unstable();
    whys.dedup();
    for why in whys {
        let n = rows.iter().filter(|row| row.why.as_deref() == Some(why)).count();
        notes.push(format!("undecided ({n}): {why}"));
    }
    let origins = [
        (Origin::Runs, "the spread of the runs of one side"),
        (Origin::Doctor, "plimsoll doctor"),
        (Origin::Declared, "the benchmark's own word"),
    ];
    let known: Vec<&str> = origins
        .iter()
        .filter(|(origin, _)| rows.iter().any(|row| row.noise == Some(*origin)))
        .map(|(_, words)| *words)
        .collect();
    if !known.is_empty() {
        notes.push(format!("noise between runs by {}", known.join(" and ")));
    }
    for (name, only) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        const SHOWN: usize = 3;
        if !only.is_empty() {
            let few: Vec<&str> = only.iter().take(SHOWN).map(String::as_str).collect();
            let more = only.len().saturating_sub(SHOWN);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!("only in {name}: {}{rest}", few.join(", ")));
        }
    }
    notes
}

/// How many of each verdict, over all metrics.
pub(super) fn tally(comparison: &Comparison) -> String {
    let kinds = [Verdict::Better, Verdict::Worse, Verdict::Same, Verdict::Undecided, Verdict::Told];
    let said: Vec<String> = kinds
        .iter()
        .map(|verdict| (comparison.count(*verdict), word(*verdict)))
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    let metrics = if comparison.compared.len() == 1 { "metric" } else { "metrics" };
    format!(
        "{} {metrics}: {}",
        comparison.compared.len(),
        if said.is_empty() { "none".to_owned() } else { said.join(" · ") }
    )
}

/// What a failed `--fail-on` says.
pub fn failed(comparison: &Comparison, share: f64) -> Vec<String> {
    let line = |c: &Compared| format!("{} {} is worse by {}", c.case, c.metric, percent(c.loss(), 3));
    comparison.worse_than(share).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Floor, Floors, Noise, Side, compare};
    use crate::fixture;

    fn comparison() -> Comparison {
        let floor = |benchmark: &str, metric: &str| Floor {
            benchmark: benchmark.to_owned(),
            metric: metric.to_owned(),
            case: None,
            noise: Noise { deviation: 0.004, freedom: 12.0, largest: 0.01 },
        };
        let floors = Floors {
            machine: "m-1".to_owned(),
            floors: vec![floor("network.tcp", "goodput"), floor("memory.latency", "latency")],
            ..Floors::default()
        };
        let a = fixture::run();
        let mut b = a.clone();
        b.version = "0.2.0".to_owned();
        for measurement in &mut b.measurements {
            let factor = match measurement.case.benchmark() {
                "cpu.peak" => 0.88,
                "memory.latency" => 0.9,
                _ => 1.002,
            };
            for metric in &mut measurement.metrics {
                metric.summary.median *= factor;
                metric.summary.ci95 = metric.summary.ci95.map(|ci| ci.map(|x| x * factor));
            }
        }
        b.measurements.remove(3);
        let side = |name: &str, run| Side { name: name.to_owned(), runs: vec![run] };
        compare(&side("before", a), &side("after", b), &[floors])
    }

    fn held() -> Vec<Holds> {
        vec![Holds {
            requirement: "cpu rate >= 95% of limit".to_owned(),
            case: Some("cpu.peak/op=fma".to_owned()),
            met: false,
            found: "103 GFLOP/s, 87.6 % of limit".to_owned(),
        }]
    }

    #[test]
    fn the_table_at_140_and_80_columns() {
        insta::assert_snapshot!(
            "compare_140",
            table(&comparison(), &held(), Shown::Telling, &Style::plain(140))
        );
        insta::assert_snapshot!("compare_80", table(&comparison(), &[], Shown::Telling, &Style::plain(80)));
    }

    #[test]
    fn markdown_for_a_pull_request() {
        insta::assert_snapshot!(markdown(&comparison(), &held(), Shown::All));
    }

    #[test]
    fn the_page_has_every_row_and_escapes_names() {
        let mut hostile = comparison();
        hostile.a = "<script>alert(1)</script>".to_owned();
        let page = crate::report::html::comparison(&hostile, &held(), Shown::All).unwrap();
        assert_eq!(page.matches("<script").count(), 3, "the island, the library and ours");
        assert_eq!(page.matches("<tr title").count(), hostile.compared.len());
        assert_eq!(page.matches("data-chart=").count(), 1);
        for told in ["NOT MET", "not met", "worse"] {
            assert_eq!(page.contains(told), told != "NOT MET", "{told}");
        }
        let nothing = Comparison { compared: Vec::new(), ..comparison() };
        let page = crate::report::html::comparison(&nothing, &[], Shown::All).unwrap();
        assert!(page.contains("nothing to compare") && !page.contains("data-chart="));
    }

    #[test]
    fn what_is_of_all_machines_is_named_after_none() {
        let mut row = comparison().compared.remove(0);
        row.node = Some("n1".to_owned());
        let mut of_one = |case: &str| {
            row.case = case.parse().unwrap();
            cells(&row)[0].starts_with("n1: ")
        };
        assert!(of_one("network.tcp/message=128K"));
        let shared = ["network.tcp/message=128K/server=nodes", "mpi.barrier", "cpu.hpl/n=500"];
        assert!(!shared.into_iter().any(&mut of_one));
        assert!(!of_one("network.tcp/message=128K/server=bisection"));
    }

    #[test]
    fn hostile_names_stay_in_their_cell() {
        let mut hostile = comparison();
        hostile.a = "<script>|\u{1b}[31m\n# x".to_owned();
        let text = markdown(&hostile, &[], Shown::Telling);
        assert!(!text.contains("<script>") && !text.contains('\u{1b}') && !text.contains("\n# x"), "{text}");
        let text = table(&hostile, &[], Shown::Telling, &Style::plain(100));
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn what_failed_is_named_with_its_loss() {
        let lines = failed(&comparison(), 0.05);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("rate is worse by 12"), "{lines:?}");
        assert!(failed(&comparison(), 0.5).is_empty());
    }
}
