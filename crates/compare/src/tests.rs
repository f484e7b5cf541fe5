//! Two sides in all states: identical, changed, noisy, unknown.

use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::RunStatus;
use plimsoll_result::fixture;
use plimsoll_stats::Seed;
use proptest::prelude::*;
use rand::RngExt;

use super::*;
use DifferenceVerdict::{Improvement, Inconclusive, Informative, NoChange, Regression};
use UncomparedKind::{Lost, Neither, New, Partly};

const CASE: &str = "memory.bandwidth/op=read/size=512M/threads=2";
const OF_ONE_THREAD: &str = "memory.bandwidth/op=read/size=512M/threads=1";
const WRITE: &str = "memory.bandwidth/op=write/size=512M/threads=1";

/// Returns a run with a result of this median for each case, and samples within ± 0.2 %.
fn of_cases(cases: &[(&str, f64)]) -> Run {
    let made = |(case, value): &(&str, f64)| {
        fixture::of_metric(case, fixture::metric("bandwidth", Unit::BytePerSecond, *value, 0.002))
    };
    fixture::run_of(cases.iter().map(made).collect())
}

fn run(value: f64) -> Run {
    of_cases(&[(CASE, value)])
}

fn changed(value: f64, change: impl FnOnce(&mut Measurement)) -> Run {
    let mut run = run(value);
    change(&mut run.measurements[0]);
    run
}

fn interrupted(value: f64, excluded: f64) -> Run {
    changed(value, |made| made.conditions.excluded = Some(excluded))
}

fn compare(a: &ComparedSide, b: &ComparedSide, floors: &[Floors], fail_on: Option<f64>) -> Comparison {
    super::compare(&[a.clone(), b.clone()], floors, &CompareOptions { fail_on, ..CompareOptions::default() })
}

pub(crate) fn side(runs: Vec<Run>) -> ComparedSide {
    ComparedSide { name: "side".to_owned(), runs }
}

fn single(value: f64) -> ComparedSide {
    side(vec![run(value)])
}

/// Returns a side with a run for each median, in GB/s.
fn several(medians: &[f64]) -> ComparedSide {
    side(medians.iter().map(|median| run(median * 1e9)).collect())
}

fn first(a: &ComparedSide, b: &ComparedSide, floors: &[Floors]) -> ComparedMetric {
    compare(a, b, floors, None).compared.remove(0)
}

fn kinds(found: &Comparison) -> Vec<UncomparedKind> {
    found.uncompared.iter().map(|one| one.kind).collect()
}

pub(crate) fn floors(deviation: f64) -> Vec<Floors> {
    floors_of("memory.bandwidth", &["bandwidth"], deviation)
}

fn floors_of(benchmark: &str, metrics: &[&str], deviation: f64) -> Vec<Floors> {
    let floor = |metric: &&str| NoiseFloor {
        benchmark: benchmark.to_owned(),
        metric: (*metric).to_owned(),
        case: None,
        noise: RunNoise { deviation, freedom: 12.0, largest: 2.0 * deviation },
    };
    let floors = metrics.iter().map(floor).collect();
    vec![Floors { machine: "m-1".to_owned(), floors, ..Floors::default() }]
}

pub(crate) fn only(a: f64, b: f64, deviation: f64) -> ComparedMetric {
    first(&single(a), &single(b), &floors(deviation))
}

#[test]
fn a_change_beyond_the_noise_is_real_and_one_within_is_not() {
    let worse = only(10e9, 9e9, 0.004);
    assert_eq!((worse.verdict, worse.noise), (Regression, Some(NoiseOrigin::Doctor)));
    assert!((worse.difference.unwrap() + 0.1).abs() < 0.01);
    let [low, high] = worse.interval.unwrap();
    assert!(low < -0.1 && high > -0.1 && high < 0.0, "{low} {high}");
    assert!((worse.loss() - 0.1).abs() < 0.01);
    assert_eq!(only(9e9, 10e9, 0.004).verdict, Improvement);
    assert_eq!(only(10e9, 10.05e9, 0.004).verdict, NoChange);
    let verdict = |b| only(10e9, b, 0.03).verdict;
    assert_eq!([9.3e9, 9.15e9].map(verdict), [NoChange; 2], "that is within such noise");
    let more = [8.95e9, 9.05e9, 11.05e9].map(verdict);
    assert_eq!(more, [Inconclusive; 3], "more than a tenth is never the same");
    let vague = only(10e9, 10.01e9, 0.05);
    assert!(vague.smallest.unwrap() > 0.25 && vague.verdict == Inconclusive, "{vague:?}");
    let hidden = only(10e9, 5e9, 0.5);
    assert_eq!((hidden.verdict, hidden.difference.map(|d| d < -0.49)), (Inconclusive, Some(true)));
    assert!(hidden.why.unwrap().contains("idle machine"), "such noise hides what one looks for");
}

/// A result that hides a loss is not "no change", and the gate contains the size of that loss.
#[test]
fn a_gate_that_cannot_see_what_it_is_asked_for_is_blind() {
    let gated = |deviation, share| compare(&single(10e9), &single(10.02e9), &floors(deviation), Some(share));
    let sees = gated(0.004, 0.05);
    assert_eq!((sees.compared[0].verdict, sees.gate.as_ref().unwrap().blindness()), (NoChange, None));
    let blind = gated(0.01, 0.05);
    assert_eq!(blind.compared[0].verdict, Inconclusive);
    let line = blind.gate.as_ref().unwrap().blindness().unwrap();
    let start = "undetectable: regressions of up to 5.9 % in 1 of 1 metrics pass --fail-on 5.0%: 1 too noisy";
    assert!(line.starts_with(start), "{line}");
    assert_eq!(gated(0.01, 0.1).compared[0].verdict, NoChange, "a tenth would be seen");
    let unknown = compare(&single(10e9), &single(10e9), &[], Some(0.05));
    assert!(unknown.gate.unwrap().blindness().unwrap().contains("of any size"));
}

#[test]
fn a_gate_fails_for_what_is_worse_by_more_than_its_share() {
    for (value, failed) in [(9.7e9, 0), (9.55e9, 0), (9.45e9, 1), (9.2e9, 1), (10.8e9, 0)] {
        let found = compare(&single(10e9), &single(value), &floors(0.001), Some(0.05));
        let expected = if value > 10e9 { Improvement } else { Regression };
        let counts = [found.gate.as_ref().unwrap().failed, found.worse_than(0.05).count()];
        assert_eq!((found.compared[0].verdict, counts), (expected, [failed; 2]), "{value}");
    }
}

#[test]
fn what_was_decided_is_one_sentence() {
    let two = |first: f64, second: f64, floors: &[Floors]| {
        let of = |[a, b]: [f64; 2]| side(vec![of_cases(&[(CASE, 10e9 * a), (OF_ONE_THREAD, 5e9 * b)])]);
        compare(&of([1.0; 2]), &of([first, second]), floors, None).decided.to_string()
    };
    let (quiet, loud) = (floors(0.004), floors(0.1));
    assert_eq!(two(1.0, 1.0, &quiet), "no change");
    assert_eq!(two(0.8, 1.0, &quiet), "1 regression, 1 no change");
    assert_eq!(two(0.8, 1.2, &quiet), "1 regression, 1 improvement");
    assert_eq!(two(1.0, 1.0, &loud), "2 inconclusive (too noisy)");
    assert_eq!(two(1.0, 1.0, &[]), "2 inconclusive (noise floor unknown)");
    let nothing = compare(&single(10e9), &side(vec![of_cases(&[])]), &quiet, None);
    assert_eq!(nothing.decided.to_string(), "nothing to compare; 1 lost");
}

#[test]
fn one_outlier_of_ten_runs_does_not_hide_what_changed() {
    let ten = several(&[10.0, 10.02, 9.98, 10.01, 9.99, 10.0, 10.03, 9.97, 10.0, 0.6]);
    let found = |b| compare(&ten, &single(b), &[], Some(0.05)).compared.remove(0);
    let worse = found(9.3e9);
    assert_eq!((worse.verdict, worse.outliers), (Regression, 1));
    assert!(worse.smallest.unwrap() < 0.03, "{worse:?}");
    assert_eq!(found(10.01e9).verdict, NoChange);
}

#[test]
fn figures_of_which_little_time_is_left_decide_nothing() {
    let with = |value, share| side(vec![interrupted(value, share)]);
    let found = |share| compare(&single(10e9), &with(20e9, share), &floors(0.004), None);
    assert_eq!(found(0.4).compared[0].verdict, Improvement);
    let mostly = found(0.6);
    assert_eq!(mostly.compared[0].verdict, Inconclusive);
    assert!(mostly.compared[0].why.as_ref().unwrap().starts_with("60 % of the time of B is excluded"));
    let same = compare(&with(10e9, 0.6), &single(10e9), &floors(0.004), Some(0.05));
    let gate = same.gate.unwrap();
    assert_eq!((same.compared[0].verdict, gate.blind), (Inconclusive, 1));
    assert!(gate.blindness().unwrap().contains("of any size"), "no loss would have been seen");
    let all = found(0.995);
    assert!(all.compared.is_empty(), "it is no figure, also where a document calls it one");
    assert_eq!((all.uncompared[0].kind, all.uncompared[0].b.status), (Lost, Some(Status::Invalid)));
}

#[test]
fn a_case_that_failed_on_one_side_is_not_compared_with_its_neighbour() {
    let mut a = run(20e9);
    let mut b = of_cases(&[(OF_ONE_THREAD, 10e9)]);
    let mut failed = a.measurements[0].clone();
    (failed.status, failed.reason) = (Status::Failed, Some("no memory".to_owned()));
    failed.metrics.clear();
    b.measurements.push(failed);
    let found = compare(&side(vec![a.clone()]), &side(vec![b]), &floors(0.004), Some(0.05));
    assert!(found.compared.is_empty());
    let kinds: Vec<_> = found.uncompared.iter().map(|u| (u.kind, u.a.status, u.b.status)).collect();
    assert_eq!(kinds, [(Lost, Some(Status::Ok), Some(Status::Failed)), (New, None, Some(Status::Ok))]);
    assert_eq!(found.uncompared[0].b.reason.as_deref(), Some("no memory"));
    let whole = a.clone();
    a.measurements[0].metrics.push(fixture::metric("bus_bandwidth", Unit::BytePerSecond, 1e9, 0.002));
    let mut without = whole.clone();
    without.measurements[0].status = Status::Invalid;
    let found = compare(&side(vec![a]), &side(vec![whole, without]), &floors(0.004), Some(0.05));
    let kinds: Vec<_> = found.uncompared.iter().map(|u| (u.kind, u.metric.as_deref())).collect();
    assert_eq!(kinds, [(Lost, None), (Lost, Some("bus_bandwidth"))]);
    assert_eq!((found.compared.len(), found.uncompared[0].b.ok, found.uncompared[0].b.of), (1, 1, 2));
}

#[test]
fn what_comes_of_cpus_in_other_places_is_not_called_real() {
    let run = |value, apart| changed(value, |made| made.conditions.core_to_core = Some(apart));
    let compared = |a, b| first(&side(vec![a]), &side(vec![b]), &floors(0.004));
    let moved = compared(run(42e9, 45e-9), run(78e9, 160e-9));
    assert_eq!((moved.verdict, moved.difference.map(|d| d > 0.8)), (Inconclusive, Some(true)));
    let why = moved.why.unwrap();
    assert!(why.contains("45") && why.contains("160"), "{why}");
    assert_eq!(compared(run(10e9, 45e-9), run(9e9, 50e-9)).verdict, Regression, "the same place");
    assert_eq!(compared(run(10e9, 45e-9), run(10e9, 160e-9)).verdict, NoChange, "it made no difference");
}

#[test]
fn without_a_known_noise_nothing_is_called_real() {
    let comparison = compare(&single(10e9), &single(1e9), &[], None);
    let one = &comparison.compared[0];
    assert_eq!((one.verdict, one.smallest, one.interval), (Inconclusive, None, None));
    assert!(one.why.as_ref().unwrap().contains("plimsoll doctor"));
    assert_eq!(comparison.worse_than(0.05).count(), 0);
    let elsewhere = [Floors { machine: "another".to_owned(), ..floors(0.004)[0].clone() }];
    assert_eq!(first(&single(10e9), &single(1e9), &elsewhere).verdict, Inconclusive);
}

#[test]
fn many_runs_tell_their_own_noise_and_four_do_not() {
    let judged = |medians: &[f64], b, floors: &[Floors]| {
        let found = first(&several(medians), &single(b), floors);
        (found.verdict, found.noise)
    };
    let medians = [10.0, 10.02, 9.98, 10.01, 9.99, 10.0];
    assert_eq!(judged(&medians, 9.5e9, &[]), (Regression, Some(NoiseOrigin::Runs)));
    assert_eq!(judged(&medians[..4], 9e9, &[]), (Inconclusive, None));
    assert_eq!(judged(&medians[..4], 9e9, &floors(0.004)), (Regression, Some(NoiseOrigin::Doctor)));
}

/// "No change" requires that the whole interval of the difference is below the smallest real one.
#[test]
fn what_is_known_too_roughly_is_not_called_the_same() {
    let verdict = |share: f64| {
        let run = changed(10e9, |made| {
            let summary = &mut made.metrics[0].summary;
            summary.ci95 = Some([1.0 - share, 1.0 + share].map(|end| end * summary.median));
        });
        let known = side(vec![run]);
        first(&known, &known, &floors(0.000_1)).verdict
    };
    // 1 % is the smallest real difference; with ± 0.71 % per side the difference is known to ± 1 %.
    assert_eq!([0.006, 0.008].map(verdict), [NoChange, Inconclusive]);
}

#[test]
fn a_difference_must_be_unlikely_among_all() {
    let verdicts = |all: &[f64]| -> Vec<DifferenceVerdict> {
        let one = |p: &f64| ComparedMetric { p: Some(*p), ..only(10e9, 9e9, 0.004) };
        let mut compared: Vec<ComparedMetric> = all.iter().map(one).collect();
        judge::correct(compared.iter_mut().collect());
        compared.into_iter().map(|one| one.verdict).collect()
    };
    assert_eq!(verdicts(&[0.9 * FAMILY]), [Regression]);
    assert_eq!(verdicts(&[1.1 * FAMILY]), [Inconclusive]);
    // Two metrics double the probability; the second one has fewer competitors.
    assert_eq!(verdicts(&[0.6 * FAMILY, 0.6 * FAMILY]), [Inconclusive; 2]);
    assert_eq!(verdicts(&[0.4 * FAMILY, 0.9 * FAMILY]), [Regression; 2]);
}

#[test]
fn a_published_table_loses_nothing() {
    let whole = of_cases(&[(CASE, 10e9), (WRITE, 5e9)]);
    let table = |runs| ComparedSide { name: format!("{PUBLISHED}table"), runs };
    let found = compare(&side(vec![whole.clone()]), &table(vec![run(10e9)]), &floors(0.004), Some(0.05));
    assert_eq!((kinds(&found), found.decided.lost), (vec![Neither], 0));
    let found = compare(&table(vec![whole]), &single(10e9), &floors(0.004), Some(0.05));
    assert_eq!(found.decided.lost, 1, "what was published and is not measured");
}

#[test]
fn a_benchmark_may_declare_its_noise() {
    let peak = |rate: f64| side(vec![fixture::run_of(vec![fixture::cpu("f64", 2, rate, 200e9)])]);
    let worse = first(&peak(117e9), &peak(117e9 * 0.9), &[]);
    assert_eq!((worse.verdict, worse.noise), (Regression, Some(NoiseOrigin::Declared)));
    assert_eq!(first(&peak(117e9), &peak(117e9 * 0.97), &[]).verdict, NoChange);
}

#[test]
fn what_was_taken_away_is_no_change_of_the_machine() {
    let disturbed = |value, waited, throttled| {
        let b = changed(value, |made| {
            (made.conditions.waited, made.conditions.throttled) = (Some(waited), Some(throttled));
        });
        first(&single(10e9), &side(vec![b]), &floors(0.004))
    };
    assert_eq!(disturbed(9.5e9, 0.04, 0.0).verdict, NoChange, "that share was taken");
    assert_eq!(disturbed(9e9, 0.04, 0.0).verdict, Regression);
    assert_eq!(disturbed(8e9, 0.08, 0.0).verdict, Regression, "much more than was taken");
    assert_eq!(disturbed(10e9, 0.5, 0.0).verdict, NoChange, "it made no difference");
    assert_eq!(disturbed(9e9, 0.1, 0.1).verdict, Regression, "a quota is a cause");
    for value in [5e9, 8e9, 20e9] {
        let undecided = disturbed(value, 0.12, 0.0);
        assert_eq!(undecided.verdict, Inconclusive, "{value}");
        let why = undecided.why.unwrap();
        assert!(why.contains("other work took 12 % of the CPU time of B"), "{why}");
    }
    let stolen = changed(5e9, |made| made.conditions.steal = Some(0.3));
    let why = first(&side(vec![stolen]), &single(10e9), &floors(0.004)).why.unwrap();
    assert!(why.contains("30 % of the CPU time of A"), "{why}");
}

/// More threads than CPUs wait for each other, with or without other processes.
#[test]
fn what_crowds_the_cpus_is_judged() {
    let crowded = |value: f64| {
        let mut made = of_cases(&[("memory.bandwidth/op=copy/size=512M/threads=64", value)]);
        made.measurements[0].conditions.waited = Some(0.6);
        assert!(made.measurements[0].case.cpu_wait_share(made.machine.cpu.allowed.len()) > 0.6);
        side(vec![made])
    };
    let verdict = |a, b| first(&crowded(a), &crowded(b), &floors(0.004)).verdict;
    assert_eq!(verdict(10e9, 5e9), Regression);
    assert_eq!(verdict(10e9, 10e9), NoChange);
}

#[test]
fn what_tells_how_a_figure_came_about_is_not_judged() {
    const READS: &str = "disk.io/op=read/pattern=random/block=4K/depth=32/threads=1";
    let made = |busy: f64| {
        let mut made = fixture::measured(READS, "rate", Unit::IoPerSecond, 60e3);
        made.metrics.push(fixture::metric("busy", Unit::One, busy, 0.002));
        side(vec![fixture::run_of(vec![made])])
    };
    let floors = floors_of("disk.io", &["rate", "busy"], 0.004);
    for [a, b] in [[0.927, 0.0537], [0.0537, 1.0], [0.0, 1.0], [0.9, 0.9]] {
        let found = compare(&made(a), &made(b), &floors, None);
        let [rate, busy] = found.compared.as_slice() else { panic!("{:?}", found.compared) };
        assert_eq!((rate.verdict, rate.better), (NoChange, Some(Better::Higher)));
        assert_eq!((busy.verdict, busy.better, busy.p), (Informative, None, None));
        assert!((busy.a - a).abs() < 1e-9 && (busy.b - b).abs() < 1e-9 && busy.loss() == 0.0);
        assert_eq!(busy.difference.is_some(), a > 0.0);
        assert_eq!((found.count(Inconclusive), found.worse_than(0.0).count()), (0, 0));
    }
    // It is not lost either if a version no longer reports it.
    let mut without = made(0.5);
    without.runs[0].measurements[0].metrics.pop();
    let found = compare(&made(0.5), &without, &floors, Some(0.05));
    let left: Vec<_> = found.uncompared.iter().map(|one| (one.kind, one.metric.as_deref())).collect();
    assert_eq!((left, found.decided.lost), (vec![(Partly, Some("busy"))], 0));
}

#[test]
fn a_thread_fewer_is_paired_and_said() {
    let (two, one) = (single(20e9), side(vec![of_cases(&[(OF_ONE_THREAD, 10e9)])]));
    let found = compare(&two, &one, &floors(0.004), None);
    assert_eq!(found.compared[0].differs, ["threads 2 → 1"]);
    assert_eq!(found.compared[0].verdict, Regression);
    assert!(found.uncompared.is_empty(), "it is judged");
    // If their comparison is inconclusive, the case is lost.
    let found = compare(&two, &one, &[], Some(0.05));
    let [lost] = found.uncompared.as_slice() else { panic!("{:?}", found.uncompared) };
    assert_eq!((lost.kind, lost.case.id().as_str(), lost.b.status), (Lost, CASE, None));
    assert_eq!((found.compared.len(), found.decided.lost), (1, 1));
    assert!(lost.b.reason.as_ref().unwrap().contains("threads 2 → 1"), "{lost:?}");
    let far = of_cases(&[("memory.bandwidth/op=read/size=256M/threads=1", 10e9)]);
    let found = compare(&two, &side(vec![far]), &floors(0.004), Some(0.05));
    assert_eq!((found.compared.len(), kinds(&found)), (0, vec![Lost, New]));
    // Two cases are equally near, so neither matches.
    let both = of_cases(&[(CASE, 20e9), ("memory.bandwidth/op=read/size=512M/threads=4", 21e9)]);
    let found = compare(&side(vec![both]), &one, &floors(0.004), None);
    assert_eq!((found.compared.len(), kinds(&found)), (0, vec![Lost, Lost, New]));
}

#[test]
fn other_surroundings_are_named() {
    let mut other = run(10e9);
    other.machine.id = "m-2".to_owned();
    other.version = "0.2.0".to_owned();
    other.machine.kernel.release = Some("6.99".to_owned());
    other.status = RunStatus::Partial;
    let found = alike::differences(&[single(10e9), side(vec![other])]);
    let codes: Vec<&str> = found.iter().map(|f| f.code).collect();
    assert_eq!(codes, ["machine", "version", "kernel", "partial"]);
    assert_eq!(found[2].values[1], "6.99");
    assert_eq!(found[3].values, ["0 of 1", "1 of 1"]);
    assert!(alike::differences(&[1.0, 2.0, 3.0].map(single)).is_empty());
}

#[test]
fn nothing_is_divided_by_zero() {
    let lossy = |loss: f64| {
        let metric = fixture::metric_of("bandwidth", Unit::BytePerSecond, vec![loss; 5]);
        side(vec![changed(10e9, |made| made.metrics = vec![metric])])
    };
    let verdict = |[a, b]: [f64; 2]| first(&lossy(a), &lossy(b), &floors(0.0)).verdict;
    assert_eq!([[0.0, 0.0], [0.0, 0.1], [1.0, 1.0]].map(verdict), [NoChange, Inconclusive, NoChange]);
    assert_eq!(verdict([1.0, 2.0]), Improvement, "without any noise every change is real");
}

/// A drop to zero is a regression; a share that rises from zero is one beyond `--fail-on`.
#[test]
fn a_fall_to_zero_is_worse() {
    let of = |name: &str, unit, values: &[f64]| {
        let one = |value: &f64| {
            let metric = fixture::metric_of(name, unit, vec![*value; 5]);
            let mut made = fixture::of_metric("network.udp/message=1K", metric);
            made.metrics[0].better = if unit == Unit::BytePerSecond { Better::Higher } else { Better::Lower };
            fixture::run_of(vec![made])
        };
        side(values.iter().map(one).collect())
    };
    let judged = |name: &str, unit, [a, b]: [&[f64]; 2], share| {
        let found = compare(&of(name, unit, a), &of(name, unit, b), &[], share);
        let failed = found.gate.as_ref().map_or(0, |gate| gate.failed);
        let one = found.compared.into_iter().next().unwrap();
        assert!(one.difference.is_none_or(f64::is_finite) && one.loss().is_finite());
        (one.verdict, failed, (one.loss() * 1000.0).round())
    };
    let rate = |a: &[f64], b: &[f64]| judged("rate", Unit::BytePerSecond, [a, b], Some(0.05));
    assert_eq!([rate(&[1e9], &[0.0]), rate(&[1e9; 10], &[0.0])], [(Regression, 1, 1000.0); 2]);
    assert_eq!(rate(&[1e9], &[1e9, 0.0]), (Regression, 1, 500.0));
    assert_eq!([0.0, 1e9].map(|b| rate(&[0.0], &[b]).0), [NoChange, Inconclusive]);
    // One run of ten at zero does not prevent a verdict.
    let mut ten = [1e9, 1.001e9, 0.999e9, 1e9, 1.002e9, 0.998e9, 1e9, 1.001e9, 0.999e9, 1e9];
    ten[4] = 0.0;
    assert_eq!(rate(&ten, &[0.8e9]).0, Regression);
    let loss = |a: f64, b: f64, share| judged("loss", Unit::One, [&[a], &[b]], share);
    assert_eq!(loss(0.0, 0.06, Some(0.05)), (Regression, 1, 60.0));
    assert_eq!([loss(0.0, 0.03, Some(0.05)).0, loss(0.0, 0.06, None).0], [Inconclusive; 2]);
    assert_eq!(loss(0.06, 0.0, Some(0.05)), (Improvement, 0, -1000.0));
    assert_eq!(loss(0.0, 0.0, Some(0.05)).0, NoChange);
    // Other work never takes all of a result.
    let mut crowded = of("rate", Unit::BytePerSecond, &[0.0]);
    crowded.runs[0].measurements[0].conditions.waited = Some(0.5);
    let gone = compare(&of("rate", Unit::BytePerSecond, &[1e9]), &crowded, &[], Some(0.05));
    assert_eq!((gone.compared[0].verdict, gone.gate.unwrap().failed), (Regression, 1));
    let time = |a: f64, b: f64| judged("rtt", Unit::Second, [&[a], &[b]], Some(0.05)).0;
    assert_eq!([time(1.0, 0.0), time(0.0, 1.0)], [Inconclusive; 2], "no time is none");
}

/// A run of the second side that ended before a case has lost it, and so has a missing node.
#[test]
fn a_run_that_lacks_a_case_altogether_has_lost_it() {
    let killed = Run { status: RunStatus::Partial, ..of_cases(&[(WRITE, 5e9)]) };
    let whole = of_cases(&[(CASE, 10e9), (WRITE, 5e9)]);
    let found = |a: &[&Run], b: &[&Run]| {
        let side = |runs: &[&Run]| side(runs.iter().map(|run| (*run).clone()).collect());
        compare(&side(a), &side(b), &floors(0.004), Some(0.05))
    };
    for b in [[&whole, &whole, &killed], [&killed, &whole, &whole]] {
        let one = found(&[&whole], &b);
        let [lost] = one.uncompared.as_slice() else { panic!("{:?}", one.uncompared) };
        assert_eq!((lost.kind, lost.case.id().as_str(), lost.b.ok, lost.b.of), (Lost, CASE, 2, 3));
        assert!(lost.b.reason.as_ref().unwrap().starts_with("missing: the run is partial"), "{lost:?}");
        assert_eq!((one.compared.len(), one.decided.lost), (2, 1));
    }
    let first = found(&[&whole, &killed], &[&whole]);
    assert!(first.uncompared.is_empty(), "the first side may lack it");
    let of = |nodes: &[&str]| fixture::on_nodes(&run(10e9), nodes);
    let (all, two) = (of(&["a", "b", "c"]), of(&["a", "c"]));
    for b in [[&two].as_slice(), &[&all, &two]] {
        let one = found(&[&all], b);
        assert_eq!((one.uncompared.len(), one.decided.lost), (1, 1));
        assert_eq!((one.uncompared[0].kind, one.uncompared[0].node.as_deref()), (Lost, Some("b")));
    }
}

#[test]
fn what_a_run_repeats_is_one_run() {
    let repeated = |middle: f64| {
        let mut all = run(middle);
        let shares = [1.0, 1.001, 0.999, 1.002, 0.998].iter().enumerate();
        all.measurements = shares
            .map(|(n, share)| Measurement { repeat: n as u32, ..run(middle * share).measurements.remove(0) })
            .collect();
        side(vec![all])
    };
    let found = |floors: &[Floors]| first(&repeated(10e9), &repeated(9.5e9), floors);
    let unknown = found(&[]);
    assert_eq!((unknown.verdict, unknown.noise), (Inconclusive, None), "minutes are not days");
    let (five, one) = (found(&floors(0.004)), only(10e9, 9.5e9, 0.004));
    let (five, one) = (five.interval.unwrap(), one.interval.unwrap());
    assert!(five.iter().zip(one).all(|(a, b)| (a - b).abs() < 1e-3), "{five:?} {one:?}");
}

/// Runs whose results differ by normal noise, estimated from 13 runs: in at most one of a hundred
/// comparisons any of the 40 metrics may differ, and real changes are found.
#[test]
fn alike_runs_are_hardly_ever_called_different() {
    const TIMES: usize = 500;
    const METRICS: usize = 40;
    let mut random = Seed::new(7, "compare", "alike").generator();
    let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let mut noisy = |times: usize| -> Vec<f64> { (0..times).map(|_| (0.01 * normal()).exp()).collect() };
    let mut like = run(1e9);
    like.measurements[0].metrics[0].samples.clear();
    like.measurements[0].metrics[0].series.clear();
    let cases: Vec<Case> =
        (1..=METRICS).map(|n| like.measurements[0].case.clone().with_count("threads", n as u64)).collect();
    let of = |shares: Vec<f64>| {
        let measured = |(case, share): (&Case, f64)| {
            let mut made = Measurement { case: case.clone(), ..like.measurements[0].clone() };
            made.scale(share);
            made
        };
        side(vec![Run { measurements: cases.iter().zip(shares).map(measured).collect(), ..like.clone() }])
    };
    let mut known = || {
        let floor = |case: &Case| NoiseFloor {
            case: Some(case.id().as_str().to_owned()),
            noise: RunNoise::of([noisy(13).as_slice()]).unwrap(),
            ..floors(0.0)[0].floors[0].clone()
        };
        let of_cases = cases.iter().map(floor).collect();
        let sides = [of(noisy(METRICS)), of(noisy(METRICS))];
        (sides, [Floors { floors: of_cases, ..floors(0.0)[0].clone() }])
    };
    let real = |c: &ComparedMetric| matches!(c.verdict, Improvement | Regression);
    let mut wrong = 0;
    for _ in 0..TIMES {
        let ([a, mut b], floors) = known();
        wrong += usize::from(compare(&a, &b, &floors, None).compared.iter().any(real));
        b.runs[0].measurements[7].metrics[0].summary.median *= 0.8;
        let found = compare(&a, &b, &floors, None);
        assert_eq!((found.compared.len(), found.compared[7].verdict), (METRICS, Regression));
    }
    // Four standard deviations above the promise.
    let promised = FAMILY * TIMES as f64;
    assert!((wrong as f64) <= promised + 4.0 * (promised * (1.0 - FAMILY)).sqrt(), "{wrong} of {TIMES}");
}

/// Typical use on ten machines: doctor, eleven runs, and one with a tenth less, all with 0.8 % of
/// noise.
#[test]
fn ten_alike_runs_in_a_row_differ_in_nothing_and_a_tenth_less_is_found() {
    let like = run(10e9).measurements.remove(0);
    let case = |n| Measurement { case: like.case.clone().with_count("threads", n), ..like.clone() };
    let whole = fixture::run_of((1..=12).map(case).collect());
    let (mut wrong, mut found) = (0, 0);
    for machine in 0..10 {
        let mut random = Seed::new(machine, "compare", "in a row").generator();
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let mut measured = |share: f64| {
            let mut run = whole.clone();
            run.measurements.iter_mut().for_each(|made| made.scale(share * (0.008 * normal()).exp()));
            run
        };
        let doctor = [Floors::of(&(0..6).map(|_| measured(1.0)).collect::<Vec<Run>>())];
        let runs: Vec<ComparedSide> = (0..11).map(|_| side(vec![measured(1.0)])).collect();
        let real = |a: &ComparedSide, b: &ComparedSide| {
            let compared = compare(a, b, &doctor, None);
            assert_eq!(compared.compared.len(), 12);
            [compared.count(Improvement), compared.count(Regression)]
        };
        wrong += runs.windows(2).filter(|pair| real(&pair[0], &pair[1]) != [0, 0]).count();
        let [better, worse] = real(&runs[10], &side(vec![measured(0.9)]));
        assert_eq!(better, 0);
        found += usize::from(worse > 0);
    }
    assert!(wrong <= 1, "{wrong} of 100 comparisons of alike runs, of which 1 % may be wrong");
    assert_eq!(found, 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn turned_round_the_verdict_turns(a in 0.5f64..2.0, b in 0.5f64..2.0, deviation in 0.0f64..0.05) {
        let (there, back) = (only(a * 1e9, b * 1e9, deviation), only(b * 1e9, a * 1e9, deviation));
        let turned = match there.verdict {
            Improvement => Regression,
            Regression => Improvement,
            other => other,
        };
        prop_assert_eq!(turned, back.verdict);
    }
}

#[test]
fn what_other_work_took_on_both_sides_is_not_lost_but_cannot_be_seen() {
    let second = side(vec![interrupted(10e9, 0.96)]);
    let busy = |taken| {
        let one = |n| if n < 10 - taken { run(10e9) } else { interrupted(10e9, 0.95) };
        side((0..10).map(one).collect())
    };
    for taken in [1, 4, 6, 9] {
        let found = compare(&busy(taken), &second, &floors(0.004), Some(0.1));
        assert_eq!(found.uncompared[0].kind, UncomparedKind::Interrupted, "{taken}");
        assert_eq!((found.decided.lost, found.decided.interrupted, found.decided.of), (0, 1, 1));
        let gate = found.gate.unwrap();
        assert_eq!((gate.blind, gate.of, gate.up_to), (1, 1, None));
        assert_eq!(gate.causes, [UnjudgedMetrics { doubt: Undecided::Interrupted, count: 1 }]);
        assert!(gate.blindness().unwrap().contains("of any size in 1 of 1"));
    }
    // The first side always had its result, so the second has lost it.
    let found = compare(&busy(0), &second, &floors(0.004), Some(0.1));
    assert_eq!((found.uncompared[0].kind, found.decided.lost), (Lost, 1));
    // A case that is missing, or failed for another reason, is lost however busy the first side is.
    for failed in [changed(10e9, |made| made.status = Status::Failed), of_cases(&[])] {
        let found = compare(&busy(6), &side(vec![failed]), &floors(0.004), Some(0.1));
        assert_eq!((found.uncompared[0].kind, found.decided.interrupted), (Lost, 0));
    }
    assert_eq!(kinds(&compare(&busy(10), &second, &floors(0.004), Some(0.1))), [Neither]);
    let taken = side(vec![run(10e9), interrupted(10e9, 0.95)]);
    assert_eq!(kinds(&compare(&taken, &taken, &floors(0.004), Some(0.1))), [Partly]);
    assert_eq!(kinds(&compare(&several(&[10.0; 2]), &taken, &floors(0.004), Some(0.1))), [Lost]);
}
