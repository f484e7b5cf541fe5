//! Made-up results of network, CPU and memory tools, one peculiarity each, held to a desk computer with 2 CPUs and 1 Gbit/s.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_check::{Cause, Checked, Place, Verdict, check};
use plimsoll_machine::fixture::Fixture;
use plimsoll_reference::read_all;

/// What a result in a file is.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// It passes, and its first figure has this value.
    Fine(f64),
    /// A figure is impossible for this reason.
    Impossible(Cause),
    /// A figure contradicts its own file; the reason has this text.
    Contradicted(&'static str),
    /// No figure is impossible or fine; a reason has this text.
    Unjudged(&'static str),
    /// It cannot be read; the error has this text.
    Unread(&'static str),
}

use Cause::{Absurd, CacheAnswered, NotDone, Unexplained};
use Expected::*;

/// File, and what each of its results is.
const CASES: &[(&str, &[Expected])] = &[
    ("hpcc-appended.txt", &[Fine(58e9), Impossible(Unexplained)]),
    ("hpcc-failed.txt", &[Unjudged("Success=0")]),
    ("iperf3-jumbo-segments.json", &[Fine(989e6)]),
    ("iperf3-macos.json", &[Unjudged("Darwin")]),
    ("iperf3-omit-counted-in-the-sum.json", &[Contradicted("intervals")]),
    ("iperf3-received-more-than-sent.json", &[Contradicted("sent")]),
    ("iperf3-text-3.1.txt", &[Unread("-J")]),
    ("iperf3-two-runs-first-impossible.json", &[Impossible(Unexplained), Fine(931e6)]),
    ("iperf3-udp-all-lost.json", &[Unjudged("lost")]),
    ("iperf3-udp-server-312.json", &[Fine(60e6)]),
    ("iperf3-uname-a.json", &[Fine(931e6)]),
    ("netperf-P0.txt", &[Unread("-P 0")]),
    ("netperf-omni-csv.txt", &[Fine(935.96e6)]),
    ("netperf-omni-keys.txt", &[Fine(935.96e6)]),
    ("netperf-udp-stream.txt", &[Fine(943.3e6)]),
    ("stream-inf.txt", &[Impossible(Absurd)]),
    ("stream-two-runs.txt", &[Fine(9e9), Impossible(CacheAnswered)]),
    ("sysbench-cpu-26M.txt", &[Impossible(NotDone)]),
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The desk computer's verdicts on each result of a text.
fn checked(text: &str) -> Vec<Result<Checked, String>> {
    let tree = fs::read_to_string(folder("machines").join("desk.tree")).unwrap();
    let kept = Fixture::unpack(&tree).unwrap();
    let machine = kept.machine();
    let place = Place { machine: &machine, root: &kept.root, is_named: true };
    let results = read_all(text, None).into_iter();
    results.map(|stated| stated.map(|stated| check("x", None, &stated, &place))).collect()
}

fn is_as_expected(found: &Result<Checked, String>, expected: Expected) -> bool {
    let checked = match (found, expected) {
        (Err(why), Unread(part)) => return why.contains(part),
        (Err(_), _) | (Ok(_), Unread(_)) => return false,
        (Ok(checked), _) => checked,
    };
    let rows = &checked.rows;
    let has_reason = |part: &str| rows.iter().any(|row| row.reason.contains(part));
    match expected {
        Fine(value) => {
            checked.passes() && rows.first().is_some_and(|row| (row.value / value - 1.0).abs() < 0.01)
        }
        Impossible(cause) => {
            let causes: Vec<Cause> = rows.iter().filter_map(|row| row.cause).collect();
            causes.contains(&cause) && causes.iter().all(|other| *other == cause) && !checked.passes()
        }
        Contradicted(part) => rows.iter().any(|row| row.contradicts_itself && row.reason.contains(part)),
        Unjudged(part) => rows.iter().all(|row| row.verdict == Verdict::Unjudged) && has_reason(part),
        Unread(_) => false,
    }
}

#[test]
fn each_case_has_its_verdict() {
    let mut wrong = Vec::new();
    for (file, expected) in CASES {
        let found = checked(&fs::read_to_string(folder("tools").join(file)).unwrap());
        let is_right = found.len() == expected.len()
            && found.iter().zip(*expected).all(|(found, expected)| is_as_expected(found, *expected));
        if !is_right {
            wrong.push(format!("{file}: expected {expected:?}, found {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_case_is_in_the_table() {
    let entries = fs::read_dir(folder("tools")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let mut known: Vec<&str> = CASES.iter().map(|(file, _)| *file).collect();
    known.sort_unstable();
    assert_eq!(names, known);
}
