//! Ranking of several sides per metric. The rank of a side is a range: at best after all sides that
//! are better, at worst before all that are worse. With prices, also by result per price.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::FRAC_PI_2;

use plimsoll_bench::Better;
use plimsoll_model::case::{Case, Pattern};
use plimsoll_model::limit::median;
use plimsoll_model::measurement::MetricResult;
use plimsoll_units::quantity::Unit;
use serde::Serialize;

use super::cases::{MatchedCase, SideFigures, distinct_metrics};
use super::{
    ComparedMetric, DifferenceVerdict, Floors, JudgedDifference, RunMetric, RunNoise, SideLogarithm,
    Undecided, alike, direction_of, excluded, foreign, noise_of, spread,
};

/// Price of each side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prices {
    /// Prices in the order of the sides.
    pub values: Vec<f64>,
    /// Unit as typed: `$/h`.
    pub unit: String,
}

/// A side in one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankedSide {
    /// Index of the side.
    pub side: usize,
    /// Result: the median over its runs.
    pub value: f64,
    /// Half the width of the 95 % interval, with noise between runs, as a share; null if unknown.
    pub half: Option<f64>,
    /// Best and worst possible rank, from 1.
    pub ranks: [usize; 2],
    /// Share of the limit, if known.
    pub of_limit: Option<f64>,
    /// Delivered headline, interruptions included, if more than 10 % of the time was excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<f64>,
    /// Parameters that differ between the sides, with this side's values.
    pub with: Vec<String>,
    /// Result per price: a rate divided by the price, a time multiplied by it.
    pub per_price: Option<f64>,
    /// Best and worst possible rank per price.
    pub ranks_per_price: Option<[usize; 2]>,
}

/// A metric of one case on several sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The case of the first side that has it.
    pub case: Case,
    /// Node, if a side has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// Whether it is the case's headline.
    pub headline: bool,
    /// Unit of all results.
    pub unit: Unit,
    /// Better direction; null for a metric without one.
    pub better: Option<Better>,
    /// Sides with a result, best first.
    pub places: Vec<RankedSide>,
    /// External cause why some sides are in no order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unordered: Option<String>,
}

/// Weighted geometric mean of a side's results, each relative to the best one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Index of the side.
    pub side: usize,
    /// Score; 1 is the best side in every case.
    pub value: f64,
    /// Half the width of the 95 % interval, as a share; null if a noise is unknown.
    pub half: Option<f64>,
}

/// A weighted case that is in no score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unweighed {
    /// Case id, or the typed name if no matching case has results of two sides.
    pub name: String,
    /// Reason, as a clause after "because".
    pub why: String,
}

#[derive(Clone)]
pub(super) struct RankEntry<'f, 'r> {
    pub(super) side: usize,
    pub(super) figures: &'f SideFigures<'r>,
    pub(super) runs: Vec<RunMetric>,
}

pub(super) struct RankedMetric<'f, 'r> {
    result: &'r MetricResult,
    headline: bool,
    better: Option<Better>,
    entries: Vec<RankEntry<'f, 'r>>,
    pub(super) compared: Vec<ComparedMetric>,
    pub(super) by_price: Vec<ComparedMetric>,
}

impl<'f, 'r> RankedMetric<'f, 'r> {
    pub(super) fn all(
        members: &MatchedCase<'f, 'r>,
        floors: &[Floors],
        prices: Option<&[f64]>,
        fail_on: Option<f64>,
    ) -> Vec<Self> {
        let results = distinct_metrics(members.iter().flat_map(|(_, figures)| figures.metrics()));
        let first = members.iter().flat_map(|(_, figures)| &figures.all).next();
        let headline = first.and_then(|taken| taken.measurement.metrics.first());
        let one = |result: &'r MetricResult| {
            let entry = |(side, figures): &(usize, &'f SideFigures<'r>)| {
                let runs = figures.metric(result).filter(|runs| !runs.is_empty())?;
                Some(RankEntry { side: *side, figures, runs })
            };
            let entries: Vec<RankEntry<'f, 'r>> = members.iter().filter_map(entry).collect();
            let case = entries.first()?.figures.case;
            let headline = headline.is_some_and(|headline| headline.name == result.name);
            let better = direction_of(case, &result.name, result.better);
            let made = Self { result, headline, better, entries, compared: Vec::new(), by_price: Vec::new() };
            let compared = made.differences(&made.entries, floors, fail_on);
            let by_price = prices.map(|prices| made.differences(&made.paid(prices), floors, fail_on));
            Some(Self { compared, by_price: by_price.unwrap_or_default(), ..made })
        };
        results.into_iter().filter_map(one).filter(|one| one.entries.len() > 1).collect()
    }

    /// Returns the result per price: a rate is divided by the price, a time multiplied by it.
    fn per_price(&self, value: f64, price: f64) -> f64 {
        if self.better == Some(Better::Lower) { value * price } else { value / price }
    }

    fn paid(&self, prices: &[f64]) -> Vec<RankEntry<'f, 'r>> {
        let mut entries = self.entries.clone();
        for entry in &mut entries {
            let price = prices.get(entry.side).copied().unwrap_or(1.0);
            entry.runs.iter_mut().for_each(|run| run.median = self.per_price(run.median, price));
        }
        entries
    }

    fn differences(
        &self,
        entries: &[RankEntry<'_, '_>],
        floors: &[Floors],
        fail_on: Option<f64>,
    ) -> Vec<ComparedMetric> {
        let difference = |[a, b]: [&RankEntry<'_, '_>; 2]| {
            let known = noise_of([a, b], &self.result.name, floors);
            let judged = JudgedDifference {
                a: SideLogarithm::of(&a.runs),
                b: SideLogarithm::of(&b.runs),
                known,
                disturbed: a.figures.disturbed().max(b.figures.disturbed()),
                foreign: foreign([a, b]),
                excluded: excluded([a, b]),
                fail_on,
            };
            let delivered =
                |entry: &RankEntry<'_, '_>| entry.figures.median_delivered().filter(|_| self.headline);
            let blank = ComparedMetric {
                sides: [a.side, b.side],
                row: 0,
                case: b.figures.case.clone(),
                node: b.figures.node.map(str::to_owned),
                metric: self.result.name.clone(),
                headline: self.headline,
                unit: self.result.unit,
                better: self.better,
                a: a.value()?,
                b: b.value()?,
                delivered: [a, b].map(delivered),
                difference: None,
                interval: None,
                smallest: None,
                unseen: None,
                noise: known.map(|known| known.origin),
                outliers: known.map_or(0, |known| known.outliers),
                p: None,
                verdict: DifferenceVerdict::Inconclusive,
                why: None,
                doubt: None,
                differs: alike::difference(a.figures.case, b.figures.case),
            };
            Some(judged.enter(blank))
        };
        let pairs = entries.iter().enumerate().flat_map(|(at, b)| entries[..at].iter().map(move |a| [a, b]));
        pairs.filter_map(difference).collect()
    }

    /// Returns the sides, best first, each with the ranks that are possible within the noise.
    pub(super) fn ranked(&self, floors: &[Floors], prices: Option<&[f64]>) -> Ranked {
        let cases: Vec<&Case> = self.entries.iter().map(|entry| entry.figures.case).collect();
        let names: BTreeSet<&str> = cases.iter().flat_map(|case| alike::differing(cases[0], case)).collect();
        let place = |entry: &RankEntry<'_, '_>| {
            let of_runs = entry.figures.all.iter().flat_map(|taken| &taken.measurement.metrics);
            let shares = of_runs.filter(|m| m.name == self.result.name).filter_map(|m| m.of_limit);
            let value = entry.value()?;
            let price = prices.and_then(|all| all.get(entry.side).copied());
            let with = |name: &&str| Some(format!("{name} {}", entry.figures.case.get(name)?));
            let ranks = |all: &[ComparedMetric]| ranks(all, entry.side, self.entries.len());
            Some(RankedSide {
                side: entry.side,
                value,
                half: self.half(entry, floors),
                ranks: ranks(&self.compared),
                of_limit: median(shares.filter(|share| share.is_finite()).collect()),
                delivered: entry.figures.median_delivered().filter(|_| self.headline),
                with: names.iter().filter_map(with).collect(),
                per_price: price.map(|price| self.per_price(value, price)),
                ranks_per_price: price.map(|_| ranks(&self.by_price)),
            })
        };
        let mut places: Vec<RankedSide> = self.entries.iter().filter_map(place).collect();
        if let Some(better) = self.better {
            places.sort_by(|a, b| better.gain(b.value).total_cmp(&better.gain(a.value)));
        }
        let came_between = [Some(Undecided::Interrupted), Some(Undecided::Migrated)];
        let unordered = self.compared.iter().find(|one| came_between.contains(&one.doubt));
        Ranked {
            case: cases[0].clone(),
            node: self.entries[0].figures.node.map(str::to_owned),
            metric: self.result.name.clone(),
            headline: self.headline,
            unit: self.result.unit,
            better: self.better,
            places,
            unordered: unordered.and_then(|one| one.why.clone()),
        }
    }

    /// Returns half the 95 % interval of a side's result as a share (0.01); `None` if unknown.
    fn half(&self, entry: &RankEntry<'_, '_>, floors: &[Floors]) -> Option<f64> {
        let noise = match spread(&entry.runs) {
            Some((noise, _)) => RunNoise { deviation: noise.deviation * FRAC_PI_2.sqrt(), ..noise },
            None => noise_of([entry, entry], &self.result.name, floors)?.noise,
        };
        let evidence = SideLogarithm::of(&entry.runs);
        let error = noise.deviation.hypot(evidence.error) / evidence.runs.sqrt();
        Some((noise.quantile(0.975) * error).exp_m1())
    }
}

impl RankEntry<'_, '_> {
    fn value(&self) -> Option<f64> {
        median(self.runs.iter().map(|run| run.median).collect())
    }
}

/// Returns best and worst possible rank (from 1) of side number `side` among `of` sides.
fn ranks(compared: &[ComparedMetric], side: usize, of: usize) -> [usize; 2] {
    let count = |of_a: DifferenceVerdict, of_b: DifferenceVerdict| {
        let is = |one: &&ComparedMetric| {
            one.sides[0] == side && one.verdict == of_a || one.sides[1] == side && one.verdict == of_b
        };
        compared.iter().filter(is).count()
    };
    let (improved, regressed) = (DifferenceVerdict::Improvement, DifferenceVerdict::Regression);
    [1 + count(improved, regressed), of - count(regressed, improved)]
}

const NOT_ALL: &str = "not all sides have it";

impl Ranked {
    /// Returns why the metric cannot be in the scores of `sides` sides; `None` if it can.
    fn unfit(&self, sides: usize) -> Option<String> {
        let has_ratio = |place: &RankedSide| place.value.is_finite() && place.value > 0.0;
        match &self.unordered {
            _ if self.places.len() != sides => Some(NOT_ALL.to_owned()),
            Some(why) => Some(format!("its sides are not all ordered ({why})")),
            None if !self.places.iter().all(has_ratio) => Some("one of its figures is 0".to_owned()),
            None => None,
        }
    }
}

/// Returns the scores of the sides, best first, and the weighted cases that are in no score.
/// `weights` has a weight per pattern of case ids; `sides` is the number of sides.
pub(super) fn scores(
    all: &[Ranked],
    sides: usize,
    weights: &BTreeMap<String, f64>,
) -> (Vec<Score>, Vec<Unweighed>) {
    let mut sums = vec![(0.0, Some(0.0)); sides];
    let (mut total, mut unweighed) = (0.0, Vec::new());
    for (name, weight) in weights {
        let pattern = Pattern::parse(name);
        let is_named = |m: &Ranked| pattern.as_ref().is_ok_and(|one| one.matches(m.case.id().as_str()));
        let named: Vec<&Ranked> = all.iter().filter(|m| m.headline && is_named(m)).collect();
        if named.is_empty() {
            unweighed.push(Unweighed { name: name.clone(), why: NOT_ALL.to_owned() });
        }
        let unfit =
            |m: &&Ranked| Some(Unweighed { name: m.case.id().as_str().to_owned(), why: m.unfit(sides)? });
        unweighed.extend(named.iter().filter_map(unfit));
        let own: Vec<&Ranked> = named.into_iter().filter(|m| m.unfit(sides).is_none()).collect();
        if own.is_empty() {
            continue;
        }
        total += weight;
        for metric in &own {
            let share = weight / own.len() as f64;
            let Some(best) = metric.places.first().map(|place| place.value) else { continue };
            for place in &metric.places {
                let far = -(place.value / best).ln().abs();
                let (sum, square) = &mut sums[place.side];
                *sum += share * far;
                let own = place.half.map(|half| (share * half.ln_1p()).powi(2));
                *square = square.zip(own).map(|(square, own)| square + own);
            }
        }
    }
    if total <= 0.0 {
        return (Vec::new(), unweighed);
    }
    let score = |(side, (sum, square)): (usize, (f64, Option<f64>))| Score {
        side,
        value: (sum / total).exp(),
        half: square.map(|square| (square.sqrt() / total).exp_m1()),
    };
    let mut scores: Vec<Score> = sums.into_iter().enumerate().map(score).collect();
    scores.sort_by(|a, b| b.value.total_cmp(&a.value));
    (scores, unweighed)
}

#[cfg(test)]
mod tests;
