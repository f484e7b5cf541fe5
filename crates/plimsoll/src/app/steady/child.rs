//! The observed command: start, signals, end, and the intervals observed until then.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use plimsoll_machine::{Machine, Root};
use plimsoll_metal::signal::is_ignored;
use plimsoll_steady::{CommandInterval, CommandWatch, ExitStatusShown, ObservedRun, SteadyDocument, judge};
use plimsoll_system::wall;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::super::signals::{is_in_foreground, spawn_detached, unwatched};
use super::super::{Failure, code};
use crate::output::complain;

/// Exit codes of env(1) for a command that is not found, and one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// Signal of `--stop` to the observer that `--start` began.
pub(super) const STOP_SIGNAL: Signal = Signal::USR1;
/// Time between two observations.
const PACE: Duration = Duration::from_millis(200);
/// Share of one CPU that the observation may use, with some reserve to 0.5 %.
const OBSERVER_SHARE: f64 = 0.004;
/// Intervals, two hours at first, after which the time between observations doubles.
const MANY_INTERVALS: usize = 36_000;

/// Receiver of the signals to plimsoll, at present.
#[derive(Debug, Default)]
enum SignalTarget {
    #[default]
    Nobody,
    /// A probe or an observer, which ends.
    Waiter(Sender<()>),
    Command(Pid),
}

/// Passes signals on to what runs at present.
#[derive(Clone, Debug, Default)]
pub(super) struct SignalRelay {
    target: Arc<Mutex<SignalTarget>>,
    is_interrupted: Arc<AtomicBool>,
    is_stopped: Arc<AtomicBool>,
    is_continued: Arc<AtomicBool>,
}

impl SignalRelay {
    pub(super) fn start() -> Result<Self, Failure> {
        let relay = Self::default();
        let all = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT];
        let handled = all.into_iter().filter(|signal| !is_ignored(*signal));
        let mut signals = Signals::new(handled).map_err(|e| unwatched(&e))?;
        let own = relay.clone();
        spawn_detached(move || signals.forever().for_each(|signal| own.pass_on(signal)))?;
        Ok(relay)
    }

    fn pass_on(&self, signal: i32) {
        if signal == SIGCONT {
            self.is_continued.store(true, Ordering::Relaxed);
            return;
        }
        if signal == STOP_SIGNAL.as_raw() {
            self.is_stopped.store(true, Ordering::Relaxed);
        } else if !matches!(signal, SIGUSR2 | SIGALRM) {
            self.is_interrupted.store(true, Ordering::Relaxed);
        }
        match &*self.lock() {
            SignalTarget::Waiter(sender) => drop(sender.send(())),
            // The terminal sends its signals to the command, too, if both are in its foreground.
            SignalTarget::Command(_) if matches!(signal, SIGINT | SIGQUIT) && is_in_foreground() => {}
            SignalTarget::Command(pid) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    let _ = kill_process(*pid, signal);
                }
            }
            SignalTarget::Nobody => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, SignalTarget> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, target: SignalTarget) {
        *self.lock() = target;
    }

    /// Returns whether SIGINT, SIGTERM, SIGHUP or SIGQUIT has come since the start.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    /// Returns whether `--stop` ended this observer.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Directs signals to the returned channel from now on; it also gets a message after `most`.
    pub(super) fn signal_or_timeout(&self, most: Duration) -> Receiver<()> {
        let (sender, receiver) = bounded(2);
        self.set(SignalTarget::Waiter(sender.clone()));
        // Without the thread there is no time limit.
        let _ = spawn_detached(move || {
            std::thread::sleep(most);
            let _ = sender.try_send(());
        });
        receiver
    }

    /// Returns whether SIGCONT came since the last call.
    fn take_continued(&self) -> bool {
        self.is_continued.swap(false, Ordering::Relaxed)
    }
}

/// Runs `command`, observes it until it ends, and adds the judged run to `document`. Returns the
/// CPU seconds of observing. The error is an exit code: 127 if not found, 126 if it cannot be
/// started, 130 if a signal came before.
pub(super) fn run(
    command: &[OsString],
    machine: &Machine,
    relay: &SignalRelay,
    document: &mut SteadyDocument,
) -> Result<f64, ExitCode> {
    let Some((program, arguments)) = command.split_first() else { return Err(ExitCode::from(NOT_FOUND)) };
    let mut watch = CommandWatch::new(&Root::live(), &machine.cpu.allowed);
    let (started, start) = (wall::now().to_string(), Instant::now());
    // A signal waits for this lock, so none is lost between the start of the command and its entry.
    let mut target = relay.lock();
    if relay.is_interrupted() {
        return Err(ExitCode::from(code::INTERRUPTED));
    }
    let mut child = Command::new(program).args(arguments).spawn().map_err(|e| {
        complain(&format!("steady: {}: {e}", super::shown(program)));
        ExitCode::from(if e.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
    })?;
    let pid = Pid::from_child(&child);
    *target = SignalTarget::Command(pid);
    drop(target);
    watch.start(child.id());
    let ended = watch_end(pid);
    let _ = relay.take_continued();
    let mut intervals = Vec::new();
    let mut observer = Observer::new(watch, relay);
    let end = observer.observe_until(&ended, |interval| {
        intervals.push(interval);
        true
    });
    relay.set(SignalTarget::Nobody);
    // The process stays a zombie until here, so its ID was not another's.
    let status = child.wait().ok();
    let end = end.unwrap_or_else(Instant::now);
    let ended = match status.and_then(|status| status.signal()) {
        Some(signal) => ExitStatusShown::Signal(signal),
        None => ExitStatusShown::Code(status.and_then(|status| status.code()).unwrap_or(0)),
    };
    let elapsed_s = end.saturating_duration_since(start).as_secs_f64();
    let verdict = judge(&intervals, super::cache(machine));
    document.runs.push(ObservedRun { started, elapsed_s, ended: Some(ended), verdict, intervals });
    let (missing, used) = observer.finish();
    document.missing = missing;
    Ok(used.unwrap_or(0.0))
}

/// Returns a channel that gets the time at which the child `pid` ends. The child is not reaped.
fn watch_end(pid: Pid) -> Receiver<Instant> {
    let (sender, receiver) = bounded(1);
    let wait = move || {
        while let Err(rustix::io::Errno::INTR) =
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        let _ = sender.send(Instant::now());
    };
    // Without the thread the command is not observed.
    let _ = spawn_detached(wait);
    receiver
}

/// Observes processes five times a second, or less often to stay below its share of a CPU.
pub(super) struct Observer<'a> {
    watch: CommandWatch,
    relay: &'a SignalRelay,
    count: usize,
    pace: Duration,
    cpu_before: Option<f64>,
}

impl<'a> Observer<'a> {
    /// Creates an observer; `watch` must already be started for a command or attached to a process.
    pub(super) fn new(watch: CommandWatch, relay: &'a SignalRelay) -> Self {
        let cpu_before = watch.own_cpu_seconds();
        Self { watch, relay, count: 0, pace: PACE, cpu_before }
    }

    /// Calls `add` with each interval, 0.2 s or longer, until a message on `ended`, which is
    /// returned. Returns `None` if `add` returns false or the channel closes.
    pub(super) fn observe_until<T>(
        &mut self,
        ended: &Receiver<T>,
        mut add: impl FnMut(CommandInterval) -> bool,
    ) -> Option<T> {
        let mut next = Instant::now() + self.pace;
        loop {
            let end = match ended.recv_deadline(next) {
                Err(RecvTimeoutError::Disconnected) => return None,
                end => end.ok(),
            };
            if !add(self.next_interval()) || end.is_some() {
                return end;
            }
            next = (next + self.pace).max(Instant::now() + self.pace / 2);
        }
    }

    fn next_interval(&mut self) -> CommandInterval {
        let mut interval = self.watch.next_interval();
        interval.late = (interval.to - interval.from - self.pace.as_secs_f64()).max(0.0);
        interval.continued = self.relay.take_continued();
        self.count += 1;
        // Until now the observation has used its share of this time. On a machine of many processes
        // or CPUs it takes longer, and is rarer. The pace doubles at most, so that a single slow
        // observation leaves no gap.
        let earned = self.cpu_seconds().unwrap_or(0.0) / OBSERVER_SHARE;
        let needed = Duration::from_secs_f64((earned - interval.to).clamp(0.0, 10.0));
        let least = PACE * (1_u32 << (self.count / MANY_INTERVALS).min(16));
        self.pace = least.max(needed.min(self.pace * 2));
        interval
    }

    /// Returns the CPU seconds of observing; `None` if the kernel does not count them.
    fn cpu_seconds(&self) -> Option<f64> {
        self.watch.own_cpu_seconds().zip(self.cpu_before).map(|(now, before)| now - before)
    }

    /// Returns the names of what could not be observed, and the CPU seconds of observing; `None` if
    /// the kernel does not count them.
    pub(super) fn finish(self) -> (Vec<String>, Option<f64>) {
        (self.watch.missing().into_iter().map(str::to_owned).collect(), self.cpu_seconds())
    }
}
