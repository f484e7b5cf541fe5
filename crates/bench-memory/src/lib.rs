//! Memory benchmarks: bandwidth, latency, loaded latency, blocks, NUMA.
#![forbid(unsafe_code)]

mod affinity;
mod answered;
mod arrays;
mod bandwidth;
mod batches;
mod block;
mod choose;
mod effective;
pub(crate) mod fact;
mod findings;
mod lap;
mod latency;
mod level;
mod loaded;
mod numa;
mod pages;
mod part;
mod passes;
mod warning;
mod window;
mod working_set;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::block::WrongBlocks;
use plimsoll_metal::buffer::Pages;
use plimsoll_metal::chase::ChaseError;

pub use bandwidth::Bandwidth;
pub use block::Block;
use fact::EFFECTIVE_CACHE;
pub use latency::MemoryLatency;
use latency::first_cpu;
use level::MemoryLevel;
pub(crate) use level::{AnsweringLevel, answers, levels};
pub use loaded::LoadedLatency;
pub use numa::Numa;
use pages::{RequestedPages, are_here, pages, reserved_page};
pub use part::SUBSYSTEM;
use warning::MemoryWarning;

use plimsoll_bench_api::buffer::{check_budget, human};
use plimsoll_machine::memory::HugePages;
use plimsoll_model::job::MemoryStream;

/// Metric: bytes per second that the program loads and stores.
pub const BANDWIDTH_METRIC: &str = "bandwidth";
/// Metric: [`BANDWIDTH_METRIC`] plus the lines that ordinary stores make the processor read first.
pub const BUS_BANDWIDTH: &str = "bus_bandwidth";
/// Metric: bytes of blocks per second.
pub const THROUGHPUT_METRIC: &str = "throughput";
/// Metric: seconds per load, or per block.
pub const LATENCY_METRIC: &str = "latency";
/// Metric: seconds per byte of a block.
pub const LATENCY_PER_BYTE: &str = "latency_per_byte";

const MOST_THREADS: u64 = 4096;
/// Times the last-level caches from which on a working set counts as memory (McCalpin 1995).
const TIMES_LAST_LEVEL: u64 = 4;
/// Bytes of the last-level cache if unknown.
const ASSUMED_LAST_LEVEL: u64 = 64 << 20;
/// Working sets are multiples of a huge page, in bytes.
const HUGE_PAGE: u64 = 2 << 20;
/// Largest ordinary page of Linux on x86-64 and AArch64, in bytes.
const SMALL_PAGE: u64 = 64 << 10;

/// Smallest size in bytes: a few nodes of a chase.
const MIN_WORKING_SET_BYTES: u64 = 1 << 10;

fn threads(machine: &Machine, group: &Group) -> Result<Vec<u64>, String> {
    counts_in_range(group, "threads", &default_threads(machine), MOST_THREADS)
}

/// Returns the requested sizes in bytes, or `defaults`; `sweep` stands for many sizes. Fails below
/// 1 KiB; the error names `least`, the smallest size of the benchmark.
fn sizes(machine: &Machine, group: &Group, defaults: &[u64], least: u64) -> Result<Vec<u64>, String> {
    let mut sizes = group.numbers("size", defaults);
    if !group.words("size", &[]).is_empty() {
        sizes.extend(sweep(machine));
        sizes.sort_unstable();
        sizes.dedup();
    }
    match sizes.iter().find(|size| **size < MIN_WORKING_SET_BYTES) {
        Some(size) => {
            Err(format!("size must be at least {1}: {0} is not", format_size(*size), format_size(least)))
        }
        None => Ok(sizes),
    }
}

/// Returns the powers of two from 4 KiB to eight times the last-level caches, in bytes.
fn sweep(machine: &Machine) -> impl Iterator<Item = u64> {
    let end =
        machine.cpu.last_level_bytes().unwrap_or(ASSUMED_LAST_LEVEL).saturating_mul(8).clamp(4096, 1 << 50);
    std::iter::successors(Some(4096_u64), |size| size.checked_mul(2)).take_while(move |size| *size <= end)
}

/// Returns the level of the memory hierarchy that answers a case of `memory.bandwidth`.
pub(crate) fn answers_stream(machine: &Machine, stream: &MemoryStream) -> AnsweringLevel {
    let site = &stream.site;
    answers(machine, &site.threads.cpus(machine), [site.size; 2], stream.op.arrays())
}

fn note_caches(facts: &mut Facts, machine: &Machine) {
    if machine.cpu.last_level_bytes().is_none() {
        facts.warnings.push(MemoryWarning::CachesUnknown.into());
    }
}

/// Records the measured size of the first CPU's last-level cache if it is below the kernel's value.
fn note_effective(facts: &mut Facts, machine: &Machine, cpus: &[usize]) {
    let last = cpus.first().and_then(|cpu| levels(machine, *cpu).pop());
    let (Some(effective), Some(last)) = (machine.cpu.effective_cache, last) else { return };
    if effective.bytes < last.bytes {
        let text =
            format!("{} of {} MiB L{} as measured", effective.bytes >> 20, last.bytes >> 20, last.number);
        facts.achieved.set(&EFFECTIVE_CACHE, text);
    }
}

/// Warns if a CPU's NUMA node has no memory, so that another is used; not if one was `asked` for.
fn note_nodes(facts: &mut Facts, machine: &Machine, asked: Option<usize>, cpus: &[usize]) {
    if asked.is_some() {
        return;
    }
    let empty = cpus.iter().filter_map(|cpu| {
        let node = machine.memory.node_of(*cpu).filter(|node| node.total_bytes == Some(0))?;
        Some((*cpu, node.id))
    });
    if let Some((cpu, node)) = empty.min() {
        facts.warnings.push(MemoryWarning::NodeWithoutMemory { node, cpu }.into());
    }
}

fn look(machine: &mut Machine) {
    machine.cpu.effective_cache = machine.cpu.effective_cache.or_else(|| effective::look(machine));
}

/// Rounds `size` up to pages of 64 KiB for [`Pages::Small`], else of 2 MiB. `None` on overflow.
fn rounded_to_pages(size: u64, pages: Pages) -> Option<u64> {
    size.checked_next_multiple_of(if pages == Pages::Small { SMALL_PAGE } else { HUGE_PAGE })
}

/// Fails unless `size` bytes per thread, not in reserved pages, fit in the available memory.
fn fits(machine: &Machine, threads: u64, size: u64, pages: Pages) -> Result<(), CannotMeasure> {
    let needed = rounded_to_pages(size, pages).and_then(|size| size.checked_mul(threads));
    let less = if threads > 1 { "a smaller --size or fewer --threads" } else { "a smaller --size" };
    check_budget(machine, needed, &format!("{threads} × {} of memory", human(size)), less)
}

fn pages_for(threads: u64, size: u64, page: u64) -> u64 {
    size.div_ceil(page).saturating_mul(threads)
}

/// Fails unless `needed` reserved pages of `page` bytes are free; `place` is the sysfs directory.
fn check_page_pool(pools: &[HugePages], place: &str, page: u64, needed: u64) -> Result<(), CannotMeasure> {
    let pool = pools.iter().find(|pool| pool.size_bytes == page);
    let free = pool.and_then(|pool| pool.free).unwrap_or(0);
    if free >= needed {
        return Ok(());
    }
    Err(CannotMeasure::not_here(format!(
        "needs {} of {}, and {free} are free ({place}/hugepages-{}kB/nr_hugepages); use --pages thp",
        plimsoll_units::text::format_count(needed, "reserved page"),
        human(page),
        page / 1024
    )))
}

/// Returns a seed that depends on the run's seed and the case's name (FNV-1a).
fn seed(cx: &Context<'_>, case: &Case) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ cx.options.seed;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    case.id().as_str().bytes().fold(start, step)
}

fn wrong_blocks(origin: WrongAnswerSource, wrong: &WrongBlocks) -> CannotMeasure {
    let WrongBlocks { what, blocks } = wrong;
    let answer = WrongAnswer::new(origin, "memory blocks", "a wrong checksum");
    answer.detail(format!("{what} after {blocks} blocks")).into()
}

/// Returns the error for a chase by `origin` that left its cycle, or that could not be checked.
fn wrong_chase(origin: WrongAnswerSource, error: &ChaseError) -> CannotMeasure {
    let got = match error {
        ChaseError::NotOneCycle { steps, nodes } => format!("a cycle of {steps} of {nodes} steps"),
        ChaseError::Astray(steps) => format!("another address after {steps} loads"),
        _ => return CannotMeasure::environment(error),
    };
    WrongAnswer::new(origin, "the pointer chase", got).into()
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
