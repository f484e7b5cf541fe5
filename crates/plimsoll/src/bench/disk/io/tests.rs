use std::path::Path;

use super::*;
use crate::bench::{Keep, Options};
use crate::machine::Root;
use crate::machine::storage::{FileSystem, Storage};
use crate::sample::Cause;

fn machine() -> Machine {
    let mut machine = Machine::discover(&Root::live());
    machine.storage = None;
    machine
}

fn ids(group: &Group) -> Vec<String> {
    let candidates = DiskIo.cases(&machine(), group).expect("cases");
    candidates.iter().map(|candidate| candidate.case.to_string()).collect()
}

fn sizes(values: &[u64]) -> Vec<Value> {
    values.iter().map(|value| Value::Size(*value)).collect()
}

fn words(values: &[&str]) -> Vec<Value> {
    values.iter().map(|word| Value::Word((*word).to_owned())).collect()
}

#[test]
fn the_default_cases_are_latency_rate_and_two_throughputs() {
    let tail = "threads=1/engine=io_uring/cache=direct";
    assert_eq!(
        ids(&Group::default()),
        [
            format!("disk.io/op=read/pattern=random/block=4K/depth=1/{tail}"),
            format!("disk.io/op=read/pattern=random/block=4K/depth=32/{tail}"),
            format!("disk.io/op=read/pattern=sequential/block=1M/depth=8/{tail}"),
            format!("disk.io/op=write/pattern=sequential/block=1M/depth=8/{tail}"),
        ]
    );
}

#[test]
fn typed_lists_replace_the_defaults_and_no_case_comes_twice() {
    let group = Group::default()
        .with("op", words(&["write"]))
        .with("pattern", words(&["random"]))
        .with("block", sizes(&[4096, 8192]))
        .with("depth", vec![Value::Count(4)])
        .with("engine", words(&["psync"]))
        .with("size", sizes(&[1 << 20]));
    let tail = "depth=4/size=1M/threads=1/engine=psync/cache=direct";
    assert_eq!(
        ids(&group),
        ["4K", "8K"].map(|block| format!("disk.io/op=write/pattern=random/block={block}/{tail}"))
    );
    // What is not typed keeps the variety of the defaults.
    assert_eq!(ids(&Group::default().with("block", sizes(&[8192]))).len(), 4);
    assert_eq!(ids(&Group::default().with("pattern", words(&["random"]))).len(), 4);
    assert_eq!(ids(&Group::default().with("depth", vec![Value::Count(1)])).len(), 3);
}

#[test]
fn what_no_machine_can_measure_is_told_by_parameter() {
    let count = |n| vec![Value::Count(n)];
    let wrong = [
        ("op", words(&["append"])),
        ("pattern", words(&["zipf"])),
        ("engine", words(&["libaio"])),
        ("cache", words(&["none"])),
        ("block", sizes(&[0])),
        ("block", sizes(&[1000])),
        ("block", sizes(&[2 << 30])),
        ("depth", count(0)),
        ("depth", count(1025)),
        ("size", sizes(&[512])),
    ];
    for (key, values) in wrong {
        let error = DiskIo.cases(&machine(), &Group::default().with(key, values)).expect_err(key);
        assert!(error.starts_with(&format!("{key}: ")), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
    let group = Group::default().with("block", sizes(&[1 << 30])).with("depth", count(8));
    assert!(DiskIo.cases(&machine(), &group).expect_err("8 GiB of buffers").contains("buffers"));
}

#[test]
fn the_headline_follows_block_and_depth() {
    let headline = |block, depth| {
        let case = Case::of("disk.io").with_size("block", block).with_count("depth", depth);
        let metrics = DiskIo.metrics(&case);
        let mut names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
        let first = names.remove(0);
        // The others keep the order of the contract.
        let order = ["throughput", "rate", "latency", "submit", "cpu", "depth"];
        assert_eq!(names, order.iter().copied().filter(|name| *name != first).collect::<Vec<_>>());
        first
    };
    assert_eq!(headline(4096, 1), "latency");
    assert_eq!(headline(4096, 32), "rate");
    assert_eq!(headline(64 << 10, 8), "rate");
    assert_eq!(headline((64 << 10) + 512, 8), "throughput");
    assert_eq!(headline(1 << 20, 1), "throughput");
}

#[test]
fn in_memory_direct_cases_are_skipped_and_buffered_ones_are_not() {
    let mut machine = machine();
    let file_system = FileSystem {
        fs_type: "tmpfs".to_owned(),
        mount_point: "/tmp".to_owned(),
        source: "tmpfs".to_owned(),
        options: Vec::new(),
        medium: Medium::Memory,
    };
    machine.storage = Some(Storage { file_system: Some(file_system), ..Storage::default() });
    let group = Group::default().with("cache", words(&["direct", "buffered"]));
    for candidate in DiskIo.cases(&machine, &group).expect("cases") {
        match candidate.feasible {
            Err(why) => {
                assert_eq!((candidate.case.word("cache"), why.cause), (Some("direct"), Cause::NotHere));
                assert!(why.reason.contains("tmpfs"), "{why}");
            }
            Ok(()) => assert_eq!(candidate.case.word("cache"), Some("buffered")),
        }
    }
}

/// What a worker has.
struct Bench {
    machine: Machine,
    options: Options,
    keep: Keep,
}

impl Bench {
    fn at(dir: &Path) -> Self {
        let options = Options { dir: dir.to_owned(), seed: 42, ..Options::default() };
        Bench { machine: machine(), options, keep: Keep::default() }
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let cx = Context { machine: &self.machine, options: &self.options, keep: &self.keep };
        DiskIo.prepare(case, &cx)
    }
}

fn case(op: &str, pattern: &str, engine: &str, cache: &str) -> Case {
    Case::of("disk.io")
        .with_word("op", op)
        .with_word("pattern", pattern)
        .with_size("block", 4096)
        .with_count("depth", 4)
        .with_size("size", 8 << 20)
        .with_word("engine", engine)
        .with_word("cache", cache)
}

/// Every combination on a real file. Where the temporary directory refuses direct I/O, that is the answer.
#[test]
fn every_combination_measures_verifies_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let bench = Bench::at(dir.path());
    for (op, pattern) in
        [("read", "random"), ("write", "random"), ("read", "sequential"), ("write", "sequential")]
    {
        for (engine, cache) in [("io_uring", "direct"), ("psync", "direct"), ("io_uring", "buffered")] {
            let case = case(op, pattern, engine, cache);
            let mut prepared = match bench.prepare(&case) {
                Ok(prepared) => prepared,
                Err(why) => {
                    assert_eq!(why.cause, Cause::NotHere, "{case}: {why}");
                    continue;
                }
            };
            let sample = prepared.sample(Amount::Work(100)).expect("sample");
            let value = |name: &str| sample.values.get(name).copied().unwrap_or(f64::NAN);
            assert!((value("throughput") / value("rate") / 4096.0 - 1.0).abs() < 1e-9);
            assert!((value("rate") * sample.elapsed - 100.0).abs() < 1e-6);
            assert!(value("latency") > 0.0 && value("depth") > 0.0 && value("cpu") >= 0.0);
            assert_eq!(sample.histograms[0].buckets.iter().map(|(_, count)| count).sum::<u64>(), 100);
            assert!(prepared.sample(Amount::Seconds(0.001)).expect("sample").elapsed >= 0.001);
            assert_eq!(prepared.verify(), Ok(()), "{case}");
            let facts = prepared.facts();
            let used = facts.achieved.get("engine").and_then(|word| word.as_str()).unwrap_or_default();
            assert!(
                used == engine || facts.warnings.iter().any(|w| matches!(w, Warning::EngineFellBack { .. })),
                "{case}: {facts:?}"
            );
            assert_eq!(sample.values.contains_key("submit"), used == "io_uring");
            if used == "psync" {
                let told = |w: &Warning| w.code() == "depth-not-reached" && w.to_string().contains("psync");
                assert!(facts.warnings.iter().any(told), "{facts:?}");
            }
            assert_eq!(facts.warnings.iter().any(|w| w.code() == "page-cache"), cache == "buffered");
            assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
        }
    }
}

#[test]
fn the_cases_of_a_run_share_one_file() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let bench = Bench::at(dir.path());
    let inode = || {
        let kept = bench.keep.take::<Filled>("disk.file").expect("kept");
        let inode = rustix::fs::fstat(&kept.file).expect("stat").st_ino;
        bench.keep.put("disk.file", kept);
        inode
    };
    let first = case("write", "random", "io_uring", "buffered");
    drop(bench.prepare(&first).expect("prepare"));
    let one = inode();
    let mut reading = bench.prepare(&case("read", "sequential", "psync", "buffered")).expect("prepare");
    assert_eq!(inode(), one);
    reading.sample(Amount::Work(10)).expect("sample");
    assert_eq!(reading.verify(), Ok(()));
    // Another size is another file, and only one is kept.
    drop(bench.prepare(&first.with_size("size", 4 << 20)).expect("prepare"));
    let other = bench.keep.take::<Filled>("disk.file").expect("kept");
    assert_eq!(other.bytes, 4 << 20);
}

#[test]
fn a_missing_directory_and_too_little_space_are_the_environments() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let cause = |dir: &Path, case: &Case| Bench::at(dir).prepare(case).map(|_| ()).expect_err("refused");
    let plain = case("read", "random", "io_uring", "buffered");
    let gone = cause(&dir.path().join("gone"), &plain);
    assert_eq!(gone.cause, Cause::Environment);
    assert!(gone.reason.contains("does not exist"), "{gone}");
    let full = cause(dir.path(), &plain.with_size("size", 1 << 60));
    assert_eq!(full.cause, Cause::Environment);
    assert!(full.reason.contains("needs 1.00 EiB") || full.reason.contains("needs 1 EiB"), "{full}");
}

#[test]
fn direct_io_in_memory_is_refused_by_the_file_systems_number() {
    if !Path::new("/dev/shm").is_dir() {
        return;
    }
    let why = Bench::at(Path::new("/dev/shm"))
        .prepare(&case("read", "random", "io_uring", "direct"))
        .map(|_| ())
        .expect_err("refused");
    assert_eq!(why.cause, Cause::NotHere);
}
