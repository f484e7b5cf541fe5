//! Wall clock, for points in time and not for durations: it may be wrong and set during a run.

use std::time::SystemTime;

use jiff::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

/// Minimum step in seconds; chrony and ntpd slew smaller differences.
const STEP: f64 = 0.1;

/// Returns the current time, limited to the calendar's years -9999 to 9999.
pub fn now() -> Timestamp {
    stamp(SystemTime::now())
}

/// Returns the time `age` ago, or the earliest time of the calendar.
pub fn time_before(age: std::time::Duration) -> Timestamp {
    now().checked_sub(age).unwrap_or(Timestamp::MIN)
}

/// Returns the seconds from 1970 to `moment` (RFC 3339); `None` if invalid.
pub fn unix_seconds(moment: &str) -> Option<f64> {
    Some(moment.parse::<Timestamp>().ok()?.as_duration().as_secs_f64())
}

/// Returns the seconds since `moment` (RFC 3339); negative if in the future, `None` if invalid.
pub fn seconds_since(moment: &str) -> Option<f64> {
    Some(now().duration_since(moment.parse().ok()?).as_secs_f64())
}

fn stamp(time: SystemTime) -> Timestamp {
    let bound = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::try_from(time).unwrap_or(bound)
}

/// Returns a new run id: UUID version 7 (RFC 9562 §5.7), ordered by the wall clock to the ms.
pub fn run_id() -> String {
    id(now(), &crate::random::unique_bytes())
}

fn id(now: Timestamp, random: &[u8; 10]) -> String {
    let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, random).into_uuid().to_string()
}

/// A step of the wall clock during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockStep {
    /// Name of the node in the run.
    pub node: String,
    /// Time of detection in seconds of the node's run.
    pub at_s: f64,
    /// Seconds by which the clock was set forward; negative if back.
    pub by_s: f64,
}

/// Returns the time of CLOCK_MONOTONIC in seconds, without the C library.
pub fn monotonic() -> f64 {
    seconds(clock_gettime(ClockId::Monotonic))
}

/// Returns the seconds since boot, including suspension. This clock cannot be set.
pub fn since_boot() -> f64 {
    seconds(clock_gettime(ClockId::Boottime))
}

fn seconds(time: Timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns the wall clock minus the time since boot, in seconds; only a step changes it.
fn ahead() -> f64 {
    const MAX_CLOCK_READS: usize = 3;
    let read = || {
        let before = seconds(clock_gettime(ClockId::Boottime));
        let wall = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => since.as_secs_f64(),
            Err(until) => -until.duration().as_secs_f64(),
        };
        let after = seconds(clock_gettime(ClockId::Boottime));
        (after - before, wall - (before + after) / 2.0)
    };
    let tries = std::iter::repeat_with(read).take(MAX_CLOCK_READS);
    tries.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |(_, ahead)| ahead)
}

/// Detector of wall clock steps.
#[derive(Debug)]
pub struct WallClockWatch {
    read: fn() -> f64,
    ahead: f64,
    steps: Vec<(f64, f64)>,
}

impl WallClockWatch {
    fn by(read: fn() -> f64) -> Self {
        Self { read, ahead: read(), steps: Vec::new() }
    }

    /// Records a step of the wall clock by over 0.1 s since the start or the last step; `at` is the
    /// time of the run in seconds.
    pub fn record_step(&mut self, at: f64) {
        let ahead = (self.read)();
        let by = ahead - self.ahead;
        if by.abs() > STEP {
            self.steps.push((at, by));
            self.ahead = ahead;
        }
    }

    /// Returns the steps so far; each gets `node`, the name of this node in the run.
    pub fn steps(&self, node: &str) -> Vec<ClockStep> {
        let step = |&(at_s, by_s): &(f64, f64)| ClockStep { node: node.to_owned(), at_s, by_s };
        self.steps.iter().map(step).collect()
    }
}

impl Default for WallClockWatch {
    /// Starts to watch for steps of the wall clock.
    fn default() -> Self {
        Self::by(ahead)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_wall_time_has_a_stamp_and_an_id() {
        let at = |seconds: i64| {
            let span = Duration::from_secs(seconds.unsigned_abs());
            let epoch = SystemTime::UNIX_EPOCH;
            if seconds < 0 { epoch.checked_sub(span) } else { epoch.checked_add(span) }.unwrap()
        };
        for seconds in [0, -315_619_200, -62_135_596_800, 1_795_000_000, 253_402_300_799, 1 << 60, -(1 << 60)]
        {
            let stamp = stamp(at(seconds));
            assert_eq!(stamp.to_string().parse::<Timestamp>().unwrap(), stamp);
            let id = id(stamp, &[7; 10]);
            assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 7, "{id}");
        }
        assert!(id(Timestamp::MIN, &[0; 10]).starts_with("00000000-0000-7"));
        assert_ne!(run_id(), run_id());
    }

    thread_local!(static AHEAD: Cell<f64> = const { Cell::new(0.0) });

    #[test]
    fn a_step_is_seen_once_and_slow_drift_of_reading_is_none() {
        let mut watch = WallClockWatch::by(|| AHEAD.get());
        let mut set = |ahead: f64, at: f64| {
            AHEAD.set(ahead);
            watch.record_step(at);
        };
        set(0.05, 1.0);
        set(-3596.0, 2.0);
        set(-3596.0, 3.0);
        set(0.0, 4.0);
        let reported: Vec<(f64, f64)> = watch.steps("n").iter().map(|step| (step.at_s, step.by_s)).collect();
        assert_eq!(reported, [(2.0, -3596.0), (4.0, 3596.0)]);
    }

    #[test]
    fn the_real_clocks_agree() {
        let mut watch = WallClockWatch::default();
        watch.record_step(0.0);
        assert_eq!(watch.steps("n"), []);
        let before = monotonic();
        assert!(monotonic() >= before);
    }
}
