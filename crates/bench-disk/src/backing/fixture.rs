//! Test files for tests.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use tempfile::TempDir;

use super::{AllocationEffect, TestFile, check_dir};
use crate::engine::{Opened, open_on};
use plimsoll_metal::block::BlockTraversal;
use plimsoll_metal::ticks::TickClock;
use plimsoll_metal::uring::RingError;
use plimsoll_model::job::disk::{CacheMode, DiskEngine};

/// Makes a buffered test file of `bytes` bytes in a directory of its own, which ends with the
/// value.
pub(crate) fn test_file(bytes: u64) -> (Arc<TestFile>, TempDir) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let facts = check_dir(dir.path()).expect("usable");
    let file = TestFile::create(&facts, CacheMode::Buffered).expect("create");
    if bytes > 0 {
        file.allocate(bytes, AllocationEffect::Moves).expect("allocate");
    }
    (Arc::new(file), dir)
}

impl TestFile {
    /// Marks the file as direct, for tests on file systems without O_DIRECT.
    pub(crate) fn verified_direct(mut self) -> Self {
        self.cache = CacheMode::Direct;
        self
    }
}

/// Opens engine `kind` on `file` with `depth` buffers of `block` bytes.
pub(crate) fn open(
    kind: DiskEngine,
    file: &Arc<TestFile>,
    depth: usize,
    block: usize,
) -> Result<Opened, RingError> {
    open_on(kind, std::slice::from_ref(file), depth, block, BlockTraversal::Sequential, TickClock::system())
}

/// Opens the file once more, to read and write it as any program does.
pub(crate) fn opened_again(file: &TestFile) -> File {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    File::options().read(true).write(true).open(path).expect("open")
}
