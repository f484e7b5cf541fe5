//! The index: a part for each machine, the one that measured last first.

use maud::{Markup, html};

use super::{Since, change, changes, method, since, text_page, when};
use crate::report::html::parts::verdict;
use crate::report::site::{Headline, OfMachine, names};
use crate::text::{counted, shown_within};

/// How far beyond the limit a line is drawn.
const BEYOND: f64 = 1.08;
/// Runs whose changes are told of each machine, and changes of each.
const MOST_RUNS: usize = 4;
const MOST_CHANGES: usize = 4;

/// The page; `machines` in any order.
pub fn index(machines: &[OfMachine<'_>]) -> String {
    let mut order: Vec<&OfMachine<'_>> = machines.iter().collect();
    let newest = |of: &OfMachine<'_>| of.newest().map(|run| run.entry.line.started.clone());
    order.sort_by_key(|of| std::cmp::Reverse(newest(of)));
    let runs: usize = machines.iter().map(|of| of.runs.len()).sum();
    let last = order.first().and_then(|of| newest(of));
    let title = format!("{}, {}", counted(machines.len(), "machine"), counted(runs, "run"));
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
    let Some(newest) = of.newest() else { return html! {} };
    let changes = changes(of);
    let untold = changes.len().saturating_sub(MOST_RUNS);
    html! {
        section.of-machine {
            h2 {
                a href=(of.page) { (of.name()) }
                span.note { (shown_within(&newest.summary.machine, 300)) " · " (shown_within(of.fingerprint, 40)) }
            }
            div.verdicts {
                (verdict("Limits", &newest.summary.limits))
                (verdict("Conditions", &newest.summary.quiet))
                div.verdict {
                    span.word { a href=(of.page) { (counted(of.runs.len(), "run")) } }
                    span.why {
                        "newest: " a href=(names::run(&newest.entry.line.id)) {
                            (when(&newest.entry.line.started)) ", plan " (shown_within(&newest.summary.plan, 60))
                        }
                    }
                }
            }
            div.figures-of { @for headline in &newest.summary.headlines { (figure(headline)) } }
            h3 { "What changed" }
            @if changes.is_empty() {
                p.note { "no change of level in " (counted(of.runs.len(), "run")) }
            } @else {
                ul.changes { @for one in changes.iter().take(MOST_RUNS) { li { (line(one)) } } }
                @if untold > 0 { p.note { a href=(of.page) { "and since " (counted(untold, "earlier run")) } } }
            }
        }
    }
}

/// The changes since one run, in a line.
fn line(of: &Since<'_>) -> Markup {
    let more = of.changes.len().saturating_sub(MOST_CHANGES);
    html! {
        (since(of, ""))
        @for (index, one) in of.changes.iter().take(MOST_CHANGES).enumerate() { @if index > 0 { "; " } (change(one)) }
        @if more > 0 { "; and " (more) " more" }
    }
}

/// A headline as a load line: full is the limit.
fn figure(of: &Headline) -> Markup {
    let width = |share: f64| format!("width:{:.2}%", share.clamp(0.0, BEYOND) * 100.0 / BEYOND);
    html! {
        div.gauge.open[of.of_limit.is_none()] {
            span.what { (of.part) ": " (of.label) }
            span.value { (of.value) }
            span.interval { (of.interval) }
            span.track {
                @if let Some(share) = of.of_limit {
                    span.fill.(of.grade) style=(width(share)) {}
                    span.load style=(format!("left:{:.2}%", 100.0 / BEYOND)) {}
                }
            }
            span.share { @if of.share.is_empty() { span.unknown { "no limit known" } } @else { (of.share) } }
        }
    }
}
