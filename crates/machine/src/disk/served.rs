use std::path::{Path, PathBuf};

use super::openers::{self, OpenMode};
use super::thing::{FUSE, FileOrDevice};
use crate::mounts::DeviceNumber;
use crate::root::Root;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) files: Vec<ServedFile>,
    pub(super) certain: bool,
    pub(super) alike: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServedFile {
    pub(super) thing: FileOrDevice,
    pub(super) path: PathBuf,
    pub(super) server: u32,
}

/// Prefixes of names of NBD servers, as truncated by the kernel.
const SERVERS: [&str; 4] = ["nbd-server", "nbdkit", "qemu-nbd", "qemu-storage"];

/// Finds files and disks behind the NBD or ublk device `name` at `place` in sysfs; else `None`.
pub(super) fn of(root: &Root, name: &str, place: &Path) -> Option<Served> {
    if name.starts_with("ublkb") {
        return Some(by_ublk(root, name));
    }
    if !name.starts_with("nbd") || root.exists(place.join("partition")) {
        return None;
    }
    let itself = root.number(place.join("pid")).ok().and_then(|pid| u32::try_from(pid).ok());
    let own: Vec<ServedFile> = itself.map(|process| kept_by(root, process)).unwrap_or_default();
    if !own.is_empty() {
        return Some(Served { files: own, certain: true, alike: Vec::new() });
    }
    let is_server = |process: &u32| {
        let name = openers::process_name(root, *process);
        SERVERS.iter().any(|server| name.starts_with(server))
    };
    let servers: Vec<u32> = root.processes().into_iter().filter(is_server).collect();
    let alike = if servers.is_empty() { Vec::new() } else { other_clients(root, name) };
    let mut files: Vec<ServedFile> = Vec::new();
    for kept in servers.iter().flat_map(|process| kept_by(root, *process)) {
        if files.iter().all(|known| known.thing != kept.thing) {
            files.push(kept);
        }
    }
    Some(Served { files, certain: false, alike })
}

/// Returns the NBD devices, except `name`, whose client process has no file or disk open to write.
fn other_clients(root: &Root, name: &str) -> Vec<String> {
    let connected = |other: &String| {
        let pid = root.number(Path::new("sys/block").join(other).join("pid"));
        other.starts_with("nbd")
            && other != name
            && pid.is_ok_and(|pid| u32::try_from(pid).is_ok_and(|pid| kept_by(root, pid).is_empty()))
    };
    root.names("sys/block").unwrap_or_default().into_iter().filter(connected).collect()
}

/// Finds a ublk device's files: its server has the control device open (block/ublk.rst).
fn by_ublk(root: &Root, name: &str) -> Served {
    let number = name.trim_start_matches("ublkb");
    let control = root.parse(format!("sys/class/ublk-char/ublkc{number}/dev"), "a device number");
    let control = control.ok().map(FileOrDevice::Character);
    let serves = |process: &u32| {
        let open = openers::open_files(root, *process).unwrap_or_default();
        open.iter().any(|(_, thing)| Some(*thing) == control)
    };
    let server = root.processes().into_iter().find(serves);
    let files = server.map(|process| kept_by(root, process)).unwrap_or_default();
    Served { files, certain: server.is_some(), alike: Vec::new() }
}

/// Finds the files that servers of the FUSE file system `system` have open: processes with
/// `/dev/fuse` open, on newer kernels only those whose connection in fdinfo is its minor number.
pub(super) fn by_fuse(root: &Root, system: DeviceNumber) -> Served {
    let connection = |link: &Path| {
        let info = openers::fdinfo_value(root, link, "fuse_connection:")?;
        info.trim().parse::<u32>().ok()
    };
    let serves = |process: &u32| {
        let open = openers::open_files(root, *process).unwrap_or_default();
        let fuse = open.into_iter().filter(|(_, thing)| *thing == FUSE);
        fuse.map(|(link, _)| connection(&link))
            .any(|number| number.is_none_or(|number| number == system.minor))
    };
    let servers = root.processes().into_iter().filter(serves);
    let files = servers.flat_map(|process| kept_by(root, process)).collect();
    Served { files, certain: false, alike: Vec::new() }
}

/// Returns the files and block devices (not NBD) that `process` has open to read and write.
fn kept_by(root: &Root, process: u32) -> Vec<ServedFile> {
    const NBD: u32 = 43;
    let open = openers::open_files(root, process).unwrap_or_default();
    let keeps = |(path, thing): (PathBuf, FileOrDevice)| {
        let holds_bytes = match thing {
            FileOrDevice::Block(number) => number.major != NBD,
            FileOrDevice::File(_) => true,
            FileOrDevice::Character(_) => false,
        };
        let both = holds_bytes && openers::access_mode(root, &path) == Some(OpenMode::Both);
        both.then_some(ServedFile { thing, path, server: process })
    };
    open.into_iter().filter_map(keeps).collect()
}
