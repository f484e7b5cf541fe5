//! The report as one self-contained HTML file. Charts are JSON data (`data::Chart`) drawn by Apache
//! ECharts and the script in `assets`; a Content-Security-Policy allows only these, by hash.

mod alike;
mod charts;
mod compare;
mod data;
mod gauge;
mod machines;
mod main_figures;
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
pub(super) mod tests;

pub use compare::comparison;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_result::document::Run;
use plimsoll_units::text::format_count;
use sha2::{Digest, Sha256};

use crate::report::context::host_or_count;
use crate::report::published::{FilledReport, replays, with_tables};

/// A result from outside this run, shown for comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceFigure {
    /// Origin.
    pub kind: ReferenceKind,
    /// Name of the published report or the earlier run.
    pub name: String,
    /// Case id.
    pub case: String,
    /// Metric name.
    pub metric: String,
    /// Value, in the metric's unit.
    pub value: f64,
}

/// Origin of a [`ReferenceFigure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// Last run on this machine.
    LastRun,
    /// Published report.
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

impl ReferenceFigure {
    fn is_published_of(&self, case: &str, metric: &str) -> bool {
        self.kind == ReferenceKind::Published && self.case == case && self.metric == metric
    }
}

/// Returns the headline of each case of an earlier run, for marks in the page of a newer run.
pub fn last_run(run: &Run) -> Vec<ReferenceFigure> {
    let started = run.started.get(..16).unwrap_or(&run.started).replace('T', " ");
    let is_disturbed = run.measurements.iter().any(|m| m.delivered().is_some());
    let name = format!("last run ({started}{})", if is_disturbed { ", interrupted" } else { "" });
    let of = |m: &Measurement| {
        let metric = m.metrics.first().filter(|_| m.status == Status::Ok)?;
        Some(ReferenceFigure {
            kind: ReferenceKind::LastRun,
            name: name.clone(),
            case: m.case.id().as_str().to_owned(),
            metric: metric.name.clone(),
            value: metric.summary.median,
        })
    };
    run.measurements.iter().filter_map(of).collect()
}

/// Returns the published results of the run's cases; empty unless the run replays a report.
fn published(run: &Run) -> Vec<ReferenceFigure> {
    let Some(report) = plimsoll_published::find(&run.plan.name) else { return Vec::new() };
    let metrics = run.measurements.iter().flat_map(|m| m.metrics.iter().map(move |metric| (m, metric)));
    let mark = |(m, metric): (&Measurement, &MetricResult)| {
        Some(ReferenceFigure {
            kind: ReferenceKind::Published,
            name: report.title(),
            case: m.case.id().as_str().to_owned(),
            metric: metric.name.clone(),
            value: report.own_figure(&m.case, &metric.name)?.believed()?,
        })
    };
    metrics.filter_map(mark).collect()
}

/// Apache ECharts 6.1.0, unchanged (`vendor/`, with licence and notices).
const LIBRARY: &str = include_str!("vendor/echarts.min.js");

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

/// Additional data for the page of a run.
#[derive(Clone, Debug, Default)]
pub struct PageExtras {
    /// Results for marks on gauges and in charts; published ones are added per run.
    pub references: Vec<ReferenceFigure>,
}

/// Builds the page of these runs: replayed reports first, then each other run. Fails if a number
/// cannot be represented in JSON.
pub fn page(runs: &[Run], extras: &PageExtras) -> Result<String, serde_json::Error> {
    Ok(document(&made(runs, extras)?, &title(runs)))
}

/// Builds the page of these reports, with the runs that fill their tables. Fails if a number cannot
/// be represented in JSON.
pub(super) fn replayed(reports: &[FilledReport<'_>]) -> Result<String, serde_json::Error> {
    let runs: Vec<Run> =
        reports.iter().flat_map(|report| &report.runs.runs).map(|run| (*run).clone()).collect();
    Ok(document(&made_of(reports, &[], &runs, &PageExtras::default())?, &title(&runs)))
}

struct PageParts {
    bodies: Vec<Markup>,
    island: String,
    held: Markup,
}

fn made(runs: &[Run], extras: &PageExtras) -> Result<PageParts, serde_json::Error> {
    let replays = replays(runs);
    let others: Vec<&Run> =
        runs.iter().filter(|run| plimsoll_published::find(&run.plan.name).is_none()).collect();
    with_tables(&replays, |reports| made_of(reports, &others, runs, extras))
}

/// Builds the page's sections: the reports, then the `others`. `runs` are the runs of both.
fn made_of(
    reports: &[FilledReport<'_>],
    others: &[&Run],
    runs: &[Run],
    extras: &PageExtras,
) -> Result<PageParts, serde_json::Error> {
    let mut charts = Vec::new();
    let mut bodies = Vec::new();
    let mut count = 0;
    let mut body = |run: &Run, charts: &mut Vec<data::Chart>| {
        let references: Vec<_> = extras.references.iter().cloned().chain(published(run)).collect();
        let mut body = page::body(run, &references, count);
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
        let (body, drawn) = reports::document(report, index, &folded);
        charts.extend(drawn);
        bodies.push(body);
    }
    bodies.extend(others.iter().map(|run| body(run, &mut charts).whole()));
    charts.extend(together);
    let island = data::island(&charts)?;
    let machines = machines::section(&machines::named(runs), &runs.iter().collect::<Vec<_>>())?;
    match runs.len() {
        0 | 1 => {
            bodies.push(html! { main { (machines.section) } });
            if reports.is_empty() {
                let text = "Compare: drop files of other runs anywhere on this page";
                bodies.insert(0, html! { nav { a href="#compare" { (text) } } });
            }
        }
        many => {
            let title = format_count(many, "run");
            bodies.insert(0, html! { header { h1 { (title) } } main { (machines.section) } });
        }
    }
    Ok(PageParts { bodies, island, held: machines.held })
}

fn title(runs: &[Run]) -> String {
    let host = runs.first().and_then(host_or_count).unwrap_or_else(|| "this machine".to_owned());
    format!("plimsoll: {}", plimsoll_units::text::shown_within(&host, 80))
}

fn script() -> String {
    format!("(() => {{\n\"use strict\";\n{}\n}})();\n", SCRIPT.join("\n"))
}

fn hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script.as_bytes())))
}

fn document(made: &PageParts, title: &str) -> String {
    let script = script();
    let sources = format!("{} {}", hash(LIBRARY), hash(&script));
    let scripts = html! {
        script { (PreEscaped(LIBRARY)) }
        script { (PreEscaped(&script)) }
    };
    with_scripts(made, title, &sources, &scripts).into_string()
}

/// Builds the page of `made` with `scripts`. The page's policy allows only scripts from `sources`,
/// such as `'sha256-…'`.
fn with_scripts(made: &PageParts, title: &str, sources: &str, scripts: &Markup) -> Markup {
    let policy = format!(
        "default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    );
    let body = html! {
        @for body in &made.bodies { (plain::visible(body)) }
        noscript { p.remark { "The charts below need JavaScript; all figures are in the tables." } }
        script type="application/json" id="charts" { (PreEscaped(&made.island)) }
        (scripts)
        (made.held)
    };
    plain::document(title, &policy, "", &body)
}
