use plimsoll_machine::Root;
use plimsoll_model::plan::Sampling;
use plimsoll_result::fixture;

use super::*;
use proptest::prelude::*;

fn machine(cpus: &str, available: u64) -> Machine {
    let mut machine = Machine::discover(&Root::at("/nonexistent"));
    machine.cpu.allowed = cpus.parse().unwrap();
    machine.memory.available_bytes = Some(available);
    machine
}

fn planned(case: &str, budget: Option<f64>) -> Planned {
    let sampling = Sampling { samples: None, sample_time: 0.2, precision: 0.01, warm_up: None };
    let candidate = plimsoll_bench::Candidate::new(case.parse().unwrap(), Ok(()));
    Planned { candidate, sampling, against: Against::NoTool, budget, job: Vec::new(), group: 0, repeat: 0 }
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
    let machines = [&machine("0-3", 64 << 30), &machine("0-1", 64 << 30)];
    let made = HplSystem::of(&planned("cpu.hpl/nb=192", Some(10.0)), &machines, Some(1e12)).unwrap();
    assert!(made.seconds > 9.0 && made.seconds <= 10.1, "{made:?}");
    assert_eq!((made.case.number("p"), made.case.number("q"), made.case.threads()), (Some(1), Some(2), 2));
    let named = HplSystem::of(&planned("cpu.hpl/n=2000/nb=64", None), &machines, None).unwrap();
    assert_eq!(named.case.id().as_str(), "cpu.hpl/n=2000/nb=64/p=1/q=2/threads=2");
    let estimate = named.estimate("xhpl");
    let start = "cpu.hpl by xhpl: order 2000 on 2 machines, 1 × 2 processes of 2 threads";
    assert!(estimate.starts_with(start), "{estimate}");
    let tall = HplSystem::of(&planned("cpu.hpl/n=2000/nb=64/p=2/q=1", None), &machines, None).unwrap();
    assert_eq!((tall.case.number("p"), tall.case.number("q")), (Some(2), Some(1)));
    for wrong in ["cpu.hpl/n=2000/nb=64/p=2/q=2", "cpu.hpl/n=2000/nb=64/p=2"] {
        let why = HplSystem::of(&planned(wrong, None), &machines, None).unwrap_err();
        assert!(why.reason.contains("must be 2, the number of machines"), "{why}");
    }
    let unknown = Machine::discover(&Root::at("/nonexistent"));
    let why = HplSystem::of(&planned("cpu.hpl/nb=192", None), &[&unknown], None).unwrap_err();
    assert!(why.reason.contains("choose the order"), "{why}");
}

#[test]
fn a_launcher_of_mpi_gets_the_names_of_the_machines() {
    let host = |text: &str| HostName::typed(text).unwrap();
    let (one, two) = (host("n1"), host("n2.example"));
    let names = addresses(&[&one, &two]).unwrap();
    let words = words_of_mpirun(&names).join(" ");
    assert!(words.starts_with("-n 2 -H n1:1,n2.example:1 --bind-to none"), "{words}");
    let words = words_of_srun(&names).join(" ");
    let start = "--nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=n1,n2.example ";
    assert!(words.starts_with(start), "{words}");
    assert_eq!(addresses(&[&one, &host("root@n2")]).unwrap_err().cause, FailureCause::NotHere);
    let search =
        ProgramSearch::new("/usr/bin".as_ref(), Default::default(), plimsoll_reference::Trust::here());
    let why = through(&search, "kubectl", &[&one], 1.0).unwrap_err();
    assert!(why.reason.contains("--launcher ssh, mpirun or srun"), "{why}");
}

#[test]
fn few_machines_measure_every_pair_and_more_a_ring() {
    assert_eq!(pairs(2), [MachinePair { from: 0, to: 1 }, MachinePair { from: 1, to: 0 }]);
    assert_eq!(pairs(4).len(), 12);
    assert_eq!((pairs(100).len(), pairs(100)[99]), (100, MachinePair { from: 99, to: 0 }));
}

#[test]
fn the_limit_is_the_sum_of_the_machines_limits_if_all_have_one() {
    let run = |values: [Option<f64>; 2]| {
        let mut run = fixture::run_of(vec![fixture::cpu("f64", 1, 1e9, 1e9); 2]);
        let node = |name: &str| Node { name: name.to_owned(), machine: Some(machine("0", 1 << 30)) };
        run.nodes = vec![node("n0"), node("n1")];
        for (index, (made, value)) in run.measurements.iter_mut().zip(values).enumerate() {
            made.node = format!("n{index}");
            made.metrics[0].limit.as_mut().unwrap().value = value;
        }
        run
    };
    assert_eq!(peak(&run([Some(3e9), Some(4e9)])), Some(7e9));
    assert_eq!(peak(&run([Some(3e9), None])), None);
}
