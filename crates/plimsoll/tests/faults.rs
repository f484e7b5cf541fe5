//! Real faults: signals, killed workers, closed pipes. Finished results are kept, nothing is left.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::disk::calls::injected;
use crate::support::{
    PROGRAM, Running, coded, command, done, gone, has, heeded, interrupt, json_of, list, lossy, measured,
    reason, scratch, script, signal, skip, start, status, with_code,
};

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

/// Runs a plan by a command that ends in the program.
pub(crate) fn follow(mut command: Command, dir: &Path, plan: &str) -> Running {
    fs::write(dir.join("long.toml"), plan).unwrap();
    Running::start(command.args(["run", "long.toml"]), dir)
}

/// The contract's time from a signal to the end.
const LONGEST_END: Duration = Duration::from_secs(2);

/// Interrupts a run in its second case, checks its files, and returns how long it took to end.
fn interrupted_by(signal: Signal) -> Duration {
    let dir = scratch();
    let mut run = follow(Command::new(PROGRAM), dir.path(), PLAN);
    run.until_the_second_case();
    let workers = run.workers();
    assert_eq!(workers.len(), 1);
    let begun = Instant::now();
    run.signal(signal);
    let document = run.ended(130, "partial");
    let took = begun.elapsed();
    assert_eq!(list(&document["measurements"]).len(), 1);
    measured(&document["measurements"][0]);
    gone(workers[0]);
    took
}

#[test]
fn a_killed_worker_costs_nothing_that_was_measured_before() {
    let dir = scratch();
    let mut run = follow(Command::new(PROGRAM), dir.path(), PLAN);
    run.until_the_second_case();
    signal(run.workers()[0], Signal::KILL);
    let document = run.ended(4, "complete");
    measured(&document["measurements"][0]);
    assert_eq!(document["measurements"][1]["status"], "failed");
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
    let mut run = follow(Command::new(PROGRAM), dir.path(), PLAN);
    run.until_the_second_case();
    // Repeated, as the kernel merges pending signals, for less than half a second.
    let (signal, begun) = (interrupt(), Instant::now());
    while begun.elapsed() < Duration::from_millis(250) {
        run.signal(signal);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(list(&run.ended(130, "partial")["measurements"]).len(), 1);
}

/// Starts the program by a shell that ignores signals, as nohup does.
fn ignoring(signals: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    let script = format!("trap '' {signals}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, PROGRAM]);
    command
}

#[test]
fn signals_that_are_ignored_at_the_start_stay_ignored() {
    let dir = scratch();
    let mut run = follow(ignoring("HUP INT QUIT"), dir.path(), PLAN);
    run.until("sampled");
    let ignored = [Signal::HUP, Signal::INT, Signal::QUIT];
    for process in run.workers().into_iter().chain([run.pid()]) {
        let mask = u64::from_str_radix(&status(process, "SigIgn:"), 16).unwrap();
        assert!(ignored.iter().all(|signal| mask >> (signal.as_raw() - 1) & 1 == 1), "{mask:x}");
    }
    ignored.into_iter().for_each(|signal| run.signal(signal));
    run.ended(0, "complete");
}

#[test]
fn a_background_job_of_a_script_is_still_ended_by_term() {
    let dir = scratch();
    let mut run = follow(ignoring("HUP INT QUIT"), dir.path(), PLAN);
    run.until_the_second_case();
    run.signal(Signal::HUP);
    run.signal(Signal::TERM);
    run.ended(130, "partial");
}

#[test]
fn a_program_that_is_replaced_or_deleted_in_the_course_of_a_run_ends_it_well() {
    for replaced in [true, false] {
        let dir = scratch();
        let copy = dir.path().join("plimsoll");
        fs::hard_link(PROGRAM, &copy).or_else(|_| fs::copy(PROGRAM, &copy).map(drop)).unwrap();
        let mut run = follow(Command::new(&copy), dir.path(), PLAN);
        run.until("sampled");
        if replaced {
            fs::rename(script(dir.path(), "other", "touch executed"), &copy).unwrap();
        } else {
            fs::remove_file(&copy).unwrap();
        }
        let document = run.ended(0, "complete");
        assert_eq!(list(&document["measurements"]).len(), 2, "{document}");
        assert!(!dir.path().join("executed").exists(), "the new program was executed");
    }
}

#[test]
fn a_step_of_the_wall_clock_changes_no_duration_and_is_told() {
    let folders = fs::read_dir("/usr/lib").unwrap().flatten();
    let mut files = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    let Some(library) = files.find(|file| file.is_file()) else { return skip("faketime is not installed") };
    let dir = scratch();
    let set = |to: &str| {
        // Read while it is written otherwise.
        fs::write(dir.path().join("new"), to).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("time")).unwrap();
    };
    set("+0");
    let mut command = Command::new(PROGRAM);
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", dir.path().join("time"));
    command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1");
    let mut run = follow(command, dir.path(), PLAN);
    run.until_the_second_case();
    set("-3596");
    let document = run.ended(0, "complete");
    let elapsed = document["elapsed_s"].as_f64().unwrap();
    assert!((0.0..3000.0).contains(&elapsed), "{elapsed}");
    let step = &document["clock_steps"][0];
    assert!((step["by_s"].as_f64().unwrap() + 3596.0).abs() < 60.0, "{step}");
    assert!(coded(&document["findings"], "clock-stepped").is_some(), "{}", document["findings"]);
}

#[test]
fn a_system_without_random_bytes_is_told_in_a_line() {
    let Some(()) = has(&["strace"]) else { return };
    let run = |error: &str, line: &str| {
        let output = injected(scratch().path(), "getrandom", &[&format!("getrandom:error={error}")], line);
        (output.status.code(), lossy(&output.stderr))
    };
    for (line, snapshot) in [
        ("run --only null --samples 1 --sample-time 1ms --store none", "no_random_bytes_for_run"),
        ("key new", "no_random_bytes_for_key"),
    ] {
        let (code, err) = run("EAGAIN", line);
        assert_eq!((code, err.lines().count()), (Some(4), 1), "{err}");
        insta::assert_snapshot!(snapshot, err);
        // A system that lacks the call has a device.
        assert_eq!(run("ENOSYS", line).0, Some(0));
    }
}

#[test]
fn more_threads_than_the_cpus_can_serve_are_refused_with_a_number_that_they_can() {
    let line = "cpu --threads 60000 --op fma --type f64 --isa portable --list";
    let (out, _) = done(scratch().path(), line, 0);
    // A machine with enough CPUs may have them.
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert!(cpus >= 235 || out.contains("--threads must be at most "), "{out}");
}

#[test]
fn directories_and_outputs_need_not_be_utf_8() {
    let parent = scratch();
    let dir = parent.path().join(OsStr::from_bytes(b"n\xff \"x"));
    fs::create_dir(&dir).unwrap();
    let (file, store) = (OsStr::from_bytes(b"run\xfe.json"), OsStr::from_bytes(b"store\xfe.db"));
    let run = |disk: &OsStr, here: &Path| {
        let line = "run --only disk,null,network.latency --samples 1 --sample-time 5ms --scale 0.01";
        let mut run = command(line);
        run.arg("--dir").arg(disk).arg("--json").arg(file).arg("--store").arg(store);
        let output = run.current_dir(here).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let text = fs::read(here.join(file)).expect(&err);
        let document: Value = serde_json::from_slice(&text).unwrap();
        let measurements = list(&document["measurements"]);
        assert!(measurements.iter().any(|m| m["case"]["benchmark"] == "disk.io"), "{err}");
        for measurement in measurements {
            // Validity of a figure and free space depend on this machine.
            assert_ne!(measurement["status"], "failed", "{measurement}");
        }
        assert!(here.join(store).is_dir(), "{err}");
    };
    run(OsStr::new("."), &dir);
    run(dir.as_os_str(), parent.path());
}

/// Also if the end of children is ignored.
#[test]
fn a_killed_worker_costs_its_own_case() {
    let dir = scratch();
    let mut run = follow(ignoring("CHLD"), dir.path(), PLAN);
    run.until("sampled");
    signal(run.workers()[0], Signal::KILL);
    let document = run.ended(4, "complete");
    let [first, second] = list(&document["measurements"]).as_slice() else { panic!("{document}") };
    assert_eq!((&first["status"], &first["metrics"]), (&"failed".into(), &serde_json::json!([])));
    assert!(reason(first).starts_with("worker killed (signal 9"), "{first}");
    measured(second);
}

#[test]
fn a_reader_that_goes_away_is_a_quiet_end_and_the_document_is_whole() {
    let dir = scratch();
    fs::write(dir.path().join("long.toml"), PLAN.replace("40", "2")).unwrap();
    for line in ["run long.toml --json run.json --store none", "report run.json"] {
        let mut child = start(command(line).current_dir(dir.path()));
        drop(child.stdout.take());
        let (_, err) = with_code(&child.wait_with_output().unwrap(), 0);
        assert_eq!(err.matches("panicked").count(), 0, "{err}");
    }
    assert_eq!(list(&json_of(dir.path(), "run.json")["measurements"]).len(), 2);
}
