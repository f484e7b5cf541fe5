//! Data flows one way: no module names one that stands to its right.
//!
//! Reads every `crate::name` in the sources, tests and comments left out, and compares places in [`ORDER`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates of their own, to the left of all: Cargo holds that they use nothing of these modules.
const CRATES: &[&str] = &[
    "case", "leftover", "links", "machine", "plan", "program", "quantity", "random", "sample", "serve",
    "stats", "text", "traffic", "trust", "wall", "warning", "wire",
];

/// Left to right: a module may use those before it, and none after it.
const ORDER: &[&str] = &[
    "metric",
    "words",
    "place",
    "limit",
    "measurement",
    "view",
    "bench",
    "label",
    "peer",
    "cli",
    "resolve",
    "evaluate",
    "document",
    "published",
    "finding",
    "fixture",
    "compare",
    "doctor",
    "event",
    "run",
    "worker",
    "clock",
    "cluster",
    "store",
    "report",
    "output",
    "app",
    "main",
];

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

/// The names after `crate::` and `plimsoll::` in code, `use` lists included.
fn named(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String =
        code.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut names = Vec::new();
    for lead in ["crate::", "plimsoll::"] {
        for (at, _) in code.match_indices(lead) {
            let rest = &code[at + lead.len()..];
            let list = rest.strip_prefix('{').map_or(rest, |r| r.split("};").next().unwrap());
            let many = rest.starts_with('{');
            let ends = |c: char| !(c.is_alphanumeric() || c == '_');
            if many {
                names.extend(list.split(',').map(|n| n.trim().split(ends).next().unwrap().to_owned()));
            } else {
                names.push(list.split(ends).next().unwrap().to_owned());
            }
        }
    }
    names.retain(|n| !n.is_empty() && n.chars().all(|c| c.is_lowercase() || c == '_'));
    names
}

fn backward_edges(files: &BTreeMap<String, String>) -> Vec<String> {
    let place = |name: &str| ORDER.iter().position(|o| *o == name);
    let mut wrong = Vec::new();
    for (module, text) in files {
        let Some(own) = place(module.split('/').next().unwrap()) else {
            wrong.push(format!("{module} has no place in ORDER"));
            continue;
        };
        for name in named(text) {
            match place(&name) {
                Some(other) if other > own => wrong.push(format!("{module} -> {name}")),
                Some(_) => {}
                None if CRATES.contains(&name.as_str()) => {}
                None => wrong.push(format!("{module} names crate::{name}, which has no place in ORDER")),
            }
        }
    }
    wrong
}

#[test]
fn no_module_imports_one_to_its_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let files: BTreeMap<String, String> = paths
        .iter()
        .filter(|p| !p.ends_with("lib.rs"))
        .map(|p| {
            let name = p.strip_prefix(&root).unwrap().with_extension("");
            (name.to_str().unwrap().to_owned(), fs::read_to_string(p).unwrap())
        })
        .collect();
    assert!(files.len() > 20, "found only {} sources", files.len());
    let wrong = backward_edges(&files);
    assert!(wrong.is_empty(), "backward edges:\n{}", wrong.join("\n"));
}

#[test]
fn a_backward_edge_is_found() {
    let files = |text: &str| BTreeMap::from([("limit/user".to_owned(), text.to_owned())]);
    assert!(backward_edges(&files("use crate::machine::Machine;\n// crate::run\n")).is_empty());
    assert_eq!(backward_edges(&files("use crate::run::Harness;")), ["limit/user -> run"]);
    assert_eq!(backward_edges(&files("fn f() { crate::store::open() }")), ["limit/user -> store"]);
    assert_eq!(backward_edges(&files("use crate::{case::Case, report::json};")), ["limit/user -> report"]);
    assert_eq!(backward_edges(&files("use crate::bench::Metric;")), ["limit/user -> bench"]);
}

/// What `limits` of a benchmark takes and gives; nothing else of limits is for those that measure.
const OF_LIMITS: &[&str] = &["Kind", "Limit", "Question", "self"];

/// Whether a file of a benchmark says what bounds its figures, or what they mean when they are bounded: neither measures.
fn is_of_limits(module: &str) -> bool {
    module.split('/').any(|part| ["limit", "findings", "part"].contains(&part))
}

/// The code without the bodies of `fn limits`, without comments and tests.
fn without_limits(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let (mut kept, mut until) = (Vec::new(), None);
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        match &until {
            None if line.trim_start().trim_start_matches("pub ").starts_with("fn limits(") => {
                let indent = line.len() - line.trim_start().len();
                until = Some(" ".repeat(indent) + "}");
            }
            None => kept.push(line),
            Some(end) if line == end => until = None,
            Some(_) => {}
        }
    }
    kept.join("\n")
}

/// What code that measures names of limits.
fn limits_known(text: &str) -> Vec<String> {
    let code = without_limits(text);
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut known = Vec::new();
    for (at, word) in code.match_indices("limit") {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        if before.ends_with(part_of_word) || after.starts_with(part_of_word) {
            continue;
        }
        let generic = before.ends_with("crate::");
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root.join("bench"), &mut paths);
    let (mut wrong, mut limits) = (Vec::new(), 0);
    for path in paths {
        let module = path.strip_prefix(&root).unwrap().with_extension("").to_str().unwrap().to_owned();
        if is_of_limits(&module) {
            limits += 1;
            continue;
        }
        let known = limits_known(&fs::read_to_string(&path).unwrap());
        wrong.extend(known.into_iter().map(|name| format!("{module} names {name}")));
    }
    assert!(limits > 5, "found only {limits} files of limits");
    assert!(
        wrong.is_empty(),
        "only `fn limits` of a benchmark may name a file of limits:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_measuring_file_that_knows_a_limit_is_found() {
    let plain = "mod limit;\nuse crate::limit::{Kind, Limit, Question};\nfn f() { self.limit; }\n\
                 impl B {\n    fn limits(&self) {\n        limit::limits()\n    }\n}\n";
    assert!(limits_known(plain).is_empty(), "{:?}", limits_known(plain));
    assert_eq!(limits_known("fn prepare() { limit::limits() }"), ["limit::"]);
    assert_eq!(limits_known("use super::limit;"), ["::limit"]);
    assert_eq!(limits_known("use crate::limit::device::Promise;"), ["device"]);
    assert_eq!(limits_known("use crate::limit::{Limit, median};"), ["median"]);
    assert!(is_of_limits("bench/cpu/peak/limit") && is_of_limits("bench/network/limit/held"));
    assert!(!is_of_limits("bench/cpu/limits"));
}

#[test]
fn only_the_metal_crate_may_be_unsafe_and_only_arch_knows_the_architecture() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths = Vec::new();
    sources(crates, &mut paths);
    paths.retain(|p| p.strip_prefix(crates).unwrap().iter().nth(1).is_some_and(|part| part == "src"));
    let entries = paths.iter().filter(|p| {
        let place = p.strip_prefix(crates).unwrap();
        place.iter().count() == 3
            && (p.ends_with("lib.rs") || p.ends_with("main.rs"))
            && !place.starts_with("metal")
    });
    for entry in entries {
        let text = fs::read_to_string(entry).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{entry:?}");
    }
    let gated: Vec<_> = paths
        .iter()
        .filter(|p| !p.ends_with("arch/mod.rs") && fs::read_to_string(p).unwrap().contains("target_arch"))
        .collect();
    assert!(gated.is_empty(), "cfg(target_arch) outside arch/mod.rs: {gated:?}");
}
