//! `plimsoll check`: output, files and exit codes for results of other tools.

use std::fs;

use crate::support::{done, ended, json, json_of, plimsoll, repository, scratch};

fn corpus(file: &str) -> String {
    repository("crates/check/tests/corpus").join(file).display().to_string()
}

#[test]
fn impossible_figures_are_named_with_their_cause_and_end_with_1() {
    let dir = scratch();
    let files = ["iperf3-lo-tcp.json", "sysbench-memory-1k.txt"].map(corpus).join(" ");
    let (out, err) = done(dir.path(), &format!("check {files} --json found.json"), 1);
    assert!(out.ends_with("2 figures in 2 files: 2 impossible, 0 fine, 0 cannot be judged\n"), "{out}");
    assert!(err.is_empty(), "{err}");
    let found = json_of(dir.path(), "found.json");
    assert_eq!(found["schema"], "plimsoll.check/1");
    assert_eq!((&found["impossible"], &found["files"][0]["tool"]), (&2.into(), &"iperf3".into()));
    let figure = &found["files"][0]["figures"][0];
    assert_eq!((&figure["verdict"], &figure["certain"]), (&"impossible".into(), &true.into()));
    assert_eq!((&figure["cause"], &figure["unit"]), (&"loopback".into(), &"bit/s".into()));
    assert_eq!(found["files"][1]["figures"][0]["cause"], "cache-answered");
    // A saved machine takes the place of this one.
    done(dir.path(), "machine --save here.tar.gz", 0);
    let line = format!("check {} --machine here.tar.gz --json -", corpus("iperf3-lo-tcp.json"));
    let found = json(&done(dir.path(), &line, 1).0);
    assert_eq!(found["files"][0]["figures"][0]["cause"], "loopback");
}

/// A document from stdin goes to stdout.
#[test]
fn one_unreadable_file_does_not_silence_the_others() {
    let dir = scratch();
    let own = fs::read_to_string(corpus("netperf-lo-stream.txt")).unwrap();
    let mut stdin = plimsoll(dir.path());
    let (out, _) = ended(stdin.args(["check", "-", "--json", "-"]).write_stdin(own.clone()), 1);
    assert_eq!(json(&out)["files"][0]["file"], "stdin");
    fs::write(dir.path().join("two.txt"), own.repeat(2)).unwrap();
    fs::write(dir.path().join("bad"), "hello").unwrap();
    let (out, err) = done(dir.path(), "check bad two.txt missing --json found.json", 2);
    assert_ne!(out, "");
    insta::assert_snapshot!(err);
    let found = json_of(dir.path(), "found.json");
    assert_eq!((&found["files"][1]["document"], &found["unread"][1]["file"]), (&2.into(), &"missing".into()));
}

#[test]
fn names_from_a_file_do_nothing_to_a_terminal() {
    let dir = scratch();
    let text = fs::read_to_string(corpus("fio-null.json")).unwrap();
    let hostile = text.replace("\"jobname\" : \"null\"", "\"jobname\" : \"\\u001b[31mred\\u202e\\n\"");
    assert_ne!(text, hostile);
    fs::write(dir.path().join("x.json"), hostile).unwrap();
    let (out, _) = done(dir.path(), "check x.json", 1);
    assert_ne!(out.matches("\\u{1b}[31mred").count(), 0, "{out}");
    assert!(!out.contains(['\u{1b}', '\u{202e}']), "{out}");
}
