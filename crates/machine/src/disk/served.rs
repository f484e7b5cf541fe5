//! What a process keeps the bytes of: NBD devices (nbd-client(8), qemu-nbd(8)), ublk, and files on FUSE.
//!
//! The process that serves a device is known where it is the device's own (qemu-nbd -c, ublk). With a client between them, any
//! server of this machine may be the one, or one on another machine, which nobody here can see.

use std::path::{Path, PathBuf};

use super::openers::{self, Access};
use super::thing::{FUSE, Thing};
use crate::mounts::DeviceNumber;
use crate::root::Root;

/// What is known of who serves a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// What the bytes are, or may be, kept in.
    pub(super) files: Vec<Kept>,
    /// The process that serves the device is known, and with it all that it keeps the bytes in.
    pub(super) certain: bool,
    /// Other devices that may have the same server.
    pub(super) alike: Vec<String>,
}

/// A file or device that a server holds open for reading and writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) thing: Thing,
    /// The way to it: the server's link to its open file.
    pub(super) path: PathBuf,
    pub(super) server: u32,
}

/// Beginnings of the names of programs that serve NBD, as the kernel cuts them.
const SERVERS: [&str; 4] = ["nbd-server", "nbdkit", "qemu-nbd", "qemu-storage"];

/// Who serves the device of this name and place; `None` where it is none that is served.
pub(super) fn of(root: &Root, name: &str, place: &Path) -> Option<Served> {
    if name.starts_with("ublkb") {
        return Some(by_ublk(root, name));
    }
    if !name.starts_with("nbd") || root.exists(place.join("partition")) {
        return None;
    }
    let itself = root.number(place.join("pid")).ok().and_then(|pid| u32::try_from(pid).ok());
    let own: Vec<Kept> = itself.map(|process| kept_by(root, process)).unwrap_or_default();
    if !own.is_empty() {
        return Some(Served { files: own, certain: true, alike: Vec::new() });
    }
    let is_server = |process: &u32| {
        let name = openers::name(root, *process);
        SERVERS.iter().any(|server| name.starts_with(server))
    };
    let servers: Vec<u32> = root.processes().into_iter().filter(is_server).collect();
    let alike = if servers.is_empty() { Vec::new() } else { other_clients(root, name) };
    let mut files: Vec<Kept> = Vec::new();
    for kept in servers.iter().flat_map(|process| kept_by(root, *process)) {
        // The second one that holds the same file is a user of it.
        if files.iter().all(|known| known.thing != kept.thing) {
            files.push(kept);
        }
    }
    Some(Served { files, certain: false, alike })
}

/// Other NBD devices that are connected by a client that keeps no file itself.
fn other_clients(root: &Root, name: &str) -> Vec<String> {
    let connected = |other: &String| {
        let pid = root.number(Path::new("sys/block").join(other).join("pid"));
        other.starts_with("nbd")
            && other != name
            && pid.is_ok_and(|pid| u32::try_from(pid).is_ok_and(|pid| kept_by(root, pid).is_empty()))
    };
    root.names("sys/block").unwrap_or_default().into_iter().filter(connected).collect()
}

/// The server of a ublk device has its control device open (Documentation/block/ublk.rst).
fn by_ublk(root: &Root, name: &str) -> Served {
    let number = name.trim_start_matches("ublkb");
    let control =
        root.line(format!("sys/class/ublk-char/ublkc{number}/dev")).ok().and_then(|dev| dev.parse().ok());
    let serves = |process: &u32| {
        let open = openers::open_files(root, *process).unwrap_or_default();
        control.is_some_and(|control| open.iter().any(|(_, thing)| *thing == Thing::Character(control)))
    };
    let server = root.processes().into_iter().find(serves);
    let files = server.map(|process| kept_by(root, process)).unwrap_or_default();
    Served { files, certain: server.is_some(), alike: Vec::new() }
}

/// The server of a file system has `/dev/fuse` open, and for each file that is open there mostly one of its own. Which file
/// system it serves, newer kernels say in fdinfo: the connection's number is the minor number of its files' device.
pub(super) fn by_fuse(root: &Root, system: DeviceNumber) -> Served {
    let connection = |link: &Path| {
        let info = openers::info(root, link, "fuse_connection:")?;
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

/// What the process has open for reading and writing, of files and block devices other than NBD's: logs are only written.
fn kept_by(root: &Root, process: u32) -> Vec<Kept> {
    const NBD: u32 = 43;
    let open = openers::open_files(root, process).unwrap_or_default();
    let keeps = |(path, thing): (PathBuf, Thing)| {
        let holds_bytes = match thing {
            Thing::Block(number) => number.major != NBD,
            Thing::File(_) => true,
            Thing::Character(_) => false,
        };
        let both = holds_bytes && openers::access(root, &path) == Some(Access::Both);
        both.then_some(Kept { thing, path, server: process })
    };
    open.into_iter().filter_map(keeps).collect()
}
