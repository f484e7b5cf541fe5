//! Errors of a history, each in one line with a remedy, safe to print.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Why a history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The environment names no place for it.
    #[error("no place for the history: {why}; use --store DIR, or --store none to keep none")]
    NoPlace {
        /// The variable that is missing.
        why: String,
    },
    /// It is to be read and is not there.
    #[error("there is no history yet: {directory} does not exist; the first 'plimsoll run' makes it")]
    Missing {
        /// The directory.
        directory: String,
    },
    /// It is to be made, and cannot be a directory there.
    #[error("cannot make the history {directory}: {why}; use another --store DIR")]
    NoDirectory {
        /// The directory.
        directory: String,
        /// The obstacle.
        why: String,
    },
    /// The system refuses to write it.
    #[error(
        "cannot write the history {directory}: {why}; use another --store DIR, or --store none to keep none"
    )]
    NotWritable {
        /// The directory, or the file in it.
        directory: String,
        /// Why.
        why: String,
    },
    /// The system refuses to read it.
    #[error("cannot read {file} of the history: {why}")]
    NotReadable {
        /// The directory, or the file in it.
        file: String,
        /// Why, and what to do.
        why: String,
    },
    /// Using it would harm.
    #[error("history {directory} is not used, for safety: {why}")]
    Refused {
        /// The directory.
        directory: String,
        /// Why, and what to do.
        why: String,
    },
    /// A file in it is not what plimsoll wrote.
    #[error(
        "{file} cannot be read: {why}; the other runs of the history do not need it: restore it from a copy, or delete it"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The damage.
        why: String,
    },
    /// A file in it is not taken for a run.
    #[error("{file} is not used: {why}")]
    Unused {
        /// The file.
        file: String,
        /// Why, and what to do.
        why: String,
    },
    /// No stored run has such an id.
    #[error(
        "no run, tag or file '{wanted}' in history {directory}; 'plimsoll history --store {directory}' lists the runs"
    )]
    NoSuchRun {
        /// As asked for.
        wanted: String,
        /// The directory.
        directory: String,
    },
    /// More than one stored run has an id that begins so.
    #[error("several runs begin with '{wanted}': {some}; type more of the id")]
    Ambiguous {
        /// As asked for.
        wanted: String,
        /// Ids that begin so.
        some: String,
    },
}

impl StoreError {
    /// Whether the place merely cannot be used now: a run at the usual place then goes on without a history and
    /// reports it once.
    pub fn is_no_place(&self) -> bool {
        matches!(self, Self::NoPlace { .. } | Self::NotWritable { .. } | Self::NotReadable { .. })
    }

    /// Whether it was refused for safety (exit code 3).
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether what was asked for is not there (exit code 2).
    pub fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. } | Self::NoDirectory { .. } | Self::NoSuchRun { .. } | Self::Ambiguous { .. }
        )
    }

    /// Whether the environment names no place for a history, so that none is kept.
    pub fn is_unplaced(&self) -> bool {
        matches!(self, Self::NoPlace { .. })
    }

    /// A refusal.
    pub(super) fn refused(directory: &Path, why: impl Into<String>) -> Self {
        Self::Refused { directory: name(directory), why: why.into() }
    }

    /// The system refused to write.
    pub(super) fn not_writable(path: &Path, error: &io::Error) -> Self {
        Self::NotWritable { directory: name(path), why: reason(error) }
    }

    /// The system refused to read.
    pub(super) fn not_readable(path: &Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => "run as its owner",
            _ => "'dmesg' shows errors of its disk",
        };
        Self::NotReadable { file: name(path), why: format!("{}; {advice}", reason(error)) }
    }

    /// The content of a file makes no sense.
    pub(super) fn damaged(file: &Path, why: impl Into<String>) -> Self {
        Self::Damaged { file: name(file), why: why.into() }
    }

    /// The name of a file, or another file, is why it is not used.
    pub(super) fn unused(file: &Path, why: impl Into<String>) -> Self {
        Self::Unused { file: name(file), why: why.into() }
    }

    /// Several ids begin like the one that is wanted; no more than three are named.
    pub(super) fn ambiguous<'a>(wanted: &str, ids: impl ExactSizeIterator<Item = &'a str>) -> Self {
        const MAX_NAMED: usize = 3;
        let more = if ids.len() > MAX_NAMED { ", …" } else { "" };
        let some: Vec<String> =
            ids.take(MAX_NAMED).map(|id| plimsoll_units::text::shown_within(id, 40)).collect();
        Self::Ambiguous { wanted: wanted.to_owned(), some: some.join(", ") + more }
    }
}

/// The system's reason without its number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or_default();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!("{why} (make room there)"),
        _ => plimsoll_units::text::shown(why),
    }
}

/// A path for people.
pub(super) fn name(path: &Path) -> String {
    plimsoll_units::text::shown_bytes(path.as_os_str().as_bytes())
}
