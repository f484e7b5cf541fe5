//! A file that is written under a name of our own until it is whole: after a kill the next start removes it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tempfile::TempPath;

use super::{Held, Registry, nofollow, unfinished_name};

/// A new file, for its owner alone; dropping it removes it.
#[derive(Debug)]
pub struct Unfinished {
    /// Open for writing.
    pub file: File,
    path: TempPath,
    _held: Option<Held>,
}

impl Unfinished {
    /// Makes one in this directory, entered first. Where the registry cannot be written, it is made all the same.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn new_in(directory: &Path, registry: Option<&Registry>) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        let name = unfinished_name();
        let mut held = registry.and_then(|registry| registry.enter(&directory, &name).ok());
        let path = directory.join(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).custom_flags(nofollow()).open(&path)?;
        if let Some(held) = &mut held {
            // What is entered as not yet made is removed only while it is empty.
            let _ = held.made(&path);
        }
        Ok(Self { file, path: TempPath::try_from_path(path)?, _held: held })
    }

    /// Gives it its name by `give`, which takes its present path.
    ///
    /// # Errors
    /// What `give` says; the file is removed then.
    pub fn finish(self, give: impl FnOnce(TempPath) -> io::Result<()>) -> io::Result<()> {
        give(self.path)
    }
}
