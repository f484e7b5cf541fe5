//! The filled test file that the cases of a run share, or the device itself.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::Advice;

use crate::backing::{AllocationEffect, DirFacts, RawDevice, TestFile, check_dir};
use crate::display::human;
use crate::fact::{DEVICE, FILE_SYSTEM};
use crate::load::{Seal, TestData};
use crate::storage::CHUNK;
use crate::storage::fill::{Filling, fill_within};
use crate::warning::DiskWarning;
use plimsoll_bench_api::{Context, RawTarget, RequestedSize};
use plimsoll_machine::{Disk, DiskKind, Machine, Medium, Root, Storage};
use plimsoll_model::job::disk::{CacheMode, DiskTransfers};
use plimsoll_model::sample::{Achieved, CannotMeasure, FailureCause};

/// Largest default size in bytes: more than a device's own cache, and filled in seconds.
pub(crate) const MAX_DEFAULT_BYTES: u64 = 1 << 30;

/// Least default size in bytes; less would only measure a device's cache.
pub(crate) const MIN_DEFAULT_BYTES: u64 = 64 << 20;

/// Least blocks per thread of a default size: fewer have no order.
const LEAST_BLOCKS: u64 = 2;

/// Returns the size of the test file for a job: its `--size`, else 64 MiB to 1 GiB, as the space
/// allows; for large blocks at least two of them per thread, and eight times that up to 1 GiB.
pub(crate) fn requested_size(job: &DiskTransfers) -> RequestedSize {
    let least = job.blocks.largest().saturating_mul(job.threads).saturating_mul(LEAST_BLOCKS);
    match (job.size, least) {
        (Some(bytes), _) => RequestedSize::Exactly(bytes),
        (None, 0..=MIN_DEFAULT_BYTES) => {
            RequestedSize::Between { least: MIN_DEFAULT_BYTES, most: MAX_DEFAULT_BYTES }
        }
        (None, least) => RequestedSize::Exactly(least.max(MAX_DEFAULT_BYTES.min(8 * least))),
    }
}

/// Longest fill of a default size.
const MAX_FILL_TIME: Duration = Duration::from_secs(5);

const KEPT_FILE_KEY: &str = "disk.file";

/// Key of the second file, for tools that write, kept for the next case.
pub(super) const TOOL_FILE_KEY: &str = "disk.lent";

/// The second file of a worker's cases, with its bytes; shared, as its contents are not verified.
pub(super) type SecondFile = Rc<RefCell<Option<(Arc<TestFile>, u64)>>>;

const CLAIM: &str = "disk.device";

/// Least share of the length that is allocated; less means compression or shared blocks.
const WHOLE: f64 = 0.9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// The next case may use it, too.
    Shared,
    OneCase,
    /// Like `OneCase`, with sectors sealed in generation 0, for `--verify`.
    Sealed,
}

#[derive(Debug, Clone)]
pub(crate) struct Filled {
    pub(crate) file: Arc<TestFile>,
    /// Filled bytes.
    pub(crate) bytes: u64,
    /// Whether plimsoll wrote the contents, unlike those of a read-only device.
    pub(crate) known: bool,
    /// Warnings, such as a reduced size.
    pub(crate) warnings: Vec<DiskWarning>,
    size: RequestedSize,
}

impl Filled {
    /// Returns a filled file (or device) of `size`; if `used` is shared, perhaps of an earlier
    /// case. Fails with `NotHere` if direct I/O is refused or meaningless, `Unsafe` if harmful.
    pub(crate) fn for_case(
        cx: &Context<'_>,
        cache: CacheMode,
        size: RequestedSize,
        used: FileUse,
    ) -> Result<Filled, CannotMeasure> {
        // A file of another size goes first: its space may be needed.
        let same = |kept: &Filled| kept.size == size && used == FileUse::Shared;
        let kept = cx.keep.take::<Filled>(KEPT_FILE_KEY).filter(same);
        if kept.is_none() {
            // The second file of earlier cases, too.
            drop(cx.keep.take::<SecondFile>(TOOL_FILE_KEY));
        }
        let device = cx.options.target.as_ref().map(|target| claimed(cx, target, cache)).transpose()?;
        let facts = cx.options.target.is_none().then(|| check_test_dir(cx, cache)).transpose()?;
        let seal = if used == FileUse::Sealed { Seal::Sealed } else { Seal::Open };
        let mut noise = TestData::new(cx.options.seed, "fill").with(seal);
        let until = cx.options.until;
        let mut filled = match (kept, &device, &facts) {
            (Some(kept), ..) => kept,
            (None, Some(device), _) => Filled::on_device(device, cache, size, until, &mut noise)?,
            (None, None, Some(facts)) => Filled::make(facts, cache, size, until, &mut noise)?,
            (None, None, None) => return Err(CannotMeasure::environment("there is no directory to test in")),
        };
        if used == FileUse::Shared {
            cx.keep.put(KEPT_FILE_KEY, filled.clone());
        }
        if filled.file.cache != cache {
            filled.file = Arc::new(filled.file.reopened(cache)?);
        }
        match cache {
            CacheMode::Buffered | CacheMode::Cold => fill_page_cache(&filled.file, filled.bytes),
            CacheMode::Direct => cool(&filled.file),
        }
        Ok(filled)
    }

    fn make(
        facts: &DirFacts,
        cache: CacheMode,
        size: RequestedSize,
        until: Option<Instant>,
        noise: &mut TestData,
    ) -> Result<Filled, CannotMeasure> {
        let wanted = facts.file_size(size)?;
        let file = match (TestFile::create(facts, CacheMode::Direct), cache) {
            // If direct I/O is refused, the file is filled through the page cache.
            (Err(why), CacheMode::Buffered | CacheMode::Cold) if why.cause == FailureCause::NotHere => {
                TestFile::create(facts, cache)
            }
            (made, _) => made,
        };
        let file = Arc::new(file?);
        let (bytes, patience) = match size {
            RequestedSize::Exactly(_) => (wanted.bytes.next_multiple_of(CHUNK as u64), None),
            RequestedSize::Between { .. } => (wanted.bytes, Some(MAX_FILL_TIME)),
        };
        file.allocate(bytes, AllocationEffect::Moves)?;
        let filled = filled_up(&file, Filling { from: 0, bytes, patience, until }, noise)?;
        let slow = || format!("filling was ended after {} s", MAX_FILL_TIME.as_secs());
        // An incomplete last chunk is left out.
        let why = if filled + CHUNK as u64 <= bytes { Some(slow()) } else { wanted.reduced };
        let small = why.map(|why| DiskWarning::Small { bytes: filled, why });
        let warnings = [small, named_file_warning(&file), space_saved_warning(&file, filled)];
        let warnings = warnings.into_iter().flatten().collect();
        Ok(Filled { file, bytes: filled, known: true, warnings, size })
    }

    /// Uses `device` as the file: filled with `noise` if its data may be destroyed, else unchanged.
    fn on_device(
        device: &Arc<RawDevice>,
        cache: CacheMode,
        size: RequestedSize,
        until: Option<Instant>,
        noise: &mut TestData,
    ) -> Result<Filled, CannotMeasure> {
        let (name, has) = (&device.name, device.bytes);
        let file = Arc::new(TestFile::of_device(device, cache)?);
        let wanted = match size {
            RequestedSize::Exactly(bytes) if bytes > has => {
                return Err(CannotMeasure::environment(format!(
                    "needs {} of {name}, which has {}; use a smaller --size, --block or --threads",
                    human(bytes),
                    human(has)
                )));
            }
            RequestedSize::Exactly(bytes) => bytes,
            RequestedSize::Between { most, .. } if device.claim.is_some() => most.min(has),
            RequestedSize::Between { .. } => has,
        };
        if device.claim.is_none() {
            let warnings = vec![DiskWarning::ContentsUnknown { device: name.clone() }];
            return Ok(Filled { file, bytes: wanted, known: false, warnings, size });
        }
        let patience = matches!(size, RequestedSize::Between { .. }).then_some(MAX_FILL_TIME);
        let whole = wanted.next_multiple_of(CHUNK as u64).min(has - has % CHUNK as u64);
        let filled = filled_up(&file, Filling { from: 0, bytes: whole, patience, until }, noise)?;
        if filled == 0 {
            let least = human(CHUNK as u64);
            return Err(CannotMeasure::environment(format!(
                "{name} has less than {least}: too little to measure"
            )));
        }
        let remarks = device.claim.iter().flat_map(|claim| claim.remarks.clone());
        let warnings = remarks.map(|why| DiskWarning::UsersUnknown { why }).collect();
        Ok(Filled { file, bytes: filled.min(wanted), known: true, warnings, size })
    }

    /// Returns, as facts of the case, the file system and the devices below it, `dm-0 → nvme0n1`.
    pub(crate) fn storage_facts(&self, storage: Option<&Storage>) -> Achieved {
        let mut place = Achieved::default();
        place.set(&FILE_SYSTEM, self.file.facts.fs_type());
        if let Some(storage) = storage {
            let layers = storage.layers.iter().map(|layer| layer.name.clone());
            let disks: Vec<String> = storage.disks.iter().map(|disk| disk.name.clone()).collect();
            let top = Some(storage.top_names().join(" + ")).filter(|names| !names.is_empty());
            let mut path: Vec<String> = top.into_iter().chain(layers).collect();
            path.extend((!disks.is_empty()).then(|| disks.join(" + ")));
            path.dedup();
            place.set_some(&DEVICE, Some(path.join(" → ")).filter(|path| !path.is_empty()));
        }
        place
    }
}

/// Returns the open device of `target`, claimed once per worker process and checked again for each
/// case: after a release, another process could claim it.
fn claimed(cx: &Context<'_>, target: &RawTarget, cache: CacheMode) -> Result<Arc<RawDevice>, CannotMeasure> {
    let root = Root::live();
    let device = match cx.keep.take::<Arc<RawDevice>>(CLAIM) {
        Some(device) => device.recheck(&root).map(|()| device),
        None => crate::backing::raw::open(target, &root, cache).map(Arc::new),
    };
    let device = device.map_err(|error| error.cannot())?;
    cx.keep.put(CLAIM, Arc::clone(&device));
    Ok(device)
}

/// Reads the first `bytes` of the file into the page cache, for at most 5 s.
fn fill_page_cache(file: &TestFile, bytes: u64) {
    let begun = Instant::now();
    let mut chunk = vec![0; CHUNK];
    let mut next = 0;
    while next < bytes && begun.elapsed() < MAX_FILL_TIME {
        match rustix::io::pread(file, &mut chunk, next) {
            // The case itself reports unreadable data.
            Ok(0) | Err(_) => return,
            Ok(moved) => next += moved as u64,
        }
    }
}

/// Drops the file from the page cache, as direct transfers would have to drop pages one by one.
pub(super) fn cool(file: &TestFile) {
    // A read-only file has no dirty data; the advice may be ignored.
    let _ = rustix::fs::fdatasync(file);
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

pub(crate) fn drop_pages(file: &TestFile, from: u64, bytes: u64) {
    let _ = rustix::fs::fadvise(file, from, std::num::NonZeroU64::new(bytes), Advice::DontNeed);
}

fn filled_up(file: &Arc<TestFile>, filling: Filling, noise: &mut TestData) -> Result<u64, CannotMeasure> {
    let filled = fill_within(file, filling, noise)?;
    match file.first_hole() {
        Some(hole) if hole < filled => Err(CannotMeasure::environment(format!(
            "the test file has a hole at offset {hole} although all of it was written, and reads of a hole do not reach the device; use a --dir on another file system"
        ))),
        _ => Ok(filled),
    }
}

/// Returns facts of the test directory. Fails if unusable, or in memory with a direct `cache`.
pub(crate) fn check_test_dir(cx: &Context<'_>, cache: CacheMode) -> Result<DirFacts, CannotMeasure> {
    let facts = check_dir(&cx.options.dir)?;
    match cache {
        CacheMode::Direct if facts.is_in_memory() => Err(in_memory_error(facts.fs_type())),
        _ => Ok(facts.within_memory(cx.machine)),
    }
}

/// Fails if the test directory of `machine` is on a file system in memory.
pub(crate) fn check_not_in_memory(machine: &Machine) -> Result<(), CannotMeasure> {
    let file_system = machine.storage.as_ref().and_then(|storage| storage.file_system.as_ref());
    let in_memory = file_system.filter(|known| known.medium == Medium::Memory);
    in_memory.map_or(Ok(()), |known| Err(in_memory_error(&known.fs_type)))
}

fn in_memory_error(file_system: &str) -> CannotMeasure {
    CannotMeasure::not_here(format!(
        "the test directory is on {file_system}, which is in memory: direct I/O and fdatasync have no effect there; use a --dir on a disk"
    ))
}

/// Returns a warning if the file had a name for a moment, because the file system lacks O_TMPFILE.
pub(crate) fn named_file_warning(file: &TestFile) -> Option<DiskWarning> {
    file.named.then(|| DiskWarning::Named { file_system: file.facts.fs_type().to_owned() })
}

/// Returns a warning if memory may be behind the files: a RAM disk, a loop device on a file in
/// memory, or a file system served by a process or the host.
pub(crate) fn memory_warning(storage: Option<&Storage>) -> Option<DiskWarning> {
    let storage = storage?;
    let is_memory = |disk: &&Disk| matches!(disk.kind, DiskKind::Zram | DiskKind::Ram);
    if let Some(disk) = storage.disks.iter().find(is_memory) {
        let is_compressed = disk.kind == DiskKind::Zram;
        return Some(DiskWarning::InMemory { device: disk.name.clone(), is_compressed });
    }
    if let Some(layer) = storage.layers.iter().find(|layer| layer.medium == Some(Medium::Memory)) {
        return Some(DiskWarning::InMemory { device: layer.name.clone(), is_compressed: false });
    }
    let file_system = storage.file_system.as_ref().filter(|fs| fs.is_served())?;
    Some(DiskWarning::Served { file_system: file_system.fs_type.clone() })
}

/// Returns a warning if a file of `bytes` incompressible bytes occupies less than 90 % of them.
fn space_saved_warning(file: &TestFile, bytes: u64) -> Option<DiskWarning> {
    let taken = file.space_taken().filter(|taken| (*taken as f64) < WHOLE * bytes as f64)?;
    Some(DiskWarning::SpaceSaved { bytes, taken, file_system: file.facts.fs_type().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::DeviceLayer;
    use plimsoll_machine::fixture::{disk, layer, mounted};

    #[test]
    fn what_may_be_memory_is_named() {
        let behind = |fs_type: &str, kind: Option<DiskKind>| {
            let disks = kind.map(|kind| disk("x", kind, None)).into_iter().collect();
            let file_system = Some(mounted(fs_type));
            memory_warning(Some(&Storage { file_system, disks, ..Storage::default() }))
        };
        for served in ["fuse", "fuse.sshfs", "9p", "virtiofs", "vboxsf"] {
            assert_eq!(behind(served, None), Some(DiskWarning::Served { file_system: served.to_owned() }));
        }
        let memory = |kind| matches!(behind("ext4", Some(kind)), Some(DiskWarning::InMemory { .. }));
        assert!(memory(DiskKind::Zram) && memory(DiskKind::Ram) && !memory(DiskKind::Nvme));
        assert_eq!(behind("fuseblk", Some(DiskKind::Nvme)), None, "ntfs-3g is on a disk");
        assert_eq!(behind("overlay", None), None);
        assert_eq!(memory_warning(None), None);
        let on = |medium| {
            let layer = DeviceLayer { medium, ..layer("loop0", DiskKind::Loop) };
            memory_warning(Some(&Storage { layers: vec![layer], ..Storage::default() }))
        };
        assert!(matches!(on(Some(Medium::Memory)), Some(DiskWarning::InMemory { .. })));
        assert_eq!((on(None), on(Some(Medium::Network))), (None, None));
    }
}
