//! Where the history is, and whether it is safe to use it there.
//!
//! The usual place follows the XDG base directory specification 0.8: `$XDG_DATA_HOME/plimsoll`, else
//! `~/.local/share/plimsoll`; relative paths in the environment are to be ignored.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::{StoreError, name};
use crate::links::LinkError;
use crate::trust::shared_directory;

/// The directory of a history, and how it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The default.
    Usual(PathBuf),
    /// As the user named it.
    Named(PathBuf),
}

/// The parts of the process's environment that decide the usual place.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `$XDG_DATA_HOME`.
    pub data_home: Option<OsString>,
    /// `$HOME`.
    pub home: Option<OsString>,
}

impl Surroundings {
    /// Reads them from this process's environment.
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
        Ok(Self::Usual(data.join("plimsoll")))
    }

    /// A directory that the user named.
    pub fn named(directory: &Path) -> Self {
        Self::Named(directory.to_owned())
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        match self {
            Self::Usual(directory) | Self::Named(directory) => directory,
        }
    }

    /// Whether a path is that of the history, or of one of its files.
    pub fn holds(&self, path: &Path) -> bool {
        const OWN: [&str; 6] = ["runs", "notes.json", "index.json", "unfinished", "unconfirmed", "watch"];
        let Ok(below) = path.strip_prefix(self.directory()) else { return false };
        below.components().next().is_none_or(|first| OWN.iter().any(|own| first.as_os_str() == *own))
    }

    /// The path of a file of this name in the directory, which is made if it is missing.
    ///
    /// # Errors
    /// As [`Store::open`](super::Store::open).
    pub fn companion(&self, file: &str) -> Result<PathBuf, StoreError> {
        Ok(self.resolved(Make::Directory)?.join(file))
    }

    /// The directory with all links on the way resolved.
    ///
    /// # Errors
    /// It is missing, is no directory, or another user could exchange what is in it.
    pub(super) fn resolved(&self, make: Make) -> Result<PathBuf, StoreError> {
        let directory = self.directory();
        if let Self::Usual(_) = self {
            refuse_other_home(directory)?;
        }
        if make == Make::Directory {
            self.refuse_above()?;
            self.make().map_err(|e| self.not_made(&e))?;
        }
        match crate::links::directory(directory) {
            Ok((_open, real)) => {
                refuse_others_place(directory, &real)?;
                Ok(real)
            }
            Err(LinkError::Refused(why)) => Err(StoreError::refused(directory, why)),
            Err(LinkError::Failed(e)) => match e {
                e if e.kind() == ErrorKind::NotFound => {
                    Err(StoreError::Missing { directory: name(directory) })
                }
                e => Err(self.not_made(&e)),
            },
        }
    }

    /// Refuses to make a named directory where another user could exchange it.
    fn refuse_above(&self) -> Result<(), StoreError> {
        let Self::Named(directory) = self else { return Ok(()) };
        let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
        match crate::links::directory(above.unwrap_or(Path::new("."))) {
            Ok((_open, real)) => refuse_others_above(directory, &real),
            Err(LinkError::Refused(why)) => Err(StoreError::refused(directory, why)),
            // The error of making it has the reason.
            Err(LinkError::Failed(_)) => Ok(()),
        }
    }

    /// Makes the directory for its owner alone: a named one only where its parent exists.
    fn make(&self) -> io::Result<()> {
        let (directory, recursive) = match self {
            Self::Usual(directory) => (directory, true),
            Self::Named(directory) => (directory, false),
        };
        match DirBuilder::new().recursive(recursive).mode(0o700).create(directory) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
            made => made,
        }
    }

    fn not_made(&self, error: &io::Error) -> StoreError {
        let directory = name(self.directory());
        let why = match (self, error.kind()) {
            (Self::Named(_), ErrorKind::NotFound) => "the directory above it does not exist",
            (_, ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => "a file is in its place",
            _ => return StoreError::not_writable(self.directory(), error),
        };
        StoreError::NoDirectory { directory, why: why.to_owned() }
    }
}

/// Whether a missing directory is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// It is.
    Directory,
    /// Only what exists is read.
    Nothing,
}

/// Under sudo with the caller's HOME, files would be left there that their owner cannot write.
fn refuse_other_home(directory: &Path) -> Result<(), StoreError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let owner = directory.ancestors().find_map(|dir| fs::metadata(dir).ok()).map_or(0, |m| m.uid());
    refuse_owner(directory, owner)?;
    refuse_shared(directory)
}

/// In a directory that every user can write and that is not sticky, anybody can exchange a directory of root's.
fn refuse_shared(directory: &Path) -> Result<(), StoreError> {
    let Some(shared) = shared_directory(directory) else { return Ok(()) };
    let why = format!(
        "every user can write {}, and the history would be below it; use --store DIR below directories that only root can write, or --store none",
        name(&shared)
    );
    Err(StoreError::refused(directory, why))
}

fn refuse_owner(directory: &Path, owner: u32) -> Result<(), StoreError> {
    if owner == 0 {
        return Ok(());
    }
    let why = format!(
        "root would leave its files in the home of user {owner}; run without sudo, with HOME=/root, or with --store none"
    );
    Err(StoreError::refused(directory, why))
}

/// Refuses a history directory that every user may write, and for root one that another user could exchange or replace by a
/// link, or in which root would leave files that the directory's owner cannot write.
fn refuse_others_place(typed: &Path, real: &Path) -> Result<(), StoreError> {
    let found = fs::metadata(real).map_err(|e| StoreError::not_readable(real, &e))?;
    if found.permissions().mode() & 0o002 != 0 {
        let why = "every user can write it, so its runs may be anybody's; use another --store DIR";
        return Err(StoreError::refused(typed, why));
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for part in typed.ancestors().filter(|part| !part.as_os_str().is_empty()) {
        let found = fs::symlink_metadata(part).map_err(|e| StoreError::not_readable(part, &e))?;
        if found.is_symlink() && found.uid() != 0 {
            let why = format!(
                "{} is a symbolic link made by user {}; use the path that it points to",
                name(part),
                found.uid()
            );
            return Err(StoreError::refused(typed, why));
        }
    }
    refuse_others(typed, "it", &found)?;
    refuse_others_above(typed, real.parent().unwrap_or(real))?;
    refuse_shared(real)
}

/// Refuses the directory above a history as [`refuse_others_place`] does, but accepts one with the sticky bit.
fn refuse_others_above(typed: &Path, above: &Path) -> Result<(), StoreError> {
    match fs::metadata(above) {
        Ok(found) if rustix::process::geteuid().is_root() => {
            refuse_others(typed, &format!("the directory above it, {},", name(above)), &found)
        }
        _ => Ok(()),
    }
}

/// Refuses a directory in which another user could exchange what is root's.
fn refuse_others(typed: &Path, which: &str, found: &Metadata) -> Result<(), StoreError> {
    let (owner, group, mode) = (found.uid(), found.gid(), found.permissions().mode());
    let others = match mode & 0o1000 == 0 {
        true if mode & 0o002 != 0 => Some("every user".to_owned()),
        true if mode & 0o020 != 0 && group != 0 => Some(format!("group {group}")),
        _ => None,
    };
    let why = match others {
        _ if owner != 0 => format!(
            "{which} belongs to user {owner}, and root would leave files there; run as that user (sudo -u '#{owner}' plimsoll …), or use --store DIR with a directory of root's own"
        ),
        Some(others) => {
            format!("{others} can write {which}; use --store DIR with a directory that only root can write")
        }
        None => return Ok(()),
    };
    Err(StoreError::refused(typed, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(data_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
        let around = Surroundings { data_home: data_home.map(Into::into), home: home.map(Into::into) };
        Location::usual(&around).ok().map(|l| l.directory().to_owned())
    }

    #[test]
    fn the_usual_place_follows_the_xdg_rules() {
        assert_eq!(usual(Some("/data"), Some("/home/a")), Some("/data/plimsoll".into()));
        let home = Some(PathBuf::from("/home/a/.local/share/plimsoll"));
        assert_eq!(usual(None, Some("/home/a")), home);
        assert_eq!(usual(Some(""), Some("/home/a")), home);
        assert_eq!(usual(Some("relative"), Some("/home/a")), home);
        assert_eq!(usual(None, None), None);
        assert_eq!(usual(None, Some("")), None);
    }

    #[test]
    fn without_a_home_there_is_merely_no_place() {
        let error = Location::usual(&Surroundings::default()).unwrap_err();
        assert!(error.is_no_place() && error.is_unplaced());
        assert!(error.to_string().contains("--store"), "{error}");
    }

    #[test]
    fn root_stays_out_of_other_homes() {
        let directory = Path::new("/home/a/.local/share/plimsoll");
        assert!(refuse_owner(directory, 0).is_ok());
        let error = refuse_owner(directory, 1000).unwrap_err();
        assert!(error.is_refusal());
        assert!(error.to_string().contains("without sudo"), "{error}");
    }

    #[test]
    fn root_keeps_no_history_below_a_directory_of_all() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".local/share/plimsoll");
        let mode = |mode: u32| fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
        for (bits, is_safe) in [(0o700, true), (0o1777, true), (0o777, false)] {
            mode(bits);
            assert_eq!(refuse_shared(&directory).is_ok(), is_safe, "{bits:o}");
        }
    }

    #[test]
    fn what_cannot_be_a_directory_is_named() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "my notes").unwrap();
        for (name, make, found) in [
            ("file", Make::Directory, "a file is in its place"),
            ("file", Make::Nothing, "a file is in its place"),
            ("file/below", Make::Directory, "a file is in its place"),
            ("none/below", Make::Directory, "the directory above it does not exist"),
            ("none", Make::Nothing, "there is no history yet"),
        ] {
            let error = Location::named(&place.path().join(name)).resolved(make).unwrap_err();
            assert!(error.is_not_found() && error.to_string().contains(found), "{name}: {error}");
        }
        assert_eq!(fs::read_to_string(place.path().join("file")).unwrap(), "my notes");
    }
}
