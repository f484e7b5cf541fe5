use std::path::{Path, PathBuf};
use std::time::Duration;

use super::thing::FileOrDevice;
use crate::mounts;
use crate::root::Root;

const RING: &str = "anon_inode:[io_uring]";

/// Largest `fdinfo` of a ring in bytes: it may list tens of thousands of files.
const INFO_CAP: u64 = 16 << 20;

const MAX_RING_LOOKS: u32 = 5;

/// Pause between attempts: a ring is busy during each call into it.
const RING_LOOK_PAUSE: Duration = Duration::from_millis(2);

const DELETED: &str = " (deleted)";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) thing: Option<FileOrDevice>,
    /// Path as seen by the process; on kernels before 6.7 the name only.
    path: PathBuf,
}

impl Registered {
    /// Returns whether this file was not found by its path, and its name is that of `path`.
    pub(super) fn may_be(&self, path: &str) -> bool {
        let name = |path: &Path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some(name.strip_suffix(DELETED).unwrap_or(&name).to_owned())
        };
        self.thing.is_none() && name(Path::new(path)).is_some_and(|wanted| name(&self.path) == Some(wanted))
    }
}

/// Returns the files registered with the io_uring of the descriptor `link`; empty if that is none.
/// `None` if a busy ring hides them, for which `patient` waits 8 ms. `/proc/PROCESS` has `link`.
pub(super) fn registered(root: &Root, process: &str, link: &Path, patient: bool) -> Option<Vec<Registered>> {
    let is_ring = || root.link_text(link).is_ok_and(|text| text.as_os_str() == RING);
    if !is_ring() {
        return Some(Vec::new());
    }
    let info = link.parent()?.parent()?.join("fdinfo").join(link.file_name()?);
    let tells_all = omits_busy_table(root);
    for attempt in 0..if patient && root.is_live() { MAX_RING_LOOKS } else { 1 } {
        if attempt > 0 {
            std::thread::sleep(RING_LOOK_PAUSE);
        }
        let whole = root.head(&info, INFO_CAP).ok().filter(|text| (text.len() as u64) < INFO_CAP);
        if let Some(paths) = whole.and_then(|text| files(&text, tells_all)) {
            let registered =
                |path: PathBuf| Registered { thing: find_registered(root, process, &path), path };
            return Some(paths.into_iter().map(registered).collect());
        }
        if !is_ring() {
            return Some(Vec::new());
        }
    }
    None
}

/// Returns whether fdinfo omits the whole list of a busy ring's files (from Linux 6.17). Older
/// kernels print the number of slots without the files; 6.13 and later also omit empty slots.
fn omits_busy_table(root: &Root) -> bool {
    let release = root.line("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers =
        release.split(|one: char| !one.is_ascii_digit()).map_while(|one| one.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(17))
}

/// Returns the paths in lines `    0: /path` of a ring's fdinfo. `None` if the ring was busy: there
/// is no `UserFiles:` or, unless `tells_all`, a number of files above 0 but no path.
fn files(info: &[u8], tells_all: bool) -> Option<Vec<PathBuf>> {
    let mut lines = info.split(|byte| *byte == b'\n');
    let count = lines.find_map(|line| line.strip_prefix(b"UserFiles:"))?;
    let path = |line: &[u8]| {
        let at = line.windows(2).position(|two| two == b": ")?;
        let place = line.strip_prefix(b" ").and_then(|_| std::str::from_utf8(&line[..at]).ok())?;
        place.trim().parse::<u64>().ok()?;
        Some(mounts::path(&line[at + 2..]))
    };
    let paths: Vec<PathBuf> =
        lines.take_while(|line| !line.starts_with(b"UserBufs:")).filter_map(path).collect();
    (tells_all || count.trim_ascii() == b"0" || !paths.is_empty()).then_some(paths)
}

fn find_registered(root: &Root, process: &str, path: &Path) -> Option<FileOrDevice> {
    let below = path.strip_prefix("/").ok()?;
    let within = PathBuf::from(format!("/proc/{process}/root")).join(below);
    FileOrDevice::at(root, &within).or_else(|| FileOrDevice::at(root, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn the_registered_files_of_a_ring_are_found_and_those_without_a_path_are_known_by_name() {
        let tree = "srv/disk.img = bytes\nproc/7/fd/3 -> anon_inode:[io_uring]\n\
             proc/7/fd/4 -> /srv/disk.img\n\
             proc/7/fdinfo/3 = SqMask:\\t0x3\\nUserFiles:\\t3\\n    0: /srv/disk.img\\n    1: /gone\\\\040a\\\\040(deleted)\
             \\n    3: name\\nUserBufs:\\t0\\n    0: /other\n\
             proc/7/fdinfo/4 = UserFiles:\\t1\\n    0: /srv/disk.img\n";
        let fixture = Fixture::unpack(tree).unwrap();
        let all = registered(&fixture.root, "7", Path::new("proc/7/fd/3"), true).unwrap();
        let image = FileOrDevice::at(&fixture.root, Path::new("/srv/disk.img"));
        assert!(image.is_some());
        assert_eq!(all.iter().map(|one| one.thing).collect::<Vec<_>>(), [image, None, None]);
        assert!(all[1].may_be("/srv/gone a") && all[1].may_be("/srv/gone a (deleted)"));
        assert!(all[2].may_be("/srv/name") && !all[2].may_be("/srv/other") && !all[2].may_be(""));
        assert!(!all[0].may_be("/srv/disk.img"), "it is known which it is");
        assert_eq!(registered(&fixture.root, "7", Path::new("proc/7/fd/4"), true), Some(Vec::new()));
    }

    #[test]
    fn a_ring_that_does_not_list_its_files_is_not_one_without_files() {
        let listed = |release: &str, info: &str| {
            let tree = format!(
                "proc/sys/kernel/osrelease = {release}\nproc/7/fd/3 -> anon_inode:[io_uring]\n{info}"
            );
            let fixture = Fixture::unpack(&tree).unwrap();
            let all = registered(&fixture.root, "7", Path::new("proc/7/fd/3"), true);
            all.map(|all| all.len())
        };
        let info = |text: &str| format!("proc/7/fdinfo/3 = pos:\\t0\\nflags:\\t02000002\\n{text}\n");
        for release in ["5.15.0-91-generic", "6.13.1", "6.16.0", "6.18.44-x", "7.0"] {
            assert_eq!(listed(release, &info("")), None, "{release}: no line of its files");
            assert_eq!(listed(release, ""), None, "{release}: it cannot be read");
            let none = info("UserFiles:\\t0\\nUserBufs:\\t0\\n");
            assert_eq!(listed(release, &none), Some(0), "{release}: none");
            let broken = info("UserFiles:\\t2\\n    0: a\\nb\\n    1: /c\\nUserBufs:\\t1\\n    0: 0x1/2\\n");
            assert_eq!(listed(release, &broken), Some(2), "{release}: a name with a line break");
        }
        let left_out = info("UserFiles:\\t3\\nUserBufs:\\t0\\nPollList:\\n");
        for (release, expected) in
            [("5.4.0", None), ("6.16.9", None), ("", None), ("6.18.44-x", Some(0)), ("7.0", Some(0))]
        {
            assert_eq!(listed(release, &left_out), expected, "{release}");
        }
    }
}
