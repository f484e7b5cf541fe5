//! What earlier versions stored: documents of schema 1 and a history of theirs list, show, compare, import and export as
//! today's, and the history as it was is kept.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::quick::validated;
use crate::support::{ended, plimsoll, scratch};

/// A run of each subsystem, as the last version with schema 1 wrote it.
const DOCUMENT: &str = include_str!("../../result/tests/fixtures/runs/earlier.json");
/// The history of that version with this run and `threads.json` in it.
const HISTORY: &[u8] = include_bytes!("../../history/tests/fixtures/version3.db");

fn history(dir: &Path, words: &[&str], code: i32) -> (String, String) {
    ended(plimsoll(dir).arg("history").args(words).args(["--store", "history.db"]), code)
}

/// Metrics that had another name, and what it is now.
const RENAMED: [(&str, &str); 4] =
    [("program", "bandwidth"), ("bus", "bus_bandwidth"), ("submit", "slat"), ("complete", "clat")];

/// What both schemas hold: rows, figures, limits, conditions, by their names of today.
fn told(document: &Value) -> Value {
    let metric = |metric: &Value| {
        let name = metric["name"].as_str().unwrap();
        let name = RENAMED.iter().find(|(before, _)| *before == name).map_or(name, |(_, now)| *now);
        let mut metric = metric.clone();
        metric["name"] = name.into();
        let parts = ["name", "unit", "samples", "summary", "limit", "of_limit", "percentiles", "curve"];
        parts.map(|part| metric[part].clone())
    };
    let measurement = |one: &Value| {
        let metrics: Vec<_> = one["metrics"].as_array().unwrap().iter().map(metric).collect();
        let mut conditions = one["conditions"].clone();
        if let Some(share) = conditions.as_object_mut().unwrap().remove("set_aside") {
            conditions["excluded"] = share;
        }
        json!([one["case"], one["status"], metrics, one["achieved"], conditions, one["warnings"]])
    };
    let all: Vec<Value> = document["measurements"].as_array().unwrap().iter().map(measurement).collect();
    json!([document["id"], document["plan"], document["machine"], document["findings"], all])
}

/// That nothing is in it twice that schema 1 had twice.
#[track_caller]
fn once(document: &Value) {
    assert_eq!(document["nodes"][0].as_object().unwrap().len(), 1, "the machine is the run's own");
    for measurement in document["measurements"].as_array().unwrap() {
        assert!(measurement.get("requested").is_none());
        for metric in measurement["metrics"].as_array().unwrap() {
            let limit = |other: &Value| ["value", "formula", "source"].map(|key| other[key].clone());
            let others = metric["other_limits"].as_array().unwrap();
            assert!(others.iter().all(|other| limit(other) != limit(&metric["limit"])), "{metric}");
            assert!(metric["series"].as_array().unwrap().iter().all(|point| point.get("value").is_none()));
        }
    }
}

#[test]
fn a_document_of_schema_1_is_reported_compared_and_imported() {
    let dir = scratch();
    let before: Value = serde_json::from_str(DOCUMENT).unwrap();
    assert_eq!(before["schema"], "plimsoll.run/1");
    fs::write(dir.path().join("earlier.json"), DOCUMENT).unwrap();
    let (page, _) = ended(plimsoll(dir.path()).args(["report", "earlier.json"]), 0);
    assert!(page.contains("cpu.peak") || page.contains("fma"), "{page}");
    let require = |text: &str| {
        let words = ["compare", "earlier.json", "earlier.json", "--require", text];
        ended(plimsoll(dir.path()).args(words), 0).0
    };
    for (before, now) in [("submit", "slat"), ("complete", "clat"), ("lat", "latency")] {
        let met = |metric| require(&format!("disk.io {metric} <= 1 s"));
        assert!(met(before).contains("met: disk.io"), "{}", met(before));
        assert_eq!(met(before).replace(&format!(" {before} <="), &format!(" {now} <=")), met(now));
    }
    history(dir.path(), &["import", "earlier.json"], 0);
    let (text, _) = ended(plimsoll(dir.path()).args(["export", "last", "--store", "history.db"]), 0);
    let after = validated(&text);
    assert_eq!(after["schema"], "plimsoll.run/2");
    assert_eq!(told(&after), told(&before));
    once(&after);
    // The same run again is the same run.
    fs::write(dir.path().join("after.json"), &text).unwrap();
    let (page_after, _) = ended(plimsoll(dir.path()).args(["report", "after.json"]), 0);
    assert_eq!(page_after, page);
}

#[test]
fn a_history_of_schema_1_goes_on_and_is_kept_as_it_was() {
    let dir = scratch();
    let file = dir.path().join("history.db");
    fs::write(&file, HISTORY).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let (list, _) = history(dir.path(), &["list"], 0);
    assert!(list.contains("before-schema-2"), "{list}");
    assert_eq!(list.matches(" ok").count(), 2, "{list}");
    let copy = dir.path().join("history.db.v3");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    history(dir.path(), &["show", "before-schema-2"], 0);
    // A question in the words of either version has the same answer.
    for (before, now) in [("submit", "slat"), ("complete", "clat"), ("lat", "latency")] {
        let answer = |metric| history(dir.path(), &["show", "disk.io", "--metric", metric], 0).0;
        assert!(answer(now).contains("disk.io"), "{}", answer(now));
        assert_eq!(answer(before), answer(now));
    }
    ended(plimsoll(dir.path()).args(["compare", "last~1", "last", "--store", "history.db"]), 0);
    let (text, _) =
        ended(plimsoll(dir.path()).args(["export", "before-schema-2", "--store", "history.db"]), 0);
    let after = validated(&text);
    once(&after);
    assert_eq!(told(&after), told(&serde_json::from_str(DOCUMENT).unwrap()));
    // The copy is a history of its own, which is brought up to date as well.
    let (of_copy, _) = ended(plimsoll(dir.path()).args(["history", "list", "--store", "history.db.v3"]), 0);
    assert_eq!(of_copy, list);
    // A damaged one of theirs is repaired.
    let id = after["id"].as_str().unwrap().to_owned();
    let mut bytes = HISTORY.to_vec();
    bytes[..100].fill(0);
    fs::write(dir.path().join("damaged.db"), &bytes).unwrap();
    fs::set_permissions(dir.path().join("damaged.db"), fs::Permissions::from_mode(0o600)).unwrap();
    let repair = ["history", "repair", "--store", "damaged.db"];
    let (out, _) = ended(plimsoll(dir.path()).args(repair), 0);
    assert!(out.contains("2 runs saved"), "{out}");
    let (of_repaired, _) =
        ended(plimsoll(dir.path()).args(["export", id.as_str(), "--store", "damaged.db"]), 0);
    assert_eq!(of_repaired, text);
}
