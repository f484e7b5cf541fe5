//! From a path to the directory that holds its last name, through symbolic links as far as they can be trusted.
//!
//! The kernel does not follow a link that somebody planted in a directory that all may write (`fs.protected_symlinks`, the
//! kernel's Documentation/admin-guide/sysctl/fs.rst). Whoever resolves a path by hand, as realpath(3) does, goes past that; and
//! the setting may be off. So each link on the way is judged here by its owner, and what was judged stays open: nobody can put
//! another thing in its place.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, fstatfs, open, openat, readlinkat, stat, statat,
};
use rustix::io::Errno;

use crate::trust::owners;

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
    let mut way = Way::along(path, false)?;
    loop {
        let name = way.rest.pop_front().ok_or(Errno::ISDIR)?;
        if let Some(place) = way.step(name)? {
            return Ok(place);
        }
    }
}

/// Follows a path to a directory; gives it open, and its path without links, which leads there now.
///
/// Root follows more links to a directory than to a file: also that of a user in a directory that he alone may write.
///
/// # Errors
/// [`LinkError::Refused`] for a link that cannot be trusted; else what the system says.
pub fn directory(path: &Path) -> Result<(OwnedFd, PathBuf), LinkError> {
    let mut way = Way::along(path, true)?;
    while let Some(name) = way.rest.pop_front() {
        let Some(place) = way.step(name)? else { continue };
        let nofollow = match place.found {
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Something(_) => OFlags::NOFOLLOW,
            Found::Open => OFlags::empty(),
        };
        let flags = LOOK | OFlags::DIRECTORY | nofollow;
        way.here = openat(&place.directory, &place.name, flags, Mode::empty())?;
    }
    let link = format!("/proc/self/fd/{}", way.here.as_raw_fd());
    let real = std::fs::read_link(link).or_else(|_| path.canonicalize())?;
    let (reached, named) = (fstat(&way.here)?, stat(&real)?);
    match (reached.st_dev, reached.st_ino) == (named.st_dev, named.st_ino) {
        true => Ok((way.here, real)),
        false => Err(Errno::NOENT.into()),
    }
}

/// Opens a directory by its absolute path, no part of which may be a link.
///
/// # Errors
/// A part is a link or no directory (`ENOTDIR`), or the system refuses.
pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let parts = path.strip_prefix("/").map_err(|_| Errno::INVAL)?;
    let root = open("/", flags, Mode::empty())?;
    parts.components().try_fold(root, |directory, part| match part {
        Component::Normal(name) => openat(&directory, name, flags, Mode::empty()),
        _ => Err(Errno::INVAL),
    })
}

/// The mount that a file was reached by (proc_pid_fdinfo(5), `mnt_id`): a bind mount has the device of what it shows.
///
/// # Errors
/// The kernel does not say.
pub fn mount(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    let path = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
    let text = std::fs::read_to_string(path).map_err(|_| Errno::XDEV)?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    id.and_then(|id| id.trim().parse().ok()).ok_or(Errno::XDEV)
}

impl Place {
    /// Whether something is mounted on the name: then nothing else can be put in its place (rename(2), EBUSY).
    pub fn is_mount_point(&self) -> bool {
        let flags = LOOK | OFlags::NOFOLLOW;
        let below =
            openat(&self.directory, &self.name, flags, Mode::empty()).and_then(|file| mount(file.as_fd()));
        matches!((below, mount(self.directory.as_fd())), (Ok(below), Ok(here)) if below != here)
    }
}

/// The part of a path that is still to be followed, from an open directory.
struct Way {
    here: OwnedFd,
    rest: VecDeque<OsString>,
    links: usize,
    /// Whose links are followed.
    owners: BTreeSet<u32>,
    /// It ends at a directory.
    to_directory: bool,
}

impl Way {
    fn along(path: &Path, to_directory: bool) -> Result<Self, LinkError> {
        let here = open(".", LOOK | OFlags::DIRECTORY, Mode::empty())?;
        let mut way = Way { here, rest: VecDeque::new(), links: 0, owners: owners(), to_directory };
        way.put_before(path)?;
        Ok(way)
    }

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
        let directory = fstat(&self.here)?;
        let shared = directory.st_mode & (Mode::WOTH | Mode::WGRP).bits() != 0;
        let same = rustix::process::geteuid().as_raw() != 0 || (self.to_directory && !shared);
        if !may_follow(&self.owners, same, about.st_uid, directory.st_uid) {
            return Err(LinkError::Refused(format!(
                "'{}' in the path is a symbolic link owned by user {}; use the path of the file itself",
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

/// Whether a link is followed: that of a trusted owner, and where `same` also that of whoever owns the directory. The last is
/// the kernel's rule, which it keeps for directories that all may write and that are sticky; here it holds for all, and for
/// root only on the way to a directory, through one that nobody else may write.
fn may_follow(owners: &BTreeSet<u32>, same: bool, link: u32, directory: u32) -> bool {
    owners.contains(&link) || (same && link == directory)
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
                "it belongs to user {}, who may have put it there; use another file",
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
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

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
        let mine = BTreeSet::from([root, me]);
        let roots = BTreeSet::from([root]);
        assert!(may_follow(&mine, true, me, root) && may_follow(&mine, true, root, root));
        assert!(may_follow(&roots, false, root, other));
        assert!(may_follow(&mine, true, other, other), "a directory whose owner made the link");
        assert!(!may_follow(&mine, true, other, root) && !may_follow(&mine, true, other, me));
        assert!(!may_follow(&roots, false, other, root) && !may_follow(&roots, false, other, other));
        assert!(
            may_follow(&BTreeSet::from([root, 65_534]), false, 65_534, 65_534),
            "root has no number here"
        );
    }

    #[test]
    fn a_directory_is_reached_open_and_by_a_path_without_links() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/b")).unwrap();
        fs::write(real.join("file"), "").unwrap();
        symlink("a/../a/b", real.join("link")).unwrap();
        for path in ["a/b", "link", "link/.", "link/../b", "a/b/../../link"] {
            let (open, path) = directory(&dir.path().join(path)).unwrap();
            assert_eq!(path, real.join("a/b"));
            assert_eq!(fstat(open).unwrap().st_ino, fs::metadata(&path).unwrap().ino());
        }
        assert_eq!(directory(Path::new("/")).unwrap().1, Path::new("/"));
        assert_eq!(directory(Path::new(".")).unwrap().1, std::env::current_dir().unwrap());
        assert_eq!(directory(Path::new("/proc/self/cwd")).unwrap().1, std::env::current_dir().unwrap());
        for (path, errno) in [("file", Errno::NOTDIR), ("none", Errno::NOENT), ("file/under", Errno::NOTDIR)]
        {
            match directory(&real.join(path)) {
                Err(LinkError::Failed(e)) => assert_eq!(Errno::from_io_error(&e), Some(errno), "{path}"),
                other => panic!("{path}: {other:?}"),
            }
        }
    }

    #[test]
    fn root_follows_a_users_link_to_a_directory_where_that_user_alone_may_write() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        symlink("../data", home.join("link")).unwrap();
        std::os::unix::fs::chown(&home, Some(4242), None).unwrap();
        std::os::unix::fs::lchown(home.join("link"), Some(4242), None).unwrap();
        let mode = |mode: u32| fs::set_permissions(&home, PermissionsExt::from_mode(mode)).unwrap();
        for (bits, follows) in [(0o755, true), (0o775, false), (0o1777, false)] {
            mode(bits);
            let found = directory(&home.join("link"));
            assert_eq!(found.is_ok(), follows, "{bits:o}: {found:?}");
            assert!(matches!(locate(&home.join("link")), Err(LinkError::Refused(_))), "to a file: {bits:o}");
        }
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
