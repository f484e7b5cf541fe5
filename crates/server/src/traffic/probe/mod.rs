//! Client side of round trips, one in flight per path. A message after the timeout is lost.

pub mod path;
pub mod payload;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_stats::Times;

use super::thread_cpu_time;
use crate::wire::{OrderedAmount, WaitMode};
use path::TripPath;
use payload::{Judgement, Payload};

const END_LOOK_TIME: Duration = Duration::from_millis(100);
/// Number of lost messages at the start after which the peer counts as absent.
const NOBODY: u64 = 5;
/// Consecutive losses after which the peer is gone: with a loss of one half, once in a million.
const GONE: u64 = 20;

/// Parameters of round trips.
#[derive(Clone, Copy, Debug)]
pub struct RoundTripOptions {
    /// How this end waits.
    pub wait: WaitMode,
    /// Time after which a message counts as lost.
    pub timeout: Duration,
    /// Shortest time between two sends; zero to send each message right after the one before.
    pub interval: Duration,
    /// When to stop.
    pub until: OrderedAmount,
}

/// Results of the round trips of one path.
#[derive(Clone, Debug, Default)]
pub struct TripResults {
    /// Histogram of the round-trip times, ns.
    pub times: Times,
    /// Sum of the round-trip times.
    pub total: Duration,
    /// Messages sent.
    pub sent: u64,
    /// Messages that did not come back in time.
    pub lost: u64,
    /// Echoes that came too late or twice.
    pub late: u64,
    /// Own messages that came back changed.
    pub wrong: u64,
    /// Datagrams from other sources.
    pub foreign: u64,
    /// Wall-clock time.
    pub elapsed: Duration,
    /// CPU time of the thread.
    pub cpu: Duration,
}

impl TripResults {
    /// Adds the results of a concurrent path: sums, but the longer of both `elapsed`.
    pub fn add(&mut self, other: &TripResults) {
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

    /// Returns the number of messages whose echoes arrived in time.
    pub fn returned(&self) -> u64 {
        self.sent - self.lost
    }

    /// Records an echo that arrived `time` after its message: as lost and late if above `timeout`,
    /// which a blocking receive may exceed by a tick of the kernel.
    fn came_back(&mut self, time: Duration, timeout: Duration) {
        if time > timeout {
            self.lost += 1;
            self.late += 1;
            return;
        }
        self.total += time;
        self.times.record(super::nanos(time), 1);
    }
}

/// Sends messages over `path`, numbered from `first`, and waits for each echo, until `manner.until`
/// or `stop`. Fails with `TimedOut` if 20 in a row are lost, or the first 5.
pub fn round_trips(
    path: &mut impl TripPath,
    payload: &mut Payload,
    first: u64,
    manner: RoundTripOptions,
    stop: &AtomicBool,
) -> io::Result<TripResults> {
    let mut trips = TripResults::default();
    path.set_wait(manner.wait, manner.timeout.clamp(Duration::from_micros(1), END_LOOK_TIME))?;
    let mut echo = vec![0; payload.bytes().len() + 1];
    let (started, cpu) = (Instant::now(), thread_cpu_time());
    let (mut now, mut due, mut in_a_row) = (started, started, 0);
    let end = manner.until.time().and_then(|time| started.checked_add(time));
    // At least one, or there is no result.
    let is_over = |sent, now: Instant| sent > 0 && manner.until.is_over(sent, now.duration_since(started));
    'all: while !is_over(trips.sent, now) && !stop.load(Ordering::Relaxed) {
        if !manner.interval.is_zero() {
            now = pause(end.map_or(due, |end| due.min(end)), now, manner, stop);
            if is_over(trips.sent, now) {
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
            match came.map(|count| payload.classify(&echo[..count])) {
                Some(Judgement::Right) => {
                    trips.came_back(now.duration_since(began), manner.timeout);
                    in_a_row = 0;
                    break now;
                }
                Some(Judgement::Late) if !path.is_stream() || payload.missing > 0 => {
                    payload.missing = payload.missing.saturating_sub(1);
                    trips.late += 1;
                }
                // A stream delivers each message once, so this is the message, changed.
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
            let each = manner.timeout;
            let why = format!("{in_a_row} messages in a row did not come back within {each:?} each");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
    }
    trips.elapsed = now.duration_since(started);
    trips.cpu = thread_cpu_time().saturating_sub(cpu);
    Ok(trips)
}

fn pause(due: Instant, mut now: Instant, manner: RoundTripOptions, stop: &AtomicBool) -> Instant {
    while now < due && !stop.load(Ordering::Relaxed) {
        match manner.wait {
            WaitMode::Block => std::thread::sleep(due.duration_since(now).min(END_LOOK_TIME)),
            WaitMode::Poll => std::hint::spin_loop(),
        }
        now = Instant::now();
    }
    now
}

#[cfg(test)]
mod tests;
