//! Checks that within a crate no module uses one to its right in [`ORDER`]; between crates Cargo
//! checks it. Reads every `crate::name` in the sources, without tests and comments.

use std::collections::BTreeMap;

use crate::counts::rust_files;
use crate::names::code;

/// Crates with several subjects, and their modules from left to right: each may use those before
/// it.
const ORDER: &[(&str, &str)] = &[
    ("model", "case plan warning sample metric words place job limit measurement fixture view"),
    ("result", "evaluate document finding fleet event fixture"),
    ("command", "cli resolve"),
    ("plimsoll", "failure output app main"),
];

/// The sources of crates by their path below `crates`, without files of tests.
fn sources() -> impl Iterator<Item = (String, String)> {
    let files = rust_files().into_iter().filter(|(path, _)| !path.ends_with("/tests.rs"));
    files.filter_map(|(path, text)| Some((path.split_once("crates/")?.1.to_owned(), text)))
}

/// The names after `crate::` and `plimsoll::` in code, `use` lists included.
fn named(text: &str) -> Vec<String> {
    let code = code(text);
    let ends = |c: char| !(c.is_alphanumeric() || c == '_');
    let mut names = Vec::new();
    for lead in ["crate::", "plimsoll::"] {
        for (at, _) in code.match_indices(lead) {
            let rest = &code[at + lead.len()..];
            let list = rest.strip_prefix('{').and_then(|list| list.split("};").next());
            let items = list.map_or(vec![rest], |list| list.split(',').collect());
            names.extend(items.iter().map(|item| item.trim().split(ends).next().unwrap().to_owned()));
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
    for (name, order) in ORDER {
        let order: Vec<&str> = order.split(' ').collect();
        let below = format!("{name}/src/");
        let own = |(path, text): (String, String)| {
            let module = path.strip_prefix(&below)?.strip_suffix(".rs")?;
            (module != "lib").then(|| (module.to_owned(), text))
        };
        let files: BTreeMap<String, String> = sources().filter_map(own).collect();
        assert!(files.len() >= order.len(), "{name}: found only {} sources", files.len());
        let wrong = backward_edges(&order, &files);
        assert!(wrong.is_empty(), "{name}: backward edges:\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_backward_edge_is_found() {
    let files = |text: &str| BTreeMap::from([("limit/user".to_owned(), text.to_owned())]);
    let edges = |text: &str| backward_edges(&["case", "limit", "view"], &files(text));
    assert!(edges("use crate::machine::Machine;\nuse crate::case::Case;\n// crate::view\n").is_empty());
    assert_eq!(edges("use crate::view::Topic;"), ["limit/user -> view"]);
    assert_eq!(edges("fn f() { crate::view::open() }"), ["limit/user -> view"]);
    assert_eq!(edges("use crate::{case::Case, view::Topic};"), ["limit/user -> view"]);
    assert_eq!(backward_edges(&["case"], &files("")), ["limit/user has no place in ORDER"]);
}

#[test]
fn only_the_metal_crate_may_be_unsafe_and_only_arch_knows_the_architecture() {
    for (path, text) in sources() {
        let parts: Vec<&str> = path.split('/').collect();
        let is_entry = matches!(parts[..], [name, "src", "lib.rs" | "main.rs"] if name != "metal");
        assert!(!is_entry || text.contains("#![forbid(unsafe_code)]"), "{path}");
        let is_gated = parts[1] == "src" && !path.ends_with("arch/mod.rs") && text.contains("target_arch");
        assert!(!is_gated, "cfg(target_arch) outside arch/mod.rs: {path}");
    }
}
