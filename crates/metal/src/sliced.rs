//! Sliced measurement: work in short slices, with a probe of the core clock every 125 to 250 µs.
//! Rate and clock come from the same slices, so their quotient is exact even if the clock changes.
//! Slices with a preemption, steal or timer tick are excluded: load of other programs lowers no
//! result, it only excludes more time. The rate of a processor is kept work ÷ kept time of all
//! threads that share it.

mod ledger;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::clock::{ClockUnknown, CoreClock, ProbeWork, timer_overhead, timer_step};
use crate::kernel::{AccumulatorSnapshot, LoadedKernel, WrongResult};
use crate::team::{Team, TeamError, TeamMember};
use crate::usage::thread_switches;

use ledger::{ExcludedTime, Slice, SliceLedger, SliceSum};

/// Shortest time between two probes. A core may change its clock 1400 times a second (Emerald
/// Rapids), and two changes between probes look like an interruption.
const STRETCH_SECONDS: f64 = 125e-6;
/// Time between two probes ÷ duration of a probe (15 µs, with a coarse timer 100 µs).
const TIMES_PROBE: f64 = 8.0;
const LONGEST_SECONDS: f64 = 250e-6;
/// Shortest slice: one tick in 4 ms costs 0.6 % of the time, one in 1 ms 2.5 %.
const SLICE_SECONDS: f64 = 25e-6;
/// Slice duration ÷ uncertainty of its ends (timer step + time of a reading).
const TIMES_UNCERTAINTY: f64 = 500.0;
const STEADY_SPREAD: f64 = 0.05;
/// Default [`SlicedLoad::spread`]: undisturbed work in registers agrees to a few per mille.
const SPREAD: f64 = 0.02;
/// Shortest timing for calibration: 1000 × the timer step.
const CALIBRATION_SECONDS: f64 = 50e-6;
const CALIBRATION_TIMINGS: usize = 5;

/// Work that can be cut into slices. One turn is its smallest unit, such as a loop iteration.
pub trait SlicedLoad: Send {
    /// Does exactly `turns` units of work; the caller times it.
    fn run(&mut self, turns: u64);

    /// Checks the result of `run(turns)` and prepares the next call; called after each, untimed.
    fn settle(&mut self, turns: u64);

    /// Returns the kind of instructions of `run`, which a probe of the core clock imitates.
    fn work(&self) -> ProbeWork {
        ProbeWork::SCALAR
    }

    /// Returns how far the cycles per turn of an undisturbed slice (a timed call of `run`) may be
    /// from the most common value, as a share of that, such as 0.02. Shared memory needs more.
    fn spread(&self) -> f64 {
        SPREAD
    }

    /// Returns whether the load uses caches or memory that other threads share, which slow it by
    /// any factor (a busy sibling thread slows it by one factor).
    fn shares_memory(&self) -> bool {
        false
    }
}

/// Amount of work to count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SliceEnd {
    /// Turns per thread.
    Turns(u64),
    /// Time per thread.
    Elapsed(Duration),
}

/// Result of one processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuOutcome {
    /// Number of the processor.
    pub cpu: usize,
    /// Number of threads that shared it.
    pub threads: usize,
    /// Number of slices counted, kept or not.
    pub slices: u64,
    /// Number of slices kept.
    pub kept: u64,
    /// Work in kept slices ÷ their time, in turns per second: the rate of the whole processor.
    pub turns_per_second: f64,
    /// Core clock in the kept slices, in Hz; `None` if it cannot be probed.
    pub clock_hz: Option<f64>,
    /// Excluded share of the time, 0 to 1. Memory contention counts with its uncontended time.
    pub excluded_share: f64,
    /// Reasons for the exclusion.
    pub causes: Causes,
    /// Share of the clock probes that found vector units in use by another thread, if known.
    pub units_shared: Option<f64>,
}

/// Reasons for excluded time, as shares of the whole time. `switched`, `clock`, `second` and
/// `interrupted` add up to the excluded share.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Causes {
    /// The thread left its CPU (preempted, or stopped by a quota).
    pub switched: f64,
    /// The clock is unknown: no probe, or two different ones, and the slice's cost does not decide.
    pub clock: f64,
    /// Slices with a second common cost.
    pub second: f64,
    /// Slices with any other cost: interrupted by something that is no thread of this system.
    pub interrupted: f64,
    /// Part of `interrupted` beyond the time of the slices' work: the time really taken.
    pub taken: f64,
    /// Second cost ÷ most common cost, if there is a second one.
    pub second_cost: Option<f64>,
    /// Share of the work (not time) at the second cost.
    pub second_work: f64,
}

/// Result of a team.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamOutcome {
    /// From the start of the first counted slice to the end of the last one, on the slowest thread.
    pub elapsed: Duration,
    /// One entry per processor, in order of first appearance in the team.
    pub cpus: Vec<CpuOutcome>,
    /// Work in all counted slices ÷ their time, summed over threads, in turns per second.
    pub delivered_turns_per_second: f64,
}

impl TeamOutcome {
    /// Returns the undisturbed rate of all CPUs together, in turns (units of work) per second.
    pub fn turns_per_second(&self) -> f64 {
        self.cpus.iter().map(|cpu| cpu.turns_per_second).sum()
    }

    /// Returns the mean core clock of the CPUs in Hz; `None` if it is unknown on any of them.
    pub fn clock_hz(&self) -> Option<f64> {
        let sum: Option<f64> = self.cpus.iter().map(|cpu| cpu.clock_hz).sum();
        sum.map(|sum| sum / self.cpus.len() as f64)
    }

    /// Returns the reasons for excluded time, each share averaged over the CPUs; `second_cost` and
    /// `second_work` come from the CPU with the largest `second_work`.
    pub fn causes(&self) -> Causes {
        let mean = |share: fn(&Causes) -> f64| {
            self.cpus.iter().map(|cpu| share(&cpu.causes)).sum::<f64>() / self.cpus.len() as f64
        };
        let most = self.cpus.iter().max_by(|a, b| a.causes.second_work.total_cmp(&b.causes.second_work));
        Causes {
            switched: mean(|c| c.switched),
            clock: mean(|c| c.clock),
            second: mean(|c| c.second),
            interrupted: mean(|c| c.interrupted),
            taken: mean(|c| c.taken),
            second_cost: most.and_then(|cpu| cpu.causes.second_cost),
            second_work: most.map_or(0.0, |cpu| cpu.causes.second_work),
        }
    }

    /// Returns the share of clock probes that found the core's vector units in use by another
    /// thread, on the CPU where that is largest; `None` if unknown on all.
    pub fn units_shared(&self) -> Option<f64> {
        self.cpus.iter().filter_map(|cpu| cpu.units_shared).reduce(f64::max)
    }

    /// Returns the share of time excluded as disturbed, 0 to 1: the mean over the CPUs.
    pub fn excluded_share(&self) -> f64 {
        self.cpus.iter().map(|cpu| cpu.excluded_share).sum::<f64>() / self.cpus.len() as f64
    }
}

/// Reason why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum SlicedError {
    /// The team could not run.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// No slice of a processor was usable.
    #[error(
        "CPU {cpu}: no slice of {slices} could be used: other work took the CPU, or its clock changed all the time; measure when the CPU is \
         idle, or longer"
    )]
    AllDisturbed {
        /// Number of the processor.
        cpu: usize,
        /// Number of counted slices.
        slices: u64,
    },
}

/// A team with a calibrated load on each thread.
#[derive(Debug)]
pub struct Sliced<L> {
    team: Team,
    stations: Vec<MemberStation<L>>,
    turns_per_slice: u64,
    slices_per_stretch: u32,
}

#[derive(Debug)]
struct MemberStation<L> {
    load: L,
    clock: Result<CoreClock, ClockUnknown>,
    ledger: SliceLedger,
    turn_seconds: f64,
    probe_seconds: f64,
    probes: [u64; 2],
}

#[derive(Default)]
struct MeetingWindow {
    threads: usize,
    begun: AtomicUsize,
    done: AtomicUsize,
}

/// A thread's part in a window, finished also by a panic so that no thread waits.
struct Attendance<'run> {
    window: &'run MeetingWindow,
    finished: bool,
}

impl<'run> Attendance<'run> {
    fn begin(window: &'run MeetingWindow) -> Self {
        window.begun.fetch_add(1, Ordering::Relaxed);
        Self { window, finished: false }
    }

    fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            self.window.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

impl<L: SlicedLoad> Sliced<L> {
    /// Creates a load on each thread of `team` with `make`, calibrates the core clock there, and
    /// chooses how many units of work are timed at once (a slice). Fails if a thread panicked.
    pub fn prepare<F>(mut team: Team, make: F) -> Result<Self, SlicedError>
    where
        F: Fn(TeamMember<'_>) -> L + Sync,
    {
        let stations = team.run(|member| MemberStation::calibrated(make(member)))?;
        let quickest = stations.iter().map(|station| station.turn_seconds).fold(f64::INFINITY, f64::min);
        let spread = stations.iter().map(|station| station.load.spread()).fold(0.0, f64::max);
        let slice = slice_seconds(spread, timer_step() + timer_overhead());
        let turns_per_slice = ((slice / quickest) as u64).max(1);
        let probe = stations.iter().map(|station| station.probe_seconds).fold(0.0, f64::max);
        let slices_per_stretch =
            (stretch_seconds(probe) / (turns_per_slice as f64 * quickest)).round().max(1.0) as u32;
        let mut sliced = Self { team, stations, turns_per_slice, slices_per_stretch };
        sliced.reset_ledgers();
        Ok(sliced)
    }

    fn reset_ledgers(&mut self) {
        let cpus = self.team.cpus();
        for (at, cpu) in cpus.iter().enumerate() {
            let sharers = || (0..cpus.len()).filter(|other| cpus[*other] == *cpu);
            if sharers().next() != Some(at) {
                continue;
            }
            let clock = sharers().find_map(|one| self.stations[one].clock.clone().ok());
            let clock = clock.map_or_else(|| self.stations[at].clock.clone(), Ok);
            let mut reference = None;
            for one in sharers() {
                let station = &mut self.stations[one];
                station.clock.clone_from(&clock);
                let reference =
                    *reference.get_or_insert_with(|| station.turn_seconds * station.probe().unwrap_or(1.0));
                station.ledger =
                    SliceLedger::new(reference, station.load.spread(), station.load.shares_memory());
            }
        }
    }

    /// Runs all loads at once until each thread has done `until`, and returns the result of each
    /// CPU. Fails if all slices on a CPU were disturbed, or if a thread panicked.
    pub fn measure(&mut self, until: SliceEnd) -> Result<TeamOutcome, SlicedError> {
        let window = MeetingWindow { threads: self.team.count(), ..MeetingWindow::default() };
        let (turns_per_slice, slices) = (self.turns_per_slice, self.slices_per_stretch);
        let elapsed = self.team.run_each(&mut self.stations, |_, station| {
            station.ledger.clear();
            station.probes = [0; 2];
            station.work(RemainingWork::new(until, turns_per_slice), slices, &window)
        })?;
        let drifted =
            self.stations.iter_mut().map(MemberStation::check_time).filter(|drifted| *drifted).count() > 0;
        let cpus = self.cpu_outcomes()?;
        let delivered = |station: &MemberStation<L>| {
            let all = station.ledger.all();
            if all.seconds > 0.0 { all.turns / all.seconds } else { 0.0 }
        };
        let delivered_turns_per_second = self.stations.iter().map(delivered).sum();
        if drifted {
            // The next measurement counts in seconds.
            self.reset_ledgers();
        }
        Ok(TeamOutcome {
            elapsed: elapsed.into_iter().max().unwrap_or_default(),
            cpus,
            delivered_turns_per_second,
        })
    }

    /// Calls [`Self::measure`], and again up to `retries` times while it fails because all slices
    /// on a CPU were disturbed. Returns the last result.
    pub fn measure_repeatedly(
        &mut self,
        until: SliceEnd,
        retries: usize,
    ) -> Result<TeamOutcome, SlicedError> {
        (0..retries).fold(self.measure(until), |outcome, _| match outcome {
            Err(SlicedError::AllDisturbed { .. }) => self.measure(until),
            outcome => outcome,
        })
    }

    /// Returns the CPU number of each thread, in the order of the team.
    pub fn cpus(&self) -> &[usize] {
        self.team.cpus()
    }

    /// Returns the load of each thread, in the order of the team.
    pub fn loads(&self) -> impl Iterator<Item = &L> {
        self.stations.iter().map(|station| &station.load)
    }

    /// Returns why the core clock is unknown on some thread; `None` if it is known on all.
    pub fn clock_unknown(&self) -> Option<ClockUnknown> {
        self.stations.iter().find_map(|station| station.clock.as_ref().err().copied())
    }

    fn cpu_outcomes(&self) -> Result<Vec<CpuOutcome>, SlicedError> {
        let mut outcomes: Vec<CpuOutcome> = Vec::new();
        for &cpu in self.team.cpus() {
            if outcomes.iter().any(|outcome| outcome.cpu == cpu) {
                continue;
            }
            let pairs = self.team.cpus().iter().zip(&self.stations);
            let mut sharers = pairs.filter(|(other, _)| **other == cpu).map(|(_, station)| station);
            let Some(first) = sharers.next() else { continue };
            let mut books = first.ledger.clone();
            let mut threads = 1;
            for station in sharers {
                books.merge(&station.ledger);
                threads += 1;
            }
            let SliceSum { slices, seconds, .. } = books.all();
            let kept = books.kept();
            if kept.slices == 0 {
                return Err(SlicedError::AllDisturbed { cpu, slices });
            }
            // Every sharing thread spans the same time, so the processor's time is their mean.
            let excluded = books.excluded();
            let present = seconds / threads as f64 - excluded.contended;
            let excluded_share = (1.0 - kept.seconds / present).clamp(0.0, 1.0);
            outcomes.push(CpuOutcome {
                cpu,
                threads,
                slices,
                kept: kept.slices,
                turns_per_second: kept.turns / kept.seconds,
                clock_hz: first.clock.is_ok().then(|| kept.cycles / kept.seconds),
                excluded_share,
                causes: causes(&excluded, excluded_share),
                // Threads that take turns on a processor have the same sibling.
                units_shared: first.units_shared(),
            });
        }
        Ok(outcomes)
    }
}

fn causes(excluded: &ExcludedTime, excluded_share: f64) -> Causes {
    let ExcludedTime { switched, clock, second, contended, other, taken, second_cost, second_work } =
        *excluded;
    let second = second - contended;
    let all = switched + clock + second + other;
    let part = |seconds: f64| if all > 0.0 { seconds / all * excluded_share } else { 0.0 };
    Causes {
        switched: part(switched),
        clock: part(clock),
        second: part(second),
        interrupted: part(other),
        taken: part(taken),
        second_cost,
        second_work,
    }
}

impl<L: SlicedLoad> MemberStation<L> {
    fn calibrated(mut load: L) -> Self {
        let mut turns = 1_u64;
        let turn_seconds = loop {
            let seconds =
                (0..CALIBRATION_TIMINGS).map(|_| time(&mut load, turns)).fold(f64::INFINITY, f64::min);
            if seconds >= CALIBRATION_SECONDS || turns > u64::MAX / 4 {
                break seconds / turns as f64;
            }
            turns *= 2;
        };
        let ledger = SliceLedger::new(1.0, load.spread(), load.shares_memory());
        let clock = CoreClock::calibrate(load.work());
        let mut station = Self { load, clock, ledger, turn_seconds, probe_seconds: 0.0, probes: [0; 2] };
        station.probe_seconds = station.time_of_a_probe();
        station
    }

    fn probe(&mut self) -> Option<f64> {
        let Ok(clock) = &self.clock else { return Some(1.0) };
        let probe = clock.probe_sharing()?;
        self.probes[0] += 1;
        self.probes[1] += u64::from(probe.shared);
        Some(probe.hz)
    }

    fn time_of_a_probe(&mut self) -> f64 {
        let mut timed = || {
            let start = Instant::now();
            self.probe();
            start.elapsed().as_secs_f64()
        };
        (0..CALIBRATION_TIMINGS).map(|_| timed()).fold(f64::INFINITY, f64::min)
    }

    /// Returns whether the time counter drifted since calibration; if so, marks the clock unknown.
    fn check_time(&mut self) -> bool {
        let why = self.clock.as_ref().ok().and_then(|clock| clock.check_time().err());
        why.map(|why| self.clock = Err(why)).is_some()
    }

    fn units_shared(&self) -> Option<f64> {
        let woven = self.clock.as_ref().is_ok_and(CoreClock::is_woven);
        let [all, shared] = self.probes;
        (woven && all > 0).then(|| shared as f64 / all as f64)
    }

    /// Runs the load in slices, with a clock probe every `slices` of them, recording all until
    /// `ration` is used up, then runs on until all threads in `window` are done. Returns the time
    /// from the start of the first recorded slice to the end of the last.
    fn work(&mut self, mut ration: RemainingWork, slices: u32, window: &MeetingWindow) -> Duration {
        let mut counted = Duration::ZERO;
        let mut started: Option<Instant> = None;
        let mut attendance = Attendance::begin(window);
        let mut timed: Vec<(u64, f64)> = Vec::with_capacity(slices as usize);
        let mut before = self.probe();
        let mut switches = thread_switches();
        let all = |arrived: &AtomicUsize| arrived.load(Ordering::Relaxed) == window.threads;
        while !all(&window.done) {
            let counts = !attendance.finished && (started.is_some() || all(&window.begun));
            timed.clear();
            for _ in 0..slices {
                let turns = if counts { ration.next_slice() } else { ration.turns_per_slice };
                let (start, end) = timed_run(&mut self.load, turns);
                timed.push((turns, end.saturating_duration_since(start).as_secs_f64()));
                if counts {
                    counted = end.saturating_duration_since(*started.get_or_insert(start));
                    if ration.is_used_up(counted) {
                        attendance.finish();
                        break;
                    }
                }
            }
            let after = self.probe();
            let switched = std::mem::replace(&mut switches, thread_switches()) != switches;
            for (turns, seconds) in timed.iter().copied().filter(|_| counts) {
                self.ledger.record(&Slice { turns, seconds, before, after, switched });
            }
            before = after;
        }
        counted
    }
}

fn slice_seconds(spread: f64, uncertainty: f64) -> f64 {
    if spread > STEADY_SPREAD {
        return LONGEST_SECONDS;
    }
    (TIMES_UNCERTAINTY * uncertainty).clamp(SLICE_SECONDS, LONGEST_SECONDS)
}

fn stretch_seconds(probe: f64) -> f64 {
    (TIMES_PROBE * probe).clamp(STRETCH_SECONDS, LONGEST_SECONDS)
}

fn timed_run<L: SlicedLoad>(load: &mut L, turns: u64) -> (Instant, Instant) {
    let start = Instant::now();
    load.run(turns);
    let end = Instant::now();
    load.settle(turns);
    (start, end)
}

fn time<L: SlicedLoad>(load: &mut L, turns: u64) -> f64 {
    let (start, end) = timed_run(load, turns);
    end.saturating_duration_since(start).as_secs_f64()
}

#[derive(Debug)]
struct RemainingWork {
    until: SliceEnd,
    turns_per_slice: u64,
    slices_left: u64,
    turns_left: u64,
}

impl RemainingWork {
    fn new(until: SliceEnd, turns_per_slice: u64) -> Self {
        let turns_left = match until {
            SliceEnd::Turns(turns) => turns.max(1),
            SliceEnd::Elapsed(_) => 0,
        };
        Self { until, turns_per_slice, slices_left: turns_left.div_ceil(turns_per_slice), turns_left }
    }

    fn next_slice(&mut self) -> u64 {
        if self.slices_left == 0 {
            return self.turns_per_slice;
        }
        let turns = self.turns_left / self.slices_left;
        self.turns_left -= turns;
        self.slices_left -= 1;
        turns
    }

    fn is_used_up(&self, counted: Duration) -> bool {
        match self.until {
            SliceEnd::Turns(_) => self.turns_left == 0,
            SliceEnd::Elapsed(limit) => counted >= limit,
        }
    }
}

const RESULTS_KEPT: usize = 3;

/// A kernel as a load. Slices of equal length start from and end in the same bits.
#[derive(Debug)]
pub struct KernelLoad {
    kernel: LoadedKernel,
    results: Vec<SliceResult>,
    deviant: Option<SliceResult>,
    deviations: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct SliceResult {
    turns: u64,
    accumulators: AccumulatorSnapshot,
}

impl KernelLoad {
    /// Creates a load that runs `kernel`.
    #[must_use]
    pub fn new(kernel: LoadedKernel) -> Self {
        Self { kernel, results: Vec::with_capacity(RESULTS_KEPT), deviant: None, deviations: 0 }
    }

    /// Returns how many slices differ in result from an earlier slice with as many iterations.
    #[must_use]
    pub fn deviations(&self) -> u64 {
        self.deviations
    }

    /// Checks the results of the slices against the portable reference; fails with the first wrong
    /// one. `proven` caches checked results, because the reference is slow.
    pub fn verify(&self, proven: &mut Proven) -> Result<(), WrongResult> {
        for result in self.deviant.iter().chain(&self.results) {
            if !proven.0.contains(result) {
                self.kernel.verify(&result.accumulators, result.turns)?;
                proven.0.push(result.clone());
            }
        }
        Ok(())
    }
}

/// Results already found equal to the reference's.
#[derive(Debug, Default)]
pub struct Proven(Vec<SliceResult>);

impl SlicedLoad for KernelLoad {
    fn work(&self) -> ProbeWork {
        ProbeWork::of(self.kernel.kernel())
    }

    fn run(&mut self, turns: u64) {
        self.kernel.run(turns);
    }

    fn settle(&mut self, turns: u64) {
        match self.results.iter().find(|result| result.turns == turns) {
            Some(result) if self.kernel.equals(&result.accumulators) => {}
            Some(_) => {
                self.deviant = Some(SliceResult { turns, accumulators: self.kernel.snapshot() });
                self.deviations += 1;
            }
            None => {
                if self.results.len() == RESULTS_KEPT {
                    self.results.remove(0);
                }
                self.results.push(SliceResult { turns, accumulators: self.kernel.snapshot() });
            }
        }
        self.kernel.reset();
    }
}

#[cfg(test)]
mod tests;
