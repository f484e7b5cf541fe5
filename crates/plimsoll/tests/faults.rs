//! Real faults: signals, killed workers, closed pipes. Finished results are kept, nothing is left.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{ended, heeded, interrupt, measured, plimsoll, scratch, skipped, until};

/// Two cases of many short samples: a quick one, and one that lasts long enough to be disturbed.
const PLAN: &str = r#"
name = "long"
samples = 40
sample-time = "25ms"
[[group]]
benchmark = "cpu.peak"
isa = "portable"
type = ["f64", "f32"]
threads = 1
"#;

struct Running {
    child: Child,
    events: BufReader<ChildStdout>,
}

impl Running {
    fn start(dir: &Path) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_plimsoll")), dir)
    }

    /// As [`Self::start`], by a command that ends in the program.
    fn start_by(mut command: Command, dir: &Path) -> Self {
        fs::write(dir.join("long.toml"), PLAN).unwrap();
        let mut child = command
            .args(["run", "long.toml", "--events", "-", "--json", "run.json", "--store", "none"])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        Self { child, events }
    }

    fn until(&mut self, is: impl Fn(&Value) -> bool) {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.events.read_line(&mut line).unwrap() > 0, "the run ended before the event came");
            if is(&serde_json::from_str(&line).unwrap()) {
                return;
            }
        }
    }

    /// Reads events until the second case is being sampled, the first one being finished then.
    fn until_the_second_case(&mut self) {
        self.until(|e| e["event"] == "measured");
        self.until(|e| e["event"] == "sampled");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn workers(&self) -> Vec<Pid> {
        let own = self.child.id().to_string();
        let is_child = |pid: &Pid| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(own.as_str())
        };
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok())
            .filter_map(Pid::from_raw)
            .filter(is_child)
            .collect()
    }

    fn end(mut self, dir: &Path) -> (Option<i32>, String, Value) {
        let mut rest = String::new();
        self.events.read_to_string(&mut rest).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let document = fs::read(dir.join("run.json")).ok();
        let document = document.map_or(Value::Null, |d| serde_json::from_slice(&d).unwrap());
        (output.status.code(), err, document)
    }
}

/// The contract's time from a signal to the end.
const LONGEST_END: Duration = Duration::from_secs(2);

/// Waits for the end of a process that is not a child of this one.
#[track_caller]
fn gone(pid: Pid) {
    until(&format!("the end of process {pid:?}"), || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        stat.is_empty() || stat.rsplit(')').next().is_some_and(|r| r.trim_start().starts_with('Z'))
    });
}

/// Interrupts a run in its second case, checks its files, and returns how long it took to end.
fn interrupted_by(signal: Signal) -> Duration {
    let dir = scratch();
    let mut run = Running::start(dir.path());
    run.until_the_second_case();
    let workers = run.workers();
    assert_eq!(workers.len(), 1);
    let begun = Instant::now();
    run.signal(signal);
    let (code, err, document) = run.end(dir.path());
    let took = begun.elapsed();
    assert_eq!(code, Some(130), "{err}");
    assert_eq!(document["status"], "partial");
    assert_eq!(document["measurements"].as_array().unwrap().len(), 1);
    measured(&document["measurements"][0]);
    gone(workers[0]);
    took
}

#[test]
fn an_interrupt_keeps_what_is_finished_and_ends_with_130_in_two_seconds() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP].into_iter().filter(|signal| heeded(*signal)) {
        // On a busy machine one of several is quick enough.
        let took: Vec<Duration> =
            (0..4).map(|_| interrupted_by(signal)).take_while(|took| *took >= LONGEST_END).collect();
        assert!(took.len() < 4, "{signal:?}: {took:?}");
    }
}

/// As timeout(1) does: to the program, and to its process group.
#[test]
fn a_signal_that_comes_several_times_at_once_is_one_request() {
    let dir = scratch();
    let mut run = Running::start(dir.path());
    run.until_the_second_case();
    // Repeated, as the kernel merges pending signals, for less than half a second.
    let (signal, begun) = (interrupt(), Instant::now());
    while begun.elapsed() < Duration::from_millis(250) {
        run.signal(signal);
        std::thread::sleep(Duration::from_millis(1));
    }
    let (code, err, document) = run.end(dir.path());
    assert_eq!((code, &document["status"]), (Some(130), &"partial".into()), "{err}");
    assert_eq!(document["measurements"].as_array().unwrap().len(), 1);
}

/// Starts the program by a shell that ignores signals, as nohup does.
fn ignoring(signals: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    let script = format!("trap '' {signals}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_plimsoll")]);
    command
}

/// The signals that a process ignores, as a mask with bit 0 for signal 1.
fn ignored_by(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

#[test]
fn signals_that_are_ignored_at_the_start_stay_ignored() {
    let dir = scratch();
    let mut run = Running::start_by(ignoring("HUP INT QUIT"), dir.path());
    run.until(|e| e["event"] == "sampled");
    let ignored = [Signal::HUP, Signal::INT, Signal::QUIT];
    for process in run.workers().into_iter().chain([Pid::from_child(&run.child)]) {
        let mask = ignored_by(process);
        assert!(ignored.iter().all(|signal| mask >> (signal.as_raw() - 1) & 1 == 1), "{mask:x}");
    }
    ignored.into_iter().for_each(|signal| run.signal(signal));
    let (code, err, document) = run.end(dir.path());
    assert_eq!((code, &document["status"]), (Some(0), &"complete".into()), "{err}");
}

#[test]
fn a_background_job_of_a_script_is_still_ended_by_term() {
    let dir = scratch();
    let mut run = Running::start_by(ignoring("HUP INT QUIT"), dir.path());
    run.until_the_second_case();
    run.signal(Signal::HUP);
    run.signal(Signal::TERM);
    let (code, err, document) = run.end(dir.path());
    assert_eq!((code, &document["status"]), (Some(130), &"partial".into()), "{err}");
}

#[test]
fn children_are_collected_also_where_their_end_is_ignored() {
    let dir = scratch();
    let mut run = Running::start_by(ignoring("CHLD"), dir.path());
    run.until(|e| e["event"] == "sampled");
    kill_process(run.workers()[0], Signal::KILL).unwrap();
    let (_, err, document) = run.end(dir.path());
    let reason = document["measurements"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("worker killed (signal 9"), "{reason} {err}");
}

/// The program under a name of its own, which can be replaced.
fn own_copy(dir: &Path) -> PathBuf {
    let (program, copy) = (env!("CARGO_BIN_EXE_plimsoll"), dir.join("plimsoll"));
    fs::hard_link(program, &copy).or_else(|_| fs::copy(program, &copy).map(drop)).unwrap();
    copy
}

#[test]
fn a_program_that_is_replaced_or_deleted_in_the_course_of_a_run_ends_it_well() {
    for replaced in [true, false] {
        let dir = scratch();
        let copy = own_copy(dir.path());
        let mut run = Running::start_by(Command::new(&copy), dir.path());
        run.until(|e| e["event"] == "sampled");
        if replaced {
            let other = dir.path().join("other");
            fs::write(&other, "#!/bin/sh\ntouch executed\n").unwrap();
            fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
            fs::rename(&other, &copy).unwrap();
        } else {
            fs::remove_file(&copy).unwrap();
        }
        let (code, err, document) = run.end(dir.path());
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(document["measurements"].as_array().unwrap().len(), 2, "{document}");
        assert!(!dir.path().join("executed").exists(), "the new program was executed");
    }
}

#[test]
fn a_step_of_the_wall_clock_changes_no_duration_and_is_told() {
    let library = fs::read_dir("/usr/lib").unwrap().filter_map(|entry| {
        Some(entry.ok()?.path().join("faketime/libfaketime.so.1")).filter(|file| file.is_file())
    });
    let Some(library) = library.into_iter().next() else {
        return skipped("a step of the wall clock", "faketime is not installed");
    };
    let dir = scratch();
    let set = |to: &str| {
        // Read while it is written otherwise.
        fs::write(dir.path().join("new"), to).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("time")).unwrap();
    };
    set("+0");
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", dir.path().join("time"));
    command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1");
    let mut run = Running::start_by(command, dir.path());
    run.until_the_second_case();
    set("-3596");
    let (code, err, document) = run.end(dir.path());
    assert_eq!(code, Some(0), "{err}");
    let elapsed = document["elapsed_s"].as_f64().unwrap();
    assert!((0.0..3000.0).contains(&elapsed), "{elapsed}");
    let step = &document["clock_steps"][0];
    assert!((step["by_s"].as_f64().unwrap() + 3596.0).abs() < 60.0, "{step}");
    let findings = document["findings"].as_array().unwrap();
    assert!(findings.iter().any(|f| f["code"] == "clock-stepped"), "{findings:?}");
}

#[test]
fn a_system_without_random_bytes_is_told_in_a_line() {
    if Command::new("strace").arg("-V").output().is_err() {
        return skipped("a system without random bytes", "strace is not installed");
    }
    let dir = scratch();
    let run = |error: &str, words: &[&str]| {
        let inject = format!("inject=getrandom:error={error}");
        let mut traced = Command::new("strace");
        traced.args(["-f", "-o", "/dev/null", "-e", &inject, env!("CARGO_BIN_EXE_plimsoll")]).args(words);
        let output = traced.current_dir(dir.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let quick = ["run", "--only", "null", "--samples", "1", "--sample-time", "1ms", "--store", "none"];
    for words in [&quick[..], &["key", "new"]] {
        let (code, err) = run("EAGAIN", words);
        assert_eq!((code, err.lines().count()), (Some(4), 1), "{err}");
        insta::assert_snapshot!(format!("no_random_bytes_for_{}", words[0]), err);
        // A system that lacks the call has a device.
        assert_eq!(run("ENOSYS", words).0, Some(0));
    }
}

#[test]
fn more_threads_than_the_cpus_can_serve_are_refused_with_a_number_that_they_can() {
    let dir = scratch();
    let words = ["cpu", "--threads", "60000", "--op", "fma", "--type", "f64", "--isa", "portable", "--list"];
    let (out, _) = ended(plimsoll(dir.path()).args(words), 0);
    // A machine with enough CPUs may have them.
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert!(cpus >= 235 || out.contains("--threads must be at most "), "{out}");
}

#[test]
fn directories_and_outputs_need_not_be_utf_8() {
    let parent = scratch();
    let dir = parent.path().join(OsStr::from_bytes(b"n\xff \"x"));
    fs::create_dir(&dir).unwrap();
    let run = |disk: &OsStr, here: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["run", "--only", "disk,null,network.latency", "--samples", "1", "--sample-time", "5ms"])
            .args(["--scale", "0.01", "--dir"])
            .arg(disk)
            .args([OsStr::new("--json"), OsStr::from_bytes(b"run\xfe.json")])
            .args([OsStr::new("--store"), OsStr::from_bytes(b"store\xfe.db")])
            .current_dir(here)
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let text = fs::read(here.join(OsStr::from_bytes(b"run\xfe.json"))).expect(&err);
        let document: Value = serde_json::from_slice(&text).unwrap();
        let measurements = document["measurements"].as_array().unwrap();
        assert!(measurements.iter().any(|m| m["case"]["benchmark"] == "disk.io"), "{err}");
        for measurement in measurements {
            // Validity of a figure and free space depend on this machine.
            assert_ne!(measurement["status"], "failed", "{measurement}");
        }
        assert!(here.join(OsStr::from_bytes(b"store\xfe.db")).is_dir(), "{err}");
    };
    run(OsStr::new("."), &dir);
    run(dir.as_os_str(), parent.path());
}

#[test]
fn a_killed_worker_costs_its_own_case() {
    let dir = scratch();
    let mut run = Running::start(dir.path());
    run.until(|e| e["event"] == "sampled");
    kill_process(run.workers()[0], Signal::KILL).unwrap();
    let (code, err, document) = run.end(dir.path());
    assert_eq!(code, Some(4), "{err}");
    let measurements = document["measurements"].as_array().unwrap();
    assert_eq!(document["status"], "complete");
    assert_eq!(measurements[0]["status"], "failed");
    let reason = measurements[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("worker killed (signal 9"), "{reason}");
    assert_eq!(measurements[0]["metrics"], serde_json::json!([]));
    measured(&measurements[1]);
}

#[test]
fn a_killed_parent_takes_its_worker_along() {
    let dir = scratch();
    let mut run = Running::start(dir.path());
    run.until(|e| e["event"] == "sampled");
    let workers = run.workers();
    run.signal(Signal::KILL);
    let (code, _, document) = run.end(dir.path());
    assert_eq!((code, document), (None, Value::Null));
    gone(workers[0]);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["long.toml"]);
}

#[test]
fn a_reader_that_goes_away_is_a_quiet_end_and_the_document_is_whole() {
    let dir = scratch();
    fs::write(dir.path().join("long.toml"), PLAN.replace("40", "2")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "long.toml", "--json", "run.json", "--store", "none"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("panicked").count(), 0);
    let document: Value = serde_json::from_slice(&fs::read(dir.path().join("run.json")).unwrap()).unwrap();
    assert_eq!(document["measurements"].as_array().unwrap().len(), 2);
}
