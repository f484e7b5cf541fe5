//! Compares docs/src/reports.md (each published table and figure, with its counterpart in plimsoll)
//! with the data. `PLIMSOLL_WRITE_DOCS=1 cargo test places::` writes the file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use plimsoll_command::cli::{Common, Measurable};
use plimsoll_command::resolve;
use plimsoll_machine::fixture::Fixture;
use plimsoll_model::case::Case;
use plimsoll_model::measurement::{Measurement, SamplePoint};
use plimsoll_published::tables::{PublishedTable, TableKind};
use plimsoll_published::{OpenPoint, PublishedReport, find, names};
use plimsoll_result::document::Run;
use plimsoll_result::fixture;

use crate::report::html;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/reports.md");

/// A run of the report's plan with results for each case.
fn replay(name: &str) -> Run {
    let plan = resolve::plan(&Measurable::Plan(name.to_owned()), &Common::default()).unwrap();
    let machine = Fixture::open("firecracker-zen4").unwrap().machine();
    let measured = |case: Case| -> Measurement {
        let metrics = plimsoll_bench::find(case.benchmark()).unwrap().metrics(&case);
        let mut made = fixture::measured(case.id().as_str(), "none", metrics[0].unit, 1.0);
        let metric =
            |metric: &plimsoll_bench::Metric| fixture::metric_of(metric.name, metric.unit, vec![1.0, 1.1]);
        made.metrics = metrics.iter().map(metric).collect();
        let point = |i: u32| SamplePoint { t: f64::from(i), ..SamplePoint::default() };
        made.metrics[0].series = (0..40).map(point).collect();
        made.metrics[0].samples = vec![1.0; 40];
        made
    };
    let measurements = resolve::planned(&plan, &machine)
        .unwrap()
        .into_iter()
        .map(|planned| measured(planned.candidate.case))
        .collect();
    let mut run = Run { measurements, ..fixture::run() };
    run.plan.name = name.to_owned();
    run.plan.text = plimsoll_model::plan::built_in::find(name).unwrap().text.to_owned();
    run
}

/// Benchmarks that measure a table, or why none does.
fn measured_by(table: &PublishedTable<'_>) -> String {
    let matched = table.figures().filter_map(|figure| figure.matched.as_ref());
    let benchmarks: BTreeSet<String> =
        matched.map(|matched| format!("`{}` {}", matched.case.benchmark(), matched.metric)).collect();
    let unmatched: BTreeSet<&str> = table
        .figures()
        .filter(|figure| figure.matched.is_none() && !figure.unmatched.is_empty())
        .map(|figure| figure.unmatched)
        .collect();
    let by: Vec<String> = benchmarks.into_iter().collect();
    let alone: BTreeSet<&str> = table
        .figures()
        .filter(|figure| figure.matched.is_some() && !figure.unmatched.is_empty())
        .map(|figure| figure.unmatched)
        .collect();
    let why: Vec<&str> = unmatched.into_iter().collect();
    match (table.kind, by.is_empty(), why.is_empty()) {
        (TableKind::Text, ..) => "the point with that number, else the best of those it is about".to_owned(),
        (_, true, _) => format!("published numbers alone: {}", why.join("; ")),
        (_, false, true) if !alone.is_empty() => {
            let why: Vec<&str> = alone.into_iter().collect();
            format!("{}; without a ratio: {}", by.join(", "), why.join("; "))
        }
        (_, false, true) => by.join(", "),
        (_, false, false) => format!("{}; without a figure of today: {}", by.join(", "), why.join("; ")),
    }
}

fn kind(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Own => "own measurements",
        TableKind::Program => "reference program",
        TableKind::Text => "text",
    }
}

fn section(baseline: &PublishedReport) -> String {
    let mut text = format!("\n## {}\n\n", baseline.name);
    let tables = plimsoll_published::tables::of(baseline);
    let figures = html::titles_of_figures(&replay(baseline.name));
    let numbers = baseline.figures.len();
    writeln!(
        text,
        "{}, {}: {numbers} numbers in {} tables, {} figures.\n",
        baseline.machine,
        baseline.year,
        tables.len(),
        figures.of_tables.len() + figures.series.len()
    )
    .unwrap();
    text +=
        "| table | title | rows × columns | holds | measured today by |\n| ---: | --- | --- | --- | --- |\n";
    for table in &tables {
        let (rows, columns) = (table.rows.len(), table.columns.len());
        let (number, title) = (table.number, &table.title);
        let by = measured_by(table);
        writeln!(text, "| {number} | {title} | {rows} × {columns} | {} | {by} |", kind(table.kind)).unwrap();
    }
    text += "\n| figure | under table | title of the chart |\n| ---: | ---: | --- |\n";
    let numbered = figures.of_tables.iter().map(|(table, title)| (table.to_string(), title));
    let series = figures.series.iter().map(|title| ("after the tables".to_owned(), title));
    for (at, (table, title)) in numbered.chain(series).enumerate() {
        writeln!(text, "| {} | {table} | {title} |", at + 1).unwrap();
    }
    writeln!(text, "\nFolded, by operation and metric: {}.", figures.by_operation.join("; ")).unwrap();
    text
}

fn all() -> String {
    let reports: Vec<PublishedReport> = names().into_iter().filter_map(find).collect();
    let titles: Vec<html::Titles> =
        reports.iter().map(|report| html::titles_of_figures(&replay(report.name))).collect();
    let kinds: Vec<TableKind> = reports
        .iter()
        .flat_map(|report| {
            plimsoll_published::tables::of(report).into_iter().map(|table| table.kind).collect::<Vec<_>>()
        })
        .collect();
    let of_kind = |wanted: TableKind| kinds.iter().filter(|kind| **kind == wanted).count();
    let numbers: usize = reports.iter().map(|report| report.figures.len()).sum();
    let text: String = reports.iter().map(section).collect();
    let count = |of: fn(&html::Titles) -> usize| titles.iter().map(of).sum::<usize>();
    let series = count(|titles| titles.series.len());
    // Longer words first: TABLES is the end of OWN_TABLES.
    let head = [
        ("OWN_TABLES", of_kind(TableKind::Own)),
        ("TABLES", kinds.len()),
        ("FIGURES", count(|titles| titles.of_tables.len()) + series),
        ("NUMBERS", numbers),
        ("TEXTS", of_kind(TableKind::Text)),
        ("PROGRAMS", of_kind(TableKind::Program)),
        ("SERIES", series),
        ("SPLIT", count(|titles| titles.by_operation.len())),
    ];
    let head =
        head.iter().fold(HEAD.to_owned(), |text, (word, count)| text.replace(word, &count.to_string()));
    let list: String = titles[0].together.iter().map(|title| format!("- {title}\n")).collect();
    format!(
        "{head}{text}\n## All five together\n\nFolded at the end of the page of each replay, under \"The published reports together\":\n\n{list}{REST}{}",
        open_points(&reports)
    )
}

/// A row per open point; those of all reports once.
fn open_points(reports: &[PublishedReport]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut rows = String::new();
    for report in reports {
        for OpenPoint { open, command, gives, document, heading } in report.open_points() {
            let of: Vec<&str> = reports
                .iter()
                .filter(|other| other.open_points().iter().any(|point| point.open == open))
                .map(|other| other.name)
                .collect();
            if seen.contains(&open) {
                continue;
            }
            seen.push(open);
            let of = if of.len() == reports.len() { "all".to_owned() } else { of.join(", ") };
            let command = if command.is_empty() { String::new() } else { format!("`plimsoll {command}`") };
            let place = if document.is_empty() {
                String::new()
            } else {
                format!("[{document}]({document}), {heading}")
            };
            writeln!(rows, "| {of} | {open} | {command} | {gives} | {place} |").unwrap();
        }
    }
    rows
}

const HEAD: &str = "# The published reports: where each table and figure is

<!-- Made from the data of the reports by a test (PLIMSOLL_WRITE_DOCS=1 cargo test places::), which fails where this is stale. -->

plimsoll has the numbers of five published reports, NUMBERS in all, and a plan that measures what each of them measured:

```sh
plimsoll run ec2-t2micro                             # or --scale 0.001: minutes, not days
plimsoll report last --tables published --html t.html  # the same page again
plimsoll report last --tables published              # the tables in the terminal; --format csv, markdown, html
plimsoll report RUN RUN --tables published           # CPU from one machine, disk from another
```

The run ends with one page, which its last lines name: a list of contents, the machine, then for each table of the report, in the
report's order, the table with today's figures, the formulas of both limits, and under it its figure; then an evaluation in words,
each sentence with its tables, and the findings. All other charts of the run are folded at the end. The table with number *n* below is
\"Table *n*\" there. A number or figure that cannot be filled has the reason in its place.

## How the lists are made

The data have every number of the reports in the order in which it is printed, left to right and top to bottom, and what is said
about each: operation, pattern, block, threads, metric, statistic, source. They have neither numbers nor captions of tables or
figures, and nothing of figures but what they show. So the lists are derived:

- What changes with every number is a column of its table, what changes next is a row, and what is outside both is a table of
  its own. Where notes on a report say more (which numbers share a heading), the table follows them. Words for rows and columns
  are the report's own where the data have them; titles say what a table holds.
- The output of a reference program (LINPACK, STREAM, IOzone, iperf) is a table of its own, and the numbers of the running text
  are one at the end.
- Each table has one chart of each of its metrics, with all of its rows and columns and at most eight series: today, the reference tool
  and the limit of today, and what is published of each. Where the table prints efficiencies, a second chart has them; that of a
  latency is limit ÷ measured, as in the table. The plan's series in time follow the tables of their part of the machine.
- Besides, folded, a chart for each operation and metric over blocks and threads.

That gives TABLES tables and FIGURES figures, where the reports have 76 tables and 79 figures, and SPLIT folded charts. Of the tables, TEXTS
have the numbers of the running text, which have no chart of their own, PROGRAMS the output of reference programs and OWN_TABLES
the reports' own measurements; SERIES figures are series in time. Which numbers share a caption is not in the data: one of theirs may
be two of these, or two of theirs one. No number is left out: a test checks that every number is in exactly one table and is printed in
every format, and that every operation and metric is drawn. Another test finds each item of `crates/plimsoll/tests/items.tsv` (tables, figures,
theories, efficiencies, reference tools, features and open points) where its row puts it.
";

const REST: &str = "
## What is not measured again

Such numbers are printed in their tables, with the reason. They are lines of iperf3 after the end of its transfer, and STREAM on a
machine that the report is not about. IOzone's table has lost its record sizes and unit: its operations are
measured again, each with IOzone's own figure of the same pass, but not divided.

## What the reports leave open

The data have no list of what the authors left to later work. These points follow from what the reports do not print or measure, and stand
at the end of the evaluation of each replay.

| report | open | plimsoll | gives | explained in |
| --- | --- | --- | --- | --- |
";

#[test]
fn the_list_of_tables_and_figures_is_what_the_data_say() {
    // Some titles contain this processor's best instruction set.
    let best = plimsoll_metal::isa::Isa::best();
    let made = all().replace(&format!(" {best} ×"), " ×");
    if std::env::var_os("PLIMSOLL_WRITE_DOCS").is_some() {
        std::fs::write(FILE, &made).unwrap();
    }
    let written = std::fs::read_to_string(Path::new(FILE)).unwrap_or_default();
    let line = made.lines().zip(written.lines()).find(|(made, written)| made != written);
    assert!(
        made == written,
        "docs/src/reports.md is stale, PLIMSOLL_WRITE_DOCS=1 cargo test places:: writes it; first: {line:?}"
    );
}

#[test]
fn every_figure_of_a_report_is_drawn_by_its_replay() {
    for name in names() {
        let html::Titles { by_operation: figures, together, .. } = html::titles_of_figures(&replay(name));
        let baseline = find(name).unwrap();
        let kinds: BTreeSet<[&str; 4]> = baseline
            .figures
            .iter()
            .filter(|figure| figure.is_own_point() && !figure.is_of_text())
            .map(|figure| [figure.subsystem, figure.metric, figure.operation, figure.pattern])
            .collect();
        assert!(figures.len() >= kinds.len(), "{name}: {figures:?}");
        assert!(!together.is_empty(), "{name}");
        for [_, metric, operation, _] in kinds {
            let is_it = |title: &&String| title.contains(metric) && title.contains(operation);
            assert!(figures.iter().any(|title| is_it(&title)), "{name}: {metric} {operation}: {figures:?}");
        }
    }
}
