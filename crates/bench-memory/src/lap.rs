//! Laps: work of all threads from the first start to the last end. If a pass over the arrays takes
//! longer than a lap, a lap is a window of the pass, so that an interruption costs only a window.

use std::time::Duration;

use plimsoll_metal::stream::Arrays;

use plimsoll_stats::median;

use super::window::ThreadSpan;

pub(super) const PASS: u64 = Arrays::PASS;

/// Share of a lap that a thread may be off its CPU; a larger one is more than an interrupt.
pub(super) const OFF_CPU: f64 = 0.02;

/// A lap this many times slower than the median was slowed by other work.
const SLOW_LAP_FACTOR: f64 = 1.25;
const MIN_REPORTED_LAPS: usize = 8;

/// Amount of work, and amount from one common start to the next, in parts of a pass (see [`PASS`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LapSchedule {
    pub(super) parts: u64,
    pub(super) per_lap: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lap {
    pub(super) parts: u64,
    pub(super) seconds: f64,
    /// Largest share of the time that any thread was off its CPU or started late, 0 to 1.
    pub(super) disturbed: f64,
    /// Largest share off the CPU of any thread, 0 to 1: only then did other work run.
    pub(super) off_cpu: f64,
}

pub(super) struct LapRound {
    pub(super) laps: Vec<Lap>,
    pub(super) clock_hz: Option<f64>,
}

/// Sums of laps, counted or not.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CountedLaps {
    pub(super) parts: u64,
    pub(super) seconds: f64,
    pub(super) all_seconds: f64,
    /// Time off the CPU in laps that are not counted, by the longest absence of each.
    off_seconds: f64,
    /// Share of the work added last in laps slowed by [`SLOW_LAP_FACTOR`] with all threads on CPUs.
    pub(super) slow: f64,
}

impl CountedLaps {
    /// Adds laps: counts those disturbed for at most `tolerated` (0 to 1) of their time or, if
    /// there are none, the least disturbed.
    pub(super) fn add(&mut self, laps: &[Lap], tolerated: f64) {
        let least = laps.iter().map(|lap| lap.disturbed).fold(f64::INFINITY, f64::min);
        let (counted, disturbed): (Vec<&Lap>, Vec<&Lap>) =
            laps.iter().partition(|lap| lap.disturbed <= tolerated.max(least));
        for lap in &counted {
            self.parts += lap.parts;
            self.seconds += lap.seconds;
        }
        self.all_seconds += laps.iter().map(|lap| lap.seconds).sum::<f64>();
        self.off_seconds += disturbed.iter().map(|lap| lap.off_cpu * lap.seconds).sum::<f64>();
        self.slow = slow_share(&counted);
    }

    pub(super) fn excluded_share(&self) -> f64 {
        if self.all_seconds > 0.0 { (1.0 - self.seconds / self.all_seconds).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns the share of the time of all laps that was off the CPU in laps that are not counted.
    pub(super) fn off_cpu(&self) -> f64 {
        if self.all_seconds > 0.0 { self.off_seconds / self.all_seconds } else { 0.0 }
    }
}

impl LapSchedule {
    /// Returns the lengths of the laps in parts of a pass ([`PASS`] is all), if the first starts at
    /// part `at`: pieces of one pass, or whole passes after the rest of the started pass.
    pub(super) fn laps(self, at: u64) -> Vec<u64> {
        let per_lap = if self.per_lap >= PASS { self.per_lap / PASS * PASS } else { self.per_lap.max(1) };
        let (mut at, mut left, mut laps) = (at % PASS, self.parts, Vec::new());
        if per_lap >= PASS {
            laps.extend((at > 0).then(|| PASS - at));
            at = 0;
            left = left.next_multiple_of(PASS);
        }
        while left > 0 {
            let lap = if per_lap >= PASS { per_lap.min(left) } else { per_lap.min(left).min(PASS - at) };
            laps.push(lap);
            at = (at + lap) % PASS;
            left -= lap;
        }
        laps
    }
}

impl LapRound {
    /// Combines `turns`, the spans and core clock (Hz) of each thread, over laps of the lengths
    /// `laps` (in parts of a pass). `alone`: whether each thread has its own CPU.
    pub(super) fn of_all(laps: &[u64], turns: &[(Vec<ThreadSpan>, Option<f64>)], alone: bool) -> Self {
        let laps = laps.iter().enumerate().filter_map(|(index, parts)| {
            let spans: Vec<ThreadSpan> = turns.iter().filter_map(|turn| turn.0.get(index)).copied().collect();
            Lap::of(*parts, &spans, alone)
        });
        Self { laps: laps.collect(), clock_hz: mean(turns.iter().map(|turn| turn.1)) }
    }

    pub(super) fn passes(&self) -> f64 {
        self.laps.iter().map(|lap| lap.passes()).sum()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.laps.iter().map(|lap| lap.seconds).sum()
    }
}

/// Returns the share of work in laps over [`SLOW_LAP_FACTOR`] × the median time; 0 below 8 laps.
fn slow_share(laps: &[&Lap]) -> f64 {
    let all: u64 = laps.iter().map(|lap| lap.parts).sum();
    let Some(usual) = median(laps.iter().map(|lap| lap.seconds_per_pass()).collect()) else { return 0.0 };
    if laps.len() < MIN_REPORTED_LAPS {
        return 0.0;
    }
    let slow = laps.iter().filter(|lap| lap.seconds_per_pass() > usual * SLOW_LAP_FACTOR);
    slow.map(|lap| lap.parts).sum::<u64>() as f64 / all.max(1) as f64
}

/// Returns the mean of `values`; `None` if one is unknown or there is none.
pub(super) fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Option<Vec<f64>> = values.collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

impl Lap {
    fn seconds_per_pass(&self) -> f64 {
        self.seconds / self.passes()
    }

    pub(super) fn passes(&self) -> f64 {
        self.parts as f64 / PASS as f64
    }
}

/// Returns how many parts of a pass ([`PASS`] is all) take `seconds`, at least one; more than a
/// pass is rounded up to whole passes. A pass takes `pass_seconds`, 0 if the timer did not advance.
pub(super) fn parts_in(seconds: f64, pass_seconds: f64) -> u64 {
    let passes = (seconds / pass_seconds.max(1e-9)).clamp(0.0, 1e12);
    let parts = (passes * PASS as f64).ceil().max(1.0) as u64;
    if parts > PASS { parts.next_multiple_of(PASS) } else { parts }
}

/// Returns the parts in a lap of `seconds` or more: part of a pass (`pass_seconds`), or passes.
pub(super) fn parts_per_lap(seconds: f64, pass_seconds: f64) -> u64 {
    match (pass_seconds / seconds).floor() {
        windows if windows >= 1.0 => PASS.div_ceil((windows as u64).min(PASS)),
        _ => parts_in(seconds, pass_seconds).next_multiple_of(PASS),
    }
}

/// Returns the share (0 to 1) of `elapsed` off the CPU, for a thread with CPU time `on_cpu`.
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
        Lap { parts: passes * PASS, seconds, disturbed: off_cpu, off_cpu }
    }

    proptest! {
        #[test]
        fn windows_follow_one_another_and_never_cross_the_end_of_a_pass(
            parts in 1_u64..5 * PASS, per_lap in PASS / 300..PASS, at in 0..PASS,
        ) {
            let laps = LapSchedule { parts, per_lap }.laps(at);
            prop_assert_eq!(laps.iter().sum::<u64>(), parts);
            let mut place = at;
            for lap in laps {
                prop_assert!(lap > 0 && lap <= per_lap && place + lap <= PASS);
                place = (place + lap) % PASS;
            }
        }

        #[test]
        fn laps_of_whole_passes_end_a_pass_that_was_begun(passes in 1_u64..1000, per_lap in 1_u64..300, at in 0..PASS) {
            let mut laps = LapSchedule { parts: passes * PASS, per_lap: per_lap * PASS }.laps(at);
            if at > 0 {
                prop_assert_eq!(laps.remove(0), PASS - at);
            }
            prop_assert_eq!(laps.iter().sum::<u64>(), passes * PASS);
            prop_assert!(laps.iter().rev().skip(1).all(|lap| *lap == per_lap * PASS));
        }
    }

    #[test]
    fn a_lap_lasts_from_the_first_start_to_the_last_end() {
        let now = std::time::Instant::now();
        let ms = Duration::from_millis;
        let span = |from, to, off_cpu| ThreadSpan { start: now + ms(from), end: now + ms(to), off_cpu };
        let turn = |spans: Vec<ThreadSpan>, hz| (spans, Some(hz));
        let turns = [
            turn(vec![span(0, 1000, 0.5), span(2000, 2500, 0.0)], 2e9),
            turn(vec![span(0, 1500, 0.0), span(2100, 2600, 0.1)], 4e9),
        ];
        let all = LapRound::of_all(&[2 * PASS, PASS], &turns, true);
        assert_eq!(all.laps.first(), Some(&lap(2, 1.5, 0.5)));
        let late = all.laps[1];
        assert!((late.seconds - 0.6).abs() < 1e-9 && (late.disturbed - 0.1 / 0.6).abs() < 1e-9, "{late:?}");
        assert_eq!(late.off_cpu, 0.1);
        assert_eq!(all.clock_hz, Some(3e9));
        assert!((all.seconds() - 2.1).abs() < 1e-9);
        assert!((LapRound::of_all(&[2 * PASS, PASS], &turns, false).laps[1].disturbed - 0.1).abs() < 1e-12);
        assert!(LapRound::of_all(&[], &[], true).laps.is_empty());
    }

    #[test]
    fn disturbed_laps_are_set_aside_and_the_least_disturbed_one_never() {
        let counted = |laps: &[Lap], tolerated| {
            let mut counted = CountedLaps::default();
            counted.add(laps, tolerated);
            counted
        };
        let laps = [lap(1, 1.0, 0.0), lap(1, 4.0, 0.75), lap(2, 3.0, 0.01)];
        let found = counted(&laps, 0.02);
        assert_eq!((found.parts, found.seconds), (3 * PASS, 4.0));
        assert!((found.excluded_share() - 0.5).abs() < 1e-12, "{found:?}");
        assert!((found.off_cpu() - 3.0 / 8.0).abs() < 1e-12, "{found:?}");
        let all = CountedLaps { parts: 4 * PASS, seconds: 8.0, all_seconds: 8.0, ..CountedLaps::default() };
        assert_eq!(counted(&laps, 1.0), all);
        let found = counted(&[lap(1, 2.0, 0.4), lap(1, 8.0, 0.8)], 0.02);
        assert_eq!((found.parts, found.seconds), (PASS, 2.0));
        assert!((found.excluded_share() - 0.8).abs() < 1e-12);
        assert_eq!(counted(&[], 0.02), CountedLaps::default());
        assert_eq!(CountedLaps::default().excluded_share(), 0.0);
        let late = Lap { disturbed: 0.5, ..lap(1, 4.0, 0.0) };
        let found = counted(&[lap(1, 4.0, 0.0), late], 0.02);
        assert_eq!((found.excluded_share(), found.off_cpu()), (0.5, 0.0));
        let mut rounds = CountedLaps::default();
        rounds.add(&[lap(1, 1.0, 0.0), lap(1, 3.0, 0.5)], 0.02);
        assert_eq!((rounds.parts, rounds.seconds, rounds.excluded_share()), (PASS, 1.0, 0.75));
        assert_eq!(rounds.off_cpu(), 1.5 / 4.0);
        rounds.add(&[lap(2, 1.0, 0.4), lap(2, 5.0, 0.5)], 0.02);
        assert_eq!((rounds.parts, rounds.seconds), (3 * PASS, 2.0), "the least disturbed of each round");
    }

    #[test]
    fn laps_that_others_slowed_are_told_where_no_thread_left_its_cpu() {
        let slow = |laps: &[Lap]| {
            let mut counted = CountedLaps::default();
            counted.add(laps, 0.02);
            counted.slow
        };
        let laps = |slow_laps: usize| {
            let mut laps = vec![lap(1, 1.0, 0.0); 10 - slow_laps];
            laps.extend(vec![lap(1, 1.6, 0.0); slow_laps]);
            laps.push(lap(1, 9.0, 0.9));
            slow(&laps)
        };
        assert_eq!(laps(0), 0.0);
        assert!((laps(2) - 0.2).abs() < 1e-9);
        assert_eq!(slow(&[lap(1, 1.0, 0.0), lap(1, 2.0, 0.0)]), 0.0);
    }

    #[test]
    fn what_is_done_lasts_at_least_as_long_as_asked() {
        assert_eq!(parts_in(1e-3, 3e-4), 4 * PASS);
        assert_eq!(parts_in(0.25, 1.0), PASS / 4);
        assert_eq!(parts_in(1.0, 1.0), PASS);
        assert_eq!(parts_in(1e-3, 0.0), 1_000_000 * PASS);
        assert_eq!(parts_in(0.0, 1.0), 1);
        assert_eq!(parts_in(f64::INFINITY, 1.0), 1_000_000_000_000 * PASS);
    }

    #[test]
    fn a_pass_has_equal_windows() {
        assert_eq!(parts_per_lap(2e-3, 2e-3), PASS);
        assert_eq!(parts_per_lap(2e-3, 3.9e-3), PASS);
        assert_eq!(parts_per_lap(2e-3, 4e-3), PASS / 2);
        assert_eq!(parts_per_lap(2e-3, 1.9e-3), 2 * PASS);
        assert_eq!(parts_per_lap(2e-3, f64::INFINITY), 1);
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
