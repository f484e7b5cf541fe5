//! What can go wrong with the history: one line each that names the file and says what to do.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{ErrorCode, ffi};
use rustix::fs::{Access, access};
use rustix::io::Errno;

/// Why the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no place to keep a history in.
    #[error("no place for the history: {why}; use --store FILE, or --store none to keep none")]
    NoPlace {
        /// Why.
        why: String,
    },
    /// The file or its directory cannot be created or written.
    #[error("cannot write the history {file}: {why}; use another --store FILE, or --store none to keep none")]
    NotWritable {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// Writing it would follow a link, or leave one user's files in another's hands.
    #[error("history {file} is not used, for safety: {why}")]
    Refused {
        /// The file.
        file: String,
        /// Why, and what to do.
        why: String,
    },
    /// The directory of a file that was named does not exist.
    #[error("cannot make the history {file}: its directory does not exist; use another --store FILE")]
    NoDirectory {
        /// The file.
        file: String,
    },
    /// There is no file yet.
    #[error("there is no history yet: {file} does not exist; the first 'plimsoll run' creates it")]
    Missing {
        /// The file.
        file: String,
    },
    /// The file is no history, or a damaged one. Nothing was changed.
    #[error(
        "history {file} cannot be used: {why}; it was not changed: run 'plimsoll history repair --store {file}', move it away, or use another --store FILE"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// Nothing of a history is in the file, so that no repair helps. Nothing was changed.
    #[error(
        "{file} is not a history of plimsoll: {why}; it was not changed: move it away, or use another --store FILE"
    )]
    NoHistory {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// A journal holds committed rows of a file that is not there.
    #[error(
        "history {file} is missing, but its journal {journal} exists and may hold the last runs: restore {file}, move the journal away, or use another --store FILE"
    )]
    Gone {
        /// The file.
        file: String,
        /// Its journal.
        journal: String,
    },
    /// A later plimsoll wrote the file.
    #[error(
        "history {file} has schema version {found}, and this plimsoll reads up to {known}: use the newer plimsoll that wrote it, or another --store FILE (if no newer one did, the file is damaged: 'plimsoll history repair --store {file}')"
    )]
    Newer {
        /// The file.
        file: String,
        /// Its schema version.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// A stored document is sound JSON and says what this version does not know. Nothing was changed.
    #[error(
        "history {file} holds a run that this plimsoll cannot read ({why}): use the newer plimsoll that wrote it, or another --store FILE (if no newer one did, the file is damaged: 'plimsoll history repair --store {file}')"
    )]
    Unknown {
        /// The file.
        file: String,
        /// What is not known.
        why: String,
    },
    /// Another program kept the file locked.
    #[error(
        "history {file} was locked for more than 10 s by another program, or its file system has no locks; run the command again later, or use --store FILE on a local disk"
    )]
    Busy {
        /// The file.
        file: String,
    },
    /// The disk is full or failed.
    #[error("history {file}: {why}; the runs that it already holds are kept")]
    Failed {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// No stored run has such an id.
    #[error(
        "no run, tag or file '{wanted}' in history {file}; 'plimsoll history --store {file}' lists the runs"
    )]
    NoSuchRun {
        /// As asked for.
        wanted: String,
        /// The file.
        file: String,
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
    /// says so once. Not so where a history is damaged, newer or unsafe: that the user must know at once.
    pub fn is_no_place(&self) -> bool {
        matches!(
            self,
            Self::NoPlace { .. } | Self::NotWritable { .. } | Self::Busy { .. } | Self::Failed { .. }
        )
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

    /// What SQLite said about `file`.
    pub(super) fn sqlite(file: &Path, error: &rusqlite::Error) -> Self {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
        };
        let why = crate::text::shown(&error.to_string());
        let shown = name(file);
        let extended = error.sqlite_error().map_or(0, |e| e.extended_code);
        match (error.sqlite_error_code(), error) {
            (Some(ErrorCode::NotADatabase), _) => {
                Self::damaged(file, with("it is no database, so perhaps --store names another file", &why))
            }
            (Some(ErrorCode::DatabaseCorrupt), _) if why.contains("malformed database schema") => {
                Self::damaged(file, with("its database schema is malformed", &why))
            }
            (Some(ErrorCode::DatabaseCorrupt), _) => Self::torn(file, &why),
            (
                None,
                FromSqlConversionFailure(..)
                | IntegralValueOutOfRange(..)
                | InvalidColumnType(..)
                | Utf8Error(..),
            ) => Self::damaged(file, with("a stored value is damaged", &why)),
            (
                Some(
                    ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::FileLockingProtocolFailed,
                ),
                _,
            ) => Self::Busy { file: shown },
            (Some(ErrorCode::ReadOnly), _) => {
                Self::NotWritable { file: shown, why: only_read(file, extended) }
            }
            (Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied), _) => Self::NotWritable {
                file: shown,
                why: denied(file).unwrap_or_else(|| {
                    format!("SQLite cannot open it or its journal ({extended}); 'ulimit -n' shows the limit of open files")
                }),
            },
            (Some(ErrorCode::DiskFull), _) => Self::Failed { file: shown, why: full(file) },
            (Some(ErrorCode::SystemIoFailure), _) if is_full(file) => {
                Self::Failed { file: shown, why: full(file) }
            }
            (Some(ErrorCode::SystemIoFailure), _) => {
                Self::Failed { file: shown, why: io_failure(file, extended) }
            }
            (Some(ErrorCode::OutOfMemory), _) => Self::Failed { file: shown, why: NO_MEMORY.to_owned() },
            _ => Self::Failed { file: shown, why },
        }
    }

    /// Several ids begin like the one that is wanted; no more than three are told.
    pub(super) fn ambiguous<'a>(wanted: &str, ids: impl ExactSizeIterator<Item = &'a str>) -> Self {
        const TOLD: usize = 3;
        let more = if ids.len() > TOLD { ", …" } else { "" };
        let some: Vec<String> = ids.take(TOLD).map(|id| crate::text::shown_within(id, 40)).collect();
        Self::Ambiguous { wanted: wanted.to_owned(), some: some.join(", ") + more }
    }

    /// A refusal.
    pub(super) fn refused(file: &Path, why: impl Into<String>) -> Self {
        Self::Refused { file: name(file), why: why.into() }
    }

    /// The operating system said no.
    pub(super) fn not_writable(file: &Path, error: &std::io::Error) -> Self {
        Self::NotWritable { file: name(file), why: error.to_string() }
    }

    /// Two reads of the same file gave different rows.
    pub(super) fn read_differently(file: &Path) -> Self {
        let why = "two reads of it gave different results: its disk or memory fails; nothing was repaired: see 'dmesg', copy the file to another disk, and repair it there";
        Self::Failed { file: name(file), why: why.to_owned() }
    }

    /// An error of a new history that is to replace this one: that is the one that the user knows.
    pub(super) fn of_history(self, history: &Path) -> Self {
        let file = name(history);
        match self {
            Self::Damaged { file: other, why } if other != file => Self::Failed {
                file,
                why: format!(
                    "the repaired copy cannot be read back: {why}; nothing was repaired: see 'dmesg' for errors of the disk, and repair again"
                ),
            },
            Self::Failed { why, .. } => Self::Failed { file, why },
            Self::NotWritable { why, .. } => Self::NotWritable { file, why },
            other => other,
        }
    }

    /// A plain read of the file or of a journal of it failed.
    pub(super) fn not_readable(file: &Path, error: &std::io::Error) -> Self {
        let why = format!(
            "a read fails on the file system of {} ({error}); look in 'dmesg' for errors of its disk, or use --store FILE on another disk",
            name(directory(file))
        );
        Self::Failed { file: name(file), why }
    }

    /// A check of pages failed, with what SQLite said: a page that cannot be read is the disk's failure.
    pub(super) fn checked(file: &Path, said: &str) -> Self {
        match unread(said) {
            Some(code) if code & 0xff == ffi::SQLITE_NOMEM => {
                Self::Failed { file: name(file), why: NO_MEMORY.to_owned() }
            }
            Some(code) => Self::Failed { file: name(file), why: io_failure(file, code) },
            None => Self::torn(file, said),
        }
    }

    /// A check of pages failed, with what SQLite said.
    pub(super) fn torn(file: &Path, said: &str) -> Self {
        Self::damaged(file, with("its pages contradict each other", said))
    }

    /// A stored document cannot be read: a text that is no JSON is damaged, other content may be a later version's.
    pub(super) fn document(file: &Path, error: &serde_json::Error) -> Self {
        let why = crate::text::shown(&error.to_string());
        match error.is_data() {
            true => Self::Unknown { file: name(file), why },
            false => Self::damaged(file, format!("a stored document: {why}")),
        }
    }

    /// The content makes no sense.
    pub(super) fn damaged(file: &Path, why: impl Into<String>) -> Self {
        Self::Damaged { file: name(file), why: why.into() }
    }
}

const NO_MEMORY: &str = "not enough memory to open it; run the command again when more is free";

/// Whether the system refused a call, so that the error says nothing of what is stored. A read past the end of the file is
/// the file's own: it is too short.
pub(super) fn is_of_the_system(error: &rusqlite::Error) -> bool {
    let short = error.sqlite_error().is_some_and(|e| e.extended_code == ffi::SQLITE_IOERR_SHORT_READ);
    let refused = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::ReadOnly
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
        )
    );
    refused && !short
}

/// SQLite's code for a page that a check could not read; `None` where it read all that it speaks of. It names the code for the
/// pages of a tree, and none for those of a list ("failed to get page"), which it asks for only where they are in the file.
fn unread(said: &str) -> Option<i32> {
    let code = |after: &str| -> Option<i32> {
        let digits: String =
            said.split_once(after)?.1.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let named = ["error code=", "error code "].into_iter().find_map(code);
    let is_system = |code: &i32| {
        matches!(code & 0xff, ffi::SQLITE_IOERR | ffi::SQLITE_NOMEM) && *code != ffi::SQLITE_IOERR_SHORT_READ
    };
    let listed = || said.contains("failed to get page").then_some(ffi::SQLITE_IOERR_READ);
    named.filter(is_system).or_else(listed)
}

/// With what SQLite said, in one line.
fn with(why: &str, said: &str) -> String {
    let said: Vec<&str> = said.split_whitespace().collect();
    format!("{why} ({})", crate::text::shown_within(&said.join(" "), 80))
}

/// Why a file can only be read.
fn only_read(file: &Path, extended: i32) -> String {
    match extended {
        ffi::SQLITE_READONLY_DBMOVED => "it was moved or replaced while it was open".to_owned(),
        _ => denied(file).unwrap_or_else(|| format!("SQLite can only read it ({extended})")),
    }
}

/// The system's reason why a file or its directory cannot be written; `None` if both can. Neither is opened: closing a second
/// descriptor would drop this process's locks.
fn denied(file: &Path) -> Option<String> {
    let refused = |path: &Path| {
        let errno = access(path, Access::WRITE_OK).err().filter(|errno| *errno != Errno::NOENT)?;
        Some(format!("{}: {}", name(path), std::io::Error::from(errno)))
    };
    [file, directory(file)].into_iter().find_map(refused)
}

/// What failed on the way to the disk, by SQLite's extended code (<https://sqlite.org/rescode.html>), and what to do.
fn io_failure(file: &Path, extended: i32) -> String {
    let what = match extended {
        ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_CORRUPTFS => "a read fails",
        ffi::SQLITE_IOERR_SHORT_READ => "the file ends too early",
        ffi::SQLITE_IOERR_WRITE => "a write fails",
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => "a sync fails",
        ffi::SQLITE_IOERR_TRUNCATE => "its length cannot be changed",
        ffi::SQLITE_IOERR_DELETE | ffi::SQLITE_IOERR_DELETE_NOENT => "its journal cannot be removed",
        ffi::SQLITE_IOERR_UNLOCK
        | ffi::SQLITE_IOERR_RDLOCK
        | ffi::SQLITE_IOERR_LOCK
        | ffi::SQLITE_IOERR_CHECKRESERVEDLOCK => {
            return format!(
                "its file system gives no locks (SQLite's error {extended}); use --store FILE on a local disk"
            );
        }
        ffi::SQLITE_IOERR_SHMOPEN
        | ffi::SQLITE_IOERR_SHMSIZE
        | ffi::SQLITE_IOERR_SHMLOCK
        | ffi::SQLITE_IOERR_SHMMAP => {
            return format!(
                "its file of shared memory (-shm) cannot be created (SQLite error {extended}): check free space and quota there, or use --store FILE on a local disk"
            );
        }
        _ => "the operating system refuses a call",
    };
    format!(
        "{what} on the file system of {} (SQLite's error {extended}); look in 'dmesg' for errors of its disk and in 'quota' for one that is used up, or use --store FILE on another disk",
        name(directory(file))
    )
}

fn full(file: &Path) -> String {
    format!("no space is left on the file system of {}; make room", name(directory(file)))
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether the file system has less room than a commit takes. SQLite says "I/O error" where it cannot make its shared memory.
fn is_full(file: &Path) -> bool {
    const COMMIT: u64 = 64 << 10;
    let room = rustix::fs::statvfs(directory(file)).map(|fs| fs.f_bavail * fs.f_frsize);
    room.is_ok_and(|room| room < COMMIT)
}

/// A path for people.
pub(super) fn name(file: &Path) -> String {
    crate::text::shown_bytes(file.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_cannot_be_read_is_not_a_damaged_one() {
        let said = |text: &str| StoreError::checked(Path::new("/x/history.db"), text);
        for text in [
            "*** in database main ***\nTree 2 page 2 cell 0: failed to get page 22",
            "Freelist: failed to get page 21",
            "Tree 5 page 9: unable to get the page. error code=8458",
            "Tree 5 page 9: unable to get the page. error code=266",
            "Tree 5 page 9: unable to get the page. error code=7",
            "Tree 5 page 9: btreeInitPage() returns error code 10",
        ] {
            assert!(matches!(said(text), StoreError::Failed { .. }), "{text}");
        }
        for text in [
            "Tree 5 page 9: btreeInitPage() returns error code 11",
            "Tree 5 page 9: unable to get the page. error code=11",
            "Tree 2 page 2 cell 0: invalid page number 99999",
            "row 3 missing from index run_line",
        ] {
            assert!(matches!(said(text), StoreError::Damaged { .. }), "{text}");
        }
    }
}
