//! The threads of a case: each has a load of its own; what they count is put together here.

use plimsoll_metal::usage::usage;

use crate::load::driver::{About, Driver, DriverError, Portion};
use crate::load::{Directions, Load, LoadError, Tally, cpu_of_this_process_ns, cpu_of_this_thread_ns};

/// What all threads counted together.
#[derive(Debug)]
pub(crate) struct Count<'a> {
    /// Their sum.
    pub(crate) tally: &'a Tally,
    /// Seconds of the longest.
    pub(crate) elapsed: f64,
    /// Seconds of all, added up.
    pub(crate) thread_seconds: f64,
    /// Transfers a second.
    pub(crate) rate: f64,
    /// Bytes a second; of a copy, bytes copied.
    pub(crate) throughput: f64,
    /// Bytes read and written a second.
    pub(crate) traffic: [f64; 2],
    /// Mean number of transfers in flight: by Little's law the sum of their times over the time.
    pub(crate) depth: f64,
    /// CPU time of all of the load's threads, the kernel's for its io_uring included, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Context switches.
    pub(crate) switches: u64,
}

/// What the process had used at some moment.
#[derive(Debug, Clone, Copy)]
struct Used {
    load_cpu_ns: u64,
    switches: u64,
}

impl Used {
    /// What this thread used is not the load's.
    fn now() -> Self {
        let usage = usage();
        Used {
            load_cpu_ns: cpu_of_this_process_ns().saturating_sub(cpu_of_this_thread_ns()),
            switches: usage.voluntary_switches + usage.involuntary_switches,
        }
    }
}

/// The threads of a case. Dropping it ends them.
pub(crate) struct Threads {
    drivers: Vec<Driver>,
    total: Tally,
    /// Until when what was used has been reported; `None` while the load is not up.
    reported: Option<Used>,
}

impl Threads {
    /// Starts a thread for each of `makes`, and tells what the first load turned out to be: all are alike.
    pub(crate) fn start<F>(
        directions: Directions,
        makes: impl IntoIterator<Item = F>,
    ) -> Result<(Threads, About), DriverError>
    where
        F: FnOnce() -> Result<(Box<dyn Load>, About), LoadError> + Send + 'static,
    {
        let started: Vec<(Driver, About)> =
            makes.into_iter().map(|make| Driver::start(directions, make)).collect::<Result<_, _>>()?;
        let (drivers, abouts): (Vec<Driver>, Vec<About>) = started.into_iter().unzip();
        // One thread's buffers may be registered while another's hit the limit: the worst is told.
        let worst =
            |about: &About| usize::from(about.fell_back.is_some()) * 2 + usize::from(about.remark.is_some());
        let about = abouts.into_iter().max_by_key(worst).ok_or(DriverError::Ended)?;
        Ok((Threads { drivers, total: Tally::empty(directions), reported: None }, about))
    }

    /// Has each thread count its portion, all at the same time.
    pub(crate) fn count(&mut self, portion: impl Fn(u64) -> Portion) -> Result<Count<'_>, DriverError> {
        let before = self.reported.unwrap_or_else(Used::now);
        let mut fixed = false;
        for (thread, driver) in (0..).zip(&mut self.drivers) {
            let portion = portion(thread);
            fixed |= matches!(portion, Portion::Transfers { .. });
            driver.ask_for(portion);
        }
        self.total.clear();
        self.total.from_ns = u64::MAX;
        let (mut rate, mut throughput, mut depth, mut elapsed) = (0.0, 0.0, 0.0, 0.0_f64);
        let (mut traffic, mut thread_seconds) = ([0.0; 2], 0.0);
        let mut failed = None;
        for driver in &mut self.drivers {
            let tally = match driver.counted() {
                Ok(tally) => tally,
                Err(error) => {
                    failed = failed.or(Some(error));
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
            // What was divided is done when the last thread is done.
            elapsed = self.total.elapsed();
            let over = |n: u64| n as f64 / elapsed;
            (rate, throughput) = (over(self.total.transfers), over(self.total.bytes));
            traffic = [over(self.total.read.bytes), over(self.total.written.bytes)];
            depth = (self.total.submit.sum_ns() + self.total.complete.sum_ns()) as f64 * 1e-9 / elapsed;
        }
        let after = Used::now();
        self.reported = (!fixed).then_some(after);
        let cpu_ns = after.load_cpu_ns.saturating_sub(before.load_cpu_ns);
        Ok(Count {
            elapsed,
            thread_seconds,
            rate,
            throughput,
            traffic,
            depth,
            cpu_ns: cpu_ns.saturating_sub(self.total.aside_cpu_ns),
            switches: after.switches.saturating_sub(before.switches),
            tally: &self.total,
        })
    }

    /// Keeps at most so many transfers of each thread in flight from now on.
    pub(crate) fn set_limit(&mut self, limit: usize) -> Result<(), DriverError> {
        self.reported = None;
        self.drivers.iter_mut().try_for_each(|driver| driver.set_limit(limit))
    }

    /// Ends the load until it is asked for again.
    pub(crate) fn stop(&mut self) -> Result<(), DriverError> {
        self.reported = None;
        self.drivers.iter_mut().try_for_each(Driver::stop)
    }

    /// Checks the data of all threads.
    pub(crate) fn verify(&mut self) -> Result<(), DriverError> {
        self.drivers.iter_mut().try_for_each(Driver::verify)
    }
}
