//! Time, and the clock the core really held.
//!
//! Time is the monotonic clock of the system (`clock_gettime`, on Linux without a system call where the kernel trusts
//! its time source). The core clock is measured, never read from a label: a chain of dependent one-cycle integer
//! additions takes exactly one cycle per addition, on every core plimsoll knows, also where a virtual machine hides
//! the hardware counters.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::arch::native;

/// Turns of the chain's loop in one link: about 10 000 cycles, so some 2 to 5 µs.
const TURNS_PER_LINK: u64 = 160;
/// Links in one probe: enough that some escape interrupts, few enough to stay short (some 15 µs).
const LINKS_PER_PROBE: usize = 5;
/// Pairs of a link and a short link that calibrate the cost of reading the time.
const CALIBRATION_PAIRS: usize = 256;
/// How many times shorter the short link is.
const SHORTER: u64 = 8;
/// A link within this share of the best one counts as undisturbed: interrupts cost far more.
const LINK_TOLERANCE: f64 = 0.005;
/// Several processors count time in steps of 10 ns; two readings may each be off by one step.
const TIMER_STEP_SECONDS: f64 = 25e-9;

/// Why the core clock cannot be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockUnknown {
    /// No chain is written for this processor architecture.
    #[error("core clock unknown: no chain of one-cycle additions is written for this processor architecture")]
    NoChain,
    /// Time did not advance while the chain ran.
    #[error("core clock unknown: the monotonic clock did not advance during a chain of additions")]
    TimerStuck,
}

/// The cost of reading the time once, in seconds: the lowest mean of `clock_gettime` over several batches.
#[must_use]
pub fn timer_overhead() -> f64 {
    const BATCHES: u32 = 16;
    const READINGS: u32 = 256;
    let batch = || {
        let start = Instant::now();
        let mut last = start;
        for _ in 0..READINGS {
            last = std::hint::black_box(Instant::now());
        }
        last.saturating_duration_since(start).as_secs_f64() / f64::from(READINGS)
    };
    (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// The processor time this thread has used so far, user and system.
///
/// Steal is not in it on a kernel that accounts steal, and is on one that does not: use it for shares, not for rates.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0).min(999_999_999))
}

/// Measures the clock of the core that the calling thread runs on.
///
/// A probe times a few short links of the chain and takes those near the best: an interrupt, a steal or a preemption
/// can only make the clock look lower. The cost of reading the time overlaps the chain in part, so it is not measured
/// alone but calibrated as the constant part of a link, from links of two lengths.
#[derive(Debug, Clone)]
pub struct CoreClock {
    chain: fn(u64),
    /// Seconds that each link seems longer than its additions.
    constant: f64,
}

impl CoreClock {
    /// Calibrates on the calling thread's core, which takes about a millisecond; pin the thread first.
    ///
    /// # Errors
    /// [`ClockUnknown`] names why the clock cannot be measured here.
    pub fn calibrate() -> Result<Self, ClockUnknown> {
        let chain = native::ADD_CHAIN.ok_or(ClockUnknown::NoChain)?;
        let mut long = [0.0; CALIBRATION_PAIRS];
        let mut short = [0.0; CALIBRATION_PAIRS];
        chain(TURNS_PER_LINK * 4);
        for (long, short) in long.iter_mut().zip(short.iter_mut()) {
            let start = Instant::now();
            chain(TURNS_PER_LINK);
            let middle = Instant::now();
            chain(TURNS_PER_LINK / SHORTER);
            let end = Instant::now();
            *long = seconds(start, middle);
            *short = seconds(middle, end);
        }
        let long = undisturbed_mean(&long).ok_or(ClockUnknown::TimerStuck)?;
        let short = undisturbed_mean(&short).ok_or(ClockUnknown::TimerStuck)?;
        // long = constant + n·t, short = constant + n·t / SHORTER
        let constant = (SHORTER as f64 * short - long) / (SHORTER - 1) as f64;
        Ok(Self { chain, constant: constant.clamp(0.0, long / 10.0) })
    }

    /// The core clock in Hz, just now. `None` where every link was disturbed beyond use or time stood still.
    #[must_use]
    pub fn probe(&self) -> Option<f64> {
        let mut stamps = [Instant::now(); LINKS_PER_PROBE + 1];
        for stamp in stamps.iter_mut().skip(1) {
            (self.chain)(TURNS_PER_LINK);
            *stamp = Instant::now();
        }
        let mut links = [0.0; LINKS_PER_PROBE];
        for (link, pair) in links.iter_mut().zip(stamps.windows(2)) {
            if let [start, end] = pair {
                *link = seconds(*start, *end);
            }
        }
        let additions = (TURNS_PER_LINK * native::ADDS_PER_TURN) as f64;
        let time = undisturbed_mean(&links)? - self.constant;
        (time > 0.0).then(|| additions / time)
    }

    /// The calibrated constant cost of timing one link, in seconds.
    #[must_use]
    pub fn constant(&self) -> f64 {
        self.constant
    }
}

fn seconds(start: Instant, end: Instant) -> f64 {
    end.saturating_duration_since(start).as_secs_f64()
}

/// The mean of the durations near the shortest; `None` if there is none or time stood still.
///
/// The mean and not the minimum: with a timer of coarse steps the minimum is biased by up to one step.
fn undisturbed_mean(durations: &[f64]) -> Option<f64> {
    let best = durations.iter().copied().fold(f64::INFINITY, f64::min);
    if !best.is_finite() || best <= 0.0 {
        return None;
    }
    let longest = best * (1.0 + LINK_TOLERANCE) + TIMER_STEP_SECONDS;
    let (sum, count) = durations
        .iter()
        .filter(|duration| **duration <= longest)
        .fold((0.0, 0_u32), |(sum, count), duration| (sum + duration, count + 1));
    Some(sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_link_does_not_lower_the_mean_clock() {
        let mean = undisturbed_mean(&[3.0e-6, 3.01e-6, 9.0e-6, 2.99e-6]).unwrap();
        assert!((mean - 3.0e-6).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn a_timer_that_stands_still_gives_no_clock() {
        assert_eq!(undisturbed_mean(&[0.0, 3.0e-6]), None);
        assert_eq!(undisturbed_mean(&[]), None);
    }

    #[test]
    fn probes_are_plausible_clocks_where_a_chain_exists() {
        match CoreClock::calibrate() {
            Ok(clock) => {
                let hz = clock.probe().unwrap();
                assert!((1e8..1e10).contains(&hz), "{hz} Hz");
            }
            Err(reason) => assert_eq!(reason, ClockUnknown::NoChain),
        }
    }

    #[test]
    fn reading_the_time_costs_something_and_less_than_a_link() {
        let overhead = timer_overhead();
        assert!(overhead > 0.0 && overhead < 1e-4, "{overhead} s");
    }

    #[test]
    fn thread_time_advances_with_work_and_never_goes_back() {
        let start = thread_cpu_time();
        let mut now = start;
        let mut turns = 0_u64;
        while now == start && turns < 10_000_000 {
            turns += 1;
            let next = thread_cpu_time();
            assert!(next >= now);
            now = next;
        }
        assert!(now > start);
    }
}
