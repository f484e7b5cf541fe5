//! Counts of a load: transfers, bytes, and times of their parts.

use plimsoll_model::job::disk::DiskOperation;
use plimsoll_stats::Times;

#[derive(Debug, Clone, Default)]
pub(crate) struct Traffic {
    /// Finished transfers, or halves of a copy.
    pub(crate) transfers: u64,
    pub(crate) bytes: u64,
    /// Latency, if both directions are separate.
    pub(crate) latency: Option<Times>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TransferTally {
    pub(crate) transfers: u64,
    /// Bytes moved; a copied byte counts once.
    pub(crate) bytes: u64,
    /// Monotonic time of start and end, in ns.
    pub(crate) from_ns: u64,
    /// See `from_ns`.
    pub(crate) to_ns: u64,
    /// Excluded ns in between, for renewals of the file.
    pub(crate) excluded_ns: u64,
    /// CPU time of the thread in `excluded_ns`, in ns.
    pub(crate) excluded_cpu_ns: u64,
    /// Latency from the (intended) start to completion.
    pub(crate) latency: Times,
    /// Submission part of the latency.
    pub(crate) submit: Times,
    /// Part of the latency from acceptance by the kernel to completion.
    pub(crate) complete: Times,
    pub(crate) read: Traffic,
    pub(crate) written: Traffic,
    pub(crate) sync: Times,
    /// Whether the time limit ended it before the amount was done.
    pub(crate) cut: bool,
    /// Times of the last transfers, and how many had the same.
    held: Parts,
    run: u32,
}

/// Times of a transfer, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// See [`TransferTally::latency`].
    pub(crate) latency_ns: u64,
    /// See [`TransferTally::submit`].
    pub(crate) submit_ns: u64,
    /// See [`TransferTally::complete`].
    pub(crate) complete_ns: u64,
}

impl TransferTally {
    /// Creates an empty tally, for mixed loads and copies with separate latencies per direction.
    pub(crate) fn of(operation: DiskOperation) -> Self {
        let is_separate = matches!(operation, DiskOperation::Mixed { .. } | DiskOperation::Copy);
        let traffic = || Traffic { latency: is_separate.then(Times::default), ..Traffic::default() };
        TransferTally { read: traffic(), written: traffic(), ..TransferTally::default() }
    }

    /// Adds the times of one transfer; the histograms get them by [`TransferTally::flush_times`].
    pub(crate) fn record_times(&mut self, parts: Parts) {
        if parts != self.held || self.run == u32::MAX {
            self.flush_times();
            self.held = parts;
        }
        self.run += 1;
    }

    /// Moves buffered times to the histograms; required before the histograms are read.
    pub(crate) fn flush_times(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run > 0 {
            let Parts { latency_ns, submit_ns, complete_ns } = self.held;
            self.latency.record(latency_ns, run);
            self.submit.record(submit_ns, run);
            self.complete.record(complete_ns, run);
        }
    }

    pub(crate) fn clear(&mut self) {
        for times in [&mut self.latency, &mut self.submit, &mut self.complete, &mut self.sync] {
            times.clear();
        }
        for traffic in [&mut self.read, &mut self.written] {
            (traffic.transfers, traffic.bytes) = (0, 0);
            traffic.latency.iter_mut().for_each(Times::clear);
        }
        (self.transfers, self.bytes, self.run, self.cut) = (0, 0, 0, false);
        (self.from_ns, self.to_ns, self.excluded_ns, self.excluded_cpu_ns) = (0, 0, 0, 0);
    }

    /// Adds the counts of another thread in the same time; start and end then span both threads.
    pub(crate) fn add(&mut self, other: &TransferTally) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.excluded_cpu_ns += other.excluded_cpu_ns;
        self.cut |= other.cut;
        self.latency.add(&other.latency);
        self.submit.add(&other.submit);
        self.complete.add(&other.complete);
        self.sync.add(&other.sync);
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.excluded_ns = self.excluded_ns.max(other.excluded_ns);
        for (mine, theirs) in [(&mut self.read, &other.read), (&mut self.written, &other.written)] {
            mine.transfers += theirs.transfers;
            mine.bytes += theirs.bytes;
            if let (Some(mine), Some(theirs)) = (&mut mine.latency, &theirs.latency) {
                mine.add(theirs);
            }
        }
    }

    /// Returns the seconds from start to end without the excluded time; at least 1 ns.
    pub(crate) fn elapsed(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns).saturating_sub(self.excluded_ns).max(1) as f64 * 1e-9
    }
}
