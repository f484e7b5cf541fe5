//! Verifies that the device, not a cache, moved the bytes that a case claims. The kernel's counters
//! of the device must contain all of them; other users only add to these, so only a shortfall is
//! proof. Without counters, no more than half of the file may be in the page cache.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::counters::BlockCounters;
use crate::backing::TestFile;
use crate::device::DirectionBytes;
use crate::display::human;
use crate::fact::{DEVICE_SHARE, PAGE_CACHE};
use crate::warning::DiskWarning;
use plimsoll_machine::{DeviceNumber, DiskKind, Root, Storage};
use plimsoll_metal::residency::resident_bytes;
use plimsoll_model::job::disk::CacheMode;
use plimsoll_model::sample::Facts;

/// Least share of the claimed bytes seen on the device; the rest allows for whole sectors.
const SEEN: f64 = 0.99;

/// Largest share of the file in the page cache after a direct case, if the device has no counters.
const CACHED: f64 = 0.5;

impl DirectionBytes {
    /// Returns `self` ÷ `claimed`, of reads or of writes, whichever is less (1: the devices moved
    /// all that the case claims to have transferred); `None` if `claimed` is empty.
    fn share_of(self, claimed: DirectionBytes) -> Option<f64> {
        let shares = [(self.read, claimed.read), (self.written, claimed.written)];
        let shares = shares.iter().filter(|(_, claimed)| *claimed > 0);
        shares.map(|(seen, claimed)| *seen as f64 / *claimed as f64).reduce(f64::min)
    }
}

#[derive(Debug)]
pub(crate) struct DeviceCheck {
    root: Root,
    file: Arc<TestFile>,
    bytes: u64,
    /// Devices that must have moved every byte: the file system's own, or the disks below it.
    near: DeviceCounts,
    /// Disks below a loop device, whose file may be cached by the lower file system.
    far: Option<DeviceCounts>,
}

#[derive(Debug)]
struct DeviceCounts {
    devices: Vec<DeviceNumber>,
    names: String,
    before: Option<BlockCounters>,
}

impl DeviceCounts {
    fn new(root: &Root, devices: Vec<DeviceNumber>, names: String) -> Self {
        let before = BlockCounters::of_all(root, &devices);
        Self { devices, names, before }
    }

    fn seen(&self, root: &Root) -> Option<DirectionBytes> {
        BlockCounters::of_all(root, &self.devices)?.bytes.since(self.before?.bytes)
    }
}

impl DeviceCheck {
    /// Reads the byte counters of the devices in `storage` below `file`, for a later comparison;
    /// the case uses the first `bytes` of the file. Without `storage`, checks only the page cache.
    pub(crate) fn new(root: Root, storage: Option<&Storage>, file: Arc<TestFile>, bytes: u64) -> Self {
        let disks = storage.map_or(&[][..], |storage| &storage.disks);
        let numbers = disks.iter().map(|disk| disk.number).collect::<Option<Vec<_>>>().unwrap_or_default();
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        let below = DeviceCounts::new(&root, numbers, names.join(" + "));
        let is_looped = |storage: &&Storage| storage.layers.iter().any(|layer| layer.kind == DiskKind::Loop);
        let (near, far) = match storage.filter(is_looped) {
            Some(storage) => {
                let top = storage.top().into_iter().collect::<Option<Vec<_>>>().unwrap_or_default();
                (DeviceCounts::new(&root, top, storage.top_names().join(" + ")), Some(below))
            }
            None => (below, None),
        };
        // DAX and a separate realtime device bypass the counters of the disk.
        let file_system = storage.and_then(|storage| storage.file_system.as_ref());
        let passes =
            |option: &String| matches!(option.as_str(), "dax" | "dax=always") || option.starts_with("rtdev=");
        let bypassed = file_system.is_some_and(|fs| fs.options.iter().any(passes));
        let near = if bypassed { DeviceCounts::new(&root, Vec::new(), near.names) } else { near };
        Self { root, file, bytes, near, far }
    }

    /// Compares what the devices moved since [`DeviceCheck::new`] with `claimed`, the bytes that
    /// the case transferred. Adds to `facts` the share of them seen on the devices, the share of
    /// the file in the page cache, warnings, and why the result is invalid, if it is.
    pub(crate) fn judge(&self, claimed: DirectionBytes, facts: &mut Facts) {
        if claimed == DirectionBytes::default() {
            return;
        }
        let cached = resident_bytes(self.file.as_fd(), self.bytes).ok();
        let cached = cached.map(|resident| resident as f64 / self.bytes.max(1) as f64);
        facts.achieved.set_some(&PAGE_CACHE, cached);
        if self.file.cache != CacheMode::Direct {
            return;
        }
        let near = self.near.seen(&self.root).and_then(|seen| seen.share_of(claimed));
        facts.achieved.set_some(&DEVICE_SHARE, near);
        facts.invalid = match (near, cached) {
            (Some(share), _) if share < SEEN => Some(format!(
                "page cache or host cache: {} moved {:.1} % of the {} that were counted",
                self.near.names,
                share * 100.0,
                human(claimed.read + claimed.written)
            )),
            (None, Some(cached)) if cached > CACHED => Some(format!(
                "page cache: {:.0} % of the test file is in it although O_DIRECT was asked for",
                cached * 100.0
            )),
            _ => None,
        };
        let far = self.far.as_ref().and_then(|far| Some((far, far.seen(&self.root)?.share_of(claimed)?)));
        facts.warnings.extend(far.filter(|(_, share)| *share < SEEN).map(|(far, share)| {
            let (below, above) = (far.names.clone(), self.near.names.clone());
            DiskWarning::CachedBelow { below, share, above }.into()
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use tempfile::TempDir;

    use super::*;
    use crate::backing::fixture::{opened_again, test_file};
    use plimsoll_machine::Disk;
    use plimsoll_machine::fixture::{Fixture, disk, layer};
    use plimsoll_machine::storage::Member;

    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const LOOP: DeviceNumber = DeviceNumber { major: 7, minor: 1 };
    const TREE: &str = "sys/dev/block/8:0/stat = 5 0 20 1 2 0 8 1 0 1 2\n\
                        sys/dev/block/7:1/stat = 5 0 20 1 2 0 8 1 0 1 2\n";

    fn storage(looped: bool) -> Storage {
        let disks = vec![Disk { number: Some(DISK), ..disk("sda", DiskKind::Nvme, None) }];
        let layer = layer("loop1", DiskKind::Loop);
        Storage {
            device: Some(if looped { "loop1" } else { "sda1" }.to_owned()),
            number: Some(if looped { LOOP } else { DISK }),
            layers: if looped { vec![layer] } else { Vec::new() },
            disks,
            ..Storage::default()
        }
    }

    fn device_check(tree: &str, on: &Storage, cache: CacheMode) -> (Fixture, TempDir, DeviceCheck) {
        let fixture = Fixture::unpack(tree).expect("a tree");
        let (mut file, dir) = test_file(1 << 20);
        if cache == CacheMode::Direct {
            file = Arc::new(Arc::into_inner(file).expect("one").verified_direct());
        }
        let check = DeviceCheck::new(Root::at(fixture.dir.path()), Some(on), file, 1 << 20);
        (fixture, dir, check)
    }

    fn judged(check: &DeviceCheck, claimed: DirectionBytes) -> Facts {
        let mut facts = Facts::default();
        check.judge(claimed, &mut facts);
        facts
    }

    const READ: DirectionBytes = DirectionBytes { read: 1 << 20, written: 0 };

    fn stat(read: u64, written: u64) -> String {
        format!("5 0 {} 1 2 0 {} 1 0 1 2\n", 20 + read / 512, 8 + written / 512)
    }

    /// Lets the device with this number have moved these bytes.
    fn move_bytes(fixture: &Fixture, number: &str, read: u64, written: u64) {
        let path = format!("sys/dev/block/{number}/stat");
        fixture.write(&path, stat(read, written).as_bytes()).expect("write");
    }

    #[test]
    fn a_device_that_moved_all_of_it_and_more_is_believed() {
        let (fixture, _dir, check) = device_check(TREE, &storage(false), CacheMode::Direct);
        move_bytes(&fixture, "8:0", 2 << 20, 0);
        let reported = judged(&check, READ);
        assert_eq!((reported.invalid, reported.warnings.len()), (None, 0));
        assert_eq!(reported.achieved.get(&DEVICE_SHARE), Some(2.0));
        assert_eq!(judged(&check, DirectionBytes::default()), Facts::default());
    }

    #[test]
    fn bytes_that_no_device_moved_came_from_a_cache() {
        let (fixture, _dir, check) = device_check(TREE, &storage(false), CacheMode::Direct);
        move_bytes(&fixture, "8:0", 1 << 19, 1 << 30);
        let invalid = judged(&check, READ).invalid.expect("half of it is missing");
        assert_eq!(invalid, "page cache or host cache: sda moved 50.0 % of the 1 MiB that were counted");
        let claimed = DirectionBytes { read: 1 << 19, written: 2 << 30 };
        assert!(judged(&check, claimed).invalid.is_some());
    }

    #[test]
    fn buffered_transfers_claim_nothing_of_a_device() {
        let (_fixture, _dir, check) = device_check(TREE, &storage(false), CacheMode::Buffered);
        let reported = judged(&check, READ);
        assert_eq!((reported.invalid, reported.warnings), (None, vec![]));
        assert_eq!(reported.achieved.names(), ["page_cache"]);
    }

    #[test]
    fn behind_a_loop_device_the_cache_below_is_told_and_the_loop_itself_must_have_moved_it() {
        let (fixture, _dir, check) = device_check(TREE, &storage(true), CacheMode::Direct);
        move_bytes(&fixture, "7:1", 1 << 20, 0);
        let reported = judged(&check, READ);
        assert_eq!(reported.invalid, None);
        let said = reported.warnings.iter().map(plimsoll_model::warning::Note::code).collect::<Vec<_>>();
        assert_eq!(said, ["cached-below"]);
        move_bytes(&fixture, "7:1", 0, 0);
        assert!(judged(&check, READ).invalid.is_some_and(|why| why.contains("loop1 moved 0.0 %")));
    }

    #[test]
    fn all_devices_of_a_file_system_are_added() {
        let member =
            |minor| Member { name: format!("loop{minor}"), number: Some(DeviceNumber { major: 7, minor }) };
        let storage = Storage { members: vec![member(1), member(2)], ..storage(true) };
        let tree = format!("{TREE}sys/dev/block/7:2/stat = {}", stat(0, 0));
        let (fixture, _dir, check) = device_check(&tree, &storage, CacheMode::Direct);
        move_bytes(&fixture, "7:1", 1 << 19, 0);
        let invalid = judged(&check, READ).invalid.expect("half of it is missing");
        assert!(invalid.contains("loop1 + loop2 moved 50.0 %"), "{invalid}");
        move_bytes(&fixture, "7:2", 1 << 19, 0);
        assert_eq!(judged(&check, READ).invalid, None);
    }

    #[test]
    fn without_counters_the_page_cache_is_asked() {
        for counters in
            ["", "sys/dev/block/8:0/stat = what is this\n", "sys/dev/block/8:0/queue/iostats = 0\n"]
        {
            let (_fixture, _dir, check) = device_check(counters, &storage(false), CacheMode::Direct);
            assert_eq!(judged(&check, READ).invalid, None, "{counters}");
            opened_again(&check.file).write_all_at(&vec![1; 1 << 20], 0).expect("write");
            let reported = judged(&check, READ);
            assert!(reported.invalid.is_some_and(|why| why.starts_with("page cache: 100 %")), "{counters}");
        }
    }
}
