//! The filled test file that the cases of one run share.

use std::sync::Arc;
use std::time::Duration;

use super::data::Noise;
use super::dir::{DirFacts, Size, check_dir};
use super::fill::{CHUNK, FillError, fill};
use super::target::{Cache, End, TargetError, TestFile};
use crate::bench::Context;
use crate::machine::storage::Medium;
use crate::sample::CannotMeasure;
use crate::warning::Warning;

/// The most that is filled when no size is named. It must outgrow a device's own cache, and be filled in seconds.
pub const MOST: u64 = 1 << 30;

/// With less there is nothing but a device's cache to measure.
pub const LEAST: u64 = 64 << 20;

/// How long filling may take when no size is named.
const PATIENCE: Duration = Duration::from_secs(5);

/// Under which name the file is kept for the next case.
const KEPT: &str = "disk.file";

/// A filled test file.
#[derive(Debug, Clone)]
pub struct Filled {
    /// The file.
    pub file: Arc<TestFile>,
    /// How many bytes of it are filled.
    pub bytes: u64,
    /// Why it is not as large as it could be, and what else must be known.
    pub warnings: Vec<Warning>,
    size: Size,
}

impl Filled {
    /// The file of an earlier case in this worker, or a new one.
    ///
    /// # Errors
    /// Why there is none: `NotHere` where direct I/O is refused or meaningless, `Environment` otherwise.
    pub fn for_case(cx: &Context<'_>, cache: Cache, size: Size) -> Result<Filled, CannotMeasure> {
        // A file of another size goes first: its space may be needed.
        let kept = cx.keep.take::<Filled>(KEPT).filter(|kept| kept.size == size);
        let facts = usable(cx, cache)?;
        let filled = match kept {
            Some(kept) => kept,
            None => Filled::make(&facts, cache, size, &mut Noise::new(cx.options.seed, "fill"))?,
        };
        cx.keep.put(KEPT, filled.clone());
        if filled.file.cache() == cache {
            return Ok(filled);
        }
        let file = filled.file.reopened(cache).map_err(cannot_use)?;
        Ok(Filled { file: Arc::new(file), ..filled })
    }

    fn make(facts: &DirFacts, cache: Cache, size: Size, noise: &mut Noise) -> Result<Filled, CannotMeasure> {
        let wanted = facts.file_size(size).map_err(|e| CannotMeasure::environment(e.to_string()))?;
        let file = match (TestFile::create(facts, Cache::Direct), cache) {
            // Filled past the page cache, a file starts a buffered case cold; without, it does not.
            (Err(TargetError::DirectRefused { .. }), Cache::Buffered) => TestFile::create(facts, cache),
            (made, _) => made,
        };
        let file = Arc::new(file.map_err(cannot_use)?);
        let (bytes, patience) = match size {
            Size::Exactly(_) => (wanted.bytes.next_multiple_of(CHUNK as u64), Duration::MAX),
            Size::Between { .. } => (wanted.bytes, PATIENCE),
        };
        file.allocate(bytes, End::Moves).map_err(cannot_use)?;
        let filled = fill(&file, bytes, patience, noise).map_err(|error| match error {
            FillError::Target(error) => cannot_use(error),
            FillError::Load(_) => CannotMeasure::environment(error.to_string()),
        })?;
        let mut warnings = Vec::new();
        let slow = || format!("{} s of filling gave no more", PATIENCE.as_secs());
        // The last chunk is left out where the space is not a whole number of chunks.
        let why = if filled + CHUNK as u64 <= bytes { Some(slow()) } else { wanted.reduced };
        warnings.extend(why.map(|why| Warning::SmallFile { bytes: filled, why }));
        warnings.extend(named(&file));
        Ok(Filled { file, bytes: filled, warnings, size })
    }
}

/// The directory, if the case makes sense there.
fn usable(cx: &Context<'_>, cache: Cache) -> Result<DirFacts, CannotMeasure> {
    let facts = check_dir(&cx.options.dir).map_err(|e| CannotMeasure::environment(e.to_string()))?;
    match (facts.file_system.medium, cache) {
        (Some(Medium::Memory), Cache::Direct) => Err(in_memory(facts.file_system.name.unwrap_or("memory"))),
        _ => Ok(facts),
    }
}

/// Why a case that means a device is not measured in memory.
pub fn in_memory(file_system: &str) -> CannotMeasure {
    CannotMeasure::not_here(format!(
        "the test directory is on {file_system}, which has no device behind it: O_DIRECT and fdatasync succeed there and mean nothing; name a --dir on a disk"
    ))
}

/// The warning that the file had a name for a moment.
pub fn named(file: &TestFile) -> Option<Warning> {
    file.named.then(|| Warning::Other {
        code: "named-file".to_owned(),
        text: format!(
            "{} has no O_TMPFILE: the test file was made in a private directory and unlinked at once; a kill in that moment leaves plimsoll-* behind",
            file.file_system()
        ),
    })
}

/// What a failure of the test file means for the case.
pub fn cannot_use(error: TargetError) -> CannotMeasure {
    match error {
        TargetError::DirectRefused { .. } => CannotMeasure::not_here(error.to_string()),
        TargetError::Failed { .. } => CannotMeasure::environment(error.to_string()),
    }
}
