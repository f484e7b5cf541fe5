//! Real memory faults: killed workers, groups with little memory, pools without huge pages.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::disk::measurements;
use crate::faults::follow;
use crate::groups::Group;
use crate::support::{
    PROGRAM, done, list, measured, reason, run_of, scratch, skip, text, warns, without_numbers,
};

/// The first case is soon finished; the second is ended long before its end, however slow the test.
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
[[group]]
benchmark = "memory.bandwidth"
op = "write"
variant = "portable"
size = "200M"
threads = 1
samples = 6000
"#;

#[test]
fn a_worker_that_the_kernel_kills_for_want_of_memory_costs_its_own_case() {
    let Some(group) = Group::make("memory") else { return };
    group.limit_memory(400 << 20);
    let dir = scratch();
    let mut run = follow(group.enter(PROGRAM), dir.path(), PLAN);
    run.until_the_second_case();
    // tail keeps an unterminated line: 300 MiB beside the worker's 200 exceed the group's limit.
    let mut tail = group.enter("sh");
    tail.args(["-c", "head -c 314572800 /dev/zero | tail -n 1 > /dev/null"]);
    let mut hog = tail.stderr(Stdio::null()).spawn().unwrap();
    let document = run.ended(4, "complete");
    let [first, second] = list(&document["measurements"]).as_slice() else { panic!("{document}") };
    measured(first);
    assert_eq!(list(&first["metrics"][0]["samples"]).len(), 60);
    assert_eq!((&second["status"], &second["metrics"]), (&"failed".into(), &serde_json::json!([])));
    assert!(reason(second).starts_with("worker killed (signal 9"), "{second}");
    hog.wait().unwrap();
}

#[test]
fn what_a_group_has_no_room_for_is_refused_with_the_sum_and_the_rest_goes_on() {
    let Some(group) = Group::make("memory") else { return };
    group.limit_memory(300 << 20);
    let line = "memory --only memory.bandwidth --op read --size 1M,1G --threads 1 --samples 3 --sample-time 5ms \
                --json - --store none";
    let all = measurements(&group.run(scratch().path(), line).output().unwrap(), 4);
    measured(&all[0]);
    assert_eq!(all[1]["status"], "failed");
    insta::assert_snapshot!(without_numbers(reason(&all[1])));
}

#[test]
fn pools_without_huge_pages_are_told_and_the_rest_goes_on() {
    let pool = "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages";
    if fs::read_to_string(pool).is_ok_and(|free| free.trim() != "0") {
        return skip("there are huge pages");
    }
    let own = format!("{}k", rustix::param::page_size() >> 10);
    let line =
        format!("memory --only memory.latency --size 16K --pages {own},1g --samples 3 --sample-time 5ms");
    let run = run_of(&line);
    let [first, second]: &[Value] = list(&run["measurements"]) else { panic!("{run}") };
    measured(first);
    assert_eq!(first["achieved"]["pages"], own.as_str());
    assert_eq!(second["status"], "skipped");
    assert!(reason(second).starts_with("needs 1 reserved page of 1 GiB, and 0 are free"), "{second}");
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
    let Some(pool) = Pool::with_free(16) else { return skip("no pages of 2 MiB can be reserved") };
    let both = "memory.bandwidth,memory.latency";
    let run = run_of(&format!("memory --only {both} --size 4M --pages 2m --samples 2 --sample-time 5ms"));
    drop(pool);
    assert!(!list(&run["measurements"]).is_empty());
    for measurement in list(&run["measurements"]) {
        measured(measurement);
        assert_eq!(measurement["achieved"]["pages"], "2m", "{measurement}");
        assert!(!warns(measurement, "pages-differ"), "{measurement}");
    }
}

#[test]
fn memory_takes_a_place_and_a_group() {
    let place = "--group 64K --pages 4k --affinity compact";
    let run =
        run_of(&format!("memory --only memory.latency --size 64K {place} --samples 1 --sample-time 5ms"));
    let measurement = &run["measurements"][0];
    let id = "memory.latency/size=64K/pages=4k/group=64K/affinity=compact";
    assert_eq!(text(&measurement["case"]["id"]), id);
    assert_eq!(list(&measurement["achieved"]["cpu"]).len(), 1, "{measurement}");
    let (out, _) = done(scratch().path(), "memory --size 1000000G --dry-run --store none", 4);
    assert!(out.split(", ").any(|part| part == "about 0 s"), "{out}");
}
