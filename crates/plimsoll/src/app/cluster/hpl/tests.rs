use super::*;
use crate::cluster::{Finished, Member};
use crate::fixture;
use crate::machine::Root;
use crate::plan::Sampling;
use proptest::prelude::*;

fn machine(cpus: &str, available: u64) -> Machine {
    let mut machine = Machine::discover(&Root::at("/nonexistent"));
    machine.cpu.allowed = cpus.parse().unwrap();
    machine.memory.available_bytes = Some(available);
    machine
}

fn planned(case: &str, budget: Option<f64>) -> Planned {
    let sampling = Sampling { samples: None, sample_time: 0.2, precision: 0.01, warm_up: None };
    let candidate = crate::bench::Candidate::new(case.parse().unwrap(), Ok(()));
    Planned { candidate, sampling, against: Against::Nobody, budget, job: Vec::new(), group: 0, repeat: 0 }
}

proptest! {
    #[test]
    fn the_grid_has_all_processes_and_no_more_rows_than_columns(processes in 1..5000_u64) {
        let [p, q] = grid(processes);
        prop_assert!(p * q == processes && p <= q);
    }

    #[test]
    fn the_matrix_fits_the_memory_of_the_least_machine(gib in 1..512_u64, count in 1..64_usize, nb in 1..300_u64) {
        let (small, large) = (machine("0-3", gib << 30), machine("0-7", 1 << 40));
        let machines: Vec<&Machine> = std::iter::once(&small).chain(std::iter::repeat_n(&large, count - 1)).collect();
        let n = order(&machines, nb, None).unwrap();
        let share = 8.0 * (n as f64).powi(2) / ((gib << 30) as f64 * count as f64);
        prop_assert!(n.is_multiple_of(nb) && share <= 0.8 && share > 0.7, "{n} {share}");
    }
}

#[test]
fn a_budget_bounds_the_order_and_the_estimate_follows() {
    let machines = [machine("0-3", 64 << 30), machine("0-1", 64 << 30)];
    let machines: Vec<&Machine> = machines.iter().collect();
    let made = System::of(&planned("cpu.hpl/nb=192", Some(10.0)), &machines, Some(1e12)).unwrap();
    assert!(made.seconds > 9.0 && made.seconds <= 10.1, "{made:?}");
    assert_eq!((made.case.number("p"), made.case.number("q"), made.case.threads()), (Some(1), Some(2), 2));
    let named = System::of(&planned("cpu.hpl/n=2000/nb=64", None), &machines, None).unwrap();
    assert_eq!(named.case.id().as_str(), "cpu.hpl/n=2000/nb=64/p=1/q=2/threads=2");
    assert!(
        named
            .estimate("xhpl")
            .starts_with("cpu.hpl by xhpl: order 2000 on 2 machines, 1 × 2 processes of 2 threads")
    );
    let tall = System::of(&planned("cpu.hpl/n=2000/nb=64/p=2/q=1", None), &machines, None).unwrap();
    assert_eq!((tall.case.number("p"), tall.case.number("q")), (Some(2), Some(1)));
    for wrong in ["cpu.hpl/n=2000/nb=64/p=2/q=2", "cpu.hpl/n=2000/nb=64/p=2"] {
        let why = System::of(&planned(wrong, None), &machines, None).unwrap_err();
        assert!(why.reason.contains("must be 2, the number of machines"), "{why}");
    }
    let unknown = Machine::discover(&Root::at("/nonexistent"));
    let why = System::of(&planned("cpu.hpl/nb=192", None), &[&unknown], None).unwrap_err();
    assert!(why.reason.contains("choose the order"), "{why}");
}

#[test]
fn the_launcher_gets_the_machines_and_how_they_are_reached() {
    let member = |name: &str| Member { rank: 0, name: name.to_owned() };
    let roster = Roster { members: vec![member("n1"), member("n2.example")] };
    let text = |pair: (&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    let environment = [
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_MCA_plm_rsh_agent", "/bin/agent"),
        ("OMPI_MCA_orte_hnp_uri", "secret"),
        ("HOME", "/home/user"),
    ];
    let words = launch(&roster, environment.map(text).into_iter()).unwrap().join(" ");
    assert!(words.starts_with("-n 2 -H n1:1,n2.example:1 --bind-to none"), "{words}");
    assert!(words.ends_with("--mca plm_rsh_agent /bin/agent") && !words.contains("secret"), "{words}");
    let elsewhere = launch(&roster, [("PMI_RANK", "0")].map(text).into_iter()).unwrap_err();
    assert_eq!(elsewhere.cause, Cause::NotHere);
    let twice = Roster { members: vec![member("n1#0"), member("n1#1")] };
    let why = launch(&twice, environment.map(text).into_iter()).unwrap_err();
    assert!(why.reason.contains("n1#0"), "{why}");
}

#[test]
fn the_limit_is_the_sum_of_the_machines_limits_if_all_have_one() {
    let finished = |value: Option<f64>| {
        let mut run = fixture::run();
        run.machine = machine("0", 1 << 30);
        let only = &mut run.measurements[0];
        only.case = "cpu.peak/op=fma/type=f64/isa=avx2/threads=1".parse().unwrap();
        let limit =
            crate::limit::Limit::fixed(crate::limit::Kind::Ceiling, Source::Derived, 0.0, "", Vec::new());
        only.metrics[0].limit = Some(crate::limit::Limit { value, ..limit });
        run.measurements.truncate(1);
        Finished { run, code: 0, interrupted: false }
    };
    let ended = |values: [Option<f64>; 2]| Ended {
        finished: values.into_iter().enumerate().map(|(rank, value)| (rank, finished(value))).collect(),
        ..Ended::default()
    };
    assert_eq!(peak(&ended([Some(3e9), Some(4e9)])), Some(7e9));
    assert_eq!(peak(&ended([Some(3e9), None])), None);
}
