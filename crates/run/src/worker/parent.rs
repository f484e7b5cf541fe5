//! The parent's side: starts workers, sends requests in turn, and survives their death.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, bounded, never, select, unbounded};
use plimsoll_bench::{Candidate, Options, Prepared};
use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::sample::{CannotMeasure, Facts, FailureCause, Offer, Sample, SampleAmount, Writable};
use plimsoll_reference::{PreparedTool, ReferenceTools};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::message::{self, WorkerReply, WorkerRequest};
use crate::{Planned, Station};

/// Time limit in s for a worker to start, prepare, verify or finish.
const PREPARE_SECONDS: f64 = 120.0;

/// Time limit for a dead worker to exit, and for its last output.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Starts a worker per case, or keeps one for a benchmark whose cases share an expensive set-up.
pub struct Workers {
    program: PathBuf,
    machine: Machine,
    options: Options,
    interrupts: Receiver<()>,
    kept: Option<(String, SharedWorker)>,
    /// Reference tools that measure the cases, too; none at first.
    pub reference_tools: Option<ReferenceTools>,
    interrupted: Rc<Cell<bool>>,
}

type SharedWorker = Rc<RefCell<WorkerProcess>>;

impl Workers {
    /// Prepares to start workers as `program worker`; a message on `interrupts` ends a request.
    pub fn new(program: PathBuf, machine: &Machine, options: &Options, interrupts: Receiver<()>) -> Self {
        Self {
            program,
            machine: machine.clone(),
            options: options.clone(),
            interrupts,
            kept: None,
            reference_tools: None,
            interrupted: Rc::default(),
        }
    }

    /// Returns whether an interrupt has ended a case.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    fn worker_for(&mut self, case: &Case) -> Result<SharedWorker, CannotMeasure> {
        let is_usable =
            |(of, worker): &(String, SharedWorker)| of == case.benchmark() && worker.borrow().alive;
        let worker = match self.kept.take().filter(is_usable) {
            Some((_, worker)) => worker,
            None => WorkerProcess::start(self, &self.machine)?,
        };
        if plimsoll_bench::find(case.benchmark()).is_some_and(|b| b.descriptor().shares_worker) {
            self.kept = Some((case.benchmark().to_owned(), Rc::clone(&worker)));
        }
        Ok(worker)
    }
}

impl Station for Workers {
    fn prepare(
        &mut self,
        candidate: &Candidate,
        within: Option<f64>,
        machine: Option<&Machine>,
    ) -> Result<Box<dyn Prepared>, CannotMeasure> {
        if self.was_interrupted() {
            return Err(interrupted());
        }
        let case = &candidate.case;
        let worker = match machine {
            Some(machine) => WorkerProcess::start(self, machine)?,
            None => self.worker_for(case)?,
        };
        let benchmark = plimsoll_bench::find(case.benchmark());
        let within = within.filter(|_| benchmark.is_some_and(|b| b.descriptor().waits_for_a_device));
        Ok(Box::new(Remote::prepare(worker, candidate, machine.unwrap_or(&self.machine), within)?))
    }

    fn reference_seconds(&self, Planned { against, candidate, .. }: &Planned) -> f64 {
        let tools = self.reference_tools.as_ref();
        tools.map_or(0.0, |all| all.selection.seconds(against, &candidate.case, &self.machine))
    }

    fn reference_writes(&self, Planned { against, candidate, .. }: &Planned) -> bool {
        let tools = self.reference_tools.as_ref();
        tools.is_some_and(|all| all.writes_test_file(against, &candidate.case, &self.machine))
    }

    fn prepare_tools(&mut self, planned: &Planned, offer: &Offer) -> Vec<PreparedTool> {
        let Planned { against, candidate, job, .. } = planned;
        let Some(tools) = self.reference_tools.as_mut() else { return Vec::new() };
        let offer = Offer { job: job.clone(), ..offer.clone() };
        tools.prepare_tools(against, &candidate.case, &self.machine, &offer)
    }
}

/// Returns the time limit in s to set up a case, its data written at 10 MB/s (twice if steady).
fn preparing(case: &Case) -> f64 {
    const SLOWEST: f64 = 10e6;
    let times = if case.is_steady() { 2.0 } else { 1.0 };
    PREPARE_SECONDS + case.size().map_or(0.0, |bytes| times * bytes as f64 / SLOWEST)
}

struct Remote {
    worker: SharedWorker,
    offer: Offer,
    /// Time limit of a sample, in multiples of the sample time.
    probes: f64,
    patience: f64,
    /// Time granted to a sample even beyond the budget, in s.
    longest: f64,
    /// Rest of the budget in s, counting only the case's own time, without reference tools.
    left: Option<f64>,
}

/// Time beyond the budget in which a case may end by itself and report the reason.
const BUDGET_GRACE_SECONDS: f64 = 1.0;

impl Remote {
    fn prepare(
        worker: SharedWorker,
        candidate: &Candidate,
        machine: &Machine,
        within: Option<f64>,
    ) -> Result<Self, CannotMeasure> {
        let Candidate { case, parsed, .. } = candidate;
        let (offer, probes, patience) = (Offer::default(), probes(case), preparing(case));
        let mut remote = Self { worker, offer, probes, patience, longest: 0.0, left: within };
        let request = WorkerRequest::Prepare { case: case.clone(), parsed: parsed.clone(), within };
        let WorkerReply::Prepared(offer) = remote.ask(&request, patience, "prepared")? else {
            return Err(CannotMeasure::environment("the worker did not say that the case is ready"));
        };
        remote.offer = offer;
        if remote.offer.cpus.is_empty() {
            remote.offer.cpus = (plimsoll_bench::subsystem_of(case).cpus)(machine, case);
        }
        Ok(remote)
    }

    /// Sends a request and returns the reply. Waits at most `patience` s, and at most until the
    /// budget ends; then the error is "the budget ended while the case was `what`".
    fn ask(
        &mut self,
        request: &WorkerRequest,
        patience: f64,
        what: &str,
    ) -> Result<WorkerReply, CannotMeasure> {
        let begun = Instant::now();
        let left = self.left.map_or(f64::INFINITY, |left| left.max(0.0) + BUDGET_GRACE_SECONDS);
        let answer = self.worker.borrow_mut().ask(request, patience.min(left));
        let took = begun.elapsed().as_secs_f64();
        self.left = self.left.map(|seconds| seconds - took);
        match answer {
            Err(cannot) if cannot.cause == FailureCause::Environment && left < patience && took >= left => {
                Err(CannotMeasure::out_of_time(format!(
                    "the budget ended while the case was {what}; use a smaller --size, --block or --depth, or a larger --budget"
                )))
            }
            answer => answer,
        }
    }
}

/// Returns the time limit of a sample in multiples of the sample time: 64 for a search, else 2.
fn probes(case: &Case) -> f64 {
    const OF_A_SEARCH: f64 = 64.0;
    let searches = plimsoll_bench::find(case.benchmark()).is_some_and(|benchmark| benchmark.searches(case));
    if searches { OF_A_SEARCH } else { 2.0 }
}

impl Prepared for Remote {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let patience = match amount {
            SampleAmount::Seconds(s) => {
                self.longest = self.longest.max(2.0 * self.probes * s);
                PREPARE_SECONDS + self.probes * s
            }
            SampleAmount::Work(_) => f64::INFINITY,
        };
        // The run loop starts the last sample in time, but it may take longer than planned.
        self.left = self.left.map(|left| left.max(self.longest));
        match self.ask(&WorkerRequest::Sample(amount), patience, "measured")? {
            WorkerReply::Sampled(sample) => Ok(*sample),
            _ => Err(CannotMeasure::environment("the worker answered something else than a sample")),
        }
    }

    fn provide_file(&mut self) -> Result<Writable, String> {
        match self.ask(&WorkerRequest::ProvideFile, self.patience, "given a place for tools") {
            Ok(WorkerReply::Provided(place)) => place,
            Ok(_) => Err("the worker did not say where tools may write".to_owned()),
            Err(cannot) => Err(cannot.reason),
        }
    }

    fn pause(&mut self) {
        // A dead worker is noticed at the next sample.
        let _ = self.worker.borrow_mut().ask(&WorkerRequest::Pause, PREPARE_SECONDS);
    }

    fn resume(&mut self) {
        // Data that tools wrote to may have to be filled again.
        let _ = self.ask(&WorkerRequest::Resume, self.patience, "filled anew");
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        match self.worker.borrow_mut().ask(&WorkerRequest::Verify, PREPARE_SECONDS)? {
            WorkerReply::Verified(facts) => Ok(facts),
            _ => Err(CannotMeasure::environment("the worker did not report whether the answer is right")),
        }
    }

    fn offer(&self) -> Offer {
        self.offer.clone()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The last holder's worker is ended by its own drop; a kept one only tears this case down.
        let mut worker = self.worker.borrow_mut();
        if worker.alive && Rc::strong_count(&self.worker) > 1 {
            // A request in flight is waited for; a slower worker is ended.
            let patience =
                self.left.map_or(PREPARE_SECONDS, |left| left.clamp(BUDGET_GRACE_SECONDS, PREPARE_SECONDS));
            let _ = worker.ask(&WorkerRequest::Finish, patience);
        }
    }
}

fn interrupted() -> CannotMeasure {
    CannotMeasure::new(FailureCause::Interrupted, "interrupted")
}

struct WorkerProcess {
    child: Option<Child>,
    stdin: Option<ChildStdin>,
    replies: Receiver<std::io::Result<WorkerReply>>,
    interrupts: Receiver<()>,
    interrupted: Rc<Cell<bool>>,
    last_words: Receiver<String>,
    alive: bool,
}

impl WorkerProcess {
    fn start(workers: &Workers, machine: &Machine) -> Result<SharedWorker, CannotMeasure> {
        let failed = |e: std::io::Error| {
            CannotMeasure::environment(format!("cannot start a worker process: {e}; {}", remedy(&e)))
        };
        // With its own process group, Ctrl-C reaches only the parent, which then decides.
        let mut child = Command::new(&workers.program)
            .arg0("plimsoll")
            .arg("worker")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (sender, replies) = unbounded();
        let stdout = child.stdout.take();
        let (stderr, last_words) = bounded(1);
        if let Some(pipe) = child.stderr.take() {
            named("last words", move || drop(stderr.send(last_line(pipe)))).map_err(failed)?;
        }
        let listen = move || {
            let Some(stdout) = stdout else { return };
            let mut stdout = BufReader::new(stdout);
            while let Some(reply) = message::read(&mut stdout).transpose() {
                let broken = reply.is_err();
                if sender.send(reply).is_err() || broken {
                    return;
                }
            }
        };
        named("replies", listen).map_err(failed)?;
        let (stdin, child) = (child.stdin.take(), Some(child));
        let (interrupts, interrupted) = (workers.interrupts.clone(), Rc::clone(&workers.interrupted));
        let mut worker = Self { child, stdin, replies, interrupts, interrupted, last_words, alive: true };
        let options = workers.options.clone();
        let begin = WorkerRequest::Begin { machine: Box::new(machine.clone()), options };
        worker.ask(&begin, PREPARE_SECONDS)?;
        Ok(Rc::new(RefCell::new(worker)))
    }

    /// Sends a request and returns the reply. Fails after `seconds`.
    fn ask(&mut self, request: &WorkerRequest, seconds: f64) -> Result<WorkerReply, CannotMeasure> {
        let answer = self.ask_once(request, seconds);
        let answered = [FailureCause::NotHere, FailureCause::OutOfTime, FailureCause::Unsafe];
        self.alive &= answer.as_ref().err().is_none_or(|cannot| answered.contains(&cannot.cause));
        answer
    }

    fn ask_once(&mut self, request: &WorkerRequest, seconds: f64) -> Result<WorkerReply, CannotMeasure> {
        let sent = self.stdin.as_mut().map(|pipe| message::write(pipe, request));
        match sent {
            Some(Ok(())) => {}
            // Not the worker's fault: the request cannot be serialized.
            Some(Err(error)) if error.get_ref().is_some() => {
                let why = plimsoll_units::text::shown(&error.to_string());
                let why = format!("the request to the worker cannot be written: {why}");
                return Err(CannotMeasure::environment(why));
            }
            _ => return Err(self.lost()),
        }
        let deadline = Duration::try_from_secs_f64(seconds).map_or_else(|_| never(), after);
        select! {
            recv(self.replies) -> reply => match reply {
                Ok(Ok(WorkerReply::Cannot(cannot))) => Err(cannot),
                Ok(Ok(reply)) => Ok(reply),
                Ok(Err(error)) => {
                    Err(CannotMeasure::environment(format!("the worker process sent an unreadable message: {error}")))
                }
                Err(_) => Err(self.lost()),
            },
            recv(self.interrupts) -> _ => {
                self.interrupted.set(true);
                Err(interrupted())
            }
            recv(deadline) -> _ => Err(CannotMeasure::environment(format!(
                "the worker gave no answer within {seconds:.0} s and was ended; the device may hang, or the amount is too large"
            ))),
        }
    }

    fn lost(&mut self) -> CannotMeasure {
        self.stdin = None;
        let Some(mut child) = self.child.take() else { return CannotMeasure::environment("worker is gone") };
        // The pipe is closed: an exit by itself shows the reason, a kill is ours.
        let by_itself = ends_within(&mut child, LAST_WORDS);
        if !by_itself {
            let _ = child.kill();
        }
        let status = child.wait().ok().filter(|_| by_itself);
        // A process left behind by the worker may hold its standard error open.
        let stderr = self.last_words.recv_timeout(LAST_WORDS).unwrap_or_default();
        let cpu_time = getrlimit(Resource::Cpu);
        let cpu_time = cpu_time.current.into_iter().chain(cpu_time.maximum).min();
        CannotMeasure::environment(describe_worker_end(status, &stderr, cpu_time))
    }
}

fn ends_within(child: &mut Child, patience: Duration) -> bool {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(None) if begun.elapsed() < patience => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => return false,
            _ => return true,
        }
    }
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Returns advice on the limit that prevents a new process, such as "see `ulimit -u`".
fn remedy(error: &std::io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => "see `ulimit -n`",
        Some(Errno::NFILE) => "the system has too many open files",
        Some(Errno::NOMEM) => "see `ulimit -v` and the cgroup's memory limit",
        _ => "see `ulimit -u` and the cgroup's pids limit",
    }
}

/// Describes in one line how a worker ended; `cpu_time` is its limit of CPU time in s, if any.
fn describe_worker_end(status: Option<ExitStatus>, stderr: &str, cpu_time: Option<u64>) -> String {
    let how = match (status.map(|s| (s.signal(), s.code())), cpu_time) {
        (Some((Some(signal @ (9 | 24)), _)), Some(seconds)) => {
            let or = if signal == 9 { "; or memory, see `dmesg`" } else { "" };
            let limit = format!("the CPU time of a process is limited to {seconds} s; raise `ulimit -t`");
            format!("worker killed (signal {signal}: {limit}{or})")
        }
        (Some((Some(signal), _)), _) => {
            let why = match signal {
                9 => ": probably out of memory; see `dmesg` and the cgroup's memory limit",
                4 => ": an instruction that this CPU or hypervisor refuses; try another --isa",
                7 => ": memory or file behind it went away",
                _ => "",
            };
            format!("worker killed (signal {signal}{why})")
        }
        (Some((None, Some(code))), _) => format!("worker ended with code {code}"),
        _ => "worker closed its pipe without ending, and was killed".to_owned(),
    };
    match stderr.trim() {
        "" => how,
        stderr => format!("{how}: {}", plimsoll_units::text::shown(stderr)),
    }
}

fn last_line(pipe: impl Read) -> String {
    let mut last = String::new();
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while let Ok(1..) = reader.by_ref().take(4096).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() && !text.starts_with("note: run with") {
            text.trim().clone_into(&mut last);
        }
        line.clear();
    }
    last
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.stdin = None;
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let (gone, waits) = bounded::<()>(0);
            let reaper = move || {
                let _ = child.wait();
                drop(gone);
            };
            // Memory and files are freed on exit; a process that hangs in the kernel is left alone.
            if named("reaper", reaper).is_ok() {
                let _ = waits.recv_timeout(LAST_WORDS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_cpu_time_is_named_where_it_may_have_ended_a_worker() {
        let stderr = |signal, limit| describe_worker_end(Some(ExitStatus::from_raw(signal)), "", limit);
        assert!(stderr(24, Some(7)).contains("limited to 7 s; raise `ulimit -t`)"));
        let killed = stderr(9, Some(7));
        assert!(killed.contains("`ulimit -t`") && killed.contains("memory"), "{killed}");
        assert!(!stderr(9, None).contains("ulimit"), "{}", stderr(9, None));
        assert!(!stderr(4, Some(7)).contains("ulimit"), "{}", stderr(4, Some(7)));
    }
}
