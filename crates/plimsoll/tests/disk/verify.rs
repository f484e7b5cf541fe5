//! `--verify` on corrupting devices: changed bytes are found, with their offset and without a
//! figure.

use std::os::unix::fs::FileExt;

use super::{Loop, consent, followed, measurements, on_device};
use crate::support::{document, list, place_for_programs, reason, scratch, script, text, warns};

#[test]
fn bytes_changed_underneath_end_the_case_with_their_offset_and_without_a_figure() {
    const SIZE: u64 = 16 << 20;
    for op in ["read", "write"] {
        let Some(device) = Loop::new(SIZE, &[]) else { return };
        let how = "--pattern random --block 4K --depth 4 --verify --samples 200 --sample-time 20ms";
        let mut run = followed(&format!("disk --op {op} {how}"), &device.device, device.dir());
        run.until("sampled");
        // A process with the file open would be a user of the device.
        let image = std::fs::File::options().write(true).open(&device.image).unwrap();
        // The last sector of one block of every other MiB: writes repair some, but not all of them.
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (code, err, document) = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for at in (0..SIZE / (2 << 20)).map(|n| (n * (2 << 20)) + 4095) {
                        image.write_all_at(b"!", at).unwrap();
                    }
                }
            });
            // The run must end by itself.
            let ended = run.end();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            ended
        });
        assert_eq!(code, Some(1), "{op}: {err}");
        let measurement = &document["measurements"][0];
        assert_eq!(measurement["status"], "failed");
        assert_eq!(list(&measurement["metrics"]).len(), 0, "a speed for corrupt data");
        let reason = reason(measurement);
        let parts = ["verify failed at offset", "checksum"];
        assert!(parts.iter().all(|part| reason.contains(part)), "{op}: {reason}");
        let digits: String =
            reason.split("offset ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
        assert_eq!(digits.parse::<u64>().unwrap() % (2 << 20), 3584, "{reason}");
        assert_eq!(measurement["cause"], "wrong-answer");
        let storage = &measurement["wrong_answer"]["origin"]["storage"];
        assert_eq!((text(&storage["path"]), storage["offset"].to_string()), (device.device.as_str(), digits));
    }
}

#[test]
fn a_device_that_may_only_be_read_cannot_be_verified() {
    let Some(device) = Loop::new(16 << 20, &[]) else { return };
    let output = on_device(&format!("--op read --block 4K --verify --target {}", device.device));
    // Nothing is measured.
    insta::assert_snapshot!(reason(&measurements(&output, 4)[0]));
}

/// A fio that writes zeros to its whole region for any operation, and prints a rate.
const OVERWRITES: &str = r#"[ "$1" = --version ] && { echo fio-3.33; exit; }
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

/// Runs cases with that fio: figures stand, also if it has to share the place.
#[track_caller]
fn stand_beside_a_tool_that_overwrites(place: &str, shares: bool) {
    let (dir, programs) = (scratch(), place_for_programs());
    let line = format!(
        "disk --op write,mixed,read --pattern random --block 4K --depth 8 --threads 2 --samples 3 --sample-time 20ms \
         --store none --quiet --json - --against fio --reference-path fio={} {place}",
        script(programs.path(), "fio", OVERWRITES).display()
    );
    let run = document(dir.path(), &line, 0);
    let all = list(&run["measurements"]);
    assert_eq!(all.len(), 3);
    for measurement in all.iter().filter(|measurement| measurement["status"] != "skipped") {
        assert_eq!(measurement["status"], "ok", "{}", measurement["reason"]);
        let peer = &measurement["metrics"][0]["references"][0];
        assert_eq!(peer["status"], "ok", "{peer}");
        let reads = measurement["case"]["params"]["op"] == "read";
        assert_eq!(warns(measurement, "tool-shares-file"), shares && !reads, "{measurement}");
    }
}

#[test]
fn what_a_reference_tool_writes_is_not_taken_for_the_devices_fault() {
    stand_beside_a_tool_that_overwrites("--size 8M", false);
    let Some(device) = Loop::new(32 << 20, &[]) else { return };
    // With room for a second part, and without.
    for (size, shares) in [("8M", false), ("24M", true)] {
        let place = format!("--size {size} {}", consent(&device.device));
        stand_beside_a_tool_that_overwrites(&place, shares);
    }
}
