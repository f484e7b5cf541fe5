//! A control group's rate limit on the device, and devices in memory: both are shown in the row.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::slow::Zram;
use super::{Loop, PROGRAM, measurements, with_code};
use crate::support::{scratch, skipped};

/// A control group of the test's own that limits reads of a device; it is removed on drop.
struct Group(PathBuf);

impl Group {
    /// If version 1 has the controller, version 2 lacks it.
    fn limiting_reads(device: &str, per_second: u32) -> io::Result<Self> {
        let name = format!("plimsoll-io-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/blkio");
        if v1.join("blkio.throttle.io_serviced").exists() {
            let group = Self(v1.join(name));
            fs::create_dir(&group.0)?;
            fs::write(group.0.join("blkio.throttle.read_iops_device"), format!("{device} {per_second}"))?;
            return Ok(group);
        }
        let v2 = Path::new("/sys/fs/cgroup");
        fs::write(v2.join("cgroup.subtree_control"), "+io")?;
        let group = Self(v2.join(name));
        fs::create_dir(&group.0)?;
        fs::write(group.0.join("io.max"), format!("{device} riops={per_second}"))?;
        Ok(group)
    }

    fn run(&self, words: &[&str]) -> Command {
        let mut run = Command::new("sh");
        run.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&self.0).arg(PROGRAM).args(words);
        run
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        crate::support::until("the group is empty", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

fn reading(device: &str) -> Vec<&str> {
    vec![
        "disk",
        "--target",
        device,
        "--op",
        "read",
        "--pattern",
        "random",
        "--block",
        "4K",
        "--depth",
        "1,4",
        "--samples",
        "2",
        "--sample-time",
        "100ms",
        "--store",
        "none",
        "--quiet",
        "--json",
        "-",
    ]
}

fn metric_of<'a>(measurement: &'a Value, name: &str) -> &'a Value {
    measurement["metrics"].as_array().unwrap().iter().find(|found| found["name"] == name).unwrap()
}

#[test]
fn a_limit_of_the_control_group_on_the_device_is_the_limit_of_the_row() {
    const TEST: &str = "a limit of the control group on the device";
    let dir = scratch();
    let Some(device) = Loop::new(TEST, dir.path(), 16 << 20, &[]) else { return };
    let name = device.device.trim_start_matches("/dev/").to_owned();
    let number = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
    let group = match Group::limiting_reads(number.trim(), 500) {
        Ok(group) => group,
        Err(why) => return skipped(TEST, &format!("no group: {why}")),
    };
    let (out, _) = with_code(&group.run(&reading(&device.device)).output().unwrap(), 0);
    let [lone, queued] = measurements(&out).try_into().unwrap();
    let limit = &metric_of(&queued, "rate")["limit"];
    assert_eq!((&limit["value"], &limit["source"]), (&json!(500.0), &json!("documented")), "{limit}");
    assert_eq!(limit["inputs"][0]["name"], json!(format!("reads of {name}")));
    // After a pause a group lets through what it may have read before: the floor is then refuted.
    let latency = metric_of(&lone, "latency");
    let (measured, floor) = (latency["summary"]["median"].as_f64().unwrap(), &latency["limit"]);
    let expected = if measured < 0.95 * 0.002 { Value::Null } else { json!(0.002) };
    assert_eq!((&floor["value"], &floor["kind"]), (&expected, &json!("floor")), "{measured}: {floor}");

    let (out, _) = with_code(&group.run(&["machine"]).output().unwrap(), 0);
    assert!(out.contains(&format!("{name}: reads 500 IOPS")), "{out}");
}

#[test]
fn a_device_of_compressed_memory_is_called_memory() {
    let Some(zram) = Zram::new("a device of compressed memory", "64M", "16M") else { return };
    let (out, _) = with_code(&Command::new(PROGRAM).args(reading(&zram.device())).output().unwrap(), 0);
    for measurement in measurements(&out) {
        let codes: Vec<&Value> =
            measurement["warnings"].as_array().unwrap().iter().map(|warning| &warning["code"]).collect();
        assert!(codes.contains(&&json!("memory-device")), "{codes:?}");
    }
}
