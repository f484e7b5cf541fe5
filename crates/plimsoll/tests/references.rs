//! Reference tools beside a case: what a tool does wrong changes nothing but its own column.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::network::Serving;
use crate::support::{
    ended, interrupt, measured, place_for_programs, plimsoll, reason, scratch, skipped, until,
    without_numbers,
};

/// A script as likwid-bench.
fn tool(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("tool");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Script that prints a million operations per second and takes the time for it.
const ONE_MFLOPS: &str =
    "sleep 0.02; echo 'Time: 0.02 sec'; echo 'Number of Flops: 20000'; echo 'MFlops/s: 1.0'";

/// The document of a short case with this tool.
fn beside(script: &str) -> Value {
    beside_samples(script, 5)
}

fn beside_samples(script: &str, samples: usize) -> Value {
    let dir = place_for_programs();
    let path = tool(dir.path(), script);
    let isa = if std::arch::is_x86_feature_detected!("avx512f") { "avx512" } else { "avx2" };
    let case = ["cpu", "--op", "fma", "--type", "f64", "--isa", isa, "--threads", "1"];
    let count = samples.to_string();
    let more = ["--samples", &count, "--sample-time", "10ms", "--json", "-", "--store", "none"];
    let path = format!("likwid-bench={}", path.display());
    let tools = ["--against", "likwid-bench", "--peer-path", &path];
    let (out, _) = ended(plimsoll(dir.path()).args(case).args(more).args(tools), 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    measured(&run["measurements"][0]);
    assert_eq!(run["measurements"][0]["metrics"][0]["samples"].as_array().unwrap().len(), samples);
    run["measurements"][0]["metrics"][0]["references"][0].clone()
}

#[test]
fn a_tool_gives_five_pairs_a_ratio_and_a_verdict() {
    let version = "[ \"$1\" = -v ] && echo 'likwid-bench -- Version 9.9' && exit";
    let peer = beside(&format!("{version}; {ONE_MFLOPS}"));
    assert_eq!((&peer["status"], &peer["version"]), (&"ok".into(), &"9.9".into()), "{peer}");
    assert_eq!(peer["samples"], serde_json::json!([1e6, 1e6, 1e6, 1e6, 1e6]));
    assert_eq!(peer["verdict"], "higher");
    assert!(peer["ratio"]["median"].as_f64().unwrap() > 1.0);
    let command: Vec<&str> = peer["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(command.contains(&"-t") && command[0] == "taskset", "{command:?}");
    assert_eq!(peer["achieved"]["sha256"].as_str().map(str::len), Some(64), "{peer}");
}

#[test]
fn a_number_of_samples_is_exact_with_a_tool_beside_it() {
    let peer = beside_samples(ONE_MFLOPS, 2);
    assert_eq!(peer["samples"], serde_json::json!([1e6, 1e6]));
    assert_eq!(peer["verdict"], "inconclusive", "two pairs decide nothing");
}

#[test]
fn a_tool_that_fails_is_told_and_changes_nothing_else() {
    for (script, why) in [
        ("exit 3", "ended with code 3"),
        ("echo 'cannot open shared object' >&2; exit 127", "cannot open shared object"),
        ("kill -SEGV $$", "signal 11"),
        // A figure that is followed by a failure is none.
        ("echo 'MFlops/s: 5.0'; echo 'no such domain' >&2; exit 1", "ended with code 1: no such domain"),
        ("echo 'MFlops/s: 5.0'; kill -KILL $$", "signal 9"),
        ("echo garbage", "no 'MFlops/s:'"),
        ("echo 'Time: 1 sec'; echo 'Number of Flops: 1'; echo 'MFlops/s: NaN'", "not a figure"),
        // Ten times what it did in its own time, a tenth of it, and a time that it never had.
        (
            "sleep 0.2; echo 'Time: 0.200 sec'; echo 'Number of Flops: 200000'; echo 'MFlops/s: 10.0'",
            "its figure of 10.0 MFLOP/s contradicts its own run time: it made at most 200",
        ),
        (
            "sleep 0.2; echo 'Time: 0.200 sec'; echo 'Number of Flops: 200000'; echo 'MFlops/s: 0.1'",
            "its figure of 100 kFLOP/s contradicts its own run time: it made at least 200",
        ),
        (
            "echo 'Time: 60.0 sec'; echo 'Number of Flops: 60000000'; echo 'MFlops/s: 1.0'",
            "its own time contradicts its run time: it says 60.0 s and ended after",
        ),
        ("printf 'MFlops/s: \\033[31mred\\n'", "no number"),
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
    let dir = place_for_programs();
    let flags = ["memory", "--op", "copy", "--size", "64K", "--threads", "1", "--samples", "1"];
    let more = ["--against", "mbw,stream", "--json", "-", "--store", "none"];
    let (out, _) = ended(plimsoll(dir.path()).env("PATH", "").args(flags).args(more), 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    let peers = run["measurements"][0]["metrics"][0]["references"].as_array().unwrap().clone();
    let stream = peers.iter().find(|p| p["name"] == "stream").unwrap();
    insta::assert_snapshot!(reason(stream));
}

#[test]
fn a_tool_that_hangs_is_ended_with_all_that_it_started_when_the_run_is() {
    let dir = place_for_programs();
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
    until("the start of the tool", || {
        assert!(run.try_wait().unwrap().is_none(), "the run ended without the tool");
        mark.exists()
    });
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, interrupt()).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let pids = fs::read_to_string(&mark).unwrap();
    pids.split_whitespace().for_each(gone);
}

#[test]
fn tools_are_listed() {
    let dir = place_for_programs();
    let (out, _) = ended(plimsoll(dir.path()).arg("references"), 0);
    assert_eq!(ended(plimsoll(dir.path()).arg("peers"), 0).0, out, "its earlier name");
    for name in ["likwid-bench", "stream", "fio", "iperf3", "ping"] {
        assert!(out.contains(name), "{out}");
    }
    let (out, _) = ended(plimsoll(dir.path()).env("PATH", "").args(["peers", "--install"]), 0);
    let packages = out.strip_prefix("apt-get install --yes ").unwrap();
    assert!(packages.split_whitespace().any(|package| package == "fio"), "{out}");
}

/// A short CPU case with this tool and directories below `dir`.
fn hanging(dir: &Path, path: &Path) -> std::process::Command {
    let path = format!("likwid-bench={}", path.display());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["cpu", "--op", "fma", "--type", "f64", "--threads", "1", "--sample-time", "10ms"]);
    command.args(["--samples", "1", "--against", "likwid-bench", "--store", "none", "--peer-path", &path]);
    command.current_dir(dir).env("TMPDIR", dir).env("XDG_STATE_HOME", dir.join("state"));
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("plimsoll-peer-")).collect()
}

/// A killed process that is no child of this one ends a moment later.
#[track_caller]
fn gone(pid: &str) {
    let alive = || {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
    };
    until(&format!("the end of process {pid}"), || !alive());
}

#[test]
fn what_a_killed_run_left_goes_away_when_the_next_one_starts() {
    let dir = place_for_programs();
    let mark = dir.path().join("pid");
    let script = format!(
        "[ \"$1\" = -v ] && exit; echo left > HPL.out; echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000",
        mark.display()
    );
    let path = tool(dir.path(), &script);
    let mut run = hanging(dir.path(), &path).spawn().unwrap();
    until("the start of the tool", || {
        assert!(run.try_wait().unwrap().is_none(), "the run ended without the tool");
        mark.exists()
    });
    run.kill().unwrap();
    run.wait().unwrap();
    let left = directories(dir.path());
    assert!(left.iter().any(|path| path.join("HPL.out").exists()), "{left:?}");
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert!(left.iter().all(|path| mode(path) == 0o700), "{left:?}");
    // The tool ends with the run that started it.
    gone(fs::read_to_string(&mark).unwrap().trim());
    let path = tool(dir.path(), ONE_MFLOPS);
    assert!(hanging(dir.path(), &path).status().unwrap().success());
    assert_eq!(directories(dir.path()), Vec::<PathBuf>::new());
}

/// Entries of the registry below `dir`; one that is empty was never written, and goes in an hour.
fn entries(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir.join("state/plimsoll/scratch")) else { return 0 };
    entries.filter(|entry| entry.as_ref().unwrap().metadata().unwrap().len() > 0).count()
}

/// The next start uses another directory of temporary files, working directory and command.
#[test]
fn what_a_killed_run_left_goes_away_wherever_the_next_one_starts() {
    let (dir, elsewhere, programs) = (scratch(), scratch(), place_for_programs());
    let mark = dir.path().join("pid");
    let script = format!(
        "[ \"$1\" = -v ] && exit; mkdir -p a/b; head -c 100000 /dev/zero >a/b/data; ln -s {1} a/link; \
         echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000",
        mark.display(),
        elsewhere.path().display()
    );
    let path = tool(programs.path(), &script);
    let mut run = hanging(dir.path(), &path).spawn().unwrap();
    until("the start of the tool", || {
        assert!(run.try_wait().unwrap().is_none(), "the run ended without the tool");
        mark.exists()
    });
    let start = |arguments: &[&str]| {
        let mut other = plimsoll(elsewhere.path());
        other.env("TMPDIR", elsewhere.path()).env("XDG_STATE_HOME", dir.path().join("state"));
        ended(other.args(arguments), 0).0
    };
    // While it lives nothing is taken from it.
    start(&["peers"]);
    assert!(directories(dir.path()).iter().any(|path| path.join("a/b/data").exists()));
    run.kill().unwrap();
    run.wait().unwrap();
    gone(fs::read_to_string(&mark).unwrap().trim());
    let left = directories(dir.path());
    assert!(!left.is_empty());
    let reported = start(&["doctor", "--rounds", "0"]).split_whitespace().collect::<String>();
    for path in &left {
        assert!(reported.contains(path.to_str().unwrap()), "{reported}");
    }
    assert_eq!((directories(dir.path()), entries(dir.path())), (Vec::new(), 0));
    let found = start(&["doctor", "--rounds", "0"]);
    assert!(
        found
            .lines()
            .any(|line| line.split_whitespace().eq(["ok", "left", "by", "killed", "runs", "nothing"])),
        "{found}"
    );
}

/// Killed at many moments while the directories of its tools are entered, made, locked and removed.
#[test]
fn killed_at_any_moment_no_directory_of_a_tool_stays_after_the_next_start() {
    if std::process::Command::new("strace").arg("-V").output().is_err() {
        skipped("killed while directories of tools are made", "strace is not installed");
        return;
    }
    let (dir, elsewhere, programs) = (scratch(), scratch(), place_for_programs());
    let path = tool(programs.path(), &format!("[ \"$1\" = -v ] && exit; echo left > HPL.out; {ONE_MFLOPS}"));
    let moments =
        [("mkdir", 1..=3), ("flock", 1..=4), ("rmdir", 1..=1), ("unlinkat", 1..=3), ("unlink", 1..=2)];
    let mut kills = 0;
    for (call, nth) in moments.into_iter().flat_map(|(call, times)| times.map(move |nth| (call, nth))) {
        let run = hanging(dir.path(), &path);
        let mut traced = std::process::Command::new("strace");
        traced.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        traced.args(["-e", &format!("inject={call}:signal=KILL:when={nth}")]).arg(run.get_program());
        traced.args(run.get_args()).current_dir(dir.path());
        traced.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let traced = traced.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        kills += usize::from(!traced.status().unwrap().success());
        let mut next = plimsoll(elsewhere.path());
        next.env("TMPDIR", elsewhere.path()).env("XDG_STATE_HOME", dir.path().join("state"));
        ended(next.arg("peers"), 0);
        let left = (directories(dir.path()), directories(elsewhere.path()), entries(dir.path()));
        assert_eq!(left, (Vec::new(), Vec::new(), 0), "{call} {nth}");
    }
    assert!(kills >= 5, "only {kills} of them hit");
}

#[test]
fn a_tool_has_a_clean_environment_a_directory_of_its_own_and_a_group_of_its_own() {
    let dir = place_for_programs();
    let reported = dir.path().join("told");
    let script = format!(
        "[ \"$1\" = -v ] && exit; {{ env; echo at=$(pwd); echo group=$(cut -d' ' -f5 /proc/$$/stat); echo pid=$$; }} > {}; {ONE_MFLOPS}",
        reported.display()
    );
    let path = tool(dir.path(), &script);
    let mut run = hanging(dir.path(), &path);
    run.env("LD_PRELOAD", "").env("LC_ALL", "de_DE.UTF-8").env("SECRET", "x").env("GCONV_PATH", "/tmp");
    assert!(run.status().unwrap().success());
    let text = fs::read_to_string(&reported).unwrap();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    for name in ["SECRET", "LD_PRELOAD", "GCONV_PATH", "TMPDIR"] {
        assert_eq!(value(name), None, "{text}");
    }
    assert_eq!((value("LC_ALL"), value("PATH")), (Some("C"), Some("/usr/bin:/bin")));
    let place = Path::new(value("at").unwrap());
    assert!(place.file_name().unwrap().to_str().unwrap().starts_with("plimsoll-peer-"), "{text}");
    assert_eq!(value("HOME"), value("at"));
    let own = rustix::process::getpgrp().as_raw_nonzero().to_string();
    assert!(value("group").is_some_and(|group| group != own), "{text}");
}

#[test]
fn a_tool_that_does_not_end_is_ended_with_its_children_and_told() {
    let dir = place_for_programs();
    let mark = dir.path().join("pids");
    // It ignores the request to end, and so does what it started.
    let script = format!(
        "[ \"$1\" = -v ] && exit; trap '' TERM; sleep 1000 & echo \"$$ $!\" >> {}; wait; wait",
        mark.display()
    );
    let path = tool(dir.path(), &script);
    let mut run = hanging(dir.path(), &path);
    run.args(["--repeat", "2", "--json", "-"]).stdout(std::process::Stdio::piped());
    let output = run.output().unwrap();
    assert!(output.status.success());
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = |index: usize| {
        let measurement = &run["measurements"][index];
        measured(measurement);
        measurement["metrics"][0]["references"][0]["reason"].as_str().unwrap().to_owned()
    };
    let case = run["measurements"][0]["case"]["id"].as_str().unwrap();
    insta::assert_snapshot!(without_numbers(
        &[reason(0), reason(1)].join("\n").replace(case, "CASE").replace(&path.display().to_string(), "TOOL")
    ));
    let started = fs::read_to_string(&mark).unwrap();
    assert_eq!(started.lines().count(), 1, "it was started again: {started}");
    started.split_whitespace().for_each(gone);
    assert_eq!(directories(dir.path()), Vec::<PathBuf>::new());
}

/// Shell words that start an orphan outside of the tool's group and session; its id is in `pids`.
fn gives_away(dir: &Path, pids: &Path) -> String {
    let path = dir.join("given-away");
    fs::write(&path, format!("#!/bin/sh\necho $$ >> {}\nexec sleep 1000\n", pids.display())).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let (path, pids) = (path.display(), pids.display());
    format!("(setsid {path} </dev/null >/dev/null 2>&1 &); while [ ! -s {pids} ]; do sleep 0.01; done")
}

#[test]
fn what_left_the_session_of_a_tool_ends_with_it() {
    for (more, why) in [("", None), ("trap '' TERM; sleep 1000", Some("was ended after"))] {
        let dir = place_for_programs();
        let pids = dir.path().join("pids");
        let body = if more.is_empty() { ONE_MFLOPS } else { more };
        let script = format!("[ \"$1\" = -v ] && exit; {}; {body}", gives_away(dir.path(), &pids));
        let path = tool(dir.path(), &script);
        let mut run = hanging(dir.path(), &path);
        run.args(["--json", "-"]).stdout(std::process::Stdio::piped());
        let output = run.output().unwrap();
        assert!(output.status.success());
        let run: Value = serde_json::from_slice(&output.stdout).unwrap();
        let peer = &run["measurements"][0]["metrics"][0]["references"][0];
        let reason = peer["reason"].as_str();
        assert_eq!(reason.is_some(), why.is_some(), "{peer}");
        assert!(reason.unwrap_or_default().contains(why.unwrap_or_default()), "{peer}");
        let started = fs::read_to_string(&pids).unwrap();
        assert!(!started.trim().is_empty());
        started.split_whitespace().for_each(gone);
    }
}

#[test]
fn what_left_the_session_of_a_tool_ends_with_a_run_that_is_killed() {
    for signal in [rustix::process::Signal::KILL, interrupt()] {
        let dir = place_for_programs();
        let (pids, mark) = (dir.path().join("pids"), dir.path().join("mark"));
        let script = format!(
            "[ \"$1\" = -v ] && exit; {}; echo $$ >> {}; : > {}; exec setsid sleep 1000",
            gives_away(dir.path(), &pids),
            pids.display(),
            mark.display()
        );
        let path = tool(dir.path(), &script);
        let mut run = hanging(dir.path(), &path).spawn().unwrap();
        until("the start of the tool", || {
            assert!(run.try_wait().unwrap().is_none(), "the run ended without the tool");
            mark.exists()
        });
        rustix::process::kill_process(rustix::process::Pid::from_child(&run), signal).unwrap();
        run.wait().unwrap();
        let started = fs::read_to_string(&pids).unwrap();
        assert_eq!(started.lines().count(), 2, "{started}");
        started.split_whitespace().for_each(gone);
    }
}

#[test]
fn the_server_of_a_tool_is_ended_with_it() {
    let dir = place_for_programs();
    let mark = dir.path().join("server");
    let script = format!(
        "case \"$1\" in -s) echo $$ > {}; exec iperf3 \"$@\";; --version) exit;; esac; exec iperf3 \"$@\"",
        mark.display()
    );
    let path = format!("iperf3={}", tool(dir.path(), &script).display());
    let case = ["network", "--only", "network.tcp", "--samples", "1", "--sample-time", "20ms", "--json", "-"];
    let tools = ["--against", "iperf3", "--peer-path", &path, "--store", "none"];
    let (out, _) = ended(plimsoll(dir.path()).args(case).args(tools), 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    let peer = &run["measurements"][0]["metrics"][0]["references"][0];
    if peer["status"] != "ok" {
        let why = peer["reason"].as_str().unwrap();
        assert_eq!(why, "ended with code 127");
        return skipped("peers: the server of a tool", "needs iperf3");
    }
    let server: Vec<&str> = peer["input"]["server"].as_str().unwrap().split(' ').collect();
    assert!(server.windows(2).any(|words| words == ["iperf3", "-s"]), "{peer}");
    gone(fs::read_to_string(&mark).unwrap().trim());
}

/// An interrupt does not wait for the attempts that a server would have.
#[test]
fn an_interrupt_ends_the_wait_for_a_server_that_never_listens() {
    let dir = place_for_programs();
    let mark = dir.path().join("servers");
    let script = format!("case \"$1\" in -s) echo $$ >> {}; exec sleep 1000;; esac; exit", mark.display());
    let path = format!("iperf3={}", tool(dir.path(), &script).display());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["network", "--only", "network.tcp", "--samples", "1", "--sample-time", "20ms"]);
    command.args(["--against", "iperf3", "--peer-path", &path, "--store", "none"]);
    command.current_dir(dir.path()).env("TMPDIR", dir.path());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut run = command.spawn().unwrap();
    let started = || fs::read_to_string(&mark).unwrap_or_default();
    until("the start of the server", || {
        assert!(run.try_wait().unwrap().is_none(), "the run ended without the tool");
        started().ends_with('\n')
    });
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, interrupt()).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(started().lines().count() < 3, "every attempt was made: {}", started());
    started().split_whitespace().for_each(gone);
    assert_eq!(directories(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_server_elsewhere_is_named_and_used() {
    let dir = place_for_programs();
    // It prints its arguments.
    let script = "case \"$1\" in --version) exit;; esac; printf '%s ' \"$@\" >&2; exit 7";
    let path = format!("iperf3={}", tool(dir.path(), script).display());
    let serving = Serving::here(&["--open"]);
    let beside = |far: &[&str], server: &str| {
        let case =
            ["network", "--only", "network.tcp", "--samples", "1", "--sample-time", "20ms", "--json", "-"];
        let tools = ["--against", "iperf3", "--peer-path", &path, "--store", "none", "--peer-server", server];
        let (out, _) = ended(plimsoll(dir.path()).args(case).args(tools).args(far), 0);
        let run: Value = serde_json::from_str(&out).unwrap();
        let peer = run["measurements"][0]["metrics"][0]["references"][0].clone();
        (peer["reason"].as_str().unwrap().to_owned(), peer)
    };
    let far = ["--server", &format!("127.0.0.1:{}", serving.port())];
    let (why, iperf3) = beside(&far, "iperf3=127.0.0.1:5299");
    let mut stated = vec![why];
    assert!(iperf3["input"].get("server").is_none(), "{iperf3}");
    // Both servers must be on the same host.
    stated.push(beside(&far, "iperf3=[2001:db8::7]:5299").0);
    stated.push(beside(&[], "iperf3=127.0.0.1:5299").0);
    insta::assert_snapshot!(stated.join("\n"));
}

#[test]
fn a_case_without_a_counterpart_says_why() {
    let (dir, place) = (scratch(), place_for_programs());
    let path = format!("fio={}", tool(place.path(), "exit 0").display());
    let case = [
        "disk",
        "--only",
        "disk.io",
        "--op",
        "copy",
        "--pattern",
        "sequential",
        "--block",
        "64K",
        "--depth",
        "1",
    ];
    let more = ["--size", "16M", "--samples", "1", "--sample-time", "20ms", "--json", "-", "--store", "none"];
    let (out, _) =
        ended(plimsoll(dir.path()).args(case).args(more).args(["--against", "fio", "--peer-path", &path]), 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    let peer = &run["measurements"][0]["metrics"][0]["references"][0];
    assert_eq!(
        (&peer["status"], &peer["reason"]),
        (&"unavailable".into(), &"it has no copy".into()),
        "{peer}"
    );
}

/// The copy of plimsoll in `place`, run by a user of no name.
fn as_user(place: &Path) -> std::process::Command {
    let mut command = std::process::Command::new("/usr/bin/setpriv");
    command.args(["--reuid", "65533", "--regid", "65533", "--clear-groups"]).arg(place.join("plimsoll"));
    command.current_dir("/").env("TMPDIR", "/tmp").env("HOME", "/");
    command
}

/// A directory with a copy of plimsoll for every user; `None` without the right to change users.
fn for_another_user() -> Option<tempfile::TempDir> {
    let place = place_for_programs();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_plimsoll"), place.path().join("plimsoll")).unwrap();
    let works = as_user(place.path()).arg("--version").output();
    works.is_ok_and(|output| output.status.success()).then_some(place)
}

/// The row of ioping in `plimsoll peers` with this PATH.
fn said_of_ioping(command: &mut std::process::Command, path: &Path) -> String {
    let output = command.arg("peers").env("PATH", path).env("COLUMNS", "400").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // A long path is wrapped.
    let (_, row) = text.split_once("\n  ioping ").unwrap();
    let (row, _) = row.split_once("\n  iperf3 ").unwrap();
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn made(path: PathBuf, mode: u32) -> PathBuf {
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_tool_that_others_could_have_put_there_is_not_run_by_anybody() {
    let dir = place_for_programs();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = made(dir.path().join("own"), 0o755);
    let real = own.join("ioping");
    fs::rename(tool(&own, "echo 'ioping 1.3'"), &real).unwrap();
    let open = made(dir.path().join("open"), 0o777);
    // A link to the owner's program; the owner's directory below an open one; a program behind a
    // link in an open directory; and one in a sticky directory.
    std::os::unix::fs::symlink(&real, open.join("ioping")).unwrap();
    let below = made(open.join("below"), 0o755);
    fs::copy(&real, below.join("ioping")).unwrap();
    let linked = made(dir.path().join("linked"), 0o755);
    std::os::unix::fs::symlink("../open/ioping", linked.join("ioping")).unwrap();
    let sticky = made(dir.path().join("sticky"), 0o1777);
    fs::copy(&real, sticky.join("ioping")).unwrap();
    let good = made(sticky.join("good"), 0o755);
    fs::copy(&real, good.join("ioping")).unwrap();
    let here = || std::process::Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    let other = for_another_user();
    if other.is_none() {
        skipped("peers: programs as another user", "needs root and setpriv");
    }
    for (path, danger) in [(&open, &open), (&below, &open), (&linked, &open), (&sticky, &sticky)] {
        let wanted = format!("other users may write {}", danger.canonicalize().unwrap().display());
        let stated = said_of_ioping(&mut here(), path);
        assert!(stated.contains(&wanted), "{}: {stated}", path.display());
        if let Some(place) = &other {
            let stated = said_of_ioping(&mut as_user(place.path()), path);
            assert!(stated.contains(&wanted) && !stated.contains("as root"), "{}: {stated}", path.display());
        }
    }
    let stated = said_of_ioping(&mut here(), &good);
    assert!(stated.contains("1.3") && stated.contains("good/ioping"), "{stated}");
    let Some(place) = &other else { return };
    assert!(said_of_ioping(&mut as_user(place.path()), &good).contains("good/ioping"));
    // That user may run its own program, root may not.
    let theirs = made(dir.path().join("theirs"), 0o755);
    fs::copy(&real, theirs.join("ioping")).unwrap();
    for path in [theirs.clone(), theirs.join("ioping")] {
        std::os::unix::fs::chown(path, Some(65_533), Some(65_533)).unwrap();
    }
    assert!(said_of_ioping(&mut as_user(place.path()), &theirs).contains("theirs/ioping"));
    let stated = said_of_ioping(&mut here(), &theirs);
    assert!(stated.contains("is not run as root") && stated.contains("belongs to another user"), "{stated}");
}
