//! Validity of disk jobs: bounds of parameters, and combinations that are not supported.

use crate::display::human;
use crate::load::SECTOR_BYTES;
use plimsoll_bench_api::check_range;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::disk::{
    BlockOrder, BlockSizes, CacheMode, DiskEngine, DiskOperation, DiskTransfers,
};
use plimsoll_units::text::format_count;

const MAX_BLOCK: u64 = 1 << 30;
/// Deepest queue of a case.
pub const MAX_DEPTH: u64 = 1024;
pub(crate) const MAX_THREADS: u64 = 128;

/// Most bytes of buffers of a case.
const MAX_BUFFERS: u64 = 4 << 30;

/// Parses a case and checks the bounds and combination of its parameters; the error is one line.
pub(crate) fn checked(case: &Case) -> Result<DiskTransfers, String> {
    let job = DiskTransfers::of(case)?;
    if job.blocks.smallest() == 0 || job.blocks.largest() > MAX_BLOCK {
        return Err(format!("block must be between 1 byte and {}", human(MAX_BLOCK)));
    }
    check_range(1..=MAX_DEPTH, "depth", job.depth)?;
    check_range(1..=MAX_THREADS, "threads", job.threads)?;
    // A sample ends with a transfer; at a lower rate it might contain none.
    if let Some(rate) = job.open_loop.map(|open_loop| open_loop.per_second)
        && !(1.0..=1e9).contains(&rate)
    {
        return Err(format!("rate must be between 1 and 1e9 transfers per second: {rate} is not"));
    }
    check_combination(job)
}

/// Returns `job` unchanged, or one line that explains which parameters exclude each other.
fn check_combination(job: DiskTransfers) -> Result<DiskTransfers, String> {
    let largest = job.blocks.largest();
    let buffers = largest.saturating_mul(job.depth).saturating_mul(job.threads);
    if buffers > MAX_BUFFERS {
        return Err(format!(
            "depth × threads × block must be at most {}: {} blocks of {} in flight need {} of buffers",
            human(MAX_BUFFERS),
            job.depth * job.threads,
            human(largest),
            human(buffers)
        ));
    }
    if job.target.is_some() && (job.open_loop.is_some() || job.amount.is_some()) {
        let load = if job.open_loop.is_some() { "--rate" } else { "--volume and --count" };
        let why = "are mutually exclusive: the search sets the load itself";
        return Err(format!("--latency-target and {load} {why}"));
    }
    if let Some(offered) = job.open_loop
        && offered.per_second < job.threads as f64
    {
        return Err(format!(
            "rate must be at least 1 transfer per second for each thread: {} over {} threads is less",
            offered.per_second, job.threads
        ));
    }
    match job.size {
        Some(bytes) if bytes / job.parts() < largest => Err(format!(
            "size must be at least a block of {} for each thread: {} for {} is less",
            human(largest),
            human(bytes),
            format_count(job.threads, "thread")
        )),
        _ => Ok(job),
    }
}

/// Explains in one line why no machine supports `job`; `None` if a machine may support it.
pub(crate) fn unsupported_reason(job: &DiskTransfers) -> Option<String> {
    refused_engine(job).or_else(|| refused_layout(job))
}

fn first_reason(rows: &[(bool, &str)]) -> Option<String> {
    rows.iter().find(|(is_refused, _)| *is_refused).map(|(_, why)| (*why).to_owned())
}

fn refused_engine(job: &DiskTransfers) -> Option<String> {
    let (engine, direct) = (job.engine, job.cache == CacheMode::Direct);
    let polls = matches!(engine, DiskEngine::IoUring(polling) if polling.completion);
    first_reason(&[
        (
            engine.is_one_at_a_time() && job.depth > 1 && job.target.is_none(),
            &format!(
                "--depth above 1 is not supported with --engine {}: it does one transfer at a time; use io_uring or libaio, or --threads",
                engine.word()
            ),
        ),
        (
            engine == DiskEngine::Mmap && direct,
            "--engine mmap requires --cache buffered or cold: a mapping goes through the page cache",
        ),
        (
            engine == DiskEngine::Mmap && job.operation == DiskOperation::Append,
            "--op append is not supported with --engine mmap: a mapping ends with its file",
        ),
        (
            direct && !fits_sectors(&job.blocks),
            &format!(
                "--cache direct requires a --block that is a multiple of {SECTOR_BYTES} bytes, the sector: {} is not",
                human(job.blocks.unit())
            ),
        ),
        (
            polls && !direct,
            "--engine io_uring+iopoll requires --cache direct: it polls the device, not the page cache",
        ),
    ])
}

fn refused_layout(job: &DiskTransfers) -> Option<String> {
    let uses_up = job.operation.uses_up();
    let is_mixed = matches!(job.operation, DiskOperation::Mixed { .. });
    let in_place = is_mixed || matches!(job.operation, DiskOperation::Read | DiskOperation::Write);
    first_reason(&[
        (
            job.shared && job.verify,
            "--verify and --layout shared are mutually exclusive: threads write over each other's blocks",
        ),
        (job.shared && !in_place, "--layout shared requires --op read, write or mixed"),
        (
            job.align.is_some_and(|align| align == 0 || !align.is_multiple_of(job.blocks.unit())),
            &format!(
                "--align must be a multiple of {}, the largest size that divides all blocks",
                human(job.blocks.unit())
            ),
        ),
        (
            job.align.is_some() && (job.verify || uses_up || !job.order.is_random()),
            "--align requires --pattern random, zipf or zoned, and no --verify, --op append or trim",
        ),
        (
            job.order == BlockOrder::SequentialEach && !is_mixed,
            "--pattern sequential-each requires --op mixed",
        ),
        (job.cache == CacheMode::Cold && uses_up, "--cache cold requires --op read, write, mixed or copy"),
        (
            job.verify && !in_place,
            "--verify requires --op read, write or mixed; of other operations plimsoll always checks the last blocks",
        ),
        (job.steady && job.verify, "--steady and --verify are mutually exclusive"),
        (job.steady && uses_up, "--steady requires --op read, write, mixed or copy"),
        (
            job.verify && !fits_sectors(&job.blocks),
            &format!("--verify requires a --block that is a multiple of {SECTOR_BYTES} bytes, the sector"),
        ),
    ])
}

/// Returns an error line if `group` has only a random `pattern` and `job` appends; else `None`.
pub(crate) fn ineffective_parameter(job: &DiskTransfers, group: &Group) -> Option<String> {
    let pattern = |value: &Value| matches!(value, Value::Word(word) if word == "sequential");
    let random_alone = group.lists.get("pattern").is_some_and(|values| !values.iter().any(pattern));
    let is_unused = group.typed("pattern") && job.operation == DiskOperation::Append && random_alone;
    let why = "--op append requires --pattern sequential: it writes at the end of the file";
    is_unused.then(|| why.to_owned())
}

/// Returns the largest depth (at least 1) with `threads` × depth × `block` bytes of at most 4 GiB.
pub(crate) fn max_depth(block: u64, threads: u64) -> u64 {
    (MAX_BUFFERS / block.saturating_mul(threads).max(1)).max(1)
}

/// Whether all block sizes are multiples of 512 bytes, the smallest sector, as direct I/O requires.
pub(crate) fn fits_sectors(blocks: &BlockSizes) -> bool {
    blocks.unit().is_multiple_of(SECTOR_BYTES as u64)
}
