//! Disk faults for real: full, read-only, immutable and lying file systems, limits, failing calls, kill -9.
//!
//! Mounts are made in a mount namespace of their own and vanish with it. What needs root, or a tool that is not
//! there, is skipped by name.
#![allow(clippy::print_stderr)]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{ended, plimsoll, scratch, skipped};

const PROGRAM: &str = env!("CARGO_BIN_EXE_plimsoll");

/// A small case and a short one: 8 MiB of file, two samples.
const QUICK: &[&str] = &[
    "disk",
    "--op",
    "read",
    "--pattern",
    "random",
    "--block",
    "4K",
    "--depth",
    "4",
    "--size",
    "8M",
    "--samples",
    "2",
    "--sample-time",
    "10ms",
    "--store",
    "none",
    "--quiet",
    "--json",
    "-",
];

/// Whether the test can be made here; if not, it says why it is skipped.
fn possible(test: &str, tools: &[&str]) -> bool {
    let found = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    let missing: Vec<_> = tools.iter().filter(|tool| !found(tool)).collect();
    let root = rustix::process::geteuid().is_root();
    if !root || !missing.is_empty() {
        skipped(test, &format!("needs root and {tools:?}; root: {root}, missing: {missing:?}"));
    }
    root && missing.is_empty()
}

/// Runs a shell script in a mount namespace of its own; `$1` is plimsoll, `$2` the directory.
fn in_own_mounts(dir: &Path, script: &str, arguments: &[&str]) -> Output {
    Command::new("unshare")
        .args(["--mount", "--propagation", "private", "timeout", "60", "sh", "-euc", script, "sh", PROGRAM])
        .arg(dir)
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap()
}

/// The output of a run that must end with `code`.
#[track_caller]
fn with_code(output: &Output, code: i32) -> (String, String) {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "stdout: {out}\nstderr: {err}");
    (out, err)
}

/// One line on stderr that holds all of `says`, nothing on stdout.
#[track_caller]
fn one_line(output: &Output, code: i32, says: &[&str]) {
    let (out, err) = with_code(output, code);
    assert_eq!(out, "");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(says.iter().all(|word| err.contains(word)), "{err:?} does not say all of {says:?}");
}

fn measurements(document: &str) -> Vec<Value> {
    let run: Value = serde_json::from_str(document).unwrap();
    run["measurements"].as_array().unwrap().clone()
}

fn names(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn a_run_leaves_no_file_and_every_case_is_measured_or_says_why_not() {
    let dir = scratch();
    let (out, _) = ended(plimsoll(dir.path()).args(QUICK).args(["--cache", "direct,buffered"]), 0);
    let all = measurements(&out);
    assert_eq!(all.len(), 2);
    for measurement in &all {
        match measurement["status"].as_str().unwrap() {
            "ok" => assert!(measurement["metrics"][0]["summary"]["median"].as_f64().unwrap() > 0.0),
            _ => assert!(measurement["reason"].as_str().unwrap().contains("O_DIRECT")),
        }
    }
    assert_eq!(names(dir.path()), 0);
}

#[test]
fn a_full_file_system_is_told_before_anything_is_written() {
    if !possible("a full file system", &["unshare", "mkfs.ext4"]) {
        return;
    }
    let dir = scratch();
    let script = "truncate -s 256M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; \
                  before=$(stat -f -c %f mnt); status=0; \"$1\" disk --dir mnt --store none --quiet || status=$?; \
                  [ \"$before\" = \"$(stat -f -c %f mnt)\" ]; [ \"$(ls mnt)\" = lost+found ]; exit $status";
    let output = in_own_mounts(dir.path(), script, &[]);
    one_line(&output, 4, &["needs 64 MiB", "only 0 B", "/mnt", "1 GiB stay free"]);
}

#[test]
fn a_read_only_mount_and_an_immutable_directory_are_usage_errors() {
    if !possible("read-only and immutable", &["unshare", "mkfs.ext4", "chattr"]) {
        return;
    }
    let dir = scratch();
    let mounted = "truncate -s 16M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; ";
    let script = format!("{mounted} mount -o remount,ro mnt; exec \"$1\" disk --dir mnt --store none");
    one_line(&in_own_mounts(dir.path(), &script, &[]), 2, &["/mnt", "read-only"]);
    let dir = scratch();
    let script = format!("{mounted} mkdir mnt/x; chattr +i mnt/x; exec \"$1\" disk --dir mnt/x --store none");
    one_line(&in_own_mounts(dir.path(), &script, &[]), 2, &["mnt/x", "immutable"]);
}

#[test]
fn a_directory_of_somebody_else_is_a_usage_error() {
    if !possible("no permission", &["setpriv"]) {
        return;
    }
    // The nobody of Debian may read this directory and not write in it.
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            PROGRAM,
            "disk",
            "--dir",
            "/etc",
            "--store",
            "none",
        ])
        .output()
        .unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("setpriv: failed to execute") {
        skipped("no permission", "the program is in a directory that nobody may enter");
        return;
    }
    one_line(&output, 2, &["/etc", "no permission"]);
}

#[test]
fn memory_is_not_taken_for_a_disk() {
    if !possible("tmpfs", &["unshare"]) {
        return;
    }
    let dir = scratch();
    let script = "mkdir mnt; mount -t tmpfs -o size=64M none mnt; exec \"$1\" disk --dir mnt --store none --quiet --json -";
    let (out, _) = with_code(&in_own_mounts(dir.path(), script, &[]), 0);
    let all = measurements(&out);
    assert_eq!(all.len(), 5);
    for measurement in all {
        assert_eq!(measurement["status"], "skipped");
        assert!(measurement["reason"].as_str().unwrap().contains("tmpfs"), "{measurement}");
    }
}

#[test]
fn a_device_that_fills_up_beneath_its_file_system_fails_the_case_with_its_place() {
    if !possible("thin device", &["unshare", "mkfs.ext4"]) {
        return;
    }
    let dir = scratch();
    // The image is larger than the memory file system that holds it: writing to it fails in the middle.
    let script = "mkdir thin mnt; mount -t tmpfs -o size=24M none thin; truncate -s 1300M thin/image; \
                  mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=1 thin/image; mount -o loop thin/image mnt; \
                  exec \"$1\" disk --dir mnt --op read --pattern random --block 4K --depth 4 --size 64M --samples 2 \
                  --store none --quiet --json -";
    let (out, _) = with_code(&in_own_mounts(dir.path(), script, &[]), 4);
    let all = measurements(&out);
    assert_eq!(all[0]["status"], "failed");
    assert_eq!(all[0]["metrics"].as_array().unwrap().len(), 0);
    let reason = all[0]["reason"].as_str().unwrap();
    assert!(reason.contains("offset") || reason.contains("synced"), "{reason}");
    assert!(reason.contains("os error 5") || reason.contains("os error 28"), "{reason}");
}

#[test]
fn a_file_size_limit_is_named() {
    if !possible("RLIMIT_FSIZE", &["prlimit"]) {
        return;
    }
    let dir = scratch();
    let limited = |bytes: &str, size: &str| {
        let arguments = QUICK.iter().map(|argument| if *argument == "8M" { size } else { argument });
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={bytes}")).arg(PROGRAM).args(arguments).current_dir(dir.path());
        command.output().unwrap()
    };
    one_line(&limited("1048576", "8M"), 4, &["needs 8 MiB", "RLIMIT_FSIZE is 1 MiB", "ulimit -f"]);
    with_code(&limited("8388608", "8M"), 0);
    assert_eq!(names(dir.path()), 0);
}

/// plimsoll under strace, which makes system calls fail: (what to inject, further arguments).
fn injected(dir: &Path, injections: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "trace=pread64,pwrite64,fallocate,fdatasync,io_uring_setup",
    ]);
    for injection in injections {
        command.arg("-e").arg(format!("inject={injection}"));
    }
    command.arg(PROGRAM).args(arguments).current_dir(dir).output().unwrap()
}

#[test]
fn without_io_uring_psync_does_the_work_aloud() {
    if !possible("no io_uring", &["strace"]) {
        return;
    }
    for (errno, cause) in [("ENOSYS", "no io_uring"), ("EPERM", "forbids io_uring")] {
        let dir = scratch();
        let output = injected(dir.path(), &[&format!("io_uring_setup:error={errno}")], QUICK);
        let (out, _) = with_code(&output, 0);
        let measurement = &measurements(&out)[0];
        if measurement["status"] == "skipped" {
            continue;
        }
        assert_eq!(
            (&measurement["requested"]["engine"], &measurement["achieved"]["engine"]),
            (&"io_uring".into(), &"psync".into())
        );
        let warnings = measurement["warnings"].as_array().unwrap();
        let told = warnings.iter().find(|warning| warning["code"] == "engine-fell-back").unwrap();
        assert!(told["text"].as_str().unwrap().contains(cause), "{told}");
    }
}

#[test]
fn failing_calls_fail_the_case_and_interrupted_and_short_ones_do_not() {
    if !possible("failing system calls", &["strace"]) {
        return;
    }
    let cases: &[(&str, Option<[&str; 2]>)] = &[
        ("pread64:error=EIO:when=40", Some(["read of 4 KiB at offset", "os error 5"])),
        ("pwrite64:error=EIO:when=2", Some(["write of 1 MiB at offset 1048576", "os error 5"])),
        ("fallocate:error=ENOSPC", Some(["allocated", "os error 28"])),
        ("fallocate:error=EDQUOT", Some(["allocated", "quota"])),
        ("fdatasync:error=EIO:when=1", Some(["synced", "os error 5"])),
        ("pread64:error=EINTR:when=40..50", None),
        ("pread64:retval=1024:when=40", None),
        ("fallocate:error=EOPNOTSUPP", None),
    ];
    for (injection, expected) in cases {
        let dir = scratch();
        let arguments: Vec<&str> = QUICK.iter().copied().chain(["--engine", "psync"]).collect();
        let output = injected(dir.path(), &[injection, "io_uring_setup:error=ENOSYS"], &arguments);
        let (out, _) = with_code(&output, if expected.is_some() { 4 } else { 0 });
        let measurement = &measurements(&out)[0];
        if let Some(words) = expected {
            assert_eq!(measurement["status"], "failed", "{injection}");
            let reason = measurement["reason"].as_str().unwrap();
            assert!(words.iter().all(|word| reason.contains(word)), "{injection}: {reason}");
        }
        assert_eq!(names(dir.path()), 0);
    }
}

#[test]
fn a_failed_sync_is_final() {
    if !possible("failing fdatasync", &["strace"]) {
        return;
    }
    let dir = scratch();
    let arguments = [
        "disk",
        "--only",
        "disk.fsync",
        "--samples",
        "2",
        "--sample-time",
        "10ms",
        "--store",
        "none",
        "--json",
        "-",
    ];
    // Only the third one fails: whoever tries again succeeds, and has lost data.
    let output = injected(dir.path(), &["fdatasync:error=EIO:when=3"], &arguments);
    let (out, _) = with_code(&output, 4);
    let measurement = &measurements(&out)[0];
    assert_eq!(
        (measurement["status"].as_str(), measurement["metrics"].as_array().map(Vec::len)),
        (Some("failed"), Some(0))
    );
    assert!(measurement["reason"].as_str().unwrap().contains("fdatasync at offset 8192"), "{measurement}");
}

/// Ends a run that outlives its test.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The worker, by its parent.
fn worker_of(parent: u32) -> Option<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}

#[test]
fn killed_in_mid_run_nothing_stays_behind() {
    let dir = scratch();
    let mut command = Command::new(PROGRAM);
    command.args([
        "disk",
        "--op",
        "write",
        "--pattern",
        "random",
        "--block",
        "4K",
        "--depth",
        "4",
        "--size",
        "8M",
    ]);
    command.args([
        "--samples",
        "1000",
        "--sample-time",
        "20ms",
        "--store",
        "none",
        "--quiet",
        "--events",
        "-",
    ]);
    let child = command.current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut run = Reaped(child);
    let mut sampled = 0;
    for line in BufReader::new(run.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains("\"skipped\"") {
            skipped("killed in mid-run", &line);
            return;
        }
        sampled += usize::from(line.contains("sampled"));
        if sampled == 3 {
            break;
        }
    }
    assert_eq!(sampled, 3, "the run ended before it was sampled three times");
    let worker = worker_of(run.0.id()).expect("a worker");
    // While it runs, its file is there and has no name.
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", worker.as_raw_nonzero())).unwrap();
    let unlinked = descriptors
        .filter_map(|fd| fd.ok()?.path().metadata().ok())
        .filter(|m| m.is_file() && m.nlink() == 0);
    assert!(unlinked.count() >= 1);
    assert_eq!(names(dir.path()), 0);
    kill_process(Pid::from_raw(run.0.id().cast_signed()).unwrap(), Signal::KILL).unwrap();
    run.0.wait().unwrap();
    // The worker goes with its parent, and the file with the worker.
    let started = std::time::Instant::now();
    while rustix::process::test_kill_process(worker).is_ok() && !is_zombie(worker) {
        assert!(started.elapsed().as_secs() < 10, "the worker outlived its parent");
        std::thread::yield_now();
    }
    assert_eq!(names(dir.path()), 0);
}

fn is_zombie(process: Pid) -> bool {
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with(['Z', 'X']))
}

/// Which `openat` of the worker, counted from 1, makes the nameless file.
fn nameless_open(dir: &Path) -> usize {
    let log = dir.join("strace.log");
    let traced = Command::new("strace")
        .args(["-f", "-e", "trace=openat", "-o"])
        .arg(&log)
        .arg(PROGRAM)
        .args(QUICK)
        .current_dir(dir)
        .output()
        .unwrap();
    with_code(&traced, 0);
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let process = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let made = text.lines().position(|line| line.contains("O_TMPFILE")).expect("no O_TMPFILE in the trace");
    let worker = process(text.lines().nth(made).unwrap());
    text.lines().take(made + 1).filter(|line| process(line) == worker && line.contains("openat(")).count()
}

#[test]
fn a_file_system_without_nameless_files_gets_one_whose_name_is_gone_at_once_and_that_is_said() {
    if !possible("no O_TMPFILE", &["strace"]) {
        return;
    }
    let dir = scratch();
    let nth = nameless_open(dir.path());
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "-e", "trace=openat", "-e"]);
    command.arg(format!("inject=openat:error=EOPNOTSUPP:when={nth}"));
    let (out, _) = with_code(&command.arg(PROGRAM).args(QUICK).current_dir(dir.path()).output().unwrap(), 0);
    let measurement = &measurements(&out)[0];
    assert_eq!(measurement["status"], "ok", "{measurement}");
    let warnings = measurement["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "named-file"), "{warnings:?}");
    assert_eq!(names(dir.path()), 0);
}

#[test]
fn where_o_direct_is_refused_the_case_is_skipped_with_the_remedy() {
    if !possible("O_DIRECT refused", &["strace"]) {
        return;
    }
    let dir = scratch();
    // The nameless file, then (after the private directory) the named one.
    let nth = nameless_open(dir.path());
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "-e", "trace=openat", "-e"]);
    command.arg(format!("inject=openat:error=EINVAL:when={nth}..{}+2", nth + 2));
    let (out, _) = with_code(&command.arg(PROGRAM).args(QUICK).current_dir(dir.path()).output().unwrap(), 0);
    let measurement = &measurements(&out)[0];
    assert_eq!(measurement["status"], "skipped", "{measurement}");
    let reason = measurement["reason"].as_str().unwrap();
    assert!(reason.contains("O_DIRECT") && reason.contains("--cache buffered"), "{reason}");
    assert_eq!(names(dir.path()), 0);
}
