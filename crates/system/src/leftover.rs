//! Temporary files and directories that are removed also after a kill: each has an entry, locked
//! by its creator (flock(2)), in `$XDG_STATE_HOME/plimsoll/scratch` or the temporary directory. The
//! next start removes those with unlocked entries if parent, inode, owner and name are unchanged.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tempfile::{Builder, NamedTempFile, TempDir};

use crate::links::open_directory;

/// Name prefix of directories of reference tools; all names end with 16 hexadecimal digits.
const DIRECTORY: &str = "plimsoll-peer-";

const UNFINISHED_PREFIX: &str = ".plimsoll-";

const ENTRY: &str = ".json";

/// Age at which an entry without content is abandoned instead of being written.
const MAX_WRITING: Duration = Duration::from_secs(3600);

/// Time for which an unreachable file (unmounted disk, another machine) stays in the registry.
const REMEMBERED: Duration = Duration::from_secs(90 * 24 * 3600);

const MAX_ENTRY_BYTES: u64 = 64 << 10;

/// Registry of a user's temporary files, in the first usable directory; empty by default.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    directories: Vec<PathBuf>,
}

/// First line of an entry, written before the file is created; the second line is the inode.
#[derive(Debug, Serialize, Deserialize)]
struct EntryContent {
    /// Host name: several machines may share a home.
    host: String,
    #[serde(with = "crate::text::path")]
    parent: PathBuf,
    parent_inode: u64,
}

/// Result of [`Registry::remove_abandoned`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Removed paths, printable.
    pub removed: Vec<String>,
    /// Paths that could not be removed.
    pub left: Vec<Leftover>,
}

/// A file or directory that could not be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Path, printable.
    pub path: String,
    /// Reason why it stays.
    pub why: String,
}

/// A locked entry, removed on drop unless the file still exists.
#[derive(Debug)]
struct RegistryEntry {
    file: File,
    path: PathBuf,
    thing: PathBuf,
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        if self.thing.symlink_metadata().is_err() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A directory that only its owner may access; removed on drop with its content.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    _entry: Option<RegistryEntry>,
}

impl Scratch {
    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A file with a temporary name; removed on drop.
#[derive(Debug)]
pub struct Unfinished {
    file: NamedTempFile,
    _entry: Option<RegistryEntry>,
}

impl Unfinished {
    /// Returns the file, open for reading and writing.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Renames the file to `path`, replacing any file there; removes it on failure.
    pub fn finish(self, path: &Path) -> io::Result<()> {
        self.file.persist(path).map(drop).map_err(|e| e.error)
    }

    /// Deletes the name of the file and returns the open file.
    pub fn unnamed(self) -> io::Result<File> {
        let (file, path) = self.file.into_parts();
        path.close()?;
        Ok(file)
    }
}

impl Registry {
    /// Creates the registry in the directories that this process's environment names.
    pub fn here() -> Self {
        let (state_home, home) = (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"));
        Self::new(state_home, home, std::env::temp_dir())
    }

    /// Creates the registry below `state_home` or `home` (`$XDG_STATE_HOME`, `$HOME`) if this user
    /// or root owns that; otherwise, or if it is not writable, in `temporary`.
    fn new(state_home: Option<OsString>, home: Option<OsString>, temporary: PathBuf) -> Self {
        let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute(state_home).or_else(|| Some(absolute(home)?.join(".local/state")));
        // Under sudo with the caller's HOME, root would leave files that their owner cannot remove.
        let is_ours = |state: &PathBuf| {
            let about = state.ancestors().find_map(|directory| fs::metadata(directory).ok());
            about.is_some_and(|about| [0, me()].contains(&about.uid()))
        };
        let state = state.filter(is_ours).map(|state| state.join("plimsoll/scratch"));
        Self { directories: state.into_iter().chain([temporary]).collect() }
    }

    /// Creates a registry with its entries in `directory`.
    pub fn at(directory: &Path) -> Self {
        Self { directories: vec![directory.to_owned()] }
    }

    /// Creates a directory with a new name in `parent`, accessible to its owner alone.
    pub fn directory_in(&self, parent: &Path) -> io::Result<Scratch> {
        let (parent, name) = (parent.canonicalize()?, new_name(DIRECTORY));
        let mut entry = self.enter(&parent, &name);
        let mode = Permissions::from_mode(0o700);
        let directory = Builder::new().prefix(&name).rand_bytes(0).permissions(mode).tempdir_in(&parent)?;
        entry.iter_mut().for_each(RegistryEntry::record);
        Ok(Scratch { directory, _entry: entry })
    }

    /// Creates a file with a new name in `directory`, with permission bits `mode` and additional
    /// open(2) `flags`, such as `O_DIRECT`; fails if one of these is unsupported.
    pub fn file_in(&self, directory: &Path, mode: u32, flags: OFlags) -> io::Result<Unfinished> {
        let (parent, name) = (directory.canonicalize()?, new_name(UNFINISHED_PREFIX));
        let mut entry = self.enter(&parent, &name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        options.custom_flags((flags | OFlags::NOFOLLOW).bits().cast_signed());
        let made = Builder::new().prefix(&name).rand_bytes(0).make_in(directory, |path| options.open(path));
        if made.is_err() && flags.contains(OFlags::DIRECT) {
            // A rejected O_DIRECT can leave the empty file behind (open(2)).
            let _ = fs::remove_file(directory.join(&name));
        }
        entry.iter_mut().for_each(RegistryEntry::record);
        Ok(Unfinished { file: made?, _entry: entry })
    }

    fn enter(&self, parent: &Path, name: &str) -> Option<RegistryEntry> {
        self.directories.iter().find_map(|directory| RegistryEntry::new(directory, parent, name).ok())
    }

    /// Removes the files and directories whose creating processes have ended; continues after
    /// failures. Returns the removed paths, and those that stay, with reasons.
    pub fn remove_abandoned(&self) -> Reaped {
        let mut reaped = Reaped::default();
        let directories = self.directories.iter().flat_map(fs::read_dir);
        for path in directories.flatten().flatten().map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(ENTRY));
            let ours = name.filter(|name| name.starts_with(DIRECTORY) || name.starts_with(UNFINISHED_PREFIX));
            let Some((name, file)) = ours.and_then(|name| Some((name, lock_abandoned(&path)?))) else {
                continue;
            };
            if let Some((content, inode)) = read(&file) {
                let thing = crate::text::shown_path(&content.parent.join(name));
                match remove(&content, name, inode) {
                    Ok(false) => {}
                    Ok(true) => reaped.removed.push(thing),
                    Err(_) if is_older(&file, REMEMBERED) => {}
                    Err(why) => {
                        reaped.left.push(Leftover { path: thing, why });
                        continue;
                    }
                }
            } else if !is_older(&file, MAX_WRITING) {
                continue;
            }
            let _ = fs::remove_file(&path);
        }
        reaped
    }
}

impl RegistryEntry {
    fn new(directory: &Path, parent: &Path, name: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let parent_inode = parent.metadata()?.ino();
        let content = EntryContent { host: host(), parent: parent.to_owned(), parent_inode };
        let path = directory.join(format!("{name}{ENTRY}"));
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        let mut entry = Self { file, path, thing: parent.join(name) };
        // A reaper that sees it now ignores new and empty entries. A failure drops and removes it.
        flock(&entry.file, FlockOperation::LockExclusive)?;
        entry.file.write_all((serde_json::to_string(&content)? + "\n").as_bytes())?;
        Ok(entry)
    }

    fn record(&mut self) {
        if let Ok(about) = self.thing.symlink_metadata() {
            let _ = self.file.write_all(format!("{}\n", about.ino()).as_bytes());
        }
    }
}

/// Opens and locks a registry entry; `None` if a process holds it or it is no file of this user.
fn lock_abandoned(path: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let is_own = file.metadata().is_ok_and(|about| about.is_file() && about.uid() == me());
    (is_own && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()).then_some(file)
}

/// Removes the file or directory of an entry; returns whether it was there. `Err`: why it stays.
fn remove(content: &EntryContent, name: &str, inode: Option<u64>) -> Result<bool, String> {
    if content.host != host() {
        return Err(format!("it is on host {}", crate::text::shown(&content.host)));
    }
    let parent = open_directory(&content.parent)
        .map_err(|_| "its directory cannot be reached now; its disk may not be mounted")?;
    if fstat(&parent).map_or(0, |about| about.st_ino) != content.parent_inode {
        return Err("another directory is at its path; its disk may not be mounted".to_owned());
    }
    let found = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(false),
        found => found.map_err(|errno| errno.to_string())?,
    };
    let is_kind = match (name.starts_with(UNFINISHED_PREFIX), FileType::from_raw_mode(found.st_mode)) {
        // A creator that was killed before it recorded the inode has not written anything.
        (true, FileType::RegularFile) => inode.is_some() || found.st_size == 0,
        (false, FileType::Directory) => found.st_mode & 0o077 == 0,
        _ => false,
    };
    if !is_kind || found.st_uid != me() || inode.is_some_and(|inode| inode != found.st_ino) {
        return Err("something else than plimsoll made is there now".to_owned());
    }
    let emptied = match name.starts_with(UNFINISHED_PREFIX) {
        true => unlinkat(&parent, name, AtFlags::empty()).map_err(io::Error::from),
        false => {
            clear(parent.as_fd(), name, inode).and_then(|()| Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?))
        }
    };
    emptied.map(|()| true).map_err(|e| format!("it cannot be removed: {e}"))
}

/// Removes the content of directory `name` in `parent` if its inode is `inode`, else nothing; fails
/// if something is mounted in it.
fn clear(parent: BorrowedFd<'_>, name: &str, inode: Option<u64>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(parent, name, flags, Mode::empty())?;
    if Some(fstat(&directory)?.st_ino) != inode {
        return Ok(());
    }
    if is_mounted_below(name)? {
        return Err(Errno::BUSY.into());
    }
    for entry in fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))? {
        let entry = entry?;
        let is_directory = entry.file_type()?.is_dir();
        if is_directory { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    Ok(())
}

/// Returns whether a mount point contains the unique `name` (proc_pid_mountinfo(5), field 5).
fn is_mounted_below(name: &str) -> io::Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    Ok(points.any(|point| point.split('/').any(|part| part == name)))
}

fn read(file: &File) -> Option<(EntryContent, Option<u64>)> {
    let mut text = String::new();
    file.take(MAX_ENTRY_BYTES).read_to_string(&mut text).ok()?;
    let mut lines = text.split_inclusive('\n').map_while(|line| line.strip_suffix('\n'));
    Some((serde_json::from_str(lines.next()?).ok()?, lines.next().and_then(|line| line.parse().ok())))
}

fn is_older(entry: &File, than: Duration) -> bool {
    let modified = entry.metadata().and_then(|about| about.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > than))
}

fn new_name(start: &str) -> String {
    format!("{start}{:016x}", crate::random::unique_number())
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests;
