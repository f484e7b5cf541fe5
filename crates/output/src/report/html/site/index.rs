//! Index page: one section per machine, the most recently measured first.

use maud::{Markup, html};
use plimsoll_units::text::{format_count, shown_within};

use super::{OfMachine, RunChanges, change, changes, method, names, since, text_page, when};
use crate::report::html::parts::verdict;

/// Limit of runs per machine whose changes are listed, and of changes per run.
const MOST_RUNS: usize = 4;
const MOST_CHANGES: usize = 4;

/// Builds the front page of the site, the machine with the newest run first.
pub fn index(machines: &[OfMachine<'_>]) -> String {
    let mut order: Vec<&OfMachine<'_>> = machines.iter().collect();
    let newest = |of: &OfMachine<'_>| of.runs.last().map(|run| run.entry.started.clone());
    order.sort_by_key(|of| std::cmp::Reverse(newest(of)));
    let runs: usize = machines.iter().map(|of| of.runs.len()).sum();
    let last = order.first().and_then(|of| newest(of));
    let title = format!("{}, {}", format_count(machines.len(), "machine"), format_count(runs, "run"));
    let body = html! {
        header {
            div.name { h1 { (title) } p.machine { "measured by plimsoll" } }
            @if let Some(last) = last { p.run { "newest run " (when(&last)) } }
        }
        main {
            @if machines.is_empty() {
                p { "The history has no runs yet: " code { "plimsoll run" } " makes one, then " code { "plimsoll site" } " again." }
            }
            @for of in order { (machine(of)) }
            @if !machines.is_empty() { p.note { (method()) } }
        }
    };
    text_page(&title, &body)
}

fn machine(of: &OfMachine<'_>) -> Markup {
    let Some(newest) = of.runs.last() else { return html! {} };
    let changes = changes(of);
    let untold = changes.len().saturating_sub(MOST_RUNS);
    html! {
        section.of-machine {
            h2 {
                a href=(of.page) { (of.name()) }
                span.note { (shown_within(&newest.machine, 300)) " · " (shown_within(of.fingerprint, 40)) }
            }
            div.verdicts {
                (verdict("Limits", &newest.limits))
                (verdict("Conditions", &newest.quiet))
                div.verdict {
                    span.word { a href=(of.page) { (format_count(of.runs.len(), "run")) } }
                    span.why {
                        "newest: " a href=(names::run(&newest.entry.id)) {
                            (when(&newest.entry.started)) ", plan " (shown_within(&newest.plan, 60))
                        }
                    }
                }
            }
            div.figures-of { (newest.headlines) }
            h3 { "What changed" }
            @if changes.is_empty() {
                p.note { "no change of level in " (format_count(of.runs.len(), "run")) }
            } @else {
                ul.changes { @for one in changes.iter().take(MOST_RUNS) { li { (line(one)) } } }
                @if untold > 0 { p.note { a href=(of.page) { "and since " (format_count(untold, "earlier run")) } } }
            }
        }
    }
}

fn line((run, changes): &RunChanges<'_>) -> Markup {
    let more = changes.len().saturating_sub(MOST_CHANGES);
    html! {
        (since(run, ""))
        @for (index, one) in changes.iter().take(MOST_CHANGES).enumerate() { @if index > 0 { "; " } (change(one)) }
        @if more > 0 { "; and " (more) " more" }
    }
}
