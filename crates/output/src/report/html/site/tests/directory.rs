use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use super::super::directory::MARKER;
use super::*;
use crate::report::target::Waits;

fn open(path: &Path) -> Result<Directory, SiteError> {
    Directory::open(path, &Waits::without_interrupts(|_| {}))
}

/// A site of one run, with its page.
fn made(path: &Path, id: &str) -> String {
    let page = names::run(id);
    let directory = open(path).unwrap();
    assert!(directory.put(&page, "page").unwrap());
    assert!(directory.put(names::INDEX, "index").unwrap());
    page
}

fn entries(path: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for directory in [path.to_owned(), path.join(names::RUN_PAGES_DIRECTORY), path.join(names::MACHINES)] {
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
fn equal_text_is_not_written_again_and_other_pages_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site");
    let page = made(&path, "a");
    fs::write(path.join("CNAME"), "example.org").unwrap();
    let again = open(&path).unwrap();
    assert!(!again.put(names::INDEX, "index").unwrap(), "it has this text");
    assert!(again.put(names::INDEX, "INDEX").unwrap());
    assert_eq!(again.remove_others(&BTreeSet::from([names::INDEX.to_owned()])).unwrap(), 1);
    let after = entries(&path);
    assert!(!after.contains_key(&page));
    assert_eq!(after[names::INDEX], "INDEX");
    assert_eq!(after["CNAME"], "example.org");
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
        symlink(&elsewhere, &file).unwrap();
        let error = open(&path).unwrap().put(name, "other").unwrap_err();
        assert!(matches!(error, SiteError::Foreign(_)), "{error}");
    }
    fs::remove_file(path.join(MARKER)).unwrap();
    fs::remove_file(path.join(names::INDEX)).unwrap();
    fs::remove_dir_all(path.join(names::RUN_PAGES_DIRECTORY)).unwrap();
    fs::remove_dir_all(path.join(names::MACHINES)).unwrap();
    symlink(dir.path(), path.join(names::MACHINES)).unwrap();
    symlink(&elsewhere, path.join(MARKER)).unwrap();
    assert!(matches!(open(&path), Err(SiteError::Foreign(_))), "a link in the place of the marker");
    fs::remove_file(path.join(MARKER)).unwrap();
    fs::write(path.join(MARKER), "").unwrap();
    assert!(matches!(open(&path), Err(SiteError::Failed(..))), "a link in the place of a directory");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
}

#[test]
fn what_is_no_site_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine.txt"), "mine").unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, SiteError::Foreign(_)), "{error}");
    assert!(error.to_string().contains("is not empty (mine.txt)"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    for path in ["mine.txt", "no/such"] {
        assert!(matches!(open(&dir.path().join(path)), Err(SiteError::Failed(..))), "{path}");
    }
}

#[test]
fn two_processes_do_not_write_to_one_site() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(&dir.path().join("site")).unwrap();
    assert!(matches!(open(&dir.path().join("site")), Err(SiteError::Locked(_))));
    drop(first);
    open(&dir.path().join("site")).unwrap();
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
