//! The measured loop: a closed loop that keeps a number of transfers in flight, and counts what comes back.

use std::fmt;

use hdrhistogram::Histogram;
use plimsoll_metal::uring::{Completion, Op, Request, RingError, monotonic_ns};
use rustix::io::Errno;
use rustix::time::ClockId;

use super::data::Noise;
use super::engine::Engine;
use super::human;
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

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// After this many nanoseconds of steady load.
    Elapsed(u64),
    /// After this many transfers, from the first one's start to the last one's end.
    Done(u64),
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
    slots: Vec<Slot>,
    /// Slots that no transfer uses.
    idle: Vec<usize>,
    done: Vec<Completion>,
    in_flight: usize,
    tally: Tally,
}

/// What is known of a slot's transfer.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Where the last whole transfer was.
    at: Option<u64>,
    /// When its first part was handed over, and how long handing over took so far, if it came back short.
    begun: Option<Begun>,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    submitted_ns: u64,
    submit_ns: u64,
}

impl Tally {
    fn empty() -> Result<Self, LoadError> {
        let latency = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)?;
        Ok(Tally { transfers: 0, elapsed_ns: 0, cpu_ns: 0, latency, latency_ns: 0, submit_ns: 0 })
    }

    fn clear(&mut self) {
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
            slots: vec![Slot::default(); depth],
            idle: (0..depth).collect(),
            done: Vec::with_capacity(depth),
            in_flight: 0,
            tally: Tally::empty()?,
        })
    }

    /// The engine at work.
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    /// Runs the load, and returns what was counted.
    ///
    /// # Errors
    /// The first transfer that failed, with its place.
    pub fn run(&mut self, until: Until) -> Result<&Tally, LoadError> {
        self.drain()?;
        self.tally.clear();
        match until {
            Until::Elapsed(ns) => self.run_for(ns)?,
            Until::Done(transfers) => self.run_through(transfers)?,
        }
        Ok(&self.tally)
    }

    /// Counts between two completions with the queue full all the while: neither the start, when nothing can be
    /// finished yet, nor the end, when the queue runs empty, is in the figure.
    fn run_for(&mut self, ns: u64) -> Result<(), LoadError> {
        let begun = monotonic_ns();
        let depth = self.slots.len();
        let mut reaped = 0;
        let opened = loop {
            self.refill(u64::MAX)?;
            let at = self.reap(Counting::No)?;
            reaped += self.idle.len();
            // On a slow device the start must not take longer than the sample.
            if reaped >= depth || (at.saturating_sub(begun) >= ns && reaped > 0) {
                break at;
            }
        };
        let cpu = cpu_ns();
        let closed = loop {
            self.refill(u64::MAX)?;
            let at = self.reap(Counting::Yes)?;
            if at.saturating_sub(opened) >= ns && self.tally.transfers > 0 {
                break at;
            }
        };
        self.tally.cpu_ns = cpu_ns().saturating_sub(cpu);
        self.tally.elapsed_ns = closed.saturating_sub(opened);
        self.drain()
    }

    /// Counts everything from the first transfer's start to the last one's end.
    fn run_through(&mut self, transfers: u64) -> Result<(), LoadError> {
        let (begun, cpu) = (monotonic_ns(), cpu_ns());
        let mut closed = begun;
        while self.tally.transfers < transfers {
            self.refill(transfers - self.tally.transfers - self.in_flight as u64)?;
            closed = self.reap(Counting::Yes)?;
        }
        self.tally.cpu_ns = cpu_ns().saturating_sub(cpu);
        self.tally.elapsed_ns = closed.saturating_sub(begun);
        Ok(())
    }

    /// Gives every idle slot the next block, at most `most` of them, in batches.
    fn refill(&mut self, most: u64) -> Result<(), LoadError> {
        let batch = (self.slots.len() / BATCHES).max(1);
        let mut queued = 0;
        while queued < most
            && let Some(slot) = self.idle.pop()
        {
            let offset = self.walk.step() * self.block as u64;
            if self.op == Op::Write
                && let Some(buffer) = self.engine.buffer(slot)
            {
                self.noise.address(buffer, offset);
            }
            self.engine.push(Request { slot, op: self.op, offset, start: 0, len: self.block })?;
            self.in_flight += 1;
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
                slot.at = Some(request.offset - request.start as u64);
                self.idle.push(request.slot);
                if counting == Counting::Yes {
                    self.tally.count(completion.completed_ns.saturating_sub(begun.submitted_ns), submit_ns);
                }
            }
        }
        Ok(())
    }

    /// Waits for all that is in flight, uncounted.
    fn drain(&mut self) -> Result<(), LoadError> {
        while self.in_flight > 0 {
            self.reap(Counting::No)?;
        }
        Ok(())
    }

    /// The offset of a sector among those last transferred that is not what belongs there: reads are checked as
    /// they arrived, writes are read back.
    ///
    /// # Errors
    /// Reading back failed.
    pub fn stranger(&mut self) -> Result<Option<u64>, LoadError> {
        self.drain()?;
        let places: Vec<(usize, u64)> =
            self.slots.iter().enumerate().filter_map(|(slot, known)| Some((slot, known.at?))).collect();
        if self.op == Op::Write {
            self.idle.retain(|slot| !places.iter().any(|(written, _)| written == slot));
            for (slot, offset) in &places {
                let len = self.block;
                self.engine.push(Request { slot: *slot, op: Op::Read, offset: *offset, start: 0, len })?;
                self.in_flight += 1;
            }
            self.drain()?;
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
pub fn cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(used.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;
