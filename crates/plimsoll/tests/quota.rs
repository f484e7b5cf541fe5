//! A CPU quota that starts during a series: the run must report when, how much, and the cause.

use crate::groups::Group;
use crate::support::{Running, coded, json, list, scratch, text, valid_operation, with_code};

/// Samples after which the quota comes.
const FREE: u64 = 40;

#[test]
fn a_quota_that_comes_half_way_is_found_and_named() {
    let Some(group) = Group::make("cpu") else { return };
    let Some(operation) = valid_operation() else { return };
    let dir = scratch();
    let line = format!("cpu --op {operation} --type f64 --threads 1 --samples 80 --sample-time 50ms");
    let mut run = Running::start(&mut group.run(dir.path(), &line), dir.path());
    while let Some(event) = run.next_event() {
        if event["event"] == "sampled" && event["n"] == FREE {
            group.limit(0.2);
        }
    }
    let document = run.ended(0, "complete");
    let changed = coded(&document["findings"], "changed").unwrap_or_else(|| panic!("{document}"));
    assert_eq!(changed["evidence"]["cause"], "quota");
    let first = changed["evidence"]["after"]["samples"][0].as_u64().unwrap();
    assert!((FREE - 2..FREE + 20).contains(&first), "{changed}");
}

#[test]
fn half_a_cpu_is_seen_and_stated_and_scales_the_limit() {
    let Some(group) = Group::make("cpu") else { return };
    group.limit(0.5);
    let line = "cpu --op fma --type f64 --threads 2 --samples 3 --sample-time 1ms --json - --store none";
    let document = json(&with_code(&group.run(scratch().path(), line).output().unwrap(), 0).0);
    let cgroup = &document["machine"]["cgroup"];
    assert_eq!(cgroup["cpu_quota"]["quota_us"], 5000, "{cgroup}");
    let measurement = &document["measurements"][0];
    let warned = coded(&measurement["warnings"], "cpu-quota").unwrap_or_else(|| panic!("{measurement}"));
    assert!(text(&warned["text"]).starts_with("a cgroup quota allows the time of 0.50 CPUs"), "{warned}");
    // Without data about the chip the limit is unknown, and not scaled.
    let limit = &measurement["metrics"][0]["limit"];
    if limit["value"].is_number() {
        let share = list(&limit["inputs"]).iter().find(|input| input["name"] == "CPUs of the quota");
        assert_eq!(share.unwrap()["value"], 0.5);
    }
}
