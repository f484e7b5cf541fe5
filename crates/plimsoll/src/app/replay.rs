//! `plimsoll report`: stored runs again, or in the tables of the report that their plan replays.

use std::path::Path;
use std::process::ExitCode;

use super::{Failure, store_failure};
use crate::document::Run;
use crate::output;
use crate::published::{self, Baseline};
use crate::report::{Style, Wishes, published as tables, terminal};
use crate::store::Store;

/// Prints the runs.
///
/// # Errors
/// There is no such run, or no report that it replays.
pub(super) fn print(runs: &[String], published: bool, store: Option<&Path>) -> Result<ExitCode, Failure> {
    let location = output::location(store).map_err(|e| store_failure(&e))?;
    let location = location.ok_or_else(|| Failure::usage("report: --store none names no history"))?;
    let store = Store::read(&location).map_err(|e| store_failure(&e))?;
    let style = Style::detect(Wishes::default());
    for wanted in runs {
        let run = store.load(wanted).map_err(|e| store_failure(&e))?;
        let out = std::io::stdout();
        let written = match published {
            true => tables::print(&replayed(&run)?, &run, out, &style),
            false => terminal::print(&run, out, &style),
        };
        written.map_err(|e| Failure::environment(format!("cannot write to stdout: {e}")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The report that the run's plan replays.
fn replayed(run: &Run) -> Result<Baseline, Failure> {
    published::find(&run.plan.name).ok_or_else(|| {
        Failure::usage(format!(
            "report: run {} is of plan {}, which replays no published report; those that do are {}",
            run.id,
            crate::text::shown(&run.plan.name),
            published::names().join(", ")
        ))
    })
}
