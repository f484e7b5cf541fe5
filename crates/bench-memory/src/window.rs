//! Common time of threads that work together: from the first start to the last end. A thread that
//! starts late has memory to itself at the end, so its own time is too short for the common work.

use std::time::{Duration, Instant};

use plimsoll_metal::clock::{is_thread_time_precise, thread_cpu_time};

use super::lap::{Lap, off_cpu};

/// Largest delay of a start that counts as common: the transfer of a cache line between CPUs.
const LATE: Duration = Duration::from_micros(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSpan {
    pub(super) start: Instant,
    pub(super) end: Instant,
    /// Share of the span that the thread was off its CPU, 0 to 1.
    pub(super) off_cpu: f64,
}

impl ThreadSpan {
    /// Returns the span from `start` until now. `on_cpu` is the thread's CPU time at `start`. The
    /// share off the CPU is 0 if the kernel counts CPU time too coarsely.
    pub(super) fn since(start: Instant, on_cpu: Duration) -> Self {
        let (end, on_cpu_at_end) = (Instant::now(), thread_cpu_time());
        let elapsed = end.saturating_duration_since(start);
        let off_cpu = match is_thread_time_precise() {
            true => off_cpu(elapsed, on_cpu_at_end.saturating_sub(on_cpu)),
            false => 0.0,
        };
        Self { start, end, off_cpu }
    }
}

impl Lap {
    /// Combines the spans of all threads, which together did `parts` parts of the work; `None`
    /// without spans. If `alone` (each thread has its own CPU), a late start counts as a
    /// disturbance; threads that share a CPU start when it is free.
    pub(super) fn of(parts: u64, spans: &[ThreadSpan], alone: bool) -> Option<Self> {
        let first = spans.iter().map(|span| span.start).min()?;
        let late = spans.iter().map(|span| span.start).max()?.saturating_duration_since(first);
        let whole = spans.iter().map(|span| span.end).max()?.saturating_duration_since(first);
        let lateness = match alone && late > LATE && !whole.is_zero() {
            true => late.as_secs_f64() / whole.as_secs_f64(),
            false => 0.0,
        };
        let off_cpu = spans.iter().map(|span| span.off_cpu).fold(0.0, f64::max);
        Some(Self { parts, seconds: whole.as_secs_f64(), disturbed: off_cpu.max(lateness), off_cpu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns spans with these starts and ends in µs and shares off the CPU.
    fn spans(all: &[(u64, u64, f64)]) -> Vec<ThreadSpan> {
        let now = Instant::now();
        let at = |us| now + Duration::from_micros(us);
        all.iter().map(|&(from, to, off_cpu)| ThreadSpan { start: at(from), end: at(to), off_cpu }).collect()
    }

    #[test]
    fn who_did_not_work_was_off_its_cpu() {
        let begun = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let span = ThreadSpan::since(begun, thread_cpu_time());
        assert!(!is_thread_time_precise() || (span.off_cpu > 0.5 && span.off_cpu <= 1.0), "{span:?}");
    }

    #[test]
    fn threads_that_begin_together_do_not_disturb_it() {
        let both = Lap::of(1, &spans(&[(0, 5_000, 0.0), (1, 7_000, 0.3)]), true).unwrap();
        assert_eq!(both.off_cpu, 0.3);
        assert!((both.seconds - 7e-3).abs() < 1e-9, "{both:?}");
        assert_eq!(Lap::of(1, &[], true), None);
    }

    #[test]
    fn who_begins_late_lengthens_the_window_and_disturbs_it() {
        let spans = spans(&[(0, 5_000, 0.0), (4_000, 11_000, 0.0)]);
        let late = Lap::of(1, &spans, true).unwrap();
        assert!((late.seconds - 11e-3).abs() < 1e-9, "{late:?}");
        assert!((late.disturbed - 4.0 / 11.0).abs() < 1e-9 && late.off_cpu == 0.0, "{late:?}");
        let sharing = Lap::of(1, &spans, false).unwrap();
        assert!((sharing.seconds - 11e-3).abs() < 1e-9 && sharing.disturbed == 0.0, "{sharing:?}");
    }

    proptest! {
        #[test]
        fn a_window_is_no_shorter_than_any_part_of_it(
            parts in prop::collection::vec((0_u64..5_000, 1_u64..5_000, 0.0_f64..1.0), 1..9), alone: bool
        ) {
            let all: Vec<_> = parts.iter().map(|(from, length, off)| (*from, from + length, *off)).collect();
            let spans = spans(&all);
            let window = Lap::of(1, &spans, alone).unwrap();
            for span in &spans {
                prop_assert!(window.seconds >= (span.end - span.start).as_secs_f64());
                prop_assert!(window.disturbed >= span.off_cpu && window.disturbed >= window.off_cpu);
            }
            prop_assert!(window.disturbed <= 1.0 && window.seconds <= 10e-3);
        }
    }
}
