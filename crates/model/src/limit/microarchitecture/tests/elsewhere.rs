//! Comparison of rows with other sources about the same chips: `elsewhere.toml`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::super::table::{Microarchitecture, WorkFact, table};

/// Relative difference up to which a measured and a listed number count as equal.
const TOLERANCE: f64 = 0.05;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Description of each source, by the name that `stated` uses.
    sources: BTreeMap<String, String>,
    stated: Vec<Stated>,
    /// Disagreements in which the row is kept.
    kept: Vec<Listed>,
    /// Keys without a second further source.
    once: Vec<Listed>,
}

/// Numbers that a source states about chips.
#[derive(Deserialize)]
struct Stated {
    rows: Vec<String>,
    source: String,
    record: String,
    #[serde(default)]
    own: bool,
    #[serde(flatten)]
    facts: BTreeMap<String, WorkFact>,
}

/// Lines that a test must find, with the reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    why: String,
    of: Vec<String>,
}

/// A number of a source next to that of the row.
struct Compared<'a> {
    row: &'a str,
    key: String,
    ours: f64,
    source: &'a str,
    theirs: f64,
    own: bool,
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * b + 1e-9
}

fn file() -> File {
    toml::from_str(include_str!("elsewhere.toml")).unwrap()
}

/// Returns numbers by key, with one key per width: `fma.256`.
fn numbers(facts: &BTreeMap<String, WorkFact>) -> BTreeMap<String, f64> {
    let of = |(key, fact): (&String, &WorkFact)| match fact {
        WorkFact::Number(number) => vec![(key.clone(), *number)],
        WorkFact::Widths(by) => by.iter().map(|(bits, n)| (format!("{key}.{bits}"), *n)).collect(),
    };
    facts.iter().flat_map(of).collect()
}

fn row(name: &str) -> &'static Microarchitecture {
    let rows = &table().unwrap().microarchitecture;
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"))
}

/// Compares every number of the sources with the row's; a key that the row lacks is an error.
fn compared(file: &File) -> Vec<Compared<'_>> {
    let mut all = Vec::new();
    for stated in &file.stated {
        for name in &stated.rows {
            let ours = numbers(&row(name).facts);
            for (key, theirs) in numbers(&stated.facts) {
                let ours = *ours.get(&key).unwrap_or_else(|| panic!("{name} has no {key}"));
                let (source, own) = (stated.source.as_str(), stated.own);
                all.push(Compared { row: name, key, ours, source, theirs, own });
            }
        }
    }
    all
}

/// Returns the lines of a list; fails if a line is listed twice or without reason.
fn lines(listed: &[Listed]) -> BTreeSet<String> {
    let all: Vec<_> = listed.iter().flat_map(|listed| listed.of.clone()).collect();
    let lines: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(lines.len(), all.len(), "a line is listed twice");
    assert!(listed.iter().all(|listed| listed.why.len() > 20));
    lines
}

/// Fails with unlisted findings and with listed lines that were not found.
fn assert_listed(found: &BTreeSet<String>, listed: &BTreeSet<String>) {
    let new: Vec<_> = found.difference(listed).collect();
    let gone: Vec<_> = listed.difference(found).collect();
    assert!(new.is_empty() && gone.is_empty(), "not listed: {new:#?}\nlisted, and not so: {gone:#?}");
}

#[test]
fn each_disagreement_with_another_source_is_listed() {
    let file = file();
    let differing = compared(&file).into_iter().filter(|one| !is_near(one.theirs, one.ours));
    let line = |c: Compared<'_>| format!("{} {}: {}, {} {}", c.row, c.key, c.ours, c.source, c.theirs);
    assert_listed(&differing.map(line).collect(), &lines(&file.kept));
}

#[test]
fn no_row_is_outweighed_by_two_sources_that_agree() {
    let file = file();
    let mut by_key: BTreeMap<(&str, String), Vec<Compared<'_>>> = BTreeMap::new();
    for one in compared(&file) {
        by_key.entry((one.row, one.key.clone())).or_default().push(one);
    }
    for ((row, key), all) in by_key {
        if all.iter().any(|one| is_near(one.theirs, one.ours)) {
            continue;
        }
        let against = |one: &Compared<'_>| {
            all.iter().any(|other| other.source != one.source && is_near(other.theirs, one.theirs))
        };
        assert!(!all.iter().any(against), "{row} {key}: two sources agree, and not with the row");
    }
}

#[test]
fn each_row_has_two_further_sources_of_its_main_rates_and_latencies() {
    let file = file();
    let mut sources: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for one in compared(&file).into_iter().filter(|one| !one.own) {
        sources.entry((one.row.to_owned(), one.key)).or_default().insert(one.source);
    }
    let mut found = BTreeSet::new();
    for row in &table().unwrap().microarchitecture {
        let first = if row.facts.contains_key("fma") { "fma." } else { "add." };
        for key in numbers(&row.facts).into_keys() {
            if !key.starts_with(first) && !["fma_latency", "add_latency"].contains(&key.as_str()) {
                continue;
            }
            let has = sources.get(&(row.name.clone(), key.clone())).cloned().unwrap_or_default();
            if has.len() < 2 {
                let one = has.first().copied().unwrap_or("none");
                found.insert(format!("{} {key}: {one}", row.name));
            }
        }
    }
    assert_listed(&found, &lines(&file.once));
}

#[test]
fn each_source_is_named() {
    let file = file();
    assert!(file.sources.values().all(|source| source.starts_with("github.com/")));
    for stated in &file.stated {
        assert!(file.sources.contains_key(&stated.source), "{}", stated.source);
        assert!(stated.record.len() > 5 && !stated.rows.is_empty() && !stated.facts.is_empty());
    }
}
