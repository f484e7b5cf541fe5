//! File systems that are mounted from a file without a loop device: erofs can be, since Linux 6.12.
//!
//! The kernel holds such a file open, and tells of it only the text that mount(2) was given: the file may have another name by
//! now, the text may be relative to some directory, or be of another root. So a file is taken for the one where its path leads
//! to it, and also where it has a superblock at the place of the mounted one, or where nothing can be said against it.

use std::path::{Path, PathBuf};

use crate::mounts::{DeviceNumber, Mount};
use crate::root::Root;

/// The type of file system that does it.
const EROFS: &str = "erofs";

/// Where the superblock begins in the image, and its first bytes (`EROFS_SUPER_OFFSET`, `EROFS_SUPER_MAGIC_V1` in the kernel's
/// fs/erofs/erofs_fs.h).
const SUPERBLOCK: u64 = 1024;
const MAGIC: [u8; 4] = 0xe0f5_e1e2_u32.to_le_bytes();

/// Where the superblock counts the other files or devices that hold a part of the data (`extra_devices`), two bytes.
const EXTRA_DEVICES_OFFSET: usize = 86;

/// The option of the mount that says where in the file the image begins.
const OFFSET: &str = "fsoffset=";

/// Where the kernel lists each superblock of the type: by its device's name, else as `erofs-N`.
const EROFS_DIRECTORY: &str = "sys/fs/erofs";
const NO_DEVICE: &str = "erofs-";

/// The file systems of this machine that are mounted from files.
#[derive(Debug, Default)]
pub(super) struct Images {
    mounted: Vec<Image>,
    /// How many more there are than any mount table shows.
    unseen: usize,
}

/// One of them.
#[derive(Debug)]
struct Image {
    system: DeviceNumber,
    /// Where it is mounted, as the end of a sentence.
    said: String,
    /// Where in the file it begins.
    offset: u64,
    /// All of it is in one file, as the file says that the path leads to.
    whole: bool,
}

/// Whether a mount is of that kind: its file system is on no block device.
pub(super) fn is_one(mount: &Mount) -> bool {
    mount.fs_type == EROFS && mount.device.major == 0
}

impl Images {
    /// Those among the mounts, each with the path by which its source can be looked at from here, and with where it is
    /// mounted, as the end of a sentence.
    pub(super) fn among<'a>(
        root: &Root,
        mounts: impl Iterator<Item = (&'a Mount, Option<PathBuf>, String)>,
    ) -> Images {
        let mut mounted: Vec<Image> = Vec::new();
        for (mount, source, said) in mounts {
            let offset = mount.options.iter().find_map(|option| option.strip_prefix(OFFSET)?.parse().ok());
            let offset = offset.unwrap_or(0);
            let superblock = source.and_then(|source| superblock(root, &source, offset));
            let whole = superblock.is_some_and(|block| others(&block) == Some(0));
            // One may be mounted in several namespaces, not all of which see the file.
            match mounted.iter_mut().find(|known| known.system == mount.device) {
                Some(known) => known.whole |= whole,
                None => mounted.push(Image { system: mount.device, said, offset, whole }),
            }
        }
        let listed = root.names(EROFS_DIRECTORY).unwrap_or_default();
        let listed = listed.iter().filter(|name| name.starts_with(NO_DEVICE)).count();
        Images { unseen: listed.saturating_sub(mounted.len()), mounted }
    }

    /// How a file that is no mount's source by its path may be in use by one all the same, as the end of a sentence; `path`
    /// is one by which it can be read.
    pub(super) fn user(&self, root: &Root, path: Option<&Path>) -> Option<String> {
        let may_be = |image: &&Image| {
            let holds_it = path.is_none_or(|path| superblock(root, path, image.offset).is_some());
            holds_it || !image.whole
        };
        let mounted = self.mounted.iter().find(may_be).map(|image| {
            format!(
                "may be a file from which an erofs {} (the kernel does not tell which files those are)",
                image.said
            )
        });
        mounted.or_else(|| {
            (self.unseen > 0).then(|| {
                "may be a file from which an erofs is mounted in a mount namespace that cannot be seen"
                    .to_owned()
            })
        })
    }
}

/// The superblock of the image that begins at `offset` in a file, where there is one.
fn superblock(root: &Root, path: &Path, offset: u64) -> Option<Vec<u8>> {
    let block = root.part(path, offset.checked_add(SUPERBLOCK)?, 128).ok()?;
    block.starts_with(&MAGIC).then_some(block)
}

fn others(superblock: &[u8]) -> Option<u16> {
    let count = superblock.get(EXTRA_DEVICES_OFFSET..)?.first_chunk()?;
    Some(u16::from_le_bytes(*count))
}
