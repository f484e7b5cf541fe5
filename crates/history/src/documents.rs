//! Run documents as files: `runs/2026/11/28T0102Z-ID.json.gz`, each written whole or not at all, and read as if anybody had written it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::tz::Offset;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;

use super::error::StoreError;
use crate::document::Run;
use crate::leftover::{Registry, Unfinished};

/// The directory of the documents below that of the history.
pub(super) const RUNS: &str = "runs";

/// The end of a document's name.
pub(super) const SUFFIX: &str = ".json.gz";

/// Largest document that is read, unpacked: one of five thousand machines is half of it.
const MAX_BYTES: u64 = 2 << 30;

/// The path of a run's document below [`RUNS`]; paths sort by time.
///
/// # Errors
/// Its start is no time, or its id is not one.
pub(super) fn path_of(run: &Run) -> Result<PathBuf, String> {
    let shown = |text: &str| crate::text::shown_within(text, 60);
    let started: Timestamp =
        run.started.parse().map_err(|_| format!("'{}' is not a time", shown(&run.started)))?;
    if run.id.is_empty() || !run.id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return Err(format!("'{}' is not the id of a run", shown(&run.id)));
    }
    let at = Offset::UTC.to_datetime(started);
    let (year, month, day, hour, minute) = (at.year(), at.month(), at.day(), at.hour(), at.minute());
    Ok(format!("{year:04}/{month:02}/{day:02}T{hour:02}{minute:02}Z-{}{SUFFIX}", run.id).into())
}

/// Writes the document of a run into the history `directory`, in the place of an older one of the same run. When this returns, a
/// power cut does not undo it.
///
/// # Errors
/// The directory cannot be written.
pub(super) fn write(directory: &Path, run: &Run, registry: Option<&Registry>) -> Result<(), StoreError> {
    let runs = directory.join(RUNS);
    let file = runs.join(path_of(run).map_err(|why| StoreError::damaged(directory, why))?);
    let month = file.parent().unwrap_or(&runs);
    let written = || -> io::Result<()> {
        make(month)?;
        put(&file, registry, |made| packed(run, made))?;
        // The names of new directories as well.
        month.ancestors().take(4).try_for_each(synced)
    };
    written().map_err(|e| StoreError::not_writable(&file, &e))
}

/// Removes the document of this path below [`RUNS`], if it is there.
///
/// # Errors
/// It cannot be removed.
pub(super) fn remove(directory: &Path, file: &str) -> Result<(), StoreError> {
    let path = directory.join(RUNS).join(file);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::not_writable(&path, &e)),
        _ => Ok(()),
    }
}

/// Makes a directory and those above it, for their owner alone.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Gives a file this content, whole or not at all.
pub(super) fn put(
    file: &Path,
    registry: Option<&Registry>,
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let made = Unfinished::new_in(directory, registry)?;
    fill(&made.file)?;
    made.file.sync_all()?;
    made.finish(|path| path.persist(file).map_err(|e| e.error))?;
    synced(directory)
}

/// Brings the names in a directory to the disk.
pub(super) fn synced(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn packed(document: &impl Serialize, to: &File) -> io::Result<()> {
    // Word by word it takes ten times as long.
    let mut packer = BufWriter::with_capacity(1 << 16, GzEncoder::new(to, Compression::default()));
    serde_json::to_writer(&mut packer, document)?;
    packer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
    Ok(())
}

/// Why a document cannot be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// Its content is at fault.
    Damaged(String),
    /// The system refuses a call.
    Refused(io::Error),
}

impl From<io::Error> for Unread {
    /// An error of the system has a number, one of the unpacking has none.
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => Self::Refused(error),
            None => Self::Damaged(super::error::reason(&error)),
        }
    }
}

/// The text of a compressed document. Links are not followed, and nothing is waited for.
pub(super) fn text(path: &Path) -> Result<String, Unread> {
    let mut text = String::new();
    let unpacking =
        MultiGzDecoder::new(BufReader::with_capacity(1 << 16, regular(path)?)).take(MAX_BYTES + 1);
    BufReader::with_capacity(1 << 16, unpacking).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(Unread::Damaged(format!("it is larger than {} MiB unpacked", MAX_BYTES >> 20))),
        false => Ok(text),
    }
}

/// Opens a regular file for reading.
pub(super) fn regular(path: &Path) -> Result<File, Unread> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|e| match e.raw_os_error() {
        Some(number) if number == Errno::LOOP.raw_os_error() => {
            Unread::Damaged("it is a symbolic link".to_owned())
        }
        _ => Unread::from(e),
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Unread::Damaged("it is not a regular file".to_owned())),
    }
}

/// A file in the directory of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its path below [`RUNS`].
    pub(super) file: String,
    /// Its length in bytes.
    pub(super) size: u64,
    /// When it was written: seconds and nanoseconds.
    pub(super) modified: (i64, i64),
}

/// All documents of a history, sorted by path.
///
/// # Errors
/// A directory cannot be read.
pub(super) fn entries(directory: &Path) -> Result<Vec<Entry>, StoreError> {
    let mut found = Vec::new();
    let runs = directory.join(RUNS);
    collect(&runs, "", &mut found)?;
    found.sort_unstable_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

/// Deepest directory that is looked into, below [`RUNS`].
const MAX_DEPTH: usize = 3;

fn collect(directory: &Path, below: &str, found: &mut Vec<Entry>) -> Result<(), StoreError> {
    let unread = |e: io::Error| StoreError::not_readable(directory, &e);
    let listed = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(unread)?,
    };
    for entry in listed {
        let entry = entry.map_err(unread)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let file = format!("{below}{name}");
        let kind = entry.file_type().map_err(unread)?;
        if kind.is_dir() && file.matches('/').count() < MAX_DEPTH {
            collect(&entry.path(), &format!("{file}/"), found)?;
        } else if name.ends_with(SUFFIX) && !name.starts_with('.') {
            // One that was deleted in this moment is none.
            let Ok(about) = entry.metadata() else { continue };
            let modified = (about.mtime(), about.mtime_nsec());
            found.push(Entry { file, size: about.len(), modified });
        }
    }
    Ok(())
}
