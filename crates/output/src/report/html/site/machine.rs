//! Page of a machine: changes, results over time by subsystem, and all runs.

use maud::{Markup, html};
use plimsoll_bench::label::label;
use plimsoll_model::case::Case;
use plimsoll_result::document::RunStatus;
use plimsoll_units::quantity::{Quantity, percent};
use plimsoll_units::text::{format_count, shown_within};

use super::plot::plot;
use super::{
    DATE_CHARS, ListedRun, OfMachine, TrendSeries, change, changes, class, method, name, names, short, since,
    text_page, when,
};
use crate::report::context::title;
use crate::report::grouped;
use crate::report::html::parts::verdict;
use crate::report::progress::span;
use crate::report::terminal::SHORT_ID;
use crate::report::trend::{between, range};

const BASE: &str = "../";

/// Builds the page of a machine: header, changes, results over time, runs.
pub fn machine(of: &OfMachine<'_>) -> String {
    let body = html! {
        nav { a href="../index.html" { "all machines" } }
        (header(of))
        main {
            (changed(of))
            (trends(of))
            (runs(of))
            p.note { (method()) }
        }
    };
    text_page(&of.name(), &body)
}

fn header(of: &OfMachine<'_>) -> Markup {
    let Some(newest) = of.runs.last() else { return html! {} };
    html! {
        header {
            div.name { h1 { (of.name()) } p.machine { (shown_within(&newest.machine, 300)) } }
            div.verdicts { (verdict("Limits", &newest.limits)) (verdict("Conditions", &newest.quiet)) }
            p.run {
                (format_count(of.runs.len(), "run")) " · fingerprint " (shown_within(of.fingerprint, 40)) " · newest run "
                a href=(format!("{BASE}{}", names::run(&newest.entry.id))) { (when(&newest.entry.started)) }
            }
        }
    }
}

fn changed(of: &OfMachine<'_>) -> Markup {
    let changes = changes(of);
    html! {
        section {
            h2 { "What changed" }
            @if changes.is_empty() { p.note { "no change of level in " (format_count(of.runs.len(), "run")) } }
            ul.changes {
                @for (run, changes) in &changes {
                    li { (since(run, BASE)) ul.each { @for one in changes { li { (change(one)) } } } }
                }
            }
        }
    }
}

/// Builds the charts of results that more than one run has, by subsystem, main metrics first.
fn trends(of: &OfMachine<'_>) -> Markup {
    let (drawn, once): (Vec<&TrendSeries>, Vec<&TrendSeries>) =
        of.series.iter().partition(|series| series.trend.points.len() > 1);
    let part = |series: &TrendSeries| series.trend.case.split('.').next().unwrap_or_default().to_owned();
    let parts = grouped(drawn.iter().map(|series| (part(series), *series)));
    html! {
        @for (wanted, own) in &parts {
            @let (headlines, others): (Vec<&TrendSeries>, Vec<&TrendSeries>) = own.iter().partition(|series| series.headline);
            section {
                h2 { (shown_within(title(wanted), 60)) " over time" }
                div.trends { @for series in &headlines { (trend(series)) } }
                @if !others.is_empty() {
                    details.trends-more {
                        summary { (format_count(others.len(), "further metric")) }
                        div.trends { @for series in &others { (trend(series)) } }
                    }
                }
            }
        }
        @if drawn.is_empty() { p.note { "no figure of more than one run yet" } }
        @if !once.is_empty() && !drawn.is_empty() { p.note { (format_count(once.len(), "figure")) " of one run alone: in the report of that run" } }
    }
}

fn trend(series: &TrendSeries) -> Markup {
    let trend = &series.trend;
    let found = between(trend, &series.levels);
    let human = |value: f64| Quantity::new(value, trend.unit).to_string();
    let case = trend.case.parse::<Case>().map_or_else(|_| trend.case.clone(), |case| label(&case));
    let (low, high) = range(trend.points.iter().map(|point| point.median));
    html! {
        div.trend {
            @if let (Some(first), Some(last)) = (trend.points.first(), trend.points.last()) {
                p.head {
                    span title=(shown_within(&trend.case, 300)) { (name(series, &case)) }
                    span.value {
                        (human(last.median))
                        @if let Some(share) = last.of_limit { span.note { " · " (percent(share, 3)) " of limit" } }
                    }
                }
                (plot(series, &found))
                p.ends {
                    span { (short(&first.run.started, DATE_CHARS)) }
                    span { (format_count(trend.points.len(), "run")) ", " (human(low)) " … " (human(high)) }
                    span { (short(&last.run.started, DATE_CHARS)) }
                }
                @for change in &found {
                    p {
                        "since " a href=(format!("{BASE}{}", names::run(&change.since.id))) { (when(&change.since.started)) } ": "
                        span.(class(series, change)) { (change.figures(trend)) }
                    }
                }
            }
        }
    }
}

fn runs(of: &OfMachine<'_>) -> Markup {
    html! {
        section {
            h2 { "Runs" }
            div.wide { table {
                thead { tr { th { "began" } th { "run" } th { "plan" } th { "cases" } th { "conditions" } th.n { "took" } @if !of.redacted { th { "tags, note" } } } }
                tbody { @for run in of.runs.iter().rev() { (row(run, of.redacted)) } }
            } }
        }
    }
}

fn row(run: &ListedRun<'_>, redacted: bool) -> Markup {
    let line = run.entry;
    let counts = line.counts.lines().join(" · ");
    let is_bad = line.counts.failed + line.counts.invalid > 0 || line.status == RunStatus::Partial;
    let took = if line.elapsed_s > 0.0 { span(line.elapsed_s) } else { "–".to_owned() };
    html! {
        tr {
            td { (when(&line.started)) }
            td { a href=(format!("{BASE}{}", names::run(&line.id))) { (short(&line.id, SHORT_ID)) } }
            td { (shown_within(&run.plan, 80)) @if run.entry.nodes > 1 { " · " (format_count(run.entry.nodes, "machine")) } }
            td.poor-word[is_bad] { @if line.status == RunStatus::Partial { "partial " } (counts) }
            td { (run.quiet.word) }
            td.n { (took) }
            @if !redacted { td { (shown_within(&line.remarks.line().unwrap_or_default(), 300)) } }
        }
    }
}
