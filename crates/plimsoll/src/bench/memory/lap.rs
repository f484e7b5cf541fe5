//! Laps: passes of all threads, from the first one's start to the last one's end, and which of them count.

use std::time::Duration;

use super::window::{Span, Window};

/// Share of a lap that a thread may be off its CPU: above it there was more than an interrupt.
pub(super) const OFF_CPU: f64 = 0.02;

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
    /// What they took all threads.
    pub(super) seconds: f64,
    /// The largest share of it that a thread was off its CPU.
    pub(super) off_cpu: f64,
}

/// What one thread did.
pub(super) struct Turn {
    /// Passes of each lap.
    pub(super) passes: Vec<u64>,
    /// When it worked in each lap.
    pub(super) spans: Vec<Span>,
    pub(super) clock_hz: Option<f64>,
}

/// What all did together.
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

impl Round {
    /// The turns of all threads, which did the same laps; `alone` with a CPU for each.
    pub(super) fn of_all(turns: &[Turn], alone: bool) -> Self {
        let clocks: Option<Vec<f64>> = turns.iter().map(|turn| turn.clock_hz).collect();
        let clock_hz = clocks.map(|clocks| clocks.iter().sum::<f64>() / turns.len().max(1) as f64);
        let passes = turns.first().map(|turn| turn.passes.as_slice()).unwrap_or_default();
        let laps = passes.iter().enumerate().filter_map(|(index, passes)| {
            let spans: Vec<Span> = turns.iter().filter_map(|turn| turn.spans.get(index)).copied().collect();
            let Window { seconds, off_cpu } = Window::of(&spans, alone)?;
            Some(Lap { passes: *passes, seconds, off_cpu })
        });
        Self { laps: laps.collect(), clock_hz }
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
    fn a_lap_lasts_from_the_first_start_to_the_last_end() {
        let now = std::time::Instant::now();
        let ms = Duration::from_millis;
        let span = |from, to, off_cpu| Span { start: now + ms(from), end: now + ms(to), off_cpu };
        let turn = |spans: Vec<Span>, hz| Turn { passes: vec![2, 1], spans, clock_hz: Some(hz) };
        let turns = [
            turn(vec![span(0, 1000, 0.5), span(2000, 2500, 0.0)], 2e9),
            turn(vec![span(0, 1500, 0.0), span(2100, 2600, 0.1)], 4e9),
        ];
        let all = Round::of_all(&turns, true);
        assert_eq!(all.laps.first(), Some(&lap(2, 1.5, 0.5)));
        let late = all.laps[1];
        assert!((late.seconds - 0.6).abs() < 1e-9 && (late.off_cpu - 0.1 / 0.6).abs() < 1e-9, "{late:?}");
        assert_eq!(all.clock_hz, Some(3e9));
        assert!((all.seconds() - 2.1).abs() < 1e-9);
        assert!((Round::of_all(&turns, false).laps[1].off_cpu - 0.1).abs() < 1e-12);
        assert!(Round::of_all(&[], true).laps.is_empty());
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
