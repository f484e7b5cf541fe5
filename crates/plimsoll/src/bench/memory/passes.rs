//! Passes over arrays on every thread: the prepared case of `memory.bandwidth`.
//!
//! A sample is cut into laps of a few milliseconds, each from a common start until the slowest thread has done its
//! passes. A lap in which a thread was off its CPU is set aside: it says nothing about memory.

use std::time::{Duration, Instant};

use plimsoll_metal::buffer::{Buffer, BufferError, Pages, Resident};
use plimsoll_metal::clock::{CoreClock, thread_cpu_time};
use plimsoll_metal::isa::Isa;
use plimsoll_metal::stream::{self, Arrays, LoadedStream, StreamOp};
use plimsoll_metal::team::{Member, Team};
use serde_json::Value as Json;

use super::{
    TIMES_LAST_LEVEL, broken, is_beyond_caches, last_level, least_total, note_caches, note_pages, pages_of,
    seed, team,
};
use crate::bench::{Context, Prepared};
use crate::case::Case;
use crate::machine::Machine;
use crate::quantity::format_size;
use crate::sample::{Amount, CannotMeasure, Conditions, Facts, Sample, WrongAnswer};
use crate::warning::Warning;

/// Laps with each kernel when the best is looked for; the quickest counts.
const TRIALS: usize = 3;
/// The least that such a lap lasts, so that what the kernel before left in the caches does not matter.
const TRIAL_SECONDS: f64 = 1e-3;
/// The least that a lap lasts: a hundred times what waking a thread may take.
const LAP_SECONDS: f64 = 2e-3;
/// Share of a lap that a thread may be off its CPU: above it there was more than an interrupt.
const OFF_CPU: f64 = 0.02;

/// Arrays on every thread, and the kernel that passes over them.
pub(super) struct Passes {
    team: Team,
    fields: Vec<Field>,
    op: StreamOp,
    chosen: Option<Chosen>,
    /// Whether each thread has a CPU of its own, so that one off its CPU was disturbed.
    alone: bool,
    facts: Facts,
}

/// The kernel that is measured.
#[derive(Clone, Copy)]
struct Chosen {
    kernel: LoadedStream,
    /// What its quickest pass took.
    pass_seconds: f64,
}

/// One thread's own arrays.
struct Field {
    buffer: Buffer,
    seed: u64,
    /// What each reading pass must return.
    checksum: u64,
    /// Reading passes that returned something else.
    wrong_sums: u64,
    passes: u64,
    clock: Option<CoreClock>,
}

/// How many passes, and how many of them from one start to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Schedule {
    passes: u64,
    per_lap: u64,
}

/// Passes from one common start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lap {
    passes: u64,
    /// What they took, on the slowest thread.
    seconds: f64,
    /// The largest share of it that a thread was off its CPU.
    off_cpu: f64,
}

/// What one thread did, or all did together.
struct Round {
    laps: Vec<Lap>,
    clock_hz: Option<f64>,
}

/// What counts of a round.
#[derive(Debug, PartialEq)]
struct Counted {
    passes: f64,
    seconds: f64,
    /// Share of the time in laps that do not count.
    set_aside: f64,
}

impl Schedule {
    /// The lengths of the laps: full ones, and what is left over.
    fn laps(self) -> impl Iterator<Item = u64> {
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
    fn of_all(threads: Vec<Self>) -> Self {
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

    /// Time of all laps.
    fn seconds(&self) -> f64 {
        self.laps.iter().map(|lap| lap.seconds).sum()
    }

    /// The laps in which no thread was off its CPU for more than `tolerated`; without any, the least disturbed one.
    fn counted(&self, tolerated: f64) -> Counted {
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

impl Field {
    /// Maps, touches and fills the arrays on the calling thread.
    fn new(op: StreamOp, size: usize, pages: Pages, seed: u64) -> Result<Self, BufferError> {
        let mut buffer = Buffer::new(size, pages)?;
        buffer.touch()?;
        let mut arrays = Arrays::divide(op, buffer.floats_mut());
        arrays.fill(seed);
        let checksum = arrays.checksum(seed);
        Ok(Self { buffer, seed, checksum, wrong_sums: 0, passes: 0, clock: CoreClock::calibrate().ok() })
    }

    fn work(&mut self, kernel: LoadedStream, schedule: Schedule, member: Member<'_>) -> Round {
        let mut arrays = Arrays::divide(kernel.kernel().op, self.buffer.floats_mut());
        let mut laps = Vec::new();
        for passes in schedule.laps() {
            member.barrier();
            let (on_cpu, start) = (thread_cpu_time(), Instant::now());
            for _ in 0..passes {
                self.wrong_sums += u64::from(kernel.run(&mut arrays) != self.checksum);
            }
            let (end, on_cpu_at_end) = (Instant::now(), thread_cpu_time());
            let elapsed = end.saturating_duration_since(start);
            let off_cpu = off_cpu(elapsed, on_cpu_at_end.saturating_sub(on_cpu));
            laps.push(Lap { passes, seconds: elapsed.as_secs_f64(), off_cpu });
        }
        self.passes += schedule.passes;
        Round { laps, clock_hz: self.clock.as_ref().and_then(CoreClock::probe) }
    }

    fn verify(&mut self, op: StreamOp) -> Result<(), String> {
        if self.wrong_sums > 0 {
            return Err(format!(
                "{} of {} passes of {op} returned a wrong sum",
                self.wrong_sums, self.passes
            ));
        }
        let arrays = Arrays::divide(op, self.buffer.floats_mut());
        arrays.verify(self.seed, self.passes).map_err(|e| e.to_string())
    }
}

/// How many passes take at least `seconds`; one or more. A timer that stood still during a pass left its time at 0.
fn passes_in(seconds: f64, pass_seconds: f64) -> u64 {
    (seconds / pass_seconds.max(1e-9)).ceil().clamp(1.0, 1e12) as u64
}

/// The share of the time that was not spent on the CPU.
fn off_cpu(elapsed: Duration, on_cpu: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    (1.0 - on_cpu.as_secs_f64() / elapsed.as_secs_f64()).clamp(0.0, 1.0)
}

impl Passes {
    /// Arrays on every thread's own memory node, filled.
    pub(super) fn new(
        op: StreamOp,
        size: usize,
        case: &Case,
        cx: &Context<'_>,
    ) -> Result<Self, CannotMeasure> {
        let threads = case.threads();
        let mut team = team(cx.machine, threads)?;
        let (pages, seed) = (pages_of(case), seed(cx, case));
        let made = team.run(|member| Field::new(op, size, pages, seed.wrapping_add(member.index as u64)));
        let fields: Result<Vec<Field>, BufferError> = made.map_err(broken)?.into_iter().collect();
        let fields = fields.map_err(|e| CannotMeasure::environment(e.to_string()))?;
        let mut facts = Facts::default();
        let resident: Vec<Resident> = fields.iter().filter_map(|f| f.buffer.resident().ok()).collect();
        note_pages(&mut facts, pages, &resident);
        note_caches(&mut facts, cx.machine);
        note_threads(&mut facts, cx.machine, threads);
        note_size(&mut facts, cx.machine, op, case);
        facts.achieved.insert("cpus".to_owned(), Json::from(team.cpus().to_vec()));
        let alone = threads <= cx.machine.cpu.allowed.len();
        Ok(Self { team, fields, op, chosen: None, alone, facts })
    }

    /// Takes the kernel of this name; for `best`, the one with the quickest pass of all that this CPU can run.
    pub(super) fn choose(&mut self, variant: &str) -> Result<(), CannotMeasure> {
        let all: Vec<LoadedStream> = stream::available(self.op).collect();
        let better = |kernel: &&LoadedStream| kernel.kernel().isa != Isa::Portable;
        let kernels: Vec<LoadedStream> = match variant {
            "best" if all.iter().any(|kernel| better(&kernel)) => {
                all.iter().filter(better).copied().collect()
            }
            "best" => all,
            name => all.into_iter().filter(|kernel| kernel.kernel().variant() == name).collect(),
        };
        let mut tried: Vec<Chosen> =
            kernels.into_iter().map(|kernel| Chosen { kernel, pass_seconds: f64::INFINITY }).collect();
        let mut passes = 1;
        if let Some(first) = tried.first() {
            let one = self.round(first.kernel, Schedule { passes: 1, per_lap: 1 })?;
            passes = passes_in(TRIAL_SECONDS, one.seconds());
        }
        for _ in 0..TRIALS {
            for one in &mut tried {
                let round = self.round(one.kernel, Schedule { passes, per_lap: passes })?;
                one.pass_seconds = one.pass_seconds.min(round.seconds() / passes as f64);
            }
        }
        let quickest = tried.into_iter().min_by(|a, b| a.pass_seconds.total_cmp(&b.pass_seconds));
        let chosen = quickest.ok_or_else(|| {
            CannotMeasure::not_here(format!("no variant '{variant}' of {} runs here", self.op))
        })?;
        self.chosen = Some(chosen);
        self.facts.achieved.insert("variant".to_owned(), Json::from(chosen.kernel.kernel().variant()));
        let elements = self.elements();
        let size = elements / self.fields.len().max(1) as u64 * self.op.arrays() * stream::ELEMENT as u64;
        self.facts.achieved.insert("size".to_owned(), Json::from(size));
        Ok(())
    }

    /// Elements in one array of each thread, all threads together.
    fn elements(&mut self) -> u64 {
        let op = self.op;
        self.fields.iter_mut().map(|f| Arrays::divide(op, f.buffer.floats_mut()).elements() as u64).sum()
    }

    fn round(&mut self, kernel: LoadedStream, schedule: Schedule) -> Result<Round, CannotMeasure> {
        let work = |member: Member<'_>, field: &mut Field| field.work(kernel, schedule, member);
        Ok(Round::of_all(self.team.run_each(&mut self.fields, work).map_err(broken)?))
    }
}

impl Prepared for Passes {
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let Chosen { kernel, pass_seconds } =
            self.chosen.ok_or_else(|| CannotMeasure::environment("no kernel was chosen"))?;
        let elements = self.elements();
        let (program, bus) = (kernel.kernel().program_bytes(elements), kernel.kernel().bus_bytes(elements));
        let passes = match amount {
            Amount::Work(bytes) => (bytes as f64 / program as f64).round().clamp(1.0, 1e12) as u64,
            Amount::Seconds(wanted) => passes_in(wanted, pass_seconds),
        };
        let per_lap = passes_in(LAP_SECONDS, pass_seconds);
        let round = self.round(kernel, Schedule { passes, per_lap })?;
        let counted = round.counted(if self.alone { OFF_CPU } else { 1.0 });
        if counted.seconds <= 0.0 {
            let why = "the clock did not advance during a pass: choose a larger --size";
            return Err(CannotMeasure::environment(why));
        }
        let rate = |bytes: u64| bytes as f64 * counted.passes / counted.seconds;
        Ok(Sample {
            elapsed: round.seconds(),
            work: Some(program.saturating_mul(passes)),
            values: [("program".to_owned(), rate(program)), ("bus".to_owned(), rate(bus))].into(),
            conditions: Conditions {
                clock_hz: round.clock_hz,
                set_aside: Some(counted.set_aside),
                ..Conditions::default()
            },
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<(), WrongAnswer> {
        let op = self.op;
        let checked = self.team.run_each(&mut self.fields, |member, field| {
            field.verify(op).map_err(|why| format!("thread {} on CPU {}: {why}", member.index, member.cpu))
        });
        let checked = checked.map_err(|e| WrongAnswer(e.to_string()))?;
        checked.into_iter().collect::<Result<(), String>>().map_err(WrongAnswer)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

pub(super) fn note_threads(facts: &mut Facts, machine: &Machine, threads: usize) {
    let cpus = machine.cpu.allowed.len();
    if threads > cpus {
        facts.warnings.push(Warning::MoreThreadsThanCpus { threads, cpus });
    }
    let capacity = machine.cpu_capacity();
    if capacity < threads.min(cpus) as f64 {
        facts.warnings.push(Warning::CpuQuota { cpus: capacity });
    }
}

/// A remark where the arrays are too small for the figure to be one of memory.
fn note_size(facts: &mut Facts, machine: &Machine, op: StreamOp, case: &Case) {
    if !is_beyond_caches(machine, case) {
        let total = case.number("size").unwrap_or(0).saturating_mul(case.threads() as u64);
        let text = format!(
            "{} over all threads is less than the {} with which each array is {TIMES_LAST_LEVEL} × the last-level caches \
             ({}): caches answered, wholly or in part; leave --size out to measure memory",
            format_size(total),
            format_size(least_total(machine, op)),
            format_size(last_level(machine))
        );
        facts.warnings.push(Warning::Other { code: "fits-in-cache".to_owned(), text });
    }
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
