use plimsoll_metal::gemm::{self, CoreCaches};

use super::*;
use crate::dense::matrix::THRESHOLD;
use crate::fixture::{group, here, parse_group, prepared};
use plimsoll_model::sample::FailureCause;

#[test]
fn all_threads_solve_a_system_that_fits_unless_told_otherwise() {
    let machine = here();
    let candidates = Linpack.cases(&machine, &Group::default()).unwrap();
    assert_eq!(candidates.len(), 1);
    let case = &candidates[0].case;
    assert!(candidates[0].feasible.is_ok());
    assert_eq!(case.threads(), machine.most_threads());
    assert!(case.number("n").unwrap() >= 240 && case.number("nb") == Some(DEFAULT_BLOCK_COLUMNS), "{case}");
    assert!(!Linpack.descriptor().by_default);
}

#[test]
fn lists_multiply() {
    let lists = parse_group("n=100,200/nb=24,48/threads=1,2");
    assert_eq!(Linpack.cases(&here(), &lists).unwrap().len(), 8);
}

#[test]
fn sizes_that_cannot_be_are_refused_in_one_line() {
    for (key, number) in [("n", "0"), ("n", "1099511627776"), ("nb", "0"), ("nb", "1025"), ("threads", "0")] {
        let error = Linpack.cases(&here(), &group(&[(key, &[number])])).unwrap_err();
        assert!(error.starts_with(&format!("{key} must be between 1 and")), "{error}");
    }
}

#[test]
fn a_matrix_beyond_memory_is_refused_with_the_sum() {
    let candidates = Linpack.cases(&here(), &group(&[("n", &["2000000000"])])).unwrap();
    let refusal = candidates[0].feasible.clone().unwrap_err();
    assert_eq!(refusal.cause, FailureCause::Environment);
    assert!(refusal.reason.contains("8 B × 2000000000² = "), "{refusal}");
    assert!(refusal.reason.ends_with("use a smaller --n"), "{refusal}");
}

#[test]
fn every_instruction_set_here_solves_and_is_judged() {
    let machine = here();
    let lists = format!("n=1,130/nb=40/threads=1,{}/isa=all", machine.cpu.allowed.len() + 1);
    let candidates = Linpack.cases(&machine, &parse_group(&lists)).unwrap();
    assert_eq!(candidates.len(), 4 * gemm::isas().filter(|isa| isa.available().is_ok()).count());
    for candidate in candidates {
        let case = &candidate.case;
        let mut running = prepared(&Linpack, &candidate, &machine);
        for _ in 0..2 {
            let sample = running.sample(SampleAmount::Seconds(0.1)).unwrap();
            assert!(sample.values["rate"] > 0.0 && sample.elapsed > 0.0, "{case}");
            assert!(sample.values["residual"] < THRESHOLD, "{case}: {sample:?}");
        }
        let facts = running.verify().unwrap();
        assert!(facts.achieved.get(&NB).is_some_and(|nb| nb >= 4), "{facts:?}");
        let crowded = facts.warnings.iter().any(|warning| warning.code() == "more-threads-than-cpus");
        assert_eq!(crowded, case.threads() > machine.cpu.allowed.len());
    }
}

#[test]
fn a_residual_that_is_not_small_voids_the_figure() {
    let judged = |residual| dense::check_residual(&[0], "LU", residual, "the residual");
    assert_eq!(judged(15.9), Ok(()));
    for wrong in [16.0, 1e9, f64::INFINITY, f64::NAN] {
        let error = judged(wrong).unwrap_err();
        assert_eq!(error.cause, FailureCause::WrongAnswer, "{wrong}");
        assert_eq!(error.wrong.unwrap().cpu(), Some(0));
    }
}

#[test]
fn one_wrong_solution_among_right_ones_is_not_forgotten() {
    let machine = here();
    let one = Threads { count: 1, place: plimsoll_bench_api::ThreadOrder::Spread };
    let system = SystemSize::new(gemm::best_isa(), CoreCaches::default(), 50, 24).unwrap();
    for worst in [17.0, f64::NAN] {
        let mut team = Team::new(&one.cpus(&machine)).unwrap();
        let lu = Lu::new(system, &mut team, true).unwrap();
        let (sequence, kinds, facts) = (Sequence::new(), Vec::new(), Facts::default());
        let mut running = LinpackTeam { team, lu, sequence, worst, kinds, facts };
        running.sample(SampleAmount::Seconds(0.1)).unwrap();
        assert!(running.verify().is_err(), "{worst}");
    }
}

#[test]
fn operations_are_counted_as_hpl_does() {
    assert_eq!(operations(3.0), 18.0 + 13.5);
}
