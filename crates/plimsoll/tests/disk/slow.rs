//! Devices that are slow, fail in the middle, or lose their space while they are used.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use super::calls::{injected, traced};
use super::{Loop, consent, followed, in_own_mounts, measurements, names, on_device, run};
use crate::support::{
    Owned, children, interrupt, json, list, lossy, possible, reason, scratch, signal, skip, skipped, start,
    text, until, warns, with_code, without_numbers,
};

/// A compressed RAM disk that fails above a size; removed on drop.
pub(super) struct Zram(u32);

impl Zram {
    pub(super) fn new(size: &str, limit: &str) -> Option<Zram> {
        possible(&[])?;
        let added = std::fs::read_to_string("/sys/class/zram-control/hot_add");
        let Ok(number) = added else { return skip("this kernel has no zram") };
        let zram = Zram(number.trim().parse().unwrap());
        std::fs::write(zram.file("disksize"), size).unwrap();
        std::fs::write(zram.file("mem_limit"), limit).unwrap();
        // Without a device manager the node is made by hand.
        let number = std::fs::read_to_string(zram.file("dev")).unwrap();
        if !Path::new(&zram.device()).exists() {
            let (major, minor) = number.trim().split_once(':').unwrap();
            assert!(run("mknod", &[&zram.device(), "b", major, minor]));
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

#[test]
fn a_device_that_fails_in_the_middle_fails_the_case_with_its_offset() {
    let Some(zram) = Zram::new("64M", "16M") else { return };
    let how = "--op write --pattern random --block 4K --depth 8 --size 48M";
    let measurement = &measurements(&on_device(&format!("{how} {}", consent(&zram.device()))), 4)[0];
    assert_eq!((&measurement["status"], list(&measurement["metrics"]).len()), (&"failed".into(), 0));
    let reason = reason(measurement);
    assert!(reason.contains("write of 1 MiB at offset"), "{reason}");
    assert!(["os error 5", "os error 28"].iter().any(|part| reason.contains(part)), "{reason}");
}

#[test]
fn a_file_beneath_the_device_that_is_cut_while_it_runs_fails_the_case() {
    let Some(device) = Loop::new(16 << 20, &[]) else { return };
    let line = "disk --op read --pattern random --block 4K --depth 8 --samples 1000 --sample-time 20ms";
    let mut run = followed(line, &device.device, device.dir());
    run.until("sampled");
    std::fs::File::options().write(true).open(&device.image).unwrap().set_len(1 << 20).unwrap();
    let document = run.ended(4, "complete");
    insta::assert_snapshot!(without_numbers(reason(&document["measurements"][0])));
}

/// On each file system, on a loop device: figures, no hole, nothing left behind. Space is counted
/// after another mount, as the kernel frees io_uring's rings and XFS frees space later. The file
/// had 2048 blocks.
#[test]
fn small_ext4_xfs_and_btrfs_are_measured_and_left_as_they_were() {
    for maker in ["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"] {
        let Some(()) = possible(&["unshare", "losetup"]) else { return };
        let script = format!(
            "export PATH=$PATH:/usr/sbin:/sbin; command -v {maker} >/dev/null || exit 77; \
             truncate -s 1500M image; {maker} -q image >/dev/null 2>&1; mkdir mnt; mount -o loop image mnt || exit 78; \
             before=$(stat -f -c %f mnt); status=0; \
             \"$1\" disk --dir mnt --op read,write --pattern random --block 4K --depth 4 --size 8M --samples 2 \
             --sample-time 10ms --verify --store none --quiet --json - || status=$?; \
             for i in $(seq 100); do umount mnt 2>/dev/null && break; sleep 0.1; done; mount -o loop image mnt || exit 81; \
             [ \"$before\" -le \"$(($(stat -f -c %f mnt) + 256))\" ] || {{ echo before: $before >&2; stat -f mnt >&2; exit 79; }}; \
             [ -z \"$(ls mnt | grep -v lost+found)\" ] || exit 80; exit $status"
        );
        let output = in_own_mounts(scratch().path(), &script);
        match output.status.code() {
            Some(77) => skipped(&format!("{maker} on a loop device"), "its maker is not installed"),
            Some(78) => skipped(&format!("{maker} on a loop device"), "the kernel cannot mount it"),
            _ => {
                for measurement in measurements(&output, 0) {
                    assert_eq!(measurement["status"], "ok", "{maker}: {}", measurement["reason"]);
                    let achieved = &measurement["achieved"];
                    assert_eq!(achieved["file_system"], maker.trim_start_matches("mkfs."), "{achieved}");
                    assert!(text(&achieved["device"]).starts_with("loop"), "{achieved}");
                    let limit = &measurement["metrics"][0]["limit"];
                    assert!(reason(limit).starts_with("loop device loop"), "{limit}");
                }
            }
        }
    }
}

/// The document of a read in `mnt`, mounted by `mount` in a namespace; `None`, and a skipped test,
/// if it cannot be.
#[track_caller]
fn read_in(mount: &str) -> Option<serde_json::Value> {
    possible(&["unshare", "losetup", "mkfs.ext4"])?;
    let script = format!(
        "export PATH=$PATH:/usr/sbin:/sbin; mkdir mnt; {mount}\n status=0; \
         \"$1\" disk --dir mnt --only disk.io --op read --pattern sequential --block 1M --depth 4 --size 16M --samples 2 \
         --sample-time 10ms --store none --quiet --json - || status=$?; exit $status"
    );
    let output = in_own_mounts(scratch().path(), &script);
    match output.status.code() {
        Some(77) => skip("the maker of the file system is not installed"),
        Some(78) => skip("the kernel cannot mount it"),
        _ => Some(json(&with_code(&output, 0).0)),
    }
}

#[test]
fn both_devices_of_a_btrfs_are_named_and_counted() {
    let mount = "command -v mkfs.btrfs >/dev/null || exit 77; truncate -s 900M a b; \
                 A=$(losetup -f --show a); B=$(losetup -f --show b); \
                 trap 'umount mnt 2>/dev/null || :; losetup -d $A $B' EXIT; \
                 mkfs.btrfs -q -d raid0 -m raid0 $A $B >/dev/null 2>&1 || exit 78; mount $A mnt || exit 78";
    let Some(document) = read_in(mount) else { return };
    let members = list(&document["machine"]["storage"]["members"]);
    assert_eq!(members.len(), 2, "{members:?}");
    let achieved = &document["measurements"][0]["achieved"];
    let device = text(&achieved["device"]);
    assert!(members.iter().all(|member| device.contains(text(&member["name"]))), "{device}");
    // One of the two alone would have moved half.
    assert!(achieved["device_share"].as_f64().unwrap() > 0.9, "{achieved}");
}

#[test]
fn a_loop_device_on_a_file_in_memory_is_called_memory() {
    let mount = "mkdir memory; mount -t tmpfs -o size=1600M none memory; truncate -s 1500M memory/image; \
                 mkfs.ext4 -q memory/image; mount -o loop memory/image mnt || exit 78";
    let Some(document) = read_in(mount) else { return };
    assert_eq!(document["machine"]["storage"]["layers"][0]["medium"], "memory");
    assert!(warns(&document["measurements"][0], "memory-device"), "{document}");
}

#[test]
fn a_second_writer_that_takes_the_space_costs_one_case_and_the_space_comes_back() {
    let Some(()) = possible(&["unshare", "mkfs.ext4"]) else { return };
    // Appending allocates space; the other writer fills the rest after the first sample.
    let script = "truncate -s 1300M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; mkfifo events; \
                  (grep -m1 -q sampled; fallocate -l 1100M mnt/other; dd if=/dev/zero of=mnt/more bs=1M 2>/dev/null; cat >/dev/null) \
                  <events & status=0; \
                  \"$1\" disk --dir mnt --op append --block 1M --depth 4 --size 64M --samples 400 --sample-time 20ms \
                  --store none --quiet --json - --events events || status=$?; \
                  wait; rm -f mnt/other mnt/more; [ \"$(ls mnt)\" = lost+found ] || exit 80; \
                  [ \"$(stat -f -c %f mnt)\" -ge 290000 ] || { stat -f mnt >&2; exit 79; }; exit $status";
    let measurement = &measurements(&in_own_mounts(scratch().path(), script), 4)[0];
    assert_eq!(measurement["status"], "failed");
    let reason = reason(measurement);
    // Seen between two samples, or by a write that finds no space.
    assert!(["os error 28", "another program fills"].iter().any(|part| reason.contains(part)), "{reason}");
}

/// Every write takes half a second, so 64 MiB would take minutes: the budget ends the filling.
#[test]
fn a_budget_ends_the_filling_of_a_file_on_a_slow_device() {
    let Some(()) = possible(&["strace"]) else { return };
    let dir = scratch();
    let line = "disk --op read --pattern random --block 4K --depth 1 --size 64M --budget 2s --store none \
                --quiet --json -";
    let delayed = ["io_uring_setup:error=ENOSYS", "pwritev2,pwrite64:delay_enter=500000"];
    let output = injected(dir.path(), "pwritev2,pwrite64,io_uring_setup", &delayed, line);
    let measurement = &json(&lossy(&output.stdout))["measurements"][0];
    assert_eq!(measurement["status"], "skipped", "{measurement}");
    let reason = reason(measurement);
    assert!(reason.starts_with("the budget ended while the test file was being filled"), "{reason}");
    assert!(reason.ends_with("use a smaller --size or a larger --budget"), "{reason}");
    assert_eq!(names(dir.path()), 0);
}

#[test]
fn a_device_that_hangs_does_not_hold_an_interrupt() {
    let Some(()) = possible(&["strace"]) else { return };
    let dir = scratch();
    let line = "disk --op read --pattern random --block 4K --size 8M --engine psync --samples 1000 \
                --sample-time 10ms --store none --quiet --json -";
    let delayed = ["io_uring_setup:error=ENOSYS", "pread64:delay_enter=30000000:when=200+"];
    let mut strace = traced(dir.path(), "/dev/null", "pread64,io_uring_setup", &delayed, line);
    let mut child = Owned(start(&mut strace));
    // strace starts plimsoll, plimsoll its worker; the load's thread is the one that is held.
    let mut found = None;
    let parent = || children(child.0.id()).into_iter().find(|pid| !children(*pid).is_empty());
    until("a worker of plimsoll's", || parent().inspect(|pid| found = Some(*pid)).is_some());
    signal(found.unwrap(), interrupt());
    let mut out = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130), "{out}");
    assert_eq!(json(&out)["status"], "partial");
    assert_eq!(names(dir.path()), 0);
}
