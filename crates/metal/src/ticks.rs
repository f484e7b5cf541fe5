//! A cheap clock for stamping operations that take well below a microsecond.
//!
//! `clock_gettime` waits for all instructions before it, about 25 ns on a current processor; three readings a transfer
//! are more than the rest of the loop. Where the kernel itself keeps time by the processor's counter, which it does
//! only after it has found it steady and equal on all CPUs, the counter is read directly and scaled to nanoseconds.

use std::path::Path;

use crate::arch::native;
use crate::uring::monotonic_ns;

/// Where the kernel names its time source (Documentation/ABI: clocksource).
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// For how long the counter is compared with the monotonic clock. Each end is known to about 15 ns, so the scale to
/// some 3 parts in a million.
const CALIBRATION_NS: u64 = 10_000_000;

/// Readings at each end, of which the narrowest counts.
const READINGS_PER_END: u32 = 64;

/// Nanoseconds since a moment of its own that is near the monotonic clock's; copies agree with each other.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    counter: Option<Counter>,
}

#[derive(Debug, Clone, Copy)]
struct Counter {
    from_ticks: u64,
    from_ns: u64,
    /// Nanoseconds a tick, times 2^32.
    scale: u64,
}

/// A counter of time that programs may read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    /// What the kernel calls it.
    pub(crate) name: &'static str,
    pub(crate) read: fn() -> u64,
    /// Lets no later reading be earlier than what stands before it.
    pub(crate) fence: fn(),
}

impl Clock {
    /// The monotonic clock of the system.
    #[must_use]
    pub fn system() -> Self {
        Clock { counter: None }
    }

    /// The processor's counter where the kernel trusts it, which takes 10 ms to calibrate; else as [`Clock::system`].
    #[must_use]
    pub fn fastest() -> Self {
        let trusted = || {
            let ticks = native::TICKS?;
            (std::fs::read_to_string(Path::new(SOURCE)).ok()?.trim() == ticks.name).then_some(ticks)
        };
        Clock { counter: trusted().and_then(calibrated) }
    }

    /// Whether it is the processor's counter.
    pub fn is_counter(&self) -> bool {
        self.counter.is_some()
    }

    /// As [`Clock::now_ns`], and not before what stands earlier in the program: to compare the readings of several CPUs.
    pub fn ordered_now_ns(&self) -> u64 {
        if let (Some(_), Some(ticks)) = (self.counter, native::TICKS) {
            (ticks.fence)();
        }
        self.now_ns()
    }

    /// Now, in nanoseconds.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        // The constant is asked and not a copy of it, so that the reading is made here and not called.
        match (self.counter, native::TICKS) {
            (Some(Counter { from_ticks, from_ns, scale }), Some(ticks)) => {
                let ticks = u128::from((ticks.read)().wrapping_sub(from_ticks));
                // Shifted, it fits for centuries; the cast could only wrap.
                from_ns.wrapping_add(((ticks * u128::from(scale)) >> 32) as u64)
            }
            _ => monotonic_ns(),
        }
    }
}

/// The processor's time counter at the rate that the processor or its hypervisor states: a clock that the kernel does not keep.
#[derive(Debug, Clone, Copy)]
pub struct StatedCounter {
    read: fn() -> u64,
    hz: f64,
}

impl StatedCounter {
    /// The counter of this processor; `None` if it does not promise a steady pace, or nothing states its rate.
    #[must_use]
    pub fn here() -> Option<Self> {
        let ticks = native::TICKS.filter(|_| native::has_steady_counter())?;
        Some(Self { read: ticks.read, hz: native::stated_counter_hz()? })
    }

    /// The stated rate, in Hz.
    pub fn hz(&self) -> f64 {
        self.hz
    }

    /// Seconds since the counter was reset.
    pub fn seconds(&self) -> f64 {
        (self.read)() as f64 / self.hz
    }
}

/// The counter's scale. `None` where it does not advance as a counter would.
fn calibrated(ticks: Ticks) -> Option<Counter> {
    let (from_ticks, from_ns) = pair_of(ticks.read);
    std::thread::sleep(std::time::Duration::from_nanos(CALIBRATION_NS));
    let (to_ticks, to_ns) = pair_of(ticks.read);
    let scale = scale_of(to_ticks.checked_sub(from_ticks)?, to_ns.checked_sub(from_ns)?)?;
    Some(Counter { from_ticks, from_ns, scale })
}

/// Nanoseconds a tick, times 2^32; `None` outside 1 MHz to 100 GHz.
fn scale_of(ticks: u64, ns: u64) -> Option<u64> {
    let scale = (u128::from(ns) << 32).checked_div(u128::from(ticks))?;
    u64::try_from(scale).ok().filter(|scale| ((1 << 32) / 100..=1000 << 32).contains(scale))
}

/// Both clocks at one moment: of several attempts the one whose counter readings lie nearest around the other's.
pub(crate) fn pair_of(read: fn() -> u64) -> (u64, u64) {
    let attempt = || {
        let before = read();
        let ns = monotonic_ns();
        let width = read().wrapping_sub(before);
        (width, before.wrapping_add(width / 2), ns)
    };
    let narrowest =
        (1..READINGS_PER_END).map(|_| attempt()).fold(attempt(), |a, b| if b.0 < a.0 { b } else { a });
    (narrowest.1, narrowest.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading, and the system's clock before and after it: of several the one with the least between.
    fn between(clock: Clock) -> [u64; 3] {
        let one = || [monotonic_ns(), clock.ordered_now_ns(), monotonic_ns()];
        (0..READINGS_PER_END).map(|_| one()).min_by_key(|[before, _, after]| after - before).unwrap()
    }

    /// Whether so much time passes on the clock as on the system's, give or take a thousandth and a microsecond. What
    /// interrupts a reading widens the bounds.
    fn keeps_time(clock: Clock) -> bool {
        let [before, from, after] = between(clock);
        let mut last = from;
        while monotonic_ns() < before + 20_000_000 {
            let now = clock.now_ns();
            assert!(now >= last, "{clock:?} went back from {last} to {now}");
            last = now;
        }
        let end = between(clock);
        let (passed, least, most) = (end[1] - from, end[0] - after, end[2] - before);
        let error = most / 1000 + 1000;
        passed + error >= least && passed <= most + error
    }

    #[test]
    fn it_keeps_the_systems_time() {
        assert!(keeps_time(Clock::system()));
        // Whether a calibration that was interrupted throughout is repeated is not what this is about.
        let clock = (0..3).map(|_| Clock::fastest()).find(|clock| keeps_time(*clock)).unwrap();
        let Some(counter) = clock.counter else { return };
        for scale in [counter.scale / 100 * 98, counter.scale / 100 * 102] {
            assert!(!keeps_time(Clock { counter: Some(Counter { scale, ..counter }) }), "2 % are found");
        }
    }

    #[test]
    fn a_scale_is_that_of_a_counter_or_none() {
        assert_eq!(scale_of(1_000, 1_000), Some(1 << 32));
        assert_eq!(scale_of(3_000_000, 1_000_000).map(|scale| scale >> 24), Some((1 << 8) / 3));
        for (ticks, ns) in [(0, 5), (5, 0), (1, u64::MAX), (u64::MAX, 1)] {
            assert_eq!(scale_of(ticks, ns), None, "{ticks} {ns}");
        }
    }
}
