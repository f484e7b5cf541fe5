use proptest::prelude::*;

use super::*;
use crate::sliced::{SLICE_SECONDS, STRETCH_SECONDS};

const HZ: f64 = 3.0e9;
const TURNS: u64 = 50_000;
const SPREAD: f64 = 0.02;
/// Undisturbed cycles per turn.
const COST: f64 = 16.0;
const ONE: f64 = TURNS as f64 * COST / HZ;

fn slice(times: f64) -> Slice {
    Slice { turns: TURNS, seconds: ONE * times, before: Some(HZ), after: Some(HZ), switched: false }
}

fn is(seconds: f64, slices: f64) -> bool {
    (seconds / ONE - slices).abs() < 1e-6
}

fn ledger(slices: &[Slice]) -> SliceLedger {
    let mut ledger = SliceLedger::new(15.0, SPREAD, false);
    slices.iter().for_each(|slice| ledger.record(slice));
    ledger
}

fn cost(sum: SliceSum) -> f64 {
    sum.cycles / sum.turns
}

#[test]
fn disturbed_slices_are_set_aside_even_when_they_are_most() {
    let mut slices: Vec<Slice> = (0..30).map(|i| slice(1.0 + f64::from(i % 5) * 1e-4)).collect();
    slices.extend((0..70).map(|i| slice(1.2 + f64::from(i) * 0.11)));
    let kept = ledger(&slices).kept();
    assert_eq!(kept.slices, 30);
    assert!((cost(kept) / COST - 1.0).abs() < 1e-3, "{}", cost(kept));
    assert!((kept.cycles / kept.seconds / HZ - 1.0).abs() < 1e-12);
}

#[test]
fn moments_without_the_sharer_of_the_core_do_not_count() {
    let mut slices = vec![slice(2.0); 80];
    slices.extend([slice(1.0); 30]);
    assert!((cost(ledger(&slices).kept()) / COST - 2.0).abs() < 1e-9);
}

#[test]
fn slices_with_an_unsure_clock_that_fit_no_cost_have_a_cause() {
    let sure = slice(1.0);
    let two = |lower: f64, times: f64| Slice { after: Some(HZ * lower), ..slice(times) };
    let of = |slices: &[Slice]| {
        let books = ledger(&[&[sure; 3], slices].concat());
        assert_eq!((books.all().slices, books.kept().slices), (3 + slices.len() as u64, 3));
        let ExcludedTime { clock, other, taken, .. } = books.excluded();
        [clock / ONE, other / ONE, taken / ONE]
    };
    let are = |found: [f64; 3], wanted: [f64; 3]| {
        assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-6), "{found:?}");
    };
    // Above the level at either clock: 1 / 0.96 = 1.042 and a margin of one per cent.
    are(of(&[two(0.96, 1.07)]), [0.0, 1.07, 1.07 - 1.0 / 0.98]);
    // Below it at either clock, or without a clock.
    are(of(&[two(0.96, 0.97)]), [0.97, 0.0, 0.0]);
    are(of(&[Slice { before: None, ..sure }]), [1.0, 0.0, 0.0]);
    // No step of one clock: the higher one counts, it is unknown, or both costs are high.
    are(of(&[two(0.85, 1.05)]), [1.05, 0.0, 0.0]);
    are(of(&[two(0.5, 2.0)]), [2.0, 0.0, 0.0]);
    are(of(&[two(0.5, 2.5)]), [0.0, 2.5, 1.5]);
    // A preemption between two clocks takes no time of the other slices.
    let switched = Slice { switched: true, ..two(0.96, 160.0) };
    let [clock, other, taken] = of(&[vec![switched; 2], vec![two(0.96, 1.07); 40]].concat());
    assert!(clock.abs() < 1e-6 && (other - 42.8).abs() < 1e-6, "{clock} {other}");
    assert!((taken - 40.0 * 0.0496).abs() < 0.01, "{taken}");
    are(of(&[two(0.96, 1000.0)]), [0.0, 1000.0, 1000.0 - 1.0 / 0.98]);
    are(of(&[Slice { seconds: 0.0, ..two(0.96, 1.0) }]), [0.0, 0.0, 0.0]);
}

#[test]
fn dear_slices_of_two_clocks_belong_to_the_second_cost() {
    let two = |times: f64| Slice { after: Some(HZ * 0.96), ..slice(times) };
    let steady = [vec![slice(1.0); 60], vec![slice(1.4); 20]].concat();
    // At the second cost, halfway, and above it.
    let slices = [steady.clone(), vec![two(1.42), two(1.2), two(1.9)]].concat();
    let excluded = ledger(&slices).excluded();
    assert!(is(excluded.second, 20.0 * 1.4 + 1.42) && excluded.clock.abs() < 1e-12, "{excluded:?}");
    assert!(is(excluded.other, 3.1) && is(excluded.taken, 3.1 - 2.0 / 0.98), "{excluded:?}");
    assert!((excluded.second_cost.unwrap() - 1.4).abs() < 1e-9, "{excluded:?}");
    assert!((excluded.second_work - 21.0 / 83.0).abs() < 1e-9, "{excluded:?}");
    let few = ledger(&[vec![slice(1.0); 60], vec![slice(1.4); 3], vec![two(1.2); 10]].concat()).excluded();
    assert!(few.second_cost.is_none() && (few.other / ONE - (3.0 * 1.4 + 12.0)).abs() < 1e-6, "{few:?}");
}

#[test]
fn where_costs_vary_two_clocks_count_at_their_mean_and_a_disturbed_probe_not_at_all() {
    let of = |lower: f64| {
        let mut books = SliceLedger::new(15.0, 0.25, true);
        (0..90).for_each(|_| books.record(&slice(1.0)));
        (0..10).for_each(|_| books.record(&Slice { after: Some(HZ * lower), ..slice(1.0) }));
        let kept = books.kept();
        assert_eq!(kept.slices, 100);
        kept.cycles / kept.seconds / HZ
    };
    assert!((of(0.96) - 0.998).abs() < 1e-9, "{}", of(0.96));
    assert!((of(0.8) - 1.0).abs() < 1e-9 && (of(0.5) - 1.0).abs() < 1e-9);
}

#[test]
fn a_slice_with_two_clocks_is_kept_if_the_level_lies_between_its_costs() {
    let sure = slice(1.0);
    // Probed low before or after, at an unchanged clock.
    let low = Slice { after: Some(HZ * 0.96), ..sure };
    let lower = Slice { before: Some(HZ * 0.8), ..sure };
    // The clock really fell to 0.96 halfway, and at once.
    let [half, whole] = [0.98, 0.96].map(|mean| Slice { after: Some(HZ * 0.96), ..slice(1.0 / mean) });
    let books = ledger(&[sure, sure, sure, low, lower, half, whole]);
    assert_eq!((books.all().slices, books.kept().slices), (7, 7));
    let kept = books.kept();
    assert!((cost(kept) / COST - 1.0).abs() < 1e-9);
    // Five at one clock, one at both, one at the lower clock.
    assert!((kept.cycles / kept.seconds / HZ - 7.0 / (5.0 + 1.0 / 0.98 + 1.0 / 0.96)).abs() < 1e-9);
    let ExcludedTime { clock, other, taken, .. } = books.excluded();
    assert!([clock, other, taken].iter().all(|part| part.abs() < 1e-12), "{clock} {other} {taken}");
    // Alone they confirm nothing.
    assert_eq!(ledger(&[low; 9]).kept(), SliceSum::default());
    let mut both = ledger(&[sure, low]);
    both.merge(&ledger(&[half, Slice { after: Some(HZ * 0.96), ..slice(1.2) }]));
    assert_eq!((both.all().slices, both.kept().slices), (4, 3));
    both.clear();
    assert_eq!((both.all(), both.kept()), (SliceSum::default(), SliceSum::default()));
}

/// Returns slices of steady work at clocks (Hz) that alternate after the seconds `held`, and the
/// mean clock.
fn restless(clocks: [f64; 2], held: &[f64], stretches: usize) -> (Vec<Slice>, f64) {
    let mut changes = held.iter().copied().cycle();
    let (mut now, mut until, mut which) = (0.0, changes.next().unwrap(), 0);
    let mut run = |cycles: f64| {
        let (start, mut left) = (now, cycles);
        while left > (until - now) * clocks[which] {
            left -= (until - now) * clocks[which];
            now = until;
            until += changes.next().unwrap();
            which = 1 - which;
        }
        now += left / clocks[which];
        now - start
    };
    let (mut slices, mut seconds, mut cycles) = (Vec::new(), 0.0, 0.0);
    let turns = (SLICE_SECONDS * HZ / COST) as u64;
    let (probe, work) = (45_000.0, turns as f64 * COST);
    let slices_of_a_stretch = (STRETCH_SECONDS / SLICE_SECONDS) as usize;
    let mut before = probe / run(probe);
    for _ in 0..stretches {
        let times: Vec<f64> = (0..slices_of_a_stretch).map(|_| run(work)).collect();
        let after = probe / run(probe);
        for time in times {
            let (before, after) = (Some(before), Some(after));
            slices.push(Slice { turns, seconds: time, before, after, switched: false });
            seconds += time;
            cycles += work;
        }
        before = after;
    }
    (slices, cycles / seconds)
}

#[test]
fn a_clock_that_changes_1400_times_a_second_excludes_less_than_a_hundredth() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let held: Vec<f64> = (0..20_000).map(|_| -(1.0 - random()).ln() / 1400.0).collect();
    let (slices, _) = restless([HZ, HZ * 0.964], &held, 60_000);
    let books = ledger(&slices);
    let excluded = 1.0 - books.kept().seconds / books.all().seconds;
    assert!(excluded < 0.009, "{excluded}");
}

proptest! {
    #[test]
    fn a_restless_clock_excludes_little_and_biases_nothing(
        held in prop::collection::vec(200e-6_f64..2e-3, 40..80), step in 0.015_f64..0.1,
    ) {
        let (slices, clock) = restless([HZ, HZ * (1.0 - step)], &held, 2000);
        let books = ledger(&slices);
        let kept = books.kept();
        let excluded = 1.0 - kept.seconds / books.all().seconds;
        prop_assert!(excluded < 0.01, "{excluded}");
        prop_assert!((cost(kept) / COST - 1.0).abs() < 1e-4, "{}", cost(kept));
        prop_assert!((kept.cycles / kept.seconds / clock - 1.0).abs() < 5e-4, "{}", kept.cycles / kept.seconds / clock);
    }
}

#[test]
fn what_is_excluded_has_its_causes() {
    let mut slices = vec![slice(1.0); 50];
    slices.extend((0..6).map(|i| Slice { switched: true, ..slice(4.0 + f64::from(i)) }));
    slices.extend([Slice { after: Some(HZ * 0.96), ..slice(0.9) }; 5]);
    slices.extend([slice(1.4); 20]);
    slices.extend((0..7).map(|i| slice(2.0 + f64::from(i) * 0.3)));
    let books = ledger(&slices);
    let excluded = books.excluded();
    assert!(is(excluded.switched, 39.0) && is(excluded.clock, 4.5), "{excluded:?}");
    assert!(is(excluded.second, 28.0) && is(excluded.other, 20.3), "{excluded:?}");
    assert!(is(excluded.taken, 13.3), "{excluded:?}");
    assert!((excluded.second_cost.unwrap() - 1.4).abs() < 1e-9, "{excluded:?}");
    assert!((excluded.second_work - 20.0 / 88.0).abs() < 1e-9, "{excluded:?}");
    // A few agreeing slices are no second state.
    let few = ledger(&[vec![slice(1.0); 95], vec![slice(1.4); 5]].concat()).excluded();
    assert!(few.second_cost.is_none() && is(few.other, 7.0), "{few:?}");
}

#[test]
fn others_who_use_the_same_memory_make_slices_dearer_by_any_amount() {
    let scattered: Vec<Slice> = (0..40).map(|i| slice(1.5 + f64::from(i) * 0.25)).collect();
    let time = (0..40).map(|i| 1.5 + f64::from(i) * 0.25).sum::<f64>();
    let of = |more: &[Slice], shares| {
        let mut books = SliceLedger::new(15.0, SPREAD, shares);
        [vec![slice(1.0); 60], more.to_vec()].concat().iter().for_each(|slice| books.record(slice));
        books.excluded()
    };
    let shared = of(&scattered, true);
    assert!(is(shared.second, time) && is(shared.contended, time - 40.0), "{shared:?}");
    assert!((shared.second_work - 0.4).abs() < 1e-9 && shared.other.abs() < 1e-12, "{shared:?}");
    assert!((shared.second_cost.unwrap() - time / 40.0).abs() < 1e-9 && shared.taken.abs() < 1e-12);
    // Time stolen beyond the last bin is no contention, whatever the probes show.
    let stolen = |after: f64| vec![Slice { after: Some(HZ * after), ..slice(400.0) }; 5];
    for after in [1.0, 0.96, 0.5] {
        let both = of(&[scattered.clone(), stolen(after)].concat(), true);
        assert!(is(both.second, time) && is(both.contended, time - 40.0), "{after}: {both:?}");
        assert!(both.taken / ONE > 1950.0 && both.taken / ONE < 2001.0, "{after}: {both:?}");
    }
    let alone = of(&scattered, false);
    assert!(alone.second_cost.is_none() && is(alone.taken, time - 40.0), "{alone:?}");
    let few = of(&scattered[..4], true);
    assert!(few.second_cost.is_none() && few.contended == 0.0 && is(few.taken, 3.5), "{few:?}");
}

#[test]
fn a_short_interrupt_excludes_a_slice_and_takes_little_of_it() {
    let excluded =
        ledger(&[vec![slice(1.0); 90], vec![slice(1.07); 9], vec![slice(100.0)]].concat()).excluded();
    // Time above the last bin was taken entirely.
    assert!((excluded.taken / ONE - (9.0 * 0.07 + 100.0)).abs() < 0.01, "{excluded:?}");
    assert!((excluded.other / ONE - (9.0 * 1.07 + 100.0)).abs() < 0.01, "{excluded:?}");
}

#[test]
fn nothing_kept_is_nothing_and_not_a_division_by_zero() {
    assert_eq!(SliceLedger::new(15.0, SPREAD, false).kept(), SliceSum::default());
    assert_eq!(ledger(&[slice(1e6), slice(1e-6)]).kept(), SliceSum::default());
}

proptest! {
    #[test]
    fn causes_add_up_to_what_is_excluded(
        steady in prop::collection::vec((0.6_f64..3.0, 1_usize..60), 1..8),
        unsure in prop::collection::vec((0.5_f64..60.0, 0.4_f64..1.0, any::<bool>()), 0..60),
        spread in prop_oneof![Just(0.02), Just(0.05), Just(0.25)], shares: bool,
    ) {
        let mut books = SliceLedger::new(15.0, spread, shares);
        for (times, count) in &steady {
            (0..*count).for_each(|_| books.record(&slice(*times)));
        }
        for (times, lower, switched) in unsure {
            books.record(&Slice { after: Some(HZ * lower), switched, ..slice(times) });
        }
        let (all, kept, excluded) = (books.all(), books.kept(), books.excluded());
        let ExcludedTime { switched, clock, second, contended, other, taken, .. } = excluded;
        let sum = switched + clock + second + other;
        prop_assert!((sum - (all.seconds - kept.seconds)).abs() < 1e-9, "{excluded:?}");
        prop_assert!([switched, clock, second, contended, other, taken].iter().all(|part| *part > -1e-12), "{excluded:?}");
        prop_assert!(contended <= second + 1e-9, "{excluded:?}");
        // A bin's mean may mix slices of different kinds.
        let bare = books.taken(kept, &books.second(kept));
        prop_assert!(bare <= other + slice(1.0).seconds, "{bare} {excluded:?}");
    }

    #[test]
    fn rate_and_clock_come_from_the_same_slices(
        clocks in prop::collection::vec(1.0e9_f64..5.0e9, 1..60),
        late in prop::collection::vec(prop_oneof![3 => Just(1.0), 1 => 1.06_f64..20.0], 60),
    ) {
        let mut books = SliceLedger::new(20.0, SPREAD, false);
        for (hz, late) in clocks.iter().zip(&late) {
            let seconds = TURNS as f64 * COST / hz * late;
            books.record(&Slice { turns: TURNS, seconds, before: Some(*hz), after: Some(*hz), switched: false });
        }
        let kept = books.kept();
        // Without steal, rate = clock ÷ cost for any clock.
        if late.iter().take(clocks.len()).filter(|late| **late == 1.0).count() * 2 > clocks.len() {
            let (rate, clock) = (kept.turns / kept.seconds, kept.cycles / kept.seconds);
            prop_assert!((rate * COST / clock - 1.0).abs() < 1e-9, "{rate} {clock}");
        }
        prop_assert!(kept.seconds <= books.all().seconds * (1.0 + 1e-12));
        prop_assert!(kept.slices >= 1);
    }

    #[test]
    fn merged_books_are_those_of_all_slices(times in prop::collection::vec(0.5_f64..4.0, 2..80), cut in 0_usize..80) {
        let slices: Vec<Slice> = times.iter().map(|times| slice(*times)).collect();
        let (left, right) = slices.split_at(cut.min(slices.len()));
        let mut merged = ledger(left);
        merged.merge(&ledger(right));
        let whole = ledger(&slices);
        prop_assert_eq!(merged.kept().slices, whole.kept().slices);
        prop_assert!((merged.all().seconds - whole.all().seconds).abs() < 1e-12);
    }
}
