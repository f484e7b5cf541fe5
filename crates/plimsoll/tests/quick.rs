//! The whole program: four subsystems in one run, document against schema, nothing left behind.

use std::fs;

use serde_json::Value;

use crate::support::{done, list, scratch, text, validated};

#[test]
fn quick_measures_all_four_subsystems_and_leaves_nothing() {
    let dir = scratch();
    let line = "run quick --samples 2 --sample-time 20ms --store none --json - --seed 42";
    let document = validated(&done(dir.path(), line, 0).0);
    assert_eq!(document["status"], "complete");
    assert_eq!((&document["seed"], &document["plan"]["samples"]), (&42.into(), &2.into()));
    let measurements = list(&document["measurements"]);
    assert_eq!(Some(measurements.len() as u64), document["plan"]["cases"].as_u64());
    for subsystem in ["cpu.", "memory.", "disk.", "network."] {
        let is_here = |m: &&Value| text(&m["case"]["benchmark"]).starts_with(subsystem);
        let here: Vec<&Value> = measurements.iter().filter(is_here).collect();
        assert!(!here.is_empty(), "{subsystem} is missing");
        for m in here {
            let id = text(&m["case"]["id"]);
            match text(&m["status"]) {
                "ok" | "invalid" => {
                    let headline = &m["metrics"][0];
                    assert_eq!(list(&headline["samples"]).len(), 2, "{id}");
                    assert!(headline["summary"]["median"].as_f64().unwrap() > 0.0, "{id}");
                    let limit = &headline["limit"];
                    let reported = limit["value"].is_number() || limit["reason"].is_string();
                    assert!(reported, "{id}: a limit, or the reason why there is none: {limit}");
                }
                "skipped" => assert!(m["reason"].is_string(), "{id}"),
                other => panic!("{id}: {other}: {}", m["reason"]),
            }
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn a_run_is_in_the_history_and_can_be_shown_again() {
    let dir = scratch();
    let rows = |text: &str| {
        // A row with warnings begins with a mark.
        let is_row = |line: &&str| line.starts_with("  null ") || line.starts_with("! null ");
        text.lines().filter(is_row).map(str::to_owned).collect::<Vec<_>>()
    };
    let line = "run --only null --samples 5 --sample-time 5ms --store history --json run.json";
    let (table, _) = done(dir.path(), line, 0);
    let (list, _) = done(dir.path(), "history list --store history", 0);
    assert!(list.lines().nth(1).unwrap().split_whitespace().any(|word| word == "quick"), "{list}");
    let (shown, _) = done(dir.path(), "history show last --store history", 0);
    assert_eq!((rows(&table).len(), rows(&shown)), (1, rows(&table)));
    let document = validated(&fs::read_to_string(dir.path().join("run.json")).unwrap());
    let summary = &document["measurements"][0]["metrics"][0]["summary"];
    assert_eq!(summary["ci95"].as_array().map(Vec::len), Some(2), "{summary}");
}
