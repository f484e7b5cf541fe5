//! Errors of a history, each in one printable line with a remedy.

use plimsoll_units::text::{shown, shown_path, shown_within};
use std::io;
use std::path::Path;

/// Kind of a [`StoreError`], which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The environment gives no default directory.
    NoDefaultDirectory,
    /// The history to read does not exist.
    Missing,
    /// The history cannot be created because its path is not a possible directory.
    NoDirectory,
    /// The history cannot be read or written.
    Inaccessible,
    /// The history is refused because its use is unsafe.
    Refused,
    /// A file of the history is damaged or foreign.
    Damaged,
    /// A file of the history is not used.
    Unused,
    /// No stored run matches.
    NoSuchRun,
    /// Several stored runs match.
    Ambiguous,
}

/// Reason why a history cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StoreError {
    /// Kind.
    pub kind: StoreErrorKind,
    text: String,
}

impl StoreError {
    /// Returns whether the directory is unknown, unreadable or not writable: with the default
    /// directory, a run then continues without a history.
    pub fn is_unusable_directory(&self) -> bool {
        matches!(self.kind, StoreErrorKind::NoDefaultDirectory | StoreErrorKind::Inaccessible)
    }

    /// Returns whether the history or run to read does not exist, or is ambiguous (exit code 2).
    pub fn is_not_found(&self) -> bool {
        use StoreErrorKind::{Ambiguous, Missing, NoDirectory, NoSuchRun};
        matches!(self.kind, Missing | NoDirectory | NoSuchRun | Ambiguous)
    }

    pub(super) fn no_default_directory() -> Self {
        let why = "HOME is not set, or is not a directory";
        let text = format!("no place for the history: {why}; use --store DIR, or --store none to keep none");
        Self { kind: StoreErrorKind::NoDefaultDirectory, text }
    }

    pub(super) fn missing(directory: &Path) -> Self {
        let text = "'plimsoll run' with the same --store makes it";
        let text = format!("there is no history yet: {} does not exist; {text}", shown_path(directory));
        Self { kind: StoreErrorKind::Missing, text }
    }

    pub(super) fn no_directory(directory: &Path, why: &str) -> Self {
        let text =
            format!("cannot make the history {}: {why}; use another --store DIR", shown_path(directory));
        Self { kind: StoreErrorKind::NoDirectory, text }
    }

    pub(super) fn refused(directory: &Path, why: &str) -> Self {
        let text = format!("history {} is not used, for safety: {why}", shown_path(directory));
        Self { kind: StoreErrorKind::Refused, text }
    }

    pub(super) fn not_writable(path: &Path, error: &io::Error) -> Self {
        let why = format!("cannot write the history {}: {}", shown_path(path), reason(error));
        let text = format!("{why}; use another --store DIR, or --store none to keep none");
        Self { kind: StoreErrorKind::Inaccessible, text }
    }

    pub(super) fn not_readable(path: &Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => "run as its owner",
            _ => "'dmesg' shows errors of its disk",
        };
        let text = format!("cannot read {} of the history: {}; {advice}", shown_path(path), reason(error));
        Self { kind: StoreErrorKind::Inaccessible, text }
    }

    pub(super) fn damaged(file: &Path, why: impl std::fmt::Display) -> Self {
        let advice = "the other runs of the history do not need it: restore it from a copy, or delete it";
        Self {
            kind: StoreErrorKind::Damaged,
            text: format!("{} cannot be read: {why}; {advice}", shown_path(file)),
        }
    }

    pub(super) fn unused(file: &Path, why: &str) -> Self {
        Self { kind: StoreErrorKind::Unused, text: format!("{} is not used: {why}", shown_path(file)) }
    }

    /// Returns the error for a run `wanted` that the history lacks; `has_runs`: it is not empty.
    pub(super) fn no_such_run(directory: &Path, wanted: &str, has_runs: bool) -> Self {
        let is_file = Path::new(wanted).is_file();
        let is_last = wanted.starts_with("last~");
        let (wanted, directory) = (shown_within(wanted, 40), shown_path(directory));
        let lists = format!("'plimsoll history --store {directory}' lists the runs");
        let text = match (is_file, has_runs) {
            (true, _) => {
                format!("'{wanted}' is a file, not a stored run: write plimsoll import {wanted} first")
            }
            (_, false) => format!("history {directory} has no runs yet: 'plimsoll run' makes one"),
            _ if is_last => format!("history {directory} has no run '{wanted}'; {lists}"),
            _ => format!(
                "no run, tag or file '{wanted}' in history {directory}; the newest run is last; {lists}"
            ),
        };
        Self { kind: StoreErrorKind::NoSuchRun, text }
    }

    /// Returns the error for an ID prefix `wanted` that fits all `ids`; it lists three at most.
    pub(super) fn ambiguous<'a>(wanted: &str, ids: impl ExactSizeIterator<Item = &'a str>) -> Self {
        const MAX_NAMED: usize = 3;
        let more = if ids.len() > MAX_NAMED { ", …" } else { "" };
        let some: Vec<String> = ids.take(MAX_NAMED).map(|id| shown_within(id, 40)).collect();
        let some = some.join(", ");
        let text = format!("several runs begin with '{wanted}': {some}{more}; type more of the id");
        Self { kind: StoreErrorKind::Ambiguous, text }
    }
}

/// Returns the text of `error` without its system number, with advice if the disk is full.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or_default();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!("{why} (make room there)"),
        _ => shown(why),
    }
}
