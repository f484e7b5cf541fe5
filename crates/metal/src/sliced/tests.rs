use proptest::prelude::*;

use super::*;
use crate::affinity;
use crate::isa::Isa;
use crate::kernel::{Element, Op, find};
use crate::team::testing::team;

fn kernel_load() -> KernelLoad {
    KernelLoad::new(find(Op::FMA, Element::F64, Isa::best()).unwrap().load().unwrap())
}

fn spin(turns: u64) {
    (0..turns).for_each(|turn| _ = std::hint::black_box(turn));
}

#[derive(Debug, Default)]
struct Tally {
    turns: u64,
    settled: u64,
}

impl SlicedLoad for Tally {
    fn run(&mut self, turns: u64) {
        spin(turns);
        self.turns += turns;
    }

    fn settle(&mut self, turns: u64) {
        self.settled += turns;
    }
}

/// Measures `until`, repeatedly while a processor is always disturbed.
fn measured<L: SlicedLoad>(sliced: &mut Sliced<L>, until: SliceEnd) -> TeamOutcome {
    for _ in 0..1_000 {
        match sliced.measure(until) {
            Err(SlicedError::AllDisturbed { .. }) => {}
            outcome => return outcome.unwrap(),
        }
    }
    panic!("no slice of a thousand measurements was left alone");
}

#[test]
fn a_kernel_is_measured_and_its_results_are_the_references() {
    let cpus = affinity::allowed().unwrap();
    let mut sliced = Sliced::prepare(Team::new(&cpus).unwrap(), |_| kernel_load()).unwrap();
    for until in [SliceEnd::Elapsed(Duration::from_millis(20)), SliceEnd::Turns(2_000_003)] {
        let outcome = measured(&mut sliced, until);
        assert_eq!(outcome.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), cpus);
        // An emulator's multiplication takes no whole number of additions, so the clock is unknown.
        assert!(outcome.turns_per_second() > 0.0 && outcome.clock_hz().is_none_or(|hz| hz > 1e8));
        assert!((0.0..=1.0).contains(&outcome.excluded_share()));
        assert!(outcome.cpus.iter().all(|cpu| cpu.kept > 0 && cpu.kept <= cpu.slices));
    }
    let mut proven = Proven::default();
    for load in sliced.loads() {
        assert_eq!(load.verify(&mut proven), Ok(()));
        assert!(load.deviant.is_none() && load.results.len() >= 2);
    }
    assert!(!proven.0.is_empty() && proven.0.len() <= 2 * RESULTS_KEPT);
}

#[test]
fn threads_on_one_cpu_are_one_rate_and_more_threads_are_not_more_cpus() {
    let cpu = affinity::allowed().unwrap()[0];
    let mut sliced = Sliced::prepare(Team::new(&[cpu; 3]).unwrap(), |_| kernel_load()).unwrap();
    let outcome = measured(&mut sliced, SliceEnd::Elapsed(Duration::from_millis(60)));
    assert_eq!((outcome.cpus.len(), outcome.cpus[0].threads), (1, 3));
    // No core does more than two 512-bit FMA per cycle (32 operations); three cores would do more.
    let flops = find(Op::FMA, Element::F64, Isa::best()).unwrap().operations_per_turn() as f64;
    let Some(clock) = outcome.clock_hz() else { return };
    let per_cycle = outcome.turns_per_second() * flops / clock;
    assert!(per_cycle > 0.0 && per_cycle <= 32.0 * 1.1, "{per_cycle} operations per cycle");
}

#[test]
fn slices_are_as_short_as_timer_and_load_allow() {
    // Timers: nanoseconds, Arm's 24 MHz, one read by a system call, one of a microsecond.
    let timers = [(26e-9, 25e-6), (42e-9 + 20e-9, 31e-6), (300e-9, 150e-6), (1.28e-6, LONGEST_SECONDS)];
    for (uncertainty, wanted) in timers {
        let slice = slice_seconds(0.05, uncertainty);
        assert!((slice / wanted - 1.0).abs() < 1e-9, "{uncertainty}: {slice}");
    }
    assert_eq!(slice_seconds(0.25, 26e-9), LONGEST_SECONDS, "the cost of loads from memory varies");
    assert_eq!((stretch_seconds(15e-6), stretch_seconds(105e-6)), (STRETCH_SECONDS, LONGEST_SECONDS));
}

#[test]
fn a_slice_that_differs_from_its_equals_is_found() {
    let mut load = kernel_load();
    load.run(1_000);
    load.settle(1_000);
    load.run(999);
    load.settle(1_000);
    let error = load.verify(&mut Proven::default()).unwrap_err();
    assert_eq!(error.turns, 1_000);
}

#[test]
fn a_panicking_load_is_an_error_and_nobody_waits_for_it() {
    /// Panics at the twentieth slice of one length, so not during calibration.
    #[derive(Default)]
    struct Fuse {
        length: u64,
        repeats: u32,
        lit: bool,
    }
    impl SlicedLoad for Fuse {
        fn run(&mut self, turns: u64) {
            spin(turns);
            self.repeats = if turns == self.length { self.repeats + 1 } else { 0 };
            self.length = turns;
            assert!(!self.lit || self.repeats < 20, "burnt");
        }
        fn settle(&mut self, _: u64) {}
    }
    let fuse = |index| Fuse { lit: index == 0, ..Fuse::default() };
    let mut sliced = Sliced::prepare(team(2), |member| fuse(member.index)).unwrap();
    let error = sliced.measure(SliceEnd::Elapsed(Duration::from_millis(200))).unwrap_err().to_string();
    assert!(error.contains("burnt"), "{error}");
}

proptest! {
    #[test]
    fn a_fixed_amount_is_cut_exactly_and_evenly(turns in 1_u64..5_000_000, per_slice in 1_u64..200_000) {
        let mut ration = RemainingWork::new(SliceEnd::Turns(turns), per_slice);
        let mut slices = Vec::new();
        while !ration.is_used_up(Duration::ZERO) && slices.len() < 100_000 {
            slices.push(ration.next_slice());
        }
        prop_assume!(slices.len() < 100_000);
        prop_assert_eq!(slices.iter().sum::<u64>(), turns);
        let (least, most) = (*slices.iter().min().unwrap(), *slices.iter().max().unwrap());
        prop_assert!(most - least <= 1 && most <= per_slice, "{least} {most} {per_slice}");
    }
}

#[test]
fn every_thread_does_its_ration_and_settles_all_it_ran() {
    let mut sliced = Sliced::prepare(team(3), |_| Tally::default()).unwrap();
    let before: Vec<u64> = sliced.loads().map(|load| load.turns).collect();
    let outcome = sliced.measure(SliceEnd::Turns(1_000_000));
    assert!(matches!(outcome, Ok(_) | Err(SlicedError::AllDisturbed { .. })), "{outcome:?}");
    for (load, before) in sliced.loads().zip(before) {
        assert!(load.turns - before >= 1_000_000);
        assert_eq!(load.turns, load.settled);
    }
    assert!(sliced.stations.iter().all(|station| station.ledger.all().turns == 1_000_000.0));
}
