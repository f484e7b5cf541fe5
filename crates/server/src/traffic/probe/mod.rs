//! Round trips, one under way at a time on each path: the near end's loop, the same for every protocol.
//!
//! A message that is not back within the timeout counts as lost, whether it comes later or never; so no wait is
//! endless, and what was lost is told.

pub mod path;
pub mod payload;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_stats::Times;

use super::team::share;
use super::{CUT, thread_cpu};
use path::{Path, Wait};
use payload::{Judgement, Payload};

/// A wait looks this often whether it should end.
const END_LOOK_TIME: Duration = Duration::from_millis(100);
/// Lost messages at the beginning after which nobody is there.
const NOBODY: u64 = 5;
/// Lost messages in a row after which nobody is there any more: where half of all are lost, once in a million.
const GONE: u64 = 20;

/// How round trips are made.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// How this end waits.
    pub wait: Wait,
    /// After this time a message counts as lost.
    pub timeout: Duration,
    /// From one message to the next at least; zero: each leaves when the one before is back.
    pub interval: Duration,
    /// When to stop.
    pub until: Until,
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After so many round trips, or [`CUT`].
    Trips(u64),
    /// After this time, at the end of the round trip that is under way.
    Elapsed(Duration),
}

/// What came of the round trips of one path.
#[derive(Clone, Debug)]
pub struct Trips {
    /// Nanoseconds of each message that came back in time.
    pub times: Times,
    /// The sum of these times.
    pub total: Duration,
    /// Messages sent.
    pub sent: u64,
    /// Messages that did not come back in time.
    pub lost: u64,
    /// Echoes that came after their time, or twice.
    pub late: u64,
    /// Messages of ours that came back changed.
    pub wrong: u64,
    /// Datagrams that are none of ours.
    pub foreign: u64,
    /// Wall time.
    pub elapsed: Duration,
    /// CPU time of this thread.
    pub cpu: Duration,
}

impl Trips {
    /// None yet.
    pub fn none() -> Self {
        let (times, zero) = (Times::default(), Duration::ZERO);
        Trips {
            times,
            total: zero,
            sent: 0,
            lost: 0,
            late: 0,
            wrong: 0,
            foreign: 0,
            elapsed: zero,
            cpu: zero,
        }
    }

    /// Adds what another path did meanwhile.
    pub fn add(&mut self, other: &Trips) {
        self.times.add(&other.times);
        self.total += other.total;
        self.sent += other.sent;
        self.lost += other.lost;
        self.late += other.late;
        self.wrong += other.wrong;
        self.foreign += other.foreign;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.cpu += other.cpu;
    }

    /// Messages that came back in time.
    pub fn returned(&self) -> u64 {
        self.sent - self.lost
    }
}

/// Makes round trips over `path` until it is time or `stop` is set. Numbers go on from `first`.
///
/// # Errors
/// The path's, and `TimedOut` when nobody is there.
pub fn round_trips(
    path: &mut impl Path,
    payload: &mut Payload,
    first: u64,
    manner: Manner,
    stop: &AtomicBool,
) -> io::Result<Trips> {
    let mut trips = Trips::none();
    path.set_wait(manner.wait, manner.timeout.clamp(Duration::from_micros(1), END_LOOK_TIME))?;
    let mut echo = vec![0; payload.bytes().len() + 1];
    let (started, cpu) = (Instant::now(), thread_cpu());
    let (mut now, mut in_a_row) = (started, 0);
    let mut due = started;
    'all: while !manner.until.is_over(trips.sent, now.duration_since(started))
        && !stop.load(Ordering::Relaxed)
    {
        if !manner.interval.is_zero() {
            // A time that is over ends the pause too, so that a sample takes no longer than it was given.
            now = pause(manner.until.end(started).map_or(due, |end| due.min(end)), now, manner, stop);
            if trips.sent > 0 && manner.until.is_over(trips.sent, now.duration_since(started)) {
                break;
            }
        }
        let began = now;
        due = began + manner.interval;
        payload.stamp(first.wrapping_add(trips.sent));
        path.send(payload.bytes())?;
        trips.sent += 1;
        now = loop {
            let came = path.receive(&mut echo)?;
            let now = Instant::now();
            match came.map(|count| payload.judge(&echo[..count])) {
                Some(Judgement::Right) => {
                    trips.came_back(now.duration_since(began));
                    in_a_row = 0;
                    break now;
                }
                Some(Judgement::Late) if !path.is_stream() || payload.missing > 0 => {
                    payload.missing = payload.missing.saturating_sub(1);
                    trips.late += 1;
                }
                // A stream brings each message of the other end once, and nothing else: this is the message, changed.
                Some(_) if path.is_stream() => {
                    trips.wrong += 1;
                    trips.lost += 1;
                    break 'all;
                }
                Some(Judgement::Wrong) => trips.wrong += 1,
                Some(Judgement::Late | Judgement::Foreign) => trips.foreign += 1,
                None => {}
            }
            if now.duration_since(began) >= manner.timeout || stop.load(Ordering::Relaxed) {
                trips.lost += 1;
                in_a_row += 1;
                payload.missing += 1;
                break now;
            }
        };
        if in_a_row >= if trips.returned() == 0 { NOBODY } else { GONE } {
            if trips.wrong > 0 {
                break;
            }
            return Err(nobody(in_a_row, manner.timeout));
        }
    }
    trips.elapsed = now.duration_since(started);
    trips.cpu = thread_cpu().saturating_sub(cpu);
    Ok(trips)
}

/// So many messages in a row did not come back.
fn nobody(messages: u64, timeout: Duration) -> io::Error {
    let why = format!("{messages} messages in a row did not come back within {timeout:?} each");
    io::Error::new(io::ErrorKind::TimedOut, why)
}

/// Waits until a message is due, or it is over, or `stop` is set; the time then.
fn pause(due: Instant, mut now: Instant, manner: Manner, stop: &AtomicBool) -> Instant {
    while now < due && !stop.load(Ordering::Relaxed) {
        match manner.wait {
            Wait::Block => std::thread::sleep(due.duration_since(now).min(END_LOOK_TIME)),
            Wait::Poll => std::hint::spin_loop(),
        }
        now = Instant::now();
    }
    now
}

impl Trips {
    fn came_back(&mut self, time: Duration) {
        self.total += time;
        self.times.record(super::nanos(time), 1);
    }
}

impl Until {
    /// When what began then is over, where that is a time.
    fn end(self, started: Instant) -> Option<Instant> {
        match self {
            Until::Elapsed(time) => started.checked_add(time),
            Until::Trips(_) => None,
        }
    }

    /// What one of several paths has to do, which make round trips at once: its share of them, or all of the time.
    #[must_use]
    pub fn part(self, parts: u64, part: u64) -> Self {
        match self {
            Until::Trips(all) => Until::Trips(share(all, parts, part)),
            Until::Elapsed(time) => Until::Elapsed(time),
        }
    }

    fn is_over(self, sent: u64, elapsed: Duration) -> bool {
        match self {
            Until::Trips(all) => sent >= all || sent > 0 && elapsed >= CUT,
            // One at least, or there would be nothing to tell.
            Until::Elapsed(time) => sent > 0 && elapsed >= time,
        }
    }
}

#[cfg(test)]
mod tests;
