//! Block devices, from `/sys/block` (Linux `Documentation/ABI/stable/sysfs-block`).

mod images;
pub mod link;
mod loops;
pub mod openers;
mod overlays;
mod rings;
mod served;
mod sharing;
pub mod stack;
mod survey;
pub mod thing;
pub mod users;

pub use link::DeviceLink;

use super::Survey;
use super::mounts::DeviceNumber;
use super::root::{ReadError, Root};
use plimsoll_units::text::{shown, shown_bytes};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_DISKS: usize = 4096;
/// Unit of sizes in sysfs in bytes, independent of the device's own sector size.
const SECTOR_BYTES: u64 = 512;

/// A whole block device (not a partition).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// The kernel's name: `nvme0n1`, `vda`.
    pub name: String,
    /// Device number.
    pub number: Option<DeviceNumber>,
    /// Kind of attachment.
    pub kind: DiskKind,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Whether the device reports moving heads; virtual disks often do so wrongly.
    pub rotational: Option<bool>,
    /// Logical sector in bytes: the smallest transfer.
    pub logical_sector_bytes: Option<u64>,
    /// Physical sector in bytes: the smallest write without a read.
    pub physical_sector_bytes: Option<u64>,
    /// Model name.
    pub model: Option<String>,
    /// Active I/O scheduler: `none`, `mq-deadline` …
    pub scheduler: Option<String>,
    /// `write back` (a cache that a flush must empty) or `write through`.
    pub write_cache: Option<String>,
    /// Requests queued by the kernel per hardware queue.
    pub queue_requests: Option<u64>,
    /// Largest request in bytes.
    pub max_request_bytes: Option<u64>,
    /// Whether the device is read-only.
    pub read_only: Option<bool>,
    /// NUMA node of the device.
    pub numa_node: Option<usize>,
    /// Link of the device, if known.
    pub link: Option<DeviceLink>,
}

/// Attachment or composition of a block device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// NVMe.
    Nvme,
    /// Virtio block device of a hypervisor.
    Virtio,
    /// SATA (or PATA) through libata.
    Sata,
    /// USB mass storage.
    Usb,
    /// Any other SCSI device: SAS, virtio-scsi, iSCSI …
    Scsi,
    /// SD card or eMMC.
    Mmc,
    /// Xen block device.
    Xen,
    /// A file presented as a device.
    Loop,
    /// Device mapper: LVM, encryption, multipath.
    DeviceMapper,
    /// Software RAID.
    Md,
    /// Compressed memory.
    Zram,
    /// Memory (`ram`, `pmem`).
    Ram,
    /// A device on another machine (`nbd`, `rbd`, `drbd`).
    Network,
    /// Any other device.
    #[default]
    Other,
}

impl DiskKind {
    /// Returns the usual name of the kind: `NVMe`, `software RAID` …
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nvme => "NVMe",
            Self::Virtio => "virtio",
            Self::Sata => "SATA",
            Self::Usb => "USB",
            Self::Scsi => "SCSI",
            Self::Mmc => "MMC",
            Self::Xen => "Xen",
            Self::Loop => "loop",
            Self::DeviceMapper => "device mapper",
            Self::Md => "software RAID",
            Self::Zram => "compressed memory",
            Self::Ram => "memory",
            Self::Network => "on another machine",
            Self::Other => "other",
        }
    }

    /// Returns whether the data is kept on other devices or files: loop, device mapper, RAID.
    pub fn is_layer(self) -> bool {
        matches!(self, Self::Loop | Self::DeviceMapper | Self::Md)
    }

    fn of(name: &str, place: &Path) -> Self {
        let by_name = [
            ("nvme", Self::Nvme),
            ("mmcblk", Self::Mmc),
            ("xvd", Self::Xen),
            ("loop", Self::Loop),
            ("dm-", Self::DeviceMapper),
            ("md", Self::Md),
            ("zram", Self::Zram),
            ("ram", Self::Ram),
            ("pmem", Self::Ram),
            ("nbd", Self::Network),
            ("rbd", Self::Network),
            ("drbd", Self::Network),
        ];
        if let Some((_, kind)) = by_name.iter().find(|(prefix, _)| name.starts_with(prefix)) {
            return *kind;
        }
        let parts = || place.components().filter_map(|part| part.as_os_str().to_str());
        let above = |prefix: &str| parts().any(|part| numbered(part, prefix));
        match () {
            () if above("usb") => Self::Usb,
            () if above("ata") => Self::Sata,
            () if name.starts_with("vd") => Self::Virtio,
            () if name.starts_with("sd") || name.starts_with("sr") => Self::Scsi,
            () => Self::Other,
        }
    }
}

pub(crate) fn numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads the devices in `/sys/block`, except loop, RAM, zram and network devices of size 0.
pub(super) fn discover(s: &mut Survey) -> Vec<Disk> {
    let names = s.keep("disks", s.root.names("sys/block")).unwrap_or_default();
    let found = names.iter().take(MAX_DISKS).filter_map(|name| {
        let place = s.root.resolve(Path::new("sys/block").join(name));
        Some(Disk::at(s.root, &s.keep(&format!("disks.{name}"), place)?))
    });
    let is_spare = |disk: &Disk| {
        [DiskKind::Loop, DiskKind::Ram, DiskKind::Zram, DiskKind::Network].contains(&disk.kind)
            && disk.size_bytes.is_none_or(|bytes| bytes == 0)
    };
    found.filter(|disk| !is_spare(disk)).collect()
}

impl Disk {
    /// Reads the attributes of the device with sysfs directory `place` (links resolved).
    pub(super) fn at(root: &Root, place: &Path) -> Self {
        let name = place.file_name().map(|n| shown_bytes(n.as_bytes())).unwrap_or_default();
        let kind = DiskKind::of(&name, place);
        let number = |path: &str| root.number(place.join(path)).ok();
        let flag = |path: &str| number(path).filter(|n| *n <= 1).map(|n| n == 1);
        let sector = |path: &str| number(path).filter(|n| n.is_power_of_two() && (512..=1 << 20).contains(n));
        let scheduler = root.text(place.join("queue/scheduler")).ok();
        Self {
            number: root.parse(place.join("dev"), "a device number").ok(),
            size_bytes: number("size").and_then(|n| n.checked_mul(SECTOR_BYTES)),
            rotational: flag("queue/rotational"),
            logical_sector_bytes: sector("queue/logical_block_size"),
            physical_sector_bytes: sector("queue/physical_block_size"),
            model: model(root, place),
            scheduler: scheduler.as_deref().and_then(chosen),
            write_cache: root.line(place.join("queue/write_cache")).ok(),
            queue_requests: number("queue/nr_requests"),
            max_request_bytes: number("queue/max_sectors_kb").and_then(|kib| kib.checked_mul(1024)),
            read_only: flag("ro"),
            numa_node: place.ancestors().find_map(|dir| root.parse(dir.join("numa_node"), "a node").ok()),
            link: DeviceLink::of(root, kind, place),
            name,
            kind,
        }
    }
}

/// Returns vendor (except `ATA`), if any, and model of the disk at `place`; `None` without a model.
fn model(root: &Root, place: &Path) -> Option<String> {
    let line = |name: &str| root.line(place.join("device").join(name)).ok();
    let model = line("model").or_else(|| line("name"))?;
    match line("vendor").filter(|v| v != "ATA" && !v.starts_with("0x")) {
        Some(vendor) => Some(shown(&format!("{vendor} {model}"))),
        None => Some(model),
    }
}

/// Returns the word in brackets, or the only word, of `list` (`none` of `mq-deadline [none]`).
fn chosen(list: &str) -> Option<String> {
    let bracketed = list.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
    let only = Some(list.trim()).filter(|one| !one.is_empty() && !one.contains(char::is_whitespace));
    bracketed.or(only).filter(|name| !name.is_empty()).map(shown)
}

/// Returns the resolved sysfs directory of the disk or partition with this device number.
pub(super) fn sysfs_directory(root: &Root, number: DeviceNumber) -> Result<PathBuf, ReadError> {
    root.resolve(format!("sys/dev/block/{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_follows_from_name_and_place() {
        let kind = |place: &str| {
            let place = Path::new(place);
            DiskKind::of(place.file_name().and_then(|n| n.to_str()).unwrap_or_default(), place)
        };
        let pci = "/sys/devices/pci0000:00/0000:00:17.0";
        assert_eq!(kind(&format!("{pci}/ata3/host2/target2:0:0/2:0:0:0/block/sda")), DiskKind::Sata);
        let said = kind(&format!("{pci}/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb"));
        assert_eq!(said, DiskKind::Usb);
        assert_eq!(kind(&format!("{pci}/host0/target0:2:0/0:2:0:0/block/sda")), DiskKind::Scsi);
        assert_eq!(kind(&format!("{pci}/virtio1/block/vda")), DiskKind::Virtio);
        assert_eq!(kind(&format!("{pci}/nvme/nvme0/nvme0n1")), DiskKind::Nvme);
        assert_eq!(kind("/sys/devices/virtual/block/dm-0"), DiskKind::DeviceMapper);
        assert_eq!(kind("/sys/devices/virtual/block/zzz"), DiskKind::Other);
    }

    #[test]
    fn the_scheduler_in_force_is_the_bracketed_one() {
        assert_eq!(chosen("none [mq-deadline] kyber").as_deref(), Some("mq-deadline"));
        assert_eq!(chosen("none").as_deref(), Some("none"));
        assert_eq!(chosen("a b"), None);
        assert_eq!(chosen(""), None);
    }
}
