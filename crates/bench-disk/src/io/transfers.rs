//! A prepared case of `disk.io`: its files, its threads, and the evaluation of their counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backing::TestFile;
use crate::device::{Busy, DeviceCheck, DirectionBytes};
use crate::engine::{Opened, open_on};
use crate::fact::{self, COUNT, ENGINE, FILE_BYTES, PAGE_CACHE, VOLUME};
use crate::io::reached::{Reached, depth_missed, mean, rate_missed};
use crate::job::fits_sectors;
use crate::load::{
    self, BlockWalk, CAP_NS, Count, DiskThreads, DriverCommand, DriverError, Ledger, LoadError, LoadOptions,
    Portion, StartSchedule, TestData, TransferSource, TransferTally, WalkExtent, derive,
};
use crate::metrics;
use crate::storage::{CaseFiles, ToolFiles, memory_warning, renewal};
use crate::warning::DiskWarning;
use plimsoll_bench_api::fixed::{Scaling, thread_amount};
use plimsoll_bench_api::prelude::*;
use plimsoll_machine::Root;
use plimsoll_metal::block::BlockTraversal;
use plimsoll_metal::ticks::TickClock;
use plimsoll_metal::uring::RingError;
use plimsoll_model::job::disk::{BlockOrder, CacheMode, DiskEngine, DiskOperation, DiskTransfers};
use plimsoll_model::sample::Writable;
use plimsoll_model::warning::Note;

/// Returns the seconds of a probe: `wanted`, but at most 1/32 of the ns left in the time budget
/// (`left_ns`) or, if that is less, 0.05 s.
fn probe_seconds(wanted: f64, left_ns: u64) -> f64 {
    const PROBE_SHARE: f64 = 1.0 / 32.0;
    const MIN_PROBE_SECONDS: f64 = 0.05;
    wanted.min((left_ns as f64 * 1e-9 * PROBE_SHARE).max(MIN_PROBE_SECONDS))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probe {
    /// Transfers in flight per thread, at most.
    pub(crate) depth: u64,
    pub(crate) rate: f64,
    /// Mean latency in seconds.
    pub(crate) latency: f64,
    pub(crate) percentile_ns: u64,
}

pub(crate) struct Transfers {
    team: DiskThreads,
    pub(crate) kind: DiskEngine,
    pub(crate) job: DiskTransfers,
    busy: Busy,
    facts: Facts,
    known: bool,
    device_check: DeviceCheck,
    file: Arc<TestFile>,
    claimed: DirectionBytes,
    reached: Vec<Reached>,
    /// Seconds after which the last sample was cut.
    cut: Option<f64>,
    until: Option<Instant>,
    /// Start of a pause for reference tools, whose time is not the case's.
    paused: Option<Instant>,
    warm: bool,
    bytes: u64,
    tool_files: Option<ToolFiles>,
    /// Reason why a file shared with a tool was not refilled, so its data is unusable.
    spoilt: Option<String>,
    path: String,
}

impl Transfers {
    /// Prepares files and threads of a job; `id` makes random numbers differ between cases.
    pub(crate) fn new(id: &str, job: DiskTransfers, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
        let case_files = CaseFiles::of(&job, cx)?;
        let each = case_files.extents.iter().map(|extent| extent.bytes);
        let bytes: u64 = if job.shared { each.max().unwrap_or_default() } else { each.sum() };
        let mut facts = Facts { achieved: case_files.place, ..Facts::default() };
        let warnings = case_files.warnings.into_iter().chain(memory_warning(cx.machine.storage.as_ref()));
        facts.warnings.extend(warnings.map(Note::from));
        let file = Arc::clone(&case_files.files[0][0]);
        let avoidable = fits_sectors(&job.blocks) && !file.facts.is_in_memory();
        let storage = cx.machine.storage.as_ref();
        let device_check = DeviceCheck::new(Root::live(), storage, Arc::clone(&file), bytes);
        let ledgers = ledgers(&job, &case_files.extents)?;
        facts.achieved.set(&FILE_BYTES, bytes);
        let clock = TickClock::fastest();
        let of_threads = case_files.files.into_iter().zip(case_files.extents).zip(ledgers);
        let makes = of_threads.enumerate().map(|(thread, ((files, extent), ledger))| {
            let (manner, source, noise) = prepare_load(&job, files, extent, ledger, (id, thread), cx);
            let (tally, job) = (TransferTally::of(job.operation), job.clone());
            move || {
                let Opened { engine, about } = open_engine(&job, &manner.files, clock)?;
                Ok((engine.into_load(source, noise, manner, tally), about))
            }
        });
        let path = crate::display::path_of(cx);
        let (team, about) = DiskThreads::start(TransferTally::of(job.operation), makes)
            .map_err(|error| failed(&error, &path, false))?;
        let (kind, wanted) = (about.kind, job.engine);
        facts.achieved.set(&ENGINE, kind.word());
        let fell_back = about.fell_back.map(|why| DiskWarning::EngineFellBack { wanted, used: kind, why });
        let remark = about.remark.map(|why| DiskWarning::NotRegistered { why });
        let cached = (job.cache != CacheMode::Direct).then_some(DiskWarning::PageCache { avoidable });
        facts.warnings.extend([fell_back, remark, cached].into_iter().flatten().map(Note::from));
        Ok(Transfers {
            team,
            kind,
            job,
            busy: Busy::behind(cx.machine),
            facts,
            known: case_files.known,
            device_check,
            file,
            claimed: DirectionBytes::default(),
            reached: Vec::new(),
            cut: None,
            until: cx.options.until,
            paused: None,
            warm: false,
            bytes,
            tool_files: case_files.tool_files,
            spoilt: None,
            path,
        })
    }

    /// Returns the depth per thread that the engine supports: 1 if synchronous, else the job's.
    pub(crate) fn reachable_depth(&self) -> u64 {
        if self.kind.is_one_at_a_time() { 1 } else { self.job.depth }
    }

    /// Measures with up to `depth` transfers in flight per thread for `amount` (shortened if the
    /// time budget requires). `share` selects the latency percentile in the result: 0.99 for p99.
    pub(crate) fn probe(
        &mut self,
        depth: u64,
        amount: SampleAmount,
        share: f64,
    ) -> Result<Probe, CannotMeasure> {
        let environment = |e: DriverError| failed(&e, &self.path, false);
        let amount = match amount {
            SampleAmount::Seconds(seconds) => SampleAmount::Seconds(probe_seconds(seconds, self.left_ns())),
            work @ SampleAmount::Work(_) => work,
        };
        self.team.ask(|| DriverCommand::Limit(depth as usize)).map_err(environment)?;
        let portions = self.portions(amount);
        let count = self.team.count(&portions).map_err(environment)?;
        let tally = count.tally;
        self.claimed.read += tally.read.bytes;
        self.claimed.written += tally.written.bytes;
        Ok(Probe {
            depth,
            rate: count.rate,
            latency: tally.latency.mean().unwrap_or(f64::NAN),
            percentile_ns: tally.latency.at(share),
        })
    }

    pub(crate) fn settle_at(&mut self, depth: u64) -> Result<(), CannotMeasure> {
        self.job.depth = depth;
        let limited = self.team.ask(|| DriverCommand::Limit(depth as usize));
        limited.map_err(|e| CannotMeasure::environment(e.to_string()))
    }

    fn portions(&self, amount: SampleAmount) -> Vec<Portion> {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let portion = |thread: u64| {
            let fixed = self.job.fixed_transfers();
            let fixed = fixed.map(|all| thread_amount(self.job.scaling, all, self.job.threads, thread));
            match (amount, fixed) {
                (SampleAmount::Seconds(seconds), None) => Portion::Time(ns(seconds)),
                (SampleAmount::Seconds(seconds), Some(transfers)) if !self.warm => {
                    Portion::Transfers { transfers, cap_ns: ns(seconds) }
                }
                (SampleAmount::Work(transfers), _) | (SampleAmount::Seconds(_), Some(transfers)) => {
                    Portion::Transfers { transfers, cap_ns: CAP_NS.min(self.left_ns()) }
                }
            }
        };
        (0..self.job.threads).map(portion).collect()
    }

    /// Returns the ns left of the time budget, at least 0.2 s; `u64::MAX` without a budget.
    fn left_ns(&self) -> u64 {
        /// Least time of a sample that the run loop still starts.
        const LEAST_NS: u64 = 200_000_000;
        load::left_ns(self.until).max(LEAST_NS)
    }

    /// Records in `facts`, if samples have a fixed amount, its mean in transfers and bytes, per
    /// thread or, with strong scaling, of all threads; and a warning if the time limit cut samples.
    fn note_amount(&self, facts: &mut Facts) {
        let (Some(wanted), false) = (self.job.fixed_transfers(), self.reached.is_empty()) else { return };
        let mean = mean(&self.reached, |sample| sample.transfers as f64);
        let asked = if self.job.scaling == Scaling::Strong { mean } else { mean / self.job.threads as f64 };
        let bytes = asked * self.job.blocks.mean();
        facts.achieved.set(&COUNT, asked.round());
        facts.achieved.set(&VOLUME, bytes.round());
        if let Some(seconds) = self.cut {
            let wanted = wanted as f64 * self.job.blocks.mean();
            let cut = DiskWarning::VolumeCut { seconds, done: bytes, wanted };
            facts.warnings.push(cut.into());
        }
    }

    /// Records in `facts` the mean depth and, of an open loop, the rate; warns if it fell short.
    fn note_reached(&self, facts: &mut Facts) {
        let depth = mean(&self.reached, |sample| sample.depth);
        facts.achieved.set(&fact::QUEUE_DEPTH, depth / self.job.threads as f64);
        if self.reached.is_empty() {
            return;
        }
        let missed = match self.job.open_loop {
            Some(offered) => {
                facts.achieved.set(&fact::TRANSFER_RATE, mean(&self.reached, |sample| sample.rate));
                rate_missed(offered.per_second, self.job.threads, &self.reached)
            }
            None => depth_missed(&self.job, self.kind, &self.reached),
        };
        facts.warnings.extend(missed.map(Note::from));
    }
}

/// Returns options, transfers and test data for the load of thread number `thread` of case `id`.
fn prepare_load(
    job: &DiskTransfers,
    files: Vec<Arc<TestFile>>,
    extent: WalkExtent,
    ledger: Option<Ledger>,
    (id, thread): (&str, usize),
    cx: &Context<'_>,
) -> (LoadOptions, TransferSource, TestData) {
    let (own, seed, until) = (format!("{id} thread {thread}"), cx.options.seed, cx.options.until);
    let schedule = job.open_loop.map(|offered| {
        let seed = derive(seed, &format!("{own} arrivals"));
        StartSchedule::new(offered.arrivals, offered.per_second / job.threads as f64, seed)
    });
    let renew = files.first().and_then(|file| renewal(job, file, extent, seed, thread));
    let manner = LoadOptions { flush: job.flush, schedule, renew, ledger, files, until };
    let walk = BlockWalk::new(job.order, extent, derive(seed, &own));
    let source = TransferSource::new(job.operation, job.through, job.blocks.clone(), walk);
    (manner, source, TestData::new(seed, &own))
}

/// Opens the engine of a thread, on which it must be called. If io_uring is refused (as in
/// containers), direct transfers of depth 2 or more use libaio, all else psync.
fn open_engine(job: &DiskTransfers, files: &[Arc<TestFile>], clock: TickClock) -> Result<Opened, RingError> {
    let in_order =
        matches!(job.order, BlockOrder::Sequential | BlockOrder::SequentialEach | BlockOrder::Backward);
    let access = if in_order { BlockTraversal::Sequential } else { BlockTraversal::Random };
    let trims = job.operation == DiskOperation::Trim;
    let instead = match job.engine {
        DiskEngine::IoUring(_) if trims && files.iter().any(|file| file.is_device()) => {
            Some("BLKDISCARD is a blocking call".to_owned())
        }
        DiskEngine::Libaio if trims => Some("libaio has no requests that trim".to_owned()),
        _ => None,
    };
    let kind = if instead.is_some() { DiskEngine::Psync } else { job.engine };
    let (depth, block) = (job.depth as usize, job.blocks.largest() as usize);
    let open = |kind| open_on(kind, files, depth, block, access, clock);
    let mut opened = open(kind)?;
    let is_refused = matches!(kind, DiskEngine::IoUring(_)) && opened.about.kind == DiskEngine::Psync;
    if is_refused && depth >= 2 && job.cache == CacheMode::Direct && !trims {
        let second = open(DiskEngine::Libaio)?;
        if second.about.fell_back.is_none() {
            (opened.engine, opened.about.kind) = (second.engine, second.about.kind);
        }
    }
    opened.about.fell_back = instead.or(opened.about.fell_back);
    Ok(opened)
}

/// Converts the failure of a load on `path` to that of a case. Wrong data is a wrong answer, unless
/// the file is `shared` with a reference tool, which may have written it.
fn failed(error: &DriverError, path: &str, shared: bool) -> CannotMeasure {
    let remark = match error {
        DriverError::Load(LoadError::Examined(_)) if shared => {
            "; a reference tool writes to the same place, which is filled anew after each of its turns"
        }
        DriverError::Load(LoadError::Examined(_)) => "; no reference tool was given this place to write to",
        _ => "",
    };
    let text = format!("{error}{remark}");
    let wrong = match error {
        DriverError::Load(LoadError::Examined(evidence)) if !shared => evidence.wrong,
        DriverError::Load(LoadError::Wrong(wrong)) if !shared => *wrong,
        _ => return CannotMeasure::environment(text),
    };
    let origin = WrongAnswerSource::Storage { path: path.to_owned(), offset: wrong.offset };
    WrongAnswer::new(origin, "verify", wrong.how.word()).detail(text).into()
}

/// Returns a [`Ledger`] of expected contents per extent, each `None` without `--verify`. Fails if
/// one needs too much memory.
fn ledgers(job: &DiskTransfers, extents: &[WalkExtent]) -> Result<Vec<Option<Ledger>>, CannotMeasure> {
    let ledger = |extent: &WalkExtent| {
        let made = job.verify.then(|| Ledger::new(extent.start, extent.bytes, extent.unit)).transpose();
        made.map_err(|error| CannotMeasure::not_here(error.to_string()))
    };
    extents.iter().map(ledger).collect()
}

impl Prepared for Transfers {
    fn offer(&self) -> Offer {
        let file = self.known.then(|| self.file.proc_path());
        Offer { file_bytes: file.is_some().then_some(self.bytes), file, ..Offer::default() }
    }

    fn provide_file(&mut self) -> Result<Writable, String> {
        let none = || "the case has no test file that a tool could write to".to_owned();
        self.tool_files.as_mut().ok_or_else(none)?.provide_file(self.until)
    }

    fn resume(&mut self) {
        let paused = self.paused.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.until = self.until.and_then(|until| until.checked_add(paused));
        let until = self.until;
        let taken_back = self.tool_files.as_mut().map_or(Ok(()), |tool_files| tool_files.take_back(until));
        self.spoilt = taken_back.err().map(|error| format!("the test file cannot be filled anew: {error}"));
    }

    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        if let Some(why) = self.spoilt.clone().or_else(|| self.file.low_space_message()) {
            return Err(CannotMeasure::environment(why));
        }
        let portions = self.portions(amount);
        let begun = self.busy.now();
        let shared = self.tool_files.as_ref().is_some_and(ToolFiles::shares_case_file);
        let count = self.team.count(&portions).map_err(|error| failed(&error, &self.path, shared))?;
        self.claimed.read += count.tally.read.bytes;
        self.claimed.written += count.tally.written.bytes;
        if self.warm || self.job.fixed_transfers().is_none() {
            self.reached.push(Reached {
                depth: count.depth,
                rate: count.rate,
                transfers: count.tally.transfers,
                thread_seconds: count.thread_seconds,
                flushed: count.tally.sync.mean().is_some(),
            });
            if count.tally.cut {
                self.cut = Some(count.elapsed);
            }
        }
        self.warm = true;
        let mut sample = sample_of(&count, &self.job, self.kind);
        if let Some(done) = begun.and_then(|begun| self.busy.since(begun)) {
            let moved = count.tally.read.bytes.saturating_add(count.tally.written.bytes);
            let busy = done.busy().map(|share| (metrics::BUSY_METRIC.to_owned(), share));
            let seconds = done.request_seconds(moved).map(|seconds| (metrics::AWAIT.to_owned(), seconds));
            sample.values.extend(busy.into_iter().chain(seconds));
        }
        Ok(sample)
    }

    fn pause(&mut self) {
        self.paused.get_or_insert_with(Instant::now);
        // The next sample reports a failure.
        let _ = self.team.ask(|| DriverCommand::Stop);
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        self.check()?;
        Ok(self.judged())
    }
}

impl Transfers {
    /// Fails if the contents of the files are wrong or cannot be checked.
    pub(super) fn check(&mut self) -> Result<(), CannotMeasure> {
        if !self.known {
            return Ok(());
        }
        if let Some(why) = &self.spoilt {
            return Err(CannotMeasure::environment(why));
        }
        let shares = self.tool_files.as_ref().is_some_and(ToolFiles::shares_case_file);
        self.team.ask(|| DriverCommand::Check).map_err(|error| failed(&error, &self.path, shares))
    }

    /// Returns facts on the case, with what the device did.
    pub(super) fn judged(&self) -> Facts {
        let mut facts = self.facts.clone();
        self.note_reached(&mut facts);
        self.note_amount(&mut facts);
        facts.warnings.extend(self.tool_files.as_ref().and_then(ToolFiles::warning).map(Note::from));
        self.device_check.judge(self.claimed, &mut facts);
        if self.job.operation.uses_up() {
            // Each thread has a file of its own, which comes and goes.
            facts.achieved.take(&PAGE_CACHE);
        }
        facts
    }
}

fn sample_of(count: &Count<'_>, job: &DiskTransfers, kind: DiskEngine) -> Sample {
    let tally = count.tally;
    let each = |n: u64| n as f64 / tally.transfers.max(1) as f64;
    let mut values = BTreeMap::from([
        (metrics::THROUGHPUT_METRIC.to_owned(), count.throughput),
        (metrics::RATE_METRIC.to_owned(), count.rate),
        (metrics::CPU_METRIC.to_owned(), each(count.cpu_ns) * 1e-9),
        (metrics::DEPTH_METRIC.to_owned(), count.depth),
        (metrics::SWITCHES.to_owned(), each(count.switches)),
    ]);
    if matches!(job.operation, DiskOperation::Mixed { .. } | DiskOperation::Copy) {
        let [read, written] = count.traffic;
        values.extend([(metrics::READ.to_owned(), read), (metrics::WRITE.to_owned(), written)]);
    }
    values.extend(tally.latency.stdev().map(|stdev| (metrics::LATENCY_STDEV.to_owned(), stdev)));
    // A synchronous call has no separate submission time.
    let has_parts = !kind.is_one_at_a_time();
    let timed = [
        (metrics::LATENCY_METRIC, Some(&tally.latency)),
        (metrics::SLAT, has_parts.then_some(&tally.submit)),
        (metrics::CLAT, has_parts.then_some(&tally.complete)),
        (metrics::READ_LATENCY, tally.read.latency.as_ref()),
        (metrics::WRITE_LATENCY, tally.written.latency.as_ref()),
        (metrics::SYNC, Some(&tally.sync)),
    ];
    let mut histograms = Vec::new();
    for (metric, times) in timed {
        if let Some((times, mean)) = times.and_then(|times| Some((times, times.mean()?))) {
            values.insert(metric.to_owned(), mean);
            histograms.push(crate::display::distribution(metric, times));
        }
    }
    Sample { elapsed: count.elapsed, values, histograms, ..Sample::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_leaves_some_of_its_budget() {
        assert_eq!(probe_seconds(0.1, u64::MAX), 0.1, "without a budget");
        assert_eq!(probe_seconds(0.1, 60_000_000_000), 0.1, "there is time");
        assert_eq!([probe_seconds(1.0, 0), probe_seconds(0.02, 0)], [0.05, 0.02]);
        let mut left = 8.0;
        for _ in 0..40 {
            left -= probe_seconds(1.0, (left * 1e9) as u64);
        }
        assert!((2.0..3.0).contains(&left), "{left} s of 8 are left");
    }
}
