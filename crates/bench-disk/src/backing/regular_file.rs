//! The test file: private, without a name (`O_TMPFILE`), removed with its last descriptor even
//! after SIGKILL. On a file system without `O_TMPFILE` it has a random name until just before the
//! first write, and a warning reports that.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

use crate::backing::dir::RESERVE;
use crate::backing::{DirFacts, RawDevice};
use crate::display::human;
use plimsoll_machine::{Medium, MountedFileSystem};
use plimsoll_model::job::disk::CacheMode;
use plimsoll_model::sample::CannotMeasure;
use plimsoll_system::leftover::{Registry, Unfinished};
use plimsoll_system::links::open_directory;

/// Returns the remedy for a failed file operation, such as "; raise ulimit -n"; empty if unknown.
pub(crate) fn hint(errno: Errno) -> String {
    match errno {
        Errno::NOSPC => {
            "; use another --dir. If df shows free space, the device below the file system (thin volume, loop file) is full"
        }
        Errno::DQUOT => "; the disk quota is used up (see quota -s): use another --dir",
        Errno::FBIG => match getrlimit(Resource::Fsize).current {
            Some(limit) => return format!("; RLIMIT_FSIZE is {}: raise it with ulimit -f", human(limit)),
            None => "; the file system has no files this large: use a smaller --size",
        },
        Errno::IO => "; the device failed, see dmesg",
        Errno::ROFS => "; the file system is or became read-only, see dmesg",
        Errno::INVAL => "; direct I/O needs a --block that is a multiple of the device's sector, often 4K",
        Errno::MFILE | Errno::NFILE => "; raise ulimit -n",
        _ => "",
    }
    .to_owned()
}

/// An open, nameless file in the test directory, or a device.
#[derive(Debug)]
pub(crate) struct TestFile {
    pub(crate) file: File,
    /// Use of the page cache; `Cold` is as `Buffered`.
    pub(crate) cache: CacheMode,
    /// Facts about the directory and its file system; for a device its path and size.
    pub(crate) facts: DirFacts,
    /// The device; `None` for a file.
    device: Option<Arc<RawDevice>>,
    /// Whether the file had a name for a moment.
    pub(crate) named: bool,
}

impl TestFile {
    /// Returns a path (`/proc/PID/fd/N`) by which another process of this user can open the file.
    pub(crate) fn proc_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Creates an empty file without a name in the directory of `facts`, with O_DIRECT if `cache`
    /// is [`CacheMode::Direct`]. The cause of a failure is `NotHere` if O_DIRECT is refused,
    /// `Unsafe` if another user could interfere.
    pub(crate) fn create(facts: &DirFacts, cache: CacheMode) -> Result<Self, CannotMeasure> {
        let failed = |errno| failure("opened", facts, errno);
        let dir = open_directory(&facts.path).map_err(|errno| match errno {
            // The path was resolved before; a new link in it would redirect the writes.
            Errno::NOTDIR => planted(facts, "a symbolic link appeared in the path of --dir"),
            errno => failed(errno),
        })?;
        let (made, named) = match open_nameless(&dir, cache) {
            // No O_TMPFILE gives EOPNOTSUPP, or EISDIR on old kernels (open(2)). EINVAL is either
            // that or a refused O_DIRECT; the named file distinguishes them.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                check_sticky_bit(&dir, facts)?;
                (open_named(&dir, cache, &Registry::here()), true)
            }
            made => (made.map(File::from), false),
        };
        let file = made.map_err(|errno| match errno {
            Errno::INVAL if cache == CacheMode::Direct => direct_refused(facts),
            errno => failed(errno),
        })?;
        let file = TestFile { file, cache, facts: facts.clone(), device: None, named };
        if cache == CacheMode::Direct && file.direct_alignment() == Some(0) {
            return Err(direct_refused(&file.facts));
        }
        Ok(file)
    }

    /// Returns `device` as a test file, opened again with `cache` as its use of the page cache; the
    /// device stays claimed. Fails without /proc, or if O_DIRECT is refused.
    pub(crate) fn of_device(device: &Arc<RawDevice>, cache: CacheMode) -> Result<Self, CannotMeasure> {
        // Not mounted: a name and a place for messages and facts.
        let itself = MountedFileSystem {
            fs_type: "block device".to_owned(),
            mount_point: device.name.clone(),
            source: device.name.clone(),
            options: Vec::new(),
            medium: Medium::Device,
        };
        let facts = DirFacts {
            path: device.name.clone().into(),
            file_system: Some(itself),
            available: device.bytes,
            file_size_limit: None,
        };
        let file = device.file.try_clone().map_err(|_| failure("opened", &facts, Errno::MFILE))?;
        let device = Some(Arc::clone(device));
        TestFile { file, cache, facts, device, named: false }.reopened(cache)
    }

    /// Whether the test file may be written to; false for a device without the user's consent.
    pub(crate) fn is_writable(&self) -> bool {
        self.device.as_ref().is_none_or(|device| device.claim.is_some())
    }

    pub(crate) fn is_device(&self) -> bool {
        self.device.is_some()
    }

    /// Opens the same file again, with `cache` as its use of the page cache. Fails without /proc,
    /// or if O_DIRECT is refused.
    pub(crate) fn reopened(&self, cache: CacheMode) -> Result<TestFile, CannotMeasure> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let access = if self.is_writable() { OFlags::RDWR } else { OFlags::RDONLY };
        let file = rustix::fs::open(path, access | OFlags::CLOEXEC | open_flags(cache), Mode::empty());
        let file = file.map_err(|errno| match errno {
            Errno::INVAL if cache == CacheMode::Direct => direct_refused(&self.facts),
            errno => failure("opened again", &self.facts, errno),
        })?;
        let (file, facts, device) = (File::from(file), self.facts.clone(), self.device.clone());
        Ok(TestFile { file, cache, facts, device, named: self.named })
    }

    /// Allocates the first `bytes` bytes, so that a lack of space shows before any timing; `end`:
    /// whether the file gets that length. No effect on a device, or without fallocate(2).
    pub(crate) fn allocate(&self, bytes: u64, end: AllocationEffect) -> Result<(), CannotMeasure> {
        if self.is_device() {
            return Ok(());
        }
        let keeps = end == AllocationEffect::Stays;
        let flags = if keeps { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        match retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, 0, bytes)) {
            // Some file systems cannot; the untimed fill shows a lack of space then.
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(failure("allocated", &self.facts, errno)),
        }
    }

    /// Truncates or extends the file to `bytes` with ftruncate(2); without effect on a device.
    pub(crate) fn set_len(&self, bytes: u64) -> Result<(), CannotMeasure> {
        if self.is_device() {
            return Ok(());
        }
        let done = retry_on_intr(|| rustix::fs::ftruncate(&self.file, bytes));
        done.map_err(|errno| failure("resized", &self.facts, errno))
    }

    /// Returns the length of the file or the size of the device, in bytes. Fails if fstat(2) does.
    pub(crate) fn length(&self) -> Result<u64, Errno> {
        match &self.device {
            // st_size of a block device is 0.
            Some(device) => Ok(device.bytes),
            None => Ok(u64::try_from(rustix::fs::fstat(&self.file)?.st_size).unwrap_or(0)),
        }
    }

    /// Punches a hole of `bytes` at `offset` into the file, or discards that range of the device
    /// (`BLKDISCARD`), which need not read as zeros. Fails if fallocate(2) or ioctl(2) does.
    pub(crate) fn trim(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        match self.device {
            Some(_) => plimsoll_metal::discard::discard(&self.file, offset, bytes)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            None => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.file, hole, offset, bytes)
            }
        }
    }

    /// Makes the written data durable with fdatasync(2). A failure is final: the data may be lost,
    /// and a second call would succeed.
    pub(crate) fn sync(&self) -> Result<(), CannotMeasure> {
        rustix::fs::fdatasync(&self.file).map_err(|errno| failure("synced", &self.facts, errno))
    }

    /// Returns the byte offset of the first hole, which reads as zeros without device access, or
    /// the file length if there is none. `None` if unknown, and for a device.
    pub(crate) fn first_hole(&self) -> Option<u64> {
        rustix::fs::seek(&self.file, SeekFrom::Hole(0)).ok().filter(|_| !self.is_device())
    }

    /// Returns the allocated bytes, fewer than the length if the file system compresses or shares.
    /// `None` for a device, or if fstat(2) fails.
    pub(crate) fn space_taken(&self) -> Option<u64> {
        let stat = rustix::fs::fstat(&self.file).ok().filter(|_| !self.is_device())?;
        Some(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512))
    }

    /// Returns an error text if less than 512 MiB are free on the file system: other programs fill
    /// it, so the test file must go. `None` if enough is free, and for a device.
    pub(crate) fn low_space_message(&self) -> Option<String> {
        let vfs = rustix::fs::fstatvfs(&self.file).ok().filter(|_| !self.is_device())?;
        let free = vfs.f_bavail.saturating_mul(vfs.f_frsize);
        (free < RESERVE / 2).then(|| {
            format!(
                "only {} are left on {}, so the test file was removed: another program fills the file system, or it keeps overwritten data; use another --dir",
                human(free),
                self.facts.mount_point()
            )
        })
    }

    /// Returns the alignment of direct I/O in bytes, 0 if direct I/O is impossible; `None` if the
    /// kernel (before 6.1) or the file system does not report it.
    pub(crate) fn direct_alignment(&self) -> Option<u32> {
        let stat = rustix::fs::statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
        (stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(stat.stx_dio_offset_align)
    }
}

impl AsFd for TestFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether allocation moves the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocationEffect {
    /// The file gets the allocated length.
    Moves,
    Stays,
}

fn failure(what: &str, facts: &DirFacts, errno: Errno) -> CannotMeasure {
    let (mount, hint) = (facts.mount_point(), hint(errno));
    CannotMeasure::environment(format!("the test file on {mount} cannot be {what}: {errno}{hint}"))
}

pub(crate) fn direct_refused(facts: &DirFacts) -> CannotMeasure {
    CannotMeasure::not_here(format!(
        "{} on {} does not support direct I/O (O_DIRECT); use --cache buffered or another --dir",
        facts.fs_type(),
        facts.mount_point()
    ))
}

/// Returns `O_DIRECT` for direct access, else no flags.
pub(super) fn open_flags(cache: CacheMode) -> OFlags {
    if cache == CacheMode::Direct { OFlags::DIRECT } else { OFlags::empty() }
}

/// Opens an O_TMPFILE in `dir`; `O_EXCL` forbids that the file ever gets a name.
fn open_nameless(dir: &OwnedFd, cache: CacheMode) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC | open_flags(cache);
    rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR)
}

/// Creates a file in `dir`, for file systems without O_TMPFILE, and removes its name before any
/// write. `registry` lists the file until then: after a kill the next start removes it.
fn open_named(dir: &OwnedFd, cache: CacheMode, registry: &Registry) -> Result<File, Errno> {
    let directory = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    let made = registry.file_in(&directory, 0o600, open_flags(cache));
    made.and_then(Unfinished::unnamed).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}

/// Fails if all users may write to `dir` and it is not sticky: another user could rename the file.
fn check_sticky_bit(dir: &OwnedFd, facts: &DirFacts) -> Result<(), CannotMeasure> {
    let mode = rustix::fs::fstat(dir).map_err(|errno| failure("opened", facts, errno))?.st_mode;
    if mode & 0o002 == 0 || mode & 0o1000 != 0 {
        return Ok(());
    }
    let why = "the file system has no O_TMPFILE, and all users may rename files in --dir: use a directory of your own";
    Err(planted(facts, why))
}

fn planted(facts: &DirFacts, why: &str) -> CannotMeasure {
    CannotMeasure::refused(format!("the test file on {} was refused: {why}", facts.mount_point()))
}

#[cfg(test)]
mod tests;
