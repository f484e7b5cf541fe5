//! Errors of a history, each in one printable line with a remedy.

use plimsoll_units::text::shown_path;
use std::io;
use std::path::Path;

/// Reason why a history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The environment gives no default directory.
    #[error("no place for the history: {why}; use --store DIR, or --store none to keep none")]
    NoDefaultDirectory {
        /// The missing variable.
        why: String,
    },
    /// The history to read does not exist.
    #[error("there is no history yet: {directory} does not exist; the first 'plimsoll run' makes it")]
    Missing {
        /// The directory.
        directory: String,
    },
    /// The history cannot be created because its path is not a possible directory.
    #[error("cannot make the history {directory}: {why}; use another --store DIR")]
    NoDirectory {
        /// The directory.
        directory: String,
        /// The obstacle.
        why: String,
    },
    /// The history cannot be written.
    #[error(
        "cannot write the history {directory}: {why}; use another --store DIR, or --store none to keep none"
    )]
    NotWritable {
        /// The directory, or the file in it.
        directory: String,
        /// The reason.
        why: String,
    },
    /// The history cannot be read.
    #[error("cannot read {file} of the history: {why}")]
    NotReadable {
        /// The directory, or the file in it.
        file: String,
        /// The reason and the remedy.
        why: String,
    },
    /// The history is refused because its use is unsafe.
    #[error("history {directory} is not used, for safety: {why}")]
    Refused {
        /// The directory.
        directory: String,
        /// The reason and the remedy.
        why: String,
    },
    /// A file of the history is damaged or foreign.
    #[error(
        "{file} cannot be read: {why}; the other runs of the history do not need it: restore it from a copy, or delete it"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The damage.
        why: String,
    },
    /// A file of the history is not used.
    #[error("{file} is not used: {why}")]
    Unused {
        /// The file.
        file: String,
        /// The reason and the remedy.
        why: String,
    },
    /// No stored run matches.
    #[error(
        "no run, tag or file '{wanted}' in history {directory}; 'plimsoll history --store {directory}' lists the runs"
    )]
    NoSuchRun {
        /// The requested run.
        wanted: String,
        /// The directory.
        directory: String,
    },
    /// Several stored runs match.
    #[error("several runs begin with '{wanted}': {some}; type more of the id")]
    Ambiguous {
        /// The requested ID.
        wanted: String,
        /// Some matching IDs.
        some: String,
    },
}

impl StoreError {
    /// Returns whether the directory is unknown, unreadable or not writable: with the default
    /// directory, a run then continues without a history.
    pub fn is_unusable_directory(&self) -> bool {
        matches!(self, Self::NoDefaultDirectory { .. } | Self::NotWritable { .. } | Self::NotReadable { .. })
    }

    /// Returns whether the history was refused for safety (exit code 3).
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Returns whether the requested history or run does not exist (exit code 2).
    pub fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. } | Self::NoDirectory { .. } | Self::NoSuchRun { .. } | Self::Ambiguous { .. }
        )
    }

    /// Returns whether the environment gives no default directory, so that no history is kept.
    pub fn is_no_default_directory(&self) -> bool {
        matches!(self, Self::NoDefaultDirectory { .. })
    }

    pub(super) fn refused(directory: &Path, why: impl Into<String>) -> Self {
        Self::Refused { directory: shown_path(directory), why: why.into() }
    }

    pub(super) fn not_writable(path: &Path, error: &io::Error) -> Self {
        Self::NotWritable { directory: shown_path(path), why: reason(error) }
    }

    pub(super) fn not_readable(path: &Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => "run as its owner",
            _ => "'dmesg' shows errors of its disk",
        };
        Self::NotReadable { file: shown_path(path), why: format!("{}; {advice}", reason(error)) }
    }

    pub(super) fn damaged(file: &Path, why: impl Into<String>) -> Self {
        Self::Damaged { file: shown_path(file), why: why.into() }
    }

    pub(super) fn unused(file: &Path, why: impl Into<String>) -> Self {
        Self::Unused { file: shown_path(file), why: why.into() }
    }

    /// Returns the error for an ID prefix `wanted` that fits all `ids`; it lists three at most.
    pub(super) fn ambiguous<'a>(wanted: &str, ids: impl ExactSizeIterator<Item = &'a str>) -> Self {
        const MAX_NAMED: usize = 3;
        let more = if ids.len() > MAX_NAMED { ", …" } else { "" };
        let some: Vec<String> =
            ids.take(MAX_NAMED).map(|id| plimsoll_units::text::shown_within(id, 40)).collect();
        Self::Ambiguous { wanted: wanted.to_owned(), some: some.join(", ") + more }
    }
}

/// Returns the text of `error` without its system number, with advice if the disk is full.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or_default();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!("{why} (make room there)"),
        _ => plimsoll_units::text::shown(why),
    }
}
