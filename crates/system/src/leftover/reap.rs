//! Removing what makers that are gone left behind.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock};
use rustix::io::Errno;

use super::{Entry, Kind, Made, Registry, kind_of};
use crate::links::mount;

/// An entry that cannot be read is somebody's who is writing it, until it is this old.
const UNFINISHED: Duration = Duration::from_secs(3600);

/// What cannot be reached (a disk that is not mounted, another machine) is remembered for so long.
const REMEMBERED: Duration = Duration::from_secs(90 * 24 * 3600);

/// Longest text of an entry, and deepest directory that is removed.
const MOST_BYTES: u64 = 64 << 10;
const DEEPEST: usize = 64;

/// The file that the owner of a tool's directory keeps locked; it is made before the registry has the directory's inode.
const LOCK: &CStr = c".lock";

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Paths that were removed, for people.
    pub removed: Vec<String>,
    /// What could not be.
    pub left: Vec<Leftover>,
}

/// A directory or file that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its path, for people.
    pub path: String,
    /// Why it stays.
    pub why: String,
}

/// What became of one entry.
enum Fate {
    /// Its owner lives, or it cannot be told yet.
    InUse,
    /// There is nothing any more.
    Gone,
    /// The directory was removed.
    Removed(String),
    Stays(Leftover),
}

impl Registry {
    /// Removes the directories and files whose makers are gone. Trouble with one does not keep the others.
    pub fn reap(&self) -> Reaped {
        let mut reaped = Reaped::default();
        let Ok(Some(directory)) = self.open() else { return reaped };
        let Ok(entries) = Dir::read_from(&directory) else { return reaped };
        let names = entries.flatten().map(|entry| entry.file_name().to_owned());
        let names: Vec<CString> = names.filter(|name| name.to_bytes().ends_with(b".json")).collect();
        for name in names {
            let Some(entry) = locked(&directory, &name) else { continue };
            let forget = || {
                // One that stays says later that there is nothing.
                let _ = rustix::fs::unlinkat(&directory, name.as_c_str(), AtFlags::empty());
            };
            match fate(&entry) {
                Fate::InUse => {}
                Fate::Gone => forget(),
                Fate::Removed(path) => {
                    forget();
                    reaped.removed.push(path);
                }
                Fate::Stays(_) if older(&entry, REMEMBERED) => forget(),
                Fate::Stays(left) => reaped.left.push(left),
            }
        }
        reaped
    }
}

/// An entry that nobody else holds; it is held while the answer lives.
fn locked(directory: &File, name: &CStr) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::openat(directory, name, flags, Mode::empty()).ok()?);
    let own = rustix::fs::fstat(&file).is_ok_and(|stat| {
        stat.st_uid == rustix::process::geteuid().as_raw()
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
    });
    let free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    (own && free).then_some(file)
}

fn older(entry: &File, than: Duration) -> bool {
    let modified = entry.metadata().and_then(|about| about.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > than))
}

fn fate(file: &File) -> Fate {
    let Some((entry, made)) = read(file) else {
        return if older(file, UNFINISHED) { Fate::Gone } else { Fate::InUse };
    };
    let parent = Path::new(OsStr::from_bytes(&entry.parent));
    let path = crate::text::shown_bytes(parent.join(&entry.name).as_os_str().as_bytes());
    let stays = |why: &str| Fate::Stays(Leftover { path: path.clone(), why: why.to_owned() });
    if !entry.owner.is_here() {
        return stays(&format!("it is on host {}", crate::text::shown(&entry.owner.host)));
    }
    if entry.owner.is_alive() {
        return Fate::InUse;
    }
    let parent = match without_links(parent) {
        Ok(parent) => parent,
        Err(_) => return stays("its directory cannot be reached now; its disk may not be mounted"),
    };
    // Devices get other numbers at each boot.
    let same_boot = entry.owner.is_of_this_boot();
    let same = |stat: &Stat, is: (u64, u64)| stat.st_ino == is.1 && (!same_boot || stat.st_dev == is.0);
    if !rustix::fs::fstat(&parent).is_ok_and(|stat| same(&stat, entry.parent_is)) {
        return stays("another directory is at its path; its disk may not be mounted");
    }
    let found = match rustix::fs::statat(&parent, entry.name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Fate::Gone,
        Err(errno) => return stays(&errno.to_string()),
        Ok(found) => found,
    };
    let kind = kind_of(OsStr::new(&entry.name));
    // Killed before it could say what it made, it had put nothing there.
    let is_it = match (kind, FileType::from_raw_mode(found.st_mode)) {
        (Some(Kind::Directory), FileType::Directory) => found.st_mode & 0o077 == 0,
        (Some(Kind::File), FileType::RegularFile) => made.is_some() || found.st_size == 0,
        _ => false,
    };
    let ours = is_it
        && found.st_uid == rustix::process::geteuid().as_raw()
        && made.is_none_or(|made| same(&found, made.is));
    if !ours {
        return stays("something else than plimsoll made is there now");
    }
    let most = if made.is_some() { Contents::Any } else { Contents::LockAlone };
    let removed = match kind {
        Some(Kind::File) => rustix::fs::unlinkat(&parent, entry.name.as_str(), AtFlags::empty()),
        _ => remove(parent.as_fd(), &entry.name, &found, most),
    };
    match removed {
        Ok(()) => Fate::Removed(path),
        Err(Errno::WOULDBLOCK) => Fate::InUse,
        Err(errno) => stays(&format!("it cannot be removed: {errno}")),
    }
}

fn read(mut file: &File) -> Option<(Entry, Option<Made>)> {
    let mut text = String::new();
    Read::take(&mut file, MOST_BYTES).read_to_string(&mut text).ok()?;
    let mut lines = text.split_inclusive('\n').map_while(|line| line.strip_suffix('\n'));
    let entry = serde_json::from_str(lines.next()?).ok()?;
    Some((entry, lines.next().and_then(|line| serde_json::from_str(line).ok())))
}

/// A directory by its absolute path, no part of which may be a link.
fn without_links(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = rustix::fs::openat(CWD, "/", flags, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => {
                directory = rustix::fs::openat(&directory, name, flags, Mode::empty())?
            }
            _ => return Err(Errno::INVAL),
        }
    }
    Ok(directory)
}

/// What a directory may hold to be removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Any,
    LockAlone,
}

fn opened(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// That nothing is mounted on `name`, and it may be entered.
fn stays_on_its_mount(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let below = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if mount(below.as_fd())? == mount(parent)? { Ok(()) } else { Err(Errno::XDEV) }
}

fn remove(parent: BorrowedFd<'_>, name: &str, found: &Stat, most: Contents) -> Result<(), Errno> {
    stays_on_its_mount(parent, name)?;
    let directory = opened(parent, name)?;
    let stat = rustix::fs::fstat(&directory)?;
    if (stat.st_dev, stat.st_ino) != (found.st_dev, found.st_ino) {
        return Err(Errno::STALE);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let lock = rustix::fs::openat(&directory, LOCK, flags, Mode::empty());
    if let Ok(lock) = &lock
        && flock(lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    {
        return Err(Errno::WOULDBLOCK);
    }
    if most == Contents::LockAlone {
        match rustix::fs::unlinkat(&directory, LOCK, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    } else {
        clear(directory.as_fd(), stat.st_dev, DEEPEST)?;
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Removes all that is in a directory, following no link and entering no other mount.
fn clear(directory: BorrowedFd<'_>, device: u64, depth: usize) -> Result<(), Errno> {
    let entries = Dir::read_from(directory)?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {
                stays_on_its_mount(directory, name)?;
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                // A tool may have taken our own rights away.
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                    && stat.st_mode & 0o700 != 0o700
                {
                    rustix::fs::chmodat(directory, name, Mode::RWXU, AtFlags::empty())?;
                }
                let below = opened(directory, name)?;
                if rustix::fs::fstat(&below)?.st_dev != device {
                    return Err(Errno::XDEV);
                }
                clear(below.as_fd(), device, depth - 1)?;
                rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
