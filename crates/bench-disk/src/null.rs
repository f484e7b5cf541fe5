//! `disk.null`: `disk.io` with an engine that does nothing, to measure plimsoll's own cost per
//! transfer. `engine=psync` transfers within the submitting call, like fio's null engine at depth
//! 1; `engine=io_uring` submits and reaps separately.

use crate::engine::open_on;
use crate::job::MAX_DEPTH;
use crate::load::{
    BlockWalk, DiskLoad, LoadError, LoadOptions, Portion, TestData, TransferSource, TransferTally,
    WalkExtent, derive,
};
use crate::metrics::{LATENCY_METRIC, seconds};
use plimsoll_bench_api::prelude::*;
use plimsoll_metal::block::BlockTraversal;
use plimsoll_metal::ticks::TickClock;
use plimsoll_model::job::disk::{BlockOrder, BlockSizes, DiskEngine, DiskOperation, WriteThrough};

/// The benchmark `disk.null`.
pub(crate) struct DiskNull;

const NULL_BLOCK_BYTES: u64 = 4 << 10;
const BYTES: u64 = 1 << 30;

const DEPTHS: &[u64] = &[1, 32];

const ONE_AT_A_TIME: &str =
    "--depth above 1 is not supported with --engine psync: it does one transfer at a time";

/// Engines with a floor, by name, and their stand-ins.
const ENGINES: &[(&str, DiskEngine)] = &[("psync", DiskEngine::NullCall), ("io_uring", DiskEngine::Null)];

impl Benchmark for DiskNull {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "disk.null",
            about: "the loop of disk.io without transfers: the time that plimsoll itself takes",
            keys: &["engine", "depth"],
            by_default: false,
            metrics: const {
                &[seconds(LATENCY_METRIC, "time of a transfer that does nothing: the loop's own cost")]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, _: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut all = Vec::new();
        for (word, kind) in group.values("engine", ENGINES)? {
            let defaults = if kind.is_one_at_a_time() { &DEPTHS[..1] } else { DEPTHS };
            for depth in counts_in_range(group, "depth", defaults, MAX_DEPTH)? {
                let case = Case::of(self.name()).with_word("engine", word).with_count("depth", depth);
                let is_refused = kind.is_one_at_a_time() && depth > 1;
                let feasible = if is_refused { Err(CannotMeasure::not_here(ONE_AT_A_TIME)) } else { Ok(()) };
                all.push(Candidate::new(case, feasible).parsed(&(kind, depth)));
            }
        }
        let any = all.iter().any(|candidate| candidate.feasible.is_ok());
        if any { Ok(all) } else { Err(ONE_AT_A_TIME.to_owned()) }
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let (kind, depth): (DiskEngine, usize) = parsed.read()?;
        let load = load(kind, depth, derive(cx.options.seed, case.id().as_str()))
            .map_err(|error| CannotMeasure::environment(error.to_string()))?;
        Ok(Box::new(NullFloor { load, counted: 0, done: 0 }))
    }
}

fn load(kind: DiskEngine, depth: usize, seed: u64) -> Result<Box<dyn DiskLoad>, LoadError> {
    let extent = WalkExtent { start: 0, bytes: BYTES, unit: NULL_BLOCK_BYTES, largest: NULL_BLOCK_BYTES };
    let walk = BlockWalk::new(BlockOrder::Random, extent, seed);
    let blocks = BlockSizes::One(NULL_BLOCK_BYTES);
    let source = TransferSource::new(DiskOperation::Read, WriteThrough::No, blocks, walk);
    let (block, clock) = (NULL_BLOCK_BYTES as usize, TickClock::fastest());
    let engine = open_on(kind, &[], depth, block, BlockTraversal::Random, clock)?.engine;
    let (noise, tally) = (TestData::new(seed, "null"), TransferTally::default());
    Ok(engine.into_load(source, noise, LoadOptions::default(), tally))
}

struct NullFloor {
    load: Box<dyn DiskLoad>,
    counted: u64,
    done: u64,
}

impl Prepared for NullFloor {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let portion = match amount {
            SampleAmount::Seconds(seconds) => Portion::Time((seconds * 1e9) as u64),
            SampleAmount::Work(transfers) => Portion::Transfers { transfers, cap_ns: u64::MAX },
        };
        let tally = self.load.count(portion, TransferTally::default());
        let tally = tally.map_err(|error| CannotMeasure::environment(error.to_string()))?;
        self.counted += tally.latency.count();
        self.done += tally.transfers;
        let elapsed = tally.elapsed();
        let values = [(LATENCY_METRIC.to_owned(), elapsed / tally.transfers.max(1) as f64)].into();
        Ok(Sample { elapsed, values, ..Sample::default() })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        match (self.done, self.counted) {
            (0, _) => Err(CannotMeasure::environment("no transfer was counted")),
            (done, counted) if done != counted => {
                Err(CannotMeasure::environment(format!("{done} transfers were counted and {counted} timed")))
            }
            _ => Ok(Facts::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transfer_is_counted_and_timed() {
        for (kind, depth) in [(DiskEngine::Null, 32), (DiskEngine::Null, 1), (DiskEngine::NullCall, 1)] {
            let mut floor = NullFloor { load: load(kind, depth, 1).expect("load"), counted: 0, done: 0 };
            assert!(floor.verify().is_err(), "nothing was done yet");
            let sample = floor.sample(SampleAmount::Work(1000)).expect("sample");
            assert!((sample.values["latency"] * 1000.0 / sample.elapsed - 1.0).abs() < 1e-9);
            assert!(floor.sample(SampleAmount::Seconds(0.001)).expect("sample").elapsed >= 0.001);
            assert_eq!(floor.verify(), Ok(Facts::default()));
            assert!(floor.done > 1000);
        }
    }

    #[test]
    fn what_does_one_at_a_time_has_one_depth() {
        let machine = Machine::discover(&plimsoll_machine::Root::live());
        let cases = |lists| DiskNull.cases(&machine, &plimsoll_model::fixture::parse_group(lists));
        let all = cases("").expect("cases");
        let ids: Vec<String> = all.iter().map(|c| c.case.to_string()).collect();
        let of = |rest: &str| format!("disk.null/engine={rest}");
        assert_eq!(ids, ["psync/depth=1", "io_uring/depth=1", "io_uring/depth=32"].map(of));
        let said = cases("depth=8").expect("cases").iter().map(|c| c.feasible.is_ok()).collect::<Vec<_>>();
        assert_eq!(said, [false, true]);
        assert!(cases("engine=mmap").expect_err("mmap").contains("psync, io_uring"));
    }
}
