//! `plimsoll compare` by the whole program: names of sides, exit codes, what is refused.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{NULL, done, json, json_of, list, scale_metric, scratch, text, without_numbers};

/// Stores the shortest run in `history` and a file.
fn run(dir: &Path, file: &str) {
    done(dir, &format!("{NULL} --store history --json {file}"), 0);
}

fn compared(dir: &Path, line: &str, code: i32) -> (Value, String) {
    let (out, err) = done(dir, &format!("compare {line} --format json --store history"), code);
    (json(&out), err)
}

#[test]
fn sides_are_runs_files_and_baselines() {
    let dir = scratch();
    for file in ["1.json", "2.json", "3.json"] {
        run(dir.path(), file);
    }
    for sides in ["last~1 last", "./1.json last", "./1.json ./2.json", "baseline:last10 last"] {
        let (document, _) = compared(dir.path(), sides, 0);
        assert_eq!(document["schema"], "plimsoll.comparison/1");
        let one = &document["compared"][0];
        assert_eq!((text(&one["verdict"]), text(&one["doubt"])), ("inconclusive", "unknown"), "{sides}");
    }
    done(dir.path(), "compare ./1.json ./2.json --store none", 0);
    let (out, _) = done(dir.path(), "compare last~1 last --format markdown --store history", 0);
    assert!(out.starts_with("### A = last\\~1, B = last\n"), "{out}");
}

#[test]
fn without_a_known_noise_fail_on_fails_nothing_and_says_so() {
    let dir = scratch();
    run(dir.path(), "1.json");
    let mut slower = json_of(dir.path(), "1.json");
    let mut failed = slower.clone();
    let metrics = slower["measurements"][0]["metrics"].as_array_mut().unwrap();
    metrics.iter_mut().for_each(|metric| scale_metric(metric, 100.0));
    fs::write(dir.path().join("2.json"), slower.to_string()).unwrap();
    failed["measurements"][0]["status"] = "failed".into();
    fs::write(dir.path().join("3.json"), failed.to_string()).unwrap();
    let stated = [("./2.json", 0), ("./2.json --strict", 1), ("./3.json", 1)].map(|(more, code)| {
        let (document, err) = compared(dir.path(), &format!("./1.json --fail-on 5% {more}"), code);
        format!("{}\n{}", document["gate"], without_numbers(&err))
    });
    // A gate that compares nothing is not passed.
    insta::assert_snapshot!(stated.join(""));
    for (page, code) in [("compared.html", 0), ("./none/x.html", 2)] {
        let line = format!("compare ./1.json ./2.json --store history --html {page}");
        let (_, err) = done(dir.path(), &line, code);
        assert_eq!(err.lines().count(), usize::from(code == 2), "{err}");
    }
    assert!(fs::read_to_string(dir.path().join("compared.html")).unwrap().ends_with("</html>"));
}

#[test]
fn a_measured_noise_decides_and_a_requirement_fails() {
    let dir = scratch();
    done(dir.path(), "doctor --rounds=3 --only null --quiet --store history", 0);
    run(dir.path(), "1.json");
    let (document, _) = compared(dir.path(), "./1.json last", 0);
    assert_eq!(document["compared"][0]["noise"], "doctor");
    // "No change" depends on this machine's noise.
    let verdict = text(&document["compared"][0]["verdict"]);
    assert!(["no-change", "inconclusive"].contains(&verdict), "a run is what it is: {verdict}");
    for (bound, is_met) in
        [("< 1 s", true), ("> 1 s", false), ("<= 100% of baseline", true), ("< 50% of baseline", false)]
    {
        let line = format!("./1.json last --require 'null latency {bound}'");
        let (document, _) = compared(dir.path(), &line, i32::from(!is_met));
        assert_eq!(document["requirements"][0]["met"], is_met, "{bound}");
    }
    let (_, err) = done(dir.path(), &format!("{NULL} --store none --require 'null latency > 1 s'"), 1);
    assert_eq!(without_numbers(&err), "plimsoll: not met: null latency > # s: null: # ns\n");
}

#[test]
fn a_requirement_names_what_its_baseline_leaves_out() {
    let dir = scratch();
    run(dir.path(), "1.json");
    let require = "--store new --require 'null latency < 100000000% of baseline'";
    let measured = |code| done(dir.path(), &format!("{NULL} {require}"), code).1;
    insta::assert_snapshot!(without_numbers(&measured(1)));
    assert_eq!(measured(0), "", "the first run is its baseline");
    done(dir.path(), "history import 1.json --store new", 0);
    let left_out = "baseline:last10: earlier runs of the plan that it leaves out: 1 imported";
    assert_eq!(measured(0).trim_end(), format!("plimsoll: {left_out}"));
    let document = json(&done(dir.path(), "compare baseline:last10 last --store new --format json", 0).0);
    assert_eq!(document["notes"], json!([left_out]));
}

#[test]
fn what_was_lost_is_named_and_fails_the_gate() {
    let dir = scratch();
    done(dir.path(), "doctor --rounds=3 --only null --quiet --store history", 0);
    run(dir.path(), "missing.json");
    let mut run = json_of(dir.path(), "missing.json");
    let mut other = run["measurements"][0].clone();
    other["case"] = json!({ "id": "null/threads=2", "benchmark": "null", "params": { "threads": 2 } });
    let ends = [("invalid", "past its limit"), ("failed", "no space"), ("skipped", "not here")];
    for (status, reason) in [("ok", "")].into_iter().chain(ends) {
        if status != "ok" {
            (other["status"], other["reason"]) = (status.into(), reason.into());
        }
        if ["failed", "skipped"].contains(&status) {
            other["metrics"] = json!([]);
        }
        run["measurements"] = json!([run["measurements"][0], other]);
        fs::write(dir.path().join(format!("{status}.json")), run.to_string()).unwrap();
    }
    let uncompared = |a: &str, b: &str, more: &str, code| {
        let (document, err) = compared(dir.path(), &format!("{a} {b} {more}"), code);
        let one = &document["uncompared"][0];
        assert_eq!(one["case"]["id"], "null/threads=2");
        let side = |side: &str| ["status", "reason"].map(|key| one[side][key].as_str().unwrap_or_default());
        (format!("{}: {:?}, {:?}", one["kind"], side("a"), side("b")), document, err)
    };
    let gate = "--fail-on 99%";
    for (status, reason) in ends.into_iter().chain([("missing", "its plan lacks it")]) {
        let b = format!("./{status}.json");
        let (lost, document, err) = uncompared("./ok.json", &b, &format!("{gate} --html page.html"), 1);
        assert_eq!(lost, format!("\"lost\": [\"ok\", \"\"], [\"{status}\", \"{reason}\"]"));
        assert_eq!(document["decided"]["lost"], 1);
        let (required, _) = compared(dir.path(), &format!("./ok.json {b} --require 'null latency < 1 s'"), 1);
        assert_eq!(required["requirements"][1]["met"], false);
        let line = format!("plimsoll: null threads 2 is lost: {status} in B ({reason}) [");
        assert_eq!(err.lines().filter(|stated| stated.starts_with(&line)).count(), 1, "{err}");
        uncompared("./ok.json", &b, &format!("{gate} --missing ignore"), 0);
        // On a quiet machine the other case may be "no change".
        let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
        let items = page.split("<li").skip(1).filter_map(|item| item.split("</li>").next());
        let lost: Vec<&str> = items.filter(|item| item.contains("null threads 2")).collect();
        assert!(!lost.is_empty() && !lost.iter().any(|item| item.contains("no change")), "{lost:?}");
    }
    // New cases, and cases without a figure on either side, are named but fail nothing.
    let failed = r#"["failed", "no space"]"#;
    for (a, b, wanted) in [
        ("./missing.json", "./ok.json", r#""new": ["missing", "its plan lacks it"], ["ok", ""]"#.to_owned()),
        ("./failed.json", "./invalid.json", format!(r#""neither": {failed}, ["invalid", "past its limit"]"#)),
        ("./failed.json", "./failed.json", format!(r#""neither": {failed}, {failed}"#)),
    ] {
        assert_eq!(uncompared(a, b, gate, 0).0, wanted);
    }
}

#[test]
fn several_runs_are_ranked_with_prices_and_on_a_page() {
    let dir = scratch();
    done(dir.path(), &format!("{NULL} --store none --json a.json"), 0);
    for name in ["b.json", "c.json"] {
        fs::copy(dir.path().join("a.json"), dir.path().join(name)).unwrap();
    }
    let names = ["./a.json", "./b.json", "./c.json"];
    let price = "--price=./a.json=$1/h,./b.json=$2/h,./c.json=$4/h";
    let compare = |more: &str, code| done(dir.path(), &format!("compare {} {more}", names.join(" ")), code);
    compare(&format!("{price} --html page.html"), 0);
    assert!(fs::read_to_string(dir.path().join("page.html")).unwrap().ends_with("</html>"));
    let document = json(&compare(&format!("{price} --format json"), 0).0);
    assert_eq!(document["schema"], "plimsoll.comparison/1");
    assert_eq!(document["prices"], json!({ "values": [1.0, 2.0, 4.0], "unit": "$/h" }));
    let places = list(&document["ranked"][0]["places"]);
    assert_eq!(places.len(), 3);
    let is_alike = |place: &Value| place["ranks"] == json!([1, 3]);
    assert!(places.iter().all(is_alike), "alike: in no order: {places:?}");
    let (out, _) = compare("--format csv", 0);
    assert_eq!(out.lines().count(), 1 + 3 * list(&document["ranked"]).len(), "{out}");
    assert!(names.iter().all(|name| out.contains(&format!(",{name},"))), "{out}");
    let formats = [("markdown", "### A = ./a.json, "), ("html", "<!DOCTYPE html>"), ("text", "A  ./a.json")];
    for (format, begins) in formats {
        assert!(compare(&format!("--format {format}"), 0).0.starts_with(begins), "{format}");
    }
    insta::assert_snapshot!(compare("--fail-on 5% --strict", 1).1);
}
