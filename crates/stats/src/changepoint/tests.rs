use super::*;
use crate::testing::finite;
use proptest::prelude::*;

fn series(values: &[f64]) -> Vec<TimedPoint> {
    values.iter().enumerate().map(|(i, value)| TimedPoint { t: 0.5 * i as f64, value: *value }).collect()
}

fn seed(n: u64) -> Seed {
    Seed::new(n, "case", "metric")
}

fn starts(values: &[f64], seed: Seed) -> Vec<usize> {
    segments(&series(values), seed).iter().skip(1).map(|s| s.points.start).collect()
}

/// Uniform numbers in (0, 1).
fn uniform(generator: &mut impl Rng) -> f64 {
    (f64::from(generator.next_u32()) + 0.5) / 4_294_967_296.0
}

/// Normal noise of deviation 1 with correlated neighbours (Box & Muller 1958).
fn noise(n: u64, count: usize, correlation: f64) -> Vec<f64> {
    let mut generator = Seed::new(n, "noise", "value").generator();
    let mut normal = || {
        let radius = (-2.0 * uniform(&mut generator).ln()).sqrt();
        radius * (std::f64::consts::TAU * uniform(&mut generator)).cos()
    };
    let mut last = normal();
    let mut next = || {
        last = correlation * last + (1.0 - correlation * correlation).sqrt() * normal();
        last
    };
    (0..count).map(|_| next()).collect()
}

/// Independent noise, `by` higher from the point `at` on.
fn stepped(n: u64, count: usize, at: usize, by: f64) -> Vec<f64> {
    let values = noise(n, count, 0.0).into_iter().enumerate();
    values.map(|(i, x)| if i >= at { x + by } else { x }).collect()
}

/// Share of series of noise alone with a change.
fn false_alarms(trials: u64, make: impl Fn(u64) -> Vec<f64>) -> f64 {
    let alarms = (0..trials).filter(|n| !starts(&make(*n), seed(*n)).is_empty()).count();
    alarms as f64 / trials as f64
}

#[test]
fn independent_noise_changes_in_at_most_one_of_a_hundred() {
    for (count, trials) in [(30, 500), (100, 300), (600, 100)] {
        let normal = false_alarms(trials, |n| noise(n, count, 0.0));
        assert!(normal <= 0.01, "normal, n = {count}: {normal}");
    }
    // A busy machine: most samples are equal, a fifth of them far below.
    let skewed = |n: u64| -> Vec<f64> {
        let below = |x: &f64| if *x < -0.84 { 40.0 * x } else { *x };
        noise(n, 200, 0.0).iter().map(below).collect()
    };
    let skewed = false_alarms(200, skewed);
    assert!(skewed <= 0.01, "skewed: {skewed}");
}

#[test]
fn correlated_noise_changes_in_at_most_five_of_a_hundred() {
    for (count, trials) in [(30, 300), (60, 200), (600, 60)] {
        let share = false_alarms(trials, |n| noise(n, count, 0.5));
        assert!(share <= 0.05, "n = {count}: {share}");
    }
}

#[test]
fn noise_that_grows_is_no_change_of_level() {
    for quiet in [0.1, 0.5, 0.9] {
        let louder = |n: u64| -> Vec<f64> {
            let values = noise(n, 300, 0.0).into_iter().enumerate();
            values.map(|(i, x)| if i as f64 >= 300.0 * quiet { 10.0 * x } else { x }).collect()
        };
        let share = false_alarms(100, louder);
        assert!(share <= 0.03, "after {quiet}: {share}");
    }
}

#[test]
fn a_step_of_five_deviations_is_found_where_it_is() {
    for n in 0..40 {
        let count = 60 + 20 * n as usize;
        let at = 10 + (n as usize * 7919) % (count - 20);
        let found = starts(&stepped(n, count, at, -5.0), seed(n));
        assert!(found.iter().any(|place| place.abs_diff(at) <= 2), "{count} points, {at}: {found:?}");
    }
}

#[test]
fn a_faint_step_in_a_long_series_is_found() {
    let found = starts(&stepped(3, 2000, 700, 1.0), seed(3));
    assert!(found.len() == 1 && found[0].abs_diff(700) < 30, "{found:?}");
}

#[test]
fn a_dip_has_two_edges_and_three_segments_with_their_levels() {
    let mut values = noise(5, 300, 0.0);
    values.iter_mut().skip(140).take(12).for_each(|x| *x -= 8.0);
    let found = segments(&series(&values), seed(5));
    assert_eq!(found.iter().map(|s| s.points.clone()).collect::<Vec<_>>(), [0..140, 140..152, 152..300]);
    assert_eq!((found[1].from, found[1].to), (70.0, 75.5));
    assert!((found[1].median + 8.0).abs() < 1.0 && found[0].median.abs() < 0.3, "{found:?}");
    assert!((0.3..1.2).contains(&found[0].mad), "{found:?}");
}

#[test]
fn one_wild_point_is_no_step_and_hides_none() {
    let mut values = noise(8, 200, 0.0);
    values[50] = -1e6;
    assert_eq!(starts(&values, seed(8)), [0; 0]);
    values.iter_mut().skip(120).for_each(|x| *x -= 5.0);
    let found = starts(&values, seed(8));
    assert!(found.len() == 1 && found[0].abs_diff(120) <= 2, "{found:?}");
}

#[test]
fn what_the_bound_excludes_no_permutation_shows() {
    let mut excluded = 0;
    for n in 0..30 {
        let half = 30 + 5 * n as usize;
        let mut values = noise(n, 2 * half, 0.3);
        values.iter_mut().skip(half).for_each(|x| *x += n as f64 / 4.0);
        let layers = Layers::new(values.len());
        let mut held = winsorised(&values);
        let squared = layers.largest(&held).unwrap().squared;
        let chance = layers.chance(&held, squared);
        assert!(chance >= layers.chance(&held, 1.1 * squared));
        assert!(layers.chance(&held, 0.0) >= 1.0, "what every order shows");
        if chance < IMPOSSIBLE {
            excluded += 1;
            let mut generator = seed(n).generator();
            for _ in 0..50 {
                shuffle(&mut held, &mut generator);
                assert!(layers.largest(&held).unwrap().squared < squared, "{n}");
            }
        }
    }
    assert!(excluded > 10, "{excluded}");
}

#[test]
fn steps_without_noise_are_found_exactly() {
    let level = |i: usize| if i < 25 { 3.7e9 } else { 2.9e9 };
    assert_eq!(starts(&(0..40).map(level).collect::<Vec<_>>(), seed(0)), [25]);
    let stairs: Vec<f64> = (0..200).map(|i| f64::from(i / 50)).collect();
    assert_eq!(starts(&stairs, seed(0)), [50, 100, 150]);
}

#[test]
fn a_series_too_long_is_condensed_and_found_as_well() {
    assert_eq!(starts(&stepped(1, 25_000, 9_000, -20.0), seed(1)), [9_000]);
}

#[test]
fn what_is_not_finite_counts_for_nothing() {
    let mut values = stepped(2, 60, 30, 9.0);
    values[10] = f64::NAN;
    values[40] = f64::INFINITY;
    let found = segments(&series(&values), seed(2));
    assert_eq!(found.iter().map(|s| s.points.clone()).collect::<Vec<_>>(), [0..30, 30..60]);
    assert!(found.iter().all(|s| s.median.is_finite() && s.mad.is_finite()));
    assert!([vec![], series(&[f64::NAN; 12])].iter().all(|none| segments(none, seed(0)).is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn constants_never_change(value in finite(), count in 1usize..700) {
        let found = segments(&series(&vec![value; count]), seed(1));
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!((found[0].median, found[0].mad), (value, 0.0));
    }

    #[test]
    fn any_series_falls_into_whole_segments_and_always_the_same(
        values in prop::collection::vec(finite(), 1..150), run in any::<u64>(),
    ) {
        let found = segments(&series(&values), seed(run));
        prop_assert_eq!(&found, &segments(&series(&values), seed(run)));
        prop_assert!(found.len() <= MAX_CHANGES + 1);
        let mut next = 0;
        for segment in &found {
            prop_assert_eq!(segment.points.start, next);
            next = segment.points.end;
            prop_assert!(found.len() == 1 || segment.points.len() >= MIN_SEGMENT);
            let within = &values[segment.points.clone()];
            let [low, high] = [f64::min, f64::max].map(|f| within.iter().copied().reduce(f).unwrap());
            prop_assert!(low <= segment.median && segment.median <= high && segment.mad >= 0.0);
            prop_assert!(segment.mad.is_finite());
        }
        prop_assert_eq!(next, values.len());
    }

    #[test]
    fn level_and_unit_do_not_matter(n in any::<u64>(), power in -60i32..60) {
        let values = stepped(n, 80, 33, 6.0);
        let other: Vec<f64> = values.iter().map(|x| x * 2f64.powi(power)).collect();
        prop_assert_eq!(starts(&values, seed(n)), starts(&other, seed(n)));
    }
}

#[test]
fn of_many_series_of_noise_hardly_ever_one_changes() {
    let changed = (0..40u64).filter(|trial| {
        let all: Vec<Vec<TimedPoint>> = (0..100).map(|n| series(&noise(1000 * trial + n, 24, 0.0))).collect();
        let all: Vec<(&[TimedPoint], Seed)> = all.iter().map(|one| (one.as_slice(), seed(*trial))).collect();
        segments_of_many(&all, 0.05, &[]).iter().any(|levels| levels.len() > 1)
    });
    // At most 2 are expected; more than 6 have a probability of 0.3 %.
    let changed = changed.count();
    assert!(changed <= 6, "{changed} of 40");
}

#[test]
fn a_step_among_many_series_of_noise_is_found_at_its_run() {
    for n in 0..12 {
        let mut all: Vec<Vec<f64>> = (0..60).map(|m| noise(100 * n + m, 40, 0.0)).collect();
        all[7].iter_mut().skip(25).for_each(|x| *x += 6.0);
        let all: Vec<Vec<TimedPoint>> = all.iter().map(|one| series(one)).collect();
        let asked: Vec<(&[TimedPoint], Seed)> = all.iter().map(|one| (one.as_slice(), seed(n))).collect();
        let found = segments_of_many(&asked, 0.05, &[]);
        assert_eq!(found.len(), 60);
        assert_eq!(found[7].iter().map(|s| s.points.clone()).collect::<Vec<_>>(), [0..25, 25..40], "{n}");
    }
}

#[test]
fn a_step_that_many_series_share_is_found_in_few_runs() {
    let all: Vec<Vec<TimedPoint>> = (0..60).map(|m| series(&stepped(m, 16, 8, 8.0))).collect();
    let asked: Vec<(&[TimedPoint], Seed)> = all.iter().map(|one| (one.as_slice(), seed(3))).collect();
    let found = segments_of_many(&asked, 0.05, &[]);
    let right = found.iter().filter(|levels| levels.len() == 2 && levels[1].points.start == 8).count();
    assert!(right >= 54, "{right} of 60");
}

#[test]
fn one_series_among_many_is_what_it_is_alone_at_the_same_level() {
    let own = series(&stepped(4, 60, 20, -7.0));
    assert_eq!(segments_of_many(&[(&own, seed(4))], 0.05, &[]), [segments(&own, seed(4))]);
    assert_eq!(segments_of_many(&[(&[], seed(4))], 0.05, &[]), [vec![]]);
    assert!(segments_of_many(&[], 0.05, &[]).is_empty());
}

/// GFLOP/s of the probes of a watch: busy at first, then a quota of 0.3 CPUs for 30 probes.
const UNDER_A_QUOTA: [f64; 75] = [
    21.7, 16.6, 25.4, 49.5, 49.3, 39.2, 46.7, 20.6, 40.2, 21.2, 19.5, 50.9, 44.7, 44.6, 50.3, 48.5, 19.1,
    18.1, 16.5, 12.7, 13.7, 15.9, 14.7, 16.8, 14.0, 10.8, 14.8, 12.7, 12.1, 18.6, 20.5, 27.6, 47.4, 19.9,
    12.8, 10.7, 12.2, 13.1, 14.7, 10.7, 14.6, 14.3, 17.5, 14.7, 50.5, 13.8, 47.3, 46.2, 49.3, 45.8, 45.7,
    48.2, 45.7, 49.7, 46.6, 45.6, 48.8, 49.4, 49.5, 46.5, 44.6, 38.4, 49.5, 48.7, 46.6, 49.8, 48.2, 48.6,
    50.1, 49.5, 44.1, 50.6, 50.2, 48.5, 50.7,
];

#[test]
fn a_change_after_a_noisy_beginning_is_found() {
    // The quota ends at probe 46; probe 44 had nearly a whole period of it.
    assert_eq!(starts(&UNDER_A_QUOTA, seed(0)), [44]);
    // The known times of the quota's changes determine the compared levels.
    let series = series(&UNDER_A_QUOTA);
    let times = [16, 46].map(|probe| series[probe].t);
    let found = segments_of_many(&[(series.as_slice(), seed(0))], 0.01, &times);
    assert_eq!(found[0].iter().map(|one| one.points.start).collect::<Vec<_>>(), [0, 16, 44]);
}

#[test]
fn an_event_without_a_step_is_no_change() {
    let alarms = (0..300)
        .filter(|n| {
            let series = series(&noise(*n, 75, 0.3));
            let events = [20, 50].map(|probe| series[probe].t);
            segments_of_many(&[(series.as_slice(), seed(*n))], 0.01, &events)[0].len() > 1
        })
        .count();
    assert!(alarms <= 6, "{alarms} of 300");
}
