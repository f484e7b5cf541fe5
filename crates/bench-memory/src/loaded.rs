//! `memory.loaded-latency`: one thread chases like `memory.latency`; the other threads use memory
//! of their own and wait after each 4 KiB. The headline is the latency at the highest load.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::block::{BlockKernel, BlockOp, BlockShape, BlockTraversal, Region, candidates};
use plimsoll_metal::team::{OwnLines, Team};
use serde::{Deserialize, Serialize};

use super::fact::{LOAD_BYTES, LOAD_CPUS, LOAD_VARIANT};
use super::findings;
use super::latency::{self, Chasing};
use super::{BANDWIDTH_METRIC, HUGE_PAGE, LATENCY_METRIC, are_here, fits, pages, seed, sizes, working_set};
use plimsoll_model::job::MemorySite;
use plimsoll_model::job::memory::BLOCK_OPS;
use plimsoll_units::quantity::{self, format_duration};

const BURST: usize = 4096;
/// Bursts between two checks of the stop flag, if there is no wait between bursts.
const WITHOUT_WAIT: u64 = 16;
/// Default waits in nanoseconds; a burst itself takes about 100.
const DELAYS: [u64; 12] = [6400, 3200, 1600, 800, 600, 400, 300, 200, 150, 100, 50, 0];
const LONGEST_DELAY: Duration = Duration::from_millis(10);
/// Most steps, so that each has enough time in a sample.
const MOST_STEPS: usize = 64;
/// Time of load before a step is measured, and shortest step in seconds.
const SETTLE: Duration = Duration::from_millis(2);
const SHORTEST_STEP: f64 = 10e-3;
const LEAST_REGION: u64 = 16 << 20;

/// The benchmark `memory.loaded-latency`.
pub struct LoadedLatency;

impl Benchmark for LoadedLatency {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "memory.loaded-latency",
            about: "memory latency while other threads load the memory: a curve over bandwidth, with its saturation point",
            words: &[
                LabelPart::Word("latency under"),
                LabelPart::Value("op"),
                LabelPart::Word("load"),
                LabelPart::Value("size"),
                LabelPart::Times,
            ],
            keys: &["op", "size", "pages", "delay", "threads"],
            help: &[(
                "op",
                "read, write, read-write or all: what the loading threads do (read-write: a copy) [default: read]",
            )],
            by_default: false,
            curves: &[Curve {
                x: BANDWIDTH_METRIC,
                x_unit: "B/s",
                log: false,
                y: LATENCY_METRIC,
                y_unit: "s",
            }],
            look: super::look,
            limits: latency::limit::limits,
            findings: findings::saturation_point::find,
            point: in_words,
            metrics: const {
                &[
                    Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower)
                        .about("time of a load that depends on the one before, under the most load"),
                    Metric::new(BANDWIDTH_METRIC, Unit::BytePerSecond, Better::Higher)
                        .about("bytes per second that the loading threads read or write")
                        .with_floor(),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let delays = delays(group)?;
        let all = machine.most_threads().max(2) as u64;
        let threads = counts_in_range(group, "threads", &[all], super::MOST_THREADS)?;
        let mut candidates = Vec::new();
        let ops = if group.asked("op") { group.values("op", BLOCK_OPS)? } else { BLOCK_OPS[..1].to_vec() };
        for (op, draws) in ops {
            for pages in pages(machine, group)? {
                let usual = latency::memory_size(machine, group);
                for size in sizes(machine, group, &[usual], super::MIN_WORKING_SET_BYTES)? {
                    for threads in &threads {
                        let mut case = Case::of(self.name())
                            .with_word("op", op)
                            .with_size("size", size)
                            .with_word("pages", pages.word);
                        if group.asked("delay") {
                            let words: Vec<String> = delays.iter().map(|d| format_duration(*d)).collect();
                            case = case.with_word("delay", &words.join("+"));
                        }
                        let case = case.with_count("threads", *threads);
                        let possible = possible(machine, *threads).and_then(|()| are_here(machine, pages));
                        let feasible = possible.and_then(|()| {
                            let region = region_bytes(machine, *threads);
                            let load = region.saturating_mul(threads.saturating_sub(1));
                            fits(machine, 1, size.saturating_add(load), pages.pages)
                        });
                        let job = LoadedJob { draws, delays: delays.clone(), site: MemorySite::of(&case) };
                        candidates.push(Candidate::new(case, feasible).parsed(&job));
                    }
                }
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: LoadedJob = parsed.read()?;
        possible(cx.machine, job.site.threads.count as u64)?;
        let chase = Chasing::new(&latency::single_chase(&job.site), seed(cx, case), cx.machine)?;
        let load = MemoryLoad::new(&job, case, cx)?;
        Ok(Box::new(LoadedChase { chase, load, delays: job.delays }))
    }
}

/// Formats a point of the curve, load and latency: `20 GB/s 110 ns`; `None` if either is missing.
fn in_words(point: &CurvePoint) -> Option<String> {
    let (latency, load) = (*point.get(LATENCY_METRIC)?, *point.get(BANDWIDTH_METRIC)?);
    let latency = Quantity::new(latency, Unit::Second);
    Some(match load > 0.0 {
        true => format!("{} {latency}", Quantity::new(load, Unit::BytePerSecond)),
        false => format!("no load {latency}"),
    })
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LoadedJob {
    draws: BlockOp,
    delays: Vec<Duration>,
    site: MemorySite,
}

fn possible(machine: &Machine, threads: u64) -> Result<(), CannotMeasure> {
    let allowed = &machine.cpu.allowed;
    if allowed.len() < 2 {
        return Err(CannotMeasure::not_here(format!(
            "requires two CPUs (one measures, the others load), and this process may use only '{allowed}'; widen taskset or the cpuset"
        )));
    }
    match threads {
        0 | 1 => Err(CannotMeasure::not_here(
            "--threads must be at least 2: one thread measures, the others load (without load use memory.latency)",
        )),
        n if n > allowed.len() as u64 => Err(CannotMeasure::not_here(format!(
            "{n} threads on {} CPUs would share a CPU with the thread that measures; use --threads {} or fewer",
            allowed.len(),
            allowed.len()
        ))),
        _ => Ok(()),
    }
}

fn delays(group: &Group) -> Result<Vec<Duration>, String> {
    let words = group.words("delay", &[]);
    let usual = || DELAYS.map(Duration::from_nanos).to_vec();
    if words.is_empty() { Ok(usual()) } else { read_delays(words.iter().map(String::as_str)) }
}

/// Parses the values of `--delay`, such as `0` or `1us`; returns the longest (least load) first.
fn read_delays<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<Duration>, String> {
    let read = |word: &str| match word {
        "0" => Ok(Duration::ZERO),
        word => quantity::parse_duration(word).map_err(|e| format!("delay {e}")),
    };
    let delays = words.map(read).collect::<Result<BTreeSet<Duration>, String>>()?;
    let delays: Vec<Duration> = delays.into_iter().rev().collect();
    match delays.first() {
        Some(longest) if *longest > LONGEST_DELAY => Err(format!(
            "delay must be at most {1} after each 4 KiB of load: {0} is not",
            format_duration(*longest),
            format_duration(LONGEST_DELAY)
        )),
        _ if delays.len() > MOST_STEPS => {
            Err(format!("delay must have at most {MOST_STEPS} steps: {} are too many", delays.len()))
        }
        _ => Ok(delays),
    }
}

/// Returns the bytes for each of `threads` − 1 loading threads; together they exceed the caches.
fn region_bytes(machine: &Machine, threads: u64) -> u64 {
    let loading = threads.saturating_sub(1).max(1);
    let cpus = spread_cpus(machine, usize::try_from(threads).unwrap_or(usize::MAX));
    let all = working_set::default_total_bytes(machine, &cpus, 1);
    // The chase may have half of the available memory.
    let quarter = machine.memory_available_bytes().map_or(u64::MAX, |available| available / 4 / loading);
    let share = working_set::bytes_per_thread(machine, &Group::default(), loading, all);
    share.min(quarter / HUGE_PAGE * HUGE_PAGE).max(LEAST_REGION)
}

struct LoadedChase {
    chase: Chasing,
    load: MemoryLoad,
    delays: Vec<Duration>,
}

struct MemoryLoad {
    team: Team,
    regions: Vec<Region>,
    kernel: BlockKernel,
}

impl MemoryLoad {
    /// Allocates a region per loading thread, on its own node, and chooses the fastest kernel.
    fn new(job: &LoadedJob, case: &Case, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
        let &LoadedJob { draws: op, site: MemorySite { ref threads, pages, .. }, .. } = job;
        let cpus: Vec<usize> = threads.cpus(cx.machine).into_iter().skip(1).collect();
        let mut team = Team::new(&cpus)?;
        let bytes = usize::try_from(region_bytes(cx.machine, threads.count as u64)).unwrap_or(0);
        let seed = seed(cx, case);
        let shape = BlockShape { op, order: BlockTraversal::Sequential, block: BURST, bytes, pages, seed };
        let made = team.run(|member| {
            Region::new(BlockShape { seed: seed.wrapping_add(1 + member.index as u64), ..shape })
        });
        let made = made.map_err(CannotMeasure::environment)?.into_iter();
        let regions: Vec<Region> = made.collect::<Result<_, _>>().map_err(CannotMeasure::environment)?;
        let mut load = Self { team, regions, kernel: candidates(op, BURST)[0] };
        load.choose(op)?;
        Ok(load)
    }

    fn choose(&mut self, op: BlockOp) -> Result<(), CannotMeasure> {
        let mut best = 0.0;
        for kernel in candidates(op, BURST) {
            let before = std::mem::replace(&mut self.kernel, kernel);
            let ((), bandwidth) = self.measure_under_load(Duration::ZERO, || {
                yield_for(SETTLE);
                Ok(())
            })?;
            if bandwidth > best {
                best = bandwidth;
            } else {
                self.kernel = before;
            }
        }
        Ok(())
    }

    /// Runs `measure` under load, with a `delay` after each 4 KiB; returns its result and the B/s.
    fn measure_under_load<T>(
        &mut self,
        delay: Duration,
        measure: impl FnOnce() -> Result<T, CannotMeasure>,
    ) -> Result<(T, f64), CannotMeasure> {
        let kernel = self.kernel;
        let (stop, begun) = (AtomicBool::new(false), AtomicU64::new(0));
        let moved: Vec<OwnLines<AtomicU64>> = self.regions.iter().map(|_| OwnLines::default()).collect();
        let Self { team, regions, .. } = self;
        let threads = regions.len() as u64;
        let total = || moved.iter().map(|moved| moved.0.load(Ordering::Relaxed)).sum::<u64>();
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                team.run_each(regions, |member, region| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    let mine = moved.get(member.index);
                    let bursts = if delay.is_zero() { WITHOUT_WAIT } else { 1 };
                    while !stop.load(Ordering::Relaxed) {
                        region.draw(bursts);
                        let bytes = region.work(kernel) * region.bytes_per_block();
                        mine.map(|mine| mine.0.fetch_add(bytes, Ordering::Relaxed));
                        wait(delay, &stop);
                    }
                })
            });
            while begun.load(Ordering::Relaxed) < threads && !load.is_finished() {
                std::thread::yield_now();
            }
            yield_for(SETTLE);
            let (before, start) = (total(), Instant::now());
            let measured = measure();
            let (after, end) = (total(), Instant::now());
            stop.store(true, Ordering::Relaxed);
            let ended = load.join();
            let seconds = end.saturating_duration_since(start).as_secs_f64();
            match ended {
                Ok(Ok(_)) => Ok((measured?, (after - before) as f64 / seconds.max(1e-9))),
                Ok(Err(error)) => Err(CannotMeasure::environment(error)),
                Err(_) => Err(CannotMeasure::environment("the thread that keeps the load panicked")),
            }
        })
    }

    fn verify(&self) -> Result<(), CannotMeasure> {
        let mut pairs = self.regions.iter().zip(self.team.cpus());
        pairs.try_for_each(|(region, cpu)| {
            region.verify().map_err(|e| super::wrong_blocks(WrongAnswerSource::Cpu(*cpu), &e))
        })
    }
}

fn wait(delay: Duration, stop: &AtomicBool) {
    if delay.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < delay && !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Yields this thread, which is not measured, for `time` while the load runs.
fn yield_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}

fn point(delay: Option<Duration>, latency: f64, program: f64) -> CurvePoint {
    let figures = [(LATENCY_METRIC, latency), (BANDWIDTH_METRIC, program)];
    let delay = delay.map(|delay| ("delay", delay.as_secs_f64()));
    figures.into_iter().chain(delay).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn latency_of(sample: &Sample) -> Result<f64, CannotMeasure> {
    let latency = sample.values.get(LATENCY_METRIC).copied();
    latency.ok_or_else(|| CannotMeasure::environment("memory.latency gave no latency"))
}

impl Prepared for LoadedChase {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let seconds = amount.seconds()?;
        let each = SampleAmount::Seconds((seconds / (self.delays.len() + 1) as f64).max(SHORTEST_STEP));
        let begun = Instant::now();
        let unloaded = self.chase.sample(each)?;
        let mut curve = vec![point(None, latency_of(&unloaded)?, 0.0)];
        let (mut last, mut program) = (unloaded, 0.0);
        for delay in &self.delays {
            let chase = &mut self.chase;
            (last, program) = self.load.measure_under_load(*delay, || chase.sample(each))?;
            curve.push(point(Some(*delay), latency_of(&last)?, program));
        }
        Ok(Sample {
            elapsed: begun.elapsed().as_secs_f64(),
            values: point(None, latency_of(&last)?, program),
            curve,
            conditions: last.conditions,
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let mut facts = self.chase.verify()?;
        self.load.verify()?;
        let bytes = self.load.regions.first().map_or(0, Region::bytes);
        facts.achieved.set(&LOAD_VARIANT, self.load.kernel.name());
        facts.achieved.set(&LOAD_BYTES, bytes);
        facts.achieved.set(&LOAD_CPUS, self.load.team.cpus());
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::fixture::{in_context, machine, parse_group, this_machine};
    use plimsoll_model::sample::FailureCause;

    #[test]
    fn one_case_has_all_steps_and_the_chase_is_that_of_memory_latency() {
        let machine = machine("firecracker-zen4");
        let ids = |lists| -> Vec<String> {
            let candidates = LoadedLatency.cases(&machine, &parse_group(lists)).unwrap();
            assert!(candidates.iter().all(|candidate| candidate.feasible.is_ok()));
            candidates.iter().map(|candidate| candidate.case.to_string()).collect()
        };
        assert_eq!(ids(""), ["memory.loaded-latency/op=read/size=528M/pages=thp/threads=2"]);
        assert!(delays(&parse_group("")).unwrap().len() >= 10);
        let given = ids("delay=0,1us,100ns,1us/op=read,read-write");
        assert_eq!(given.len(), 2);
        assert!(given[0].contains("/delay=1us+100ns+0s/"), "{}", given[0]);
    }

    #[test]
    fn the_wait_of_a_case_is_read_as_it_was_typed() {
        let read = |text: &str| read_delays(text.split('+'));
        assert_eq!(read("0"), Ok(vec![Duration::ZERO]));
        let micro = Duration::from_micros(1);
        assert_eq!(read("0s+1us+1000ns+100ns"), Ok(vec![micro, micro / 10, Duration::ZERO]));
        assert!(read("100").unwrap_err().starts_with("delay must be"));
        assert!(read("11ms").unwrap_err().contains("at most 10ms"));
        let many: Vec<String> = (0..70).map(|ns| format!("{ns}ns")).collect();
        assert!(read(&many.join("+")).unwrap_err().contains("at most 64 steps"));
    }

    #[test]
    fn without_a_second_cpu_or_thread_there_is_no_load() {
        let mut machine = machine("firecracker-zen4");
        let feasible = |machine: &Machine, lists| {
            LoadedLatency.cases(machine, &parse_group(lists)).unwrap().remove(0).feasible
        };
        let why = |machine: &Machine, lists| feasible(machine, lists).unwrap_err();
        assert!(why(&machine, "threads=1").reason.contains("--threads must be at least 2"));
        assert!(why(&machine, "threads=3").reason.contains("3 threads on 2 CPUs"));
        machine.cpu.allowed = "1".parse().unwrap();
        let alone = why(&machine, "threads=2");
        assert!(alone.cause == FailureCause::NotHere && alone.reason.contains("may use only '1'"), "{alone}");
        assert_eq!(feasible(&machine, ""), Err(alone));
        machine.cpu.allowed = "0-1".parse().unwrap();
        machine.memory.available_bytes = Some(512 << 20);
        assert_eq!(feasible(&machine, ""), Ok(()), "a default fits");
        let no_room = why(&machine, "threads=2/size=1G");
        assert_eq!(no_room.cause, FailureCause::Environment);
        assert!(no_room.reason.starts_with("needs 1 × "), "{no_room}");
        let error = |lists| LoadedLatency.cases(&machine, &parse_group(lists)).unwrap_err();
        assert!(error("op=triad").contains("one of read, write, read-write"));
        assert!(error("threads=0").contains("between 1 and"));
        assert!(error("delay=soon").starts_with("delay must be"));
    }

    #[test]
    fn a_sample_is_a_curve_from_no_load_to_the_most() {
        let machine = this_machine();
        if possible(&machine, 2).is_err() {
            writeln!(std::io::stderr(), "SKIPPED the curve of latency under load: needs two CPUs").unwrap();
            return;
        }
        for (op, draws) in BLOCK_OPS {
            let id = format!("memory.loaded-latency/op={op}/size=4M/delay=1us+0s/threads=2");
            let case: Case = id.parse().unwrap();
            let delays = read_delays(["1us", "0"].into_iter()).unwrap();
            let job = LoadedJob { draws: *draws, delays, site: MemorySite::of(&case) };
            let parsed = Candidate::new(case.clone(), Ok(())).parsed(&job).parsed;
            let mut prepared = in_context(&machine, |cx| LoadedLatency.prepare(&case, &parsed, cx)).unwrap();
            let mut samples = (0..50).filter_map(|_| prepared.sample(SampleAmount::Seconds(0.0)).ok());
            let sample = samples.find(|sample| sample.curve[1]["bandwidth"] > 0.0).expect("some load");
            assert_eq!(sample.curve.len(), 3);
            assert_eq!((sample.curve[0]["bandwidth"], sample.curve[0].get("delay")), (0.0, None));
            assert_eq!((sample.curve[1]["delay"], sample.curve[2]["delay"]), (1e-6, 0.0));
            assert!(sample.curve.iter().all(|p| p["latency"] > 0.0));
            assert_eq!(sample.values["latency"], sample.curve[2]["latency"]);
            assert_eq!(sample.values["bandwidth"], sample.curve[2]["bandwidth"]);
            assert!(prepared.verify().unwrap().achieved.get(&LOAD_VARIANT).is_some());
            assert!(prepared.sample(SampleAmount::Work(1)).is_err());
        }
    }
}
