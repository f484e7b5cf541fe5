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
pub(super) mod tests;
