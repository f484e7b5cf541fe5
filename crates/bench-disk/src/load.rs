//! The measured loop: keeps transfers in flight and counts completions. Intervals are contiguous,
//! from completion to completion: on a device that works in bursts, intervals with a fresh start
//! would all contain a burst at their start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evidence::SuspectSector;
use settle::{Slot, Whole};

use crate::backing::TestFile;
use crate::engine::Engine;
use plimsoll_metal::clock::thread_cpu_time;
use plimsoll_metal::uring::{Request, RequestKind, WaitEnd};
use plimsoll_model::job::disk::{DiskOperation, Flush, SyncCall};

mod checked;
mod data;
mod driver;
mod evidence;
mod fault;
mod ledger;
mod pattern;
mod schedule;
mod settle;
mod source;
mod tally;
mod threads;

pub(crate) use data::{SECTOR_BYTES, Seal, SectorError, TestData, WrongSector};
pub(crate) use driver::{DriverCommand, DriverError};
pub(crate) use fault::{FaultCause, LoadError, remaining_request};
pub(crate) use ledger::Ledger;
pub(crate) use pattern::{BlockWalk, WalkExtent, derive};
pub(crate) use schedule::StartSchedule;
pub(crate) use source::TransferSource;
pub(crate) use tally::TransferTally;
pub(crate) use threads::{Count, DiskThreads};

/// Batches per queue. One leaves the device idle during submission, one per transfer costs a system
/// call each; an eighth of the depth was fastest with the least CPU time on a virtio disk.
const BATCHES: usize = 8;

/// Longest sample in ns; longer ones are cut, so that a slow device does not block a run.
pub(crate) const CAP_NS: u64 = 60_000_000_000;

/// Time before an intended start that is spent polling, in ns: about the wake-up latency.
const AWAKE_NS: u64 = 50_000;

/// Prepares the file for another pass.
pub(crate) type Renew = Box<dyn FnMut() -> Result<(), LoadError> + Send>;

/// Options of a load; by default a closed loop without flushes or checks.
#[derive(Default)]
pub(crate) struct LoadOptions {
    pub(crate) flush: Flush,
    /// Intended starts of an open loop.
    pub(crate) schedule: Option<StartSchedule>,
    /// Prepares the file again, for operations that use it up.
    pub(crate) renew: Option<Renew>,
    /// Expected contents, if every read is verified.
    pub(crate) ledger: Option<Ledger>,
    pub(crate) files: Vec<Arc<TestFile>>,
    /// End of the budget, for additional checks.
    pub(crate) until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Portion {
    /// Least duration in ns; the load stays up.
    Time(u64),
    /// Transfers, for at most `cap_ns` ns; the load ends with them.
    Transfers { transfers: u64, cap_ns: u64 },
}

/// A load of transfers from one source. Errors contain the first failed transfer with its offset.
pub(crate) trait DiskLoad {
    /// Limits the transfers in flight to `limit`, from 1 to the engine's queue depth.
    fn set_limit(&mut self, limit: usize);

    /// Runs `portion` and returns its counts. [`Portion::Time`]: since the last call or, if the
    /// load was down, since the queue was full; the load stays up. [`Portion::Transfers`]: from the
    /// first start to the last completion. `next` is cleared and takes the later counts.
    fn count(&mut self, portion: Portion, next: TransferTally) -> Result<TransferTally, LoadError>;

    /// If the load is up, runs it to its next completion, so that no gap is between two counts.
    fn keep_up(&mut self) -> Result<(), LoadError>;

    /// Returns the ns since the last [`DiskLoad::count`] ended; `None` if the load is not running.
    fn unasked_ns(&self) -> Option<u64>;

    /// Ends the load: waits for all transfers in flight and discards their counts.
    fn stop(&mut self) -> Result<(), LoadError>;

    /// Verifies the data of the last transfer of each slot or, with a [`Ledger`] (versions of all
    /// blocks), of every block. Fails at the first sector with wrong data.
    fn verify(&mut self) -> Result<(), LoadError>;
}

/// Any engine. Its load has no dynamic dispatch, which adds 6 ns per transfer.
pub(crate) trait AnyEngine: Engine {
    /// Creates a load, not yet started, of transfers from `source`. `noise` makes the data of
    /// writes, `manner` has flushes, schedule and checks, `tally` takes the first counts.
    fn into_load(
        self: Box<Self>,
        source: TransferSource,
        noise: TestData,
        manner: LoadOptions,
        tally: TransferTally,
    ) -> Box<dyn DiskLoad>;
}

impl<E: Engine + 'static> AnyEngine for E {
    fn into_load(
        self: Box<Self>,
        source: TransferSource,
        noise: TestData,
        manner: LoadOptions,
        tally: TransferTally,
    ) -> Box<dyn DiskLoad> {
        Box::new(Loop::new(*self, source, noise, manner, tally))
    }
}

struct Loop<E> {
    engine: E,
    source: TransferSource,
    noise: TestData,
    manner: LoadOptions,
    /// Whether a transfer is a read and a write.
    halves: bool,
    limit: usize,
    batch: usize,
    slots: Vec<Slot>,
    idle: Vec<usize>,
    in_flight: usize,
    /// Rest of partly completed transfers.
    again: Vec<Request>,
    unflushed: u64,
    tally: TransferTally,
    /// Whether the load is up and the tally counts since its `from_ns`.
    up: bool,
    suspect: Option<SuspectSector>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TallyMode {
    Yes,
    No,
}

impl<E: Engine> DiskLoad for Loop<E> {
    fn set_limit(&mut self, limit: usize) {
        self.limit = limit.clamp(1, self.slots.len());
        self.batch = (self.limit / BATCHES).max(1);
    }

    fn count(&mut self, portion: Portion, next: TransferTally) -> Result<TransferTally, LoadError> {
        let counted = match portion {
            Portion::Time(ns) => self.count_interval(ns, next),
            Portion::Transfers { transfers, cap_ns } => self.count_amount(transfers, cap_ns, next),
        };
        self.examined(counted)
    }

    fn keep_up(&mut self) -> Result<(), LoadError> {
        let kept = if self.up { self.step(TallyMode::Yes).map(|_| ()) } else { Ok(()) };
        self.examined(kept)
    }

    fn unasked_ns(&self) -> Option<u64> {
        self.up.then(|| self.engine.now_ns().saturating_sub(self.tally.from_ns))
    }

    fn stop(&mut self) -> Result<(), LoadError> {
        let stopped = self.end();
        self.examined(stopped)
    }

    fn verify(&mut self) -> Result<(), LoadError> {
        let verified = self.check_data();
        self.examined(verified)
    }
}

impl<E: Engine> Loop<E> {
    fn count_interval(&mut self, ns: u64, next: TransferTally) -> Result<TransferTally, LoadError> {
        if !self.up {
            self.open(ns)?;
        }
        let mut until = self.deadline_ns(ns);
        loop {
            let at_ns = self.step(TallyMode::Yes)?;
            if at_ns < until {
                continue;
            }
            // Later than before if the file was renewed in between.
            until = self.deadline_ns(ns);
            // Fewer transfers than the queue holds are one burst of completions, and no rate.
            let burst = if self.manner.schedule.is_some() { 1 } else { self.limit as u64 };
            let capped = at_ns >= self.deadline_ns(ns.max(CAP_NS)) && self.tally.transfers > 0;
            if at_ns >= until && (self.tally.transfers >= burst || capped) {
                let flushes = matches!(self.manner.flush, Flush::AtEnd { .. });
                let at_ns = if flushes { self.flush()? } else { at_ns };
                return Ok(self.close(at_ns, next));
            }
        }
    }

    fn count_amount(
        &mut self,
        transfers: u64,
        cap_ns: u64,
        next: TransferTally,
    ) -> Result<TransferTally, LoadError> {
        self.end()?;
        self.tally.clear();
        let begun_ns = self.engine.now_ns();
        self.tally.from_ns = begun_ns;
        self.manner.schedule.iter_mut().for_each(|schedule| schedule.begin(begun_ns));
        let mut at_ns = begun_ns;
        while self.tally.transfers < transfers {
            let left = transfers - self.tally.transfers - self.in_flight as u64;
            self.tally.cut = at_ns.saturating_sub(begun_ns) >= cap_ns;
            if self.tally.cut {
                break;
            }
            at_ns = self.step_within(left, TallyMode::Yes)?;
        }
        while self.in_flight > 0 {
            at_ns = self.reap(WaitEnd::Endless, TallyMode::Yes)?.unwrap_or(at_ns);
        }
        if self.manner.flush != Flush::Never && self.unflushed > 0 {
            at_ns = self.flush()?;
        }
        let tally = self.close(at_ns, next);
        self.up = false;
        Ok(tally)
    }

    fn end(&mut self) -> Result<(), LoadError> {
        self.up = false;
        self.drain(TallyMode::No)
    }

    fn new(
        mut engine: E,
        source: TransferSource,
        mut noise: TestData,
        manner: LoadOptions,
        tally: TransferTally,
    ) -> Self {
        let depth = engine.depth();
        for slot in 0..depth {
            if let Some(buffer) = engine.buffer(slot).filter(|_| source.operation.writes()) {
                noise.fill(buffer, 0);
            }
        }
        Loop {
            halves: source.operation == DiskOperation::Copy,
            engine,
            source,
            noise,
            manner,
            limit: depth,
            batch: (depth / BATCHES).max(1),
            slots: vec![Slot::default(); depth],
            idle: (0..depth).rev().collect(),
            in_flight: 0,
            again: Vec::new(),
            unflushed: 0,
            tally,
            up: false,
            suspect: None,
        }
    }

    /// Starts the load and fills the queue; starts the tally after as many completions as the queue
    /// holds, when transfers are at different stages, or at the first completion after `ns` ns.
    fn open(&mut self, ns: u64) -> Result<(), LoadError> {
        let begun = self.engine.now_ns();
        self.tally.clear();
        self.manner.schedule.iter_mut().for_each(|schedule| schedule.begin(begun));
        let wanted = if self.manner.schedule.is_some() { 1 } else { self.limit };
        let mut through = 0;
        loop {
            let at_ns = self.step(TallyMode::No)?;
            through += self.limit.saturating_sub(self.in_flight).max(1);
            if through >= wanted || (through > 0 && at_ns.saturating_sub(begun) >= ns) {
                self.tally.clear();
                (self.tally.from_ns, self.up) = (at_ns, true);
                return Ok(());
            }
        }
    }

    /// Returns the engine's time, ns, when the tally will have lasted `ns` without excluded time.
    fn deadline_ns(&self, ns: u64) -> u64 {
        (self.tally.from_ns + self.tally.excluded_ns).saturating_add(ns)
    }

    fn close(&mut self, at_ns: u64, next: TransferTally) -> TransferTally {
        let mut tally = std::mem::replace(&mut self.tally, next);
        self.tally.clear();
        self.tally.from_ns = at_ns;
        tally.to_ns = at_ns;
        tally.flush_times();
        tally
    }

    /// Starts transfers and waits until some finish (counted if `counting`); returns the completion
    /// time of the last of them, in ns of the engine's clock.
    #[inline(always)]
    fn step(&mut self, counting: TallyMode) -> Result<u64, LoadError> {
        self.step_within(u64::MAX, counting)
    }

    /// Like [`Loop::step`], but starts at most `most` new transfers.
    #[inline(always)]
    fn step_within(&mut self, most: u64, counting: TallyMode) -> Result<u64, LoadError> {
        if let Flush::Every { writes, .. } = self.manner.flush
            && self.unflushed >= writes
        {
            self.drain(counting)?;
            self.flush()?;
        }
        if self.manner.schedule.is_some() {
            return self.step_on_schedule(most, counting);
        }
        self.refill(most)?;
        while self.in_flight > 0 {
            if let Some(at_ns) = self.reap(WaitEnd::Endless, counting)? {
                return Ok(at_ns);
            }
        }
        Ok(self.engine.now_ns())
    }

    /// Starts at most `most` transfers, each when it is due, and waits until some finish (counted
    /// if `counting`); returns the completion time in ns of the engine's clock.
    #[inline(never)]
    fn step_on_schedule(&mut self, mut most: u64, counting: TallyMode) -> Result<u64, LoadError> {
        loop {
            let now = self.engine.now_ns();
            while most > 0 && self.in_flight < self.limit {
                let Some(intended) =
                    self.manner.schedule.as_mut().filter(|s| s.next_ns() <= now).map(StartSchedule::take)
                else {
                    break;
                };
                self.push_next(Some(intended))?;
                most -= 1;
            }
            self.engine.submit()?;
            let due = self.manner.schedule.as_ref().map_or(u64::MAX, StartSchedule::next_ns);
            let full = self.in_flight >= self.limit || most == 0;
            if self.in_flight == 0 && most == 0 {
                return Ok(now);
            }
            if self.in_flight == 0 {
                // Wakes up as punctually as the kernel can.
                let left = due.saturating_sub(AWAKE_NS).saturating_sub(self.engine.now_ns());
                std::thread::sleep(Duration::from_nanos(left));
                continue;
            }
            let patience = match due.saturating_sub(now) {
                _ if full => WaitEnd::Endless,
                near if near <= AWAKE_NS => WaitEnd::Nanoseconds(0),
                far => WaitEnd::Nanoseconds(far - AWAKE_NS),
            };
            if let Some(at_ns) = self.reap(patience, counting)? {
                return Ok(at_ns);
            }
        }
    }

    #[inline]
    fn refill(&mut self, most: u64) -> Result<(), LoadError> {
        let (mut left, mut queued) = (most, 0);
        while left > 0 && self.in_flight < self.limit {
            let renewed = self.push_next(None)?;
            (left, queued) = (left - 1, queued + 1);
            // A pass with fewer blocks than the depth would be renewed endlessly.
            if renewed {
                break;
            }
            if queued == self.batch {
                self.engine.submit()?;
                queued = 0;
            }
        }
        if queued > 0 {
            self.engine.submit()?;
        }
        Ok(())
    }

    /// Queues the next transfer on an idle slot; returns whether the file was prepared for another
    /// pass before. `intended_ns`: scheduled start in ns, in an open loop only.
    #[inline(always)]
    fn push_next(&mut self, intended_ns: Option<u64>) -> Result<bool, LoadError> {
        let next = self.source.draw();
        let renews = next.begins_anew && self.manner.renew.is_some();
        if renews {
            self.renew()?;
        }
        let Some(slot) = self.idle.pop() else { return Ok(renews) };
        if let Some(intended_ns) = intended_ns {
            self.slots[slot].intended_ns = intended_ns;
        }
        self.push(slot, Whole { op: next.op, file: 0, offset: next.offset, len: next.len })?;
        Ok(renews)
    }

    /// Waits for all transfers, then prepares the file for another pass, which the tally excludes.
    #[cold]
    fn renew(&mut self) -> Result<(), LoadError> {
        self.drain(TallyMode::Yes)?;
        let (begun_ns, begun_cpu) = (self.engine.now_ns(), thread_cpu_time());
        self.engine.release_pages();
        if let Some(renew) = &mut self.manner.renew {
            renew()?;
        }
        self.slots.iter_mut().for_each(|slot| slot.finished = false);
        self.tally.excluded_ns += self.engine.now_ns().saturating_sub(begun_ns);
        self.tally.excluded_cpu_ns += thread_cpu_time().saturating_sub(begun_cpu).as_nanos() as u64;
        Ok(())
    }

    #[cold]
    fn drain(&mut self, counting: TallyMode) -> Result<(), LoadError> {
        while self.in_flight > 0 {
            self.reap(WaitEnd::Endless, counting)?;
        }
        Ok(())
    }

    /// Waits for all transfers in flight and syncs the file; returns the engine's time then, ns.
    #[cold]
    fn flush(&mut self) -> Result<u64, LoadError> {
        self.drain(TallyMode::Yes)?;
        self.unflushed = 0;
        let Some(slot) = self.idle.last().copied() else { return Ok(self.engine.now_ns()) };
        let op = match self.manner.flush {
            Flush::Every { call: SyncCall::Sync, .. } | Flush::AtEnd { call: SyncCall::Sync } => {
                RequestKind::Sync
            }
            _ => RequestKind::DataSync,
        };
        self.engine.push(Request { slot, op, file: 0, offset: 0, start: 0, len: 0 })?;
        loop {
            self.engine.wait(WaitEnd::Endless)?;
            let Some(completion) = self.engine.done().first() else { continue };
            remaining_request(completion).map_err(LoadError::Fault)?;
            self.tally.sync.record(completion.completed_ns.saturating_sub(completion.submitted_ns), 1);
            return Ok(self.engine.now_ns());
        }
    }
}

/// Returns the ns from now until `until`, at least 0; `u64::MAX` without a deadline.
pub(crate) fn left_ns(until: Option<Instant>) -> u64 {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    left.map_or(u64::MAX, |left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
