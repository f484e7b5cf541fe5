//! Comparison as CSV rows.

use plimsoll_bench::Better;
use plimsoll_compare::{ComparedMetric, Comparison, Ranked, RankedSide, Score};
use plimsoll_units::quantity::Unit;
use serde_json::json;

use crate::report::tidy::{self, Column};

/// A metric of a case, or else the score, on a side.
struct SideRow<'a> {
    comparison: &'a Comparison,
    side: usize,
    ranked: Option<&'a Ranked>,
    place: Option<&'a RankedSide>,
    compared: Option<&'a ComparedMetric>,
    score: Option<&'a Score>,
}

fn columns<'a>() -> Vec<Column<SideRow<'a>>> {
    vec![
        ("case", |of| json!(of.ranked.map(|one| one.case.id().to_string()))),
        ("node", |of| json!(of.ranked.and_then(|one| one.node.as_ref()))),
        ("metric", |of| json!(of.ranked.map_or("score", |one| one.metric.as_str()))),
        ("unit", |of| json!(of.ranked.map_or(Unit::One, |one| one.unit))),
        ("better", |of| json!(of.ranked.map_or(Some(Better::Higher), |one| one.better))),
        ("headline", |of| json!(of.ranked.map(|one| one.headline))),
        ("side", |of| json!(of.comparison.sides.get(of.side))),
        ("runs", |of| json!(of.comparison.runs.get(of.side))),
        ("price", |of| json!(of.comparison.prices.as_ref().and_then(|prices| prices.values.get(of.side)))),
        ("price_unit", |of| json!(of.comparison.prices.as_ref().map(|prices| &prices.unit))),
        ("value", |of| json!(of.place.map(|p| p.value).or(of.score.map(|s| s.value)))),
        ("ci95_half_share", |of| json!(of.place.map_or(of.score.and_then(|s| s.half), |p| p.half))),
        ("best_rank", |of| json!(of.place.map(|place| place.ranks[0]))),
        ("worst_rank", |of| json!(of.place.map(|place| place.ranks[1]))),
        ("of_limit", |of| json!(of.place.and_then(|place| place.of_limit))),
        ("delivered", |of| json!(of.place.and_then(|place| place.delivered))),
        ("with", |of| json!(of.place.map(|place| place.with.join(" ")))),
        ("per_price", |of| json!(of.place.and_then(|place| place.per_price))),
        ("best_rank_per_price", |of| json!(of.place.and_then(|place| Some(place.ranks_per_price?[0])))),
        ("worst_rank_per_price", |of| json!(of.place.and_then(|place| Some(place.ranks_per_price?[1])))),
        ("difference", |of| json!(of.compared.and_then(|one| one.difference))),
        ("smallest", |of| json!(of.compared.and_then(|one| one.smallest))),
        ("verdict", |of| json!(of.compared.map(|one| one.verdict))),
    ]
}

/// Formats CSV with a header: a row per metric of a case and side, in base units, then a row per
/// score of a side, without a case.
pub(crate) fn text(comparison: &Comparison) -> String {
    let blank = |side| SideRow { comparison, side, ranked: None, place: None, compared: None, score: None };
    let ranked = comparison.ranked.iter().enumerate().flat_map(|(index, one)| {
        (0..comparison.sides.len()).map(move |side| SideRow {
            ranked: Some(one),
            place: one.places.iter().find(|place| place.side == side),
            compared: comparison.compared.iter().find(|one| one.row == index && one.sides[1] == side),
            ..blank(side)
        })
    });
    let scores = comparison.scores.iter().map(|score| SideRow { score: Some(score), ..blank(score.side) });
    tidy::table(&columns(), ranked.chain(scores))
}
