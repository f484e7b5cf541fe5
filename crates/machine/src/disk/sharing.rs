use std::path::Path;

use crate::root::Root;

/// Returns whether two partitions of a disk (sysfs directories) share a sector; true if unknown.
pub(super) fn partitions_overlap(root: &Root, one: &Path, other: &Path) -> bool {
    let range = |place: &Path| {
        let number = |file: &str| root.number(place.join(file)).ok();
        Some((number("start")?, number("size")?))
    };
    match (range(one), range(other)) {
        (Some((start, size)), Some((other, length))) => {
            start < other.saturating_add(length) && other < start.saturating_add(size)
        }
        _ => true,
    }
}

/// Returns whether devices `one` and `other`, both on the device `below` (sysfs directories), are
/// known to share no data: LVM volumes of one group (not a snapshot and its origin), partitions by
/// kpartx, arrays of one mdadm container.
pub(super) fn are_separate(root: &Root, below: &Path, one: &Path, other: &Path) -> bool {
    if let Some((container, array)) = array(root, one) {
        return match self::array(root, other) {
            Some((another, sibling)) => container == another && array != sibling,
            None => other.file_name().is_some_and(|name| name == container.as_str()),
        };
    }
    let uuid = |place: &Path| root.line(place.join("dm/uuid")).ok();
    let (Some(one), Some(other)) = (uuid(one), uuid(other)) else { return false };
    if let (Some(one), Some(other)) = (group(&one), group(&other)) {
        let below = uuid(below);
        let layer = below.as_deref().and_then(group).is_some();
        let pool = below.is_some_and(|uuid| ["-tpool", "-vpool"].iter().any(|end| uuid.ends_with(end)));
        return one == other && (!layer || pool);
    }
    match (kpartx(&one), kpartx(&other)) {
        (Some((number, of)), Some((another, disk))) => of == disk && number != another,
        _ => false,
    }
}

/// Returns (container, index) of an array managed by mdadm (Documentation/admin-guide/md.rst):
/// `external:/md127/0`, with `-` instead of `/` while read-only. `None` for other arrays.
fn array(root: &Root, place: &Path) -> Option<(String, String)> {
    let version = root.line(place.join("md/metadata_version")).ok()?;
    let (container, array) = version.strip_prefix("external:")?.strip_prefix(['/', '-'])?.split_once('/')?;
    Some((container.to_owned(), array.to_owned()))
}

/// Returns the volume group of an LVM `uuid`, `LVM-<32 of the group><32 of the volume>…` (lvm2).
fn group(uuid: &str) -> Option<&str> {
    uuid.strip_prefix("LVM-")?.get(..32)
}

/// Returns (partition number, disk) in the UUID of a kpartx partition, `part2-mpath-3600…`.
fn kpartx(uuid: &str) -> Option<(u32, &str)> {
    let (part, disk) = uuid.split_once('-')?;
    Some((part.strip_prefix("part")?.parse().ok()?, disk))
}

/// Returns whether the devices below the device at `place` have a signature, such as that of LVM.
pub(super) fn marks_its_members(root: &Root, place: &Path) -> bool {
    const MAPPER_PREFIXES: [&str; 7] = ["LVM-", "CRYPT-", "mpath-", "DMRAID-", "stratis-", "VDO-", "part"];
    const BARE: [&str; 2] = ["CRYPT-PLAIN", "CRYPT-LOOPAES"];
    let begins = |uuid: &str, with: &[&str]| with.iter().any(|with| uuid.starts_with(with));
    match root.line(place.join("dm/uuid")) {
        Ok(uuid) => begins(&uuid, &MAPPER_PREFIXES) && !begins(&uuid, &BARE),
        Err(_) => !root.exists(place.join("dm")),
    }
}
