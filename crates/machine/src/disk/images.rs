//! File systems mounted from a file without a loop device: erofs since Linux 6.12. The kernel shows
//! only the source text of mount(2), which may be outdated.

use std::path::{Path, PathBuf};

use crate::mounts::{DeviceNumber, Mount};
use crate::root::Root;

const EROFS: &str = "erofs";

const SUPERBLOCK: u64 = 1024;
const MAGIC: [u8; 4] = 0xe0f5_e1e2_u32.to_le_bytes();

/// Offset of the 16-bit number of extra files or devices with data (`extra_devices`).
const EXTRA_DEVICES_OFFSET: usize = 86;

const OFFSET: &str = "fsoffset=";

const EROFS_DIRECTORY: &str = "sys/fs/erofs";
const NO_DEVICE: &str = "erofs-";

#[derive(Debug, Default)]
pub(super) struct Images {
    mounted: Vec<Image>,
    unseen: usize,
}

#[derive(Debug)]
struct Image {
    system: DeviceNumber,
    phrases: String,
    offset: u64,
    whole: bool,
}

pub(super) fn is_one(mount: &Mount) -> bool {
    mount.fs_type == EROFS && mount.device.major == 0
}

impl Images {
    /// Collects erofs images; `mounts` are (mount of an erofs without a device, readable path of
    /// its source file, phrase `is mounted on /a`).
    pub(super) fn among<'a>(
        root: &Root,
        mounts: impl Iterator<Item = (&'a Mount, Option<PathBuf>, String)>,
    ) -> Images {
        let mut mounted: Vec<Image> = Vec::new();
        for (mount, source, phrases) in mounts {
            let offset = mount.options.iter().find_map(|option| option.strip_prefix(OFFSET)?.parse().ok());
            let offset = offset.unwrap_or(0);
            let superblock = source.and_then(|source| superblock(root, &source, offset));
            let whole = superblock.is_some_and(|block| others(&block) == Some(0));
            // Some namespaces may not see the file.
            match mounted.iter_mut().find(|known| known.system == mount.device) {
                Some(known) => known.whole |= whole,
                None => mounted.push(Image { system: mount.device, phrases, offset, whole }),
            }
        }
        let listed = root.names(EROFS_DIRECTORY).unwrap_or_default();
        let listed = listed.iter().filter(|name| name.starts_with(NO_DEVICE)).count();
        Images { unseen: listed.saturating_sub(mounted.len()), mounted }
    }

    /// Returns a phrase, `may be a file from which an erofs is mounted on /a …`, if the file at
    /// `path` (`None`: unreadable) may be part of a mounted erofs image; else `None`.
    pub(super) fn user(&self, root: &Root, path: Option<&Path>) -> Option<String> {
        let may_be = |image: &&Image| {
            let holds_it = path.is_none_or(|path| superblock(root, path, image.offset).is_some());
            holds_it || !image.whole
        };
        let shown = self
            .mounted
            .iter()
            .find(may_be)
            .map(|image| format!("{} (the kernel does not tell which files those are)", image.phrases));
        let hidden = || "is mounted in a mount namespace that cannot be seen".to_owned();
        let phrases = shown.or_else(|| (self.unseen > 0).then(hidden));
        phrases.map(|phrases| format!("may be a file from which an erofs {phrases}"))
    }
}

fn superblock(root: &Root, path: &Path, offset: u64) -> Option<Vec<u8>> {
    let block = root.part(path, offset.checked_add(SUPERBLOCK)?, 128).ok()?;
    block.starts_with(&MAGIC).then_some(block)
}

fn others(superblock: &[u8]) -> Option<u16> {
    let count = superblock.get(EXTRA_DEVICES_OFFSET..)?.first_chunk()?;
    Some(u16::from_le_bytes(*count))
}
