//! Sides with known differences, plus noise.

use std::sync::LazyLock;

use plimsoll_machine::cgroup::CpuQuota;
use plimsoll_result::document::Run;
use plimsoll_result::fixture;
use plimsoll_stats::Seed;
use rand::RngExt;

use super::*;
use crate::tests::{floors, side};
use crate::{CompareOptions, ComparedSide, Comparison, NoiseOrigin, compare};

const CASES: [(&str, &str, Unit); 3] = [
    ("memory.bandwidth/op=read/size=512M/threads=2", "bandwidth", Unit::BytePerSecond),
    ("memory.bandwidth/op=read/size=512M/threads=1", "bandwidth", Unit::BytePerSecond),
    ("memory.latency/size=1G", "latency", Unit::Second),
];

/// Summarised once, with results of 1: that takes far longer than the tests.
static ONE: LazyLock<Run> = LazyLock::new(|| {
    let made = CASES
        .iter()
        .map(|(case, metric, unit)| fixture::of_metric(case, fixture::metric(metric, *unit, 1.0, 0.002)));
    fixture::run_of(made.collect())
});

fn run(values: [f64; 3]) -> Run {
    let mut run = ONE.clone();
    for (measurement, value) in run.measurements.iter_mut().zip(values) {
        measurement.scale(value);
    }
    run
}

/// Returns a side of `runs` runs per true value, with normal noise of this deviation between runs.
fn noisy(truth: &[f64], runs: usize, deviation: f64, seed: u64) -> Vec<ComparedSide> {
    let mut generator = Seed::new(seed, "rank", "noise").generator();
    let mut normal = move || {
        let [u, v]: [f64; 2] = [f64::EPSILON, 0.0].map(|least| generator.random_range(least..1.0));
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    };
    let one = |truth: &f64| {
        let mut figure = |scale: f64| scale * (deviation * normal()).exp();
        side((0..runs).map(|_| run([figure(*truth), figure(*truth), figure(1e-9 / truth)])).collect())
    };
    truth.iter().map(one).collect()
}

/// Counts pairs in the wrong order, and pairs that differ by more than 5 % and are in no order.
fn judged(found: &Comparison, truth: &[f64]) -> (usize, usize) {
    let (mut wrong, mut missed) = (0, 0);
    for metric in &found.ranked {
        for a in &metric.places {
            for b in metric.places.iter().filter(|b| truth[b.side] < truth[a.side]) {
                wrong += usize::from(b.ranks[1] < a.ranks[0]);
                let apart = a.ranks[1] < b.ranks[0];
                missed += usize::from(!apart && truth[a.side] / truth[b.side] > 1.05);
            }
            let same = metric.places.iter().filter(|b| truth[b.side] == truth[a.side]);
            wrong += same.filter(|b| b.ranks[1] < a.ranks[0]).count();
        }
    }
    (wrong, missed)
}

#[test]
fn known_differences_are_found_and_no_order_is_false() {
    // Two are identical; each other one is 6 % from the next.
    let apart = [10e9, 10e9, 10.6e9, 11.3e9, 12.0e9, 9.4e9];
    // One in a hundred may be wrong; 10 of 400 are three standard deviations of chance more.
    for (truth, runs, deviation, times, max_wrong) in [
        (apart.as_slice(), 8, 0.006, 100, 1),
        (&[10e9; 12], 5, 0.02, 40, 0),
        (&[10e9; 2], 5, 0.05, 400, 10),
        (&[10e9; 2], 6, 0.05, 400, 10),
        (&[10e9; 2], 10, 0.05, 400, 10),
    ] {
        let is_wrong = |seed: &u64| {
            let found = compare(&noisy(truth, runs, deviation, *seed), &[], &CompareOptions::default());
            assert_eq!((found.ranked.len(), found.ranked[0].places.len()), (3, truth.len()));
            assert_eq!(found.compared[0].noise, Some(NoiseOrigin::Runs));
            let (wrong, missed) = judged(&found, truth);
            assert_eq!(missed, 0, "{found:?}");
            wrong > 0
        };
        let wrong = (0..times).filter(is_wrong).count();
        assert!(wrong <= max_wrong, "{wrong} of {times} rankings of {runs} runs a side have a false order");
    }
}

#[test]
fn few_runs_show_no_noise_of_their_own() {
    for runs in [1, 4] {
        let found = compare(&noisy(&[10e9, 20e9], runs, 0.003, 1), &[], &CompareOptions::default());
        let is_open = |one: &ComparedMetric| one.verdict == DifferenceVerdict::Inconclusive;
        assert!(found.compared.iter().all(is_open), "{:?}", found.compared);
        assert!(found.ranked.iter().all(|one| one.places.iter().all(|place| place.ranks == [1, 2])));
    }
}

#[test]
fn with_a_noise_of_doctor_the_interval_is_that_of_the_noise() {
    let sides = noisy(&[10e9, 20e9], 1, 0.003, 6);
    let mut floors = floors(0.01);
    floors[0].floors[0].noise.freedom = 5.0;
    let ranking = compare(&sides, &floors, &CompareOptions::default());
    assert_eq!(ranking.compared[0].noise, Some(NoiseOrigin::Doctor));
    let places = &ranking.ranked[0].places;
    assert!(places.iter().all(|place| place.ranks[0] == place.ranks[1]), "{places:?}");
    // t(0.975, 5) = 2.571 (any table).
    assert!(places.iter().all(|place| place.half.is_some_and(|half| half > 0.025 && half < 0.03)));
    assert!(ranking.ranked[2].places.iter().all(|place| place.half.is_none()), "of this nothing is known");
}

#[test]
fn ranks_are_those_that_the_noise_leaves_possible() {
    let sides = noisy(&[10e9, 10.01e9, 20e9], 6, 0.01, 3);
    let ranking = compare(&sides, &[], &CompareOptions::default());
    let ranks: Vec<_> = ranking.ranked[0].places.iter().map(|place| (place.side, place.ranks)).collect();
    assert_eq!(ranks[0], (2, [1, 1]));
    assert!(ranks[1..].iter().all(|(_, ranks)| *ranks == [2, 3]), "{ranks:?}");
    assert_eq!(ranking.compared[0].noise, Some(NoiseOrigin::Runs));
    assert_eq!(ranking.ranked[2].places[0].side, 2);
    assert!(ranking.ranked[0].places.iter().all(|place| place.half.is_some_and(|half| half < 0.05)));
}

#[test]
fn by_price_a_rate_is_divided_and_a_time_multiplied() {
    let sides = noisy(&[10e9, 20e9], 6, 0.003, 4);
    let wanted = CompareOptions {
        prices: Some(Prices { values: vec![0.1, 0.4], unit: "$/h".to_owned() }),
        ..CompareOptions::default()
    };
    let ranking = compare(&sides, &[], &wanted);
    let of = |metric: usize, side: usize| {
        ranking.ranked[metric].places.iter().find(|place| place.side == side).unwrap()
    };
    assert_eq!((of(0, 0).ranks, of(0, 1).ranks), ([2, 2], [1, 1]));
    assert_eq!((of(0, 0).ranks_per_price, of(0, 1).ranks_per_price), (Some([1, 1]), Some([2, 2])));
    assert!((of(0, 0).per_price.unwrap() - of(0, 0).value / 0.1).abs() < 1.0);
    assert!((of(2, 1).per_price.unwrap() / (of(2, 1).value * 0.4) - 1.0).abs() < 1e-9);
    // Half the price for twice the time is as much, at a quarter it is less.
    assert_eq!(of(2, 0).ranks_per_price, Some([1, 1]));
}

#[test]
fn all_cpus_are_all_cpus_and_what_follows_the_machine_is_no_other_case() {
    let of_isa = |isa: &str| of("0-1", &[&format!("cpu.peak/op=fma/type=f64/isa={isa}/threads=2")]);
    let ranking = ranked(&[&[of_isa("avx512")], &[of_isa("avx2")]]);
    assert_eq!(ranking.ranked.len(), 1, "{ranking:?}");
    let with: Vec<&[String]> = ranking.ranked[0].places.iter().map(|place| place.with.as_slice()).collect();
    assert!(with.iter().all(|with| with.iter().any(|one| one.starts_with("isa avx"))), "{with:?}");
}

#[test]
fn a_score_needs_weights_and_says_how_sure_it_is() {
    let sides = noisy(&[10e9, 20e9], 6, 0.003, 5);
    assert_eq!(compare(&sides, &[], &CompareOptions::default()).scores, []);
    let weights = [("memory.bandwidth".to_owned(), 2.0), ("disk.io".to_owned(), 1.0)].into();
    let ranking = compare(&sides, &[], &CompareOptions { weights, ..CompareOptions::default() });
    assert_eq!(ranking.unweighed, [Unweighed { name: "disk.io".to_owned(), why: NOT_ALL.to_owned() }]);
    let [best, other] = ranking.scores.as_slice() else { panic!("{:?}", ranking.scores) };
    assert_eq!((best.side, best.value), (1, 1.0));
    assert!((other.value - 0.5).abs() < 0.01 && other.half.unwrap() < 0.02, "{other:?}");
}

fn of(cpus: &str, cases: &[&str]) -> Run {
    let made = |case: &&str| fixture::measured(case, "rate", Unit::FlopPerSecond, 1e9);
    let mut run = fixture::run_of(cases.iter().map(made).collect());
    run.machine.cpu.allowed = cpus.parse().unwrap();
    run
}

fn ranked(sides: &[&[Run]]) -> Comparison {
    let sides: Vec<ComparedSide> = sides.iter().map(|runs| side(runs.to_vec())).collect();
    compare(&sides, &[], &CompareOptions::default())
}

#[test]
fn cases_that_differ_in_one_parameter_are_brought_together_and_it_is_named() {
    let one = |case: &str| of("0-1", &[case]);
    let (fma, mul) = (one("cpu.peak/op=fma/type=f64/isa=avx2"), one("cpu.peak/op=mul/type=f64/isa=avx2"));
    let add = one("cpu.peak/op=add/type=f64/isa=avx2");
    let found = ranked(&[std::slice::from_ref(&fma), &[mul], &[add]]);
    let [all] = found.ranked.as_slice() else { panic!("{:?}", found.ranked) };
    let with: Vec<&str> = all.places.iter().flat_map(|place| &place.with).map(String::as_str).collect();
    assert_eq!(with, ["op fma", "op mul", "op add"]);
    let differs: Vec<&str> = found.compared.iter().map(|one| one.differs[0].as_str()).collect();
    assert_eq!(differs, ["op fma → mul", "op fma → add"]);
    // Parameters that follow the machine may differ as well if both cases have them.
    let cases = [
        ("cpu.peak/op=fma/type=f64/isa=avx512", 1),
        ("cpu.peak/op=mul/type=f32/isa=avx2", 0),
        ("cpu.peak/op=mul/type=f64/isa=avx512", 0),
        ("cpu.peak/op=mul/type=f64", 0),
    ];
    for (case, count) in cases {
        assert_eq!(ranked(&[std::slice::from_ref(&fma), &[one(case)]]).ranked.len(), count, "{case}");
    }
}

/// By default a quota leaves fewer threads than CPUs; older runs have one per CPU.
#[test]
fn under_a_quota_the_most_threads_are_those_of_all_cpus() {
    let quota = |threads: usize| {
        let mut run = of("0-127", &[&format!("cpu.peak/op=fma/type=f64/isa=avx2/threads={threads}")]);
        let quota = CpuQuota { quota_us: 800_000, period_us: 100_000, group: "/".to_owned() };
        run.machine.cgroup.cpu_quota = Some(quota);
        run
    };
    let small = of("0-1", &["cpu.peak/op=fma/type=f64/isa=avx512/threads=2"]);
    for (threads, ranks) in [(8, 1), (128, 1), (4, 0)] {
        let ranking = ranked(&[&[quota(threads)], std::slice::from_ref(&small)]);
        assert_eq!(ranking.ranked.len(), ranks, "{threads}");
    }
}

#[test]
fn a_side_of_unlike_machines_is_not_ranked_against_itself() {
    let all = |cpus: usize| {
        of(&format!("0-{}", cpus - 1), &[&format!("cpu.peak/op=fma/type=f64/isa=avx2/threads={cpus}")])
    };
    let mixed = [all(4), all(8)];
    let ranking = ranked(&[&mixed, &mixed]);
    assert_eq!(ranking.ranked.len(), 2, "{ranking:?}");
    for metric in &ranking.ranked {
        let sides: BTreeSet<usize> = metric.places.iter().map(|place| place.side).collect();
        assert_eq!((sides.len(), metric.places.len()), (2, 2), "{ranking:?}");
    }
    assert_eq!(ranked(&[&mixed, &[all(2)]]).ranked, []);
    assert_eq!(ranked(&[&[all(4)], &[all(2)]]).ranked.len(), 1);
}

#[test]
fn what_is_not_ordered_or_has_no_ratio_is_in_no_score_and_named() {
    let weights = [("memory.bandwidth".to_owned(), 1.0), ("memory.latency".to_owned(), 1.0)].into();
    let wanted = CompareOptions { weights, ..CompareOptions::default() };
    let mut sides = noisy(&[10e9, 20e9], 6, 0.003, 7);
    for run in &mut sides[0].runs {
        run.measurements[0].conditions.waited = Some(0.4);
    }
    let ranking = compare(&sides, &[], &wanted);
    let [one] = ranking.unweighed.as_slice() else { panic!("{:?}", ranking.unweighed) };
    assert_eq!(one.name, CASES[0].0);
    assert!(one.why.starts_with("its sides are not all ordered (other work took 40 %"), "{}", one.why);
    assert!((ranking.scores[1].value - 0.5).abs() < 0.01, "the other cases are in it");
    for run in sides.iter_mut().flat_map(|side| &mut side.runs) {
        run.measurements[2].metrics[0].summary.median = 0.0;
    }
    let ranking = compare(&sides, &[], &wanted);
    assert!(ranking.unweighed.iter().any(|one| one.name == CASES[2].0 && one.why.contains("is 0")));
    assert!(ranking.scores.iter().all(|score| score.value.is_finite()), "{:?}", ranking.scores);
}
