//! `plimsoll export`: a stored run for other programs.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use super::named_runs::History;
use super::{Failure, code, complain, target, unwritten};
use crate::cli::Export;
use crate::report::format::{OneRun, Subject, find, left_out, writer};
use crate::report::target::Target;
use crate::report::{Style, Wishes};

/// The value of `--table` for rows of reference tools.
const TOOLS: &str = "tools";

/// Columns of tables that are written to a file.
const FILE_WIDTH: usize = 120;

/// Writes the runs to stdout, or to a file.
///
/// # Errors
/// A run that is not there, or a place that cannot be written.
pub(super) fn export(typed: &Export) -> Result<ExitCode, Failure> {
    let write = match typed.table.as_str() {
        TOOLS => writer(&typed.format, Subject::Tools, |format| format.tools),
        _ => writer(&typed.format, Subject::Run, |format| format.run),
    };
    let write = write.map_err(|e| Failure::usage(e.to_string()))?;
    let requirements = super::compare::requirements(&typed.require)?;
    let target = typed.output.as_deref().map(target).transpose()?;
    let mut history = History::new(typed.store.as_deref());
    let runs = history.runs(std::slice::from_ref(&typed.run))?;
    let [run] = runs.as_slice() else {
        return Err(Failure::usage(format!("{} runs bear this tag; name one by its id", runs.len())));
    };
    let mut held = super::compare::required(&requirements, run, &mut history)?;
    if typed.redact {
        run.redact(
            held.iter_mut().flat_map(|h| [&mut h.requirement, &mut h.found].into_iter().chain(&mut h.case)),
        );
    }
    let run = &super::shareable(run, typed.redact)?;
    let style = match target {
        Some(_) => Style::plain(FILE_WIDTH),
        None => Style::detect(Wishes::default()),
    };
    let mut text = Vec::new();
    // In rows of tools there is none of a case without.
    let format = find(&typed.format).filter(|_| typed.table != TOOLS);
    format.and_then(|format| left_out(format, run)).iter().for_each(|line| complain(line));
    let made = write(&OneRun { run, held: &held, style: &style }, &mut text);
    made.map_err(|e| Failure::environment(e.to_string()))?;
    put(target, &text)?;
    let unmet = held.iter().any(|h| !h.met);
    Ok(ExitCode::from(if unmet { code::VERDICT } else { 0 }))
}

/// Writes it to the file, or to stdout; a reader that has gone is no failure.
fn put(target: Option<Target>, text: &[u8]) -> Result<(), Failure> {
    let Some(target) = target else {
        let mut out = BufWriter::new(io::stdout().lock());
        return match out.write_all(text).and_then(|()| out.flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::environment(format!("cannot write to stdout: {e}")))
            }
            _ => Ok(()),
        };
    };
    let text = std::str::from_utf8(text).map_err(|e| Failure::environment(e.to_string()))?;
    target.put(text).map_err(|e| unwritten(&e))
}
