//! Synthetic storage results, one fault each, on a machine with rotating disks, btrfs, ZFS and NFS.

use super::*;

fn text(file: &str) -> String {
    super::text("storage", file)
}

fn checked(text: &str) -> Vec<Checked> {
    Saved::unpack("host.tree").check_all(text).into_iter().map(Result::unwrap).collect()
}

/// Returns causes and reasons of all rows, of which none is fine.
fn judged(text: &str) -> Vec<(Option<ImpossibleCause>, String)> {
    let rows: Vec<_> = checked(text).into_iter().flat_map(|checked| checked.rows).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.verdict != Plausibility::Fine), "{rows:#?}");
    rows.into_iter().map(|row| (row.cause, row.reason)).collect()
}

fn assert_cause(text: &str, cause: ImpossibleCause) {
    let rows = judged(text);
    assert!(rows.iter().all(|(found, _)| *found == Some(cause)), "{rows:#?}");
}

fn assert_unjudged(text: &str, part: &str) {
    let rows = judged(text);
    assert!(rows.iter().all(|(found, _)| found.is_none()), "{rows:#?}");
    assert!(rows.iter().any(|(_, reason)| reason.contains(part)), "{rows:#?}");
}

#[test]
fn a_path_below_dev_that_is_absent_is_a_device_of_another_machine() {
    for file in ["device-path-by-id.json", "device-path-lvm.json"] {
        assert_unjudged(&text(file), "which this machine does not have");
    }
    for path in ["mapper/vg-lv", "zvol/tank/v", "drbd/by-res/r0/0", "md/data", "disk/by-path/x"] {
        let other = text("device-path-lvm.json").replace("/dev/vg0/data", &format!("/dev/{path}"));
        assert_unjudged(&other, "which this machine does not have");
    }
    let shared = text("device-path-lvm.json").replace("/dev/vg0/data", "/dev/shm/f");
    assert_cause(&shared, ImpossibleCause::Memory);
    let windows = text("device-path-lvm.json").replace("/dev/vg0/data", "\\\\\\\\.\\\\PhysicalDrive1");
    assert_unjudged(&windows, "Windows");
}

#[test]
fn both_documents_of_a_file_are_judged() {
    let found = checked(&text("two-documents.json"));
    let counts: Vec<_> = found.iter().map(|checked| checked.count(Plausibility::Impossible) > 0).collect();
    assert_eq!(counts, [true, false]);
    assert!(found[1].passes());
}

#[test]
fn what_a_rotating_disk_cannot_do_is_not_fine() {
    assert_unjudged(&text("rotating-random-read.json"), "half a turn");
    assert_unjudged(&text("rotating-qd1-20us.json"), "half a turn");
    assert_unjudged(&text("rotating-buffered-random.json"), "rotating disk");
    // Sequential writes that each wait for the disk.
    let synced = text("btrfs-compress-mount.json")
        .replace("/zpool2/f", "/srv/f")
        .replace("\"direct\": \"1\"", "\"fsync\": \"1\"")
        .replace("\"iodepth\": \"32\"", "\"iodepth\": \"1\"");
    let rows = judged(&synced);
    let is_bound = |reason: &str| reason.contains("wait for the disk") || reason.contains("link");
    assert!(rows.iter().any(|(_, reason)| is_bound(reason)), "{rows:#?}");
}

#[test]
fn what_a_cache_or_a_hole_answered_is_named_without_counts_of_the_disk() {
    assert_cause(&text("direct-qd1-no-disk-util.json"), ImpossibleCause::Unwritten);
    assert_cause(&text("nfs-direct-qd1.json"), ImpossibleCause::Memory);
    assert_cause(&text("nvme-buffered-qd1.json"), ImpossibleCause::PageCache);
    let on = |path: &str| text("nfs-direct-qd1.json").replace("/nfs/f", path);
    assert_cause(&on("/tank/f"), ImpossibleCause::PageCache);
    // Slower than memory, but above the only link.
    let slow = |mean: &str| on("/nfs/f").replace("1404.0", mean).replace("1560.0", mean);
    assert_cause(&slow("9000.0"), ImpossibleCause::Memory);
}

#[test]
fn the_options_and_devices_of_a_mount_are_named() {
    let rows = judged(&text("btrfs-compress-mount.json"));
    let first = &rows[0];
    assert!(first.0 == Some(ImpossibleCause::Compressed) && first.1.contains("compress=zstd:3"), "{rows:#?}");
    assert_unjudged(&text("btrfs-two-devices.json"), "more devices");
}

#[test]
fn a_latency_that_contradicts_its_rate_names_both() {
    for file in ["latency-message.json", "latency-times-rate-group-reporting.json"] {
        let found = checked(&text(file)).remove(0);
        assert!(!found.passes());
        let row = found.rows.iter().find(|row| row.contradicts_itself).unwrap();
        assert!(row.reason.contains("= 320 transfers") && row.reason.contains("allow 32"), "{}", row.reason);
    }
}

#[test]
fn many_jobs_are_refused_before_they_are_judged() {
    let job = r#"{"jobname":"x","read":{"iops":1e5,"bw_bytes":4e8,"runtime":1000,"total_ios":100000}}"#;
    let text = format!("{{\"fio version\":\"fio-3.33\",\"jobs\":[{}]}}", vec![job; 200_000].join(","));
    let results = read_all(&text, None);
    assert!(results[0].as_ref().unwrap_err().contains("more than 10000 figures"));
}

#[test]
fn counts_and_times_that_no_job_has_are_impossible() {
    let sound = text("one-disk.json");
    assert!(checked(&sound)[0].rows.iter().all(|row| row.verdict != Plausibility::Impossible));
    for (from, to, rows) in [
        ("\"io_bytes\": 24576000", "\"io_bytes\": -100", 3),
        ("\"runtime\": 30000,", "\"runtime\": -30000,", 3),
        ("\"total_ios\": 6000", "\"total_ios\": -6000", 3),
        ("\"iops\": 200", "\"iops\": nan", 3),
        ("\"mean\": 160002000.0", "\"mean\": -5", 1),
        ("\"mean\": 160002000.0", "\"mean\": nan", 1),
        ("\"mean\": 160002000.0", "\"mean\": 1e308", 1),
        ("\"max\": 1440000000", "\"max\": 1000", 1),
        ("\"mean\": 2000", "\"mean\": -5000", 1),
    ] {
        assert!(sound.contains(from), "{from}");
        let checked = checked(&sound.replacen(from, to, 1));
        let impossible = checked[0].rows.iter().filter(|row| row.verdict == Plausibility::Impossible).count();
        assert_eq!(impossible, rows, "{to}: {:#?}", checked[0].rows);
    }
}

#[test]
fn a_transfer_at_a_random_place_takes_its_time_at_any_depth() {
    let deep = text("one-disk.json").replace("\"iodepth\": \"1\"", "\"iodepth\": \"32\"");
    let quick = deep.replace("160000000", "1000").replace("160002000", "1100").replace("80000000", "600");
    let quick = quick.replace("\"mean\": 2000", "\"mean\": 100").replace("1440000000", "90000");
    assert_cause(&quick, ImpossibleCause::Unwritten);
}

#[test]
fn buffered_figures_of_memory_and_of_what_is_written_again_cannot_be_judged() {
    assert_unjudged(&text("pmem-buffered.json"), "");
    let rows = checked(&text("rewritten-buffered.json")).remove(0).rows;
    assert!(rows.iter().all(|row| row.verdict != Plausibility::Fine), "{rows:#?}");
}
