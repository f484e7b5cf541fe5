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
use super::{Failure, printed};

pub(super) fn history(typed: &HistoryCommand) -> Result<ExitCode, Failure> {
    let style = Style::detect(StyleOptions::default());
    let mut open = Open::new(typed.store.as_deref());
    match typed.what.clone().unwrap_or(HistoryRequest::List) {
        HistoryRequest::List => printed(&report::history::text(&open.open()?.list()?, &style)),
        HistoryRequest::Show { what, explain, since, metric, machine } => {
            let style = Style { explain, ..style };
            open.open()?;
            let filtered = since.is_some() || metric.is_some() || machine.is_some();
            if !filtered && !names_cases(&what) {
                return show_runs(&mut open, what, &style);
            }
            let since = since.map(|age| plimsoll_system::wall::time_before(age).to_string());
            let cases = Pattern::parse(&what).map_err(Failure::usage)?;
            let query = TrendQuery { cases, metric, all: false, since, machine };
            let trends = open.open()?.trends(&query)?;
            if trends.is_empty() {
                known_names(&what, &query, open.open()?)?;
            }
            printed(&report::trend::text(&trends, &style))
        }
        HistoryRequest::Tag { run, tag, remove } => {
            let mut store = writable(typed)?;
            let done = if remove { store.untag(&run, &tag) } else { store.tag(&run, &tag).map(|()| true) };
            match done? {
                true => Ok(ExitCode::SUCCESS),
                false => Err(Failure::usage(format!("the run does not have the tag {tag}"))),
            }
        }
        HistoryRequest::Note { run, text } => {
            writable(typed)?.note(&run, &text).map(|()| ExitCode::SUCCESS).map_err(Failure::from)
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

/// Accepts the results of the run `name` as normal. Prints the run from which baselines start now.
fn accept(store: &mut Store, name: &str, style: &Style) -> Result<ExitCode, Failure> {
    let run = store.load(name)?;
    if run.measurements.iter().all(|made| made.effective_status().0 != Status::Ok) {
        return Err(Failure::usage(format!(
            "run {} has no figures to accept: none of its cases was measured; choose another run",
            shown_within(&run.id, 60)
        )));
    }
    let first = store.accept(&run)?;
    printed(&report::history::accepted(&store.load(&first)?, style))
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

/// Returns whether `what` names cases (`disk.io/*`) or benchmarks (`cpu`, `cpu.peak`), not a run.
fn names_cases(what: &str) -> bool {
    let subsystem = what.split('.').next().unwrap_or_default();
    what.contains(['*', '?', '[', '{', '/', '='])
        || benchmarks().any(|known| known.name().split('.').next() == Some(subsystem))
}

fn show_runs(open: &mut Open<'_>, name: String, style: &Style) -> Result<ExitCode, Failure> {
    for run in open.runs(&[name])? {
        printed(&report::terminal::text(&run, style))?;
        let remarks = open.open()?.remarks_on(&run.id)?;
        printed(&report::history::remarks(&remarks, "", style))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if `what`, the metric or the machine of `query`, which found nothing, is an unknown name.
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
        let (metric, known) = (shown_within(metric, 60), metrics.join(", "));
        return Err(Failure::usage(format!("--metric '{metric}' is not one of {what}: {known}")));
    }
    let Some(machine) = &query.machine else { return Ok(()) };
    let hosts: BTreeSet<String> = store.list()?.into_iter().filter_map(|run| run.host).collect();
    if hosts.contains(machine) || machine.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(());
    }
    let machine = shown_within(machine, 60);
    let hosts = shown_within(&hosts.into_iter().collect::<Vec<_>>().join(", "), 200);
    Err(Failure::usage(format!("--machine '{machine}' has no stored run: the machines are {hosts}")))
}

fn existing(typed: &HistoryCommand) -> Result<Store, Failure> {
    Open::new(typed.store.as_deref()).open()?;
    writable(typed)
}

fn writable(typed: &HistoryCommand) -> Result<Store, Failure> {
    Ok(Store::open(&needed_location(typed.store.as_deref())?, Registry::here())?)
}
