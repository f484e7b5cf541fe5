//! Static site of all runs of a history: index, a page per machine, and the report of each run,
//! like `report --html` but with one common file for the chart library.

mod directory;
mod index;
mod machine;
pub mod names;
mod plot;
#[cfg(test)]
pub(in crate::report) mod tests;

pub use directory::{Directory, SiteError};
pub use index::index;
pub use machine::machine;

use maud::{Markup, html};
use plimsoll_history::{MetricTrend, RunStart, RunSummary};
use plimsoll_result::document::Run;
use plimsoll_stats::{Seed, Segment, TimedPoint, median, segments_of_many};
use plimsoll_units::quantity::percent;
use plimsoll_units::text::shown_within;

use super::parts::{self, VerdictText};
use super::{LIBRARY, SCRIPT, gauge, hash, made, plain, title, with_script};
use crate::report::context::host_or_count;
use crate::report::grouped;
use crate::report::terminal::SHORT_ID;
use crate::report::trend::{LevelChange, between, timed};

/// False discovery rate of the marked changes of a machine.
const FALSE_SHARE: f64 = 0.05;

const STYLE: &str = include_str!("../assets/site.css");
const LOADER: &str = include_str!("../assets/loader.js");

/// A stored run as listed on other pages.
#[derive(Debug)]
pub struct ListedRun<'a> {
    entry: &'a RunSummary,
    plan: String,
    host: Option<String>,
    machine: String,
    limits: VerdictText,
    quiet: VerdictText,
    headlines: Markup,
}

impl<'a> ListedRun<'a> {
    /// Collects what pages show of a run; `run` has no private names if the site is redacted.
    pub fn new(entry: &'a RunSummary, run: &Run) -> Self {
        Self {
            entry,
            plan: run.plan.name.clone(),
            host: host_or_count(run),
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
    /// File name of its page.
    pub page: String,
    /// Fingerprint of its hardware.
    pub fingerprint: &'a str,
    /// Host name in the history.
    pub host: Option<&'a str>,
    /// Runs, the oldest first; at least one.
    pub runs: Vec<ListedRun<'a>>,
    /// Results over time.
    pub series: Vec<TrendSeries>,
    /// Whether tags and notes are left out.
    pub redacted: bool,
}

impl OfMachine<'_> {
    /// Returns whether the run of `entry` was on this machine: same fingerprint and host.
    pub fn is_of(&self, entry: &RunSummary) -> bool {
        self.fingerprint == entry.machine && self.host == entry.host.as_deref()
    }

    fn name(&self) -> String {
        let named = self.runs.last().and_then(|run| run.host.as_deref());
        shown_within(named.unwrap_or("machine without a name"), 80)
    }
}

/// A metric of a case over time: one value per run, with levels.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendSeries {
    /// Values.
    pub trend: MetricTrend,
    /// Levels, by index of the points.
    pub levels: Vec<Segment>,
    /// Whether it is the first metric of its case.
    pub headline: bool,
}

/// Splits trends into levels at lasting changes; repetitions in a run count as their median.
pub fn series(trends: Vec<MetricTrend>) -> Vec<TrendSeries> {
    let trends: Vec<MetricTrend> = trends.into_iter().map(of_runs).collect();
    let timed: Vec<Vec<TimedPoint>> = trends.iter().map(timed).collect();
    let seeds = trends.iter().map(|trend| Seed::new(1, &trend.case, &trend.metric));
    let asked: Vec<(&[TimedPoint], Seed)> = timed.iter().map(Vec::as_slice).zip(seeds).collect();
    let levels = segments_of_many(&asked, FALSE_SHARE, &[]);
    let mut before = String::new();
    let one = |(trend, levels): (MetricTrend, Vec<Segment>)| {
        let headline = trend.case != before;
        before.clone_from(&trend.case);
        TrendSeries { trend, levels, headline }
    };
    trends.into_iter().zip(levels).map(one).collect()
}

/// Reduces a trend to one value per run, the median of its repetitions.
fn of_runs(mut trend: MetricTrend) -> MetricTrend {
    let points = trend.points.chunk_by(|a, b| a.run.id == b.run.id).filter_map(|all| {
        let mut point = all.first()?.clone();
        point.median = median(all.iter().map(|one| one.median).collect())?;
        point.of_limit = median(all.iter().filter_map(|one| one.of_limit).collect());
        Some(point)
    });
    trend.points = points.collect();
    trend
}

/// Returns file name and text of the chart library (JavaScript).
pub fn library() -> (String, &'static str) {
    (names::library(LIBRARY), LIBRARY)
}

/// Builds the page of a run; `machine` is the path of its machine's page within the site. Fails if
/// a number cannot be represented in JSON.
pub fn run(run: &Run, machine: &str) -> Result<String, serde_json::Error> {
    let mut made = made(std::slice::from_ref(run), &[])?;
    let navigation = html! { nav { a href="../index.html" { "all machines" } a href=(format!("../{machine}")) { "this machine over time" } } };
    made.bodies.insert(0, navigation);
    Ok(with_script(&made, &title(std::slice::from_ref(run)), &script(), false))
}

fn script() -> String {
    let source = format!("../{}", names::library(LIBRARY));
    let integrity = hash(LIBRARY).replace('\'', "");
    format!(
        "(() => {{\n\"use strict\";\nconst LIBRARY = {{ source: \"{source}\", integrity: \"{integrity}\" }};\nfunction draw() {{\n{}\n}}\n{LOADER}\n}})();\n",
        SCRIPT.join("\n")
    )
}

/// Builds a page without scripts.
fn text_page(title: &str, body: &Markup) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    let title = format!("plimsoll: {title}");
    plain::document(&title, policy, STYLE, &plain::visible(body)).into_string()
}

fn when(started: &str) -> String {
    format!("{} UTC", short(started, MINUTE_CHARS).replace('T', " "))
}

/// Characters of a time up to its day, and up to its minute.
const DATE_CHARS: usize = 10;
const MINUTE_CHARS: usize = 16;

fn short(text: &str, bytes: usize) -> String {
    shown_within(text.get(..bytes).unwrap_or(text), 40)
}

/// A run, and the changes of level that it is the first to show.
type RunChanges<'a> = (&'a RunStart, Vec<(&'a TrendSeries, LevelChange<'a>)>);

/// Groups level changes by the run that first shows them, newest first; in a run, headlines first.
fn changes<'a>(of: &'a OfMachine<'_>) -> Vec<RunChanges<'a>> {
    let all = of.series.iter().flat_map(|series| {
        let changes = between(&series.trend, &series.levels).into_iter();
        changes.map(move |change| (change.since, (series, change)))
    });
    let mut found = grouped(all);
    let place = |since: &RunStart| of.runs.iter().position(|run| run.entry.id == since.id);
    found.sort_by_key(|(since, _)| std::cmp::Reverse(place(since)));
    found.iter_mut().for_each(|(_, changes)| changes.sort_by_key(|(series, _)| !series.headline));
    found
}

/// Returns the CSS class `improvement` or `regression`; `change` for metrics without a direction.
fn class(series: &TrendSeries, change: &LevelChange<'_>) -> &'static str {
    match change.is_good(&series.trend) {
        Some(true) => "improvement",
        Some(false) => "regression",
        None => "change",
    }
}

/// Returns the name `case`, followed by the metric's name unless the metric is the headline.
fn name(series: &TrendSeries, case: &str) -> String {
    let metric = if series.headline { String::new() } else { format!(", {}", series.trend.metric) };
    shown_within(&format!("{case}{metric}"), 200)
}

/// Builds `since DATE (run ID):` with a link to the run's page; `base`: path to the site's root.
fn since(since: &RunStart, base: &str) -> Markup {
    html! {
        "since " a href=(format!("{base}{}", names::run(&since.id))) { (when(&since.started)) " (run " (short(&since.id, SHORT_ID)) ")" } ": "
    }
}

fn change((series, change): &(&TrendSeries, LevelChange<'_>)) -> Markup {
    let name = name(series, &plimsoll_bench::label::of_id(&series.trend.case));
    html! { (name) " " span.(class(series, change)) { (change.figures(&series.trend)) } }
}

fn method() -> String {
    format!(
        "A change of level has five runs or more on each side and is 1 % or more. Of all changes that are marked for a machine, {} \
         are expected to be noise at most (permutation tests, with Benjamini and Hochberg's correction over all its figures).",
        percent(FALSE_SHARE, 1)
    )
}
