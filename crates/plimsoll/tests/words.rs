//! Words that string literals, help and pages must not have; the glossary has plain ones.

use crate::docs::{pages, text};
use crate::names::{all, literals, product};
use crate::support::{done, scratch};

const FORBIDDEN: &[(&str, &str)] = &[
    ("beside", "with, in the same run, compared with"),
    ("told", "said, shown, known"),
    ("stands", "is"),
    ("set aside", "excluded"),
    ("far end", "server"),
    ("near end", "client"),
    ("there is none", "name what is missing"),
    ("they are those of", "requires"),
    ("fix the same", "mutually exclusive"),
    ("named as wrong", "refuted"),
];

/// Words that are also forbidden in messages; pages on experiments may have them.
const IN_MESSAGES: &[(&str, &str)] = &[
    ("peer", "reference tool"),
    ("peers", "reference tools"),
    ("knee", "saturation point"),
    ("disturbed", "the cause: interrupted, preempted, throttled, stolen"),
    ("undecided", "inconclusive"),
    ("set_aside", "excluded"),
    ("far_end", "server"),
    ("near_end", "client"),
];

/// Pages about the program's structure, which may have such words.
const INTERNALS: [&str; 2] = ["docs/src/adding.md", "docs/src/architecture.md"];

fn found(text: &str) -> Vec<&'static str> {
    of_these(FORBIDDEN, text)
}

/// The words found in a text. After a dot without a space is a part of a name: `disk.knee`.
fn of_these(words: &[(&'static str, &str)], text: &str) -> Vec<&'static str> {
    let is_word =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-' || c == '`');
    let lower = text.to_lowercase();
    let begins = |before: Option<char>| !is_word(before) && before != Some('.');
    let occurs = |word: &str| {
        lower.match_indices(word).any(|(at, _)| {
            begins(lower[..at].chars().next_back()) && !is_word(lower[at + word.len()..].chars().next())
        })
    };
    words.iter().map(|(word, _)| *word).filter(|word| occurs(word)).collect()
}

/// The forbidden words of a literal, whose arguments in braces are no words of it.
fn found_in_literal(literal: &str) -> Vec<&'static str> {
    let (mut text, mut depth) = (literal.to_owned(), 0_usize);
    text.retain(|c| {
        depth = (depth + usize::from(c == '{')).saturating_sub(usize::from(c == '}'));
        depth == 0 && c != '}'
    });
    [of_these(FORBIDDEN, &text), of_these(IN_MESSAGES, &text)].concat()
}

/// Returns what to write instead of these words; `None` without any.
fn complaint(place: &str, text: &str, words: &[&str]) -> Option<String> {
    let instead = |word: &&str| {
        let mut all = FORBIDDEN.iter().chain(IN_MESSAGES);
        all.find(|(known, _)| known == word).map_or("", |(_, instead)| instead)
    };
    let stated: Vec<String> =
        words.iter().map(|word| format!("'{word}' (write: {})", instead(word))).collect();
    (!words.is_empty()).then(|| format!("{place}: {}: {text}", stated.join(", ")))
}

#[test]
fn no_message_has_a_word_that_the_glossary_replaces() {
    let mut wrong = Vec::new();
    for (file, text) in product(all()) {
        for literal in literals(&text) {
            wrong.extend(complaint(&file, &literal, &found_in_literal(&literal)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_page_for_users_has_one() {
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| !INTERNALS.contains(&page.as_str())) {
        for line in text(page).lines() {
            wrong.extend(complaint(page, line, &found(line)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_help_has_one() {
    let commands = " run cpu memory disk network os serve compare history export report";
    for command in commands.split(' ') {
        let line = format!("{command} --help-all");
        let (text, _) = done(scratch().path(), &line, 0);
        assert_eq!(complaint(&line, &text, &found(&text)), None);
    }
}

#[test]
fn a_word_is_found_whole_and_in_any_case() {
    assert_eq!(found("It is Told once"), ["told"]);
    assert!(found("untold; besides; standstill").is_empty());
    assert_eq!(found_in_literal("told"), ["told"], "one word alone");
    assert_eq!(found_in_literal("the knee of {peer}: {}"), ["knee"]);
    assert!(found_in_literal("disk.knee").is_empty());
    assert!(found("the value `told` of a document").is_empty());
}
