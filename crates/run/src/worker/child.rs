//! Worker process: prepares and samples cases on request until its standard input ends.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use plimsoll_bench::{Context, Options, Parsed, Prepared, WorkerCache};
use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::sample::{CannotMeasure, Offer};

use super::message::{WorkerReply, WorkerRequest, read, write};

/// Serves one parent until it closes the pipe: reads requests `from` it and writes replies `to` it.
/// Fails if the pipe breaks or a request is invalid.
pub fn serve(mut from: impl BufRead, mut to: impl Write) -> io::Result<()> {
    // The kernel kills this process when its parent dies, and first if memory runs out. Best
    // effort: end of input ends the worker too, and the OOM score needs a writable /proc.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    plimsoll_system::program::take_name();
    let Some(WorkerRequest::Begin { machine, options }) = read(&mut from)? else {
        let why = "the worker got no plan first: start plimsoll itself, not its worker";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    };
    write(&mut to, &WorkerReply::Done)?;
    let mut bench = Workbench { machine: *machine, options, keep: WorkerCache::default(), prepared: None };
    while let Some(request) = read::<WorkerRequest>(&mut from)? {
        write(&mut to, &bench.answer(request).unwrap_or_else(WorkerReply::Cannot))?;
    }
    Ok(())
}

/// Name prefix of the kernel's io_uring workers (io_uring/io-wq.c).
const KERNEL_WORKER: &str = "iou-wrk";

/// Returns how long each thread of this process has waited for a CPU in ns, by thread ID
/// (`schedstat`, second number: the kernel's `Documentation/scheduler/sched-stats.rst`), without
/// the kernel's io_uring workers, which wait for another thread.
fn run_delays() -> HashMap<OsString, u64> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return HashMap::new() };
    let delay = |thread: std::fs::DirEntry| {
        if std::fs::read_to_string(thread.path().join("comm")).ok()?.starts_with(KERNEL_WORKER) {
            return None;
        }
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some((thread.file_name(), stat.split_whitespace().nth(1)?.parse().ok()?))
    };
    threads.filter_map(|thread| delay(thread.ok()?)).collect()
}

/// Returns the share (0 to 1) of the last `elapsed` s for which a thread waited for a CPU, the
/// largest of all threads, given the [`run_delays`] `before`; `None` if unknown.
fn waited(before: &HashMap<OsString, u64>, elapsed: f64) -> Option<f64> {
    let since =
        |(thread, now): (OsString, u64)| now.saturating_sub(before.get(&thread).copied().unwrap_or(0));
    let most = run_delays().into_iter().map(since).max()?;
    (elapsed > 0.0).then(|| (most as f64 * 1e-9 / elapsed).clamp(0.0, 1.0))
}

struct Workbench {
    machine: Machine,
    options: Options,
    keep: WorkerCache,
    prepared: Option<Box<dyn Prepared>>,
}

impl Workbench {
    fn answer(&mut self, request: WorkerRequest) -> Result<WorkerReply, CannotMeasure> {
        match request {
            WorkerRequest::Begin { .. } => return Err(CannotMeasure::environment("'begin' came twice")),
            WorkerRequest::Prepare { case, parsed, within } => {
                let within = within.and_then(|s| Duration::try_from_secs_f64(s).ok());
                self.options.until = within.and_then(|within| Instant::now().checked_add(within));
                return self.prepare(&case, &parsed).map(WorkerReply::Prepared);
            }
            WorkerRequest::ProvideFile => return Ok(WorkerReply::Provided(self.case()?.provide_file())),
            WorkerRequest::Sample(amount) => {
                let before = run_delays();
                let mut sample = self.case()?.sample(amount)?;
                let known = sample.conditions.waited;
                sample.conditions.waited = known.or_else(|| waited(&before, sample.elapsed));
                return Ok(WorkerReply::Sampled(Box::new(sample)));
            }
            WorkerRequest::Verify => return self.case()?.verify().map(WorkerReply::Verified),
            WorkerRequest::Pause => self.case()?.pause(),
            WorkerRequest::Resume => self.case()?.resume(),
            WorkerRequest::Finish => self.prepared = None,
        }
        Ok(WorkerReply::Done)
    }

    fn case(&mut self) -> Result<&mut Box<dyn Prepared>, CannotMeasure> {
        self.prepared.as_mut().ok_or_else(|| CannotMeasure::environment("nothing is prepared"))
    }

    fn prepare(&mut self, case: &Case, parsed: &Parsed) -> Result<Offer, CannotMeasure> {
        self.prepared = None;
        let name = case.benchmark();
        let benchmark = plimsoll_bench::find(name)
            .ok_or_else(|| CannotMeasure::environment(format!("no benchmark '{name}'")))?;
        let cx = Context { machine: &self.machine, options: &self.options, keep: &self.keep };
        let prepared = benchmark.prepare(case, parsed, &cx)?;
        let offer = prepared.offer();
        self.prepared = Some(prepared);
        Ok(offer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_kernels_own_workers_are_not_asked_how_long_they_waited() {
        if run_delays().is_empty() {
            return;
        }
        for (name, asked) in [("iou-wrk-7", false), ("iou-sqp-7", true), ("disk load", true)] {
            let (tell, reported) = channel();
            let (end, ended) = channel::<()>();
            let stand_by = move || {
                let id = rustix::thread::gettid().as_raw_nonzero();
                tell.send(OsString::from(id.to_string())).expect("somebody listens");
                let _ = ended.recv();
            };
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(stand_by).expect("a thread");
            let id = reported.recv().expect("its number");
            assert_eq!(run_delays().contains_key(&id), asked, "{name}");
            drop(end);
            thread.join().expect("it ends");
        }
    }
}
