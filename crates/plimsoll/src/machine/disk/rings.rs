//! Files that a process has registered with io_uring (io_uring_register(2)): it may write to them when it has long closed their
//! descriptors. `fdinfo` of the ring lists them; a kernel that does not list them leaves them unknown.

use std::path::{Path, PathBuf};

use super::thing::Thing;
use crate::machine::mounts;
use crate::machine::root::Root;

/// What the link of a ring's descriptor reads.
const RING: &str = "anon_inode:[io_uring]";

/// The most that is read of what the kernel says of a ring, in bytes: it may have tens of thousands of files.
const INFO_CAP: u64 = 16 << 20;

/// How the kernel ends the path of a file that has no name any more.
const DELETED: &str = " (deleted)";

/// A registered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    /// Which it is, where its path leads to it.
    pub(super) thing: Option<Thing>,
    /// Its path as the process sees it; on kernels before 6.7 its name alone.
    path: PathBuf,
}

impl Registered {
    /// Whether it may be the file of this path: it cannot be looked at, and has the same name.
    pub(super) fn may_be(&self, path: &str) -> bool {
        let name = |path: &Path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some(name.strip_suffix(DELETED).unwrap_or(&name).to_owned())
        };
        self.thing.is_none() && name(Path::new(path)).is_some_and(|wanted| name(&self.path) == Some(wanted))
    }
}

/// The files that are registered with the ring behind a link of `/proc/PID/fd`; none of what is no ring.
pub(super) fn registered(root: &Root, process: &str, link: &Path) -> Vec<Registered> {
    let is_ring = root.link_text(link).is_ok_and(|text| text.as_os_str() == RING);
    let info = || {
        let dir = link.parent()?.parent()?;
        root.head(&dir.join("fdinfo").join(link.file_name()?), INFO_CAP).ok()
    };
    let text = if is_ring { info().unwrap_or_default() } else { Vec::new() };
    files(&text).map(|path| Registered { thing: seen(root, process, &path), path }).collect()
}

/// The paths below the line `UserFiles:`, each as `    0: /path`.
fn files(info: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = info.split(|byte| *byte == b'\n').skip_while(|line| !line.starts_with(b"UserFiles:")).skip(1);
    lines.map_while(|line| {
        let at = line.windows(2).position(|two| two == b": ")?;
        let place = line.strip_prefix(b" ").and_then(|_| std::str::from_utf8(&line[..at]).ok())?;
        place.trim().parse::<u64>().ok()?;
        Some(mounts::path(&line[at + 2..]))
    })
}

/// What a path leads to, as the process sees it.
fn seen(root: &Root, process: &str, path: &Path) -> Option<Thing> {
    let below = path.strip_prefix("/").ok()?;
    let within = PathBuf::from(format!("/proc/{process}/root")).join(below);
    Thing::at(root, &within).or_else(|| Thing::at(root, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::{Fault, Fixture};

    #[test]
    fn the_registered_files_of_a_ring_are_found_and_those_without_a_path_are_known_by_name()
    -> Result<(), Fault> {
        let fixture = Fixture::unpack(
            "srv/disk.img = bytes\nproc/7/fd/3 -> anon_inode:[io_uring]\nproc/7/fd/4 -> /srv/disk.img\n\
             proc/7/fdinfo/3 = SqMask:\\t0x3\\nUserFiles:\\t3\\n    0: /srv/disk.img\\n    1: /gone\\\\040a\\\\040(deleted)\
             \\n    3: name\\nUserBufs:\\t0\\n    0: /other\n\
             proc/7/fdinfo/4 = UserFiles:\\t1\\n    0: /srv/disk.img\n",
        )?;
        let all = registered(&fixture.root, "7", Path::new("proc/7/fd/3"));
        let image = Thing::at(&fixture.root, Path::new("/srv/disk.img"));
        assert!(image.is_some());
        assert_eq!(all.iter().map(|one| one.thing).collect::<Vec<_>>(), [image, None, None]);
        assert!(all[1].may_be("/srv/gone a") && all[1].may_be("/srv/gone a (deleted)"));
        assert!(all[2].may_be("/srv/name") && !all[2].may_be("/srv/other") && !all[2].may_be(""));
        assert!(!all[0].may_be("/srv/disk.img"), "it is known which it is");
        assert_eq!(registered(&fixture.root, "7", Path::new("proc/7/fd/4")), []);
        Ok(())
    }
}
