//! Documents are not written through links of another user, nor into a pipe without a reader.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ended, plimsoll, scratch, skipped};

const QUICK: [&str; 8] = ["run", "--only", "null", "--samples", "1", "--sample-time", "1ms", "--quiet"];

/// A user of whom nothing is known.
const OTHER: u32 = 65_533;

/// A directory like /tmp with links by another user: to a file, and to its directory.
fn planted(dir: &Path) -> bool {
    let shared = dir.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    fs::write(dir.join("victim"), "precious").unwrap();
    symlink(dir.join("victim"), shared.join("link")).unwrap();
    symlink(dir, shared.join("way")).unwrap();
    ["link", "way"].iter().all(|name| lchown(shared.join(name), Some(OTHER), None).is_ok())
}

#[test]
fn no_output_goes_through_what_another_user_has_planted() {
    let dir = scratch();
    if !planted(dir.path()) {
        return skipped("links of another user", "only root can make them");
    }
    let store = ["--store", "history"];
    ended(plimsoll(dir.path()).args(QUICK).args(store), 0);
    let [link, direction] = ["shared/link", "shared/way/victim"];
    for path in [link, direction] {
        for flag in ["--json", "--html", "--events"] {
            refused(dir.path(), &[&QUICK[..], &["--store", "none", flag, path]].concat());
        }
        refused(dir.path(), &[&["report", "last", "--html", path], &store[..]].concat());
        refused(
            dir.path(),
            &[&["export", "last", "--format", "json", "--output", path], &store[..]].concat(),
        );
        refused(dir.path(), &[&["compare", "last", "last", "--html", path], &store[..]].concat());
    }
    refused(dir.path(), &["key", "new", "shared/way/key"]);
    refused(dir.path(), &[&QUICK[..], &["--store", "shared/way/other"]].concat());
    refused(dir.path(), &["disk", "--dir", "shared/way", "--store", "none"]);
    symlink(dir.path().join("victim"), dir.path().join("shared/plimsoll.fish")).unwrap();
    lchown(dir.path().join("shared/plimsoll.fish"), Some(OTHER), None).unwrap();
    refused(dir.path(), &["generate", "shared"]);
    assert!(!dir.path().join("key").exists() && !dir.path().join("other").exists());
}

/// Exit 3 with one line that names the other user, nothing on stdout, and the file as it was.
#[track_caller]
fn refused(dir: &Path, words: &[&str]) {
    let (out, err) = ended(plimsoll(dir).args(words), 3);
    assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{words:?}: {err}");
    assert!(err.contains(&format!("user {OTHER}")), "{words:?}: {err}");
    assert_eq!(fs::read(dir.join("victim")).unwrap(), b"precious", "{words:?}");
}

#[test]
fn a_pipe_that_nobody_reads_is_told_and_the_first_term_ends_the_waiting() {
    let mut reported = String::new();
    for flag in ["--json", "--html", "--events"] {
        let dir = scratch();
        mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(QUICK)
            .args(["--store", "none", flag, "pipe"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("plimsoll: waiting for a reader of the FIFO pipe") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "{flag}: it ended without a word");
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let mut rest = String::new();
        err.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{flag}: {rest}");
        reported += &format!("{flag} pipe\n{rest}");
    }
    insta::assert_snapshot!("a_pipe_that_nobody_reads", reported);
}

#[test]
fn a_device_whose_data_would_be_lost_is_refused() {
    let dir = scratch();
    let node = dir.path().join("disk");
    // The first loop device, which is not opened.
    if mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, rustix::fs::makedev(7, 0)).is_err()
    {
        return skipped("a block device as an output", "only root can make a node");
    }
    let (_, err) = ended(plimsoll(dir.path()).args(QUICK).args(["--store", "none", "--json", "disk"]), 3);
    insta::assert_snapshot!(err);
}

#[test]
fn standard_output_by_any_name_has_the_document_alone() {
    let dir = scratch();
    for name in ["-", "/dev/stdout", "/proc/self/fd/1"] {
        let (out, _) = ended(plimsoll(dir.path()).args(QUICK).args(["--store", "none", "--json", name]), 0);
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["schema"], "plimsoll.run/1");
    }
    let store = ["--store", "history"];
    let run = [&QUICK[..], &store, &["--html", "-", "--json", "run.json"]].concat();
    let report = ["report", "last", "--html", "/dev/stdout", "--store", "history"];
    let compare = ["compare", "run.json", "last", "--html", "-", "--store", "history"];
    for words in [&run[..], &report, &compare] {
        let (out, _) = ended(plimsoll(dir.path()).args(words), 0);
        assert!(out.starts_with("<!DOCTYPE html>") && out.trim_end().ends_with("</html>"), "{words:?}");
    }
    let export = ["export", "last", "--format", "json", "--output", "-", "--store", "history"];
    let (out, _) = ended(plimsoll(dir.path()).args(export), 0);
    assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok());
    assert!(!dir.path().join("-").exists());
}

#[test]
fn a_card_has_the_checksum_of_what_export_writes() {
    let dir = scratch();
    let words = [
        "run",
        "quick",
        "--only",
        "null",
        "--samples",
        "5",
        "--sample-time",
        "1ms",
        "--store",
        "none",
        "--json",
        "a.json",
    ];
    ended(plimsoll(dir.path()).args(words), 0);
    let (card, _) = ended(plimsoll(dir.path()).args(["report", "./a.json", "--card"]), 0);
    assert!((5..=14).contains(&card.lines().count()), "{card}");
    ended(plimsoll(dir.path()).args(["export", "./a.json", "--output", "b.json"]), 0);
    let sum = Command::new("sha256sum").arg(dir.path().join("b.json")).output().unwrap();
    let sum = String::from_utf8_lossy(&sum.stdout).split(' ').next().unwrap().to_owned();
    assert!(card.contains(&sum), "{card}: {sum}");
    let (out, _) = ended(plimsoll(dir.path()).args(["export", "./a.json", "--format", "github-smaller"]), 0);
    let figures: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(figures[0]["unit"], "s", "{out}");
}

#[test]
fn all_runs_of_a_tag_are_rows_for_otava() {
    let dir = scratch();
    let store = ["--store", "history"];
    for _ in 0..3 {
        let words = ["run", "quick", "--only", "null", "--samples", "5", "--sample-time", "1ms", "--quiet"];
        ended(plimsoll(dir.path()).args(words).args(store), 0);
        ended(plimsoll(dir.path()).args(["history", "tag", "last", "nightly"]).args(store), 0);
    }
    let export = |format: &str| {
        ended(plimsoll(dir.path()).args(["export", "nightly", "--format", format]).args(store), 0).0
    };
    let rows = export("otava");
    assert_eq!(rows.lines().count(), 4, "{rows}");
    assert!(rows.starts_with("started,run,version,machine,null"), "{rows}");
    assert!(export("otava-config").lines().any(|line| line.trim() == "direction: -1"));
    let exported = |words: &str, code| {
        ended(plimsoll(dir.path()).arg("export").args(words.split(' ')).args(store), code).1
    };
    let mut stated = exported("nightly --format csv", 2) + &exported("last --format github-bigger", 0);
    let (json, _) = ended(plimsoll(dir.path()).args(["export", "last", "--format", "json"]).args(store), 0);
    let mut run: serde_json::Value = serde_json::from_str(&json).unwrap();
    run["measurements"][0]["status"] = "invalid".into();
    fs::write(dir.path().join("invalid.json"), run.to_string()).unwrap();
    stated += &exported("./invalid.json --format otava", 2);
    insta::assert_snapshot!(stated);
}

#[test]
fn a_page_is_read_as_a_document_is() {
    let dir = scratch();
    let run = "run --only null --samples 3 --sample-time 5ms --store none --quiet --json";
    for name in ["a.json", "b.json"] {
        ended(plimsoll(dir.path()).args(run.split(' ')).arg(name), 0);
    }
    ended(plimsoll(dir.path()).args(["report", "a.json", "--html", "page.html"]), 0);
    let compare = "compare page.html b.json --store none --format json";
    let (out, _) = ended(plimsoll(dir.path()).args(compare.split(' ')), 0);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["sides"][0], "page.html");
}
