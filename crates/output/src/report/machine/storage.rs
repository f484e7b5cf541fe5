//! Rows about storage and network.

use plimsoll_machine::disk::{DeviceLink, DiskKind};
use plimsoll_machine::network::NicKind;
use plimsoll_machine::storage::{DeviceLayer, Medium, Storage};
use plimsoll_machine::{Disk, Machine, Nic};

use super::{FactSection, UNKNOWN_VALUE, bits, listed, or_unknown, size};

const LONGEST_VALUE: usize = 16;

pub(super) fn storage(machine: &Machine) -> FactSection {
    let mut section = FactSection::new("storage");
    machine.storage.iter().for_each(|storage| behind(&mut section, storage));
    let shown = machine.storage.iter().flat_map(|storage| &storage.disks);
    let shown: Vec<&str> = shown.map(|disk| disk.name.as_str()).collect();
    for disk in machine.disks.iter().filter(|disk| !disk.kind.is_layer()) {
        let mark = if shown.contains(&disk.name.as_str()) { " (behind the test directory)" } else { "" };
        section.row(&disk.name, one_disk(disk) + mark);
    }
    section
}

/// Adds rows about the test directory: path, file system, layers and disks.
fn behind(section: &mut FactSection, storage: &Storage) {
    section.row("test directory", &storage.path);
    if let Some(fs) = &storage.file_system {
        let medium = match fs.medium {
            _ if fs.is_served() => " (served by a process or the host: what is behind it may be memory)",
            Medium::Stacked => " (on other file systems)",
            Medium::Memory if fs.fs_type == "overlay" => " (its upper directory is in memory)",
            Medium::Device | Medium::Memory | Medium::Network => "",
        };
        let options = listed(fs.options.iter().map(|option| short(option)), ",").unwrap_or_default();
        section
            .row("file system", format!("{}{medium}, mounted on {} ({options})", fs.fs_type, fs.mount_point));
    }
    let layers = storage.layers.iter().map(|DeviceLayer { name, detail, .. }| {
        detail.as_ref().map_or_else(|| name.clone(), |detail| format!("{name} ({detail})"))
    });
    let disks = storage.disks.iter().map(|Disk { name, kind, .. }| match kind {
        DiskKind::Zram | DiskKind::Ram => format!("{name} ({})", kind.word()),
        _ => name.clone(),
    });
    let ends = listed(disks, " + ").unwrap_or_else(|| {
        let of_loop = storage.layers.iter().find_map(|layer| layer.medium);
        let nowhere = match of_loop.or(storage.file_system.as_ref().map(|fs| fs.medium)) {
            Some(Medium::Memory) => "memory",
            Some(Medium::Network) => "another machine",
            _ => UNKNOWN_VALUE,
        };
        nowhere.into()
    });
    let is_named = |device: &str| {
        storage.layers.first().is_some_and(|layer| layer.name == device)
            || storage.disks.iter().any(|disk| disk.name == device)
    };
    let top = match storage.members.as_slice() {
        [] => storage.device.clone().filter(|device| !is_named(device)),
        members if members.iter().all(|member| is_named(&member.name)) => None,
        members => listed(members.iter().map(|member| &member.name), " + "),
    };
    let steps = top.into_iter().chain(layers).chain([ends]);
    section.row("is on", steps.collect::<Vec<_>>().join(" → "));
}

/// Shortens a mount option with a long value, such as an overlay's directories: `lowerdir=…`.
fn short(option: &str) -> String {
    let long = option.split_once('=').filter(|(_, value)| value.len() > LONGEST_VALUE);
    long.map_or_else(|| option.to_owned(), |(name, _)| format!("{name}=…"))
}

fn one_disk(disk: &Disk) -> String {
    let mut parts = vec![disk.kind.word().to_owned()];
    parts.extend(disk.model.clone());
    parts.push(size(disk.size_bytes));
    if let (Some(logical), Some(physical)) = (disk.logical_sector_bytes, disk.physical_sector_bytes) {
        let both = if logical == physical { String::new() } else { format!("/{physical}") };
        parts.push(format!("{logical}{both} B sectors"));
    }
    if disk.rotational == Some(true) {
        // Virtual disks usually claim this by default.
        let claims = matches!(disk.kind, DiskKind::Virtio | DiskKind::Xen);
        parts.push(if claims { "claims to rotate" } else { "rotating" }.to_owned());
    }
    parts.extend(disk.scheduler.as_ref().map(|name| format!("scheduler {name}")));
    parts.extend(disk.write_cache.clone());
    parts.extend(disk.link.as_ref().map(link));
    parts.join(", ")
}

fn link(link: &DeviceLink) -> String {
    let coded = bits(link.coded_bit_per_s());
    match link {
        DeviceLink::Pcie { transfers_per_s, lanes, max_transfers_per_s, max_lanes } => {
            let giga = |rate: u64| rate as f64 / 1e9;
            let best = match (max_transfers_per_s, max_lanes) {
                (Some(rate), Some(width)) if rate > transfers_per_s || width > lanes => {
                    format!("; could do {} GT/s × {width}", giga(*rate))
                }
                _ => String::new(),
            };
            format!("PCIe {} GT/s × {lanes} ({coded}{best})", giga(*transfers_per_s))
        }
        DeviceLink::Sata { line_bit_per_s } => format!("SATA {} ({coded})", bits(*line_bit_per_s as f64)),
        DeviceLink::Sas { line_bit_per_s, lanes } => {
            format!("SAS {} × {lanes} ({coded})", bits(*line_bit_per_s as f64))
        }
        DeviceLink::Usb { line_bit_per_s } => format!("USB {} ({coded})", bits(*line_bit_per_s as f64)),
    }
}

pub(super) fn network(nics: &[Nic]) -> FactSection {
    let mut section = FactSection::new("network");
    nics.iter().for_each(|nic| section.row(&nic.name, one_nic(nic)));
    section
}

fn one_nic(nic: &Nic) -> String {
    let kind = match nic.kind {
        NicKind::Loopback => "loopback (no physical link)",
        NicKind::Physical => "physical",
        NicKind::Paravirtual => "provided by a hypervisor",
        NicKind::Virtual => "virtual",
    };
    let mut parts = vec![kind.to_owned()];
    parts.extend(nic.driver.clone());
    match nic.speed_bit_per_s {
        Some(speed) => parts.push(bits(speed as f64)),
        None if nic.kind == NicKind::Loopback => {}
        None => parts.push(format!("speed {UNKNOWN_VALUE}")),
    }
    parts.push(format!("MTU {}", or_unknown(nic.mtu_bytes.map(|n| n.to_string()))));
    parts.extend(nic.state.clone().filter(|_| nic.kind != NicKind::Loopback));
    parts.extend(nic.link.as_ref().map(link));
    parts.join(", ")
}
