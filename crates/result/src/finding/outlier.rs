//! "n3: …, 31 % below the median of 4 machines. Likely cause: …": nodes that differ from nodes with
//! the same measurement by more than the false-alarm threshold of 1 % ([`outlier_distance`], in
//! logarithms), 3 %, and the confidence intervals. They are grouped by device and limit.

mod again;

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use plimsoll_bench::label::full;
use plimsoll_bench::{Setting, subsystem_of};
use plimsoll_bench_network::condition::SHAPED;
use plimsoll_machine::Machine;
use plimsoll_model::limit::{Input, median};
use plimsoll_model::measurement::{Measurement, MetricResult, NOTABLE};
use plimsoll_model::metric::Better;
use plimsoll_model::view::{Lost, losses as losses_of};
use plimsoll_model::warning::Warning;
use plimsoll_stats::{Samples, Seed, Summary, outlier_distance};
use plimsoll_units::quantity::{Quantity, Unit, format_cpus, percent, significant};
use serde_json::json;

use super::evidence::OutlierEvidence;
use super::{MIN_OUTLIER_NODES, because};
use crate::document::Finding;
pub use again::{OutlierRetest, SuspectFigure, apply_retests, next_retests};

const OUTLIER: &str = "outlier";
const AHEAD: &str = "ahead";
/// Least relative distance from the median of an outlier.
pub(super) const FLOOR: f64 = 0.03;
/// Replaces [`FLOOR`] for fewer than [`MIN_FLOOR_NODES`] nodes: core clocks of identical machines
/// that do the same work one after the other differ by 4 %.
const FLOOR_OF_FEW: f64 = 0.05;
/// Nodes from which [`FLOOR`] applies.
const MIN_FLOOR_NODES: usize = 16;
/// Relative distance from which a result is shown as a multiple of the median.
const FAR: f64 = 9.0;
/// Factor within which a rate limit explains a result: a full token bucket adds to the rate.
const RATE_LIMIT_FACTOR: f64 = 1.5;
/// Relative clock difference that explains a result.
const SLOWER: f64 = 0.02;

/// Facts about nodes, by node name.
pub type Machines<'a> = BTreeMap<&'a str, NodeFacts<'a>>;

/// Facts about a node besides its results.
#[derive(Clone, Debug)]
pub struct NodeFacts<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Description of the device that holds its test files.
    pub device: Option<String>,
}

#[derive(Clone, Copy)]
struct NodeFigure<'a> {
    measurement: &'a Measurement,
    metric: &'a MetricResult,
    is_delivered: bool,
    value: f64,
    device: Option<&'a str>,
    quota: Option<f64>,
    rate_limit: Option<Setting>,
}

impl<'a> NodeFigure<'a> {
    fn of(measurement: &'a Measurement, metric: &'a MetricResult) -> Self {
        let (is_delivered, value) = (false, metric.summary.median);
        Self { measurement, metric, is_delivered, value, device: None, quota: None, rate_limit: None }
    }

    /// Returns the headline `metric` for comparison; `None` if most of its time is excluded.
    fn sound(measurement: &'a Measurement, metric: &'a MetricResult) -> Option<Self> {
        (!measurement.is_mostly_excluded()).then(|| Self::of(measurement, metric))
    }

    /// Returns the median rate with interruptions for comparison; `None` if the metric has none.
    fn delivered(measurement: &'a Measurement, metric: &'a MetricResult) -> Option<Self> {
        let rates = delivered(metric).filter(|_| metric.better == Better::Higher)?;
        let value = Some(rates.median()).filter(|value| *value > 0.0)?;
        Some(Self { is_delivered: true, value, ..Self::of(measurement, metric) })
    }

    /// Returns the relative half-width of the confidence interval; 0 if unknown.
    fn reach(&self) -> f64 {
        let summary = &self.metric.summary;
        let half = match self.is_delivered {
            false => summary.ci95.map(|[low, high]| (high - low) / 2.0 / summary.median),
            true => delivered(self.metric).and_then(|rates| {
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

    /// Returns the properties that group results, by name: device, and unmeasured inputs of limits.
    fn made_of(&self) -> BTreeMap<&'a str, GroupProperty<'a>> {
        let inputs = self.inputs().iter().filter(|input| !is_measured(input.value));
        let inputs = inputs.map(|input| (input.name.as_str(), GroupProperty::Of(input.value.to_bits())));
        inputs.chain(self.device.map(|device| ("", GroupProperty::On(device)))).collect()
    }

    fn shown(&self) -> String {
        let quantity = Quantity { value: self.value, unit: self.metric.unit };
        format!("{}{quantity}", if self.is_delivered { "delivered rate " } else { "" })
    }

    fn shaped(&self) -> Option<f64> {
        self.measurement.conditions.more.get(&SHAPED)
    }

    fn inputs(&self) -> &'a [Input] {
        self.metric.limit.as_ref().map_or(&[], |limit| &limit.inputs)
    }
}

fn delivered(metric: &MetricResult) -> Option<Samples> {
    Samples::new(metric.series.iter().filter_map(|point| point.delivered).collect()).ok()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GroupProperty<'a> {
    Of(u64),
    On(&'a str),
}

/// Returns whether a number was measured: it has nearly all digits of an `f64`, chip data have few.
fn is_measured(value: f64) -> bool {
    const DIGITS: usize = 12;
    let digits = format!("{value:e}");
    digits.chars().take_while(|c| *c != 'e').filter(char::is_ascii_digit).count() > DIGITS
}

/// Groups results by their properties. Groups smaller than [`MIN_OUTLIER_NODES`] join the largest.
fn group_by_properties<'a>(figures: Vec<NodeFigure<'a>>) -> Vec<Vec<NodeFigure<'a>>> {
    let names: BTreeSet<&str> = figures.iter().flat_map(|figure| figure.made_of().into_keys()).collect();
    names.into_iter().fold(vec![figures], |groups, name| {
        groups.into_iter().flat_map(|group| parted(group, name)).collect()
    })
}

fn parted<'a>(group: Vec<NodeFigure<'a>>, name: &str) -> Vec<Vec<NodeFigure<'a>>> {
    let mut parts: BTreeMap<Option<GroupProperty<'a>>, Vec<NodeFigure<'a>>> = BTreeMap::new();
    for figure in group {
        parts.entry(figure.made_of().get(name).copied()).or_default().push(figure);
    }
    let (mut large, small): (Vec<_>, Vec<_>) =
        parts.into_values().partition(|part| part.len() >= MIN_OUTLIER_NODES);
    let rest: Vec<NodeFigure<'a>> = small.into_iter().flatten().collect();
    match large.iter_mut().max_by_key(|part| part.len()) {
        Some(most) => most.extend(rest),
        None => large.push(rest),
    }
    large
}

/// Returns a finding for each worse outlier, the furthest first, then one for all better ones.
pub(super) fn find(measurements: &[Measurement], machines: &Machines<'_>) -> Vec<Finding> {
    let mut cases: BTreeMap<(String, u32), [Vec<NodeFigure<'_>>; 2]> = BTreeMap::new();
    for measurement in measurements {
        if let Some(metric) = measurement.headline().filter(|m| m.summary.median > 0.0) {
            let key = (measurement.case.id().to_string(), measurement.repeat);
            let [values, delivered] = cases.entry(key).or_default();
            values.extend(NodeFigure::sound(measurement, metric).map(|figure| figure.on(machines)));
            delivered.extend(NodeFigure::delivered(measurement, metric).map(|figure| figure.on(machines)));
        }
    }
    let looked_at = cases.values().flatten().map(Vec::len).sum();
    let mut found: Vec<Outlier> =
        cases.into_values().flat_map(|[values, delivered]| in_case(values, delivered, looked_at)).collect();
    found.sort_by(|a, b| b.away.total_cmp(&a.away));
    let (worse, better): (Vec<Outlier>, Vec<Outlier>) = found.into_iter().partition(|outlier| outlier.worse);
    worse.into_iter().map(|outlier| outlier.finding).chain(better_finding(&better)).collect()
}

/// Returns one finding about all results better than the rest, if any. They matter if a node
/// promises what it does not keep, such as a disk that has not written its data yet.
fn better_finding(better: &[Outlier]) -> Option<Finding> {
    const MAX_NAMED_CASES: usize = 3;
    let first = better.first()?;
    let mut named: Vec<String> = better.iter().map(|outlier| outlier.finding.text.clone()).collect();
    named.truncate(MAX_NAMED_CASES);
    if better.len() > MAX_NAMED_CASES {
        named.push(format!("and {} more", better.len() - MAX_NAMED_CASES));
    }
    let text = match better.len() {
        1 => format!("better than the rest: {}", first.finding.text),
        count => format!("{count} figures are better than the rest: {}", named.join("; ")),
    };
    let evidence: Vec<_> = better.iter().map(|outlier| outlier.finding.evidence.clone()).collect();
    Some(Finding::new(AHEAD, text, json!({ "figures": evidence })))
}

struct Outlier {
    node: String,
    /// Relative distance from the usual value.
    away: f64,
    worse: bool,
    finding: Finding,
}

/// Returns the outliers of one case; `looked_at` is the number of results of all cases. A node's
/// `delivered` rate counts only if it is worse and its value in `values` is no outlier.
fn in_case(values: Vec<NodeFigure<'_>>, delivered: Vec<NodeFigure<'_>>, looked_at: usize) -> Vec<Outlier> {
    let among = |figures| group_by_properties(figures).into_iter().flat_map(|group| among(&group, looked_at));
    let mut found: Vec<Outlier> = among(values).collect();
    let named: BTreeSet<String> = found.iter().map(|outlier| outlier.node.clone()).collect();
    found.extend(among(delivered).filter(|outlier| outlier.worse && !named.contains(&outlier.node)));
    found
}

fn among(figures: &[NodeFigure<'_>], looked_at: usize) -> Vec<Outlier> {
    match figures {
        [] | [_] => Vec::new(),
        [one, other] => two(one, other).into_iter().collect(),
        all => many(all, looked_at),
    }
}

/// Returns the outliers among three or more results of a case; all cases have `looked_at` results.
fn many(figures: &[NodeFigure<'_>], looked_at: usize) -> Vec<Outlier> {
    let middle = |values: Vec<f64>| median(values).unwrap_or(f64::NAN);
    let centre = middle(figures.iter().map(|f| f.value).collect());
    let logarithms: Vec<f64> = figures.iter().map(|f| (f.value / centre).ln()).collect();
    let reach = outlier_distance(&logarithms, looked_at);
    let noise = LazyCell::new(|| middle(figures.iter().map(NodeFigure::reach).collect()));
    let floor = if figures.len() < MIN_FLOOR_NODES { FLOOR_OF_FEW } else { FLOOR };
    let usual = UsualLosses::of(figures);
    let mut found = Vec::new();
    for (figure, far) in figures.iter().zip(logarithms) {
        let away = figure.value / centre - 1.0;
        // Confidence intervals of wall-clock rates are expensive, so they are computed last.
        if far.abs() <= reach || away.abs() <= floor || away.abs() <= *noise + figure.reach() {
            continue;
        }
        let cause = cause(figure, away, &usual);
        let worse = is_worse(figure, away);
        let why = if worse { because(cause.as_deref()) } else { String::new() };
        let (case, shown) = (full(&figure.measurement.case), figure.shown());
        let (node, distance, count) = (&figure.measurement.node, from_median(away), figures.len());
        let text = format!("{node}: {case}: {shown}, {distance} of {count} machines{why}");
        let evidence = OutlierEvidence {
            node: figure.measurement.node.clone(),
            case: figure.measurement.case.id().as_str().to_owned(),
            metric: figure.metric.name.clone(),
            value: figure.value,
            delivered: figure.is_delivered,
            median: centre,
            looked_at,
            away,
            below: 1.0 - (-reach).exp(),
            above: reach.exp() - 1.0,
            cause,
            worse,
            again: None,
        };
        found.push(Outlier {
            node: figure.measurement.node.clone(),
            away: away.abs(),
            worse,
            finding: Finding::new(OUTLIER, text, json!(evidence)),
        });
    }
    found
}

/// Formats `away`, value ÷ median − 1: "60 % below the median", "223 times the median".
pub(super) fn from_median(away: f64) -> String {
    match away {
        ..0.0 => format!("{} below the median", percent(-away, 2)),
        FAR.. => format!("{} times the median", significant(away + 1.0, 2)),
        _ => format!("{} above the median", percent(away, 2)),
    }
}

fn is_worse(figure: &NodeFigure<'_>, away: f64) -> bool {
    figure.metric.better.gain(away) < 0.0
}

struct UsualLosses {
    losses: BTreeMap<&'static str, f64>,
    excluded: f64,
    quota: f64,
    rate_limit: f64,
    clock: Option<f64>,
    /// Share of nodes with an overheated processor.
    hot: f64,
    shaped: Option<f64>,
    inputs: BTreeMap<String, f64>,
    device: Option<String>,
}

impl UsualLosses {
    fn of(figures: &[NodeFigure<'_>]) -> Self {
        let over = |values: Vec<Option<f64>>| median(values.into_iter().flatten().collect());
        let mut inputs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for input in figures.iter().flat_map(NodeFigure::inputs) {
            inputs.entry(input.name.clone()).or_default().push(input.value);
        }
        let share = |values: Vec<Option<f64>>| over(values).unwrap_or_default();
        let share_of = |figure: &NodeFigure<'_>, what: &str| {
            losses_of(figure.measurement).find(|loss| loss.what == what).map_or(0.0, |loss| loss.share)
        };
        let kinds: BTreeSet<&'static str> =
            figures.iter().flat_map(|figure| losses_of(figure.measurement)).map(|loss| loss.what).collect();
        let usual_loss = |what: &'static str| {
            Some((what, median(figures.iter().map(|figure| share_of(figure, what)).collect())?))
        };
        let of_all = |set: fn(&NodeFigure<'_>) -> Option<f64>| {
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
            shaped: over(figures.iter().map(NodeFigure::shaped).collect()),
            device: most(figures.iter().filter_map(|figure| figure.device)),
            inputs: inputs.into_iter().filter_map(|(name, values)| Some((name, median(values)?))).collect(),
        }
    }
}

fn most<'a>(all: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(one, _)| one.to_owned())
}

/// Returns in words why a node with result ÷ median − 1 = `away` is worse; `None` if unknown.
fn cause(figure: &NodeFigure<'_>, away: f64, usual: &UsualLosses) -> Option<String> {
    if !is_worse(figure, away) {
        return None;
    }
    if let Some(set) = by_quota(figure, usual).or_else(|| by_rate_limit(figure, usual)) {
        return Some(set);
    }
    let beyond = |loss: &Lost| loss.share - usual.losses.get(loss.what).copied().unwrap_or_default();
    let loss = losses_of(figure.measurement).filter(|loss| beyond(loss) >= NOTABLE);
    if let Some(loss) = loss.max_by(|a, b| beyond(a).total_cmp(&beyond(b))) {
        return Some(format!("{} {} of the time", loss.what, percent(loss.share, 2)));
    }
    let excluded = figure.measurement.conditions.excluded.filter(|_| figure.is_delivered);
    if let Some(share) = excluded.filter(|share| *share >= usual.excluded + NOTABLE) {
        return Some(format!("threads interrupted {} of the time", percent(share, 2)));
    }
    let below = |own: Option<f64>, all: Option<f64>| own.zip(all).map(|(own, all)| 1.0 - own / all);
    let slower = below(figure.measurement.conditions.clock_hz, usual.clock).filter(|share| *share > SLOWER);
    // A property of most nodes is no cause.
    let is_hot = is_hot(figure) && usual.hot < 0.5;
    let heat = if is_hot { ", because its processor was too hot" } else { "" };
    slower
        .map(|share| format!("its core clock is {} lower{heat}", percent(share, 2)))
        .or_else(|| is_hot.then(|| "its processor slowed itself down because it was too hot".to_owned()))
        .or_else(|| by_shaper(figure, usual))
        .or_else(|| by_limit_input(figure, usual))
        // The device of the test files, if most nodes have another one.
        .or_else(|| {
            let (own, most) = (figure.device?, usual.device.as_deref()?);
            (own != most).then(|| format!("its files are on {own}, those of most others on {most}"))
        })
}

/// Describes the node's CPU quota if it is lower than usual and lower than the case needs.
fn by_quota(figure: &NodeFigure<'_>, usual: &UsualLosses) -> Option<String> {
    let measurement = figure.measurement;
    let throttled = measurement.conditions.throttled.filter(|share| *share >= NOTABLE);
    let is_small = |quota: &f64| *quota < measurement.case.busy_threads() as f64 || throttled.is_some();
    let quota = figure.quota.filter(|quota| *quota < usual.quota * (1.0 - SLOWER)).filter(is_small)?;
    let time = throttled.map(|share| format!(" (throttled {} of the time)", percent(share, 2)));
    let others = usual.quota.is_finite().then(|| format!(", {} on most others", significant(usual.quota, 2)));
    let quota = format_cpus(quota, 2);
    Some(format!("a CPU quota of {quota}{}{}", time.unwrap_or_default(), others.unwrap_or_default()))
}

/// Describes the node's rate limit if it is near the result and lower than usual.
fn by_rate_limit(figure: &NodeFigure<'_>, usual: &UsualLosses) -> Option<String> {
    let limit = figure.rate_limit?;
    let bound = limit.bound.value;
    let is_near = figure.value > bound / RATE_LIMIT_FACTOR && figure.value < bound * RATE_LIMIT_FACTOR;
    let others = usual.rate_limit;
    (is_near && limit.rate.value < others * (1.0 - SLOWER)).then(|| match others.is_finite() {
        true => format!("{limit}, {} on most others", Quantity::new(others, limit.rate.unit)),
        false => limit.to_string(),
    })
}

fn is_hot(figure: &NodeFigure<'_>) -> bool {
    figure.measurement.warns(Warning::TOO_HOT)
}

/// Describes the node's traffic shaper if it is slower than usual, or if other nodes have none.
fn by_shaper(figure: &NodeFigure<'_>, usual: &UsualLosses) -> Option<String> {
    let own = figure.shaped()?;
    let shown = |value| Quantity { value, unit: Unit::BitPerSecond };
    let others = match usual.shaped {
        Some(all) if own < all * (1.0 - SLOWER) => format!(", the others' to {}", shown(all)),
        Some(all) if own > all => return None,
        _ => String::new(),
    };
    Some(format!("a shaper (queueing discipline) limits its interface to {}{others}", shown(own)))
}

/// Describes the first input of the limit that is lower than usual, such as a slower link.
fn by_limit_input(figure: &NodeFigure<'_>, usual: &UsualLosses) -> Option<String> {
    let below =
        |input: &&Input| usual.inputs.get(&input.name).is_some_and(|all| input.value < all * (1.0 - SLOWER));
    let input = figure.inputs().iter().find(below)?;
    let all = usual.inputs.get(&input.name).copied().unwrap_or_default();
    let shown = |value: f64| match Unit::from_name(&input.unit) {
        Some(unit) if input.unit != "1" => Quantity { value, unit }.to_string(),
        _ if value.fract() == 0.0 => value.to_string(),
        _ => significant(value, 3),
    };
    let [own, all] = [input.value, all].map(shown);
    Some(format!("its limit is lower too: {} {own}, on most others {all}", input.name))
}

fn two(one: &NodeFigure<'_>, other: &NodeFigure<'_>) -> Option<Outlier> {
    let away = other.value / one.value - 1.0;
    if away.abs() <= FLOOR.max(one.reach() + other.reach()) {
        return None;
    }
    let share = |f: &NodeFigure<'_>| f.metric.rated_share().filter(|_| !f.is_delivered);
    let shares = share(one).zip(share(other)).filter(|(a, b)| a != b);
    let further = shares.map(|(a, b)| {
        let (figure, share) = if a < b { (one, a) } else { (other, b) };
        let (node, share) = (&figure.measurement.node, percent(share, 2));
        format!(". {node} is further from its limit: it reaches {share} of it")
    });
    let (slower, better) = if is_worse(other, away) { (other, one) } else { (one, other) };
    let away_of_slower = slower.value / better.value - 1.0;
    let cause = cause(slower, away_of_slower, &UsualLosses::of(std::slice::from_ref(better)));
    let why = cause.as_ref().map(|c| format!(". Likely cause on {}: {c}", slower.measurement.node));
    let [own, theirs] = [one, other].map(|f| format!("{} on {}", f.shown(), f.measurement.node));
    let text = format!(
        "{}: {own}, {theirs}, {} {}{}{}",
        full(&one.measurement.case),
        percent(away.abs(), 2),
        if away < 0.0 { "less" } else { "more" },
        further.unwrap_or_default(),
        why.unwrap_or_default(),
    );
    let evidence = json!({
        "nodes": [one.measurement.node, other.measurement.node], "case": one.measurement.case.id(),
        "values": [one.value, other.value], "delivered": one.is_delivered, "away": away, "cause": cause,
    });
    Some(Outlier {
        node: slower.measurement.node.clone(),
        away: away.abs(),
        worse: true,
        finding: Finding::new("machines-differ", text, evidence),
    })
}

#[cfg(test)]
mod tests;
