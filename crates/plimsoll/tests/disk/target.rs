//! `--latency-target`: the answer of the search, in row, document and finding.

use serde_json::{Value, json};

use crate::support::{done, json_of, scratch, warns};

/// The table and the one measurement of a search up to depth 4 of a small file in the page cache.
fn searched(target: &str) -> (String, Value) {
    let dir = scratch();
    let small = "disk --op read --pattern random --block 4K --depth 4 --size 1M --cache buffered";
    let line = format!("{small} --samples 2 --sample-time 20ms --latency-target {target} --json run.json");
    let (table, _) = done(dir.path(), &format!("{line} --store none"), 0);
    (table, json_of(dir.path(), "run.json")["measurements"][0].clone())
}

#[test]
fn a_bound_that_always_holds_and_one_that_never_does() {
    let (table, held) = searched("p90=10s");
    let achieved = |key: &str, seen: &Value| seen["achieved"][key].clone();
    // If the kernel forbids io_uring, no depth exceeds 1.
    let (depth, reported) = match held["achieved"]["engine"].as_str() {
        Some("psync") => (1, "10s at depth 1, the only one of psync"),
        _ => (4, "10s up to depth 4"),
    };
    assert_eq!((achieved("deepest", &held), achieved("target_held", &held)), (json!(depth), json!(true)));
    assert_eq!(achieved("within_target", &held), json!(1.0));
    assert!(table.contains(reported), "{table}");

    let (table, missed) = searched("p90=1ns");
    assert_eq!((achieved("deepest", &missed), achieved("target_held", &missed)), (Value::Null, json!(false)));
    assert_eq!(achieved("within_target", &missed), json!(0.0));
    assert!(warns(&missed, "latency-target-missed") && table.contains("1ns at no depth"), "{table}");
}
