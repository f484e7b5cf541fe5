//! The pages of a site of all runs: an index, a page for each machine with its figures over time, and the report of each run.
//!
//! Index and machines are text, tables and drawings that are made here, without scripts. The report of a run is the page that
//! `report --html` writes; its library of charts is in one file for all of them.

mod index;
mod machine;
mod plot;
#[cfg(test)]
mod tests;

pub use index::index;
pub use machine::machine;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::{Beside, LIBRARY, SCRIPT, hash, made, plain, title, with_scripts};
use crate::document::Run;
use crate::quantity::percent;
use crate::report::site::{FALSE_SHARE, OfMachine, Series, names};
use crate::report::trend::{Change, between};
use crate::text::shown_within;

/// The style of what only these pages have.
const STYLE: &str = include_str!("../assets/site.css");
/// What brings the library to a page.
const LOADER: &str = include_str!("../assets/loader.js");

/// The file of the library: its name and its text.
pub fn library() -> (String, &'static str) {
    (names::library(LIBRARY), LIBRARY)
}

/// The report of a run, from whose place `machine` is the page of its machine.
///
/// # Errors
/// A figure that JSON cannot hold.
pub fn run(run: &Run, machine: &str) -> Result<String, serde_json::Error> {
    let mut made = made(std::slice::from_ref(run), &Beside::default())?;
    let way = html! { nav { a href="../index.html" { "all machines" } a href=(format!("../{machine}")) { "this machine over time" } } };
    made.bodies.insert(0, way);
    let script = script();
    // What `file:` allows is no file of a web server.
    let sources = format!("{} {} file:", hash(LIBRARY), hash(&script));
    let scripts = html! { script { (PreEscaped(&script)) } (made.held) };
    let title = title(std::slice::from_ref(run));
    Ok(with_scripts(&made.bodies, &made.island, &title, &sources, &scripts).into_string())
}

/// The script of a report whose library is a file beside it.
fn script() -> String {
    let source = format!("../{}", names::library(LIBRARY));
    let integrity = format!("sha256-{}", STANDARD.encode(Sha256::digest(LIBRARY)));
    format!(
        "(() => {{\n\"use strict\";\nconst LIBRARY = {{ source: \"{source}\", integrity: \"{integrity}\" }};\nfunction draw() {{\n{}\n}}\n{LOADER}\n}})();\n",
        SCRIPT.join("\n")
    )
}

/// A page of text.
fn text_page(title: &str, body: &Markup) -> String {
    plain::page(&format!("plimsoll: {title}"), body, STYLE)
}

/// The time at which a run began, in words.
fn when(started: &str) -> String {
    format!("{} UTC", shown_within(started.get(..16).unwrap_or(started), 40).replace('T', " "))
}

/// The day on which a run began.
fn day(started: &str) -> String {
    shown_within(started.get(..10).unwrap_or(started), 40)
}

/// The beginning of a run's id.
fn short(id: &str) -> String {
    shown_within(id.get(..13).unwrap_or(id), 40)
}

/// The changes that began with one run, the newest first.
struct Since<'a> {
    /// Id of the run.
    run: &'a str,
    started: &'a str,
    changes: Vec<(&'a Series, Change<'a>)>,
}

/// All changes of a machine by the run that they began with, the newest first; of each run those of headlines first.
fn changes<'a>(of: &'a OfMachine<'_>) -> Vec<Since<'a>> {
    let mut found: Vec<Since<'a>> = Vec::new();
    for series in &of.series {
        for change in between(&series.trend, &series.levels) {
            let since = change.since;
            match found.iter_mut().find(|known| known.run == since.id) {
                Some(known) => known.changes.push((series, change)),
                None => {
                    let changes = vec![(series, change)];
                    found.push(Since { run: &since.id, started: &since.started, changes });
                }
            }
        }
    }
    let place = |id: &str| of.runs.iter().position(|run| run.entry.line.id == id);
    found.sort_by_key(|since| std::cmp::Reverse(place(since.run)));
    for since in &mut found {
        since.changes.sort_by_key(|(series, _)| !series.headline);
    }
    found
}

/// The class of a change: an improvement, a regression, or one of a metric by which no run is judged.
fn class(series: &Series, change: &Change<'_>) -> &'static str {
    match change.is_good(&series.trend) {
        Some(true) => "improvement",
        Some(false) => "regression",
        None => "change",
    }
}

/// A case in words and, where it is not the first, the metric.
fn name(series: &Series, case: &str) -> String {
    let metric = if series.headline { String::new() } else { format!(", {}", series.trend.metric) };
    shown_within(&format!("{case}{metric}"), 200)
}

/// Since which run; `base` leads from the page to the site's top.
fn since(since: &Since<'_>, base: &str) -> Markup {
    html! {
        "since " a href=(format!("{base}{}", names::run(since.run))) { (when(since.started)) " (run " (short(since.run)) ")" } ": "
    }
}

/// What changed, and by how much.
fn change((series, change): &(&Series, Change<'_>)) -> Markup {
    let name = name(series, &crate::label::of_id(&series.trend.case));
    html! { (name) " " span.(class(series, change)) { (change.figures(&series.trend)) } }
}

/// What a marked change is.
fn method() -> String {
    format!(
        "A change of level has five runs or more on each side and is 1 % or more. Of all changes that are marked for a machine, {} \
         are expected to be noise at most (permutation tests, with Benjamini and Hochberg's correction over all its figures).",
        percent(FALSE_SHARE, 1)
    )
}
