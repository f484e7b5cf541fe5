//! The history by the whole program: tags, notes, imports, figures over time, exports.

use std::fs;
use std::path::Path;

use plimsoll_history::{Location, Store};
use plimsoll_result::document::Run;

use crate::support::{NULL, done, json, list, run, scratch, text, without_numbers};

fn exported(dir: &Path, more: &str) -> String {
    done(dir, &format!("export last --store history {more}"), 0).0
}

fn history(dir: &Path, line: &str, code: i32) -> (String, String) {
    done(dir, &format!("history {line} --store history"), code)
}

#[test]
fn tags_name_runs_and_can_be_taken_away() {
    let dir = scratch();
    let dir = dir.path();
    run(dir);
    history(dir, "tag last before-upgrade", 0);
    run(dir);
    history(dir, "show before-upgrade", 0);
    done(dir, "compare before-upgrade last --store history", 0);
    history(dir, "tag last~1 before-upgrade --remove", 0);
    history(dir, "show before-upgrade", 2);
    let note = |text: &str| history(dir, &format!("note last '{text}'"), 0);
    note("after the new kernel");
    history(dir, "tag last upgraded", 0);
    let marked = "upgraded · after the new kernel";
    let shown = |line: &str| history(dir, line, 0).0;
    assert_eq!(shown("").matches(marked).count(), 1);
    assert!(shown("show last").ends_with(&format!("{marked}\n")));
    assert_eq!(shown("show last~1").matches("kernel").count(), 0);
    note("");
    assert_eq!(shown("").matches("kernel").count(), 0);
}

#[test]
fn a_lasting_loss_fails_each_night_until_it_is_accepted() {
    let dir = scratch();
    run(dir.path());
    let mut document = json(&exported(dir.path(), ""));
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
        let mut store = Store::open(&Location::Named(dir.path().join("nights")), Default::default()).unwrap();
        store.begin(&one).unwrap();
        store.finish(&one).unwrap();
    };
    let against = |side: &str, code| {
        let line = format!("compare {side} last --fail-on 10% --store nights --format json");
        let (out, err) = done(dir.path(), &line, code);
        (json(&out), without_numbers(&err))
    };
    let gate = |code| against("baseline:last10", code);
    for n in 0..10 {
        night(n, 1.0);
        done(dir.path(), "history tag last before --store nights", 0);
    }
    for n in 10..26 {
        night(n, 1.15);
        let (document, err) = gate(1);
        assert_eq!(document["decided"]["regressions"], 1, "night {n}");
        assert_eq!(err.matches("regression of").count(), 1, "{err}");
        // That earlier nights with the loss are left out, and how it is accepted.
        assert_eq!(list(&document["notes"]).len(), usize::from(n > 10), "night {n}");
    }
    let one = &against("before", 1).0["compared"][0];
    assert_eq!((text(&one["verdict"]), text(&one["noise"])), ("regression", "runs"), "{one}");
    // A little less of the loss is no recovery.
    night(26, 1.09);
    let (document, err) = gate(1);
    insta::assert_snapshot!(format!("{}\n{err}", without_numbers(&document["notes"].to_string())));
    let (out, _) = done(dir.path(), "history accept last --store nights", 0);
    assert!(out.starts_with("baselines of plan quick begin with run 029aa5c3-2f1b"), "{out}");
    night(27, 1.15);
    assert_eq!(gate(0).0["notes"], serde_json::json!([]));
    night(28, 1.4);
    gate(1);
}

#[test]
fn an_export_holds_a_requirement_against_the_baseline_that_the_run_had() {
    let dir = scratch();
    run(dir.path());
    run(dir.path());
    let require = "--require 'null latency < 0% of baseline'";
    let (_, err) = done(dir.path(), &format!("{NULL} --store history {require}"), 1);
    let unmet = err.lines().find(|line| line.starts_with("plimsoll: not met: ")).unwrap();
    let wanted = "plimsoll: not met: null latency < #% of baseline: null: # ns, # % of the baseline";
    assert_eq!(without_numbers(unmet), wanted);
    for more in ["csv", "junit --redact"] {
        let line = format!("export last --store history --format {more} {require}");
        let (out, again) = done(dir.path(), &line, 1);
        assert_eq!(again.trim_end(), unmet, "{more}");
        let csv = ("run,started,node,case,", "");
        let (begins, failures) = if more == "csv" { csv } else { ("<?xml", "failures=\"1\"") };
        assert!(out.starts_with(begins) && out.contains(failures), "{out}");
    }
}

#[test]
fn man_pages_and_completions_are_whole() {
    let dir = scratch();
    done(dir.path(), "generate out", 0);
    let out = dir.path().join("out");
    let command = plimsoll::app::command();
    let shown: Vec<_> = command.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    assert!(shown.len() > 12, "{}", shown.len());
    let files = ["plimsoll.bash", "_plimsoll", "plimsoll.fish"];
    let completions = files.map(|file| fs::read_to_string(out.join(file)).unwrap());
    for sub in &shown {
        let page = fs::read_to_string(out.join(format!("man1/plimsoll-{}.1", sub.get_name()))).unwrap();
        let is_page = page.starts_with(".ie") || page.lines().any(|line| line.starts_with(".TH plimsoll"));
        assert!(is_page, "{page}");
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
    for hidden in ["worker", "private-server", "observer", "launch"] {
        assert!(!out.join(format!("man1/plimsoll-{hidden}.1")).exists());
        assert!(!completions[0].contains(&format!("plimsoll__{}", hidden.replace('-', "__"))), "{hidden}");
    }
    let bash = std::process::Command::new("bash").arg("-n").arg(out.join("plimsoll.bash")).status().unwrap();
    assert!(bash.success());
}

#[test]
fn figures_are_shown_over_time() {
    let dir = scratch();
    (0..3).for_each(|_| run(dir.path()));
    let (out, _) = history(dir.path(), "show null --since 30d", 0);
    assert_eq!(out.lines().nth(1), Some("  null latency"), "{out}");
    assert!(out.lines().nth(2).unwrap().split(['(', ',']).any(|part| part == "3 runs"), "{out}");
    assert!(out.is_ascii() || out.lines().all(|l| l.chars().count() <= 80), "{out}");
    let (out, _) = history(dir.path(), "show gpu.*", 0);
    insta::assert_snapshot!(out);
}

#[test]
fn what_is_exported_can_be_imported_once_and_is_no_baseline() {
    let (here, there) = (scratch(), scratch());
    run(here.path());
    let document = exported(here.path(), "");
    fs::write(there.path().join("run.json"), &document).unwrap();
    let import = |line: &str| history(there.path(), &format!("import {line}"), 0).0;
    assert_eq!(import("run.json"), "1 entered\n");
    assert_eq!(import("run.json run.json"), "0 entered, 2 here already\n");
    assert_eq!(exported(there.path(), ""), document);
    // A page holds its documents, and gives them back as they were.
    let third = scratch();
    fs::write(third.path().join("run.html"), exported(here.path(), "--format html")).unwrap();
    assert_eq!(history(third.path(), "import run.html", 0).0, "1 entered\n");
    assert_eq!(exported(third.path(), ""), document);
    run(there.path());
    let (_, err) = done(there.path(), "compare baseline:last10 last --store history", 2);
    insta::assert_snapshot!(err);
}
