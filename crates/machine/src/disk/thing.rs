//! What a path leads to: a device by its number, a file by its file system and inode. Names, links, bind mounts and
//! namespaces are many; these are what two of them have in common.

use std::path::Path;

use rustix::fs::{FileType, Statx};

use crate::mounts::DeviceNumber;
use crate::root::Root;

/// A file, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The number of its file system.
    pub system: DeviceNumber,
    /// Its inode.
    pub inode: u64,
}

/// Something that holds bytes, or by which a process serves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Thing {
    /// A block device.
    Block(DeviceNumber),
    /// A character device.
    Character(DeviceNumber),
    /// A regular file.
    File(FileId),
}

impl Thing {
    /// What an absolute path leads to. A device is also known by the name that the kernel gives it: its node need not be
    /// there, as in a container.
    pub fn at(root: &Root, path: &Path) -> Option<Thing> {
        if !path.is_absolute() {
            return None;
        }
        let known = root.about(path).and_then(|about| Thing::of(&about));
        known.or_else(|| {
            let name = path.strip_prefix("/dev").ok()?.to_str()?;
            character(root, name).or_else(|| Some(Thing::Block(number_of(root, name)?)))
        })
    }

    /// What a link of `/proc/PID/fd` leads to. On the machine itself the kernel follows it to the open file, also where
    /// that has no path any more.
    pub fn open_at(root: &Root, link: &Path) -> Option<Thing> {
        match root.is_live() {
            true => Thing::of(&root.about(link)?),
            false => Thing::at(root, &root.link_text(link).ok()?),
        }
    }

    fn of(about: &Statx) -> Option<Thing> {
        let number = DeviceNumber { major: about.stx_rdev_major, minor: about.stx_rdev_minor };
        match FileType::from_raw_mode(about.stx_mode.into()) {
            FileType::BlockDevice => Some(Thing::Block(number)),
            FileType::CharacterDevice => Some(Thing::Character(number)),
            FileType::RegularFile => {
                let system = DeviceNumber { major: about.stx_dev_major, minor: about.stx_dev_minor };
                Some(Thing::File(FileId { system, inode: about.stx_ino }))
            }
            _ => None,
        }
    }
}

/// The number of FUSE's device (admin-guide/devices.txt).
pub(super) const FUSE: Thing = Thing::Character(DeviceNumber { major: 10, minor: 229 });

/// The character devices that servers of bytes have open, by name.
fn character(root: &Root, name: &str) -> Option<Thing> {
    if name == "fuse" {
        return Some(FUSE);
    }
    let number = root.line(Path::new("sys/class/ublk-char").join(name).join("dev")).ok()?;
    number.parse().ok().map(Thing::Character)
}

/// The number of a block device by its name below `/dev`, as the kernel or device mapper gives it.
fn number_of(root: &Root, name: &str) -> Option<DeviceNumber> {
    const BLOCK_DIRECTORY: &str = "sys/class/block";
    let all = Path::new(BLOCK_DIRECTORY);
    let number = |kernel: &str| root.line(all.join(kernel).join("dev")).ok()?.parse().ok();
    match name.strip_prefix("mapper/") {
        Some(mapped) => {
            let names = root.names(BLOCK_DIRECTORY).ok()?;
            let is_it = |kernel: &&String| {
                root.text(all.join(kernel.as_str()).join("dm/name")).is_ok_and(|name| name == mapped)
            };
            number(names.iter().find(is_it)?)
        }
        // The kernel's names have ! where /dev has directories.
        None => number(&name.replace('/', "!")),
    }
}
