//! The directory of a site. A file in it says that it is one, which files are the site's, and what is known of each run.
//!
//! Each file is replaced whole. New pages are there before a page leads to them, and the pages of what is gone are removed when
//! no page leads to them any more, so that whoever is interrupted leaves a site in which every link leads somewhere. What is about
//! to be written is entered first, so that the next call knows whose it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::Summary;
use super::names::{self, MACHINES, RUNS, is_ours};
use crate::report::target::{Target, TargetError, Waits};
use crate::text::{read_small, shown_bytes, shown_within};

/// The file that makes a directory a site.
pub const MARKER: &str = "plimsoll-site.json";
/// What it says first.
const SCHEMA: &str = "plimsoll.site/1";
/// Largest such file: that of some 50,000 runs.
const MOST: u64 = 256 << 20;

/// Why a site cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// What is there is not ours, or not to be trusted.
    #[error("{0}")]
    Refused(String),
    /// The system says no.
    #[error("{0}")]
    Failed(String),
}

impl From<TargetError> for SiteError {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Refused { .. } => Self::Refused(error.to_string()),
            TargetError::Failed { .. } => Self::Failed(error.to_string()),
        }
    }
}

/// The file that makes a directory a site.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    schema: String,
    /// The program that wrote the pages.
    version: String,
    /// Whether names are replaced in them.
    redacted: bool,
    /// The files of the site, and those that were about to become so.
    files: BTreeSet<String>,
    /// Runs whose pages are there.
    runs: BTreeMap<String, Summary>,
}

/// A site's directory, which no other call writes to as long as this is held.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    waits: Waits,
    marker: Marker,
    _lock: File,
}

fn shown(path: &Path) -> String {
    shown_bytes(path.as_os_str().as_bytes())
}

fn failed(path: &Path, error: &io::Error) -> SiteError {
    SiteError::Failed(format!("cannot write {}: {error}; use another directory", shown(path)))
}

impl Directory {
    /// The site in this directory, which is made where it is not there. Pages that another version of the program wrote, or with
    /// other names left out, count as none.
    ///
    /// # Errors
    /// Something else is in it, another call writes to it, or it cannot be written.
    pub fn open(path: &Path, waits: &Waits, version: &str, redacted: bool) -> Result<Self, SiteError> {
        match fs::create_dir(path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(path, &e)),
            _ => {}
        }
        let lock = File::open(path).map_err(|e| failed(path, &e))?;
        if !lock.metadata().is_ok_and(|about| about.is_dir()) {
            return Err(failed(path, &io::ErrorKind::NotADirectory.into()));
        }
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let path = shown(path);
            return Err(SiteError::Failed(format!(
                "cannot write {path}: another plimsoll writes it; wait until that ends"
            )));
        }
        let mut marker = read(path)?;
        if marker.version != version || marker.redacted != redacted {
            marker.runs.clear();
        }
        marker.runs.retain(|id, summary| is_whole(&path.join(names::run(id)), summary.bytes));
        (marker.version, marker.redacted) = (version.to_owned(), redacted);
        Ok(Self { path: path.to_owned(), waits: waits.clone(), marker, _lock: lock })
    }

    /// What is known of a run whose page is there and of this digest.
    pub fn summary(&self, run: &str, digest: &str) -> Option<&Summary> {
        self.marker.runs.get(run).filter(|summary| summary.digest == digest)
    }

    /// Enters that these files are about to be the site's, and that of all runs these alone have their pages already.
    ///
    /// # Errors
    /// A file of that name is there and not the site's, or the directory cannot be written.
    pub fn claim(
        &mut self,
        files: &BTreeSet<String>,
        kept: &BTreeMap<String, Summary>,
    ) -> Result<(), SiteError> {
        for directory in [RUNS, MACHINES].map(|name| self.path.join(name)) {
            match fs::create_dir(&directory) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&directory, &e)),
                _ => {}
            }
            if !fs::symlink_metadata(&directory).is_ok_and(|about| about.is_dir()) {
                let directory = shown(&directory);
                return Err(SiteError::Refused(format!(
                    "{directory} is not a directory of this site; nothing was written: move it, or name another directory"
                )));
            }
        }
        let foreign = files.iter().filter(|name| !self.marker.files.contains(*name));
        let foreign =
            foreign.map(|name| self.path.join(name)).find(|file| fs::symlink_metadata(file).is_ok());
        if let Some(file) = foreign {
            let file = shown(&file);
            return Err(SiteError::Refused(format!(
                "{file} is no file of this site; nothing was written: move it, or name another directory"
            )));
        }
        files.iter().try_for_each(|name| regular(&self.path.join(name)))?;
        let claimed: BTreeSet<String> = self.marker.files.union(files).cloned().collect();
        if claimed != self.marker.files || *kept != self.marker.runs {
            self.marker.files = claimed;
            self.marker.runs.clone_from(kept);
            self.write()?;
        }
        Ok(())
    }

    /// Writes a file of the site, if it is not there with this text already. Whether it was written.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&self, name: &str, text: &str) -> Result<bool, SiteError> {
        let file = self.path.join(name);
        if !is_ours(name) || !self.marker.files.contains(name) {
            return Err(SiteError::Refused(format!("{} is no name of a site's file", shown(&file))));
        }
        if is_whole(&file, text.len() as u64) && has(&file, text) {
            return Ok(false);
        }
        regular(&file)?;
        Target::new(&file, &self.waits)?.put(text)?;
        Ok(true)
    }

    /// Removes the files of what is gone, and enters what is there. How many were removed.
    ///
    /// # Errors
    /// Something cannot be removed or written.
    pub fn finish(
        mut self,
        files: BTreeSet<String>,
        runs: BTreeMap<String, Summary>,
    ) -> Result<usize, SiteError> {
        let mut removed = 0;
        for name in self.marker.files.difference(&files) {
            let file = self.path.join(name);
            match fs::remove_file(&file) {
                Ok(()) => removed += 1,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed(&file, &e)),
            }
        }
        if self.marker.files != files || self.marker.runs != runs {
            (self.marker.files, self.marker.runs) = (files, runs);
            self.write()?;
        }
        Ok(removed)
    }

    fn write(&self) -> Result<(), SiteError> {
        let file = self.path.join(MARKER);
        let text = serde_json::to_string(&self.marker).map_err(|e| failed(&file, &e.into()))?;
        Target::new(&file, &self.waits)?.put(&(text + "\n"))?;
        Ok(())
    }
}

/// Refuses what is there and no regular file: to write there would write to where a link leads.
fn regular(file: &Path) -> Result<(), SiteError> {
    match fs::symlink_metadata(file) {
        Ok(about) if !about.is_file() => Err(SiteError::Refused(format!(
            "{} is a link or no regular file; nothing was written to it; name another directory",
            shown(file)
        ))),
        _ => Ok(()),
    }
}

/// What the marker says; one of an empty site where nothing is in the directory.
fn read(path: &Path) -> Result<Marker, SiteError> {
    let file = path.join(MARKER);
    let empty = || Marker { schema: SCHEMA.to_owned(), ..Marker::default() };
    if fs::symlink_metadata(&file).is_err() {
        let entries = fs::read_dir(path).map_err(|e| failed(path, &e))?;
        return match entries.flatten().map(|entry| entry.file_name()).next() {
            None => Ok(empty()),
            Some(name) => Err(SiteError::Refused(format!(
                "{} is not empty ({}) and no site of plimsoll's ({MARKER} is missing); nothing was written: name a new directory",
                shown(path),
                shown_bytes(name.as_bytes())
            ))),
        };
    }
    let wrong = |why: String| {
        let why = shown_within(&why, 200);
        let file = shown(&file);
        SiteError::Refused(format!(
            "{file} is no such file of plimsoll's ({why}); nothing was written: name a new directory"
        ))
    };
    if !fs::symlink_metadata(&file).is_ok_and(|about| about.is_file()) {
        return Err(wrong("not a regular file".to_owned()));
    }
    let text = read_small(&file, MOST).map_err(wrong)?;
    let marker: Marker = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    if marker.schema != SCHEMA {
        return Err(wrong(format!("schema {}", marker.schema)));
    }
    match marker.files.iter().find(|name| !is_ours(name)) {
        Some(name) => Err(wrong(format!("it names {name}"))),
        None => Ok(marker),
    }
}

/// Whether a regular file of so many bytes is there.
fn is_whole(file: &Path, bytes: u64) -> bool {
    fs::symlink_metadata(file).is_ok_and(|about| about.is_file() && about.len() == bytes)
}

/// Whether a file has this text.
fn has(file: &Path, text: &str) -> bool {
    let mut found = Vec::with_capacity(text.len());
    let read = File::open(file).and_then(|open| open.take(text.len() as u64 + 1).read_to_end(&mut found));
    read.is_ok() && found == text.as_bytes()
}
