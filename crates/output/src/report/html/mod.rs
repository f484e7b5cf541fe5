//! The report as one HTML file that opens anywhere: no network, no other file.
//!
//! Text, tables and the first picture are made here, by templates that escape all that they are given; the charts are
//! data (`data::Chart`) in one island of JSON, drawn by Apache ECharts and the script in `assets`. A
//! Content-Security-Policy with the hashes of exactly these two scripts forbids everything else.

mod alike;
mod charts;
mod compare;
mod data;
mod gauge;
mod machines;
mod nodes;
mod page;
mod parts;
pub(super) mod plain;
mod reports;
mod roofline;
mod single;
pub mod site;
mod stated;
#[cfg(test)]
mod tests;

pub use compare::comparison;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::Run;
use plimsoll_units::text::counted;
use sha2::{Digest, Sha256};

use crate::report::context::of_whom;
use crate::report::published::{Report, replays, with_tables};

/// A figure that was not measured in this run.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Whose it is.
    pub kind: ReferenceKind,
    /// Its name: of the table, or of the run.
    pub name: String,
    /// Id of the case.
    pub case: String,
    /// The metric.
    pub metric: String,
    /// In the metric's unit.
    pub value: f64,
}

/// Whose a reference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// The run before, on this machine.
    LastRun,
    /// A published table.
    Published,
}

impl ReferenceKind {
    fn class(self) -> &'static str {
        match self {
            Self::LastRun => "before",
            Self::Published => "published",
        }
    }
}

impl Reference {
    fn is_published_of(&self, case: &str, metric: &str) -> bool {
        self.kind == ReferenceKind::Published && self.case == case && self.metric == metric
    }
}

/// The headlines of an earlier run, as marks.
pub fn last_run(run: &Run) -> Vec<Reference> {
    let name = format!("last run ({})", run.started.get(..16).unwrap_or(&run.started).replace('T', " "));
    let of = |m: &Measurement| {
        let metric = m.metrics.first().filter(|_| m.status == Status::Ok)?;
        Some(Reference {
            kind: ReferenceKind::LastRun,
            name: name.clone(),
            case: m.case.id().as_str().to_owned(),
            metric: metric.name.clone(),
            value: metric.summary.median,
        })
    };
    run.measurements.iter().filter_map(of).collect()
}

/// The published figures of the run's cases, as marks, for each metric; none unless the run replays a report.
fn published(run: &Run) -> Vec<Reference> {
    let Some(report) = plimsoll_published::find(&run.plan.name) else { return Vec::new() };
    let mark = |m: &Measurement, metric: &str| {
        Some(Reference {
            kind: ReferenceKind::Published,
            name: report.title(),
            case: m.case.id().as_str().to_owned(),
            metric: metric.to_owned(),
            value: report.of(&m.case, metric)?.believed()?,
        })
    };
    let of = |m: &Measurement| -> Vec<Reference> {
        m.metrics.iter().filter_map(|metric| mark(m, &metric.name)).collect()
    };
    run.measurements.iter().flat_map(of).collect()
}

/// The titles of the charts of the page of a run that replays a report.
#[cfg(test)]
pub(super) struct Titles {
    /// Each with the number of the table that it is under.
    pub(super) of_tables: Vec<(usize, String)>,
    /// Series in time, which follow the tables of their part of the machine.
    pub(super) series: Vec<String>,
    /// Folded: one for each operation and metric.
    pub(super) by_operation: Vec<String>,
    /// Folded: all reports in one.
    pub(super) together: Vec<String>,
}

#[cfg(test)]
pub(super) fn titles_of_figures(run: &Run) -> Titles {
    let of_tables = with_tables(&replays(std::slice::from_ref(run)), |reports| {
        let filled = reports[0].filled();
        let titled = filled.iter().flat_map(|table| {
            let drawn = reports::charts(reports[0].baseline, table);
            drawn.into_iter().map(|one| (table.table.number, one.title().to_owned()))
        });
        titled.collect()
    });
    let titles =
        |charts: &mut dyn Iterator<Item = &data::Chart>| charts.map(|chart| chart.title.clone()).collect();
    let replay = reports::of(run).unwrap();
    let together = reports::together(std::slice::from_ref(run));
    Titles {
        of_tables,
        series: reports::series(run).iter().map(|(_, drawn)| drawn.title().to_owned()).collect(),
        by_operation: titles(&mut replay.parts.iter().flat_map(|part| &part.charts)),
        together: titles(&mut together.iter()),
    }
}

/// Apache ECharts 6.1.0, unchanged (`vendor/`, with its licence and notices).
const LIBRARY: &str = include_str!("vendor/echarts.min.js");

/// Our own, in the order in which it is put together; each file is a part of one function body.
const SCRIPT: &[&str] = &[
    include_str!("assets/units.js"),
    include_str!("assets/options.js"),
    include_str!("assets/figure.js"),
    include_str!("assets/main.js"),
    include_str!("assets/check.js"),
    include_str!("assets/machines.js"),
    include_str!("assets/compare.js"),
];

const STYLE: &str = include_str!("assets/report.css");

/// What the page shows beside a run.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Figures for the marks on the load lines and in the charts; published ones are added for each run.
    pub references: Vec<Reference>,
}

impl Beside {
    /// With the published figures of the run's cases.
    fn with_published(&self, run: &Run) -> Self {
        Self { references: self.references.iter().cloned().chain(published(run)).collect() }
    }
}

/// The page of these runs: a document for each published report that is replayed, then a page for each further run.
///
/// # Errors
/// A figure that JSON cannot hold.
pub fn page(runs: &[Run], beside: &Beside) -> Result<String, serde_json::Error> {
    let made = made(runs, beside)?;
    Ok(document(&made.bodies, &made.island, &made.held, &title(runs)))
}

/// The page of these reports, with the runs that fill their tables.
///
/// # Errors
/// A figure that JSON cannot hold.
pub(super) fn replayed(reports: &[Report<'_>]) -> Result<String, serde_json::Error> {
    let runs: Vec<Run> =
        reports.iter().flat_map(|report| &report.runs.runs).map(|run| (*run).clone()).collect();
    let made = made_of(reports, &[], &runs, &Beside::default())?;
    Ok(document(&made.bodies, &made.island, &made.held, &title(&runs)))
}

/// What a page consists of besides its scripts.
struct Made {
    bodies: Vec<Markup>,
    /// The data of its charts.
    island: String,
    /// The run documents that it holds.
    held: Markup,
}

fn made(runs: &[Run], beside: &Beside) -> Result<Made, serde_json::Error> {
    let replays = replays(runs);
    let others: Vec<&Run> =
        runs.iter().filter(|run| plimsoll_published::find(&run.plan.name).is_none()).collect();
    with_tables(&replays, |reports| made_of(reports, &others, runs, beside))
}

/// The documents of these reports, then the pages of the other runs; `runs` are all of both.
fn made_of(
    reports: &[Report<'_>],
    others: &[&Run],
    runs: &[Run],
    beside: &Beside,
) -> Result<Made, serde_json::Error> {
    let mut charts = Vec::new();
    let mut bodies = Vec::new();
    let mut count = 0;
    let mut body = |run: &Run, charts: &mut Vec<data::Chart>| {
        let mut body = page::body(run, &beside.with_published(run), count);
        charts.append(&mut body.charts);
        count += 1;
        body
    };
    let together = reports::together(&runs.iter().map(nodes::first).collect::<Vec<_>>());
    for (index, report) in reports.iter().enumerate() {
        let rests: Vec<Markup> = report.runs.runs.iter().map(|run| body(run, &mut charts).rest).collect();
        let folded = html! {
            @for rest in &rests { (rest) }
            @if index == 0 { (page::together(&together)) }
        };
        let made = reports::document(report, index, &folded);
        charts.extend(made.charts);
        bodies.push(made.body);
    }
    bodies.extend(others.iter().map(|run| body(run, &mut charts).whole()));
    charts.extend(together);
    let island = data::island(&charts)?;
    let machines = machines::section(&machines::named(runs), &runs.iter().collect::<Vec<_>>())?;
    // Several runs are compared before one of them is read.
    match runs.len() {
        0 | 1 => bodies.push(html! { main { (machines.section) } }),
        many => {
            bodies.insert(0, html! { header { h1 { (counted(many, "run")) } } main { (machines.section) } })
        }
    }
    Ok(Made { bodies, island, held: machines.held })
}

fn title(runs: &[Run]) -> String {
    let host = runs.first().and_then(of_whom).unwrap_or_else(|| "this machine".to_owned());
    format!("plimsoll: {}", plimsoll_units::text::shown_within(&host, 80))
}

/// Our script as one function, so that nothing of it is global.
fn script() -> String {
    format!("(() => {{\n\"use strict\";\n{}\n}})();\n", SCRIPT.join("\n"))
}

fn hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script.as_bytes())))
}

/// Writes the lines that come before the figures of a comparison.
fn what_differs(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            section.findings aria-label="What else differs" { ul { @for line in lines { li { (line) } } } }
        }
    }
}

/// The page: what is to be read, the data of its charts, and the run documents that it holds.
fn document(bodies: &[Markup], island: &str, held: &Markup, title: &str) -> String {
    let script = script();
    let sources = format!("{} {}", hash(LIBRARY), hash(&script));
    let scripts = html! {
        script { (PreEscaped(LIBRARY)) }
        script { (PreEscaped(&script)) }
        (held)
    };
    with_scripts(bodies, island, title, &sources, &scripts).into_string()
}

/// A page whose scripts these are; the policy lets nothing but its `sources` run.
fn with_scripts(bodies: &[Markup], island: &str, title: &str, sources: &str, scripts: &Markup) -> Markup {
    let policy = format!(
        "default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    );
    let body = html! {
        @for body in bodies { (plain::visible(body)) }
        noscript { p.remark { "The charts below need JavaScript; all figures are in the tables." } }
        script type="application/json" id="charts" { (PreEscaped(island)) }
        (scripts)
    };
    plain::document(title, &policy, "", &body)
}
