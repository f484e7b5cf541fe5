//! Checks that within a crate no module uses one to its right in [`ORDER`]; between crates Cargo
//! checks it. Reads every `crate::name` in the sources, without tests and comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates with several subjects, and their modules from left to right: each may use those before
/// it.
const ORDER: &[(&str, &[&str])] = &[
    (
        "model",
        &[
            "case",
            "plan",
            "warning",
            "sample",
            "metric",
            "words",
            "place",
            "job",
            "limit",
            "measurement",
            "view",
            "fixture",
        ],
    ),
    ("result", &["evaluate", "document", "finding", "fleet", "event", "fixture"]),
    ("command", &["cli", "resolve"]),
    ("plimsoll", &["failure", "output", "app", "main"]),
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

/// The imports of a module to its right, in files by their paths below `src`.
fn backward_edges(order: &[&str], files: &BTreeMap<String, String>) -> Vec<String> {
    let place = |name: &str| order.iter().position(|o| *o == name);
    let mut wrong = Vec::new();
    for (module, text) in files {
        let Some(own) = place(module.split('/').next().unwrap()) else {
            wrong.push(format!("{module} has no place in ORDER"));
            continue;
        };
        let later = named(text).into_iter().filter(|name| place(name).is_some_and(|other| other > own));
        wrong.extend(later.map(|name| format!("{module} -> {name}")));
    }
    wrong
}

#[test]
fn no_module_imports_one_to_its_right() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, order) in ORDER {
        let root = crates.join(name).join("src");
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
        assert!(files.len() >= order.len(), "{name}: found only {} sources", files.len());
        let wrong = backward_edges(order, &files);
        assert!(wrong.is_empty(), "{name}: backward edges:\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_backward_edge_is_found() {
    let files = |text: &str| BTreeMap::from([("limit/user".to_owned(), text.to_owned())]);
    let edges = |text: &str| backward_edges(&["case", "limit", "view"], &files(text));
    assert!(edges("use crate::machine::Machine;\nuse crate::case::Case;\n// crate::view\n").is_empty());
    assert_eq!(edges("use crate::view::RunView;"), ["limit/user -> view"]);
    assert_eq!(edges("fn f() { crate::view::open() }"), ["limit/user -> view"]);
    assert_eq!(edges("use crate::{case::Case, view::RunView};"), ["limit/user -> view"]);
    assert_eq!(backward_edges(&["case"], &files("")), ["limit/user has no place in ORDER"]);
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
