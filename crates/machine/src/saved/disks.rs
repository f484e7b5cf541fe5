use std::path::{Path, PathBuf};

use super::SavedContent;
use super::rename::NumberedNames;
use crate::Machine;
use crate::disk::numbered;
use crate::root::Root;

const OF_DEVICE: &str = "dev device/model device/name device/vendor md/level partition \
     queue/logical_block_size queue/max_sectors_kb queue/nr_requests queue/physical_block_size \
     queue/rotational queue/scheduler queue/write_cache ro size";
const ABOVE: &str = "current_link_speed current_link_width max_link_speed max_link_width numa_node speed";
const MOST_PARTS: usize = 256;

pub(super) fn add(root: &Root, machine: &Machine, names: &mut NumberedNames, content: &mut SavedContent) {
    for disk in &machine.disks {
        let listed = Path::new("sys/block").join(&disk.name);
        let Ok(place) = root.resolve(&listed) else { continue };
        let to = device(root, &place, names, content);
        content.link(Path::new("sys/block").join(names.device(&disk.name)), to);
        for part in root.names(&place).unwrap_or_default().into_iter().take(MOST_PARTS) {
            let part = place.join(part);
            if root.exists(part.join("partition")) {
                device(root, &part, names, content);
            }
        }
        above(root, &place, names, content);
        paths(root, &place, names, content);
    }
    btrfs(root, names, content);
}

fn btrfs(root: &Root, names: &mut NumberedNames, content: &mut SavedContent) {
    const SYSTEMS: &str = "sys/fs/btrfs";
    for system in root.names(SYSTEMS).unwrap_or_default().into_iter().take(MOST_PARTS) {
        let devices = Path::new(SYSTEMS).join(&system).join("devices");
        let to = Path::new(SYSTEMS).join(names.path(Path::new(&system))).join("devices");
        for device in root.names(&devices).unwrap_or_default().into_iter().take(MOST_PARTS) {
            if let Ok(place) = root.resolve(Path::new("sys/class/block").join(&device)) {
                content.link(to.join(names.device(&device)), names.sysfs_path(&place));
            }
        }
    }
}

/// Adds the device or partition with sysfs directory `place`; returns its path in `content`.
fn device(root: &Root, place: &Path, names: &mut NumberedNames, content: &mut SavedContent) -> PathBuf {
    let to = names.sysfs_path(place);
    for file in OF_DEVICE.split(' ') {
        content.copy(root, place.join(file), to.join(file));
    }
    // The type of a mapped device; the rest identifies the volume.
    if let Ok(uuid) = root.line(place.join("dm/uuid")) {
        let kind = uuid.split('-').next().unwrap_or_default();
        content.file(to.join("dm/uuid"), format!("{kind}-\n").into_bytes());
    }
    for member in root.names(place.join("slaves")).unwrap_or_default().into_iter().take(MOST_PARTS) {
        if let Ok(below) = root.resolve(place.join("slaves").join(&member)) {
            let below = names.sysfs_path(&below);
            content.link(to.join("slaves").join(names.device(&member)), below);
        }
    }
    if let Some(name) = to.file_name() {
        content.link(Path::new("sys/class/block").join(name), to.clone());
    }
    if let Ok(number) = root.parse::<crate::mounts::DeviceNumber>(place.join("dev"), "a device number") {
        content.link(Path::new("sys/dev/block").join(number.to_string()), to.clone());
    }
    to
}

fn above(root: &Root, place: &Path, names: &mut NumberedNames, content: &mut SavedContent) {
    for dir in place.ancestors().filter(|dir| dir.starts_with("/sys/devices")) {
        let to = names.sysfs_path(dir);
        for file in ABOVE.split(' ') {
            content.copy(root, dir.join(file), to.join(file));
        }
        let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { continue };
        if let Some(number) = name.strip_prefix("ata") {
            let link = format!("link{number}");
            let speed = Path::new(&link).join("ata_link").join(&link).join("sata_spd");
            content.copy(root, dir.join(&speed), to.join(&speed));
        }
        if name.starts_with("port-") {
            for phy in root.names(dir).unwrap_or_default().iter().filter(|name| name.starts_with("phy-")) {
                let rate = Path::new(phy).join("sas_phy").join(phy).join("negotiated_linkrate");
                content.copy(root, dir.join(&rate), to.join(&rate));
            }
        }
    }
}

/// Adds to `content` the controllers of the NVMe disk at `place`, if below a virtual subsystem.
fn paths(root: &Root, place: &Path, names: &mut NumberedNames, content: &mut SavedContent) {
    let Some(subsystem) = place.parent().filter(|_| place.starts_with("/sys/devices/virtual/nvme-subsystem"))
    else {
        return;
    };
    for name in root.names(subsystem).unwrap_or_default().into_iter().take(MOST_PARTS) {
        if let (true, Ok(controller)) = (numbered(&name, "nvme"), root.resolve(subsystem.join(&name))) {
            above(root, &controller, names, content);
            let to = names.sysfs_path(&controller);
            content.copy(root, controller.join("model"), to.join("model"));
            content.link(names.sysfs_path(subsystem).join(name), to);
        }
    }
}
