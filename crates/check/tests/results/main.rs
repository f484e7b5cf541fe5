//! Results of other tools, recorded and synthetic, checked against saved machines.
#![allow(clippy::unwrap_used, clippy::panic)]

mod corpus;
mod storage;
mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_check::{Checked, CheckedFigure, CheckedMachine, ImpossibleCause, Plausibility, check};
use plimsoll_machine::Machine;
use plimsoll_machine::fixture::Fixture;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_reference::{Stated, read_all};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn text(name: &str, file: &str) -> String {
    fs::read_to_string(folder(name).join(file)).unwrap()
}

fn files(name: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder(name)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "README.md").collect()
}

/// A saved machine, and how results are held to it.
struct Saved {
    kept: Fixture,
    machine: Machine,
    is_named: bool,
    limits: UserLimits,
}

impl Saved {
    fn of(kept: Fixture) -> Self {
        Saved { machine: kept.machine(), kept, is_named: true, limits: UserLimits::default() }
    }

    fn unpack(tree: &str) -> Self {
        Saved::of(Fixture::unpack(&text("machines", tree)).unwrap())
    }

    fn check(&self, stated: &Stated) -> Checked {
        let Saved { kept, machine, is_named, limits } = self;
        check("x", None, stated, &CheckedMachine { machine, root: &kept.root, is_named: *is_named, limits })
    }

    /// Returns the verdicts on each result of a text.
    fn check_all(&self, text: &str) -> Vec<Result<Checked, String>> {
        let results = read_all(text, None).into_iter();
        results.map(|stated| stated.map(|stated| self.check(&stated))).collect()
    }
}

/// Checks that an absurd value is found in the place of the number behind the texts `before`.
fn assert_absurd_is_found(saved: &Saved, text: &str, before: &[&str]) {
    let at = before.iter().fold(0, |at, before| at + text[at..].find(before).unwrap() + before.len());
    let from = at + text[at..].find(|c: char| c.is_ascii_digit()).unwrap();
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '+' | '-');
    let tail = text[from..].trim_start_matches(is_digit);
    for value in ["-20000.1", "nan", "inf", "1e308"] {
        let found = saved.check_all(&format!("{}{value}{tail}", &text[..from]));
        let is_absurd = |row: &CheckedFigure| row.cause == Some(ImpossibleCause::Absurd);
        let mut rows = found.iter().flatten().flat_map(|checked| &checked.rows);
        assert!(rows.any(is_absurd), "{before:?} {value}: {found:#?}");
        assert!(!found.iter().flatten().any(Checked::passes), "{before:?} {value}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    /// It passes.
    Right,
    /// It passes, and its first figure has this value.
    Fine(f64),
    /// No figure is impossible; limits may be unknown.
    Open,
    /// A figure is impossible for this reason, and none for another.
    Impossible(ImpossibleCause),
    /// A figure contradicts its own file; the reason has this text.
    Contradicted(&'static str),
    /// No figure is impossible or fine; a reason has this text.
    Unjudged(&'static str),
    /// There is no figure.
    NoFigure,
    /// The file cannot be read; the error has this text.
    Unread(&'static str),
}

use Expected::*;

fn is_as_expected(found: &Result<Checked, String>, expected: Expected) -> bool {
    let checked = match found {
        Ok(checked) => checked,
        Err(why) => return matches!(expected, Unread(part) if why.contains(part)),
    };
    let rows = &checked.rows;
    let has_reason = |part: &str| rows.iter().any(|row| row.reason.contains(part));
    match expected {
        Right => checked.passes(),
        Fine(value) => {
            checked.passes() && rows.first().is_some_and(|row| (row.value / value - 1.0).abs() < 0.01)
        }
        Open => checked.count(Plausibility::Impossible) == 0,
        Impossible(cause) => {
            let mut causes = rows.iter().filter_map(|row| row.cause).peekable();
            causes.peek().is_some() && causes.all(|other| other == cause) && !checked.passes()
        }
        Contradicted(part) => rows.iter().any(|row| row.contradicts_itself && row.reason.contains(part)),
        Unjudged(part) => rows.iter().all(|row| row.verdict == Plausibility::Unjudged) && has_reason(part),
        NoFigure => rows.is_empty() && checked.trouble.is_some(),
        Unread(_) => false,
    }
}
