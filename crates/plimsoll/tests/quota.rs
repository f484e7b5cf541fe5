//! A CPU quota that comes while a series is being measured: the run must say when, how much, and that it was a quota.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{scratch, skipped};

/// Samples in all, and those after which the quota comes.
const SAMPLES: &str = "80";
const FREE: u64 = 40;

/// A control group of the test's own; it is removed on drop.
struct Group {
    dir: PathBuf,
    /// File and text that leave a fifth of a CPU, in periods of 10 ms.
    quota: [&'static str; 2],
}

impl Group {
    /// A group with the right of way before other work, so that this test sees little of it. Version 1 first: where it
    /// has the controller, version 2 lacks it.
    fn make() -> io::Result<Self> {
        let name = format!("plimsoll-quota-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        if v1.join("cpu.cfs_quota_us").exists() {
            let group = Self { dir: v1.join(name), quota: ["cpu.cfs_quota_us", "2000"] };
            fs::create_dir(&group.dir)?;
            group.set("cpu.shares", "262144")?;
            group.set("cpu.cfs_period_us", "10000")?;
            return Ok(group);
        }
        let v2 = Path::new("/sys/fs/cgroup");
        fs::write(v2.join("cgroup.subtree_control"), "+cpu")?;
        let group = Self { dir: v2.join(name), quota: ["cpu.max", "2000 10000"] };
        fs::create_dir(&group.dir)?;
        group.set("cpu.weight", "10000")?;
        Ok(group)
    }

    fn set(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.dir.join(file), text)
    }

    fn limit(&self) {
        let [file, text] = self.quota;
        self.set(file, text).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group can be removed once the last process in it is gone, and those of this test were waited for.
        let _ = fs::remove_dir(&self.dir);
    }
}

#[test]
fn a_quota_that_comes_half_way_is_found_and_named() {
    let group = match Group::make() {
        Ok(group) => group,
        Err(why) => {
            return skipped("a_quota_that_comes_half_way_is_found_and_named", &format!("no group: {why}"));
        }
    };
    let dir = scratch();
    let enter = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
    let arguments =
        "cpu --op fma --type f64 --threads 1 --sample-time 50ms --events - --json run.json --store none";
    let mut run = Command::new("sh")
        .args(["-c", enter])
        .arg(&group.dir)
        .arg(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments.split(' '))
        .args(["--samples", SAMPLES])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let events = BufReader::new(run.stdout.take().unwrap());
    for line in events.lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["event"] == "sampled" && event["n"] == FREE {
            group.limit();
        }
    }
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&fs::read(dir.path().join("run.json")).unwrap()).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let changed = findings.iter().find(|finding| finding["code"] == "changed");
    let changed =
        changed.unwrap_or_else(|| panic!("nothing changed: {}", document["measurements"][0]["metrics"]));
    let text = changed["text"].as_str().unwrap();
    assert!(text.contains(" s the delivered rate fell by ") && text.ends_with(": a CPU quota"), "{text}");
    assert_eq!(changed["evidence"]["cause"], "quota");
    let first = changed["evidence"]["after"]["samples"][0].as_u64().unwrap();
    assert!((FREE - 2..FREE + 20).contains(&first), "{changed}");
}
