//! Devices that are slow, fail in the middle, or lose their space while they are used.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};

use super::{Loop, PROGRAM, Told, in_own_mounts, measurements, names, possible, with_code};
use crate::support::{interrupt, scratch, skipped, until, without_numbers};

/// A compressed RAM disk that fails above a size; removed on drop.
pub(super) struct Zram(u32);

impl Zram {
    pub(super) fn new(test: &str, size: &str, limit: &str) -> Option<Zram> {
        if !possible(test, &[]) {
            return None;
        }
        let Ok(number) = std::fs::read_to_string("/sys/class/zram-control/hot_add") else {
            skipped(test, "this kernel has no zram");
            return None;
        };
        let zram = Zram(number.trim().parse().unwrap());
        let set = |file: &str, value: &str| std::fs::write(zram.file(file), value);
        set("disksize", size).unwrap();
        set("mem_limit", limit).unwrap();
        // Without a device manager the node is made by hand.
        let number = std::fs::read_to_string(zram.file("dev")).unwrap();
        if !Path::new(&zram.device()).exists() {
            let (major, minor) = number.trim().split_once(':').unwrap();
            let made = Command::new("mknod").args([&zram.device(), "b", major, minor]).status().unwrap();
            assert!(made.success());
        }
        Some(zram)
    }

    pub(super) fn device(&self) -> String {
        format!("/dev/zram{}", self.0)
    }

    fn file(&self, name: &str) -> String {
        format!("/sys/block/zram{}/{name}", self.0)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = std::fs::write(self.file("reset"), "1");
        // It stays as long as it is open.
        let begun = Instant::now();
        while std::fs::write("/sys/class/zram-control/hot_remove", self.0.to_string()).is_err()
            && begun.elapsed() < Duration::from_secs(5)
        {
            std::thread::park_timeout(Duration::from_millis(2));
            let _ = std::fs::write(self.file("reset"), "1");
        }
        let _ = std::fs::remove_file(self.device());
    }
}

fn destroying(device: &str, size: u64, more: &[&str]) -> Output {
    Command::new(PROGRAM)
        .args(["disk", "--op", "write", "--pattern", "random", "--block", "4K", "--depth", "8"])
        .args(["--samples", "2", "--sample-time", "20ms", "--store", "none", "--quiet", "--json", "-"])
        .args(["--target", device, "--destroy-data-on", &format!("{device}:{size}")])
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn a_device_that_fails_in_the_middle_fails_the_case_with_its_offset() {
    let Some(zram) = Zram::new("a device that fails in the middle", "64M", "16M") else { return };
    let output = destroying(&zram.device(), 64 << 20, &["--size", "48M"]);
    let (out, _) = with_code(&output, 4);
    let measurement = &measurements(&out)[0];
    assert_eq!(
        (&measurement["status"], measurement["metrics"].as_array().unwrap().len()),
        (&"failed".into(), 0)
    );
    let reason = measurement["reason"].as_str().unwrap();
    assert!(reason.contains("write of 1 MiB at offset"), "{reason}");
    assert!(reason.contains("os error 5") || reason.contains("os error 28"), "{reason}");
}

#[test]
fn a_file_beneath_the_device_that_is_cut_while_it_runs_fails_the_case() {
    const SIZE: u64 = 16 << 20;
    let dir = scratch();
    let Some(device) = Loop::new("a device cut while it runs", dir.path(), SIZE, &[]) else { return };
    let mut run = Told::new(
        &["disk", "--op", "read", "--pattern", "random", "--block", "4K", "--depth", "8"],
        &["--samples", "1000", "--sample-time", "20ms"],
        (&device.device, SIZE),
        dir.path(),
    );
    run.until_sampled();
    std::fs::File::options().write(true).open(&device.image).unwrap().set_len(1 << 20).unwrap();
    run.until_it_ends();
    let (code, out) = run.document();
    assert_eq!(code, Some(4));
    let reason = measurements(&out)[0]["reason"].as_str().unwrap().to_owned();
    insta::assert_snapshot!(without_numbers(&reason));
}

/// On each file system, on a loop device: figures, no hole, nothing left behind. Space is counted
/// after another mount, as the kernel frees io_uring's rings and XFS frees space later. The file
/// had 2048 blocks.
#[test]
fn small_ext4_xfs_and_btrfs_are_measured_and_left_as_they_were() {
    for (maker, options) in [("mkfs.ext4", "-q"), ("mkfs.xfs", "-q"), ("mkfs.btrfs", "-q")] {
        if !possible(maker, &["unshare", "losetup"]) {
            return;
        }
        let dir = scratch();
        let script = format!(
            "export PATH=$PATH:/usr/sbin:/sbin; command -v {maker} >/dev/null || exit 77; \
             truncate -s 1500M image; {maker} {options} image >/dev/null 2>&1; mkdir mnt; mount -o loop image mnt || exit 78; \
             before=$(stat -f -c %f mnt); status=0; \
             \"$1\" disk --dir mnt --op read,write --pattern random --block 4K --depth 4 --size 8M --samples 2 \
             --sample-time 10ms --verify --store none --quiet --json - || status=$?; \
             for i in $(seq 100); do umount mnt 2>/dev/null && break; sleep 0.1; done; mount -o loop image mnt || exit 81; \
             [ \"$before\" -le \"$(($(stat -f -c %f mnt) + 256))\" ] || {{ echo before: $before >&2; stat -f mnt >&2; exit 79; }}; \
             [ -z \"$(ls mnt | grep -v lost+found)\" ] || exit 80; exit $status"
        );
        let output = in_own_mounts(dir.path(), &script, &[]);
        match output.status.code() {
            Some(77) => skipped(&format!("{maker} on a loop device"), "its maker is not installed"),
            Some(78) => skipped(&format!("{maker} on a loop device"), "the kernel cannot mount it"),
            _ => {
                let (out, _) = with_code(&output, 0);
                for measurement in measurements(&out) {
                    assert_eq!(measurement["status"], "ok", "{maker}: {}", measurement["reason"]);
                    let achieved = &measurement["achieved"];
                    assert_eq!(achieved["file_system"], maker.trim_start_matches("mkfs."), "{achieved}");
                    assert!(achieved["device"].as_str().unwrap().starts_with("loop"), "{achieved}");
                    let limit = &measurement["metrics"][0]["limit"];
                    assert!(limit["reason"].as_str().unwrap().starts_with("loop device loop"), "{limit}");
                }
            }
        }
    }
}

/// The document of a read in `mnt`, mounted by `mount` in a namespace; `None` if it cannot be.
fn read_in(test: &str, mount: &str) -> Option<serde_json::Value> {
    let dir = scratch();
    let script = format!(
        "export PATH=$PATH:/usr/sbin:/sbin; mkdir mnt; {mount}\n status=0; \
         \"$1\" disk --dir mnt --only disk.io --op read --pattern sequential --block 1M --depth 4 --size 16M --samples 2 \
         --sample-time 10ms --store none --quiet --json - || status=$?; exit $status"
    );
    let output = in_own_mounts(dir.path(), &script, &[]);
    match output.status.code() {
        Some(77) => skipped(test, "the maker of the file system is not installed"),
        Some(78) => skipped(test, "the kernel cannot mount it"),
        _ => return serde_json::from_str(&with_code(&output, 0).0).ok(),
    }
    None
}

#[test]
fn both_devices_of_a_btrfs_are_named_and_counted() {
    const TEST: &str = "btrfs on two loop devices";
    if !possible(TEST, &["unshare", "losetup"]) {
        return;
    }
    let mount = "command -v mkfs.btrfs >/dev/null || exit 77; truncate -s 900M a b; \
                 A=$(losetup -f --show a); B=$(losetup -f --show b); \
                 trap 'umount mnt 2>/dev/null || :; losetup -d $A $B' EXIT; \
                 mkfs.btrfs -q -d raid0 -m raid0 $A $B >/dev/null 2>&1 || exit 78; mount $A mnt || exit 78";
    let Some(document) = read_in(TEST, mount) else { return };
    let members = document["machine"]["storage"]["members"].as_array().unwrap();
    assert_eq!(members.len(), 2, "{members:?}");
    let achieved = &document["measurements"][0]["achieved"];
    let device = achieved["device"].as_str().unwrap();
    assert!(members.iter().all(|member| device.contains(member["name"].as_str().unwrap())), "{device}");
    // One of the two alone would have moved half.
    assert!(achieved["device_share"].as_f64().unwrap() > 0.9, "{achieved}");
}

#[test]
fn a_loop_device_on_a_file_in_memory_is_called_memory() {
    const TEST: &str = "a loop device on tmpfs";
    if !possible(TEST, &["unshare", "losetup", "mkfs.ext4"]) {
        return;
    }
    let mount = "mkdir memory; mount -t tmpfs -o size=1600M none memory; truncate -s 1500M memory/image; \
                 mkfs.ext4 -q memory/image; mount -o loop memory/image mnt || exit 78";
    let Some(document) = read_in(TEST, mount) else { return };
    assert_eq!(document["machine"]["storage"]["layers"][0]["medium"], "memory");
    let warnings = document["measurements"][0]["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "memory-device"), "{warnings:?}");
}

#[test]
fn a_second_writer_that_takes_the_space_costs_one_case_and_the_space_comes_back() {
    if !possible("space taken while it runs", &["unshare", "mkfs.ext4"]) {
        return;
    }
    let dir = scratch();
    // Appending allocates space; the other writer fills the rest after the first sample.
    let script = "truncate -s 1300M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; mkfifo events; \
                  (grep -m1 -q sampled; fallocate -l 1100M mnt/other; dd if=/dev/zero of=mnt/more bs=1M 2>/dev/null; cat >/dev/null) \
                  <events & status=0; \
                  \"$1\" disk --dir mnt --op append --block 1M --depth 4 --size 64M --samples 400 --sample-time 20ms \
                  --store none --quiet --json - --events events || status=$?; \
                  wait; rm -f mnt/other mnt/more; [ \"$(ls mnt)\" = lost+found ] || exit 80; \
                  [ \"$(stat -f -c %f mnt)\" -ge 290000 ] || { stat -f mnt >&2; exit 79; }; exit $status";
    let (out, _) = with_code(&in_own_mounts(dir.path(), script, &[]), 4);
    let measurement = &measurements(&out)[0];
    assert_eq!(measurement["status"], "failed");
    let reason = measurement["reason"].as_str().unwrap();
    // Seen between two samples, or by a write that finds no space.
    assert!(reason.contains("os error 28") || reason.contains("another program fills"), "{reason}");
    assert!(reason.contains("--dir"), "{reason}");
}

/// Every write takes half a second, so 64 MiB would take minutes: the budget ends the filling.
#[test]
fn a_budget_ends_the_filling_of_a_file_on_a_slow_device() {
    if !possible("a budget on a slow device", &["strace"]) {
        return;
    }
    let dir = scratch();
    let output = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "trace=pwritev2,pwrite64,io_uring_setup"])
        .args(["-e", "inject=io_uring_setup:error=ENOSYS"])
        .args(["-e", "inject=pwritev2,pwrite64:delay_enter=500000"])
        .arg(PROGRAM)
        .args("disk --op read --pattern random --block 4K --depth 1 --size 64M".split(' '))
        .args(["--budget", "2s", "--store", "none", "--quiet", "--json", "-"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let measurement = &measurements(&out)[0];
    assert_eq!(measurement["status"], "skipped", "{measurement}");
    let reason = measurement["reason"].as_str().unwrap();
    assert!(reason.starts_with("the budget ended while the test file was being filled"), "{reason}");
    assert!(reason.ends_with("use a smaller --size or a larger --budget"), "{reason}");
    assert_eq!(names(dir.path()), 0);
}

/// Runs plimsoll with every data call delayed, and interrupts it.
#[test]
fn a_device_that_hangs_does_not_hold_an_interrupt() {
    if !possible("a device that hangs", &["strace"]) {
        return;
    }
    let dir = scratch();
    let child = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "trace=pread64,io_uring_setup"])
        .args(
            "-e inject=io_uring_setup:error=ENOSYS -e inject=pread64:delay_enter=30000000:when=200+"
                .split(' '),
        )
        .arg(PROGRAM)
        .args("disk --op read --pattern random --block 4K --size 8M --engine psync".split(' '))
        .args(["--samples", "1000", "--sample-time", "10ms", "--store", "none", "--quiet", "--json", "-"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let tracer = child.0.id();
    // strace starts plimsoll, plimsoll its worker; the load's thread is the one that is held.
    let children = |pid: u32| {
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let mut plimsoll = None;
    until("a worker of plimsoll's", || {
        plimsoll = children(tracer).into_iter().find(|pid| !children(*pid).is_empty());
        plimsoll.is_some()
    });
    kill_process(Pid::from_raw(plimsoll.unwrap().cast_signed()).unwrap(), interrupt()).unwrap();
    let mut out = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130), "{out}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["status"], "partial");
    assert_eq!(names(dir.path()), 0);
}

/// Ends what outlives its test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
