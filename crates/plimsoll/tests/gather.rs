//! `plimsoll gather`: documents of machines that know nothing of each other become one.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{ended, plimsoll, scratch};

/// The shortest run there is, as the document of a machine of this name.
fn document(dir: &Path, name: &str) -> Value {
    let words =
        ["run", "--only", "null", "--samples", "5", "--sample-time", "1ms", "--store", "none", "--json", "-"];
    let (out, _) = ended(plimsoll(dir).args(words), 0);
    let mut run: Value = serde_json::from_str(&out).unwrap();
    run["nodes"][0]["name"] = name.into();
    for measurement in run["measurements"].as_array_mut().unwrap() {
        measurement["node"] = name.into();
    }
    run
}

#[test]
fn machines_are_joined_and_who_is_missing_is_named() {
    let dir = scratch();
    let results = dir.path().join("results");
    fs::create_dir(&results).unwrap();
    for name in ["n1", "n2", "n3"] {
        let run = document(dir.path(), name);
        fs::write(results.join(format!("{name}.json")), serde_json::to_string_pretty(&run).unwrap()).unwrap();
    }
    fs::write(dir.path().join("hosts.txt"), "n1\nn2\nn3\n").unwrap();
    let all = ["gather", "results", "--expect", "hosts.txt", "--json", "fleet.json", "--html", "fleet.html"];
    let (out, err) = ended(plimsoll(dir.path()).args(all), 0);
    assert!(out.contains("Machines  3 measured the same") && err.is_empty(), "{out}{err}");
    let fleet: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("fleet.json")).unwrap()).unwrap();
    assert_eq!((fleet["nodes"].as_array().unwrap().len(), &fleet["status"]), (3, &"complete".into()));
    assert!(fs::read_to_string(dir.path().join("fleet.html")).unwrap().ends_with("</html>"));
    // It is a run as any other.
    ended(plimsoll(dir.path()).args(["report", "./fleet.json", "--store", "none"]), 0);
    ended(plimsoll(dir.path()).args(["history", "import", "fleet.json", "--store", "h.db"]), 0);

    // A log of pods: one came again, one was cut off, one never came.
    let [once, again] = [0, 1].map(|_| document(dir.path(), "n2").to_string());
    let cut = fs::read_to_string(results.join("n3.json")).unwrap();
    let first = fs::read_to_string(results.join("n1.json")).unwrap();
    let log = format!("starting\n{first}\n{once}\n{again}\n{}\n", &cut[..cut.len() / 2]);
    fs::write(dir.path().join("pods.log"), log).unwrap();
    let words = ["gather", "pods.log", "--expect", "hosts.txt"];
    let (out, err) = ended(plimsoll(dir.path()).args(words), 5);
    assert!(out.contains("n3 is missing") && out.contains("2 measured the same"), "{out}");
    assert!(err.contains("n2 came twice") && err.contains("pods.log: not a plimsoll run"), "{err}");
}

#[test]
fn where_no_document_can_be_read_nothing_is_gathered() {
    let dir = scratch();
    fs::write(dir.path().join("x.json"), "{}").unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    for (words, says) in [
        (["gather", "x.json"], "x.json: holds no run document"),
        (["gather", "missing.json"], "missing.json: No such file"),
        (["gather", "empty"], "empty: the directory has no .json file"),
    ] {
        let (out, err) = ended(plimsoll(dir.path()).args(words), 5);
        assert!(out.is_empty() && err.contains(says) && err.contains("nothing is gathered"), "{err}");
    }
    let one_place = ["gather", "x.json", "--json", "y", "--html", "./y"];
    let (_, err) = ended(plimsoll(dir.path()).args(one_place), 2);
    assert!(err.contains("--json and --html must be different files"), "{err}");
}
