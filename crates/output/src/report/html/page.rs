//! Body of the page of one run: summary, charts per subsystem, and tables with all results.

use maud::{Markup, html};
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_model::warning::Warning;
use plimsoll_result::document::Run;

use super::data::Chart;
use super::main_figures::main_figures;
use super::stated::StatedCases;
use super::{LAST_RUN, PUBLISHED, ReferenceFigure, charts, gauge, nodes, parts, reports, roofline, single};
use crate::report::context::title;
use crate::report::row::Grade;
use crate::report::section::{DOUBTFUL, STAR, is_wide};

pub(super) struct Body {
    pub(super) header: Markup,
    pub(super) findings: Markup,
    pub(super) rest: Markup,
    pub(super) charts: Vec<Chart>,
}

impl Body {
    pub(super) fn whole(&self) -> Markup {
        html! { (self.header) main { (self.findings) (self.rest) } }
    }
}

/// Builds the body of run number `index` of a page, with `references` as marks. Of several nodes,
/// shows the first, and how the rest differ.
pub(super) fn body(whole: &Run, references: &[ReferenceFigure], index: usize) -> Body {
    let mut all: Vec<Chart> = Vec::new();
    let mut sections = Vec::new();
    let mut keep = |mut found: Vec<Chart>| -> Vec<Chart> {
        found.iter_mut().for_each(|chart| chart.id = format!("r{index}-{}", chart.id));
        all.extend_from_slice(&found);
        found
    };
    let machines = keep(nodes::of(whole));
    let run = &nodes::first(whole);
    let mut replay = reports::of(run);
    for (_, charts) in replay.iter_mut().flat_map(|replay| &mut replay.parts) {
        *charts = keep(std::mem::take(charts));
    }
    let stated = StatedCases::of(run);
    let (below, roof) = roofline::roofline(run).unzip();
    let roof = keep(roof.into_iter().collect());
    for part in crate::report::subsystems(run) {
        let mut found = charts::sweeps(run, part, references);
        found.extend(single::of(run, part, |m| replay.is_some() && stated.is_series(&m.case)));
        let mut found = keep(found);
        if below == Some(part) {
            found.extend(roof.clone());
        }
        sections.push(section(title(part), &found, &parts::figures(run, part)));
    }
    let forest = keep(single::forest(run).into_iter().collect());
    let rest = html! {
        @if !machines.is_empty() {
            @let first = run.nodes.first().map(|n| plimsoll_units::text::shown_within(&n.name, 64)).unwrap_or_default();
            @let more = html! { (nodes::table(whole)) p.remark { "Below is what " (first) " measured." } };
            (section(&format!("{} machines", whole.nodes.len()), &machines, &more))
        }
        section.first aria-label="Figures and their limits" {
            (gauge::gauges(run, &stated, references))
            (legend(run, references))
        }
        @if let Some(replay) = &replay { (replay.section(run)) }
        @for section in &sections { (section) }
        @if !forest.is_empty() || parts::has_tools(run) {
            section {
                h2 { "Reference tools" }
                @for chart in &forest { (figure(chart)) }
                (parts::tool_results(run))
            }
        }
        (parts::machine(run))
    };
    let header = html! { (parts::header(whole)) (main_figures(run)) };
    Body { header, findings: parts::findings(whole), rest, charts: all }
}

pub(super) fn section(title: &str, charts: &[Chart], more: &Markup) -> Markup {
    html! { section { h2 { (title) } div.charts { @for chart in charts { (figure(chart)) } } (more) } }
}

pub(super) fn figure(chart: &Chart) -> Markup {
    html! {
        figure.chart data-chart=(chart.id) {
            figcaption { strong { (chart.title) } @if !chart.note.is_empty() { span.note { (chart.note) } } }
        }
    }
}

fn legend(run: &Run, references: &[ReferenceFigure]) -> Markup {
    let of = |class: &str| references.iter().find(|r| r.class == class);
    let any = |is: &dyn Fn(&Measurement) -> bool| run.measurements.iter().any(is);
    let limited = |m: &Measurement| m.metrics.first().and_then(gauge::own_limit).is_some();
    let grades = [(Grade::Good, "90 % or more "), (Grade::Fair, "60 to 90 % "), (Grade::Poor, "below 60 % ")];
    html! {
        p.legend {
            @if any(&limited) {
                "delivered share of the limit: "
                @for (grade, text) in grades {
                    @if any(&|m| limited(m) && Grade::of(m) == grade) { span.key.(grade.class()) {} (text) }
                }
                @if any(&|m| limited(m) && m.is_mostly_excluded()) { span.key.unrated {} "not rated " }
                @if any(&|m| limited(m) && m.delivered().is_some()) { span.key.hatched {} "undisturbed, not delivered " }
                span.key.load {} "limit "
            }
            @if any(&|m| m.warns(Warning::MOSTLY_EXCLUDED)) { span.star { (DOUBTFUL) } "more than half of the time excluded: the figure may be off " }
            @if any(&|m| m.status == Status::Invalid) { span.star { s { "1.00" } } "invalid, does not count " }
            @if parts::has_tools(run) { span.key.tool {} "reference tools " }
            @if let Some(before) = of(LAST_RUN) { span.key.before {} (before.name) " " }
            @if let Some(published) = of(PUBLISHED) { span.key.published {} (published.name) " " }
            @if any(&|m| is_wide(&m.warnings)) { span.star { (STAR) } "interval wider than asked (not converged) " }
            @if any(&|m| gauge::is_compared(m, references)) { span.key.open {} "no limit known: " span.key.own {} "this run compared with the others, of which the best is at 90 % of the width" }
        }
    }
}
