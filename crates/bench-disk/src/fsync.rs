//! `disk.fsync`: cost of a commit to a write-ahead log: an append through the page cache, then
//! fdatasync(2). As in RocksDB, space is reserved without moving the end of the file, so each
//! commit also updates the file length. Restarts of full segments are not timed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::thread::Builder;

use crossbeam_channel::{bounded, unbounded};
use rustix::io::Errno;

use crate::backing::{AllocationEffect, TestFile, hint};
use crate::device::{DeviceDemand, io_limit};
use crate::display::human;
use crate::fact::{self, CACHE, COMMITS, DEVICE, ENGINE, FILE_SYSTEM, LOGS, SYNC};
use crate::job::MAX_THREADS;
use crate::load::TestData;
use crate::metrics::{LATENCY_METRIC, RATE_METRIC, seconds};
use crate::storage::{check_not_in_memory, check_test_dir, memory_warning, named_file_warning};
use plimsoll_bench_api::prelude::*;
use plimsoll_bench_api::{RequestedSize, whole_sizes};
use plimsoll_metal::uring::monotonic_ns;
use plimsoll_model::job::disk::{CacheMode, FsyncLoad};
use plimsoll_model::metric::OfTransfers;
use plimsoll_model::sample::Achieved;
use plimsoll_model::warning::Note;
use plimsoll_stats::Times;

/// The benchmark `disk.fsync`.
pub(crate) struct DiskFsync;

const SEGMENT: u64 = FsyncLoad::SEGMENT_BYTES;

/// Default bytes per commit: the page of SQLite and most databases.
const DEFAULT_COMMIT_BYTES: u64 = 4 << 10;

impl Benchmark for DiskFsync {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "disk.fsync",
            about: "time of an append and fdatasync, as of a database's commit",
            file: |parsed| {
                parsed.read().ok().map(|load: FsyncLoad| RequestedSize::Exactly(SEGMENT * load.threads))
            },
            words: &[
                LabelPart::Word("append"),
                LabelPart::Value("block"),
                LabelPart::Word("+ fdatasync"),
                LabelPart::Times,
            ],
            keys: &["block", "threads"],
            waits_for_a_device: true,
            metrics: const {
                &[
                    seconds(LATENCY_METRIC, "time of an append and its fdatasync"),
                    Metric::new(RATE_METRIC, Unit::PerSecond, Better::Higher)
                        .about("appends kept for good per second, over all threads")
                        .of_transfers(OfTransfers::Rate(1.0))
                        .with_floor(),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn metric_of(&self, case: &Case, row: Metric) -> Option<Metric> {
        let threads = FsyncLoad::of(case).map_or(1, |load| load.threads) as f64;
        Some(if row.name == LATENCY_METRIC { row.of_transfers(OfTransfers::Time(threads)) } else { row })
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let threads = counts_in_range(group, "threads", &[1], MAX_THREADS)?;
        let mut candidates = Vec::new();
        for block in whole_sizes(self, group, "block", &[DEFAULT_COMMIT_BYTES])? {
            if !(1..=SEGMENT).contains(&block) {
                return Err(format!("block must be between 1 byte and {}: {block} is not", human(SEGMENT)));
            }
            for &threads in &threads {
                let case = Case::of(self.name()).with_size("block", block).with_count("threads", threads);
                let load = FsyncLoad { block, threads };
                candidates.push(Candidate::new(case, check_not_in_memory(machine)).parsed(&load));
            }
        }
        Ok(candidates)
    }

    fn limits(&self, question: &Question<'_>) -> Vec<Limit> {
        const UNKNOWN_FLUSH_TIME: &str = "no device states how long it takes to empty its write cache";
        let demand = FsyncLoad::of(question.case).ok().map(DeviceDemand::from);
        let most = |of: DeviceDemand| io_limit::ceiling(question.machine, of, of.transfer_unit()?);
        let (kind, limit) = match question.metric {
            LATENCY_METRIC => (LimitKind::Floor, demand.and_then(|of| io_limit::floor(question, of))),
            RATE_METRIC => (LimitKind::Ceiling, demand.and_then(most)),
            _ => return Vec::new(),
        };
        vec![limit.unwrap_or_else(|| Limit::unknown(kind, UNKNOWN_FLUSH_TIME))]
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let FsyncLoad { block, threads } = parsed.read()?;
        let logs = (0..threads).map(|thread| Log::new(block, thread, case, cx)).collect::<Result<_, _>>()?;
        Ok(Box::new(Logs(logs)))
    }
}

struct Logs(Vec<Log>);

#[derive(Clone, Copy, Debug)]
struct CommitSpan {
    start_ns: u64,
    end_ns: u64,
    /// Nanoseconds of the span spent on restarting segments.
    aside_ns: u64,
}

impl CommitSpan {
    /// Returns the ns of the span in a case of `threads` threads; only with one are restarts of the
    /// log file excluded: other threads have the journal to themselves during a restart.
    fn counted_ns(self, threads: usize) -> u64 {
        let all = self.end_ns.saturating_sub(self.start_ns);
        if threads == 1 { all.saturating_sub(self.aside_ns) } else { all }
    }

    /// Returns the seconds from the first start to the last end of `spans`, one for each thread;
    /// for a single thread without restarts of the log file.
    fn whole(spans: &[Self]) -> f64 {
        let ns = match spans {
            [alone] => alone.counted_ns(1),
            all => {
                let start = all.iter().map(|span| span.start_ns).min().unwrap_or_default();
                all.iter().map(|span| span.end_ns).max().unwrap_or_default().saturating_sub(start)
            }
        };
        ns.max(1) as f64 * 1e-9
    }
}

struct Log {
    file: TestFile,
    noise: TestData,
    block: Vec<u8>,
    end: u64,
    latency: Times,
    facts: Facts,
    path: String,
}

impl Log {
    fn new(block: u64, thread: u64, case: &Case, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
        // In memory, fdatasync has as little effect as direct I/O.
        let facts = check_test_dir(cx, CacheMode::Direct)?;
        facts.file_size(RequestedSize::Exactly(SEGMENT))?;
        let file = TestFile::create(&facts, CacheMode::Buffered)?;
        file.allocate(SEGMENT, AllocationEffect::Stays)?;
        let len = usize::try_from(block).map_err(CannotMeasure::environment)?;
        let warnings = [named_file_warning(&file), memory_warning(cx.machine.storage.as_ref())];
        let mut log = Log {
            noise: TestData::new(cx.options.seed, &format!("{}#{thread}", case.id().as_str())),
            block: vec![0; len],
            path: crate::display::path_of(cx),
            end: 0,
            latency: Times::default(),
            facts: Facts {
                warnings: warnings.into_iter().flatten().map(Note::from).collect(),
                achieved: achieved(&file, cx),
                ..Facts::default()
            },
            file,
        };
        log.noise.fill(&mut log.block, 0);
        Ok(log)
    }

    /// Appends and syncs blocks until `amount` (seconds or commits) is done; returns the time span.
    /// `threads` is the number of threads of the case.
    fn commits(&mut self, amount: SampleAmount, threads: usize) -> Result<CommitSpan, CannotMeasure> {
        if let Some(why) = self.file.low_space_message() {
            return Err(CannotMeasure::environment(why));
        }
        self.latency.clear();
        let start_ns = monotonic_ns();
        let (mut commits, mut span) = (0_u64, CommitSpan { start_ns, end_ns: start_ns, aside_ns: 0 });
        let unfinished = |commits: u64, counted_ns: u64| match amount {
            SampleAmount::Work(most) => commits < most,
            SampleAmount::Seconds(seconds) => (counted_ns as f64) < seconds * 1e9 || commits == 0,
        };
        while unfinished(commits, span.counted_ns(threads)) {
            self.make_room()?;
            span.aside_ns += monotonic_ns().saturating_sub(span.end_ns);
            self.noise.address(&mut self.block, self.end);
            let latency = self.commit()?;
            self.latency.record(latency, 1);
            commits += 1;
            span.end_ns = monotonic_ns();
        }
        Ok(span)
    }

    /// Appends a block and calls fdatasync(2); returns the time of both calls in ns. After a failed
    /// sync the data may be lost although a retry would succeed, so the failure is final.
    fn commit(&mut self) -> Result<u64, CannotMeasure> {
        let begun = monotonic_ns();
        let appended = self.file.file.write_all_at(&self.block, self.end);
        appended.map_err(|e| failed("append", self.end, Errno::from_io_error(&e).unwrap_or(Errno::NOSPC)))?;
        rustix::fs::fdatasync(&self.file).map_err(|errno| failed("fdatasync", self.end, errno))?;
        self.end += self.block.len() as u64;
        Ok(monotonic_ns().saturating_sub(begun))
    }

    /// Reads the last committed block back, if any. Fails if it cannot be read or its data differs.
    fn verify(&self) -> Result<(), CannotMeasure> {
        let Some(offset) = self.end.checked_sub(self.block.len() as u64) else { return Ok(()) };
        let mut found = vec![0; self.block.len()];
        if let Err(error) = self.file.file.read_exact_at(&mut found, offset)
            && error.kind() != ErrorKind::UnexpectedEof
        {
            return Err(CannotMeasure::environment(format!("the log cannot be read back: {error}")));
        }
        if found == self.block {
            return Ok(());
        }
        let origin = WrongAnswerSource::Storage { path: self.path.clone(), offset };
        let wrong = WrongAnswer::new(origin, "the log", "other data");
        Err(wrong.detail("the last commit is not in the log").into())
    }

    fn make_room(&mut self) -> Result<(), CannotMeasure> {
        if self.end + self.block.len() as u64 <= SEGMENT {
            return Ok(());
        }
        self.end = 0;
        self.file.set_len(0)?;
        self.file.allocate(SEGMENT, AllocationEffect::Stays)?;
        self.file.sync()
    }
}

fn achieved(file: &TestFile, cx: &Context<'_>) -> Achieved {
    let mut achieved = Achieved::default();
    achieved.set(&ENGINE, "psync");
    achieved.set(&CACHE, "buffered");
    achieved.set(&SYNC, "fdatasync after each append");
    achieved.set(&fact::SEGMENT, SEGMENT);
    achieved.set(&COMMITS, 1_u64);
    achieved.set(&FILE_SYSTEM, file.facts.fs_type());
    achieved.set_some(&DEVICE, cx.machine.storage.as_ref().and_then(|storage| storage.device.clone()));
    achieved
}

fn failed(what: &str, offset: u64, errno: Errno) -> CannotMeasure {
    let hint = hint(errno);
    CannotMeasure::environment(format!("{what} at offset {offset} of the test file failed: {errno}{hint}"))
}

impl Logs {
    fn commits(&mut self, amount: SampleAmount) -> Result<Vec<CommitSpan>, CannotMeasure> {
        let threads = self.0.len() as u64;
        let portion = |thread: u64| match amount {
            SampleAmount::Work(all) => SampleAmount::Work(all / threads + u64::from(thread < all % threads)),
            time @ SampleAmount::Seconds(_) => time,
        };
        let (ready, readies) = unbounded::<()>();
        // Closed until all threads run: dropping the sender opens it.
        let (gate, opened) = bounded::<Infallible>(0);
        std::thread::scope(|scope| {
            let start = |(thread, log): (u64, _)| {
                let log: &mut Log = log;
                let (ready, opened) = (ready.clone(), opened.clone());
                let work = move || {
                    let room = log.make_room();
                    drop(ready);
                    let _ = opened.recv();
                    room.and_then(|()| log.commits(portion(thread), threads as usize))
                };
                Builder::new().name(format!("commit-{thread}")).spawn_scoped(scope, work).map_err(|e| {
                    CannotMeasure::environment(format!("cannot start a thread: {e}; see ulimit -u"))
                })
            };
            let started: Result<Vec<_>, _> = (0..).zip(&mut self.0).map(start).collect();
            drop(ready);
            let _ = readies.recv();
            drop(gate);
            let why = "a thread of plimsoll panicked: this is a bug, please report it with the output above";
            let ended = |_| Err(CannotMeasure::environment(why));
            started?.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
        })
    }
}

impl Prepared for Logs {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let elapsed = CommitSpan::whole(&self.commits(amount)?);
        let mut latency = Times::default();
        self.0.iter().for_each(|log| latency.add(&log.latency));
        let values = BTreeMap::from([
            (LATENCY_METRIC.to_owned(), latency.mean().unwrap_or_default()),
            (RATE_METRIC.to_owned(), latency.count() as f64 / elapsed),
        ]);
        let histograms = vec![crate::display::distribution(LATENCY_METRIC, &latency)];
        Ok(Sample { elapsed, values, histograms, ..Sample::default() })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        self.0.iter().try_for_each(Log::verify)?;
        let mut facts = self.0.first().map(|log| log.facts.clone()).unwrap_or_default();
        facts.achieved.set(&LOGS, self.0.len());
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_bench_api::{Options, WorkerCache};
    use plimsoll_machine::Root;
    use plimsoll_model::sample::FailureCause;

    fn logs(threads: usize) -> Option<(tempfile::TempDir, Logs)> {
        let dir = tempfile::tempdir().expect("temporary directory");
        let machine = Machine::discover(&Root::live());
        let options = Options { dir: dir.path().to_owned(), seed: 1, ..Options::default() };
        let cx = Context { machine: &machine, options: &options, keep: &WorkerCache::default() };
        let case = Case::of("disk.fsync").with_size("block", DEFAULT_COMMIT_BYTES);
        match (0..threads).map(|thread| Log::new(DEFAULT_COMMIT_BYTES, thread as u64, &case, &cx)).collect() {
            Ok(logs) => Some((dir, Logs(logs))),
            Err(why) => {
                assert!(why.cause == FailureCause::NotHere || why.reason.contains("needs 64 MiB"), "{why}");
                None
            }
        }
    }

    #[test]
    fn commits_append_are_counted_and_can_be_read_back() {
        let Some((dir, mut logs)) = logs(1) else { return };
        let sample = logs.sample(SampleAmount::Work(5)).expect("sample");
        assert_eq!(length(&logs.0[0]), 5 * DEFAULT_COMMIT_BYTES);
        assert_eq!(sample.histograms[0].buckets.iter().map(|(_, count)| count).sum::<u64>(), 5);
        let (latency, rate) = (sample.values["latency"], sample.values["rate"]);
        assert!(latency > 0.0 && rate * latency <= 1.0 + 1e-9, "{latency} {rate}");
        assert!((rate * sample.elapsed - 5.0).abs() < 1e-9);
        logs.verify().expect("right");
        assert!(logs.sample(SampleAmount::Seconds(0.0)).expect("sample").values["rate"] > 0.0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
    }

    #[test]
    fn threads_have_a_log_each_and_share_the_commits() {
        let Some((_dir, mut logs)) = logs(3) else { return };
        let sample = logs.sample(SampleAmount::Work(8)).expect("sample");
        let said = logs.0.iter().map(length).collect::<Vec<_>>();
        assert_eq!(said, [3 * DEFAULT_COMMIT_BYTES, 3 * DEFAULT_COMMIT_BYTES, 2 * DEFAULT_COMMIT_BYTES]);
        assert_eq!(sample.histograms[0].buckets.iter().map(|(_, count)| count).sum::<u64>(), 8);
        assert!((sample.values["rate"] * sample.elapsed - 8.0).abs() < 1e-9);
        assert_eq!(logs.verify().map(|facts| facts.achieved.get(&LOGS)), Ok(Some(3)));
        assert_ne!(logs.0[0].block, logs.0[1].block, "each has data of its own");
        logs.0[2].file.set_len(0).expect("cut");
        assert!(logs.verify().is_err(), "a commit of the last log is gone");
    }

    fn length(log: &Log) -> u64 {
        u64::try_from(rustix::fs::fstat(&log.file).expect("stat").st_size).expect("a length")
    }

    #[test]
    fn several_threads_take_from_the_first_start_to_the_last_end() {
        let span = |start_ns, end_ns, aside_ns| CommitSpan { start_ns, end_ns, aside_ns };
        assert!((CommitSpan::whole(&[span(10, 110, 40)]) - 60e-9).abs() < 1e-15);
        // The second restarted its segment while the first had the journal to itself.
        assert!((CommitSpan::whole(&[span(10, 110, 0), span(20, 210, 90)]) - 200e-9).abs() < 1e-15);
        // Both stop by the same time, so that neither commits alone.
        assert_eq!((span(20, 210, 90).counted_ns(2), span(20, 210, 90).counted_ns(1)), (190, 100));
    }

    #[test]
    fn a_full_segment_is_begun_anew() {
        let Some((_dir, mut logs)) = logs(1) else { return };
        logs.0[0].end = SEGMENT - DEFAULT_COMMIT_BYTES;
        logs.sample(SampleAmount::Work(1)).expect("sample");
        assert_eq!(length(&logs.0[0]), SEGMENT);
        logs.sample(SampleAmount::Work(2)).expect("sample");
        assert_eq!(length(&logs.0[0]), 2 * DEFAULT_COMMIT_BYTES);
        logs.verify().expect("right");
    }

    #[test]
    fn a_commit_that_is_not_there_is_found_out() {
        let Some((_dir, mut logs)) = logs(1) else { return };
        logs.sample(SampleAmount::Work(3)).expect("sample");
        let log = &mut logs.0[0];
        rustix::io::pwrite(&log.file, b"X", log.end - 1).expect("write");
        log.block[4095] = b'Y';
        let wrong = log.verify().expect_err("damaged");
        assert!(wrong.to_string().contains("offset 8192"), "{wrong}");
        log.file.set_len(8192).expect("cut");
        assert!(log.verify().is_err());
    }

    #[test]
    fn blocks_and_threads_that_make_no_sense_are_refused() {
        let machine = Machine::discover(&Root::live());
        let cases = |key: &str, value| DiskFsync.cases(&machine, &Group::default().with(key, vec![value]));
        assert!(cases("block", Value::Size(0)).is_err());
        assert!(cases("block", Value::Size(SEGMENT + 1)).is_err());
        assert_eq!(cases("block", Value::Size(1)).map(|all| all.len()), Ok(1));
        assert!(cases("threads", Value::Count(0)).is_err());
        assert!(cases("threads", Value::Count(MAX_THREADS + 1)).is_err());
        assert_eq!(cases("threads", Value::Count(4)).map(|all| all.len()), Ok(1));
    }
}
