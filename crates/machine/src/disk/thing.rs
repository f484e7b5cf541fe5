//! Identity of a file or device, independent of names, links, bind mounts and namespaces.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Statx, fstat};

use crate::mounts::DeviceNumber;
use crate::root::Root;
use crate::storage::device_named;

/// Identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number of its file system.
    pub system: DeviceNumber,
    /// Inode number.
    pub inode: u64,
}

/// A container of bytes, or a device through which a process serves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileOrDevice {
    /// A block device.
    Block(DeviceNumber),
    /// A character device.
    Character(DeviceNumber),
    /// A regular file.
    File(FileId),
}

impl FileOrDevice {
    /// Returns the file or device at an absolute path; a missing device node is found by name.
    pub fn at(root: &Root, path: &Path) -> Option<FileOrDevice> {
        if !path.is_absolute() {
            return None;
        }
        let known = root.about(path).and_then(|about| FileOrDevice::of(&about));
        known.or_else(|| {
            let name = path.strip_prefix("/dev").ok()?.to_str()?;
            character(root, name).or_else(|| {
                let place = device_named(root, path).ok()?;
                root.parse(place.join("dev"), "a device number").ok().map(FileOrDevice::Block)
            })
        })
    }

    /// Returns the open file or device of a descriptor `proc/PID/fd/N`, on the live machine even if
    /// unlinked; `None` for anything else.
    pub fn open_at(root: &Root, link: &Path) -> Option<FileOrDevice> {
        match root.is_live() {
            true => FileOrDevice::of(&root.about(link)?),
            false => FileOrDevice::at(root, &root.link_text(link).ok()?),
        }
    }

    /// Returns what `file` is, an open file or device; `None` if neither. Sandboxes may lack statx.
    pub fn of_open(file: impl AsFd) -> Option<FileOrDevice> {
        let about = fstat(file).ok()?;
        let [number, system] = [about.st_rdev, about.st_dev].map(DeviceNumber::from_raw);
        match FileType::from_raw_mode(about.st_mode) {
            FileType::BlockDevice => Some(FileOrDevice::Block(number)),
            FileType::CharacterDevice => Some(FileOrDevice::Character(number)),
            FileType::RegularFile => Some(FileOrDevice::File(FileId { system, inode: about.st_ino })),
            _ => None,
        }
    }

    fn of(about: &Statx) -> Option<FileOrDevice> {
        let number = DeviceNumber { major: about.stx_rdev_major, minor: about.stx_rdev_minor };
        match FileType::from_raw_mode(about.stx_mode.into()) {
            FileType::BlockDevice => Some(FileOrDevice::Block(number)),
            FileType::CharacterDevice => Some(FileOrDevice::Character(number)),
            FileType::RegularFile => {
                let system = DeviceNumber { major: about.stx_dev_major, minor: about.stx_dev_minor };
                Some(FileOrDevice::File(FileId { system, inode: about.stx_ino }))
            }
            _ => None,
        }
    }
}

pub(super) const FUSE: FileOrDevice = FileOrDevice::Character(DeviceNumber { major: 10, minor: 229 });

/// Returns a storage server's character device by its name below `/dev`: `fuse`, `ublkc0`.
fn character(root: &Root, name: &str) -> Option<FileOrDevice> {
    if name == "fuse" {
        return Some(FUSE);
    }
    let number = root.parse(Path::new("sys/class/ublk-char").join(name).join("dev"), "a device number");
    number.ok().map(FileOrDevice::Character)
}
