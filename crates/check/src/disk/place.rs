//! Which disks of the machine a file's figures are of.
//!
//! The disks that the tool counted requests at are they; else the devices and files that it was given. A file's path is looked for in
//! the mount table, and never opened: it is somebody else's word.

use std::path::Path;

use crate::machine::disk::DiskKind;
use crate::machine::storage::{Layer, Medium, Storage};
use crate::machine::{Disk, Machine, mounts, storage_behind};
use crate::stated::DiskUse;
use crate::text::shown_within;
use crate::{Cause, Place};

/// The machine with what the figures are of as its storage.
pub(super) struct Behind {
    pub(super) machine: Machine,
    /// A loop device among them.
    pub(super) looped: Option<String>,
}

/// No disk that is known.
pub(super) struct Nothing {
    /// What it is in place of a disk, where that is certain.
    pub(super) is: Option<Cause>,
    pub(super) why: String,
}

impl Nothing {
    fn unknown(why: impl Into<String>) -> Self {
        Self { is: None, why: why.into() }
    }

    fn is(cause: Cause, why: impl Into<String>) -> Self {
        Self { is: Some(cause), why: why.into() }
    }
}

/// Engines of fio that move no data: they do nothing, or ask for names and lengths of files only (fio(1), "I/O engine").
const MOVE_NOTHING: &[&str] = &[
    "null",
    "cpuio",
    "ftruncate",
    "falloc",
    "filecreate",
    "fileopen",
    "filestat",
    "filedelete",
    "dircreate",
    "dirstat",
    "dirdelete",
];

pub(super) fn behind(used: &DiskUse, place: &Place<'_>) -> Result<Behind, Nothing> {
    if let Some(engine) = used.engine.as_deref().filter(|engine| MOVE_NOTHING.contains(engine)) {
        return Err(Nothing::is(Cause::NoDevice, format!("ioengine={engine} transfers nothing")));
    }
    let devices: Vec<&str> = match used.counted.is_empty() {
        false => used.counted.iter().map(|disk| disk.name.as_str()).collect(),
        true => used.paths.iter().filter_map(|path| device(path)).collect(),
    };
    if let Some(nothing) = devices.iter().find_map(|name| no_disk(name, used)) {
        return Err(nothing);
    }
    if !devices.is_empty() {
        return named(&devices, place.machine);
    }
    if let Some(found) = used.paths.iter().find_map(|path| on_file_system(path, place)) {
        return found;
    }
    any(place.machine)
}

/// The name of a device that a path is of: `/dev/nvme0n1p2`, `nvme0n1p2`.
fn device(path: &str) -> Option<&str> {
    let name = path.strip_prefix("/dev/")?;
    (!name.contains('/') && !name.is_empty()).then_some(name)
}

/// Whether a name is this word with a number behind it.
fn numbered(name: &str, lead: &str) -> bool {
    name.strip_prefix(lead).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// What a device is that is no disk.
fn no_disk(name: &str, used: &DiskUse) -> Option<Nothing> {
    let numbered = |lead| numbered(name, lead);
    let shown = shown_within(name, 32);
    match () {
        () if name == "null" || name == "zero" || numbered("nullb") => {
            Some(Nothing::is(Cause::NoDevice, format!("{shown} stores nothing")))
        }
        () if numbered("zram") => Some(match &used.compressible {
            Some(option) => Nothing::is(
                Cause::Compressed,
                format!(
                    "{shown} is compressed memory, not a disk, and {option} writes data that takes no space in it"
                ),
            ),
            None => Nothing::is(Cause::Memory, format!("{shown} is compressed memory and no disk")),
        }),
        () if numbered("ram") => Some(Nothing::is(Cause::Memory, format!("{shown} is memory and no disk"))),
        () => None,
    }
}

/// The disks of these names.
fn named(names: &[&str], machine: &Machine) -> Result<Behind, Nothing> {
    // A loop device is there only as long as it has a file.
    if let Some(name) = names.iter().find(|name| numbered(name, "loop")) {
        return Ok(looped_on(machine, name));
    }
    let mut disks: Vec<Disk> = Vec::new();
    for name in names {
        let Some(disk) = find(name, &machine.disks) else {
            let shown = shown_within(name, 32);
            let why = format!("the file names the disk {shown}, which this machine does not have");
            return Err(Nothing::unknown(why));
        };
        if !disks.iter().any(|known| known.name == disk.name) {
            disks.push(disk.clone());
        }
    }
    of(machine, disks)
}

/// The disk of that name, or which it is a partition of.
fn find<'a>(name: &str, disks: &'a [Disk]) -> Option<&'a Disk> {
    let whole = |disk: &&Disk| disk.name == name;
    let part = |disk: &&Disk| {
        let rest = name.strip_prefix(disk.name.as_str()).unwrap_or("x");
        let ends_in_digit = disk.name.ends_with(|c: char| c.is_ascii_digit());
        let number = if ends_in_digit { rest.strip_prefix('p').unwrap_or("x") } else { rest };
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    disks.iter().find(whole).or_else(|| disks.iter().find(part))
}

/// The machine with these disks behind its test directory: those that others are made of stand for them.
fn of(machine: &Machine, found: Vec<Disk>) -> Result<Behind, Nothing> {
    let (layers, disks): (Vec<Disk>, Vec<Disk>) = found.into_iter().partition(|disk| disk.kind.is_layer());
    if disks.is_empty() {
        let names: Vec<&str> = layers.iter().map(|disk| disk.name.as_str()).collect();
        let why = format!("the file does not name the disks that {} is made of", names.join(", "));
        return Err(Nothing::unknown(why));
    }
    let storage = Storage { disks, ..Storage::default() };
    Ok(Behind { machine: Machine { storage: Some(storage), ..machine.clone() }, looped: None })
}

/// A loop device: its file is on some disk, and cannot be read faster than all of them together.
fn looped_on(machine: &Machine, name: &str) -> Behind {
    let storage = Storage { disks: leaves(machine), ..Storage::default() };
    Behind { machine: Machine { storage: Some(storage), ..machine.clone() }, looped: Some(name.to_owned()) }
}

/// What is behind a file, by the mount table.
fn on_file_system(path: &str, place: &Place<'_>) -> Option<Result<Behind, Nothing>> {
    let shown = shown_within(path, 64);
    if !path.starts_with('/') || path.contains("/../") {
        return None;
    }
    let mounts = mounts::read(place.root).unwrap_or_default();
    let Some(mount) = mounts::mount_of(&mounts, Path::new(path)) else {
        // glibc keeps POSIX shared memory there (shm_overview(7)).
        let memory = path.starts_with("/dev/shm/");
        return memory.then(|| Err(Nothing::is(Cause::Memory, format!("{shown} is in memory: no disk"))));
    };
    let storage = match Medium::of(&mount.fs_type) {
        Medium::Memory => {
            let text =
                format!("{shown} is on {}, which is memory: no disk", shown_within(&mount.fs_type, 20));
            return Some(Err(Nothing::is(Cause::Memory, text)));
        }
        Medium::Device => storage_behind(place.root, &mount.point),
        Medium::Network | Medium::Stacked => {
            let text = format!("{shown} is on {}: its disk is not known", shown_within(&mount.fs_type, 20));
            return Some(Err(Nothing::unknown(text)));
        }
    };
    let is_loop = |layer: &&Layer| layer.kind == DiskKind::Loop;
    let looped = storage.layers.iter().find(is_loop).map(|layer| layer.name.clone());
    Some(Ok(match looped {
        Some(name) => looped_on(place.machine, &name),
        None => Behind { machine: Machine { storage: Some(storage), ..place.machine.clone() }, looped: None },
    }))
}

/// The disks that are made of no other.
fn leaves(machine: &Machine) -> Vec<Disk> {
    let no_memory = |disk: &&Disk| !matches!(disk.kind, DiskKind::Zram | DiskKind::Ram | DiskKind::Loop);
    let disks = machine.disks.iter().filter(|disk| !disk.kind.is_layer());
    disks.filter(no_memory).filter(|disk| disk.size_bytes != Some(0)).cloned().collect()
}

/// Where the file names no disk: no figure is past all of them together.
fn any(machine: &Machine) -> Result<Behind, Nothing> {
    let disks = leaves(machine);
    if disks.iter().any(|disk| disk.link.is_none()) || disks.is_empty() {
        return Err(Nothing::unknown("the file does not say which disk it is of"));
    }
    let storage = Storage { disks, ..Storage::default() };
    Ok(Behind { machine: Machine { storage: Some(storage), ..machine.clone() }, looped: None })
}
