//! Users of a block device and of all below it. What is unreadable counts as a user.

use std::path::{Path, PathBuf};

use super::loops::Looped;
use super::openers::{self, WatchedFile};
use super::overlays::{BlindOverlays, Overlays};
use super::sharing::{are_separate, marks_its_members, partitions_overlap};
use super::stack::{Stack, StackMember, StackStep, name_of};
use super::survey::DiskSurvey;
use super::sysfs_directory;
use super::thing::FileOrDevice;
use crate::mounts::DeviceNumber;
use crate::root::Root;
use crate::storage::Medium;
use crate::virtualisation::is_first_namespace;
use plimsoll_units::text::{format_count, shown_bytes};

const MOST_NAMED: usize = 4;

/// Users of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// Phrases on its users (`is mounted on /data`); empty if unused.
    pub users: Vec<String>,
    /// Sentences on facts that cannot be known from here.
    pub remarks: Vec<String>,
    /// The device and all storage of its bytes.
    pub stack: Stack,
    /// Devices to claim with it, and files and devices with relevant signatures.
    pub below: Vec<LowerDevice>,
    /// Things that no process may hold open.
    pub watched: Vec<WatchedFile>,
}

/// A file or device below the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowerDevice {
    /// The file or device.
    pub thing: FileOrDevice,
    /// Displayed name.
    pub name: String,
    /// Path by which it can be opened, if any.
    pub path: Option<PathBuf>,
    /// Whether it must be claimed, because a loop device does not claim its backing.
    pub claimable: bool,
    /// Whether the device shows only a part of it.
    pub partial: bool,
}

impl DeviceUse {
    /// Returns a phrase with the first four users and the number of further ones; `None` if unused.
    pub fn sentence(&self) -> Option<String> {
        let named = self.users.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", and ");
        match self.users.len() {
            0 => None,
            all if all > MOST_NAMED => Some(format!("{named}, and has {} more users", all - MOST_NAMED)),
            _ => Some(named),
        }
    }
}

/// Finds users of the device and of all below it, except processes that have it open.
pub fn examine(root: &Root, number: DeviceNumber) -> DeviceUse {
    let place = match sysfs_directory(root, number) {
        Ok(place) => place,
        Err(why) => {
            let users = vec![format!("is not described by sysfs: {why}")];
            return DeviceUse { users, ..DeviceUse::default() };
        }
    };
    let mut phrases = Vec::new();
    let survey = DiskSurvey::of(root, &mut phrases);
    let fuse = |system| survey.medium(system).is_some_and(|(_, kind)| kind.starts_with("fuse"));
    let overlays = Overlays { root, tables: &survey.tables };
    let stack = Stack::below(root, number, &place, &survey.loops, &fuse, &overlays);
    let blind = overlays.blind();
    phrases.extend(stack.unfollowed.iter().cloned());
    let looked = SurveyedStack { survey, stack: &stack, blind };
    for at in 0..stack.nodes.len() {
        phrases.extend(looked.users_of(at));
    }
    let remarks = looked.remarks();
    let (below, watched) = (looked.below(), stack.nodes.iter().map(|node| looked.watch(node)).collect());
    DeviceUse { users: phrases, remarks, below, watched, stack }
}

/// Returns whether sysfs reports the device as read-only; false if unknown.
pub fn is_read_only(root: &Root, number: DeviceNumber) -> bool {
    sysfs_directory(root, number).is_ok_and(|place| root.number(place.join("ro")) == Ok(1))
}

/// Returns the number in the disk's sysfs file, also for a partition of it: `diskseq` is renewed
/// with each new medium or backing file (`None` on older kernels).
pub fn disk_number(root: &Root, number: DeviceNumber, file: &str) -> Option<u64> {
    let place = sysfs_directory(root, number).ok()?;
    let of = |place: &Path| root.number(place.join(file)).ok();
    of(&place).or_else(|| of(place.parent()?))
}

/// Returns the serial number of the disk, also for a partition of it; `None` if unknown.
pub fn serial(root: &Root, number: DeviceNumber) -> Option<String> {
    let place = sysfs_directory(root, number).ok()?;
    let disk = if root.exists(place.join("partition")) { place.parent()?.to_path_buf() } else { place };
    let line = |name: &str| root.line(disk.join(name)).ok();
    let serial = line("serial").or_else(|| line("device/serial")).or_else(|| page_80(root, &disk));
    serial.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the serial number of the SCSI disk at `disk` in sysfs: VPD page 80h (SPC-4 §7.8.13).
fn page_80(root: &Root, disk: &Path) -> Option<String> {
    let page = root.head(&disk.join("device/vpd_pg80"), 256).ok()?;
    let length = usize::from(*page.get(3)?);
    let text = page.get(4..4 + length)?;
    Some(shown_bytes(text)).filter(|text| text.is_ascii())
}

struct SurveyedStack<'a> {
    survey: DiskSurvey<'a>,
    stack: &'a Stack,
    blind: BlindOverlays,
}

impl SurveyedStack<'_> {
    /// Returns phrases, `is made of sda, which is mounted on /`, on users of node number `at` that
    /// are not in the stack.
    fn users_of(&self, at: usize) -> Vec<String> {
        let node = &self.stack.nodes[at];
        let place = node.place.as_deref();
        let left_out = |name: &str| self.stack.has(name) || self.separates(node, name);
        let mut phrases = self.partitions(node);
        phrases.extend(self.survey.direct(node.thing, place, &left_out));
        if phrases.is_empty() && matches!(node.thing, FileOrDevice::File(_)) {
            phrases.extend(self.survey.images.user(self.survey.root, node.path.as_deref()));
        }
        phrases.extend(self.shown_to_loops(at, &left_out));
        let lead = self.lead(node);
        phrases.into_iter().map(|phrases| format!("{lead}{phrases}")).collect()
    }

    /// Returns whether `other`, a device on `node`, certainly shares no data with the stack.
    fn separates(&self, node: &StackMember, other: &str) -> bool {
        let root = self.survey.root;
        let (Some(place), Some(above)) = (&node.place, &self.stack.nodes[node.from].place) else {
            return false;
        };
        let other = root.resolve(Path::new("sys/class/block").join(other));
        node.step == StackStep::Member && other.is_ok_and(|other| are_separate(root, place, above, &other))
    }

    /// Returns a phrase on a loop device, unless `left_out` returns true for its name, that may
    /// read the file of node number `at` through an overlay with unknown layers.
    fn shown_to_loops(&self, at: usize, left_out: &dyn Fn(&str) -> bool) -> Option<String> {
        let watched = self.watch(&self.stack.nodes[at]);
        let overlays = Overlays { root: self.survey.root, tables: &self.survey.tables };
        let shows = |one: &&Looped| {
            let Some(FileOrDevice::File(file)) = one.backing else { return false };
            !left_out(&one.name)
                && watched.may_show(FileOrDevice::File(file), one.path.file_name())
                && overlays.is_on_one(file, &one.path)
        };
        let one = self.survey.loops.iter().find(shows)?;
        Some(format!("may be what {} reads from, on an overlay whose layers cannot be found", one.name))
    }

    /// Returns how the device relates to `node`: `is made of sda, which `, to start a phrase.
    fn lead(&self, node: &StackMember) -> String {
        let name = &node.name;
        match node.step {
            StackStep::Itself => String::new(),
            StackStep::Disk => format!("is a partition of {name}, which "),
            StackStep::Member => format!("is made of {name}, which "),
            StackStep::Loop { .. } => format!("reads from {name}, which "),
            StackStep::Memory => format!("writes back to {name}, which "),
            StackStep::Served { certain: true } => format!("is served from {name}, which "),
            StackStep::Served { certain: false } => format!("may be served from {name}, which "),
            StackStep::Overlaid => format!("keeps its bytes in {name} (overlayfs), which "),
            StackStep::OtherPath => format!("is the same disk as {name}, which "),
        }
    }

    fn partitions(&self, node: &StackMember) -> Vec<String> {
        let Some(place) = node.place.as_deref() else { return Vec::new() };
        let root = self.survey.root;
        let names = match root.names(place) {
            Ok(names) => names,
            Err(why) => return vec![format!("has partitions that cannot be read: {why}")],
        };
        let all =
            names.iter().map(|name| place.join(name)).filter(|place| root.exists(place.join("partition")));
        let places = || self.stack.nodes.iter().filter_map(|node| node.place.as_deref());
        let in_stack = |place: &Path| places().any(|known| known == place);
        let mut phrases = Vec::new();
        let mut named = Vec::new();
        for partition in all.filter(|place| !in_stack(place)) {
            let name = name_of(&partition);
            let siblings = || places().filter(|known| known.parent() == Some(place));
            let overlaps = || siblings().any(|known| partitions_overlap(root, known, &partition));
            if node.step == StackStep::Disk && !overlaps() {
                continue;
            }
            let number = root.line(partition.join("dev")).ok().and_then(|dev| dev.parse().ok());
            let users = number
                .map(|number| self.survey.direct(FileOrDevice::Block(number), Some(&partition), &|_| false));
            let users = users.unwrap_or_else(|| vec!["cannot be looked at".to_owned()]);
            let harmless = matches!(node.step, StackStep::Member | StackStep::OtherPath) && users.is_empty();
            if !harmless {
                phrases.extend(users.iter().map(|used| format!("has the partition {name}, which {used}")));
                named.push(name);
            }
        }
        if !named.is_empty() {
            phrases.insert(0, format!("has partitions: {}", named.join(", ")));
        }
        phrases
    }

    /// Returns files and devices below the device that must be claimed with it or have signatures.
    fn below(&self) -> Vec<LowerDevice> {
        let root = self.survey.root;
        let mut partial = vec![false; self.stack.nodes.len()];
        let mut all = Vec::new();
        for (at, node) in self.stack.nodes.iter().enumerate().skip(1) {
            let above = self.stack.nodes[node.from].place.as_deref();
            let (claimable, part) = match node.step {
                StackStep::Loop { partial } => (true, partial),
                StackStep::Served { .. } => (false, true),
                StackStep::OtherPath => (true, false),
                StackStep::Member if above.is_some_and(|above| !marks_its_members(root, above)) => {
                    (false, true)
                }
                _ => continue,
            };
            partial[at] = part || partial[node.from];
            let is_block = matches!(node.thing, FileOrDevice::Block(_));
            let by_name = is_block.then(|| Path::new("/dev").join(node.name.replace('!', "/")));
            let by_name = by_name.filter(|path| FileOrDevice::at(root, path) == Some(node.thing));
            let (path, name) = (node.path.clone().or(by_name), node.name.clone());
            all.push(LowerDevice { thing: node.thing, name, path, claimable, partial: partial[at] });
        }
        all
    }

    fn watch(&self, node: &StackMember) -> WatchedFile {
        WatchedFile {
            thing: node.thing,
            name: if node.step == StackStep::Itself { String::new() } else { node.name.clone() },
            writers_only: matches!(node.step, StackStep::Member | StackStep::OtherPath | StackStep::Memory),
            exempt: node.server.into_iter().collect(),
            shown_on: self.blind.clone(),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let mut phrases = self.stack.remarks.clone();
        for node in &self.stack.nodes {
            let name = &node.name;
            if let FileOrDevice::File(file) = node.thing
                && let Some((Medium::Stacked | Medium::Network, kind)) = self.survey.medium(file.system)
            {
                phrases.push(format!(
                    "{name} is on a file system of type {kind}: who else uses what is behind that cannot be seen from here"
                ));
            }
            let place = node.place.as_deref().unwrap_or(Path::new("")).to_string_lossy();
            let remote = ["rbd", "rnbd", "drbd", "etherd"].iter().any(|kind| name.starts_with(kind));
            let fabric = ["/session", "/rport-", "/nvme-fabrics/"].iter().any(|part| place.contains(part));
            if remote || fabric {
                let why = "who uses it on other machines cannot be seen from here";
                phrases.push(format!("{name} is shared over a network: {why}"));
            }
        }
        let unseen = self.survey.tables.unseen;
        if unseen > 0 {
            let processes = format_count(unseen, "process");
            phrases.push(format!("plimsoll cannot see the mounts of {processes}; {}", openers::remedy()));
        }
        let root = &self.survey.root;
        if root.is_live() && !is_first_namespace(root, "pid").unwrap_or(false) {
            let why = "processes outside of this container cannot be seen: they may use the device";
            phrases.push(why.to_owned());
        }
        phrases
    }
}

#[cfg(test)]
mod tests;
