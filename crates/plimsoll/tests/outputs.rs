//! Documents are not written through links of another user, nor into a pipe without a reader.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use crate::support::{command, confine, done, json, lossy, made, scratch, signal, skip, start};

const QUICK: &str = "run --only null --samples 1 --sample-time 1ms --quiet";

/// A user of whom nothing is known.
const OTHER: u32 = 65_533;

/// A directory like /tmp with links by another user: two to a file, and one to its directory.
fn planted(dir: &Path) -> bool {
    let shared = made(dir.join("shared"), 0o1777);
    fs::write(dir.join("victim"), "precious").unwrap();
    symlink(dir.join("victim"), shared.join("link")).unwrap();
    symlink(dir.join("victim"), shared.join("plimsoll.fish")).unwrap();
    symlink(dir, shared.join("way")).unwrap();
    ["link", "plimsoll.fish", "way"].iter().all(|name| lchown(shared.join(name), Some(OTHER), None).is_ok())
}

#[test]
fn no_output_goes_through_what_another_user_has_planted() {
    let dir = scratch();
    if !planted(dir.path()) {
        return skip("only root can make them");
    }
    done(dir.path(), &format!("{QUICK} --store history"), 0);
    let refused = |line: &str| refused(dir.path(), line);
    for path in ["shared/link", "shared/way/victim"] {
        for flag in ["--json", "--html", "--events"] {
            refused(&format!("{QUICK} --store none {flag} {path}"));
        }
        refused(&format!("report last --store history --html {path}"));
        refused(&format!("export last --format json --store history --output {path}"));
        refused(&format!("compare last last --store history --html {path}"));
    }
    refused("key new shared/way/key");
    refused(&format!("{QUICK} --store shared/way/other"));
    refused("disk --dir shared/way --store none");
    refused("generate shared");
    assert!(!dir.path().join("key").exists() && !dir.path().join("other").exists());
}

/// Exit 3 with one line that names the other user, nothing on stdout, and the file as it was.
#[track_caller]
fn refused(dir: &Path, line: &str) {
    let (out, err) = done(dir, line, 3);
    assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{line}: {err}");
    assert!(err.contains(&format!("user {OTHER}")), "{line}: {err}");
    assert_eq!(fs::read(dir.join("victim")).unwrap(), b"precious", "{line}");
}

#[test]
fn a_pipe_that_nobody_reads_is_told_and_the_first_term_ends_the_waiting() {
    let mut reported = String::new();
    for flag in ["--json", "--html", "--events"] {
        let dir = scratch();
        mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut run = command(&format!("{QUICK} --store none {flag} pipe"));
        let mut child = start(confine(&mut run, dir.path()));
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("plimsoll: waiting for a reader of the FIFO pipe") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "{flag}: it ended without a word");
        }
        signal(child.id(), Signal::TERM);
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
    let first = rustix::fs::makedev(7, 0);
    if mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, first).is_err() {
        return skip("only root can make a node");
    }
    insta::assert_snapshot!(done(dir.path(), &format!("{QUICK} --store none --json disk"), 3).1);
}

#[test]
fn standard_output_by_any_name_has_the_document_alone() {
    let dir = scratch();
    for name in ["-", "/dev/stdout", "/proc/self/fd/1"] {
        let (out, _) = done(dir.path(), &format!("{QUICK} --store none --json {name}"), 0);
        assert_eq!(json(&out)["schema"], "plimsoll.run/1");
    }
    let run = format!("{QUICK} --html - --json run.json");
    for line in [run.as_str(), "report last --html /dev/stdout", "compare run.json last --html -"] {
        let (out, _) = done(dir.path(), &format!("{line} --store history"), 0);
        assert!(out.starts_with("<!DOCTYPE html>") && out.trim_end().ends_with("</html>"), "{line}");
    }
    json(&done(dir.path(), "export last --format json --output - --store history", 0).0);
    assert!(!dir.path().join("-").exists());
    // A page is read as a document is.
    done(dir.path(), "report run.json --html page.html --store none", 0);
    let document = json(&done(dir.path(), "compare page.html run.json --store none --format json", 0).0);
    assert_eq!(document["sides"][0], "page.html");
}

#[test]
fn a_card_has_the_checksum_of_what_export_writes() {
    let dir = scratch();
    done(dir.path(), &format!("{QUICK} --store none --json a.json"), 0);
    let (card, _) = done(dir.path(), "report ./a.json --card", 0);
    assert!((5..=14).contains(&card.lines().count()), "{card}");
    done(dir.path(), "export ./a.json --output b.json", 0);
    let sum = Command::new("sha256sum").arg(dir.path().join("b.json")).output().unwrap();
    let sum = lossy(&sum.stdout);
    assert!(card.contains(sum.split(' ').next().unwrap()), "{card}: {sum}");
    let (out, _) = done(dir.path(), "export ./a.json --format github-smaller", 0);
    assert_eq!(json(&out)[0]["unit"], "s", "{out}");
}

#[test]
fn all_runs_of_a_tag_are_rows_for_otava() {
    let dir = scratch();
    let with_store = |line: &str, code| done(dir.path(), &format!("{line} --store history"), code);
    for _ in 0..3 {
        with_store(QUICK, 0);
        with_store("history tag last nightly", 0);
    }
    let (rows, _) = with_store("export nightly --format otava", 0);
    assert_eq!(rows.lines().count(), 4, "{rows}");
    assert!(rows.starts_with("started,run,version,machine,null"), "{rows}");
    let (config, _) = with_store("export nightly --format otava-config", 0);
    assert!(config.lines().any(|line| line.trim() == "direction: -1"));
    let mut run = json(&with_store("export last --format json", 0).0);
    run["measurements"][0]["status"] = "invalid".into();
    fs::write(dir.path().join("invalid.json"), run.to_string()).unwrap();
    let stated = [
        ("export nightly --format csv", 2),
        ("export last --format github-bigger", 0),
        ("export ./invalid.json --format otava", 2),
    ];
    insta::assert_snapshot!(stated.map(|(line, code)| with_store(line, code).1).concat());
}
