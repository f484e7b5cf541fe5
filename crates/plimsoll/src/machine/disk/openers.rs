//! Processes that hold a block device open without claiming it: the kernel grants an exclusive claim beside them.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags};

use crate::machine::mounts::DeviceNumber;
use crate::text::shown_bytes;

/// A process that holds a file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// Its id.
    pub process: u32,
    /// What it calls itself.
    pub name: String,
}

/// The first process, other than plimsoll's own, that holds the block device open. What this user may not look at is
/// left out.
pub fn opener(device: DeviceNumber) -> Option<Opener> {
    first_with(|about| {
        FileType::from_raw_mode(about.stx_mode.into()) == FileType::BlockDevice
            && DeviceNumber { major: about.stx_rdev_major, minor: about.stx_rdev_minor } == device
    })
}

fn first_with(is_it: impl Fn(&Statx) -> bool) -> Option<Opener> {
    let program = |process: &Path| look(&process.join("exe")).map(|about| identity(&about));
    let ours = program(Path::new("/proc/self"));
    let holds = |process: &&PathBuf| {
        let fds = entries(&process.join("fd"));
        fds.iter().filter_map(|fd| look(fd)).any(|about| is_it(&about))
    };
    let processes = entries(Path::new("/proc"));
    let found = processes
        .iter()
        .filter(|process| number(process).is_some_and(|id| id != std::process::id()))
        .filter(|process| ours.is_none() || program(process) != ours)
        .find(holds)?;
    let name = std::fs::read(found.join("comm")).unwrap_or_default();
    Some(Opener { process: number(found)?, name: shown_bytes(name.trim_ascii_end()) })
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(dir).into_iter().flatten();
    listed.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The id of the process that a directory of /proc is about.
fn number(process: &Path) -> Option<u32> {
    process.file_name()?.to_str()?.parse().ok()
}

/// Not asking a server, which may be gone, about a file on it.
fn look(path: &Path) -> Option<Statx> {
    rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()
}

/// Which file it is.
fn identity(about: &Statx) -> (DeviceNumber, u64) {
    (DeviceNumber { major: about.stx_dev_major, minor: about.stx_dev_minor }, about.stx_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_file_open_is_named_but_not_this_program() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let wanted = identity(&look(file.path()).expect("there"));
        let found = || first_with(|about| identity(about) == wanted);
        assert_eq!(found(), None, "this process holds it");
        let open = file.reopen().expect("open");
        let mut holder = std::process::Command::new("sleep").arg("60").stdin(open).spawn().expect("sleep");
        let opener = found();
        holder.kill().expect("end");
        holder.wait().expect("end");
        assert_eq!(opener, Some(Opener { process: holder.id(), name: "sleep".to_owned() }));
        assert_eq!(found(), None);
    }
}
