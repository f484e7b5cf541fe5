//! What a killed run leaves behind: each directory and file that outlives its maker is entered in a registry before it is made,
//! and the next start removes those whose maker is gone, wherever they are.
//!
//! The registry is a directory of this user's alone, `$XDG_STATE_HOME/plimsoll/scratch` (else below `~/.local/state`), with
//! a file for each of them. The maker holds a lock (flock(2)) on its file as long as it lives, so that a kill is noticed
//! without a word of its own. What is removed must be what was made: the same parent, the same device and inode, a
//! directory of this user's that nobody else may enter, or a file of this user's, under our name; no link is followed on the way.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::trust::shared_directory;

mod owner;
mod reap;
mod unfinished;

use owner::Owner;
pub use reap::{Leftover, Reaped};
pub use unfinished::Unfinished;

/// The name of each directory of a reference tool begins so; a process id and 16 hexadecimal digits follow.
pub const PREFIX: &str = "plimsoll-peer-";

/// The name of each directory that holds a nameless file for a moment begins so; it goes on in the same way.
pub const NAMELESS: &str = "plimsoll-";

/// The name of each file that is not finished begins so; 16 hexadecimal digits follow.
const UNFINISHED: &str = ".plimsoll-";

/// What of the process's surroundings decides where the registry is.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// `$XDG_STATE_HOME`.
    pub state_home: Option<OsString>,
    /// `$HOME`.
    pub home: Option<OsString>,
}

impl Around {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self { state_home: std::env::var_os("XDG_STATE_HOME"), home: std::env::var_os("HOME") }
    }
}

/// The registry of one user.
#[derive(Clone, Debug)]
pub struct Registry {
    directory: PathBuf,
}

/// What is entered before a directory is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// The parent's path, without links; it need not be UTF-8.
    parent: Vec<u8>,
    /// Its device and inode.
    parent_is: (u64, u64),
    /// The directory's name in it.
    name: String,
    owner: Owner,
}

/// Its device and inode, once it is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Made {
    is: (u64, u64),
}

impl Registry {
    /// Where it is when nothing is said; `None` where the environment names no home, or another user's.
    pub fn usual(around: &Around) -> Option<Self> {
        let absolute =
            |value: &Option<OsString>| value.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
        let state =
            absolute(&around.state_home).or_else(|| Some(absolute(&around.home)?.join(".local/state")))?;
        // Under sudo with the caller's HOME, root would leave files there that their owner cannot remove.
        let me = rustix::process::geteuid().as_raw();
        let owner = state.ancestors().find_map(|dir| std::fs::metadata(dir).ok()).map(|about| about.uid());
        let own = owner.is_some_and(|owner| owner == me || owner == 0);
        let own = own && (me != 0 || shared_directory(&state).is_none());
        own.then(|| Self { directory: state.join("plimsoll/scratch") })
    }

    /// That of this process.
    pub fn here() -> Option<Self> {
        Self::usual(&Around::of_process())
    }

    /// One in that directory.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Enters a directory or file of that name that is about to be made in `parent`, which must be without links.
    ///
    /// # Errors
    /// The registry cannot be written, or is not this user's alone.
    pub fn enter(&self, parent: &Path, name: &str) -> io::Result<Held> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        self.open()?.ok_or(io::ErrorKind::NotFound)?;
        let about = parent.metadata()?;
        let entry = Entry {
            parent: parent.as_os_str().as_bytes().to_vec(),
            parent_is: (about.dev(), about.ino()),
            name: name.to_owned(),
            owner: Owner::myself(),
        };
        let path = self.directory.join(format!("{name}.json"));
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(nofollow())
            .open(&path)?;
        // Whoever removes what is left may look at it in this moment, and leaves alone what is new and empty.
        flock(&file, FlockOperation::LockExclusive)?;
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(Held { file, path })
    }

    /// The directory, if it is there and this user's alone.
    fn open(&self) -> io::Result<Option<File>> {
        let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
        let directory = match OpenOptions::new().read(true).custom_flags(flags).open(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            directory => directory?,
        };
        let about = directory.metadata()?;
        if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o077 != 0 {
            let shown = crate::text::shown_bytes(self.directory.as_os_str().as_bytes());
            return Err(io::Error::other(format!("{shown} is not this user's alone")));
        }
        Ok(Some(directory))
    }
}

fn nofollow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

/// A directory or file that is entered. Dropping it takes the entry out: what it names is gone, or was never made.
#[derive(Debug)]
pub struct Held {
    file: File,
    path: PathBuf,
}

impl Held {
    /// Adds what was made.
    ///
    /// # Errors
    /// The registry cannot be written.
    pub fn made(&mut self, path: &Path) -> io::Result<()> {
        let about = path.symlink_metadata()?;
        let mut line = serde_json::to_vec(&Made { is: (about.dev(), about.ino()) })?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Nobody else uses this name. What cannot be removed is found to be of nothing later.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A name for a directory of this process's that begins so and that nobody can foresee.
pub fn new_name(prefix: &str) -> String {
    format!("{prefix}{}-{:016x}", std::process::id(), crate::random::number())
}

/// A name for a file that is not finished, which nobody can foresee.
pub fn unfinished_name() -> String {
    format!("{UNFINISHED}{:016x}", crate::random::number())
}

/// Whether a name is one that [`unfinished_name`] makes.
pub fn is_unfinished(name: &OsStr) -> bool {
    kind_of(name) == Some(Kind::File)
}

/// What bears a name of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
}

/// What such a name is of, in this version or one before; `None` for any other name.
fn kind_of(name: &OsStr) -> Option<Kind> {
    let name = name.to_str()?;
    let after = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    let is_word = |rest: &str| rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let directory = after(NAMELESS).filter(|rest| is_word(rest));
    let file = after(UNFINISHED).filter(|rest| is_word(rest));
    directory.map(|_| Kind::Directory).or_else(|| file.map(|_| Kind::File))
}
