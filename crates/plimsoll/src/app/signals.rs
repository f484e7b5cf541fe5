//! Signals as messages. What was ignored when plimsoll was started stays ignored: by nohup, by `trap '' HUP`, by a shell that
//! put it into the background. What it starts inherits that from it.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use plimsoll_metal::signal::is_ignored;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::{Failure, code};

/// Those that ask for the end.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals that follow the first one sooner are one request: timeout(1) and others send it to the program and to its process
/// group. Nobody presses a key twice in that time.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// Those of [`ENDING`] that were not ignored when this process was started. To be asked before any handler is installed.
fn heeded() -> Vec<i32> {
    ENDING.into_iter().filter(|signal| !is_ignored(*signal)).collect()
}

/// Prepares this process for its life.
///
/// A write past RLIMIT_FSIZE becomes an error (EFBIG) where the default is death by SIGXFSZ. Where SIGCHLD is ignored, the
/// kernel collects children and tells nobody how they ended; a handler undoes that.
pub(super) fn settle() {
    let unneeded = || Arc::new(AtomicBool::new(false));
    // What the flags say is not needed; a refused registration leaves what was, which is no wrong figure.
    if !is_ignored(SIGXFSZ) {
        let _ = signal_hook::flag::register(SIGXFSZ, unneeded());
    }
    if is_ignored(SIGCHLD) {
        let _ = signal_hook::flag::register(SIGCHLD, unneeded());
    }
}

/// A message on the first signal; a second request ends the program at once, and so results that are not yet written are lost.
///
/// # Errors
/// The system gives no handler or no thread.
pub(super) fn interrupts() -> Result<Receiver<()>, Failure> {
    let (sender, receiver) = unbounded();
    let mut signals = Signals::new(heeded()).map_err(|e| unwatched(&e))?;
    beside(move || {
        let mut first = None;
        for _ in signals.forever() {
            let heard = match request(&mut first, Instant::now()) {
                Request::First => sender.send(()).is_ok(),
                Request::Same => true,
                Request::Again => false,
            };
            if !heard {
                std::process::exit(i32::from(code::INTERRUPTED));
            }
        }
    })?;
    Ok(receiver)
}

/// What a signal asks for.
#[derive(Debug, PartialEq)]
enum Request {
    /// The end, in order.
    First,
    /// What was just asked for.
    Same,
    /// The end at once.
    Again,
}

/// What the signal that came `now` asks for; `first` is when the first one came.
fn request(first: &mut Option<Instant>, now: Instant) -> Request {
    let Some(begun) = *first else {
        *first = Some(now);
        return Request::First;
    };
    if now.saturating_duration_since(begun) < ONE_REQUEST { Request::Same } else { Request::Again }
}

/// A message on the first signal or at a time, whichever comes first. A second signal ends the program at once.
///
/// # Errors
/// As [`interrupts`].
pub(super) fn interrupts_until(end: Instant) -> Result<Receiver<()>, Failure> {
    let asked = interrupts()?;
    let (sender, receiver) = unbounded();
    beside(move || {
        let _ = asked.recv_deadline(end);
        // A signal that comes later finds this still listening, and ends nothing. Nobody may wait for the message any more.
        loop {
            let _ = sender.send(());
            if asked.recv().is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// Starts a thread that ends with the program.
fn beside(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().spawn(work);
    thread
        .map(drop)
        .map_err(|e| Failure::environment(format!("cannot start a thread: {e}; see ulimit -u and ulimit -v")))
}

/// A byte into `end` at each signal.
///
/// # Errors
/// The system gives no handler.
pub(super) fn told_through(end: &UnixStream) -> Result<(), Failure> {
    heeded().into_iter().try_for_each(|signal| {
        let end = end.try_clone().and_then(|end| signal_hook::low_level::pipe::register(signal, end));
        end.map(drop).map_err(|e| unwatched(&e))
    })
}

fn unwatched(error: &std::io::Error) -> Failure {
    Failure::environment(format!("cannot install signal handlers: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_come_together_are_one_request_and_a_later_one_is_another() {
        let now = Instant::now();
        let mut first = None;
        let mut at = |ms| request(&mut first, now + Duration::from_millis(ms));
        assert_eq!(
            [at(0), at(0), at(499), at(500)],
            [Request::First, Request::Same, Request::Same, Request::Again]
        );
    }
}
