//! The measured loop: keeps transfers in flight, as many as the queue holds or as a schedule asks for, and counts
//! what comes back.
//!
//! An interval goes from one completion to another, and the next begins where it ended: on a device that works in
//! bursts, intervals that began anew each time would all begin with a burst.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_metal::uring::{Op, Patience, Request};
use rustix::time::ClockId;

use crate::backing::regular_file::TestFile;
use crate::engine::{AnyEngine, Engine, with_engine};
use crate::load::data::Noise;
use crate::load::ledger::Ledger;
use crate::load::source::Source;

mod check;
mod checked;
pub mod data;
pub mod driver;
mod evidence;
mod fault;
pub mod ledger;
mod open;
pub mod pattern;
mod schedule;
mod settle;
pub mod source;
mod tally;
pub(crate) mod threads;

use evidence::Suspect;
pub use fault::{Fault, LoadError, What, rest};
use plimsoll_model::job::disk::{DiskOperation, Flush, SyncCall};
pub use schedule::Schedule;
use settle::{Slot, Whole};
pub use tally::{Directions, Parts, Tally};

/// Handing over the whole queue at once leaves the device idle meanwhile, one at a time costs a system call each:
/// an eighth of the depth came out at the highest rate with the least CPU time on a virtio disk.
const BATCHES: usize = 8;

/// A sample that has not ended after so long is cut: a disk that is slower than anyone thought must not hold a run.
pub const CAP_NS: u64 = 60_000_000_000;

/// The request that flushes.
fn flush_op(flush: Flush) -> Op {
    match flush {
        Flush::Every { call: SyncCall::Sync, .. } | Flush::AtEnd { call: SyncCall::Sync } => Op::Sync,
        _ => Op::DataSync,
    }
}

/// Makes the file ready for another pass, and returns when it is.
pub type Renew = Box<dyn FnMut() -> Result<(), LoadError>>;

/// How a load goes about its transfers.
pub struct Manner {
    /// When data is flushed.
    pub flush: Flush,
    /// Intended starts, under an open loop.
    pub schedule: Option<Schedule>,
    /// For what uses its file up.
    pub renew: Option<Renew>,
    /// What each place can hold, where every read is checked and every write entered.
    pub ledger: Option<Ledger>,
    /// The files, to look again at what is not right.
    pub files: Vec<Arc<TestFile>>,
    /// When the budget ends: what is only checked again ends with it.
    pub until: Option<Instant>,
}

impl Manner {
    /// A closed loop without flushes or checks on a file that lasts.
    pub fn plain() -> Self {
        Manner {
            flush: Flush::Never,
            schedule: None,
            renew: None,
            ledger: None,
            files: Vec::new(),
            until: None,
        }
    }
}

/// Transfers from one source, as many at a time as the engine holds. Where something fails, the error is of the first
/// transfer that failed, with its place.
pub trait Load {
    /// Keeps at most so many transfers in flight from now on (at least 1, at most the engine's depth).
    fn set_limit(&mut self, limit: usize);

    /// Keeps the load up for `ns` nanoseconds at least, and returns what was counted since the last call, or, if the
    /// load was not up, since the queue was full and flowing. `next` is what is counted into from now on.
    ///
    /// # Errors
    /// See [`Load`].
    fn interval(&mut self, ns: u64, next: Tally) -> Result<Tally, LoadError>;

    /// Does so many transfers, and counts everything from the first one's start to the last one's end; for `cap_ns`
    /// nanoseconds at most.
    ///
    /// # Errors
    /// See [`Load`].
    fn amount(&mut self, transfers: u64, cap_ns: u64, next: Tally) -> Result<Tally, LoadError>;

    /// Keeps the load up between intervals: one completion or more. Does nothing when it is not up.
    ///
    /// # Errors
    /// See [`Load`].
    fn keep_up(&mut self) -> Result<(), LoadError>;

    /// For how long the load has been up since the last interval ended, in nanoseconds; `None` when it is not.
    fn unasked_ns(&self) -> Option<u64>;

    /// Ends the load: waits for all that is in flight, and forgets what was counted.
    ///
    /// # Errors
    /// See [`Load`].
    fn stop(&mut self) -> Result<(), LoadError>;

    /// Checks the data of the last transfers, or all of it where a ledger knows it.
    ///
    /// # Errors
    /// A sector is not what belongs there, or reading back failed.
    fn verify(&mut self) -> Result<(), LoadError>;
}

/// A load on that engine. The buffers of writes are filled here.
pub fn on(engine: AnyEngine, source: Source, noise: Noise, manner: Manner, tally: Tally) -> Box<dyn Load> {
    with_engine!(engine, engine => Box::new(Loop::new(engine, source, noise, manner, tally)))
}

/// The loop, made anew for each engine.
struct Loop<E> {
    engine: E,
    source: Source,
    noise: Noise,
    manner: Manner,
    /// A transfer is a read and a write.
    halves: bool,
    /// Most transfers in flight: the engine's depth, or less.
    limit: usize,
    /// How many are handed over together.
    batch: usize,
    slots: Vec<Slot>,
    /// Slots that no transfer uses.
    idle: Vec<usize>,
    in_flight: usize,
    /// What is left of transfers of which a part was done.
    again: Vec<Request>,
    /// Writes since the last flush.
    unflushed: u64,
    tally: Tally,
    /// Whether the load is kept up, and the tally counts since its `from_ns`.
    up: bool,
    /// The first sector that was not what was written.
    suspect: Option<Suspect>,
}

/// Whether finished transfers enter the tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    Yes,
    No,
}

impl<E: Engine> Load for Loop<E> {
    fn set_limit(&mut self, limit: usize) {
        self.limit = limit.clamp(1, self.slots.len());
        self.batch = (self.limit / BATCHES).max(1);
    }

    fn interval(&mut self, ns: u64, next: Tally) -> Result<Tally, LoadError> {
        let counted = self.count_interval(ns, next);
        self.examined(counted)
    }

    fn amount(&mut self, transfers: u64, cap_ns: u64, next: Tally) -> Result<Tally, LoadError> {
        let counted = self.count_amount(transfers, cap_ns, next);
        self.examined(counted)
    }

    fn keep_up(&mut self) -> Result<(), LoadError> {
        let kept = if self.up { self.step(Counting::Yes).map(|_| ()) } else { Ok(()) };
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
    fn count_interval(&mut self, ns: u64, next: Tally) -> Result<Tally, LoadError> {
        if !self.up {
            self.open(ns)?;
        }
        let mut until = self.after(ns);
        loop {
            let at_ns = self.step(Counting::Yes)?;
            if at_ns < until {
                continue;
            }
            // Later than before where the file was begun anew meanwhile.
            until = self.after(ns);
            // Fewer transfers than the queue holds would be one burst of completions, and no rate.
            let burst = if self.manner.schedule.is_some() { 1 } else { self.limit as u64 };
            let capped = at_ns >= self.after(ns.max(CAP_NS)) && self.tally.transfers > 0;
            if at_ns >= until && (self.tally.transfers >= burst || capped) {
                let at_ns =
                    if matches!(self.manner.flush, Flush::AtEnd { .. }) { self.flush()? } else { at_ns };
                return Ok(self.close(at_ns, next));
            }
        }
    }

    fn count_amount(&mut self, transfers: u64, cap_ns: u64, next: Tally) -> Result<Tally, LoadError> {
        self.end()?;
        self.tally.clear();
        let begun_ns = self.engine.now_ns();
        self.tally.from_ns = begun_ns;
        self.begin_schedule(begun_ns);
        let mut at_ns = begun_ns;
        while self.tally.transfers < transfers {
            let left = transfers - self.tally.transfers - self.in_flight as u64;
            self.tally.cut = at_ns.saturating_sub(begun_ns) >= cap_ns;
            if self.tally.cut {
                break;
            }
            at_ns = self.step_within(left, Counting::Yes)?;
        }
        while self.in_flight > 0 {
            at_ns = self.reap(Patience::Endless, Counting::Yes)?.unwrap_or(at_ns);
        }
        if self.manner.flush != Flush::Never && self.unflushed > 0 {
            at_ns = self.flush()?;
        }
        let tally = self.close(at_ns, next);
        self.up = false;
        Ok(tally)
    }

    /// Waits for all that is in flight, and forgets what was counted.
    fn end(&mut self) -> Result<(), LoadError> {
        self.up = false;
        self.drain(Counting::No)
    }

    fn new(mut engine: E, source: Source, mut noise: Noise, manner: Manner, tally: Tally) -> Self {
        let depth = engine.depth();
        for slot in 0..depth {
            if let Some(buffer) = engine.buffer(slot).filter(|_| source.doing().writes()) {
                noise.fill(buffer, 0);
            }
        }
        Loop {
            halves: source.doing() == DiskOperation::Copy,
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

    /// Fills the queue, and opens the tally once as many transfers as fit are through, so that those under way are at
    /// different stages. On a slow device that must not take longer than the interval.
    fn open(&mut self, ns: u64) -> Result<(), LoadError> {
        let begun = self.engine.now_ns();
        self.tally.clear();
        self.begin_schedule(begun);
        let wanted = if self.manner.schedule.is_some() { 1 } else { self.limit };
        let mut through = 0;
        loop {
            let at_ns = self.step(Counting::No)?;
            through += self.limit.saturating_sub(self.in_flight).max(1);
            if through >= wanted || (through > 0 && at_ns.saturating_sub(begun) >= ns) {
                self.tally.clear();
                (self.tally.from_ns, self.up) = (at_ns, true);
                return Ok(());
            }
        }
    }

    /// When the load will have been up for so long since the tally began.
    fn after(&self, ns: u64) -> u64 {
        (self.tally.from_ns + self.tally.aside_ns).saturating_add(ns)
    }

    fn begin_schedule(&mut self, now_ns: u64) {
        if let Some(schedule) = &mut self.manner.schedule {
            schedule.begin(now_ns);
        }
    }

    fn close(&mut self, at_ns: u64, next: Tally) -> Tally {
        let mut tally = std::mem::replace(&mut self.tally, next);
        self.tally.clear();
        self.tally.from_ns = at_ns;
        tally.to_ns = at_ns;
        tally.release();
        tally
    }

    /// Asks for transfers and waits for a completion. Returns when the last one was reaped.
    #[inline(always)]
    fn step(&mut self, counting: Counting) -> Result<u64, LoadError> {
        self.step_within(u64::MAX, counting)
    }

    /// As [`Loop::step`], asking for `most` more at most.
    #[inline(always)]
    fn step_within(&mut self, most: u64, counting: Counting) -> Result<u64, LoadError> {
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
            if let Some(at_ns) = self.reap(Patience::Endless, counting)? {
                return Ok(at_ns);
            }
        }
        Ok(self.engine.now_ns())
    }

    /// Gives idle slots the next blocks, at most `most` of them, in batches.
    #[inline]
    fn refill(&mut self, most: u64) -> Result<(), LoadError> {
        let (mut left, mut queued) = (most, 0);
        while left > 0 && self.in_flight < self.limit {
            let renewed = self.push_next(None)?;
            (left, queued) = (left - 1, queued + 1);
            // A pass with fewer blocks than the depth would be renewed again and again, and no clock be looked at.
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

    /// Queues the next transfer on an idle slot, of which there must be one. Whether another pass began with it.
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

    /// Makes the file ready for another pass. That time is not the load's.
    #[cold]
    fn renew(&mut self) -> Result<(), LoadError> {
        self.drain(Counting::Yes)?;
        let (begun_ns, begun_cpu_ns) = (self.engine.now_ns(), cpu_of_this_thread_ns());
        self.engine.release_pages();
        if let Some(renew) = &mut self.manner.renew {
            renew()?;
        }
        self.slots.iter_mut().for_each(|slot| slot.finished = false);
        self.tally.aside_ns += self.engine.now_ns().saturating_sub(begun_ns);
        self.tally.aside_cpu_ns += cpu_of_this_thread_ns().saturating_sub(begun_cpu_ns);
        Ok(())
    }

    /// Waits for all that is in flight.
    #[cold]
    fn drain(&mut self, counting: Counting) -> Result<(), LoadError> {
        while self.in_flight > 0 {
            self.reap(Patience::Endless, counting)?;
        }
        Ok(())
    }

    /// Waits for all that is in flight, and has it kept for good. Returns when it was.
    #[cold]
    fn flush(&mut self) -> Result<u64, LoadError> {
        self.drain(Counting::Yes)?;
        self.unflushed = 0;
        let Some(slot) = self.idle.last().copied() else { return Ok(self.engine.now_ns()) };
        let op = flush_op(self.manner.flush);
        self.engine.push(Request { slot, op, file: 0, offset: 0, start: 0, len: 0 })?;
        loop {
            self.engine.wait(Patience::Endless)?;
            let Some(completion) = self.engine.done().first() else { continue };
            rest(completion).map_err(LoadError::Fault)?;
            self.tally.sync.record(completion.completed_ns.saturating_sub(completion.submitted_ns), 1);
            return Ok(self.engine.now_ns());
        }
    }
}

/// CPU time that this process has used, kernel threads working for its io_uring included, in nanoseconds.
pub fn cpu_of_this_process_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// CPU time that the calling thread has used, in nanoseconds.
pub fn cpu_of_this_thread_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;
