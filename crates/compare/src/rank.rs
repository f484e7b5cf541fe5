//! Several sides at once: by metric, which are better than which, as far as noise lets that be known.
//!
//! Every two sides are tested for a difference of their figures (logarithms, so that half and twice are as far). The variance of a side is
//! that between its runs, moderated by what all sides have in common, and that within its runs; with fewer than two runs on a side it
//! is what `doctor` measured or the benchmark declares. Holm's correction is over all pairs and metrics together, so that the chance
//! that any order is wrong is [`FAMILY`]. The ranks of a side are those that this leaves possible: at best after all that are better, at
//! worst before all that are worse.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::cases::{Figures, Pair};
use super::judge::{Evidence, FAMILY, OfRun};
use super::{Floors, Noise, Origin, Side, alike, direction, excluded, foreign, noise_of};
use crate::bench::Better;
use crate::case::{Case, Pattern, Value};
use crate::limit::median;
use crate::measurement::MetricResult;
use crate::quantity::Unit;
use crate::stats::holm;

/// Most sides that are ranked.
pub const MOST: usize = 30;
/// Differences below this share are never told apart: placement in memory alone does as much.
const LEAST: f64 = 0.01;
/// Runs of a side from which on their own spread counts.
const SPREAD: usize = 2;

/// What each side costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prices {
    /// In the order of the sides.
    pub values: Vec<f64>,
    /// Of what and for what, as it was typed: `$/h`.
    pub unit: String,
}

/// What may be asked of a ranking.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The price of each side.
    pub prices: Option<Prices>,
    /// Weights of benchmarks in the score; without any there is no score.
    pub weights: BTreeMap<String, f64>,
    /// All metrics, not the headlines alone.
    pub all: bool,
}

/// A fact that is not the same on all sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differs {
    /// Stable code.
    pub code: &'static str,
    /// What differs, in words.
    pub what: &'static str,
    /// What each side has, in the order of the sides.
    pub values: Vec<String>,
}

/// A side in one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// Index of the side.
    pub side: usize,
    /// Its figure: the median over its runs.
    pub value: f64,
    /// Half the width of its 95 % interval, noise between runs included, as a share; null where the noise is unknown.
    pub half: Option<f64>,
    /// The best and the worst rank that it may have, from 1.
    pub ranks: [usize; 2],
    /// Its share of its own limit, where that is known.
    pub of_limit: Option<f64>,
    /// Parameters that are not as on the other sides.
    pub with: Vec<String>,
    /// Figure per price: a rate divided by it, a time multiplied by it.
    pub per_price: Option<f64>,
    /// The best and the worst rank by that.
    pub ranks_per_price: Option<[usize; 2]>,
}

/// A metric of one case on several sides, the best first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// The case as the first side that has it measured it.
    pub case: Case,
    /// Name of the metric.
    pub metric: String,
    /// Whether it is the case's headline.
    pub headline: bool,
    /// Unit of all figures.
    pub unit: Unit,
    /// Direction.
    pub better: Better,
    /// Sides that have a figure.
    pub places: Vec<Place>,
    /// Sides that have none.
    pub without: Vec<usize>,
    /// Why some are in no order, whatever their figures.
    pub whys: Vec<String>,
}

/// The weighted geometric mean of a side's figures, each as a share of the best one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Index of the side.
    pub side: usize,
    /// 1 would be the best in all.
    pub value: f64,
    /// Half the width of its 95 % interval, as a share; null where a noise is unknown.
    pub half: Option<f64>,
}

/// The ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// Names of the sides.
    pub sides: Vec<String>,
    /// Runs of each.
    pub runs: Vec<usize>,
    /// Prices of each, if they were given.
    pub prices: Option<Prices>,
    /// The chance that any order is wrong.
    pub family: f64,
    /// What differs besides the figures.
    pub differs: Vec<Differs>,
    /// By metric.
    pub metrics: Vec<Metric>,
    /// Scores, the best first; empty without weights.
    pub scores: Vec<Score>,
    /// Weighted benchmarks that not all sides have, and are in no score.
    pub unweighed: Vec<String>,
    /// Where the noise between runs is known from.
    pub noise: Vec<Origin>,
}

/// One side's figure of a metric.
struct Entry<'f, 'r> {
    side: usize,
    name: &'f str,
    figures: &'f Figures<'r>,
    runs: Vec<OfRun>,
    evidence: Evidence,
    of_limit: Option<f64>,
    value: f64,
}

/// A metric before it is judged.
struct Raw<'f, 'r> {
    metric: &'r MetricResult,
    headline: bool,
    better: Better,
    entries: Vec<Entry<'f, 'r>>,
    without: Vec<usize>,
    names: BTreeSet<&'static str>,
}

/// Ranks the sides. `floors` has what doctor measured on the machines at hand.
pub fn rank(sides: &[Side], floors: &[Floors], wanted: &Wanted) -> Ranking {
    let figures: Vec<Vec<Figures<'_>>> = sides.iter().map(|side| Figures::of(side, false)).collect();
    let names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
    let raw = gathered(&figures, &names, wanted.all);
    let prices = wanted.prices.as_ref().map(|prices| prices.values.as_slice());
    let mut tests = Vec::new();
    for metric in &raw {
        tests.push(metric.tests(floors, prices));
    }
    let family: Vec<f64> = tests.iter().flatten().flat_map(|test| &test.found).map(|one| one.p).collect();
    let all = tests.iter_mut().flatten().flat_map(|test| &mut test.found);
    for (one, p) in all.zip(holm(&family)) {
        one.is_real &= p < FAMILY;
    }
    let origins: BTreeSet<Origin> = tests.iter().flatten().filter_map(|test| test.origin).collect();
    let metrics: Vec<Metric> =
        raw.iter().zip(&tests).map(|(metric, tests)| metric.ranked(tests, prices)).collect();
    let (scores, unweighed) = scores(&metrics, sides.len(), &wanted.weights);
    Ranking {
        sides: sides.iter().map(|side| side.name.clone()).collect(),
        runs: sides.iter().map(|side| side.runs.len()).collect(),
        prices: wanted.prices.clone(),
        family: FAMILY,
        differs: alike::among(sides),
        metrics,
        scores,
        unweighed,
        noise: origins.into_iter().collect(),
    }
}

/// What a case is called among several machines: the threads of all CPUs are as many as there are.
fn key(figures: &Figures<'_>, dropped: &BTreeSet<&str>) -> String {
    let case = figures.case;
    let cpus = figures.all.first().map_or(0, |taken| taken.cpus());
    let word = |(name, value): &(&str, Value)| match (*name, case.threads()) {
        _ if dropped.contains(name) => None,
        ("threads", threads) if threads == cpus && cpus > 1 => Some("threads=all".to_owned()),
        _ => Some(format!("{name}={value}")),
    };
    let words = case.params().iter().filter_map(|(name, value)| word(&(*name, value.clone())));
    std::iter::once(case.benchmark().to_owned()).chain(words).collect::<Vec<_>>().join("/")
}

/// Parameters of a benchmark that differ from side to side and tell no two cases of a side apart, such as the instruction set
/// or a size that follows the caches.
fn dropped<'c>(all: &[Vec<&'c Figures<'c>>]) -> BTreeSet<&'c str> {
    let names: BTreeSet<&str> =
        all.iter().flatten().flat_map(|f| f.case.params()).map(|(name, _)| *name).collect();
    let mut found = BTreeSet::new();
    for name in names.into_iter().filter(|name| *name != "threads") {
        let with: BTreeSet<&str> = found.iter().copied().chain([name]).collect();
        let keys = |side: &[&Figures<'_>], dropped: &BTreeSet<&str>| -> Vec<String> {
            side.iter().map(|figures| key(figures, dropped)).collect()
        };
        let is_distinct = |side: &Vec<&Figures<'_>>| {
            let keys = keys(side, &with);
            keys.iter().collect::<BTreeSet<_>>().len() == keys.len()
        };
        let sets: BTreeSet<BTreeSet<String>> = all
            .iter()
            .filter(|side| !side.is_empty())
            .map(|side| keys(side, &found).into_iter().collect())
            .collect();
        if sets.len() > 1 && all.iter().all(is_distinct) {
            found.insert(name);
        }
    }
    found
}

/// The metrics that at least two sides have.
fn gathered<'f>(sides: &'f [Vec<Figures<'f>>], names: &[&'f str], all: bool) -> Vec<Raw<'f, 'f>> {
    let mut benchmarks: Vec<&str> = Vec::new();
    for figures in sides.iter().flatten().filter(|figures| !figures.all.is_empty()) {
        if !benchmarks.contains(&figures.case.benchmark()) {
            benchmarks.push(figures.case.benchmark());
        }
    }
    let mut found = Vec::new();
    for benchmark in benchmarks {
        let own = |side: &'f Vec<Figures<'f>>| -> Vec<&'f Figures<'f>> {
            side.iter().filter(|f| f.case.benchmark() == benchmark && !f.all.is_empty()).collect()
        };
        let of: Vec<Vec<&Figures<'_>>> = sides.iter().map(own).collect();
        let dropped = dropped(&of);
        let mut cases: Vec<(String, Vec<(usize, &Figures<'_>)>)> = Vec::new();
        for (side, figures) in
            of.iter().enumerate().flat_map(|(side, all)| all.iter().map(move |f| (side, *f)))
        {
            let key = key(figures, &dropped);
            match cases.iter_mut().find(|(known, _)| *known == key) {
                Some((_, sides)) => sides.push((side, figures)),
                None => cases.push((key, vec![(side, figures)])),
            }
        }
        for (_, with) in cases.iter().filter(|(_, with)| with.len() > 1) {
            found.extend(raw(with, names, all));
        }
    }
    found
}

/// The metrics of one case.
fn raw<'f>(with: &[(usize, &'f Figures<'f>)], sides: &[&'f str], all: bool) -> Vec<Raw<'f, 'f>> {
    let Some((_, first)) = with.first() else { return Vec::new() };
    let headline = first.all.first().and_then(|taken| taken.measurement.metrics.first());
    let is_headline = |metric: &MetricResult| headline.is_some_and(|headline| headline.name == metric.name);
    let wanted = first.metrics().into_iter().filter(|metric| all || is_headline(metric));
    let names = varying(with);
    let one = |metric: &'f MetricResult| {
        let better = direction(first.case, metric)?;
        let entry = |(side, figures): &(usize, &'f Figures<'f>)| {
            let runs = figures.metric(metric)?;
            let shares = figures.all.iter().flat_map(|taken| &taken.measurement.metrics);
            let shares = shares.filter(|m| m.name == metric.name).filter_map(|m| m.of_limit);
            Some(Entry {
                side: *side,
                name: sides.get(*side)?,
                figures,
                value: median(runs.iter().map(|run| run.median).collect())?,
                evidence: Evidence::of(&runs),
                of_limit: median(shares.filter(|share| share.is_finite()).collect()),
                runs,
            })
        };
        let entries: Vec<Entry<'_, '_>> = with.iter().filter_map(entry).collect();
        let without =
            (0..sides.len()).filter(|side| !entries.iter().any(|entry| entry.side == *side)).collect();
        let headline = is_headline(metric);
        (entries.len() > 1).then(|| Raw { metric, headline, better, entries, without, names: names.clone() })
    };
    wanted.filter_map(one).collect()
}

/// Parameters that are not the same in all of these cases.
fn varying(with: &[(usize, &Figures<'_>)]) -> BTreeSet<&'static str> {
    let Some((_, first)) = with.first() else { return BTreeSet::new() };
    let differs = |name: &str| with.iter().any(|(_, f)| f.case.get(name) != first.case.get(name));
    let names = with.iter().flat_map(|(_, f)| f.case.params()).map(|(name, _)| *name);
    names.filter(|name| differs(name)).collect()
}

/// What two sides have of a metric, tested by their figures and then by price.
struct Test {
    /// Indices of the entries.
    pair: [usize; 2],
    /// By figure and, where there are prices, by price.
    found: Vec<Found>,
    origin: Option<Origin>,
    why: Option<String>,
}

/// A difference.
#[derive(Clone, Copy, Default)]
struct Found {
    first_is_better: bool,
    /// Probability of it without a cause.
    p: f64,
    is_real: bool,
}

/// A side's noise between runs.
struct Spread {
    variance: f64,
    freedom: f64,
}

impl Spread {
    /// The variance of the median over a side's runs: of normal values up to π ÷ 2 times that of their mean (Kendall & Stuart, The
    /// Advanced Theory of Statistics, vol. 1, §14.10). Of one or two values both are the same.
    fn of_median(&self, evidence: &Evidence) -> f64 {
        let factor = if evidence.runs > 2.0 { std::f64::consts::FRAC_PI_2 } else { 1.0 };
        factor * (self.variance + evidence.error.powi(2)) / evidence.runs
    }
}

impl Raw<'_, '_> {
    /// What is common to all sides with several runs: the pooled variance between runs, and how much is known of it.
    fn pooled(&self) -> Option<Noise> {
        let values: Vec<Vec<f64>> =
            self.entries.iter().map(|entry| entry.runs.iter().map(|run| run.median).collect()).collect();
        Noise::of(values.iter().map(Vec::as_slice))
    }

    /// The spread of one side's own runs, moderated.
    fn own(&self, entry: &Entry<'_, '_>) -> Option<Spread> {
        let values: Vec<f64> = entry.runs.iter().map(|run| run.median).collect();
        let own = Noise::of([values.as_slice()]).filter(|_| values.len() >= SPREAD)?;
        let pooled = self.pooled()?;
        let common = Noise { freedom: pooled.freedom.min(own.freedom), ..pooled };
        let noise = own.moderated(&common);
        Some(Spread { variance: noise.deviation.powi(2), freedom: noise.freedom })
    }

    /// The noise of two sides, and where it is known from.
    fn noise(&self, pair: [&Entry<'_, '_>; 2], floors: &[Floors]) -> Option<([Spread; 2], f64, Origin)> {
        if let [Some(a), Some(b)] = pair.map(|entry| self.own(entry)) {
            return Some(([a, b], LEAST, Origin::Runs));
        }
        let [a, b] = pair;
        let both = Pair { a: a.figures, b: b.figures, differs: Vec::new() };
        let known = noise_of(&both, &self.metric.name, [&a.runs, &b.runs], floors)?;
        let of = || Spread { variance: known.noise.deviation.powi(2), freedom: known.noise.freedom };
        Some(([of(), of()], known.noise.smallest(), known.origin))
    }

    /// Every two sides.
    fn tests(&self, floors: &[Floors], prices: Option<&[f64]>) -> Vec<Test> {
        let all = self.entries.len();
        let pairs = (0..all).flat_map(|a| (a + 1..all).map(move |b| [a, b]));
        pairs.map(|pair| self.test(pair, floors, prices)).collect()
    }

    fn test(&self, pair: [usize; 2], floors: &[Floors], prices: Option<&[f64]>) -> Test {
        let [a, b] = pair.map(|index| &self.entries[index]);
        let mut test = Test { pair, found: Vec::new(), origin: None, why: None };
        let both = Pair { a: a.figures, b: b.figures, differs: Vec::new() };
        if let Some(why) = excluded(&both, [a.name, b.name]).or_else(|| foreign(&both, [a.name, b.name])) {
            test.why = Some(why.text);
            return test;
        }
        let (Some(x), Some(y)) = (a.evidence.centre, b.evidence.centre) else { return test };
        let Some(([of_a, of_b], least, origin)) = self.noise([a, b], floors) else { return test };
        test.origin = Some(origin);
        let [of_a, of_b] = [(of_a, &a.evidence), (of_b, &b.evidence)]
            .map(|(spread, evidence)| (spread.of_median(evidence), spread.freedom));
        let error = (of_a.0 + of_b.0).sqrt();
        // Welch and Satterthwaite: how much is known of the sum of two variances.
        let freedom = match error > 0.0 {
            true => error.powi(4) / (of_a.0.powi(2) / of_a.1 + of_b.0.powi(2) / of_b.1),
            false => of_a.1 + of_b.1,
        };
        let t = Noise { deviation: 1.0, freedom, largest: 0.0 };
        let price =
            |entry: &Entry<'_, '_>| prices.and_then(|all| all.get(entry.side)).map(|price| price.ln());
        // A time that is paid for counts as much more as it costs.
        let paid = price(a).zip(price(b)).map(|(a, b)| match self.better {
            Better::Higher => b - a,
            Better::Lower => a - b,
        });
        let found = |difference: f64| Found {
            first_is_better: (difference > 0.0) == (self.better == Better::Higher),
            is_real: difference.abs() > least,
            p: match error > 0.0 {
                true => t.probability(difference / error),
                false => f64::from(u8::from(difference == 0.0)),
            },
        };
        test.found = std::iter::once(x - y).chain(paid.map(|paid| x - y + paid)).map(found).collect();
        test
    }

    fn ranked(&self, tests: &[Test], prices: Option<&[f64]>) -> Metric {
        let mut places: Vec<Place> =
            (0..self.entries.len()).map(|index| self.place(index, tests, prices)).collect();
        places.sort_by(|a, b| match self.better {
            Better::Higher => b.value.total_cmp(&a.value),
            Better::Lower => a.value.total_cmp(&b.value),
        });
        let case =
            self.entries.first().map(|entry| entry.figures.case.clone()).unwrap_or_else(|| Case::of(""));
        Metric {
            case,
            metric: self.metric.name.clone(),
            headline: self.headline,
            unit: self.metric.unit,
            better: self.better,
            places,
            without: self.without.clone(),
            whys: tests
                .iter()
                .filter_map(|test| test.why.clone())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        }
    }

    fn place(&self, index: usize, tests: &[Test], prices: Option<&[f64]>) -> Place {
        let entry = &self.entries[index];
        let own: Vec<&Test> = tests.iter().filter(|test| test.pair.contains(&index)).collect();
        let ranks = |kind: usize| {
            let real = own.iter().filter_map(|test| {
                let found = test.found.get(kind).filter(|found| found.is_real)?;
                Some(found.first_is_better == (test.pair[0] == index))
            });
            let (wins, losses): (Vec<bool>, Vec<bool>) = real.partition(|wins| *wins);
            [1 + losses.len(), self.entries.len() - wins.len()]
        };
        let price = prices.and_then(|all| all.get(entry.side).copied());
        let said = |name: &&'static str| {
            entry
                .figures
                .case
                .get(name)
                .map_or_else(|| format!("no {name}"), |value| format!("{name} {value}"))
        };
        Place {
            side: entry.side,
            value: entry.value,
            half: self.half(entry),
            ranks: ranks(0),
            of_limit: entry.of_limit,
            with: self.names.iter().map(said).collect(),
            per_price: price.map(|price| match self.better {
                Better::Higher => entry.value / price,
                Better::Lower => entry.value * price,
            }),
            ranks_per_price: price.map(|_| ranks(1)),
        }
    }

    /// Half of the 95 % interval of a side's figure.
    fn half(&self, entry: &Entry<'_, '_>) -> Option<f64> {
        let spread = self.own(entry)?;
        let variance = spread.of_median(&entry.evidence);
        let noise = Noise { deviation: 1.0, freedom: spread.freedom, largest: 0.0 };
        Some((noise.quantile(0.975) * variance.sqrt()).exp_m1())
    }
}

/// The scores, the best first, and the weighted names that not all sides have.
fn scores(metrics: &[Metric], sides: usize, weights: &BTreeMap<String, f64>) -> (Vec<Score>, Vec<String>) {
    let mut sums = vec![(0.0, Some(0.0)); sides];
    let (mut total, mut unweighed) = (0.0, Vec::new());
    for (name, weight) in weights {
        // One that is no pattern names nothing.
        let pattern = Pattern::parse(name);
        let is_named = |m: &Metric| pattern.as_ref().is_ok_and(|one| one.matches(m.case.id().as_str()));
        let meant = |m: &&Metric| m.headline && m.places.len() == sides && is_named(m);
        let own: Vec<&Metric> = metrics.iter().filter(meant).collect();
        if own.is_empty() {
            unweighed.push(name.clone());
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
                *square =
                    square.zip(place.half).map(|(square, half)| square + (share * half.ln_1p()).powi(2));
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
