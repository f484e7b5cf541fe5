//! A host that is killed, stands still or fails, in each phase of a run: it is named, the others end, and what is
//! finished is stored.

use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::until;
use crate::hosts::{Hosts, Kind, said, signal};

/// Long enough to be interrupted in.
const PLAN: &str = "samples = 150\nsample-time = '100ms'\n[[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\ntype = 'f64'\nthreads = 1\n";
/// The first host is soon done with it, the others not: each has the samples that are asked for, of this time.
const NAMED_WITHIN: Duration = Duration::from_secs(30);

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first host measures, the third waits.
    Waits,
    /// The third measures.
    Measures,
    /// All measure.
    Together,
}

/// Attempts at a loss that the launcher lets rank 0 tell.
const ATTEMPTS: usize = 12;

/// Whether Open MPI held rank 0 until the launcher killed it: on a connection that ends, 4.1 tells of it from within the next
/// call (`orte_show_help`) and waits for mpirun to have taken that in, which for two seconds does nothing but end the
/// job. Nothing that plimsoll does in that process is heard then.
fn held(output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stderr);
    text.contains("unexpectedly disconnected") && !text.lines().any(|line| line.starts_with("plimsoll: "))
}

/// A loss as often as it takes until rank 0 is not held by MPI.
fn lose(hosts: &Hosts, phase: Phase, what: Signal) {
    assert!((0..ATTEMPTS).any(|_| told_of(hosts, phase, what)), "{phase:?} {what:?}: held each time");
}

/// Starts a run, does `what` to the third host in that phase, and says what must be so of any loss; false if MPI held rank 0.
fn told_of(hosts: &Hosts, phase: Phase, what: Signal) -> bool {
    // In turns the third is reached by a short plan; it is stopped while its only case is measured.
    let samples = if phase == Phase::Measures { "= 30" } else { "= 150" };
    let plan = hosts.file(&format!("{phase:?}.toml"), &PLAN.replace("= 150", samples));
    let order = if phase == Phase::Together { "--together" } else { "--one-by-one" };
    let mut run = hosts.mpirun();
    let run =
        run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).arg(order).spawn().unwrap();
    let watched = if phase == Phase::Waits { 1 } else { 3 };
    until("a worker measures", || !hosts.processes(watched, Kind::Worker).is_empty());
    let victim = hosts.processes(3, Kind::Rank);
    assert_eq!(victim.len(), 1, "{phase:?}");
    signal(victim[0], what);
    let begun = Instant::now();
    let output = run.wait_with_output().unwrap();
    let (code, last) = said(&output);
    let told = format!("{phase:?} {what:?}: {code:?} {}", String::from_utf8_lossy(&output.stderr));
    assert!(begun.elapsed() < NAMED_WITHIN, "{:?} {told}", begun.elapsed());
    assert!(code.is_some_and(|code| code != 0), "{told}");
    if what == Signal::KILL && held(&output) {
        hosts.empty();
        return false;
    }
    assert!(last.starts_with("plimsoll: lost: n3 (rank 2): "), "{told}");
    if what == Signal::STOP {
        assert_eq!(code, Some(4), "{told}");
    }
    let stored = hosts.stored();
    assert_eq!(stored["status"], "partial", "{told}");
    let lost: Vec<_> = stored["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["code"] == "machine-lost")
        .collect();
    assert_eq!((lost.len(), &lost[0]["evidence"]["node"]), (1, &"n3".into()), "{told}");
    if phase == Phase::Measures {
        let done: Vec<_> =
            stored["measurements"].as_array().unwrap().iter().map(|m| m["node"].clone()).collect();
        assert_eq!(done, ["n1", "n2"], "{told}");
    }
    hosts.empty();
    true
}

#[test]
fn a_rank_that_is_killed_is_named_and_the_others_end() {
    let Some(hosts) = Hosts::new("a_rank_that_is_killed_is_named_and_the_others_end", 3) else { return };
    for phase in [Phase::Waits, Phase::Measures, Phase::Together] {
        lose(&hosts, phase, Signal::KILL);
    }
}

#[test]
fn a_rank_that_stands_still_is_named_and_the_others_end() {
    let Some(hosts) = Hosts::new("a_rank_that_stands_still_is_named_and_the_others_end", 3) else { return };
    for phase in [Phase::Waits, Phase::Measures, Phase::Together] {
        lose(&hosts, phase, Signal::STOP);
    }
}

#[test]
fn a_host_whose_worker_dies_has_a_failed_row_and_the_others_their_figures() {
    let Some(hosts) = Hosts::new("a_host_whose_worker_dies_has_a_failed_row_and_the_others_their_figures", 3)
    else {
        return;
    };
    let plan = hosts.file("fails.toml", &PLAN.replace("= 150", "= 30"));
    let mut run = hosts.mpirun();
    let run = run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).spawn().unwrap();
    let mut worker = Vec::new();
    until("the second host measures", || {
        worker = hosts.processes(2, Kind::Worker);
        !worker.is_empty()
    });
    signal(worker[0], Signal::KILL);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let stored = hosts.stored();
    let rows: Vec<_> =
        stored["measurements"].as_array().unwrap().iter().map(|m| (&m["node"], &m["status"])).collect();
    let row = |node: &str, status: &str| (node.to_owned(), status.to_owned());
    let rows: Vec<_> = rows.into_iter().map(|(n, s)| row(n.as_str().unwrap(), s.as_str().unwrap())).collect();
    assert_eq!(rows, [row("n1", "ok"), row("n2", "failed"), row("n3", "ok")]);
    hosts.empty();
}

/// What is soon done, and what is not.
const TWO: &str = "samples = 400\nsample-time = '100ms'\n[[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\ntype = 'f64'\nthreads = 1\nsamples = 2\n\
    [[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\ntype = 'f32'\nthreads = 1\n";

#[test]
fn what_the_others_have_finished_when_rank_0_is_killed_can_be_imported() {
    let test = "what_the_others_have_finished_when_rank_0_is_killed_can_be_imported";
    let Some(hosts) = Hosts::new(test, 3) else { return };
    let plan = hosts.file("two.toml", TWO);
    let mut run = hosts.mpirun();
    let run = run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).arg("--together");
    let run = run.spawn().unwrap();
    let mut copies: Vec<PathBuf> = Vec::new();
    until("the others have finished their first case", || {
        copies = [2, 3].into_iter().flat_map(|number| hosts.unconfirmed(number)).collect();
        copies.len() == 2
    });
    let first = hosts.processes(1, Kind::Rank);
    assert_eq!(first.len(), 1);
    signal(first[0], Signal::KILL);
    let begun = Instant::now();
    let output = run.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(begun.elapsed() < NAMED_WITHIN, "{:?} {told}", begun.elapsed());
    assert!(output.status.code().is_some_and(|code| code != 0), "{told}");
    hosts.empty();
    for copy in copies {
        let mut import = hosts.on(1, env!("CARGO_BIN_EXE_plimsoll"));
        let imported = import.args(["history", "import"]).arg(copy).output().unwrap();
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    }
    let stored = hosts.stored();
    let finished: Vec<_> = stored["measurements"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["case"]["params"]["type"] == "f64")
        .map(|m| m["node"].clone())
        .collect();
    assert_eq!(
        (&stored["status"], finished),
        (&"partial".into(), vec!["n1".into(), "n2".into(), "n3".into()])
    );
}

#[test]
fn rank_0_that_is_told_to_end_keeps_what_is_finished_and_all_end() {
    let test = "rank_0_that_is_told_to_end_keeps_what_is_finished_and_all_end";
    let Some(hosts) = Hosts::new(test, 2) else { return };
    let plan = hosts.file("ends.toml", &PLAN.replace("= 150", "= 30"));
    let mut run = hosts.mpirun();
    let run = run.args(["-n", "2", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).spawn().unwrap();
    until("the second host measures", || !hosts.processes(2, Kind::Worker).is_empty());
    signal(hosts.processes(1, Kind::Rank)[0], Signal::TERM);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let stored = hosts.stored();
    let nodes: Vec<_> =
        stored["measurements"].as_array().unwrap().iter().map(|m| m["node"].clone()).collect();
    assert_eq!((&stored["status"], nodes), (&"partial".into(), vec!["n1".into()]));
    hosts.empty();
}
