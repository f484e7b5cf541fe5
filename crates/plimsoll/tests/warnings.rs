//! docs/src/warnings.md: every code of a warning with its entry.

use std::collections::BTreeSet;
use std::fmt::Write;

use plimsoll_model::warning::{ENTRIES, Entry};

use crate::counts::rust_files;
use crate::docs::is_current;
use crate::names::{code, product};

const HEAD: &str = "# Warnings

<!-- Generated from the sources: PLIMSOLL_WRITE_DOCS=1 cargo test --test integration warnings:: -->

A warning belongs to one case. The table of results shows its text, and the run document (`warnings`) also its code. Codes do not change.

| code | meaning | what to do |
| --- | --- | --- |
";

#[test]
fn every_warning_is_in_the_docs() {
    let mut made = HEAD.to_owned();
    for Entry { code, meaning, remedy } in ENTRIES {
        writeln!(made, "| `{code}` | {meaning} | {remedy} |").unwrap();
    }
    is_current("docs/src/warnings.md", &made);
}

/// The codes in the sources: the literals of what implements `Warn` and of the causes of lost time.
#[test]
fn every_code_of_a_warning_has_an_entry_and_every_entry_a_code() {
    let mut found = BTreeSet::new();
    for (_, text) in product(rust_files()) {
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
