//! Laps: passes from one common start until the slowest thread has done them, and which of them count.

/// Share of a lap that a thread may be off its CPU: above it there was more than an interrupt.
pub(super) const OFF_CPU: f64 = 0.02;

use std::time::Duration;

/// How many passes, and how many of them from one start to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    pub(super) passes: u64,
    pub(super) per_lap: u64,
}

/// Passes from one common start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lap {
    pub(super) passes: u64,
    /// What they took, on the slowest thread.
    pub(super) seconds: f64,
    /// The largest share of it that a thread was off its CPU.
    pub(super) off_cpu: f64,
}

/// What one thread did, or all did together.
pub(super) struct Round {
    pub(super) laps: Vec<Lap>,
    pub(super) clock_hz: Option<f64>,
}

/// What counts of a round.
#[derive(Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) passes: f64,
    pub(super) seconds: f64,
    /// Share of the time in laps that do not count.
    pub(super) set_aside: f64,
}

impl Schedule {
    /// The lengths of the laps: full ones, and what is left over.
    pub(super) fn laps(self) -> impl Iterator<Item = u64> {
        let per_lap = self.per_lap.max(1);
        let rest = self.passes % per_lap;
        (0..self.passes / per_lap).map(move |_| per_lap).chain((rest > 0).then_some(rest))
    }
}

impl Lap {
    /// The same lap as another thread saw it: the slower counts, and the one that was off its CPU for longer.
    fn or_slower(self, other: Self) -> Self {
        Self {
            seconds: self.seconds.max(other.seconds),
            off_cpu: self.off_cpu.max(other.off_cpu),
            passes: self.passes,
        }
    }
}

impl Round {
    pub(super) fn of_all(threads: Vec<Self>) -> Self {
        let count = threads.len().max(1) as f64;
        let clocks: Option<Vec<f64>> = threads.iter().map(|thread| thread.clock_hz).collect();
        let clock_hz = clocks.map(|clocks| clocks.iter().sum::<f64>() / count);
        let laps = threads.into_iter().map(|thread| thread.laps).reduce(|mut slowest, other| {
            for (lap, other) in slowest.iter_mut().zip(other) {
                *lap = lap.or_slower(other);
            }
            slowest
        });
        Self { laps: laps.unwrap_or_default(), clock_hz }
    }

    /// Passes of all laps.
    pub(super) fn passes(&self) -> u64 {
        self.laps.iter().map(|lap| lap.passes).sum()
    }

    /// Time of all laps.
    pub(super) fn seconds(&self) -> f64 {
        self.laps.iter().map(|lap| lap.seconds).sum()
    }

    /// The laps in which no thread was off its CPU for more than `tolerated`; without any, the least disturbed one.
    pub(super) fn counted(&self, tolerated: f64) -> Counted {
        let least = self.laps.iter().map(|lap| lap.off_cpu).fold(f64::INFINITY, f64::min);
        let bound = tolerated.max(least);
        let mut counted = Counted { passes: 0.0, seconds: 0.0, set_aside: 0.0 };
        for lap in self.laps.iter().filter(|lap| lap.off_cpu <= bound) {
            counted.passes += lap.passes as f64;
            counted.seconds += lap.seconds;
        }
        let all = self.seconds();
        if all > 0.0 {
            counted.set_aside = (1.0 - counted.seconds / all).clamp(0.0, 1.0);
        }
        counted
    }
}

/// How many passes take at least `seconds`; one or more. A timer that stood still during a pass left its time at 0.
pub(super) fn passes_in(seconds: f64, pass_seconds: f64) -> u64 {
    (seconds / pass_seconds.max(1e-9)).ceil().clamp(1.0, 1e12) as u64
}

/// The share of the time that was not spent on the CPU.
pub(super) fn off_cpu(elapsed: Duration, on_cpu: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    (1.0 - on_cpu.as_secs_f64() / elapsed.as_secs_f64()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lap(passes: u64, seconds: f64, off_cpu: f64) -> Lap {
        Lap { passes, seconds, off_cpu }
    }

    proptest! {
        #[test]
        fn laps_add_up_and_differ_only_at_the_end(passes in 0_u64..10_000, per_lap in 0_u64..300) {
            let laps: Vec<u64> = Schedule { passes, per_lap }.laps().collect();
            prop_assert_eq!(laps.iter().sum::<u64>(), passes);
            prop_assert!(laps.iter().rev().skip(1).all(|lap| *lap == per_lap.max(1)));
            prop_assert!(laps.iter().all(|lap| *lap > 0));
        }
    }

    #[test]
    fn a_lap_is_as_slow_as_its_slowest_thread_and_as_disturbed_as_the_most_disturbed() {
        let fast = Round { laps: vec![lap(2, 1.0, 0.5), lap(1, 0.5, 0.0)], clock_hz: Some(2e9) };
        let slow = Round { laps: vec![lap(2, 1.5, 0.0), lap(1, 0.4, 0.1)], clock_hz: Some(4e9) };
        let all = Round::of_all(vec![fast, slow]);
        assert_eq!(all.laps, [lap(2, 1.5, 0.5), lap(1, 0.5, 0.1)]);
        assert_eq!(all.clock_hz, Some(3e9));
        assert_eq!(all.seconds(), 2.0);
        assert!(Round::of_all(Vec::new()).laps.is_empty());
    }

    #[test]
    fn disturbed_laps_are_set_aside_and_the_least_disturbed_one_never() {
        let round = |laps: &[Lap]| Round { laps: laps.to_vec(), clock_hz: None };
        let laps = [lap(1, 1.0, 0.0), lap(1, 4.0, 0.75), lap(2, 3.0, 0.01)];
        let counted = round(&laps).counted(0.02);
        assert_eq!((counted.passes, counted.seconds), (3.0, 4.0));
        assert!((counted.set_aside - 0.5).abs() < 1e-12);
        assert_eq!(round(&laps).counted(1.0), Counted { passes: 4.0, seconds: 8.0, set_aside: 0.0 });
        let counted = round(&[lap(1, 2.0, 0.4), lap(1, 8.0, 0.8)]).counted(0.02);
        assert_eq!((counted.passes, counted.seconds), (1.0, 2.0));
        assert!((counted.set_aside - 0.8).abs() < 1e-12);
        assert_eq!(round(&[]).counted(0.02), Counted { passes: 0.0, seconds: 0.0, set_aside: 0.0 });
    }

    #[test]
    fn passes_last_at_least_as_long_as_asked() {
        assert_eq!(passes_in(1e-3, 3e-4), 4);
        assert_eq!(passes_in(1e-3, 1.0), 1);
        assert_eq!(passes_in(1e-3, 0.0), 1_000_000);
        assert_eq!(passes_in(f64::INFINITY, 1.0), 1_000_000_000_000);
    }

    #[test]
    fn time_off_the_cpu_is_a_share() {
        let ms = Duration::from_millis;
        assert_eq!(off_cpu(ms(10), ms(10)), 0.0);
        assert_eq!(off_cpu(ms(10), ms(11)), 0.0);
        assert_eq!(off_cpu(ms(10), ms(5)), 0.5);
        assert_eq!(off_cpu(ms(0), ms(5)), 0.0);
    }
}
