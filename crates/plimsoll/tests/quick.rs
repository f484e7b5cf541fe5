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
