//! Several sides at once: by metric, which are better than which, as far as noise lets that be known.
//!
//! Every two sides are tested for a difference of their figures (logarithms, so that half and twice are as far). The variance of a side is
//! that between its runs, moderated by what all sides have in common, and that within its runs; with fewer than two runs on a side it
//! is what `doctor` measured or the benchmark declares. Holm's correction is over all pairs and metrics together, so that the chance
//! that any order is wrong is [`FAMILY`]. The ranks of a side are those that this leaves possible: at best after all that are better, at
//! worst before all that are worse.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::cases::{Figures, Pair, Taken};
use super::judge::{Evidence, FAMILY, OfRun};
use super::{Difference, Floors, Noise, Origin, Side, alike, direction_of, excluded, foreign, noise_of};
use crate::bench::Better;
use crate::case::{Case, Key, Pattern};
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
    /// The delivered headline, interruptions included, if more than 10 % of the time was excluded from the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<f64>,
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

/// A weighted case that is in no score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unweighed {
    /// The case; what was typed, where none of its cases has figures of two sides.
    pub name: String,
    /// Why, as it is said after "because".
    pub why: String,
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
    pub differs: Vec<Difference>,
    /// By metric.
    pub metrics: Vec<Metric>,
    /// Scores, the best first; empty without weights.
    pub scores: Vec<Score>,
    /// What is weighted and in no score.
    pub unweighed: Vec<Unweighed>,
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
    delivered: Option<f64>,
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
    let origins: BTreeSet<Origin> =
        tests.iter().flatten().filter_map(|test| Some(test.noise?.origin)).collect();
    let metrics: Vec<Metric> =
        raw.iter().zip(&tests).map(|(metric, tests)| metric.ranked(tests, prices)).collect();
    let (scores, unweighed) = scores(&metrics, sides.len(), &wanted.weights);
    Ranking {
        sides: sides.iter().map(|side| side.name.clone()).collect(),
        runs: sides.iter().map(|side| side.runs.len()).collect(),
        prices: wanted.prices.clone(),
        family: FAMILY,
        differs: alike::differences(&sides.iter().collect::<Vec<_>>()),
        metrics,
        scores,
        unweighed,
        noise: origins.into_iter().collect(),
    }
}

/// What a side has of one benchmark.
struct Own<'f> {
    figures: Vec<&'f Figures<'f>>,
    /// See [`cpus`].
    cpus: Option<usize>,
}

impl Own<'_> {
    /// What its cases are called among several machines.
    fn keys(&self, dropped: &BTreeSet<&str>) -> Vec<String> {
        self.figures.iter().map(|figures| key(figures, self.cpus, dropped)).collect()
    }

    fn is_distinct(&self, dropped: &BTreeSet<&str>) -> bool {
        let keys = self.keys(dropped);
        keys.iter().collect::<BTreeSet<_>>().len() == keys.len()
    }
}

/// How many threads are those of all CPUs on a side, where that is the same for each of its measurements: as many as there are CPUs, or,
/// where no case has so many, as a quota allows.
fn cpus(side: &[Figures<'_>]) -> Option<usize> {
    let same = |of: fn(&Taken<'_>) -> usize| {
        let mut all = side.iter().flat_map(|figures| &figures.all).map(of);
        let first = all.next()?;
        all.all(|one| one == first).then_some(first)
    };
    let cpus = same(|taken| taken.cpus());
    let is_there = side.iter().any(|figures| Some(figures.case.threads()) == cpus);
    if is_there { cpus } else { same(|taken| taken.most_threads()) }
}

/// What a case is called among several machines: the threads of all CPUs are as many as there are. Of a dropped parameter only that
/// the case has it counts.
fn key(figures: &Figures<'_>, cpus: Option<usize>, dropped: &BTreeSet<&str>) -> String {
    let case = figures.case;
    let mut key = case.benchmark().to_owned();
    for (name, value) in case.params() {
        key += &match *name {
            name if dropped.contains(name) => format!("/{name}=*"),
            "threads" if case.threads() > 1 && cpus == Some(case.threads()) => "/threads=all".to_owned(),
            name => format!("/{name}={value}"),
        };
    }
    key
}

/// Parameters of a benchmark that follow the machine, differ from side to side and tell no two cases of a side apart, such as the
/// instruction set or a size that follows the caches.
fn dropped(all: &[Own<'_>]) -> BTreeSet<&'static str> {
    let params = all.iter().flat_map(|side| &side.figures).flat_map(|figures| figures.case.params());
    let names: BTreeSet<&'static str> = params.map(|(name, _)| *name).collect();
    let mut found = BTreeSet::new();
    for name in names.into_iter().filter(|name| Key::find(name).is_ok_and(|key| key.of_machine)) {
        let with: BTreeSet<&str> = found.iter().copied().chain([name]).collect();
        let present = all.iter().filter(|side| !side.figures.is_empty());
        let sets: BTreeSet<BTreeSet<String>> =
            present.map(|side| side.keys(&found).into_iter().collect()).collect();
        if sets.len() > 1 && all.iter().all(|side| side.is_distinct(&with)) {
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
    let cpus: Vec<Option<usize>> = sides.iter().map(|side| cpus(side)).collect();
    let mut found = Vec::new();
    for benchmark in benchmarks {
        let own = |(side, cpus): (&'f Vec<Figures<'f>>, &Option<usize>)| {
            let has =
                |figures: &&Figures<'_>| figures.case.benchmark() == benchmark && !figures.all.is_empty();
            Own { figures: side.iter().filter(has).collect(), cpus: *cpus }
        };
        let of: Vec<Own<'_>> = sides.iter().zip(&cpus).map(own).collect();
        let dropped = dropped(&of);
        let mut cases: Vec<(String, Vec<(usize, &Figures<'_>)>)> = Vec::new();
        for (side, own) in of.iter().enumerate() {
            for (key, figures) in own.keys(&dropped).into_iter().zip(&own.figures) {
                // No side is ranked against itself.
                let mut free = cases.iter_mut().filter(|(_, with)| with.iter().all(|(one, _)| *one != side));
                match free.find(|(known, _)| *known == key) {
                    Some((_, with)) => with.push((side, *figures)),
                    None => cases.push((key, vec![(side, *figures)])),
                }
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
        let better = direction_of(first.case, &metric.name, metric.better)?;
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
                delivered: figures.delivered().filter(|_| is_headline(metric)),
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
    /// The noise of both that it used.
    noise: Option<Between>,
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
#[derive(Clone, Copy, Debug)]
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

/// The noise of two sides.
#[derive(Clone, Copy, Debug)]
struct Between {
    spreads: [Spread; 2],
    /// Whether both are the same estimate.
    is_one: bool,
    /// The smallest difference that is told apart, as a logarithm.
    least: f64,
    origin: Origin,
}

impl Between {
    /// How much is known of the sum of both variances: of two estimates after Welch and Satterthwaite; of one no more than of it.
    fn freedom(&self, [a, b]: [f64; 2]) -> f64 {
        let [of_a, of_b] = self.spreads.map(|spread| spread.freedom);
        match a + b > 0.0 {
            _ if self.is_one => of_a,
            true => (a + b).powi(2) / (a.powi(2) / of_a + b.powi(2) / of_b),
            false => of_a + of_b,
        }
    }
}

impl Raw<'_, '_> {
    /// What is common to all sides with several runs: the pooled variance between runs, and how much is known of it.
    fn pooled(&self) -> Option<Noise> {
        let values: Vec<Vec<f64>> =
            self.entries.iter().map(|entry| entry.runs.iter().map(|run| run.median).collect()).collect();
        Noise::of(values.iter().map(Vec::as_slice))
    }

    /// The spread of one side's own runs, moderated. What is common has these runs in it, so it adds nothing to how much is known.
    fn own(&self, entry: &Entry<'_, '_>) -> Option<Spread> {
        let values: Vec<f64> = entry.runs.iter().map(|run| run.median).collect();
        let own = Noise::of([values.as_slice()]).filter(|_| values.len() >= SPREAD)?;
        let pooled = self.pooled()?;
        let common = Noise { freedom: pooled.freedom.min(own.freedom), ..pooled };
        let noise = own.moderated(&common);
        Some(Spread { variance: noise.deviation.powi(2), freedom: own.freedom })
    }

    /// The noise of two sides, and where it is known from.
    fn noise(&self, pair: [&Entry<'_, '_>; 2], floors: &[Floors]) -> Option<Between> {
        if let [Some(a), Some(b)] = pair.map(|entry| self.own(entry)) {
            return Some(Between { spreads: [a, b], is_one: false, least: LEAST, origin: Origin::Runs });
        }
        let [a, b] = pair;
        let both = Pair { a: a.figures, b: b.figures, differs: Vec::new() };
        let known = noise_of(&both, &self.metric.name, [&a.runs, &b.runs], floors)?;
        let spread = Spread { variance: known.noise.deviation.powi(2), freedom: known.noise.freedom };
        let least = known.noise.smallest();
        Some(Between { spreads: [spread; 2], is_one: true, least, origin: known.origin })
    }

    /// Every two sides.
    fn tests(&self, floors: &[Floors], prices: Option<&[f64]>) -> Vec<Test> {
        let all = self.entries.len();
        let pairs = (0..all).flat_map(|a| (a + 1..all).map(move |b| [a, b]));
        pairs.map(|pair| self.test(pair, floors, prices)).collect()
    }

    fn test(&self, pair: [usize; 2], floors: &[Floors], prices: Option<&[f64]>) -> Test {
        let [a, b] = pair.map(|index| &self.entries[index]);
        let mut test = Test { pair, found: Vec::new(), noise: None, why: None };
        let both = Pair { a: a.figures, b: b.figures, differs: Vec::new() };
        if let Some(why) = excluded(&both, [a.name, b.name]).or_else(|| foreign(&both, [a.name, b.name])) {
            test.why = Some(why.text);
            return test;
        }
        let (Some(x), Some(y)) = (a.evidence.centre, b.evidence.centre) else { return test };
        let Some(noise) = self.noise([a, b], floors) else { return test };
        test.noise = Some(noise);
        let [of_a, of_b] = noise.spreads;
        let variances = [of_a.of_median(&a.evidence), of_b.of_median(&b.evidence)];
        let error = variances.iter().sum::<f64>().sqrt();
        let t = Noise { deviation: 1.0, freedom: noise.freedom(variances), largest: 0.0 };
        let price =
            |entry: &Entry<'_, '_>| prices.and_then(|all| all.get(entry.side)).map(|price| price.ln());
        // A time that is paid for counts as much more as it costs.
        let paid = price(a).zip(price(b)).map(|(a, b)| match self.better {
            Better::Higher => b - a,
            Better::Lower => a - b,
        });
        let found = |difference: f64| Found {
            first_is_better: (difference > 0.0) == (self.better == Better::Higher),
            is_real: difference.abs() > noise.least,
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
        let said = |name: &&'static str| Some(format!("{name} {}", entry.figures.case.get(name)?));
        Place {
            side: entry.side,
            value: entry.value,
            half: self.half(index, tests),
            ranks: ranks(0),
            of_limit: entry.of_limit,
            delivered: entry.delivered,
            with: self.names.iter().filter_map(said).collect(),
            per_price: price.map(|price| match self.better {
                Better::Higher => entry.value / price,
                Better::Lower => entry.value * price,
            }),
            ranks_per_price: price.map(|_| ranks(1)),
        }
    }

    /// Half of the 95 % interval of a side's figure: by the spread of its own runs, or else by the widest noise that a test of it used.
    fn half(&self, index: usize, tests: &[Test]) -> Option<f64> {
        let entry = &self.entries[index];
        let used = tests.iter().filter_map(|test| {
            let place = test.pair.iter().position(|one| *one == index)?;
            Some(test.noise?.spreads[place])
        });
        let widest = used.max_by(|a, b| a.variance.total_cmp(&b.variance));
        let spread = self.own(entry).or(widest)?;
        let variance = spread.of_median(&entry.evidence);
        let noise = Noise { deviation: 1.0, freedom: spread.freedom, largest: 0.0 };
        Some((noise.quantile(0.975) * variance.sqrt()).exp_m1())
    }
}

/// Why a figure that not all sides have is in no score.
const NOT_ALL: &str = "not all sides have it";

impl Metric {
    /// Why it is in no score; `None` where it may be.
    fn unfit(&self, sides: usize) -> Option<String> {
        let has_ratio = |place: &Place| place.value.is_finite() && place.value > 0.0;
        match self.whys.first() {
            _ if !self.without.is_empty() || self.places.len() != sides => Some(NOT_ALL.to_owned()),
            Some(why) => Some(format!("its sides are not all ordered ({why})")),
            None if !self.places.iter().all(has_ratio) => Some("one of its figures is 0".to_owned()),
            None => None,
        }
    }
}

/// The scores, the best first, and what is weighted and in none.
fn scores(metrics: &[Metric], sides: usize, weights: &BTreeMap<String, f64>) -> (Vec<Score>, Vec<Unweighed>) {
    let mut sums = vec![(0.0, Some(0.0)); sides];
    let (mut total, mut unweighed) = (0.0, Vec::new());
    for (name, weight) in weights {
        // One that is no pattern names nothing.
        let pattern = Pattern::parse(name);
        let is_named = |m: &Metric| pattern.as_ref().is_ok_and(|one| one.matches(m.case.id().as_str()));
        let named: Vec<&Metric> = metrics.iter().filter(|m| m.headline && is_named(m)).collect();
        if named.is_empty() {
            unweighed.push(Unweighed { name: name.clone(), why: NOT_ALL.to_owned() });
        }
        let unfit =
            |m: &&Metric| Some(Unweighed { name: m.case.id().as_str().to_owned(), why: m.unfit(sides)? });
        unweighed.extend(named.iter().filter_map(unfit));
        let own: Vec<&Metric> = named.into_iter().filter(|m| m.unfit(sides).is_none()).collect();
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
