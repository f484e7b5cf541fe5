//! `plimsoll compare` by the whole program: names of sides, exit codes, what is refused.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{ended, plimsoll, scratch};

/// A run that takes no time, into `history` and a file.
fn run(dir: &Path, file: &str) {
    let words =
        ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet", "--store", "history"];
    ended(plimsoll(dir).args(words).args(["--json", file]), 0);
}

fn compare(dir: &Path, words: &[&str], code: i32) -> (String, String) {
    ended(plimsoll(dir).arg("compare").args(words).args(["--store", "history"]), code)
}

/// The document with all figures of its headlines multiplied.
fn scaled(dir: &Path, from: &str, to: &str, factor: f64) {
    let mut run: Value = serde_json::from_str(&fs::read_to_string(dir.join(from)).unwrap()).unwrap();
    let times = |value: &mut Value| *value = (value.as_f64().unwrap() * factor).into();
    for metric in run["measurements"][0]["metrics"].as_array_mut().unwrap() {
        metric["samples"].as_array_mut().unwrap().iter_mut().for_each(times);
        for key in ["mean", "median", "min", "max"] {
            times(&mut metric["summary"][key]);
        }
        metric["summary"]["ci95"].as_array_mut().unwrap().iter_mut().for_each(times);
    }
    fs::write(dir.join(to), run.to_string()).unwrap();
}

#[test]
fn sides_are_runs_files_and_baselines() {
    let dir = scratch();
    for file in ["1.json", "2.json", "3.json"] {
        run(dir.path(), file);
    }
    for sides in
        [["last~1", "last"], ["./1.json", "last"], ["./1.json", "./2.json"], ["baseline:last10", "last"]]
    {
        let (out, _) = compare(dir.path(), &sides, 0);
        assert!(out.contains("inconclusive") && out.contains("plimsoll doctor"), "{out}");
    }
    let files = ["compare", "./1.json", "./2.json", "--store", "none"];
    ended(plimsoll(dir.path()).args(files), 0);
    let (out, _) = compare(dir.path(), &["last~1", "last", "--format", "json"], 0);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["schema"], "plimsoll.comparison/1");
    assert_eq!(document["compared"][0]["verdict"], "inconclusive");
    let (out, _) = compare(dir.path(), &["last~1", "last", "--format", "markdown"], 0);
    assert!(out.starts_with("### A = last\\~1, B = last\n"), "{out}");
}

#[test]
fn without_a_known_noise_fail_on_fails_nothing_and_says_so() {
    let dir = scratch();
    run(dir.path(), "1.json");
    scaled(dir.path(), "1.json", "2.json", 100.0);
    let blind =
        "undetectable: regressions of any size in 1 of 1 metrics pass --fail-on 5.0%: 1 without a known";
    let (out, err) = compare(dir.path(), &["./1.json", "./2.json", "--fail-on", "5%"], 0);
    assert!(err.contains(blind) && out.contains("undetectable"), "{err}");
    let (_, err) = compare(dir.path(), &["./1.json", "./2.json", "--fail-on", "5%", "--strict"], 1);
    assert!(err.contains(blind), "{err}");
    let (_, err) = compare(dir.path(), &["./1.json", "./2.json", "--strict"], 2);
    assert!(err.contains("--fail-on"), "{err}");
    let mut other: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("1.json")).unwrap()).unwrap();
    other["measurements"][0]["status"] = "failed".into();
    fs::write(dir.path().join("3.json"), other.to_string()).unwrap();
    let (_, err) = compare(dir.path(), &["./1.json", "./3.json", "--fail-on", "5%"], 1);
    assert!(err.contains("nothing to compare"), "a gate that compares nothing is not passed: {err}");
    assert!(err.contains("null is lost: failed in B"), "{err}");
    other["measurements"] = serde_json::json!([]);
    fs::write(dir.path().join("4.json"), other.to_string()).unwrap();
    let (_, err) = compare(dir.path(), &["./1.json", "./4.json", "--fail-on", "5%"], 2);
    assert!(err.contains("has no results"), "{err}");
    let (_, _) = compare(dir.path(), &["./1.json", "./2.json", "--html", "compared.html"], 0);
    let page = fs::read_to_string(dir.path().join("compared.html")).unwrap();
    assert!(page.contains("null") && page.contains("Content-Security-Policy"), "{}", page.len());
    let (_, err) = compare(dir.path(), &["./1.json", "./2.json", "--html", "./none/x.html"], 2);
    assert!(err.lines().count() == 1, "{err}");
}

#[test]
fn a_measured_noise_decides_and_a_requirement_fails() {
    let dir = scratch();
    let doctor = ["doctor", "--rounds=3", "--only", "null", "--quiet", "--store", "history"];
    let (out, _) = ended(plimsoll(dir.path()).args(doctor), 0);
    assert!(out.contains("time source") && out.contains("Noise floor between 3 runs"), "{out}");
    run(dir.path(), "1.json");
    let (out, _) = compare(dir.path(), &["./1.json", "last", "--format", "json"], 0);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["compared"][0]["noise"], "doctor");
    // Whether "no change" can be said is up to this machine's noise.
    let verdict = document["compared"][0]["verdict"].as_str().unwrap();
    assert!(["no-change", "inconclusive"].contains(&verdict), "a run is what it is: {verdict}");
    let needs = |what: &str, code| {
        compare(dir.path(), &["./1.json", "last", "--require", &format!("null latency {what}")], code).0
    };
    assert!(needs("< 1 s", 0).contains("met: "));
    assert!(needs("> 1 s", 1).contains("NOT MET: "));
    assert!(needs("<= 100% of baseline", 0).contains("100 % of the baseline"));
    assert!(needs("< 50% of baseline", 1).contains("NOT MET: "));
    let words = ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet", "--store", "none"];
    let (_, err) = ended(plimsoll(dir.path()).args(words).args(["--require", "null latency > 1 s"]), 1);
    assert!(err.contains("not met: null latency > 1 s"), "{err}");
    let words = ["--require", "null latency <= 900% of baseline", "--json", "none.json"];
    let none = ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet", "--store", "none"];
    let (_, err) = ended(plimsoll(dir.path()).args(none).args(words), 2);
    assert!(err.contains("--store none are mutually exclusive") && err.lines().count() == 1, "{err}");
    assert!(!dir.path().join("none.json").exists(), "it is said before anything is measured");
}

/// A requirement of a run is held against earlier runs: which of them are left out is told, as compare tells it.
#[test]
fn a_requirement_names_what_its_baseline_leaves_out() {
    let dir = scratch();
    run(dir.path(), "1.json");
    let store = ["--quiet", "--store", "new"];
    let measured = |code| {
        let words = ["run", "--only", "null", "--samples=5", "--sample-time=1ms"];
        let require = ["--require", "null latency < 100000000% of baseline"];
        ended(plimsoll(dir.path()).args(words).args(require).args(store), code).1
    };
    let first = measured(1);
    let said: Vec<&str> = first.lines().collect();
    assert_eq!(said.len(), 2, "{first}");
    assert!(said[0].starts_with("plimsoll: baseline:last10: no complete run of plan "), "{first}");
    assert!(said[0].ends_with("there is no run before the first one to be its baseline"), "{first}");
    assert!(said[1].contains("not met: ") && said[1].contains("the baseline has no such figure"), "{first}");
    assert_eq!(measured(0), "", "the first run is its baseline");
    ended(plimsoll(dir.path()).args(["history", "import", "1.json", "--store", "new"]), 0);
    let third = measured(0);
    let left_out = "baseline:last10: earlier runs of the plan that it leaves out: 1 imported";
    assert_eq!(third.trim_end(), format!("plimsoll: {left_out}"));
    let (out, _) =
        ended(plimsoll(dir.path()).args(["compare", "baseline:last10", "last", "--store", "new"]), 0);
    assert!(out.contains(left_out), "{out}");
}

/// A figure that the second side has lost fails the gate and what is required, in every format, unless that is to be ignored.
#[test]
fn what_was_lost_is_named_and_fails_the_gate() {
    let dir = scratch();
    let doctor = ["doctor", "--rounds=3", "--only", "null", "--quiet", "--store", "history"];
    ended(plimsoll(dir.path()).args(doctor), 0);
    run(dir.path(), "1.json");
    let whole: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("1.json")).unwrap()).unwrap();
    let with = |name: &str, end: &dyn Fn(&mut Value)| {
        // A second case, which stays as it was.
        let mut run = whole.clone();
        let mut other = run["measurements"][0].clone();
        other["case"] =
            serde_json::json!({ "id": "null/threads=2", "benchmark": "null", "params": { "threads": 2 } });
        run["measurements"].as_array_mut().unwrap().push(other);
        end(&mut run["measurements"][1]);
        fs::write(dir.path().join(name), run.to_string()).unwrap();
    };
    let stop = |status: &'static str, reason: &'static str| {
        move |m: &mut Value| {
            (m["status"], m["reason"]) = (status.into(), reason.into());
            if status != "invalid" {
                m["metrics"] = serde_json::json!([]);
            }
        }
    };
    with("a.json", &|_| {});
    with("invalid.json", &stop("invalid", "past its limit"));
    with("failed.json", &stop("failed", "no space"));
    with("skipped.json", &stop("skipped", "not here"));
    for (b, said) in [
        ("./invalid.json", "invalid in B (past its limit)"),
        ("./failed.json", "failed in B (no space)"),
        ("./skipped.json", "skipped in B (not here)"),
        ("./1.json", "missing in B (its plan lacks it)"),
    ] {
        let words = |more: &[&'static str]| -> Vec<&str> { [&["./a.json", b], more].concat() };
        let gate = ["--fail-on", "99%"];
        let (out, err) = compare(dir.path(), &words(&gate), 1);
        assert!(err.contains(&format!("null threads 2 is lost: {said}")), "{err}");
        assert!(out.contains(&format!("lost (1): {said}:\n  null threads 2")), "{out}");
        assert!(out.trim_end().lines().last().unwrap().contains("1 lost"), "{out}");
        compare(dir.path(), &words(&[gate.as_slice(), &["--missing", "ignore"]].concat()), 0);
        let (out, _) = compare(dir.path(), &words(&["--format", "markdown"]), 0);
        assert!(out.contains("null threads 2"), "{out}");
        let (out, _) = compare(dir.path(), &words(&["--format", "json", "--html", "page.html"]), 0);
        let left: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(left["uncompared"][0]["kind"], "lost", "{out}");
        assert_eq!(left["uncompared"][0]["case"]["id"], "null/threads=2");
        let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
        assert!(page.contains("null threads 2"));
        // The other case may be no change, where this machine is quiet enough to say so.
        let lost: Vec<&str> = page.split("<li").filter(|item| item.contains("null threads 2")).collect();
        let said = |item: &&str| item.split("</li>").next().is_some_and(|item| item.contains("no change"));
        assert!(!lost.is_empty() && !lost.iter().any(said), "{lost:?}");
        let required = ["--require", "null latency < 1 s"];
        let (out, _) = compare(dir.path(), &words(&required), 1);
        assert!(out.contains("NOT MET: null latency < 1 s: null threads 2: "), "{out}");
    }
    // What is new, or no figure on either side, is named and fails nothing.
    let gate = ["--fail-on", "99%"];
    let (out, _) = compare(dir.path(), &[&["./1.json", "./a.json"], gate.as_slice()].concat(), 0);
    assert!(out.contains("new (1): missing in A (its plan lacks it):\n  null threads 2"), "{out}");
    let (out, _) = compare(dir.path(), &[&["./failed.json", "./invalid.json"], gate.as_slice()].concat(), 0);
    assert!(out.contains("not compared (1): failed in A (no space), invalid in B (past its limit)"), "{out}");
    let (out, _) = compare(dir.path(), &["./failed.json", "./failed.json"], 0);
    assert!(out.contains("failed in A and B (no space):\n  null threads 2"), "{out}");
}

/// One disturbed run of ten is no noise: what the others agree on is still seen.
#[test]
fn a_baseline_with_one_disturbed_run_still_sees() {
    let dir = scratch();
    run(dir.path(), "1.json");
    // However this machine measures, and whoever else was there, the figure is as sharp as this.
    let mut sharp: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("1.json")).unwrap()).unwrap();
    sharp["measurements"][0]["conditions"] = serde_json::json!({});
    let summary = &mut sharp["measurements"][0]["metrics"][0]["summary"];
    let median = summary["median"].as_f64().unwrap();
    summary["ci95"] = serde_json::json!([median * 0.999, median * 1.001]);
    fs::write(dir.path().join("1.json"), sharp.to_string()).unwrap();
    for n in 0..10 {
        let factor = if n == 6 { 16.0 } else { 1.0 + 0.002 * f64::from(n % 4) };
        let file = format!("{n}.json");
        scaled(dir.path(), "1.json", &file, factor);
        let mut one: Value =
            serde_json::from_str(&fs::read_to_string(dir.path().join(&file)).unwrap()).unwrap();
        one["id"] = format!("019aa5c3-2f1b-7c40-9d21-5b0c3f6a7e{n:02}").into();
        fs::write(dir.path().join(&file), one.to_string()).unwrap();
        ended(plimsoll(dir.path()).args(["history", "import", &file, "--store", "h"]), 0);
        let id = one["id"].as_str().unwrap();
        ended(plimsoll(dir.path()).args(["history", "tag", id, "before", "--store", "h"]), 0);
    }
    scaled(dir.path(), "1.json", "slow.json", 1.1);
    let words = ["compare", "before", "./slow.json", "--fail-on", "5%", "--format", "json", "--store", "h"];
    let (out, err) = ended(plimsoll(dir.path()).args(words), 1);
    let document: Value = serde_json::from_str(&out).unwrap();
    let one = &document["compared"][0];
    assert_eq!(
        (&one["verdict"], &one["outliers"], &one["noise"]),
        (&"regression".into(), &1.into(), &"runs".into()),
        "{out}"
    );
    assert!(one["smallest"].as_f64().unwrap() < 0.05, "{out}");
    assert_eq!(err.matches("regression of").count(), 1, "{err}");
}

/// Three documents whose figures differ by known shares.
#[test]
fn several_runs_are_ranked_with_prices_and_on_a_page() {
    let dir = scratch();
    let words =
        ["run", "quick", "--only", "null", "--samples", "6", "--sample-time", "20ms", "--store", "none"];
    ended(plimsoll(dir.path()).args(words).args(["--json", "a.json"]), 0);
    let text = fs::read_to_string(dir.path().join("a.json")).unwrap();
    for name in ["b.json", "c.json"] {
        fs::write(dir.path().join(name), &text).unwrap();
    }
    let names = ["./a.json", "./b.json", "./c.json"];
    let price = "--price=./a.json=$1/h,./b.json=$2/h,./c.json=$4/h";
    let compare = |more: &[&str]| {
        let mut command = plimsoll(dir.path());
        command.arg("compare").args(names).args(more);
        command
    };
    let (out, _) = ended(&mut compare(&[price, "--html", "page.html"]), 0);
    assert!(out.contains("B  ./b.json (2 $/h)") && out.contains("rank by price"), "{out}");
    assert!(out.contains("1–3"), "alike documents are in no order: {out}");
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("Performance against price") && page.ends_with("</html>"));
    let (out, _) = ended(&mut compare(&[price, "--format", "json"]), 0);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["schema"], "plimsoll.comparison/1");
    let places = document["ranked"][0]["places"].as_array().unwrap();
    assert_eq!(places.len(), 3);
    let (out, _) = ended(&mut compare(&["--format", "csv"]), 0);
    let metrics = document["ranked"].as_array().unwrap().len();
    assert_eq!(out.lines().count(), 1 + 3 * metrics, "{out}");
    assert!(names.iter().all(|name| out.contains(&format!(",{name},"))), "{out}");
    for (format, begins) in
        [("markdown", "### A = ./a.json, "), ("html", "<!DOCTYPE html>"), ("text", "A  ./a.json")]
    {
        assert!(ended(&mut compare(&["--format", format]), 0).0.starts_with(begins), "{format}");
    }
    for (more, code, says) in [
        (&["--fail-on", "5%", "--strict"][..], 1, "undetectable: regressions of any size in 2 of 2 metrics"),
        (&["--price", "./a.json=1/h"], 2, "./b.json has none"),
        (&["--weights", "null"], 2, "is not NAME=WEIGHT"),
        (&["--weights", "null=1,disk=2"], 2, "--weights disk: no side has a case of this name"),
        (&["--weights", "null=1,n*=2"], 2, "--weights n* and null are mutually exclusive"),
        (&["--weights", "null=1,null=2"], 2, "the name has two weights"),
        (&["baseline:last3", "published:x"], 2, "only one side may be a baseline"),
        (
            &["--format", "junit"],
            2,
            "--format junit is not supported on compare (it is for export): use text, html, json, csv, markdown",
        ),
        (&["--format", "pdf"], 2, "--format must be text, html, json, csv or markdown: 'pdf' is not"),
    ] {
        let (_, err) = ended(&mut compare(more), code);
        assert!(err.contains(says), "{more:?}: {err}");
    }
}
