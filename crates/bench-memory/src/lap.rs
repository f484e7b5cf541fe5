//! Laps: work of all threads from the first start to the last end. If a pass over the arrays takes
//! longer than a lap, a lap is a window of the pass, so that an interruption costs only a window.

use std::time::Duration;

use plimsoll_metal::stream::Arrays;

use plimsoll_stats::median;

use super::window::{ThreadSpan, Window};

/// Parts of a pass.
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
    pub(super) disturbed: f64,
    pub(super) off_cpu: f64,
}

pub(super) struct ThreadSpans {
    pub(super) spans: Vec<ThreadSpan>,
    pub(super) clock_hz: Option<f64>,
}

pub(super) struct LapRound {
    pub(super) laps: Vec<Lap>,
    pub(super) clock_hz: Option<f64>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct CountedPasses {
    pub(super) passes: f64,
    pub(super) seconds: f64,
    pub(super) excluded_share: f64,
    /// Share of the time off the CPU in excluded laps, by the longest absence of each lap.
    pub(super) off_cpu: f64,
    /// Share of the included work in laps slowed by [`SLOW_LAP_FACTOR`] with all threads on CPUs.
    pub(super) slow: f64,
}

impl LapSchedule {
    /// Returns the lengths of the laps in parts of a pass, if the first lap starts at part `at`:
    /// windows that end with the pass, or whole passes after the rest of the current one.
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
    /// Combines the spans of all threads, which did laps of the lengths `laps` (in parts of a
    /// pass). If `alone`, each thread has its own CPU.
    pub(super) fn of_all(laps: &[u64], turns: &[ThreadSpans], alone: bool) -> Self {
        let clocks: Option<Vec<f64>> = turns.iter().map(|turn| turn.clock_hz).collect();
        let clock_hz = clocks.map(|clocks| clocks.iter().sum::<f64>() / turns.len().max(1) as f64);
        let laps = laps.iter().enumerate().filter_map(|(index, parts)| {
            let spans: Vec<ThreadSpan> =
                turns.iter().filter_map(|turn| turn.spans.get(index)).copied().collect();
            let Window { seconds, disturbed, off_cpu } = Window::of(&spans, alone)?;
            Some(Lap { parts: *parts, seconds, disturbed, off_cpu })
        });
        Self { laps: laps.collect(), clock_hz }
    }

    pub(super) fn passes(&self) -> f64 {
        self.laps.iter().map(|lap| lap.passes()).sum()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.laps.iter().map(|lap| lap.seconds).sum()
    }

    /// Sums the laps disturbed for at most `tolerated` (0 to 1) of their time, else the least so.
    pub(super) fn counted(&self, tolerated: f64) -> CountedPasses {
        let least = self.laps.iter().map(|lap| lap.disturbed).fold(f64::INFINITY, f64::min);
        let bound = tolerated.max(least);
        let mut counted = CountedPasses::default();
        let (laps, disturbed): (Vec<&Lap>, Vec<&Lap>) =
            self.laps.iter().partition(|lap| lap.disturbed <= bound);
        for lap in &laps {
            counted.passes += lap.passes();
            counted.seconds += lap.seconds;
        }
        counted.slow = slow_share(&laps);
        let all = self.seconds();
        if all > 0.0 {
            counted.excluded_share = (1.0 - counted.seconds / all).clamp(0.0, 1.0);
            counted.off_cpu = disturbed.iter().map(|lap| lap.off_cpu * lap.seconds).sum::<f64>() / all;
        }
        counted
    }
}

/// Returns the share of work in laps [`SLOW_LAP_FACTOR`] slower than the median; 0 for few laps.
fn slow_share(laps: &[&Lap]) -> f64 {
    let all: u64 = laps.iter().map(|lap| lap.parts).sum();
    let Some(usual) = median(laps.iter().map(|lap| lap.seconds_per_pass()).collect()) else { return 0.0 };
    if laps.len() < MIN_REPORTED_LAPS {
        return 0.0;
    }
    let slow = laps
        .iter()
        .filter(|lap| lap.seconds_per_pass() > usual * SLOW_LAP_FACTOR)
        .map(|lap| lap.parts)
        .sum::<u64>();
    slow as f64 / all.max(1) as f64
}

impl Lap {
    /// Returns the seconds per pass.
    fn seconds_per_pass(&self) -> f64 {
        self.seconds / self.passes()
    }

    pub(super) fn passes(&self) -> f64 {
        self.parts as f64 / PASS as f64
    }
}

/// Returns how many parts of a pass take `seconds`, at least one; more than a pass is rounded up to
/// whole passes. `pass_seconds`, the time of a pass, is 0 if the timer did not advance.
pub(super) fn parts_in(seconds: f64, pass_seconds: f64) -> u64 {
    let passes = (seconds / pass_seconds.max(1e-9)).clamp(0.0, 1e12);
    let parts = (passes * PASS as f64).ceil().max(1.0) as u64;
    if parts > PASS { parts.next_multiple_of(PASS) } else { parts }
}

/// Returns the parts in a lap of at least `seconds`: whole passes (of `pass_seconds`), or a window.
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
        let turn = |spans: Vec<ThreadSpan>, hz| ThreadSpans { spans, clock_hz: Some(hz) };
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
        let round = |laps: &[Lap]| LapRound { laps: laps.to_vec(), clock_hz: None };
        let laps = [lap(1, 1.0, 0.0), lap(1, 4.0, 0.75), lap(2, 3.0, 0.01)];
        let counted = round(&laps).counted(0.02);
        assert_eq!((counted.passes, counted.seconds), (3.0, 4.0));
        assert!(
            (counted.excluded_share - 0.5).abs() < 1e-12 && (counted.off_cpu - 3.0 / 8.0).abs() < 1e-12,
            "{counted:?}"
        );
        assert_eq!(
            round(&laps).counted(1.0),
            CountedPasses { passes: 4.0, seconds: 8.0, ..CountedPasses::default() }
        );
        let counted = round(&[lap(1, 2.0, 0.4), lap(1, 8.0, 0.8)]).counted(0.02);
        assert_eq!((counted.passes, counted.seconds), (1.0, 2.0));
        assert!((counted.excluded_share - 0.8).abs() < 1e-12);
        assert_eq!(round(&[]).counted(0.02), CountedPasses::default());
        let late = Lap { disturbed: 0.5, ..lap(1, 4.0, 0.0) };
        let counted = round(&[lap(1, 4.0, 0.0), late]).counted(0.02);
        assert_eq!((counted.excluded_share, counted.off_cpu), (0.5, 0.0));
    }

    #[test]
    fn laps_that_others_slowed_are_told_where_no_thread_left_its_cpu() {
        let laps = |slow: usize| {
            let mut laps = vec![lap(1, 1.0, 0.0); 10 - slow];
            laps.extend(vec![lap(1, 1.6, 0.0); slow]);
            laps.push(lap(1, 9.0, 0.9));
            LapRound { laps, clock_hz: None }.counted(0.02).slow
        };
        assert_eq!(laps(0), 0.0);
        assert!((laps(2) - 0.2).abs() < 1e-9);
        assert_eq!(
            LapRound { laps: vec![lap(1, 1.0, 0.0), lap(1, 2.0, 0.0)], clock_hz: None }.counted(0.02).slow,
            0.0
        );
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
