//! Output destination of a document: a file (replaced atomically), a pipe or terminal, or stdout.
//! Paths that another user could have manipulated are refused ([`plimsoll_system::links`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, StatxAttributes, StatxFlags, Uid, accessat, fchmod,
    fchown, fstat, fstatfs, fsync, ftruncate, major, minor, openat, statx,
};
use rustix::io::Errno;

use plimsoll_system::leftover::Registry;
use plimsoll_system::links::{FoundName, LinkError, PathPlace, locate};
use plimsoll_units::text::shown_path;

/// Time that an interrupted run waits for a stalled reader; the run ends within 2 s of the signal.
pub const LAST_PATIENCE: Duration = Duration::from_secs(1);

const INTERRUPT_LOOK_TIME: Duration = Duration::from_millis(50);

const WRITE_FLAGS: OFlags = OFlags::WRONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// Error of writing a document.
#[derive(Debug, thiserror::Error)]
pub enum UnwritableTarget {
    /// A system call failed for the file of this name.
    #[error("cannot write {0}: {1}; use another file")]
    Failed(String, io::Error),
    /// Refused because another user could have put it there, or writing could do harm; file name,
    /// reason and remedy.
    #[error("{0} is not written, for safety: {1}")]
    Refused(String, String),
}

/// Interrupts and messages while a writer waits.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Any message ends the wait for a reader; the message is not consumed.
    pub interrupts: Receiver<()>,
    /// Prints a line about the wait.
    pub notify: fn(&str),
    /// Registry of unfinished files; after a kill, the next start removes them.
    pub registry: Registry,
}

impl Waits {
    /// Returns a configuration for commands that a signal kills: a wait for a FIFO's reader has no
    /// other end. `notify` prints a line about the wait. Unfinished files are not registered.
    pub fn without_interrupts(notify: fn(&str)) -> Self {
        Self { interrupts: never(), notify, registry: Registry::default() }
    }
}

/// Returns whether `path` is standard output: `-`, `/dev/stdout`, `/dev/fd/1`, `/proc/self/fd/1`.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// A checked destination.
#[derive(Debug)]
pub struct OutputTarget {
    path: PathBuf,
    waits: Waits,
}

impl OutputTarget {
    /// Checks, without changing anything, that `path` can be written later; `waits` is used then.
    /// Fails if its directory is missing or read-only, if it is a directory, socket or device
    /// (except terminals and /dev/null), or if another user may have put it there.
    pub fn new(path: &Path, waits: &Waits) -> Result<Self, UnwritableTarget> {
        let fit = Self { path: path.to_owned(), waits: waits.clone() };
        if fit.is_stdout() {
            return Ok(fit);
        }
        let check = || -> Result<(), LinkError> {
            let place = named(path)?;
            let kind = kind(&place)?;
            if !matches!(kind, TargetKind::New | TargetKind::Open) {
                accessat(&place.directory, &place.name, Access::WRITE_OK, AtFlags::empty())?;
            }
            if matches!(kind, TargetKind::New | TargetKind::Regular) {
                let directory = Access::WRITE_OK | Access::EXEC_OK;
                accessat(&place.directory, c".", directory, AtFlags::empty())?;
                check_replaceable(&place)?;
            }
            match (kind, &place.found) {
                (TargetKind::Mounted, FoundName::Something(file)) => check_single_link(&place, file),
                _ => Ok(()),
            }
        };
        check().map_err(|error| UnwritableTarget::new(error, path))?;
        Ok(fit)
    }

    /// Returns whether the target is standard output ([`is_stdout`]).
    pub fn is_stdout(&self) -> bool {
        is_stdout(&self.path)
    }

    /// Returns the path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the text that `fill` writes. An existing file stays intact until the new one is
    /// complete. Fails if writing fails, for example because the disk is full, or if a pipe cannot
    /// be written for longer than `patience` (`None`: no time limit).
    pub fn fill(
        &self,
        patience: Option<Duration>,
        fill: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), UnwritableTarget> {
        let write = || -> Result<(), LinkError> {
            if self.is_stdout() {
                return Ok(to_stdout(fill)?);
            }
            let place = named(&self.path)?;
            match kind(&place)? {
                TargetKind::New | TargetKind::Regular => return replaced(&place, &self.waits.registry, fill),
                TargetKind::Mounted => return in_place(&place, fill),
                TargetKind::Stream | TargetKind::Open => {}
            }
            Ok(fill(&mut OpenStream::open(&place, self.waits.clone(), patience)?)?)
        };
        write().map_err(|error| UnwritableTarget::new(error, &self.path))
    }

    /// Writes `text`; an old file is intact until the new one is complete. Fails if writing fails.
    pub fn put(&self, text: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), UnwritableTarget> {
        self.fill(None, |file| file.write_all(text.as_ref()))
    }
}

/// Writes what `fill` produces to standard output; a broken pipe is no error.
fn to_stdout(fill: impl Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Opens a file, FIFO or standard output for text that is written piece by piece. A file is emptied
/// now, unlike with [`OutputTarget::fill`]. `waits` has what ends the wait for a FIFO's reader.
/// Fails like [`OutputTarget::new`].
pub fn open_incremental(path: &Path, waits: &Waits) -> Result<Box<dyn Write>, UnwritableTarget> {
    if is_stdout(path) {
        return Ok(Box::new(io::stdout()));
    }
    let open = || -> Result<Box<dyn Write>, LinkError> {
        let place = named(path)?;
        let file = match kind(&place)? {
            TargetKind::New => {
                let (flags, mode) = (WRITE_FLAGS | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o666));
                openat(&place.directory, &place.name, flags, mode)?.into()
            }
            TargetKind::Regular | TargetKind::Mounted => {
                let file = opened(&place, OFlags::empty())?;
                check_single_link(&place, &fstat(&file)?)?;
                ftruncate(&file, 0)?;
                file
            }
            TargetKind::Stream | TargetKind::Open => {
                return Ok(Box::new(BufWriter::new(OpenStream::open(&place, waits.clone(), None)?)));
            }
        };
        Ok(Box::new(BufWriter::new(file)))
    };
    open().map_err(|error| UnwritableTarget::new(error, path))
}

impl UnwritableTarget {
    fn new(error: LinkError, path: &Path) -> Self {
        let path = if is_stdout(path) { "to stdout".to_owned() } else { shown_path(path) };
        match error {
            LinkError::Refused(why) => Self::Refused(path, why),
            LinkError::Failed(cause) => Self::Failed(path, cause),
        }
    }
}

fn refuse<T>(why: &str) -> Result<T, LinkError> {
    Err(LinkError::Refused(why.to_owned()))
}

fn named(path: &Path) -> Result<PathPlace, LinkError> {
    if path.file_name().is_none() {
        return Err(Errno::ISDIR.into());
    }
    let place = locate(path)?;
    place.check_owner()?;
    Ok(place)
}

enum TargetKind {
    New,
    Regular,
    /// A bind-mounted file, as in containers: writable but not replaceable.
    Mounted,
    /// A pipe, terminal or similar, which replacing would destroy.
    Stream,
    /// Already open, through a link in /proc: cannot be replaced, so files are appended to.
    Open,
}

/// Returns the kind of target (nothing there: `New`); fails for directories, sockets, most devices.
fn kind(place: &PathPlace) -> Result<TargetKind, LinkError> {
    let (found, stream) = match &place.found {
        FoundName::Nothing => return Ok(TargetKind::New),
        FoundName::Something(found) => (**found, TargetKind::Stream),
        FoundName::Open => {
            let found = openat(&place.directory, &place.name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            (fstat(found)?, TargetKind::Open)
        }
    };
    let refused = |what: &str| refuse(&format!("it is {what}; use a regular file"));
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if matches!(stream, TargetKind::Stream) => {
            let is_mounted = attributes(place, &place.name).contains(StatxAttributes::MOUNT_ROOT);
            Ok(if is_mounted { TargetKind::Mounted } else { TargetKind::Regular })
        }
        FileType::RegularFile | FileType::Fifo => Ok(stream),
        FileType::CharacterDevice if takes_text(&found) => Ok(stream),
        FileType::CharacterDevice => refused("a character device"),
        FileType::BlockDevice => refused("a block device, whose data would be lost"),
        FileType::Socket => refused("a socket"),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => refused("no file"),
    }
}

/// Returns whether a character device only consumes text: null, zero, full or a terminal, by major
/// and minor number (kernel Documentation/admin-guide/devices.txt). Other devices act on writes.
fn takes_text(device: &Stat) -> bool {
    let number = (major(device.st_rdev), minor(device.st_rdev));
    matches!(number, (1, 3 | 5 | 7) | (4 | 5 | 136..=143 | 188, _))
}

/// Opens the checked file for writing with flags `more`, too; fails if another file replaced it.
fn opened(place: &PathPlace, more: OFlags) -> Result<File, LinkError> {
    let is_open = matches!(place.found, FoundName::Open);
    let flags = if is_open { WRITE_FLAGS.difference(OFlags::NOFOLLOW) } else { WRITE_FLAGS };
    let file: OwnedFd = openat(&place.directory, &place.name, flags | more, Mode::empty())?;
    if let FoundName::Something(found) = &place.found {
        let now = fstat(&file)?;
        if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino) {
            return refuse("it changed while it was opened; use another file");
        }
    }
    Ok(file.into())
}

/// Fails if the file has a second hard link and group or other users can write to its directory.
fn check_single_link(place: &PathPlace, file: &Stat) -> Result<(), LinkError> {
    let shared = fstat(&place.directory)?.st_mode & (Mode::WOTH | Mode::WGRP).bits() != 0;
    if shared && file.st_nlink > 1 {
        let why = "it has a second name (hard link), and others can write to its directory";
        return refuse(&format!("{why}; use another file"));
    }
    Ok(())
}

/// Fails if the file cannot be replaced: in /proc and /sys, where even root cannot create files,
/// and if it or its directory is append-only (chattr(1), a).
fn check_replaceable(place: &PathPlace) -> Result<(), LinkError> {
    const OF_THE_KERNEL: [i128; 2] = [0x9fa0, 0x6265_6572];
    if OF_THE_KERNEL.contains(&i128::from(fstatfs(&place.directory)?.f_type)) {
        return refuse("no file can be created on /proc or /sys; use another directory");
    }
    let grows = |name| attributes(place, name).contains(StatxAttributes::APPEND);
    if grows(OsStr::new("")) || grows(&place.name) {
        return refuse("it or its directory is append-only; use another file");
    }
    Ok(())
}

/// Returns the statx(2) attributes of `name`, or of the directory if it is empty; none on failure.
fn attributes(place: &PathPlace, name: &OsStr) -> StatxAttributes {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let about = statx(&place.directory, name, flags, StatxFlags::BASIC_STATS);
    about.map_or(StatxAttributes::empty(), |about| about.stx_attributes)
}

/// Overwrites the existing file with the text that `fill` writes, once all of it is written.
fn in_place(place: &PathPlace, fill: impl Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), LinkError> {
    let mut text = Vec::new();
    fill(&mut text)?;
    let mut file = opened(place, OFlags::empty())?;
    check_single_link(place, &fstat(&file)?)?;
    file.write_all(&text)?;
    ftruncate(&file, text.len() as u64)?;
    Ok(file.sync_all()?)
}

fn replaced(
    place: &PathPlace,
    registry: &Registry,
    fill: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), LinkError> {
    let directory = PathBuf::from(format!("/proc/self/fd/{}", place.directory.as_raw_fd()));
    let made = registry.file_in(&directory, 0o666, OFlags::empty())?;
    fill(&mut made.file())?;
    made.file().sync_all()?;
    if give(made.file(), &place.found).is_err() {
        // Another user's file keeps its owner.
        drop(made);
        return in_place(place, fill);
    }
    match made.finish(&directory.join(&place.name)) {
        // A mount point, which kernels before 5.8 do not report.
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => in_place(place, fill),
        finished => Ok(finished.and_then(|()| Ok(sync_directory(place)?))?),
    }
}

fn give(new: &File, old: &FoundName) -> Result<(), Errno> {
    let FoundName::Something(old) = old else { return Ok(()) };
    let group = fchown(new, None, Some(Gid::from_raw(old.st_gid)));
    fchmod(new, Mode::from_raw_mode(old.st_mode & 0o777))?;
    if old.st_uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    group.and_then(|()| fchown(new, Some(Uid::from_raw(old.st_uid)), None))
}

/// Syncs the directory that holds the file; unreadable and unsupported directories are no error.
fn sync_directory(place: &PathPlace) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(&place.directory, OsStr::new("."), flags, Mode::empty()).and_then(fsync) {
        Err(Errno::ACCESS | Errno::INVAL | Errno::NOTSUP) => Ok(()),
        done => done,
    }
}

struct OpenStream {
    file: File,
    waits: Waits,
    patience: Option<Duration>,
}

impl OpenStream {
    /// Opens a pipe, FIFO, terminal or null device; waits up to `patience` (`None`: forever) for a
    /// FIFO's reader.
    fn open(place: &PathPlace, waits: Waits, patience: Option<Duration>) -> Result<Self, LinkError> {
        let is_fifo = |found: &Stat| FileType::from_raw_mode(found.st_mode) == FileType::Fifo;
        let fifo = matches!(&place.found, FoundName::Something(found) if is_fifo(found));
        let (begun, mut reported) = (Instant::now(), false);
        loop {
            match opened(place, OFlags::APPEND) {
                Ok(file) => return Ok(Self { file, waits, patience }),
                Err(LinkError::Failed(e)) if fifo && Errno::from_io_error(&e) == Some(Errno::NXIO) => {}
                Err(error) => return Err(error),
            }
            if !reported {
                let name = shown_path(Path::new(&place.name));
                (waits.notify)(&format!("waiting for a reader of the FIFO {name}"));
                reported = true;
            }
            if is_over(&waits, begun, patience) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads this FIFO").into());
            }
            // The kernel does not notify writers of new readers.
            std::thread::sleep(INTERRUPT_LOOK_TIME);
        }
    }
}

/// Returns whether a wait since `begun` must end: interrupted, or longer than `patience` if given.
fn is_over(waits: &Waits, begun: Instant, patience: Option<Duration>) -> bool {
    !waits.interrupts.is_empty() || patience.is_some_and(|patience| begun.elapsed() > patience)
}

impl Write for OpenStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            match self.file.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
            if is_over(&self.waits, begun, self.patience) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "its reader does not read"));
            }
            let timeout = Timespec::try_from(INTERRUPT_LOOK_TIME).ok();
            let _ = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], timeout.as_ref());
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests;
