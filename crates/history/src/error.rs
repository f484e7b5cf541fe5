//! Errors of a history, each in one printable line with a remedy.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_units::text::{shown, shown_path, shown_within};

/// Reason why a history or its file at a path cannot be used, in one line.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The environment gives no default directory.
    #[error(
        "no place for the history: HOME is not set, or is not a directory; use --store DIR, or --store none to keep none"
    )]
    NoDefaultDirectory,
    /// The history to read does not exist.
    #[error(
        "there is no history yet: {path} does not exist; 'plimsoll run' with the same --store makes it",
        path = shown_path(.0)
    )]
    Missing(PathBuf),
    /// The history cannot be created because its path is not a possible directory, and why.
    #[error("cannot make the history {path}: {1}; use another --store DIR", path = shown_path(.0))]
    NoDirectory(PathBuf, &'static str),
    /// The history is refused because its use is unsafe, and why.
    #[error("history {path} is not used, for safety: {1}", path = shown_path(.0))]
    Refused(PathBuf, String),
    /// The history cannot be written.
    #[error(
        "cannot write the history {}: {}; use another --store DIR, or --store none to keep none",
        shown_path(.0), reason(.1)
    )]
    NotWritable(PathBuf, io::Error),
    /// The history or a file of it cannot be read.
    #[error("cannot read {} of the history: {}; {}", shown_path(.0), reason(.1), read_advice(.1))]
    NotReadable(PathBuf, io::Error),
    /// A file of the history is damaged or foreign, and why.
    #[error(
        "{path} cannot be read: {1}; the other runs of the history do not need it: restore it from a copy, or delete it",
        path = shown_path(.0)
    )]
    Damaged(PathBuf, String),
    /// A file of the history is not used, and why.
    #[error("{path} is not used: {1}", path = shown_path(.0))]
    Unused(PathBuf, String),
    /// No stored run matches, as a line.
    #[error("{0}")]
    NoSuchRun(String),
    /// Several stored runs match, as a line.
    #[error("{0}")]
    Ambiguous(String),
}

impl StoreError {
    /// Returns whether the directory is unknown, unreadable or not writable: with the default
    /// directory, a run then continues without a history.
    pub fn is_unusable_directory(&self) -> bool {
        matches!(self, Self::NoDefaultDirectory | Self::NotWritable(..) | Self::NotReadable(..))
    }

    /// Returns whether the history or run to read does not exist, or is ambiguous (exit code 2).
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::NoDirectory(..) | Self::NoSuchRun(_) | Self::Ambiguous(_))
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
        Self::NoSuchRun(text)
    }

    /// Returns the error for an ID prefix `wanted` that fits all `ids`; it lists three at most.
    pub(super) fn ambiguous<'a>(wanted: &str, ids: impl ExactSizeIterator<Item = &'a str>) -> Self {
        const MAX_NAMED: usize = 3;
        let more = if ids.len() > MAX_NAMED { ", …" } else { "" };
        let some: Vec<String> = ids.take(MAX_NAMED).map(|id| shown_within(id, 40)).collect();
        let some = some.join(", ");
        Self::Ambiguous(format!("several runs begin with '{wanted}': {some}{more}; type more of the id"))
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

fn read_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "run as its owner",
        _ => "'dmesg' shows errors of its disk",
    }
}
