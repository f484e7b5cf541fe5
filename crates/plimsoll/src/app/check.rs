//! `plimsoll check`: results of other tools, held to the limits of this machine or of a saved one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{Failure, code, printed, target, unwritten};
use crate::check::{self, Checked, Document, Place};
use crate::cli::Check;
use crate::machine::{Machine, Root, saved};
use crate::peer::stated;
use crate::report::target::Target;
use crate::report::{self, Style, Wishes};
use crate::text::shown_bytes;

/// Reads the files, and prints or writes what is to be said of their figures.
///
/// # Errors
/// A file cannot be read or written, or no tool wrote it.
pub(super) fn check(typed: &Check) -> Result<ExitCode, Failure> {
    if typed.files.iter().filter(|file| is_stdin(file)).count() > 1 {
        return Err(Failure::usage("- may be given once: stdin can be read only once"));
    }
    super::kept_apart(typed.files.iter().map(PathBuf::as_path), [("--json", &typed.json)])?;
    let to_json = typed.json.as_deref().map(target).transpose()?;
    let opened = typed.machine.as_deref().map(saved::Opened::at).transpose();
    let opened = opened.map_err(|e| Failure::usage(format!("--machine {e}")))?;
    let root = opened.as_ref().map_or_else(Root::live, saved::Opened::root);
    let machine = Machine::discover(&root);
    let place = Place { machine: &machine, root: &root, is_named: typed.machine.is_some() };
    let files: Vec<Checked> =
        typed.files.iter().map(|file| one(file, typed, &place)).collect::<Result<_, _>>()?;
    if let Some(to) = &to_json {
        let written = to.fill(|out| write(&files, &machine, out));
        written.map_err(|e| unwritten(&e))?;
    }
    if !to_json.as_ref().is_some_and(Target::is_stdout) {
        let style = Style::detect(Wishes::default());
        printed(&report::check::text(&files, &style))?;
    }
    let passes = files.iter().all(Checked::passes);
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::from(code::VERDICT) })
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn one(file: &Path, typed: &Check, place: &Place<'_>) -> Result<Checked, Failure> {
    let name = match is_stdin(file) {
        true => "stdin".to_owned(),
        false => shown_bytes(file.as_os_str().as_encoded_bytes()),
    };
    let wrong = |why: String| Failure::usage(format!("cannot check {name}: {why}"));
    let text = check::contents(file, io::stdin().lock()).map_err(wrong)?;
    let stated = stated::read(&text, typed.format.as_deref()).map_err(wrong)?;
    Ok(check::check(&name, &stated, place))
}

fn write(files: &[Checked], machine: &Machine, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, &Document::of(machine, files))?;
    out.write_all(b"\n")?;
    out.flush()
}
