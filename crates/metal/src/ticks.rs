//! A cheap clock for operations of less than a microsecond: `clock_gettime` waits for all earlier
//! instructions, about 25 ns. If the kernel's clock source is the processor's counter (found steady
//! and equal on all CPUs), the counter is read directly.

use crate::arch::native;
use crate::uring::monotonic_ns;

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Calibration time: each end is known to about 15 ns, so the scale to about 3 ppm.
const CALIBRATION_NS: u64 = 10_000_000;

const READINGS_PER_END: u32 = 64;

/// Clock in nanoseconds with an origin near the monotonic clock's; copies agree with each other.
#[derive(Debug, Clone, Copy)]
pub struct TickClock {
    counter: Option<TickCounter>,
}

#[derive(Debug, Clone, Copy)]
struct TickCounter {
    from_ticks: u64,
    from_ns: u64,
    scale: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    pub(crate) name: &'static str,
    pub(crate) read: fn() -> u64,
    /// Orders later readings after all earlier instructions.
    pub(crate) fence: fn(),
}

impl TickClock {
    /// Returns the system's monotonic clock.
    #[must_use]
    pub fn system() -> Self {
        TickClock { counter: None }
    }

    /// Returns a clock that reads the CPU's counter (such as the TSC), calibrated for 10 ms, if
    /// that is the kernel's clock source; else [`TickClock::system`].
    #[must_use]
    pub fn fastest() -> Self {
        let trusted = || {
            let ticks = native::TICK_COUNTER?;
            (std::fs::read_to_string(SOURCE).ok()?.trim() == ticks.name).then_some(ticks)
        };
        TickClock { counter: trusted().and_then(calibrate) }
    }

    /// Returns whether the clock reads the processor's counter instead of the kernel's clock.
    pub fn is_counter(&self) -> bool {
        self.counter.is_some()
    }

    /// Returns [`TickClock::now_ns`], read after all earlier instructions, to compare several CPUs.
    pub fn ordered_now_ns(&self) -> u64 {
        if let (Some(_), Some(ticks)) = (self.counter, native::TICK_COUNTER) {
            (ticks.fence)();
        }
        self.now_ns()
    }

    /// Returns the current time in ns since an origin near that of CLOCK_MONOTONIC.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        // Matches on the constant and not on a copy, so that the reading is inlined.
        match (self.counter, native::TICK_COUNTER) {
            (Some(TickCounter { from_ticks, from_ns, scale }), Some(ticks)) => {
                let ticks = u128::from((ticks.read)().wrapping_sub(from_ticks));
                from_ns.wrapping_add(((ticks * u128::from(scale)) >> 32) as u64)
            }
            _ => monotonic_ns(),
        }
    }
}

/// The processor's time counter, with the rate that the processor or hypervisor reports.
#[derive(Debug, Clone, Copy)]
pub struct StatedCounter {
    read: fn() -> u64,
    hz: f64,
}

impl StatedCounter {
    /// Returns the tick counter of this processor (such as the TSC) with its reported rate; `None`
    /// if it is not guaranteed steady or its rate is not reported.
    #[must_use]
    pub fn detect() -> Option<Self> {
        let ticks = native::TICK_COUNTER.filter(|_| native::has_steady_counter())?;
        Some(Self { read: ticks.read, hz: native::stated_counter_hz()? })
    }

    /// Returns the reported rate in Hz.
    pub fn hz(&self) -> f64 {
        self.hz
    }

    /// Returns the counter's current value in seconds.
    pub fn seconds(&self) -> f64 {
        (self.read)() as f64 / self.hz
    }
}

/// Measures the counter's rate by sleeping for 10 ms; `None` if it is not from 1 MHz to 100 GHz.
fn calibrate(ticks: Ticks) -> Option<TickCounter> {
    let (from_ticks, from_ns) = read_with_monotonic(ticks.read);
    std::thread::sleep(std::time::Duration::from_nanos(CALIBRATION_NS));
    let (to_ticks, to_ns) = read_with_monotonic(ticks.read);
    let scale = scale_of(to_ticks.checked_sub(from_ticks)?, to_ns.checked_sub(from_ns)?)?;
    Some(TickCounter { from_ticks, from_ns, scale })
}

/// Returns the nanoseconds per tick × 2^32, if `ticks` took `ns`; `None` outside 1 MHz to 100 GHz.
fn scale_of(ticks: u64, ns: u64) -> Option<u64> {
    let scale = (u128::from(ns) << 32).checked_div(u128::from(ticks))?;
    u64::try_from(scale).ok().filter(|scale| ((1 << 32) / 100..=1000 << 32).contains(scale))
}

/// Returns the counter (by `read`) and the monotonic time in ns at one moment, best of 64 attempts.
pub(crate) fn read_with_monotonic(read: fn() -> u64) -> (u64, u64) {
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

    fn between(clock: TickClock) -> [u64; 3] {
        let one = || [monotonic_ns(), clock.ordered_now_ns(), monotonic_ns()];
        (0..READINGS_PER_END).map(|_| one()).min_by_key(|[before, _, after]| after - before).unwrap()
    }

    /// Whether the clocks advance equally, within 0.1 % and a microsecond.
    fn keeps_time(clock: TickClock) -> bool {
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
        assert!(keeps_time(TickClock::system()));
        let clock = (0..3).map(|_| TickClock::fastest()).find(|clock| keeps_time(*clock)).unwrap();
        let Some(counter) = clock.counter else { return };
        for scale in [counter.scale / 100 * 98, counter.scale / 100 * 102] {
            let off = TickClock { counter: Some(TickCounter { scale, ..counter }) };
            assert!(!keeps_time(off), "2 % are found");
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
