use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::bench::Better;
use crate::fixture;
use crate::quantity::Unit;
use crate::report::target::Waits;
use crate::store::{Began, Point};

fn open(path: &Path) -> Result<Directory, SiteError> {
    Directory::open(path, &Waits::forever(|_| {}), "1", false)
}

fn summary(digest: &str, page: &str) -> Summary {
    Summary::of(&fixture::run(), digest.to_owned(), page.len() as u64)
}

fn files(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A site of one run, with its page.
fn made(path: &Path, id: &str) -> String {
    let page = names::run(id);
    let all = files(&[names::INDEX, &page]);
    let mut directory = open(path).unwrap();
    directory.claim(&all, &BTreeMap::new()).unwrap();
    assert!(directory.put(&page, "page").unwrap());
    assert!(directory.put(names::INDEX, "index").unwrap());
    let runs = BTreeMap::from([(id.to_owned(), summary("d", "page"))]);
    assert_eq!(directory.finish(all, runs).unwrap(), 0);
    page
}

fn entries(path: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for directory in [path.to_owned(), path.join(names::RUNS), path.join(names::MACHINES)] {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                let name = entry.path().strip_prefix(path).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_run_that_has_not_changed_is_known_again_and_one_that_is_gone_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site");
    let page = made(&path, "a");
    let before = entries(&path);
    let mut again = open(&path).unwrap();
    assert_eq!(again.summary("a", "d"), Some(&summary("d", "page")));
    assert_eq!(again.summary("a", "other"), None, "it changed");
    assert_eq!(again.summary("b", "d"), None);
    let runs = BTreeMap::from([("a".to_owned(), summary("d", "page"))]);
    again.claim(&files(&[names::INDEX, &page]), &runs).unwrap();
    assert!(!again.put(names::INDEX, "index").unwrap(), "it has this text");
    assert!(again.put(names::INDEX, "INDEX").unwrap());
    assert_eq!(again.finish(files(&[names::INDEX]), BTreeMap::new()).unwrap(), 1);
    let after = entries(&path);
    assert!(!after.contains_key(&page) && before.contains_key(&page));
    assert_eq!(after[names::INDEX], "INDEX");
}

#[test]
fn another_version_or_redaction_and_a_page_that_is_not_whole_make_pages_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site");
    let page = made(&path, "a");
    let known = |version: &str, redacted: bool| {
        let open = Directory::open(&path, &Waits::forever(|_| {}), version, redacted).unwrap();
        open.summary("a", "d").is_some()
    };
    assert!(known("1", false));
    assert!(!known("2", false) && !known("1", true));
    fs::write(path.join(&page), "pag").unwrap();
    assert!(!known("1", false));
    fs::remove_file(path.join(&page)).unwrap();
    assert!(!known("1", false));
}

#[test]
fn what_a_link_leads_to_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (dir.path().join("site"), dir.path().join("elsewhere"));
    let page = made(&path, "a");
    fs::write(&elsewhere, "mine").unwrap();
    for name in [names::INDEX, &page] {
        let file = path.join(name);
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        let mut again = open(&path).unwrap();
        let error = again.claim(&files(&[names::INDEX, &page]), &BTreeMap::new()).unwrap_err();
        assert!(matches!(&error, SiteError::Refused(why) if why.contains("is a link")), "{error}");
        assert!(again.put(name, "other").is_err());
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn what_is_no_site_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine.txt"), "mine").unwrap();
    let refused = |path: &Path, says: &str| {
        let error = open(path).unwrap_err();
        assert!(matches!(error, SiteError::Refused(_)), "{error}");
        assert!(error.to_string().contains(says) && !error.to_string().contains('\n'), "{error}");
    };
    refused(dir.path(), "is not empty (mine.txt)");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let marker = dir.path().join(MARKER);
    for (text, says) in [
        ("{}", "missing field"),
        ("nonsense", "expected"),
        (r#"{"schema":"other/1","version":"","redacted":false,"files":[],"runs":{}}"#, "schema other/1"),
        (
            r#"{"schema":"plimsoll.site/1","version":"","redacted":false,"files":["../x"],"runs":{}}"#,
            "it names ../x",
        ),
        (
            r#"{"schema":"plimsoll.site/1","version":"","redacted":false,"files":["run/../../x.html"],"runs":{}}"#,
            "it names",
        ),
    ] {
        fs::write(&marker, text).unwrap();
        refused(dir.path(), says);
    }
    fs::remove_file(&marker).unwrap();
    std::os::unix::fs::symlink(dir.path().join("mine.txt"), &marker).unwrap();
    refused(dir.path(), "not a regular file");
    assert!(matches!(open(&dir.path().join("mine.txt")), Err(SiteError::Failed(_))), "a file");
    assert!(matches!(open(&dir.path().join("no/such")), Err(SiteError::Failed(_))));
}

#[test]
fn a_foreign_file_where_a_page_would_be_is_refused_and_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site");
    made(&path, "a");
    fs::write(path.join("CNAME"), "example.org").unwrap();
    let other = names::run("b");
    fs::write(path.join(&other), "mine").unwrap();
    let before = entries(&path);
    let mut again = open(&path).unwrap();
    let error = again.claim(&files(&[names::INDEX, &other]), &BTreeMap::new()).unwrap_err();
    assert!(error.to_string().contains("is no file of this site"), "{error}");
    assert!(again.put(&other, "x").is_err(), "not claimed");
    assert!(again.put("../escape.html", "x").is_err());
    drop(again);
    assert_eq!(entries(&path), before);
    fs::remove_file(path.join(&other)).unwrap();
    fs::remove_dir_all(path.join(names::MACHINES)).unwrap();
    std::os::unix::fs::symlink(dir.path(), path.join(names::MACHINES)).unwrap();
    let error = open(&path).unwrap().claim(&files(&[names::INDEX]), &BTreeMap::new()).unwrap_err();
    assert!(error.to_string().contains("is not a directory of this site"), "{error}");
}

#[test]
fn after_an_interruption_the_old_site_is_whole_and_the_next_call_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site");
    let old = made(&path, "a");
    let new = names::run("b");
    let all = files(&[names::INDEX, &old, &new]);
    let mut killed = open(&path).unwrap();
    let kept = BTreeMap::from([("a".to_owned(), summary("d", "page"))]);
    killed.claim(&all, &kept).unwrap();
    killed.put(&new, "half of the pages").unwrap();
    drop(killed);
    let found = entries(&path);
    assert_eq!((found[&old].as_str(), found[names::INDEX].as_str()), ("page", "index"));
    let mut next = open(&path).unwrap();
    assert!(next.summary("a", "d").is_some() && next.summary("b", "d").is_none());
    next.claim(&all, &kept).unwrap();
    assert!(path.join(&new).exists());
    assert!(next.put(&new, "page").unwrap(), "what the killed call wrote is ours");
}

#[test]
fn two_calls_do_not_write_to_one_site() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(&dir.path().join("site")).unwrap();
    let error = open(&dir.path().join("site")).unwrap_err();
    assert!(error.to_string().contains("another plimsoll writes it"), "{error}");
    drop(first);
    open(&dir.path().join("site")).unwrap();
}

fn trend(case: &str, metric: &str, values: &[f64]) -> Trend {
    let point = |(n, median): (usize, &f64)| Point {
        run: Arc::new(Began { id: format!("run-{n}"), started: "2026-11-01T08:00:00Z".to_owned() }),
        median: *median,
        of_limit: Some(0.5),
    };
    Trend {
        machine: "m-1".to_owned(),
        host: None,
        case: case.to_owned(),
        metric: metric.to_owned(),
        unit: Unit::BytePerSecond,
        better: Better::Higher,
        points: values.iter().enumerate().map(point).collect(),
    }
}

#[test]
fn repeats_of_a_run_are_one_figure_and_the_first_metric_of_a_case_is_its_headline() {
    let mut repeated = trend("a", "x", &[1.0, 2.0, 9.0, 4.0]);
    let run = repeated.points[0].run.clone();
    repeated.points[1].run = run.clone();
    repeated.points[2].run = run;
    let all = series(vec![repeated, trend("a", "y", &[1.0]), trend("b", "y", &[1.0])]);
    let medians: Vec<f64> = all[0].trend.points.iter().map(|point| point.median).collect();
    assert_eq!(medians, [2.0, 4.0]);
    assert_eq!(all.iter().map(|one| one.headline).collect::<Vec<_>>(), [true, false, true]);
}

proptest! {
    #[test]
    fn names_are_of_hashes_alone(id in "\\PC{0,40}|(\\.\\./)*x|\u{0}", twin in 0usize..9) {
        for name in [names::run(&id), names::machine(&id, twin), names::library(&id)] {
            prop_assert!(names::is_ours(&name), "{}", name);
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"/.-".contains(&b);
            prop_assert!(name.bytes().all(plain) && !name.contains(".."), "{}", name);
        }
        prop_assert_ne!(names::run(&id), names::run(&format!("{id}x")));
        prop_assert_ne!(names::machine(&id, twin), names::machine(&id, twin + 1));
    }

    #[test]
    fn no_other_name_is_one_of_a_site(name in "\\PC{0,30}|(run|machine)/[0-9a-g./]{10,20}(\\.html)?") {
        let hex = |digits: &str| digits.len() == 16 && digits.bytes().all(|b| b"0123456789abcdef".contains(&b));
        let stem = name.strip_prefix("run/").or_else(|| name.strip_prefix("machine/"));
        let page = stem.and_then(|rest| rest.strip_suffix(".html")).is_some_and(hex);
        prop_assert_eq!(names::is_ours(&name), page || name == "index.html");
    }
}
