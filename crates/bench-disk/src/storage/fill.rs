//! Fills the test file before reads: unwritten extents read as zeros without device access.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::backing::{AllocationEffect, TestFile, direct_refused};
use crate::display::human;
use crate::engine::open_on;
use crate::load::{FaultCause, LoadError, TestData, remaining_request};
use plimsoll_metal::block::BlockTraversal;
use plimsoll_metal::ticks::TickClock;
use plimsoll_metal::uring::{Completion, Request, RequestKind, WaitEnd};
use plimsoll_model::job::disk::{CacheMode, DiskEngine};
use plimsoll_model::sample::CannotMeasure;

/// Bytes of a fill write: large enough for any device's full rate.
pub(crate) const CHUNK: usize = 1 << 20;

const FILL_DEPTH: usize = 8;

/// Bytes of the first write, alone in flight, for slow devices.
const FIRST: usize = 64 << 10;

/// Duration of a write below which writes become larger and more.
const QUICK: Duration = Duration::from_millis(20);

/// Duration of a write above which writes become smaller and fewer.
const SLOW_WRITE_TIME: Duration = Duration::from_millis(500);

/// A range to fill, by default without a time limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Filling {
    pub(crate) from: u64,
    /// Bytes; only whole chunks are filled.
    pub(crate) bytes: u64,
    /// Time after which a partial fill of at least a chunk suffices.
    pub(crate) patience: Option<Duration>,
    /// Deadline, however much is filled.
    pub(crate) until: Option<Instant>,
}

/// Fills a range with data of `noise` in whole chunks, as far as its `patience` lasts; truncates
/// the file there and syncs it. Returns the filled bytes. Fails with the first failed write, or at
/// the deadline `until`.
pub(crate) fn fill_within(
    file: &Arc<TestFile>,
    filling: Filling,
    noise: &mut TestData,
) -> Result<u64, CannotMeasure> {
    let Filling { from, bytes, patience, until } = filling;
    let (files, clock) = (std::slice::from_ref(file), TickClock::system());
    let opened = open_on(DiskEngine::PLAIN, files, FILL_DEPTH, CHUNK, BlockTraversal::Sequential, clock);
    let mut opened = opened.map_err(failed)?;
    let engine = opened.engine.as_mut();
    let begun = Instant::now();
    let late = || until.is_some_and(|until| Instant::now() >= until);
    let mut idle: Vec<usize> = (0..engine.depth()).collect();
    let (mut filled, mut in_flight) = (0, 0_usize);
    let mut pace = Pace { piece: FIRST, most: 1, written: 0, synced: 0, sync_after: CHUNK as u64 };
    let mut again = Vec::new();
    let mut cut = false;
    loop {
        let patient = filled == 0 || patience.is_none_or(|patience| begun.elapsed() < patience);
        let more = filled + CHUNK as u64 <= bytes && patient && !late();
        if let Some(slot) = (more && in_flight < pace.most).then(|| idle.pop()).flatten() {
            if let Some(buffer) = engine.buffer(slot) {
                noise.fill(buffer, from + filled);
            }
            engine.push(pace.piece_of(slot, from + filled, 0)).map_err(failed)?;
            engine.submit().map_err(failed)?;
            filled += CHUNK as u64;
            in_flight += 1;
            continue;
        }
        if in_flight == 0 {
            break;
        }
        engine.wait(WaitEnd::Endless).map_err(failed)?;
        for completion in engine.done() {
            in_flight -= 1;
            match settle(file, completion)?.or_else(|| pace.next(completion)) {
                Some(more) => again.push(more),
                None => idle.push(completion.request.slot),
            }
        }
        if late() {
            // The rest of the chunks in flight stays unwritten.
            cut |= !again.is_empty();
            again.clear();
        }
        for more in again.drain(..) {
            engine.push(more).map_err(failed)?;
            in_flight += 1;
        }
        pace.sync(file)?;
    }
    if cut || (late() && filled < bytes - bytes % CHUNK as u64) {
        return Err(CannotMeasure::out_of_time(format!(
            "the budget ended while the test file was being filled ({} of {} were written); use a smaller --size or a larger --budget",
            human(pace.written),
            human(bytes)
        )));
    }
    file.set_len(from + filled)?;
    file.sync()?;
    Ok(filled)
}

/// Adaptive size of writes: devices differ a thousandfold, and the deadline waits for all.
struct Pace {
    piece: usize,
    most: usize,
    written: u64,
    synced: u64,
    /// Bytes between syncs, for writes through the page cache.
    sync_after: u64,
}

impl Pace {
    /// Returns the next write of the chunk at file offset `chunk`, from its byte `start` on.
    fn piece_of(&self, slot: usize, chunk: u64, start: usize) -> Request {
        let len = self.piece.min(CHUNK - start);
        Request { slot, op: RequestKind::Write, file: 0, offset: chunk + start as u64, start, len }
    }

    /// Adapts size and number of writes to `done`'s time; returns its chunk's next write, if any.
    fn next(&mut self, done: &Completion) -> Option<Request> {
        let Request { slot, offset, start, len, .. } = done.request;
        self.written += len as u64;
        let took = Duration::from_nanos(done.completed_ns.saturating_sub(done.submitted_ns));
        match took {
            took if took < QUICK && self.piece < CHUNK => self.piece *= 2,
            took if took < QUICK => self.most = (self.most * 2).min(FILL_DEPTH),
            took if took > SLOW_WRITE_TIME && self.most > 1 => self.most /= 2,
            took if took > SLOW_WRITE_TIME => self.piece = (self.piece / 2).max(FIRST),
            _ => {}
        }
        let end = start + len;
        (end < CHUNK).then(|| self.piece_of(slot, offset - start as u64, end))
    }

    /// Syncs buffered writes after an amount that is adapted so that a sync takes 0.1 to 0.5 s.
    fn sync(&mut self, file: &TestFile) -> Result<(), CannotMeasure> {
        if file.cache == CacheMode::Direct || self.written - self.synced < self.sync_after {
            return Ok(());
        }
        let begun = Instant::now();
        file.sync()?;
        self.synced = self.written;
        self.sync_after = match begun.elapsed() {
            took if took < SLOW_WRITE_TIME / 5 => self.sync_after.saturating_mul(2),
            took if took > SLOW_WRITE_TIME => (self.sync_after / 2).max(FIRST as u64),
            _ => self.sync_after,
        };
        Ok(())
    }
}

fn failed(error: impl Into<LoadError>) -> CannotMeasure {
    CannotMeasure::environment(format!("filling the test file: {}", error.into()))
}

fn settle(file: &TestFile, completion: &Completion) -> Result<Option<Request>, CannotMeasure> {
    remaining_request(completion).map_err(|fault| match fault.what {
        // Some file systems refuse O_DIRECT only at the first transfer.
        FaultCause::Errno(Errno::INVAL) if file.cache == CacheMode::Direct => direct_refused(&file.facts),
        _ => failed(LoadError::Fault(fault)),
    })
}

/// Allocates and fills `bytes`, rounded up to MiB, from `from` on. Fails at the deadline `until`.
pub(crate) fn refill(
    file: &Arc<TestFile>,
    from: u64,
    bytes: u64,
    until: Option<Instant>,
    noise: &mut TestData,
) -> Result<(), CannotMeasure> {
    let whole = bytes.next_multiple_of(CHUNK as u64);
    file.allocate(from + whole, AllocationEffect::Moves)?;
    fill_within(file, Filling { from, bytes: whole, until, ..Filling::default() }, noise).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::backing::fixture::{opened_again, test_file};

    fn of(bytes: u64) -> Filling {
        Filling { bytes, ..Filling::default() }
    }

    #[test]
    fn every_sector_of_a_filled_file_carries_its_address_and_the_file_ends_there() {
        let asked = 5 * CHUNK as u64 + 4096;
        let (file, _dir) = test_file(asked);
        let mut noise = TestData::new(9, "fill");
        let filled = fill_within(&file, of(asked), &mut noise).expect("fill");
        assert_eq!(filled, 5 * CHUNK as u64);
        let plain = opened_again(&file);
        assert_eq!(plain.metadata().expect("stat").len(), filled);
        let mut bytes = vec![0; filled as usize];
        plain.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(noise.first_misplaced(&bytes, 0), None);
    }

    #[test]
    fn when_the_time_is_over_it_says_so_and_what_was_filled_in_time_counts() {
        let (file, _dir) = test_file(0);
        let mut noise = TestData::new(9, "fill");
        let until = |chunks: u64, until| Filling { until: Some(until), ..of(chunks * CHUNK as u64) };
        let late = fill_within(&file, until(64, Instant::now()), &mut noise).expect_err("late").to_string();
        let holds = late.starts_with("the budget ended while the test file was being filled (0 B of 64 MiB ");
        assert!(holds, "{late}");
        assert!(late.ends_with("; use a smaller --size or a larger --budget"), "{late}");
        let tomorrow = Instant::now() + Duration::from_secs(86_400);
        assert_eq!(fill_within(&file, until(3, tomorrow), &mut noise).expect("fill"), 3 * CHUNK as u64);
    }

    #[test]
    fn a_part_of_a_file_is_filled_where_it_is() {
        let (file, _dir) = test_file(0);
        let mut noise = TestData::new(9, "fill");
        fill_within(&file, of(2 * CHUNK as u64), &mut noise).expect("fill");
        let part = Filling { from: 2 * CHUNK as u64, ..of(3 * CHUNK as u64) };
        let filled = fill_within(&file, part, &mut TestData::new(9, "lent")).expect("fill");
        assert_eq!(filled, 3 * CHUNK as u64);
        let mut bytes = vec![0; 5 * CHUNK];
        opened_again(&file).read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(noise.first_misplaced(&bytes, 0), None);
    }

    #[test]
    fn without_patience_one_chunk_is_filled_and_without_room_none() {
        let (file, _dir) = test_file(0);
        let mut noise = TestData::new(9, "fill");
        let impatient = Filling { patience: Some(Duration::ZERO), ..of(64 << 20) };
        assert_eq!(fill_within(&file, impatient, &mut noise).expect("fill"), CHUNK as u64);
        assert_eq!(fill_within(&file, of(CHUNK as u64 - 1), &mut noise).expect("fill"), 0);
    }
}
