//! The history by the whole program: tags, notes, imports, figures over time; exports that come back.

use std::fs;
use std::path::Path;

use plimsoll::document::Run;
use plimsoll::report::format::Subject;
use plimsoll::store::{Location, Store};
use serde_json::Value;

use crate::support::{ended, plimsoll, scratch};

fn run(dir: &Path) {
    let words =
        ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet", "--store", "history"];
    ended(plimsoll(dir).args(words), 0);
}

fn history(dir: &Path, words: &[&str], code: i32) -> (String, String) {
    ended(plimsoll(dir).arg("history").args(words).args(["--store", "history"]), code)
}

#[test]
fn tags_name_runs_and_can_be_taken_away() {
    let dir = scratch();
    run(dir.path());
    history(dir.path(), &["tag", "last", "before-upgrade"], 0);
    run(dir.path());
    let (first, _) = history(dir.path(), &["show", "before-upgrade"], 0);
    assert!(first.contains("null"), "{first}");
    ended(plimsoll(dir.path()).args(["compare", "before-upgrade", "last", "--store", "history"]), 0);
    history(dir.path(), &["tag", "last~1", "before-upgrade", "--remove"], 0);
    history(dir.path(), &["tag", "last~1", "before-upgrade", "--remove"], 2);
    history(dir.path(), &["show", "before-upgrade"], 2);
    history(dir.path(), &["tag", "last", "cafe"], 2);
    history(dir.path(), &["note", "last", "after the new kernel"], 0);
    history(dir.path(), &["note", "last~9", "x"], 2);
    history(dir.path(), &["tag", "last", "upgraded"], 0);
    let (list, _) = history(dir.path(), &[], 0);
    assert_eq!(list.matches("upgraded · after the new kernel").count(), 1, "{list}");
    let (shown, _) = history(dir.path(), &["show", "last"], 0);
    assert!(shown.ends_with("upgraded · after the new kernel\n"), "{shown}");
    let (shown, _) = history(dir.path(), &["show", "last~1"], 0);
    assert!(!shown.contains("after the new kernel"), "{shown}");
    history(dir.path(), &["note", "last", ""], 0);
    assert!(!history(dir.path(), &[], 0).0.contains("new kernel"));
}

/// Five nights at one level, then slower ones: each of those fails until the loss is accepted.
#[test]
fn a_lasting_loss_fails_each_night_until_it_is_accepted() {
    let dir = scratch();
    run(dir.path());
    let (text, _) = ended(plimsoll(dir.path()).args(["export", "last", "--store", "history"]), 0);
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document["measurements"][0]["conditions"] = serde_json::json!({});
    let median = document["measurements"][0]["metrics"][0]["summary"]["median"].as_f64().unwrap();
    let night = |n: usize, factor: f64| {
        let mut one = document.clone();
        one["id"] = format!("029aa5c3-2f1b-7c40-9d21-5b0c3f6a{n:04}").into();
        let figure = median * factor * (1.0 + 0.002 * (n % 3) as f64);
        let metric = &mut one["measurements"][0]["metrics"][0];
        metric["samples"].as_array_mut().unwrap().fill(figure.into());
        for key in ["mean", "median", "min", "max"] {
            metric["summary"][key] = figure.into();
        }
        (metric["summary"]["stdev"], metric["summary"]["mad"]) = (0.0.into(), 0.0.into());
        metric["summary"]["ci95"] = serde_json::json!([figure, figure]);
        // As a run of this machine: an imported one is no baseline.
        let one: Run = serde_json::from_value(one).unwrap();
        let mut history =
            Store::open(&Location::named(&dir.path().join("nights")), Default::default()).unwrap();
        history.begin(&one).unwrap();
        history.finish(&one).unwrap();
    };
    let gate = |code| {
        let words = ["compare", "baseline:last10", "last", "--fail-on", "10%", "--store", "nights"];
        ended(plimsoll(dir.path()).args(words), code)
    };
    (0..10).for_each(|n| night(n, 1.0));
    for n in 10..26 {
        night(n, 1.15);
        let (out, err) = gate(1);
        assert!(err.contains("regression of"), "night {n}: {err}");
        assert_eq!(out.contains("history accept last"), n > 10, "night {n}: {out}");
    }
    // A little less of the loss is no recovery.
    night(26, 1.09);
    assert!(gate(1).1.contains("which was not accepted"));
    let accept = ["history", "accept", "last", "--store", "nights"];
    let (out, _) = ended(plimsoll(dir.path()).args(accept), 0);
    assert!(out.contains("begin with run 029aa5c3-2f1b"), "{out}");
    night(27, 1.15);
    let (out, _) = gate(0);
    assert!(!out.contains("history accept"), "{out}");
    night(28, 1.4);
    gate(1);
}

#[test]
fn what_leaves_the_machine_can_be_redacted() {
    let dir = scratch();
    let words =
        ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet", "--store", "history"];
    let leaving = ["--redact", "--json", "run.json", "--html", "run.html"];
    ended(plimsoll(dir.path()).args(words).args(leaving), 0);
    let (kept, _) = ended(plimsoll(dir.path()).args(["export", "last", "--store", "history"]), 0);
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let host = kept["machine"]["host"].as_str().unwrap().to_owned();
    let macs: Vec<String> = kept["machine"]["network"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|nic| nic["mac"].as_str().map(str::to_owned))
        .filter(|mac| mac != "00:00:00:00:00:00")
        .collect();
    let again = ["report", "last", "--redact", "--html", "again.html", "--store", "history"];
    ended(plimsoll(dir.path()).args(again), 0);
    let export = |format: &str| {
        let words = ["export", "last", "--redact", "--format", format, "--store", "history"];
        ended(plimsoll(dir.path()).args(words), 0).0
    };
    let mut texts: Vec<String> = ["run.json", "run.html", "again.html"]
        .map(|f| fs::read_to_string(dir.path().join(f)).unwrap())
        .to_vec();
    texts.extend(Subject::Run.formats().map(|format| export(format.name)));
    for (index, text) in texts.iter().enumerate() {
        // The island and the scripts of the pages are one line each; a short name may be a part of a word of theirs.
        let named =
            |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == host);
        let page = text.contains("<script");
        let body = if page { text.split("<script").next().unwrap() } else { text.as_str() };
        let style = body.split_once("</style>").map_or(body, |(_, rest)| rest);
        assert!(!style.lines().any(named), "{index} tells {host}");
        assert!(macs.iter().all(|mac| !text.contains(mac)), "{index} tells a hardware address");
        assert!(!page || text.contains("host-1"));
    }
    let refused = ["--redact", "--events", "events.json"];
    ended(plimsoll(dir.path()).args(words).args(refused), 2);
}

#[test]
fn an_export_holds_a_requirement_against_the_baseline_that_the_run_had() {
    let dir = scratch();
    run(dir.path());
    run(dir.path());
    let words =
        ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet", "--store", "history"];
    let require = ["--require", "null latency < 0% of baseline"];
    let (_, err) = ended(plimsoll(dir.path()).args(words).args(require), 1);
    let unmet = err.lines().find(|line| line.starts_with("plimsoll: not met: ")).unwrap();
    assert!(unmet.contains("of the baseline"), "{unmet}");
    for more in [["--format", "csv"], ["--redact", "--format=junit"]] {
        let words = ["export", "last", "--store", "history"];
        let (_, again) = ended(plimsoll(dir.path()).args(words).args(more).args(require), 1);
        assert_eq!(again.trim_end(), unmet, "{more:?}");
    }
}

#[test]
fn man_pages_and_completions_are_whole() {
    let dir = scratch();
    ended(plimsoll(dir.path()).args(["generate", "out"]), 0);
    let out = dir.path().join("out");
    let command = plimsoll::app::command();
    let shown: Vec<_> = command.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    assert!(shown.len() > 12, "{}", shown.len());
    let files = ["plimsoll.bash", "_plimsoll", "plimsoll.fish"];
    let completions = files.map(|file| fs::read_to_string(out.join(file)).unwrap());
    for sub in &shown {
        let page = fs::read_to_string(out.join(format!("man1/plimsoll-{}.1", sub.get_name()))).unwrap();
        assert!(page.starts_with(".ie") || page.contains(".TH plimsoll"), "{page}");
        // A dash is escaped in a page.
        let page = page.replace("\\-", "-");
        for flag in sub.get_arguments().filter(|a| !a.is_hide_set()).filter_map(|a| a.get_long()) {
            assert!(page.contains(&format!("--{flag}")), "{}: --{flag}", sub.get_name());
            for (file, text) in files.iter().zip(&completions) {
                let typed = if file.ends_with("fish") { format!("-l {flag}") } else { format!("--{flag}") };
                assert!(text.contains(&typed), "{file}: {} --{flag}", sub.get_name());
            }
        }
    }
    for hidden in ["worker", "far-end", "launch"] {
        assert!(!out.join(format!("man1/plimsoll-{hidden}.1")).exists());
        assert!(!completions[0].contains(&format!("plimsoll__{}", hidden.replace('-', "__"))), "{hidden}");
    }
    let bash = std::process::Command::new("bash").arg("-n").arg(out.join("plimsoll.bash")).status().unwrap();
    assert!(bash.success());
    ended(plimsoll(dir.path()).args(["generate", "/proc/nothing"]), 4);
}

#[test]
fn figures_are_shown_over_time() {
    let dir = scratch();
    (0..3).for_each(|_| run(dir.path()));
    let (out, _) = history(dir.path(), &["show", "null", "--since", "30d"], 0);
    assert!(out.contains("null latency") && out.contains("3 runs"), "{out}");
    assert!(out.is_ascii() || out.lines().all(|l| l.chars().count() <= 80), "{out}");
    let (out, _) = history(dir.path(), &["show", "gpu.*"], 0);
    assert!(out.contains("no stored run has such a figure"), "{out}");
    history(dir.path(), &["show", "null", "--since", "soon"], 2);
}

#[test]
fn what_is_exported_can_be_imported_once_and_is_no_baseline() {
    let (here, there) = (scratch(), scratch());
    run(here.path());
    let (document, _) = ended(plimsoll(here.path()).args(["export", "last", "--store", "history"]), 0);
    fs::write(there.path().join("run.json"), &document).unwrap();
    let import = |words: &[&str], code| history(there.path(), &[&["import"], words].concat(), code);
    assert_eq!(import(&["run.json"], 0).0, "1 entered\n");
    assert_eq!(import(&["run.json", "run.json"], 0).0, "0 entered, 2 here already\n");
    let (again, _) = ended(plimsoll(there.path()).args(["export", "last", "--store", "history"]), 0);
    assert_eq!(again, document);
    // A page holds its documents, and gives them back as they were.
    let (page, _) =
        ended(plimsoll(here.path()).args(["export", "last", "--store", "history", "--format", "html"]), 0);
    let third = scratch();
    fs::write(third.path().join("run.html"), &page).unwrap();
    assert_eq!(history(third.path(), &["import", "run.html"], 0).0, "1 entered\n");
    let (again, _) = ended(plimsoll(third.path()).args(["export", "last", "--store", "history"]), 0);
    assert_eq!(again, document);
    fs::write(third.path().join("other.html"), "<!DOCTYPE html><p>no run</p>").unwrap();
    let refused = history(third.path(), &["import", "other.html"], 2).1;
    assert!(refused.contains("other.html: this page holds no run document"), "{refused}");
    run(there.path());
    let words = ["compare", "baseline:last10", "last", "--store", "history"];
    let (_, err) = ended(plimsoll(there.path()).args(words), 2);
    assert!(err.contains("leaves out: 1 imported"), "{err}");
    fs::write(there.path().join("cut.json"), &document[..document.len() / 2]).unwrap();
    assert!(import(&["cut.json"], 2).1.contains("cut.json"));
}

/// What is done to a document.
type Change = fn(&mut Value);

/// One change for each thing that the history's tables demand of a run: unique, there, of its kind.
#[test]
fn a_document_that_the_tables_would_refuse_is_refused_in_plain_words() {
    let dir = scratch();
    run(dir.path());
    let (document, _) = ended(plimsoll(dir.path()).args(["export", "last", "--store", "history"]), 0);
    let document: Value = serde_json::from_str(&document).unwrap();
    let changes: &[(&str, Change)] = &[
        ("run.id", |v| v["id"] = Value::Null),
        ("run.id", |v| v["id"] = "x".into()),
        ("run.started", |v| v["started"] = Value::Null),
        ("run.state", |v| v["status"] = "running".into()),
        ("run.plan", |v| v["plan"]["name"] = Value::Null),
        ("run.machine", |v| v["machine"]["id"] = Value::Null),
        ("run.elapsed_s", |v| v["elapsed_s"] = Value::Null),
        ("run.elapsed_s", |v| v["elapsed_s"] = "long".into()),
        ("measurement.case_id", |v| v["measurements"][0]["case"]["id"] = Value::Null),
        ("measurement.status", |v| v["measurements"][0]["status"] = "good".into()),
        ("series.metric", |v| v["measurements"][0]["metrics"][0]["name"] = Value::Null),
        ("series.unit", |v| v["measurements"][0]["metrics"][0]["unit"] = Value::Null),
        ("series.better", |v| v["measurements"][0]["metrics"][0]["better"] = "wider".into()),
        ("point.median", |v| v["measurements"][0]["metrics"][0]["summary"]["median"] = Value::Null),
        ("point.of_limit", |v| v["measurements"][0]["metrics"][0]["of_limit"] = "all".into()),
        ("point (series, run, position)", |v| {
            let metrics = v["measurements"][0]["metrics"].as_array_mut().unwrap();
            metrics.push(metrics[0].clone());
        }),
        ("a case twice", |v| {
            let measurements = v["measurements"].as_array_mut().unwrap();
            measurements.push(measurements[0].clone());
        }),
        ("a machine twice", |v| {
            let nodes = v["nodes"].as_array_mut().unwrap();
            nodes.push(nodes[0].clone());
        }),
    ];
    for (what, change) in changes {
        let mut other = document.clone();
        other["id"] = "019aa5c3-2f1b-7c40-9d21-5b0c3f6a7e88".into();
        change(&mut other);
        fs::write(dir.path().join("other.json"), other.to_string()).unwrap();
        let (out, err) = history(dir.path(), &["import", "other.json"], 2);
        assert!(out.is_empty() && err.lines().count() == 1 && err.contains("other.json"), "{what}: {err}");
        let raw = ["UNIQUE", "NOT NULL", "CHECK", "constraint"].iter().any(|word| err.contains(word));
        assert!(!raw && (err.contains(" twice") || !what.contains("twice")), "{what}: {err}");
    }
    let (list, _) = history(dir.path(), &["list"], 0);
    assert_eq!(list.matches("1 ok").count(), 1, "{list}");
}

#[test]
fn every_format_is_written_whole_or_not_at_all() {
    let dir = scratch();
    run(dir.path());
    let export = |format: &str| {
        let words = ["export", "last", "--format", format, "--store", "history"];
        ended(plimsoll(dir.path()).args(words), 0).0
    };
    assert!(export("csv").starts_with("run,started,node,case,"));
    assert_eq!(export("csv").lines().count(), 6);
    assert_eq!(export("ndjson").lines().count(), 5);
    assert!(export("markdown").contains("| case |"));
    assert!(export("openmetrics").ends_with("# EOF\n"));
    assert!(export("junit").contains("<testcase classname=\"null\""));
    let words =
        ["export", "last", "--format", "junit", "--require", "null latency > 1 s", "--store", "history"];
    let (out, err) = ended(plimsoll(dir.path()).args(words), 1);
    assert!(out.contains("failures=\"1\""), "{out}");
    assert!(err.contains("not met: null latency > 1 s: null:"), "{err}");
    fs::create_dir(dir.path().join("directory")).unwrap();
    ended(plimsoll(dir.path()).args(["export", "last", "--output", "directory", "--store", "history"]), 2);
    ended(plimsoll(dir.path()).args(["export", "nothing", "--store", "history"]), 2);
}
