//! Block devices as targets: refusals change no byte, permitted operations work.

use std::path::Path;

use super::{
    Loop, Mounted, TRANSFERS, claimed, consent, destroying, holding, in_own_mounts, made_ext4, measurements,
    mounted_elsewhere, on_device, one_line, run, set_free,
};
use crate::support::{
    command, list, median, possible, reason, short_of_cpu, skip, skipped, text, until, with_code,
};

pub(super) const SIZE: u64 = 32 << 20;

#[track_caller]
fn all_ok(line: &str) {
    for measurement in measurements(&on_device(line), 0) {
        assert_eq!(measurement["status"], "ok", "{measurement}");
    }
}

#[test]
fn a_mounted_device_is_refused_by_its_mount_point_and_stays_as_it_is() {
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    assert!(made_ext4(&device.device));
    let mounted = Mounted::new(&device.device, device.dir());
    std::fs::write(mounted.0.join("file"), "precious").unwrap();
    assert!(run("sync", &["-f", mounted.0.to_str().unwrap()]));
    device.refused(&["is mounted on", "/mnt"]);
    // A link to it is the same device.
    let link = device.dir().join("by-id");
    std::os::unix::fs::symlink(&device.device, &link).unwrap();
    let (before, link) = (device.bytes(), link.display());
    let ran = on_device(&format!("--target {link} --destroy-data-on {link}:{SIZE} --op write --size 8M"));
    one_line(&ran, 3, &["by-id is mounted on", "/mnt"]);
    assert!(device.bytes() == before);
    // Reading is allowed.
    all_ok(&format!("--target {} --op read --block 4K", device.device));
    drop(mounted);
    device.refused(&["holds ext4", "without data"]);
}

#[test]
fn a_device_mounted_in_another_namespace_is_refused_by_its_mount_point_also_through_its_file() {
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    let Some(()) = possible(&["unshare", "mkfs.ext4"]) else { return };
    assert!(run("mkfs.ext4", &["-q", &device.device]));
    let (mut holder, process) = mounted_elsewhere(&device.device, &device.dir().join("mnt"));
    device.refused(&["is mounted on", &process]);
    for on in [&device.image, Path::new(&device.device)] {
        let second = Loop::on(on, &["--offset", "16M"]).unwrap();
        super::refused(&second.device, &device.image, &["reads from", "is mounted on", &process]);
    }
    drop(holder.0.stdin.take());
    holder.0.wait().unwrap();
    // An exclusive open sees any other claim. A namespace outlives its last process while its mount
    // table is being read, such as by another test.
    let mut claim = None;
    until("the end of a mount", || claimed(&device.device).map(|file| claim = Some(file)).is_ok());
    assert!(run("wipefs", &["-a", "-f", &device.device]));
    device.refused(&["EBUSY", "namespace"]);
    drop(claim);
}

#[test]
fn a_device_is_trimmed_with_consent_and_mapped_without() {
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    let name = device.device.as_str();
    let before = device.bytes();
    let mapped = "--engine mmap --cache buffered --block 4K";
    all_ok(&format!("--target {name} {mapped} --op read"));
    one_line(&on_device(&format!("--target {name} --op trim")), 3, &["--destroy-data-on"]);
    assert!(device.bytes() == before, "it was only to be read");
    let consent = consent(name);
    let limits = format!("/sys/block/{}/queue/discard_max_bytes", device.name());
    if std::fs::read_to_string(&limits).is_ok_and(|most| most.trim() != "0") {
        // Trimmed blocks are filled again before they are read.
        all_ok(&format!("{consent} --op trim,read --block 64K --threads 2 --size 8M"));
        let granularity = limits.replace("max_bytes", "granularity");
        if std::fs::read_to_string(granularity).is_ok_and(|bytes| bytes.trim() != "512") {
            let ran = on_device(&format!("{consent} --op trim --block 512 --size 8M"));
            assert!(with_code(&ran, 4).0.contains("discard_granularity"));
        }
    } else {
        skipped("trims of a device", "its file system punches no holes");
    }
    all_ok(&format!("{consent} {mapped} --op write --size 8M"));
    assert!(with_code(&on_device(&format!("{consent} --op append")), 4).0.contains("use --dir"));
}

#[test]
fn who_holds_a_device_or_the_file_behind_it_open_without_a_claim_is_named() {
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    for (open, lead) in [(Path::new(&device.device), ""), (&device.image, "image, which is ")] {
        let open = std::fs::File::options().read(true).write(true).open(open).unwrap();
        let (_holder, process) = holding(open);
        device.refused(&[&format!("{lead}{process}"), "Choose another device"]);
        // Reading is allowed.
        with_code(&on_device(&format!("--target {} --op read --block 4K", device.device)), 0);
    }
    set_free(|| destroying(&device.device));
}

#[test]
fn each_mark_and_user_of_a_device_is_named() {
    let Some(device) = Loop::new(SIZE, &["--partscan"]) else { return };
    let name = device.device.as_str();
    let mut missing = Vec::new();
    for (maker, says) in [("mkfs.xfs -q -f", "xfs"), ("mkswap", "swap"), ("mkfs.ext4 -q -F", "ext4")] {
        let words: Vec<&str> = maker.split(' ').chain([name]).collect();
        // A small xfs is refused by its maker; then there is nothing to find.
        if run(words[0], &words[1..]) {
            device.refused(&[says, "without data"]);
        } else {
            missing.push(maker);
        }
        assert!(run("wipefs", &["-a", name]));
    }
    assert!(missing.len() < 3, "{missing:?}");
    assert!(run("mkswap", &[name]));
    if run("swapon", &[name]) {
        // The kernel may swap to it behind the header.
        let header = || device.bytes()[..4096].to_vec();
        let before = header();
        one_line(&destroying(name), 3, &["is in use as swap"]);
        assert!(run("swapoff", &[name]));
        assert!(header() == before);
    } else {
        skipped("a device in use as swap", "swapon is refused");
    }
    assert!(run("wipefs", &["-a", name]));
    if let Some(_second) = Loop::on(Path::new(name), &[]) {
        device.refused(&["is what loop", "reads from"]);
    }
    if run("sh", &["-c", "printf 'label: gpt\\n,,\\n' | sfdisk -q \"$1\"", "sh", name]) {
        let first = format!("{0}/{0}p1", name.trim_start_matches("/dev/"));
        if Path::new("/sys/block").join(first).exists() {
            device.refused(&["has partitions: loop"]);
        } else {
            skipped("a device whose partitions the kernel knows", "this kernel reads no GPT");
            device.refused(&["a partition table of type gpt"]);
        }
    } else {
        skipped("a device with partitions", "no sfdisk");
    }
    skipped("a device held by device mapper or RAID", "tested on saved trees; needs a kernel with dm or md");
}

/// Without blkid unknown data is refused, and a device that is empty at both ends is not.
#[test]
fn without_blkid_only_an_empty_device_is_written_to() {
    let Some(()) = possible(&["unshare"]) else { return };
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    let hidden = "for path in /usr/sbin/blkid /sbin/blkid /usr/bin/blkid /bin/blkid; do \
                  if [ -x $path ]; then mount --bind /dev/null $path; fi; done; exec \"$1\"";
    let script = format!("{hidden} {TRANSFERS} --op write --size 8M {}", consent(&device.device));
    let without_blkid = || in_own_mounts(device.dir(), &script);
    let write = |bytes: &[u8], place| {
        let file = std::fs::File::options().write(true).open(&device.device).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, place).unwrap();
    };
    for place in [0, 3 << 20, SIZE - 512] {
        write(b"precious", place);
        let before = device.bytes();
        one_line(&without_blkid(), 3, &["holds data of an unknown format", "blkid", "nothing was written"]);
        assert!(device.bytes() == before, "the refused device was written to");
        write(&[0; 8], place);
    }
    set_free(without_blkid);
}

#[test]
fn consent_is_for_one_device_and_its_serial() {
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    let name = device.device.as_str();
    let before = device.bytes();
    let with = |consent: &str| on_device(&format!("--target {name} --destroy-data-on {consent} --op write"));
    one_line(&with(&format!("{name}:12345")), 3, &["must have the size in bytes", "12345", "lsblk"]);
    one_line(&with(&format!("/dev/null:{SIZE}")), 3, &["/dev/null", "same device"]);
    let target = format!("--target {name}");
    one_line(&on_device(&format!("{target} --op write")), 3, &["--destroy-data-on=", "destroy"]);
    // Without an operation the reads run, and the writes give the reason for being skipped.
    let all = measurements(&on_device(&target), 0);
    assert_eq!(all.iter().filter(|m| m["status"] == "ok").count(), 3);
    let skipped = all.iter().find(|m| m["status"] == "skipped").unwrap();
    assert_eq!(skipped["cause"], "unsafe", "{skipped}");
    assert!(device.bytes() == before, "what was only read has changed");
}

#[test]
fn with_consent_a_device_is_filled_written_and_verified() {
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    let before = device.bytes();
    let line = format!("{} --op read,write --block 4K --depth 4 --verify", consent(&device.device));
    for measurement in measurements(&on_device(&line), 0) {
        assert_eq!(measurement["status"], "ok", "{}", measurement["reason"]);
        let achieved = &measurement["achieved"];
        assert_eq!(achieved["file_system"], "block device");
        assert_eq!(text(&achieved["device"]).split(' ').next(), Some(device.name()));
    }
    assert!(device.bytes() != before);
    // It left no mark that would refuse the next run.
    set_free(|| destroying(&device.device));
    let large = on_device(&format!("--target {} --op read --size 1G", device.device));
    let reason = reason(&measurements(&large, 4)[0]).replace(&device.device, "DEVICE");
    insta::assert_snapshot!("more_than_a_device_has", reason);
}

/// Reads that a device finished, and their milliseconds (Linux, Documentation/block/stat.rst).
fn reads(device: &Loop) -> [f64; 2] {
    let text = std::fs::read_to_string(format!("/sys/block/{}/stat", device.name())).unwrap();
    let fields: Vec<f64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
    [fields[0], fields[3]]
}

/// Seconds: the metric `await`, the device's own count over the run, and `latency`. `None` if the
/// device had other requests, as there is then no `await`.
fn times_of_a_request(device: &Loop) -> Option<[f64; 3]> {
    let before = reads(device);
    let line = "disk --only disk.io --op read --pattern random --block 4K --depth 8 --samples 5 \
                --sample-time 100ms --store none --quiet --json - --target";
    let output = command(line).arg(&device.device).output().unwrap();
    let after = reads(device);
    let measurement = &measurements(&output, 0)[0];
    list(&measurement["metrics"]).iter().find(|metric| metric["name"] == "await")?;
    let whole = (after[1] - before[1]) * 1e-3 / (after[0] - before[0]);
    Some([median(measurement, "await"), whole, median(measurement, "latency")])
}

#[test]
fn the_time_of_a_request_is_what_the_counters_of_the_device_say() {
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    // The device also counts the warm-up, and other load makes samples differ.
    let agree = |&[each, whole, time]: &[f64; 3]| (0.3..3.0).contains(&(each / whole)) && each < time * 1.1;
    let mut taken: Vec<[f64; 3]> = Vec::new();
    for _ in 0..15 {
        taken.extend(times_of_a_request(&device));
        if taken.last().is_some_and(agree) {
            break;
        }
    }
    if taken.is_empty() {
        return skip("no run had the device for itself");
    }
    if !taken.iter().any(agree) && short_of_cpu() {
        return skip("other processes leave too little CPU time");
    }
    assert!(taken.iter().any(agree), "await, of the device's counters, latency: {taken:?}");
}

#[test]
fn sectors_of_4_kib_refuse_smaller_blocks_by_name() {
    let Some(device) = Loop::new(SIZE, &["--sector-size", "4096"]) else { return };
    let all = measurements(&on_device(&format!("{} --op write --block 512,4K", consent(&device.device))), 0);
    assert_eq!(all[0]["status"], "skipped");
    insta::assert_snapshot!(reason(&all[0]).replace(&device.device, "DEVICE"));
    assert_eq!(all[1]["status"], "ok", "{}", all[1]["reason"]);
}

#[test]
fn a_device_that_is_read_only_is_not_written_to() {
    let Some(device) = Loop::new(SIZE, &["--read-only"]) else { return };
    one_line(&destroying(&device.device), 3, &["read-only"]);
    with_code(&on_device(&format!("--target {} --op read", device.device)), 0);
    let fsync = "disk --only disk.fsync --store none --quiet --json - --target";
    let fsync = command(fsync).arg(&device.device).output().unwrap();
    let reason = reason(&measurements(&fsync, 4)[0]).replace(&device.device, "DEVICE");
    insta::assert_snapshot!("commits_on_a_device", reason);
}
