//! Hosts that are not about to do the same are refused before anything is measured.

use std::fs;

use crate::hosts::{Hosts, said};

const PLAN: &str =
    "samples = 2\nsample-time = '1ms'\n[[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\nthreads = 1\n";

/// The program with another version in it, written over every place of this one's.
fn other_version(hosts: &Hosts) -> std::path::PathBuf {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_plimsoll")).unwrap();
    let places: Vec<usize> = bytes
        .windows(version.len())
        .enumerate()
        .filter(|(_, window)| *window == version)
        .map(|(at, _)| at)
        .collect();
    for at in places {
        bytes[at] = b'9';
    }
    let file = hosts.file("plimsoll-other", "");
    fs::write(&file, bytes).unwrap();
    fs::set_permissions(&file, fs::metadata(env!("CARGO_BIN_EXE_plimsoll")).unwrap().permissions()).unwrap();
    file
}

#[test]
fn a_host_with_another_plan_or_version_or_none_is_named_before_anything_is_measured() {
    let test = "a_host_with_another_plan_or_version_or_none_is_named_before_anything_is_measured";
    let Some(hosts) = Hosts::new(test, 3) else { return };
    let program = std::path::PathBuf::from(env!("CARGO_BIN_EXE_plimsoll"));
    let (plan, another) = (hosts.file("a.toml", PLAN), hosts.file("b.toml", &PLAN.replace("= 2", "= 3")));
    let (other, missing) = (other_version(&hosts), plan.with_file_name("missing.toml"));
    for (program_of_last, plan_of_last, differs) in
        [(&program, &another, "plan "), (&other, &plan, "version 9"), (&program, &missing, "missing.toml")]
    {
        let mut run = hosts.mpirun();
        run.args(["-n", "2"]).arg(&program).arg("run").arg(&plan).args([":", "-n", "1"]);
        let output = run.arg(program_of_last).arg("run").arg(plan_of_last).output().unwrap();
        let (code, last) = said(&output);
        assert_eq!(code, Some(5), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(last.contains("nothing was measured: n3 (rank 2): ") && last.contains(differs), "{last}");
        assert!(!last.contains("n2") && output.stdout.is_empty(), "{last}");
        hosts.empty();
    }
}

#[test]
fn what_rank_0_alone_cannot_do_ends_all_before_anything_is_measured() {
    let test = "what_rank_0_alone_cannot_do_ends_all_before_anything_is_measured";
    let Some(hosts) = Hosts::new(test, 3) else { return };
    let plan = hosts.file("plan.toml", PLAN);
    let missing = plan.with_file_name("missing.toml");
    // It has no plan; where the events go is looked at when all have been heard.
    for (plan_of_first, events, why) in
        [(&missing, "events", "missing.toml"), (&plan, ".", "cannot write .: Is a directory")]
    {
        let mut run = hosts.mpirun();
        run.args(["-n", "1", env!("CARGO_BIN_EXE_plimsoll"), "run"])
            .arg(plan_of_first)
            .args(["--events", events]);
        run.args([":", "-n", "2", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(&plan);
        let output = run.output().unwrap();
        let (code, last) = said(&output);
        assert_eq!(code, Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(last.contains(why) && output.stdout.is_empty(), "{last}");
        hosts.empty();
    }
    let mut list = hosts.on(1, env!("CARGO_BIN_EXE_plimsoll"));
    let listed = list.args(["export", "last", "--format", "json"]).output().unwrap();
    assert!(!listed.status.success() && hosts.unconfirmed(2).is_empty(), "something was measured");
}
