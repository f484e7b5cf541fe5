//! `memory.bandwidth`: every thread passes over arrays of its own, first touched by itself, all starting together.
//!
//! The time is that of the slowest thread. `program` counts what the program loads and stores, `bus` also the lines
//! that ordinary stores make the processor read first. Which kernel is best is tried before timing, and named.

use std::time::Instant;

use plimsoll_metal::buffer::{Buffer, BufferError, Pages, Resident};
use plimsoll_metal::clock::CoreClock;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::stream::{self, Arrays, LoadedStream, StreamOp};
use plimsoll_metal::team::{Member, Team};
use serde_json::Value as Json;

use super::{
    HUGE_PAGE, TIMES_LAST_LEVEL, broken, fits, is_beyond_caches, last_level, note_caches, note_pages, pages,
    pages_of, seed, sizes, team,
};
use crate::bench::{Benchmark, Better, Candidate, Context, Metric, Prepared, default_threads};
use crate::case::Case;
use crate::machine::Machine;
use crate::plan::Group;
use crate::quantity::{Unit, format_size};
use crate::sample::{Amount, CannotMeasure, Conditions, Facts, Sample, WrongAnswer};
use crate::warning::Warning;

/// Passes with each kernel when the best is looked for; the quickest counts.
const TRIALS: usize = 3;
/// The smallest size per thread that has room for three arrays and the gaps between them.
const SMALLEST_ARRAYS: u64 = 16 << 10;

/// The benchmark itself.
pub struct Bandwidth;

impl Benchmark for Bandwidth {
    fn name(&self) -> &'static str {
        "memory.bandwidth"
    }

    fn about(&self) -> &'static str {
        "bytes per second of passes over arrays larger than the caches"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["op", "size", "variant", "pages", "threads"]
    }

    fn metrics(&self, _: &Case) -> Vec<Metric> {
        let metric = |name| Metric { name, unit: Unit::BytePerSecond, better: Better::Higher };
        vec![metric("program"), metric("bus")]
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut candidates = Vec::new();
        let variants = group.words("variant", &["best"]);
        let mut unmatched: Vec<&String> = variants.iter().collect();
        for op in operations(group)? {
            for variant in variants.iter().filter(|variant| has_variant(op, variant)) {
                unmatched.retain(|other| *other != variant);
                for pages in pages(machine, group)? {
                    for threads in threads(machine, group)? {
                        for size in sizes(group, &[default_size(machine, threads)])? {
                            let case = Case::of(self.name())
                                .with_word("op", op.name())
                                .with_size("size", size)
                                .with_word("variant", variant)
                                .with_word("pages", &pages)
                                .with_count("threads", threads);
                            let feasible = loadable(op, variant)
                                .and_then(|()| holds_arrays(size))
                                .and_then(|()| fits(machine, threads, size));
                            candidates.push(Candidate { case, feasible });
                        }
                    }
                }
            }
        }
        match unmatched.first() {
            Some(variant) => Err(unknown_variant(variant)),
            None => Ok(candidates),
        }
    }

    fn prepare(&self, case: &Case, cx: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let op = case.word("op").unwrap_or_default().parse::<StreamOp>();
        let op = op.map_err(|e| CannotMeasure::environment(e.to_string()))?;
        let size = case.number("size").and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let mut passes = Passes::new(op, size, case, cx)?;
        passes.choose(case.word("variant").unwrap_or("best"))?;
        Ok(Box::new(passes))
    }
}

fn operations(group: &Group) -> Result<Vec<StreamOp>, String> {
    let words = group.words("op", &["read", "copy", "triad"]);
    words.iter().map(|word| word.parse().map_err(|_| unknown_operation(word))).collect()
}

fn unknown_operation(word: &str) -> String {
    let names: Vec<&str> = StreamOp::ALL.iter().map(|op| op.name()).collect();
    format!("op: '{}' is no operation on memory; choose among {}", crate::text::shown(word), names.join(", "))
}

fn has_variant(op: StreamOp, variant: &str) -> bool {
    variant == "best" || stream::kernels().any(|kernel| kernel.op == op && kernel.variant() == variant)
}

fn unknown_variant(word: &str) -> String {
    let mut names: Vec<&str> = stream::kernels().map(|kernel| kernel.variant()).collect();
    names.sort_unstable();
    names.dedup();
    format!(
        "variant: '{}' is none of the operations asked for; choose best, or among {}",
        crate::text::shown(word),
        names.join(", ")
    )
}

/// Whether this CPU has the instructions of the variant.
fn loadable(op: StreamOp, variant: &str) -> Result<(), CannotMeasure> {
    match stream::kernels().find(|kernel| kernel.op == op && kernel.variant() == variant) {
        Some(kernel) => {
            kernel.load().map(|_| ()).map_err(|absence| CannotMeasure::not_here(absence.to_string()))
        }
        None => Ok(()),
    }
}

fn threads(machine: &Machine, group: &Group) -> Result<Vec<u64>, String> {
    const MOST: u64 = 4096;
    let threads = group.numbers("threads", &default_threads(machine));
    match threads.iter().find(|n| !(1..=MOST).contains(*n)) {
        Some(n) => Err(format!("threads: {n} is out of range; write a number from 1 to {MOST}")),
        None => Ok(threads),
    }
}

/// What makes all threads together use enough more than the last-level caches.
fn default_size(machine: &Machine, threads: u64) -> u64 {
    let total = last_level(machine).saturating_mul(TIMES_LAST_LEVEL);
    total.div_ceil(threads.max(1)).next_multiple_of(HUGE_PAGE)
}

/// Whether the arrays and the gaps between them have room in `size`.
fn holds_arrays(size: u64) -> Result<(), CannotMeasure> {
    if size >= SMALLEST_ARRAYS {
        return Ok(());
    }
    let smallest = format_size(SMALLEST_ARRAYS);
    Err(CannotMeasure::not_here(format!(
        "{} is too small for arrays; give a --size of {smallest}",
        format_size(size)
    )))
}

/// Arrays on every thread, and the kernel that passes over them.
struct Passes {
    team: Team,
    fields: Vec<Field>,
    op: StreamOp,
    /// `None` only while none is chosen.
    kernel: Option<LoadedStream>,
    facts: Facts,
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

/// What one thread did.
struct Span {
    start: Instant,
    end: Instant,
    clock_hz: Option<f64>,
}

/// What all threads did together.
struct Round {
    seconds: f64,
    clock_hz: Option<f64>,
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

    fn work(&mut self, kernel: LoadedStream, passes: u64, member: Member<'_>) -> Span {
        let mut arrays = Arrays::divide(kernel.kernel().op, self.buffer.floats_mut());
        member.barrier();
        let start = Instant::now();
        for _ in 0..passes {
            self.wrong_sums += u64::from(kernel.run(&mut arrays) != self.checksum);
        }
        let end = Instant::now();
        self.passes += passes;
        Span { start, end, clock_hz: self.clock.as_ref().and_then(CoreClock::probe) }
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

impl Passes {
    fn new(op: StreamOp, size: usize, case: &Case, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
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
        note_size(&mut facts, cx.machine, threads, size);
        facts.achieved.insert("cpus".to_owned(), Json::from(team.cpus().to_vec()));
        Ok(Self { team, fields, op, kernel: None, facts })
    }

    /// Takes the kernel of this name; for `best`, the one with the quickest pass of all that this CPU can run.
    fn choose(&mut self, variant: &str) -> Result<(), CannotMeasure> {
        let all: Vec<LoadedStream> = stream::available(self.op).collect();
        let better = |kernel: &&LoadedStream| kernel.kernel().isa != Isa::Portable;
        let kernels: Vec<LoadedStream> = match variant {
            "best" if all.iter().any(|kernel| better(&kernel)) => {
                all.iter().filter(better).copied().collect()
            }
            "best" => all,
            name => all.into_iter().filter(|kernel| kernel.kernel().variant() == name).collect(),
        };
        let mut quickest = vec![f64::INFINITY; kernels.len()];
        let rounds = if kernels.len() > 1 { TRIALS } else { 0 };
        for _ in 0..rounds {
            for (kernel, best) in kernels.iter().zip(&mut quickest) {
                *best = best.min(self.round(*kernel, 1)?.seconds);
            }
        }
        let (kernel, _) =
            kernels.into_iter().zip(quickest).min_by(|a, b| a.1.total_cmp(&b.1)).ok_or_else(|| {
                CannotMeasure::not_here(format!("no variant '{variant}' of {} runs here", self.op))
            })?;
        self.kernel = Some(kernel);
        self.facts.achieved.insert("variant".to_owned(), Json::from(kernel.kernel().variant()));
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

    /// All threads make this many passes, from a common start until the last has finished.
    fn round(&mut self, kernel: LoadedStream, passes: u64) -> Result<Round, CannotMeasure> {
        let work = |member: Member<'_>, field: &mut Field| field.work(kernel, passes, member);
        let spans = self.team.run_each(&mut self.fields, work).map_err(broken)?;
        let start = spans.iter().map(|span| span.start).min();
        let end = spans.iter().map(|span| span.end).max();
        let elapsed = end.zip(start).map(|(end, start)| end.saturating_duration_since(start));
        let clocks: Option<Vec<f64>> = spans.iter().map(|span| span.clock_hz).collect();
        let clock_hz = clocks.map(|clocks| clocks.iter().sum::<f64>() / spans.len() as f64);
        Ok(Round { seconds: elapsed.unwrap_or_default().as_secs_f64(), clock_hz })
    }
}

impl Prepared for Passes {
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let kernel = self.kernel.ok_or_else(|| CannotMeasure::environment("no kernel was chosen"))?;
        let elements = self.elements();
        let (program, bus) = (kernel.kernel().program_bytes(elements), kernel.kernel().bus_bytes(elements));
        let passes = match amount {
            Amount::Work(bytes) => bytes as f64 / program as f64,
            Amount::Seconds(wanted) => wanted / self.round(kernel, 1)?.seconds,
        };
        let passes = passes.round().clamp(1.0, 1e12) as u64;
        let round = self.round(kernel, passes)?;
        if round.seconds <= 0.0 {
            return Err(CannotMeasure::environment(
                "the clock did not advance during a pass: choose a larger --size",
            ));
        }
        let rate = |bytes: u64| bytes as f64 * passes as f64 / round.seconds;
        Ok(Sample {
            elapsed: round.seconds,
            work: Some(program.saturating_mul(passes)),
            values: [("program".to_owned(), rate(program)), ("bus".to_owned(), rate(bus))].into(),
            conditions: Conditions { clock_hz: round.clock_hz, ..Conditions::default() },
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

fn note_threads(facts: &mut Facts, machine: &Machine, threads: usize) {
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
fn note_size(facts: &mut Facts, machine: &Machine, threads: usize, size: usize) {
    let (size, threads) = (size as u64, threads as u64);
    if !is_beyond_caches(machine, threads, size) {
        let text = format!(
            "{} over all threads is less than {TIMES_LAST_LEVEL} × the last-level caches ({}): caches answered, wholly \
             or in part; leave --size out to measure memory",
            format_size(size.saturating_mul(threads)),
            format_size(last_level(machine))
        );
        facts.warnings.push(Warning::Other { code: "fits-in-cache".to_owned(), text });
    }
}
