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
fn a_gpu_saves_power_and_so_does_a_switch_on_its_card() {
    let link = found(&tree("0x030200", ["2.5", "16", "32.0", "16"], ["32.0", "16"]));
    assert!(link[0].saves_power && link[0].is_slow());
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
    let second =
        slow.replace("0000:41:00.0", "0000:41:00.1").replace(&format!("{above}/max"), &format!("{above}/x"));
    assert_eq!(found(&(slow + &second)).len(), 1);
}
