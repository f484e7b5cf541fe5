//! Files of a case, filled, and the part of each thread.

use std::sync::Arc;

use crate::backing::{TestFile, check_dir};
use crate::display::human;
use crate::load::{Renew, TestData, WalkExtent};
use crate::storage::file::{FileUse, cool, drop_pages};
use crate::storage::precondition::precondition;
use crate::storage::{CHUNK, Filled, ToolFiles, refill, requested_size};
use crate::warning::DiskWarning;
use plimsoll_bench_api::{Context, RawTarget, RequestedSize};
use plimsoll_model::job::disk::{CacheMode, DiskOperation, DiskTransfers};
use plimsoll_model::sample::{Achieved, CannotMeasure};

pub(crate) struct CaseFiles {
    /// Files per thread; the first is read or written.
    pub(crate) files: Vec<Vec<Arc<TestFile>>>,
    pub(crate) extents: Vec<WalkExtent>,
    pub(crate) warnings: Vec<DiskWarning>,
    pub(crate) place: Achieved,
    /// Whether the expected contents of reads are known.
    pub(crate) known: bool,
    /// Provides files for tools that write; `None` if threads use up their own files.
    pub(crate) tool_files: Option<ToolFiles>,
}

impl CaseFiles {
    pub(crate) fn of(job: &DiskTransfers, cx: &Context<'_>) -> Result<CaseFiles, CannotMeasure> {
        match (&cx.options.target, job.operation) {
            (Some(_), DiskOperation::Append | DiskOperation::Copy) => {
                let why = "--op append and copy are not supported with --target: use --dir";
                return Err(CannotMeasure::not_here(why));
            }
            (Some(target), DiskOperation::Trim) => return CaseFiles::for_device_trims(job, cx, target),
            (None, operation) if operation.uses_up() => return CaseFiles::for_used_up_files(job, cx),
            _ => {}
        }
        let used = if job.verify { FileUse::Sealed } else { FileUse::Shared };
        let filled = Filled::for_case(cx, job.cache, requested_size(job), used)?;
        if job.cache == CacheMode::Cold {
            cool(&filled.file);
        }
        if job.verify && !filled.known {
            let why = "--verify requires --destroy-data-on with --target: it checks what it has written";
            return Err(CannotMeasure::not_here(why));
        }
        let each = bytes_per_thread(job, &filled)?;
        let all = each * job.parts();
        let mut warnings = filled.warnings.clone();
        if job.steady {
            warnings.extend(precondition(job, cx, &filled, all)?);
        }
        let tool_files = (filled.known && !job.verify).then(|| ToolFiles::new(cx, &filled, all));
        let mut files = vec![Arc::clone(&filled.file)];
        if job.operation == DiskOperation::Copy {
            files.push(create_copy_target(cx, job.cache, filled.bytes)?);
        }
        Ok(CaseFiles {
            files: vec![files; job.threads as usize],
            extents: extents(job, each, if job.shared { 0 } else { each }),
            place: filled.storage_facts(cx.machine.storage.as_ref()),
            known: filled.known,
            warnings,
            tool_files,
        })
    }

    /// Fills the device and divides it into a range per thread, to be used up and refilled.
    fn for_device_trims(
        job: &DiskTransfers,
        cx: &Context<'_>,
        target: &RawTarget,
    ) -> Result<CaseFiles, CannotMeasure> {
        crate::storage::trim::check_device(target, &job.blocks)?;
        let filled = Filled::for_case(cx, job.cache, requested_size(job), FileUse::OneCase)?;
        if !filled.known {
            let why = "--op trim requires --destroy-data-on with --target: it destroys data";
            return Err(CannotMeasure::refused(why));
        }
        let part = filled.bytes / job.threads;
        let part = part - part % CHUNK as u64;
        let each = part - part % job.blocks.unit();
        if each < job.blocks.largest() {
            return Err(CannotMeasure::environment(format!(
                "the filled part of the device, {}, is too small: each of {2} threads needs {1}; use a larger --size or fewer --threads",
                human(filled.bytes),
                human(job.blocks.largest().max(CHUNK as u64)),
                job.threads
            )));
        }
        Ok(CaseFiles {
            extents: extents(job, each, part),
            files: vec![vec![Arc::clone(&filled.file)]; job.threads as usize],
            warnings: filled.warnings.clone(),
            place: filled.storage_facts(cx.machine.storage.as_ref()),
            known: true,
            tool_files: None,
        })
    }

    /// Creates a file per thread that operations use up: empty for appends, filled for trims.
    fn for_used_up_files(job: &DiskTransfers, cx: &Context<'_>) -> Result<CaseFiles, CannotMeasure> {
        let facts = check_dir(&cx.options.dir)?.within_memory(cx.machine);
        let wanted = facts.file_size(requested_size(job))?;
        let each = wanted.bytes / job.threads;
        let each = each - each % job.blocks.unit();
        if each < job.blocks.largest() {
            return Err(too_small(job, wanted.bytes));
        }
        let make = |_| TestFile::create(&facts, job.cache).map(|file| vec![Arc::new(file)]);
        let files = (0..job.threads).map(make).collect::<Result<Vec<_>, _>>()?;
        if job.operation == DiskOperation::Trim {
            crate::storage::trim::check_dir_trims(cx)?;
            for (thread, files) in files.iter().enumerate() {
                let mut noise = TestData::new(cx.options.seed, &format!("trim {thread}"));
                refill(&files[0], 0, each, cx.options.until, &mut noise)?;
            }
        }
        let warnings = wanted.reduced.map(|why| DiskWarning::Small { bytes: each * job.threads, why });
        Ok(CaseFiles {
            extents: extents(job, each, 0),
            files,
            warnings: warnings.into_iter().collect(),
            place: Achieved::default(),
            known: true,
            tool_files: None,
        })
    }
}

/// Returns an extent of `bytes` bytes for each thread, each `step` bytes after the one before.
fn extents(job: &DiskTransfers, bytes: u64, step: u64) -> Vec<WalkExtent> {
    let (unit, largest) = (job.unit(), job.blocks.largest());
    (0..job.threads).map(|thread| WalkExtent { start: thread * step, bytes, unit, largest }).collect()
}

/// Returns the bytes of the file per thread, a multiple of the unit of block offsets. Fails if a
/// block does not fit, or is no multiple of the device's sector.
fn bytes_per_thread(job: &DiskTransfers, filled: &Filled) -> Result<u64, CannotMeasure> {
    let sector = filled.file.direct_alignment().map_or(0, u64::from);
    let unit = job.blocks.unit();
    if job.cache == CacheMode::Direct && sector > 0 && !unit.is_multiple_of(sector) {
        return Err(CannotMeasure::not_here(format!(
            "--cache direct requires a --block that is a multiple of {} on this device: {} is not",
            human(sector),
            human(unit)
        )));
    }
    let bytes = match requested_size(job) {
        RequestedSize::Exactly(bytes) => bytes.min(filled.bytes),
        RequestedSize::Between { .. } => filled.bytes,
    };
    let each = bytes / job.parts();
    let each = each - each % job.unit();
    if each < job.blocks.largest() { Err(too_small(job, bytes)) } else { Ok(each) }
}

fn too_small(job: &DiskTransfers, bytes: u64) -> CannotMeasure {
    CannotMeasure::environment(format!(
        "the test file of {} has no room for a block of {} of each of {} threads; use a smaller --block, fewer --threads, or a --dir with more space",
        human(bytes),
        human(job.blocks.largest()),
        job.threads
    ))
}

/// Creates a second file of `bytes` bytes, the destination of a copy, filled with test data.
fn create_copy_target(
    cx: &Context<'_>,
    cache: CacheMode,
    bytes: u64,
) -> Result<Arc<TestFile>, CannotMeasure> {
    let facts = check_dir(&cx.options.dir)?.within_memory(cx.machine);
    facts.file_size(RequestedSize::Exactly(bytes))?;
    let file = Arc::new(TestFile::create(&facts, cache)?);
    refill(&file, 0, bytes, cx.options.until, &mut TestData::new(cx.options.seed, "copy"))?;
    Ok(file)
}

/// Returns a function that renews a thread's file before another pass: truncates it (append),
/// refills `extent` (trim), or drops it from the page cache (cold). `None` for other jobs.
pub(crate) fn renewal(
    job: &DiskTransfers,
    file: &Arc<TestFile>,
    extent: WalkExtent,
    seed: u64,
    thread: usize,
) -> Option<Renew> {
    let file = Arc::clone(file);
    match job.operation {
        DiskOperation::Append => Some(Box::new(move || Ok(file.set_len(0)?))),
        DiskOperation::Trim => {
            let mut noise = TestData::new(seed, &format!("trim {thread} again"));
            Some(Box::new(move || {
                let refilled = refill(&file, extent.start, extent.bytes, None, &mut noise);
                let again = "the test file cannot be filled again: ";
                refilled.map_err(|why| CannotMeasure { reason: format!("{again}{why}"), ..why }.into())
            }))
        }
        _ if job.cache == CacheMode::Cold => Some(Box::new(move || {
            drop_pages(&file, extent.start, extent.bytes);
            Ok(())
        })),
        _ => None,
    }
}
