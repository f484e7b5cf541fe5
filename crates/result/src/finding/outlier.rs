//! "n3: …, 31 % below the median of 4 machines. Likely cause: throttled by the CPU quota 44 % of the time": a machine that stands
//! out among others that measured the same.
//!
//! A figure stands out when it is further from the median of all machines than chance takes any figure of the run in 99 runs of 100
//! ([`apart`], on logarithms, so that half and twice are as far), than 3 %, and than the machines' own intervals reach. So a
//! noisy case needs a larger difference, and so do few machines. Two machines have no
//! median to stand out from: then the difference is told, and which of them is further from its limit.
//!
//! Machines are compared with those that have the same device and the same inputs of the figure's limit, such as memory channels, where at
//! least five machines have each of them. One of fewer is compared with the most, and what it has is its cause.
//!
//! A figure from which interruptions are excluded does not show them: there the wall-clock rates are compared as well.

mod again;

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use plimsoll_bench::label::full;
use plimsoll_bench::{Setting, subsystem_of};
use plimsoll_bench_network::condition::SHAPED;
use plimsoll_machine::Machine;
use plimsoll_model::limit::{Input, median};
use plimsoll_model::measurement::{Measurement, MetricResult};
use plimsoll_model::metric::Better;
use plimsoll_model::view::{Lost, NOTABLE, losses as losses_of};
use plimsoll_model::warning::Warning;
use plimsoll_stats::{Excluded, Samples, Seed, Summary, apart};
use plimsoll_units::quantity::{Quantity, Unit, format_cpus, percent, significant};
use serde_json::json;

use super::{ENOUGH, because, finding};
use crate::document::Finding;
pub use again::{Suspect, Tried, judged, next};

/// A machine that stands out.
const OUTLIER: &str = "outlier";
/// Machines that are better than the rest.
const AHEAD: &str = "ahead";
/// No difference below this share of the median stands out.
pub(super) const FLOOR: f64 = 0.03;
/// Of fewer machines than [`FEW`] none below this share: core clocks of machines alike differ by 4 % while they do the same work one
/// after the other, and so few do not show it.
const FLOOR_OF_FEW: f64 = 0.05;
/// Machines from which on [`FLOOR`] counts.
const FEW: usize = 16;
/// A figure above the median by this share of it is told as so many times the median.
const FAR: f64 = 9.0;
/// A figure within this factor of a rate limit is held by it: a bucket that was full adds to the rate, and short samples vary.
const NEAR: f64 = 1.5;
/// A core clock this much below the others' explains a figure.
const SLOWER: f64 = 0.02;

/// What of a case is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watched {
    /// The headline.
    Value,
    /// Its wall-clock rate, interruptions included.
    Delivered,
}

/// Facts about the machines beside their figures, by name.
pub type Machines<'a> = BTreeMap<&'a str, Known<'a>>;

/// Facts about a machine beside its figures.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The device of its files, in words.
    pub device: Option<String>,
}

/// One machine's figure.
#[derive(Clone, Copy)]
struct Figure<'a> {
    measurement: &'a Measurement,
    metric: &'a MetricResult,
    watched: Watched,
    value: f64,
    /// What the files are on, of a case with files.
    device: Option<&'a str>,
    /// The quota of its control group, in CPUs.
    quota: Option<f64>,
    /// The rate limit that its machine has set for the case.
    rate_limit: Option<Setting>,
}

impl<'a> Figure<'a> {
    fn of(measurement: &'a Measurement, metric: &'a MetricResult) -> Self {
        let value = metric.summary.median;
        Self {
            measurement,
            metric,
            watched: Watched::Value,
            value,
            device: None,
            quota: None,
            rate_limit: None,
        }
    }

    /// The headline, unless most of its time is excluded: what is left may be of no usual moment.
    fn sound(measurement: &'a Measurement, metric: &'a MetricResult) -> Option<Self> {
        let excluded = Excluded::of(measurement.conditions.excluded);
        (!matches!(excluded, Excluded::Mostly(_) | Excluded::AllBut(_)))
            .then(|| Self::of(measurement, metric))
    }

    /// The wall-clock rate, where interruptions are excluded from the headline.
    fn delivered(measurement: &'a Measurement, metric: &'a MetricResult) -> Option<Self> {
        let rates = delivered(metric).filter(|_| metric.better == Better::Higher)?;
        let value = Some(rates.median()).filter(|value| *value > 0.0)?;
        Some(Self { watched: Watched::Delivered, value, ..Self::of(measurement, metric) })
    }

    /// Half the width of the interval, as a share of the value.
    fn reach(&self) -> f64 {
        let half = match self.watched {
            Watched::Value => {
                self.metric.summary.ci95.map(|[low, high]| (high - low) / 2.0 / self.metric.summary.median)
            }
            Watched::Delivered => delivered(self.metric).and_then(|rates| {
                let case = self.measurement.case.id();
                Summary::new(&rates, Seed::new(0, case.as_str(), "wall-clock")).relative_half_width()
            }),
        };
        half.unwrap_or_default()
    }

    fn on(self, machines: &'a Machines<'_>) -> Self {
        let Some(known) = machines.get(self.measurement.node.as_str()) else { return self };
        let subsystem = subsystem_of(&self.measurement.case);
        let device = known.device.as_deref().filter(|_| subsystem.on_files);
        let quota = known.machine.cgroup.cpu_quota.as_ref().map(|quota| quota.cpus());
        let rate_limit = (subsystem.setting)(self.measurement, known.machine);
        Self { device, quota, rate_limit, ..self }
    }

    /// What may tell it from others, each by its name: the device and what its limit rests on, but for what the run measured, such
    /// as the clock: that is no property of a machine.
    fn made_of(&self) -> BTreeMap<&'a str, Made<'a>> {
        let inputs = self.metric.limit.as_ref().map_or(&[][..], |limit| &limit.inputs);
        let inputs = inputs.iter().filter(|input| !is_measured(input.value));
        let inputs = inputs.map(|input| (input.name.as_str(), Made::Of(input.value.to_bits())));
        inputs.chain(self.device.map(|device| ("", Made::On(device)))).collect()
    }

    fn shown(&self) -> String {
        let quantity = Quantity { value: self.value, unit: self.metric.unit };
        match self.watched {
            Watched::Value => quantity.to_string(),
            Watched::Delivered => format!("wall-clock rate {quantity}"),
        }
    }

    fn shaped(&self) -> Option<f64> {
        self.measurement.conditions.more.get(&SHAPED)
    }

    fn inputs(&self) -> &[Input] {
        self.metric.limit.as_ref().map_or(&[], |limit| &limit.inputs)
    }
}

/// The wall-clock rates of the samples.
fn delivered(metric: &MetricResult) -> Option<Samples> {
    Samples::new(metric.series.iter().filter_map(|point| point.delivered).collect()).ok()
}

/// What a figure was measured with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Made<'a> {
    /// The bits of an input.
    Of(u64),
    /// A device.
    On(&'a str),
}

/// Whether a number is one that was measured: it has all the digits that a number can have, where data of chips and interfaces have a few.
fn is_measured(value: f64) -> bool {
    const DIGITS: usize = 12;
    format!("{value:e}")
        .split('e')
        .next()
        .is_some_and(|digits| digits.chars().filter(char::is_ascii_digit).count() > DIGITS)
}

/// The figures in groups that were made with the same, as far as at least [`ENOUGH`] machines have each; the rest are in the largest.
fn alike<'a>(figures: Vec<Figure<'a>>) -> Vec<Vec<Figure<'a>>> {
    let names: BTreeSet<&str> = figures.iter().flat_map(|figure| figure.made_of().into_keys()).collect();
    names.into_iter().fold(vec![figures], |groups, name| {
        groups
            .into_iter()
            .flat_map(|group| parted(group, |figure| figure.made_of().get(name).copied()))
            .collect()
    })
}

/// One group by one of these.
fn parted<'a>(
    group: Vec<Figure<'a>>,
    made: impl Fn(&Figure<'a>) -> Option<Made<'a>>,
) -> Vec<Vec<Figure<'a>>> {
    let mut parts: BTreeMap<Option<Made<'a>>, Vec<Figure<'a>>> = BTreeMap::new();
    group.into_iter().for_each(|figure| parts.entry(made(&figure)).or_default().push(figure));
    let (mut large, small): (Vec<_>, Vec<_>) = parts.into_values().partition(|part| part.len() >= ENOUGH);
    let rest: Vec<Figure<'a>> = small.into_iter().flatten().collect();
    match large.iter_mut().max_by_key(|part| part.len()) {
        Some(most) => most.extend(rest),
        None => large.push(rest),
    }
    large
}

/// Speaks for each machine that stands out in a case, the furthest first.
pub(super) fn find(measurements: &[Measurement], machines: &Machines<'_>) -> Vec<Finding> {
    let mut cases: BTreeMap<(String, u32), [Vec<Figure<'_>>; 2]> = BTreeMap::new();
    for measurement in measurements {
        if let Some(metric) = measurement.headline().filter(|m| m.summary.median > 0.0) {
            let key = (measurement.case.id().to_string(), measurement.repeat);
            let [values, delivered] = cases.entry(key).or_default();
            values.extend(Figure::sound(measurement, metric).map(|figure| figure.on(machines)));
            delivered.extend(Figure::delivered(measurement, metric).map(|figure| figure.on(machines)));
        }
    }
    let looked_at = cases.values().flatten().map(Vec::len).sum();
    let mut found: Vec<Outlier> =
        cases.into_values().flat_map(|[values, delivered]| in_case(values, delivered, looked_at)).collect();
    found.sort_by(|a, b| b.away.total_cmp(&a.away));
    let (worse, better): (Vec<Outlier>, Vec<Outlier>) = found.into_iter().partition(|outlier| outlier.worse);
    worse.into_iter().map(|outlier| outlier.finding).chain(ahead(&better)).collect()
}

/// Figures that are better than those of the other machines, in a line: nothing is wrong with those machines, unless one of them promises
/// what it does not keep, such as a disk that has written nothing yet.
fn ahead(better: &[Outlier]) -> Option<Finding> {
    const NAMED: usize = 3;
    let first = better.first()?;
    let named: Vec<&str> = better.iter().take(NAMED).map(|outlier| outlier.finding.text.as_str()).collect();
    let more = better.len().saturating_sub(NAMED);
    let text = match better.len() {
        1 => format!("better than the rest: {}", first.finding.text),
        count => {
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            format!("{count} figures are better than the rest: {}{more}", named.join("; "))
        }
    };
    let evidence: Vec<_> = better.iter().map(|outlier| outlier.finding.evidence.clone()).collect();
    Some(finding(AHEAD, text, json!({ "figures": evidence })))
}

/// What stands out.
struct Outlier {
    node: String,
    /// By which share it is away from what is usual.
    away: f64,
    worse: bool,
    finding: Finding,
}

/// Those of one case. A machine whose headline stands out is named for that alone, and one whose wall-clock rate does only
/// where that is lower.
fn in_case(values: Vec<Figure<'_>>, delivered: Vec<Figure<'_>>, looked_at: usize) -> Vec<Outlier> {
    let among = |figures| alike(figures).into_iter().flat_map(|group| among(&group, looked_at));
    let mut found: Vec<Outlier> = among(values).collect();
    let named: BTreeSet<String> = found.iter().map(|outlier| outlier.node.clone()).collect();
    found.extend(among(delivered).filter(|outlier| outlier.worse && !named.contains(&outlier.node)));
    found
}

/// Those of these figures.
fn among(figures: &[Figure<'_>], looked_at: usize) -> Vec<Outlier> {
    match figures {
        [] | [_] => Vec::new(),
        [one, other] => two(one, other).into_iter().collect(),
        all => many(all, looked_at),
    }
}

/// Those of three figures or more; `looked_at` is the number of figures of all cases.
fn many(figures: &[Figure<'_>], looked_at: usize) -> Vec<Outlier> {
    let middle = |values: Vec<f64>| median(values).unwrap_or(f64::NAN);
    let centre = middle(figures.iter().map(|f| f.value).collect());
    let logarithms: Vec<f64> = figures.iter().map(|f| (f.value / centre).ln()).collect();
    let reach = apart(&logarithms, looked_at);
    let noise = LazyCell::new(|| middle(figures.iter().map(Figure::reach).collect()));
    let floor = if figures.len() < FEW { FLOOR_OF_FEW } else { FLOOR };
    let usual = Usual::of(figures);
    let mut found = Vec::new();
    for (figure, far) in figures.iter().zip(logarithms) {
        let away = figure.value / centre - 1.0;
        // An interval of wall-clock rates takes long, so that only where it decides is it asked for.
        if far.abs() <= reach || away.abs() <= floor || away.abs() <= *noise + figure.reach() {
            continue;
        }
        let cause = cause(figure, away, &usual);
        let worse = is_worse(figure, away);
        let why = if worse { because(cause.as_deref()) } else { String::new() };
        let text = format!(
            "{}: {}: {}, {} of {} machines{why}",
            figure.measurement.node,
            full(&figure.measurement.case),
            figure.shown(),
            from_median(away),
            figures.len(),
        );
        let evidence = json!({
            "node": figure.measurement.node, "case": figure.measurement.case.id(), "metric": figure.metric.name,
            "value": figure.value, "delivered": figure.watched == Watched::Delivered, "median": centre, "looked_at": looked_at, "away": away,
            // Shares of the median.
            "below": 1.0 - (-reach).exp(), "above": reach.exp() - 1.0,
            "cause": cause, "worse": worse,
        });
        found.push(Outlier {
            node: figure.measurement.node.clone(),
            away: away.abs(),
            worse,
            finding: finding(OUTLIER, text, evidence),
        });
    }
    found
}

/// "60 % below the median", or "223 times the median" where a percentage would say little. `away` is the share of the
/// median by which a figure is above it.
pub(super) fn from_median(away: f64) -> String {
    match away {
        ..0.0 => format!("{} below the median", percent(-away, 2)),
        FAR.. => format!("{} times the median", significant(away + 1.0, 2)),
        _ => format!("{} above the median", percent(away, 2)),
    }
}

fn is_worse(figure: &Figure<'_>, away: f64) -> bool {
    match figure.metric.better {
        Better::Higher => away < 0.0,
        Better::Lower => away > 0.0,
    }
}

/// What is usual among the machines, for what may explain a figure.
struct Usual {
    /// Share of the time that was lost, by what took it.
    losses: BTreeMap<&'static str, f64>,
    /// Share of the time that was excluded.
    excluded: f64,
    /// CPU quota; infinite without one.
    quota: f64,
    /// Rate limit that is set; infinite without one.
    rate_limit: f64,
    clock: Option<f64>,
    /// Share of the machines whose processor was too hot.
    hot: f64,
    shaped: Option<f64>,
    /// Inputs of the figure's limit, such as the link's speed or the number of memory channels.
    inputs: BTreeMap<String, f64>,
    /// The device that most have.
    device: Option<String>,
}

impl Usual {
    fn of(figures: &[Figure<'_>]) -> Self {
        let over = |values: Vec<Option<f64>>| median(values.into_iter().flatten().collect());
        let mut inputs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for input in figures.iter().flat_map(Figure::inputs) {
            inputs.entry(input.name.clone()).or_default().push(input.value);
        }
        let share = |values: Vec<Option<f64>>| over(values).unwrap_or_default();
        let share_of = |figure: &Figure<'_>, what: &str| {
            losses_of(figure.measurement).find(|loss| loss.what == what).map_or(0.0, |loss| loss.share)
        };
        // A loss that is not known was none.
        let kinds: BTreeSet<&'static str> =
            figures.iter().flat_map(|figure| losses_of(figure.measurement)).map(|loss| loss.what).collect();
        let usual_loss = |what: &'static str| {
            Some((what, median(figures.iter().map(|figure| share_of(figure, what)).collect())?))
        };
        let of_all = |set: fn(&Figure<'_>) -> Option<f64>| {
            median(figures.iter().map(|figure| set(figure).unwrap_or(f64::INFINITY)).collect())
                .unwrap_or(f64::INFINITY)
        };
        Self {
            losses: kinds.into_iter().filter_map(usual_loss).collect(),
            quota: of_all(|figure| figure.quota),
            rate_limit: of_all(|figure| figure.rate_limit.map(|limit| limit.rate.value)),
            excluded: share(figures.iter().map(|f| f.measurement.conditions.excluded).collect()),
            clock: over(figures.iter().map(|f| f.measurement.conditions.clock_hz).collect()),
            hot: figures.iter().filter(|f| is_hot(f)).count() as f64 / figures.len().max(1) as f64,
            shaped: over(figures.iter().map(Figure::shaped).collect()),
            device: most(figures.iter().filter_map(|figure| figure.device)),
            inputs: inputs.into_iter().filter_map(|(name, values)| Some((name, median(values)?))).collect(),
        }
    }
}

/// What there is most of.
fn most<'a>(all: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(one, _)| one.to_owned())
}

/// What the conditions of a machine that is worse than the others say.
fn cause(figure: &Figure<'_>, away: f64, usual: &Usual) -> Option<String> {
    if !is_worse(figure, away) {
        return None;
    }
    let set = by_quota(figure, usual).or_else(|| by_rate_limit(figure, usual));
    if set.is_some() {
        return set;
    }
    let beyond = |loss: &Lost| loss.share - usual.losses.get(loss.what).copied().unwrap_or_default();
    let loss = losses_of(figure.measurement).filter(|loss| beyond(loss) >= NOTABLE);
    if let Some(loss) = loss.max_by(|a, b| beyond(a).total_cmp(&beyond(b))) {
        return Some(format!("{} {} of the time", loss.what, percent(loss.share, 2)));
    }
    let excluded = figure.measurement.conditions.excluded.filter(|_| figure.watched == Watched::Delivered);
    if let Some(share) = excluded.filter(|share| *share >= usual.excluded + NOTABLE) {
        return Some(format!("threads interrupted {} of the time", percent(share, 2)));
    }
    let below = |own: Option<f64>, all: Option<f64>| own.zip(all).map(|(own, all)| 1.0 - own / all);
    let slower = below(figure.measurement.conditions.clock_hz, usual.clock).filter(|share| *share > SLOWER);
    // What most machines have is no cause.
    let is_hot = is_hot(figure) && usual.hot < 0.5;
    let heat = if is_hot { ", because its processor was too hot" } else { "" };
    slower
        .map(|share| format!("its core clock is {} lower{heat}", percent(share, 2)))
        .or_else(|| is_hot.then(|| "its processor slowed itself down because it was too hot".to_owned()))
        .or_else(|| held(figure, usual))
        .or_else(|| unlike(figure, usual))
        .or_else(|| elsewhere(figure, usual))
}

/// A CPU quota that only this machine has, and that does not allow what the case would use.
fn by_quota(figure: &Figure<'_>, usual: &Usual) -> Option<String> {
    let measurement = figure.measurement;
    let throttled = measurement.conditions.throttled.filter(|share| *share >= NOTABLE);
    let is_small = |quota: &f64| *quota < measurement.case.busy_threads() as f64 || throttled.is_some();
    let quota = figure.quota.filter(|quota| *quota < usual.quota * (1.0 - SLOWER)).filter(is_small)?;
    let time = throttled.map(|share| format!(" (throttled {} of the time)", percent(share, 2)));
    Some(format!(
        "a CPU quota of {}{}{}",
        format_cpus(quota, 2),
        time.unwrap_or_default(),
        match usual.quota.is_finite() {
            true => format!(", {} on most others", significant(usual.quota, 2)),
            false => String::new(),
        }
    ))
}

/// A rate limit near the figure that only this machine has.
fn by_rate_limit(figure: &Figure<'_>, usual: &Usual) -> Option<String> {
    let limit = figure.rate_limit?;
    let bound = limit.bound.value;
    let is_near = figure.value > bound / NEAR && figure.value < bound * NEAR;
    let others = usual.rate_limit;
    (is_near && limit.rate.value < others * (1.0 - SLOWER)).then(|| match others.is_finite() {
        true => format!("{limit}, {} on most others", Quantity::new(others, limit.rate.unit)),
        false => limit.to_string(),
    })
}

/// Whether its processor slowed itself down because it was too hot.
fn is_hot(figure: &Figure<'_>) -> bool {
    figure.measurement.warns(Warning::TOO_HOT)
}

/// A device that most others do not have.
fn elsewhere(figure: &Figure<'_>, usual: &Usual) -> Option<String> {
    let (own, most) = (figure.device?, usual.device.as_deref()?);
    (own != most).then(|| format!("its files are on {own}, those of most others on {most}"))
}

/// A token bucket that is narrower than the others', or that they do not have.
fn held(figure: &Figure<'_>, usual: &Usual) -> Option<String> {
    let own = figure.shaped()?;
    let shown = |value| Quantity { value, unit: Unit::BitPerSecond };
    match usual.shaped {
        Some(all) if own < all * (1.0 - SLOWER) => Some(format!(
            "a shaper (queueing discipline) limits its interface to {}, the others' to {}",
            shown(own),
            shown(all)
        )),
        Some(all) if own > all => None,
        _ => Some(format!("a shaper (queueing discipline) limits its interface to {}", shown(own))),
    }
}

/// What the limit of the figure rests on, where it is below the others': a slower link, fewer memory channels.
fn unlike(figure: &Figure<'_>, usual: &Usual) -> Option<String> {
    let below =
        |input: &&Input| usual.inputs.get(&input.name).is_some_and(|all| input.value < all * (1.0 - SLOWER));
    let input = figure.inputs().iter().find(below)?;
    let all = usual.inputs.get(&input.name).copied().unwrap_or_default();
    let shown = |value: f64| match Unit::from_name(&input.unit) {
        Some(unit) if input.unit != "1" => Quantity { value, unit }.to_string(),
        _ if value.fract() == 0.0 => value.to_string(),
        _ => significant(value, 3),
    };
    Some(format!(
        "its limit is lower too: {} {}, on most others {}",
        input.name,
        shown(input.value),
        shown(all)
    ))
}

fn two(one: &Figure<'_>, other: &Figure<'_>) -> Option<Outlier> {
    let away = other.value / one.value - 1.0;
    if away.abs() <= FLOOR.max(one.reach() + other.reach()) {
        return None;
    }
    let of_value = |f: &Figure<'_>| f.metric.of_limit.filter(|_| f.watched == Watched::Value);
    let share = |f: &Figure<'_>| of_value(f).filter(|s| s.is_finite());
    let further = match (share(one), share(other)) {
        (Some(a), Some(b)) if a != b => {
            let (figure, share) = if a < b { (one, a) } else { (other, b) };
            format!(
                ". {} is further from its limit: it reaches {} of it",
                figure.measurement.node,
                percent(share, 2)
            )
        }
        _ => String::new(),
    };
    let slower = if is_worse(other, away) { other } else { one };
    let away_of_slower = if is_worse(other, away) { away } else { one.value / other.value - 1.0 };
    let better = if is_worse(other, away) { one } else { other };
    let cause = cause(slower, away_of_slower, &Usual::of(std::slice::from_ref(better)));
    let text = format!(
        "{}: {} on {}, {} on {}, {} {}{further}{}",
        full(&one.measurement.case),
        one.shown(),
        one.measurement.node,
        other.shown(),
        other.measurement.node,
        percent(away.abs(), 2),
        if away < 0.0 { "less" } else { "more" },
        cause
            .as_ref()
            .map(|c| format!(". Likely cause on {}: {c}", slower.measurement.node))
            .unwrap_or_default(),
    );
    let evidence = json!({
        "nodes": [one.measurement.node, other.measurement.node], "case": one.measurement.case.id(),
        "values": [one.value, other.value], "delivered": one.watched == Watched::Delivered, "away": away, "cause": cause,
    });
    Some(Outlier {
        node: slower.measurement.node.clone(),
        away: away.abs(),
        worse: true,
        finding: finding("machines-differ", text, evidence),
    })
}

#[cfg(test)]
mod tests;
