//! Storage behind a path: file system and disks, through loop devices, device mapper and RAID.

use super::disk::{Disk, DiskKind, sysfs_directory};
use super::mounts::{self, DeviceNumber, Mount};
use super::root::{ReadError, Root};
use super::{Survey, UnknownFact};
use plimsoll_units::text::{shown, shown_bytes, shown_path};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

const MAX_DEPTH: usize = 12;
const MAX_DEVICES: usize = 256;

/// File system and disks of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    /// The requested path without links.
    pub path: String,
    /// File system of the path; `None` for a block device.
    pub file_system: Option<MountedFileSystem>,
    /// Block device of the file system (or the path itself), possibly a partition.
    pub device: Option<String>,
    /// Number of the device.
    pub number: Option<DeviceNumber>,
    /// All devices of a multi-device file system (btrfs), `device` included; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// Devices between the file system and the disks, top down.
    pub layers: Vec<DeviceLayer>,
    /// Distinct disks at the bottom; empty for memory, network and stacked file systems.
    pub disks: Vec<Disk>,
    /// Facts that could not be determined.
    pub unknown: Vec<UnknownFact>,
}

/// A device of a multi-device file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The kernel's name.
    pub name: String,
    /// Device number.
    pub number: Option<DeviceNumber>,
}

/// A device composed of other devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceLayer {
    /// The kernel's name: `dm-0`, `md127`, `loop3`.
    pub name: String,
    /// Kind of device.
    pub kind: DiskKind,
    /// Type (`LVM`, `CRYPT`, `mpath`) and name of a mapping, RAID level, or file of a loop device.
    pub detail: Option<String>,
    /// Medium of a loop device's file, unless it is a block device of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<Medium>,
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedFileSystem {
    /// Type: `ext4`, `xfs`, `tmpfs`, `nfs4` …
    pub fs_type: String,
    /// Mount point.
    pub mount_point: String,
    /// Source of the mount.
    pub source: String,
    /// Mount options, then those of the file system.
    pub options: Vec<String>,
    /// Medium of the data.
    pub medium: Medium,
}

impl MountedFileSystem {
    /// Returns whether a process (FUSE) or a guest's host serves the data, possibly from memory.
    pub fn is_served(&self) -> bool {
        let kind = self.fs_type.as_str();
        self.medium == Medium::Stacked
            && (kind.starts_with("fuse") || ["9p", "virtiofs", "vboxsf"].contains(&kind))
    }
}

/// Medium of a file system's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Block devices.
    Device,
    /// Memory.
    Memory,
    /// Another machine.
    Network,
    /// Other file systems (overlay, FUSE, a hypervisor's shared directory).
    Stacked,
}

impl Medium {
    /// Returns the medium of new files on `mount`; on an overlay, memory if its upper directory is.
    fn of_mount(root: &Root, mounts: &[Mount], mount: &Mount) -> Self {
        let upper = || {
            let path = mount.options.iter().find_map(|option| option.strip_prefix("upperdir="))?;
            // In a container the path may be the host's. Links count as when it was mounted.
            let real = if root.is_live() { root.resolve(path).ok()? } else { path.into() };
            let below = mounts::mount_of(mounts, &real)?;
            Some(Self::of(&below.fs_type)).filter(|medium| *medium == Self::Memory)
        };
        let own = Self::of(&mount.fs_type);
        if mount.fs_type == "overlay" { upper().unwrap_or(own) } else { own }
    }

    /// Returns the medium of a file system type, such as `tmpfs`; [`Medium::Device`] if unknown.
    pub fn of(fs_type: &str) -> Self {
        match fs_type {
            "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" | "rootfs" | "proc" | "sysfs" => Self::Memory,
            "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "ceph" | "lustre" | "gpfs" | "beegfs"
            | "glusterfs" | "afs" => Self::Network,
            "overlay" | "aufs" | "9p" | "virtiofs" | "vboxsf" | "ecryptfs" => Self::Stacked,
            // fuseblk (such as NTFS) is on a device; other FUSE file systems can be on anything.
            fuse if fuse == "fuse" || fuse.starts_with("fuse.") => Self::Stacked,
            _ => Self::Device,
        }
    }
}

const BCACHEFS: &str = "bcachefs";

/// Finds the file system, devices and disks on which `path` is: by stat(2) or, in a saved tree, by
/// the mount table. Failures are listed in [`Storage::unknown`].
pub fn storage_behind(root: &Root, path: &Path) -> Storage {
    let mut survey = Survey::new(root);
    let mut storage = Storage { path: shown_path(path), ..Storage::default() };
    match StoragePath::of(root, path) {
        Ok(place) => storage.look(&mut survey, &place),
        Err(why) => survey.note("storage.path", why),
    }
    storage.unknown = survey.unknown;
    storage
}

struct StoragePath {
    path: PathBuf,
    of_file_system: Option<DeviceNumber>,
    itself: Option<DeviceNumber>,
}

impl StoragePath {
    fn of(root: &Root, path: &Path) -> Result<Self, ReadError> {
        if !root.is_live() {
            return Ok(Self { path: path.into(), of_file_system: None, itself: None });
        }
        let path = root.resolve(std::path::absolute(path).unwrap_or_else(|_| path.into()))?;
        let failed = |e: std::io::Error| ReadError::Failed(shown_path(&path), e.to_string());
        let status = fs::metadata(&path).map_err(failed)?;
        let itself = status.file_type().is_block_device().then(|| DeviceNumber::from_raw(status.rdev()));
        Ok(Self { of_file_system: Some(DeviceNumber::from_raw(status.dev())), itself, path })
    }
}

impl Storage {
    /// Returns the number (`None`: unknown) of each device of the file system, at least one.
    pub fn top(&self) -> Vec<Option<DeviceNumber>> {
        match self.members.as_slice() {
            [] => vec![self.number],
            members => members.iter().map(|member| member.number).collect(),
        }
    }

    /// Returns the kernel's names of the file system's devices; empty if it has none.
    pub fn top_names(&self) -> Vec<&str> {
        match self.members.as_slice() {
            [] => self.device.as_deref().into_iter().collect(),
            members => members.iter().map(|member| member.name.as_str()).collect(),
        }
    }

    fn look(&mut self, s: &mut Survey, place: &StoragePath) {
        self.path = shown_path(&place.path);
        if let Some(device) = place.itself {
            return self.follow(s, sysfs_directory(s.root, device));
        }
        let Some(mounts) = s.keep("storage.file_system", mounts::read(s.root)) else {
            if let Some(device) = place.of_file_system.filter(|d| d.major != 0) {
                self.follow(s, sysfs_directory(s.root, device));
            }
            return;
        };
        // A later mount above a mount point hides it; not all (subvolumes of btrfs) have the device
        // of stat(2).
        let is_exact =
            |m: &&Mount| Some(m.device) == place.of_file_system && place.path.starts_with(&m.point);
        let exact = mounts.iter().filter(is_exact).max_by_key(|m| m.point.components().count());
        let mount = exact.or_else(|| mounts::mount_of(&mounts, &place.path));
        let mount = mount.ok_or("no mount in /proc/self/mountinfo holds the path");
        let Some(mount) = s.keep("storage.file_system", mount) else { return };
        let medium = Medium::of_mount(s.root, &mounts, mount);
        self.file_system = Some(MountedFileSystem {
            fs_type: mount.fs_type.clone(),
            mount_point: shown_path(&mount.point),
            source: shown_path(&mount.source),
            options: mount.options.clone(),
            medium,
        });
        if medium == Medium::Device {
            self.follow(s, device_of(s.root, place, mount));
        } else {
            s.note("storage.device", format_args!("{} is not on a block device of its own", mount.fs_type));
        }
    }

    fn follow(&mut self, s: &mut Survey, top: Result<PathBuf, ReadError>) {
        let Some(top) = s.keep("storage.device", top) else { return };
        self.device = top.file_name().map(|name| shown_path(Path::new(name)));
        self.number = s.root.parse(top.join("dev"), "a device number").ok();
        let members = self.find_members(s, &top);
        if members.len() > 1 {
            let member = |place: &PathBuf| Member {
                name: shown_path(Path::new(place.file_name().unwrap_or_default())),
                number: s.root.parse(place.join("dev"), "a device number").ok(),
            };
            self.members = members.iter().map(member).collect();
        }
        self.descend(s, members);
        if self.disks.is_empty() {
            s.note("storage.disks", "no disk was found below the device");
        }
    }

    /// Returns the sysfs directories of all devices of the btrfs or bcachefs on `top`, or `top`.
    fn find_members(&self, s: &Survey, top: &Path) -> Vec<PathBuf> {
        if let Some(fs) = self.file_system.as_ref().filter(|fs| fs.fs_type == BCACHEFS) {
            let named =
                fs.source.split(':').filter_map(|source| device_named(s.root, Path::new(source)).ok());
            let named: Vec<PathBuf> = named.take(MAX_DEVICES).collect();
            return if named.is_empty() { vec![top.into()] } else { named };
        }
        const BTRFS: &str = "sys/fs/btrfs";
        let name = top.file_name().unwrap_or_default();
        let is_btrfs = self.file_system.as_ref().is_some_and(|fs| fs.fs_type == "btrfs");
        let systems = if is_btrfs { s.root.names(BTRFS).unwrap_or_default() } else { Vec::new() };
        let mut devices = systems.iter().map(|system| Path::new(BTRFS).join(system).join("devices"));
        let devices = devices.find(|dir| s.root.exists(dir.join(name)));
        let names = devices.as_ref().and_then(|dir| s.root.names(dir).ok()).unwrap_or_default();
        let all =
            names.iter().filter_map(|name| s.root.resolve(Path::new("sys/class/block").join(name)).ok());
        let all: Vec<PathBuf> = all.take(MAX_DEVICES).collect();
        if all.is_empty() { vec![top.into()] } else { all }
    }

    fn descend(&mut self, s: &mut Survey, mut level: Vec<PathBuf>) {
        let mut seen = level.clone();
        for _ in 0..MAX_DEPTH {
            let found: Vec<PathBuf> = level.iter().flat_map(|place| self.step(s, place)).collect();
            level.clear();
            for place in found {
                if seen.len() == MAX_DEVICES {
                    s.note("storage.disks", format_args!("more than {MAX_DEVICES} devices below the path"));
                    return;
                }
                if !seen.contains(&place) {
                    seen.push(place.clone());
                    level.push(place);
                }
            }
            if level.is_empty() {
                return;
            }
        }
        s.note("storage.disks", format_args!("devices are stacked more than {MAX_DEPTH} deep"));
    }

    /// Adds the disk or layer with sysfs directory `place` and returns the directories of the
    /// devices directly below. Does not add a partition, but returns its disk's directory.
    fn step(&mut self, s: &mut Survey, place: &Path) -> Vec<PathBuf> {
        if s.root.exists(place.join("partition")) {
            return place.parent().map(Path::to_path_buf).into_iter().collect();
        }
        let disk = Disk::at(s.root, place);
        if !disk.kind.is_layer() {
            self.disks.push(disk);
            return Vec::new();
        }
        let (detail, medium, below) = match disk.kind {
            DiskKind::Loop => behind_loop(s, place),
            _ => slaves(s, place),
        };
        self.layers.push(DeviceLayer { name: disk.name, kind: disk.kind, detail, medium });
        below
    }
}

/// Returns detail and medium of the loop device with sysfs directory `place`, and the sysfs
/// directory of the device with the file behind it; empty if unknown or on no device.
fn behind_loop(s: &mut Survey, place: &Path) -> (Option<String>, Option<Medium>, Vec<PathBuf>) {
    let found = s.root.bytes(&place.join("loop/backing_file"), super::root::FILE_CAP);
    let Some(bytes) = s.keep("storage.loop", found) else { return (None, None, Vec::new()) };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let file = Path::new(OsStr::from_bytes(bytes));
    let found = StoragePath::of(s.root, file).and_then(|file_place| {
        let mounts = mounts::read(s.root)?;
        let missing = || ReadError::Missing(shown_path(file));
        let mount = mounts::mount_of(&mounts, &file_place.path).ok_or_else(missing)?;
        match Medium::of_mount(s.root, &mounts, mount) {
            Medium::Device => device_of(s.root, &file_place, mount).map(|below| (None, Some(below))),
            medium => Ok((Some(medium), None)),
        }
    });
    let (medium, below) = s.keep("storage.loop", found).unwrap_or_default();
    (Some(shown_bytes(bytes)), medium, below.into_iter().collect())
}

/// Returns the detail of the mapped device or RAID with sysfs directory `place`, and the sysfs
/// directories of the devices directly below. Notes in `s` what cannot be read.
fn slaves(s: &mut Survey, place: &Path) -> (Option<String>, Option<Medium>, Vec<PathBuf>) {
    let line = |name: &str| s.root.line(place.join(name)).ok();
    // The UUID starts with the type, "LVM-…"; the rest identifies the volume and stays private.
    let uuid = line("dm/uuid");
    let kind = uuid.as_deref().and_then(|uuid| uuid.split_once('-')).map(|(kind, _)| kind);
    let detail = match (kind, line("dm/name")) {
        (Some(kind), Some(name)) => Some(shown(&format!("{kind} {name}"))),
        (Some(kind), None) => Some(shown(kind)),
        (None, name) => name.or_else(|| line("md/level")),
    };
    let dir = place.join("slaves");
    let names = s.keep("storage.disks", s.root.names(&dir)).unwrap_or_default();
    let found = names.iter().map(|name| s.root.resolve(dir.join(name))).collect::<Vec<_>>();
    let below: Vec<PathBuf> = found.into_iter().filter_map(|found| s.keep("storage.disks", found)).collect();
    if below.is_empty() {
        s.note("storage.disks", format_args!("{} names no device below it", shown_path(&dir)));
    }
    (detail, None, below)
}

/// Returns the sysfs directory of the device of `mount`, by number or, without any, by source.
fn device_of(root: &Root, place: &StoragePath, mount: &Mount) -> Result<PathBuf, ReadError> {
    let number = place.of_file_system.unwrap_or(mount.device);
    if number.major != 0 { sysfs_directory(root, number) } else { device_by_source(root, mount) }
}

/// Returns the sysfs directory of the device that is a mount's source; the first for bcachefs.
pub(super) fn device_by_source(root: &Root, mount: &Mount) -> Result<PathBuf, ReadError> {
    let bytes = mount.source.as_os_str().as_bytes();
    let first = bytes.split(|byte| *byte == b':').next().unwrap_or_default();
    let source = Path::new(OsStr::from_bytes(if mount.fs_type == BCACHEFS { first } else { bytes }));
    if !source.starts_with("/dev") {
        let cause = format!("{} on {} names no device", mount.fs_type, shown_path(&mount.source));
        return Err(ReadError::Failed(shown_path(&mount.point), cause));
    }
    device_named(root, source)
}

/// Returns the sysfs directory of the block device at `path`: `/dev/sda1`, `/dev/mapper/home`.
pub(super) fn device_named(root: &Root, path: &Path) -> Result<PathBuf, ReadError> {
    let missing = |_| ReadError::Missing(shown_path(path));
    let name = path.strip_prefix("/dev").map_err(missing)?.to_string_lossy();
    if let Some(mapped) = name.strip_prefix("mapper/") {
        let devices = root.names("sys/class/block")?;
        let named = |dev: &&String| {
            root.text(Path::new("sys/class/block").join(dev).join("dm/name")).as_deref() == Ok(mapped)
        };
        if let Some(device) = devices.iter().find(named) {
            return root.resolve(Path::new("sys/class/block").join(device));
        }
    }
    // The kernel's names have ! for the slashes in /dev.
    root.resolve(Path::new("sys/class/block").join(name.replace('/', "!")))
}
