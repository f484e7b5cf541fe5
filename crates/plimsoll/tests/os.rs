//! `plimsoll os`: on one CPU, under a filter of system calls, and after a kill.

use std::fs;
use std::process::Command;

use crate::disk::measurements;
use crate::support::{
    PROGRAM, coded, command, confine, done, has, json, list, lossy, reason, scratch, skip, start, text, until,
};

/// Arguments for one short sample, with the document alone on standard output.
const SHORT: &str = "--samples 1 --sample-time 20ms --store none --json -";

#[test]
fn on_one_cpu_each_benchmark_measures_and_names_the_kernel() {
    let Some(()) = has(&["taskset"]) else { return };
    let dir = scratch();
    let mut command = Command::new("taskset");
    confine(&mut command, dir.path()).args(["-c", "0", PROGRAM, "os"]).args(SHORT.split(' '));
    let all = measurements(&command.output().unwrap(), 0);
    for measurement in &all {
        let (status, id) = (text(&measurement["status"]), text(&measurement["case"]["id"]));
        let may_be_refused = ["fifo", "thp", "exec"].iter().any(|part| id.contains(part));
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
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| name == "data" || name == "state"));
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
    let filtered = |numbers: [&str; 2], case: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", FILTER]).args(numbers).args([PROGRAM, "os"]).args(case.split(' '));
        let output = command.args(SHORT.split(' ')).current_dir(dir.path()).output().ok()?;
        (output.status.code() != Some(1)).then(|| json(&lossy(&output.stdout)))
    };
    // eventfd2 and memfd_create.
    for (numbers, case, name) in [
        (["290", "19"], "--only os.switch --op eventfd", "eventfd(2) is refused"),
        (["319", "279"], "--only os.fault --op file", "memfd_create(2) is refused"),
    ] {
        let Some(run) = filtered(numbers, case) else { return skip("needs python3 and seccomp") };
        assert!(!list(&run["measurements"]).is_empty());
        for one in list(&run["measurements"]) {
            assert_eq!(one["status"], "skipped", "{one}");
            assert!(reason(one).contains(name), "{one}");
        }
    }
    let run = filtered(["290", "19"], "--only os.syscall --op getppid").unwrap();
    let finding = coded(&run["findings"], "kernel-costs").unwrap();
    assert!(text(&finding["text"]).contains("seccomp filter"), "{finding}");
}

#[test]
fn files_of_a_killed_run_are_removed_by_the_next_one() {
    let (dir, files) = (scratch(), scratch());
    let mut command = command("os --only os.file --op stat --samples 1000 --store none --dir");
    let mut run = start(confine(&mut command, dir.path()).arg(files.path()));
    let count = || fs::read_dir(files.path()).unwrap().count();
    until("files of the run", || count() > 0);
    run.kill().unwrap();
    run.wait().unwrap();
    until("their removal", || {
        done(dir.path(), &format!("os --only os.syscall --op getppid {SHORT}"), 0);
        count() == 0
    });
}
