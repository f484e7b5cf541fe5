//! `disk.io`: reads and writes over a filled file, with a given depth, order and block size.
//! `latency` lasts from submission to completion, `slat` and `clat` are its parts; rates are
//! counted while the queue is full, and the load stays up between samples.

pub(crate) mod limit;
pub(crate) mod reached;
pub(crate) mod search;
pub(crate) mod sweep;
pub(crate) mod transfers;

use crate::io::search::Deepest;
use crate::io::transfers::Transfers;
use crate::job::{checked, fits_sectors, ineffective_parameter, max_depth, unsupported_reason};
use crate::metrics::{
    AWAIT, BUSY_METRIC, CLAT, CPU_METRIC, DEPTH_METRIC, LATENCY_METRIC, LATENCY_STDEV, RATE_METRIC, READ,
    READ_LATENCY, SLAT, SWITCHES, SYNC, THROUGHPUT_METRIC, WRITE, WRITE_LATENCY, seconds,
};
use crate::storage::{check_not_in_memory, requested_size};
use crate::{findings, words};
use plimsoll_bench_api::fixed::{self, AveragePace};
use plimsoll_bench_api::prelude::*;
use plimsoll_bench_api::{OfTransfers, PATTERN};
use plimsoll_model::job::disk::{CacheMode, DiskEngine, DiskOperation, DiskTransfers};
use plimsoll_model::words::is_neutral_value;

/// The benchmark `disk.io`.
pub(crate) struct DiskIo;

const DEFAULT_SEARCH_DEPTH: u64 = 256;

/// Operation, pattern, block in bytes and depth of the default cases.
const PRESETS: [(&str, &str, u64, u64); 4] = [
    ("read", "random", 4 << 10, 1),
    ("read", "random", 4 << 10, 32),
    ("read", "sequential", 1 << 20, 8),
    ("write", "sequential", 1 << 20, 8),
];

/// The headline is one of the first three, by the size of the transfers.
const METRICS: &[Metric] = &[
    Metric::new(THROUGHPUT_METRIC, Unit::BytePerSecond, Better::Higher).about("bytes per second").drawn(),
    Metric::new(RATE_METRIC, Unit::IoPerSecond, Better::Higher)
        .about("transfers per second")
        .drawn()
        .of_transfers(OfTransfers::Rate(1.0))
        .with_floor(),
    seconds(LATENCY_METRIC, "time of a transfer, from its submission to its completion: fio's lat")
        .shown_between("latency", "")
        .drawn()
        .with_floor(),
    seconds(SLAT, "time of a transfer until the kernel has it: submission latency")
        .informative(),
    seconds(CPU_METRIC, "processor time of a transfer"),
    Metric::new(DEPTH_METRIC, Unit::One, Better::Higher).about("transfers in flight, on average").informative(),
    seconds(CLAT, "time of a transfer from then on: completion latency")
        .informative(),
    Metric::new(SWITCHES, Unit::One, Better::Lower).about("context switches of a transfer").informative(),
    Metric::new(BUSY_METRIC, Unit::One, Better::Higher)
        .about("share of the time in which the device had something to do")
        .informative(),
    seconds(AWAIT, "time of a request in block layer and device, as iostat counts it; only if the device did nothing else")
        .informative(),
    seconds(SYNC, "time of a call that keeps what was written for good")
        .shown_between("each sync", ""),
    Metric::new(READ, Unit::BytePerSecond, Better::Higher)
        .about("bytes per second that were read, of a mixed load"),
    Metric::new(WRITE, Unit::BytePerSecond, Better::Higher)
        .about("bytes per second that were written, of a mixed load"),
    seconds(READ_LATENCY, "time of a read, of a mixed load"),
    seconds(WRITE_LATENCY, "time of a write, of a mixed load"),
    seconds(LATENCY_STDEV, "standard deviation of the latency of single transfers")
        .informative(),
];

impl Benchmark for DiskIo {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "disk.io",
            synonyms: &["iops", "fio"],
            about: "reads and writes past the page cache: latency, rate, throughput",
            file: |parsed| parsed.read().ok().map(|job: DiskTransfers| requested_size(&job)),
            words: &[
                PATTERN,
                LabelPart::Value("op"),
                LabelPart::Value("block"),
                LabelPart::Named("depth"),
                LabelPart::Times,
            ],
            keys: &[
                "op",
                "read-share",
                "pattern",
                "block",
                "align",
                "depth",
                "size",
                "threads",
                "layout",
                "engine",
                "cache",
                "sync",
                "verify",
                "steady",
                "rate",
                "arrivals",
                "latency-target",
                "volume",
                "count",
                "scaling",
            ],
            curves: words::CURVES,
            shares_worker: true,
            waits_for_a_device: true,
            limits: |question| limit::limits(question, DiskTransfers::has_one_in_flight),
            findings: findings::pattern::find,
            details: |measurement| words::deepest(measurement).into_iter().collect(),
            point: words::point,
            metrics: METRICS,
            ..Descriptor::USUAL
        }
    }

    fn sample_seconds(&self, _: &Machine, case: &Case) -> Option<f64> {
        // A flash disk with one thread; the page cache in memory.
        let pace = match DiskTransfers::of(case).ok()?.cache {
            CacheMode::Buffered => AveragePace { bytes: 2e9, operations: 5e5 },
            CacheMode::Direct | CacheMode::Cold => AveragePace { bytes: 5e8, operations: 2e4 },
        };
        fixed::estimate_seconds(case, pace)
    }

    fn searches(&self, case: &Case) -> bool {
        DiskTransfers::of(case).is_ok_and(|job| job.target.is_some())
    }

    fn metric_of(&self, case: &Case, row: Metric) -> Option<Metric> {
        let job = DiskTransfers::of(case).ok();
        let transfers = match row.name {
            THROUGHPUT_METRIC => job.and_then(|job| job.mean_block()).map(OfTransfers::Rate),
            LATENCY_METRIC => job.map(|job| OfTransfers::Time(job.in_flight())),
            _ => row.transfers,
        };
        Some(Metric { transfers, ..row })
    }

    fn headline(&self, case: &Case) -> Option<&'static str> {
        let job = DiskTransfers::of(case).ok()?;
        let of_small = if job.has_one_in_flight() { LATENCY_METRIC } else { RATE_METRIC };
        Some(if job.is_small() { of_small } else { THROUGHPUT_METRIC })
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut mistakes: Vec<String> = Vec::new();
        for preset in PRESETS {
            for case in combine_parameters(preset, group) {
                // A wrong value is an error even if the operation does not use it.
                let case = resolve_parameters(&case, &DiskTransfers::of(&case)?, group);
                let job = checked(&case)?;
                if !candidates.iter().any(|candidate| candidate.case == case) {
                    let impossible = unsupported_reason(&job);
                    mistakes.extend(impossible.clone().or_else(|| ineffective_parameter(&job, group)));
                    let impossible = impossible.map(CannotMeasure::not_here);
                    let is_direct = job.cache == CacheMode::Direct;
                    let here = || if is_direct { check_not_in_memory(machine) } else { Ok(()) };
                    let feasible = impossible.map_or_else(here, Err);
                    candidates.push(Candidate::new(case, feasible).parsed(&job));
                }
            }
        }
        // Some combinations of lists may be impossible; if all are, the request is wrong.
        match mistakes.into_iter().nth(candidates.len().saturating_sub(1)) {
            Some(mistake) => Err(mistake),
            None => unused_parameter_error(group, &candidates).map_or(Ok(candidates), Err),
        }
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: DiskTransfers = parsed.read()?;
        let target = job.target;
        let transfers = Transfers::new(case.id().as_str(), job, cx)?;
        Ok(match target {
            Some(target) => Box::new(Deepest::new(transfers, target)),
            None => Box::new(transfers),
        })
    }
}

/// Returns an error line if `group` sets `read-share` or `sync` and none of `candidates` uses it.
fn unused_parameter_error(group: &Group, candidates: &[Candidate]) -> Option<String> {
    const FOR: &[(&str, &str)] = &[("read-share", "mixed"), ("sync", "write, append, mixed or copy")];
    let is_unused = |(key, _): &&(&str, &str)| {
        group.lists.get(key).is_some_and(|values| !values.iter().all(|value| is_neutral_value(key, value)))
            && candidates.iter().all(|candidate| candidate.case.get(key).is_none())
    };
    FOR.iter().find(is_unused).map(|(key, operations)| format!("--{key} requires --op {operations}"))
}

/// Returns a case per combination of the values in `group`; missing parameters come from the preset
/// (operation, pattern, block in bytes, depth) or are omitted.
fn combine_parameters((op, pattern, block, depth): (&str, &str, u64, u64), group: &Group) -> Vec<Case> {
    let word = |word: &str| Some(Value::Word(word.to_owned()));
    let default = |key: &str| match key {
        "op" if group.asked("read-share") => word("mixed"),
        "op" => word(op),
        "pattern" => word(pattern),
        "block" => Some(Value::Size(block)),
        "depth" => Some(Value::Count(depth)),
        "threads" => Some(Value::Count(1)),
        "engine" => word(DiskEngine::PLAIN.word()),
        "cache" => word("direct"),
        _ => None,
    };
    let mut cases = vec![Case::of(DiskIo.name())];
    for key in DiskIo.keys() {
        let values = group.lists.get(key).cloned().unwrap_or_else(|| default(key).into_iter().collect());
        if !values.is_empty() {
            cases = Case::with_each(cases, key, values);
        }
    }
    // Without parameters that have the value which their omission means.
    let stated = |case: Case| {
        let stated = case.params().iter().filter(|(name, value)| !is_neutral_value(name, value));
        stated.fold(Case::of(case.benchmark()), |made, (name, value)| made.with(name, value.clone()))
    };
    cases.into_iter().map(stated).collect()
}

/// Returns `case`, parsed as `job`, with values that follow from other parameters (cache of mmap,
/// depth of psync) unless `group` sets them, and without meaningless ones (sync of reads).
fn resolve_parameters(case: &Case, job: &DiskTransfers, group: &Group) -> Case {
    let writes = job.operation.writes() || job.operation == DiskOperation::Copy;
    let through_cache = job.engine == DiskEngine::Mmap || !fits_sectors(&job.blocks);
    let deepest = max_depth(job.blocks.largest(), job.threads);
    let mut settled = Case::of(case.benchmark());
    for (name, value) in case.params() {
        let value = match (*name, value) {
            ("read-share", _) => continue,
            ("sync", _) if !writes => continue,
            ("sync", word) => job.canonical_sync().map_or_else(|| word.clone(), Value::Word),
            ("pattern", _) if job.operation == DiskOperation::Append => Value::Word("sequential".to_owned()),
            ("latency-target", word) => job.target.map_or(word.clone(), |to| Value::Word(to.to_string())),
            ("depth", _) if !group.asked("depth") && job.engine.is_one_at_a_time() => Value::Count(1),
            ("depth", _) if !group.asked("depth") && group.asked("latency-target") => {
                Value::Count(DEFAULT_SEARCH_DEPTH.min(deepest))
            }
            ("depth", _) if !group.asked("depth") => Value::Count(job.depth.min(deepest)),
            ("cache", _) if !group.asked("cache") && through_cache => Value::Word("buffered".to_owned()),
            (_, value) => value.clone(),
        };
        settled = settled.with(name, value);
        if let ("op", DiskOperation::Mixed { read_share }) = (*name, job.operation) {
            settled = settled.with("read-share", Value::Count(read_share.into()));
        }
    }
    settled
}

#[cfg(test)]
mod tests;
