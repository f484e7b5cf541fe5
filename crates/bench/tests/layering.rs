//! Checks that measuring code does not depend on limits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The crates of all subsystems, such as `bench-cpu`.
fn subsystems(crates: &Path) -> Vec<String> {
    let names = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("bench-") && name != "bench-api").collect()
}

/// Names of the limits module that functions called `limits` use; measuring code must not.
const OF_LIMITS: &[&str] = &["LimitKind", "Limit", "Question", "self"];

/// A working set beyond the caches depends on chip data, as guests are not shown their caches.
const BESIDES: &[(&str, &str)] = &[("bench-memory/working_set", "microarchitecture")];

fn is_of_limits(module: &str) -> bool {
    module.split('/').any(|part| ["limit", "io_limit", "findings", "part"].contains(&part))
}

/// Code without comments, tests and `limits` functions.
fn without_limits(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let (mut kept, mut until) = (Vec::new(), None);
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        match &until {
            None if line.trim_start().trim_start_matches("pub ").starts_with("fn limits(") => {
                let indent = line.len() - line.trim_start().len();
                until = Some(" ".repeat(indent) + "}");
            }
            None => kept.push(without_field(line)),
            Some(end) if line == end => until = None,
            Some(_) => {}
        }
    }
    kept.join("\n")
}

fn without_field(line: &str) -> String {
    let Some((before, field)) = line.split_once("limits: ") else { return line.to_owned() };
    [before, field.split_once(',').map_or("", |(_, after)| after)].concat()
}

/// Names from limits that measuring code uses.
fn limits_known(text: &str) -> Vec<String> {
    let code = without_limits(text);
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut known = Vec::new();
    for (at, word) in code.match_indices("limit") {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        if before.ends_with(part_of_word) || after.starts_with(part_of_word) {
            continue;
        }
        let generic = before.ends_with("plimsoll_model::");
        match after.strip_prefix("::") {
            Some(names) if generic => {
                let list = names.strip_prefix('{').map_or(names, |list| list.split('}').next().unwrap());
                let end = |c: char| !part_of_word(c);
                let many = names.starts_with('{');
                let names = list.split(',').take(if many { usize::MAX } else { 1 });
                let names = names.map(|name| name.trim().split(end).next().unwrap().to_owned());
                known.extend(names.filter(|name| !name.is_empty() && !OF_LIMITS.contains(&name.as_str())));
            }
            Some(_) => known.push("limit::".to_owned()),
            None if before.ends_with("::") => known.push("::limit".to_owned()),
            None => {}
        }
    }
    known
}

#[test]
fn what_measures_knows_no_limit() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut wrong, mut limits, mut paths) = (Vec::new(), 0, Vec::new());
    for name in subsystems(crates) {
        sources(&crates.join(name).join("src"), &mut paths);
    }
    for path in paths {
        let module =
            path.strip_prefix(crates).unwrap().with_extension("").to_str().unwrap().replace("/src/", "/");
        if is_of_limits(&module) {
            limits += 1;
            continue;
        }
        // Fixtures are compiled for tests only.
        if module.ends_with("/fixture") {
            continue;
        }
        let known = limits_known(&fs::read_to_string(&path).unwrap());
        let known = known.into_iter().filter(|name| !BESIDES.contains(&(module.as_str(), name.as_str())));
        wrong.extend(known.map(|name| format!("{module} names {name}")));
    }
    assert!(limits > 5, "found only {limits} files of limits");
    let wrong = wrong.join("\n");
    assert!(wrong.is_empty(), "only `limits` of a benchmark may name a file of limits:\n{wrong}");
}

#[test]
fn a_subsystem_knows_no_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let names = subsystems(crates);
    let others: Vec<String> = names.iter().map(|name| format!("plimsoll-{name}")).collect();
    for name in names.iter().map(String::as_str).chain(["bench-api"]) {
        let manifest = fs::read_to_string(crates.join(name).join("Cargo.toml")).unwrap();
        let known =
            manifest.lines().filter_map(|line| line.split_once('.')).map(|(dependency, _)| dependency);
        let known: Vec<&str> = known.filter(|line| others.iter().any(|other| other == line)).collect();
        assert!(known.is_empty(), "{name} uses {known:?}");
    }
}

#[test]
fn a_measuring_file_that_knows_a_limit_is_found() {
    let plain = "mod limit;\nuse plimsoll_model::limit::{LimitKind, Limit, Question};\nfn f() { self.limit; }\n\
                 impl B {\n    fn limits(&self) {\n        limit::limits()\n    }\n}\n";
    assert!(limits_known(plain).is_empty(), "{:?}", limits_known(plain));
    assert!(limits_known("Descriptor {\n    limits: limit::limits,\n}").is_empty());
    assert_eq!(limits_known("D { limits: limit::limits, findings: limit::find, ..D::USUAL }"), ["limit::"]);
    assert_eq!(limits_known("fn prepare() { limit::limits() }"), ["limit::"]);
    assert_eq!(limits_known("use super::limit;"), ["::limit"]);
    assert_eq!(limits_known("use plimsoll_model::limit::device::Promise;"), ["device"]);
    assert_eq!(limits_known("use plimsoll_model::limit::{Limit, median};"), ["median"]);
    assert!(is_of_limits("bench-cpu/peak/limit") && is_of_limits("bench-network/limit/held"));
    assert!(!is_of_limits("bench-cpu/limits"));
}
