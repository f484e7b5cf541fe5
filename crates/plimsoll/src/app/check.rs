//! `plimsoll check`: results of other tools, held to the limits of this machine or of a saved one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{Failure, code, printed, target, unwritten};
use crate::check::{self, Checked, Document, Place, Unread};
use crate::cli::Check;
use crate::machine::{Machine, Root, saved};
use crate::peer::{self, Stated};
use crate::report::target::Target;
use crate::report::{self, Style, Wishes};
use crate::text::shown_bytes;

/// Reads the files, and prints or writes what is to be said of their figures.
///
/// # Errors
/// The only file cannot be read, or no tool wrote it; the machine cannot be read, or the document not be written.
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
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    for file in &typed.files {
        for result in results(file, typed) {
            match result.stated {
                Ok(stated) => files.push(check::check(&result.file, result.document, &stated, &place)),
                Err(why) => unread.push(Unread { file: result.file, document: result.document, why }),
            }
        }
    }
    if files.is_empty()
        && let [only] = unread.as_slice()
    {
        return Err(Failure::usage(unread_line(only)));
    }
    if let Some(to) = &to_json {
        let written = to.fill(|out| write(&Document::new(&machine, &files, &unread), out));
        written.map_err(|e| unwritten(&e))?;
    }
    if !to_json.as_ref().is_some_and(Target::is_stdout) {
        let style = Style::detect(Wishes::default());
        printed(&report::check::text(&files, &style))?;
    }
    for unread in &unread {
        crate::output::complain(&unread_line(unread));
    }
    if !unread.is_empty() {
        return Ok(ExitCode::from(code::USAGE));
    }
    let passes = files.iter().all(Checked::passes);
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::from(code::VERDICT) })
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// A result in a file, or why it cannot be read.
struct Found {
    file: String,
    document: Option<usize>,
    stated: Result<Stated, String>,
}

fn results(file: &Path, typed: &Check) -> Vec<Found> {
    let name = match is_stdin(file) {
        true => "stdin".to_owned(),
        false => shown_bytes(file.as_os_str().as_encoded_bytes()),
    };
    let stated = match check::contents(file, io::stdin().lock()) {
        Ok(text) => peer::read_all(&text, typed.format.as_deref()),
        Err(why) => vec![Err(why)],
    };
    let several = stated.len() > 1;
    let found = stated.into_iter().enumerate().map(|(index, stated)| Found {
        file: name.clone(),
        document: several.then_some(index + 1),
        stated,
    });
    found.collect()
}

fn unread_line(unread: &Unread) -> String {
    format!("cannot check {}: {}", report::check::title(&unread.file, unread.document), unread.why)
}

fn write(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, document)?;
    out.write_all(b"\n")?;
    out.flush()
}
