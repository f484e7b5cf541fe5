//! From a path to the directory that holds its last name, through symbolic links as far as they can be trusted.
//!
//! The kernel does not follow a link that somebody planted in a directory that all may write (`fs.protected_symlinks`, the
//! kernel's Documentation/admin-guide/sysctl/fs.rst). Whoever resolves a path by hand, as realpath(3) does, goes past that; and
//! the setting may be off. So each link on the way is judged here by its owner, and what was judged stays open: nobody can put
//! another thing in its place.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, fstatfs, open, openat, readlinkat, statat};
use rustix::io::Errno;

/// Most links on the way, as in the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// To look at a name, and not into what it stands for.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Where a path leads.
#[derive(Debug)]
pub struct Place {
    /// The directory, open.
    pub directory: OwnedFd,
    /// The name in it.
    pub name: OsString,
    /// What bears the name.
    pub found: Found,
}

/// What bears a name.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// Something that is no link.
    Something(Box<Stat>),
    /// A link of the kernel's own to something open (`/proc/self/fd/1`): only the kernel can follow it.
    Open,
}

/// Why a path leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It leads through what another user may have put there.
    #[error("{0}")]
    Refused(String),
    /// The system says no.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

impl From<Errno> for LinkError {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno.into())
    }
}

/// Follows a path to its last name, which is no link then.
///
/// # Errors
/// [`LinkError::Refused`] for a link that cannot be trusted; else what the system says of the directories.
pub fn locate(path: &Path) -> Result<Place, LinkError> {
    let mut way =
        Way { here: open(".", LOOK | OFlags::DIRECTORY, Mode::empty())?, rest: VecDeque::new(), links: 0 };
    way.put_before(path)?;
    loop {
        let name = way.rest.pop_front().ok_or(Errno::ISDIR)?;
        if let Some(place) = way.step(name)? {
            return Ok(place);
        }
    }
}

/// Refuses a path that leads through a link that cannot be trusted. Whatever else is wrong with it is left to who uses it.
///
/// # Errors
/// Which link.
pub fn trusted(path: &Path) -> Result<(), String> {
    match locate(path) {
        Err(LinkError::Refused(why)) => Err(why),
        _ => Ok(()),
    }
}

/// The part of a path that is still to be followed, from an open directory.
struct Way {
    here: OwnedFd,
    rest: VecDeque<OsString>,
    links: usize,
}

impl Way {
    /// Puts the components of a path before the rest.
    fn put_before(&mut self, path: &Path) -> Result<(), LinkError> {
        let mut parts = VecDeque::new();
        for part in path.components() {
            match part {
                Component::RootDir => self.here = open("/", LOOK | OFlags::DIRECTORY, Mode::empty())?,
                Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir => parts.push_back(OsString::from("..")),
                Component::Normal(name) => parts.push_back(name.to_owned()),
            }
        }
        parts.append(&mut self.rest);
        self.rest = parts;
        Ok(())
    }

    /// One name further; the place, if it was the last one.
    fn step(&mut self, name: OsString) -> Result<Option<Place>, LinkError> {
        let last = self.rest.is_empty();
        if !last || name == ".." {
            match self.enter(&name) {
                // It is a link, or no directory.
                Err(Errno::NOTDIR | Errno::LOOP) => {}
                entered => return entered.map(|()| None).map_err(LinkError::from),
            }
        }
        let found = match openat(&self.here, &name, LOOK | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) if last => return self.end(name, Found::Nothing).map(Some),
            Err(errno) => return Err(errno.into()),
        };
        let about = fstat(&found)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::Symlink {
            return match last {
                true => self.end(name, Found::Something(Box::new(about))).map(Some),
                false => Err(Errno::NOTDIR.into()),
            };
        }
        if is_of_proc(self.here.as_fd()) {
            // What they lead to need not have a path.
            return match last {
                true => self.end(name, Found::Open).map(Some),
                false => {
                    let flags = LOOK | OFlags::DIRECTORY;
                    self.here = openat(&self.here, &name, flags, Mode::empty())?;
                    Ok(None)
                }
            };
        }
        self.follow(&name, &found, &about)?;
        Ok(None)
    }

    /// Goes into a directory that is no link. Without `O_NOFOLLOW` for `..`, which is none.
    fn enter(&mut self, name: &OsStr) -> Result<(), Errno> {
        let flags = LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        self.here = openat(&self.here, name, flags, Mode::empty())?;
        Ok(())
    }

    /// Follows a link that can be trusted.
    fn follow(&mut self, name: &OsStr, link: &OwnedFd, about: &Stat) -> Result<(), LinkError> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let me = rustix::process::geteuid().as_raw();
        if !may_follow(me, about.st_uid, fstat(&self.here)?.st_uid) {
            return Err(LinkError::Refused(format!(
                "'{}' on its way is a symbolic link of user {}, who may lead it anywhere; name the file itself",
                crate::text::shown_bytes(name.as_bytes()),
                about.st_uid
            )));
        }
        let leads = readlinkat(link, c"", Vec::new())?;
        self.put_before(Path::new(OsStr::from_bytes(leads.to_bytes())))
    }

    fn end(&self, name: OsString, found: Found) -> Result<Place, LinkError> {
        Ok(Place { directory: self.here.try_clone()?, name, found })
    }
}

/// Whether a user follows a link: his own, root's, and, but for root, also that of whoever owns the directory. The last is the
/// kernel's rule, which it keeps for directories that all may write and that are sticky; here it holds for all.
fn may_follow(me: u32, link: u32, directory: u32) -> bool {
    link == me || link == 0 || (me != 0 && link == directory)
}

/// Whether the directory is the kernel's: its links lead to what is open.
fn is_of_proc(directory: BorrowedFd<'_>) -> bool {
    fstatfs(directory).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

impl Place {
    /// Refuses what another user has put where all may write, as the kernel does with `fs.protected_regular` and
    /// `fs.protected_fifos` at 2.
    ///
    /// # Errors
    /// Whose it is.
    pub fn is_nobody_elses(&self) -> Result<(), LinkError> {
        let Found::Something(found) = &self.found else { return Ok(()) };
        let directory = fstat(&self.directory)?;
        let me = rustix::process::geteuid().as_raw();
        if is_planted(me, found.st_uid, directory.st_uid, directory.st_mode) {
            return Err(LinkError::Refused(format!(
                "it belongs to user {}, who may have put it there; name another file",
                found.st_uid
            )));
        }
        Ok(())
    }

    /// Looks again at what bears the name.
    ///
    /// # Errors
    /// What the system says.
    pub fn look(&self) -> io::Result<Stat> {
        Ok(statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Whether a file of `owner` in such a directory may be a trap for `me`.
fn is_planted(me: u32, owner: u32, directory: u32, mode: u32) -> bool {
    let sticky = mode & Mode::SVTX.bits() != 0;
    let shared = mode & (Mode::WOTH | Mode::WGRP).bits() != 0;
    sticky && shared && owner != me && owner != directory
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// The inode that a path leads to, found here and by the kernel.
    fn same(path: &Path) {
        let place = locate(path).unwrap();
        let Found::Something(found) = place.found else { panic!("{path:?}: {:?}", place.found) };
        assert_eq!(found.st_ino, fs::metadata(path).unwrap().ino(), "{path:?}");
        assert_eq!(place.directory.as_fd().try_clone_to_owned().map(|_| ()).ok(), Some(()));
    }

    #[test]
    fn paths_lead_where_the_kernel_leads_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "").unwrap();
        symlink("b/file", at("a/own")).unwrap();
        symlink(at("a/b"), at("absolute")).unwrap();
        symlink("a/../absolute/../own", at("chain")).unwrap();
        for path in ["a/b/file", "a/own", "absolute/file", "chain", "a/./b/../own", "absolute/../b/file"] {
            same(&at(path));
        }
        same(Path::new("/proc/self/stat"));
        same(Path::new("/etc/../etc/passwd"));
        assert!(matches!(locate(&at("a/new")).unwrap().found, Found::Nothing));
        assert!(matches!(locate(Path::new("/proc/self/fd/0")).unwrap().found, Found::Open));
    }

    #[test]
    fn what_leads_nowhere_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink("loop", at("loop")).unwrap();
        let errno = |path: &str| match locate(&at(path)) {
            Err(LinkError::Failed(e)) => Errno::from_io_error(&e),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(errno("loop"), Some(Errno::LOOP));
        assert_eq!(errno("file/under"), Some(Errno::NOTDIR));
        assert_eq!(errno("none/under"), Some(Errno::NOENT));
        assert_eq!(errno(".."), Some(Errno::ISDIR));
        symlink("none", at("dangling")).unwrap();
        assert!(matches!(locate(&at("dangling")).unwrap().found, Found::Nothing));
    }

    #[test]
    fn links_are_judged_by_their_owner() {
        let (root, me, other) = (0, 1000, 1001);
        assert!(may_follow(me, me, root) && may_follow(me, root, root) && may_follow(root, root, other));
        assert!(may_follow(me, other, other), "a directory whose owner made the link");
        assert!(!may_follow(me, other, root) && !may_follow(me, other, me));
        assert!(!may_follow(root, other, root) && !may_follow(root, other, other), "root follows nobody");
    }

    #[test]
    fn files_where_all_may_write_are_judged_by_their_owner() {
        let (root, me, other) = (0, 1000, 1001);
        assert!(is_planted(me, other, root, 0o1777) && is_planted(root, other, root, 0o1777));
        assert!(is_planted(me, other, root, 0o1770));
        assert!(!is_planted(me, me, root, 0o1777) && !is_planted(me, other, other, 0o1777));
        assert!(!is_planted(me, other, root, 0o777) && !is_planted(me, other, root, 0o1755));
    }
}
