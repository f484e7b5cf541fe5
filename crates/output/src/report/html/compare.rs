//! Comparison as one HTML file: verdicts, differences, all metrics, results by price.

use maud::{Markup, html};
use plimsoll_bench::label;
use plimsoll_compare::{Comparison, Decisions, Ranked, RankedSide, RequirementResult, letter};

use super::data::{self, Chart, ChartAxis, ChartKind, ChartSeries, SeriesRole, island};
use super::parts::{VerdictText, verdict};
use super::{PageParts, document, machines, page};
use crate::report::compare::rows::{ComparisonRow, ComparisonTable, has_ranks, is_of_words, name_of};
use crate::report::compare::{NOTHING, SCORE, blindness, left, notes, tally, title, warnings};
use crate::report::format::Sides;
use crate::report::row::Grade;

/// Builds the HTML page of a comparison. Fails if a number cannot be represented in JSON.
pub fn comparison(of: &Sides<'_>) -> Result<String, serde_json::Error> {
    let &Sides { comparison, sides, held, shown, .. } = of;
    let shown = ComparisonTable::of(comparison, shown);
    let charts: Vec<Chart> = match has_ranks(comparison) {
        true => by_price(comparison).into_iter().chain(shares(comparison)).collect(),
        false => forest(&shown.lines).into_iter().collect(),
    };
    let (differs, left) = (warnings(comparison), left::groups(comparison));
    let body = html! {
        header {
            div.name { h1 { "Comparison" } p.machine { (title(comparison)) } }
            div.verdicts {
                div.verdict.(grade(&comparison.decided).class()) {
                    span.word { (comparison.decided) } span.why { "a change counts where it is larger than the noise floor" }
                }
                @for one in held { (requirement(one)) }
            }
            p.run { (tally(comparison)) button.theme type="button" hidden { "dark / light" } }
        }
        main {
            @if !differs.is_empty() { section.findings aria-label="What else differs" { ul { @for line in &differs { li { (line) } } } } }
            @if let Some(line) = blindness(comparison) { p { strong.inconclusive { (line) } } }
            @if shown.lines.is_empty() { p { (NOTHING) } }
            @for chart in &charts { (page::figure(chart)) }
            @if let Some(scores) = ComparisonTable::of_scores(comparison) { h2 { (SCORE) } (table(&scores)) }
            (table(&shown))
            @for note in notes(comparison, &shown) { p.note { (note) } }
            @if !left.is_empty() {
                section.findings aria-label="What is not compared" {
                    ul { @for group in &left { li { span.(group.colour().1) { (group.text()) } } } }
                }
            }
        }
    };
    let [machines, held] = machines::of_sides(sides)?;
    let bodies = vec![body, html! { main { (machines) } }];
    let title = format!("plimsoll: {}", comparison.sides.join(" and "));
    Ok(document(&PageParts { bodies, island: island(&charts)?, held }, &title))
}

/// Returns poor if anything regressed or is lost, good if nothing changed, else fair.
fn grade(decided: &Decisions) -> Grade {
    match () {
        () if decided.regressions + decided.lost > 0 => Grade::Poor,
        () if decided.no_change == decided.of && decided.of > 0 => Grade::Good,
        () => Grade::Fair,
    }
}

fn requirement(one: &RequirementResult) -> Markup {
    let (grade, name) = if one.met { (Grade::Good, "met") } else { (Grade::Poor, "not met") };
    let case = one.case.as_ref().map(|case| format!("{}: ", label::of_id(case))).unwrap_or_default();
    verdict(name, &VerdictText { grade, word: one.requirement.clone(), why: case + &one.found })
}

fn table(shown: &ComparisonTable<'_>) -> Markup {
    html! {
        div.wide { table {
            thead { tr { @for name in &shown.head { th.n[!is_of_words(name)] { (name) } } } }
            tbody { @for row in &shown.lines { tr title=[row.case.map(|case| case.id())] {
                @for (cell, column) in row.cells.iter().zip(&shown.head) {
                    @match row.compared.filter(|_| column == "verdict") {
                        Some(one) => td { strong.(one.verdict.code()) { (cell) } @if let Some(why) = &one.why { " " span.note { (why) } } },
                        None => td.n[!is_of_words(column)] { (cell) },
                    }
                }
            } } }
        } }
    }
}

fn forest(rows: &[ComparisonRow<'_>]) -> Option<Chart> {
    let row = |row: &ComparisonRow<'_>| {
        let difference = row.compared?.difference?;
        let interval = row.compared?.interval.map(|ci| ci.map(|x| 1.0 + x));
        Some((row.cells.first().cloned().unwrap_or_default(), 1.0 + difference, interval))
    };
    let chart = Chart {
        id: "differences".to_owned(),
        title: "B ÷ A".to_owned(),
        note: "1 is no change; bars are 95 % CIs, with the noise floor where it is known".to_owned(),
        ..Chart::default()
    };
    data::forest(chart, "B ÷ A", rows.iter().filter_map(row).collect())
}

fn headlines(comparison: &Comparison) -> impl Iterator<Item = &Ranked> {
    comparison.ranked.iter().filter(|row| row.headline && row.better.is_some())
}

/// Returns how close `value` comes to the best side's result (1: as good; also for latencies);
/// `None` if not finite.
fn share(row: &Ranked, value: f64) -> Option<f64> {
    let best = row.places.first()?.value;
    Some(row.better?.ratio(value, best)).filter(|share| share.is_finite())
}

/// Builds the heat map of main metrics × sides, as shares of the best side; `None` without any.
fn shares(comparison: &Comparison) -> Option<Chart> {
    let names: Vec<String> = headlines(comparison).map(name_of).collect();
    let point = |at: usize, row: &Ranked, place: &RankedSide| {
        Some(vec![Some(place.side as f64), Some(at as f64), Some(share(row, place.value)?)])
    };
    let rows = headlines(comparison).enumerate();
    let points = rows.flat_map(|(at, row)| row.places.iter().filter_map(move |place| point(at, row, place)));
    (!names.is_empty()).then(|| Chart {
        id: "shares".to_owned(),
        title: "Each figure as a share of the best".to_owned(),
        note: "1 is the best of a metric".to_owned(),
        kind: ChartKind::Heat,
        x: ChartAxis::categories("", comparison.sides.clone()),
        y: ChartAxis::categories("", names),
        series: vec![ChartSeries::new("share of the best", SeriesRole::Own, points.collect())],
        ..Chart::default()
    })
}

/// Builds the chart of main results by price, as shares of the best side, with a series per metric;
/// `None` without prices.
fn by_price(comparison: &Comparison) -> Option<Chart> {
    let prices = comparison.prices.as_ref()?;
    let series = |(index, row): (usize, &Ranked)| {
        let point = |place: &RankedSide| {
            let price = prices.values.get(place.side).copied()?;
            Some((vec![Some(price), share(row, place.value)], letter(place.side)))
        };
        let mut points: Vec<_> = row.places.iter().filter_map(point).collect();
        points.sort_by(|(a, _), (b, _)| a[0].unwrap_or(0.0).total_cmp(&b[0].unwrap_or(0.0)));
        let (points, labels) = points.into_iter().unzip();
        ChartSeries { labels, colour: Some(index), ..ChartSeries::new(name_of(row), SeriesRole::Own, points) }
    };
    Some(Chart {
        id: "price".to_owned(),
        title: "Performance against price".to_owned(),
        note: "a line a metric, as a share of the best".to_owned(),
        x: ChartAxis::linear(&format!("price, {}", prices.unit), ""),
        y: ChartAxis::linear("share of the best", ""),
        series: headlines(comparison).enumerate().map(series).collect(),
        ..Chart::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_good_if_nothing_changed_and_poor_if_anything_is_worse_or_lost() {
        let of = |regressions, no_change, lost| {
            grade(&Decisions { of: 2, regressions, no_change, lost, ..Decisions::default() })
        };
        assert_eq!([of(0, 2, 0), of(0, 1, 0)], [Grade::Good, Grade::Fair]);
        assert_eq!([of(1, 1, 0), of(0, 2, 1)], [Grade::Poor; 2]);
        assert_eq!(grade(&Decisions::default()), Grade::Fair, "nothing was decided");
    }
}
