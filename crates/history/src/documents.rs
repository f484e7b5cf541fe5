//! Run documents, `runs/2026/11/28T0102Z-ID.json.gz`: written atomically, read as untrusted.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::tz::Offset;
use plimsoll_result::document::Run;
use plimsoll_system::leftover::Registry;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error::StoreError;

pub(super) const RUNS_DIRECTORY: &str = "runs";

pub(super) const SUFFIX: &str = ".json.gz";

/// Largest unpacked document in bytes: twice that of a run on 5000 nodes.
const MAX_BYTES: u64 = 2 << 30;

/// Returns the path of a run's document below [`RUNS_DIRECTORY`], `YYYY/MM/DDTHHMMZ-ID.json.gz`,
/// which sorts by time. Fails for an invalid ID or start time.
pub(super) fn path_of(run: &Run) -> Result<PathBuf, String> {
    let at = Offset::UTC.to_datetime(parse_start(&run.id, &run.started)?);
    let (year, month, day, hour, minute) = (at.year(), at.month(), at.day(), at.hour(), at.minute());
    Ok(format!("{year:04}/{month:02}/{day:02}T{hour:02}{minute:02}Z-{}{SUFFIX}", run.id).into())
}

/// Parses `started` (RFC 3339), the start of the run `id`. Fails for an invalid time or ID.
pub(super) fn parse_start(id: &str, started: &str) -> Result<Timestamp, String> {
    let shown = |text: &str| plimsoll_units::text::shown_within(text, 60);
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return Err(format!("'{}' is not the id of a run", shown(id)));
    }
    started.parse().map_err(|_| format!("'{}' is not a time", shown(started)))
}

/// Writes the document of `run` below `directory`, and syncs it; replaces an older one of this run.
pub(super) fn write(directory: &Path, run: &Run, registry: &Registry) -> Result<(), StoreError> {
    let runs = directory.join(RUNS_DIRECTORY);
    let file = runs.join(path_of(run).map_err(|why| StoreError::Damaged(directory.to_owned(), why))?);
    let month = file.parent().unwrap_or(&runs);
    let written = || -> io::Result<()> {
        create_private_dir(month)?;
        replace_atomically(&file, registry, |made| packed(run, made))?;
        // The names of new directories are synced, too.
        month.ancestors().skip(1).take(3).try_for_each(synced)
    };
    written().map_err(|e| StoreError::NotWritable(file.clone(), e))
}

pub(super) fn remove(file: &Path) -> Result<(), StoreError> {
    match fs::remove_file(file) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::NotWritable(file.to_owned(), e)),
        _ => Ok(()),
    }
}

/// Creates a directory and its missing parents with mode 0700.
pub(super) fn create_private_dir(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Replaces `file` atomically by what `fill` writes to a temporary file, which `registry` records.
pub(super) fn replace_atomically(
    file: &Path,
    registry: &Registry,
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let made = registry.file_in(directory, 0o600, OFlags::empty())?;
    fill(made.file())?;
    made.file().sync_all()?;
    made.finish(file)?;
    synced(directory)
}

fn synced(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn packed(run: &Run, to: &File) -> io::Result<()> {
    let mut packer = GzEncoder::new(to, Compression::default());
    run.write_json(&mut packer)?;
    packer.finish().map(drop)
}

/// Returns the error for `file`: not readable after a failed system call, damaged after any other.
fn unread(file: &Path, error: io::Error) -> StoreError {
    match error.raw_os_error() {
        Some(_) => StoreError::NotReadable(file.to_owned(), error),
        None => StoreError::Damaged(file.to_owned(), super::error::reason(&error)),
    }
}

/// Reads the run document at `path` (gzip). Fails with `NotReadable` if a system call fails, and
/// with `Damaged` for a symbolic link, an irregular file, a text that cannot be unpacked or is not
/// UTF-8, more than [`MAX_BYTES`] of text, or an invalid document.
pub(super) fn read(path: &Path) -> Result<Run, StoreError> {
    let mut text = String::new();
    let unpacking =
        MultiGzDecoder::new(BufReader::with_capacity(1 << 16, regular(path)?)).take(MAX_BYTES + 1);
    let read = BufReader::with_capacity(1 << 16, unpacking).read_to_string(&mut text);
    read.map_err(|e| unread(path, e))?;
    let run = match text.len() as u64 {
        ..=MAX_BYTES => Run::parse(&text),
        _ => Err(format!("it is larger than {} MiB unpacked", MAX_BYTES >> 20)),
    };
    run.map_err(|why| StoreError::Damaged(path.to_owned(), why))
}

pub(super) fn regular(path: &Path) -> Result<File, StoreError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let damaged = |why: &str| StoreError::Damaged(path.to_owned(), why.to_owned());
    let file = opened.map_err(|e| match e.raw_os_error() {
        Some(number) if number == Errno::LOOP.raw_os_error() => damaged("it is a symbolic link"),
        _ => unread(path, e),
    })?;
    let about = file.metadata().map_err(|e| unread(path, e))?;
    if about.is_file() { Ok(file) } else { Err(damaged("it is not a regular file")) }
}

/// Opens a regular file of the history; `None` if it is missing.
pub(super) fn open_existing(path: &Path) -> Result<Option<File>, StoreError> {
    match regular(path) {
        Err(StoreError::NotReadable(_, e)) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Size of a file in bytes, and time of its last change in s and ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStamp {
    size: u64,
    modified: (i64, i64),
}

/// Path below [`RUNS_DIRECTORY`] and stamp.
pub(super) type DocumentFile = (String, FileStamp);

#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) entries: Vec<DocumentFile>,
    pub(super) problems: Vec<StoreError>,
}

const MAX_DEPTH: usize = 8;

/// Lists the run documents below `directory`; empty if it is missing. Files that cannot be used are
/// in [`Listing::problems`]. Fails if the directory of runs is unreadable.
pub(super) fn list_documents(directory: &Path) -> Result<Listing, StoreError> {
    let mut listing = Listing::default();
    let runs = directory.join(RUNS_DIRECTORY);
    match listing.collect(&runs, "") {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::NotReadable(runs, e)),
        _ => Ok(listing),
    }
}

impl Listing {
    fn collect(&mut self, directory: &Path, below: &str) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let path = entry.path();
            let Ok(name) = entry.file_name().into_string() else {
                self.problems.push(StoreError::Unused(path, "its name is not UTF-8".to_owned()));
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let (file, kind) = (format!("{below}{name}"), entry.file_type()?);
            if kind.is_dir() {
                self.collect_subdirectory(&path, &file);
            } else if name.ends_with(SUFFIX) {
                self.entries.extend(entry.metadata().ok().map(|about| {
                    let modified = (about.mtime(), about.mtime_nsec());
                    (file, FileStamp { size: about.len(), modified })
                }));
            } else if kind.is_symlink() && path.is_dir() {
                let why = "it is a symbolic link; put the directory itself in its place";
                self.problems.push(StoreError::Unused(path, why.to_owned()));
            } else if name.contains(".json") {
                let advice = "'plimsoll history import' enters a document that is not compressed";
                let why = format!("its name does not end in {SUFFIX}; {advice}");
                self.problems.push(StoreError::Unused(path, why));
            }
        }
        Ok(())
    }

    /// Adds the documents of `directory`, a subdirectory with the path `file` below
    /// [`RUNS_DIRECTORY`]. If it is unreadable or too deep, adds a problem instead.
    fn collect_subdirectory(&mut self, directory: &Path, file: &str) {
        if file.matches('/').count() >= MAX_DEPTH {
            let why = format!("it is more than {MAX_DEPTH} directories below {RUNS_DIRECTORY}");
            return self.problems.push(StoreError::Unused(directory.to_owned(), why));
        }
        match self.collect(directory, &format!("{file}/")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                self.problems.push(StoreError::NotReadable(directory.to_owned(), e));
            }
            _ => {}
        }
    }
}
