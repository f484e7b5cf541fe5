//! Saved machines as `FILE.tar.gz`: written from a list of files, and read without trust in what is in it.

use super::{Content, SavedError, shown};
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
    /// Removed when this is dropped.
    _copy: TempDir,
    top: PathBuf,
}

impl Archive {
    /// Where the machine is in the copy.
    pub fn path(&self) -> &Path {
        &self.top
    }
}

/// Whether a path names an archive.
pub(super) fn is_named(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

/// Writes this as an archive at `to`, which must not exist.
pub(super) fn write(to: &Path, content: &Content) -> Result<(), SavedError> {
    let failed = |cause| SavedError::File { path: shown(to), cause };
    let file = match OpenOptions::new().write(true).create_new(true).open(to) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(SavedError::Exists(shown(to))),
        opened => opened.map_err(failed)?,
    };
    let pack = || {
        let mut tar = tar::Builder::new(GzEncoder::new(&file, Compression::default()));
        for (path, bytes) in &content.files {
            // Neither user nor time: the same machine gives the same archive.
            let mut header = Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, bytes.as_slice())?;
        }
        for (path, target) in content.relative_links() {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            header.set_mode(0o777);
            tar.append_link(&mut header, path, target)?;
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
/// It cannot be read, is no archive, holds anything but plain files, directories and links that stay inside, leads out of
/// its directory, or is larger than any machine.
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
    let no_archive = |e: io::Error| unreadable(&e, refused);
    let twice = |path: &Path, cause: io::Error| match cause.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => refused(format!(
            "{} is in the archive twice, or below an entry that is no directory",
            shown(path)
        )),
        _ => failed(cause),
    };
    let mut links = Vec::new();
    for (number, entry) in tar.entries().map_err(no_archive)?.enumerate() {
        let mut entry = entry.map_err(no_archive)?;
        if number >= MOST_ENTRIES {
            return Err(refused(format!("it has more than {MOST_ENTRIES} entries")));
        }
        let path = entry.path().map_err(no_archive)?.into_owned();
        let place = inside(copy.path(), &path)
            .ok_or_else(|| refused(format!("the path {} leads out of the archive", shown(&path))))?;
        match entry.header().entry_type() {
            EntryType::Directory => fs::create_dir_all(&place).map_err(|e| twice(&path, e))?,
            EntryType::Regular | EntryType::Continuous => {
                if entry.size() > MOST_BYTES {
                    return Err(refused(format!("{} is longer than {MOST_BYTES} bytes", shown(&path))));
                }
                fs::create_dir_all(place.parent().unwrap_or(copy.path())).map_err(|e| twice(&path, e))?;
                let opened = OpenOptions::new().write(true).create_new(true).open(&place);
                let mut file = opened.map_err(|e| twice(&path, e))?;
                io::copy(&mut entry, &mut file).map_err(no_archive)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name().map_err(no_archive)?.unwrap_or_default().into_owned();
                links.push((path, target));
            }
            EntryType::XGlobalHeader => {}
            _ => return Err(refused(format!("{} is a hard link or a device", shown(&path)))),
        }
    }
    if tar.into_inner().limit() == 0 {
        return Err(refused(format!("it is longer than {MOST_BYTES} bytes")));
    }
    // Last, so that nothing is written through one.
    for (path, target) in links {
        link(copy.path(), &path, &target)
            .map_err(|e| twice(&path, e))?
            .ok_or_else(|| refused(format!("the link {} leads out of the archive", shown(&path))))?;
    }
    let top = top_of(copy.path()).ok_or_else(|| refused(super::NO_MACHINE.to_owned()))?;
    Ok(Archive { _copy: copy, top })
}

/// Why bytes are no archive.
fn unreadable(e: &io::Error, refused: impl Fn(String) -> SavedError) -> SavedError {
    let most = MOST_BYTES >> 20;
    match e.kind() {
        // What has no header of gzip is no archive, whatever its size.
        io::ErrorKind::InvalidInput => {
            refused(format!("it is not a tar.gz that plimsoll machine --save wrote ({e})"))
        }
        _ => refused(format!("it is a damaged tar.gz, or unpacks to more than {most} MiB ({e})")),
    }
}

/// Where the machine is: at the top, or in the one directory that is all there is at the top.
fn top_of(copy: &Path) -> Option<PathBuf> {
    if super::is_machine(copy) {
        return Some(copy.to_owned());
    }
    let mut entries = fs::read_dir(copy).ok()?;
    let (only, more) = (entries.next()?.ok()?, entries.next());
    Some(only.path()).filter(|dir| more.is_none() && super::is_machine(dir))
}

/// Makes a link below `root`; `None` where it would lead out. Its way is free of other links, so that each `..` of the
/// target, which all come first, goes up one directory of the tree.
fn link(root: &Path, path: &Path, target: &Path) -> io::Result<Option<()>> {
    let Some(place) = inside(root, path) else { return Ok(None) };
    let parent = place.parent().unwrap_or(root);
    fs::create_dir_all(parent)?;
    let real = (root.canonicalize()?, parent.canonicalize()?);
    let Ok(depth) = real.1.strip_prefix(&real.0).map(|below| below.components().count()) else {
        return Ok(None);
    };
    let ups = target.components().take_while(|part| *part == Component::ParentDir).count();
    let is_plain = target.components().skip(ups).all(|part| matches!(part, Component::Normal(_)));
    let is_short = target.as_os_str().len() <= LONGEST_PATH && !target.as_os_str().is_empty();
    if real.1 != real.0.join(parent.strip_prefix(root).unwrap_or(parent))
        || ups > depth
        || !is_plain
        || !is_short
    {
        return Ok(None);
    }
    std::os::unix::fs::symlink(target, place).map(Some)
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
