//! `memory.bandwidth`: every thread passes over arrays of its own, first touched by itself, all starting together.
//!
//! The time is that of the slowest thread. `program` counts what the program loads and stores, `bus` also the lines
//! that ordinary stores make the processor read first. Which kernel is best is tried before timing, and named.

use plimsoll_metal::stream::{self, StreamOp};

use super::passes::Passes;
use super::{HUGE_PAGE, TIMES_LAST_LEVEL, budget, fits, last_level, least_total, pages, sizes};
use crate::bench::{Benchmark, Better, Candidate, Context, Metric, Prepared, default_threads};
use crate::case::Case;
use crate::machine::Machine;
use crate::plan::Group;
use crate::quantity::{Unit, format_size};
use crate::sample::CannotMeasure;

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
                        for size in sizes(group, &[default_size(machine, op, threads)])? {
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

/// Each thread's share of what counts as memory, or of what there is, if that is less; but never so little that all
/// arrays together would not be well beyond the caches.
fn default_size(machine: &Machine, op: StreamOp, threads: u64) -> u64 {
    let threads = threads.max(1);
    let share = |total: u64| total.div_ceil(threads).next_multiple_of(HUGE_PAGE);
    let room = budget(machine).unwrap_or(u64::MAX) / threads / HUGE_PAGE * HUGE_PAGE;
    let least = last_level(machine).saturating_mul(TIMES_LAST_LEVEL);
    share(least_total(machine, op)).min(room).max(share(least))
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
