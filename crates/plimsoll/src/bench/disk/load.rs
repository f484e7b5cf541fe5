//! The measured loop: a closed loop that keeps a number of transfers in flight, and counts what comes back.

mod checked;

use std::fmt;

use hdrhistogram::Histogram;
use plimsoll_metal::uring::{Completion, Op, Request, RingError, monotonic_ns};
use rustix::io::Errno;
use rustix::time::ClockId;

use super::data::{Noise, Wrong};
use super::engine::Engine;
use super::human;
use super::ledger::Ledger;
use super::pattern::Walk;
use super::target::hint;

/// The longest latency that is told apart, in nanoseconds: one hour.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// Significant digits of the latency histogram.
pub const DIGITS: u8 = 3;

/// Handing over the whole queue at once leaves the device idle meanwhile, one at a time costs a system call each:
/// an eighth of the depth came out at the highest rate with the least CPU time on a virtio disk.
const BATCHES: usize = 8;

/// A transfer that did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What was asked.
    pub request: Request,
    /// What went wrong.
    pub what: What,
}

/// What went wrong with a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It failed.
    Errno(Errno),
    /// It ended early, where no retry can continue.
    Short {
        /// Bytes it moved.
        moved: usize,
    },
}

/// Why the load ended.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A transfer failed.
    #[error("{0}")]
    Fault(Fault),
    /// A sector that was read is not what was written.
    #[error("{0}; the device or its driver loses, changes or misplaces data")]
    Wrong(Wrong),
    /// The engine failed.
    #[error("the I/O engine failed: {0}")]
    Engine(#[from] RingError),
    /// The latency histogram could not be made.
    #[error("no latency histogram: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { op, offset, len, .. } = self.request;
        let op = match op {
            Op::Read => "read",
            Op::Write => "write",
            Op::DataSync => "fdatasync",
        };
        write!(f, "{op} of {} at offset {offset} of the test file ", human(len as u64))?;
        match self.what {
            What::Errno(errno) => write!(f, "failed: {errno}{}", hint(errno)),
            What::Short { moved } => {
                write!(f, "moved only {moved} bytes; the file was cut or the device is failing, see dmesg")
            }
        }
    }
}

/// What was counted.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Finished transfers.
    pub transfers: u64,
    /// Nanoseconds in which they finished.
    pub elapsed_ns: u64,
    /// CPU time of this process in that time, in nanoseconds.
    pub cpu_ns: u64,
    /// From handing over to reaping, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Sum of those, exactly.
    pub latency_ns: u64,
    /// Sum of the times that handing over took.
    pub submit_ns: u64,
}

/// Transfers of one kind and size over one file, as many at a time as the engine holds.
pub struct Load {
    engine: Box<dyn Engine>,
    op: Op,
    block: usize,
    walk: Walk,
    noise: Noise,
    /// What each place can hold, where every read is checked.
    ledger: Option<Ledger>,
    slots: Vec<Slot>,
    /// Slots that no transfer uses.
    idle: Vec<usize>,
    done: Vec<Completion>,
    in_flight: usize,
    tally: Tally,
    /// Since when the tally counts, while the load is kept up.
    opened: Option<Opening>,
}

/// The moment from which on is counted.
#[derive(Debug, Clone, Copy)]
struct Opening {
    at_ns: u64,
    cpu_ns: u64,
}

/// What is known of a slot's transfer.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Where the last whole transfer was.
    at: Option<u64>,
    /// When its first part was handed over, and how long handing over took so far, if it came back short.
    begun: Option<Begun>,
    /// When it began by the ledger's clock.
    entered: u64,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    submitted_ns: u64,
    submit_ns: u64,
}

impl Tally {
    /// Nothing counted yet.
    ///
    /// # Errors
    /// None with its constant bounds; reported all the same.
    pub fn empty() -> Result<Self, LoadError> {
        let latency = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)?;
        Ok(Tally { transfers: 0, elapsed_ns: 0, cpu_ns: 0, latency, latency_ns: 0, submit_ns: 0 })
    }

    /// Forgets what was counted.
    pub fn clear(&mut self) {
        self.latency.reset();
        (self.transfers, self.elapsed_ns, self.cpu_ns, self.latency_ns, self.submit_ns) = (0, 0, 0, 0, 0);
    }

    fn count(&mut self, latency_ns: u64, submit_ns: u64) {
        self.transfers += 1;
        self.latency_ns += latency_ns;
        self.submit_ns += submit_ns;
        self.latency.saturating_record(latency_ns.max(1));
    }

    /// Mean number of transfers in flight: by Little's law the sum of their latencies over the time.
    pub fn depth(&self) -> f64 {
        self.latency_ns as f64 / (self.elapsed_ns.max(1)) as f64
    }
}

/// Whether finished transfers enter the tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    Yes,
    No,
}

impl Load {
    /// A load of `op` on blocks of `block` bytes in the order of `walk`. The buffers of a write are filled here.
    ///
    /// # Errors
    /// No histogram; with its constant bounds that does not happen.
    pub fn new(
        mut engine: Box<dyn Engine>,
        op: Op,
        block: usize,
        walk: Walk,
        mut noise: Noise,
    ) -> Result<Self, LoadError> {
        let depth = engine.depth();
        for slot in 0..depth {
            if let Some(buffer) = engine.buffer(slot).filter(|_| op == Op::Write) {
                noise.fill(buffer, 0);
            }
        }
        Ok(Load {
            engine,
            op,
            block,
            walk,
            noise,
            ledger: None,
            slots: vec![Slot::default(); depth],
            idle: (0..depth).collect(),
            done: Vec::with_capacity(depth),
            in_flight: 0,
            tally: Tally::empty()?,
            opened: None,
        })
    }

    /// Keeps the load up for `ns` nanoseconds at least, and returns what was counted since the last call, or, if the
    /// load was not up, since the queue was full and flowing. `next` is what is counted into from now on.
    ///
    /// An interval goes from one completion to another, and the next begins where it ended: on a device that works
    /// in bursts, intervals that began anew each time would all begin with a burst.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn interval(&mut self, ns: u64, next: Tally) -> Result<Tally, LoadError> {
        let opened = match self.opened {
            Some(opened) => opened,
            None => self.open(ns)?,
        };
        loop {
            let at_ns = self.step(Counting::Yes)?;
            // Fewer transfers than the queue holds would be one burst of completions, and no rate.
            let enough = self.tally.transfers >= self.slots.len() as u64;
            if at_ns.saturating_sub(opened.at_ns) >= ns && enough {
                let closed = Opening { at_ns, cpu_ns: cpu_ns() };
                self.opened = Some(closed);
                return Ok(self.close(opened, closed, next));
            }
        }
    }

    /// Does so many transfers, and counts everything from the first one's start to the last one's end.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn amount(&mut self, transfers: u64, next: Tally) -> Result<Tally, LoadError> {
        self.stop()?;
        self.tally.clear();
        let opened = Opening { at_ns: monotonic_ns(), cpu_ns: cpu_ns() };
        let mut at_ns = opened.at_ns;
        while self.tally.transfers < transfers {
            self.refill(transfers - self.tally.transfers - self.in_flight as u64)?;
            at_ns = self.reap(Counting::Yes)?;
        }
        Ok(self.close(opened, Opening { at_ns, cpu_ns: cpu_ns() }, next))
    }

    /// Keeps the load up between intervals: one completion or more. Does nothing when it is not up.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn keep_up(&mut self) -> Result<(), LoadError> {
        if self.opened.is_some() {
            self.step(Counting::Yes)?;
        }
        Ok(())
    }

    /// For how long the load has been up since the last interval ended, in nanoseconds; `None` when it is not.
    pub fn unasked_ns(&self) -> Option<u64> {
        self.opened.map(|opened| monotonic_ns().saturating_sub(opened.at_ns))
    }

    /// Ends the load: waits for all that is in flight, and forgets what was counted.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn stop(&mut self) -> Result<(), LoadError> {
        self.opened = None;
        while self.in_flight > 0 {
            self.reap(Counting::No)?;
        }
        Ok(())
    }

    /// Fills the queue, and opens the tally once as many transfers as fit are through, so that those under way are at
    /// different stages. On a slow device that must not take longer than the interval.
    fn open(&mut self, ns: u64) -> Result<Opening, LoadError> {
        let begun = monotonic_ns();
        self.tally.clear();
        let mut through = 0;
        loop {
            let at_ns = self.step(Counting::No)?;
            through += self.idle.len();
            if through >= self.slots.len() || (through > 0 && at_ns.saturating_sub(begun) >= ns) {
                return Ok(Opening { at_ns, cpu_ns: cpu_ns() });
            }
        }
    }

    fn close(&mut self, opened: Opening, closed: Opening, next: Tally) -> Tally {
        let mut tally = std::mem::replace(&mut self.tally, next);
        self.tally.clear();
        tally.elapsed_ns = closed.at_ns.saturating_sub(opened.at_ns);
        tally.cpu_ns = closed.cpu_ns.saturating_sub(opened.cpu_ns);
        tally
    }

    /// Fills the queue and waits for a completion. Returns when the last one was reaped.
    fn step(&mut self, counting: Counting) -> Result<u64, LoadError> {
        self.refill(u64::MAX)?;
        self.reap(counting)
    }

    /// Gives every idle slot the next block, at most `most` of them, in batches.
    fn refill(&mut self, most: u64) -> Result<(), LoadError> {
        let batch = (self.slots.len() / BATCHES).max(1);
        let mut queued = 0;
        while queued < most
            && let Some(slot) = self.idle.pop()
        {
            let offset = self.walk.step() * self.block as u64;
            self.push(Request { slot, op: self.op, offset, start: 0, len: self.block })?;
            queued += 1;
            if queued % batch as u64 == 0 {
                self.engine.submit()?;
            }
        }
        self.engine.submit()?;
        Ok(())
    }

    /// Waits for at least one completion and settles all there are. Returns when the last of them was reaped.
    fn reap(&mut self, counting: Counting) -> Result<u64, LoadError> {
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        let waited = self.engine.wait(1, &mut done);
        let mut at = 0;
        let mut settled = waited.map_err(LoadError::from);
        for completion in &done {
            at = at.max(completion.completed_ns);
            self.in_flight -= 1;
            settled = settled.and(self.settle(completion, counting));
        }
        self.done = done;
        settled.map(|()| at)
    }

    fn settle(&mut self, completion: &Completion, counting: Counting) -> Result<(), LoadError> {
        let request = completion.request;
        let slot = &mut self.slots[request.slot];
        let submit_ns = completion.accepted_ns.saturating_sub(completion.submitted_ns);
        let begun =
            slot.begun.take().unwrap_or(Begun { submitted_ns: completion.submitted_ns, submit_ns: 0 });
        let submit_ns = begun.submit_ns + submit_ns;
        match rest(completion).map_err(LoadError::Fault)? {
            Some(rest) => {
                slot.begun = Some(Begun { submit_ns, ..begun });
                self.engine.push(rest)?;
                self.in_flight += 1;
            }
            None => {
                let offset = request.offset - request.start as u64;
                slot.at = Some(offset);
                self.idle.push(request.slot);
                self.check(request.op, request.slot, offset)?;
                if counting == Counting::Yes {
                    self.tally.count(completion.completed_ns.saturating_sub(begun.submitted_ns), submit_ns);
                }
            }
        }
        Ok(())
    }

    /// The offset of a sector among those last transferred that is not what belongs there: reads are checked as
    /// they arrived, writes are read back.
    ///
    /// # Errors
    /// Reading back failed.
    pub fn stranger(&mut self) -> Result<Option<u64>, LoadError> {
        self.stop()?;
        if self.ledger.is_some() {
            return self.reread().map(|()| None);
        }
        let places: Vec<(usize, u64)> =
            self.slots.iter().enumerate().filter_map(|(slot, known)| Some((slot, known.at?))).collect();
        if self.op == Op::Write {
            self.idle.retain(|slot| !places.iter().any(|(written, _)| written == slot));
            for (slot, offset) in &places {
                let len = self.block;
                self.engine.push(Request { slot: *slot, op: Op::Read, offset: *offset, start: 0, len })?;
                self.in_flight += 1;
            }
            self.stop()?;
        }
        for (slot, offset) in places {
            let found = self.engine.buffer(slot).and_then(|buffer| self.noise.stranger(buffer, offset));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// What is left to be done of a transfer after this completion: nothing, itself again after an interruption, or
/// its rest after a short one.
///
/// # Errors
/// It failed, or can go no further.
pub fn rest(completion: &Completion) -> Result<Option<Request>, Fault> {
    let request = completion.request;
    let fault = |what| Err(Fault { request, what });
    match completion.outcome {
        Ok(moved) if moved >= request.len => Ok(None),
        // The end of the file, or a device that takes no more.
        Ok(0) => fault(What::Short { moved: request.start }),
        Ok(moved) => Ok(Some(Request {
            offset: request.offset + moved as u64,
            start: request.start + moved,
            len: request.len - moved,
            ..request
        })),
        Err(Errno::INTR | Errno::AGAIN) if request.op != Op::DataSync => Ok(Some(request)),
        // Direct I/O cannot continue at an odd place.
        Err(Errno::INVAL) if request.start > 0 => fault(What::Short { moved: request.start }),
        Err(errno) => fault(What::Errno(errno)),
    }
}

/// CPU time that this process has used, kernel threads working for its io_uring included, in nanoseconds.
fn cpu_ns() -> u64 {
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
