//! Which devices on one device or disk keep apart: partitions by their sectors, volumes by their manager.

use std::path::Path;

use crate::root::Root;

/// Whether two partitions of a disk have a sector in common; also where that is not known.
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

/// Whether a device and another one on the same member keep apart, as their manager promises: logical volumes of one group
/// on its disks or in its thin pool (a snapshot and its origin share more than that), partitions that kpartx made, arrays of
/// one container and the container itself.
pub(super) fn keep_apart(root: &Root, below: &Path, one: &Path, other: &Path) -> bool {
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

/// The container of an array whose metadata are mdadm's business, not the kernel's (Documentation/admin-guide/md.rst), and
/// which array of it this is: `external:/md127/0`, with `-` for `/` while the kernel must not write.
fn array(root: &Root, place: &Path) -> Option<(String, String)> {
    let version = root.line(place.join("md/metadata_version")).ok()?;
    let (container, array) = version.strip_prefix("external:")?.strip_prefix(['/', '-'])?.split_once('/')?;
    Some((container.to_owned(), array.to_owned()))
}

/// The volume group of `LVM-<32 of the group><32 of the volume>…` (lvm2, dm_build_dm_uuid).
fn group(uuid: &str) -> Option<&str> {
    uuid.strip_prefix("LVM-")?.get(..32)
}

/// `part2-mpath-3600…`: the number and the whole disk.
fn kpartx(uuid: &str) -> Option<(u32, &str)> {
    let (part, disk) = uuid.split_once('-')?;
    Some((part.strip_prefix("part")?.parse().ok()?, disk))
}

/// Whether the members of a device bear its manager's own mark, as a PV does, so that a mark on them says nothing about
/// other users.
pub(super) fn marks_its_members(root: &Root, place: &Path) -> bool {
    const MAPPER_PREFIXES: [&str; 7] = ["LVM-", "CRYPT-", "mpath-", "DMRAID-", "stratis-", "VDO-", "part"];
    // These write nothing but the data itself.
    const BARE: [&str; 2] = ["CRYPT-PLAIN", "CRYPT-LOOPAES"];
    let begins = |uuid: &str, with: &[&str]| with.iter().any(|with| uuid.starts_with(with));
    match root.line(place.join("dm/uuid")) {
        Ok(uuid) => begins(&uuid, &MAPPER_PREFIXES) && !begins(&uuid, &BARE),
        Err(_) => !root.exists(place.join("dm")),
    }
}
