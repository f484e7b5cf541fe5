//! File systems that are full, read-only, immutable, in memory or lying about their space.

use std::collections::BTreeSet;
use std::process::Command;

use super::{PROGRAM, QUICK, in_own_mounts, measurements, names, one_line, possible, with_code};
use crate::support::{ended, plimsoll, reason, redacted, scratch, skipped};

#[test]
fn a_run_leaves_no_file_and_every_case_is_measured_or_says_why_not() {
    let dir = scratch();
    let (out, _) = ended(plimsoll(dir.path()).args(QUICK).args(["--cache", "direct,buffered"]), 0);
    let all = measurements(&out);
    assert_eq!(all.len(), 2);
    for measurement in &all {
        match measurement["status"].as_str().unwrap() {
            "ok" => assert!(measurement["metrics"][0]["summary"]["median"].as_f64().unwrap() > 0.0),
            _ => {
                assert_eq!(measurement["cause"], "not-here", "{measurement}");
                assert!(measurement["reason"].as_str().unwrap().contains("O_DIRECT"), "{measurement}");
            }
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
    // A bind mount has the same device, but its own mount.
    let dir = scratch();
    let script = format!(
        "{mounted} mkdir mnt/x mnt/y; mount --bind mnt/x mnt/y; mount -o remount,ro,bind mnt/y; exec \"$1\" disk --dir mnt/y --store none"
    );
    one_line(&in_own_mounts(dir.path(), &script, &[]), 2, &["/mnt/y, which is mounted read-only"]);
    let dir = scratch();
    let script = format!("{mounted} mkdir mnt/x; chattr +i mnt/x; exec \"$1\" disk --dir mnt/x --store none");
    one_line(&in_own_mounts(dir.path(), &script, &[]), 2, &["mnt/x", "immutable"]);
}

#[test]
fn a_directory_of_somebody_else_is_a_usage_error() {
    if !possible("no permission", &["setpriv"]) {
        return;
    }
    // Debian's unprivileged user may read this directory but not write to it.
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
    if String::from_utf8_lossy(&output.stderr).starts_with("setpriv: failed to execute") {
        skipped("no permission", "the program is in a directory that nobody may enter");
        return;
    }
    one_line(&output, 2, &["/etc", "no permission"]);
}

/// Without a named directory an unusable current one only skips the cases on files.
#[test]
fn without_a_directory_that_takes_files_the_rest_is_measured() {
    if !possible("a current directory without permission", &["setpriv"]) {
        return;
    }
    let run = |args: &str| {
        let (mut command, args) = (Command::new("setpriv"), args.split(' '));
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", PROGRAM]).args(args);
        command.args(["--store", "none", "--quiet", "--json", "-"]).current_dir("/etc").output().unwrap()
    };
    let output = run("run quick --only disk.io,cpu.peak --samples 2 --sample-time 50ms");
    if String::from_utf8_lossy(&output.stderr).starts_with("setpriv: failed to execute") {
        skipped(
            "a current directory without permission",
            "the program is in a directory that nobody may enter",
        );
        return;
    }
    let (out, _) = with_code(&output, 0);
    for measurement in measurements(&out) {
        let id = measurement["case"]["id"].as_str().unwrap_or_default();
        match measurement["status"].as_str() {
            Some("skipped") => {
                assert_eq!(measurement["cause"], "not-here", "{id}");
                assert!(measurement["reason"].as_str().unwrap().contains("no permission"), "{id}");
            }
            _ => assert!(id.starts_with("cpu.peak"), "{id}"),
        }
    }
    assert!(measurements(&out).iter().any(|m| m["status"] == "skipped"));
    one_line(&run("disk"), 2, &["no permission"]);
}

#[test]
fn memory_is_not_taken_for_a_disk() {
    if !possible("tmpfs", &["unshare"]) {
        return;
    }
    let dir = scratch();
    let script = "mkdir mnt; mount -t tmpfs -o size=64M none mnt; exec \"$1\" disk --dir mnt --store none --quiet --json -";
    let (out, _) = with_code(&in_own_mounts(dir.path(), script, &[]), 4);
    let all = measurements(&out);
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|measurement| measurement["status"] == "skipped"), "{all:?}");
    let reasons: BTreeSet<String> = all.iter().map(|one| redacted(reason(one), dir.path())).collect();
    insta::assert_debug_snapshot!(reasons);
}

#[test]
fn a_device_that_fills_up_beneath_its_file_system_fails_the_case_with_its_place() {
    if !possible("thin device", &["unshare", "mkfs.ext4"]) {
        return;
    }
    let dir = scratch();
    // The image is larger than its memory file system: writing fails in the middle.
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
