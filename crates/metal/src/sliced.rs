//! Sliced measurement: work in short slices, and a probe of the core clock after each 125 to 250 µs of them.
//!
//! Rate and clock come from the same slices, so their quotient is exact however the clock moves; slices into which a
//! preemption or steal fell are excluded, and their share of time is told. The kernel's tick alone falls
//! into one slice each time, so that what it excludes is its own time and a slice: slices are as short as the timer
//! allows, while a probe would take too large a share of so short a time. All threads are under load for the whole of
//! what is counted: those that start or finish early work on, uncounted.
//!
//! Threads that share a processor take turns on it, and a kept slice had it wholly. So their slices are put in *one*
//! ledger, and the rate of the processor is kept work ÷ kept time: four threads on two processors give the rate of
//! two. Nobody's share of time enters, hence other programs' load lowers no figure, it only sets more aside.

mod ledger;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::clock::{ClockUnknown, CoreClock, ProbeWork, timer_overhead, timer_step};
use crate::kernel::{LoadedKernel, Snapshot, WrongResult};
use crate::team::{Member, Team, TeamError};
use crate::usage::thread_switches;

use ledger::{Excluded, Ledger, Slice, Sum};

/// What lies between two probes at least. A core may change its clock 1400 times a second (Emerald Rapids), and two changes
/// between two probes look like an interruption.
const STRETCH_SECONDS: f64 = 125e-6;
/// A stretch is so many times as long as a probe, within its bounds. A probe takes some 15 µs. With a timer of coarse steps it takes
/// 100, and the longest stretch is 2.5 probes.
const TIMES_PROBE: f64 = 8.0;
/// The longest slice, and the longest stretch of shorter ones.
const LONGEST_SECONDS: f64 = 250e-6;
/// The shortest slice: of one tick in 4 ms it loses 0.6 % of the time, of one in 1 ms 2.5 %.
const SLICE_SECONDS: f64 = 25e-6;
/// A slice lasts so many times the uncertainty of its ends, the timer's step and what a reading takes.
const TIMES_UNCERTAINTY: f64 = 500.0;
/// Loads whose cost varies by more have the longest slices: of shorter ones chance alone would exclude some.
const STEADY_SPREAD: f64 = 0.05;
/// How far the cost of undisturbed work in registers and near caches lies from the most common one: it agrees to some per
/// mille, and the ends of a slice are uncertain by as much. A slice that a sibling slowed by less than this still counts.
const SPREAD: f64 = 0.02;
/// The shortest timing that calibrates: a thousand times the step of the timer.
const CALIBRATION_SECONDS: f64 = 50e-6;
/// Timings of which the shortest calibrates.
const CALIBRATION_TIMINGS: usize = 5;

/// Work that can be cut into slices.
pub trait Load: Send {
    /// Does exactly `turns` units of work. This is what is timed.
    fn run(&mut self, turns: u64);

    /// Called after each slice, untimed: checks what `run` left and makes it ready again.
    fn settle(&mut self, turns: u64);

    /// What kind of work `run` does: the clock is probed in work of the same kind.
    fn work(&self) -> ProbeWork {
        ProbeWork::SCALAR
    }

    /// How far, as a share, the cost of an undisturbed slice may lie from the most common cost: what is further off is
    /// set aside. Registers and near caches take the same time always; memory that others use too does not.
    fn spread(&self) -> f64 {
        SPREAD
    }

    /// Whether it works on caches or memory, which others may use too: they make a slice dearer by any amount, and not by the one factor that a
    /// busy sibling or another state of the core has.
    fn shares_memory(&self) -> bool {
        false
    }
}

/// How much to count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// This many turns on each thread.
    Turns(u64),
    /// This long on each thread.
    Elapsed(Duration),
}

/// What one processor did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuOutcome {
    /// The processor.
    pub cpu: usize,
    /// Threads that shared it.
    pub threads: usize,
    /// Slices counted, kept or not.
    pub slices: u64,
    /// Slices kept.
    pub kept: u64,
    /// Work in kept slices ÷ their time, in turns per second: the rate of the whole processor.
    pub turns_per_second: f64,
    /// The core clock over the same time, in Hz; `None` where it cannot be probed.
    pub clock_hz: Option<f64>,
    /// Share of the time that was set aside, from 0 to 1. Work on memory that others made dearer has the time that it takes without them.
    pub set_aside: f64,
    /// Why.
    pub causes: Causes,
    /// Share of the probes of the clock that did not have the vector units alone: another thread used them, on the same
    /// core. Nothing where the probe has no vector work.
    pub units_shared: Option<f64>,
}

/// Why time is not counted: shares of the whole time, which add up to what is set aside.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Causes {
    /// The thread left its CPU: another one ran there, or a quota stopped it.
    pub switched: f64,
    /// The clock is unknown: there is no probe, or two that differ, and the cost of the slice does not show which it had.
    pub clock: f64,
    /// The slices had a second common cost.
    pub second: f64,
    /// They took longer, or less long, than usual for none of these reasons: something that is no thread of this system ran.
    pub gaps: f64,
    /// By how much the longer ones of those were longer: not all of a slice that is excluded was taken. No part of the sum.
    pub taken: f64,
    /// The second cost ÷ the most common one, where there is one.
    pub second_cost: Option<f64>,
    /// The share of the work, not of the time, that was done at it.
    pub second_work: f64,
}

/// What a team did.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From the first counted slice's start to the last one's end, on the slowest thread.
    pub elapsed: Duration,
    /// Each processor once, in order of first appearance in the team.
    pub cpus: Vec<CpuOutcome>,
    /// Work in all counted slices ÷ their time, disturbed or not, summed over threads, in turns per second.
    pub delivered_turns_per_second: f64,
}

impl Outcome {
    /// The rate of all processors together, in turns per second.
    pub fn turns_per_second(&self) -> f64 {
        self.cpus.iter().map(|cpu| cpu.turns_per_second).sum()
    }

    /// The mean clock of the processors, in Hz: so × processors × work per cycle is comparable to the rate.
    pub fn clock_hz(&self) -> Option<f64> {
        let sum: Option<f64> = self.cpus.iter().map(|cpu| cpu.clock_hz).sum();
        sum.map(|sum| sum / self.cpus.len() as f64)
    }

    /// Why time is not counted, mean over the processors; the second cost is that of the processor that did most work at one.
    pub fn causes(&self) -> Causes {
        let mean = |share: fn(&Causes) -> f64| {
            self.cpus.iter().map(|cpu| share(&cpu.causes)).sum::<f64>() / self.cpus.len() as f64
        };
        let most = self.cpus.iter().max_by(|a, b| a.causes.second_work.total_cmp(&b.causes.second_work));
        Causes {
            switched: mean(|c| c.switched),
            clock: mean(|c| c.clock),
            second: mean(|c| c.second),
            gaps: mean(|c| c.gaps),
            taken: mean(|c| c.taken),
            second_cost: most.and_then(|cpu| cpu.causes.second_cost),
            second_work: most.map_or(0.0, |cpu| cpu.causes.second_work),
        }
    }

    /// The largest share of a processor's probes that did not have the vector units of their core alone.
    pub fn units_shared(&self) -> Option<f64> {
        self.cpus.iter().filter_map(|cpu| cpu.units_shared).reduce(f64::max)
    }

    /// Share of the processors' time that was set aside, from 0 to 1.
    pub fn set_aside(&self) -> f64 {
        self.cpus.iter().map(|cpu| cpu.set_aside).sum::<f64>() / self.cpus.len() as f64
    }
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlicedError {
    /// The team could not run.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// Not one slice of a processor could be used.
    #[error(
        "CPU {cpu}: no slice of {slices} could be used: other work took the CPU, or its clock changed all the time; measure when the CPU is \
         idle, or longer"
    )]
    AllDisturbed {
        /// The processor.
        cpu: usize,
        /// Slices that were counted.
        slices: u64,
    },
}

/// A team with a load on each member, calibrated and ready to be measured.
#[derive(Debug)]
pub struct Sliced<L> {
    team: Team,
    stations: Vec<Station<L>>,
    turns_per_slice: u64,
    slices_per_stretch: u32,
}

/// One member's own: made and first touched on its thread.
#[derive(Debug)]
struct Station<L> {
    load: L,
    clock: Result<CoreClock, ClockUnknown>,
    ledger: Ledger,
    /// Seconds for each turn, at best, when calibrated.
    turn_seconds: f64,
    /// Seconds for a probe, likewise.
    probe_seconds: f64,
    /// Probes, and those that did not have the vector units alone.
    probes: [u64; 2],
}

/// Where the members meet: threads that have begun, and that have done their part.
struct Window {
    threads: usize,
    begun: AtomicUsize,
    done: AtomicUsize,
}

/// A thread's part in a window. Dropped by a panic it counts as done, so that nobody waits for it for ever.
struct Attendance<'run> {
    window: &'run Window,
    finished: bool,
}

impl<'run> Attendance<'run> {
    fn begin(window: &'run Window) -> Self {
        window.begun.fetch_add(1, Ordering::Relaxed);
        Self { window, finished: false }
    }

    fn all_have_begun(&self) -> bool {
        self.window.begun.load(Ordering::Relaxed) == self.window.threads
    }

    fn all_are_done(&self) -> bool {
        self.window.done.load(Ordering::Relaxed) == self.window.threads
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

impl<L: Load> Sliced<L> {
    /// Makes a load on each member's own thread, calibrates the clock there, and finds the length of a slice.
    ///
    /// # Errors
    /// [`SlicedError::Team`] if a member panicked.
    pub fn prepare<F>(mut team: Team, make: F) -> Result<Self, SlicedError>
    where
        F: Fn(Member<'_>) -> L + Sync,
    {
        let stations = team.run(|member| Station::calibrated(make(member)))?;
        // One length for all, so that equal work leaves equal results; the fastest turn decides, slower cores get
        // longer slices in proportion.
        let quickest = stations.iter().map(|station| station.turn_seconds).fold(f64::INFINITY, f64::min);
        let spread = stations.iter().map(|station| station.load.spread()).fold(0.0, f64::max);
        let slice = slice_seconds(spread, timer_step() + timer_overhead());
        let turns_per_slice = ((slice / quickest) as u64).max(1);
        let probe = stations.iter().map(|station| station.probe_seconds).fold(0.0, f64::max);
        let slices_per_stretch =
            (stretch_seconds(probe) / (turns_per_slice as f64 * quickest)).round().max(1.0) as u32;
        let mut sliced = Self { team, stations, turns_per_slice, slices_per_stretch };
        sliced.open_books();
        Ok(sliced)
    }

    /// New books for each station: those of threads that share a processor are put together, so they have one clock, known or
    /// not, and one reference. A clock that any of them could calibrate serves them all.
    fn open_books(&mut self) {
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
                let reference = *reference.get_or_insert_with(|| station.cycles_per_turn());
                station.ledger = Ledger::new(reference, station.load.spread(), station.load.shares_memory());
            }
        }
    }

    /// Counts `until` on every thread and says what the processors did.
    ///
    /// # Errors
    /// [`SlicedError::AllDisturbed`] if a processor was never left alone; [`SlicedError::Team`] on a panic.
    pub fn measure(&mut self, until: Until) -> Result<Outcome, SlicedError> {
        let window =
            Window { threads: self.team.count(), begun: AtomicUsize::new(0), done: AtomicUsize::new(0) };
        let (turns_per_slice, slices) = (self.turns_per_slice, self.slices_per_stretch);
        let elapsed = self.team.run_each(&mut self.stations, |_, station| {
            station.ledger.clear();
            station.probes = [0; 2];
            station.work(Ration::new(until, turns_per_slice), slices, &window)
        })?;
        let drifted =
            self.stations.iter_mut().map(Station::check_time).filter(|drifted| *drifted).count() > 0;
        let cpus = self.settle_accounts()?;
        let delivered = |station: &Station<L>| {
            let all = station.ledger.all();
            if all.seconds > 0.0 { all.turns / all.seconds } else { 0.0 }
        };
        let delivered_turns_per_second = self.stations.iter().map(delivered).sum();
        if drifted {
            // What comes next is counted in seconds.
            self.open_books();
        }
        Ok(Outcome {
            elapsed: elapsed.into_iter().max().unwrap_or_default(),
            cpus,
            delivered_turns_per_second,
        })
    }

    /// Turns in one slice.
    pub fn turns_per_slice(&self) -> u64 {
        self.turns_per_slice
    }

    /// The team's processors, one for each member.
    pub fn cpus(&self) -> &[usize] {
        self.team.cpus()
    }

    /// The members' loads, in order.
    pub fn loads(&self) -> impl Iterator<Item = &L> {
        self.stations.iter().map(|station| &station.load)
    }

    /// Why the core clock is not known, if it is not.
    pub fn clock_unknown(&self) -> Option<ClockUnknown> {
        self.stations.iter().find_map(|station| station.clock.as_ref().err().copied())
    }

    /// Puts the ledgers of threads that share a processor together.
    fn settle_accounts(&self) -> Result<Vec<CpuOutcome>, SlicedError> {
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
            let mut outcome = outcome(cpu, threads, &books, first.clock.is_ok())?;
            // Threads that take turns on a processor see the same sibling.
            outcome.units_shared = first.units_shared();
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}

fn outcome(cpu: usize, threads: usize, books: &Ledger, clock_known: bool) -> Result<CpuOutcome, SlicedError> {
    let Sum { slices, seconds, .. } = books.all();
    let kept = books.kept();
    if kept.slices == 0 {
        return Err(SlicedError::AllDisturbed { cpu, slices });
    }
    // Each of the sharers saw the same time go by, so the processor's own time is their mean.
    let excluded = books.excluded();
    let present = seconds / threads as f64 - excluded.contended;
    let set_aside = (1.0 - kept.seconds / present).clamp(0.0, 1.0);
    Ok(CpuOutcome {
        cpu,
        threads,
        slices,
        kept: kept.slices,
        turns_per_second: kept.turns / kept.seconds,
        clock_hz: clock_known.then(|| kept.cycles / kept.seconds),
        set_aside,
        causes: causes(&excluded, set_aside),
        units_shared: None,
    })
}

/// The causes of what is set aside, each with its part of it.
fn causes(excluded: &Excluded, set_aside: f64) -> Causes {
    let Excluded { switched, clock, second, contended, other, taken, second_cost, second_work } = *excluded;
    let second = second - contended;
    let all = switched + clock + second + other;
    let part = |seconds: f64| if all > 0.0 { seconds / all * set_aside } else { 0.0 };
    Causes {
        switched: part(switched),
        clock: part(clock),
        second: part(second),
        gaps: part(other),
        taken: part(taken),
        second_cost,
        second_work,
    }
}

impl<L: Load> Station<L> {
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
        let ledger = Ledger::new(1.0, load.spread(), load.shares_memory());
        let clock = CoreClock::calibrate(load.work());
        let mut station = Self { load, clock, ledger, turn_seconds, probe_seconds: 0.0, probes: [0; 2] };
        station.probe_seconds = station.time_of_a_probe();
        station
    }

    /// In seconds where the clock is unknown, as if it were 1 Hz: the ledger only compares costs with one another.
    fn cycles_per_turn(&mut self) -> f64 {
        self.turn_seconds * self.probe().unwrap_or(1.0)
    }

    fn probe(&mut self) -> Option<f64> {
        let Ok(clock) = &self.clock else { return Some(1.0) };
        let probe = clock.look()?;
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

    /// The clock is unknown where time did not keep its pace, from now on; whether this is news.
    fn check_time(&mut self) -> bool {
        let why = self.clock.as_ref().ok().and_then(|clock| clock.check_time().err());
        why.map(|why| self.clock = Err(why)).is_some()
    }

    fn units_shared(&self) -> Option<f64> {
        let woven = self.clock.as_ref().is_ok_and(CoreClock::is_woven);
        let [all, shared] = self.probes;
        (woven && all > 0).then(|| shared as f64 / all as f64)
    }

    /// Works stretch by stretch until every thread has done its part; returns the time of the counted ones.
    fn work(&mut self, mut ration: Ration, slices: u32, window: &Window) -> Duration {
        let mut counted = Duration::ZERO;
        let mut started: Option<Instant> = None;
        let mut attendance = Attendance::begin(window);
        let mut timed: Vec<(u64, f64)> = Vec::with_capacity(slices as usize);
        let mut before = self.probe();
        let mut switches = thread_switches();
        while !attendance.all_are_done() {
            let counts = !attendance.finished && (started.is_some() || attendance.all_have_begun());
            timed.clear();
            for _ in 0..slices {
                let turns = if counts { ration.next_slice() } else { ration.full_slice() };
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

/// How long a slice lasts, where the ends of one are uncertain by so much.
fn slice_seconds(spread: f64, uncertainty: f64) -> f64 {
    if spread > STEADY_SPREAD {
        return LONGEST_SECONDS;
    }
    (TIMES_UNCERTAINTY * uncertainty).clamp(SLICE_SECONDS, LONGEST_SECONDS)
}

/// What lies between two probes that take so long each.
fn stretch_seconds(probe: f64) -> f64 {
    (TIMES_PROBE * probe).clamp(STRETCH_SECONDS, LONGEST_SECONDS)
}

/// Does so many turns and settles them; when the work began and ended.
fn timed_run<L: Load>(load: &mut L, turns: u64) -> (Instant, Instant) {
    let start = Instant::now();
    load.run(turns);
    let end = Instant::now();
    load.settle(turns);
    (start, end)
}

fn time<L: Load>(load: &mut L, turns: u64) -> f64 {
    let (start, end) = timed_run(load, turns);
    end.saturating_duration_since(start).as_secs_f64()
}

/// What one thread still has to count. A fixed amount is cut into slices that differ by one turn at most.
#[derive(Debug)]
struct Ration {
    until: Until,
    turns_per_slice: u64,
    slices_left: u64,
    turns_left: u64,
}

impl Ration {
    fn new(until: Until, turns_per_slice: u64) -> Self {
        let turns_left = match until {
            Until::Turns(turns) => turns.max(1),
            Until::Elapsed(_) => 0,
        };
        Self { until, turns_per_slice, slices_left: turns_left.div_ceil(turns_per_slice), turns_left }
    }

    fn full_slice(&self) -> u64 {
        self.turns_per_slice
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
            Until::Turns(_) => self.turns_left == 0,
            Until::Elapsed(limit) => counted >= limit,
        }
    }
}

/// Results of different lengths that a [`KernelLoad`] keeps for [`KernelLoad::verify`]: a full slice and the two
/// lengths of a fixed amount.
const RESULTS_KEPT: usize = 3;

/// A kernel as a load: every slice starts from the same operands, so every slice of a length must end in the same bits.
#[derive(Debug)]
pub struct KernelLoad {
    kernel: LoadedKernel,
    results: Vec<SliceResult>,
    /// The last result that was not that of an earlier slice of its length.
    deviant: Option<SliceResult>,
    /// How many results were not that of an earlier slice of their length.
    deviations: u64,
}

/// What a slice of some length left in the accumulators.
#[derive(Debug, Clone, PartialEq)]
struct SliceResult {
    turns: u64,
    accumulators: Snapshot,
}

impl KernelLoad {
    /// A load of this kernel.
    #[must_use]
    pub fn new(kernel: LoadedKernel) -> Self {
        Self { kernel, results: Vec::with_capacity(RESULTS_KEPT), deviant: None, deviations: 0 }
    }

    /// How many slices differed from an earlier one of their length.
    #[must_use]
    pub fn deviations(&self) -> u64 {
        self.deviations
    }

    /// Checks that slices agreed with one another, and their results with the portable reference. `proven` is what
    /// other members have shown already: the reference is slow, and equal loads leave equal results.
    ///
    /// # Errors
    /// [`WrongResult`] with the first number that differs.
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

impl Load for KernelLoad {
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
