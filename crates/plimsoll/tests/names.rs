//! Generic code must not use names of benchmarks and metrics: [`OUTSIDE`] counts the literals
//! with a benchmark's name, case id or metric outside of the subsystem's folder, and may only
//! shrink. Files of reference tools define pairings ([`pairs`]) and may have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use plimsoll_bench::benchmarks;
use plimsoll_model::case::KEYS;

use crate::counts::rust_files;
use crate::support::below;

/// Names of metrics with another meaning in a file, such as the wall clock or an axis.
const OTHER_MEANINGS: &[(&str, &str)] = &[
    ("doctor/proof.rs", "time"),
    ("watch/findings.rs", "time"),
    ("gate/cause.rs", "busy"),
    ("output/report/gate.rs", "loss"),
    ("output/report/html/machines.rs", "taken"),
    ("output/report/html/single.rs", "time"),
    ("output/report/html/single.rs", "latency"),
    ("model/job/memory.rs", "latency"),
];

/// File below `src` with its crate's name → numbers of names of benchmarks and of metrics in it.
const OUTSIDE: &[(&str, usize, usize)] = &[
    ("model/job/memory.rs", 2, 0),
    ("reference/fact.rs", 0, 1),
    ("reference/tools/mod.rs", 1, 0),
    ("published/lib.rs", 0, 3),
];

/// File → number of names of subsystems: of figures or tools, or with another meaning.
const SUBSYSTEMS: &[(&str, usize)] = &[
    ("command/resolve/cases.rs", 1),
    ("command/cli/other_tools.rs", 19),
    ("result/document/redact/path.rs", 3),
    ("model/plan/built_in.rs", 1),
    ("reference/tools/ioping.rs", 1),
    ("reference/tools/iozone.rs", 1),
    ("reference/tools/netperf.rs", 1),
    ("published/lib.rs", 1),
    ("output/report/html/charts.rs", 1),
    // The label with the number of a CPU.
    ("output/report/format/openmetrics.rs", 1),
    ("output/report/machine.rs", 2),
    ("output/report/machine/cost.rs", 2),
    ("output/report/machine/storage.rs", 2),
    ("output/report/published/cells.rs", 3),
];

/// The string literals of code, without comments and without a file's own tests.
pub(crate) fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let from = &rest[at..];
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(after) = from.strip_prefix('"') {
            let before = rest[..at].trim_end_matches('#');
            let raw_end = format!("\"{}", &rest[before.len()..at]);
            let end = if before.ends_with('r') { after.find(&raw_end) } else { plain_end(after) };
            let end = end.unwrap_or(after.len());
            found.push(after[..end].to_owned());
            rest = after.get(end + 1..).unwrap_or("");
        } else {
            let skipped = if from.starts_with("'\"'") || from.starts_with("'/'") { 3 } else { 1 };
            rest = &from[skipped..];
        }
    }
    found
}

fn plain_end(after: &str) -> Option<usize> {
    let escapes = |at: usize| after[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
    after.match_indices('"').map(|(at, _)| at).find(|at| escapes(*at) % 2 == 0)
}

/// The code of a file without lines of comments and its own tests.
pub(crate) fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("//")).collect()
}

fn test_modules(text: &str) -> Vec<String> {
    let text = text.replace("#[cfg(any(test, feature = \"testing\"))]", "#[cfg(test)]");
    let marked = text.split("#[cfg(test)]\n").skip(1);
    let names = marked.filter_map(|after| after.lines().next()?.strip_suffix(';')?.split_once("mod "));
    names.map(|(_, name)| name.to_owned()).collect()
}

/// Every source below `dir`, tests included, by its path below `root`.
pub(crate) fn sources(root: &Path, dir: &Path, found: &mut BTreeMap<String, String>) {
    for path in below(dir).into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        found.insert(name, fs::read_to_string(&path).unwrap());
    }
}

/// Crates whose files have their name as prefix; those that begin with `bench-` are below `bench`.
const CRATES: &str = "bench check compare history doctor gate watch cluster command model output published reference \
                      result run server system";

pub(crate) fn all() -> BTreeMap<String, String> {
    let placed = |(path, text): (String, String)| {
        let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
        let file = match name.strip_prefix("bench-") {
            Some(part) => format!("bench/{part}/{file}"),
            None if name == "plimsoll" => file.to_owned(),
            None => CRATES.split(' ').any(|known| known == name).then(|| format!("{name}/{file}"))?,
        };
        Some((file, text))
    };
    rust_files().into_iter().filter_map(placed).collect()
}

/// The sources of the program: what is for tests alone is left out.
pub(crate) fn product(all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let modules = |(name, text): (&String, &String)| {
        let stem = name.trim_end_matches(".rs");
        let folder = stem.strip_suffix("mod").or(stem.strip_suffix("lib"));
        let folder = folder.map_or_else(|| format!("{stem}/"), str::to_owned);
        test_modules(text).into_iter().map(move |module| format!("{folder}{module}"))
    };
    let tests: Vec<String> = all.iter().flat_map(modules).collect();
    let is_test = |name: &str| {
        let of = |t: &String| name.strip_prefix(t.as_str()).is_some_and(|rest| rest.starts_with(['.', '/']));
        name.contains("/tests/") || tests.iter().any(of)
    };
    all.into_iter().filter(|(name, _)| !is_test(name)).collect()
}

/// Whether a file defines the cases for a reference tool.
fn pairs(file: &str) -> bool {
    file.strip_prefix("reference/tools/").is_some_and(|name| name != "mod.rs")
}

/// The names of all metrics, without those that operations, parameters and subsystems have too.
fn metrics() -> BTreeSet<&'static str> {
    let subsystems = benchmarks().filter_map(|b| b.name().split('.').next());
    let parameters = KEYS.iter().map(|key| key.name);
    let taken: Vec<&str> = subsystems.chain(parameters).chain(["read", "write"]).collect();
    let all = benchmarks().flat_map(|b| b.all_metrics()).map(|metric| metric.name);
    all.filter(|name| !taken.contains(name)).collect()
}

/// Whether a file is in the folder of the subsystem that a name begins with.
fn at_home(file: &str, name: &str) -> bool {
    let subsystem = name.split(['.', '/']).next().unwrap_or_default();
    let rest = file.strip_prefix("bench/").and_then(|rest| rest.strip_prefix(subsystem));
    rest.is_some_and(|rest| rest.starts_with(['/', '.']))
}

/// How many literals of a file are names of benchmarks, and of metrics, that are not at home in it.
fn counted(file: &str, text: &str, metrics: &BTreeSet<&str>) -> (usize, usize) {
    let literals = literals(text);
    let is_case = |text: &&String| {
        let name = text.split('/').next().unwrap_or_default();
        // "null" is a word of other languages too.
        name.contains('.') && benchmarks().any(|b| b.name() == name) && !at_home(file, name)
    };
    let means_it = |t: &&String| !OTHER_MEANINGS.contains(&(file, t.as_str()));
    let is_metric = |t: &&String| !file.starts_with("bench/") && metrics.contains(t.as_str()) && means_it(t);
    (literals.iter().filter(is_case).count(), literals.iter().filter(is_metric).count())
}

#[test]
fn names_of_benchmarks_and_metrics_stand_in_their_folder() {
    let metrics = metrics();
    let files = product(all()).into_iter().filter(|(file, _)| !pairs(file));
    let counts = files.map(|(file, text)| (counted(&file, &text, &metrics), file));
    let now = counts.filter(|(count, _)| *count != (0, 0)).map(|((b, m), file)| (file, b, m));
    let allowed = OUTSIDE.iter().map(|(file, b, m)| ((*file).to_owned(), *b, *m));
    let why = "move what a file knows of them to their folder, or lower or remove its row in OUTSIDE";
    assert_eq!(now.collect::<BTreeSet<_>>(), allowed.collect::<BTreeSet<_>>(), "{why}");
}

/// A subsystem's name as a literal in code outside of subsystems; a Cargo feature is no name.
#[test]
fn names_of_subsystems_stand_in_their_folder() {
    let names: BTreeSet<&str> =
        benchmarks().filter_map(|b| b.name().split_once('.')).map(|(name, _)| name).collect();
    let mut now = BTreeMap::new();
    for (file, text) in product(all()).iter().filter(|(file, _)| !file.starts_with("bench/")) {
        let text = text.replace("feature = ", "//");
        let count = literals(&text).iter().filter(|literal| names.contains(literal.as_str())).count();
        now.extend((count > 0).then_some((file.clone(), count)));
    }
    let allowed: BTreeMap<String, usize> =
        SUBSYSTEMS.iter().map(|(file, n)| ((*file).to_owned(), *n)).collect();
    assert_eq!(now, allowed, "what is known of a subsystem is a field of its row in `bench`");
}

#[test]
fn a_name_outside_its_folder_is_found() {
    let metrics = BTreeSet::from(["latency"]);
    let count = |file: &str, text: &str| counted(file, text, &metrics);
    let text = "// \"cpu.peak\"\nlet a = '\"'; f(\"cpu.peak\", \"latency\", r#\"disk.io/op=\"read\"\"#, \"at latency\");";
    assert_eq!(count("report/row.rs", text), (2, 1));
    assert_eq!(count("bench/cpu/peak.rs", text), (1, 0));
    assert_eq!(count("bench/cpus.rs", "\"cpu.peak\""), (1, 0));
    assert_eq!(count("a.rs", "#[cfg(test)]\nmod tests {\n\"cpu.peak\"}"), (0, 0));
    assert_eq!(test_modules("#[cfg(test)]\npub(crate) mod testing;\nmod other;\n"), ["testing"]);
    let parent = ("a/mod.rs", "#[cfg(test)]\nmod testing;\n");
    let all = [parent, ("a/testing.rs", ""), ("a/testing/b.rs", ""), ("a/other.rs", "")];
    let all = all.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(product(all.into()).keys().collect::<Vec<_>>(), ["a/mod.rs", "a/other.rs"]);
}
