//! Two hosts solve a system together, by the hpcc that is installed.

use serde_json::Value;

use crate::common::skipped;
use crate::hosts::{Hosts, Kind};

/// All CPUs, for the limit; two hosts on one machine have them both.
const PLAN: &str = "name = 'together'\nsamples = 2\nsample-time = '20ms'\n\
    [[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\ntype = 'f64'\n\
    [[group]]\nbenchmark = 'cpu.hpl'\nsamples = 1\nn = 500\nnb = 64\n";

fn metric<'a>(measurement: &'a Value, name: &str) -> &'a Value {
    measurement["metrics"].as_array().unwrap().iter().find(|m| m["name"] == name).unwrap()
}

/// Hosts with what solves it.
pub(crate) fn solvers(test: &str, count: usize) -> Option<Hosts> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory.join("hpcc").exists()) {
        skipped(test, "needs hpcc");
        return None;
    }
    Hosts::new(test, count)
}

#[test]
fn two_hosts_solve_a_system_together_and_its_check_passes() {
    let Some(hosts) = solvers("two_hosts_solve_a_system_together_and_its_check_passes", 2) else { return };
    let plan = hosts.file("together.toml", PLAN);
    let mut run = hosts.mpirun();
    run.args(["-n", "2", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan);
    let output = run.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("order 500 on 2 machines, 1 × 2 processes"), "{told}");
    let stored = hosts.stored();
    let all = stored["measurements"].as_array().unwrap();
    let solved: Vec<&Value> = all.iter().filter(|m| m["case"]["benchmark"] == "cpu.hpl").collect();
    assert_eq!(solved.len(), 1, "{told}");
    let solved = solved[0];
    assert_eq!(solved["status"], "ok", "{solved}");
    for (key, value) in [("n", 500), ("nb", 64), ("p", 1), ("q", 2)] {
        assert_eq!(solved["case"]["params"][key], value, "{solved}");
        assert_eq!(solved["achieved"][key], value.to_string(), "{solved}");
    }
    let median = |name: &str| metric(solved, name)["summary"]["median"].as_f64().unwrap();
    let operations = 2.0 / 3.0 * 500_f64.powi(3) + 1.5 * 500_f64.powi(2);
    assert!((median("rate") * median("time") / operations - 1.0).abs() < 1e-9, "{solved}");
    // HPL's own bound of a right answer.
    assert!((0.0..16.0).contains(&median("residual")), "{solved}");
    // The sum of both hosts' limits, where this chip has one.
    let limit = |m: &Value| metric(m, "rate")["limit"]["value"].as_f64();
    let own: Vec<Option<f64>> = ["n1", "n2"]
        .map(|node| {
            let peak = all.iter().filter(|m| m["node"] == node && m["case"]["benchmark"] == "cpu.peak");
            peak.filter_map(limit).max_by(f64::total_cmp)
        })
        .into();
    assert_eq!(limit(solved), own.into_iter().sum::<Option<f64>>(), "{solved}");
    hosts.empty();
}

/// It takes much longer to solve than to interrupt.
pub(crate) const LONG: &str = "samples = 2\nsample-time = '20ms'\n\
    [[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\ntype = 'f64'\nthreads = 1\n\
    [[group]]\nbenchmark = 'cpu.hpl'\nsamples = 1\nn = 8000\nnb = 128\n";

#[test]
fn a_solver_that_is_killed_is_a_failed_row_and_the_machines_keep_theirs() {
    let test = "a_solver_that_is_killed_is_a_failed_row_and_the_machines_keep_theirs";
    let Some(hosts) = solvers(test, 2) else { return };
    let plan = hosts.file("long.toml", LONG);
    let stored = hosts.run_and_kill(&plan, 2, Kind::Solver);
    let rows = stored["measurements"].as_array().unwrap().iter();
    let row =
        |m: &Value| (m["case"]["benchmark"].as_str().unwrap_or_default().to_owned(), m["status"] == "failed");
    let rows: Vec<_> = rows.map(row).collect();
    let expected = [("cpu.peak", false), ("cpu.peak", false), ("cpu.hpl", true)];
    assert_eq!(rows, expected.map(|(name, failed)| (name.to_owned(), failed)));
    hosts.empty();
}
