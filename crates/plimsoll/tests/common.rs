//! Shared by both test programs: waiting, and skipping a test.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

/// Waits until `holds`: what takes a moment on a quiet machine may take a minute on a busy one.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come about within five minutes");
        // So that waiting does not take the processor from what is waited for.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// An operation of `cpu.peak` with a valid figure on this machine. A virtual machine may hide its
/// processor, so that limits are wrong and figures are `invalid`. `None`, and a skipped test, if
/// all are.
pub(crate) fn valid_operation(test: &str) -> Option<String> {
    let words =
        "cpu --op all --type f64 --threads 1 --samples 3 --sample-time 10ms --store none --quiet --json -";
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(words.split(' ')).output().unwrap();
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let valid = run["measurements"].as_array().unwrap().iter().find(|m| m["status"] == "ok");
    let operation = valid.and_then(|m| m["case"]["params"]["op"].as_str()).map(str::to_owned);
    if operation.is_none() {
        skipped(test, "what is known of this processor is wrong for every operation");
    }
    operation
}

/// Names a skipped test on stderr and in the list that `make test` prints at its end.
pub(crate) fn skipped(test: &str, why: &str) {
    let line = format!("{test}: {why}\n");
    let _ = write!(std::io::stderr(), "skipped: {line}");
    if let Some(list) = std::env::var_os("PLIMSOLL_SKIPPED") {
        OpenOptions::new().create(true).append(true).open(list).unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Whether a control group gives this process less time than its CPUs have: the kernel then stops
/// it for tenths of a second.
pub(crate) fn under_a_quota() -> bool {
    let document = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(["machine", "--json"]).output();
    let machine: serde_json::Value = serde_json::from_slice(&document.unwrap().stdout).unwrap();
    machine.pointer("/cgroup/cpu_quota").is_some_and(|quota| !quota.is_null())
}

/// Whether this thread gets less than 60 % of a CPU over 100 ms of computing: network tests and
/// reference tools may then lose datagrams or miss deadlines.
pub(crate) fn short_of_cpu() -> bool {
    let cpu_seconds = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let (begin, before) = (Instant::now(), cpu_seconds());
    while begin.elapsed() < Duration::from_millis(100) {
        std::hint::spin_loop();
    }
    under_a_quota() || cpu_seconds() - before < 0.6 * begin.elapsed().as_secs_f64()
}
