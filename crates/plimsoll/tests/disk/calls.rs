//! System calls that fail, are interrupted or come back short, injected by strace.

use std::path::Path;
use std::process::{Command, Output};

use super::{PROGRAM, QUICK, measurements, names, possible, with_code};
use crate::support::{reason, scratch};

/// plimsoll under strace, which makes system calls fail: (what to inject, further arguments).
fn injected(dir: &Path, injections: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command.args(
        "-f -o /dev/null -e trace=preadv2,pwritev2,fallocate,fdatasync,io_uring_setup,io_setup".split(' '),
    );
    for injection in injections {
        command.arg("-e").arg(format!("inject={injection}"));
    }
    command.arg(PROGRAM).args(arguments).current_dir(dir).output().unwrap()
}

#[test]
fn without_io_uring_libaio_does_the_work_aloud_or_else_psync() {
    if !possible("no io_uring", &["strace"]) {
        return;
    }
    for (errno, cause, aio, engine) in [
        ("ENOSYS", "no io_uring", "", "libaio"),
        ("EPERM", "forbids io_uring", "", "libaio"),
        ("EPERM", "forbids io_uring", "io_setup:error=EAGAIN", "psync"),
    ] {
        let dir = scratch();
        let refused = format!("io_uring_setup:error={errno}");
        let refused: Vec<&str> =
            [refused.as_str(), aio].into_iter().filter(|call| !call.is_empty()).collect();
        let output = injected(dir.path(), &refused, QUICK);
        let (out, _) = with_code(&output, 0);
        let measurement = &measurements(&out)[0];
        if measurement["status"] == "skipped" {
            continue;
        }
        assert_eq!(
            (&measurement["case"]["params"]["engine"], &measurement["achieved"]["engine"]),
            (&"io_uring".into(), &engine.into())
        );
        let warnings = measurement["warnings"].as_array().unwrap();
        let reported = warnings.iter().find(|warning| warning["code"] == "engine-fell-back").unwrap();
        assert!(reported["text"].as_str().unwrap().contains(cause), "{reported}");
    }
}

#[test]
fn failing_calls_fail_the_case_and_interrupted_and_short_ones_do_not() {
    if !possible("failing system calls", &["strace"]) {
        return;
    }
    let cases: &[(&str, Option<[&str; 2]>)] = &[
        ("preadv2:error=EIO:when=5", Some(["read of 4 KiB at offset", "os error 5"])),
        ("pwritev2:error=EIO:when=2", Some(["at offset 65536 ", "os error 5"])),
        ("fallocate:error=ENOSPC", Some(["allocated", "os error 28"])),
        ("fallocate:error=EDQUOT", Some(["allocated", "quota"])),
        ("fdatasync:error=EIO:when=1", Some(["synced", "os error 5"])),
        ("preadv2:error=EINTR:when=5..15", None),
        ("preadv2:retval=1024:when=5", None),
        ("fallocate:error=EOPNOTSUPP", None),
    ];
    for (injection, expected) in cases {
        let dir = scratch();
        // psync has one transfer in flight.
        let quick = QUICK.iter().map(|word| if *word == "4" { "1" } else { word });
        let arguments: Vec<&str> = quick.chain(["--engine", "psync"]).collect();
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
        "200ms",
        "--store",
        "none",
        "--json",
        "-",
    ];
    // Only the third call fails: a retry would succeed, with lost data.
    let output = injected(dir.path(), &["fdatasync:error=EIO:when=3"], &arguments);
    let (out, _) = with_code(&output, 4);
    let measurement = &measurements(&out)[0];
    assert_eq!(
        (measurement["status"].as_str(), measurement["metrics"].as_array().map(Vec::len)),
        (Some("failed"), Some(0))
    );
    // strace counts per thread, and each sample has its own: the first thread with three calls.
    let reason = measurement["reason"].as_str().unwrap();
    let offset = reason.split_once("fdatasync at offset ").and_then(|(_, rest)| rest.split_once(' '));
    let offset: u64 = offset.expect(reason).0.parse().expect(reason);
    assert!(offset >= 8192 && offset.is_multiple_of(4096), "{measurement}");
}

/// Which `openat` of the worker, counted from 1, makes the nameless file.
fn nameless_open(dir: &Path) -> usize {
    open_of_worker(dir, &[], |line| line.contains("O_TMPFILE"))
}

/// Which `openat` of the worker makes the named file if the nameless one (the `nth`) is refused.
fn named_open(dir: &Path, nth: usize) -> usize {
    let refused = format!("inject=openat:error=EINVAL:when={nth}");
    open_of_worker(dir, &["-e", &refused], |line| line.contains("O_CREAT") && line.contains("O_DIRECT|"))
}

/// Which `openat` of the process that makes the nameless file matches first, counted from 1.
fn open_of_worker(dir: &Path, injection: &[&str], is: fn(&str) -> bool) -> usize {
    let log = dir.join("strace.log");
    let traced = Command::new("strace")
        .args(["-f", "-e", "trace=openat"])
        .args(injection)
        .arg("-o")
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
    let made = text.lines().find(|line| line.contains("O_TMPFILE")).expect("no O_TMPFILE in the trace");
    let worker = process(made);
    let mut opens = text.lines().filter(|line| process(line) == worker && line.contains("openat("));
    1 + opens.position(is).expect("no such open in the trace")
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
    // The nameless file, then the named one.
    let nth = nameless_open(dir.path());
    let named = named_open(dir.path(), nth);
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "-e", "trace=openat", "-e"]);
    command.arg(format!("inject=openat:error=EINVAL:when={nth}..{named}+{}", named - nth));
    let (out, _) = with_code(&command.arg(PROGRAM).args(QUICK).current_dir(dir.path()).output().unwrap(), 4);
    let measurement = &measurements(&out)[0];
    assert_eq!(measurement["status"], "skipped", "{measurement}");
    let end = "does not support direct I/O (O_DIRECT); use --cache buffered or another --dir";
    assert!(reason(measurement).ends_with(end), "{measurement}");
    assert_eq!(names(dir.path()), 0);
}
