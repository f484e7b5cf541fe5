//! Compares the rate of `CLOCK_MONOTONIC`, which times all results, with other clocks.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use plimsoll_metal::ticks::StatedCounter;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::Root;

/// Highest core clock of any processor in Hz: overclocked under liquid helium, some 9.1 GHz.
pub const HIGHEST_CORE_HZ: f64 = 9.2e9;

const RTC: &str = "sys/class/rtc/rtc0/since_epoch";
const RTC_EVERY: f64 = 1.0;
const LONGEST_RTC_READING: f64 = 0.05;

/// Most readings kept: beyond, every second one is dropped.
const MOST_READINGS: usize = 1024;
const MAX_READ_ATTEMPTS: usize = 3;
const MAX_READ_SECONDS: f64 = 1e-3;

/// A clock with which the monotonic clock is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceClock {
    /// Monotonic clock read from the kernel, bypassing the C library.
    Kernel,
    /// Time counter of the processor at its stated rate.
    Counter,
    /// Wall clock.
    Wall,
    /// Battery-backed clock.
    Rtc,
}

impl ReferenceClock {
    const ALL: [Self; 4] = [Self::Kernel, Self::Counter, Self::Wall, Self::Rtc];

    /// Returns the largest error of a reading in s: 1 for the RTC, 0.002 for other clocks.
    fn uncertainty(self) -> f64 {
        if self == Self::Rtc { 1.0 } else { 2.0 * MAX_READ_SECONDS }
    }

    /// Returns the tolerated relative difference in rate, such as 0.02. Daemons slew by up to 10 %
    /// (adjtimex(2)); a counter's nominal rate may be wrong or the host's before a migration.
    fn tolerance(self) -> f64 {
        match self {
            Self::Kernel | Self::Wall => 0.02,
            Self::Rtc => 0.12,
            Self::Counter => 0.25,
        }
    }
}

impl fmt::Display for ReferenceClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "the kernel's own clock",
            Self::Counter => "the stated rate of the processor's time counter",
            Self::Wall => "the wall clock",
            Self::Rtc => "the battery-backed clock (RTC)",
        })
    }
}

/// A wrong rate of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "clocks disagree: the monotonic clock runs at {ratio:.3} times the rate of {reference}, so no time or rate is right; check LD_PRELOAD and the clocksource"
)]
pub struct WrongRate {
    /// The clock that disagrees.
    pub reference: ReferenceClock,
    /// Rate of the monotonic clock relative to the reference.
    pub ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct ClockReading {
    monotonic: f64,
    reference: f64,
}

/// Watches the rate of the monotonic clock.
#[derive(Debug)]
pub struct ClockWatch {
    root: Root,
    began: Instant,
    counter: Option<StatedCounter>,
    readings: [Vec<ClockReading>; ReferenceClock::ALL.len()],
    next_rtc: f64,
}

impl ClockWatch {
    /// Takes a first reading of all clocks and starts no thread; the RTC is read below `root`.
    pub fn new(root: &Root) -> Self {
        let mut watch = Self {
            root: root.clone(),
            began: Instant::now(),
            counter: StatedCounter::detect(),
            readings: Default::default(),
            next_rtc: f64::NEG_INFINITY,
        };
        watch.take_reading();
        watch
    }

    /// Stores a reading of all clocks (of the RTC at most once a second), or none if interrupted.
    pub fn take_reading(&mut self) {
        let now = || self.began.elapsed().as_secs_f64();
        let moment = || {
            let (before, started) = (now(), clock_seconds(ClockId::Monotonic));
            let counter = self.counter.map(|counter| counter.seconds());
            // During a suspension the kernel's wall clock advances and the monotonic one does not.
            let suspended = clock_seconds(ClockId::Boottime) - started;
            let wall = clock_seconds(ClockId::Realtime) - suspended;
            let ended = clock_seconds(ClockId::Monotonic);
            let after = now();
            (ended - started <= MAX_READ_SECONDS && after - before <= MAX_READ_SECONDS).then_some((
                [Some((started + ended) / 2.0), counter, Some(wall), None],
                (before + after) / 2.0,
                suspended,
            ))
        };
        let Some((mut references, monotonic, suspended)) = (0..MAX_READ_ATTEMPTS).find_map(|_| moment())
        else {
            return;
        };
        references[ReferenceClock::Rtc as usize] = self.rtc().map(|seconds| seconds - suspended);
        for (readings, reference) in self.readings.iter_mut().zip(references) {
            if let Some(reference) = reference {
                readings.push(ClockReading { monotonic, reference });
            }
            if readings.len() > MOST_READINGS {
                *readings = readings.iter().step_by(2).copied().collect();
            }
        }
    }

    fn rtc(&mut self) -> Option<f64> {
        let before = clock_seconds(ClockId::Monotonic);
        if before < self.next_rtc {
            return None;
        }
        let seconds = self.root.text(Path::new(RTC)).ok().and_then(|text| text.parse().ok());
        let after = clock_seconds(ClockId::Monotonic);
        let is_usable = seconds.is_some() && after - before <= LONGEST_RTC_READING;
        self.next_rtc = if is_usable { after + RTC_EVERY } else { f64::INFINITY };
        seconds
    }

    /// Takes a reading and returns the first reference clock with another rate than the monotonic
    /// clock since the start; `None` if none deviates or too little time has passed.
    pub fn wrong_rate(&mut self) -> Option<WrongRate> {
        self.take_reading();
        find_wrong_rate(&self.readings)
    }

    /// Returns the clocks with the monotonic clock's rate so far; empty if called too early.
    pub fn confirmed_by(&self) -> Vec<ReferenceClock> {
        let pace = |clock: ReferenceClock| compare_rates(clock, &self.readings[clock as usize]);
        ReferenceClock::ALL.into_iter().filter(|clock| pace(*clock) == Some(ClockPace::Same)).collect()
    }
}

fn clock_seconds(clock: ClockId) -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec as f64 + tv_nsec as f64 * 1e-9
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ClockPace {
    Same,
    /// Rate of the monotonic clock relative to the reference.
    Differs(f64),
}

/// Returns the first clock in `readings` (a list per [`ReferenceClock`]) with another rate than the
/// monotonic clock, if any. The processor's counter is ignored if the RTC agrees with the latter.
fn find_wrong_rate(readings: &[Vec<ClockReading>; ReferenceClock::ALL.len()]) -> Option<WrongRate> {
    let shown = |reference: ReferenceClock| compare_rates(reference, &readings[reference as usize]);
    let overruled = |reference| {
        reference == ReferenceClock::Counter && shown(ReferenceClock::Rtc) == Some(ClockPace::Same)
    };
    ReferenceClock::ALL.into_iter().filter(|reference| !overruled(*reference)).find_map(|reference| {
        match shown(reference)? {
            ClockPace::Differs(ratio) => Some(WrongRate { reference, ratio }),
            ClockPace::Same => None,
        }
    })
}

/// Compares the rates of the monotonic clock and `reference`; `None` if too little time passed, or
/// `reference` stands still or changed its rate.
fn compare_rates(reference: ReferenceClock, readings: &[ClockReading]) -> Option<ClockPace> {
    let (first, last) = (readings.first()?, readings.last()?);
    let span = last.monotonic - first.monotonic;
    let advanced = last.reference - first.reference;
    if advanced <= 0.0 {
        return None;
    }
    let margin = |monotonic: f64, advanced: f64| {
        reference.uncertainty() + reference.tolerance() * f64::max(monotonic, advanced)
    };
    if (advanced - span).abs() <= margin(span, advanced) {
        return (margin(span, advanced) < 0.3 * span).then_some(ClockPace::Same);
    }
    if reference == ReferenceClock::Kernel {
        return Some(ClockPace::Differs(span / advanced));
    }
    const PARTS: usize = 3;
    let nearest = |part: usize| {
        let wanted = first.monotonic + span * part as f64 / PARTS as f64;
        let far = |reading: &&ClockReading| (reading.monotonic - wanted).abs();
        readings.iter().min_by(|a, b| far(a).total_cmp(&far(b)))
    };
    let bounds: Vec<&ClockReading> = (0..=PARTS).filter_map(nearest).collect();
    let mut ratios: Vec<f64> = Vec::new();
    for part in bounds.windows(2) {
        let [from, to] = part else { return None };
        let (monotonic, advanced) = (to.monotonic - from.monotonic, to.reference - from.reference);
        if advanced <= 0.0 || (advanced - monotonic).abs() <= margin(monotonic, advanced) {
            return None;
        }
        ratios.push(monotonic / advanced);
    }
    ratios.sort_by(f64::total_cmp);
    let is_one_way = ratios.iter().all(|ratio| *ratio < 1.0) || ratios.iter().all(|ratio| *ratio > 1.0);
    ratios.get(PARTS / 2).filter(|_| is_one_way).map(|ratio| ClockPace::Differs(*ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(step: f64, parts: &[(f64, f64, f64)]) -> Vec<ClockReading> {
        let mut all = vec![ClockReading { monotonic: 0.0, reference: 1000.0 }];
        for (seconds, rate, jump) in parts {
            let last = all.last().copied().unwrap();
            let count = (seconds / step) as usize;
            all.extend((1..=count).map(|i| ClockReading {
                monotonic: last.monotonic + i as f64 * step,
                reference: last.reference + jump + i as f64 * step * rate,
            }));
        }
        all
    }

    #[test]
    fn a_wrong_rate_shows_on_every_reference() {
        for factor in [0.1, 0.5, 2.0, 10.0] {
            for reference in ReferenceClock::ALL {
                let readings = readings(0.5, &[(30.0, 1.0 / factor, 0.0)]);
                let Some(ClockPace::Differs(ratio)) = compare_rates(reference, &readings) else {
                    panic!("{reference:?} {factor}")
                };
                assert!((ratio / factor - 1.0).abs() < 1e-9, "{reference:?} {factor} {ratio}");
            }
        }
    }

    #[test]
    fn a_step_a_suspension_and_slewing_are_no_wrong_rate() {
        let step = readings(0.1, &[(1.0, 1.0, 0.0), (2.0, 1.0, 3600.0)]);
        let back = readings(0.1, &[(1.0, 1.0, 0.0), (2.0, 1.0, -3600.0)]);
        let slewed = readings(1.0, &[(60.0, 1.1, 0.0)]);
        for reference in [ReferenceClock::Counter, ReferenceClock::Wall, ReferenceClock::Rtc] {
            assert_eq!(compare_rates(reference, &step), None, "{reference:?}");
            assert_eq!(compare_rates(reference, &back), None, "{reference:?}");
        }
        let anew = readings(0.1, &[(1.0, 1.0, 0.0), (1.0, 1.0, -1000.0), (1.0, 1.0, 0.0)]);
        assert_eq!(compare_rates(ReferenceClock::Counter, &anew), None);
        assert_eq!(compare_rates(ReferenceClock::Rtc, &readings(1.0, &[(60.0, 0.0, 0.0)])), None);
        assert_eq!(compare_rates(ReferenceClock::Rtc, &slewed), Some(ClockPace::Same));
    }

    #[test]
    fn seconds_of_an_rtc_confirm_nothing_in_a_short_time() {
        let rtc = |seconds| compare_rates(ReferenceClock::Rtc, &readings(1.0, &[(seconds, 1.0, 0.0)]));
        assert_eq!((rtc(2.0), rtc(20.0)), (None, Some(ClockPace::Same)));
    }

    #[test]
    fn an_rtc_overrules_the_stated_rate_of_a_counter() {
        let same = readings(1.0, &[(30.0, 1.0, 0.0)]);
        let half = readings(1.0, &[(30.0, 0.5, 0.0)]);
        let all = |counter: &Vec<ClockReading>, rtc: Vec<ClockReading>| {
            find_wrong_rate(&[same.clone(), counter.clone(), same.clone(), rtc])
        };
        assert_eq!(all(&half, same.clone()), None);
        assert_eq!(all(&half, Vec::new()).map(|wrong| wrong.reference), Some(ReferenceClock::Counter));
        assert_eq!(all(&same, half.clone()).map(|wrong| wrong.reference), Some(ReferenceClock::Rtc));
    }

    #[test]
    fn the_clocks_of_this_machine_agree() {
        let mut watch = ClockWatch::new(&Root::live());
        while watch.began.elapsed().as_millis() < 50 {
            watch.take_reading();
        }
        assert_eq!(watch.wrong_rate(), None);
        assert!(watch.confirmed_by().contains(&ReferenceClock::Kernel));
    }
}
