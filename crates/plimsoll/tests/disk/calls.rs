//! System calls that fail, are interrupted or come back short, injected by strace.

use std::path::Path;
use std::process::{Command, Output};

use super::{QUICK, measurements, names, possible};
use crate::support::{PROGRAM, coded, list, reason, scratch, text, warns, with_code};

/// plimsoll under strace, which makes system calls fail, with the words of a command line.
pub(crate) fn injected(dir: &Path, calls: &str, injections: &[&str], line: &str) -> Output {
    traced(dir, "/dev/null", calls, injections, line).output().unwrap()
}

pub(super) fn traced(dir: &Path, log: &str, calls: &str, injections: &[&str], line: &str) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", log, "-e", &format!("trace={calls}")]);
    for injection in injections {
        command.arg("-e").arg(format!("inject={injection}"));
    }
    command.arg(PROGRAM).args(line.split_whitespace()).current_dir(dir);
    command
}

const DATA: &str = "preadv2,pwritev2,fallocate,fdatasync,io_uring_setup,io_setup";

#[test]
fn without_io_uring_libaio_does_the_work_aloud_or_else_psync() {
    let Some(()) = possible(&["strace"]) else { return };
    for (refused, cause, engine) in [
        (&["io_uring_setup:error=ENOSYS"][..], "no io_uring", "libaio"),
        (&["io_uring_setup:error=EPERM"], "forbids io_uring", "libaio"),
        (&["io_uring_setup:error=EPERM", "io_setup:error=EAGAIN"], "forbids io_uring", "psync"),
    ] {
        let measurement = &measurements(&injected(scratch().path(), DATA, refused, QUICK), 0)[0];
        if measurement["status"] == "skipped" {
            continue;
        }
        let engines = [&measurement["case"]["params"]["engine"], &measurement["achieved"]["engine"]];
        assert_eq!(engines, ["io_uring", engine]);
        let reported = coded(&measurement["warnings"], "engine-fell-back").unwrap();
        assert!(text(&reported["text"]).contains(cause), "{reported}");
    }
}

#[test]
fn failing_calls_fail_the_case_and_interrupted_and_short_ones_do_not() {
    let Some(()) = possible(&["strace"]) else { return };
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
        let line = format!("{} --engine psync", QUICK.replace("--depth 4", "--depth 1"));
        let output = injected(dir.path(), DATA, &[injection, "io_uring_setup:error=ENOSYS"], &line);
        let measurement = &measurements(&output, if expected.is_some() { 4 } else { 0 })[0];
        if let Some(words) = expected {
            assert_eq!(measurement["status"], "failed", "{injection}");
            let reason = reason(measurement);
            assert!(words.iter().all(|word| reason.contains(word)), "{injection}: {reason}");
        }
        assert_eq!(names(dir.path()), 0);
    }
}

#[test]
fn a_failed_sync_is_final() {
    let Some(()) = possible(&["strace"]) else { return };
    let line = "disk --only disk.fsync --samples 2 --sample-time 200ms --store none --json -";
    // Only the third call fails: a retry would succeed, with lost data.
    let output = injected(scratch().path(), DATA, &["fdatasync:error=EIO:when=3"], line);
    let measurement = &measurements(&output, 4)[0];
    assert_eq!((text(&measurement["status"]), list(&measurement["metrics"]).len()), ("failed", 0));
    // strace counts per thread, and each sample has its own: the first thread with three calls.
    let reason = reason(measurement);
    let offset = reason.split_once("fdatasync at offset ").and_then(|(_, rest)| rest.split_once(' '));
    let offset: u64 = offset.expect(reason).0.parse().expect(reason);
    assert!(offset >= 8192 && offset.is_multiple_of(4096), "{measurement}");
}

/// Which `openat` of the process that makes the nameless file matches first, counted from 1.
fn open_of_worker(dir: &Path, injections: &[&str], is: fn(&str) -> bool) -> usize {
    with_code(&traced(dir, "log", "openat", injections, QUICK).output().unwrap(), 0);
    let text = std::fs::read_to_string(dir.join("log")).unwrap();
    std::fs::remove_file(dir.join("log")).unwrap();
    let process = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let made = text.lines().find(|line| line.contains("O_TMPFILE")).expect("no O_TMPFILE in the trace");
    let worker = process(made);
    let mut opens = text.lines().filter(|line| process(line) == worker && line.contains("openat("));
    1 + opens.position(is).expect("no such open in the trace")
}

#[test]
fn a_file_system_without_nameless_files_or_direct_transfers_is_named() {
    let Some(()) = possible(&["strace"]) else { return };
    let dir = scratch();
    let nth = open_of_worker(dir.path(), &[], |line| line.contains("O_TMPFILE"));
    let refused = format!("openat:error=EOPNOTSUPP:when={nth}");
    let measurement = &measurements(&injected(dir.path(), "openat", &[&refused], QUICK), 0)[0];
    assert_eq!(measurement["status"], "ok", "{measurement}");
    // The name of its file is gone at once.
    assert!(warns(measurement, "named-file"), "{measurement}");
    assert_eq!(names(dir.path()), 0);
    // O_DIRECT is refused for the nameless file, then for the named one.
    let refused = format!("openat:error=EINVAL:when={nth}");
    let is_named = |line: &str| line.contains("O_CREAT") && line.contains("O_DIRECT|");
    let named = open_of_worker(dir.path(), &[&refused], is_named);
    let refused = format!("openat:error=EINVAL:when={nth}..{named}+{}", named - nth);
    let measurement = &measurements(&injected(dir.path(), "openat", &[&refused], QUICK), 4)[0];
    assert_eq!(measurement["status"], "skipped", "{measurement}");
    let end = "does not support direct I/O (O_DIRECT); use --cache buffered or another --dir";
    assert!(reason(measurement).ends_with(end), "{measurement}");
    assert_eq!(names(dir.path()), 0);
}
