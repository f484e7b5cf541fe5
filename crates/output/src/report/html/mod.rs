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
use crate::report::published::{FilledReport, ReplayedReport, filled_reports, replays};

/// A result from outside this run, shown for comparison as a mark on gauges and in charts.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceFigure {
    /// CSS class of its mark: [`LAST_RUN`] or [`PUBLISHED`].
    class: &'static str,
    /// Name of the published report or the earlier run.
    name: String,
    case: String,
    metric: String,
    /// Value, in the metric's unit.
    value: f64,
}

const LAST_RUN: &str = "before";
const PUBLISHED: &str = "published";

impl ReferenceFigure {
    fn new(class: &'static str, name: &str, of: &Measurement, metric: &MetricResult, value: f64) -> Self {
        let (case, metric) = (of.case.id().as_str().to_owned(), metric.name.clone());
        Self { class, name: name.to_owned(), case, metric, value }
    }

    fn is_of(&self, measurement: &Measurement, metric: &MetricResult) -> bool {
        self.case == measurement.case.id().as_str() && self.metric == metric.name
    }
}

/// Returns the headline of each case of an earlier run, for marks in the page of a newer run.
pub fn last_run(run: &Run) -> Vec<ReferenceFigure> {
    let started = run.started.get(..16).unwrap_or(&run.started).replace('T', " ");
    let is_disturbed = run.measurements.iter().any(|m| m.delivered().is_some());
    let name = format!("last run ({started}{})", if is_disturbed { ", interrupted" } else { "" });
    let of = |m: &Measurement| {
        let metric = m.metrics.first().filter(|_| m.status == Status::Ok)?;
        Some(ReferenceFigure::new(LAST_RUN, &name, m, metric, metric.summary.median))
    };
    run.measurements.iter().filter_map(of).collect()
}

/// Returns the published results of the run's cases; empty unless the run replays a report.
fn published(run: &Run) -> Vec<ReferenceFigure> {
    let Some(report) = plimsoll_published::find(&run.plan.name) else { return Vec::new() };
    let metrics = run.measurements.iter().flat_map(|m| m.metrics.iter().map(move |metric| (m, metric)));
    let mark = |(m, metric): (&Measurement, &MetricResult)| {
        let value = report.own_figure(&m.case, &metric.name)?.believed()?;
        Some(ReferenceFigure::new(PUBLISHED, &report.title(), m, metric, value))
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

/// Builds the page of these runs: replayed reports first, then each other run. `references` are
/// drawn as marks; published results are added per run. Fails if JSON cannot represent a number.
pub fn page(runs: &[Run], references: &[ReferenceFigure]) -> Result<String, serde_json::Error> {
    Ok(document(&made(runs, references)?, &title(runs)))
}

/// Builds the page of `reports` and the runs in them. Fails if JSON cannot represent a number.
pub(super) fn replayed(reports: &[ReplayedReport<'_>]) -> Result<String, serde_json::Error> {
    let reports = filled_reports(reports);
    let runs: Vec<Run> =
        reports.iter().flat_map(|report| &report.runs.runs).map(|run| (*run).clone()).collect();
    Ok(document(&made_of(&reports, &runs, &[])?, &title(&runs)))
}

struct PageParts {
    bodies: Vec<Markup>,
    island: String,
    held: Markup,
}

fn made(runs: &[Run], references: &[ReferenceFigure]) -> Result<PageParts, serde_json::Error> {
    made_of(&filled_reports(&replays(runs)), runs, references)
}

/// Builds the page's sections: `reports`, then `runs` that replay none; `references` are marks.
fn made_of(
    reports: &[FilledReport<'_>],
    runs: &[Run],
    references: &[ReferenceFigure],
) -> Result<PageParts, serde_json::Error> {
    let mut charts = Vec::new();
    let mut bodies = Vec::new();
    let mut count = 0;
    let mut body = |run: &Run, charts: &mut Vec<data::Chart>| {
        let references: Vec<_> = references.iter().cloned().chain(published(run)).collect();
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
            @if index == 0 && !together.is_empty() { (page::section("The published reports together", &together, &html! {})) }
        };
        let (body, drawn) = reports::document(report, index, &folded);
        charts.extend(drawn);
        bodies.push(body);
    }
    let others = runs.iter().filter(|run| plimsoll_published::find(&run.plan.name).is_none());
    bodies.extend(others.map(|run| body(run, &mut charts).whole()));
    charts.extend(together);
    let island = data::island(&charts)?;
    let named: Vec<machines::NamedRun<'_>> = runs.iter().map(|run| (run, None)).collect();
    let [machines, held] = machines::section(&named, &runs.iter().collect::<Vec<_>>())?;
    if runs.len() > 1 {
        let title = format_count(runs.len(), "run");
        bodies.insert(0, html! { header { h1 { (title) } } main { (machines) } });
    } else {
        bodies.push(html! { main { (machines) } });
        let text = "Compare: drop files of other runs anywhere on this page";
        let link = reports.is_empty().then(|| html! { nav { a href="#compare" { (text) } } });
        bodies.splice(0..0, link);
    }
    Ok(PageParts { bodies, island, held })
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
    with_script(made, title, &script(), true)
}

/// Builds the page of `made` with `script`, and with the chart library if `has_library`, which
/// `script` loads from a file otherwise. The page's policy allows no other script.
fn with_script(made: &PageParts, title: &str, script: &str, has_library: bool) -> String {
    let (library, file) = (hash(LIBRARY), if has_library { "" } else { " file:" });
    let policy = format!(
        "default-src 'none'; script-src {library} {}{file}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        hash(script)
    );
    let body = html! {
        @for body in &made.bodies { (plain::visible(body)) }
        noscript { p.remark { "The charts below need JavaScript; all figures are in the tables." } }
        script type="application/json" id="charts" { (PreEscaped(&made.island)) }
        @if has_library { script { (PreEscaped(LIBRARY)) } }
        script { (PreEscaped(script)) }
        (made.held)
    };
    plain::document(title, &policy, "", &body).into_string()
}
