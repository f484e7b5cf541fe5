//! Who uses a block device: mounts, partitions, devices built on it, swap, loop devices that read from it.
//!
//! All of it is told before anything is written to the device. What cannot be read counts as a user: a check that
//! does not see is no consent.

use std::path::{Path, PathBuf};

use super::place_of;
use crate::machine::mounts::{self, DeviceNumber};
use crate::machine::root::{ReadError, Root};
use crate::text::{shown, shown_bytes};

/// The users of the device `number`, each as the end of a sentence (`is mounted on /data`); empty when nobody uses
/// it. The disk of a partition counts as well, where it is used as a whole.
pub fn users(root: &Root, number: DeviceNumber) -> Vec<String> {
    let place = match place_of(root, number) {
        Ok(place) => place,
        Err(why) => return vec![format!("is not described by sysfs: {why}")],
    };
    let mut found = Users { root, said: Vec::new() };
    let partitions = found.partitions(&place);
    if !partitions.is_empty() {
        let names: Vec<String> = partitions.iter().map(|place| name_of(place)).collect();
        found.said.push(format!("has partitions: {}", names.join(", ")));
    }
    let whole = place.parent().filter(|_| root.exists(place.join("partition")));
    let all: Vec<PathBuf> = [place.clone()].into_iter().chain(partitions).collect();
    for place in all.iter().map(PathBuf::as_path).chain(whole) {
        found.of(place, place == all[0]);
    }
    found.said
}

/// The disk that the device is a partition of.
pub fn whole(root: &Root, number: DeviceNumber) -> Option<DeviceNumber> {
    let place = place_of(root, number).ok()?;
    let disk = place.parent().filter(|_| root.exists(place.join("partition")))?;
    root.line(disk.join("dev")).ok()?.parse().ok()
}

/// Whether the device refuses writes, as sysfs says.
pub fn is_read_only(root: &Root, number: DeviceNumber) -> bool {
    place_of(root, number).is_ok_and(|place| root.number(place.join("ro")) == Ok(1))
}

/// The serial number of the device, or of the disk that the partition is on; `None` for what has none.
pub fn serial(root: &Root, number: DeviceNumber) -> Option<String> {
    let place = place_of(root, number).ok()?;
    let disk = if root.exists(place.join("partition")) { place.parent()?.to_path_buf() } else { place };
    let line = |name: &str| root.line(disk.join(name)).ok();
    let serial = line("serial").or_else(|| line("device/serial")).or_else(|| page_80(root, &disk));
    serial.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The unit serial number page of a SCSI device (SPC-4 §7.8.13): four bytes of header, then the number.
fn page_80(root: &Root, disk: &Path) -> Option<String> {
    let page = root.head(&disk.join("device/vpd_pg80"), 256).ok()?;
    let length = usize::from(*page.get(3)?);
    let text = page.get(4..4 + length)?;
    Some(shown_bytes(text)).filter(|text| text.is_ascii())
}

struct Users<'a> {
    root: &'a Root,
    said: Vec<String>,
}

impl Users<'_> {
    /// Keeps what was found, or that it could not be found out.
    fn told<T>(&mut self, what: &str, found: Result<T, ReadError>) -> Option<T> {
        found.map_err(|why| self.said.push(format!("has {what} that cannot be told: {why}"))).ok()
    }

    fn partitions(&mut self, place: &Path) -> Vec<PathBuf> {
        let names = self.root.names(place);
        let names = self.told("partitions", names).unwrap_or_default();
        let places = names.iter().map(|name| place.join(name));
        places.filter(|place| self.root.exists(place.join("partition"))).collect()
    }

    /// The users of one device, disk or partition.
    fn of(&mut self, place: &Path, itself: bool) {
        let name = name_of(place);
        let who = if itself { String::new() } else { format!("({name}) ") };
        let holders = self.root.names(place.join("holders"));
        let holders = self.told("holders", holders).unwrap_or_default();
        if !holders.is_empty() {
            let holders: Vec<String> = holders.iter().map(|holder| self.described(holder)).collect();
            self.said.push(format!("{who}is part of {}", holders.join(", ")));
        }
        self.mounted(place, &name, &who);
        self.swap(&name, &who);
        self.read_by_loops(&name, &who);
    }

    /// `dm-0 (LVM-…)` with what the device calls itself.
    fn described(&self, holder: &str) -> String {
        let line = |file: &str| self.root.line(Path::new("sys/class/block").join(holder).join(file)).ok();
        match line("dm/name").or_else(|| line("md/level")) {
            Some(known) => shown(&format!("{holder} ({known})")),
            None => shown(holder),
        }
    }

    fn mounted(&mut self, place: &Path, name: &str, who: &str) {
        let number = self.root.parse::<DeviceNumber>(place.join("dev"), "a device number").ok();
        let mounts = mounts::read(self.root);
        let mounts = self.told("mounts", mounts).unwrap_or_default();
        let source = Path::new("/dev").join(name);
        let its = |mount: &&mounts::Mount| number == Some(mount.device) || mount.source == source;
        if let Some(mount) = mounts.iter().find(its) {
            let point = shown_bytes(mount.point.as_os_str().as_encoded_bytes());
            self.said.push(format!("{who}is mounted on {point}"));
        }
        const BTRFS: &str = "sys/fs/btrfs";
        for system in self.root.names(BTRFS).unwrap_or_default() {
            if self.root.exists(Path::new(BTRFS).join(&system).join("devices").join(name)) {
                self.said.push(format!("{who}is part of the mounted btrfs {system}"));
            }
        }
    }

    fn swap(&mut self, name: &str, who: &str) {
        let table = match self.root.text("proc/swaps") {
            // A kernel without swap has no such file.
            Err(ReadError::Missing(_)) => return,
            found => self.told("swap areas", found).unwrap_or_default(),
        };
        let mut areas = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        if areas.any(|area| Path::new(area).file_name().is_some_and(|file| *file == *name)) {
            self.said.push(format!("{who}is in use as swap"));
        }
    }

    fn read_by_loops(&mut self, name: &str, who: &str) {
        let device = format!("/dev/{name}");
        let all = self.root.names("sys/block").unwrap_or_default();
        for looped in all.iter().filter(|n| n.starts_with("loop")) {
            let file = self.root.line(Path::new("sys/block").join(looped).join("loop/backing_file"));
            if file.is_ok_and(|file| file == device) {
                self.said.push(format!("{who}is what {looped} reads from"));
            }
        }
    }
}

fn name_of(place: &Path) -> String {
    place.file_name().map(|name| shown_bytes(name.as_encoded_bytes())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::{Fault, Fixture};

    /// Two disks: sda with two partitions, sdb with none.
    const DISKS: &str = "sys/dev/block/8:0 -> ../../devices/pci/ata1/host0/block/sda\n\
        sys/dev/block/8:1 -> ../../devices/pci/ata1/host0/block/sda/sda1\n\
        sys/dev/block/8:16 -> ../../devices/pci/ata2/host1/block/sdb\n\
        sys/devices/pci/ata1/host0/block/sda/dev = 8:0\n\
        sys/devices/pci/ata1/host0/block/sda/holders/\n\
        sys/devices/pci/ata1/host0/block/sda/sda1/dev = 8:1\n\
        sys/devices/pci/ata1/host0/block/sda/sda1/partition = 1\n\
        sys/devices/pci/ata1/host0/block/sda/sda1/holders/\n\
        sys/devices/pci/ata2/host1/block/sdb/dev = 8:16\n\
        sys/devices/pci/ata2/host1/block/sdb/ro = 0\n\
        sys/devices/pci/ata2/host1/block/sdb/device/serial = WD-1234  \n\
        sys/devices/pci/ata2/host1/block/sdb/holders/\n\
        sys/block/loop7/loop/backing_file = /var/file\n\
        proc/swaps = Filename Type Size Used Priority\n";
    const NO_MOUNTS: &str = "proc/self/mountinfo = 1 0 0:2 / / rw - tmpfs none rw\n";
    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 16 };
    const PARTED: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const PARTITION: DeviceNumber = DeviceNumber { major: 8, minor: 1 };

    fn told(more: &str, number: DeviceNumber) -> Result<String, Fault> {
        let fixture = Fixture::unpack(&format!("{DISKS}{more}"))?;
        Ok(users(&fixture.root, number).join("; "))
    }

    #[test]
    fn a_lone_disk_has_no_user_and_its_serial_is_read() -> Result<(), Fault> {
        assert_eq!(told(NO_MOUNTS, DISK)?, "");
        let fixture = Fixture::unpack(DISKS)?;
        assert_eq!(serial(&fixture.root, DISK).as_deref(), Some("WD-1234"));
        assert_eq!(serial(&fixture.root, PARTED), None);
        assert!(!is_read_only(&fixture.root, DISK));
        Ok(())
    }

    #[test]
    fn each_kind_of_user_is_named() -> Result<(), Fault> {
        let sdb = "sys/devices/pci/ata2/host1/block/sdb";
        let cases = [
            ("proc/self/mountinfo = 5 1 8:16 / /mnt rw - ext4 /dev/sdb rw\n".to_owned(), "mounted on /mnt"),
            (
                "proc/self/mountinfo = 5 1 0:44 / /pool rw - btrfs /dev/sdb rw\n".to_owned(),
                "mounted on /pool",
            ),
            (format!("{NO_MOUNTS}sys/fs/btrfs/1234/devices/sdb = x\n"), "mounted btrfs 1234"),
            (
                format!("{NO_MOUNTS}{sdb}/holders/dm-0 = x\nsys/class/block/dm-0/dm/name = vg-root\n"),
                "part of dm-0 (vg-root)",
            ),
            (
                format!("{NO_MOUNTS}{sdb}/holders/md0 = x\nsys/class/block/md0/md/level = raid1\n"),
                "md0 (raid1)",
            ),
            (format!("{NO_MOUNTS}proc/swaps = /dev/sdb partition 1 0 -2\n"), "in use as swap"),
            (format!("{NO_MOUNTS}sys/block/loop3/loop/backing_file = /dev/sdb\n"), "what loop3 reads from"),
        ];
        for (tree, expected) in cases {
            let said = told(&tree, DISK)?;
            assert!(said.contains(expected), "{expected}: {said}");
        }
        Ok(())
    }

    #[test]
    fn a_disk_answers_for_its_partitions_and_a_partition_for_its_disk() -> Result<(), Fault> {
        let mounted = "proc/self/mountinfo = 5 1 8:1 / /home rw - ext4 /dev/sda1 rw\n";
        let whole = told(mounted, PARTED)?;
        assert!(
            whole.contains("has partitions: sda1") && whole.contains("(sda1) is mounted on /home"),
            "{whole}"
        );
        let held = format!("{NO_MOUNTS}sys/devices/pci/ata1/host0/block/sda/holders/dm-1 = x\n");
        assert_eq!(told(&held, PARTITION)?, "(sda) is part of dm-1");
        assert_eq!(told(NO_MOUNTS, PARTITION)?, "");
        Ok(())
    }

    #[test]
    fn what_cannot_be_read_is_no_consent() -> Result<(), Fault> {
        assert!(told("", DISK)?.contains("mounts that cannot be told"));
        let empty = Fixture::unpack("proc/swaps = x\n")?;
        assert!(users(&empty.root, DISK)[0].contains("not described by sysfs"));
        Ok(())
    }
}
