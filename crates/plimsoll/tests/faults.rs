//! Faults for real: signals, killed workers, closed pipes. What is finished is kept, nothing is left behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{measured, scratch, until};

/// Two cases of many short samples: the first is soon finished, the second takes long enough to be disturbed.
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

/// A run that is under way, its events read as they come.
struct Running {
    child: Child,
    events: BufReader<ChildStdout>,
}

impl Running {
    fn start(dir: &Path) -> Self {
        fs::write(dir.join("long.toml"), PLAN).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
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

    /// Reads events until one satisfies `is`.
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

    /// Ids of the workers: the processes whose parent this run is.
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

    /// Waits for the end; exit code, standard error, and the run document.
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

/// Waits for the end of a process that is nobody's child here.
#[track_caller]
fn gone(pid: Pid) {
    until(&format!("the end of process {pid:?}"), || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        stat.is_empty() || stat.rsplit(')').next().is_some_and(|r| r.trim_start().starts_with('Z'))
    });
}

/// Interrupts a run in its second case and looks at what it left; how long its end took.
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
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // Other tests may have the processors meanwhile: one of several is quick enough.
        let took: Vec<Duration> =
            (0..4).map(|_| interrupted_by(signal)).take_while(|took| *took >= LONGEST_END).collect();
        assert!(took.len() < 4, "{signal:?}: {took:?}");
    }
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
    assert!(
        measurements[0]["reason"].as_str().unwrap().contains("signal 9"),
        "{}",
        measurements[0]["reason"]
    );
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
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
    let document: Value = serde_json::from_slice(&fs::read(dir.path().join("run.json")).unwrap()).unwrap();
    assert_eq!(document["measurements"].as_array().unwrap().len(), 2);
}
