//! SMART log page of NVMe drives (NVM Express Base Specification, Get Log Page, identifier 02h),
//! readable by root only; `smart/nvmeN` in a saved tree.

use crate::disk::numbered;
use crate::root::Root;
use plimsoll_metal::nvme::{SMART_BYTES, smart_log};
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

const CONTROLLERS: &str = "sys/class/nvme";
const SAVED: &str = "smart";
const MAX_DRIVES: usize = 256;
const DENIED: &str = "wear and media errors of NVMe drives (SMART log page)";

/// SMART data of an NVMe drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// The kernel's name of the controller: `nvme0`.
    pub name: String,
    /// Contents of the log page.
    #[serde(flatten)]
    pub smart: Smart,
}

/// The used values of the log page. Counts that do not fit are the largest number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smart {
    /// Critical bits: 0 spare below threshold, 1 temperature, 2 reliability degraded, 3 read-only,
    /// 4 backup of volatile memory failed, 5 persistent memory region unreliable.
    pub critical_warning: u8,
    /// Composite temperature in K, if reported.
    pub kelvin: Option<u16>,
    /// Spare blocks left, in % of the original number.
    pub spare_percent: u8,
    /// Spare threshold of the warning, in %.
    pub spare_threshold_percent: u8,
    /// Wear in % of the rated endurance; may exceed 100, at most 255.
    pub used_percent: u8,
    /// Bytes read, in multiples of 512,000.
    pub read_bytes: u64,
    /// Bytes written, in multiples of 512,000.
    pub written_bytes: u64,
    /// Hours with power on.
    pub power_on_hours: u64,
    /// Power losses without warning.
    pub unsafe_shutdowns: u64,
    /// Detected losses of data that could not be recovered.
    pub media_errors: u64,
}

impl Smart {
    /// Parses a SMART log page; `None` if it is too short or all zero, which no drive writes.
    pub fn parse(page: &[u8]) -> Option<Self> {
        let page: &[u8; SMART_BYTES] = page.get(..SMART_BYTES)?.try_into().ok()?;
        if page.iter().all(|byte| *byte == 0) {
            return None;
        }
        let count = |at: usize| {
            let bytes: [u8; 16] = page[at..at + 16].try_into().unwrap_or_default();
            u64::try_from(u128::from_le_bytes(bytes)).unwrap_or(u64::MAX)
        };
        // A data unit is a thousand blocks of 512 bytes.
        let bytes = |at: usize| count(at).saturating_mul(512_000);
        Some(Self {
            critical_warning: page[0],
            kelvin: Some(u16::from_le_bytes([page[1], page[2]])).filter(|kelvin| *kelvin > 0),
            spare_percent: page[3],
            spare_threshold_percent: page[4],
            used_percent: page[5],
            read_bytes: bytes(32),
            written_bytes: bytes(48),
            power_on_hours: count(128),
            unsafe_shutdowns: count(144),
            media_errors: count(160),
        })
    }
}

/// Returns the SMART data of all NVMe drives and, if this user may not read some, its description.
pub(super) fn drives(root: &Root) -> (Vec<Drive>, Option<&'static str>) {
    let mut denied = None;
    let mut found = Vec::new();
    for (name, place) in controllers(root) {
        match page(root, &place) {
            Ok(page) => {
                let smart = Smart::parse(&page);
                found.extend(smart.map(|smart| Drive { name: shown_within(&name, 16), smart }));
            }
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => denied = Some(DENIED),
            Err(_) => {}
        }
    }
    (found, denied)
}

/// Returns (name, log page path) of local NVMe controllers that respond: (`nvme0`, `/dev/nvme0`).
fn controllers(root: &Root) -> Vec<(String, PathBuf)> {
    let names = root.names(if root.is_live() { CONTROLLERS } else { SAVED }).unwrap_or_default();
    let names = names.into_iter().filter(|name| numbered(name, "nvme") && is_here(root, name));
    let dir = Path::new(if root.is_live() { "/dev" } else { SAVED });
    names.take(MAX_DRIVES).map(|name| (name.clone(), dir.join(name))).collect()
}

/// Returns whether an NVMe controller is attached to this machine (`transport`) and live (`state`,
/// drivers/nvme/host/sysfs.c), or unknown: a resetting or dead controller would block.
fn is_here(root: &Root, name: &str) -> bool {
    let line = |file: &str| root.line(Path::new(CONTROLLERS).join(name).join(file));
    let transport = line("transport").unwrap_or_default();
    let is_local = !["tcp", "rdma", "fc", "loop"].contains(&transport.as_str());
    is_local && line("state").map_or(true, |state| state == "live")
}

fn page(root: &Root, place: &Path) -> std::io::Result<Vec<u8>> {
    if root.is_live() {
        // The name suffices: /dev belongs to the system, and other devices reject the request.
        return smart_log(File::open(place)?).map(Vec::from);
    }
    root.bytes(place, SMART_BYTES as u64).map_err(std::io::Error::other)
}

/// Reads the SMART log pages that this user may read, each with its path in a saved tree.
pub(crate) fn pages(root: &Root) -> Vec<(PathBuf, Vec<u8>)> {
    let all = controllers(root).into_iter();
    all.filter_map(|(name, place)| Some((Path::new(SAVED).join(name), page(root, &place).ok()?))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a log page of an NVMe drive with these values.
    pub(in super::super) fn made(warning: u8, kelvin: u16, used: u8, errors: u64) -> Vec<u8> {
        let mut page = vec![0; SMART_BYTES];
        page[0] = warning;
        page[1..3].copy_from_slice(&kelvin.to_le_bytes());
        page[3..6].copy_from_slice(&[100, 10, used]);
        page[48..56].copy_from_slice(&2_000_u64.to_le_bytes());
        page[128..136].copy_from_slice(&8760_u64.to_le_bytes());
        page[160..168].copy_from_slice(&errors.to_le_bytes());
        page
    }

    #[test]
    fn a_page_is_read_by_the_places_of_the_specification() {
        let smart = Smart::parse(&made(0b100, 311, 7, 3)).unwrap();
        assert_eq!((smart.critical_warning, smart.kelvin, smart.used_percent), (4, Some(311), 7));
        assert_eq!((smart.spare_percent, smart.spare_threshold_percent), (100, 10));
        assert_eq!((smart.media_errors, smart.power_on_hours), (3, 8760));
        assert_eq!((smart.read_bytes, smart.written_bytes), (0, 1_024_000_000));
        let mut large = made(0, 0, 0, u64::MAX);
        large[168] = 1;
        large[32..48].fill(0xff);
        let smart = Smart::parse(&large).unwrap();
        assert_eq!((smart.media_errors, smart.read_bytes, smart.kelvin), (u64::MAX, u64::MAX, None));
        assert_eq!(Smart::parse(&[0; SMART_BYTES]), None);
        assert_eq!(Smart::parse(&large[..SMART_BYTES - 1]), None);
    }

    #[test]
    fn a_drive_behind_a_network_or_that_is_reset_is_not_asked() {
        let tree = crate::fixture::Fixture::unpack(
            "sys/class/nvme/nvme0/transport = pcie\nsys/class/nvme/nvme1/transport = tcp\nsmart/nvme3 = x\n\
             smart/nvme0 = x\nsmart/nvme1 = x\nsys/class/nvme/nvme2/transport = apple-nvme\nsmart/nvme2 = x\n\
             sys/class/nvme/nvme0/state = live\nsys/class/nvme/nvme4/state = resetting\nsmart/nvme4 = x\n",
        );
        let found = controllers(&tree.unwrap().root).into_iter().map(|(name, _)| name);
        assert_eq!(found.collect::<Vec<_>>(), ["nvme0", "nvme2", "nvme3"]);
    }

    proptest! {
        #[test]
        fn no_page_is_too_strange(page in prop::collection::vec(any::<u8>(), 0..600)) {
            let smart = Smart::parse(&page);
            prop_assert!(page.len() >= SMART_BYTES || smart.is_none());
            if let Some(smart) = smart {
                let json = serde_json::to_string(&smart).unwrap();
                prop_assert_eq!(serde_json::from_str::<Smart>(&json).unwrap(), smart);
            }
        }
    }
}
