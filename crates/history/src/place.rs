//! Where the history is, and whether it is safe to use it there.
//!
//! The usual place follows the XDG base directory specification 0.8: `$XDG_DATA_HOME/plimsoll/history.db`, else
//! `~/.local/share/plimsoll/history.db`; relative paths in the environment are to be ignored.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use super::error::{StoreError, name};
use crate::leftover::is_unfinished;
use crate::links::LinkError;
use crate::trust::shared_directory;

/// A history file, and how its place was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Where it is when nothing is said.
    Usual(PathBuf),
    /// As the user named it.
    Named(PathBuf),
}

/// What of the process's surroundings decides the usual place.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `$XDG_DATA_HOME`.
    pub data_home: Option<OsString>,
    /// `$HOME`.
    pub home: Option<OsString>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self {
            data_home: std::env::var_os("XDG_DATA_HOME"),
            home: std::env::var_os("HOME").filter(|home| Path::new(home).is_dir()),
        }
    }
}

impl Location {
    /// The usual place.
    ///
    /// # Errors
    /// [`StoreError::NoPlace`] when the environment names no home.
    pub fn usual(around: &Surroundings) -> Result<Self, StoreError> {
        let absolute =
            |value: &Option<OsString>| value.as_ref().map(PathBuf::from).filter(|p| p.is_absolute());
        let data = absolute(&around.data_home).or_else(|| Some(absolute(&around.home)?.join(".local/share")));
        let data =
            data.ok_or(StoreError::NoPlace { why: "HOME is not set, or is not a directory".to_owned() })?;
        Ok(Self::Usual(data.join("plimsoll/history.db")))
    }

    /// A file that the user named.
    pub fn named(file: &Path) -> Self {
        Self::Named(file.to_owned())
    }

    /// The file.
    pub fn file(&self) -> &Path {
        match self {
            Self::Usual(file) | Self::Named(file) => file,
        }
    }

    /// A file beside the history whose name has `suffix` more, in a directory that is as safe as the history's; that of the usual
    /// place is made.
    ///
    /// # Errors
    /// The directory is missing or belongs to somebody else.
    pub fn companion(&self, suffix: &str) -> Result<PathBuf, StoreError> {
        Ok(beside(&self.resolved(Make::Directory)?, suffix))
    }

    /// The file with all links in its *directory* resolved, so that the rest of the program can refuse links
    /// altogether. Makes the directory of the usual place, for its owner alone.
    ///
    /// # Errors
    /// The directory is missing or belongs to somebody else.
    pub(super) fn resolved(&self, make: Make) -> Result<PathBuf, StoreError> {
        let file = self.file();
        let directory = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let base = file
            .file_name()
            .ok_or_else(|| StoreError::refused(file, "it is a directory; use a file name"))?;
        if let Self::Usual(_) = self {
            refuse_other_home(file, directory)?;
            if make == Make::Directory {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
                made.map_err(|e| StoreError::not_writable(file, &e))?;
            }
        }
        match crate::links::directory(directory) {
            Ok((_open, real)) => {
                refuse_others_place(file, directory, &real)?;
                Ok(real.join(base))
            }
            Err(LinkError::Refused(why)) => Err(StoreError::refused(file, why)),
            Err(LinkError::Failed(_)) if make == Make::Nothing => {
                Err(StoreError::Missing { file: name(file) })
            }
            Err(LinkError::Failed(e)) => match (self, e.kind()) {
                (Self::Named(_), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    Err(StoreError::NoDirectory { file: name(file) })
                }
                _ => Err(StoreError::not_writable(file, &e)),
            },
        }
    }
}

/// Whether a missing directory is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// The directory of the usual place.
    Directory,
    /// Nothing: only what exists is read.
    Nothing,
}

/// Under sudo with the caller's HOME, files would be left there that their owner cannot write.
fn refuse_other_home(file: &Path, directory: &Path) -> Result<(), StoreError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let owner = directory.ancestors().find_map(|dir| fs::metadata(dir).ok()).map_or(0, |m| m.uid());
    refuse_owner(file, owner)?;
    refuse_shared(file, directory)
}

/// In a directory that every user can write, anybody can put another directory in the place of one of root's.
fn refuse_shared(file: &Path, directory: &Path) -> Result<(), StoreError> {
    let Some(shared) = shared_directory(directory) else { return Ok(()) };
    let why = format!(
        "every user can write {}, and the history would lie below it; use --store FILE below directories that only root can write, or --store none",
        name(&shared)
    );
    Err(StoreError::refused(file, why))
}

fn refuse_owner(file: &Path, owner: u32) -> Result<(), StoreError> {
    if owner == 0 {
        return Ok(());
    }
    let why = format!(
        "root would leave its files in the home of user {owner}; run without sudo, with HOME=/root, or with --store none"
    );
    Err(StoreError::refused(file, why))
}

/// Root keeps no history where another user could exchange it or lay links in wait, and leaves no files that their owner
/// cannot write.
fn refuse_others_place(file: &Path, typed: &Path, real: &Path) -> Result<(), StoreError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let unread = |e: std::io::Error| StoreError::not_writable(file, &e);
    for part in typed.ancestors().filter(|part| !part.as_os_str().is_empty()) {
        let found = fs::symlink_metadata(part).map_err(unread)?;
        if found.is_symlink() && found.uid() != 0 {
            let why = format!(
                "{} is a symbolic link made by user {}; use the path that it points to",
                name(part),
                found.uid()
            );
            return Err(StoreError::refused(file, why));
        }
    }
    let found = fs::metadata(real).map_err(unread)?;
    match others_place(real, &found) {
        Some(why) => Err(StoreError::refused(file, why)),
        None => refuse_shared(file, real),
    }
}

/// Why root keeps no history in this directory.
fn others_place(directory: &Path, found: &Metadata) -> Option<String> {
    let (shown, owner, mode) = (name(directory), found.uid(), found.permissions().mode());
    if owner != 0 {
        return Some(format!(
            "its directory {shown} belongs to user {owner}, and root would leave files there; run as that user (sudo -u '#{owner}' plimsoll …), or use --store FILE in a directory of root's own"
        ));
    }
    let group = mode & 0o020 != 0 && found.gid() != 0;
    let writers = match mode & 0o002 != 0 {
        true => "every user".to_owned(),
        false if group => format!("group {}", found.gid()),
        false => return None,
    };
    Some(format!(
        "{writers} can write its directory {shown}; use --store FILE in a directory that only root can write"
    ))
}

/// Looks at the file without opening it. `Ok(None)`: there is none.
///
/// Opening is left to SQLite alone: closing any other descriptor of the file would drop this process's locks on
/// it (<https://sqlite.org/howtocorrupt.html> §2.2).
pub(super) fn inspect(file: &Path) -> Result<Option<Metadata>, StoreError> {
    let found = match fs::symlink_metadata(file) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::not_writable(file, &e)),
    };
    let kind = found.file_type();
    if kind.is_symlink() {
        return Err(StoreError::refused(
            file,
            "it is a symbolic link; use the path of the file itself with --store",
        ));
    }
    if !kind.is_file() {
        return Err(StoreError::refused(file, "it is not a regular file; use another --store FILE"));
    }
    let (me, owner) = (rustix::process::geteuid().as_raw(), found.uid());
    if owner != me {
        let again = match me {
            0 => format!("run as that user (sudo -u '#{owner}' plimsoll …), or use another --store FILE"),
            _ => "ask that user for a copy, or use another --store FILE".to_owned(),
        };
        let why = format!("it belongs to user {owner}; {again}");
        return Err(StoreError::refused(file, why));
    }
    if found.nlink() > 1 && has_second_name(file, &found) {
        return Err(StoreError::refused(
            file,
            "it has a second name (hard link); copy it to a file of its own",
        ));
    }
    if found.permissions().mode() & 0o002 != 0 {
        let why =
            "every user can write it, so its runs may be anybody's; use another --store FILE".to_owned();
        return Err(StoreError::refused(file, why));
    }
    if found.len() == 0 {
        return Err(StoreError::NoHistory { file: name(file), why: "it is empty".to_owned() });
    }
    refuse_other_journals(file, &found)?;
    Ok(Some(found))
}

/// Whether the file has a second name that is not of its making. The name that a history had before it was finished is
/// removed; a file system that keeps the number of names in a cache is asked anew.
fn has_second_name(file: &Path, found: &Metadata) -> bool {
    let directory = file.parent().unwrap_or(Path::new("/"));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let same = |other: &Metadata| (other.dev(), other.ino()) == (found.dev(), found.ino());
        if is_unfinished(&entry.file_name()) && entry.metadata().is_ok_and(|other| same(&other)) {
            // Its maker may be about to do the same.
            let _ = fs::remove_file(entry.path());
        }
    }
    let asked = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    rustix::fs::statx(CWD, file, asked, StatxFlags::NLINK).map_or(true, |now| now.stx_nlink > 1)
}

/// In a directory that others can write, somebody could have laid rows in wait under the journal's name.
fn refuse_other_journals(file: &Path, found: &Metadata) -> Result<(), StoreError> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let journal = beside(file, suffix);
        if fs::symlink_metadata(&journal).is_ok_and(|j| j.uid() != found.uid() || !j.is_file()) {
            let why = format!(
                "its journal {} is a link or belongs to another user; use another --store FILE",
                name(&journal)
            );
            return Err(StoreError::refused(file, why));
        }
    }
    Ok(())
}

/// A file whose name has `suffix` more.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Whether the file system keeps shared memory and locks on this machine, as SQLite's write-ahead log needs
/// (<https://sqlite.org/wal.html>: not over a network). What is not known to be local counts as remote.
pub(super) fn is_local(directory: &Path) -> bool {
    /// From `linux/magic.h`, and the file systems' own headers for zfs and bcachefs.
    const LOCAL: [u64; 10] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0xf2f5_2010, // f2fs
        0x2fc1_2fc1, // zfs
        0xca45_1a4e, // bcachefs
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
        0x794c_7630, // overlayfs
        0x5265_4973, // reiserfs
    ];
    // The kernel's type is signed on some architectures and 32 bits wide on others.
    let magic = |f: rustix::fs::StatFs| u64::from(f.f_type as u32);
    rustix::fs::statfs(directory).is_ok_and(|f| LOCAL.contains(&magic(f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(data_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
        let around = Surroundings { data_home: data_home.map(Into::into), home: home.map(Into::into) };
        Location::usual(&around).ok().map(|l| l.file().to_owned())
    }

    #[test]
    fn the_usual_place_follows_the_xdg_rules() {
        assert_eq!(usual(Some("/data"), Some("/home/a")), Some("/data/plimsoll/history.db".into()));
        let home = Some(PathBuf::from("/home/a/.local/share/plimsoll/history.db"));
        assert_eq!(usual(None, Some("/home/a")), home);
        assert_eq!(usual(Some(""), Some("/home/a")), home);
        assert_eq!(usual(Some("relative"), Some("/home/a")), home);
        assert_eq!(usual(None, None), None);
        assert_eq!(usual(None, Some("")), None);
    }

    #[test]
    fn without_a_home_there_is_merely_no_place() {
        let error = Location::usual(&Surroundings::default()).unwrap_err();
        assert!(error.is_no_place());
        assert!(error.to_string().contains("--store"), "{error}");
    }

    #[test]
    fn root_stays_out_of_other_homes() {
        let file = Path::new("/home/a/.local/share/plimsoll/history.db");
        assert!(refuse_owner(file, 0).is_ok());
        let error = refuse_owner(file, 1000).unwrap_err();
        assert!(error.is_refusal());
        assert!(error.to_string().contains("without sudo"), "{error}");
    }

    #[test]
    fn root_keeps_no_history_below_a_directory_of_all() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".local/share/plimsoll/history.db");
        let mode = |mode: u32| fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
        for (bits, is_safe) in [(0o700, true), (0o1777, true), (0o777, false)] {
            mode(bits);
            let safe = refuse_shared(&file, file.parent().unwrap());
            assert_eq!(safe.is_ok(), is_safe, "{bits:o} {safe:?}");
        }
    }

    #[test]
    fn pseudo_file_systems_are_not_taken_for_local_disks() {
        assert!(!is_local(Path::new("/proc")));
        assert!(!is_local(Path::new("/nonexistent")));
    }
}
