use std::time::Instant;

use super::ClockUnknown;
use crate::arch::native;
use crate::ticks::read_with_monotonic;

const STEP_READINGS: usize = 2048;
/// Rounding of `clock_gettime` in ns.
const STEP_ROUNDING_NS: u64 = 2;
/// Maximum relative change of the counter's rate: adjtimex slews the clock by up to 0.05 %.
const SAME_PACE: f64 = 0.002;
/// Minimum span in ns: in a shorter one the reading error of 30 ns at each end hides such a change.
const SHORTEST_NS: u64 = 1_000_000;

/// Measures by how many seconds the monotonic clock advances at once: at least 1 ns.
pub fn timer_step() -> f64 {
    let mut before = Instant::now();
    let between = std::iter::repeat_with(|| {
        let now = Instant::now();
        let passed = now.saturating_duration_since(before).as_nanos();
        before = now;
        u64::try_from(passed).unwrap_or(u64::MAX)
    });
    // If a step is longer than a reading takes, most differences are zero.
    let differences: Vec<u64> =
        between.take(STEP_READINGS * 64).filter(|ns| *ns > 0).take(STEP_READINGS).collect();
    step_of(&differences) as f64 * 1e-9
}

/// Returns the timer's step in ns: the common divisor of the shortest `differences`; 1 if empty.
fn step_of(differences: &[u64]) -> u64 {
    let Some(&shortest) = differences.iter().min() else { return 1 };
    // Over more than two steps the rounding errors add up.
    let short = differences.iter().filter(|ns| **ns <= shortest.saturating_mul(5) / 2);
    let step = short.fold(shortest, |mut step, ns| {
        loop {
            let over = ns % step;
            let off = over.min(step - over);
            if off <= STEP_ROUNDING_NS || step <= STEP_ROUNDING_NS {
                return step;
            }
            step = off;
        }
    });
    step.max(1)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct TimeKept {
    /// Counter and nanoseconds at two moments, if there is a counter.
    first: Option<[(u64, u64); 2]>,
}

impl TimeKept {
    /// Returns the current (counter ticks, monotonic ns); `None` without a constant-rate counter.
    pub(super) fn now() -> Option<(u64, u64)> {
        native::TICK_COUNTER
            .filter(|_| native::has_steady_counter())
            .map(|ticks| read_with_monotonic(ticks.read))
    }

    pub(super) fn since(first: Option<(u64, u64)>) -> Self {
        Self { first: first.zip(Self::now()).map(|(first, second)| [first, second]) }
    }

    pub(super) fn check(&self) -> Result<(), ClockUnknown> {
        match self.first.zip(Self::now()) {
            Some(([first, second], now)) => same_pace(first, second, now),
            None => Ok(()),
        }
    }
}

fn same_pace(first: (u64, u64), second: (u64, u64), now: (u64, u64)) -> Result<(), ClockUnknown> {
    let (Some(then), Some(later)) = (ticks_per_ns(first, second), ticks_per_ns(second, now)) else {
        return Ok(());
    };
    let change = (later / then - 1.0).abs();
    if change > SAME_PACE { Err(ClockUnknown::TimeDrifts(change)) } else { Ok(()) }
}

/// Returns the ticks per ns between two (ticks, ns) readings; `None` if less than 1 ms apart.
fn ticks_per_ns(from: (u64, u64), to: (u64, u64)) -> Option<f64> {
    let (ticks, ns) = (to.0.wrapping_sub(from.0), to.1.checked_sub(from.1)?);
    (ns >= SHORTEST_NS).then(|| ticks as f64 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_what_all_differences_are_multiples_of() {
        // 24 MHz: 41.67 ns, rounded down to whole nanoseconds.
        assert_eq!(step_of(&[41, 42, 83, 84, 42]), 41);
        // 100 MHz, read every 25 ns.
        assert_eq!(step_of(&[20, 30, 30, 20, 40]), 10);
        assert!(step_of(&[19, 23, 26, 21, 22, 30, 41]) <= 5);
        let steps = [[1_000, 1_000, 2_000].as_slice(), &[279, 280, 558], &[], &[40, 40, 9_001]].map(step_of);
        assert_eq!(steps, [1_000, 279, 1, 40]);
    }

    #[test]
    fn this_timer_has_a_step() {
        let step = timer_step();
        assert!((1e-9..1e-2).contains(&step), "{step}");
    }

    #[test]
    fn a_counter_that_changes_its_pace_is_found() {
        assert_eq!(ticks_per_ns((0, 0), (5, 999_999)), None);
        assert_eq!(ticks_per_ns((100, 0), (2_000_100, 1_000_000)), Some(2.0));
        let steady = TimeKept::since(TimeKept::now());
        assert_eq!(steady.check(), Ok(()));
        let (first, second) = ((0, 0), (20_000_000, 10_000_000));
        assert_eq!(same_pace(first, second, (40_004_000, 20_000_000)), Ok(()));
        let drift = same_pace(first, second, (39_000_000, 20_000_000));
        assert!(matches!(drift, Err(ClockUnknown::TimeDrifts(by)) if (by - 0.05).abs() < 1e-9), "{drift:?}");
    }
}
