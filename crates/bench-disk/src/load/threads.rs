//! Threads of a case, each with a load, and the sum of their counts.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::engine::EngineInfo;
use crate::load::driver::{Driver, DriverCommand, DriverError};
use crate::load::{DiskLoad, LoadError, Portion, TransferTally};
use plimsoll_metal::clock::thread_cpu_time;
use plimsoll_metal::usage::usage;

#[derive(Debug)]
pub(crate) struct Count<'a> {
    pub(crate) tally: &'a TransferTally,
    /// Longest duration of a thread, in seconds.
    pub(crate) elapsed: f64,
    /// Sum of the durations, in seconds.
    pub(crate) thread_seconds: f64,
    pub(crate) rate: f64,
    /// Bytes per second; for a copy, bytes copied.
    pub(crate) throughput: f64,
    /// Bytes read and written per second.
    pub(crate) traffic: [f64; 2],
    /// Mean transfers in flight, by Little's law: sum of their times divided by the duration.
    pub(crate) depth: f64,
    /// CPU time of all threads of the load, including io_uring in the kernel, in ns.
    pub(crate) cpu_ns: u64,
    pub(crate) switches: u64,
}

/// Returns the process's CPU time without this thread's, in ns, and the process's context switches.
fn used_so_far() -> [u64; 2] {
    let usage = usage();
    // With the kernel threads of its io_uring.
    let process = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let load_cpu_ns = process.saturating_sub(thread_cpu_time()).as_nanos() as u64;
    [load_cpu_ns, usage.voluntary_switches + usage.involuntary_switches]
}

pub(crate) struct DiskThreads {
    drivers: Vec<Driver>,
    total: TransferTally,
    /// CPU time and context switches reported so far; `None` while the load is not up.
    reported: Option<[u64; 2]>,
}

impl DiskThreads {
    /// Starts a thread per element of `makes`, which creates its load there. Returns the threads
    /// and facts about the worst engine of them, such as a fallback. `total` is an empty tally.
    pub(crate) fn start<F>(
        total: TransferTally,
        makes: impl IntoIterator<Item = F>,
    ) -> Result<(DiskThreads, EngineInfo), DriverError>
    where
        F: FnOnce() -> Result<(Box<dyn DiskLoad>, EngineInfo), LoadError> + Send + 'static,
    {
        let started = makes.into_iter().map(|make| Driver::start(total.clone(), make));
        let (drivers, abouts): (Vec<Driver>, Vec<EngineInfo>) = started.collect::<Result<_, _>>()?;
        // Report the worst: buffers of one thread may be registered, another's not.
        let worst = |about: &EngineInfo| {
            usize::from(about.fell_back.is_some()) * 2 + usize::from(about.remark.is_some())
        };
        let about = abouts.into_iter().max_by_key(worst).ok_or(DriverError::Ended)?;
        Ok((DiskThreads { drivers, total, reported: None }, about))
    }

    /// Measures `portions`, one per thread, at the same time; returns summed counts and rates.
    pub(crate) fn count(&mut self, portions: &[Portion]) -> Result<Count<'_>, DriverError> {
        let before = self.reported.unwrap_or_else(used_so_far);
        let fixed = portions.iter().any(|portion| matches!(portion, Portion::Transfers { .. }));
        self.drivers.iter_mut().zip(portions).for_each(|(driver, portion)| driver.start_count(*portion));
        self.total.clear();
        self.total.from_ns = u64::MAX;
        let (mut rate, mut throughput, mut depth, mut elapsed) = (0.0, 0.0, 0.0, 0.0_f64);
        let (mut traffic, mut thread_seconds) = ([0.0; 2], 0.0);
        let mut failed = None;
        for driver in &mut self.drivers {
            let tally = match driver.wait_count() {
                Ok(tally) => tally,
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
            };
            let seconds = tally.elapsed();
            rate += tally.transfers as f64 / seconds;
            throughput += tally.bytes as f64 / seconds;
            traffic[0] += tally.read.bytes as f64 / seconds;
            traffic[1] += tally.written.bytes as f64 / seconds;
            depth += (tally.submit.sum_ns() + tally.complete.sum_ns()) as f64 * 1e-9 / seconds;
            elapsed = elapsed.max(seconds);
            thread_seconds += seconds;
            self.total.add(tally);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if fixed {
            // A divided amount is done when the last thread is done.
            elapsed = self.total.elapsed();
            let over = |n: u64| n as f64 / elapsed;
            (rate, throughput) = (over(self.total.transfers), over(self.total.bytes));
            traffic = [over(self.total.read.bytes), over(self.total.written.bytes)];
            depth = (self.total.submit.sum_ns() + self.total.complete.sum_ns()) as f64 * 1e-9 / elapsed;
        }
        let after = used_so_far();
        self.reported = (!fixed).then_some(after);
        let [cpu_ns, switches] = [0, 1].map(|at| after[at].saturating_sub(before[at]));
        Ok(Count {
            elapsed,
            thread_seconds,
            rate,
            throughput,
            traffic,
            depth,
            cpu_ns: cpu_ns.saturating_sub(self.total.excluded_cpu_ns),
            switches,
            tally: &self.total,
        })
    }

    /// Has the threads, one after the other, execute `command`, any but that to count; it stops
    /// their loads.
    pub(crate) fn ask(&mut self, command: impl Fn() -> DriverCommand) -> Result<(), DriverError> {
        self.reported = None;
        self.drivers.iter_mut().try_for_each(|driver| driver.ask(command()))
    }
}
