//! A private directory for what a tool reads and leaves behind. It goes away with its owner; one whose owner was
//! killed goes away when the next run starts.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::leftover::{Held, PREFIX, Registry, new_name};

/// A lock that is held as long as the owner lives.
const LOCK: &str = ".lock";

/// A directory of our own, mode 0700, under a name that nobody can foresee.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Held, not used: its lock says that the owner lives.
    _lock: File,
    /// Taken out of the registry once the directory is gone.
    held: Option<Held>,
}

impl Scratch {
    /// Makes one below `parent`, entered in the registry first. Where that cannot be written, the next run with the same
    /// directories still finds what is left.
    ///
    /// # Errors
    /// The parent cannot be written.
    pub fn new(parent: &Path, registry: Option<&Registry>) -> std::io::Result<Self> {
        /// Another run that removes what is left may take the directory before it is locked.
        const ATTEMPTS: usize = 8;
        let parent = parent.canonicalize()?;
        for _ in 1..ATTEMPTS {
            if let Some(made) = Self::made(&parent, registry, |_| {})? {
                return Ok(made);
            }
        }
        Self::made(&parent, registry, |_| {})?.ok_or_else(|| {
            std::io::Error::other("another program removes each new directory there; use another --dir")
        })
    }

    /// One attempt; `None` where somebody else has locked it, or taken it away. `before` is called before it is locked.
    fn made(
        parent: &Path,
        registry: Option<&Registry>,
        before: impl FnOnce(&Path),
    ) -> std::io::Result<Option<Self>> {
        let name = new_name(PREFIX);
        let path = parent.join(&name);
        let mut held = registry.and_then(|registry| registry.enter(parent, &name).ok());
        DirBuilder::new().mode(0o700).create(&path)?;
        let made = Removed(&path);
        let lock = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(LOCK)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            lock => lock?,
        };
        before(&path);
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        // Locked by whoever removes it, it may be gone by the time that it is free.
        let own = lock.metadata()?;
        let is_it = |about: std::fs::Metadata| (about.dev(), about.ino()) == (own.dev(), own.ino());
        if !path.join(LOCK).symlink_metadata().is_ok_and(is_it) {
            return Ok(None);
        }
        if let Some(held) = &mut held {
            held.made(&path)?;
        }
        std::mem::forget(made);
        Ok(Some(Self { path, _lock: lock, held }))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(Removed(&self.path));
        if self.path.symlink_metadata().is_ok() {
            // What could not be removed stays in the registry, for the next start.
            std::mem::forget(self.held.take());
        }
    }
}

/// Removes a directory when it is dropped.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// Removes what killed owners left below `parent`, and tells how many there were. Only directories of this user,
/// under our name, with a lock that nobody holds.
pub fn reap(parent: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(parent) else { return 0 };
    let ours = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    entries.flatten().filter(ours).filter(|entry| reap_one(&entry.path()).is_some()).count()
}

fn reap_one(path: &Path) -> Option<()> {
    let about = std::fs::symlink_metadata(path).ok()?;
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let lock: PathBuf = path.join(LOCK);
    let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).ok()?;
    let lock = OpenOptions::new().write(true).custom_flags(nofollow).open(lock).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    std::fs::remove_dir_all(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_away_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path(), None).unwrap();
        assert_eq!(scratch.path().metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::write(scratch.path().join("HPL.out"), "x").unwrap();
        drop(scratch);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_owner_left_is_reaped_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::new(parent.path(), None).unwrap();
        let left = parent.path().join(format!("{PREFIX}left"));
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join(LOCK), "").unwrap();
        std::fs::write(left.join("hpccoutf.txt"), "x").unwrap();
        let foreign = parent.path().join(format!("{PREFIX}no-lock"));
        std::fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::symlink(&foreign, parent.path().join(format!("{PREFIX}link"))).unwrap();
        assert_eq!(reap(parent.path()), 1);
        assert!(!left.exists() && alive.path().exists() && foreign.exists());
    }

    #[test]
    fn one_that_is_taken_before_it_is_locked_is_made_anew() {
        let parent = tempfile::tempdir().unwrap();
        let taken = |path: &Path| assert!(reap_one(path).is_some());
        assert!(Scratch::made(parent.path(), None, taken).unwrap().is_none());
        let mut other = None;
        let locked = |path: &Path| {
            let lock = File::open(path.join(LOCK)).unwrap();
            flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
            other = Some(lock);
        };
        assert!(Scratch::made(parent.path(), None, locked).unwrap().is_none());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
        assert!(Scratch::new(parent.path(), None).unwrap().path().exists());
    }
}
