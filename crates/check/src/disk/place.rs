//! Finds the disks that answered a job: those that counted requests, else those of the job's
//! devices and files. Paths are untrusted: looked up in the mount table, never opened.

use std::path::Path;

use plimsoll_machine::disk::DiskKind;
use plimsoll_machine::mounts::Mount;
use plimsoll_machine::storage::{Medium, Storage};
use plimsoll_machine::{Disk, Machine, mounts, storage_behind};
use plimsoll_reference::stated::DiskUse;
use plimsoll_units::quantity::{Quantity, Unit};
use plimsoll_units::text::shown_within;

use crate::link;
use crate::{CheckedMachine, ImpossibleCause, LIMIT_TOLERANCE};

use super::lone_transfer_too_fast;

pub(super) struct DisksBehind {
    pub(super) machine: Machine,
    pub(super) looped: Option<String>,
    pub(super) compresses: Option<String>,
    pub(super) incomplete: Option<String>,
}

impl DisksBehind {
    fn new(machine: &Machine, storage: Storage) -> Self {
        let machine = Machine { storage: Some(storage), ..machine.clone() };
        Self { machine, looped: None, compresses: None, incomplete: None }
    }

    pub(super) fn disks(&self) -> &[Disk] {
        self.machine.storage.as_ref().map_or(&[], |storage| &storage.disks)
    }
}

/// Why no disk is known, with the cause if the job reached none.
pub(super) type UnknownDisk = (Option<ImpossibleCause>, String);

/// fio engines that move no data, or only file metadata (fio(1), "I/O engine").
const MOVE_NOTHING: &str =
    "null cpuio ftruncate falloc filecreate fileopen filestat filedelete dircreate dirstat dirdelete";

pub(super) fn behind(used: &DiskUse, place: &CheckedMachine<'_>) -> Result<DisksBehind, UnknownDisk> {
    let moves_nothing = |engine: &&str| MOVE_NOTHING.split(' ').any(|known| known == *engine);
    if let Some(engine) = used.engine.as_deref().filter(moves_nothing) {
        let why = format!("ioengine={engine} transfers nothing");
        return Err((Some(ImpossibleCause::NoDevice), why));
    }
    let devices: Vec<String> = match used.counted.is_empty() {
        false => used.counted.iter().map(|disk| disk.name.clone()).collect(),
        true => used.paths.iter().filter_map(|path| device(path, place)).collect(),
    };
    if let Some(nothing) = devices.iter().find_map(|name| no_disk(name, used)) {
        return Err(nothing);
    }
    if !devices.is_empty() {
        return named(&devices, place.machine);
    }
    if let Some(path) = used.paths.iter().find(|path| path.contains('\\')) {
        let why = "is a path of Windows: this machine does not have it";
        return Err((None, format!("{} {why}", shown_within(path, 64))));
    }
    if let Some(found) = used.paths.iter().find_map(|path| on_file_system(path, used, place)) {
        return found;
    }
    all_disks(place.machine)
}

/// Resolves links of a path below /dev to a device name (`/dev/vg0/data` gives `dm-1`). Returns
/// `path` itself if this machine lacks the device; `None` for all paths that are no devices.
fn device(path: &str, place: &CheckedMachine<'_>) -> Option<String> {
    let name = path.strip_prefix("/dev/").filter(|name| !name.is_empty())?;
    let below = name.split('/').next().unwrap_or_default();
    if !name.contains('/') {
        return Some(name.to_owned());
    }
    // `/dev/DIRECTORY` has files instead of devices if it is a mount point, or glibc's directory of
    // POSIX shared memory (shm_overview(7)).
    let point = Path::new("/dev").join(below);
    let mounts = || mounts::read(place.root).unwrap_or_default();
    if below == "shm" || mounts().iter().any(|mount| mount.point == point) {
        return None;
    }
    let resolved = place.root.resolve(path).ok();
    let resolved = resolved.as_deref().and_then(Path::to_str).and_then(|path| path.strip_prefix("/dev/"));
    Some(resolved.filter(|name| !name.contains('/')).map_or_else(|| path.to_owned(), str::to_owned))
}

fn numbered(name: &str, lead: &str) -> bool {
    name.strip_prefix(lead).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn no_disk(name: &str, used: &DiskUse) -> Option<UnknownDisk> {
    let numbered = |lead| numbered(name, lead);
    let (cause, why) = match &used.compressible {
        _ if name == "null" || name == "zero" || numbered("nullb") => {
            (ImpossibleCause::NoDevice, "stores nothing".to_owned())
        }
        Some(option) if numbered("zram") => {
            let written = format!("{option} writes data that takes no space in it");
            (ImpossibleCause::Compressed, format!("is compressed memory, not a disk, and {written}"))
        }
        None if numbered("zram") => (ImpossibleCause::Memory, "is compressed memory and no disk".to_owned()),
        _ if numbered("ram") => (ImpossibleCause::Memory, "is memory and no disk".to_owned()),
        _ => return None,
    };
    Some((Some(cause), format!("{} {why}", shown_within(name, 32))))
}

fn named(names: &[String], machine: &Machine) -> Result<DisksBehind, UnknownDisk> {
    if let Some(name) = names.iter().find(|name| numbered(name, "loop")) {
        return Ok(disks_of_loop_device(machine, name));
    }
    let mut disks: Vec<Disk> = Vec::new();
    for name in names {
        let Some(disk) = find(name, &machine.disks) else {
            let shown = shown_within(name, 64);
            return Err((None, format!("the file names the disk {shown}, which this machine does not have")));
        };
        if !disks.iter().any(|known| known.name == disk.name) {
            disks.push(disk.clone());
        }
    }
    of(machine, disks)
}

/// Returns the disk called `name` (`sda`), else the disk that has the partition `name` (`sda1`).
fn find<'a>(name: &str, disks: &'a [Disk]) -> Option<&'a Disk> {
    let part = |disk: &&Disk| {
        let rest = name.strip_prefix(disk.name.as_str()).unwrap_or("x");
        let ends_in_digit = disk.name.ends_with(|c: char| c.is_ascii_digit());
        let number = if ends_in_digit { rest.strip_prefix('p').unwrap_or("x") } else { rest };
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    disks.iter().find(|disk| disk.name == name).or_else(|| disks.iter().find(part))
}

/// Returns the disks of `found` without layers such as RAID. Fails if only layers remain.
fn of(machine: &Machine, found: Vec<Disk>) -> Result<DisksBehind, UnknownDisk> {
    let (layers, disks): (Vec<Disk>, Vec<Disk>) = found.into_iter().partition(|disk| disk.kind.is_layer());
    if disks.is_empty() {
        let names: Vec<&str> = layers.iter().map(|disk| disk.name.as_str()).collect();
        let why = format!("the file does not name the disks that {} is made of", names.join(", "));
        return Err((None, why));
    }
    Ok(DisksBehind::new(machine, Storage { disks, ..Storage::default() }))
}

/// Returns all disks of `machine` for the loop device `name`, whose file is on some of them.
fn disks_of_loop_device(machine: &Machine, name: &str) -> DisksBehind {
    let storage = Storage { disks: physical_disks(machine), ..Storage::default() };
    DisksBehind { looped: Some(name.to_owned()), ..DisksBehind::new(machine, storage) }
}

fn on_file_system(
    path: &str,
    used: &DiskUse,
    place: &CheckedMachine<'_>,
) -> Option<Result<DisksBehind, UnknownDisk>> {
    let shown = shown_within(path, 64);
    if !path.starts_with('/') || path.contains("/../") {
        return None;
    }
    let mounts = mounts::read(place.root).unwrap_or_default();
    let mount = mounts::mount_of(&mounts, Path::new(path));
    let is_shm = path.starts_with("/dev/shm/");
    let Some(mount) = mount.filter(|mount| !is_shm || mount.point.starts_with("/dev/shm")) else {
        let why = format!("{shown} is in memory: no disk");
        return is_shm.then_some(Err((Some(ImpossibleCause::Memory), why)));
    };
    let fs_type = shown_within(&mount.fs_type, 20);
    Some(Err(match Medium::of(&mount.fs_type) {
        Medium::Memory => {
            (Some(ImpossibleCause::Memory), format!("{shown} is on {fs_type}, which is memory: no disk"))
        }
        Medium::Device if mount.fs_type == "zfs" => explain_zfs(&shown, used),
        Medium::Device => return Some(Ok(on_devices(mount, place))),
        Medium::Network => explain_network_fs(&shown, mount, used, place),
        Medium::Stacked => (None, format!("{shown} is on {fs_type}: its disk is not known")),
    }))
}

fn on_devices(mount: &Mount, place: &CheckedMachine<'_>) -> DisksBehind {
    let storage = storage_behind(place.root, &mount.point);
    if let Some(layer) = storage.layers.iter().find(|layer| layer.kind == DiskKind::Loop) {
        return disks_of_loop_device(place.machine, &layer.name);
    }
    let option = |name: &str| {
        let mut options = mount.options.iter();
        options.find(|option| option.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    };
    let compress = option("compress").or_else(|| option("compress-force"));
    let compress = compress.filter(|option| !option.ends_with("=no") && !option.ends_with("=none"));
    let known =
        storage.disks.len() > 1 || place.root.names("sys/fs/btrfs").is_ok_and(|names| !names.is_empty());
    let incomplete = mount.fs_type == "btrfs" && !known;
    DisksBehind {
        compresses: compress.map(|option| shown_within(option, 40)),
        incomplete: incomplete.then(|| {
            "the file system is btrfs, which may have more devices than the one that the mount table lists".to_owned()
        }),
        ..DisksBehind::new(place.machine, storage)
    }
}

/// Returns why the disk of a file on ZFS cannot be checked; `shown` is its printed path. ZFS's own
/// cache answered if a transfer was too fast for a disk, else the disks are unknown. OpenZFS before
/// 2.3 ignores direct=1.
fn explain_zfs(shown: &str, used: &DiskUse) -> UnknownDisk {
    let Some(took) = lone_transfer_too_fast(used, 0.0) else {
        return (None, format!("{shown} is on zfs: its disks are not known"));
    };
    let why = format!("{shown} is on zfs, and {took}: its own cache (ARC) answered");
    (Some(ImpossibleCause::PageCache), why)
}

/// Returns why the disk of a file on a network file system cannot be checked; `shown` is its
/// printed path. This machine's memory (page cache if buffered) answered if the job was faster than
/// any disk or than all network links together; else the disk is unknown.
fn explain_network_fs(shown: &str, mount: &Mount, used: &DiskUse, place: &CheckedMachine<'_>) -> UnknownDisk {
    let fs_type = shown_within(&mount.fs_type, 20);
    let cause = if used.cached == Some(true) { ImpossibleCause::PageCache } else { ImpossibleCause::Memory };
    if let Some(took) = lone_transfer_too_fast(used, 0.0) {
        return (Some(cause), format!("{shown} is on {fs_type}, and {took}: its server was not asked"));
    }
    let source = mount.source.to_string_lossy();
    let is_here = ["127.", "localhost", "[::1]"].iter().any(|name| source.starts_with(name));
    let rate = used.seconds.map(|seconds| used.own / seconds);
    let links = link::speed(place.machine).map(|crossed| crossed.speed / 8.0);
    if let (Ok(links), Some(rate), Some(false), false) =
        (links, rate, place.machine.virtualisation.is_virtual, is_here)
        && rate > links * LIMIT_TOLERANCE
    {
        let [rate, links] = [rate, links].map(|rate| Quantity::new(rate, Unit::BytePerSecond));
        let why = format!(
            "{shown} is on {fs_type}, and {rate} is more than the {links} that all links of this machine carry: its memory answered"
        );
        return (Some(cause), why);
    }
    (None, format!("{shown} is on {fs_type}: its disk is not known"))
}

/// Returns copies of the machine's disks, without layers, memory and empty devices.
fn physical_disks(machine: &Machine) -> Vec<Disk> {
    let no_memory = |disk: &&Disk| !matches!(disk.kind, DiskKind::Zram | DiskKind::Ram | DiskKind::Loop);
    let disks = machine.disks.iter().filter(|disk| !disk.kind.is_layer());
    disks.filter(no_memory).filter(|disk| disk.size_bytes != Some(0)).cloned().collect()
}

/// Returns all disks of the machine, for a job whose disk is not named. Fails if there are none or
/// a disk's link is unknown.
fn all_disks(machine: &Machine) -> Result<DisksBehind, UnknownDisk> {
    let disks = physical_disks(machine);
    if disks.iter().any(|disk| disk.link.is_none()) || disks.is_empty() {
        return Err((None, "the file does not say which disk it is of".to_owned()));
    }
    Ok(DisksBehind::new(machine, Storage { disks, ..Storage::default() }))
}
