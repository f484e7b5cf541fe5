//! A CPU quota that starts during a series: the run must report when, how much, and the cause.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{scratch, skipped, valid_operation};

/// Samples in all, and those after which the quota comes.
const SAMPLES: &str = "80";
const FREE: u64 = 40;

/// A control group of the test's own; it is removed on drop.
pub(crate) struct Group {
    dir: PathBuf,
    file: &'static str,
}

/// The length of a period, in microseconds.
const PERIOD: u32 = 10_000;

impl Group {
    /// A group with priority over other load. If version 1 has the controller, version 2 lacks it.
    pub(crate) fn make(name: &str) -> io::Result<Self> {
        let name = format!("plimsoll-{name}-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        if v1.join("cpu.cfs_quota_us").exists() {
            let group = Self { dir: v1.join(name), file: "cpu.cfs_quota_us" };
            fs::create_dir(&group.dir)?;
            group.set("cpu.shares", "262144")?;
            group.set("cpu.cfs_period_us", &PERIOD.to_string())?;
            return Ok(group);
        }
        let v2 = Path::new("/sys/fs/cgroup");
        fs::write(v2.join("cgroup.subtree_control"), "+cpu")?;
        let group = Self { dir: v2.join(name), file: "cpu.max" };
        fs::create_dir(&group.dir)?;
        group.set("cpu.weight", "10000")?;
        Ok(group)
    }

    fn set(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.dir.join(file), text)
    }

    /// Sets the group's CPU shares; the default is 1024.
    pub(crate) fn weigh(&self, shares: u32) {
        let (file, weight) =
            if self.file == "cpu.max" { ("cpu.weight", shares * 100 / 1024) } else { ("cpu.shares", shares) };
        self.set(file, &weight.to_string()).unwrap();
    }

    /// Limits the group to `share` of a CPU.
    pub(crate) fn limit(&self, share: f64) {
        let time = (share * f64::from(PERIOD)) as u32;
        let text = if self.file == "cpu.max" { format!("{time} {PERIOD}") } else { time.to_string() };
        self.set(self.file, &text).unwrap();
    }

    pub(crate) fn run(&self, dir: &Path, words: &str) -> Command {
        let mut run = self.enter(Path::new(env!("CARGO_BIN_EXE_plimsoll")));
        run.args(words.split(' '))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        run
    }

    pub(crate) fn enter(&self, program: &Path) -> Command {
        let enter = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
        let mut run = Command::new("sh");
        run.args(["-c", enter]).arg(&self.dir).arg(program);
        run
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Ends remaining processes: only an empty group can be removed.
        for _ in 0..200 {
            let all = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
            let ids = all.lines().filter_map(|id| rustix::process::Pid::from_raw(id.parse().ok()?));
            for id in ids {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn a_quota_that_comes_half_way_is_found_and_named() {
    let name = "a_quota_that_comes_half_way_is_found_and_named";
    let group = match Group::make("half-way") {
        Ok(group) => group,
        Err(why) => return skipped(name, &format!("no group: {why}")),
    };
    let Some(operation) = valid_operation(name) else { return };
    let dir = scratch();
    let words = format!(
        "cpu --op {operation} --type f64 --threads 1 --samples {SAMPLES} --sample-time 50ms \
         --events - --json run.json --store none"
    );
    let mut run = group.run(dir.path(), &words).spawn().unwrap();
    let events = BufReader::new(run.stdout.take().unwrap());
    for line in events.lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["event"] == "sampled" && event["n"] == FREE {
            group.limit(0.2);
        }
    }
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&fs::read(dir.path().join("run.json")).unwrap()).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let changed = findings.iter().find(|finding| finding["code"] == "changed");
    let changed =
        changed.unwrap_or_else(|| panic!("nothing changed: {}", document["measurements"][0]["metrics"]));
    assert_eq!(changed["evidence"]["cause"], "quota");
    let first = changed["evidence"]["after"]["samples"][0].as_u64().unwrap();
    assert!((FREE - 2..FREE + 20).contains(&first), "{changed}");
}

#[test]
fn half_a_cpu_is_seen_and_stated_and_scales_the_limit() {
    let name = "half_a_cpu_is_seen_and_stated_and_scales_the_limit";
    let group = match Group::make("half") {
        Ok(group) => group,
        Err(why) => return skipped(name, &format!("no group: {why}")),
    };
    group.limit(0.5);
    let dir = scratch();
    let words = "cpu --op fma --type f64 --threads 2 --samples 3 --sample-time 1ms --json - --store none";
    let output = group.run(dir.path(), words).output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        document["machine"]["cgroup"]["cpu_quota"]["quota_us"] == 5000,
        "{}",
        document["machine"]["cgroup"]
    );
    let measurement = &document["measurements"][0];
    let warned = measurement["warnings"].as_array().unwrap().iter().find(|note| note["code"] == "cpu-quota");
    let text = warned.unwrap_or_else(|| panic!("{measurement}"))["text"].as_str().unwrap();
    assert!(text.starts_with("a cgroup quota allows the time of 0.50 CPUs"), "{text}");
    // Without data about the chip the limit is unknown, and not scaled.
    if measurement["metrics"][0]["limit"]["value"].is_number() {
        let inputs = measurement["metrics"][0]["limit"]["inputs"].as_array().unwrap();
        let share = inputs.iter().find(|input| input["name"] == "CPUs of the quota").unwrap();
        assert_eq!(share["value"], 0.5);
    }
}
