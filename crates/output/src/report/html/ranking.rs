//! The page of several runs ranked by metric.

use maud::{Markup, html};

use super::data::{Axis, Chart, Kind, Role, Series, island};
use super::{document, machines, what_differs};
use crate::bench::Better;
use crate::compare::Side;
use crate::compare::rank::{Metric, Ranking};
use crate::report::compare::differing;
use crate::report::ranking::{self as words, SCORE, name, notes, remarks, rows, scores, title};

/// The page; `sides` are what was ranked.
///
/// # Errors
/// A figure that JSON cannot hold.
pub fn ranking(ranking: &Ranking, sides: &[Side]) -> Result<String, serde_json::Error> {
    let charts: Vec<Chart> = by_price(ranking).into_iter().chain(shares(ranking)).collect();
    let machines = machines::of_sides(sides)?;
    let body = body(ranking, &charts, &machines.section);
    Ok(document(&[body], &island(&charts)?, &machines.held, &format!("plimsoll: {}", title(ranking))))
}

fn body(ranking: &Ranking, charts: &[Chart], machines: &Markup) -> Markup {
    html! {
        header {
            div.name { h1 { (title(ranking)) } }
            p.run { (words::sides(ranking).join(" · ")) button.theme type="button" hidden { "dark / light" } }
        }
        main {
            (what_differs(&differing(&ranking.differs, &ranking.sides)))
            @for chart in charts {
                figure.chart data-chart=(chart.id) { figcaption { strong { (chart.title) } span.note { (chart.note) } } }
            }
            (machines)
            @if ranking.metrics.is_empty() { p { "nothing to rank: no case has figures of two sides" } }
            @if !ranking.scores.is_empty() { h2 { (SCORE) } (table(&scores(ranking))) }
            @for metric in &ranking.metrics {
                h2 title=(metric.case.id()) { (name(metric)) }
                (table(&rows(metric, ranking)))
                @for note in remarks(metric, ranking) { p.note { (note) } }
            }
            @for note in notes(ranking) { p.note { (note) } }
        }
    }
}

fn table(rows: &[Vec<String>]) -> Markup {
    let (head, rest) = rows.split_first().map_or((&[][..], &[][..]), |(head, rest)| (head.as_slice(), rest));
    html! {
        div.wide { table {
            thead { tr { @for (index, cell) in head.iter().enumerate() { th.n[index > 1] { (cell) } } } }
            tbody { @for row in rest { tr { @for (index, cell) in row.iter().enumerate() { td.n[index > 1] { (cell) } } } } }
        } }
    }
}

/// A figure as a share of the best, which is 1 whatever direction is good.
fn share(metric: &Metric, value: f64) -> Option<f64> {
    let best = metric.places.first()?.value;
    let share = if metric.better == Better::Higher { value / best } else { best / value };
    Some(share).filter(|share| share.is_finite())
}

/// Each figure as a share of the best one of its metric: a row a metric, a column a run.
fn shares(ranking: &Ranking) -> Option<Chart> {
    let names: Vec<String> = ranking.metrics.iter().map(name).collect();
    let points = ranking.metrics.iter().enumerate().flat_map(|(row, metric)| {
        let point = move |place: &crate::compare::rank::Place| {
            Some(vec![Some(place.side as f64), Some(row as f64), Some(share(metric, place.value)?)])
        };
        metric.places.iter().filter_map(point)
    });
    (!names.is_empty()).then(|| Chart {
        id: "shares".to_owned(),
        title: "Each figure as a share of the best".to_owned(),
        note: "1 is the best of a metric".to_owned(),
        kind: Kind::Heat,
        x: Axis::categories("", ranking.sides.clone()),
        y: Axis::categories("", names),
        series: vec![Series::new("share of the best", Role::Own, points.collect())],
        bands: Vec::new(),
    })
}

/// The same against the price: a point a run, a series a metric.
fn by_price(ranking: &Ranking) -> Option<Chart> {
    let prices = ranking.prices.as_ref()?;
    let series = |(index, metric): (usize, &Metric)| {
        let point = |place: &crate::compare::rank::Place| {
            let price = prices.values.get(place.side).copied()?;
            Some((vec![Some(price), share(metric, place.value)], ranking.sides.get(place.side)?.clone()))
        };
        let mut points: Vec<_> = metric.places.iter().filter_map(point).collect();
        points.sort_by(|(a, _), (b, _)| a[0].unwrap_or(0.0).total_cmp(&b[0].unwrap_or(0.0)));
        let (points, labels) = points.into_iter().unzip();
        Series { labels, colour: Some(index), ..Series::new(name(metric), Role::Own, points) }
    };
    Some(Chart {
        id: "price".to_owned(),
        title: "Performance against price".to_owned(),
        note: "a line a metric, as a share of the best".to_owned(),
        kind: Kind::Lines,
        x: Axis::linear(&format!("price, {}", prices.unit), ""),
        y: Axis::linear("share of the best", ""),
        series: ranking.metrics.iter().enumerate().map(series).collect(),
        bands: Vec::new(),
    })
}
