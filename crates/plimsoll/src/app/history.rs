//! `plimsoll history`: lists, shows, tags, annotates, imports and deletes runs.

use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_bench::benchmarks;
use plimsoll_command::cli::{HistoryCommand, HistoryRequest};
use plimsoll_history::{Pruned, Store, StoreError};
use plimsoll_model::case::Pattern;
use plimsoll_model::measurement::Status;
use plimsoll_output::report::{self, Style, StyleOptions};
use plimsoll_result::document::Run;
use plimsoll_system::leftover::Registry;

use super::named_runs::LazyHistory as Open;
use super::{Failure, printed, store_failure};
use crate::output;

pub(super) fn history(typed: &HistoryCommand) -> Result<ExitCode, Failure> {
    let style = Style::detect(StyleOptions::default());
    match typed.asked() {
        HistoryRequest::List => {
            let mut open = Open::new(typed.store.as_deref());
            let lines = open.open()?.list().map_err(|e| store_failure(&e))?;
            let written = report::history::list(&lines, std::io::stdout(), &style);
            written
                .map(|()| ExitCode::SUCCESS)
                .map_err(|e| Failure::environment(format!("cannot write to stdout: {e}")))
        }
        HistoryRequest::Show { what, explain, since, metric, machine } => {
            let style = Style { explain, ..style };
            let began = since.map(|age| plimsoll_system::wall::time_before(age).to_string());
            let asked = |cases| plimsoll_history::TrendQuery {
                cases,
                metric: metric.clone(),
                all: false,
                since: began.clone(),
                machine: machine.clone(),
            };
            let filtered = since.is_some() || metric.is_some() || machine.is_some();
            show(typed, &what, if filtered { WantedRuns::Figures } else { WantedRuns::Either }, asked, &style)
        }
        HistoryRequest::Tag { run, tag, remove } => {
            let mut store = writable(typed)?;
            let done = match remove {
                true => store.untag(&run, &tag),
                false => store.tag(&run, &tag).map(|()| true),
            };
            match done.map_err(|e| store_failure(&e))? {
                true => Ok(ExitCode::SUCCESS),
                false => Err(Failure::usage(format!("the run does not have the tag {tag}"))),
            }
        }
        HistoryRequest::Note { run, text } => {
            writable(typed)?.note(&run, &text).map_err(|e| store_failure(&e))?;
            Ok(ExitCode::SUCCESS)
        }
        HistoryRequest::Accept { run } => accept(&mut writable(typed)?, &run, &style),
        HistoryRequest::Delete { runs } => {
            let deleted = existing(typed)?.delete(&runs).map_err(|e| store_failure(&e))?;
            printed(&report::history::pruned(Pruned { deleted, kept: 0 }))
        }
        HistoryRequest::Prune { older, keep_tagged } => {
            let before = plimsoll_system::wall::time_before(older).to_string();
            let pruned = existing(typed)?.prune(&before, keep_tagged).map_err(|e| store_failure(&e))?;
            printed(&report::history::pruned(pruned))
        }
        HistoryRequest::Import { files } => import_all(typed, &files),
    }
}

/// Accepts the level of the run `name`. Prints the run with which baselines start from now on.
fn accept(store: &mut Store, name: &str, style: &Style) -> Result<ExitCode, Failure> {
    let run = store.load(name).map_err(|e| store_failure(&e))?;
    if run.measurements.iter().all(|made| made.effective_status().0 != Status::Ok) {
        return Err(Failure::usage(format!(
            "run {} has no figures to accept: none of its cases was measured; choose another run",
            plimsoll_units::text::shown_within(&run.id, 60)
        )));
    }
    let first = store.accept(&run).map_err(|e| store_failure(&e))?;
    let first = store.load(&first).map_err(|e| store_failure(&e))?;
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
        entered += usize::from(import(&mut store, run)?);
    }
    let known = runs.len() - entered;
    let here = if known > 0 { format!(", {known} here already") } else { String::new() };
    printed(&format!("{entered} entered{here}\n"))
}

fn import(store: &mut Store, run: &Run) -> Result<bool, Failure> {
    store.import(run).map_err(|e| store_failure(&e))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedRuns {
    /// A run if there is one of this name, else results over time.
    Either,
    /// Results over time.
    Figures,
}

fn show(
    typed: &HistoryCommand,
    what: &str,
    wanted: WantedRuns,
    asked: impl Fn(Pattern) -> plimsoll_history::TrendQuery,
    style: &Style,
) -> Result<ExitCode, Failure> {
    let mut open = Open::new(typed.store.as_deref());
    open.open()?;
    let names = [what.to_owned()];
    let glob = what.contains(['*', '?', '[', '{', '/', '=']);
    let subsystem = what.split('.').next().unwrap_or_default();
    let benchmark = benchmarks().any(|known| known.name().split('.').next() == Some(subsystem));
    if wanted == WantedRuns::Either && !glob && !benchmark {
        for run in open.runs(&names)? {
            let written = report::terminal::print(&run, std::io::stdout(), style);
            written.map_err(|e| Failure::environment(format!("cannot write to stdout: {e}")))?;
            let remarks = open.open()?.remarks_on(&run.id).map_err(|e| store_failure(&e))?;
            printed(&report::history::remarks(&remarks, "", style))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let cases = Pattern::parse(what).map_err(Failure::usage)?;
    let trends = open.open()?.trends(&asked(cases)).map_err(|e| store_failure(&e))?;
    printed(&report::trend::text(&trends, style))
}

fn existing(typed: &HistoryCommand) -> Result<Store, Failure> {
    Open::new(typed.store.as_deref()).open()?;
    writable(typed)
}

fn writable(typed: &HistoryCommand) -> Result<Store, Failure> {
    let failed = |e: StoreError| store_failure(&e);
    let location = output::location(typed.store.as_deref()).map_err(failed)?;
    let location = location
        .ok_or_else(|| Failure::usage("--store none is not supported on this command: it needs a history"))?;
    Store::open(&location, Registry::here()).map_err(failed)
}
