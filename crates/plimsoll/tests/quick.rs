//! The whole program: four subsystems in one run, document against schema, nothing left behind.

use std::fs;

use serde_json::Value;

use crate::support::{ended, plimsoll, scratch};

fn schema(document: &Value) -> jsonschema::Validator {
    let version = document["schema"].as_str().and_then(|name| name.strip_prefix("plimsoll.run/")).unwrap();
    let file = format!("../../schema/run.v{version}.json");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
pub(crate) fn validated(text: &str) -> Value {
    let document: Value = serde_json::from_str(text).unwrap();
    let wrong: Vec<String> =
        schema(&document).iter_errors(&document).map(|e| format!("{} at {}", e, e.instance_path())).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    document
}

#[test]
fn quick_measures_all_four_subsystems_and_leaves_nothing() {
    let dir = scratch();
    let arguments =
        ["run", "quick", "--samples", "2", "--sample-time", "20ms", "--store", "none", "--json", "-"];
    let (out, _) = ended(plimsoll(dir.path()).args(arguments), 0);
    let document = validated(&out);
    assert_eq!(document["status"], "complete");
    let measurements = document["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), usize::try_from(document["plan"]["cases"].as_u64().unwrap()).unwrap());
    for subsystem in ["cpu.", "memory.", "disk.", "network."] {
        let here: Vec<&Value> = measurements
            .iter()
            .filter(|m| m["case"]["benchmark"].as_str().unwrap().starts_with(subsystem))
            .collect();
        assert!(!here.is_empty(), "{subsystem} is missing");
        for m in here {
            let id = m["case"]["id"].as_str().unwrap();
            match m["status"].as_str().unwrap() {
                "ok" | "invalid" => {
                    let headline = &m["metrics"][0];
                    assert_eq!(headline["samples"].as_array().unwrap().len(), 2, "{id}");
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
    let store = dir.path().join("history");
    let store = store.to_str().unwrap();
    let arguments = ["run", "--only", "null", "--samples", "5", "--sample-time", "5ms", "--store", store];
    let rows = |text: &str| {
        // A row with warnings begins with a mark.
        let is_row = |line: &&str| line.starts_with("  null ") || line.starts_with("! null ");
        text.lines().filter(is_row).map(str::to_owned).collect::<Vec<_>>()
    };
    let (table, _) = ended(plimsoll(dir.path()).args(arguments), 0);
    let (list, _) = ended(plimsoll(dir.path()).args(["history", "list", "--store", store]), 0);
    assert!(list.lines().nth(1).unwrap().split_whitespace().any(|word| word == "quick"), "{list}");
    let (shown, _) = ended(plimsoll(dir.path()).args(["history", "show", "last", "--store", store]), 0);
    assert_eq!((rows(&table).len(), rows(&shown)), (1, rows(&table)));
}

#[test]
fn a_fixed_seed_is_kept_and_written() {
    let dir = scratch();
    let arguments = [
        "run",
        "--only",
        "null",
        "--samples",
        "5",
        "--sample-time",
        "5ms",
        "--store",
        "none",
        "--seed",
        "42",
        "--json",
        "-",
    ];
    let (out, _) = ended(plimsoll(dir.path()).args(arguments), 0);
    let document = validated(&out);
    assert_eq!(document["seed"], 42);
    assert_eq!(document["plan"]["samples"], 5);
    let ci = document["measurements"][0]["metrics"][0]["summary"]["ci95"].as_array().unwrap();
    assert_eq!(ci.len(), 2);
}
