//! What the user named for a document: a file, replaced whole or not at all; a pipe or a terminal, written into; or stdout.
//!
//! What another user may have planted on the way to it is refused ([`plimsoll_system::links`]): the path is followed once when all is
//! checked and again when the document is written, each time by open directories.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
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
use plimsoll_system::links::{Found, LinkError, Place, locate};

/// How long a stopped run still waits for a reader that takes nothing: it ends within 2 s of the signal.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked whether the user wants the end.
const INTERRUPT_LOOK_TIME: Duration = Duration::from_millis(50);

/// To write, never to wait in the opening, never through a link.
const WRITE_FLAGS: OFlags = OFlags::WRONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The system says no.
    #[error("cannot write {path}: {cause}; use another file")]
    Failed {
        /// The file.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// Another user could have put it there, or writing there could do harm.
    #[error("{path} is not written, for safety: {why}")]
    Refused {
        /// The file.
        path: String,
        /// Why, and what to do.
        why: String,
    },
}

/// Whom a writer asks while it waits, and whom it tells.
#[derive(Clone, Debug)]
pub struct Waits {
    /// A message, which is left there, ends the waiting for a reader.
    pub interrupts: Receiver<()>,
    /// Told in a line what is waited for.
    pub tell: fn(&str),
    /// Where files are entered that are not finished: after a kill the next start removes them.
    pub registry: Registry,
}

impl Waits {
    /// For a command whose signals have their default effect: they end it.
    pub fn forever(tell: fn(&str)) -> Self {
        Self { interrupts: never(), tell, registry: Registry::default() }
    }
}

/// Whether a path means standard output: what is written there has one place in it, and no other file is opened for it.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// A place for a document, found fit to be written.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    waits: Waits,
}

impl Target {
    /// Checks, without changing anything, that `path` can be written; to be asked before anything is measured.
    ///
    /// # Errors
    /// Its directory is missing or read-only, it is a directory, or not to be trusted.
    pub fn new(path: &Path, waits: &Waits) -> Result<Self, TargetError> {
        let fit = Self { path: path.to_owned(), waits: waits.clone() };
        if fit.is_stdout() {
            return Ok(fit);
        }
        let check = || -> Result<(), LinkError> {
            let place = named(path)?;
            let kind = kind(&place)?;
            if !matches!(kind, Kind::New | Kind::Open) {
                accessat(&place.directory, &place.name, Access::WRITE_OK, AtFlags::empty())?;
            }
            if matches!(kind, Kind::New | Kind::Regular) {
                let directory = Access::WRITE_OK | Access::EXEC_OK;
                accessat(&place.directory, c".", directory, AtFlags::empty())?;
                holds_files(&place)?;
                replaceable(&place)?;
            }
            match (&kind, &place.found) {
                (Kind::Mounted, Found::Something(file)) => alone(&place, file),
                _ => Ok(()),
            }
        };
        check().map_err(|error| TargetError::new(error, path))?;
        Ok(fit)
    }

    /// Whether it is standard output ([`is_stdout`]), which then has nothing else.
    pub fn is_stdout(&self) -> bool {
        is_stdout(&self.path)
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a document. A file that was there before stays whole until the new one is complete and on disk.
    ///
    /// # Errors
    /// The disk is full, or anything else that the system says.
    pub fn fill(&self, fill: impl Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), TargetError> {
        self.fill_within(None, fill)
    }

    /// As [`Target::fill`], for a run that was interrupted: a reader is waited for no longer than a second.
    ///
    /// # Errors
    /// As there.
    pub fn fill_at_last(&self, fill: impl Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), TargetError> {
        self.fill_within(Some(LAST_PATIENCE), fill)
    }

    fn fill_within(
        &self,
        patience: Option<Duration>,
        fill: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), TargetError> {
        let write = || -> Result<(), LinkError> {
            if self.is_stdout() {
                return Ok(to_stdout(fill)?);
            }
            let place = named(&self.path)?;
            match kind(&place)? {
                Kind::New | Kind::Regular => return replaced(&place, &self.waits.registry, fill),
                Kind::Mounted => return in_place(&place, fill),
                Kind::Stream | Kind::Open => {}
            }
            let mut stream = Stream::open(&place, self.waits.clone(), patience)?;
            Ok(fill(&mut stream)?)
        };
        write().map_err(|error| TargetError::new(error, &self.path))
    }

    /// As [`Target::fill`], for any text.
    ///
    /// # Errors
    /// As there.
    pub fn put(&self, text: &str) -> Result<(), TargetError> {
        self.fill(|file| file.write_all(text.as_bytes()))
    }
}

/// Writes to standard output; a reader that has gone wants no more.
fn to_stdout(fill: impl Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A file, or standard output, that is written line by line as things happen; what was in it is gone.
///
/// # Errors
/// As [`Target::new`].
pub fn lines(path: &Path, waits: &Waits) -> Result<Box<dyn Write>, TargetError> {
    if is_stdout(path) {
        return Ok(Box::new(io::stdout()));
    }
    let open = || -> Result<Box<dyn Write>, LinkError> {
        let place = named(path)?;
        let file = match kind(&place)? {
            Kind::New => {
                let mode = Mode::from_raw_mode(0o666);
                openat(&place.directory, &place.name, WRITE_FLAGS | OFlags::CREATE | OFlags::EXCL, mode)?
                    .into()
            }
            Kind::Regular | Kind::Mounted => {
                let file = opened(&place, OFlags::empty())?;
                alone(&place, &fstat(&file)?)?;
                ftruncate(&file, 0)?;
                file
            }
            Kind::Stream | Kind::Open => {
                return Ok(Box::new(BufWriter::new(Stream::open(&place, waits.clone(), None)?)));
            }
        };
        Ok(Box::new(BufWriter::new(file)))
    };
    open().map_err(|error| TargetError::new(error, path))
}

impl TargetError {
    fn new(error: LinkError, path: &Path) -> Self {
        let path = match is_stdout(path) {
            true => "to stdout".to_owned(),
            false => plimsoll_units::text::shown_bytes(path.as_os_str().as_bytes()),
        };
        match error {
            LinkError::Refused(why) => Self::Refused { path, why },
            LinkError::Failed(cause) => Self::Failed { path, cause },
        }
    }
}

fn named(path: &Path) -> Result<Place, LinkError> {
    // `/`, `.` and `..`.
    if path.file_name().is_none() {
        return Err(Errno::ISDIR.into());
    }
    let place = locate(path)?;
    place.is_nobody_elses()?;
    Ok(place)
}

enum Kind {
    /// Nothing is there yet.
    New,
    Regular,
    /// A file that is mounted there by itself, as containers show single files of their host: it can be written, and nothing can
    /// be put in its place.
    Mounted,
    /// A pipe, a terminal or such, to be written into: replacing it would destroy it.
    Stream,
    /// Something that is open already, by the kernel's own link. The end of a file is written to: under its name it could not be
    /// replaced.
    Open,
}

/// What is there, as far as it may be written.
fn kind(place: &Place) -> Result<Kind, LinkError> {
    let (found, stream) = match &place.found {
        Found::Nothing => return Ok(Kind::New),
        Found::Something(found) => (**found, Kind::Stream),
        Found::Open => {
            let found = openat(&place.directory, &place.name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            (fstat(found)?, Kind::Open)
        }
    };
    let refused = |what: &str| Err(LinkError::Refused(format!("it is {what}; use a regular file")));
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if matches!(stream, Kind::Stream) => {
            let is_mounted = attributes(place, &place.name).contains(StatxAttributes::MOUNT_ROOT);
            Ok(if is_mounted { Kind::Mounted } else { Kind::Regular })
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

/// Whether a character device only takes what is written: null, zero, full, or a terminal, by its major and minor number (the
/// kernel's Documentation/admin-guide/devices.txt). Others act on it, or even on being opened.
fn takes_text(device: &Stat) -> bool {
    let number = (major(device.st_rdev), minor(device.st_rdev));
    matches!(number, (1, 3 | 5 | 7) | (4 | 5 | 136..=143 | 188, _))
}

/// Opens what was found, and that alone.
fn opened(place: &Place, more: OFlags) -> Result<File, LinkError> {
    let flags = match place.found {
        Found::Open => WRITE_FLAGS.difference(OFlags::NOFOLLOW),
        _ => WRITE_FLAGS,
    };
    let file: OwnedFd = openat(&place.directory, &place.name, flags | more, Mode::empty())?;
    if let Found::Something(found) = &place.found {
        let now = fstat(&file)?;
        if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino) {
            return Err(LinkError::Refused("it changed while it was opened; use another file".to_owned()));
        }
    }
    Ok(file.into())
}

/// Refuses to empty a file that has another name, where others could have given it this one.
fn alone(place: &Place, file: &Stat) -> Result<(), LinkError> {
    let shared = fstat(&place.directory)?.st_mode & (Mode::WOTH | Mode::WGRP).bits() != 0;
    if shared && file.st_nlink > 1 {
        return Err(LinkError::Refused(
            "it has a second name (hard link), and others can write to its directory; use another file"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Refuses the kernel's own directories, in which root may write and nobody may create a file.
fn holds_files(place: &Place) -> Result<(), LinkError> {
    /// Those of proc and sysfs (linux/magic.h).
    const OF_THE_KERNEL: [i128; 2] = [0x9fa0, 0x6265_6572];
    if OF_THE_KERNEL.contains(&i128::from(fstatfs(&place.directory)?.f_type)) {
        let why = "no file can be created on /proc or /sys; use another directory";
        return Err(LinkError::Refused(why.to_owned()));
    }
    Ok(())
}

/// Refuses what the kernel would keep from being replaced although it can be written: names and files that only grow
/// (chattr(1), a).
fn replaceable(place: &Place) -> Result<(), LinkError> {
    let grows = |name| attributes(place, name).contains(StatxAttributes::APPEND);
    match grows(OsStr::new("")) || grows(&place.name) {
        true => Err(LinkError::Refused("it or its directory is append-only; use another file".to_owned())),
        false => Ok(()),
    }
}

/// Attributes of a name in the directory, or of the directory itself for an empty name; none that its file system does not report.
fn attributes(place: &Place, name: &OsStr) -> StatxAttributes {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let about = statx(&place.directory, name, flags, StatxFlags::BASIC_STATS);
    about.map_or(StatxAttributes::empty(), |about| about.stx_attributes)
}

/// Writes into the file that is there: all is made before its first byte is changed.
fn in_place(place: &Place, fill: impl Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), LinkError> {
    let mut text = Vec::new();
    fill(&mut text)?;
    let mut file = opened(place, OFlags::empty())?;
    alone(place, &fstat(&file)?)?;
    file.write_all(&text)?;
    ftruncate(&file, text.len() as u64)?;
    Ok(file.sync_all()?)
}

/// Puts a new file in the place of what was found.
fn replaced(
    place: &Place,
    registry: &Registry,
    fill: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), LinkError> {
    let directory = PathBuf::from(format!("/proc/self/fd/{}", place.directory.as_raw_fd()));
    let made = registry.file_in(&directory, 0o666, OFlags::empty())?;
    fill(&mut made.file())?;
    made.file().sync_all()?;
    if give(made.file(), &place.found).is_err() {
        // Another user's file stays that user's.
        drop(made);
        return in_place(place, fill);
    }
    match made.finish(&directory.join(&place.name)) {
        // Something is mounted there, which kernels before 5.8 do not report.
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => in_place(place, fill),
        finished => Ok(finished.and_then(|()| Ok(synced(place)?))?),
    }
}

/// Gives a new file the owner, group and mode of the one that it replaces: its owner and its readers may rely on them.
fn give(new: &File, old: &Found) -> Result<(), Errno> {
    let Found::Something(old) = old else { return Ok(()) };
    // A group that this user is not in is kept only if the file is another user's.
    let group = fchown(new, None, Some(Gid::from_raw(old.st_gid)));
    fchmod(new, Mode::from_raw_mode(old.st_mode & 0o777))?;
    match old.st_uid == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => group.and_then(|()| fchown(new, Some(Uid::from_raw(old.st_uid)), None)),
    }
}

/// Brings the new name to the disk. A directory that may not be read, and a file system that knows no such order, are no failure.
fn synced(place: &Place) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(&place.directory, OsStr::new("."), flags, Mode::empty()).and_then(fsync) {
        Err(Errno::ACCESS | Errno::INVAL | Errno::NOTSUP) => Ok(()),
        done => done,
    }
}

/// Something open that may not take all at once.
struct Stream {
    file: File,
    waits: Waits,
    /// How long it may take nothing.
    patience: Option<Duration>,
}

impl Stream {
    /// Opens it; a FIFO as soon as it has a reader.
    fn open(place: &Place, waits: Waits, patience: Option<Duration>) -> Result<Self, LinkError> {
        let fifo = match &place.found {
            Found::Something(found) => FileType::from_raw_mode(found.st_mode) == FileType::Fifo,
            _ => false,
        };
        let begun = Instant::now();
        let mut told = false;
        loop {
            match opened(place, OFlags::APPEND) {
                Ok(file) => return Ok(Self { file, waits, patience }),
                Err(LinkError::Failed(e)) if fifo && Errno::from_io_error(&e) == Some(Errno::NXIO) => {}
                Err(error) => return Err(error),
            }
            if !told {
                let name = plimsoll_units::text::shown_bytes(place.name.as_bytes());
                (waits.tell)(&format!("waiting for a reader of the FIFO {name}"));
                told = true;
            }
            if is_over(&waits, begun, patience) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads this FIFO").into());
            }
            // The kernel tells nobody that a reader has come.
            std::thread::sleep(INTERRUPT_LOOK_TIME);
        }
    }
}

/// Whether what was begun then is waited for no longer.
fn is_over(waits: &Waits, begun: Instant, patience: Option<Duration>) -> bool {
    !waits.interrupts.is_empty() || patience.is_some_and(|patience| begun.elapsed() > patience)
}

impl Write for Stream {
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
            // Interrupted or late: it is tried again.
            let _ = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], timeout.as_ref());
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests;
