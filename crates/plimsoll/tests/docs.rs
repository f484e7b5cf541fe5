//! Generates the metrics in docs from the benchmarks, and the parameters of the plan's schema from
//! `KEYS`. The tests fail if a file is stale; `PLIMSOLL_WRITE_DOCS=1` writes it.
//!
//! Checks the links between the documents, the summary of the book, and the command lines in both.

use std::fs;

use plimsoll_bench::{Benchmark, Metric, Role, benchmarks};
use plimsoll_model::case::KEYS;
use plimsoll_model::plan::file::SERVER;

use crate::support::{repository, words};

/// Directory of the book's pages.
const BOOK: &str = "docs/src";

/// Compares the text with the file, or writes the file on request.
#[track_caller]
pub(crate) fn is_current(name: &str, made: &str) {
    if std::env::var_os("PLIMSOLL_WRITE_DOCS").is_some() {
        fs::write(repository(name), made).unwrap();
    }
    let written = fs::read_to_string(repository(name)).unwrap_or_default();
    let line = made.lines().zip(written.lines()).find(|(made, written)| made != written);
    assert!(made == written, "{name} is stale: the test with PLIMSOLL_WRITE_DOCS=1 writes it: {line:?}");
}

const HEAD: &str = "# Benchmarks, parameters and metrics

<!-- Generated from the program's tables: PLIMSOLL_WRITE_DOCS=1 cargo test --test integration docs:: -->

A parameter is a flag (`--op fma`), a key of a plan's group (`op = \"fma\"`) and a part of a case's id (`cpu.peak/op=fma/...`). Lists multiply.
`plimsoll cpu --help-all`, and `memory`, `disk` and `network` with the same option, explain each parameter with its values and default.

Names and units are those of the run document ([schema](../../schema/run.v1.json)). The usual headline is bold; for `disk.io` it depends on the
case. In parentheses: unit, and whether higher or lower is better. [method.md](method.md) explains how each figure is measured.
";

fn metric((place, metric): (usize, &Metric)) -> String {
    assert!(!metric.about.is_empty(), "{}", metric.name);
    let judged = match metric.role {
        Role::Judged => metric.better.word(),
        Role::Informative => "informative",
    };
    let name = if place == 0 { format!("**`{}`**", metric.name) } else { format!("`{}`", metric.name) };
    format!("- {name} ({}, {judged}): {}\n", metric.unit.name(), metric.about)
}

fn benchmark(one: &dyn Benchmark) -> String {
    let named = if one.descriptor().by_default { "" } else { " Only if named." };
    let keys = if one.keys().is_empty() { "none".to_owned() } else { format!("`{}`", one.keys().join(" ")) };
    let metrics: String = one.all_metrics().iter().enumerate().map(metric).collect();
    format!("\n## {}\n\n{}.{named} Parameters: {keys}.\n\n{metrics}", one.name(), one.descriptor().about)
}

#[test]
fn the_list_of_metrics_is_that_of_the_benchmarks() {
    let made: String = benchmarks().map(benchmark).collect();
    is_current("docs/src/benchmarks.md", &format!("{HEAD}{made}"));
}

fn described(mut schema: String) -> String {
    for key in KEYS.iter().filter(|key| key.name != SERVER) {
        let lead = format!("        \"{}\": {{\n          \"description\": \"", key.name);
        let group = schema.find("    \"group\": {\n      \"type\": \"object\"").expect("group");
        let start = group + schema[group..].find(&lead).expect(key.name) + lead.len();
        let end = start + schema[start..].find("\",\n").unwrap();
        schema.replace_range(start..end, key.help);
    }
    schema
}

#[test]
fn the_schema_of_plans_describes_each_parameter_as_its_row_does() {
    let name = "schema/plan.v1.json";
    is_current(name, &described(fs::read_to_string(repository(name)).unwrap()));
}

/// The pages of the book and the documents in the repository's root.
pub(crate) fn pages() -> Vec<String> {
    let entries = fs::read_dir(repository(BOOK)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("{BOOK}/{name}")).collect();
    pages.sort();
    pages.extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned));
    pages
}

pub(crate) fn text(page: &str) -> String {
    fs::read_to_string(repository(page)).unwrap()
}

/// Lines, each with the language of the code block that it is in.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut block = None;
    text.lines().filter_map(move |line| {
        let fence = line.trim_start().strip_prefix("```");
        block = block.xor(fence);
        fence.is_none().then_some((block, line))
    })
}

/// Targets of links, without those on the web.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let prose = lines(text).filter(|(block, _)| block.is_none());
    let rest = prose.flat_map(|(_, line)| line.split("](").skip(1));
    rest.filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://"))
}

/// The anchor of a heading, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_between_the_documents_resolves() {
    let mut broken = Vec::new();
    for page in pages() {
        let from = repository(&page);
        for link in links(&text(&page)) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { from.clone() } else { from.parent().unwrap().join(path) };
            let is_heading = |(block, line): (Option<&str>, &str)| {
                block.is_none() && line.starts_with('#') && anchor(line.trim_start_matches('#')) == heading
            };
            let has_heading = || fs::read_to_string(&target).is_ok_and(|text| lines(&text).any(is_heading));
            if !target.exists() || !(heading.is_empty() || has_heading()) {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_summary_lists_each_page_once() {
    let summary = format!("{BOOK}/SUMMARY.md");
    let mut listed: Vec<String> = links(&text(&summary)).map(|link| format!("{BOOK}/{link}")).collect();
    listed.sort();
    let is_page = |page: &String| page.starts_with(BOOK) && *page != summary;
    assert_eq!(listed, pages().into_iter().filter(is_page).collect::<Vec<_>>());
}

/// Commands with placeholders are not carried out: only their options and values are parsed.
#[test]
fn every_command_line_parses() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = text(&page);
        let code = lines(&text).filter(|(block, _)| block.is_some()).map(|(_, line)| line.trim());
        for line in code.filter(|line| line.starts_with("plimsoll ")) {
            let ends = [" | ", " > ", " && ", " #", "  "];
            let command = ends.iter().fold(line, |line, end| line.split(end).next().unwrap());
            let mut words = words(command);
            // Words after `--` belong to another program.
            let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.insert(end, "--help".to_owned());
            let parsed = plimsoll::app::command().try_get_matches_from(words);
            let why = parsed.err().filter(|why| why.kind() != clap::error::ErrorKind::DisplayHelp);
            wrong.extend(why.map(|why| format!("{page}: {line}\n  {why}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
