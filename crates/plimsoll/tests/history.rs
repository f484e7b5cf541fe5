//! The history by the whole program: tags, notes, imports, figures over time; exports that come back.

use std::fs;
use std::path::Path;

use crate::support::{ended, plimsoll, scratch};

fn run(dir: &Path) {
    let words =
        ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet", "--store", "history.db"];
    ended(plimsoll(dir).args(words), 0);
}

fn history(dir: &Path, words: &[&str], code: i32) -> (String, String) {
    ended(plimsoll(dir).arg("history").args(words).args(["--store", "history.db"]), code)
}

#[test]
fn tags_name_runs_and_can_be_taken_away() {
    let dir = scratch();
    run(dir.path());
    history(dir.path(), &["tag", "last", "before-upgrade"], 0);
    run(dir.path());
    let (first, _) = history(dir.path(), &["show", "before-upgrade"], 0);
    assert!(first.contains("null"), "{first}");
    ended(plimsoll(dir.path()).args(["compare", "before-upgrade", "last", "--store", "history.db"]), 0);
    history(dir.path(), &["tag", "last~1", "before-upgrade", "--remove"], 0);
    history(dir.path(), &["tag", "last~1", "before-upgrade", "--remove"], 2);
    history(dir.path(), &["show", "before-upgrade"], 2);
    history(dir.path(), &["tag", "last", "cafe"], 2);
    history(dir.path(), &["note", "last", "after the new kernel"], 0);
    history(dir.path(), &["note", "last~9", "x"], 2);
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
    let (document, _) = ended(plimsoll(here.path()).args(["export", "last", "--store", "history.db"]), 0);
    fs::write(there.path().join("run.json"), &document).unwrap();
    let import = |words: &[&str], code| history(there.path(), &[&["import"], words].concat(), code);
    assert_eq!(import(&["run.json"], 0).0, "1 entered\n");
    assert_eq!(import(&["run.json", "run.json"], 0).0, "0 entered, 2 here already\n");
    let (again, _) = ended(plimsoll(there.path()).args(["export", "last", "--store", "history.db"]), 0);
    assert_eq!(again, document);
    run(there.path());
    let words = ["compare", "baseline:last10", "last", "--store", "history.db"];
    let (_, err) = ended(plimsoll(there.path()).args(words), 2);
    assert!(err.contains("no baseline"), "{err}");
    fs::write(there.path().join("cut.json"), &document[..document.len() / 2]).unwrap();
    assert!(import(&["cut.json"], 2).1.contains("cut.json"));
}

#[test]
fn every_format_is_written_whole_or_not_at_all() {
    let dir = scratch();
    run(dir.path());
    let export = |format: &str| {
        let words = ["export", "last", "--format", format, "--store", "history.db"];
        ended(plimsoll(dir.path()).args(words), 0).0
    };
    assert!(export("csv").starts_with("run,started,node,case,"));
    assert_eq!(export("csv").lines().count(), 6);
    assert_eq!(export("ndjson").lines().count(), 5);
    assert!(export("markdown").contains("| case |"));
    assert!(export("openmetrics").ends_with("# EOF\n"));
    assert!(export("junit").contains("<testcase classname=\"null\""));
    let words =
        ["export", "last", "--format", "junit", "--require", "null latency > 1 s", "--store", "history.db"];
    let (out, _) = ended(plimsoll(dir.path()).args(words), 1);
    assert!(out.contains("failures=\"1\""), "{out}");
    fs::create_dir(dir.path().join("directory")).unwrap();
    ended(plimsoll(dir.path()).args(["export", "last", "--output", "directory", "--store", "history.db"]), 2);
    ended(plimsoll(dir.path()).args(["export", "nothing", "--store", "history.db"]), 2);
}
