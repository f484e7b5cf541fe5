//! `--verify` on corrupting devices: changed bytes are found, with their offset and without a
//! figure.

use std::os::unix::fs::FileExt;
use std::process::Command;

use super::{Loop, PROGRAM, QUICK, Told, measurements, with_code};
use crate::support::{ended, place_for_programs, plimsoll, scratch};

#[test]
fn on_an_honest_disk_everything_is_as_it_was_written() {
    let dir = scratch();
    let read = QUICK.iter().map(|argument| if *argument == "read" { "read,write" } else { argument });
    let arguments: Vec<&str> = read.chain(["--verify"]).collect();
    let (out, _) = ended(plimsoll(dir.path()).args(arguments), 0);
    let all = measurements(&out);
    assert_eq!(all.len(), 2);
    for measurement in all.iter().filter(|measurement| measurement["status"] != "skipped") {
        assert_eq!(measurement["status"], "ok", "{}", measurement["reason"]);
        assert_eq!(measurement["case"]["params"]["verify"], "on");
    }
}

#[test]
fn bytes_changed_underneath_end_the_case_with_their_offset_and_without_a_figure() {
    const SIZE: u64 = 16 << 20;
    for op in ["read", "write"] {
        let dir = scratch();
        let Some(device) = Loop::new("bytes changed underneath", dir.path(), SIZE, &[]) else { return };
        let mut run = Told::new(
            &["disk", "--op", op, "--pattern", "random", "--block", "4K", "--depth", "4", "--verify"],
            &["--samples", "200", "--sample-time", "20ms"],
            (&device.device, SIZE),
            dir.path(),
        );
        run.until_sampled();
        // A process with the file open would be a user of the device.
        let image = std::fs::File::options().write(true).open(&device.image).unwrap();
        // The last sector of one block of every other MiB: writes repair some, but not all of them.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stop = &stop;
            let image = &image;
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for at in (0..SIZE / (2 << 20)).map(|n| (n * (2 << 20)) + 4095) {
                        image.write_all_at(b"!", at).unwrap();
                    }
                }
            });
            // The run must end by itself before its output is read.
            run.until_it_ends();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let (code, out) = run.document();
        assert_eq!(code, Some(1), "{op}");
        let measurement = &measurements(&out)[0];
        assert_eq!(measurement["status"], "failed");
        assert_eq!(measurement["metrics"].as_array().unwrap().len(), 0, "a speed for corrupt data");
        let reason = measurement["reason"].as_str().unwrap();
        assert!(reason.contains("verify failed at offset") && reason.contains("checksum"), "{op}: {reason}");
        let digits: String =
            reason.split("offset ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
        assert_eq!(digits.parse::<u64>().unwrap() % (2 << 20), 3584, "{reason}");
        assert_eq!(measurement["cause"], "wrong-answer");
        let storage = &measurement["wrong_answer"]["origin"]["storage"];
        assert_eq!(
            (&storage["path"], storage["offset"].to_string()),
            (&device.device.clone().into(), digits)
        );
    }
}

#[test]
fn a_device_that_may_only_be_read_cannot_be_verified() {
    let dir = scratch();
    let Some(device) = Loop::new("verify without consent", dir.path(), 16 << 20, &[]) else { return };
    let output = Command::new(PROGRAM)
        .args([
            "disk", "--op", "read", "--block", "4K", "--verify", "--store", "none", "--quiet", "--json", "-",
        ])
        .args(["--target", &device.device])
        .output()
        .unwrap();
    // Nothing is measured.
    let (out, _) = with_code(&output, 4);
    insta::assert_snapshot!(measurements(&out)[0]["reason"].as_str().unwrap());
}

/// A fio that writes zeros to its whole region for any operation, and prints a rate.
const OVERWRITES: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo fio-3.33; exit; }
offset=0; jobs=1; only=
for argument; do
  case $argument in
    --filename=*) file=$(printf %s "${argument#*=}" | sed 's/\\:/:/g') ;;
    --size=*) size=${argument#*=} ;;
    --offset=*) offset=${argument#*=} ;;
    --numjobs=*) jobs=${argument#*=} ;;
    --readonly) only=yes ;;
  esac
done
[ -n "$only" ] || dd if=/dev/zero of="$file" bs=4096 seek=$((offset / 4096)) count=$((size * jobs / 4096)) conv=notrunc 2>/dev/null
sleep 0.02
side='{"bw_bytes": 1e6, "iops": 500, "total_ios": 10, "io_bytes": 20000, "runtime": 20, "slat_ns": {"mean": 1}, "clat_ns": {"mean": 1000}}'
echo "{\"jobs\": [{\"error\": 0, \"read\": $side, \"write\": $side, \"iodepth_level\": {\"8\": 100}}]}"
"#;

/// Runs cases with that fio; `more` are further options.
fn with_a_tool_that_overwrites(dir: &std::path::Path, more: &[&str]) -> Vec<serde_json::Value> {
    use std::os::unix::fs::PermissionsExt;
    let programs = place_for_programs();
    let path = programs.path().join("fio");
    std::fs::write(&path, OVERWRITES).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let tool = format!("fio={}", path.display());
    let mut command = plimsoll(dir);
    command.args(["disk", "--pattern", "random", "--block", "4K", "--depth", "8", "--threads", "2"]);
    command.args(["--samples", "3", "--sample-time", "20ms", "--store", "none", "--quiet", "--json", "-"]);
    command.args(["--against", "fio", "--peer-path", &tool]).args(more);
    measurements(&ended(&mut command, 0).0)
}

/// That figures stand, and the tool was heard; whether it had to share the place.
fn stand(all: &[serde_json::Value], shares: bool) {
    for measurement in all.iter().filter(|measurement| measurement["status"] != "skipped") {
        assert_eq!(measurement["status"], "ok", "{}", measurement["reason"]);
        let peer = &measurement["metrics"][0]["references"][0];
        assert_eq!(peer["status"], "ok", "{peer}");
        let reported =
            measurement["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "tool-shares-file");
        let reads = measurement["case"]["params"]["op"] == "read";
        assert_eq!(reported, shares && !reads, "{measurement}");
    }
}

#[test]
fn what_a_reference_tool_writes_is_not_taken_for_the_devices_fault() {
    let dir = scratch();
    let all = with_a_tool_that_overwrites(dir.path(), &["--op", "write,mixed,read", "--size", "8M"]);
    assert_eq!(all.len(), 3);
    stand(&all, false);
    let Some(device) = Loop::new("a tool on a device", dir.path(), 32 << 20, &[]) else { return };
    let consent = format!("{}:{}", device.device, 32 << 20);
    // With room for a second part, and without.
    for (size, shares) in [("8M", false), ("24M", true)] {
        let more = [
            "--op",
            "write,mixed,read",
            "--size",
            size,
            "--target",
            &device.device,
            "--destroy-data-on",
            &consent,
        ];
        stand(&with_a_tool_that_overwrites(dir.path(), &more), shares);
    }
}
