//! `plimsoll export`: writes a stored run in other formats.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_command::cli::Export;
use plimsoll_output::report::format::{FormatSubject, OneRun, RunsWriter, find, left_out, writer};
use plimsoll_output::report::target::OutputTarget;
use plimsoll_output::report::{Style, StyleOptions};
use plimsoll_result::document::Run;

use super::named_runs::{LazyHistory, files};
use super::{Failure, code, complain, ending, target};
use crate::failure::OrFailure;

const TOOLS: &str = "tools";

const FILE_WIDTH: usize = 120;

pub(super) fn export(typed: &Export) -> Result<ExitCode, Failure> {
    let write = match typed.table.as_str() {
        TOOLS => writer(&typed.format, FormatSubject::Tools, |format| format.tools),
        _ => writer(&typed.format, FormatSubject::Run, |format| format.run),
    }
    .or_usage()?;
    let requirements = super::compare::requirements(&typed.require)?;
    super::refuse_overwriting_input(files([&typed.run]), [("--output", &typed.output)])?;
    let target = target(typed.output.as_deref().unwrap_or(Path::new("-")))?;
    let mut history = LazyHistory::new(typed.store.as_deref());
    let runs = history.runs(std::slice::from_ref(&typed.run))?;
    let together = find(&typed.format).and_then(|format| format.runs);
    if let (Some(write), [_, _, ..]) = (together, runs.as_slice()) {
        return several(typed, write, &runs, &target);
    }
    let [run] = runs.as_slice() else {
        return Err(Failure::usage(format!("{} runs have this tag: name one by its id", runs.len())));
    };
    super::compare::check_units(&requirements, [run])?;
    let mut held = super::compare::check_after_run(&requirements, run, &mut history)?;
    if typed.redact {
        run.redact(
            held.iter_mut().flat_map(|h| [&mut h.requirement, &mut h.found].into_iter().chain(&mut h.case)),
        );
    }
    let run = &super::shareable(run, typed.redact)?;
    let style =
        if target.is_stdout() { Style::detect(StyleOptions::default()) } else { Style::plain(FILE_WIDTH) };
    let text = write(&OneRun { run, held: &held, style: &style }).map_err(|e| unmade(&e))?;
    let format = find(&typed.format).filter(|_| typed.table != TOOLS);
    format.and_then(|format| left_out(format, run)).iter().for_each(|line| complain(line));
    target.put(&text)?;
    let is_judged = !requirements.is_empty();
    let unmet = held.iter().any(|h| !h.met) || is_judged && ending::has_wrong_answer(run);
    Ok(ExitCode::from(if unmet { code::VERDICT } else { 0 }))
}

fn several(
    typed: &Export,
    write: RunsWriter,
    runs: &[Run],
    target: &OutputTarget,
) -> Result<ExitCode, Failure> {
    if !typed.require.is_empty() {
        let why = "--require is not supported on a tag of several runs: name one by its id";
        return Err(Failure::usage(why));
    }
    let runs: Vec<Run> =
        runs.iter().map(|run| super::shareable(run, typed.redact)).collect::<Result<_, _>>()?;
    let text = write(&runs).map_err(|e| unmade(&e))?;
    find(&typed.format).and_then(|format| (format.not_in_all)(&runs)).iter().for_each(|line| complain(line));
    target.put(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn unmade(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::InvalidInput => Failure::usage(error.to_string()),
        _ => Failure::environment(error.to_string()),
    }
}
