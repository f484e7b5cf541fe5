//! Saved machines as `FILE.tar.gz`: written from a list of files, and read without trust in what is in it.

use super::{SavedError, shown};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use tar::{EntryType, Header};
use tempfile::TempDir;

/// The most that an archive may hold, in bytes unpacked: 8192 CPUs have about 100 MiB of cpuinfo, caches and CPUID.
const MOST_BYTES: u64 = 256 << 20;
/// The most entries: 8192 CPUs of about 60 files each.
const MOST_ENTRIES: usize = 600_000;
/// The longest path of an entry, in bytes.
const LONGEST_PATH: usize = 1024;

/// An archive that was unpacked; the copy is removed when this is dropped.
#[derive(Debug)]
pub struct Archive {
    copy: TempDir,
}

impl Archive {
    /// Where the copy is.
    pub fn path(&self) -> &Path {
        self.copy.path()
    }
}

/// Whether a path names an archive.
pub(super) fn is_named(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

/// Writes these files as an archive at `to`, which must not exist.
pub(super) fn write(to: &Path, files: &[(PathBuf, Vec<u8>)]) -> Result<(), SavedError> {
    let failed = |cause| SavedError::File { path: shown(to), cause };
    let file = match OpenOptions::new().write(true).create_new(true).open(to) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(SavedError::Exists(shown(to))),
        opened => opened.map_err(failed)?,
    };
    let pack = || {
        let mut tar = tar::Builder::new(GzEncoder::new(&file, Compression::default()));
        for (path, bytes) in files {
            // Neither user nor time: the same machine gives the same archive.
            let mut header = Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, bytes.as_slice())?;
        }
        tar.into_inner()?.finish()?.flush()
    };
    pack().map_err(|cause| {
        // What was begun is no machine.
        let _ = fs::remove_file(to);
        failed(cause)
    })
}

/// Unpacks an archive into a directory of its own.
///
/// # Errors
/// It cannot be read, is no archive, holds anything but plain files and directories, leads out of its directory, or is
/// larger than any machine.
pub(super) fn read(from: &Path) -> Result<Archive, SavedError> {
    let failed = |cause| SavedError::File { path: shown(from), cause };
    let refused = |why: String| SavedError::Refused { path: shown(from), why };
    let file = File::open(from).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(refused("it is neither a directory nor a file".to_owned()));
    }
    let copy = TempDir::new().map_err(failed)?;
    // One byte more than there may be, so that what is cut off is noticed.
    let unpacked = GzDecoder::new(file).take(MOST_BYTES + 1);
    let mut tar = tar::Archive::new(unpacked);
    let no_archive = |e: io::Error| {
        refused(format!("it is no tar archive packed by gzip ({e}), or longer than {MOST_BYTES} bytes"))
    };
    for (number, entry) in tar.entries().map_err(no_archive)?.enumerate() {
        let mut entry = entry.map_err(no_archive)?;
        if number >= MOST_ENTRIES {
            return Err(refused(format!("it has more than {MOST_ENTRIES} entries")));
        }
        let path = entry.path().map_err(no_archive)?.into_owned();
        let place =
            inside(copy.path(), &path).ok_or_else(|| refused(format!("{} leads out of it", shown(&path))))?;
        match entry.header().entry_type() {
            EntryType::Directory => fs::create_dir_all(&place).map_err(failed)?,
            EntryType::Regular | EntryType::Continuous => {
                if entry.size() > MOST_BYTES {
                    return Err(refused(format!("{} is longer than {MOST_BYTES} bytes", shown(&path))));
                }
                fs::create_dir_all(place.parent().unwrap_or(copy.path())).map_err(failed)?;
                let mut file =
                    OpenOptions::new().write(true).create_new(true).open(&place).map_err(failed)?;
                io::copy(&mut entry, &mut file).map_err(no_archive)?;
            }
            EntryType::XGlobalHeader => {}
            _ => return Err(refused(format!("{} is a link or a device", shown(&path)))),
        }
    }
    if tar.into_inner().limit() == 0 {
        return Err(refused(format!("it is longer than {MOST_BYTES} bytes")));
    }
    Ok(Archive { copy })
}

/// Names in a path at most; those below /sys have some ten. Deep ones could make more directories than a file system holds.
const DEEPEST: usize = 16;

/// Where an entry lies below `root`; `None` where it would not.
fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    if path.as_os_str().len() > LONGEST_PATH {
        return None;
    }
    let (mut place, mut depth) = (root.to_owned(), 0);
    for component in path.components() {
        match component {
            Component::Normal(name) if depth < DEEPEST => {
                depth += 1;
                place.push(name);
            }
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(place)
}
