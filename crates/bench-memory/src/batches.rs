//! Batches of blocks on every thread, drawn before the measured time: the case of `memory.block`.

use std::time::{Duration, Instant};

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::block::{
    BlockKernel, BlockOp, BlockShape, BlockTraversal, MOST_DRAWN, Region, available, candidates,
};
use plimsoll_metal::buffer::Resident;
use plimsoll_metal::clock::{WorkClocks, thread_cpu_time, timer_overhead};
use plimsoll_metal::team::{Team, TeamMember, has_duplicates};

use super::affinity;
use super::choose::{self, BEST_VARIANT, Chosen};
use super::fact::{CPUS, DRAW_SECONDS_PER_BLOCK, LEVEL, THREAD_BYTES, VARIANT};
use super::lap::{CountedLaps, Lap, LapRound, OFF_CPU, mean};
use super::warning::MemoryWarning;
use super::window::ThreadSpan;
use super::{LATENCY_METRIC, LATENCY_PER_BYTE, THROUGHPUT_METRIC, answers, note_caches, note_nodes, seed};
use plimsoll_bench_api::buffer::record_pages;
use plimsoll_bench_api::distances::NeighbourDistances;
use plimsoll_bench_api::fixed::thread_amount;
use plimsoll_bench_api::note_threads;
use plimsoll_model::job::BlockJob;
use plimsoll_model::sample::ExcludedBy;
use plimsoll_model::warning::Note;

/// Shortest batch, if that many blocks can be drawn at once.
const BATCH_SECONDS: f64 = 2e-3;
const ROUND_SECONDS: f64 = 0.2;
const MOST_BATCHES: u64 = 4096;
const MAX_SAMPLE_TIME: Duration = Duration::from_secs(60);

pub(super) struct Batches {
    team: Team,
    arrays: Vec<ThreadRegion>,
    kernel: Option<Chosen<BlockKernel>>,
    job: BlockJob,
    alone: bool,
    /// Seconds that reading the clock adds to each batch.
    overhead: f64,
    longest: Duration,
    /// Seconds of drawing blocks, and their number.
    drawn: (f64, u64),
    /// Blocks done and wanted in a sample that took too long.
    cut: Option<(u64, u64)>,
    distances: NeighbourDistances,
    facts: Facts,
}

struct ThreadRegion {
    region: Region,
    clocks: WorkClocks,
}

#[derive(Clone, Copy, Debug)]
struct BatchPart {
    blocks: u64,
    span: ThreadSpan,
    drawing: Duration,
}

/// Combines the parts of a batch that the threads did; `None` without parts. `overhead`: seconds to
/// subtract from the time. `alone`: whether each thread has its own CPU.
fn batch(parts: &[&BatchPart], alone: bool, overhead: f64) -> Option<Lap> {
    let spans: Vec<ThreadSpan> = parts.iter().map(|part| part.span).collect();
    let lap = Lap::of(parts.iter().map(|part| part.blocks).sum(), &spans, alone)?;
    Some(Lap { seconds: (lap.seconds - overhead).max(0.0), ..lap })
}

impl ThreadRegion {
    fn work(
        &mut self,
        kernel: BlockKernel,
        blocks: u64,
        per_batch: u64,
        batches: u64,
        member: TeamMember<'_>,
    ) -> (Vec<BatchPart>, Option<f64>) {
        let mut left = blocks;
        let mut parts = Vec::new();
        for _ in 0..batches {
            let mine = left.min(per_batch);
            left -= mine;
            let begin = Instant::now();
            self.region.draw(mine);
            let drawing = begin.elapsed();
            member.barrier();
            let (on_cpu, start) = (thread_cpu_time(), Instant::now());
            let blocks = self.region.work(kernel);
            parts.push(BatchPart { blocks, span: ThreadSpan::since(start, on_cpu), drawing });
            // No thread draws while another works: the other would have the memory to itself.
            member.barrier();
        }
        (parts, self.clocks.probe(kernel.work()))
    }
}

fn blocks_in(seconds: f64, block_seconds: f64) -> u64 {
    (seconds / block_seconds.max(1e-12)).ceil().clamp(1.0, 1e15) as u64
}

impl Batches {
    /// Allocates and fills a region per thread, by default on its NUMA node, and chooses a kernel.
    pub(super) fn new(job: &BlockJob, case: &Case, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
        let &BlockJob { op, order, block, ref variant, ref site, .. } = job;
        let block = usize::try_from(block).unwrap_or(usize::MAX);
        let (pages, node, seed) = (site.pages, site.node, seed(cx, case));
        let shape = BlockShape { op, order, block, bytes: affinity::bytes_per_thread(site), pages, seed };
        let mut team = Team::new(&site.threads.cpus(cx.machine))?;
        let made = team.run(|member| {
            let shape = BlockShape { seed: seed.wrapping_add((member.index as u64) << 32), ..shape };
            let region = affinity::allocate_on_node(node, || Region::new(shape))?;
            let region = region.map_err(CannotMeasure::environment)?;
            Ok(ThreadRegion { region, clocks: WorkClocks::default() })
        })?;
        let arrays = made.into_iter().collect::<Result<Vec<ThreadRegion>, CannotMeasure>>()?;
        let bytes = arrays.first().map_or(0, |field| field.region.bytes());
        let mut facts = Facts::default();
        let resident: Vec<Resident> = arrays.iter().filter_map(|f| f.region.resident().ok()).collect();
        record_pages(&mut facts, pages, &resident);
        note_caches(&mut facts, cx.machine);
        note_threads(&mut facts, cx.machine, team.cpus());
        note_nodes(&mut facts, cx.machine, node, team.cpus());
        affinity::note_memory_nodes(&mut facts, node, arrays.iter().map(|field| field.region.memory()));
        facts.achieved.set(&THREAD_BYTES, bytes);
        let level = answers(cx.machine, team.cpus(), [bytes; 2], op.regions() as u64);
        facts.achieved.set(&LEVEL, level.to_string());
        facts.achieved.set(&CPUS, team.cpus());
        let alone = !has_duplicates(team.cpus());
        let distances = NeighbourDistances::of(cx.machine, crate::SUBSYSTEM.topology, team.cpus());
        let mut batches = Self {
            team,
            arrays,
            kernel: None,
            job: job.clone(),
            alone,
            overhead: timer_overhead(),
            longest: MAX_SAMPLE_TIME,
            drawn: (0.0, 0),
            cut: None,
            distances,
            facts,
        };
        batches.choose(op, block, variant)?;
        Ok(batches)
    }

    /// Chooses the kernel `variant` for blocks of `block` bytes; for [`BEST_VARIANT`], the fastest.
    fn choose(&mut self, op: BlockOp, block: usize, variant: &str) -> Result<(), CannotMeasure> {
        let mut kernels = candidates(op, block);
        if variant != BEST_VARIANT {
            kernels = available(op, block);
            kernels.retain(|kernel| kernel.name() == variant);
        }
        let mut blocks = 1;
        if let Some(first) = kernels.first().copied() {
            // The first blocks are slow: caches and address translation are cold.
            for _ in 0..2 {
                let took = self.quickest_block(first, blocks)?;
                blocks = blocks_in(BATCH_SECONDS, took);
            }
        }
        let quickest =
            choose::quickest(kernels, blocks as f64, |kernel| self.quickest_block(kernel, blocks))?;
        let chosen = quickest.ok_or_else(|| {
            CannotMeasure::not_here(format!("no kernel '{variant}' runs on this processor for such blocks"))
        })?;
        self.facts.achieved.set(&VARIANT, chosen.kernel.name());
        self.kernel = Some(chosen);
        Ok(())
    }

    /// Runs `blocks` blocks on each thread; returns the seconds per block of the fastest batch.
    fn quickest_block(&mut self, kernel: BlockKernel, blocks: u64) -> Result<f64, CannotMeasure> {
        let per_batch = self.per_batch(blocks);
        let mut left = vec![blocks; self.arrays.len()];
        let round =
            self.run_batches(kernel, &mut left, per_batch, blocks.div_ceil(per_batch).min(MOST_BATCHES))?;
        let threads = self.arrays.len() as f64;
        let each = round.laps.iter().filter(|batch| batch.parts > 0 && batch.seconds > 0.0);
        let each = each.map(|batch| batch.seconds * threads / batch.parts as f64);
        let least = each.fold(f64::INFINITY, f64::min);
        // The timer may not advance in so short a time; 1 ns is a guess that more blocks correct.
        Ok(if least.is_finite() { least } else { 1e-9 })
    }

    fn per_batch(&self, wanted: u64) -> u64 {
        if self.job.order == BlockTraversal::Random { wanted.clamp(1, MOST_DRAWN) } else { wanted.max(1) }
    }

    /// Runs up to `batches` batches of `per_batch` blocks; reduces `left`, the blocks per thread.
    fn run_batches(
        &mut self,
        kernel: BlockKernel,
        left: &mut [u64],
        per_batch: u64,
        batches: u64,
    ) -> Result<LapRound, CannotMeasure> {
        let shares: &[u64] = left;
        let work = |member: TeamMember<'_>, field: &mut ThreadRegion| {
            let blocks = shares.get(member.index).copied().unwrap_or(0);
            field.work(kernel, blocks, per_batch, batches, member)
        };
        let turns = self.team.run_each(&mut self.arrays, work)?;
        let laps = (0..batches as usize).filter_map(|index| {
            let parts: Vec<&BatchPart> = turns.iter().filter_map(|(parts, _)| parts.get(index)).collect();
            batch(&parts, self.alone, self.overhead)
        });
        let clock_hz = mean(turns.iter().map(|(_, clock_hz)| *clock_hz));
        let round = LapRound { laps: laps.collect(), clock_hz };
        for ((parts, _), left) in turns.iter().zip(left) {
            let done: u64 = parts.iter().map(|part| part.blocks).sum();
            *left -= done.min(*left);
            self.drawn.1 += done;
            self.drawn.0 += parts.iter().map(|part| part.drawing.as_secs_f64()).sum::<f64>();
        }
        Ok(round)
    }

    fn shares(&self, amount: SampleAmount, block_seconds: f64) -> Vec<u64> {
        let threads = self.arrays.len() as u64;
        match (amount, self.job.fixed_blocks()) {
            (SampleAmount::Seconds(seconds), _) => vec![blocks_in(seconds, block_seconds); self.arrays.len()],
            (SampleAmount::Work(_), Some(blocks)) => {
                (0..threads).map(|index| thread_amount(self.job.scaling, blocks, threads, index)).collect()
            }
            (SampleAmount::Work(bytes), None) => {
                let each = bytes as f64 / (self.job.bytes_per_block() * threads.max(1)) as f64;
                vec![each.round().clamp(1.0, 1e15) as u64; self.arrays.len()]
            }
        }
    }
}

impl Prepared for Batches {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let Chosen { kernel, pass_seconds: block_seconds } =
            self.kernel.ok_or_else(|| CannotMeasure::environment("no kernel was chosen"))?;
        let mut left = self.shares(amount, block_seconds);
        let total = |left: &[u64]| left.iter().fold(0_u64, |sum, blocks| sum.saturating_add(*blocks));
        let wanted = total(&left);
        let per_batch = self.per_batch(blocks_in(BATCH_SECONDS, block_seconds));
        let in_a_round = (ROUND_SECONDS / (per_batch as f64 * block_seconds)).ceil().max(1.0) as u64;
        let (begin, mut counted, mut clocks) = (Instant::now(), CountedLaps::default(), Vec::new());
        loop {
            let most = left.iter().copied().max().unwrap_or(0);
            if most == 0 || (!clocks.is_empty() && begin.elapsed() >= self.longest) {
                break;
            }
            let batches = most.div_ceil(per_batch).min(in_a_round).min(MOST_BATCHES);
            let round = self.run_batches(kernel, &mut left, per_batch, batches)?;
            counted.add(&round.laps, if self.alone { OFF_CPU } else { 1.0 });
            clocks.push(round.clock_hz);
        }
        let done = wanted - total(&left);
        if done < wanted {
            self.cut = Some((done, wanted));
        }
        if counted.seconds <= 0.0 || counted.parts == 0 {
            let why = "the clock did not advance while blocks were worked on: choose larger blocks or a longer sample";
            return Err(CannotMeasure::environment(why));
        }
        let clock_hz = mean(clocks.into_iter());
        let latency = counted.seconds * self.arrays.len() as f64 / counted.parts as f64;
        let bytes_per_block = self.job.bytes_per_block();
        let throughput = (counted.parts * bytes_per_block) as f64 / counted.seconds;
        let per_byte = latency / self.job.block as f64;
        let values =
            [(THROUGHPUT_METRIC, throughput), (LATENCY_METRIC, latency), (LATENCY_PER_BYTE, per_byte)];
        Ok(Sample {
            elapsed: counted.all_seconds,
            work: Some(done * bytes_per_block),
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            conditions: Conditions {
                clock_hz,
                excluded: Some(counted.excluded_share()),
                delivered: Some((done * bytes_per_block) as f64 / counted.all_seconds),
                core_to_core: self.distances.probe(clock_hz),
                excluded_by: ExcludedBy { off_cpu: Some(counted.off_cpu()), ..ExcludedBy::default() },
                ..Conditions::default()
            },
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let checked = self.team.run_each(&mut self.arrays, |member, field| {
            let wrong = |e| super::wrong_blocks(WrongAnswerSource::Cpu(member.cpu), &e);
            field.region.verify().map_err(wrong)
        })?;
        checked.into_iter().collect::<Result<(), CannotMeasure>>()?;
        let mut facts = self.facts.clone();
        facts.warnings.extend(self.distances.warning().map(Note::from));
        if self.job.order == BlockTraversal::Random && self.drawn.1 > 0 {
            let each = self.drawn.0 / self.drawn.1 as f64;
            facts.achieved.set(&DRAW_SECONDS_PER_BLOCK, each);
        }
        if let Some((done, wanted)) = self.cut {
            let bytes = self.job.bytes_per_block() as f64;
            let [moved, wanted] = [done, wanted].map(|blocks| blocks as f64 * bytes);
            let seconds = self.longest.as_secs();
            facts.warnings.push(MemoryWarning::VolumeCut { moved, wanted, seconds }.into());
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{in_context, this_machine};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_batch_is_all_that_its_threads_did_less_the_reading_of_the_clock() {
        let now = Instant::now();
        let part = |from: u32, to: u32, off_cpu| {
            let span = ThreadSpan { start: now + MS * from, end: now + MS * to, off_cpu };
            BatchPart { blocks: 10, span, drawing: MS }
        };
        let together = batch(&[&part(0, 5, 0.0), &part(0, 7, 0.3)], true, 1e-3).unwrap();
        assert_eq!((together.parts, together.off_cpu), (20, 0.3));
        assert!((together.seconds - 6e-3).abs() < 1e-9, "{together:?}");
        let late = batch(&[&part(0, 5, 0.0), &part(4, 11, 0.0)], true, 1e-3).unwrap();
        assert!((late.seconds - 10e-3).abs() < 1e-9, "{late:?}");
        assert!((late.disturbed - 4.0 / 11.0).abs() < 1e-9, "{late:?}");
        assert_eq!(batch(&[], true, 0.0), None);
    }

    #[test]
    fn a_sample_that_takes_too_long_is_cut_and_said() {
        let id = "memory.block/op=write/pattern=random/block=64/size=1M/count=1099511627776/scaling=strong";
        let case: Case = id.parse().unwrap();
        let job = BlockJob::of(&case).unwrap();
        let mut batches = in_context(&this_machine(), |cx| Batches::new(&job, &case, cx)).unwrap();
        assert_eq!(batches.cut, None);
        batches.longest = Duration::ZERO;
        let sample = batches.sample(SampleAmount::Work(1)).unwrap();
        assert!(sample.work.unwrap() < 64 << 40 && sample.values["throughput"] > 0.0);
        let warning = batches.verify().unwrap().warnings.pop().unwrap();
        assert_eq!(warning.code(), "volume-cut");
        assert!(warning.to_string().contains("of 64 TiB were moved in 0 s"), "{warning}");
    }
}
