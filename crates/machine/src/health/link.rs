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
pub(super) mod tests {
    use super::*;
    use crate::fixture::Fixture;

    pub(in super::super) fn tree(class: &str, device: [&str; 4], port: [&str; 2]) -> String {
        let above = "sys/devices/pci0000:40/0000:40:01.1";
        let own = format!("{above}/0000:41:00.0");
        let [now, lanes, max, max_lanes] = device;
        format!(
            "sys/bus/pci/devices/0000:41:00.0 -> ../../../../{own}\n{own}/class = {class}\n\
             {own}/current_link_speed = {now} GT/s PCIe\n{own}/current_link_width = {lanes}\n\
             {own}/max_link_speed = {max} GT/s PCIe\n{own}/max_link_width = {max_lanes}\n\
             {above}/max_link_speed = {} GT/s PCIe\n{above}/max_link_width = {}\n",
            port[0], port[1]
        )
    }

    fn found(tree: &str) -> Vec<PcieLink> {
        slower(&Fixture::unpack(tree).unwrap().root)
    }

    const NVME: &str = "0x010802";

    #[test]
    fn a_link_is_held_to_what_both_ends_can_do() {
        let fine = tree(NVME, ["16.0", "4", "16.0", "4"], ["16.0", "16"]);
        assert!(found(&fine).is_empty());
        let old_slot = tree(NVME, ["8.0", "2", "32.0", "4"], ["8.0", "2"]);
        assert!(found(&old_slot).is_empty());
        let narrow = found(&tree(NVME, ["16.0", "2", "16.0", "4"], ["16.0", "4"]));
        assert_eq!(narrow.len(), 1);
        assert!(narrow[0].is_narrow() && !narrow[0].is_slow() && !narrow[0].saves_power);
        assert_eq!((narrow[0].what.as_str(), narrow[0].possible.lanes), ("NVMe drive", 4));
        let slow = found(&tree(NVME, ["2.5", "4", "16.0", "4"], ["8.0", "4"]));
        assert_eq!(slow[0].possible, LinkPace { transfers_per_s: 8_000_000_000, lanes: 4 });
        assert!(slow[0].is_slow() && !slow[0].is_narrow());
    }

    #[test]
    fn a_gpu_saves_power() {
        let link = found(&tree("0x030200", ["2.5", "16", "32.0", "16"], ["32.0", "16"]));
        assert!(link[0].saves_power && link[0].is_slow());
    }

    #[test]
    fn a_switch_on_the_card_of_a_gpu_saves_power_too() {
        let switch = tree("0x060400", ["2.5", "16", "16.0", "16"], ["16.0", "16"]);
        assert!(!found(&switch)[0].saves_power);
        let own = "sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0";
        let card = format!(
            "{switch}{own}/0000:42:00.0/class = 0x060400\n{own}/0000:42:00.0/0000:43:00.0/class = 0x030000\n"
        );
        let link = found(&card);
        assert_eq!((link.len(), link[0].what.as_str(), link[0].saves_power), (1, "bridge", true));
    }

    #[test]
    fn nothing_is_said_of_links_that_are_not_real_or_not_known() {
        let slow = tree(NVME, ["2.5", "1", "16.0", "4"], ["8.0", "4"]);
        let guest = slow.clone() + "proc/cpuinfo = flags\\t\\t: fpu hypervisor\n";
        assert!(found(&guest).is_empty());
        let emulated = slow.clone() + "sys/devices/pci0000:40/0000:40:01.1/vendor = 0x1b36\n";
        assert!(found(&emulated).is_empty());
        let unknown: String =
            slow.lines().filter(|l| !l.contains("01.1/max_link")).map(|l| format!("{l}\n")).collect();
        assert!(found(&unknown).is_empty());
        assert!(found(&tree(NVME, ["Unknown", "0", "16.0", "4"], ["8.0", "4"])).is_empty());
        assert_eq!(found(&slow).len(), 1);
    }

    #[test]
    fn links_of_a_switch_are_between_its_ports() {
        let down = |path: &str| faces_down(Path::new(path));
        assert!(!down("/sys/devices/pci0000:40"));
        assert!(down("/sys/devices/pci0000:40/0000:40:01.1"));
        assert!(!down("/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0"));
        assert!(down("/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:02.0"));
    }

    #[test]
    fn the_second_function_of_a_device_is_not_told_again() {
        let above = "sys/devices/pci0000:40/0000:40:01.1";
        let slow = tree("0x020000", ["2.5", "4", "16.0", "4"], ["16.0", "4"]);
        let second = slow
            .replace("0000:41:00.0", "0000:41:00.1")
            .replace(&format!("{above}/max"), &format!("{above}/x"));
        assert_eq!(found(&(slow + &second)).len(), 1);
    }
}
