//! `plimsoll check`: compares results of other tools, or of stored runs, with a machine's limits.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_check::{CheckDocument, Checked, CheckedMachine, UnreadResult};
use plimsoll_command::cli::CheckCommand;
use plimsoll_machine::{Machine, Root, saved};
use plimsoll_output::report::target::OutputTarget;
use plimsoll_output::report::{self, Style, StyleOptions};
use plimsoll_reference::Stated;
use plimsoll_result::document::Run;
use plimsoll_units::text::shown_path;

use super::{Failure, code, plans, printed, target};
use crate::failure::OrFailure;

pub(super) fn check(typed: &CheckCommand) -> Result<ExitCode, Failure> {
    if typed.files.iter().filter(|file| is_stdin(file)).count() > 1 {
        return Err(Failure::usage("- may be given once: stdin can be read only once"));
    }
    super::refuse_overwriting_input(typed.files.iter().map(PathBuf::as_path), [("--json", &typed.json)])?;
    super::refuse_replacing(typed.json.as_deref(), "{\n  \"schema\": \"plimsoll.check/", "a check document")?;
    let to_json = typed.json.as_deref().map(target).transpose()?;
    let root = typed.machine.as_deref().map_or_else(|| Ok(Root::live()), saved::open);
    let root = root.map_err(|e| Failure::usage(format!("--machine {e}")))?;
    let machine = Machine::discover(&root);
    let limits = plans::typed_limits(typed.limits.as_deref())?;
    let place =
        CheckedMachine { machine: &machine, root: &root, is_named: typed.machine.is_some(), limits: &limits };
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    for file in &typed.files {
        for result in results(file, typed, &place) {
            match result {
                Ok(checked) => files.push(checked),
                Err(why) => unread.push(why),
            }
        }
    }
    if files.is_empty()
        && let [only] = unread.as_slice()
    {
        return Err(Failure::usage(unread_line(only)));
    }
    if let Some(to) = &to_json {
        let document = CheckDocument::new(&machine, &files, &unread);
        to.put(&(serde_json::to_string_pretty(&document).or_environment()? + "\n"))?;
    }
    if !to_json.as_ref().is_some_and(OutputTarget::is_stdout) {
        let style = Style::detect(StyleOptions::default());
        printed(&report::check::text(&files, &style))?;
    }
    for unread in &unread {
        crate::output::complain(&unread_line(unread));
    }
    if !unread.is_empty() {
        return Ok(ExitCode::from(code::USAGE));
    }
    Ok(ExitCode::from(if files.iter().all(Checked::passes) { 0 } else { code::VERDICT }))
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Checks each result in `file` (`-`: stdin), in order, against the limits of the machine `place`.
fn results(
    file: &Path,
    typed: &CheckCommand,
    place: &CheckedMachine<'_>,
) -> Vec<Result<Checked, UnreadResult>> {
    let name = if is_stdin(file) { "stdin".to_owned() } else { shown_path(file) };
    let text = match plimsoll_check::contents(file, io::stdin().lock()) {
        Ok(text) => text,
        Err(why) => return vec![Err(UnreadResult { file: name, document: None, why })],
    };
    if typed.format.is_none() && is_of_plimsoll(&text) {
        let judged = |document, run: Run| {
            plimsoll_check::check_measurements(&name, document, &run.version, &run.measurements)
        };
        return numbered(&name, Run::parse_all(&text).collect(), judged);
    }
    let judged = |document, stated: Stated| plimsoll_check::check(&name, document, &stated, place);
    numbered(&name, plimsoll_reference::read_all(&text, typed.format.as_deref()), judged)
}

fn is_of_plimsoll(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.lines().take(3).any(|line| line.contains("\"plimsoll.run/"))
}

/// Calls `judged` for each result with its number from 1, or `None` if there is only one.
fn numbered<T>(
    file: &str,
    results: Vec<Result<T, String>>,
    judged: impl Fn(Option<usize>, T) -> Checked,
) -> Vec<Result<Checked, UnreadResult>> {
    let several = results.len() > 1;
    let one = |(index, result): (usize, Result<T, String>)| {
        let document = several.then_some(index + 1);
        match result {
            Ok(result) => Ok(judged(document, result)),
            Err(why) => Err(UnreadResult { file: file.to_owned(), document, why }),
        }
    };
    results.into_iter().enumerate().map(one).collect()
}

fn unread_line(unread: &UnreadResult) -> String {
    let job = "a job file is no result: plimsoll plan check FILE.fio checks it, and fio --output-format=json writes a result";
    let why = if unread.file.ends_with(".fio") { job } else { &unread.why };
    let hint = "; name a file that a tool wrote, such as fio.json";
    let more = if why.starts_with("No such file") { hint } else { "" };
    format!("cannot check {}: {why}{more}", report::check::title(&unread.file, unread.document))
}
