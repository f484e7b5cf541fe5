//! Compares findings in the sources with a table of counts per crate that may only shrink.
//!
//! A row of a table is `CRATE RULE COUNT`; without a row no finding is allowed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::docs::{is_current, text};
use crate::names::sources;

/// A place in a file that breaks a rule. The path is below the repository's root.
pub(crate) struct Finding {
    pub(crate) rule: String,
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn new(rule: &str, path: &str, line: usize, text: &str) -> Self {
        Self { rule: rule.to_owned(), path: path.to_owned(), line, text: text.to_owned() }
    }

    /// The crate and the rule; pages of documents count as the crate `docs`.
    fn key(&self) -> String {
        let owner = match self.path.split('/').collect::<Vec<_>>()[..] {
            ["crates", owner, _, ..] | [owner @ "fuzz", ..] => owner,
            _ => "docs",
        };
        format!("{owner} {}", self.rule)
    }
}

/// Counts by crate and rule.
type Counts = BTreeMap<String, usize>;

/// All Rust files of the repository, tests included, by their path below its root.
pub(crate) fn rust_files() -> BTreeMap<String, String> {
    let (root, mut found) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), BTreeMap::new());
    sources(&root, &root.join("crates"), &mut found);
    sources(&root, &root.join("fuzz/src"), &mut found);
    found
}

fn parse(table: &str) -> Counts {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let row = |row: &str| row.rsplit_once(' ').map(|(key, most)| (key.to_owned(), most.parse().unwrap()));
    rows.filter_map(row).collect()
}

/// The findings of keys with more of them than allowed, and the counts lowered to what was found.
fn compare<'a>(allowed: &Counts, findings: &'a [Finding]) -> (Vec<&'a Finding>, Counts) {
    let mut found = Counts::new();
    for finding in findings {
        *found.entry(finding.key()).or_default() += 1;
    }
    let most = |key: &String| allowed.get(key).copied().unwrap_or(0);
    let grown = findings.iter().filter(|one| found[&one.key()] > most(&one.key())).collect();
    let lowered = found.iter().map(|(key, count)| (key.clone(), most(key).min(*count)));
    (grown, lowered.filter(|(_, count)| *count > 0).collect())
}

/// Compares with a table, by its path below the repository's root. `PLIMSOLL_WRITE_DOCS=1` lowers
/// its counts and never raises them.
#[track_caller]
pub(crate) fn only_shrinks(table: &str, findings: &[Finding]) {
    let written = text(table);
    let (grown, lowered) = compare(&parse(&written), findings);
    let line = |one: &&Finding| format!("\n{}:{}: {}: {}", one.path, one.line, one.rule, one.text);
    let places: String = grown.iter().map(line).collect();
    assert!(grown.is_empty(), "{table} allows fewer of these in the crate:{places}");
    let head = written.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n"));
    let rows = lowered.iter().map(|(key, count)| format!("{key} {count}\n"));
    is_current(table, &head.chain(rows).collect::<String>());
}

#[test]
fn a_count_that_grows_or_shrinks_is_found() {
    let two = ["crates/run/src/a.rs", "crates/run/b.rs"].map(|path| Finding::new("P1", path, 3, "x"));
    let compared = |rows: &str| {
        let (grown, lowered) = compare(&parse(rows), &two);
        (grown.len(), lowered)
    };
    assert_eq!(compared("run P1 2"), (0, parse("run P1 2")));
    assert_eq!(compared("run P1 1"), (2, parse("run P1 1")), "grown");
    assert_eq!(compared("cpu P1 2"), (2, parse("")), "another crate");
    assert_eq!(compared("run P1 3"), (0, parse("run P1 2")), "shrunk");
    assert_eq!(Finding::new("P2", "docs/src/faq.md", 1, "").key(), "docs P2");
}
