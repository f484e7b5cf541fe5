//! Killed in the middle: neither a file nor its space stays behind.

use std::os::unix::fs::MetadataExt;

use rustix::process::Signal;

use super::{in_own_mounts, names, possible};
use crate::support::{Running, command, gone, scratch, skip, with_code};

#[test]
fn killed_in_mid_run_nothing_stays_behind() {
    ["buffered", "direct"].into_iter().for_each(killed);
}

fn killed(cache: &str) {
    let dir = scratch();
    let how = "--pattern random --block 4K --depth 4 --size 8M --quiet --samples 1000 --sample-time 20ms";
    let mut run = Running::start(&mut command(&format!("disk --op write --cache {cache} {how}")), dir.path());
    let mut sampled = 0;
    while sampled < 3 {
        let event = run.next_event().expect("the run ended before it was sampled three times");
        if cache == "direct" && event["event"] == "skipped" {
            return skip(&event.to_string());
        }
        sampled += u32::from(event["event"] == "sampled");
    }
    let worker = run.workers()[0];
    // While it runs, its file is there and has no name.
    let descriptors = std::fs::read_dir(format!("/proc/{worker}/fd")).unwrap();
    let files = descriptors.filter_map(|fd| fd.ok()?.path().metadata().ok());
    let unlinked = files.filter(|m| m.is_file() && m.nlink() == 0);
    assert!(unlinked.count() >= 1);
    assert_eq!(names(dir.path()), 0);
    run.signal(Signal::KILL);
    assert_eq!(run.end().0, None);
    // The worker goes with its parent, and the file with the worker.
    gone(worker);
    assert_eq!(names(dir.path()), 0);
}

/// Killed at many system calls of a run: no file name or space is left, and the next run works.
/// strace waits for all processes, so the worker has ended too; the kernel releases the files of a
/// dead ring a moment later.
#[test]
fn killed_at_any_moment_neither_a_name_nor_space_stays() {
    let Some(()) = possible(&["unshare", "mkfs.ext4", "strace"]) else { return };
    let script = "truncate -s 1300M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; sync -f mnt; \
        free() { sync -f mnt; stat -f -c %f mnt; }; before=$(free); kills=0; \
        run() { \"$@\" \"$PLIMSOLL\" disk --dir mnt --op read,write --pattern random --block 4K --depth 4 --size 8M \
                --samples 2 --sample-time 5ms --store none --quiet >out 2>err; }; \
        for call in openat:40 openat:90 openat:140 statfs:2 fallocate:1 ftruncate:1 lseek:1 fdatasync:1 \
                    io_uring_setup:1 io_uring_register:1 io_uring_enter:1 io_uring_enter:5 io_uring_enter:40 \
                    io_uring_enter:200 write:3 write:8 write:12; do \
            status=0; run strace -f -qq -o /dev/null -e trace=${call%:*} \
                -e inject=${call%:*}:signal=KILL:when=${call#*:} || status=$?; \
            [ $status = 0 ] || kills=$((kills + 1)); \
            [ \"$(ls mnt)\" = lost+found ] || { ls mnt >&2; echo \"$call left a name\" >&2; exit 80; }; \
            for try in $(seq 100); do now=$(free); [ $((now + 64)) -ge $before ] && break; done; \
            [ $((now + 64)) -ge $before ] || { echo \"$call left $((before - now)) blocks\" >&2; exit 79; }; \
        done; [ $kills -ge 8 ] || { echo \"only $kills of them hit\" >&2; exit 78; }; run env";
    let script = format!("PLIMSOLL=$1; {script}");
    let (out, err) = with_code(&in_own_mounts(scratch().path(), &script), 0);
    assert_eq!((out.as_str(), err.as_str()), ("", ""));
}
