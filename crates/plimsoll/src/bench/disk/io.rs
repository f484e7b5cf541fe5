//! `disk.io`: reads and writes over a filled file, so many at a time, in such an order, of such a size.
//!
//! `latency` is the time of one transfer as the program sees it, from handing it to the kernel to taking it back
//! (the sample's value is the mean, the percentiles are those of all transfers); `submit` is the part of it that
//! handing over took. `rate` and `throughput` are counted while the queue is full, from one completion to another,
//! and the load stays up from sample to sample. `depth` is the mean number in flight.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_metal::uring::Op;

use super::data::{Noise, SECTOR};
use super::dir::Size;
use super::driver::{About, Driver};
use super::engine::{Kind, open};
use super::file::{Filled, LEAST, MOST, in_memory};
use super::human;
use super::ledger::Ledger;
use super::load::{Load, Tally, cpu_of_this_thread_ns};
use super::pattern::{Order, Walk, derive};
use super::target::Cache;
use super::witness::{Moved, Witness};
use crate::bench::{Benchmark, Better, Candidate, Context, Metric, Prepared};
use crate::case::{Case, Value};
use crate::machine::storage::Medium;
use crate::machine::{Machine, Root};
use crate::plan::Group;
use crate::quantity::Unit;
use crate::sample::{Amount, CannotMeasure, Facts, Sample, WrongAnswer};
use crate::warning::Warning;

/// The benchmark itself.
pub struct DiskIo;

/// The operations, with the words that name them.
const OPS: &[(&str, Op)] = &[("read", Op::Read), ("write", Op::Write)];

/// The ways past or through the page cache, with the words that name them.
const CACHES: &[(&str, Cache)] = &[("direct", Cache::Direct), ("buffered", Cache::Buffered)];

/// Blocks up to this size are judged by their rate (DESIGN: 64 KiB).
const SMALL: u64 = 64 << 10;

/// The largest block and the deepest queue that a case may have.
const MAX_BLOCK: u64 = 1 << 30;
const MAX_DEPTH: u64 = 1024;

/// The most memory that the buffers of one case may take.
const MAX_BUFFERS: u64 = 4 << 30;

/// A mean depth below this share of the requested one is a warning.
const DEPTH_REACHED: f64 = 0.9;

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

/// A case, understood.
#[derive(Debug, Clone, PartialEq)]
struct Job {
    op: Op,
    order: Order,
    block: u64,
    depth: u64,
    kind: Kind,
    cache: Cache,
    size: Size,
    /// Every block is checked, whenever it is read.
    verify: bool,
}

impl Job {
    /// Reads and checks the parameters.
    fn of(case: &Case) -> Result<Job, String> {
        let size = file_size(case);
        let job = Job {
            op: word(case, "op", OPS)?,
            order: word(case, "pattern", Order::ALL)?,
            block: number(case, "block", MAX_BLOCK)?,
            depth: number(case, "depth", MAX_DEPTH)?,
            kind: word(case, "engine", Kind::ALL)?,
            cache: word(case, "cache", CACHES)?,
            size,
            verify: case.word("verify") == Some("on"),
        };
        if !job.block.is_multiple_of(SECTOR as u64) {
            return Err(format!(
                "block: {} is not a multiple of a sector of {SECTOR} bytes",
                human(job.block)
            ));
        }
        if job.block * job.depth > MAX_BUFFERS {
            return Err(format!(
                "depth: {} blocks of {} in flight need more than {} of buffers; lower one of them",
                job.depth,
                human(job.block),
                human(MAX_BUFFERS)
            ));
        }
        match size {
            Size::Exactly(bytes) if bytes < job.block => {
                Err(format!("size: {} holds no block of {}", human(bytes), human(job.block)))
            }
            _ => Ok(job),
        }
    }
}

/// How large a file the case wants.
pub fn file_size(case: &Case) -> Size {
    match case.number("size") {
        Some(bytes) => Size::Exactly(bytes),
        None => Size::Between { least: LEAST, most: MOST },
    }
}

/// The meaning of a word parameter.
fn word<T: Copy>(case: &Case, key: &str, known: &[(&str, T)]) -> Result<T, String> {
    let given = case.word(key).unwrap_or_default();
    known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("{key}: no '{}'; there is {}", crate::text::shown(given), names.join(", "))
    })
}

/// A number parameter between 1 and `most`.
fn number(case: &Case, key: &str, most: u64) -> Result<u64, String> {
    let given = case.number(key).unwrap_or_default();
    if (1..=most).contains(&given) {
        Ok(given)
    } else {
        Err(format!("{key}: {given} is not between 1 and {most}"))
    }
}

impl Benchmark for DiskIo {
    fn name(&self) -> &'static str {
        "disk.io"
    }

    fn about(&self) -> &'static str {
        "reads and writes past the page cache: latency, rate, throughput"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["op", "pattern", "block", "depth", "size", "threads", "engine", "cache", "verify"]
    }

    fn metrics(&self, case: &Case) -> Vec<Metric> {
        let metric = |name, unit, better| Metric { name, unit, better };
        let mut all = vec![
            metric("throughput", Unit::BytePerSecond, Better::Higher),
            metric("rate", Unit::IoPerSecond, Better::Higher),
            metric("latency", Unit::Second, Better::Lower),
            metric("submit", Unit::Second, Better::Lower),
            metric("cpu", Unit::Second, Better::Lower),
            metric("depth", Unit::One, Better::Higher),
        ];
        let small = case.number("block").is_some_and(|block| block <= SMALL);
        let lone = case.threads() == 1 && case.number("depth") == Some(1);
        let headline = if small && lone { 2 } else { usize::from(small) };
        all[..=headline].rotate_right(1);
        all
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for preset in PRESETS {
            for case in product(self, preset, group) {
                Job::of(&case)?;
                let known = candidates.iter().any(|candidate| candidate.case == case);
                if !known {
                    let feasible = feasible(machine, &case);
                    candidates.push(Candidate { case, feasible });
                }
            }
        }
        Ok(candidates)
    }

    fn shares_worker(&self) -> bool {
        true
    }

    fn prepare(&self, case: &Case, cx: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let job = Job::of(case).map_err(CannotMeasure::environment)?;
        Ok(Box::new(Transfers::new(case, &job, cx)?))
    }
}

/// All cases of the lists that were typed, with the preset's values where none were.
fn product(benchmark: &DiskIo, preset: &Preset, group: &Group) -> Vec<Case> {
    let default = |key: &str| match key {
        "op" => Some(Value::Word(preset.op.to_owned())),
        "pattern" => Some(Value::Word(preset.pattern.to_owned())),
        "block" => Some(Value::Size(preset.block)),
        "depth" => Some(Value::Count(preset.depth)),
        "threads" => Some(Value::Count(1)),
        "engine" => Some(Value::Word(Kind::IoUring.word().to_owned())),
        "cache" => Some(Value::Word("direct".to_owned())),
        // The size of the file is part of a case only when it is named.
        _ => None,
    };
    let mut cases = vec![Case::of(benchmark.name())];
    for key in benchmark.keys() {
        let values = match group.lists.get(key) {
            Some(typed) => typed.clone(),
            None => default(key).into_iter().collect(),
        };
        // What is switched off is not part of a case.
        let off = Value::Word("off".to_owned());
        if !values.is_empty() {
            cases = cases
                .iter()
                .flat_map(|case| {
                    let with = |value: &Value| match value {
                        value if *value == off => case.clone(),
                        value => case.clone().with(key, value.clone()),
                    };
                    values.iter().map(with).collect::<Vec<_>>()
                })
                .collect();
        }
    }
    cases
}

/// Whether this machine can measure the case, as far as that is known without touching it.
fn feasible(machine: &Machine, case: &Case) -> Result<(), CannotMeasure> {
    if case.threads() != 1 {
        return Err(CannotMeasure::not_here(
            "disk.io works with one thread; give --depth for more transfers at once",
        ));
    }
    let file_system = machine.storage.as_ref().and_then(|storage| storage.file_system.as_ref());
    match file_system {
        Some(known) if known.medium == Medium::Memory && case.word("cache") == Some("direct") => {
            Err(in_memory(&known.fs_type))
        }
        _ => Ok(()),
    }
}

/// A case that is ready: a load on the filled file.
struct Transfers {
    driver: Driver,
    kind: Kind,
    block: u64,
    depth: u64,
    facts: Facts,
    op: Op,
    /// Whether it is known what a read must return.
    known: bool,
    witness: Witness,
    /// What the samples claim to have moved.
    claimed: Moved,
    /// Mean depth of each sample.
    depths: Vec<f64>,
    /// CPU time of this thread when it last had an answer: what it used since is not the load's.
    own_cpu_ns: u64,
}

impl Transfers {
    fn new(case: &Case, job: &Job, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
        let filled = match job.verify {
            true => Filled::sealed(cx, job.cache, job.size)?,
            false => Filled::for_case(cx, job.cache, job.size)?,
        };
        let bytes = usable_bytes(job, &filled)?;
        let storage = cx.machine.storage.as_ref();
        let achieved = filled.place(storage);
        let mut facts = Facts { warnings: filled.warnings.clone(), achieved, ..Facts::default() };
        // Before the first transfer.
        let witness = Witness::new(Root::live(), storage, Arc::clone(&filled.file), bytes);
        facts.achieved.insert("size".to_owned(), bytes.into());
        let (driver, about) = start(case, job, cx, &filled, bytes / job.block)?;
        facts.achieved.insert("engine".to_owned(), about.kind.word().into());
        facts.warnings.extend(about.fell_back.map(|why| Warning::EngineFellBack {
            wanted: job.kind.word().to_owned(),
            used: about.kind.word().to_owned(),
            why,
        }));
        let unregistered = |text| Warning::Other { code: "buffers-not-registered".to_owned(), text };
        facts.warnings.extend(about.remark.map(unregistered));
        facts.warnings.extend((job.cache == Cache::Buffered).then(page_cache));
        Ok(Transfers {
            driver,
            kind: about.kind,
            block: job.block,
            depth: job.depth,
            facts,
            op: job.op,
            known: filled.known,
            witness,
            claimed: Moved::default(),
            depths: Vec::new(),
            own_cpu_ns: cpu_of_this_thread_ns(),
        })
    }
}

/// How many bytes of the file the case goes over: whole blocks, at least one, that the device can transfer.
fn usable_bytes(job: &Job, filled: &Filled) -> Result<u64, CannotMeasure> {
    let sector = filled.file.direct_alignment().map_or(0, u64::from);
    if job.cache == Cache::Direct && sector > 0 && !job.block.is_multiple_of(sector) {
        return Err(CannotMeasure::not_here(format!(
            "direct I/O goes by {} here, and a block of {} is not a multiple; give another --block or --cache buffered",
            human(sector),
            human(job.block)
        )));
    }
    let bytes = match job.size {
        Size::Exactly(bytes) => bytes.min(filled.bytes),
        Size::Between { .. } => filled.bytes,
    };
    if bytes < job.block {
        return Err(CannotMeasure::environment(format!(
            "the test file of {} holds no block of {}; give a smaller --block or a --dir with more space",
            human(bytes),
            human(job.block)
        )));
    }
    Ok(bytes - bytes % job.block)
}

/// Starts the load on its thread.
fn start(
    case: &Case,
    job: &Job,
    cx: &Context<'_>,
    filled: &Filled,
    blocks: u64,
) -> Result<(Driver, About), CannotMeasure> {
    let id = case.id();
    let walk = Walk::new(job.order, blocks, derive(cx.options.seed, id.as_str()));
    let noise = Noise::new(cx.options.seed, id.as_str());
    let (depth, block) = (in_memory_size(job.depth)?, in_memory_size(job.block)?);
    let (kind, op, file) = (job.kind, job.op, Arc::clone(&filled.file));
    let ledger = job.verify.then(|| ledger(job, filled, blocks)).transpose()?;
    let make = move || {
        let opened = open(kind, &file, depth, block)?;
        let about = About {
            kind: opened.engine.kind(),
            fell_back: opened.fell_back.map(|why| why.to_string()),
            remark: opened.engine.remark(),
        };
        let load = Load::new(opened.engine, op, block, walk, noise)?;
        Ok((ledger.into_iter().fold(load, Load::checked), about))
    };
    Driver::start(make).map_err(|e| CannotMeasure::environment(e.to_string()))
}

/// What can be read back of each block.
fn ledger(job: &Job, filled: &Filled, blocks: u64) -> Result<Ledger, CannotMeasure> {
    if !filled.known {
        return Err(CannotMeasure::not_here(
            "--verify knows only what it wrote, and this device may only be read; see --destroy-data-on",
        ));
    }
    Ledger::new(0, blocks * job.block, job.block).map_err(|error| CannotMeasure::not_here(error.to_string()))
}

fn in_memory_size(n: u64) -> Result<usize, CannotMeasure> {
    usize::try_from(n)
        .map_err(|_| CannotMeasure::environment(format!("{n} is more than this machine can address")))
}

fn one_at_a_time(wanted: u64) -> Warning {
    Warning::Other {
        code: "depth-not-reached".to_owned(),
        text: format!(
            "one transfer was in flight where {wanted} were asked: psync does one transfer at a time; io_uring does more"
        ),
    }
}

fn page_cache() -> Warning {
    Warning::Other {
        code: "page-cache".to_owned(),
        text: "the page cache was used: the figure is the memory's as much as the device's; --cache direct measures the device"
            .to_owned(),
    }
}

impl Prepared for Transfers {
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let counted = match amount {
            Amount::Work(transfers) => self.driver.amount(transfers),
            // The cast saturates.
            Amount::Seconds(seconds) => self.driver.interval((seconds * 1e9) as u64),
        };
        let tally = counted.map_err(|e| CannotMeasure::environment(e.to_string()))?;
        let before = std::mem::replace(&mut self.own_cpu_ns, cpu_of_this_thread_ns());
        self.depths.push(tally.depth());
        let bytes = tally.transfers * self.block;
        match self.op {
            Op::Read => self.claimed.read += bytes,
            Op::Write => self.claimed.written += bytes,
            Op::DataSync => {}
        }
        let mut sample = sample_of(tally, self.block, self.own_cpu_ns.saturating_sub(before));
        if self.kind == Kind::Psync {
            // A call that submits and completes in one has no time of submission.
            sample.values.remove("submit");
        }
        Ok(sample)
    }

    fn pause(&mut self) {
        // What failed is told by the next sample.
        let _ = self.driver.stop();
    }

    fn verify(&mut self) -> Result<(), WrongAnswer> {
        if !self.known {
            return Ok(());
        }
        match self.driver.stranger() {
            Ok(None) => Ok(()),
            Ok(Some(offset)) => Err(WrongAnswer(format!(
                "verify failed at offset {offset} of the test file: the sector there is not the one that was written; the device or its driver loses or misplaces data"
            ))),
            Err(error) => Err(WrongAnswer(error.to_string())),
        }
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        let testimony = self.witness.testify(self.claimed);
        facts.achieved.extend(testimony.achieved);
        facts.warnings.extend(testimony.warnings);
        facts.invalid = testimony.invalid;
        let reached = self.depths.iter().sum::<f64>() / self.depths.len().max(1) as f64;
        facts.achieved.insert("depth".to_owned(), reached.into());
        if !self.depths.is_empty() && reached < DEPTH_REACHED * self.depth as f64 {
            facts.warnings.push(match self.kind {
                Kind::IoUring => Warning::DepthNotReached { wanted: self.depth, got: reached },
                Kind::Psync => one_at_a_time(self.depth),
            });
        }
        facts
    }
}

/// The figures of a tally; `foreign_cpu_ns` of its CPU time was not the load's.
fn sample_of(tally: &Tally, block: u64, foreign_cpu_ns: u64) -> Sample {
    let elapsed = tally.elapsed_ns.max(1) as f64 * 1e-9;
    let transfers = tally.transfers as f64;
    let each = |sum_ns: u64| sum_ns as f64 * 1e-9 / transfers;
    let values = BTreeMap::from([
        ("throughput".to_owned(), transfers * block as f64 / elapsed),
        ("rate".to_owned(), transfers / elapsed),
        ("latency".to_owned(), each(tally.latency_ns)),
        ("submit".to_owned(), each(tally.submit_ns)),
        ("cpu".to_owned(), each(tally.cpu_ns.saturating_sub(foreign_cpu_ns))),
        ("depth".to_owned(), tally.depth()),
    ]);
    let histograms = vec![super::distribution("latency", &tally.latency)];
    Sample { elapsed, values, histograms, ..Sample::default() }
}

#[cfg(test)]
mod tests;
