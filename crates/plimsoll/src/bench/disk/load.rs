//! The measured loop: keeps transfers in flight, as many as the queue holds or as a schedule asks for, and counts
//! what comes back.
//!
//! An interval goes from one completion to another, and the next begins where it ended: on a device that works in
//! bursts, intervals that began anew each time would all begin with a burst.

use plimsoll_metal::uring::{Completion, Op, Patience, Request};
use rustix::time::ClockId;

use super::data::Noise;
use super::engine::Engine;
use super::ledger::Ledger;
use super::source::{Doing, Source};

mod check;
mod checked;
mod fault;
mod open;
mod schedule;
mod tally;

pub use fault::{Fault, LoadError, What, rest};
pub use schedule::{Arrivals, Schedule};
pub use tally::{DIGITS, Directions, Parts, Tally, Times};

/// Handing over the whole queue at once leaves the device idle meanwhile, one at a time costs a system call each:
/// an eighth of the depth came out at the highest rate with the least CPU time on a virtio disk.
const BATCHES: usize = 8;

/// A sample that has not ended after so long is cut: a disk that is slower than anyone thought must not hold a run.
pub const CAP_NS: u64 = 60_000_000_000;

/// When data is asked to be kept for good, beside what each write does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Never.
    Never,
    /// After so many writes.
    Every(u64),
    /// At the end of each sample.
    AtEnd,
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
}

impl Manner {
    /// A closed loop without flushes on a file that lasts.
    pub fn plain() -> Self {
        Manner { flush: Flush::Never, schedule: None, renew: None }
    }
}

/// Transfers from one source, as many at a time as the engine holds.
pub struct Load {
    engine: Box<dyn Engine>,
    source: Source,
    noise: Noise,
    /// What each place can hold, where every read is checked.
    ledger: Option<Ledger>,
    manner: Manner,
    /// Most transfers in flight: the engine's depth, or less.
    limit: usize,
    slots: Vec<Slot>,
    /// Slots that no transfer uses.
    idle: Vec<usize>,
    done: Vec<Completion>,
    in_flight: usize,
    /// Writes since the last flush.
    unflushed: u64,
    tally: Tally,
    /// Whether the load is kept up, and the tally counts since its `from_ns`.
    up: bool,
}

/// What is known of a slot's transfer.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Its last whole transfer.
    last: Option<Whole>,
    /// When the transfer under way began, and how long handing over took so far, once part of it is done.
    begun: Option<Begun>,
    /// When it was meant to begin, under an open loop.
    intended_ns: Option<u64>,
    /// When the kernel had the second half of a copy.
    first_half_ns: u64,
    /// When it began by the ledger's clock.
    entered: u64,
}

#[derive(Debug, Clone, Copy)]
struct Whole {
    op: Op,
    file: usize,
    offset: u64,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    submitted_ns: u64,
    submit_ns: u64,
    accepted_ns: u64,
}

/// Whether finished transfers enter the tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    Yes,
    No,
}

impl Load {
    /// A load from `source`. The buffers of writes are filled here.
    pub fn new(
        mut engine: Box<dyn Engine>,
        source: Source,
        mut noise: Noise,
        manner: Manner,
        tally: Tally,
    ) -> Self {
        let depth = engine.depth();
        for slot in 0..depth {
            if let Some(buffer) = engine.buffer(slot).filter(|_| source.doing().writes()) {
                noise.fill(buffer, 0);
            }
        }
        Load {
            engine,
            source,
            noise,
            ledger: None,
            manner,
            limit: depth,
            slots: vec![Slot::default(); depth],
            idle: (0..depth).rev().collect(),
            done: Vec::with_capacity(depth),
            in_flight: 0,
            unflushed: 0,
            tally,
            up: false,
        }
    }

    /// Keeps at most so many transfers in flight from now on (at least 1, at most the engine's depth).
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.clamp(1, self.slots.len());
    }

    /// Keeps the load up for `ns` nanoseconds at least, and returns what was counted since the last call, or, if the
    /// load was not up, since the queue was full and flowing. `next` is what is counted into from now on.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn interval(&mut self, ns: u64, next: Tally) -> Result<Tally, LoadError> {
        if !self.up {
            self.open(ns)?;
        }
        loop {
            let at_ns = self.step(Counting::Yes)?;
            // Fewer transfers than the queue holds would be one burst of completions, and no rate.
            let burst = if self.manner.schedule.is_some() { 1 } else { self.limit as u64 };
            let passed = at_ns.saturating_sub(self.tally.from_ns + self.tally.aside_ns);
            let enough = self.tally.transfers >= burst || (passed >= CAP_NS && self.tally.transfers > 0);
            if passed >= ns && enough {
                let at_ns = if self.manner.flush == Flush::AtEnd { self.flush()? } else { at_ns };
                return Ok(self.close(at_ns, next));
            }
        }
    }

    /// Does so many transfers, and counts everything from the first one's start to the last one's end; for `cap_ns`
    /// nanoseconds at most.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn amount(&mut self, transfers: u64, cap_ns: u64, next: Tally) -> Result<Tally, LoadError> {
        self.stop()?;
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

    /// Keeps the load up between intervals: one completion or more. Does nothing when it is not up.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn keep_up(&mut self) -> Result<(), LoadError> {
        if self.up {
            self.step(Counting::Yes)?;
        }
        Ok(())
    }

    /// For how long the load has been up since the last interval ended, in nanoseconds; `None` when it is not.
    pub fn unasked_ns(&self) -> Option<u64> {
        self.up.then(|| self.engine.now_ns().saturating_sub(self.tally.from_ns))
    }

    /// Ends the load: waits for all that is in flight, and forgets what was counted.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn stop(&mut self) -> Result<(), LoadError> {
        self.up = false;
        self.drain(Counting::No)
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
    fn step(&mut self, counting: Counting) -> Result<u64, LoadError> {
        self.step_within(u64::MAX, counting)
    }

    /// As [`Load::step`], asking for `most` more at most.
    fn step_within(&mut self, most: u64, counting: Counting) -> Result<u64, LoadError> {
        if let Flush::Every(writes) = self.manner.flush
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
    fn refill(&mut self, most: u64) -> Result<(), LoadError> {
        let batch = (self.limit / BATCHES).max(1);
        let mut left = usize::try_from(most).unwrap_or(usize::MAX);
        while left > 0 && self.in_flight < self.limit {
            let together = batch.min(left).min(self.limit - self.in_flight);
            for _ in 0..together {
                self.push_next(None)?;
            }
            self.engine.submit()?;
            left -= together;
        }
        Ok(())
    }

    /// Queues the next transfer on an idle slot, of which there must be one.
    fn push_next(&mut self, intended_ns: Option<u64>) -> Result<(), LoadError> {
        let next = self.source.draw();
        if next.begins_anew && self.source.doing().uses_up() {
            self.renew()?;
        }
        let Some(slot) = self.idle.pop() else { return Ok(()) };
        self.slots[slot].intended_ns = intended_ns;
        self.push(Request { slot, op: next.op, file: 0, offset: next.offset, start: 0, len: next.len })
    }

    /// Makes the file ready for another pass. That time is not the load's.
    fn renew(&mut self) -> Result<(), LoadError> {
        self.drain(Counting::Yes)?;
        let (begun_ns, begun_cpu_ns) = (self.engine.now_ns(), cpu_of_this_thread_ns());
        if let Some(renew) = &mut self.manner.renew {
            renew()?;
        }
        self.slots.iter_mut().for_each(|slot| slot.last = None);
        self.tally.aside_ns += self.engine.now_ns().saturating_sub(begun_ns);
        self.tally.aside_cpu_ns += cpu_of_this_thread_ns().saturating_sub(begun_cpu_ns);
        Ok(())
    }

    /// Waits for all that is in flight.
    fn drain(&mut self, counting: Counting) -> Result<(), LoadError> {
        while self.in_flight > 0 {
            self.reap(Patience::Endless, counting)?;
        }
        Ok(())
    }

    /// Waits for all that is in flight, and has it kept for good. Returns when it was.
    fn flush(&mut self) -> Result<u64, LoadError> {
        self.drain(Counting::Yes)?;
        self.unflushed = 0;
        let Some(slot) = self.idle.last().copied() else { return Ok(self.engine.now_ns()) };
        self.engine.push(Request { slot, op: Op::DataSync, file: 0, offset: 0, start: 0, len: 0 })?;
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        while done.is_empty() {
            self.engine.wait(Patience::Endless, &mut done)?;
        }
        for completion in &done {
            rest(completion).map_err(LoadError::Fault)?;
            self.tally.sync.record(completion.completed_ns.saturating_sub(completion.submitted_ns), 1);
        }
        self.done = done;
        Ok(self.engine.now_ns())
    }

    /// Waits for a completion and settles all there are. Returns when the last of those that finished a transfer was
    /// reaped; `None` when none did.
    fn reap(&mut self, patience: Patience, counting: Counting) -> Result<Option<u64>, LoadError> {
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        let waited = self.engine.wait(patience, &mut done);
        let mut at = None;
        let mut settled = waited.map_err(LoadError::from);
        for completion in &done {
            self.in_flight -= 1;
            match self.settle(completion, counting) {
                Ok(true) => at = at.max(Some(completion.completed_ns)),
                Ok(false) => {}
                Err(error) => settled = settled.and(Err(error)),
            }
        }
        self.done = done;
        settled.map(|()| at)
    }

    /// Goes on with a transfer, or counts it. Returns whether it is finished.
    fn settle(&mut self, completion: &Completion, counting: Counting) -> Result<bool, LoadError> {
        let Request { slot, op, file, offset, start, len } = completion.request;
        let rest = rest(completion).map_err(LoadError::Fault)?;
        let whole = Whole { op, file, offset: offset - start as u64, len: start + len };
        let of_slot = &mut self.slots[slot];
        let handing_ns = completion.accepted_ns.saturating_sub(completion.submitted_ns);
        let begun = match of_slot.begun.take() {
            Some(before) => Begun { submit_ns: before.submit_ns + handing_ns, ..before },
            None => Begun {
                submitted_ns: completion.submitted_ns,
                submit_ns: handing_ns,
                accepted_ns: completion.accepted_ns,
            },
        };
        let more = match rest {
            None if self.source.doing() == Doing::Copy && op == Op::Read => {
                of_slot.first_half_ns = completion.completed_ns;
                let Whole { offset, len, .. } = whole;
                Some(Request { slot, op: self.source.write(), file: 1, offset, start: 0, len })
            }
            rest => rest,
        };
        if let Some(more) = more {
            of_slot.begun = Some(begun);
            self.engine.push(more)?;
            self.in_flight += 1;
            return Ok(false);
        }
        of_slot.last = Some(whole);
        self.unflushed += u64::from(matches!(op, Op::Write | Op::WriteThrough));
        self.idle.push(slot);
        self.check(&whole, slot)?;
        if counting == Counting::Yes {
            self.count(&whole, &begun, completion);
        }
        Ok(true)
    }

    fn count(&mut self, whole: &Whole, begun: &Begun, completion: &Completion) {
        let slot = &mut self.slots[completion.request.slot];
        let from_ns = slot.intended_ns.take().unwrap_or(begun.submitted_ns);
        let latency_ns = completion.completed_ns.saturating_sub(from_ns);
        let tally = &mut self.tally;
        tally.transfers += 1;
        tally.bytes += whole.len as u64;
        let complete_ns = completion.completed_ns.saturating_sub(begun.accepted_ns);
        tally.time(Parts { latency_ns, submit_ns: begun.submit_ns, complete_ns });
        let one_way = |traffic: &mut tally::Traffic, ns| {
            traffic.transfers += 1;
            traffic.bytes += whole.len as u64;
            traffic.latency.iter_mut().for_each(|times| times.record(ns, 1));
        };
        match (whole.op, self.source.doing()) {
            (Op::Read, _) => one_way(&mut tally.read, latency_ns),
            (Op::Write | Op::WriteThrough, Doing::Copy) => {
                let read_ns = slot.first_half_ns.saturating_sub(from_ns);
                one_way(&mut tally.read, read_ns);
                one_way(&mut tally.written, latency_ns.saturating_sub(read_ns));
            }
            (Op::Write | Op::WriteThrough, _) => one_way(&mut tally.written, latency_ns),
            (Op::DataSync | Op::Trim, _) => {}
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
