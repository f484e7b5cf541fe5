//! The test file: private, nameless, gone with the last descriptor, whatever happens to the process.
//!
//! `O_TMPFILE` never gives the file a name, so nobody can attack one and nothing is left after SIGKILL. Where a
//! file system lacks it, a private directory holds the file for the moment until it is unlinked, and that is said.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Signal, getrlimit};

use super::dir::DirFacts;
use super::filesystem::FileSystem;
use super::human;
use crate::text::shown_bytes;

/// Whether the page cache stands between the case and the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Bypassed with `O_DIRECT`.
    Direct,
    /// Used.
    Buffered,
}

/// Why there is no test file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The file system does not do direct I/O.
    #[error(
        "{file_system} on {mount} refuses O_DIRECT, so the page cache cannot be bypassed; use --cache buffered or another --dir"
    )]
    DirectRefused {
        /// What it is.
        file_system: String,
        /// Where.
        mount: String,
    },
    /// A system call failed.
    #[error("the test file on {mount} cannot be {what}: {errno}{hint}")]
    Failed {
        /// What was attempted: opened, allocated …
        what: &'static str,
        /// The mount point.
        mount: String,
        /// What the kernel said.
        errno: Errno,
        /// What to do.
        hint: String,
    },
}

/// What is to be done about an errno of a file operation, as the end of a sentence.
pub fn hint(errno: Errno) -> String {
    match errno {
        Errno::NOSPC => {
            "; free some space or name another --dir. Where df shows free space, the device beneath \
                         the file system (thin volume, loop file) is full"
                .to_owned()
        }
        Errno::DQUOT => "; the disk quota is used up (see quota -s), name another --dir".to_owned(),
        Errno::FBIG => match getrlimit(Resource::Fsize).current {
            Some(limit) => format!("; RLIMIT_FSIZE is {}: raise it with ulimit -f", human(limit)),
            None => "; the file system takes no file this large: give a smaller --size".to_owned(),
        },
        Errno::IO => "; the device failed, see dmesg".to_owned(),
        Errno::ROFS => "; the file system is or became read-only, see dmesg".to_owned(),
        Errno::INVAL => {
            "; O_DIRECT wants blocks that are multiples of the device's sector, often 4 KiB".to_owned()
        }
        Errno::MFILE | Errno::NFILE => "; raise ulimit -n".to_owned(),
        _ => String::new(),
    }
}

/// An open, nameless file below the test directory.
#[derive(Debug)]
pub struct TestFile {
    file: File,
    cache: Cache,
    facts: DirFacts,
    /// It had a name for a moment.
    pub named: bool,
    /// The private directory, where it could not be removed at once (NFS keeps removed open files there).
    _left: Option<LeftDirectory>,
}

impl TestFile {
    /// Makes an empty file in the directory.
    ///
    /// # Errors
    /// When the file system refuses it, or refuses direct I/O.
    pub fn create(facts: &DirFacts, cache: Cache) -> Result<Self, TargetError> {
        survive_file_size_limit();
        let failed = |errno| failure("opened", facts, errno);
        let dir =
            rustix::fs::open(&facts.path, OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(failed)?;
        let made = match open_nameless(&dir, cache) {
            Ok(file) => Ok((file, false, None)),
            // No O_TMPFILE: EOPNOTSUPP says so, EISDIR comes from kernels that do not know it (open(2)). EINVAL is
            // either that or a refused O_DIRECT; the named file tells which.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                open_named(&dir, cache).map(|(file, left)| (file, true, left))
            }
            Err(errno) => Err(errno),
        };
        let (file, named, left) = match made {
            Ok(made) => made,
            Err(Errno::INVAL) if cache == Cache::Direct => return Err(direct_refused(facts)),
            Err(errno) => return Err(failed(errno)),
        };
        let file = TestFile { file: File::from(file), cache, facts: facts.clone(), named, _left: left };
        if cache == Cache::Direct && file.direct_alignment() == Some(0) {
            return Err(direct_refused(facts));
        }
        Ok(file)
    }

    /// The same file through the page cache, or past it.
    ///
    /// # Errors
    /// When it cannot be opened again (no /proc), or refuses direct I/O.
    pub fn reopened(&self, cache: Cache) -> Result<TestFile, TargetError> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | direct(cache), Mode::empty());
        match file {
            Ok(file) => {
                let facts = self.facts.clone();
                Ok(TestFile { file: File::from(file), cache, facts, named: self.named, _left: None })
            }
            Err(Errno::INVAL) if cache == Cache::Direct => Err(direct_refused(&self.facts)),
            Err(errno) => Err(failure("opened again", &self.facts, errno)),
        }
    }

    /// Takes `bytes` of space now, so that ENOSPC comes before anything is timed.
    ///
    /// # Errors
    /// No space, no quota, or a file larger than allowed.
    pub fn allocate(&self, bytes: u64, end: End) -> Result<(), TargetError> {
        let flags = match end {
            End::Moves => FallocateFlags::empty(),
            End::Stays => FallocateFlags::KEEP_SIZE,
        };
        loop {
            return match rustix::fs::fallocate(&self.file, flags, 0, bytes) {
                Ok(()) => Ok(()),
                Err(Errno::INTR) => continue,
                // Some file systems cannot: filling, which is not timed either, will find out.
                Err(Errno::OPNOTSUPP) => Ok(()),
                Err(errno) => Err(failure("allocated", &self.facts, errno)),
            };
        }
    }

    /// Cuts or extends the file.
    ///
    /// # Errors
    /// What ftruncate(2) says.
    pub fn set_len(&self, bytes: u64) -> Result<(), TargetError> {
        loop {
            return match rustix::fs::ftruncate(&self.file, bytes) {
                Err(Errno::INTR) => continue,
                done => done.map_err(|errno| failure("resized", &self.facts, errno)),
            };
        }
    }

    /// Asks the device to keep what was written. A failure is final: the kernel may have dropped the data, and a
    /// second call would succeed without them.
    ///
    /// # Errors
    /// What fdatasync(2) says.
    pub fn sync(&self) -> Result<(), TargetError> {
        rustix::fs::fdatasync(&self.file).map_err(|errno| failure("synced", &self.facts, errno))
    }

    /// Where it is.
    pub fn facts(&self) -> &DirFacts {
        &self.facts
    }

    /// Which file system it is on.
    pub fn file_system(&self) -> FileSystem {
        self.facts.file_system
    }

    /// Whether the page cache is bypassed.
    pub fn cache(&self) -> Cache {
        self.cache
    }

    /// The unit of direct I/O offsets and lengths in bytes, 0 where it is not possible; `None` where the kernel
    /// (before 6.1) or the file system does not say.
    pub fn direct_alignment(&self) -> Option<u32> {
        let stat = rustix::fs::statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
        (stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(stat.stx_dio_offset_align)
    }
}

impl AsFd for TestFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether allocating moves the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The file gets that length.
    Moves,
    /// Only the space is reserved.
    Stays,
}

fn direct(cache: Cache) -> OFlags {
    match cache {
        Cache::Direct => OFlags::DIRECT,
        Cache::Buffered => OFlags::empty(),
    }
}

fn failure(what: &'static str, facts: &DirFacts, errno: Errno) -> TargetError {
    let mount = shown_bytes(facts.mount.as_os_str().as_encoded_bytes());
    TargetError::Failed { what, mount, errno, hint: hint(errno) }
}

/// The error for a file that refused direct I/O, at opening or at the first transfer.
pub fn direct_refused(facts: &DirFacts) -> TargetError {
    TargetError::DirectRefused {
        file_system: facts.file_system.to_string(),
        mount: shown_bytes(facts.mount.as_os_str().as_encoded_bytes()),
    }
}

/// A write past RLIMIT_FSIZE kills by SIGXFSZ unless the signal is caught; then it fails with EFBIG.
fn survive_file_size_limit() {
    // What the flag says is not needed; a refused registration leaves the default, which is no wrong figure.
    let _ = signal_hook::flag::register(Signal::XFSZ.as_raw(), Arc::new(AtomicBool::new(false)));
}

/// `O_EXCL` forbids that the file is ever given a name.
fn open_nameless(dir: &OwnedFd, cache: Cache) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC | direct(cache);
    rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR)
}

/// A private directory, the file in it, and both names removed again.
fn open_named(dir: &OwnedFd, cache: Cache) -> Result<(OwnedFd, Option<LeftDirectory>), Errno> {
    let name = format!("plimsoll-{}-{:016x}", std::process::id(), rand::random::<u64>());
    rustix::fs::mkdirat(dir, &name, Mode::RWXU)?;
    let parent = dir.try_clone().map_err(|_| Errno::MFILE)?;
    let mut left = LeftDirectory { parent, name, there: true };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let own = rustix::fs::openat(dir, &left.name, flags, Mode::empty())?;
    // Whoever may write in the parent could have put another directory in place of ours.
    let stat = rustix::fs::fstat(&own)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
        return Err(Errno::PERM);
    }
    let flags =
        OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC | direct(cache);
    let made = rustix::fs::openat(&own, "data", flags, Mode::RUSR | Mode::WUSR);
    // A refused O_DIRECT can leave the empty file behind (open(2)): remove the name either way.
    let removed = rustix::fs::unlinkat(&own, "data", AtFlags::empty());
    let file = made?;
    removed?;
    left.remove();
    let left = left.there.then_some(left);
    Ok((file, left))
}

/// A directory of ours, removed at the latest when this is dropped.
#[derive(Debug)]
struct LeftDirectory {
    parent: OwnedFd,
    name: String,
    there: bool,
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
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::super::dir::check_dir;
    use super::*;

    fn names(dir: &Path) -> usize {
        std::fs::read_dir(dir).expect("list").count()
    }

    fn directory() -> (tempfile::TempDir, DirFacts) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let facts = check_dir(dir.path()).expect("usable");
        (dir, facts)
    }

    #[test]
    fn a_test_file_has_no_name_and_takes_no_space_once_dropped() {
        let (dir, facts) = directory();
        let file = TestFile::create(&facts, Cache::Buffered).expect("create");
        file.allocate(1 << 20, End::Moves).expect("allocate");
        assert_eq!(names(dir.path()), 0);
        let stat = rustix::fs::fstat(&file).expect("stat");
        assert_eq!((stat.st_nlink, stat.st_size, stat.st_mode & 0o777), (0, 1 << 20, 0o600));
        file.allocate(2 << 20, End::Stays).expect("allocate");
        assert_eq!(rustix::fs::fstat(&file).expect("stat").st_size, 1 << 20);
        file.set_len(0).expect("truncate");
        file.sync().expect("sync");
        drop(file);
        assert_eq!(names(dir.path()), 0);
    }

    #[test]
    fn the_named_fallback_leaves_no_name_either() {
        let (dir, facts) = directory();
        let parent =
            rustix::fs::open(&facts.path, OFlags::DIRECTORY | OFlags::PATH, Mode::empty()).expect("open");
        let (file, left) = open_named(&parent, Cache::Buffered).expect("create");
        assert!(left.is_none());
        assert_eq!(names(dir.path()), 0);
        let stat = rustix::fs::fstat(&file).expect("stat");
        assert_eq!((stat.st_nlink, stat.st_mode & 0o777), (0, 0o600));
        File::from(file).write_all_at(b"usable", 0).expect("write");
    }

    #[test]
    fn a_directory_that_was_in_use_goes_when_the_file_does() {
        let (dir, facts) = directory();
        let parent =
            rustix::fs::open(&facts.path, OFlags::DIRECTORY | OFlags::PATH, Mode::empty()).expect("open");
        let own = dir.path().join("plimsoll-left");
        std::fs::create_dir(&own).expect("create");
        std::fs::write(own.join(".nfs0001"), "as NFS leaves it").expect("write");
        let mut left = LeftDirectory { parent, name: "plimsoll-left".to_owned(), there: true };
        left.remove();
        assert_eq!(names(dir.path()), 1);
        std::fs::remove_file(own.join(".nfs0001")).expect("remove");
        drop(left);
        assert_eq!(names(dir.path()), 0);
    }

    #[test]
    fn reopened_it_is_the_same_file() {
        let (_dir, facts) = directory();
        let file = TestFile::create(&facts, Cache::Buffered).expect("create");
        file.file.write_all_at(b"here", 4096).expect("write");
        let again = file.reopened(Cache::Buffered).expect("reopen");
        let mut found = [0; 4];
        again.file.read_exact_at(&mut found, 4096).expect("read");
        assert_eq!(&found, b"here");
        let inode = |file: &TestFile| rustix::fs::fstat(file).expect("stat").st_ino;
        assert_eq!(inode(&file), inode(&again));
    }

    #[test]
    fn a_file_beyond_all_bounds_fails_before_it_is_filled() {
        let (_dir, facts) = directory();
        let file = TestFile::create(&facts, Cache::Buffered).expect("create");
        let refused = file.allocate(1 << 62, End::Moves).expect_err("too large");
        let TargetError::Failed { what: "allocated", errno: Errno::FBIG | Errno::NOSPC, .. } = &refused
        else {
            panic!("{refused:?}");
        };
        assert!(refused.to_string().contains("cannot be allocated"), "{refused}");
    }

    /// The inner half of the next test: in a process of its own, as the limit is the whole process's.
    #[test]
    #[ignore = "run by the test below, under a file size limit"]
    fn under_a_file_size_limit() {
        let Some(limit) = getrlimit(Resource::Fsize).current else { return };
        let (_dir, facts) = directory();
        assert_eq!(facts.file_size_limit, Some(limit));
        let file = TestFile::create(&facts, Cache::Buffered).expect("create");
        assert_eq!(rustix::io::pwrite(&file, b"beyond", limit), Err(Errno::FBIG));
        let refused = file.allocate(limit + 1, End::Moves).expect_err("beyond").to_string();
        assert!(refused.contains("RLIMIT_FSIZE is 1 MiB") && refused.contains("ulimit -f"), "{refused}");
    }

    /// Not caught, SIGXFSZ kills whoever writes beyond the limit.
    #[test]
    fn the_file_size_limit_is_an_error_and_not_the_end() {
        let program = std::env::current_exe().expect("this program");
        let inner = "bench::disk::target::tests::under_a_file_size_limit";
        let limited = std::process::Command::new("prlimit")
            .arg("--fsize=1048576")
            .arg(program)
            .args(["--exact", inner, "--ignored"])
            .output()
            .expect("prlimit is in util-linux, which every Linux system has");
        let text = String::from_utf8_lossy(&limited.stdout);
        assert!(limited.status.success(), "{} {text}", limited.status);
        assert!(text.contains("1 passed"), "{text}");
    }

    #[test]
    fn memory_file_systems_are_known_for_what_they_are() {
        let Ok(facts) = check_dir(Path::new("/dev/shm")) else { return };
        assert_eq!(facts.file_system.medium, Some(crate::machine::storage::Medium::Memory));
    }
}
