//! Output directory of a site, identified by a marker file. Files are replaced atomically. Pages
//! are written before pages that link to them, and obsolete pages are removed last, so that all
//! links work even after an interruption.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use plimsoll_units::text::{shown_bytes, shown_path};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::names::{MACHINES, RUN_PAGES_DIRECTORY, is_ours};
use crate::report::target::{OutputTarget, UnwritableTarget, Waits};

pub(super) const MARKER: &str = "plimsoll-site";
const MARKER_TEXT: &str = "The pages here are written and removed by plimsoll site.\n";

/// Error of writing a site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The directory contains other files.
    #[error("{0}; nothing was written to it: name a new directory")]
    Foreign(String),
    /// Another process writes the site.
    #[error("cannot write {0}: another plimsoll writes it; wait until that ends")]
    Locked(String),
    /// A system call failed.
    #[error("cannot write {0}: {1}; use another directory")]
    Failed(String, io::Error),
    /// A page cannot be written.
    #[error(transparent)]
    Page(#[from] UnwritableTarget),
}

/// Directory of a site, locked against concurrent writers.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    waits: Waits,
    _lock: File,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> SiteError {
    |error| SiteError::Failed(shown_path(path), error)
}

/// Creates the directory if missing, and opens it with `flags`, such as `NOFOLLOW` to refuse links.
fn opened(path: &Path, flags: OFlags) -> Result<File, SiteError> {
    match fs::create_dir(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(path)(e)),
        _ => {}
    }
    let flags = (OFlags::DIRECTORY | flags).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed(path))
}

impl Directory {
    /// Opens and locks the directory of a site; a missing or empty one becomes a site. `waits`
    /// applies to writing its files. Fails if other files are in it, another process has it locked,
    /// or it cannot be written.
    pub fn open(path: &Path, waits: &Waits) -> Result<Self, SiteError> {
        let lock = opened(path, OFlags::empty())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| SiteError::Locked(shown_path(path)))?;
        let directory = Self { path: path.to_owned(), waits: waits.clone(), _lock: lock };
        if fs::symlink_metadata(path.join(MARKER)).is_err()
            && let Some(entry) = entries(path)?.first()
        {
            let (path, name) = (shown_path(path), shown_bytes(entry.file_name().as_bytes()));
            let why = format!("{path} is not empty ({name}) and no site of plimsoll's ({MARKER} is missing)");
            return Err(SiteError::Foreign(why));
        }
        directory.put(MARKER, MARKER_TEXT)?;
        for below in [RUN_PAGES_DIRECTORY, MACHINES] {
            opened(&path.join(below), OFlags::NOFOLLOW)?;
        }
        Ok(directory)
    }

    /// Writes `text` to file `name` of the site; returns false if the file had this text already.
    /// Fails if the name belongs to a link or directory, or the file cannot be written.
    pub fn put(&self, name: &str, text: &str) -> Result<bool, SiteError> {
        let file = self.path.join(name);
        match fs::symlink_metadata(&file) {
            Ok(about) if !about.is_file() => {
                let name = shown_path(&file);
                return Err(SiteError::Foreign(format!("{name} is a link or no regular file")));
            }
            Ok(_) if fs::read(&file).is_ok_and(|found| found == text.as_bytes()) => return Ok(false),
            _ => {}
        }
        OutputTarget::new(&file, &self.waits)?.put(text)?;
        Ok(true)
    }

    /// Removes pages of the site whose relative names are not in `files`; returns their number.
    /// Fails if a page cannot be removed.
    pub fn remove_others(&self, files: &BTreeSet<String>) -> Result<usize, SiteError> {
        let mut removed = 0;
        for below in ["", RUN_PAGES_DIRECTORY, MACHINES] {
            for entry in entries(&self.path.join(below))? {
                let name = entry.file_name().to_string_lossy().into_owned();
                let name = if below.is_empty() { name } else { format!("{below}/{name}") };
                if is_ours(&name) && !files.contains(&name) {
                    fs::remove_file(entry.path()).map_err(failed(&entry.path()))?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }
}

fn entries(directory: &Path) -> Result<Vec<fs::DirEntry>, SiteError> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect);
    entries.map_err(failed(directory))
}
