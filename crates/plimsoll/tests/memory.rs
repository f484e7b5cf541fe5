//! Real memory faults: killed workers, groups with little memory, pools without huge pages. Too
//! large cases are refused before memory is allocated; finished results are kept.

use std::fs;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{ended, measured, plimsoll, scratch, skipped, without_numbers};

/// The first case is soon finished; the second takes long enough to be disturbed.
const PLAN: &str = r#"
name = "long"
samples = 60
sample-time = "25ms"
[[group]]
benchmark = "memory.bandwidth"
op = "write"
variant = "portable"
size = "1M"
threads = 1
# It is ended long before it would be over, however slowly the test goes on.
[[group]]
benchmark = "memory.bandwidth"
op = "write"
variant = "portable"
size = "200M"
threads = 1
samples = 6000
"#;

/// A control group of the test's own, with a limit on memory; it is removed on drop.
struct Group(PathBuf);

impl Group {
    /// If version 1 has the controller, version 2 lacks it.
    fn make(name: &str, bytes: u64) -> io::Result<Self> {
        let name = format!("plimsoll-{name}-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (dir, file) = if v1.join("memory.limit_in_bytes").exists() {
            (v1.join(name), "memory.limit_in_bytes")
        } else {
            let v2 = Path::new("/sys/fs/cgroup");
            fs::write(v2.join("cgroup.subtree_control"), "+memory")?;
            (v2.join(name), "memory.max")
        };
        fs::create_dir(&dir)?;
        let group = Self(dir);
        fs::write(group.0.join(file), bytes.to_string())?;
        Ok(group)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&self.0).arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The group's processes have ended, so it can be removed.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs the plan, calls `disturb` at the first sample of the second case, and returns exit code and
/// run document.
fn disturbed(mut command: Command, dir: &Path, disturb: impl FnOnce(&Child)) -> (Option<i32>, Value) {
    fs::write(dir.join("long.toml"), PLAN).unwrap();
    let mut run = command
        .args(["run", "long.toml", "--events", "-", "--json", "run.json", "--store", "none"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let events = BufReader::new(run.stdout.take().unwrap());
    let (mut disturb, mut measured) = (Some(disturb), false);
    for line in events.lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        measured |= event["event"] == "measured";
        if measured
            && event["event"] == "sampled"
            && let Some(disturb) = disturb.take()
        {
            disturb(&run);
        }
    }
    assert!(disturb.is_none(), "the second case was never sampled");
    let code = run.wait().unwrap().code();
    (code, serde_json::from_slice(&fs::read(dir.join("run.json")).unwrap()).unwrap())
}

/// The first case has figures, the second is reported as killed.
fn the_second_was_killed_and_the_first_is_kept(code: Option<i32>, document: &Value) {
    assert_eq!(code, Some(4), "{document}");
    let measurements = document["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), 2);
    measured(&measurements[0]);
    assert_eq!(measurements[0]["metrics"][0]["samples"].as_array().unwrap().len(), 60);
    assert_eq!(measurements[1]["status"], "failed");
    let reason = measurements[1]["reason"].as_str().unwrap();
    assert!(reason.starts_with("worker killed (signal 9"), "{reason}");
    assert_eq!(measurements[1]["metrics"], serde_json::json!([]));
}

fn children(pid: u32) -> Vec<Pid> {
    let own = pid.to_string();
    let is_child = |pid: &Pid| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(own.as_str())
    };
    let names = fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    names.filter_map(Pid::from_raw).filter(is_child).collect()
}

#[test]
fn a_worker_that_is_killed_costs_its_own_case() {
    let dir = scratch();
    let command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    let (code, document) = disturbed(command, dir.path(), |run| {
        let workers = children(run.id());
        assert_eq!(workers.len(), 1);
        kill_process(workers[0], Signal::KILL).unwrap();
    });
    the_second_was_killed_and_the_first_is_kept(code, &document);
}

#[test]
fn a_worker_that_the_kernel_kills_for_want_of_memory_costs_its_own_case() {
    let name = "a_worker_that_the_kernel_kills_for_want_of_memory_costs_its_own_case";
    let group = match Group::make("oom", 400 << 20) {
        Ok(group) => group,
        Err(why) => return skipped(name, &format!("no group: {why}")),
    };
    let dir = scratch();
    let mut hog = None;
    let command = group.command(env!("CARGO_BIN_EXE_plimsoll"));
    let (code, document) = disturbed(command, dir.path(), |_| {
        // tail keeps an unterminated line: 300 MiB beside the worker's 200 exceed the group's
        // limit.
        let mut tail = group.command("sh");
        tail.args(["-c", "head -c 314572800 /dev/zero | tail -n 1 > /dev/null"]);
        hog = Some(tail.stderr(Stdio::null()).spawn().unwrap());
    });
    if let Some(mut hog) = hog {
        hog.wait().unwrap();
    }
    the_second_was_killed_and_the_first_is_kept(code, &document);
}

#[test]
fn what_a_group_has_no_room_for_is_refused_with_the_sum_and_the_rest_goes_on() {
    let name = "what_a_group_has_no_room_for_is_refused_with_the_sum_and_the_rest_goes_on";
    let group = match Group::make("small", 300 << 20) {
        Ok(group) => group,
        Err(why) => return skipped(name, &format!("no group: {why}")),
    };
    let dir = scratch();
    let words = "memory --only memory.bandwidth --op read --size 1M,1G --threads 1 --samples 3 --sample-time 5ms \
                 --json - --store none";
    let run = group
        .command(env!("CARGO_BIN_EXE_plimsoll"))
        .args(words.split_whitespace())
        .current_dir(dir.path())
        .output();
    let run = run.unwrap();
    assert_eq!(run.status.code(), Some(4), "{}", String::from_utf8_lossy(&run.stderr));
    let document: Value = serde_json::from_slice(&run.stdout).unwrap();
    measured(&document["measurements"][0]);
    assert_eq!(document["measurements"][1]["status"], "failed");
    let reason = document["measurements"][1]["reason"].as_str().unwrap();
    insta::assert_snapshot!(without_numbers(reason));
}

#[test]
fn pools_without_huge_pages_are_told_and_the_rest_goes_on() {
    let pool = "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages";
    if fs::read_to_string(pool).is_ok_and(|free| free.trim() != "0") {
        return skipped("pools_without_huge_pages_are_told_and_the_rest_goes_on", "there are huge pages");
    }
    let dir = scratch();
    let own = format!("{}k", rustix::param::page_size() >> 10);
    let words = format!(
        "memory --only memory.latency --size 16K --pages {own},1g --samples 3 --sample-time 5ms --json -"
    );
    let (out, _) = ended(plimsoll(dir.path()).args(words.split(' ')).args(["--store", "none"]), 0);
    let document: Value = serde_json::from_str(&out).unwrap();
    measured(&document["measurements"][0]);
    assert_eq!(document["measurements"][0]["achieved"]["pages"], own.as_str());
    assert_eq!(document["measurements"][1]["status"], "skipped");
    let reason = document["measurements"][1]["reason"].as_str().unwrap();
    assert!(reason.starts_with("needs 1 reserved page of 1 GiB, and 0 are free"), "{reason}");
}

/// 2 MiB pages that a test added to the kernel's pool, returned on drop; other tests wait.
struct Pool {
    file: fs::File,
    before: u64,
}

impl Pool {
    const DIR: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

    /// `None` if the kernel has or gives no such pages, or this user may not request them.
    fn with_free(pages: u64) -> Option<Self> {
        let number =
            |name: &str| fs::read_to_string(format!("{}/{name}", Self::DIR)).ok()?.trim().parse::<u64>().ok();
        let file = fs::OpenOptions::new().write(true).open(format!("{}/nr_hugepages", Self::DIR)).ok()?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).ok()?;
        let pool = Self { file, before: number("nr_hugepages")? };
        pool.set(pool.before + pages);
        (number("free_hugepages")? >= pages).then_some(pool)
    }

    fn set(&self, pages: u64) {
        let _ = (&self.file).write_all(pages.to_string().as_bytes());
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.set(self.before);
    }
}

#[test]
fn reserved_pages_are_taken_where_there_are_some() {
    let Some(pool) = Pool::with_free(16) else {
        return skipped("reserved_pages_are_taken_where_there_are_some", "no pages of 2 MiB can be reserved");
    };
    let dir = scratch();
    let words = "memory --only memory.bandwidth,memory.latency --size 4M --pages 2m --samples 2 --sample-time 5ms --json -";
    let (out, _) = ended(plimsoll(dir.path()).args(words.split_whitespace()).args(["--store", "none"]), 0);
    drop(pool);
    let document: Value = serde_json::from_str(&out).unwrap();
    let measurements = document["measurements"].as_array().unwrap();
    assert!(!measurements.is_empty());
    for measurement in measurements {
        measured(measurement);
        assert_eq!(measurement["achieved"]["pages"], "2m", "{measurement}");
        let codes = measurement["warnings"].as_array().into_iter().flatten().map(|warning| &warning["code"]);
        assert!(codes.into_iter().all(|code| code != "pages-differ"), "{measurement}");
    }
}

#[test]
fn memory_takes_a_place_and_a_group() {
    let dir = scratch();
    let words = "memory --only memory.latency --size 64K --group 64K --pages 4k --affinity compact --samples 1 --sample-time 5ms \
                 --store none --json -";
    let (out, _) = ended(plimsoll(dir.path()).args(words.split_whitespace()), 0);
    let document: Value = serde_json::from_str(&out).unwrap();
    let measurement = &document["measurements"][0];
    assert_eq!(measurement["case"]["id"], "memory.latency/size=64K/pages=4k/group=64K/affinity=compact");
    assert_eq!(measurement["achieved"]["cpu"].as_array().map(Vec::len), Some(1), "{measurement}");
    let words = ["memory", "--size", "1000000G", "--dry-run", "--store", "none"];
    let (out, _) = ended(plimsoll(dir.path()).args(words), 4);
    assert!(out.split(", ").any(|part| part == "about 0 s"), "{out}");
}
