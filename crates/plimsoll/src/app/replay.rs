//! `plimsoll report`: shows stored runs as text, as a page, or in tables of a published report.

use std::io;
use std::process::ExitCode;

use plimsoll_command::cli::ReportCommand;
use plimsoll_output::report::format::{FormatSubject, writer};
use plimsoll_output::report::{Style, StyleOptions, card, html, published as tables, terminal};
use plimsoll_result::document::Run;
use plimsoll_units::text::shown;

use super::named_runs::{LazyHistory, files};
use super::{Failure, code, ending, lost, target};
use crate::failure::OrFailure;

pub(super) fn report(typed: &ReportCommand) -> Result<ExitCode, Failure> {
    let write = writer(&typed.format, FormatSubject::Tables, |format| format.tables).or_usage()?;
    let mut history = LazyHistory::new(typed.store.as_deref());
    super::refuse_overwriting_input(files(&typed.runs), [("--html", &typed.html)])?;
    let target = typed.html.as_deref().map(target).transpose()?;
    let runs = history.runs(&typed.runs)?;
    let before = runs.first().and_then(|run| history.before(run, 1).ok()?.0.pop());
    let runs: Vec<Run> =
        runs.iter().map(|run| super::shareable(run, typed.redact)).collect::<Result<_, _>>()?;
    if typed.tables.is_some() {
        runs.iter().try_for_each(replays)?;
    }
    match (target, &typed.tables) {
        (Some(target), _) => {
            let references: Vec<_> = before.iter().flat_map(html::last_run).collect();
            target.put(&html::page(&runs, &references).or_environment()?)?;
        }
        (None, Some(_)) => {
            let text = write(&tables::replays(&runs), &Style::detect(StyleOptions::default()));
            super::printed(&text.map_err(|e| lost(&e))?)?;
        }
        (None, None) if typed.card => {
            let style = Style::detect(StyleOptions { no_color: true, ..StyleOptions::default() });
            let cards = runs.iter().map(|run| card::card(run, &style)).collect::<io::Result<Vec<String>>>();
            super::printed(&cards.or_environment()?.join("\n"))?;
        }
        (None, None) => {
            let style = Style::detect(StyleOptions { explain: typed.explain, ..StyleOptions::default() });
            runs.iter().try_for_each(|run| super::printed(&terminal::text(run, &style)).map(drop))?;
        }
    }
    let wrong = runs.iter().any(ending::has_wrong_answer);
    Ok(ExitCode::from(if wrong { code::VERDICT } else { 0 }))
}

fn replays(run: &Run) -> Result<(), Failure> {
    let (id, plan, names) = (&run.id, shown(&run.plan.name), plimsoll_published::names().join(", "));
    let why = format!(
        "--tables published requires a run of a published plan ({names}): run {id} is of plan {plan}"
    );
    plimsoll_published::find(&run.plan.name).map(drop).ok_or_else(|| Failure::usage(why))
}
