//! Comparison as CSV rows.

use plimsoll_bench::Better;
use plimsoll_compare::{Comparison, RankedSide};
use plimsoll_units::quantity::Unit;

use crate::report::tidy::cell;

const COLUMNS: &str = "case,node,metric,unit,better,headline,side,runs,price,price_unit,value,ci95_half_share,best_rank,\
    worst_rank,of_limit,delivered,with,per_price,best_rank_per_price,worst_rank_per_price,difference,smallest,verdict";

/// Formats CSV with a header: a row per metric of a case and side, in base units, then a row per
/// score of a side, without a case.
pub(crate) fn text(comparison: &Comparison) -> String {
    let mut text = format!("{COLUMNS}\r\n");
    let mut row = |cells: &[String]| {
        let blank = COLUMNS.split(',').count().saturating_sub(cells.len());
        text += &format!("{}{}\r\n", cells.join(","), ",".repeat(blank));
    };
    for (index, one) in comparison.ranked.iter().enumerate() {
        let lead = [
            cell(one.case.id().as_str()),
            cell(one.node.as_deref().unwrap_or_default()),
            cell(&one.metric),
            one.unit.name().to_owned(),
            one.better.map(|better| better.word().to_owned()).unwrap_or_default(),
            one.headline.to_string(),
        ];
        for side in 0..comparison.sides.len() {
            let place = one.places.iter().find(|place| place.side == side);
            let figures = place.map(figures).unwrap_or_default();
            let mut all = comparison.compared.iter();
            let compared = all.find(|one| one.row == index && one.sides[1] == side);
            let verdict = compared
                .map(|one| [optional(one.difference), optional(one.smallest), one.verdict.code().to_owned()]);
            let of_side = of_side(comparison, side);
            row(&[lead.as_slice(), &of_side, &figures, &verdict.unwrap_or_default()].concat());
        }
    }
    let lead = ["", "", "score", Unit::One.name(), Better::Higher.word(), ""].map(str::to_owned);
    for score in &comparison.scores {
        let figures = [score.value.to_string(), optional(score.half)];
        row(&[lead.as_slice(), &of_side(comparison, score.side), &figures].concat());
    }
    text
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn of_side(comparison: &Comparison, side: usize) -> [String; 4] {
    let prices = comparison.prices.as_ref();
    [
        comparison.sides.get(side).map(|name| cell(name)).unwrap_or_default(),
        optional(comparison.runs.get(side)),
        optional(prices.and_then(|prices| prices.values.get(side))),
        prices.map(|prices| cell(&prices.unit)).unwrap_or_default(),
    ]
}

fn figures(place: &RankedSide) -> [String; 10] {
    let by_price = |index: usize| optional(place.ranks_per_price.map(|ranks| ranks[index]));
    [
        place.value.to_string(),
        optional(place.half),
        place.ranks[0].to_string(),
        place.ranks[1].to_string(),
        optional(place.of_limit),
        optional(place.delivered),
        cell(&place.with.join(" ")),
        optional(place.per_price),
        by_price(0),
        by_price(1),
    ]
}
