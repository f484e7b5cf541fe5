//! Resolution of a path through trusted symbolic links to the directory of its last name. Another
//! user may have planted a link in a world-writable directory (`fs.protected_symlinks` may be off),
//! so each is judged by its owner, and the result is opened without following links.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat, statfs};
use rustix::io::Errno;

use crate::trust::owners;

/// Maximum number of links, as in the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;

const LOOK_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// The directory of a path's last name.
#[derive(Debug)]
pub struct PathPlace {
    /// The open directory.
    pub directory: OwnedFd,
    /// Name in the directory.
    pub name: OsString,
    /// File of that name.
    pub found: FoundName,
}

/// File of a name.
#[derive(Debug)]
pub enum FoundName {
    /// No file.
    Nothing,
    /// A file that is not a link.
    Something(Box<Stat>),
    /// A kernel link to an open file (`/proc/self/fd/1`), which only the kernel can follow.
    Open,
}

/// Reason why a path cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The path contains a file or link that another user may have planted.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

impl From<Errno> for LinkError {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno.into())
    }
}

/// Resolves the links of `path` and returns the open directory of its last name, and the file of
/// that name, if any. Fails for an untrusted link, and with `EISDIR` for `/`.
pub fn locate(path: &Path) -> Result<PathPlace, LinkError> {
    let real = follow(path, FollowEnd::Name, trusted_link(FollowEnd::Name))?;
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(Errno::ISDIR.into());
    };
    let directory = open_directory(parent)?;
    let found = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => FoundName::Nothing,
        found => match found? {
            about if FileType::from_raw_mode(about.st_mode) != FileType::Symlink => {
                FoundName::Something(Box::new(about))
            }
            _ if is_of_proc(parent) => FoundName::Open,
            // The link was created just now.
            _ => return Err(Errno::LOOP.into()),
        },
    };
    Ok(PathPlace { directory, name: name.to_owned(), found })
}

/// Returns the path of an existing directory with all links resolved. Fails for an untrusted link,
/// but root also follows a user's link in a directory that only this user may write.
pub fn directory(path: &Path) -> Result<PathBuf, LinkError> {
    let real = follow(path, FollowEnd::Directory, trusted_link(FollowEnd::Directory))?;
    open_directory(&real)?;
    Ok(real)
}

/// Opens a directory (`O_PATH`) by an absolute path. Fails with `ENOTDIR` at a link or file, and
/// with `EINVAL` for a relative path or `..`.
pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = LOOK_FLAGS | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let parts = path.strip_prefix("/").map_err(|_| Errno::INVAL)?;
    let root = open("/", flags, Mode::empty())?;
    parts.components().try_fold(root, |directory, part| match part {
        Component::Normal(name) => openat(&directory, name, flags, Mode::empty()),
        _ => Err(Errno::INVAL),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowEnd {
    Name,
    Directory,
}

/// Resolves `path` by the kernel's rules; its last name may be missing, or with `FollowEnd::Name` a
/// kernel link to an open file. `judge(directory, path, metadata)` may refuse each name.
pub(crate) fn follow(
    path: &Path,
    until: FollowEnd,
    judge: impl Fn(&Path, &Path, &Metadata) -> Result<(), LinkError>,
) -> Result<PathBuf, LinkError> {
    let mut rest = Vec::new();
    push(&mut rest, &std::path::absolute(path)?);
    let (mut here, mut links) = (PathBuf::from("/"), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(name);
        let found = match next.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound && rest.is_empty() => return Ok(next),
            found => found?,
        };
        judge(&here, &next, &found)?;
        if !found.is_symlink() {
            if !found.is_dir() && !rest.is_empty() {
                return Err(Errno::NOTDIR.into());
            }
            here = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if is_of_proc(&here) {
            if rest.is_empty() && until == FollowEnd::Name {
                return Ok(next);
            }
            here = next.canonicalize()?;
            continue;
        }
        let target = next.read_link()?;
        if target.is_absolute() {
            here = PathBuf::from("/");
        }
        push(&mut rest, &target);
    }
    Ok(here)
}

fn push(rest: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    rest.extend(parts);
}

fn trusted_link(until: FollowEnd) -> impl Fn(&Path, &Path, &Metadata) -> Result<(), LinkError> {
    let owners = owners();
    let is_root = rustix::process::geteuid().is_root();
    move |directory, name, found| {
        if !found.is_symlink() {
            return Ok(());
        }
        let about = directory.symlink_metadata()?;
        let same = !is_root || (until == FollowEnd::Directory && about.mode() & 0o022 == 0);
        if may_follow(&owners, same, found.uid(), about.uid()) {
            return Ok(());
        }
        let name = crate::text::shown_bytes(name.file_name().unwrap_or_default().as_bytes());
        Err(LinkError::Refused(format!(
            "'{name}' in the path is a symbolic link owned by user {}; use the path of the file itself",
            found.uid()
        )))
    }
}

/// Returns whether a link of user `link` may be followed: `owners` contains it or, if `same` (the
/// kernel's rule for sticky directories), it is `directory`, the owner of the link's directory.
fn may_follow(owners: &BTreeSet<u32>, same: bool, link: u32, directory: u32) -> bool {
    owners.contains(&link) || (same && link == directory)
}

fn is_of_proc(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

impl PathPlace {
    /// Fails if another user, named in the error, created the file in a shared sticky directory,
    /// like open(2) with `fs.protected_regular` and `fs.protected_fifos` at 2.
    pub fn check_owner(&self) -> Result<(), LinkError> {
        let FoundName::Something(found) = &self.found else { return Ok(()) };
        let directory = fstat(&self.directory)?;
        let me = rustix::process::geteuid().as_raw();
        if is_planted(me, found.st_uid, directory.st_uid, directory.st_mode) {
            let owner = found.st_uid;
            let why = format!("it belongs to user {owner}, who may have put it there; use another file");
            return Err(LinkError::Refused(why));
        }
        Ok(())
    }
}

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

    fn same(path: &Path) {
        let place = locate(path).unwrap();
        let FoundName::Something(found) = place.found else { panic!("{path:?}: {:?}", place.found) };
        assert_eq!(found.st_ino, fs::metadata(path).unwrap().ino(), "{path:?}");
    }

    fn errno<T: std::fmt::Debug>(found: Result<T, LinkError>) -> Errno {
        match found {
            Err(LinkError::Failed(error)) => Errno::from_io_error(&error).unwrap(),
            other => panic!("{other:?}"),
        }
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
        assert!(matches!(locate(&at("a/new")).unwrap().found, FoundName::Nothing));
        assert!(matches!(locate(Path::new("/proc/self/fd/0")).unwrap().found, FoundName::Open));
    }

    #[test]
    fn what_leads_nowhere_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink("loop", at("loop")).unwrap();
        let found = ["loop", "file/under", "none/under", "/"].map(|path| errno(locate(&at(path))));
        assert_eq!(found, [Errno::LOOP, Errno::NOTDIR, Errno::NOENT, Errno::ISDIR]);
        assert!(matches!(locate(&at("..")).unwrap().found, FoundName::Something(_)));
        symlink("none", at("dangling")).unwrap();
        assert!(matches!(locate(&at("dangling")).unwrap().found, FoundName::Nothing));
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
        let unnumbered = BTreeSet::from([root, 65_534]);
        assert!(may_follow(&unnumbered, false, 65_534, 65_534), "root has no number here");
    }

    #[test]
    fn a_directory_is_reached_by_a_path_without_links() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/b")).unwrap();
        fs::write(real.join("file"), "").unwrap();
        symlink("a/../a/b", real.join("link")).unwrap();
        for path in ["a/b", "link", "link/.", "link/../b", "a/b/../../link"] {
            assert_eq!(directory(&dir.path().join(path)).unwrap(), real.join("a/b"));
        }
        assert_eq!(directory(Path::new("/")).unwrap(), Path::new("/"));
        assert_eq!(directory(Path::new(".")).unwrap(), std::env::current_dir().unwrap());
        assert_eq!(directory(Path::new("/proc/self/cwd")).unwrap(), std::env::current_dir().unwrap());
        let found = ["file", "none", "file/under"].map(|path| errno(directory(&real.join(path))));
        assert_eq!(found, [Errno::NOTDIR, Errno::NOENT, Errno::NOTDIR]);
    }

    #[test]
    fn a_link_that_appears_after_it_was_looked_at_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/b")).unwrap();
        assert!(open_directory(&real.join("a/b")).is_ok());
        fs::rename(real.join("a"), real.join("moved")).unwrap();
        symlink("moved", real.join("a")).unwrap();
        for path in ["a/b", "a"] {
            assert_eq!(open_directory(&real.join(path)).unwrap_err(), Errno::NOTDIR, "{path}");
        }
        assert_eq!(open_directory(Path::new("relative")).unwrap_err(), Errno::INVAL);
        assert_eq!(open_directory(&real.join("../x")).unwrap_err(), Errno::INVAL);
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
