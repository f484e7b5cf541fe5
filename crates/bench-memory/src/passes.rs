//! Passes over arrays on every thread in laps (see [`super::lap`]): the case of `memory.bandwidth`.

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::clock::is_thread_time_precise;
use plimsoll_metal::stream::{self, StreamOp};
use plimsoll_metal::team::Team;

use super::arrays::ThreadArrays;
use super::choose::{self, Chosen};
use super::fact::{CPUS, LEVEL, THREAD_BYTES, VARIANT};
use super::lap::{CountedLaps, LapSchedule, OFF_CPU, PASS, parts_in, parts_per_lap};
use super::warning::MemoryWarning;
use super::{
    AnsweringLevel, BANDWIDTH_METRIC, BUS_BANDWIDTH, HUGE_PAGE, affinity, answers, note_caches,
    note_effective, note_nodes, seed, working_set,
};
use plimsoll_bench_api::buffer::record_pages;
use plimsoll_bench_api::distances::NeighbourDistances;
use plimsoll_bench_api::note_threads;
use plimsoll_model::job::MemoryStream;
use plimsoll_model::sample::ExcludedBy;
use plimsoll_model::warning::Note;

/// Shortest lap while kernels are compared, so that previous cache contents do not matter.
const TRIAL_SECONDS: f64 = 1e-3;
/// Shortest such lap if threads share CPUs: waking them all takes milliseconds.
const SHARED_TRIAL_SECONDS: f64 = 20e-3;
const FIRST_LOOK: u64 = PASS >> 8;
/// Largest amount of a trial; the clock does not advance if even this takes no time.
const MOST_TRIAL: u64 = PASS << 24;
/// Shortest lap: a hundred times the time that waking a thread may take.
const LAP_SECONDS: f64 = 2e-3;

pub(super) struct Passes {
    team: Team,
    arrays: ThreadArrays,
    chosen: Option<Chosen>,
    distances: NeighbourDistances,
    facts: Facts,
}

impl Passes {
    /// Allocates and fills the arrays, by default on each thread's own NUMA node.
    pub(super) fn new(job: &MemoryStream, case: &Case, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
        let MemoryStream { op, ref site, .. } = *job;
        let (pages, node) = (site.pages, site.node);
        let mut team = Team::new(&site.threads.cpus(cx.machine))?;
        let arrays = ThreadArrays::new(&mut team, job, seed(cx, case))?;
        let mut facts = Facts::default();
        record_pages(&mut facts, pages, &arrays.resident());
        note_caches(&mut facts, cx.machine);
        note_threads(&mut facts, cx.machine, team.cpus());
        note_nodes(&mut facts, cx.machine, node, team.cpus());
        affinity::note_memory_nodes(&mut facts, node, arrays.memory());
        let level = answers(cx.machine, team.cpus(), [site.size; 2], op.arrays());
        facts.achieved.set(&LEVEL, level.to_string());
        note_effective(&mut facts, cx.machine, team.cpus());
        note_level(&mut facts, cx.machine, op, team.cpus(), level);
        facts.achieved.set(&CPUS, team.cpus());
        let distances = NeighbourDistances::of(cx.machine, crate::SUBSYSTEM.topology, team.cpus());
        Ok(Self { team, arrays, chosen: None, distances, facts })
    }

    /// Chooses the kernel called `variant`; for `best`, the fastest one that this CPU can run.
    pub(super) fn choose(&mut self, variant: &str) -> Result<(), CannotMeasure> {
        let op = self.arrays.op;
        let kernels = choose::named(op, variant);
        let least = if self.arrays.alone { TRIAL_SECONDS } else { SHARED_TRIAL_SECONDS };
        let mut per_lap = FIRST_LOOK;
        if let Some(first) = kernels.first() {
            let mut took = |per_lap| -> Result<f64, CannotMeasure> {
                let schedule = LapSchedule { parts: per_lap, per_lap };
                let round = self.arrays.run_laps(&mut self.team, *first, schedule)?;
                // The last lap: an unfinished pass is completed first.
                Ok(round.laps.last().map_or(0.0, |lap| lap.seconds / lap.passes()))
            };
            let passes = |parts: u64| parts as f64 / PASS as f64;
            let mut pass_seconds = took(per_lap)?;
            while pass_seconds * passes(per_lap) < least && per_lap < MOST_TRIAL {
                per_lap *= 4;
                pass_seconds = took(per_lap)?;
            }
            per_lap = parts_per_lap(least, pass_seconds);
        }
        let (arrays, team) = (&mut self.arrays, &mut self.team);
        let passes = per_lap as f64 / PASS as f64;
        let quickest = choose::quickest(kernels, passes, |kernel| {
            let round = arrays.run_laps(team, kernel, LapSchedule { parts: per_lap, per_lap })?;
            Ok::<f64, CannotMeasure>(round.seconds() / round.passes())
        })?;
        let chosen = quickest.ok_or_else(|| {
            CannotMeasure::not_here(format!("no kernel '{variant}' of {op} runs on this processor"))
        })?;
        // Samples of one amount start at the same point then.
        self.arrays.end_pass(&mut self.team)?;
        self.chosen = Some(chosen);
        self.facts.achieved.set(&VARIANT, chosen.kernel.variant());
        let each = self.arrays.elements() / self.arrays.threads().max(1) as u64;
        let size = each * op.arrays() * stream::ELEMENT as u64;
        self.facts.achieved.set(&THREAD_BYTES, size);
        Ok(())
    }
}

impl Prepared for Passes {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let chosen = self.chosen.ok_or_else(|| CannotMeasure::environment("no kernel was chosen"))?;
        let elements = self.arrays.elements();
        let kernel = chosen.kernel.kernel();
        let (program, bus) = (kernel.program_bytes(elements), kernel.bus_bytes(elements));
        let lap = parts_per_lap(LAP_SECONDS, chosen.pass_seconds);
        let parts = match amount {
            SampleAmount::Work(bytes) => {
                let parts = (bytes as f64 / program as f64 * PASS as f64).round().clamp(1.0, 1e18) as u64;
                // Laps of whole passes require an amount of whole passes.
                if lap > PASS { parts.div_ceil(PASS) * PASS } else { parts }
            }
            SampleAmount::Seconds(wanted) => parts_in(wanted, chosen.pass_seconds),
        };
        // Waking threads that share CPUs takes longer than a lap: once per sample.
        let per_lap = if self.arrays.alone { lap } else { parts };
        let schedule = LapSchedule { parts, per_lap };
        let round = self.arrays.run_laps(&mut self.team, chosen.kernel, schedule)?;
        let mut counted = CountedLaps::default();
        counted.add(&round.laps, if self.arrays.alone { OFF_CPU } else { 1.0 });
        if counted.seconds <= 0.0 {
            let why = "the clock did not advance during a pass: choose a larger --size";
            return Err(CannotMeasure::environment(why));
        }
        // Another cause is certain only if no thread is known to have left its CPU.
        let second_work = Some(counted.slow).filter(|slow| *slow > 0.0 && is_thread_time_precise());
        let passes = counted.parts as f64 / PASS as f64;
        let rate = |bytes: u64| bytes as f64 * passes / counted.seconds;
        Ok(Sample {
            elapsed: round.seconds(),
            work: Some((program as f64 * round.passes()).round() as u64),
            values: [(BANDWIDTH_METRIC.to_owned(), rate(program)), (BUS_BANDWIDTH.to_owned(), rate(bus))]
                .into(),
            conditions: Conditions {
                clock_hz: round.clock_hz,
                excluded: Some(counted.excluded_share()),
                delivered: Some(program as f64 * round.passes() / round.seconds()),
                core_to_core: self.distances.probe(round.clock_hz),
                excluded_by: ExcludedBy {
                    second_work,
                    off_cpu: Some(counted.off_cpu()),
                    ..ExcludedBy::default()
                },
                ..Conditions::default()
            },
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        self.arrays.verify(&mut self.team)?;
        let mut facts = self.facts.clone();
        facts.warnings.extend(self.distances.warning().map(Note::from));
        Ok(facts)
    }
}

/// Warns if the arrays exceed the caches, but are too small to measure memory alone.
fn note_level(facts: &mut Facts, machine: &Machine, op: StreamOp, cpus: &[usize], level: AnsweringLevel) {
    if let AnsweringLevel::CacheAndMemory(_) = level {
        let each = working_set::least(machine, cpus, op.arrays()).div_ceil(cpus.len().max(1) as u64);
        let (cache, size) = (working_set::caches(machine, cpus), each.next_multiple_of(HUGE_PAGE));
        facts.warnings.push(MemoryWarning::ArraysInCache { cache, size }.into());
    }
}
