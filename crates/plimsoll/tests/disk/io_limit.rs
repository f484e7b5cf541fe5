//! A control group's rate limit on the device, and devices in memory: both are shown in the row.

use std::fs;

use serde_json::{Value, json};

use super::slow::Zram;
use super::{Loop, measurements};
use crate::groups::Group;
use crate::support::{command, median, metric, warns, with_code};

fn reading(device: &str) -> String {
    let line = "disk --op read --pattern random --block 4K --depth 1,4 --samples 2 --sample-time 100ms --store none \
                --quiet --json - --target";
    format!("{line} {device}")
}

#[test]
fn a_limit_of_the_control_group_on_the_device_is_the_limit_of_the_row() {
    let Some(device) = Loop::new(16 << 20, &[]) else { return };
    let name = device.name();
    let number = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
    let Some(group) = Group::make("io") else { return };
    group.limit_reads(number.trim(), 500);
    let output = group.run(device.dir(), &reading(&device.device)).output().unwrap();
    let [lone, queued] = measurements(&output, 0).try_into().unwrap();
    let limit = &metric(&queued, "rate")["limit"];
    assert_eq!((&limit["value"], &limit["source"]), (&json!(500.0), &json!("documented")), "{limit}");
    assert_eq!(limit["inputs"][0]["name"], json!(format!("reads of {name}")));
    // After a pause a group lets through what it may have read before: the floor is then refuted.
    let (measured, floor) = (median(&lone, "latency"), &metric(&lone, "latency")["limit"]);
    let expected = if measured < 0.95 * 0.002 { Value::Null } else { json!(0.002) };
    assert_eq!((&floor["value"], &floor["kind"]), (&expected, &json!("floor")), "{measured}: {floor}");
    let (out, _) = with_code(&group.run(device.dir(), "machine").output().unwrap(), 0);
    assert!(out.contains(&format!("{name}: reads 500 IOPS")), "{out}");
}

#[test]
fn a_device_of_compressed_memory_is_called_memory() {
    let Some(zram) = Zram::new("64M", "16M") else { return };
    for measurement in measurements(&command(&reading(&zram.device())).output().unwrap(), 0) {
        assert!(warns(&measurement, "memory-device"), "{measurement}");
    }
}
