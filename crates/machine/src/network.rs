//! Network interfaces, from `/sys/class/net` (Linux `Documentation/ABI/testing/sysfs-class-net`).

use super::Survey;
use super::disk::{DeviceLink, link};
use super::root::Root;
use serde::{Deserialize, Serialize};
use std::path::Path;

const NET: &str = "sys/class/net";
/// Most interfaces that are read: container hosts have thousands of virtual ones.
const MAX_NICS: usize = 1024;
/// Unknown `speed`: -1 as a `u32`, which some kernels write unsigned.
const SPEED_UNKNOWN: i64 = u32::MAX as i64;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    /// The kernel's name.
    pub name: String,
    /// Line rate in bit/s.
    pub speed_bit_per_s: Option<u64>,
    /// Largest packet in bytes.
    pub mtu_bytes: Option<u64>,
    /// `up`, `down`, `unknown` (interfaces that are always up) … as in RFC 2863.
    pub state: Option<String>,
    /// Driver of the device.
    pub driver: Option<String>,
    /// Kind of interface.
    pub kind: NicKind,
    /// Hardware address.
    pub mac: Option<String>,
    /// NUMA node of the device.
    pub numa_node: Option<usize>,
    /// PCI Express link of the device.
    pub link: Option<DeviceLink>,
}

/// Kind of a network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NicKind {
    /// Loopback of the machine itself.
    Loopback,
    /// Hardware, as far as this machine can see.
    Physical,
    /// Device provided by a hypervisor.
    Paravirtual,
    /// Software: bridge, bond, VLAN, veth, tunnel …
    Virtual,
}

pub(super) fn discover(s: &mut Survey) -> Vec<Nic> {
    let names = s.keep("network", s.root.names(NET)).unwrap_or_default();
    // The directory also contains files such as bonding_masters.
    let interfaces = names.iter().filter(|name| s.root.exists(Path::new(NET).join(name).join("mtu")));
    let interfaces: Vec<&String> = interfaces.take(MAX_NICS).collect();
    interfaces.iter().map(|name| Nic::discover(s, name)).collect()
}

impl Nic {
    fn discover(s: &mut Survey, name: &str) -> Self {
        let dir = Path::new(NET).join(name);
        let place = s.root.resolve(&dir).unwrap_or_else(|_| dir.clone());
        let driver = s.root.link_name(dir.join("device/driver")).ok();
        let kind = NicKind::of(s.root, &dir, driver.as_deref());
        let speed = speed(s.root, &dir);
        let state = s.root.line(dir.join("operstate")).ok();
        let what = format!("network.{name}.speed");
        let speed_bit_per_s = match kind {
            NicKind::Loopback | NicKind::Virtual => speed.ok(),
            _ if state.as_deref() == Some("down") => s.keep(&what, speed.map_err(|_| "the link is down")),
            _ => s.keep(&what, speed),
        };
        Self {
            name: plimsoll_units::text::shown_within(name, 32),
            speed_bit_per_s,
            mtu_bytes: s.root.number(dir.join("mtu")).ok(),
            state,
            driver,
            mac: s.root.line(dir.join("address")).ok(),
            numa_node: s.root.parse(dir.join("device/numa_node"), "a node").ok(),
            link: if kind == NicKind::Physical { link::pcie(s.root, &place) } else { None },
            kind,
        }
    }

    /// Returns whether this is hardware or a hypervisor's device, not loopback or pure software.
    pub fn has_line(&self) -> bool {
        matches!(self.kind, NicKind::Physical | NicKind::Paravirtual)
    }

    /// Returns the line rate in bit/s; `None` if unknown or fictitious, as of loopback and emulated
    /// cards. `is_virtual` is whether this machine is a guest, if known.
    pub fn line_rate(&self, is_virtual: Option<bool>) -> Option<u64> {
        const NOMINAL: [&str; 2] = ["vmxnet3", "hv_netvsc"];
        /// Drivers of cards emulated by hypervisors, with the speed of the real card.
        const IMITATED: [&str; 6] = ["e1000", "e1000e", "8139cp", "8139too", "pcnet32", "ne2k-pci"];
        let driver = self.driver.as_deref().unwrap_or_default();
        let is_imitated = is_virtual == Some(true) && IMITATED.contains(&driver);
        let is_made_up = is_imitated || NOMINAL.contains(&driver);
        self.speed_bit_per_s.filter(|_| self.has_line() && !is_made_up)
    }
}

impl NicKind {
    fn of(root: &Root, dir: &Path, driver: Option<&str>) -> Self {
        const LOOPBACK: u64 = 772;
        const PARAVIRTUAL: [&str; 8] =
            ["virtio_net", "vmxnet3", "hv_netvsc", "vif", "ena", "gve", "mana", "xen-netfront"];
        if root.number(dir.join("type")) == Ok(LOOPBACK) {
            return Self::Loopback;
        }
        match driver {
            Some(driver) if PARAVIRTUAL.contains(&driver) => Self::Paravirtual,
            _ if root.exists(dir.join("device")) => Self::Physical,
            _ => Self::Virtual,
        }
    }
}

/// Reads the line rate in bit/s from the interface's sysfs directory `dir` (the kernel writes
/// Mbit/s). Fails if the driver reports none or an impossible rate, or the link is down.
fn speed(root: &Root, dir: &Path) -> Result<u64, String> {
    let mbit: i64 = root.parse(dir.join("speed"), "a speed in Mbit/s").map_err(|e| e.to_string())?;
    match u64::try_from(mbit) {
        Ok(mbit) if (1..=10_000_000).contains(&mbit) => Ok(mbit * 1_000_000),
        _ if mbit == -1 || mbit == 0 || mbit == SPEED_UNKNOWN => {
            Err("the driver does not report the speed".into())
        }
        _ => Err(format!("the driver reports an impossible speed, {mbit} Mbit/s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hypervisor_makes_up_and_software_is_no_line() {
        let of = |kind, driver: &str| Nic { driver: Some(driver.to_owned()), ..crate::fixture::nic(kind) };
        let (real, made) = (NicKind::Physical, NicKind::Paravirtual);
        for is_virtual in [None, Some(false), Some(true)] {
            assert_eq!(of(made, "vmxnet3").line_rate(is_virtual), None);
            assert_eq!(of(real, "mlx5_core").line_rate(is_virtual), Some(10_000_000_000));
            assert_eq!(of(real, "e1000e").line_rate(is_virtual).is_some(), is_virtual != Some(true));
            assert_eq!(of(NicKind::Virtual, "veth").line_rate(is_virtual), None);
        }
        let line = |kind| crate::fixture::nic(kind).has_line();
        assert!(line(NicKind::Physical) && line(NicKind::Paravirtual));
        assert!(!line(NicKind::Virtual) && !line(NicKind::Loopback));
    }
}
