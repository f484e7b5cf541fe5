//! `memory.numa`: latency (from the first CPU of a node) and read bandwidth (from all its CPUs) of
//! the memory of each node. The headline is the median over all pairs of nodes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::block::{BlockKernel, BlockOp, BlockShape, BlockTraversal, Region, candidates};
use plimsoll_metal::chase::{Chase, ChaseShape as Cycle};
use plimsoll_metal::clock::thread_cpu_time;
use plimsoll_metal::team::{Team, TeamMember};

use super::affinity::{self, note_elsewhere, pages_by_node};
use super::fact::{CPU_NODES, MEMORY_NODES};
use super::lap::{LapRound, OFF_CPU};
use super::window::ThreadSpan;
use super::{BANDWIDTH_METRIC, LATENCY_METRIC, are_here, fits, pages, seed, working_set};
use plimsoll_machine::memory::NumaNode;
use plimsoll_model::job::NumaJob;
use plimsoll_model::job::memory::NUMA_OPS;
use plimsoll_model::sample::Cell;
use plimsoll_stats::median;
use plimsoll_units::text::format_count;

/// Bytes per node and per group of the chase, as in `memory.latency`.
const STRIDE: u64 = 256;
const GROUP: u64 = 64 * 4096;
const COPY_BLOCK_BYTES: usize = 1 << 20;
/// Bytes assumed for unknown caches, and the largest default size.
const ASSUMED_CACHE: u64 = 256 << 20;
const MAX_NODE_BYTES: u64 = 2 << 30;
/// Time slice of a pair. The median of several excludes interrupts.
const SLICE: Duration = Duration::from_millis(2);
const LEAST_SLICES: usize = 5;

/// The benchmark `memory.numa`.
pub struct Numa;

impl Benchmark for Numa {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "memory.numa",
            about: "latency and bandwidth from the CPUs of each NUMA node to the memory of each",
            words: &[LabelPart::Word("NUMA"), LabelPart::Value("op"), LabelPart::Value("size")],
            keys: &["op", "size", "pages"],
            help: &[("op", "latency, read or all [default: all]")],
            by_default: false,
            look: super::look,
            metrics: const {
                &[
                    Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower).about(
                        "time of a load that depends on the one before: the median over the pairs of nodes",
                    ),
                    Metric::new(BANDWIDTH_METRIC, Unit::BytePerSecond, Better::Higher)
                        .about("bytes per second that the program reads: the median over the pairs of nodes")
                        .with_floor(),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn metric_of(&self, case: &Case, row: Metric) -> Option<Metric> {
        let name = if NumaJob::of(case).latency { LATENCY_METRIC } else { BANDWIDTH_METRIC };
        Some(row).filter(|row| row.name == name)
    }

    fn roofline(&self, _: &Case) -> Roofline {
        Roofline::Moves { intensity: None, area: None }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut candidates = Vec::new();
        for (op, latency) in group.values("op", NUMA_OPS)? {
            for pages in pages(machine, group)? {
                let usual = default_size(machine, group, latency);
                for size in super::sizes(machine, group, &[usual], super::bandwidth::SMALLEST_ARRAYS)? {
                    let case = Case::of(self.name())
                        .with_word("op", op)
                        .with_size("size", size)
                        .with_word("pages", pages.word);
                    let nodes = with_memory(machine).len() as u64;
                    let feasible = enough(machine)
                        .and_then(|()| are_here(machine, pages))
                        .and_then(|()| fits(machine, nodes, size, pages.pages));
                    let job = NumaJob::of(&case);
                    candidates.push(Candidate::new(case, feasible).parsed(&job));
                }
            }
        }
        Ok(candidates)
    }

    fn limits(&self, question: &Question<'_>) -> Vec<Limit> {
        let (kind, what) = match question.metric {
            LATENCY_METRIC => (LimitKind::Floor, "how long the memory of a node takes"),
            _ => (LimitKind::Ceiling, "how much a node's channels and the links between nodes carry"),
        };
        let why = format!("{what} is not documented for the machine as it was built; give it by --limits");
        vec![Limit::unknown(kind, why)]
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        enough(cx.machine)?;
        Ok(Box::new(NodePairs::new(&parsed.read()?, case, cx)?))
    }
}

pub(super) fn with_memory(machine: &Machine) -> Vec<usize> {
    let nodes = machine.memory.nodes.iter();
    nodes.filter(|node| node.total_bytes.is_some_and(|bytes| bytes > 0)).map(|node| node.id).collect()
}

/// Returns the NUMA nodes with CPUs that this process may use, each with these CPUs.
fn with_cpus(machine: &Machine) -> Vec<(usize, Vec<usize>)> {
    let cpus = |node: &NumaNode| node.cpus.common(&machine.cpu.allowed).iter().collect();
    let rows = machine.memory.nodes.iter().map(|node| (node.id, cpus(node)));
    rows.filter(|(_, cpus): &(usize, Vec<usize>)| !cpus.is_empty()).collect()
}

fn enough(machine: &Machine) -> Result<(), CannotMeasure> {
    let (rows, columns) = (with_cpus(machine).len(), with_memory(machine).len());
    if rows >= 1 && columns >= 2 {
        return Ok(());
    }
    let nodes = machine.memory.nodes.len();
    Err(CannotMeasure::not_here(format!(
        "requires two NUMA nodes with memory, one of them with CPUs: of {}, {columns} have memory and {rows} have CPUs that this process may use",
        format_count(nodes, "node")
    )))
}

/// Returns the default bytes per node, beyond its caches; four times that for `latency`.
fn default_size(machine: &Machine, group: &Group, latency: bool) -> u64 {
    let each = with_cpus(machine).into_iter();
    let one = each.map(|(_, cpus)| working_set::default_total_bytes(machine, &cpus, 1)).max();
    let all = one.unwrap_or(ASSUMED_CACHE);
    let bytes = if latency { all.saturating_mul(STRIDE / 64).min(MAX_NODE_BYTES.max(all)) } else { all };
    let nodes = with_memory(machine).len() as u64;
    working_set::bytes_per_thread(machine, group, nodes, bytes.saturating_mul(nodes))
}

enum NodeMemory {
    Chase(Chase),
    /// One region per CPU of the node with most CPUs.
    Regions(Vec<Region>),
}

struct NodePairs {
    /// Nodes, each with the threads on its CPUs.
    rows: Vec<(usize, Team)>,
    /// Nodes, each with memory on it.
    columns: Vec<(usize, NodeMemory)>,
    machine: Machine,
    kernel: BlockKernel,
    facts: Facts,
}

impl NodePairs {
    fn new(job: &NumaJob, case: &Case, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
        let (latency, size, pages) = (job.latency, affinity::bytes_per_thread(&job.site), job.site.pages);
        let team = |(node, cpus): (usize, Vec<usize>)| {
            let cpus = if latency { &cpus[..1] } else { &cpus };
            Team::new(cpus).map(|team| (node, team))
        };
        let rows = with_cpus(cx.machine).into_iter().map(team).collect::<Result<Vec<_>, _>>()?;
        let most = rows.iter().map(|(_, team)| team.count()).max().unwrap_or(1);
        let mut columns = Vec::new();
        for node in with_memory(cx.machine) {
            let seed = seed(cx, case).wrapping_add(node as u64);
            let memory = match latency {
                true => {
                    let cycle = Cycle {
                        bytes: size,
                        stride: STRIDE as usize,
                        group: Some(GROUP as usize),
                        chases: 1,
                        pages,
                        seed,
                        node: Some(node),
                    };
                    Chase::new(cycle).map(NodeMemory::Chase).map_err(CannotMeasure::environment)
                }
                false => {
                    let shape = BlockShape {
                        op: BlockOp::Read,
                        order: BlockTraversal::Sequential,
                        block: COPY_BLOCK_BYTES.min(size / most / 64 * 64),
                        bytes: size / most,
                        pages,
                        seed,
                    };
                    let made = || (0..most).map(|_| Region::new(shape)).collect::<Result<Vec<Region>, _>>();
                    let regions = affinity::allocate_on_node(Some(node), made)?;
                    regions.map(NodeMemory::Regions).map_err(CannotMeasure::environment)
                }
            };
            columns.push((node, memory?));
        }
        let kernel = candidates(BlockOp::Read, COPY_BLOCK_BYTES)
            .pop()
            .ok_or_else(|| CannotMeasure::environment("no kernel reads"))?;
        let mut facts = Facts::default();
        facts.achieved.set(&CPU_NODES, rows.iter().map(|(node, _)| *node).collect::<Vec<_>>());
        facts.achieved.set(&MEMORY_NODES, columns.iter().map(|(node, _)| *node).collect::<Vec<_>>());
        for (node, memory) in &columns {
            note_elsewhere(&mut facts, *node, &memory.pages_by_node());
        }
        Ok(Self { rows, columns, machine: cx.machine.clone(), kernel, facts })
    }

    /// Measures for `time` from CPUs of node `row` to memory of node `column` (indices); returns
    /// median seconds per load, or bytes per second.
    fn measure_pair(&mut self, row: usize, column: usize, time: Duration) -> Result<f64, CannotMeasure> {
        let kernel = self.kernel;
        let (team, memory) = (&mut self.rows[row].1, &mut self.columns[column].1);
        match memory {
            NodeMemory::Chase(chase) => {
                let slices = team.run_each(&mut [chase], |_, chase| steps(chase, time))?;
                middle(slices.into_iter().flatten().collect())
            }
            NodeMemory::Regions(regions) => {
                let regions = regions.get_mut(..team.count()).unwrap_or_default();
                let bytes = regions.first().map_or(0, Region::bytes_per_block) * regions.len() as u64;
                let turns = team.run_each(regions, |member, region| blocks(region, kernel, time, member))?;
                Ok((bytes * BLOCKS_A_LAP) as f64 / middle(lap_seconds(&turns))?)
            }
        }
    }

    /// Returns `local` for one node, else the SLIT distance, `distance 21`; `None` if unknown.
    fn mark(&self, row: usize, column: usize) -> Option<String> {
        if row == column {
            return Some("local".to_owned());
        }
        let node = self.machine.memory.nodes.iter().find(|node| node.id == row)?;
        node.distances.get(&column).map(|distance| format!("distance {distance}"))
    }
}

impl NodeMemory {
    fn pages_by_node(&self) -> BTreeMap<usize, usize> {
        match self {
            Self::Chase(chase) => pages_by_node(std::iter::once(chase.memory())),
            Self::Regions(regions) => pages_by_node(regions.iter().map(Region::memory)),
        }
    }
}

fn middle(values: Vec<f64>) -> Result<f64, CannotMeasure> {
    let why = "the clock did not advance while a pair was measured: use a longer --sample-time";
    median(values).filter(|median| *median > 0.0).ok_or_else(|| CannotMeasure::environment(why))
}

/// Walks a chase for `time` in slices of about 2 ms; returns the seconds per step of each slice.
fn steps(chase: &mut Chase, time: Duration) -> Vec<f64> {
    let timed = |chase: &mut Chase, steps: u64| {
        let start = Instant::now();
        chase.walk(steps);
        start.elapsed().as_secs_f64() / steps as f64
    };
    let each = timed(chase, 1000).max(1e-10);
    let steps = (SLICE.as_secs_f64() / each).clamp(100.0, 1e9) as u64;
    let (begun, mut slices) = (Instant::now(), Vec::new());
    while slices.len() < LEAST_SLICES || begun.elapsed() < time {
        slices.push(timed(chase, steps));
    }
    slices
}

/// Reads `region` for `time` in laps that all threads start together; returns this thread's spans
/// without a clock.
fn blocks(
    region: &mut Region,
    kernel: BlockKernel,
    time: Duration,
    member: TeamMember<'_>,
) -> (Vec<ThreadSpan>, Option<f64>) {
    let mut timed = |blocks: u64| {
        region.draw(blocks);
        member.barrier();
        let (on_cpu, start) = (thread_cpu_time(), Instant::now());
        region.work(kernel);
        ThreadSpan::since(start, on_cpu)
    };
    timed(1);
    // The number of laps must be equal on all threads, so it depends on no thread's own timing.
    let laps = LEAST_SLICES.max((time.as_secs_f64() / SLICE.as_secs_f64()) as usize);
    ((0..laps).map(|_| timed(BLOCKS_A_LAP)).collect(), None)
}

/// Returns the seconds of the undisturbed laps, else of the least disturbed, from each thread's.
fn lap_seconds(turns: &[(Vec<ThreadSpan>, Option<f64>)]) -> Vec<f64> {
    let count = turns.iter().map(|(spans, _)| spans.len()).min().unwrap_or(0);
    let laps = LapRound::of_all(&vec![1; count], turns, true).laps;
    let least = laps.iter().map(|lap| lap.disturbed).fold(f64::INFINITY, f64::min);
    laps.iter().filter(|lap| lap.disturbed <= least.max(OFF_CPU)).map(|lap| lap.seconds).collect()
}

/// Blocks of 1 MiB per lap: about [`SLICE`] at 40 GB/s.
const BLOCKS_A_LAP: u64 = 64;

impl Prepared for NodePairs {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let seconds = amount.seconds()?;
        let pairs = (self.rows.len() * self.columns.len()).max(1);
        let time = Duration::try_from_secs_f64(seconds / pairs as f64).unwrap_or(SLICE).max(SLICE);
        let begun = Instant::now();
        let (mut matrix, mut values) = (Vec::new(), Vec::new());
        for row in 0..self.rows.len() {
            for column in 0..self.columns.len() {
                let value = self.measure_pair(row, column, time)?;
                let (from, to) = (self.rows[row].0, self.columns[column].0);
                let number = |node| u32::try_from(node).unwrap_or(u32::MAX);
                matrix.push(Cell { row: number(from), column: number(to), value, mark: self.mark(from, to) });
                values.push(value);
            }
        }
        let name = match self.columns.first().map(|(_, memory)| memory) {
            Some(NodeMemory::Chase(_)) => LATENCY_METRIC,
            _ => BANDWIDTH_METRIC,
        };
        Ok(Sample {
            elapsed: begun.elapsed().as_secs_f64(),
            values: [(name.to_owned(), middle(values)?)].into(),
            matrix,
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let unnamed = || WrongAnswerSource::Cpus(Vec::new());
        self.columns.iter().try_for_each(|(_, memory)| match memory {
            NodeMemory::Chase(chase) => chase.verify().map_err(|e| super::wrong_chase(unnamed(), &e)),
            NodeMemory::Regions(regions) => regions
                .iter()
                .try_for_each(|region| region.verify().map_err(|e| super::wrong_blocks(unnamed(), &e))),
        })?;
        Ok(self.facts.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{in_context, machine, parse_group, this_machine, without_memory_on};
    use plimsoll_model::sample::FailureCause;

    #[test]
    fn machines_with_several_nodes_have_a_case_of_each_kind() {
        let mut machine = machine("epyc-7543-nps4");
        machine.cpu.allowed = machine.cpu.online.clone();
        let nodes = machine.memory.nodes.len();
        assert!(nodes >= 4);
        let candidates = Numa.cases(&machine, &Group::default()).unwrap();
        let ids: Vec<String> = candidates.iter().map(|candidate| candidate.case.to_string()).collect();
        assert_eq!(ids.len(), 2);
        assert!(ids[0].starts_with("memory.numa/op=latency/size="), "{ids:?}");
        assert!(candidates.iter().all(|candidate| candidate.feasible.is_ok()), "{candidates:?}");
        assert!(ids[1].starts_with("memory.numa/op=read/size=512M/"), "{ids:?}");
        assert_eq!((with_memory(&machine).len(), with_cpus(&machine).len()), (nodes, nodes));
    }

    #[test]
    fn nodes_without_memory_or_without_cpus_are_left_out() {
        let mut machine = without_memory_on(0);
        machine.cpu.allowed = machine.cpu.online.clone();
        let all = machine.memory.nodes.len();
        machine.memory.nodes[1].cpus = "".parse().unwrap_or_default();
        assert_eq!((with_memory(&machine).len(), with_cpus(&machine).len()), (all - 1, all - 1));
        assert!(Numa.cases(&machine, &Group::default()).unwrap()[0].feasible.is_ok());
        for node in machine.memory.nodes.iter_mut().skip(2) {
            node.total_bytes = None;
        }
        let why = Numa.cases(&machine, &Group::default()).unwrap()[0].feasible.clone().unwrap_err();
        assert!(why.cause == FailureCause::NotHere && why.reason.contains("1 have memory"), "{why}");
        assert!(Numa.cases(&machine, &parse_group("op=triad")).unwrap_err().contains("one of latency, read"));
    }

    #[test]
    fn the_pairs_of_this_machine_are_measured_and_lie_where_they_should() {
        let machine = this_machine();
        if with_cpus(&machine).is_empty() || with_memory(&machine).is_empty() {
            use std::io::Write;
            writeln!(std::io::stderr(), "SKIPPED the pairs of NUMA nodes: the kernel shows none").unwrap();
            return;
        }
        for (op, _) in NUMA_OPS {
            let case = Case::of("memory.numa").with_word("op", op).with_size("size", 8 << 20);
            let job = NumaJob::of(&case);
            let mut between = in_context(&machine, |cx| NodePairs::new(&job, &case, cx)).unwrap();
            let sample = between.sample(SampleAmount::Seconds(0.0)).unwrap();
            let (rows, columns) = (between.rows.len(), between.columns.len());
            assert_eq!(sample.matrix.len(), rows * columns);
            assert!(sample.matrix.iter().all(|cell| cell.value > 0.0));
            let local = sample.matrix.iter().find(|cell| cell.row == cell.column).unwrap();
            assert_eq!(local.mark.as_deref(), Some("local"));
            assert_eq!(sample.values.len(), 1);
            assert_eq!(between.verify().unwrap().warnings, []);
            assert!(between.sample(SampleAmount::Work(1)).is_err());
        }
    }
}
