//! `plimsoll history`: lists, shows, tags, notes, imports and deletes runs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_bench::benchmarks;
use plimsoll_command::cli::{HistoryCommand, HistoryRequest};
use plimsoll_history::{Pruned, Store, TrendQuery};
use plimsoll_model::case::Pattern;
use plimsoll_model::measurement::Status;
use plimsoll_output::report::{self, Style, StyleOptions};
use plimsoll_result::document::Run;
use plimsoll_system::leftover::Registry;
use plimsoll_units::text::shown_within;

use super::named_runs::{LazyHistory as Open, needed_location};
use super::{Failure, lost, printed};

pub(super) fn history(typed: &HistoryCommand) -> Result<ExitCode, Failure> {
    let style = Style::detect(StyleOptions::default());
    match typed.asked() {
        HistoryRequest::List => {
            let mut open = Open::new(typed.store.as_deref());
            let lines = open.open()?.list()?;
            report::history::list(&lines, std::io::stdout(), &style).map_err(|e| lost(&e))?;
            Ok(ExitCode::SUCCESS)
        }
        HistoryRequest::Show { what, explain, since, metric, machine } => {
            let style = Style { explain, ..style };
            let began = since.map(|age| plimsoll_system::wall::time_before(age).to_string());
            let asked = |cases| TrendQuery {
                cases,
                metric: metric.clone(),
                all: false,
                since: began.clone(),
                machine: machine.clone(),
            };
            let filtered = since.is_some() || metric.is_some() || machine.is_some();
            show(typed, &what, filtered, asked, &style)
        }
        HistoryRequest::Tag { run, tag, remove } => {
            let mut store = writable(typed)?;
            let done = match remove {
                true => store.untag(&run, &tag),
                false => store.tag(&run, &tag).map(|()| true),
            };
            match done? {
                true => Ok(ExitCode::SUCCESS),
                false => Err(Failure::usage(format!("the run does not have the tag {tag}"))),
            }
        }
        HistoryRequest::Note { run, text } => {
            writable(typed)?.note(&run, &text)?;
            Ok(ExitCode::SUCCESS)
        }
        HistoryRequest::Accept { run } => accept(&mut writable(typed)?, &run, &style),
        HistoryRequest::Delete { runs } => {
            let deleted = existing(typed)?.delete(&runs)?;
            printed(&report::history::pruned(Pruned { deleted, kept: 0 }))
        }
        HistoryRequest::Prune { older, keep_tagged } => {
            let before = plimsoll_system::wall::time_before(older).to_string();
            let pruned = existing(typed)?.prune(&before, keep_tagged)?;
            printed(&report::history::pruned(pruned))
        }
        HistoryRequest::Import { files } => import_all(typed, &files),
    }
}

/// Accepts the level of the run `name`. Prints the run with which baselines start from now on.
fn accept(store: &mut Store, name: &str, style: &Style) -> Result<ExitCode, Failure> {
    let run = store.load(name)?;
    if run.measurements.iter().all(|made| made.effective_status().0 != Status::Ok) {
        return Err(Failure::usage(format!(
            "run {} has no figures to accept: none of its cases was measured; choose another run",
            shown_within(&run.id, 60)
        )));
    }
    let first = store.accept(&run)?;
    let first = store.load(&first)?;
    printed(&report::history::accepted(&first, style))
}

fn import_all(typed: &HistoryCommand, files: &[PathBuf]) -> Result<ExitCode, Failure> {
    let mut runs = Vec::new();
    for file in files {
        runs.extend(Run::read_all(file).map_err(Failure::usage)?);
    }
    let mut store = writable(typed)?;
    let mut entered = 0;
    for run in &runs {
        entered += usize::from(store.import(run)?);
    }
    let known = runs.len() - entered;
    let here = if known > 0 { format!(", {known} here already") } else { String::new() };
    printed(&format!("{entered} entered{here}\n"))
}

/// Prints the runs of this name, or, if it names cases or the results are `filtered`, the results
/// over time.
fn show(
    typed: &HistoryCommand,
    what: &str,
    filtered: bool,
    asked: impl Fn(Pattern) -> TrendQuery,
    style: &Style,
) -> Result<ExitCode, Failure> {
    let mut open = Open::new(typed.store.as_deref());
    open.open()?;
    let glob = what.contains(['*', '?', '[', '{', '/', '=']);
    let subsystem = what.split('.').next().unwrap_or_default();
    let benchmark = benchmarks().any(|known| known.name().split('.').next() == Some(subsystem));
    if !filtered && !glob && !benchmark {
        for run in open.runs(&[what.to_owned()])? {
            report::terminal::print(&run, std::io::stdout(), style).map_err(|e| lost(&e))?;
            let remarks = open.open()?.remarks_on(&run.id)?;
            printed(&report::history::remarks(&remarks, "", style))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let cases = Pattern::parse(what).map_err(Failure::usage)?;
    let query = asked(cases);
    let trends = open.open()?.trends(&query)?;
    if trends.is_empty() {
        known_names(what, &query, open.open()?)?;
    }
    printed(&report::trend::text(&trends, style))
}

/// Fails if a query without results names a benchmark, metric or machine that does not exist.
fn known_names(what: &str, query: &TrendQuery, store: &Store) -> Result<(), Failure> {
    let mut named = benchmarks().filter(|benchmark| query.cases.may_match(benchmark.name())).peekable();
    let what = shown_within(what, 60);
    if named.peek().is_none() {
        let near = plimsoll_bench::nearest_name(&what).map(|near| format!("; did you mean '{near}'?"));
        let near = near.unwrap_or_else(|| ": plimsoll history show RUN prints a run".to_owned());
        return Err(Failure::usage(format!("no benchmark '{what}'{near}")));
    }
    let mut metrics: Vec<&str> = named.flat_map(|one| one.all_metrics()).map(|metric| metric.name).collect();
    metrics.dedup();
    if let Some(metric) = query.metric.as_ref().filter(|metric| !metrics.contains(&metric.as_str())) {
        let why =
            format!("--metric '{}' is not one of {what}: {}", shown_within(metric, 60), metrics.join(", "));
        return Err(Failure::usage(why));
    }
    let Some(machine) = &query.machine else { return Ok(()) };
    let hosts: BTreeSet<String> = store.list()?.into_iter().filter_map(|run| run.host).collect();
    match hosts.contains(machine) || machine.chars().all(|c| c.is_ascii_hexdigit()) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "--machine '{}' has no stored run: the machines are {}",
            shown_within(machine, 60),
            shown_within(&hosts.into_iter().collect::<Vec<_>>().join(", "), 200)
        ))),
    }
}

fn existing(typed: &HistoryCommand) -> Result<Store, Failure> {
    Open::new(typed.store.as_deref()).open()?;
    writable(typed)
}

fn writable(typed: &HistoryCommand) -> Result<Store, Failure> {
    Ok(Store::open(&needed_location(typed.store.as_deref())?, Registry::here())?)
}
