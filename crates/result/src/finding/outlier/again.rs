//! Retests of outliers: the node and one with a usual result measure the case again, with nothing
//! else running. A second outlier confirms the first one; if other outliers of the case did not
//! repeat, the sequential test requires more measurements.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_model::measurement::Measurement;
use plimsoll_stats::{FALSE_ALARMS, Sequential, SequentialDecision};
use plimsoll_units::quantity::percent;
use plimsoll_units::text::format_count;
use serde_json::{Value, json};

use super::super::because;
use super::super::evidence::{OutlierEvidence, RetestEvidence};
use super::{FLOOR, NodeFigure, OUTLIER, UsualLosses, cause, is_worse};
use crate::document::{Finding, Run};

/// Limit of retests per result, unusable ones included.
const MAX_RETESTS: usize = 6;
const MAX_NAMED_RETESTS: usize = 5;
const NOT_CONFIRMED: &str = "not-confirmed";

/// An outlier to be measured again.
#[derive(Clone, Debug, PartialEq)]
pub struct SuspectFigure {
    /// Node with the outlier.
    pub node: String,
    /// Case id.
    pub case: String,
    /// Node with a usual result.
    pub control: String,
    finding: usize,
}

/// A completed retest.
#[derive(Clone, Debug)]
pub struct OutlierRetest {
    /// The retested outlier.
    pub suspect: SuspectFigure,
    /// New measurement of the outlier node.
    pub own: Measurement,
    /// New measurement of the control node.
    pub control: Measurement,
}

impl SuspectFigure {
    fn of(&self) -> (&str, &str) {
        (&self.node, self.case.split('/').next().unwrap_or_default())
    }
}

/// Returns the outliers of a run, each with the index of its finding.
fn outliers(run: &Run) -> impl Iterator<Item = (usize, OutlierEvidence)> + '_ {
    let found = run.findings.iter().enumerate().filter(|(_, finding)| finding.code == OUTLIER);
    found.filter_map(|(index, finding)| Some((index, finding.evidence_as()?)))
}

/// Returns outliers in order of retest: the furthest per benchmark and node, then the second, ….
fn suspects(run: &Run) -> Vec<SuspectFigure> {
    let outliers: Vec<(usize, OutlierEvidence)> = outliers(run).collect();
    let named: BTreeSet<(&str, &str)> =
        outliers.iter().map(|(_, outlier)| (outlier.node.as_str(), outlier.case.as_str())).collect();
    let mut turns: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut found: Vec<(usize, SuspectFigure)> = Vec::new();
    for (index, outlier) in &outliers {
        let Some(control) = usual(run, outlier, &named) else { continue };
        let (node, case, index) = (outlier.node.clone(), outlier.case.clone(), *index);
        let suspect = SuspectFigure { node, case, control, finding: index };
        let (node, benchmark) = suspect.of();
        let turn = turns.entry((node.to_owned(), benchmark.to_owned())).or_default();
        *turn += 1;
        found.push((*turn, suspect));
    }
    found.sort_by_key(|(turn, suspect)| (*turn, suspect.finding));
    found.into_iter().map(|(_, suspect)| suspect).collect()
}

/// Returns the node whose result is nearest to `outlier.median`, except outliers (`named`).
fn usual(run: &Run, outlier: &OutlierEvidence, named: &BTreeSet<(&str, &str)>) -> Option<String> {
    let (case, median, delivered) = (outlier.case.as_str(), outlier.median, outlier.delivered);
    let others =
        run.measurements.iter().filter(|m| m.case.id().as_str() == case && !named.contains(&(&m.node, case)));
    let off = |m: &Measurement| Some((figure(m, delivered)?.value / median).ln().abs());
    let nearest = others.filter_map(|m| Some((off(m)?, m))).min_by(|(a, _), (b, _)| a.total_cmp(b));
    nearest.map(|(_, measurement)| measurement.node.clone())
}

fn figure(measurement: &Measurement, is_delivered: bool) -> Option<NodeFigure<'_>> {
    let metric = measurement.headline().filter(|metric| metric.summary.median > 0.0)?;
    let figure = if is_delivered { NodeFigure::delivered } else { NodeFigure::sound };
    figure(measurement, metric)
}

struct Retested<'a> {
    suspect: SuspectFigure,
    times: usize,
    /// Retests that repeated the outlier.
    far: usize,
    /// Retests that did not.
    near: usize,
    unusable: usize,
    nearest: Option<Second<'a>>,
    last: Option<&'a OutlierRetest>,
    decided: SequentialDecision,
}

impl<'a> Retested<'a> {
    fn new(run: &Run, suspect: SuspectFigure, tried: &'a [OutlierRetest]) -> Self {
        let outlier: Option<OutlierEvidence> =
            run.findings.get(suspect.finding).and_then(Finding::evidence_as);
        let own = || tried.iter().filter(|one| one.suspect.finding == suspect.finding);
        let seconds: Vec<Second<'a>> = own().filter_map(|one| Second::of(outlier.as_ref()?, one)).collect();
        let all = seconds.len();
        let usable: Vec<Second<'a>> = seconds.into_iter().filter(|second| second.is_usual).collect();
        let (unusable, judged) = (all - usable.len(), usable.len());
        let far: Vec<Second<'a>> = usable.into_iter().filter(|second| second.is_far).collect();
        let (times, last, decided) = (own().count(), own().next_back(), SequentialDecision::Open);
        let (far, nearest) =
            (far.len(), far.into_iter().min_by(|a, b| a.distance().total_cmp(&b.distance())));
        Self { suspect, times, far, near: judged - far, unusable, nearest, last, decided }
    }
}

/// Returns the outliers, each with the decision from its retests. Once a benchmark is confirmed low
/// on a node, other outliers of this benchmark and node need one retest each.
fn retested<'a>(run: &Run, tried: &'a [OutlierRetest]) -> Vec<Retested<'a>> {
    let mut all: Vec<Retested<'a>> =
        suspects(run).into_iter().map(|suspect| Retested::new(run, suspect, tried)).collect();
    let mut looked_at: BTreeMap<String, usize> = BTreeMap::new();
    for measurement in run.measurements.iter().filter(|m| m.headline().is_some()) {
        *looked_at.entry(measurement.case.id().to_string()).or_default() += 1;
    }
    let allowed = FALSE_ALARMS / looked_at.len().max(1) as f64;
    let mut by_chance: BTreeMap<String, f64> = BTreeMap::new();
    for one in all.iter().filter(|one| one.near > 0) {
        *by_chance.entry(one.suspect.case.clone()).or_insert(1.0) += 1.0;
    }
    for one in &mut all {
        // Chance makes `allowed` outliers per case, unless the case itself shows more.
        let by_chance = by_chance.get(&one.suspect.case).copied().unwrap_or(allowed);
        let looked_at = looked_at.get(&one.suspect.case).copied().unwrap_or(1);
        if let Some(test) = Sequential::of_outlier(by_chance, looked_at, allowed) {
            one.decided = test.with_max_low(MAX_RETESTS).decide(one.far, 0, one.far + one.near);
        }
    }
    let low = all.iter().filter(|one| one.decided == SequentialDecision::Low);
    let low: Vec<SuspectFigure> = low.map(|one| one.suspect.clone()).collect();
    for one in &mut all {
        let is_repeated = one.decided == SequentialDecision::Open && one.far > 0 && one.near == 0;
        if is_repeated && low.iter().any(|other| other.of() == one.suspect.of()) {
            one.decided = SequentialDecision::Low;
        }
    }
    all
}

/// Returns the outliers to retest next: those without a retest; if there are none, one undecided
/// outlier per benchmark and node. Empty when all are decided.
pub fn next_retests(run: &Run, tried: &[OutlierRetest]) -> Vec<SuspectFigure> {
    let all = retested(run, tried).into_iter();
    let open = all.filter(|one| one.decided == SequentialDecision::Open && one.times < MAX_RETESTS);
    let (new, mut more): (Vec<_>, Vec<_>) = open.partition(|one| one.times == 0);
    let mut leads: BTreeSet<(String, String)> = BTreeSet::new();
    more.retain(|one| {
        let (node, benchmark) = one.suspect.of();
        leads.insert((node.to_owned(), benchmark.to_owned()))
    });
    let chosen = if new.is_empty() { more } else { new };
    chosen.into_iter().map(|one| one.suspect).collect()
}

/// Writes the outcome of all retests into the findings of `run`. Repeated outliers keep their
/// finding. One finding lists those that did not repeat, and those without a retest if the retested
/// ones of their benchmark and node did not repeat.
pub fn apply_retests(run: &mut Run, tried: &[OutlierRetest]) {
    let all = retested(run, tried);
    let (mut gone, mut kept): (BTreeMap<usize, &Retested<'_>>, BTreeSet<(&str, &str)>) = Default::default();
    for one in &all {
        let Some(finding) = run.findings.get_mut(one.suspect.finding) else { continue };
        match &one.nearest {
            _ if one.decided == SequentialDecision::Usual => {
                gone.insert(one.suspect.finding, one);
            }
            Some(second) => {
                second.add_retest(finding, one.far, one.decided == SequentialDecision::Low);
                kept.insert(one.suspect.of());
            }
            // The control node differed in the retest, too.
            None if one.unusable > 0 => {
                NOT_CONFIRMED.clone_into(&mut finding.code);
                finding.text += ". Measured again, the machine that it is compared with differed as well. Chance is not ruled out: measure it again";
            }
            None => {}
        }
    }
    let not_again: BTreeSet<(&str, &str)> = gone.values().map(|one| one.suspect.of()).collect();
    let follows = |one: &&Retested<'_>| {
        one.times == 0 && not_again.contains(&one.suspect.of()) && !kept.contains(&one.suspect.of())
    };
    gone.extend(all.iter().filter(follows).map(|one| (one.suspect.finding, one)));
    let first = gone.keys().next().copied().unwrap_or_default();
    let mut index = 0..;
    run.findings.retain(|_| index.next().is_some_and(|index| !gone.contains_key(&index)));
    let last =
        run.findings.iter().rposition(|finding| [OUTLIER, NOT_CONFIRMED].contains(&finding.code.as_str()));
    let place = last.map_or(first, |last| last + 1);
    run.findings.splice(place..place, not_confirmed(&gone.into_values().collect::<Vec<_>>()));
}

struct Second<'a> {
    own: NodeFigure<'a>,
    control: NodeFigure<'a>,
    /// Result ÷ control - 1.
    away: f64,
    /// Whether the distance is as large as at first, in the same direction.
    is_far: bool,
    /// Whether the control result is near the median again; otherwise the retest is unusable.
    is_usual: bool,
}

impl<'a> Second<'a> {
    /// Compares the outlier with its control node in a retest; `None` if either has no result.
    fn of(outlier: &OutlierEvidence, tried: &'a OutlierRetest) -> Option<Self> {
        let (own, control) =
            (figure(&tried.own, outlier.delivered)?, figure(&tried.control, outlier.delivered)?);
        // The first distance is in logarithms.
        let (before, reach) = (outlier.away, outlier.above.ln_1p());
        let is_usual = (control.value / outlier.median).ln().abs() <= reach.max(FLOOR.ln_1p());
        let away = own.value / control.value - 1.0;
        let is_far = away.signum() == before.signum()
            && away.ln_1p().abs() > reach
            && away.abs() > FLOOR.max(own.reach() + control.reach());
        Some(Self { own, control, away, is_far, is_usual })
    }

    fn distance(&self) -> f64 {
        self.away.ln_1p().abs()
    }

    /// Adds this retest and its cause to the finding, given that `times` retests repeated the
    /// outlier. If not `is_confirmed`, the finding gets the code `not-confirmed`.
    fn add_retest(&self, finding: &mut Finding, times: usize, is_confirmed: bool) {
        let Some(mut evidence) = finding.evidence_as::<OutlierEvidence>() else { return };
        let before = evidence.cause.take();
        let is_worse = is_worse(&self.own, self.away);
        let cause = cause(&self.own, self.away, &UsualLosses::of(std::slice::from_ref(&self.control)))
            .or(before.clone());
        let because_of = |cause: Option<&str>| if is_worse { because(cause) } else { String::new() };
        let head = finding.text.strip_suffix(&because_of(before.as_deref())).unwrap_or(&finding.text);
        let side = if self.away < 0.0 { "below" } else { "above" };
        let again = format!("{} {side}", percent(self.away.abs(), 2));
        let node = &self.control.measurement.node;
        let often = if times > 1 { format!(" {times} times, the nearest") } else { String::new() };
        let unsure = if !is_confirmed { ". Chance is not ruled out: measure it again" } else { "" };
        finding.text = format!(
            "{head}. Measured again alone{often}: {}, {again} {node}{}{unsure}",
            self.own.shown(),
            because_of(cause.as_deref())
        );
        if !is_confirmed {
            finding.code = NOT_CONFIRMED.to_owned();
        }
        let (value, control_value, away) = (self.own.value, self.control.value, self.away);
        let again = RetestEvidence { value, control: node.clone(), control_value, away, times };
        finding.evidence = json!(OutlierEvidence { cause, again: Some(again), ..evidence });
    }
}

/// Returns one finding on the outliers `once` that did not repeat; `None` without any.
fn not_confirmed(once: &[&Retested<'_>]) -> Option<Finding> {
    let mut by_node: BTreeMap<&str, usize> = BTreeMap::new();
    once.iter().for_each(|one| *by_node.entry(&one.suspect.node).or_default() += 1);
    let mut nodes: Vec<(&str, usize)> = by_node.into_iter().collect();
    nodes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named = nodes.iter().take(MAX_NAMED_RETESTS).map(|(node, count)| format!("{count} of {node}"));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match nodes.len().saturating_sub(MAX_NAMED_RETESTS) {
        0 => String::new(),
        more => format!(" and of {}", format_count(more, "more machine")),
    };
    let without = match once.iter().filter(|one| one.last.is_none()).count() {
        0 => String::new(),
        n => format!(" ({n} of them without: others of the same benchmark and machine do not)"),
    };
    let (figures, verb) = (format_count(once.len(), "figure"), if once.len() == 1 { "does" } else { "do" });
    let text = format!(
        "{figures} stood out at first, and {verb} not when measured again alone{without}: {named}{more}"
    );
    let one = |one: &&Retested<'_>| {
        let (suspect, last) = (&one.suspect, one.last);
        let value =
            |m: Option<&Measurement>| m.and_then(Measurement::headline).map(|metric| metric.summary.median);
        json!({
            "node": suspect.node, "case": suspect.case, "again": value(last.map(|tried| &tried.own)),
            "control": suspect.control, "control_value": value(last.map(|tried| &tried.control)),
        })
    };
    let evidence = json!({ "figures": once.iter().map(one).collect::<Vec<Value>>() });
    (!once.is_empty()).then(|| Finding::new(NOT_CONFIRMED, text, evidence))
}

#[cfg(test)]
mod tests {
    use super::super::tests::on;
    use super::super::{Machines, find};
    use super::*;
    use crate::fixture;

    /// Returns a run with the rates of n0, n1, …: a list for each number of threads from one.
    fn run(lists: &[&[f64]]) -> Run {
        let of_list = |(threads, rates): (u64, &&[f64])| {
            let one = |(index, rate): (usize, &f64)| {
                let made = on(&format!("n{index}"), *rate);
                Measurement { case: made.case.clone().with_count("threads", threads), ..made }
            };
            rates.iter().enumerate().map(one).collect::<Vec<_>>()
        };
        let measurements: Vec<Measurement> = (1..).zip(lists).flat_map(of_list).collect();
        let findings = find(&measurements, &Machines::new());
        Run { measurements, findings, ..fixture::run() }
    }

    fn tried(suspect: SuspectFigure, [own, control]: [f64; 2]) -> OutlierRetest {
        let (own, control) = (on(&suspect.node, own), on(&suspect.control, control));
        OutlierRetest { suspect, own, control }
    }

    #[test]
    fn who_stands_out_is_measured_with_one_that_does_not_and_each_once_before_one_twice() {
        let found = suspects(&run(&[&[100.0, 100.1, 100.4, 50.0, 99.0, 40.0]]));
        let named: Vec<(&str, &str)> = found.iter().map(|s| (s.node.as_str(), s.control.as_str())).collect();
        assert_eq!(named, [("n5", "n0"), ("n3", "n0")]);
        assert_eq!(suspects(&run(&[&[100.0; 6]])), []);
        let all = run(&[&[100.0, 100.1, 99.9, 100.0, 100.0, 90.0], &[100.0, 100.0, 100.1, 99.9, 80.0, 50.0]]);
        let order: Vec<String> = suspects(&all).into_iter().map(|suspect| suspect.node).collect();
        assert_eq!(order, ["n5", "n4", "n5"]);
    }

    #[test]
    fn what_stands_out_again_says_so_and_what_does_not_is_told_in_a_line() {
        let mut all = run(&[&[100.0, 100.1, 100.4, 50.0, 99.0, 40.0]]);
        let [once, slow] = suspects(&all).try_into().unwrap();
        let mut slow = tried(slow, [52.0, 104.0]);
        slow.own.conditions.throttled = Some(0.5);
        apply_retests(&mut all, &[tried(once, [101.0, 100.0]), slow]);
        let texts: Vec<&str> = all.findings.iter().map(|finding| finding.text.as_str()).collect();
        let told = [
            "n3: cpu fma f64 avx2: 50.0 FLOP/s, 50 % below the median of 6 machines. Measured again alone: 52.0 FLOP/s, 50 % \
             below n0. Likely cause: throttled by the CPU quota 50 % of the time. Chance is not ruled out: measure it again",
            "1 figure stood out at first, and does not when measured again alone: 1 of n5",
        ];
        assert_eq!(texts, told);
        assert!(all.findings.iter().all(|finding| finding.code == NOT_CONFIRMED));
        assert_eq!(all.findings[0].evidence["again"]["control"], "n0");
        assert_eq!(all.findings[1].evidence["figures"][0]["node"], "n5");
    }

    #[test]
    fn where_the_other_machine_differs_each_time_nothing_is_confirmed() {
        let mut all = run(&[&[100.0, 100.1, 100.4, 50.0, 99.0, 99.9]]);
        let mut made = Vec::new();
        while let [suspect, ..] = next_retests(&all, &made).as_slice() {
            made.push(tried(suspect.clone(), [50.0, 60.0]));
        }
        assert_eq!(made.len(), 6);
        apply_retests(&mut all, &made);
        assert_eq!((all.findings.len(), all.findings[0].code.as_str()), (1, NOT_CONFIRMED));
        let text = &all.findings[0].text;
        assert!(text.contains("differed as well. Chance is not ruled out"), "{text}");
    }

    #[test]
    fn each_figure_of_a_benchmark_is_confirmed_by_its_second_measurement() {
        let rates = |slow: f64| [100.0, 100.1, 100.4, slow, 99.0, 99.9, 100.2, 100.3];
        let mut all = run(&[&rates(50.0), &rates(40.0)]);
        let mut made = Vec::new();
        let mut rounds = Vec::new();
        while let suspects @ [_, ..] = next_retests(&all, &made).as_slice() {
            rounds.push(suspects.iter().map(|s| s.case.ends_with("threads=2")).collect::<Vec<bool>>());
            made.extend(suspects.iter().map(|suspect| tried(suspect.clone(), [50.0, 100.0])));
        }
        assert!(rounds.len() == 1 && rounds[0].len() == 2, "twice is enough: {rounds:?}");
        apply_retests(&mut all, &made);
        assert!(all.findings.iter().all(|finding| finding.code == OUTLIER), "{:?}", all.findings);
    }

    /// The first measurement has a false alarm in 1 % of runs; a second outlier confirms it.
    #[test]
    fn what_stands_out_twice_is_confirmed() {
        let mut all = run(&[&[100.0, 100.1, 100.4, 50.0, 99.0, 99.9, 100.2, 100.3]]);
        let [suspect] = next_retests(&all, &[]).try_into().unwrap();
        // Unusable retest: the control node was slow.
        let mut made = vec![tried(suspect, [50.0, 60.0])];
        let [suspect] = next_retests(&all, &made).try_into().unwrap();
        made.push(tried(suspect, [55.0, 100.0]));
        assert_eq!(next_retests(&all, &made), []);
        let mut refuted = (all.clone(), made.clone());
        apply_retests(&mut all, &made);
        let text = &all.findings[0].text;
        assert!(text.ends_with("alone: 55.0 FLOP/s, 45 % below n1. Cause unknown"), "{text}");
        assert_eq!(all.findings[0].code, OUTLIER);
        assert_eq!(all.findings[0].evidence["again"]["times"], 1);
        refuted.1[1].own = on("n3", 100.0);
        apply_retests(&mut refuted.0, &refuted.1);
        assert_eq!((refuted.0.findings.len(), refuted.0.findings[0].code.as_str()), (1, NOT_CONFIRMED));
    }

    #[test]
    fn what_was_not_measured_again_follows_the_rest_of_its_benchmark_on_that_machine() {
        let mut all =
            run(&[&[100.0, 100.1, 99.9, 100.0, 100.0, 90.0], &[100.0, 100.0, 100.1, 99.9, 80.0, 50.0]]);
        let first = suspects(&all).remove(0);
        let mut usual = all.clone();
        apply_retests(&mut usual, &[tried(first.clone(), [100.0, 100.0])]);
        let texts: Vec<&str> = usual.findings.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with("n4: "), "another machine keeps its finding: {texts:?}");
        assert!(texts[1].starts_with("2 figures stood out at first"), "{texts:?}");
        assert!(texts[1].contains("(1 of them without"), "{texts:?}");
        apply_retests(&mut all, &[tried(first, [50.0, 100.0])]);
        assert_eq!(all.findings.len(), 3, "{:?}", all.findings);
    }

    #[test]
    fn one_that_is_off_to_the_other_side_then_is_not_confirmed_and_one_without_a_figure_is_not_judged() {
        let mut all = run(&[&[100.0, 100.1, 100.4, 50.0, 99.0, 100.0]]);
        let suspect = suspects(&all).remove(0);
        let mut without = tried(suspect.clone(), [50.0, 100.0]);
        without.own.metrics.clear();
        let before = all.findings.clone();
        apply_retests(&mut all, &[without]);
        assert_eq!(all.findings, before);
        apply_retests(&mut all, &[tried(suspect, [150.0, 100.0])]);
        assert!(all.findings.len() == 1 && all.findings[0].code == NOT_CONFIRMED, "{:?}", all.findings);
        apply_retests(&mut all, &[]);
        assert_eq!(all.findings.len(), 1);
    }
}
