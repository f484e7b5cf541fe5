//! Tags, notes, imports, noise floors and proven CPUs, in one atomically replaced `notes.json`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_compare::Floors;
use plimsoll_system::leftover::Registry;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::RunRemarks;
use super::documents::{open_existing, replace_atomically};
use super::error::StoreError;

const NOTES_FILE: &str = "notes.json";

const MAX_BYTES: u64 = 64 << 20;

const LOCK_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Remarks {
    pub(super) runs: BTreeMap<String, RunRemarks>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) noise: Vec<Floors>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) proven: BTreeMap<String, ProvenCpus>,
}

/// When each CPU of a host last computed all correctly in a gate, in seconds since 1970.
pub type ProvenCpus = BTreeMap<usize, u64>;

impl Remarks {
    /// Reads the remarks below `directory`; empty if missing. Fails if unreadable or damaged.
    pub(super) fn read(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(NOTES_FILE);
        let Some(file) = open_existing(&path)? else { return Ok(Self::default()) };
        let text = plimsoll_units::text::read_small_file(file, MAX_BYTES)
            .map_err(|why| StoreError::Damaged(path.clone(), why))?;
        serde_json::from_str(&text)
            .map_err(|e| StoreError::Damaged(path, plimsoll_units::text::shown(&e.to_string())))
    }

    /// Reads the remarks under a lock, calls `change`, writes them, and returns its result.
    /// Failures leave the file unchanged.
    pub(super) fn change<T>(
        directory: &Path,
        registry: &Registry,
        change: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, StoreError> {
        let path = directory.join(NOTES_FILE);
        let failed = |e: io::Error| StoreError::NotWritable(path.clone(), e);
        let _lock = lock_directory(directory).map_err(failed)?;
        let mut remarks = Self::read(directory)?;
        let result = change(&mut remarks);
        remarks.runs.retain(|_, remark| *remark != RunRemarks::default());
        let text = serde_json::to_vec_pretty(&remarks).map_err(|e| failed(e.into()))?;
        replace_atomically(&path, registry, |mut file| file.write_all(&text)).map_err(failed)?;
        Ok(result)
    }

    pub(super) fn on_run(&self, id: &str) -> RunRemarks {
        self.runs.get(id).cloned().unwrap_or_default()
    }

    pub(super) fn has(&self, id: &str, tag: &str) -> bool {
        self.runs.get(id).is_some_and(|remark| remark.tags.contains(tag))
    }

    pub(super) fn is_imported(&self, id: &str) -> bool {
        self.runs.get(id).is_some_and(|remark| remark.imported)
    }
}

/// Locks `directory` until the returned file is dropped; fails after 10 s. No lock if unsupported.
fn lock_directory(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    let begun = Instant::now();
    while flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        if begun.elapsed() > LOCK_WAIT {
            return Err(io::Error::other("another process has locked it for 10 s"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(file)
}
