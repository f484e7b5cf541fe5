//! What is counted: transfers, bytes, and how long each part of a transfer took.

use plimsoll_model::job::disk::DiskOperation;
use plimsoll_stats::Times;

/// What moved in one direction.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// Finished transfers, or halves of a copy.
    pub transfers: u64,
    /// Bytes.
    pub bytes: u64,
    /// From handing over to reaping; kept where there are both directions.
    pub latency: Option<Times>,
}

/// What was counted.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Finished transfers.
    pub transfers: u64,
    /// Bytes that they moved; a copied byte counts once.
    pub bytes: u64,
    /// Monotonic nanoseconds at which counting began and ended.
    pub from_ns: u64,
    /// See `from_ns`.
    pub to_ns: u64,
    /// Of these, nanoseconds in which the load was not up: the file was begun anew.
    pub aside_ns: u64,
    /// CPU time of the thread in those, in nanoseconds.
    pub aside_cpu_ns: u64,
    /// From the start, which under an open loop is the intended one, to reaping.
    pub latency: Times,
    /// The part of it that handing over took.
    pub submit: Times,
    /// The part of it from being accepted by the kernel to reaping.
    pub complete: Times,
    /// Reads among them.
    pub read: Traffic,
    /// Writes among them.
    pub written: Traffic,
    /// Calls of fdatasync(2).
    pub sync: Times,
    /// The time cap ended it before the amount was done.
    pub cut: bool,
    /// The times of the last transfers, and how many had the same ones: what is handed over and reaped together.
    held: Parts,
    run: u32,
}

/// How long a transfer took, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// See [`Tally::latency`].
    pub latency_ns: u64,
    /// See [`Tally::submit`].
    pub submit_ns: u64,
    /// See [`Tally::complete`].
    pub complete_ns: u64,
}

/// Whether reads and writes are timed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// There is only one of them, or a transfer is both.
    Together,
    /// Each has a distribution of its own.
    Apart,
}

impl Directions {
    /// Those of an operation.
    pub fn of(operation: DiskOperation) -> Self {
        match operation {
            DiskOperation::Mixed { .. } | DiskOperation::Copy => Self::Apart,
            _ => Self::Together,
        }
    }
}

impl Tally {
    /// Nothing counted yet.
    pub fn empty(directions: Directions) -> Self {
        let traffic = || Traffic {
            latency: (directions == Directions::Apart).then(Times::default),
            ..Traffic::default()
        };
        Tally {
            transfers: 0,
            bytes: 0,
            from_ns: 0,
            to_ns: 0,
            aside_ns: 0,
            aside_cpu_ns: 0,
            latency: Times::default(),
            submit: Times::default(),
            complete: Times::default(),
            read: traffic(),
            written: traffic(),
            sync: Times::default(),
            cut: false,
            held: Parts::default(),
            run: 0,
        }
    }

    /// Adds the times of one transfer. They are held back until others come or [`Tally::release`].
    pub fn time(&mut self, parts: Parts) {
        if parts != self.held || self.run == u32::MAX {
            self.release();
            self.held = parts;
        }
        self.run += 1;
    }

    /// Puts what is held back into the histograms; whoever reads them has done so before.
    pub fn release(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run > 0 {
            let Parts { latency_ns, submit_ns, complete_ns } = self.held;
            self.latency.record(latency_ns, run);
            self.submit.record(submit_ns, run);
            self.complete.record(complete_ns, run);
        }
    }

    /// Forgets what was counted.
    pub fn clear(&mut self) {
        for times in [&mut self.latency, &mut self.submit, &mut self.complete, &mut self.sync] {
            times.clear();
        }
        for traffic in [&mut self.read, &mut self.written] {
            (traffic.transfers, traffic.bytes) = (0, 0);
            traffic.latency.iter_mut().for_each(Times::clear);
        }
        (self.transfers, self.bytes, self.run, self.cut) = (0, 0, 0, false);
        (self.from_ns, self.to_ns, self.aside_ns, self.aside_cpu_ns) = (0, 0, 0, 0);
    }

    /// Adds the counts of another thread of the same case; the times of beginning and end span both.
    pub fn add(&mut self, other: &Tally) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.aside_cpu_ns += other.aside_cpu_ns;
        self.cut |= other.cut;
        self.latency.add(&other.latency);
        self.submit.add(&other.submit);
        self.complete.add(&other.complete);
        self.sync.add(&other.sync);
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.aside_ns = self.aside_ns.max(other.aside_ns);
        for (mine, theirs) in [(&mut self.read, &other.read), (&mut self.written, &other.written)] {
            mine.transfers += theirs.transfers;
            mine.bytes += theirs.bytes;
            if let (Some(mine), Some(theirs)) = (&mut mine.latency, &theirs.latency) {
                mine.add(theirs);
            }
        }
    }

    /// Seconds in which the load was up.
    pub fn elapsed(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns).saturating_sub(self.aside_ns).max(1) as f64 * 1e-9
    }
}
