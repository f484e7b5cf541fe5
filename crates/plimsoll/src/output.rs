//! Outputs of a run: table, event lines, run document, history. One that fails is reported once.

use std::io::{self, IsTerminal, Stderr, Stdout, Write};
use std::path::{Path, PathBuf};

use crossbeam_channel::Receiver;

use plimsoll_command::cli::Common;
use plimsoll_history::{Location, Store, StoreError};
use plimsoll_model::measurement::Status;
use plimsoll_output::report::target::{
    LAST_PATIENCE, OutputTarget, UnwritableTarget, Waits, is_stdout, open_incremental,
};
use plimsoll_output::report::terminal::{self, Live, RunPlace, SHORT_ID};
use plimsoll_output::report::{Style, StyleOptions, html, json};
use plimsoll_result::document::{Node, Run, RunStatus};
use plimsoll_result::event::RunEvent;
use plimsoll_system::leftover::Registry;
use plimsoll_units::text::{format_count, shown_within};

use crate::failure::{Failure, unfit};

/// All outputs of one run.
pub struct Outputs {
    json: Option<OutputTarget>,
    html: Option<OutputTarget>,
    style: Style,
    table: Option<Live<Stdout, Stderr>>,
    events: Option<Box<dyn Write>>,
    history: Option<RunHistory>,
    complaints: Vec<String>,
    lost: bool,
    stdout_is_taken: bool,
    redact: bool,
    given_up: Option<Location>,
    ended: usize,
    /// Function that gets the number of ended cases whenever a case ends.
    pub on_ended: Option<Box<dyn Fn(usize)>>,
}

struct RunHistory {
    location: Location,
    store: Store,
    run: String,
}

/// Writes what `fill` produces, a document of `run`, to `target`. If `run` is partial, waits at
/// most [`LAST_PATIENCE`] for the reader of a FIFO, otherwise without limit.
fn filled(
    target: &OutputTarget,
    run: &Run,
    fill: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), UnwritableTarget> {
    target.fill((run.status == RunStatus::Partial).then_some(LAST_PATIENCE), fill)
}

impl Outputs {
    /// Opens the outputs and the history (stored runs) that `common` requests, so that a wrong path
    /// fails before the run. If only the default history cannot be opened, the run goes on without
    /// it and reports that. A message on `interrupts` ends a wait for a FIFO's reader.
    pub(crate) fn open(common: &Common, interrupts: &Receiver<()>) -> Result<Self, Failure> {
        let waits = &Waits { interrupts: interrupts.clone(), notify: complain, registry: Registry::here() };
        let mut complaints = Vec::new();
        let opened = location(common.store.as_deref()).and_then(|location| {
            let Some(location) = location else { return Ok(None) };
            let store = Store::open(&location, Registry::here())?;
            Ok(Some(RunHistory { location, store, run: String::new() }))
        });
        let (history, given_up) = match opened {
            Ok(opened) => (opened, None),
            // A default history that cannot be opened is handled like one that fails later.
            Err(e) if e.is_unusable_directory() && common.store.is_none() => {
                complaints.push(e.to_string());
                let usual = location(None).ok().flatten();
                (None, usual.filter(|_| !matches!(e, StoreError::NoDefaultDirectory)))
            }
            Err(e) => return Err(e.into()),
        };
        let target = |path: &Option<PathBuf>| {
            path.as_deref().map(|path| OutputTarget::new(path, waits).map_err(|e| unfit(&e))).transpose()
        };
        let (json, html) = (target(&common.json)?, target(&common.html)?);
        let events = common.events.as_deref().map(|path| open_incremental(path, waits)).transpose();
        let outputs = [&common.json, &common.html, &common.events];
        let Common { no_color, quiet, explain, .. } = *common;
        let style = Style::detect(StyleOptions { no_color, quiet, explain });
        Ok(Self {
            json,
            html,
            style,
            table: None,
            events: events.map_err(|e| unfit(&e))?,
            history,
            complaints,
            lost: given_up.is_some(),
            stdout_is_taken: outputs.into_iter().flatten().any(|path| is_stdout(path)),
            redact: common.redact,
            given_up,
            ended: 0,
            on_ended: None,
        })
    }

    /// Prints the table's head and the results that `run` has; adds `run` to the history, or, if
    /// `resumed`, continues it there.
    pub fn begin(&mut self, run: &Run, resumed: bool) {
        self.ended = run.measurements.len();
        self.complaints.drain(..).for_each(|complaint| complain(&complaint));
        if !self.stdout_is_taken {
            let mut table = Live::new(io::stdout(), io::stderr(), self.style.clone(), run);
            run.measurements.iter().for_each(|measurement| table.row(measurement));
            self.table = Some(table);
        }
        self.enter(run, resumed);
    }

    fn enter(&mut self, run: &Run, resumed: bool) {
        self.change_history(|history| {
            if std::mem::replace(&mut history.run, run.id.clone()) == run.id {
                return Ok(());
            }
            if resumed { history.store.resume(run) } else { history.store.begin(run) }
        });
    }

    /// Stores `part`, the run of `node` alone, in the history. `header` is the joint run without
    /// results, with its nodes so far; if `resumed`, the history has an earlier part.
    pub fn machine_ended(&mut self, header: &Run, resumed: bool, node: Node, part: &Run) {
        self.enter(header, resumed);
        self.change_history(|history| history.store.add_machine(header.elapsed_s, node, part));
    }

    /// Writes `event` to the table and as a line of `--events`, and a result also to the history.
    pub fn event(&mut self, event: &RunEvent) {
        if let RunEvent::Measured { .. } = event {
            self.ended += 1;
            self.on_ended.iter().for_each(|on_ended| on_ended(self.ended));
        }
        match (&mut self.table, event) {
            (Some(table), _) => table.event(event),
            (None, RunEvent::Measured { measurement }) => {
                // With a document or events on stdout there is no table for the warnings.
                let _ = io::stderr().write_all(terminal::warnings(measurement, &self.style).as_bytes());
            }
            (None, _) => {}
        }
        if let Some(lines) = &mut self.events {
            let written = serde_json::to_writer(&mut *lines, event).map_err(io::Error::from);
            if let Err(e) = written.and_then(|()| lines.write_all(b"\n")).and_then(|()| lines.flush()) {
                self.events = None;
                if e.kind() != io::ErrorKind::BrokenPipe {
                    self.lose(format!("--events: {e}; the rest of the events is lost"));
                }
            }
        }
        if let RunEvent::Measured { measurement } = event {
            self.change_history(|history| history.store.add(std::slice::from_ref(measurement)));
        }
    }

    /// Writes all that is due at the end of `run`. Returns false if any output was not written.
    pub fn finish(&mut self, run: &Run) -> bool {
        self.change_history(|history| history.store.finish(run));
        self.spool(run);
        let page = self.html.as_ref().filter(|target| !target.is_stdout());
        let page = page.map(|target| target.path().to_owned()).or_else(|| self.own_page(run));
        self.documents(run).into_iter().for_each(|e| self.lose(e));
        let kept = self.history.as_ref().map(|history| RunPlace {
            location: &history.location,
            id: history.store.short_id(&run.id, SHORT_ID).unwrap_or_else(|_| run.id.clone()),
        });
        let shown = self.table.as_mut().map(|table| table.finish(run, kept.as_ref(), page.as_deref()));
        if let Some(Err(e)) = shown {
            self.lose(format!("the table could not be written to stdout: {e}"));
        }
        let is_seen = self.table.is_some() && io::stdout().is_terminal();
        let shown = |why| see_above(run).filter(|_| is_seen).unwrap_or(why);
        let nothing = nothing_measured(run).map(shown);
        self.complaints.extend(nothing.filter(|_| run.status == RunStatus::Complete));
        self.complaints.drain(..).for_each(|complaint| complain(&complaint));
        !self.lost
    }

    /// Makes `PLAN-ID.html` in this directory the page of a run of a published report, unless
    /// `--html` or an output on stdout is given. Returns its path; `None` without one.
    fn own_page(&mut self, run: &Run) -> Option<PathBuf> {
        if self.html.is_some() || self.stdout_is_taken || plimsoll_published::find(&run.plan.name).is_none() {
            return None;
        }
        let id: String = run.id.chars().take(SHORT_ID).collect();
        let path = PathBuf::from(format!("{}-{id}.html", run.plan.name));
        let opened = OutputTarget::new(&path, &Waits::without_interrupts(complain));
        let refused = |e| format!("the page of the report's tables and figures is not written: {e}");
        self.html = opened.map_err(|e| self.complaints.push(refused(e))).ok();
        self.html.is_some().then_some(path)
    }

    fn documents(&self, run: &Run) -> Vec<String> {
        let redacted = match self.redact.then(|| shareable(run, true)).transpose() {
            Ok(redacted) => redacted,
            Err(failure) => return vec![format!("{}; no document is written", failure.line)],
        };
        let leaving = redacted.as_ref().unwrap_or(run);
        let document = |target: &OutputTarget| {
            let fill = |file: &mut dyn Write| json::write(leaving, file);
            filled(target, run, fill).err().map(|e| format!("--json: {e}"))
        };
        let json = self.json.as_ref().and_then(document);
        let html =
            self.html.as_ref().and_then(|target| page(target, run, leaving, self.history.as_ref()).err());
        json.into_iter().chain(html).collect()
    }

    /// Applies `change` to the history, if open. An error closes it and counts as a lost output.
    fn change_history(&mut self, change: impl FnOnce(&mut RunHistory) -> Result<(), StoreError>) {
        if let Some(Err(e)) = self.history.as_mut().map(change) {
            self.given_up = self.history.take().map(|history| history.location);
            self.lose(e.to_string());
        }
    }

    /// Records that an output was lost; `why` is printed at the end of the run.
    fn lose(&mut self, why: String) {
        self.complaints.push(why);
        self.lost = true;
    }

    /// If the history was lost, writes the document of `run` to a new file, to be imported later.
    fn spool(&mut self, run: &Run) {
        let Some(location) = self.given_up.take() else { return };
        let places = [location.directory().to_owned(), std::env::temp_dir()];
        let put = |place: &PathBuf| json::spool(run, place, &Registry::here()).ok();
        self.complaints.push(match places.iter().find_map(put) {
            Some(file) => {
                let store = terminal::store_option(&location);
                format!(
                    "the run is kept in {file}; enter it later with: plimsoll history import {file}{store}"
                )
            }
            None => "and the run cannot be stored elsewhere: its only copy is on this screen".to_owned(),
        });
    }
}

/// Returns a copy of `run`; with `redact`, private names such as hosts and paths are replaced.
pub(crate) fn shareable(run: &Run, redact: bool) -> Result<Run, Failure> {
    if !redact {
        return Ok(run.clone());
    }
    run.redacted().map_err(|e| {
        Failure::environment(format!("--redact: {}", plimsoll_units::text::shown(&e.to_string())))
    })
}

/// Returns one line on why no case of `run` has a result; `None` if a case has one, even invalid.
pub fn nothing_measured(run: &Run) -> Option<String> {
    const MAX_NAMES_SHOWN: usize = 2;
    if run.measurements.iter().any(|m| matches!(m.status, Status::Ok | Status::Invalid)) {
        return None;
    }
    let mut reasons: Vec<(Status, &str, usize)> = Vec::new();
    for made in &run.measurements {
        let reason = made.reason.as_deref().unwrap_or("no reason given");
        let is_like =
            |(status, known, _): &&mut (Status, &str, usize)| *status == made.status && alike(known, reason);
        match reasons.iter_mut().find(is_like) {
            Some((_, _, n)) => *n += 1,
            None => reasons.push((made.status, reason, 1)),
        }
    }
    let word = |status: Status| if status == Status::Failed { "failed" } else { "skipped" };
    let line = |(status, reason, n): &(Status, &str, usize)| {
        format!("{} {}: {reason}", format_count(*n, "case"), word(*status))
    };
    let reported: Vec<String> = reasons.iter().take(MAX_NAMES_SHOWN).map(line).collect();
    let rest = match reasons.iter().skip(MAX_NAMES_SHOWN).map(|(_, _, n)| n).sum::<usize>() {
        0 => String::new(),
        rest => format!("; {} for other reasons", format_count(rest, "case")),
    };
    Some(match reported.is_empty() {
        true => "nothing was measured: the run has no case; --list shows the cases of a plan".to_owned(),
        false => format!("nothing was measured: {}{rest}", reported.join(". ")),
    })
}

/// Returns whether two reasons, digits removed, are equal up to the first `: ` (before a remedy).
fn alike(one: &str, other: &str) -> bool {
    let kind = |reason: &str| -> String {
        let what = reason.split(": ").next().unwrap_or_default();
        what.chars().filter(|c| !c.is_ascii_digit()).collect()
    };
    one == other || kind(one) == kind(other)
}

/// Returns `nothing was measured: 1 case failed (see above)`; `None` if none failed or was skipped.
fn see_above(run: &Run) -> Option<String> {
    let count = |(status, word): (Status, &str)| {
        let n = run.measurements.iter().filter(|m| m.status == status).count();
        (n > 0).then(|| format!("{} {word}", format_count(n, "case")))
    };
    let counts = [(Status::Failed, "failed"), (Status::Skipped, "skipped")].into_iter().filter_map(count);
    let counts: Vec<String> = counts.collect();
    (!counts.is_empty()).then(|| format!("nothing was measured: {} (see above)", counts.join(", ")))
}

/// Writes the HTML page of `leaving`, which is `run` or its redacted copy, to `target`. For
/// comparison, it contains the results of the run before `run` in `history`, if any.
fn page(target: &OutputTarget, run: &Run, leaving: &Run, history: Option<&RunHistory>) -> Result<(), String> {
    let before = history.and_then(|h| {
        let id = h.store.run_before(run).ok()??;
        h.store.load(&id).ok()
    });
    let references: Vec<_> = before.iter().flat_map(html::last_run).collect();
    let page = html::page(std::slice::from_ref(leaving), &references);
    let page = page.map_err(|e| format!("--html: {e}"))?;
    filled(target, run, |file| file.write_all(page.as_bytes())).map_err(|e| format!("--html: {e}"))
}

/// Prints one line with `plimsoll: ` before it to stderr, at most 2000 characters.
pub fn complain(line: &str) {
    print_line(&format!("plimsoll: {}", shown_within(&without_code(line), 2000)));
}

/// Removes the error numbers of [`io::Error`], such as ` (os error 2)`, from a line.
fn without_code(line: &str) -> String {
    let mut parts = line.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| match part.split_once(')') {
        Some((code, rest)) if code.bytes().all(|b| b.is_ascii_digit()) => line + rest,
        _ => line + " (os error " + part,
    })
}

/// Replaces the progress line on stderr by `text`; an empty text removes it. Does nothing without a
/// terminal.
pub(crate) fn show_progress(style: &Style, text: &str) {
    if let Some(width) = style.progress {
        let line: String = text.chars().take(width.saturating_sub(1)).collect();
        let _ = write!(io::stderr(), "\r\u{1b}[2K{line}");
    }
}

/// Prints `line` to stderr by one write, so that output of other processes does not split it.
pub fn print_line(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Returns the directory of the history: `named`, or the default; `None` if `named` is `none`.
pub fn location(named: Option<&Path>) -> Result<Option<Location>, StoreError> {
    match named {
        Some(path) if path == Path::new("none") => Ok(None),
        Some(path) => Ok(Some(Location::Named(path.to_owned()))),
        None => {
            let home = std::env::var_os("HOME").filter(|home| Path::new(home).is_dir());
            Location::default_location(std::env::var_os("XDG_DATA_HOME"), home).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_code;

    #[test]
    fn a_line_has_no_number_of_a_system_error() {
        for (line, printed) in [
            ("x: No such file or directory (os error 2)", "x: No such file or directory"),
            ("a (os error 2): b (os error 13); c", "a: b; c"),
            ("a file named (os error x) stays", "a file named (os error x) stays"),
            ("cut (os error ", "cut (os error "),
        ] {
            assert_eq!(without_code(line), printed);
        }
    }
}
