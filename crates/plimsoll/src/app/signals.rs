//! Receives signals as messages. Signals that were ignored when plimsoll started (nohup, `trap ''
//! HUP`, a background process) stay ignored, also in child processes.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use plimsoll_machine::{Root, processes};
use plimsoll_metal::signal::is_ignored;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::{Failure, code};

/// Longest time that a process may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(120);
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals within this time are one request: timeout(1) signals a program and its process group.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// Returns those of SIGINT, SIGTERM and SIGHUP that were not ignored when this process started.
fn handled_signals() -> Vec<i32> {
    ENDING.into_iter().filter(|signal| !is_ignored(*signal)).collect()
}

/// Installs handlers without effect for SIGXFSZ, so that a write past RLIMIT_FSIZE fails with
/// EFBIG, and for an ignored SIGCHLD, which would lose the exit status of children.
pub(super) fn settle() {
    let unneeded = || Arc::new(AtomicBool::new(false));
    // The flags are not needed. If a registration fails, the old disposition stays.
    if !is_ignored(SIGXFSZ) {
        let _ = signal_hook::flag::register(SIGXFSZ, unneeded());
    }
    if is_ignored(SIGCHLD) {
        let _ = signal_hook::flag::register(SIGCHLD, unneeded());
    }
}

/// Returns a channel with a message at the first SIGINT, SIGTERM or SIGHUP. A further one after
/// more than 0.5 s exits this process with code 130 at once.
pub(super) fn interrupts() -> Result<Receiver<()>, Failure> {
    let (sender, receiver) = unbounded();
    let mut signals = Signals::new(handled_signals()).map_err(|e| unwatched(&e))?;
    spawn_detached(move || {
        let mut first = None;
        for _ in signals.forever() {
            let is_received = match since_first(&mut first, Instant::now()) {
                None => sender.send(()).is_ok(),
                Some(since) => since < ONE_REQUEST,
            };
            if !is_received {
                std::process::exit(i32::from(code::INTERRUPTED));
            }
        }
    })?;
    Ok(receiver)
}

/// Returns the time from `first` to `now`; if `first` is `None`, sets it to `now`, returns `None`.
fn since_first(first: &mut Option<Instant>, now: Instant) -> Option<Duration> {
    let before = first.replace(first.unwrap_or(now))?;
    Some(now.saturating_duration_since(before))
}

/// Like [`interrupts`], but there is a message at time `end` if no signal came before.
pub(super) fn interrupts_until(end: Instant) -> Result<Receiver<()>, Failure> {
    let asked = interrupts()?;
    let (sender, receiver) = unbounded();
    spawn_detached(move || {
        let _ = asked.recv_deadline(end);
        // Keeps the channel open for later signals, which end nothing. The receiver may be gone.
        loop {
            let _ = sender.send(());
            if asked.recv().is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

pub(super) fn is_in_foreground() -> bool {
    let stat = Root::live().text("proc/self/stat").unwrap_or_default();
    // After the name: state, parent, process group, session, terminal, foreground process group.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields.get(2).zip(fields.get(5)).is_some_and(|(group, foreground)| group == foreground)
}

pub(super) fn spawn_detached(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().spawn(work);
    thread
        .map(drop)
        .map_err(|e| Failure::environment(format!("cannot start a thread: {e}; see ulimit -u and ulimit -v")))
}

/// Sends `signal` to the process `id`, which began at `began` ticks since boot, and waits for its
/// end, at most 120 s; succeeds if it has ended before. Fails with `advice` if it cannot be
/// signalled, may be another process, or does not end.
pub(super) fn stop_process(id: u32, began: u64, signal: Signal, advice: &str) -> Result<(), Failure> {
    let why = |why: &str| Failure::environment(format!("--stop: process {id} {why}; {advice}"));
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    let process = match pidfd_open(pid.ok_or_else(|| why("has no usable id"))?, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        Err(e) => return Err(why(&format!("cannot be reached: {e}"))),
    };
    // The id may belong to another process now.
    if processes::began(&Root::live(), id).is_some_and(|found| found != began) {
        return Err(why("may be another process now, or be in another container"));
    }
    pidfd_send_signal(&process, signal).map_err(|e| why(&format!("cannot be signalled: {e}")))?;
    let end = Instant::now() + ENDS_WITHIN;
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).unwrap_or_default();
        return match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => continue,
            Ok(0) => Err(why(&format!("did not stop within {} s", ENDS_WITHIN.as_secs()))),
            Ok(_) => Ok(()),
            Err(e) => Err(why(&format!("cannot be waited for: {e}"))),
        };
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP, unless ignored, write a byte into the socket `end`.
pub(super) fn notify_parent(end: &UnixStream) -> Result<(), Failure> {
    handled_signals().into_iter().try_for_each(|signal| {
        let end = end.try_clone().and_then(|end| signal_hook::low_level::pipe::register(signal, end));
        end.map(drop).map_err(|e| unwatched(&e))
    })
}

pub(super) fn unwatched(error: &std::io::Error) -> Failure {
    Failure::environment(format!("cannot install signal handlers: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_come_together_are_one_request_and_a_later_one_is_another() {
        let now = Instant::now();
        let mut first = None;
        let mut is_same =
            |ms| since_first(&mut first, now + Duration::from_millis(ms)).map(|since| since < ONE_REQUEST);
        let all = [is_same(0), is_same(0), is_same(499), is_same(500)];
        assert_eq!(all, [None, Some(true), Some(true), Some(false)]);
    }
}
