//! `plimsoll export`: a stored run for other programs.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use super::sides::History;
use super::{Failure, code, target, unwritten};
use crate::cli::Export;
use crate::report::tidy::Rows;
use crate::report::{json, junit, markdown, openmetrics, tidy};

/// Writes the runs to stdout, or to a file.
///
/// # Errors
/// A run that is not there, or a place that cannot be written.
pub(super) fn export(typed: &Export) -> Result<ExitCode, Failure> {
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
    let rows = if typed.table == "tools" { Rows::Tools } else { Rows::Samples };
    let mut text = Vec::new();
    let made = match typed.format.as_str() {
        "csv" => tidy::csv(run, rows, &mut text),
        "ndjson" => tidy::ndjson(run, rows, &mut text),
        _ if rows == Rows::Tools => {
            return Err(Failure::usage(
                "--table is for --format csv and ndjson; markdown and json have both",
            ));
        }
        "markdown" => text.write_all(markdown::run(run).as_bytes()),
        "openmetrics" => text.write_all(openmetrics::text(run).as_bytes()),
        "junit" => text.write_all(junit::text(run, &held).as_bytes()),
        _ => json::write(run, &mut text),
    };
    made.map_err(|e| Failure::environment(e.to_string()))?;
    match target {
        Some(target) => {
            let text = String::from_utf8(text).map_err(|e| Failure::environment(e.to_string()))?;
            target.put(&text).map_err(|e| unwritten(&e))?;
        }
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            match out.write_all(&text).and_then(|()| out.flush()) {
                Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                    return Err(Failure::environment(format!("cannot write to stdout: {e}")));
                }
                _ => {}
            }
        }
    }
    let unmet = held.iter().any(|h| !h.met);
    Ok(ExitCode::from(if unmet { code::VERDICT } else { 0 }))
}
