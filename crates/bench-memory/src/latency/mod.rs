//! `memory.latency`: the time of a load that depends on the one before, in a random cycle. With
//! several chases at once, the figure is the time of a step of all.

pub(super) mod limit;

use std::time::Duration;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::buffer::Pages;
use plimsoll_metal::chase::{ChaseShape, Chaser, LINE_BYTES, MOST_CHASES};
use plimsoll_metal::sliced::{SliceEnd, Sliced};
use plimsoll_metal::team::Team;

use super::fact::{CHASE_CPU, LEVEL, STRIDE, TOUCHED_BYTES};
use super::warning::MemoryWarning;
use super::{
    LATENCY_METRIC, MemoryLevel, RequestedPages, TIMES_LAST_LEVEL, affinity, answered, answers, are_here,
    findings, levels, note_caches, note_effective, note_nodes, pages, seed, sizes, working_set,
};
use plimsoll_bench_api::buffer::record_pages;
use plimsoll_model::job::memory::CHASE_GROUP;
use plimsoll_model::job::{MemorySite, PointerChase};
use plimsoll_model::place::ThreadOrder;
use plimsoll_model::sample::ExcludedBy;

/// Bytes per node beyond level 2: four lines, so that prefetched neighbours exclude the next node.
const FAR_STRIDE: u64 = 256;
/// Bytes per node within level 2: two lines, one of them a node. With a node on every line, small
/// pages that share cache sets overflow some of them (16 cycles instead of 14).
const MIDDLE_STRIDE: u64 = 128;
/// Groups are multiples of a small page, so that one translation serves a group.
const LEAST_GROUP: u64 = 4096;
/// Largest default size in bytes; setup of a larger one takes too long.
const LARGEST_DEFAULT: u64 = 4 << 30;

/// Largest distance of an undisturbed slice from the most common one, as a share. Levels 1 and 2
/// belong to the core alone; farther ones are shared, which is part of the figure.
const NEAR_SPREAD: f64 = 0.05;
const FAR_SPREAD: f64 = 0.25;
/// Further attempts at a sample without any undisturbed slice, as may happen on a busy machine.
const RETRIES: usize = 8;

/// The benchmark `memory.latency`.
pub struct MemoryLatency;

impl Benchmark for MemoryLatency {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "memory.latency",
            about: "time of one dependent load, in each cache and in memory",
            words: &[LabelPart::Word("latency"), LabelPart::Value("size")],
            keys: &["size", "pages", "chases", "group", "node", "affinity"],
            remark,
            look: super::look,
            limits: limit::limits,
            answered: answered::level_in_brackets,
            findings: findings::lost_cache::find,
            metrics: const {
                &[Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower)
                    .about("time of a load that depends on the one before")]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let sizes = sizes(machine, group, &default_sizes(machine, group), super::MIN_WORKING_SET_BYTES)?;
        let chases = counts_in_range(group, "chases", &[1], MOST_CHASES as u64)?;
        let (groups, affinities) = (groups(group)?, affinity::affinities(machine, group)?);
        let mut candidates = Vec::new();
        for (pages, above) in pages_of_chases(machine, group)? {
            for size in sizes.iter().filter(|size| **size > above) {
                let case = Case::of(self.name()).with_size("size", *size).with_word("pages", pages.word);
                for case in cases_with_each(&case, &chases, &groups, &affinities) {
                    let job = PointerChase::of(&case).ok_or("a case of another benchmark")?;
                    let feasible = enough_nodes(&job)
                        .and_then(|()| are_here(machine, pages))
                        .and_then(|()| affinity::check_free_memory(&job.site, machine));
                    candidates.push(Candidate::new(case, feasible).parsed(&job));
                }
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        Ok(Box::new(Chasing::new(&parsed.read()?, seed(cx, case), cx.machine)?))
    }
}

/// Returns a note on rows without `pages`, if this case has other pages than transparent huge ones.
fn remark(measurement: &Measurement) -> Option<&'static str> {
    let named = MemorySite::of(&measurement.case).pages != Pages::Thp;
    named.then_some("rows without 'pages' use transparent huge pages (thp)")
}

/// Returns the job of one pointer chase through `site`, by one thread on the default CPU.
pub(super) fn single_chase(site: &MemorySite) -> PointerChase {
    let threads = Threads { count: 1, place: ThreadOrder::Spread };
    PointerChase { chases: 1, group: CHASE_GROUP as usize, site: MemorySite { threads, ..site.clone() } }
}

/// Fails unless each of several chases has room for two list nodes, whatever the stride.
fn enough_nodes(job: &PointerChase) -> Result<(), CannotMeasure> {
    let needed = 2 * job.chases as u64 * FAR_STRIDE;
    if job.chases == 1 || job.site.size >= needed {
        return Ok(());
    }
    Err(CannotMeasure::not_here(format!(
        "--chases {} requires a --size of at least {}",
        job.chases,
        format_size(needed)
    )))
}

impl Chasing {
    pub(super) fn new(job: &PointerChase, seed: u64, machine: &Machine) -> Result<Self, CannotMeasure> {
        let PointerChase { chases, group, site } = job;
        let (size, node, pages) = (site.size, site.node, site.pages);
        let team = Team::new(&site.threads.cpus(machine))?;
        let caches = levels(machine, team.cpus().first().copied().unwrap_or(0));
        let (stride, spread) = layout(&caches, size);
        let shape = ChaseShape {
            bytes: affinity::bytes_per_thread(site),
            stride: usize::try_from(stride).unwrap_or(LINE_BYTES),
            group: Some(*group),
            pages,
            chases: *chases,
            seed,
            node,
        };
        let chase =
            Sliced::prepare(team, |_| Chaser::new(shape, spread)).map_err(CannotMeasure::environment)?;
        let mut facts = Facts::default();
        for chaser in chase.loads() {
            let made = chaser.chase().map_err(CannotMeasure::environment)?;
            let resident: Vec<_> = made.resident().into_iter().collect();
            record_pages(&mut facts, pages, &resident);
            let (touched, cache) = (made.touched_bytes(), working_set::caches(machine, chase.cpus()));
            facts.achieved.set(&TOUCHED_BYTES, touched);
            affinity::note_memory_nodes(&mut facts, node, std::iter::once(made.memory()));
            if !caches.is_empty() && size > cache && touched < cache.saturating_mul(TIMES_LAST_LEVEL) {
                let size = cache.saturating_mul(TIMES_LAST_LEVEL * FAR_STRIDE / LINE_BYTES as u64);
                facts.warnings.push(MemoryWarning::LinesInCache { touched, cache, size }.into());
            }
        }
        if caches.last().is_none_or(|last| size > last.bytes) {
            note_caches(&mut facts, machine);
        }
        facts.achieved.set(&STRIDE, stride);
        note_nodes(&mut facts, machine, node, chase.cpus());
        note_effective(&mut facts, machine, chase.cpus());
        let touched = facts.achieved.get(&TOUCHED_BYTES).unwrap_or(size);
        facts.achieved.set(&LEVEL, answers(machine, chase.cpus(), [size, touched], 1).to_string());
        facts.achieved.set(&CHASE_CPU, chase.cpus());
        Ok(Self { chase, chases: *chases, facts })
    }
}

/// Returns the requested pages, each with the working set in bytes above which it is measured. By
/// default the best pages and, beyond level 2, small pages, to show the address translation cost.
fn pages_of_chases(machine: &Machine, group: &Group) -> Result<Vec<(RequestedPages, u64)>, String> {
    let mut found: Vec<_> = pages(machine, group)?.into_iter().map(|asked| (asked, 0)).collect();
    if !group.asked("pages") && found.iter().all(|(asked, _)| asked.pages != Pages::Small) {
        let caches = levels(machine, usual_cpu(machine));
        let above = caches.iter().rfind(|level| level.number <= 2).map_or(0, |level| level.bytes);
        found.push((RequestedPages::small(machine), above));
    }
    Ok(found)
}

fn groups(group: &Group) -> Result<Vec<u64>, String> {
    let groups = group.numbers("group", &[CHASE_GROUP]);
    match groups.iter().find(|bytes| **bytes == 0 || !bytes.is_multiple_of(LEAST_GROUP)) {
        Some(bytes) => Err(format!(
            "group must be a multiple of {1}: {0} is not",
            format_size(*bytes),
            format_size(LEAST_GROUP)
        )),
        None => Ok(groups),
    }
}

/// Returns `case` with each combination of chases, group (defaults unset) and affinity parameters.
fn cases_with_each(case: &Case, chases: &[u64], groups: &[u64], affinities: &[Case]) -> Vec<Case> {
    let mut cases = Vec::new();
    for chases in chases {
        for group in groups {
            let mut case = case.clone();
            if *chases != 1 {
                case = case.with_count("chases", *chases);
            }
            if *group != CHASE_GROUP {
                case = case.with_size("group", *group);
            }
            cases.extend(affinities.iter().map(|affinity| case.clone().with_params_of(affinity)));
        }
    }
    cases
}

pub(crate) fn first_cpu(machine: &Machine, case: &Case) -> usize {
    cpus_of_case(machine, case).first().copied().unwrap_or(0)
}

fn usual_cpu(machine: &Machine) -> usize {
    spread_cpus(machine, 1).first().copied().unwrap_or(0)
}

/// Returns the default sizes in bytes: half of each cache, and one size for memory.
fn default_sizes(machine: &Machine, group: &Group) -> Vec<u64> {
    let cpu = usual_cpu(machine);
    let last = working_set::caches(machine, &[cpu]);
    let own = |level: MemoryLevel| level.bytes.min(last) / 2;
    let memory = memory_size(machine, group);
    let mut sizes: Vec<u64> =
        levels(machine, cpu).into_iter().map(own).filter(|size| *size < memory).collect();
    sizes.dedup();
    sizes.push(memory);
    sizes
}

/// Returns a size in bytes whose *touched lines* exceed the caches, if memory and time permit.
pub(super) fn memory_size(machine: &Machine, group: &Group) -> u64 {
    let lines =
        working_set::default_total_bytes(machine, &[usual_cpu(machine)], FAR_STRIDE / LINE_BYTES as u64);
    working_set::bytes_per_thread(machine, group, 1, lines.min(LARGEST_DEFAULT))
}

/// Returns the bytes from one list node to the next, and the tolerated deviation of time slices.
fn layout(caches: &[MemoryLevel], size: u64) -> (u64, f64) {
    match caches.iter().find(|level| size <= level.bytes).map(|level| level.number) {
        Some(1) => (LINE_BYTES as u64, NEAR_SPREAD),
        Some(2) => (MIDDLE_STRIDE, NEAR_SPREAD),
        _ => (FAR_STRIDE, FAR_SPREAD),
    }
}

pub(super) const CYCLES: OwnCondition = OwnCondition::new("cycles");

pub(super) const LOADS_PER_SECOND: OwnCondition = OwnCondition::new("loads_per_second");

pub(super) struct Chasing {
    chase: Sliced<Chaser>,
    chases: usize,
    facts: Facts,
}

impl Prepared for Chasing {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let until = match amount {
            SampleAmount::Work(steps) => SliceEnd::Turns(steps),
            SampleAmount::Seconds(seconds) => {
                SliceEnd::Elapsed(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
            }
        };
        let outcome = self.chase.measure_repeatedly(until, RETRIES).map_err(CannotMeasure::environment)?;
        let elapsed = outcome.elapsed.as_secs_f64();
        let latency = 1.0 / outcome.turns_per_second();
        let clock_hz = outcome.clock_hz();
        let loads = Some(self.chases as f64 / latency);
        let own = [(CYCLES, clock_hz.map(|hz| latency * hz)), (LOADS_PER_SECOND, loads)];
        Ok(Sample {
            elapsed,
            work: Some((outcome.delivered_turns_per_second * elapsed).max(1.0) as u64),
            values: [(LATENCY_METRIC.to_owned(), latency)].into(),
            conditions: Conditions {
                clock_hz,
                excluded: Some(outcome.excluded_share()),
                delivered: Some(1.0 / outcome.delivered_turns_per_second),
                excluded_by: ExcludedBy::of(&outcome.causes()),
                more: own.into_iter().collect(),
                ..Conditions::default()
            },
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        self.chase.cpus().iter().zip(self.chase.loads()).try_for_each(|(cpu, chaser)| {
            let chase = chaser.chase().map_err(CannotMeasure::environment)?;
            chase.verify().map_err(|e| super::wrong_chase(WrongAnswerSource::Cpu(*cpu), &e))
        })?;
        Ok(self.facts.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_denser_the_nearer_the_cache() {
        let level = |number, bytes| MemoryLevel { number, bytes };
        let caches = [level(1, 32 << 10), level(2, 1 << 20), level(3, 32 << 20)];
        let stride = |caches: &[MemoryLevel], size| layout(caches, size).0;
        let strides = [16 << 10, 32 << 10, 33 << 10, 1 << 20, 16 << 20, 1 << 30].map(|n| stride(&caches, n));
        assert_eq!(strides, [64, 64, 128, 128, 256, 256]);
        assert_eq!(stride(&[], 16 << 10), 256);
        assert_eq!(stride(&[level(1, 32 << 10), level(3, 32 << 20)], 512 << 10), 256);
    }
}
