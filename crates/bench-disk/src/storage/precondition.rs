//! Preconditioning for `--steady`: a device written once in order does not collect garbage yet.
//! SNIA (SSS PTS 2.0.2, §3.3) fills twice and runs the test until it is steady; here the file is
//! filled once in order and once at random in the case's blocks.

use std::sync::Arc;

use crate::engine::open_on;
use crate::load::{
    self, BlockWalk, LoadError, LoadOptions, Portion, TestData, TransferSource, TransferTally, WalkExtent,
    derive,
};
use crate::storage::{Filled, requested_size};
use crate::warning::DiskWarning;
use plimsoll_bench_api::{Context, RequestedSize};
use plimsoll_metal::block::BlockTraversal;
use plimsoll_metal::ticks::TickClock;
use plimsoll_model::job::disk::{BlockOrder, DiskEngine, DiskOperation, DiskTransfers, WriteThrough};
use plimsoll_model::sample::CannotMeasure;

const PRECONDITION_DEPTH: usize = 32;

/// Longest overwrite of a default size, in ns.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Least share of the device that must be written for its own steady state.
const WHOLE: f64 = 0.5;

/// Overwrites the first `bytes` of the file once in random order, in blocks of `job`. Returns
/// warnings if time was short, or `bytes` is under half of the disks. Fails if it may not write.
pub(crate) fn precondition(
    job: &DiskTransfers,
    cx: &Context<'_>,
    filled: &Filled,
    bytes: u64,
) -> Result<Vec<DiskWarning>, CannotMeasure> {
    if !filled.known {
        let why = "--steady requires --destroy-data-on with --target: it writes first";
        return Err(CannotMeasure::not_here(why));
    }
    let written = overwrite(job, cx, filled, bytes).map_err(|e| CannotMeasure::environment(e.to_string()))?;
    let disks = cx.machine.storage.as_ref().map_or(&[][..], |storage| &storage.disks);
    let has: u64 = disks.iter().filter_map(|disk| disk.size_bytes).sum();
    let is_part = (bytes as f64) < WHOLE * has as f64;
    let cut = (written < bytes).then_some(DiskWarning::PreconditionCut { written, bytes });
    let part = is_part.then_some(DiskWarning::PartOfDevice { bytes, device: has });
    Ok(cut.into_iter().chain(part).collect())
}

fn overwrite(job: &DiskTransfers, cx: &Context<'_>, filled: &Filled, bytes: u64) -> Result<u64, LoadError> {
    let block = job.blocks.largest() as usize;
    let files = [Arc::clone(&filled.file)];
    let clock = TickClock::system();
    let opened =
        open_on(DiskEngine::PLAIN, &files, PRECONDITION_DEPTH, block, BlockTraversal::Random, clock)?;
    let extent = WalkExtent { start: 0, bytes, unit: job.blocks.unit(), largest: job.blocks.largest() };
    let seed = derive(cx.options.seed, "precondition");
    let walk = BlockWalk::new(BlockOrder::Random, extent, seed);
    let source = TransferSource::new(DiskOperation::Write, WriteThrough::No, job.blocks.clone(), walk);
    let (noise, tally) = (TestData::new(cx.options.seed, "precondition"), TransferTally::default());
    let mut load = opened.engine.into_load(source, noise, LoadOptions::default(), tally);
    let is_exact = matches!(requested_size(job), RequestedSize::Exactly(_));
    let cap_ns = load::left_ns(cx.options.until).min(if is_exact { u64::MAX } else { PATIENCE_NS });
    let transfers = (bytes as f64 / job.blocks.mean()).ceil() as u64;
    let done = load.count(Portion::Transfers { transfers, cap_ns }, TransferTally::default())?;
    filled.file.sync()?;
    Ok(done.bytes.min(bytes))
}
