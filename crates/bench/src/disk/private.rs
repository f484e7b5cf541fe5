//! A test file that has a name for a moment, where the file system has no `O_TMPFILE`: it is made in a private
//! directory of a name that nobody can foresee, and both names are removed before a byte is written.
//!
//! A kill in that moment leaves an empty directory behind; the next start removes it. The directory is locked
//! (flock(2)) by whoever made it as long as it is in use, so that nobody removes another run's.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::leftover::{Held, NAMELESS, Registry, new_name};

/// Why there is no such file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another user can or did put something else in its place.
    Planted(&'static str),
    /// What the kernel said.
    Failed(Errno),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Refusal::Failed(errno)
    }
}

/// Makes the file, and removes both names again. Its directory is entered in the registry, so that a later start removes what a
/// kill leaves, also where nobody uses this directory again.
///
/// # Errors
/// See [`Refusal`].
pub fn open(
    dir: &OwnedFd,
    flags: OFlags,
    registry: Option<&Registry>,
) -> Result<(OwnedFd, Option<LeftDirectory>), Refusal> {
    guarded(dir)?;
    remove_left(dir);
    // Another run's tidying can take the directory in the moment before it is locked.
    const ATTEMPTS: usize = 8;
    for _ in 0..ATTEMPTS {
        match make(dir, flags, registry) {
            Err(Refusal::Failed(Errno::NOENT)) => {}
            made => return made,
        }
    }
    Err(CHANGED)
}

const CHANGED: Refusal =
    Refusal::Planted("something else was put in the place of its private directory; name another --dir");

fn make(
    dir: &OwnedFd,
    flags: OFlags,
    registry: Option<&Registry>,
) -> Result<(OwnedFd, Option<LeftDirectory>), Refusal> {
    let name = new_name(NAMELESS);
    let place = std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok();
    let mut held = registry.zip(place.as_ref()).and_then(|(all, place)| all.enter(place, &name).ok());
    rustix::fs::mkdirat(dir, &name, Mode::RWXU)?;
    if let Some((held, place)) = held.as_mut().zip(place) {
        // What is entered as not yet made is removed only while it is empty.
        let _ = held.made(&place.join(&name));
    }
    let parent = dir.try_clone().map_err(|_| Errno::MFILE)?;
    let mut left = LeftDirectory { parent, name, there: true, held };
    let own = enter(dir, &left.name)?;
    // Held until the file is open and the names are gone.
    rustix::fs::flock(&own, FlockOperation::NonBlockingLockExclusive).ok();
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let made = rustix::fs::openat(&own, "data", flags, Mode::RUSR | Mode::WUSR);
    // A refused O_DIRECT can leave the empty file behind (open(2)): remove the name either way.
    let removed = rustix::fs::unlinkat(&own, "data", AtFlags::empty());
    let file = made?;
    removed?;
    left.remove();
    let left = left.there.then_some(left);
    Ok((file, left))
}

/// Where everybody may write and nothing is sticky, everybody may rename what others made.
fn guarded(dir: &OwnedFd) -> Result<(), Refusal> {
    let mode = rustix::fs::fstat(dir)?.st_mode;
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        return Err(Refusal::Planted(
            "the file system has no O_TMPFILE, and all users may rename files in --dir: use a directory of your own",
        ));
    }
    Ok(())
}

/// Opens the private directory, if it is still the one that was made.
fn enter(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let own = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(CHANGED),
        own => own?,
    };
    // Whoever may write in the parent could have put another directory in place of ours.
    let stat = rustix::fs::fstat(&own)?;
    let ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if ours { Ok(own) } else { Err(CHANGED) }
}

/// Removes private directories whose maker is gone. What is not surely such a one is left alone.
fn remove_left(dir: &OwnedFd) {
    // The descriptor was opened to be a starting point only; reading needs another.
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let Ok(readable) = rustix::fs::openat(dir, ".", flags, Mode::empty()) else { return };
    let Ok(entries) = Dir::read_from(readable) else { return };
    for entry in entries.flatten() {
        if is_private(entry.file_name())
            && matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
        {
            remove_one(dir, entry.file_name());
        }
    }
}

fn is_private(name: &CStr) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let rest = name.to_str().ok().and_then(|name| name.strip_prefix(NAMELESS));
    rest.and_then(|rest| rest.split_once('-'))
        .is_some_and(|(process, random)| digits(process) && digits(random) && random.len() == 16)
}

/// Only a directory of this user's that nobody else may enter and nobody has locked; in it, only an empty `data`.
fn remove_one(dir: &OwnedFd, name: &CStr) {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let Ok(own) = rustix::fs::openat(dir, name, flags, Mode::empty()) else { return };
    let ours = rustix::fs::fstat(&own)
        .is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0);
    if !ours || rustix::fs::flock(own.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let empty = rustix::fs::statat(&own, "data", AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size == 0
    });
    if empty {
        let _ = rustix::fs::unlinkat(&own, "data", AtFlags::empty());
    }
    let _ = rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR);
}

/// A directory of ours, removed at the latest when this is dropped.
#[derive(Debug)]
pub struct LeftDirectory {
    parent: OwnedFd,
    name: String,
    there: bool,
    /// Its entry, by which a later start removes it after a kill.
    held: Option<Held>,
}

impl LeftDirectory {
    /// Tries to remove it; only an empty directory can be.
    fn remove(&mut self) {
        self.there &= rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR).is_err();
    }
}

impl Drop for LeftDirectory {
    fn drop(&mut self) {
        if self.there {
            self.remove();
        }
        if self.there {
            // Its entry stays, for a later start.
            std::mem::forget(self.held.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    fn names(dir: &Path) -> usize {
        std::fs::read_dir(dir).expect("list").count()
    }

    fn directory() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let opened = rustix::fs::open(dir.path(), flags, Mode::empty()).expect("open");
        (dir, opened)
    }

    /// A directory as [`open`] makes it, with what a kill left in it.
    fn left(dir: &Path, data: Option<&str>) -> String {
        let name = format!("{NAMELESS}4711-{:016x}", crate::random::number());
        let own = dir.join(&name);
        std::fs::create_dir(&own).expect("create");
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o700)).expect("chmod");
        if let Some(data) = data {
            std::fs::write(own.join("data"), data).expect("write");
        }
        name
    }

    #[test]
    fn neither_name_is_left() {
        let (dir, opened) = directory();
        let registry = Registry::at(&dir.path().join("scratch"));
        let (file, left) = open(&opened, OFlags::empty(), Some(&registry)).expect("create");
        assert_eq!(names(&dir.path().join("scratch")), 0);
        std::fs::remove_dir(dir.path().join("scratch")).expect("remove");
        assert!(left.is_none());
        assert_eq!(names(dir.path()), 0);
        let stat = rustix::fs::fstat(&file).expect("stat");
        assert_eq!((stat.st_nlink, stat.st_mode & 0o777), (0, 0o600));
        File::from(file).write_all_at(b"usable", 0).expect("write");
    }

    #[test]
    fn a_directory_that_was_in_use_goes_when_the_file_does() {
        let (dir, parent) = directory();
        let own = dir.path().join("plimsoll-left");
        std::fs::create_dir(&own).expect("create");
        std::fs::write(own.join(".nfs0001"), "as NFS leaves it").expect("write");
        let mut left = LeftDirectory { parent, name: "plimsoll-left".to_owned(), there: true, held: None };
        left.remove();
        assert_eq!(names(dir.path()), 1);
        std::fs::remove_file(own.join(".nfs0001")).expect("remove");
        drop(left);
        assert_eq!(names(dir.path()), 0);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let (dir, opened) = directory();
        left(dir.path(), None);
        left(dir.path(), Some(""));
        let full = left(dir.path(), Some("somebody's data"));
        let locked = left(dir.path(), None);
        let holder = File::open(dir.path().join(&locked)).expect("open");
        rustix::fs::flock(&holder, FlockOperation::NonBlockingLockExclusive).expect("lock");
        let entered = left(dir.path(), None);
        std::fs::set_permissions(dir.path().join(&entered), PermissionsExt::from_mode(0o755)).expect("chmod");
        std::fs::create_dir(dir.path().join("plimsoll-mine")).expect("create");
        symlink(dir.path().join(&full), dir.path().join("plimsoll-1-0123456789abcdef")).expect("link");
        remove_left(&opened);
        let mut there: Vec<String> = std::fs::read_dir(dir.path())
            .expect("list")
            .map(|entry| entry.expect("entry").file_name().into_string().expect("name"))
            .collect();
        there.sort();
        let mut expected =
            vec![full, locked, entered, "plimsoll-mine".into(), "plimsoll-1-0123456789abcdef".into()];
        expected.sort();
        assert_eq!(there, expected);
    }

    #[test]
    fn a_link_or_a_foreign_directory_in_its_place_is_refused() {
        let (dir, opened) = directory();
        let victim = dir.path().join("victim");
        std::fs::create_dir(&victim).expect("create");
        symlink(&victim, dir.path().join("link")).expect("link");
        std::fs::write(dir.path().join("file"), "").expect("write");
        std::fs::set_permissions(&victim, PermissionsExt::from_mode(0o755)).expect("chmod");
        for name in ["link", "file", "victim"] {
            assert!(matches!(enter(&opened, name), Err(Refusal::Planted(_))), "{name}");
        }
        assert!(matches!(enter(&opened, "missing"), Err(Refusal::Failed(Errno::NOENT))));
        assert_eq!(names(&victim), 0);
    }

    #[test]
    fn where_everybody_may_rename_it_is_refused_and_with_the_sticky_bit_it_is_not() {
        let (dir, opened) = directory();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).expect("chmod");
        let refused = open(&opened, OFlags::empty(), None).map(|_| ()).expect_err("not sticky");
        assert!(matches!(refused, Refusal::Planted(why) if why.contains("a directory of your own")));
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o1777)).expect("chmod");
        assert!(open(&opened, OFlags::empty(), None).is_ok());
        assert_eq!(names(dir.path()), 0);
    }

    /// Somebody whose directory it is replaces whatever appears by a link to a victim, again and again: the victim stays
    /// as it was. Where this user is root, the racer is another one.
    #[test]
    fn a_racer_with_links_gains_nothing() {
        let (dir, opened) = directory();
        let base = tempfile::tempdir().expect("temporary directory");
        let victim = base.path().join("victim");
        std::fs::create_dir(&victim).expect("create");
        std::fs::write(victim.join("data"), "precious").expect("write");
        let racers = rustix::process::geteuid().is_root().then(|| rustix::fs::Uid::from_raw(65534));
        rustix::fs::chown(dir.path(), racers, None).expect("chown");
        let place = dir.path().to_path_buf();
        let target = victim.clone();
        let (stop, stopped) = crossbeam_channel::bounded::<()>(0);
        let racer = std::thread::spawn(move || {
            // Of this thread alone.
            rustix::thread::set_thread_res_uid(racers, racers, racers).expect("another user");
            let mut won = 0;
            let mut number = 0;
            while !matches!(stopped.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected)) {
                let entries = std::fs::read_dir(&place).expect("list").flatten();
                for entry in entries
                    .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(NAMELESS.as_bytes()))
                {
                    number += 1;
                    let moved = std::fs::rename(entry.path(), place.join(format!("moved-{number}"))).is_ok();
                    won += usize::from(moved && symlink(&target, entry.path()).is_ok());
                }
            }
            won
        });
        let (mut made, mut refused) = (0, 0);
        for _ in 0..2000 {
            match open(&opened, OFlags::empty(), None) {
                Ok((file, _)) => {
                    File::from(file).write_all_at(b"overwritten", 0).expect("write");
                    made += 1;
                }
                Err(_) => refused += 1,
            }
        }
        drop(stop);
        let won = racer.join().expect("racer");
        assert_eq!(made + refused, 2000);
        assert_eq!(
            std::fs::read_to_string(victim.join("data")).expect("read"),
            "precious",
            "won {won} times"
        );
        assert_eq!(names(&victim), 1);
    }
}
