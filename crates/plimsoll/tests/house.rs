//! Counts repeated names of types and constants, crates under another name, wide comments and full
//! folders; `house.txt` has the counts, which may only shrink.

use std::collections::BTreeMap;

use crate::counts::{Finding, only_shrinks, rust_files};
use crate::names::product;

/// The most columns of a line with a comment.
const MAX_COMMENT_COLUMNS: usize = 100;

/// The most source files in a folder, without tests.
const MAX_FOLDER_FILES: usize = 20;

/// Texts of files by path.
type Texts = BTreeMap<String, String>;

/// The lines without comments and without a file's own tests: path, number and text.
fn code(files: &Texts) -> impl Iterator<Item = (&str, usize, &str)> {
    files.iter().flat_map(|(path, text)| {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        lines.map(|(at, line)| (path.as_str(), at + 1, line))
    })
}

/// The name that a line defines by one of the keywords.
fn defined<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let line = if line.starts_with("pub(") { line.split_once(") ")?.1 } else { line };
    let line = line.trim_start_matches("pub ").trim_start_matches("unsafe ");
    let (keyword, name) = line.split_once(' ')?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (keywords.contains(&keyword) && end > 0).then_some(&name[..end])
}

fn top_level_type(line: &str) -> Option<&str> {
    defined(line, &["struct", "enum", "trait", "union", "type"])
}

fn one_word_constant(line: &str) -> Option<&str> {
    // Each crate of a subsystem has one of this name, for the registry.
    let is_one_word = |name: &&str| {
        *name != "SUBSYSTEM" && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    };
    defined(line.trim_start(), &["const", "static"]).filter(is_one_word)
}

/// The definitions of names that more than `most` files define.
fn repeated(files: &Texts, rule: &str, name: fn(&str) -> Option<&str>, most: usize) -> Vec<Finding> {
    let mut definitions = BTreeMap::<&str, Vec<_>>::new();
    for (path, at, line) in code(files) {
        if let Some(name) = name(line) {
            definitions.entry(name).or_default().push(Finding::new(rule, path, at, name));
        }
    }
    definitions.retain(|_, found| found.chunk_by(|a, b| a.path == b.path).count() > most);
    definitions.into_values().flatten().collect()
}

/// Whether a line imports a crate under another name; `_` is no name.
fn renames_crate(line: &str) -> bool {
    line.replace("::{self as ", " as ").split(['{', ',', ';']).any(|item| {
        let words = item.split_whitespace().filter(|word| *word != "pub" && !word.starts_with("pub("));
        match words.collect::<Vec<_>>()[..] {
            [name, "as", _] => name.starts_with("plimsoll_") && !name.contains(':'),
            ["use", name, "as", new] => !name.contains(':') && new != "_",
            _ => false,
        }
    })
}

fn aliases(files: &Texts) -> Vec<Finding> {
    let found = code(files).filter(|(_, _, line)| renames_crate(line));
    found.map(|(path, at, line)| Finding::new("crate-alias", path, at, line.trim())).collect()
}

fn wide_comments(files: &Texts) -> Vec<Finding> {
    let lines = files.iter().flat_map(|(path, text)| text.lines().zip(1..).map(move |line| (path, line)));
    let comments = lines.filter(|(_, (line, _))| line.trim_start().starts_with("//"));
    let wide = comments.filter(|(_, (line, _))| line.chars().count() > MAX_COMMENT_COLUMNS);
    wide.map(|(path, (line, at))| Finding::new("wide-comment", path, at, line.trim())).collect()
}

/// The files by which folders exceed their maximum.
fn full_folders(files: &Texts) -> Vec<Finding> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let beyond = files.keys().filter(|path| {
        let count = counts.entry(path.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default();
        *count += 1;
        *count > MAX_FOLDER_FILES
    });
    beyond.map(|path| Finding::new("full-folder", path, 1, "split it")).collect()
}

/// Findings in all files: width in tests too, the rest without them.
fn findings(all: Texts) -> Vec<Finding> {
    let wide = wide_comments(&all);
    let files = product(all);
    let types = repeated(&files, "repeated-type", top_level_type, 1);
    let constants = repeated(&files, "one-word-constant", one_word_constant, 2);
    [wide, types, constants, aliases(&files), full_folders(&files)].into_iter().flatten().collect()
}

#[test]
fn names_aliases_width_and_folders_only_shrink() {
    only_shrinks("crates/plimsoll/tests/house.txt", &findings(rust_files()));
}

#[test]
fn each_rule_finds_its_pattern() {
    let found = |texts: &[&str]| -> Vec<String> {
        let files = texts.iter().zip(10..).map(|(text, at)| (format!("a/{at}.rs"), (*text).to_owned()));
        findings(files.collect()).iter().map(|one| format!("{} {}", one.rule, one.line)).collect()
    };
    let job = "pub struct Job<T>(T);";
    assert_eq!(found(&[job, "\npub(crate) enum Job {}"]), ["repeated-type 1", "repeated-type 2"]);
    let others = "// struct Job;\nstruct Jobs;\n    type Job = u8;\n#[cfg(test)]\nmod tests {\nstruct Job;";
    assert!(found(&[job, others]).is_empty());
    let most = ["const MOST: u8 = 1;", "\n    pub static MOST: u8 = 1;"];
    assert_eq!(found(&[most[0], most[1], most[0]]), [1, 2, 1].map(|at| format!("one-word-constant {at}")));
    assert!(found(&[most[0], most[1], "const MOST_BYTES: u8 = 1;"]).is_empty());
    let renamed = "use plimsoll_run as run;\npub use clap as c;\nuse {\n    plimsoll_run::{self as run},";
    assert_eq!(found(&[renamed]), [1, 2, 4].map(|at| format!("crate-alias {at}")));
    let own = "use plimsoll_run::go as went;\nuse clap as _;\nlet y = plimsoll_run::Y as u64;";
    assert!(found(&[own]).is_empty());
    assert_eq!(found(&[&format!("{:x<101}", "// ")]), ["wide-comment 1"]);
    assert!(found(&[&format!("{:x<100}", "// ")]).is_empty());
    assert_eq!(found(&[""; 22]), ["full-folder 1"; 2]);
}
