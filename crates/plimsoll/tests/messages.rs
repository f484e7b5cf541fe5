//! docs/messages.md: every code of a warning with its entry, and every error text with its exit code, as the sources have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use plimsoll::warning::{ENTRIES, Entry};

use crate::docs::is_current;
use crate::names::{product, sources};

const HEAD: &str = "# Messages

<!-- Made from the sources by a test (PLIMSOLL_WRITE_DOCS=1 cargo test --test integration messages::), which fails where this is stale. -->

An error is one line on stderr: what failed, why, and what to do. Errors of options have one of four shapes: *X requires Y*, *X and Y are
mutually exclusive*, *X must be …: 'typed' is not*, *X is not supported on Y*.

Warnings are about one case. The table of results prints a warning's text, the run document (`warnings`) also its code, which does not
change.

## Warnings

| code | meaning | what to do |
| --- | --- | --- |
";

const ERRORS: &str = "
## Errors

A part in braces is filled in. The exit code is that of a run in which nothing worse happens:

| exit code | meaning |
| --- | --- |
| 2 | what was typed, or a file that was named, cannot be used; nothing was measured |
| 3 | refused for safety |
| 4 | the environment failed: space, memory, I/O |
| 5 | the server, the network protocol or another machine failed |
| skipped | this machine cannot measure the case; 4 only where nothing else was measured |
| invalid | the answer of a case was wrong: its figure is void, and the exit code is 1 |
| limit | why the row has no limit; the exit code stays |
| – | a line on stderr, or a reason in the row of a reference tool; the exit code stays |
";

/// How an error is made, and the exit code that follows. Longer ones first.
const MAKERS: &[(&str, &str)] = &[
    ("CannotMeasure::not_here(", "skipped"),
    ("CannotMeasure::out_of_time(", "skipped"),
    ("CannotMeasure::refused(", "3"),
    ("CannotMeasure::environment(", "4"),
    ("CannotMeasure::far_end(", "5"),
    ("Failure::usage(", "2"),
    ("Failure::environment(", "4"),
    ("WrongAnswer::new(", "invalid"),
    ("complain(", "–"),
    ("Wrong::value(", "2"),
    ("Wrong::refused(", "2"),
    ("other(", "2"),
    ("refused(", ""),
    ("#[error(", ""),
    ("Err(", ""),
];

/// What follows from an error by the crate or file that makes it, where its maker does not say: the first that fits.
const PLACES: &[(&str, &str)] = &[
    ("bench/src/disk/claim.rs", "3"),
    ("bench/src/disk/raw.rs", "2, 3 or 4"),
    ("bench/src/disk/dir.rs", "2 or 3"),
    ("bench/src/disk/target.rs", "4"),
    ("bench/src/disk/engine.rs", "4"),
    ("bench/src/disk/file.rs", "4"),
    ("bench/src/disk/driver.rs", "4"),
    ("bench/src/disk/load", "4"),
    ("bench/src/disk/fill.rs", "4"),
    ("bench/src/memory/arrays.rs", "invalid"),
    ("bench/src/network/server.rs", "2 or 5"),
    ("bench/src/network/near_end.rs", "5"),
    ("bench/src/network/iperf3/talk.rs", "5"),
    ("bench/src/network/iperf3/data.rs", "5"),
    ("bench/", "2"),
    ("check/", "1 or 2"),
    ("command/", "2"),
    ("compare/", "2"),
    ("cluster/", "5"),
    ("doctor/", "–"),
    ("gate/", "6"),
    ("history/src/error.rs", "2, 3 or 4"),
    ("history/", "4"),
    ("machine/src/saved", "2 or 4"),
    ("machine/", "4"),
    ("metal/src/isa.rs", "2 or skipped"),
    ("metal/src/kernel", "2 or invalid"),
    ("metal/src/stream.rs", "2 or invalid"),
    ("metal/", "4"),
    ("model/src/sample.rs", "invalid"),
    ("model/", "2"),
    ("output/src/report/site/directory.rs", "3 or 4"),
    ("output/src/report/target.rs", "2, 3 or 4"),
    ("output/", "2"),
    ("plimsoll/", "2 or 4"),
    ("published/", "2"),
    ("reference/", "–"),
    ("result/src/document", "2"),
    ("result/", "–"),
    ("run/", "4"),
    ("server/src/wire/key.rs", "2 or 3"),
    ("server/src/serve", "2 or 5"),
    ("server/", "5"),
    ("stats/", "4"),
    ("system/", "3 or 4"),
    ("units/", "2"),
    ("watch/", "2 or 4"),
];

/// The code of a file without comments and its own tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// The end of a string literal that begins after its first quote.
fn literal_end(text: &str) -> usize {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

/// The string literals up to the parenthesis that closes what has been opened.
fn literals(text: &str) -> Vec<String> {
    let (mut depth, mut found, mut rest) = (1_i32, Vec::new(), text);
    while let Some(at) = rest.find(['"', '(', ')', '\'']) {
        let (mark, after) = (&rest[at..=at], &rest[at + 1..]);
        rest = after;
        match mark {
            "(" => depth += 1,
            ")" if depth == 1 => break,
            ")" => depth -= 1,
            "'" => {
                // A character, not a lifetime.
                let skip = ["\"'", "('", ")'", "\\''"].iter().find(|one| after.starts_with(**one));
                rest = &after[skip.map_or(0, |one| one.len())..];
            }
            _ => {
                let end = literal_end(after);
                found.push(plain(&after[..end]));
                rest = after.get(end + 1..).unwrap_or_default();
            }
        }
    }
    found
}

/// A literal as it is shown: continued lines joined, escapes undone.
fn plain(literal: &str) -> String {
    let mut text = String::new();
    let mut lines = literal.split("\\\n");
    text += lines.next().unwrap_or_default();
    lines.for_each(|line| text += line.trim_start());
    text.replace("\\\"", "\"")
        .replace("\\'", "'")
        .replace("\\n", " ")
        .replace("{{", "{")
        .replace("}}", "}")
        .trim()
        .to_owned()
}

/// Texts of errors of a file, each with its exit code.
fn errors(file: &str, text: &str) -> BTreeMap<String, String> {
    let code = code(text);
    let mut all = BTreeMap::new();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for (maker, exit) in MAKERS {
        for (at, _) in code.match_indices(maker) {
            let before = code[..at].chars().next_back();
            let is_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            if is_word && !maker.starts_with('#') || !taken.insert(at + maker.len()) {
                continue;
            }
            let exit = if exit.is_empty() { of_place(file) } else { exit };
            for literal in literals(&code[at + maker.len()..]).into_iter().filter(|one| is_sentence(one)) {
                all.entry(literal).or_insert_with(|| exit.to_owned());
            }
        }
    }
    all
}

/// Text for people: several words, not the value of something else.
fn is_sentence(text: &str) -> bool {
    text.split_whitespace().count() > 2 && text.chars().any(char::is_alphabetic)
}

fn of_place(file: &str) -> &'static str {
    let of_a_limit = file.contains("/limit") && !file.ends_with("/user.rs") && !file.ends_with("/formula.rs");
    match PLACES.iter().find(|(place, _)| file.starts_with(place)) {
        Some(_) if of_a_limit => "limit",
        Some((_, exit)) => exit,
        None => "?",
    }
}

/// All sources of all crates, by `crate/src/file`.
fn everything() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path().join("src");
        if path.is_dir() {
            sources(root, &path, &mut all);
        }
    }
    product(all)
}

#[test]
fn every_message_is_in_the_docs() {
    let mut made = HEAD.to_owned();
    for Entry { code, meaning, remedy } in ENTRIES {
        writeln!(made, "| `{code}` | {meaning} | {remedy} |").unwrap();
    }
    made += ERRORS;
    let mut shown = BTreeSet::new();
    let mut part = "";
    for (file, text) in &everything() {
        let errors = errors(file, text);
        let name = file.split('/').next().unwrap();
        for (literal, exit) in errors {
            assert_ne!(exit, "?", "{file} has no row of PLACES");
            if part != name {
                part = name;
                writeln!(made, "\n### {part}\n\n| message | exit code |\n| --- | --- |").unwrap();
            }
            if shown.insert(literal.clone()) {
                writeln!(made, "| {} | {exit} |", literal.replace('|', "\\|").replace('<', "&lt;")).unwrap();
            }
        }
    }
    is_current("docs/messages.md", &made);
}

/// The codes in the sources: the literals of what implements `Warn` and of the causes of lost time.
#[test]
fn every_code_of_a_warning_has_an_entry_and_every_entry_a_code() {
    let mut found = BTreeSet::new();
    for (_, text) in everything() {
        let code = code(&text);
        let blocks = code.split("impl Warn for ").skip(1).map(|rest| rest.split("\nimpl ").next().unwrap());
        let warns = code.contains("impl Warn for ");
        let causes = code.split("impl Loss {").skip(if warns { 1 } else { usize::MAX });
        let own =
            code.lines().filter(|line| warns && line.contains("const ") && line.contains(": &str = \""));
        for block in blocks.chain(causes.map(|rest| rest.split("fn words").next().unwrap())).chain(own) {
            let literals = block.split('"').skip(1).step_by(2);
            let is_code =
                |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            found.extend(literals.filter(is_code).map(str::to_owned));
        }
    }
    let entries: BTreeSet<String> = ENTRIES.iter().map(|entry| entry.code.to_owned()).collect();
    assert_eq!(found, entries);
}
