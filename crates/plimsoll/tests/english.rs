//! Counts patterns of hard English (`english.tsv`) in comments and in the documents; `english.txt`
//! has the counts, which may only shrink.
//!
//! Elements of a pattern follow each other without punctuation: words of which one must occur, with
//! `?` if they may be missing, `*` for any word in lower case, and `^` for the start of a line. A
//! word in lower case also stands for the word with a capital.

use crate::counts::{Finding, only_shrinks, rust_files};
use crate::docs::{pages, text};

/// Rule, pattern, an example and what to write.
fn rules() -> impl Iterator<Item = [&'static str; 4]> {
    let rows = include_str!("english.tsv").lines().skip(1);
    rows.map(|row| row.split('\t').collect::<Vec<_>>().try_into().unwrap())
}

/// Words and marks of punctuation. Code between backticks is one mark.
fn tokens(line: &str) -> Vec<String> {
    let parts: Vec<&str> = line.split('`').collect();
    let is_code = |at: usize| at % 2 == 1 && at + 1 < parts.len();
    let prose = parts.iter().enumerate().map(|(at, part)| if is_code(at) { "\"" } else { part });
    let spaced = |c: char| if c.is_alphanumeric() { c.to_string() } else { format!(" {c} ") };
    let prose: String = prose.collect::<Vec<_>>().join(" ").chars().map(spaced).collect();
    prose.split_whitespace().map(str::to_owned).collect()
}

/// Whether the tokens begin with the elements.
fn begins(tokens: &[String], elements: &[&str]) -> bool {
    let Some((element, elements)) = elements.split_first() else { return true };
    let words = element.trim_end_matches('?');
    let is_lower = |word: &str| word.chars().all(char::is_lowercase);
    let is_word = |token: &str| {
        let is_one = |word: &str| token.eq_ignore_ascii_case(word) && (token == word || is_lower(word));
        if words == "*" { is_lower(token) } else { words.split('|').any(is_one) }
    };
    tokens.first().is_some_and(|token| is_word(token) && begins(&tokens[1..], elements))
        || words != *element && begins(tokens, elements)
}

/// The rules that a line breaks, each with what to write.
fn broken(line: &str) -> Vec<[&'static str; 2]> {
    let is_markup = |c: char| c.is_ascii_digit() || c.is_whitespace() || "-*#>|.".contains(c);
    let tokens = tokens(line.trim_start_matches(is_markup));
    let has = |pattern: &str| {
        let elements: Vec<&str> = pattern.split(' ').collect();
        match elements.strip_prefix(&["^"]) {
            Some(elements) => begins(&tokens, elements),
            None => (0..tokens.len()).any(|at| begins(&tokens[at..], &elements)),
        }
    };
    rules().filter(|[_, pattern, ..]| has(pattern)).map(|[rule, .., write]| [rule, write]).collect()
}

/// Findings in the comments of a Rust file, or in a page outside of code blocks.
fn findings(path: &str, text: &str) -> Vec<Finding> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for (at, line) in text.lines().map(str::trim).enumerate() {
        let prose = if path.ends_with(".rs") { line.strip_prefix("//") } else { Some(line) };
        let prose = prose.unwrap_or_default().trim_start_matches(['/', '!']).trim();
        is_code ^= prose.starts_with("```");
        for [rule, write] in broken(prose).into_iter().filter(|_| !is_code) {
            found.push(Finding::new(rule, path, at + 1, &format!("{line} (write: {write})")));
        }
    }
    found
}

#[test]
fn patterns_of_hard_english_only_shrink() {
    let mut files = rust_files();
    files.extend(pages().into_iter().map(|page| (page.clone(), text(&page))));
    let found: Vec<Finding> = files.iter().flat_map(|(path, text)| findings(path, text)).collect();
    only_shrinks("crates/plimsoll/tests/english.txt", &found);
}

#[test]
fn a_pattern_is_found_in_prose_alone() {
    for [rule, pattern, example, write] in rules() {
        assert!(broken(example).contains(&[rule, write]), "{pattern}: {example}");
    }
    assert!(broken("One buffer per thread, of `so many` bytes; essays; where: it fails.").is_empty());
    let lines = |path, text| findings(path, text).iter().map(|one| one.line).collect::<Vec<_>>();
    assert_eq!(lines("a.rs", "//! ok\n    /// Its own.\nlet x = \"told\";\n// who\n"), [2, 4]);
    assert_eq!(lines("a.md", "Plain.\n```\nwho\n```\nSo much.\n"), [5]);
}
