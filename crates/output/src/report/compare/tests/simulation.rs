//! A thousand synthetic pairs of runs with noise, planted differences and losses: changes are
//! found, unchanged cases are not called changed, and no case is dropped silently.

use std::sync::LazyLock;

use chacha20::ChaCha8Rng;
use plimsoll_compare::{CompareOptions, ComparedSide, Floors, Requirement, compare};
use plimsoll_model::case::Case;
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::{Node, Run};
use plimsoll_result::fixture;
use plimsoll_stats::Seed;
use plimsoll_units::quantity::Unit;
use rand::RngExt;

use super::super::*;
use super::{markdown, table};
use crate::report::Style;
use crate::report::escape::markdown as escaped;

const PAIRS: u64 = 1000;
const CASES: usize = 10;
/// Threshold of `--fail-on` in every other pair.
const SHARE: f64 = 0.05;

/// A run of ten cases; for five of them, higher is better.
static WHOLE: LazyLock<Run> = LazyLock::new(|| {
    // Two parameters differ, so that no case is mistaken for another.
    let op = |n: usize| ["read", "write", "copy", "scale", "add"][n % 5];
    let rate = |n: usize| {
        (format!("memory.bandwidth/op={}/size=512M/threads={n}", op(n)), Unit::BytePerSecond, 10e9)
    };
    let time = |n: usize| (format!("memory.latency/size={n}M/chases={n}"), Unit::Second, 90e-9);
    let all = (1..=CASES / 2).flat_map(|n| [rate(n), time(n)]);
    let made = |(id, unit, value): (String, Unit, f64)| {
        let name = if unit == Unit::Second { "latency" } else { "bandwidth" };
        let mut made = fixture::of_metric(&id, fixture::metric(name, unit, value, 0.002));
        made.metrics[0].samples.clear();
        made.metrics[0].series.clear();
        made
    };
    fixture::run_of(all.map(made).collect())
});

/// Outcome of a case on one side.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Ok,
    /// Measured, but more than half of its time excluded.
    Doubtful,
    /// Marked as measured, but almost all of its time excluded.
    Hollow,
    Invalid,
    Failed,
    Skipped,
    Missing,
}

const REASONS: [(Fate, &str, &str); 3] = [
    (Fate::Invalid, "invalid", "past its limit"),
    (Fate::Failed, "failed", "no space left"),
    (Fate::Skipped, "skipped", "not on this machine"),
];

impl Fate {
    fn drawn(random: &mut ChaCha8Rng) -> Self {
        let rare = [Self::Doubtful, Self::Hollow, Self::Invalid, Self::Failed, Self::Skipped, Self::Missing];
        rare.get(random.random_range(0..40_i32) as usize).copied().unwrap_or(Self::Ok)
    }

    fn has(self) -> Option<Status> {
        match self {
            Self::Ok | Self::Doubtful => Some(Status::Ok),
            Self::Hollow | Self::Invalid => Some(Status::Invalid),
            Self::Failed => Some(Status::Failed),
            Self::Skipped => Some(Status::Skipped),
            Self::Missing => None,
        }
    }

    fn meet(self, mut made: Measurement) -> Option<Measurement> {
        let status = self.has()?;
        if let Some((.., reason)) = REASONS.iter().find(|(fate, ..)| *fate == self) {
            (made.status, made.reason) = (status, Some((*reason).to_owned()));
        }
        match self {
            Self::Doubtful => made.conditions.excluded = Some(0.7),
            Self::Hollow => made.conditions.excluded = Some(0.995),
            Self::Failed | Self::Skipped => made.metrics.clear(),
            _ => {}
        }
        Some(made)
    }
}

/// A pair and the truth about it.
struct Made {
    a: ComparedSide,
    b: ComparedSide,
    floors: Vec<Floors>,
    deviation: f64,
    /// Outcomes on both sides, and logarithm of the planted difference, by case.
    truth: Vec<([Fate; 2], f64)>,
    /// Whether a run of the baseline was disturbed.
    outlier: bool,
}

impl Made {
    fn of(number: u64) -> Self {
        let mut random = Seed::new(number, "compare", "simulation").generator();
        let deviation = [0.002, 0.005, 0.01, 0.03][random.random_range(0..4)];
        let truth: Vec<([Fate; 2], f64)> = (0..CASES)
            .map(|_| {
                let fates = [Fate::drawn(&mut random), Fate::drawn(&mut random)];
                let share: f64 = [0.0, 0.0, 0.0, 0.0, 0.02, 0.05, 0.1, 0.3][random.random_range(0..8)];
                (fates, if random.random() { share.ln_1p() } else { -share.ln_1p() })
            })
            .collect();
        let measured = |factors: &[f64], fate: &dyn Fn(usize) -> Fate| {
            let cases = WHOLE.measurements.iter().enumerate();
            let one = |(index, like): (usize, &Measurement)| {
                let mut made = like.clone();
                made.scale(factors[index]);
                fate(index).meet(made)
            };
            Run { measurements: cases.filter_map(one).collect(), ..WHOLE.clone() }
        };
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let mut factors = |planted: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..CASES).map(|index| (planted(index) + deviation * normal()).exp()).collect()
        };
        let (baseline, known) = (number.is_multiple_of(2), number % 10 != 1);
        let outlier = baseline && number.is_multiple_of(4);
        let before = if baseline { 10 } else { 1 };
        let runs = (0..before).map(|n| {
            let mut factors = factors(&|_| 0.0);
            // Each case has its outlier in another run.
            let far = if number.is_multiple_of(8) { 16.0 } else { 0.1 };
            let one = factors.iter_mut().enumerate().filter(|(index, _)| outlier && index % 10 == n);
            one.for_each(|(_, factor)| *factor *= far);
            measured(&factors, &|index| truth[index].0[0])
        });
        let a = ComparedSide { name: "before".to_owned(), runs: runs.collect() };
        let after = measured(&factors(&|index| truth[index].1), &|index| truth[index].0[1]);
        let b = ComparedSide { name: "after".to_owned(), runs: vec![after] };
        let doctor: Vec<Run> = (0..6).map(|_| measured(&factors(&|_| 0.0), &|_| Fate::Ok)).collect();
        let floors = if known { vec![Floors::of(&doctor)] } else { Vec::new() };
        Self { a, b, floors, deviation, truth, outlier }
    }

    fn compared(&self, fail_on: Option<f64>) -> Comparison {
        let sides = [self.a.clone(), self.b.clone()];
        compare(&sides, &self.floors, &CompareOptions { fail_on, ..CompareOptions::default() })
    }
}

#[derive(Default)]
struct Seen {
    pairs_wrong: usize,
    unchanged: usize,
    wrong: usize,
    large: usize,
    found: usize,
}

impl Seen {
    fn verdicts(&mut self, made: &Made, comparison: &Comparison, fail_on: Option<f64>) {
        let wrong_before = self.wrong;
        for (index, like) in WHOLE.measurements.iter().enumerate() {
            let Some(one) = comparison.compared.iter().find(|c| c.case == like.case) else { continue };
            let (fates, planted) = made.truth[index];
            let real = matches!(one.verdict, DifferenceVerdict::Improvement | DifferenceVerdict::Regression);
            let gain = if like.metrics[0].unit == Unit::Second { -planted } else { planted };
            let right = (gain > 0.0) == (one.verdict == DifferenceVerdict::Improvement);
            if fates.contains(&Fate::Doubtful) {
                assert_eq!(one.verdict, DifferenceVerdict::Inconclusive, "{one:?}");
                continue;
            }
            if planted == 0.0 {
                self.unchanged += 1;
                self.wrong += usize::from(real);
            }
            let Some(smallest) = one.smallest else {
                assert_eq!(one.verdict, DifferenceVerdict::Inconclusive, "{one:?}");
                continue;
            };
            // Well above the noise floor and the noise of one run.
            if planted.abs() > 1.5 * smallest.ln_1p() + 3.0 * made.deviation {
                self.large += 1;
                self.found += usize::from(real && right);
            }
            if one.verdict == DifferenceVerdict::NoChange {
                let is_seen = fail_on.is_none_or(|share| one.unseen.unwrap() <= share);
                assert!(smallest <= 0.25 && is_seen, "{one:?}");
                assert!(fail_on.is_none() || planted.abs() < 0.09, "{one:?}");
            }
            if made.outlier {
                assert!(smallest < 30.0 * made.deviation + 0.02, "an outlier is no noise: {one:?}");
            }
        }
        self.pairs_wrong += usize::from(self.wrong > wrong_before);
    }
}

/// Each case of either side is in the document and in each format, with its outcome.
fn nothing_is_left_out(made: &Made, comparison: &Comparison, page: bool) {
    let document = serde_json::to_string(comparison).unwrap();
    let text = table(comparison, &[], ShownMetrics::All, &Style::plain(100_000));
    let marked = markdown(comparison, &[], ShownMetrics::All, Missing::Fail);
    let page = page.then(|| super::page_of(comparison, &[], ShownMetrics::All));
    let named = |case: &Case| {
        let name = label::label(case);
        assert!(document.contains(&format!("\"{}\"", case.id().as_str())), "{case:?}");
        assert!(text.contains(&name) && marked.contains(&escaped(&name)), "{name}:\n{text}");
        assert!(page.as_ref().is_none_or(|page| page.contains(&name)), "{name}");
    };
    let mut lost = 0;
    for (index, like) in WHOLE.measurements.iter().enumerate() {
        let has = made.truth[index].0.map(Fate::has);
        let left = comparison.uncompared.iter().find(|u| u.case == like.case);
        let paired = comparison.compared.iter().any(|c| c.case == like.case);
        match has {
            [None, None] => assert!(left.is_none() && !paired),
            [Some(Status::Ok), Some(Status::Ok)] => {
                assert!(left.is_none() && paired);
                named(&like.case);
            }
            [a, b] => {
                let left = left.unwrap_or_else(|| panic!("{:?} is not named", like.case));
                assert_eq!((left.a.status, left.b.status, paired), (a, b, false));
                for on in [&left.a, &left.b] {
                    assert!(on.status == Some(Status::Ok) || on.reason.is_some(), "{left:?}");
                }
                assert_eq!(left.kind == UncomparedKind::Lost, a == Some(Status::Ok), "{left:?}");
                lost += usize::from(a == Some(Status::Ok));
                named(&like.case);
            }
        }
    }
    assert_eq!(comparison.decided.lost, lost);
    assert!(text.trim_end().ends_with(&tally(comparison)) && text.contains(&comparison.decided.to_string()));
    for (has, word, reason) in REASONS {
        let there = made.truth.iter().any(|(fates, _)| fates.contains(&has));
        let stated = |side: &&str| text.contains(&format!("{word} in {side} ({reason})"));
        assert_eq!(["A", "B", "A and B"].iter().any(stated), there, "{word}:\n{text}");
    }
}

/// A planted loss is detected, or the gate reports that it could not detect it.
fn the_gate_is_honest(made: &Made, comparison: &Comparison) {
    let Some(gate) = &comparison.gate else { return };
    let undecided = comparison.count(DifferenceVerdict::Inconclusive);
    assert_eq!((gate.blind, gate.blindness().is_some()), (undecided, undecided > 0));
    for (like, (_, planted)) in WHOLE.measurements.iter().zip(&made.truth) {
        let Some(one) = comparison.compared.iter().find(|c| c.case == like.case) else { continue };
        let lower_is_better = like.metrics[0].unit == Unit::Second;
        let worse = if lower_is_better { *planted } else { -planted };
        let seen = matches!(one.verdict, DifferenceVerdict::Regression | DifferenceVerdict::Inconclusive);
        assert!(worse <= 0.09 || seen, "{one:?}");
    }
}

/// Removes a case from the second side, in one run or on one node, or sets it to zero: gate and
/// requirements fail.
fn what_is_gone_is_noticed(mut made: Made, number: u64) -> bool {
    let of = |n: usize| &WHOLE.measurements[n];
    let falls = number % 3 == 2;
    let mut order = (0..CASES).map(|n| (n + number as usize) % CASES);
    let good =
        |n: &usize| made.truth[*n].0 == [Fate::Ok; 2] && !(falls && of(*n).metrics[0].unit == Unit::Second);
    let Some(like) = order.find(good).map(of) else { return false };
    let mut node = None;
    match number % 3 {
        0 => {
            let mut killed = made.b.runs[0].clone();
            killed.measurements.retain(|m| m.case != like.case);
            made.b.runs.push(killed);
        }
        1 => {
            let other = "bench-2".to_owned();
            for run in made.a.runs.iter_mut().chain(&mut made.b.runs) {
                run.nodes.push(Node { name: other.clone(), ..run.nodes[0].clone() });
                let there = |m: &Measurement| Measurement { node: other.clone(), ..m.clone() };
                run.measurements.extend(run.measurements.iter().map(there).collect::<Vec<_>>());
            }
            made.b.runs[0].measurements.retain(|m| m.case != like.case || m.node != other);
            node = Some(other);
        }
        _ => {
            let mut all = made.b.runs[0].measurements.iter_mut();
            let summary = &mut all.find(|m| m.case == like.case).unwrap().metrics[0].summary;
            (summary.median, summary.ci95) = (0.0, Some([0.0, 0.0]));
        }
    }
    let found = made.compared(Some(SHARE));
    let gate = found.gate.unwrap();
    if falls {
        let one = found.compared.iter().find(|c| c.case == like.case).unwrap();
        assert_eq!((one.verdict, one.loss()), (DifferenceVerdict::Regression, 1.0), "{one:?}");
        assert!(gate.failed > 0, "{one:?}");
        return true;
    }
    let mut lost = found.uncompared.iter().filter(|u| u.kind == UncomparedKind::Lost && u.case == like.case);
    assert!(found.decided.lost > 0 && lost.any(|one| one.node == node), "{:?}", found.uncompared);
    let (last, earlier) = made.b.runs.split_last().unwrap();
    let text = format!("{} {} >= 0", like.case.id().as_str(), like.metrics[0].name);
    let unmet = Requirement::parse(&text).unwrap().lost(last, earlier, &made.a.runs);
    assert_eq!(unmet.len(), 1, "{unmet:?}");
    true
}

#[test]
fn of_a_thousand_pairs_nothing_is_lost_and_hardly_one_is_wrong() {
    let (mut seen, mut gone) = (Seen::default(), 0);
    for number in 0..PAIRS {
        let made = Made::of(number);
        let fail_on = (number % 4 < 2).then_some(SHARE);
        let comparison = made.compared(fail_on);
        nothing_is_left_out(&made, &comparison, number.is_multiple_of(50));
        seen.verdicts(&made, &comparison, fail_on);
        the_gate_is_honest(&made, &comparison);
        gone += usize::from(what_is_gone_is_noticed(made, number));
    }
    assert!(gone > 900, "{gone}");
    let Seen { pairs_wrong, unchanged, wrong, large, found } = seen;
    assert!(unchanged > 3000 && large > 500, "{unchanged} {large}");
    assert!(pairs_wrong * 100 <= PAIRS as usize, "{pairs_wrong} pairs call something changed that is not");
    assert!(wrong * 100 <= unchanged, "{wrong} of {unchanged} figures");
    assert!(found * 100 >= large * 99, "{found} of {large} large differences are found");
}
