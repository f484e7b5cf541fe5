//! `disk.io`: reads and writes over a filled file, so many at a time, in such an order, of such a size.
//!
//! `latency` is the time of one transfer as the program sees it, from handing it to the kernel to taking it back
//! (the sample's value is the mean, the percentiles are those of all transfers); `submit` is the part of it that
//! handing over took, `complete` the rest. `rate` and `throughput` are counted while the queue is full, from one
//! completion to another, and the load stays up from sample to sample. `depth` is the mean number in flight, over all
//! threads; `cpu` and `switches` are for one transfer; `busy` is the share of the time in which the kernel counts the
//! device as working, `await` the mean time of its requests, as iostat has it; `latency-stdev` is the standard deviation of single transfers. Of mixed loads and copies both
//! directions are told apart.

pub(crate) mod limit;
pub(crate) mod reached;
pub(crate) mod search;
pub(crate) mod sweep;
pub(crate) mod transfers;

use crate::findings;
use crate::io::search::Deepest;
use crate::io::transfers::Transfers;
use crate::job::{checked, fits_sectors, impossible, most_in_flight, without_effect};
use crate::metrics::{
    AWAIT, BUSY, CLAT, CPU, DEPTH, LATENCY, LATENCY_STDEV, RATE, READ, READ_LATENCY, SLAT, SWITCHES, SYNC,
    THROUGHPUT, WRITE, WRITE_LATENCY,
};
use crate::storage::file::{in_memory, requested_size};
use crate::words;
use plimsoll_bench_api::fixed::{self, Pace};
use plimsoll_bench_api::{
    Benchmark, Better, Candidate, Context, Descriptor, Metric, OfTransfers, PATTERN, Parsed, Ready, Say,
};
use plimsoll_machine::Machine;
use plimsoll_machine::storage::Medium;
use plimsoll_model::case::{Case, Value};
use plimsoll_model::job::disk::{CacheMode, DiskEngine, DiskOperation, DiskTransfers};
use plimsoll_model::measurement::Measurement;
use plimsoll_model::plan::Group;
use plimsoll_model::sample::CannotMeasure;
use plimsoll_model::words::is_unsaid;
use plimsoll_units::quantity::Unit;

/// The benchmark itself.
pub struct DiskIo;

/// The deepest queue that a search tries when none is named.
const DEEPEST: u64 = 256;

/// A default case: what is not typed is taken from here.
struct Preset {
    op: &'static str,
    pattern: &'static str,
    block: u64,
    depth: u64,
}

/// The latency of a lone small read, the rate of many, the throughput of large ones and of large writes.
const PRESETS: &[Preset] = &[
    Preset { op: "read", pattern: "random", block: 4 << 10, depth: 1 },
    Preset { op: "read", pattern: "random", block: 4 << 10, depth: 32 },
    Preset { op: "read", pattern: "sequential", block: 1 << 20, depth: 8 },
    Preset { op: "write", pattern: "sequential", block: 1 << 20, depth: 8 },
];

/// The headline is one of the first three, by the size of the transfers.
const METRICS: &[Metric] = &[
    Metric::new(THROUGHPUT, Unit::BytePerSecond, Better::Higher).about("bytes per second").drawn(),
    Metric::new(RATE, Unit::IoPerSecond, Better::Higher)
        .about("transfers per second")
        .drawn()
        .of_transfers(OfTransfers::Rate(1.0))
        .with_floor(),
    Metric::new(LATENCY, Unit::Second, Better::Lower)
        .about("time of a transfer, from its submission to its completion: fio's lat")
        .said("latency", "")
        .drawn()
        .with_floor(),
    Metric::new(SLAT, Unit::Second, Better::Lower)
        .about("time of a transfer until the kernel has it: submission latency")
        .informative(),
    Metric::new(CPU, Unit::Second, Better::Lower).about("processor time of a transfer"),
    Metric::new(DEPTH, Unit::One, Better::Higher).about("transfers in flight, on average").informative(),
    Metric::new(CLAT, Unit::Second, Better::Lower)
        .about("time of a transfer from then on: completion latency")
        .informative(),
    Metric::new(SWITCHES, Unit::One, Better::Lower).about("context switches of a transfer").informative(),
    Metric::new(BUSY, Unit::One, Better::Higher)
        .about("share of the time in which the device had something to do")
        .informative(),
    Metric::new(AWAIT, Unit::Second, Better::Lower)
        .about("time of a request in block layer and device, as iostat counts it; where the device did nothing else")
        .informative(),
    Metric::new(SYNC, Unit::Second, Better::Lower)
        .about("time of a call that keeps what was written for good")
        .said("each sync", ""),
    Metric::new(READ, Unit::BytePerSecond, Better::Higher)
        .about("bytes per second that were read, of a mixed load"),
    Metric::new(WRITE, Unit::BytePerSecond, Better::Higher)
        .about("bytes per second that were written, of a mixed load"),
    Metric::new(READ_LATENCY, Unit::Second, Better::Lower).about("time of a read, of a mixed load"),
    Metric::new(WRITE_LATENCY, Unit::Second, Better::Lower).about("time of a write, of a mixed load"),
    Metric::new(LATENCY_STDEV, Unit::Second, Better::Lower)
        .about("standard deviation of the latency of single transfers")
        .informative(),
];

impl Benchmark for DiskIo {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "disk.io",
            about: "reads and writes past the page cache: latency, rate, throughput",
            file: |parsed| parsed.read().ok().map(|job: DiskTransfers| requested_size(&job)),
            words: &[PATTERN, Say::Value("op"), Say::Value("block"), Say::Named("depth"), Say::Times],
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
            limits: limit::of_transfers,
            findings: |run| findings::pattern::find(run, &DiskIo),
            point: words::point,
            ..Descriptor::USUAL
        }
    }

    fn sample_seconds(&self, case: &Case) -> Option<f64> {
        // A flash disk of one thread; the page cache in memory.
        let pace = match DiskTransfers::try_from(case).ok()?.cache {
            CacheMode::Buffered => Pace { bytes: 2e9, operations: 5e5 },
            CacheMode::Direct | CacheMode::Cold => Pace { bytes: 5e8, operations: 2e4 },
        };
        fixed::seconds(case, pace)
    }

    fn searches(&self, case: &Case) -> bool {
        DiskTransfers::try_from(case).is_ok_and(|job| job.target.is_some())
    }

    fn all_metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn details(&self, measurement: &Measurement) -> Vec<String> {
        words::deepest(measurement).into_iter().collect()
    }

    fn metric_of(&self, case: &Case, row: Metric) -> Option<Metric> {
        let job = DiskTransfers::try_from(case).ok();
        let transfers = match row.name {
            THROUGHPUT => job.and_then(|job| job.mean_block()).map(OfTransfers::Rate),
            LATENCY => job.map(|job| OfTransfers::Time(job.in_flight())),
            _ => row.transfers,
        };
        Some(Metric { transfers, ..row })
    }

    fn headline(&self, case: &Case) -> Option<&'static str> {
        let job = DiskTransfers::try_from(case).ok()?;
        Some(match job.is_small() {
            true if job.is_lone() => LATENCY,
            true => RATE,
            false => THROUGHPUT,
        })
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut mistakes: Vec<String> = Vec::new();
        for preset in PRESETS {
            for case in product(self, preset, group) {
                // A wrong value is wrong also where the operation has no use for it.
                let case = settled(&case, &DiskTransfers::try_from(&case)?, group);
                let job = checked(&case)?;
                if !candidates.iter().any(|candidate| candidate.case == case) {
                    let impossible = impossible(&job);
                    mistakes.extend(impossible.clone().or_else(|| without_effect(&job, group)));
                    let impossible = impossible.map(CannotMeasure::not_here);
                    let feasible = impossible.map_or_else(|| feasible(machine, &job), Err);
                    candidates.push(Candidate::new(case, feasible).parsed(&job));
                }
            }
        }
        // Of lists that multiply, some cases may be impossible; where all are, what was asked for is wrong.
        match mistakes.into_iter().nth(candidates.len().saturating_sub(1)) {
            Some(mistake) => Err(mistake),
            None => unused(group, &candidates).map_or(Ok(candidates), Err),
        }
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> Ready {
        let job: DiskTransfers = parsed.read()?;
        let target = job.target;
        let transfers = Transfers::new(case.id().as_str(), job, cx)?;
        Ok(match target {
            Some(target) => Box::new(Deepest::new(transfers, target)),
            None => Box::new(transfers),
        })
    }
}

/// A parameter that was asked for and that no case has, for want of an operation that it is for.
fn unused(group: &Group, candidates: &[Candidate]) -> Option<String> {
    const FOR: &[(&str, &str)] = &[("read-share", "mixed"), ("sync", "write, append, mixed or copy")];
    let is_unused = |(key, _): &&(&str, &str)| {
        group.lists.get(key).is_some_and(|values| !values.iter().all(|value| is_unsaid(key, value)))
            && candidates.iter().all(|candidate| candidate.case.get(key).is_none())
    };
    FOR.iter().find(is_unused).map(|(key, operations)| format!("--{key} requires --op {operations}"))
}

/// All cases of the lists that were typed, with the preset's values where none were; without values that say nothing.
fn product(benchmark: &DiskIo, preset: &Preset, group: &Group) -> Vec<Case> {
    let word = |word: &str| Some(Value::Word(word.to_owned()));
    let default = |key: &str| match key {
        "op" if group.asked("read-share") => word("mixed"),
        "op" => word(preset.op),
        "pattern" => word(preset.pattern),
        "block" => Some(Value::Size(preset.block)),
        "depth" => Some(Value::Count(preset.depth)),
        "threads" => Some(Value::Count(1)),
        "engine" => word(DiskEngine::PLAIN.word()),
        "cache" => word("direct"),
        // The rest is part of a case only when it is named.
        _ => None,
    };
    let mut cases = vec![Case::of(benchmark.name())];
    for key in benchmark.keys() {
        let values = match group.lists.get(key) {
            Some(typed) => typed.clone(),
            None => default(key).into_iter().collect(),
        };
        if !values.is_empty() {
            cases = Case::with_each(cases, key, values);
        }
    }
    cases.into_iter().map(without_unsaid).collect()
}

/// The case without values that mean the same as leaving the parameter out.
fn without_unsaid(case: Case) -> Case {
    let said = case.params().iter().filter(|(name, value)| !is_unsaid(name, value));
    said.fold(Case::of(case.benchmark()), |made, (name, value)| made.with(name, value.clone()))
}

/// The case with what follows from its own parameters, where it was not typed, and without what has no meaning in it.
fn settled(case: &Case, job: &DiskTransfers, group: &Group) -> Case {
    let mixed = match job.operation {
        DiskOperation::Mixed { read_share } => Some(Value::Count(u64::from(read_share))),
        _ => None,
    };
    let writes = job.operation.writes() || job.operation == DiskOperation::Copy;
    let through_cache = job.engine == DiskEngine::Mmap || !fits_sectors(&job.blocks);
    let deepest = most_in_flight(job.blocks.largest(), job.threads);
    let mut settled = Case::of(case.benchmark());
    for (name, value) in case.params() {
        let value = match (*name, value) {
            ("read-share", _) => continue,
            ("sync", _) if !writes => continue,
            ("sync", word) => job.canonical_sync().map_or_else(|| word.clone(), Value::Word),
            ("pattern", _) if job.operation == DiskOperation::Append => Value::Word("sequential".to_owned()),
            ("latency-target", word) => {
                job.target.map_or_else(|| word.clone(), |target| Value::Word(target.to_string()))
            }
            ("depth", _) if !group.asked("depth") && job.engine.is_one_at_a_time() => Value::Count(1),
            ("depth", _) if !group.asked("depth") && group.asked("latency-target") => {
                Value::Count(DEEPEST.min(deepest))
            }
            ("depth", _) if !group.asked("depth") => Value::Count(job.depth.min(deepest)),
            ("cache", _) if !group.asked("cache") && through_cache => Value::Word("buffered".to_owned()),
            (_, value) => value.clone(),
        };
        settled = settled.with(name, value);
        if let ("op", Some(share)) = (*name, &mixed) {
            settled = settled.with("read-share", share.clone());
        }
    }
    settled
}

/// Whether this machine can measure the case, as far as that is known without touching it.
fn feasible(machine: &Machine, job: &DiskTransfers) -> Result<(), CannotMeasure> {
    let file_system = machine.storage.as_ref().and_then(|storage| storage.file_system.as_ref());
    match file_system {
        Some(known) if known.medium == Medium::Memory && job.cache == CacheMode::Direct => {
            Err(in_memory(&known.fs_type))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
