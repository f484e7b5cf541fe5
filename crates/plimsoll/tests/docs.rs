//! Generates the tables of parameters and metrics in docs, and the parameters of the plan's schema,
//! from `KEYS` and the benchmarks. The tests fail if a file is stale; `PLIMSOLL_WRITE_DOCS=1`
//! writes it.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_bench::{Benchmark, Metric, Role, benchmarks};
use plimsoll_model::case::{KEYS, Key, ValueKind};
use plimsoll_model::plan::file::SERVER;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Compares the text with the file, or writes the file on request.
#[track_caller]
pub(crate) fn is_current(name: &str, made: &str) {
    if std::env::var_os("PLIMSOLL_WRITE_DOCS").is_some() {
        fs::write(file(name), made).unwrap();
    }
    let written = fs::read_to_string(file(name)).unwrap_or_default();
    let line = made.lines().zip(written.lines()).find(|(made, written)| made != written);
    assert!(
        made == written,
        "{name} is stale: the same test with PLIMSOLL_WRITE_DOCS=1 writes it; first: {line:?}"
    );
}

const HEAD: &str = "# Benchmarks, parameters and metrics

<!-- Generated from the program's tables: PLIMSOLL_WRITE_DOCS=1 cargo test --test integration docs:: -->

[method.md](method.md) explains how each figure is measured and where its limit comes from. Names and units are those of the run document
([schema](../../schema/run.v1.json)). `plimsoll cpu --help-all` shows the parameters of one command.

## Parameters

A parameter is a flag (`--op fma`), a key of a plan's group (`op = \"fma\"`) and a part of a case's id (`cpu.peak/op=fma/...`). Lists multiply.

";

fn value(key: &Key) -> &'static str {
    match key.kind {
        ValueKind::Size => "bytes: `4K`",
        ValueKind::Sizes => "bytes: `4K`, or a mix",
        ValueKind::Count => "number",
        ValueKind::Time => "time: `200ms`",
        ValueKind::Rate => "per second: `100M`",
        ValueKind::Word => "word",
        ValueKind::Switch => "`on`, `off`",
    }
}

fn parameter(key: &Key) -> String {
    format!("| `{}` | {} | {} |\n", key.name, value(key), key.help)
}

fn metric((place, metric): (usize, &Metric)) -> String {
    let judged = match metric.role {
        Role::Judged => metric.better.word(),
        Role::Informative => "informative",
    };
    let name = if place == 0 { format!("**`{}`**", metric.name) } else { format!("`{}`", metric.name) };
    format!("- {name} ({}, {judged}): {}\n", metric.unit.name(), metric.about)
}

fn benchmark(one: &dyn Benchmark) -> String {
    let named = if one.descriptor().by_default { "" } else { " Only if it is named." };
    let keys: Vec<String> = one.keys().iter().map(|key| format!("`{key}`")).collect();
    let keys = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
    let metrics: String = one.all_metrics().iter().enumerate().map(metric).collect();
    format!(
        "\n### {}\n\n{}.{named} Parameters: {keys}.\n\n{metrics}",
        one.name(),
        one.descriptor().about
    )
}

#[test]
fn the_tables_of_parameters_and_metrics_are_what_the_benchmarks_say() {
    let parameters: String = KEYS.iter().map(parameter).collect();
    let benchmarks: String = benchmarks().map(benchmark).collect();
    let made = format!(
        "{HEAD}| parameter | value | meaning |\n| --- | --- | --- |\n{parameters}\n## Metrics\n\nThe usual headline is bold. \
         For `disk.io` it depends on the case. In parentheses: unit, and whether higher or lower is better.\n{benchmarks}"
    );
    is_current("docs/src/benchmarks.md", &made);
}

#[test]
fn every_metric_says_what_it_is() {
    for benchmark in benchmarks() {
        for metric in benchmark.all_metrics() {
            assert!(!metric.about.is_empty(), "{} {}", benchmark.name(), metric.name);
        }
    }
}

fn described(mut schema: String) -> String {
    for key in KEYS.iter().filter(|key| key.name != SERVER) {
        let lead = format!("        \"{}\": {{\n          \"description\": \"", key.name);
        let group = schema.find("    \"group\": {\n      \"type\": \"object\"").expect("group");
        let start =
            group + schema[group..].find(&lead).unwrap_or_else(|| panic!("{}", key.name)) + lead.len();
        let end = start + schema[start..].find("\",\n").unwrap();
        schema.replace_range(start..end, key.help);
    }
    schema
}

#[test]
fn the_schema_of_plans_describes_each_parameter_as_its_row_does() {
    let name = "schema/plan.v1.json";
    is_current(name, &described(fs::read_to_string(file(name)).unwrap()));
}
