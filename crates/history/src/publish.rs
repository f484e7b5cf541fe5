//! A finished file gets its name: whole, and only where nobody has that name yet, on every kind of file system.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;
use tempfile::TempPath;

/// How long one that gives a name waits for another; each takes a moment.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives `made`, which is in the same directory, the name `file`. [`ErrorKind::AlreadyExists`]: somebody has it, and nothing
/// was changed; `made` is removed.
///
/// Not every file system can rename without replacing (network file systems and many of FUSE's), and not every one has hard
/// links (FAT, exFAT, some of FUSE's).
///
/// # Errors
/// What the file system says.
pub fn publish(made: TempPath, file: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, &*made, CWD, file, RenameFlags::NOREPLACE) {
        Err(e) if is_unknown(e) => {}
        renamed => return renamed.map_err(io::Error::from),
    }
    match rustix::fs::link(&*made, file) {
        Err(e) if is_unknown(e) || matches!(e, Errno::PERM | Errno::MLINK) => {}
        // Dropping `made` removes its first name.
        linked => return linked.map_err(io::Error::from),
    }
    renamed_alone(&made, file)
}

/// What a file system says that does not know a call or its flags.
fn is_unknown(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Renames, which replaces, after a look; so that nobody of us comes in between, the directory is locked.
fn renamed_alone(made: &Path, file: &Path) -> io::Result<()> {
    let directory = fs::File::open(file.parent().unwrap_or(Path::new("/")))?;
    let begun = Instant::now();
    // Where a directory cannot be locked, the moment between the look and the renaming is left.
    while rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        if begun.elapsed() > PATIENCE {
            return Err(ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    match fs::symlink_metadata(file) {
        Err(e) if e.kind() == ErrorKind::NotFound => fs::rename(made, file),
        Err(e) => Err(e),
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once_by_each_way() {
        let ways: [fn(TempPath, &Path) -> io::Result<()>; 2] =
            [publish, |made, file| renamed_alone(&made, file)];
        for way in ways {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("file");
            for (text, first) in [("first", true), ("second", false)] {
                let made = tempfile::NamedTempFile::new_in(directory.path()).unwrap().into_temp_path();
                fs::write(&made, text).unwrap();
                let given = way(made, &file).map_err(|e| e.kind());
                assert_eq!(given, if first { Ok(()) } else { Err(ErrorKind::AlreadyExists) });
                assert_eq!(fs::read_to_string(&file).unwrap(), "first");
                assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
            }
        }
    }
}
