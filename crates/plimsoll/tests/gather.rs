//! `plimsoll gather`: documents of machines that know nothing of each other become one.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{
    NULL, coded, done, json, json_of, list, rename_machine, scratch, validated, without_numbers,
};

fn run(dir: &Path, name: &str) -> Value {
    let mut run = validated(&done(dir, &format!("{NULL} --store none --json -"), 0).0);
    assert!(run["measurements"][0]["metrics"][0]["summary"]["ci95"][1].is_number(), "{run}");
    rename_machine(&mut run, name);
    run
}

#[test]
fn machines_are_joined_and_who_is_missing_is_named() {
    let dir = scratch();
    let results = dir.path().join("results");
    fs::create_dir(&results).unwrap();
    for name in ["n1", "n2", "n3"] {
        let run = run(dir.path(), name);
        fs::write(results.join(format!("{name}.json")), serde_json::to_string_pretty(&run).unwrap()).unwrap();
    }
    fs::write(dir.path().join("hosts.txt"), "n1\nn2\nn3\n").unwrap();
    let line = "gather results --expect hosts.txt --json fleet.json --html fleet.html";
    let (out, err) = done(dir.path(), line, 0);
    let is_joined = out.lines().any(|line| line.starts_with("Machines  3 measured the same"));
    assert!(is_joined && err.is_empty(), "{out}{err}");
    let fleet = json_of(dir.path(), "fleet.json");
    assert_eq!((list(&fleet["nodes"]).len(), &fleet["status"]), (3, &"complete".into()));
    assert!(fs::read_to_string(dir.path().join("fleet.html")).unwrap().ends_with("</html>"));
    done(dir.path(), "report ./fleet.json --store none", 0);
    done(dir.path(), "history import fleet.json --store h", 0);

    // A log of pods: one came again, one was cut off, one never came.
    let [once, again] = [0, 1].map(|_| run(dir.path(), "n2").to_string());
    let cut = fs::read_to_string(results.join("n3.json")).unwrap();
    let first = fs::read_to_string(results.join("n1.json")).unwrap();
    let log = format!("starting\n{first}\n{once}\n{again}\n{}\n", &cut[..44]);
    fs::write(dir.path().join("pods.log"), log).unwrap();
    let (out, err) = done(dir.path(), "gather pods.log --expect hosts.txt --json -", 5);
    let fleet = json(&out);
    assert_eq!((list(&fleet["nodes"]).len(), &fleet["status"]), (2, &"partial".into()));
    let missing = coded(&fleet["findings"], "machine-missing").unwrap();
    assert_eq!(missing["evidence"]["node"], "n3");
    insta::assert_snapshot!(without_numbers(&err));
}

/// Every command that shows or judges runs; conversions are done whatever they hold.
#[test]
fn a_wrong_answer_in_a_document_is_a_failed_verdict() {
    let dir = scratch();
    let [right, mut wrong, second] = ["n1", "n2", "n3"].map(|name| run(dir.path(), name));
    let made = &mut wrong["measurements"][0];
    (made["status"], made["cause"]) = ("failed".into(), "wrong-answer".into());
    (made["reason"], made["metrics"]) = ("CPU 57 computed 9.25".into(), json!([]));
    made["wrong_answer"] =
        json!({ "origin": { "cpu": 57 }, "operation": "fma_f64_avx2", "got": "9.25", "count": 1 });
    wrong["findings"] = json!([{ "code": "wrong-answer", "text": "CPU 57 computed 9.25", "evidence": {} }]);
    let mut other = wrong.clone();
    other["plan"]["name"] = "another".into();
    for (name, run) in [("right", &right), ("wrong", &wrong), ("other", &other), ("second", &second)] {
        fs::write(dir.path().join(format!("{name}.json")), run.to_string()).unwrap();
    }
    fs::write(dir.path().join("hosts.txt"), "n1\nn2\nn4\n").unwrap();
    for (words, code) in [
        ("gather right.json second.json", 0),
        ("gather right.json wrong.json --json fleet.json", 1),
        ("gather right.json wrong.json --expect hosts.txt", 1),
        ("gather right.json second.json other.json", 1),
        ("report ./wrong.json --store none", 1),
        ("report ./fleet.json --store none", 1),
        ("report ./wrong.json --card --store none", 1),
        ("report ./wrong.json --html page.html --store none", 1),
        ("compare ./right.json ./wrong.json --store none", 1),
        ("compare ./right.json ./wrong.json --fail-on 50% --missing ignore --store none", 1),
        ("compare ./wrong.json ./right.json --store none", 0),
        ("compare ./right.json ./wrong.json ./second.json --store none", 1),
        ("check ./wrong.json", 1),
        ("export ./wrong.json --format json --store none", 0),
        ("export ./wrong.json --format json --store none --require 'null latency >= 0s'", 1),
        ("history import wrong.json --store h", 0),
    ] {
        let (out, err) = done(dir.path(), words, code);
        let is_named = format!("{out}{err}").matches("CPU 57").count() > 0;
        let names = ["gather", "report", "compare", "check"].iter().any(|command| words.starts_with(command));
        let is_page = words.split(' ').any(|word| word == "--html");
        assert!(is_named || code == 0 || !names || is_page, "{words}: {out}{err}");
    }
}
