//! Reference tools beside a case: what a tool does wrong changes nothing but its own column.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{ended, plimsoll, scratch};

/// A program of ours in place of likwid-bench.
fn tool(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("tool");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// A run of one short case with this tool beside it; the document.
fn beside(script: &str) -> Value {
    beside_samples(script, 5)
}

/// As [`beside`], with that many samples.
fn beside_samples(script: &str, samples: usize) -> Value {
    let dir = scratch();
    let path = tool(dir.path(), script);
    let isa = if std::arch::is_x86_feature_detected!("avx512f") { "avx512" } else { "avx2" };
    let case = ["cpu", "--op", "fma", "--type", "f64", "--isa", isa, "--threads", "1"];
    let count = samples.to_string();
    let more = ["--samples", &count, "--sample-time", "10ms", "--json", "-", "--store", "none"];
    let path = format!("likwid-bench={}", path.display());
    let tools = ["--against", "likwid-bench", "--peer-path", &path];
    let (out, _) = ended(plimsoll(dir.path()).args(case).args(more).args(tools), 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(run["measurements"][0]["status"], "ok");
    assert_eq!(run["measurements"][0]["metrics"][0]["samples"].as_array().unwrap().len(), samples);
    run["measurements"][0]["metrics"][0]["peers"][0].clone()
}

#[test]
fn a_tool_gives_five_pairs_a_ratio_and_a_verdict() {
    let peer = beside("[ \"$1\" = -v ] && echo 'likwid-bench -- Version 9.9' && exit; echo 'MFlops/s: 1.0'");
    assert_eq!((&peer["status"], &peer["version"]), (&"ok".into(), &"9.9".into()), "{peer}");
    assert_eq!(peer["samples"], serde_json::json!([1e6, 1e6, 1e6, 1e6, 1e6]));
    assert_eq!(peer["verdict"], "higher");
    assert!(peer["ratio"]["median"].as_f64().unwrap() > 1.0);
    let command: Vec<&str> = peer["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(command.contains(&"-t") && command[0] == "taskset", "{command:?}");
}

#[test]
fn a_number_of_samples_is_exact_with_a_tool_beside_it() {
    let peer = beside_samples("echo 'MFlops/s: 1.0'", 2);
    assert_eq!(peer["samples"], serde_json::json!([1e6, 1e6]));
    assert_eq!(peer["verdict"], "undecided", "two pairs decide nothing");
}

#[test]
fn a_tool_that_fails_is_told_and_changes_nothing_else() {
    for (script, why) in [
        ("exit 3", "ended with code 3"),
        ("echo 'cannot open shared object' >&2; exit 127", "cannot open shared object"),
        ("kill -SEGV $$", "signal 11"),
        ("echo garbage", "no 'MFlops/s:'"),
        ("echo 'MFlops/s: NaN'", "no figure"),
        ("printf 'MFlops/s: \\033[31mred'", "no number"),
        ("yes | head -c 40000000", "wrote more than"),
    ] {
        let peer = beside(script);
        assert_eq!(peer["status"], "unavailable", "{script}: {peer}");
        let reason = peer["reason"].as_str().unwrap();
        assert!(reason.contains(why) && !reason.contains('\u{1b}'), "{script}: {reason}");
    }
}

#[test]
fn a_tool_that_is_not_there_is_told_with_how_to_get_it() {
    let dir = scratch();
    let flags = ["memory", "--op", "copy", "--size", "64K", "--threads", "1", "--samples", "1"];
    let more = ["--against", "mbw,stream", "--json", "-", "--store", "none"];
    let (out, _) = ended(plimsoll(dir.path()).env("PATH", "").args(flags).args(more), 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    let peers = run["measurements"][0]["metrics"][0]["peers"].as_array().unwrap().clone();
    let stream = peers.iter().find(|p| p["peer"] == "stream").unwrap();
    assert!(stream["reason"].as_str().unwrap().contains("--peer-path"), "{stream}");
}

#[test]
fn an_unknown_tool_is_refused_with_the_nearest() {
    let dir = scratch();
    let (out, err) = ended(plimsoll(dir.path()).args(["cpu", "--against", "likwid"]), 2);
    assert!(out.is_empty() && err.contains("likwid-bench"), "{err}");
    let (_, err) = ended(plimsoll(dir.path()).args(["cpu", "--peer-path", "nope=/bin/true"]), 2);
    assert!(err.contains("--peer-path: no tool 'nope'"), "{err}");
}

#[test]
fn a_tool_that_hangs_is_ended_with_all_that_it_started_when_the_run_is() {
    let dir = scratch();
    let mark = dir.path().join("pids");
    let script = format!(
        "[ \"$1\" = -v ] && exit; sleep 1000 & echo \"$$ $!\" > {}.new; mv {0}.new {0}; wait",
        mark.display()
    );
    let path = tool(dir.path(), &script);
    let path = format!("likwid-bench={}", path.display());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["cpu", "--op", "fma", "--type", "f64", "--threads", "1", "--sample-time", "10ms"]);
    command.args(["--against", "likwid-bench", "--store", "none", "--peer-path", &path]);
    command.current_dir(dir.path()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut run = command.spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while !mark.exists() {
        assert!(Instant::now() < patience && run.try_wait().unwrap().is_none(), "the tool was not started");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let pids = fs::read_to_string(&mark).unwrap();
    for pid in pids.split_whitespace() {
        let alive = fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(!alive, "process {pid} is left");
    }
}

#[test]
fn tools_are_listed() {
    let dir = scratch();
    let (out, _) = ended(plimsoll(dir.path()).arg("peers"), 0);
    for name in ["likwid-bench", "stream", "fio", "iperf3", "ping"] {
        assert!(out.contains(name), "{out}");
    }
    let (out, _) = ended(plimsoll(dir.path()).env("PATH", "").args(["peers", "--install"]), 0);
    assert!(out.starts_with("apt-get install --yes ") && out.contains(" fio"), "{out}");
}
