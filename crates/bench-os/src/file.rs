//! `os.file`: operations on the names of small files, as mdtest measures metadata. The files are in
//! a directory of their own below `--dir`, which is removed also after a kill.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_bench_api::prelude::*;
use plimsoll_machine::{Root, storage_behind};
use plimsoll_model::job::os::{CaseWord, FileOperation, shares_directory};
use plimsoll_system::leftover::{Registry, Scratch};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::fact::{DIRECTORIES, FILE_SYSTEM};
use crate::timed::{RepeatedOperation, TimedThreads, failed};
use crate::{LATENCY_METRIC, MAX_THREADS, RATE_METRIC, kernel_state};

const FILES: usize = 256;
/// Operations between two readings of the clock.
const OPERATIONS_PER_READING: usize = 16;

/// Whether all threads use one directory.
const LAYOUTS: &[(&str, bool)] = &[("shared", true), ("private", false)];

/// The benchmark `os.file`.
pub struct FileNames;

impl Benchmark for FileNames {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "os.file",
            about: "time to create, open, stat, rename and unlink small files in --dir, as mdtest does",
            keys: &["op", "layout", "threads"],
            help: &[
                ("op", "create, open (with close), stat, rename, unlink or all [default: all]"),
                (
                    "layout",
                    "shared (all threads in one directory), private (a directory each) or all [default: private; several threads: all]",
                ),
            ],
            words: &[
                LabelPart::Word("file"),
                LabelPart::Value("op"),
                LabelPart::Case("layout", |case| {
                    shares_directory(case).then(|| "in one directory".to_owned())
                }),
                LabelPart::Times,
            ],
            waits_for_a_device: true,
            limits,
            metrics: const {
                &[
                    Metric::new(RATE_METRIC, Unit::PerSecond, Better::Higher)
                        .about("operations per second, over all threads"),
                    Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower)
                        .about(
                            "time of an operation, mean of a thread; percentiles are those of batches of 16",
                        )
                        .shown_between("", ""),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let threads = counts_in_range(group, "threads", &default_threads(machine), MAX_THREADS)?;
        let layouts = group.values("layout", LAYOUTS)?;
        let mut candidates = Vec::new();
        for (op, operation) in group.values("op", FileOperation::CASE_WORDS)? {
            for threads in &threads {
                for (layout, is_shared) in &layouts {
                    if *threads == 1 && *is_shared && layouts.len() > 1 {
                        // One thread is alone in its directory in both.
                        continue;
                    }
                    let case = Case::of(self.name()).with_word("op", op).with_word("layout", layout);
                    let case = case.with_count("threads", *threads);
                    candidates.push(Candidate::new(case, Ok(())).parsed(&(operation, *is_shared)));
                }
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let (operation, is_shared): (FileOperation, bool) = parsed.read()?;
        let dir = &cx.options.dir;
        let shown = plimsoll_units::text::shown_bytes(dir.as_os_str().as_encoded_bytes());
        let refused =
            |error| CannotMeasure::environment(format!("--dir {shown}: no directory in it: {error}"));
        let scratch = Arc::new(Registry::here().directory_in(dir).map_err(refused)?);
        let cpus = cpus_of_case(cx.machine, case);
        let worker = |index: usize| FileWorker::new(operation, &scratch, index, is_shared);
        let workers = (0..cpus.len()).map(worker).collect::<Result<Vec<_>, _>>()?;
        let mut facts = kernel_state::facts(cx.machine);
        let storage = storage_behind(&Root::live(), scratch.path());
        facts.achieved.set_some(&FILE_SYSTEM, storage.file_system.map(|one| one.fs_type));
        facts.achieved.set(&DIRECTORIES, if is_shared { 1 } else { cpus.len() });
        Ok(Box::new(TimedThreads::new(&cpus, workers, Some(RATE_METRIC), facts)?))
    }
}

/// Returns the floor of the time, 1 or 2 empty system calls, or for the rate that ceiling.
fn limits(question: &Question<'_>) -> Vec<Limit> {
    let opens = matches!(FileOperation::of(question.case), Some(FileOperation::Create | FileOperation::Open));
    match question.metric {
        LATENCY_METRIC if opens => {
            vec![crate::limit::null_calls(question, 2.0, "2 × null call (open, close)")]
        }
        LATENCY_METRIC => vec![crate::limit::null_calls(question, 1.0, "null call")],
        _ => crate::limit::rate_ceilings(question, limits),
    }
}

/// Operates on the files of one thread.
struct FileWorker {
    operation: FileOperation,
    paths: Vec<PathBuf>,
    /// Other names of the same files, for renames.
    others: Vec<PathBuf>,
    next: usize,
    /// Dropped last, which removes all of it.
    _scratch: Arc<Scratch>,
}

impl FileWorker {
    fn new(
        operation: FileOperation,
        scratch: &Arc<Scratch>,
        index: usize,
        is_shared: bool,
    ) -> Result<Self, CannotMeasure> {
        let mut directory = scratch.path().to_owned();
        if !is_shared {
            directory.push(format!("{index}"));
            rustix::fs::mkdirat(CWD, &directory, Mode::RWXU).map_err(failed("mkdir(2)"))?;
        }
        let names = |mark: &str| -> Vec<PathBuf> {
            (0..FILES).map(|file| directory.join(format!("{mark}{index}.{file}"))).collect()
        };
        let (paths, others) = (names("a"), names("b"));
        let made = Self { operation, paths, others, next: 0, _scratch: Arc::clone(scratch) };
        if operation != FileOperation::Create {
            made.paths.iter().try_for_each(|path| create(path)).map_err(failed("open(2)"))?;
        }
        Ok(made)
    }

    fn name(&self) -> &'static str {
        match self.operation {
            FileOperation::Create | FileOperation::Open => "open(2)",
            FileOperation::Stat => "stat(2)",
            FileOperation::Rename => "rename(2)",
            FileOperation::Unlink => "unlink(2)",
        }
    }

    fn operate(&self, file: usize) -> Result<(), Errno> {
        let (path, other) = (&self.paths[file], &self.others[file]);
        match self.operation {
            FileOperation::Create => create(path),
            FileOperation::Open => {
                openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(drop)
            }
            FileOperation::Stat => statat(CWD, path, AtFlags::empty()).map(drop),
            FileOperation::Rename => renameat(CWD, path, CWD, other),
            FileOperation::Unlink => unlinkat(CWD, path, AtFlags::empty()),
        }
    }
}

/// Creates an empty file; fails if the path exists.
fn create(path: &Path) -> Result<(), Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::RUSR | Mode::WUSR).map(drop)
}

impl RepeatedOperation for FileWorker {
    fn repeat(&mut self) -> Result<u32, CannotMeasure> {
        let mut files = self.next..(self.next + OPERATIONS_PER_READING).min(FILES);
        let count = files.len();
        files.try_for_each(|file| self.operate(file)).map_err(failed(self.name()))?;
        self.next += count;
        u32::try_from(count).map_err(|_| CannotMeasure::environment("too many files"))
    }

    fn reset(&mut self) -> Result<(), CannotMeasure> {
        if self.next < FILES {
            return Ok(());
        }
        self.next = 0;
        let restored = match self.operation {
            FileOperation::Create => {
                self.paths.iter().try_for_each(|path| unlinkat(CWD, path, AtFlags::empty()))
            }
            FileOperation::Unlink => self.paths.iter().try_for_each(|path| create(path)),
            FileOperation::Rename => {
                std::mem::swap(&mut self.paths, &mut self.others);
                Ok(())
            }
            FileOperation::Open | FileOperation::Stat => Ok(()),
        };
        restored.map_err(failed("the preparation of the next files"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::with_each_case;
    use plimsoll_bench_api::{Options, WorkerCache};

    #[test]
    fn each_operation_is_measured_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { dir: dir.path().to_owned(), ..Options::default() };
        let measured = with_each_case(&FileNames, "threads=1,2", &options, |case, mut files| {
            let sample = files.sample(SampleAmount::Work(600)).unwrap();
            assert!(sample.values[RATE_METRIC] > 0.0, "{case}: {sample:?}");
            drop(files);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{case}");
        });
        assert_eq!(measured, 5 * 3, "one thread is in a directory of its own");
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let machine = Machine::discover(&Root::live());
        let options = Options { dir: "/nonexistent".into(), ..Options::default() };
        let cx = Context { machine: &machine, options: &options, keep: &WorkerCache::default() };
        let candidate = FileNames.cases(&machine, &Group::default()).unwrap().remove(0);
        let why = FileNames.prepare(&candidate.case, &candidate.parsed, &cx).err().unwrap();
        assert!(why.reason.contains("--dir /nonexistent"), "{why}");
    }
}
