//! Filling the test file before anything is read: unwritten extents read as zeros without touching the device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_metal::uring::{Completion, Op, Patience, Request};
use rustix::io::Errno;

use super::data::Noise;
use super::engine::{Kind, open};
use super::load::{Fault, LoadError, What, rest};
use super::target::{Cache, TargetError, TestFile, direct_refused};

/// Bytes of one filling write: large enough for any device's full rate.
pub const CHUNK: usize = 1 << 20;

/// Filling writes in flight.
const DEPTH: usize = 8;

/// Why the file could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The file could not be synced or cut, or refuses direct I/O.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A write failed.
    #[error("filling the test file: {0}")]
    Load(#[from] LoadError),
}

/// Fills the first `bytes` (whole chunks of them), for `patience` at most, cuts the file there, and syncs it.
/// Returns how many bytes are filled: at least one chunk when `bytes` holds one.
///
/// # Errors
/// The first write that failed, with its place.
pub fn fill(
    file: &Arc<TestFile>,
    bytes: u64,
    patience: Duration,
    noise: &mut Noise,
) -> Result<u64, FillError> {
    let mut opened = open(Kind::PLAIN, file, DEPTH, CHUNK).map_err(LoadError::from)?;
    let engine = opened.engine.as_dyn();
    let begun = Instant::now();
    let mut idle: Vec<usize> = (0..engine.depth()).collect();
    let (mut filled, mut in_flight) = (0, 0_usize);
    let mut again = Vec::new();
    loop {
        let more = filled + CHUNK as u64 <= bytes && (filled == 0 || begun.elapsed() < patience);
        if let Some(slot) = more.then(|| idle.pop()).flatten() {
            if let Some(buffer) = engine.buffer(slot) {
                noise.fill(buffer, filled);
            }
            let write = Request { slot, op: Op::Write, file: 0, offset: filled, start: 0, len: CHUNK };
            engine.push(write).and_then(|()| engine.submit()).map_err(LoadError::from)?;
            filled += CHUNK as u64;
            in_flight += 1;
            continue;
        }
        if in_flight == 0 {
            break;
        }
        engine.wait(Patience::Endless).map_err(LoadError::from)?;
        for completion in engine.done() {
            in_flight -= 1;
            match settle(file, completion)? {
                Some(more) => again.push(more),
                None => idle.push(completion.request.slot),
            }
        }
        for more in again.drain(..) {
            engine.push(more).map_err(LoadError::from)?;
            in_flight += 1;
        }
    }
    file.set_len(filled)?;
    file.sync()?;
    Ok(filled)
}

fn settle(file: &TestFile, completion: &Completion) -> Result<Option<Request>, FillError> {
    match rest(completion) {
        // Some file systems let O_DIRECT be opened and refuse it at the first transfer.
        Err(Fault { what: What::Errno(Errno::INVAL), .. }) if file.cache() == Cache::Direct => {
            Err(direct_refused(file.facts()).into())
        }
        Err(fault) => Err(LoadError::Fault(fault).into()),
        Ok(rest) => Ok(rest),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::dir::check_dir;
    use super::super::target::End;
    use super::*;

    #[test]
    fn every_sector_of_a_filled_file_carries_its_address_and_the_file_ends_there() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let facts = check_dir(dir.path()).expect("usable");
        let file = Arc::new(TestFile::create(&facts, Cache::Buffered).expect("create"));
        let asked = 5 * CHUNK as u64 + 4096;
        file.allocate(asked, End::Moves).expect("allocate");
        let mut noise = Noise::new(9, "fill");
        let filled = fill(&file, asked, Duration::MAX, &mut noise).expect("fill");
        assert_eq!(filled, 5 * CHUNK as u64);
        let path =
            format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&*file)));
        let plain = std::fs::File::open(path).expect("open");
        assert_eq!(plain.metadata().expect("stat").len(), filled);
        let mut bytes = vec![0; filled as usize];
        plain.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(noise.stranger(&bytes, 0), None);
    }

    #[test]
    fn without_patience_one_chunk_is_filled_and_without_room_none() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let facts = check_dir(dir.path()).expect("usable");
        let file = Arc::new(TestFile::create(&facts, Cache::Buffered).expect("create"));
        let mut noise = Noise::new(9, "fill");
        assert_eq!(fill(&file, 64 << 20, Duration::ZERO, &mut noise).expect("fill"), CHUNK as u64);
        assert_eq!(fill(&file, CHUNK as u64 - 1, Duration::MAX, &mut noise).expect("fill"), 0);
    }
}
