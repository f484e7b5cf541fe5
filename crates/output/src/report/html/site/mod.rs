//! A site of all runs of a history: an index, a page for each machine with its figures over time, and the report of each run, as
//! files of one directory that any web server shows, or a browser from the disk.
//!
//! Index and machines are text, tables and drawings that are made here, without scripts. The report of a run is the page that
//! `report --html` writes; its library of charts is in one file for all of them.

mod directory;
mod index;
mod machine;
pub mod names;
mod plot;
#[cfg(test)]
mod tests;

pub use directory::{Directory, SiteError};
pub use index::index;
pub use machine::machine;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use plimsoll_history::{Entry, Trend};
use plimsoll_result::document::Run;
use plimsoll_stats::{Seed, Segment, Timed, median, segments_of_many};
use plimsoll_units::quantity::percent;
use plimsoll_units::text::shown_within;
use sha2::{Digest, Sha256};

use super::parts::{self, Told};
use super::{Beside, LIBRARY, SCRIPT, gauge, hash, made, plain, title, with_scripts};
use crate::report::context::of_whom;
use crate::report::trend::{Change, between};

/// The share of all marked changes of a machine that may be noise.
const FALSE_SHARE: f64 = 0.05;

/// The style of what only these pages have.
const STYLE: &str = include_str!("../assets/site.css");
/// What brings the library to a page.
const LOADER: &str = include_str!("../assets/loader.js");

/// A stored run on the pages of others.
#[derive(Debug)]
pub struct Listed<'a> {
    entry: &'a Entry,
    /// Name of its plan.
    plan: String,
    /// Name of its machine, or how many machines; none where the one machine has no name.
    host: Option<String>,
    /// The machine in a line.
    machine: String,
    /// How many figures come near their limits.
    limits: Told,
    /// Whether the machine was quiet.
    quiet: Told,
    /// Its headline figures as load lines.
    headlines: Markup,
}

impl<'a> Listed<'a> {
    /// What the pages show of a run, from its entry in the history and the document as it may leave the machine.
    pub fn new(entry: &'a Entry, run: &Run) -> Self {
        Self {
            entry,
            plan: run.plan.name.clone(),
            host: of_whom(run),
            machine: parts::machine_line(&run.machine),
            limits: parts::limits(run),
            quiet: parts::quiet(run),
            headlines: gauge::headlines(run),
        }
    }
}

/// A machine on a site.
#[derive(Debug)]
pub struct OfMachine<'a> {
    /// The file of its page.
    pub page: String,
    /// Its fingerprint.
    pub fingerprint: &'a str,
    /// Its name in the history.
    pub host: Option<&'a str>,
    /// Its runs, the oldest first; at least one.
    pub runs: Vec<Listed<'a>>,
    /// Its figures over time.
    pub series: Vec<Series>,
    /// Whether tags and notes are left out.
    pub redacted: bool,
}

impl OfMachine<'_> {
    /// Whether a run was on this machine.
    pub fn is_of(&self, entry: &Entry) -> bool {
        self.fingerprint == entry.machine && self.host == entry.line.host.as_deref()
    }

    /// Its name, or what stands for one.
    fn name(&self) -> String {
        let named = self.runs.last().and_then(|run| run.host.as_deref());
        shown_within(named.unwrap_or("machine without a name"), 80)
    }
}

/// A metric of a case over time, a figure a run, with its levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The figures.
    pub trend: Trend,
    /// Its levels, in the places of its points.
    pub levels: Vec<Segment>,
    /// Whether it is the first metric of its case.
    pub headline: bool,
}

/// The figures of one machine with their levels. Of a run that measured a case several times the median counts.
pub fn series(trends: Vec<Trend>) -> Vec<Series> {
    let trends: Vec<Trend> = trends.into_iter().map(of_runs).collect();
    let timed: Vec<Vec<Timed>> = trends.iter().map(timed).collect();
    let asked: Vec<(&[Timed], Seed)> = trends
        .iter()
        .zip(&timed)
        .map(|(trend, timed)| (timed.as_slice(), Seed::new(1, &trend.case, &trend.metric)))
        .collect();
    let levels = segments_of_many(&asked, FALSE_SHARE, &[]);
    let mut before = String::new();
    let one = |(trend, levels): (Trend, Vec<Segment>)| {
        let headline = trend.case != before;
        before.clone_from(&trend.case);
        Series { trend, levels, headline }
    };
    trends.into_iter().zip(levels).map(one).collect()
}

/// By the order of runs: clocks can be set back, the order cannot.
fn timed(trend: &Trend) -> Vec<Timed> {
    trend.points.iter().enumerate().map(|(n, point)| Timed { t: n as f64, value: point.median }).collect()
}

/// The same with one figure for each run.
fn of_runs(mut trend: Trend) -> Trend {
    let same = |a: &plimsoll_history::Point, b: &plimsoll_history::Point| a.run.id == b.run.id;
    let points = trend.points.chunk_by(same).filter_map(|all| {
        let mut point = all.first()?.clone();
        point.median = median(all.iter().map(|one| one.median).collect())?;
        point.of_limit = median(all.iter().filter_map(|one| one.of_limit).collect());
        Some(point)
    });
    trend.points = points.collect();
    trend
}

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
    let name = name(series, &plimsoll_bench::label::of_id(&series.trend.case));
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
