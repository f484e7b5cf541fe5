//! `plimsoll check`: output, files and exit codes for results of other tools.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{ended, plimsoll, scratch};

fn corpus(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../check/tests/corpus").join(file)
}

fn words<'a>(files: &'a [PathBuf], more: &[&'a str]) -> Vec<&'a str> {
    let files = files.iter().map(|file| file.to_str().unwrap());
    std::iter::once("check").chain(files).chain(more.iter().copied()).collect()
}

#[test]
fn impossible_figures_are_named_with_their_cause_and_end_with_1() {
    let dir = scratch();
    let files = [corpus("iperf3-lo-tcp.json"), corpus("sysbench-memory-1k.txt")];
    let (out, err) = ended(plimsoll(dir.path()).args(words(&files, &["--json", "found.json"])), 1);
    assert!(out.ends_with("2 figures in 2 files: 2 impossible, 0 fine, 0 cannot be judged\n"), "{out}");
    assert!(err.is_empty(), "{err}");
    let text = fs::read_to_string(dir.path().join("found.json")).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["schema"], "plimsoll.check/1");
    assert_eq!((&found["impossible"], &found["files"][0]["tool"]), (&2.into(), &"iperf3".into()));
    let figure = &found["files"][0]["figures"][0];
    assert_eq!((&figure["verdict"], &figure["certain"]), (&"impossible".into(), &true.into()));
    assert_eq!((&figure["cause"], &figure["unit"]), (&"loopback".into(), &"bit/s".into()));
    assert_eq!(found["files"][1]["figures"][0]["cause"], "cache-answered");
}

#[test]
fn stdin_is_read_and_the_document_alone_goes_to_stdout() {
    let dir = scratch();
    let text = fs::read_to_string(corpus("netperf-lo-stream.txt")).unwrap();
    let (out, _) = ended(plimsoll(dir.path()).args(["check", "-", "--json", "-"]).write_stdin(text), 1);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["files"][0]["file"], "stdin");
}

#[test]
fn a_saved_machine_takes_the_place_of_this_one() {
    let dir = scratch();
    ended(plimsoll(dir.path()).args(["machine", "--save", "here.tar.gz"]), 0);
    let files = [corpus("iperf3-lo-tcp.json")];
    let here = words(&files, &["--machine", "here.tar.gz", "--json", "-"]);
    let (out, _) = ended(plimsoll(dir.path()).args(here), 1);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["files"][0]["figures"][0]["cause"], "loopback");
}

#[test]
fn one_unreadable_file_does_not_silence_the_others() {
    let dir = scratch();
    let own = fs::read_to_string(corpus("netperf-lo-stream.txt")).unwrap();
    fs::write(dir.path().join("two.txt"), own.repeat(2)).unwrap();
    fs::write(dir.path().join("bad"), "hello").unwrap();
    let files = ["check", "bad", "two.txt", "missing", "--json", "found.json"];
    let (out, err) = ended(plimsoll(dir.path()).args(files), 2);
    assert_ne!(out, "");
    insta::assert_snapshot!(err);
    let text = fs::read_to_string(dir.path().join("found.json")).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&found["files"][1]["document"], &found["unread"][1]["file"]), (&2.into(), &"missing".into()));
}

#[test]
fn names_from_a_file_do_nothing_to_a_terminal() {
    let dir = scratch();
    let text = fs::read_to_string(corpus("fio-null.json")).unwrap();
    let hostile = text.replace("\"jobname\" : \"null\"", "\"jobname\" : \"\\u001b[31mred\\u202e\\n\"");
    assert_ne!(text, hostile);
    fs::write(dir.path().join("x.json"), hostile).unwrap();
    let (out, _) = ended(plimsoll(dir.path()).args(["check", "x.json"]), 1);
    assert_ne!(out.matches("\\u{1b}[31mred").count(), 0, "{out}");
    assert!(!out.contains(['\u{1b}', '\u{202e}']), "{out}");
}
