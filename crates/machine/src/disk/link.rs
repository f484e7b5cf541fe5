//! Links of devices: PCI Express, SATA, SAS or USB, at the negotiated speed.

use super::DiskKind;
use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A link at its current speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum DeviceLink {
    /// PCI Express: the slowest link between the device and the root.
    Pcie {
        /// Transfers per second per lane (one raw bit each).
        transfers_per_s: u64,
        /// Lanes in use.
        lanes: u32,
        /// Highest rate of the device in transfers per second per lane.
        max_transfers_per_s: Option<u64>,
        /// Lanes of the device.
        max_lanes: Option<u32>,
    },
    /// Serial ATA.
    Sata {
        /// Line rate in bit/s.
        line_bit_per_s: u64,
    },
    /// Serial-attached SCSI: the port nearest to the disk.
    Sas {
        /// Line rate of the slowest phy in bit/s.
        line_bit_per_s: u64,
        /// Number of phys of the port.
        lanes: u32,
    },
    /// USB.
    Usb {
        /// Line rate in bit/s.
        line_bit_per_s: u64,
    },
}

impl DeviceLink {
    /// Returns the rate in bit/s, per direction, after line coding and before packet headers: an
    /// upper limit of transfers. PCI Express Base Specification 6.0 §4.2: 8b/10b at 2.5 and 5 GT/s,
    /// 128b/130b to 32 GT/s, 236 of 256 bytes of a flit at 64 GT/s. Serial ATA 3.5 §7: 8b/10b. SAS
    /// (SPL-5 §5): 8b/10b up to 12 Gbit/s, 128b/150b at 22.5. USB 3.2: 8b/10b at 5 Gbit/s,
    /// 128b/132b above.
    pub fn coded_bit_per_s(&self) -> f64 {
        match *self {
            Self::Pcie { transfers_per_s, lanes, .. } => {
                let coding = match transfers_per_s {
                    0..=5_000_000_000 => 8.0 / 10.0,
                    5_000_000_001..=32_000_000_000 => 128.0 / 130.0,
                    _ => 236.0 / 256.0,
                };
                transfers_per_s as f64 * f64::from(lanes) * coding
            }
            Self::Sata { line_bit_per_s } => line_bit_per_s as f64 * 0.8,
            Self::Sas { line_bit_per_s, lanes } => {
                let coding = if line_bit_per_s > 12_000_000_000 { 128.0 / 150.0 } else { 0.8 };
                line_bit_per_s as f64 * f64::from(lanes) * coding
            }
            Self::Usb { line_bit_per_s } => match line_bit_per_s {
                0..5_000_000_000 => line_bit_per_s as f64,
                5_000_000_000..10_000_000_000 => line_bit_per_s as f64 * 0.8,
                _ => line_bit_per_s as f64 * 128.0 / 132.0,
            },
        }
    }

    /// Returns whether both directions have the full rate at once; SATA and USB before 3.0 do not.
    pub fn is_duplex(&self) -> bool {
        match *self {
            Self::Pcie { .. } | Self::Sas { .. } => true,
            Self::Sata { .. } => false,
            Self::Usb { line_bit_per_s } => line_bit_per_s >= 5_000_000_000,
        }
    }

    /// Reads the PCIe, SATA, USB or SAS link of the disk at `place` in sysfs; `None` if unknown.
    pub(super) fn of(root: &Root, kind: DiskKind, place: &Path) -> Option<Self> {
        match kind {
            DiskKind::Nvme => pcie(root, &nvme_controller(root, place)),
            DiskKind::Sata => sata(root, place),
            DiskKind::Usb => usb(root, place),
            DiskKind::Scsi => sas(root, place),
            _ => None,
        }
    }
}

/// Returns the sysfs directory of the NVMe controller that the parent of the disk `place` links to,
/// if the disk is below `/sys/devices/virtual` (a subsystem); else `place`.
fn nvme_controller(root: &Root, place: &Path) -> PathBuf {
    let Some(subsystem) = place.parent() else { return place.into() };
    let controllers = root.names(subsystem).unwrap_or_default();
    let is_controller = |name: &&String| super::numbered(name, "nvme");
    let virtual_place = place.starts_with("/sys/devices/virtual");
    let real =
        controllers.iter().filter(is_controller).find_map(|name| root.resolve(subsystem.join(name)).ok());
    real.filter(|_| virtual_place).unwrap_or_else(|| place.into())
}

/// Returns the slowest PCI Express link from the sysfs directory `place` up to the root, if any.
pub(crate) fn pcie(root: &Root, place: &Path) -> Option<DeviceLink> {
    let mut slowest: Option<DeviceLink> = None;
    let mut own: (Option<u64>, Option<u32>) = (None, None);
    for dir in place.ancestors() {
        let speed = |name: &str| root.text(dir.join(name)).ok().as_deref().and_then(transfers_per_s);
        let width =
            |name: &str| root.parse::<u32>(dir.join(name), "a width").ok().filter(|n| (1..=32).contains(n));
        let (Some(transfers_per_s), Some(lanes)) = (speed("current_link_speed"), width("current_link_width"))
        else {
            continue;
        };
        if slowest.is_none() {
            own = (speed("max_link_speed"), width("max_link_width"));
        }
        // A Thunderbolt or USB4 tunnel always reports 2.5 GT/s (linux-pci, November 2023).
        let is_slowest = transfers_per_s == 2_500_000_000 && speed("max_link_speed") == Some(transfers_per_s);
        if is_slowest
            && let Some(DeviceLink::Pcie { transfers_per_s: below, .. }) = slowest
            && below > transfers_per_s
        {
            continue;
        }
        let (max_transfers_per_s, max_lanes) = own;
        let link = DeviceLink::Pcie { transfers_per_s, lanes, max_transfers_per_s, max_lanes };
        if slowest.as_ref().is_none_or(|s| link.coded_bit_per_s() < s.coded_bit_per_s()) {
            slowest = Some(link);
        }
    }
    slowest
}

/// Parses `8.0 GT/s PCIe` or (older kernels) `8 GT/s` to transfers per second; else `None`.
pub(crate) fn transfers_per_s(text: &str) -> Option<u64> {
    known_rate(text.split_once(" GT/s")?.0, "", &[2.5, 5.0, 8.0, 16.0, 32.0, 64.0])
}

/// Parses a rate in Gbit/s followed by `unit`, such as `6.0 Gbps`, to bit/s; `None` if the rate is
/// not in `known` (in Gbit/s).
fn known_rate(text: &str, unit: &str, known: &[f64]) -> Option<u64> {
    let gbit: f64 = text.strip_suffix(unit)?.parse().ok()?;
    known.contains(&gbit).then_some((gbit * 1e9) as u64)
}

fn sata(root: &Root, place: &Path) -> Option<DeviceLink> {
    let name = |dir: &'_ Path| dir.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let is_port = |dir: &&Path| name(dir).is_some_and(|name| super::numbered(&name, "ata"));
    let port = place.ancestors().find(is_port)?;
    let link = format!("link{}", name(port)?.strip_prefix("ata")?);
    let text = root.text(port.join(&link).join("ata_link").join(&link).join("sata_spd")).ok()?;
    Some(DeviceLink::Sata { line_bit_per_s: known_rate(&text, " Gbps", &[1.5, 3.0, 6.0])? })
}

fn sas(root: &Root, place: &Path) -> Option<DeviceLink> {
    let port = place.ancestors().find(|dir| {
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("port-"))
    })?;
    let names = root.names(port).ok()?;
    let rate = |phy: &String| {
        let text = root.text(port.join(phy).join("sas_phy").join(phy).join("negotiated_linkrate")).ok()?;
        known_rate(&text, " Gbit", &[1.5, 3.0, 6.0, 12.0, 22.5])
    };
    let phys = names.iter().filter(|name| name.starts_with("phy-"));
    let rates: Vec<u64> = phys.map(rate).collect::<Option<_>>()?;
    let lanes = u32::try_from(rates.len()).ok().filter(|lanes| *lanes <= 128)?;
    Some(DeviceLink::Sas { line_bit_per_s: rates.iter().copied().min()?, lanes })
}

fn usb(root: &Root, place: &Path) -> Option<DeviceLink> {
    let mbit = place.ancestors().find_map(|dir| root.number(dir.join("speed")).ok())?;
    (1..=80_000).contains(&mbit).then(|| DeviceLink::Usb { line_bit_per_s: mbit * 1_000_000 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(transfers_per_s: u64, lanes: u32) -> DeviceLink {
        DeviceLink::Pcie { transfers_per_s, lanes, max_transfers_per_s: None, max_lanes: None }
    }

    #[test]
    fn line_coding_is_taken_off() {
        assert_eq!(link(5_000_000_000, 1).coded_bit_per_s(), 4e9);
        assert!((link(8_000_000_000, 4).coded_bit_per_s() / 1e9 - 31.508).abs() < 0.001);
        assert!((link(16_000_000_000, 4).coded_bit_per_s() / 1e9 - 63.015).abs() < 0.001);
        assert_eq!(DeviceLink::Sata { line_bit_per_s: 6_000_000_000 }.coded_bit_per_s(), 4.8e9);
        assert_eq!(DeviceLink::Usb { line_bit_per_s: 480_000_000 }.coded_bit_per_s(), 480e6);
    }

    #[test]
    fn a_sas_port_counts_its_phys_at_the_slowest_rate() {
        let port = "sys/devices/pci0000:00/0000:00:02.0/host0/port-0:3";
        let phy =
            |n: u32, rate: &str| format!("{port}/phy-0:{n}/sas_phy/phy-0:{n}/negotiated_linkrate = {rate}\n");
        let disk = format!("{port}/end_device-0:3/target0:0:3/0:0:3:0/block/sdd");
        let link = |tree: &str| {
            let fixture = crate::fixture::Fixture::unpack(tree).unwrap();
            DeviceLink::of(&fixture.root, DiskKind::Scsi, &Path::new("/").join(&disk))
        };
        let wide = link(&(phy(0, "12.0 Gbit") + &phy(1, "6.0 Gbit")));
        assert_eq!(wide, Some(DeviceLink::Sas { line_bit_per_s: 6_000_000_000, lanes: 2 }));
        assert_eq!(wide.map(|link| link.coded_bit_per_s()), Some(9.6e9));
        assert_eq!(link(&(phy(0, "12.0 Gbit") + &phy(1, "Unknown"))), None);
        assert_eq!(link(&format!("{port}/device = x\n")), None);
        let fast = DeviceLink::Sas { line_bit_per_s: 22_500_000_000, lanes: 1 };
        assert_eq!((fast.coded_bit_per_s(), fast.is_duplex()), (19.2e9, true));
    }

    #[test]
    fn a_tunnel_through_thunderbolt_is_no_slow_link() {
        let root = "sys/devices/pci0000:00/0000:00:07.0";
        let bridge = |place: &str, speed: &str, most: &str| {
            format!(
                "{place}/current_link_speed = {speed} GT/s PCIe\n{place}/max_link_speed = {most} GT/s PCIe\n\
                 {place}/current_link_width = 4\n{place}/max_link_width = 4\n"
            )
        };
        let drive = format!("{root}/0000:03:00.0/0000:05:00.0");
        let at = |tunnel: (&str, &str), own: &str| {
            let tree = bridge(root, tunnel.0, tunnel.1)
                + &bridge(&format!("{root}/0000:03:00.0"), "8.0", "8.0")
                + &bridge(&drive, own, "8.0");
            let fixture = crate::fixture::Fixture::unpack(&tree).unwrap();
            pcie(&fixture.root, &Path::new("/").join(&drive)).and_then(|link| match link {
                DeviceLink::Pcie { transfers_per_s, .. } => Some(transfers_per_s),
                _ => None,
            })
        };
        assert_eq!(at(("2.5", "2.5"), "8.0"), Some(8_000_000_000));
        assert_eq!(at(("2.5", "8.0"), "8.0"), Some(2_500_000_000));
        assert_eq!(at(("2.5", "2.5"), "2.5"), Some(2_500_000_000));
    }

    #[test]
    fn speeds_of_old_and_new_kernels_are_read() {
        let known = ["8.0 GT/s PCIe", "2.5 GT/s"].map(transfers_per_s);
        assert_eq!(known, [8_000_000_000, 2_500_000_000].map(Some));
        assert_eq!(["Unknown", "Unknown speed", "999 GT/s"].map(transfers_per_s), [None; 3]);
    }
}
