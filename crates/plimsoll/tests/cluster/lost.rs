//! A host that is killed, stands still or fails, in each phase of a run: it is named, the others end, and what is
//! finished is stored.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::skipped;
use crate::hosts::{Hosts, Kind, in_course_of, said, signal};
use crate::hpl;

/// Long enough to be interrupted in.
const PLAN: &str = "samples = 150\nsample-time = '100ms'\n[[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\ntype = 'f64'\nthreads = 1\n";
/// Within this time of its loss a rank is to be named.
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
    /// All solve a system.
    Solves,
}

impl Phase {
    fn has_come(self, hosts: &Hosts) -> bool {
        let is = |number: usize, kind| !hosts.processes(number, kind).is_empty();
        match self {
            Phase::Waits => is(1, Kind::Worker),
            Phase::Measures | Phase::Together => is(3, Kind::Worker),
            Phase::Solves => (1..=3).all(|number| is(number, Kind::Solver)),
        }
    }

    fn plan(self) -> String {
        match self {
            Phase::Waits | Phase::Together => PLAN.to_owned(),
            // In turns the third is reached by a short plan; it is stopped while its only case is measured.
            Phase::Measures => PLAN.replace("= 150", "= 30"),
            Phase::Solves => hpl::LONG.to_owned(),
        }
    }

    /// Hosts that have finished what each measures alone.
    fn finished(self) -> &'static [&'static str] {
        match self {
            Phase::Waits | Phase::Together => &[],
            Phase::Measures => &["n1", "n2"],
            Phase::Solves => &["n1", "n2", "n3"],
        }
    }
}

/// Starts a run, does `what` to the third host in that phase, and says what must be so of any loss.
fn lose(hosts: &Hosts, phase: Phase, what: Signal) {
    let plan = hosts.file(&format!("{phase:?}.toml"), &phase.plan());
    let order = if phase == Phase::Together { "--together" } else { "--one-by-one" };
    let mut run = hosts.mpirun();
    run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).arg(order);
    let mut run = run.spawn().unwrap();
    in_course_of(&mut run, &format!("{phase:?}"), || phase.has_come(hosts));
    let victim = hosts.processes(3, Kind::Rank);
    assert_eq!(victim.len(), 1, "{phase:?}");
    signal(victim[0], what);
    let begun = Instant::now();
    let output = run.wait_with_output().unwrap();
    let (code, last) = said(&output);
    let told = format!("{phase:?} {what:?}: {code:?} {}", String::from_utf8_lossy(&output.stderr));
    assert!(begun.elapsed() < NAMED_WITHIN, "{:?} {told}", begun.elapsed());
    assert!(code.is_some_and(|code| code != 0), "{told}");
    if what == Signal::STOP {
        assert_eq!(code, Some(4), "{told}");
        assert!(last.starts_with("plimsoll: machine lost: n3 (rank 2): it sent nothing for"), "{told}");
    } else {
        assert!(last.starts_with("plimsoll: machine lost: n3 (rank 2): its process ended"), "{told}");
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
    if !phase.finished().is_empty() {
        let done: Vec<_> =
            stored["measurements"].as_array().unwrap().iter().map(|m| m["node"].clone()).collect();
        assert_eq!(done, phase.finished(), "{told}");
    }
    hosts.empty();
}

/// Ends a rank of three in a run, and awaits that its loss is the last word on it.
fn killed(hosts: &Hosts, run: Child, number: usize) -> String {
    let victim = hosts.processes(number, Kind::Rank);
    assert_eq!(victim.len(), 1);
    signal(victim[0], Signal::KILL);
    let begun = Instant::now();
    let output = run.wait_with_output().unwrap();
    let (code, last) = said(&output);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(begun.elapsed() < NAMED_WITHIN, "{:?} {told}", begun.elapsed());
    assert!(code.is_some_and(|code| code != 0), "{told}");
    hosts.empty();
    last
}

/// Whether a rank's connection to rank 0 stands: the thread of that name then sleeps in a call on two descriptors.
fn connected(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let read = |thread: &Path, file: &str| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
    let pulse = threads.map(|thread| thread.path()).find(|thread| read(thread, "comm") == "pulse\n");
    pulse.is_some_and(|thread| read(&thread, "syscall").split(' ').nth(2) == Some("0x2"))
}

#[test]
fn a_rank_that_is_killed_when_it_has_just_joined_is_named() {
    let test = "a_rank_that_is_killed_when_it_has_just_joined_is_named";
    if std::fs::read_to_string("/proc/self/syscall").is_err() {
        return skipped(test, "needs a kernel that tells which system call a process is in");
    }
    let Some(hosts) = Hosts::new(test, 3) else { return };
    let plan = hosts.file("plan.toml", PLAN);
    let mut run = hosts.mpirun();
    let mut run = run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).spawn().unwrap();
    in_course_of(&mut run, "the third has joined", || {
        hosts.processes(3, Kind::Rank).into_iter().any(connected)
    });
    let last = killed(&hosts, run, 3);
    // Soon after it has joined a rank says who it is, and may or may not have done so.
    let nameless = "plimsoll: nothing was measured: rank 2 is lost: its process ended";
    assert!(
        last == nameless || last.starts_with("plimsoll: machine lost: n3 (rank 2): its process ended"),
        "{last}"
    );
}

#[test]
fn a_rank_that_is_killed_while_pairs_are_measured_is_named_and_what_is_finished_is_kept() {
    let test = "a_rank_that_is_killed_while_pairs_are_measured_is_named_and_what_is_finished_is_kept";
    let Some(hosts) = Hosts::new(test, 3) else { return };
    // More of them than are measured in the time that the first takes to be seen.
    let plan = hosts.file(
        "pairs.toml",
        "samples = 1\nsample-time = '1ms'\n[[group]]\nbenchmark = 'network.tcp'\n\
        message = ['1K', '2K', '4K', '8K', '16K', '32K', '64K', '128K']\nstreams = [1, 2]\ndirection = 'up'\n",
    );
    let events = hosts.file("events", "");
    let mut run = hosts.mpirun();
    run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).arg("--events").arg(&events);
    let mut run = run.spawn().unwrap();
    in_course_of(&mut run, "pairs are measured", || {
        std::fs::read_to_string(&events).unwrap_or_default().contains("server=nodes")
    });
    let last = killed(&hosts, run, 3);
    assert!(last.starts_with("plimsoll: machine lost: n3 (rank 2): its process ended"), "{last}");
    let stored = hosts.stored();
    let measured = stored["measurements"].as_array().unwrap().iter();
    let own = measured.filter(|m| m["case"]["params"]["server"].is_null()).count();
    assert_eq!((&stored["status"], own), (&"partial".into(), 48));
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
fn rank_0_that_was_stopped_blames_itself_and_nobody_else() {
    let test = "rank_0_that_was_stopped_blames_itself_and_nobody_else";
    let Some(hosts) = Hosts::new(test, 3) else { return };
    let plan = hosts.file("plan.toml", PLAN);
    let mut run = hosts.mpirun();
    run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).arg("--one-by-one");
    let mut run = run.spawn().unwrap();
    in_course_of(&mut run, "the first host measures", || !hosts.processes(1, Kind::Worker).is_empty());
    let first = hosts.processes(1, Kind::Rank);
    signal(first[0], Signal::STOP);
    // Until the others have given it up: their processes end, or wait for MPI's end without a connection.
    let begun = Instant::now();
    crate::common::until("the others give rank 0 up", || begun.elapsed() > NAMED_WITHIN / 2);
    signal(first[0], Signal::CONT);
    let output = run.wait_with_output().unwrap();
    let (code, last) = said(&output);
    let told = format!("{code:?} {}", String::from_utf8_lossy(&output.stderr));
    assert!(code.is_some_and(|code| code != 0), "{told}");
    assert!(!told.contains("n2 (rank 1)") && !told.contains("n3 (rank 2)"), "{told}");
    assert!(
        last.is_empty()
            || !last.starts_with("plimsoll: machine lost:")
            || last.contains("n1 (rank 0): it was stopped for"),
        "{told}"
    );
    hosts.empty();
}

#[test]
fn a_rank_that_is_lost_while_all_solve_a_system_is_named_and_nothing_goes_on() {
    let test = "a_rank_that_is_lost_while_all_solve_a_system_is_named_and_nothing_goes_on";
    let Some(hosts) = hpl::solvers(test, 3) else { return };
    for what in [Signal::KILL, Signal::STOP] {
        lose(&hosts, Phase::Solves, what);
    }
}

#[test]
fn a_host_whose_worker_dies_has_a_failed_row_and_the_others_their_figures() {
    let Some(hosts) = Hosts::new("a_host_whose_worker_dies_has_a_failed_row_and_the_others_their_figures", 3)
    else {
        return;
    };
    let plan = hosts.file("fails.toml", &PLAN.replace("= 150", "= 30"));
    let stored = hosts.run_and_kill(&plan, 2, Kind::Worker);
    // On a busy machine the others' may be unlikely figures.
    let row = |m: &Value| (m["node"].as_str().unwrap_or_default().to_owned(), m["status"] == "failed");
    let rows: Vec<_> = stored["measurements"].as_array().unwrap().iter().map(row).collect();
    let expected = [("n1", false), ("n2", true), ("n3", false)];
    assert_eq!(rows, expected.map(|(node, failed)| (node.to_owned(), failed)));
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
    run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).arg("--together");
    let mut run = run.spawn().unwrap();
    let mut copies: Vec<PathBuf> = Vec::new();
    in_course_of(&mut run, "all have finished and kept their first case", || {
        copies = [2, 3].into_iter().flat_map(|number| hosts.unconfirmed(number)).collect();
        copies.len() == 2 && hosts.keeps_its_own()
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
    let mut run = run.args(["-n", "2", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).spawn().unwrap();
    in_course_of(&mut run, "the second host measures", || !hosts.processes(2, Kind::Worker).is_empty());
    signal(hosts.processes(1, Kind::Rank)[0], Signal::TERM);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let stored = hosts.stored();
    let nodes: Vec<_> =
        stored["measurements"].as_array().unwrap().iter().map(|m| m["node"].clone()).collect();
    assert_eq!((&stored["status"], nodes), (&"partial".into(), vec!["n1".into()]));
    hosts.empty();
}
