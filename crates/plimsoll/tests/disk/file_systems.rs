//! File systems that are full, read-only, immutable, in memory or lying about their space.

use std::collections::BTreeSet;
use std::process::Command;

use super::{QUICK, in_own_mounts, measurements, names, one_line, possible};
use crate::support::{PROGRAM, document, list, lossy, reason, redacted, scratch, skip, text, with_code};

#[test]
fn a_run_leaves_no_file_and_every_case_is_measured_or_says_why_not() {
    let dir = scratch();
    let of = |words: &str| {
        let line = QUICK.replace("--op read", words);
        list(&document(dir.path(), &line, 0)["measurements"]).clone()
    };
    let (cached, verified) = (of("--op read --cache direct,buffered"), of("--op read,write --verify"));
    assert_eq!((cached.len(), verified.len()), (2, 2));
    assert!(verified.iter().all(|measurement| measurement["case"]["params"]["verify"] == "on"));
    for measurement in cached.iter().chain(&verified) {
        if measurement["status"] == "ok" {
            assert!(measurement["metrics"][0]["summary"]["median"].as_f64().unwrap() > 0.0);
        } else {
            assert_eq!(measurement["cause"], "not-here", "{measurement}");
            assert!(reason(measurement).contains("O_DIRECT"), "{measurement}");
        }
    }
    assert_eq!(names(dir.path()), 0);
}

#[test]
fn a_full_file_system_is_told_before_anything_is_written() {
    let Some(()) = possible(&["unshare", "mkfs.ext4"]) else { return };
    let script = "truncate -s 256M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; \
                  before=$(stat -f -c %f mnt); status=0; \"$1\" disk --dir mnt --store none --quiet || status=$?; \
                  [ \"$before\" = \"$(stat -f -c %f mnt)\" ]; [ \"$(ls mnt)\" = lost+found ]; exit $status";
    let output = in_own_mounts(scratch().path(), script);
    one_line(&output, 4, &["needs 64 MiB", "only 0 B", "/mnt", "1 GiB stay free"]);
}

#[test]
fn a_read_only_mount_and_an_immutable_directory_are_usage_errors() {
    let Some(()) = possible(&["unshare", "mkfs.ext4", "chattr"]) else { return };
    let mounted =
        "truncate -s 16M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; mkdir mnt/x mnt/y;";
    for (change, place, says) in [
        ("mount -o remount,ro mnt", "mnt", &["/mnt", "read-only"][..]),
        // A bind mount has the same device, but its own mount.
        (
            "mount --bind mnt/x mnt/y; mount -o remount,ro,bind mnt/y",
            "mnt/y",
            &["/mnt/y, which is mounted read-only"],
        ),
        ("chattr +i mnt/x", "mnt/x", &["mnt/x", "immutable"]),
    ] {
        let script = format!("{mounted} {change}; exec \"$1\" disk --dir {place} --store none");
        one_line(&in_own_mounts(scratch().path(), &script), 2, says);
    }
}

/// With a named directory that is a usage error; an unusable current one only skips the cases on
/// files. Debian's unprivileged user may read this directory but not write to it.
#[test]
fn without_a_directory_that_takes_files_the_rest_is_measured() {
    let Some(()) = possible(&["setpriv"]) else { return };
    let run = |line: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", PROGRAM]).args(line.split(' '));
        command.args("--store none --quiet --json -".split(' ')).current_dir("/etc").output().unwrap()
    };
    let output = run("disk --dir /etc");
    if lossy(&output.stderr).starts_with("setpriv: failed to execute") {
        return skip("the program is in a directory that nobody may enter");
    }
    one_line(&output, 2, &["/etc", "no permission"]);
    one_line(&run("disk"), 2, &["no permission"]);
    let output = run("run quick --only disk.io,cpu.peak --samples 2 --sample-time 50ms");
    let all = measurements(&output, 0);
    for measurement in &all {
        let id = text(&measurement["case"]["id"]);
        if measurement["status"] == "skipped" {
            assert_eq!(measurement["cause"], "not-here", "{id}");
            assert!(reason(measurement).contains("no permission"), "{id}");
        } else {
            assert!(id.starts_with("cpu.peak"), "{id}");
        }
    }
    assert!(all.iter().any(|m| m["status"] == "skipped"));
}

#[test]
fn memory_is_not_taken_for_a_disk() {
    let Some(()) = possible(&["unshare"]) else { return };
    let dir = scratch();
    let script = "mkdir mnt; mount -t tmpfs -o size=64M none mnt; exec \"$1\" disk --dir mnt --store none --quiet --json -";
    let all = measurements(&in_own_mounts(dir.path(), script), 4);
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|measurement| measurement["status"] == "skipped"), "{all:?}");
    let reasons: BTreeSet<String> = all.iter().map(|one| redacted(reason(one), dir.path())).collect();
    insta::assert_debug_snapshot!(reasons);
}

#[test]
fn a_device_that_fills_up_beneath_its_file_system_fails_the_case_with_its_place() {
    let Some(()) = possible(&["unshare", "mkfs.ext4"]) else { return };
    // The image is larger than its memory file system: writing fails in the middle.
    let script = "mkdir thin mnt; mount -t tmpfs -o size=24M none thin; truncate -s 1300M thin/image; \
                  mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=1 thin/image; mount -o loop thin/image mnt; \
                  exec \"$1\" disk --dir mnt --op read --pattern random --block 4K --depth 4 --size 64M --samples 2 \
                  --store none --quiet --json -";
    let all = measurements(&in_own_mounts(scratch().path(), script), 4);
    assert_eq!(all[0]["status"], "failed");
    assert_eq!(list(&all[0]["metrics"]).len(), 0);
    let reason = reason(&all[0]);
    assert!(["offset", "synced"].iter().any(|part| reason.contains(part)), "{reason}");
    assert!(["os error 5", "os error 28"].iter().any(|part| reason.contains(part)), "{reason}");
}

#[test]
fn a_file_size_limit_is_named() {
    let Some(()) = possible(&["prlimit"]) else { return };
    let dir = scratch();
    let limited = |bytes: &str| {
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={bytes}")).arg(PROGRAM).args(QUICK.split_whitespace());
        command.current_dir(dir.path()).output().unwrap()
    };
    one_line(&limited("1048576"), 4, &["needs 8 MiB", "RLIMIT_FSIZE is 1 MiB", "ulimit -f"]);
    with_code(&limited("8388608"), 0);
    assert_eq!(names(dir.path()), 0);
}
