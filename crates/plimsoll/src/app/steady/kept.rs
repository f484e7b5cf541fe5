//! Verdicts in the history: `steady/last.json`, and one file for each name of `--save`.

use std::path::Path;

use plimsoll_command::cli::SteadyCommand;
use plimsoll_history::Location;
use plimsoll_steady::{STEADY_SCHEMA, SteadyDocument};
use plimsoll_units::text::{read_small, shown_within};

use super::super::{Failure, target};
use crate::failure::OrFailure;
use crate::output;

/// Largest document of a baseline in bytes.
const MAX_BASELINE_BYTES: u64 = 64 << 20;

/// Returns the location of the history. Fails if `--store` is `none`, as `option` needs a history.
pub(super) fn history(typed: &SteadyCommand, option: &str) -> Result<Location, Failure> {
    output::location(typed.store.as_deref())?
        .ok_or_else(|| Failure::usage(format!("{option} requires a history: --store none has none")))
}

/// Reads the verdict that `--baseline` names. Returns it with this name; `None` without the option.
pub(super) fn baseline(typed: &SteadyCommand) -> Result<Option<(String, SteadyDocument)>, Failure> {
    let Some(name) = &typed.baseline else { return Ok(None) };
    let path = match Path::new(name) {
        file if file.is_file() => file.to_owned(),
        _ => {
            let location = history(typed, &format!("--baseline {name}"))?;
            location.directory().join("steady").join(format!("{}.json", plimsoll_units::text::shown(name)))
        }
    };
    let shown = shown_within(name, 80);
    let wrong = |why: String| {
        Failure::usage(format!(
            "--baseline must be last, a name of plimsoll steady --save, or a document of --format json: {shown}: {why}"
        ))
    };
    let text = read_small(&path, MAX_BASELINE_BYTES).map_err(wrong)?;
    let document: SteadyDocument = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    if document.schema != STEADY_SCHEMA {
        return Err(wrong(format!("it is not {STEADY_SCHEMA}")));
    }
    Ok(Some((shown, document)))
}

/// Writes `document` without its intervals into the history, as `last` and by the name of `--save`.
pub(super) fn keep(typed: &SteadyCommand, document: &SteadyDocument) -> Result<(), Failure> {
    let location = match history(typed, "--save") {
        Err(_) if typed.save.is_none() => return Ok(()),
        location => location?,
    };
    let mut kept = document.clone();
    kept.runs.iter_mut().for_each(|run| run.intervals.clear());
    let text = serde_json::to_string_pretty(&kept).or_environment()?;
    let write = |name: &str| -> Result<(), Failure> {
        let directory = location.file_path("steady")?;
        std::fs::create_dir_all(&directory)
            .map_err(|e| Failure::environment(format!("cannot create {}: {e}", directory.display())))?;
        Ok(target(&directory.join(format!("{name}.json")))?.put(&text)?)
    };
    match &typed.save {
        Some(name) => write("last").and_then(|()| write(name)),
        // The file of the observation is removed next.
        None if typed.stop.is_some() => write("last"),
        None => write("last").or_else(|failure| {
            output::complain(&format!("the verdict is not kept: {}", failure.line));
            Ok(())
        }),
    }
}
