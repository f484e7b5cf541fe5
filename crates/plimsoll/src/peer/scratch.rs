//! A private directory for what a tool reads and leaves behind. It goes away with its owner; one whose owner was
//! killed goes away when the next run starts.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// Beginning of the names.
const PREFIX: &str = "plimsoll-peer-";

/// A lock that is held as long as the owner lives.
const LOCK: &str = ".lock";

/// A directory of our own, mode 0700, under a name that nobody can foresee.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    /// Held, not used: its lock says that the owner lives.
    _lock: File,
}

impl Scratch {
    /// Makes one below `parent`.
    ///
    /// # Errors
    /// The parent cannot be written.
    pub fn new(parent: &Path) -> std::io::Result<Self> {
        let ours_alone = std::fs::Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix(PREFIX).permissions(ours_alone).tempdir_in(parent)?;
        let lock =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.path().join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { directory, _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.directory.path()
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
        let scratch = Scratch::new(parent.path()).unwrap();
        assert_eq!(scratch.path().metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::write(scratch.path().join("HPL.out"), "x").unwrap();
        drop(scratch);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_owner_left_is_reaped_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::new(parent.path()).unwrap();
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
}
