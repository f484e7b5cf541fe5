use std::path::{Path, PathBuf};

use super::images::{self, Images};
use super::loops::{self, Looped};
use super::openers;
use super::stack::name_of;
use super::thing::FileOrDevice;
use crate::mounts::{self, DeviceNumber, Tables};
use crate::root::{ReadError, Root};
use crate::storage::Medium;
use plimsoll_units::text::{shown, shown_path};

const MAX_HOLDERS_NAMED: usize = 4;

pub(super) struct DiskSurvey<'a> {
    pub(super) root: &'a Root,
    pub(super) tables: Tables,
    sources: Vec<Vec<Option<FileOrDevice>>>,
    pub(super) loops: Vec<Looped>,
    swaps: Vec<(Option<FileOrDevice>, PathBuf)>,
    others: Vec<OtherUse>,
    pub(super) images: Images,
}

impl<'a> DiskSurvey<'a> {
    /// Reads the uses of disks (mounts, swap …); adds a phrase to `phrases` for each that fails.
    pub(super) fn of(root: &'a Root, phrases: &mut Vec<String>) -> DiskSurvey<'a> {
        let tables = or_phrase(mounts::read_all_namespaces(root), "mounts", phrases);
        let loops = or_phrase(loops::all(root), "loop devices", phrases);
        let swaps = or_phrase(swaps(root), "swap areas", phrases);
        let sources = tables.all.iter().map(|table| sources(root, table)).collect();
        let images = tables.all.iter().flat_map(|table| {
            let all = table.mounts.iter().filter(|mount| images::is_one(mount));
            all.map(move |mount| {
                (mount, source(root, table, mount).map(|(path, _)| path), at(root, table, mount))
            })
        });
        let images = Images::among(root, images);
        DiskSurvey { root, tables, sources, loops, swaps, others: other_kernel_uses(root), images }
    }

    /// Returns whether both are the same file or device. Files with one inode on two device numbers
    /// count as the same if one of them may be shown by a stacked or network file system.
    fn same(&self, one: FileOrDevice, other: FileOrDevice) -> bool {
        match (one, other) {
            (FileOrDevice::File(one), FileOrDevice::File(other)) if one.inode == other.inode => {
                one.system == other.system || [one, other].iter().any(|file| self.shows_others(file.system))
            }
            _ => one == other,
        }
    }

    pub(super) fn medium(&self, system: DeviceNumber) -> Option<(Medium, &str)> {
        let mut mounts = self.tables.all.iter().flat_map(|table| &table.mounts);
        let mount = mounts.find(|mount| mount.device == system)?;
        Some((Medium::of(&mount.fs_type), &mount.fs_type))
    }

    /// Returns whether files of `system` may belong to another file system: stacked, network …
    fn shows_others(&self, system: DeviceNumber) -> bool {
        let mut mounts = self.tables.all.iter().flat_map(|table| &table.mounts);
        match self.medium(system) {
            Some((medium, _)) => matches!(medium, Medium::Stacked | Medium::Network),
            None => system.major == 0 && mounts.any(|mount| mount.fs_type == "overlay"),
        }
    }

    /// Returns phrases (`is in use as swap`) on the users of a file or device. `place` is the sysfs
    /// directory of a device. Devices for whose names `left_out` returns true are ignored.
    pub(super) fn direct(
        &self,
        thing: FileOrDevice,
        place: Option<&Path>,
        left_out: &dyn Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut phrases = place.map(|place| self.held(place, left_out)).unwrap_or_default();
        phrases.extend(self.mounted(thing, place));
        let swaps_to = |(area, path): &&(Option<FileOrDevice>, PathBuf)| {
            let by_name = area.is_none() && place.is_some_and(|place| place.file_name() == path.file_name());
            by_name || area.is_some_and(|area| self.same(area, thing))
        };
        phrases.extend(self.swaps.iter().find(swaps_to).map(|_| "is in use as swap".to_owned()));
        for one in self.loops.iter().filter(|one| !left_out(&one.name)) {
            match (one.backing, thing) {
                (Some(backing), _) if self.same(backing, thing) => {
                    let used = self.use_phrase(&one.name, MAX_HOLDERS_NAMED);
                    phrases.push(format!("is what {} reads from{used}", one.name));
                }
                (None, FileOrDevice::File(_)) => {
                    let name = &one.name;
                    phrases.push(format!("may be what {name} reads from, whose file cannot be looked at"));
                }
                _ => {}
            }
        }
        let by_others = self.others.iter().filter(|other| !other.by.as_deref().is_some_and(left_out));
        let by_others = by_others.filter(|other| self.same(other.thing, thing));
        phrases.extend(by_others.map(|other| other.phrases.clone()));
        phrases
    }

    fn held(&self, place: &Path, left_out: &dyn Fn(&str) -> bool) -> Vec<String> {
        let holders = match self.root.names(place.join("holders")) {
            Ok(holders) => holders,
            Err(why) => return vec![format!("has holders that cannot be read: {why}")],
        };
        let named = holders.iter().filter(|holder| !left_out(holder));
        let mut phrases: Vec<String> = named.map(|holder| self.part_of(holder, MAX_HOLDERS_NAMED)).collect();
        let name = name_of(place);
        if self.root.exists(place.join("bcache")) && !name.starts_with("bcache") && holders.is_empty() {
            phrases.push("is registered with bcache".to_owned());
        }
        phrases
    }

    fn part_of(&self, holder: &str, deeper: usize) -> String {
        let line = |file: &str| self.root.line(Path::new("sys/class/block").join(holder).join(file)).ok();
        let known = line("dm/name").or_else(|| line("md/level"));
        let described = known.map_or(shown(holder), |known| shown(&format!("{holder} ({known})")));
        format!("is part of {described}{}", self.use_phrase(holder, deeper))
    }

    /// Returns a phrase on the use of the device `name`, ` (dm-0 is mounted on /)`, or of a device
    /// built on it, at most `deeper` levels above; empty if unused.
    fn use_phrase(&self, name: &str, deeper: usize) -> String {
        let place = self.root.resolve(Path::new("sys/class/block").join(name));
        let place = place.or_else(|_| self.root.resolve(Path::new("sys/block").join(name)));
        let number = |place: &PathBuf| self.root.line(place.join("dev")).ok()?.parse().ok();
        let found = place.ok().and_then(|place| Some((number(&place)?, place)));
        let Some((number, place)) = found else { return String::new() };
        let thing = FileOrDevice::Block(number);
        let mut used = self.mounted(thing, Some(&place));
        if used.is_none() && deeper > 0 {
            let holder = self.root.names(place.join("holders")).unwrap_or_default().into_iter().next();
            let looped = self.loops.iter().find(|one| one.backing == Some(thing)).map(|one| one.name.clone());
            let above = holder.map(|name| self.part_of(&name, deeper - 1));
            used = above.or_else(|| {
                looped.map(|name| format!("is what {name} reads from{}", self.use_phrase(&name, deeper - 1)))
            });
        }
        used.map(|used| format!(" ({name} {used})")).unwrap_or_default()
    }

    /// Returns a phrase if the file or device is mounted (`is mounted on /data`) or part of a
    /// mounted btrfs or bcachefs; else `None`. `place` is the sysfs directory of a device.
    fn mounted(&self, thing: FileOrDevice, place: Option<&Path>) -> Option<String> {
        let name = place.map(name_of);
        let by_name = name.as_ref().map(|name| Path::new("/dev").join(name.replace('!', "/")));
        for (table, sources) in self.tables.all.iter().zip(&self.sources) {
            let its = |(mount, source): &(&mounts::Mount, &Option<FileOrDevice>)| {
                let named = || by_name.as_ref() == Some(&mount.source);
                thing == FileOrDevice::Block(mount.device)
                    || source.map_or_else(named, |source| self.same(source, thing))
            };
            if let Some((mount, _)) = table.mounts.iter().zip(sources).find(its) {
                return Some(at(self.root, table, mount));
            }
        }
        let systems = [("sys/fs/btrfs", "devices", "btrfs"), ("sys/fs/bcachefs", "", "bcachefs")];
        systems.into_iter().find_map(|(all, devices, kind)| {
            let has = |system: &String| self.has_member(&Path::new(all).join(system).join(devices), place);
            let system = self.root.names(all).unwrap_or_default().into_iter().find(has)?;
            Some(format!("is part of the mounted {kind} {}", shown(&system)))
        })
    }

    /// Returns whether `dir`, a sysfs directory with the devices of one btrfs or bcachefs, lists
    /// the device whose own sysfs directory is `place`; false for `None`.
    fn has_member(&self, dir: &Path, place: Option<&Path>) -> bool {
        let Some(place) = place else { return false };
        let name = name_of(place);
        let links = || self.root.names(dir).unwrap_or_default().into_iter();
        self.root.exists(dir.join(&name))
            || links().any(|name| self.root.resolve(dir.join(name).join("block")).as_deref() == Ok(place))
    }
}

/// Returns `found`, or the default after adding `has WHAT that cannot be read: …` to `phrases`.
fn or_phrase<T: Default>(found: Result<T, ReadError>, what: &str, phrases: &mut Vec<String>) -> T {
    let unread = |why: &ReadError| phrases.push(format!("has {what} that cannot be read: {why}"));
    found.inspect_err(unread).unwrap_or_default()
}

struct OtherUse {
    thing: FileOrDevice,
    by: Option<String>,
    phrases: String,
}

/// Returns (identity, `None` if unknown; path) of each swap area; empty if the kernel has no swap.
fn swaps(root: &Root) -> Result<Vec<(Option<FileOrDevice>, PathBuf)>, ReadError> {
    let table = ReadError::allow_missing(root.text("proc/swaps"))?.unwrap_or_default();
    let areas = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let paths = areas.map(|area| mounts::path(area.as_bytes()));
    Ok(paths.map(|path| (FileOrDevice::at(root, &path), path)).collect())
}

fn at(root: &Root, table: &mounts::MountTable, mount: &mounts::Mount) -> String {
    let point = shown_path(&mount.point);
    let whose = table.process.map(|process| {
        format!(" in the mount namespace of process {process} ({})", openers::process_name(root, process))
    });
    format!("is mounted on {point}{}", whose.unwrap_or_default())
}

fn sources(root: &Root, table: &mounts::MountTable) -> Vec<Option<FileOrDevice>> {
    let all = table.mounts.iter().map(|mount| source(root, table, mount));
    all.map(|source| source.map(|(_, thing)| thing)).collect()
}

/// Returns (readable path, identity) of a mount's source; `None` if that is no file or device.
fn source(root: &Root, table: &mounts::MountTable, mount: &mounts::Mount) -> Option<(PathBuf, FileOrDevice)> {
    let below = mount.source.strip_prefix("/").ok()?;
    let within = table.process.map(|process| PathBuf::from(format!("/proc/{process}/root")).join(below));
    let mut ways = within.into_iter().chain([mount.source.clone()]);
    ways.find_map(|path| FileOrDevice::at(root, &path).map(|thing| (path, thing)))
}

/// Returns the devices and files that the kernel uses: by zram, storage targets (configfs), the
/// RNBD server (ABI/testing/sysfs-class-rnbd-server) and pstore.
fn other_kernel_uses(root: &Root) -> Vec<OtherUse> {
    let mut found = Vec::new();
    let mut add = |file: PathBuf, by: Option<String>, phrases: String| {
        let path = root.line(file).ok().filter(|path| path.starts_with('/'));
        let thing = path.and_then(|path| FileOrDevice::at(root, Path::new(&path)));
        found.extend(thing.map(|thing| OtherUse { thing, by, phrases }));
    };
    for device in root.names("sys/block").unwrap_or_default() {
        if device.starts_with("zram") {
            let phrases = format!("is what {device} writes back to");
            add(Path::new("sys/block").join(&device).join("backing_dev"), Some(device), phrases);
        }
    }
    let below = |dir: &Path| -> Vec<PathBuf> {
        root.names(dir).unwrap_or_default().into_iter().map(|name| dir.join(name)).collect()
    };
    let config = Path::new("sys/kernel/config");
    for system in below(&config.join("nvmet/subsystems")) {
        for space in below(&system.join("namespaces")) {
            add(space.join("device_path"), None, "is exported by the NVMe target".to_owned());
        }
    }
    for backend in below(&config.join("target/core")).iter().flat_map(|adapter| below(adapter)) {
        add(backend.join("udev_path"), None, "is exported by the SCSI target".to_owned());
    }
    let gadgets = below(&config.join("usb_gadget"));
    let functions = gadgets.iter().flat_map(|gadget| below(&gadget.join("functions")));
    for unit in functions.flat_map(|function| below(&function)) {
        add(unit.join("file"), None, "is exported by the USB gadget".to_owned());
    }
    let pstore = "is where pstore keeps kernel messages".to_owned();
    add("sys/module/pstore_blk/parameters/blkdev".into(), None, pstore);
    for exported in below(Path::new("sys/class/rnbd-server/ctl/devices")) {
        let number = root.line(exported.join("block_dev/dev")).ok().and_then(|dev| dev.parse().ok());
        let phrases = "is exported by the RNBD server".to_owned();
        found.extend(number.map(|number| OtherUse { thing: FileOrDevice::Block(number), by: None, phrases }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::thing::FileId;
    use crate::fixture::Fixture;

    #[test]
    fn a_file_of_an_overlays_layer_may_have_a_number_that_no_table_knows() {
        let file =
            |major, minor, inode| FileOrDevice::File(FileId { system: DeviceNumber { major, minor }, inode });
        let layers = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";
        let overlay = "2 1 0:50 / /merged rw - overlay overlay rw\n";
        let same = |mounts: &str, one, other| {
            let fixture = Fixture::unpack("").unwrap();
            fixture.write("proc/self/mountinfo", mounts.as_bytes()).unwrap();
            DiskSurvey::of(&fixture.root, &mut Vec::new()).same(one, other)
        };
        let both = format!("{layers}{overlay}");
        assert!(same(&both, file(0, 51, 7), file(8, 1, 7)));
        assert!(same(&both, file(8, 1, 7), file(0, 50, 7)));
        assert!(!same(&both, file(0, 51, 7), file(8, 1, 8)));
        assert!(!same(&both, file(8, 2, 7), file(8, 1, 7)));
        assert!(!same(layers, file(0, 51, 7), file(8, 1, 7)), "no overlay is mounted");
    }
}
