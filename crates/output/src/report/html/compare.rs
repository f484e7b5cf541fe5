//! A comparison as one HTML file: the verdicts, the differences with their intervals, and every metric.

use maud::{Markup, html};

use super::data::{Axis, Chart, Kind, Role, Series, island};
use super::{document, machines, what_differs};
use crate::compare::{Compared, Comparison, Holds, Side, Tone};
use crate::label;
use crate::report::compare::{HEAD, Shown, blindness, cells, chosen, left, notes, tally, title, warnings};

/// The page; `sides` are what was compared.
///
/// # Errors
/// A figure that JSON cannot hold.
pub fn comparison(
    comparison: &Comparison,
    sides: &[Side],
    held: &[Holds],
    shown: Shown,
) -> Result<String, serde_json::Error> {
    let rows = chosen(comparison, shown);
    let chart = forest(&rows);
    let machines = machines::of_sides(sides)?;
    let body = body(comparison, held, &rows, chart.as_ref());
    let bodies = [body, html! { main { (machines.section) } }];
    let island = island(&chart.into_iter().collect::<Vec<_>>())?;
    let title = format!("plimsoll: {}", comparison.sides.join(" and "));
    Ok(document(&bodies, &island, &machines.held, &title))
}

fn body(comparison: &Comparison, held: &[Holds], rows: &[&Compared], chart: Option<&Chart>) -> Markup {
    html! {
        header {
            div.name { h1 { "Comparison" } p.machine { (title(comparison)) } }
            div.verdicts { (counted(comparison)) @for one in held { (requirement(one)) } }
            p.run { (tally(comparison)) button.theme type="button" hidden { "dark / light" } }
        }
        main {
            (what_differs(&warnings(comparison)))
            @if let Some(line) = blindness(comparison) { p { strong.inconclusive { (line) } } }
            @if rows.is_empty() { p { "nothing to compare: no case has figures on both sides" } }
            @if let Some(chart) = chart {
                figure.chart data-chart=(chart.id) {
                    figcaption { strong { (chart.title) } span.note { (chart.note) } }
                }
            }
            (table(rows))
            @for note in notes(rows) { p.note { (note) } }
            @let left = left::groups(comparison);
            @if !left.is_empty() {
                section.findings aria-label="What is not compared" {
                    ul { @for group in &left { li { span.(group.class()) { (group.text()) } } } }
                }
            }
        }
    }
}

fn counted(comparison: &Comparison) -> Markup {
    let class = match comparison.decided.tone() {
        Tone::Good => "good",
        Tone::Fair => "fair",
        Tone::Poor => "poor",
    };
    html! {
        div.verdict.(class) {
            span.word { (comparison.decided) } span.why { "a change counts where it is larger than the noise floor" }
        }
    }
}

fn requirement(one: &Holds) -> Markup {
    let (class, word) = if one.met { ("good", "met") } else { ("poor", "not met") };
    html! {
        div.verdict.(class) {
            span.word { (word) ": " (one.requirement) }
            span.why { @if let Some(case) = &one.case { (label::of_id(case)) ": " } (one.found) }
        }
    }
}

fn table(rows: &[&Compared]) -> Markup {
    html! {
        div.wide { table {
            thead { tr { @for (index, name) in HEAD.iter().enumerate() { th.n[(1..HEAD.len() - 1).contains(&index)] { (name) } } } }
            tbody { @for row in rows { (line(row)) } }
        } }
    }
}

fn line(row: &Compared) -> Markup {
    let cells = cells(row);
    let last = cells.len().saturating_sub(1);
    html! {
        tr title=(row.case.id()) {
            @for (index, cell) in cells.iter().enumerate() {
                @if index == last { td { strong.(row.verdict.code()) { (cell) } @if let Some(why) = &row.why { " " span.note { (why) } } } }
                @else if index == 0 { td { (cell) } }
                @else { td.n { (cell) } }
            }
        }
    }
}

/// B as a multiple of A.
fn forest(rows: &[&Compared]) -> Option<Chart> {
    let mut names = Vec::new();
    let mut points = Vec::new();
    for row in rows {
        let Some(difference) = row.difference else { continue };
        let [low, high] = row.interval.map_or([None, None], |ci| ci.map(|x| Some(1.0 + x)));
        points.push(vec![Some(1.0 + difference), Some(names.len() as f64), low, high]);
        names.push(cells(row).into_iter().next().unwrap_or_default());
    }
    (!names.is_empty()).then(|| Chart {
        id: "differences".to_owned(),
        title: "B ÷ A".to_owned(),
        note: "1 is no change; bars are 95 % CIs, with the noise floor where it is known".to_owned(),
        kind: Kind::Forest,
        x: Axis::linear("B ÷ A", ""),
        y: Axis::categories("", names),
        series: vec![Series::new("B ÷ A", Role::Own, points)],
        bands: Vec::new(),
    })
}
