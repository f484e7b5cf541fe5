//! PCI Express links slower or narrower than the lesser maximum of device and port.

use crate::disk::link::transfers_per_s;
use crate::root::Root;
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use std::path::Path;

const PCI_DIRECTORY: &str = "sys/bus/pci/devices";
const MAX_PCI_DEVICES: usize = 8192;
/// Vendors of emulated ports: Red Hat (QEMU) twice, VMware, Parallels, VirtualBox.
const MADE_UP: [&str; 5] = ["0x1b36", "0x1af4", "0x15ad", "0x1ab8", "0x80ee"];

/// Speed and width of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPace {
    /// Transfers per second per lane (one raw bit each).
    pub transfers_per_s: u64,
    /// Number of lanes.
    pub lanes: u32,
}

/// A link below the capability of both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// PCI address of the device, `0000:41:00.0`.
    pub device: String,
    /// Kind of device by its class: `NVMe drive`, `NIC` …
    pub what: String,
    /// Current speed and width.
    pub now: LinkPace,
    /// Lesser of the maxima of the device and the port above it.
    pub possible: LinkPace,
    /// Whether such a device (a GPU) lowers its link speed while idle; it was read while idle.
    pub saves_power: bool,
}

impl PcieLink {
    /// Returns whether fewer lanes are in use than possible, which few devices do to save power.
    pub fn is_narrow(&self) -> bool {
        self.now.lanes < self.possible.lanes
    }

    /// Returns whether the link is slower, per lane, than possible.
    pub fn is_slow(&self) -> bool {
        self.now.transfers_per_s < self.possible.transfers_per_s
    }
}

pub(super) fn slower(root: &Root) -> Vec<PcieLink> {
    let names = root.names(PCI_DIRECTORY).unwrap_or_default();
    if names.is_empty() || is_guest(root) {
        return Vec::new();
    }
    names.iter().take(MAX_PCI_DEVICES).filter_map(|name| of_device(root, name)).collect()
}

fn is_guest(root: &Root) -> bool {
    let head = root.head(Path::new("proc/cpuinfo"), 1 << 16).unwrap_or_default();
    let text = String::from_utf8_lossy(&head);
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

fn of_device(root: &Root, name: &str) -> Option<PcieLink> {
    let place = root.resolve(Path::new(PCI_DIRECTORY).join(name)).ok()?;
    let port = place.parent()?;
    // All functions of a device share its link; a virtual function has none.
    if !is_first(root, &place, port) || root.exists(place.join("physfn")) || !faces_down(port) {
        return None;
    }
    if root.line(port.join("vendor")).is_ok_and(|vendor| MADE_UP.contains(&vendor.as_str())) {
        return None;
    }
    let (now, device, above) =
        (pace(root, &place, "current")?, pace(root, &place, "max")?, pace(root, port, "max")?);
    let possible = LinkPace {
        transfers_per_s: device.transfers_per_s.min(above.transfers_per_s),
        lanes: device.lanes.min(above.lanes),
    };
    let class = root.line(place.join("class")).unwrap_or_default();
    let what = kind(&class);
    let saves_power = saves_power(root, &place, MOST_DEEP);
    let device = shown_within(name, 16);
    let link = PcieLink { device, what: what.to_owned(), now, possible, saves_power };
    (link.is_narrow() || link.is_slow()).then_some(link)
}

fn is_first(root: &Root, place: &Path, port: &Path) -> bool {
    let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((slot, function)) = name.rsplit_once('.') else { return false };
    let lower = function.parse::<u8>().unwrap_or(0);
    !(0..lower).any(|n| root.exists(port.join(format!("{slot}.{n}"))))
}

/// Returns whether a link leads down from this port: a root port, or every second port below.
fn faces_down(port: &Path) -> bool {
    let is_port = |dir: &&Path| dir.file_name().and_then(|name| name.to_str()).is_some_and(is_address);
    let ports = port.ancestors().take_while(is_port).count();
    ports % 2 == 1
}

fn pace(root: &Root, place: &Path, which: &str) -> Option<LinkPace> {
    let speed = root.text(place.join(format!("{which}_link_speed"))).ok()?;
    let lanes = root.parse::<u32>(place.join(format!("{which}_link_width")), "a width").ok()?;
    let transfers_per_s = transfers_per_s(&speed)?;
    // 0 without a link, 255 if the device does not answer.
    (1..=32).contains(&lanes).then_some(LinkPace { transfers_per_s, lanes })
}

const MOST_DEEP: usize = 4;
const GPU: &str = "GPU";
const ACCELERATOR: &str = "accelerator";

/// Returns whether the device with sysfs directory `place` slows its link while idle: a GPU or
/// accelerator, or a bridge with one of these at most `deep` levels below.
fn saves_power(root: &Root, place: &Path, deep: usize) -> bool {
    let class = root.line(place.join("class")).unwrap_or_default();
    match kind(&class) {
        GPU | ACCELERATOR => true,
        "bridge" if deep > 0 => {
            let below = root.names(place).unwrap_or_default();
            let below = below.iter().filter(|name| is_address(name)).take(256);
            below.map(|name| place.join(name)).any(|place| saves_power(root, &place, deep - 1))
        }
        _ => false,
    }
}

/// Returns the kind of a device with this PCI class: `NIC` for `0x020000`, `device` if unknown.
fn kind(class: &str) -> &'static str {
    let (class, rest) = (class.get(2..4), class.get(4..6));
    match (class, rest) {
        (Some("01"), Some("08")) => "NVMe drive",
        (Some("01"), _) => "storage device",
        (Some("02"), _) => "NIC",
        (Some("03"), _) => GPU,
        (Some("06"), _) => "bridge",
        (Some("12"), _) => ACCELERATOR,
        _ => "device",
    }
}

fn is_address(name: &str) -> bool {
    name.matches(':').count() == 2 && name.matches('.').count() == 1 && !name.starts_with("pci")
}

#[cfg(test)]
pub(super) mod tests;
