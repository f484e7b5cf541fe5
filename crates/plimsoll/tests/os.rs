//! `plimsoll os`: on one CPU, under a filter of system calls, and after a kill.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{ended, plimsoll, scratch, skipped, until};

/// Arguments for one short sample, with the document alone on standard output.
const SHORT: [&str; 8] = ["--samples", "1", "--sample-time", "20ms", "--store", "none", "--json", "-"];

fn measurements(out: &str) -> Vec<Value> {
    let run: Value = serde_json::from_str(out).unwrap();
    run["measurements"].as_array().unwrap().clone()
}

#[test]
fn on_one_cpu_each_benchmark_measures_and_names_the_kernel() {
    let dir = scratch();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let mut command = assert_cmd::Command::new("taskset");
    command.args(["-c", "0", program, "os"]).args(SHORT).current_dir(dir.path());
    if !std::path::Path::new("/usr/bin/taskset").exists() {
        skipped("os on one CPU", "needs taskset");
        return;
    }
    let (out, _) = ended(&mut command, 0);
    let all = measurements(&out);
    for measurement in &all {
        let status = measurement["status"].as_str().unwrap();
        let id = measurement["case"]["id"].as_str().unwrap();
        let may_be_refused = id.contains("fifo") || id.contains("thp") || id.contains("exec");
        // On a busy machine all of so short a time may be another program's.
        let is_lost = status == "invalid" && measurement["conditions"]["excluded"].as_f64() >= Some(0.9);
        assert!(status == "ok" || is_lost || may_be_refused && status == "skipped", "{id}: {measurement}");
        if status == "ok" {
            assert!(measurement["achieved"]["cpus"].is_array(), "{id}");
        }
    }
    let has = |name: &str| all.iter().any(|one| one["case"]["benchmark"] == name);
    for name in ["syscall", "switch", "wake", "process", "fault", "noise", "file"] {
        assert!(has(&format!("os.{name}")), "{name}");
    }
    assert!(fs::read_dir(dir.path()).unwrap().all(|entry| {
        let name = entry.unwrap().file_name();
        ["data", "state"].iter().any(|known| name == *known)
    }));
}

/// A program that refuses one system call to the program that it starts.
const FILTER: &str = "
import ctypes, os, platform, struct, sys
number = {'x86_64': int(sys.argv[1]), 'aarch64': int(sys.argv[2])}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in code))
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_void_p)]
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(Program(len(code), ctypes.addressof(text)))) == 0
os.execv(sys.argv[3], sys.argv[3:])
";

#[test]
fn a_refused_call_is_skipped_with_its_name_and_the_filter_is_a_finding() {
    let dir = scratch();
    // eventfd2 and memfd_create.
    for (numbers, case, name) in [
        (["290", "19"], ["--only", "os.switch", "--op", "eventfd"], "eventfd(2) is refused"),
        (["319", "279"], ["--only", "os.fault", "--op", "file"], "memfd_create(2) is refused"),
    ] {
        let mut command = assert_cmd::Command::new("python3");
        command.args(["-c", FILTER]).args(numbers).arg(env!("CARGO_BIN_EXE_plimsoll")).arg("os");
        command.args(case).args(SHORT).current_dir(dir.path());
        let output = match command.output() {
            Ok(output) if output.status.code() != Some(1) => output,
            _ => {
                skipped("os under a filter", "needs python3 and seccomp");
                return;
            }
        };
        let all = measurements(&String::from_utf8(output.stdout).unwrap());
        assert!(!all.is_empty());
        for one in all {
            assert_eq!(one["status"], "skipped", "{one}");
            assert!(one["reason"].as_str().unwrap().contains(name), "{one}");
        }
    }
    let mut command = assert_cmd::Command::new("python3");
    command.args(["-c", FILTER, "290", "19", env!("CARGO_BIN_EXE_plimsoll"), "os"]);
    command.args(["--only", "os.syscall", "--op", "getppid"]).args(SHORT).current_dir(dir.path());
    let (out, _) = ended(&mut command, 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    let finding = run["findings"].as_array().unwrap().iter().find(|one| one["code"] == "kernel-costs");
    assert!(finding.unwrap()["text"].as_str().unwrap().contains("seccomp filter"), "{finding:?}");
}

#[test]
fn files_of_a_killed_run_are_removed_by_the_next_one() {
    let (dir, files) = (scratch(), scratch());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args([
        "os",
        "--only",
        "os.file",
        "--op",
        "stat",
        "--samples",
        "1000",
        "--store",
        "none",
        "--dir",
    ]);
    command.arg(files.path()).current_dir(dir.path()).env("XDG_STATE_HOME", dir.path().join("state"));
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let count = || fs::read_dir(files.path()).unwrap().count();
    until("files of the run", || count() > 0);
    run.kill().unwrap();
    run.wait().unwrap();
    until("their removal", || {
        let mut next = plimsoll(dir.path());
        next.args(["os", "--only", "os.syscall", "--op", "getppid"]).args(SHORT);
        ended(&mut next, 0);
        count() == 0
    });
}
