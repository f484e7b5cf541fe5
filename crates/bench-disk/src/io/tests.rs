use std::path::Path;

use super::*;
use crate::fact::{COUNT, DEEPEST_QUEUE, ENGINE, PAGE_CACHE, TRANSFER_RATE, VOLUME};
use crate::storage::Filled;
use plimsoll_bench_api::{Options, Prepared, WorkerCache};
use plimsoll_machine::fixture::mounted;
use plimsoll_machine::{Root, Storage};
use plimsoll_model::fixture::parse_group;
use plimsoll_model::sample::{FailureCause, Sample, SampleAmount};
use plimsoll_model::warning::Note;

fn machine() -> Machine {
    let mut machine = Machine::discover(&Root::live());
    machine.storage = None;
    machine
}

fn ids(lists: &str) -> Vec<String> {
    let candidates = DiskIo.cases(&machine(), &parse_group(lists)).expect("cases");
    candidates.iter().map(|candidate| candidate.case.to_string()).collect()
}

#[test]
fn the_default_cases_are_latency_rate_and_two_throughputs() {
    let tail = "threads=1/engine=io_uring/cache=direct";
    let expected = [
        "read/pattern=random/block=4K/depth=1",
        "read/pattern=random/block=4K/depth=32",
        "read/pattern=sequential/block=1M/depth=8",
        "write/pattern=sequential/block=1M/depth=8",
    ];
    assert_eq!(ids(""), expected.map(|queue| format!("disk.io/op={queue}/{tail}")));
}

#[test]
fn typed_lists_replace_the_defaults_and_no_case_comes_twice() {
    let typed = ids("op=write/pattern=random/block=4096,8192/depth=1/engine=psync/size=1M");
    let tail = "depth=1/size=1M/threads=1/engine=psync/cache=direct";
    let id = |block| format!("disk.io/op=write/pattern=random/block={block}/{tail}");
    assert_eq!(typed, ["4K", "8K"].map(id));
    assert_eq!(["block=8192", "pattern=random", "depth=1"].map(|lists| ids(lists).len()), [4, 4, 3]);
}

#[test]
fn what_no_machine_can_measure_is_told_by_parameter() {
    let wrong = "op=rewrite cache=none block=0 block=2G depth=0 depth=1025 threads=129 rate=1e10 rate=0.999 \
                 volume=0 size=512 op=read/read-share=101 op=read/sync=often";
    let refused = |lists: &str| DiskIo.cases(&machine(), &parse_group(lists)).expect_err(lists);
    for lists in wrong.split(' ') {
        let error = refused(lists);
        let (key, _) = lists.trim_start_matches("op=read/").split_once('=').unwrap();
        let name = error.trim_start_matches("--").strip_prefix(key);
        assert!(name.is_some_and(|rest| rest.starts_with([' ', '-'])), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
    let unused = refused("op=read/read-share=50");
    assert!(unused.starts_with("--read-share requires --op mixed"), "{unused}");
    assert!(refused("block=1G/depth=8").contains("buffers"), "8 GiB of buffers");
}

#[test]
fn the_headline_follows_block_and_depth() {
    let headline = |block, depth| {
        let case = Case::of("disk.io").with_size("block", block).with_count("depth", depth);
        let metrics = DiskIo.metrics(&case);
        let mut names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
        let first = names.remove(0);
        let order = ["throughput", "rate", "latency", "slat", "cpu", "depth"];
        assert_eq!(names[..5], order.iter().copied().filter(|name| *name != first).collect::<Vec<_>>());
        first
    };
    assert_eq!(headline(4096, 1), "latency");
    assert_eq!(headline(4096, 32), "rate");
    assert_eq!(headline(64 << 10, 8), "rate");
    assert_eq!(headline((64 << 10) + 512, 8), "throughput");
    assert_eq!(headline(1 << 20, 1), "throughput");
    let mixed: Case = "disk.io/block=4K@70+64K@30/depth=32".parse().expect("an id");
    assert_eq!(DiskIo.metrics(&mixed)[0].name, "rate");
}

#[test]
fn what_is_not_typed_follows_from_what_is() {
    let one = |lists: &str| ids(lists).remove(0);
    // Blocks below a sector cannot bypass the page cache.
    assert!(one("block=1").ends_with("engine=io_uring/cache=buffered"));
    assert!(one("block=1000").ends_with("cache=buffered"));
    assert!(one("engine=mmap").contains("/depth=1/threads=1/engine=mmap/cache=buffered"));
    assert!(one("engine=psync").contains("/depth=1/threads=1/engine=psync/cache=direct"));
    assert!(one("op=append").contains("op=append/pattern=sequential"));
    // The default depth would need 32 GiB of buffers.
    let large = ids("block=1G");
    assert!(large.iter().any(|id| id.contains("/block=1G/depth=4/")), "{large:?}");
    assert!(!large.iter().any(|id| id.contains("/depth=32/")), "{large:?}");
    let mixed = one("read-share=90");
    assert!(mixed.contains("op=mixed/read-share=90/pattern=random"), "{mixed}");
    assert!(one("op=mixed").contains("op=mixed/read-share=70/"));
    // Meaningless parameters are not part of a case.
    assert!(!one("sync=none").contains("sync"), "a read");
    for (typed, id) in [("none", None), ("each", Some("sync=each")), ("every 32", Some("sync=every:32"))] {
        let id_of = one(&format!("op=write/sync={typed}"));
        assert_eq!(id_of.split('/').find(|part| part.starts_with("sync")), id, "{id_of}");
    }
}

/// A thread without a start in a sample would hold it until one comes.
#[test]
fn each_thread_has_a_start_a_second_at_least() {
    let of = |rate, threads| {
        let id = format!("disk.io/block=4K/threads={threads}/rate={rate}/engine=psync");
        checked(&id.parse().expect("an id")).map(|_| ())
    };
    assert_eq!(of(64, 64), Ok(()));
    assert!(of(63, 64).is_err_and(|why| why.contains("63 over 64 threads")));
}

#[test]
fn what_cannot_go_together_is_refused() {
    for (lists, why) in [
        ("engine=mmap/cache=direct", "--cache buffered"),
        ("block=8/cache=direct", "multiple"),
        ("engine=mmap/op=append", "append is not supported with"),
        ("engine=io_uring+iopoll/cache=buffered", "requires --cache direct"),
        ("layout=shared/op=append", "--layout shared requires --op"),
        ("layout=shared/verify=on", "--verify and --layout shared are mutually exclusive"),
        ("layout=mine", "layout must be one of private, shared"),
        ("pattern=sequential-each/op=read", "--pattern sequential-each requires --op mixed"),
        ("align=1000/pattern=random", "--align must be a multiple of 1 MiB"),
        ("align=8K/block=4K/pattern=sequential", "--align requires --pattern random"),
    ] {
        let refused = DiskIo.cases(&machine(), &parse_group(lists)).expect_err(lists);
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn in_memory_direct_cases_are_skipped_and_buffered_ones_are_not() {
    let mut machine = machine();
    machine.storage = Some(Storage { file_system: Some(mounted("tmpfs")), ..Storage::default() });
    for candidate in DiskIo.cases(&machine, &parse_group("cache=direct,buffered")).expect("cases") {
        match candidate.feasible {
            Err(why) => {
                let said = (candidate.case.word("cache"), why.cause);
                assert_eq!(said, (Some("direct"), FailureCause::NotHere));
                assert!(why.reason.contains("tmpfs"), "{why}");
            }
            Ok(()) => assert_eq!(candidate.case.word("cache"), Some("buffered")),
        }
    }
}

struct Bench {
    machine: Machine,
    options: Options,
    keep: WorkerCache,
}

impl Bench {
    fn at(dir: &Path) -> Self {
        let options = Options { dir: dir.to_owned(), seed: 42, ..Options::default() };
        Bench { machine: machine(), options, keep: WorkerCache::default() }
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let cx = Context { machine: &self.machine, options: &self.options, keep: &self.keep };
        let candidate = Candidate::new(case.clone(), Ok(())).parsed(&checked(case).expect("a job"));
        DiskIo.prepare(case, &candidate.parsed, &cx)
    }
}

fn case(op: &str, pattern: &str, engine: &str, cache: &str) -> Case {
    let tail = format!("depth=4/size=8M/engine={engine}/cache={cache}");
    format!("disk.io/op={op}/pattern={pattern}/block=4K/{tail}").parse().expect("an id")
}

#[test]
fn every_combination_measures_verifies_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let bench = Bench::at(dir.path());
    for (op, pattern) in
        [("read", "random"), ("write", "random"), ("read", "sequential"), ("write", "sequential")]
    {
        for (engine, cache) in [("io_uring", "direct"), ("psync", "direct"), ("io_uring", "buffered")] {
            let case = case(op, pattern, engine, cache);
            let not_here = |why: CannotMeasure| assert_eq!(why.cause, FailureCause::NotHere, "{case}: {why}");
            let Ok(mut prepared) = bench.prepare(&case).map_err(not_here) else { continue };
            let sample = prepared.sample(SampleAmount::Work(100)).expect("sample");
            let value = |name: &str| sample.values.get(name).copied().unwrap_or(f64::NAN);
            assert!((value("throughput") / value("rate") / 4096.0 - 1.0).abs() < 1e-9);
            assert!((value("rate") * sample.elapsed - 100.0).abs() < 1e-6);
            assert!(value("latency") > 0.0 && value("depth") > 0.0 && value("cpu") >= 0.0);
            assert_eq!(sample.histograms[0].buckets.iter().map(|(_, count)| count).sum::<u64>(), 100);
            assert!(prepared.sample(SampleAmount::Seconds(0.001)).expect("sample").elapsed >= 0.001);
            let facts = prepared.verify().unwrap_or_else(|why| panic!("{case}: {why}"));
            let used = facts.achieved.get(&ENGINE).unwrap_or_default();
            let holds = used == engine || facts.warnings.iter().any(|w| w.code() == "engine-fell-back");
            assert!(holds, "{case}: {facts:?}");
            assert_eq!(sample.values.contains_key("slat"), used == "io_uring");
            if used == "psync" {
                let reported = |w: &Note| w.code() == "depth-not-reached" && w.to_string().contains("psync");
                assert!(facts.warnings.iter().any(reported), "{facts:?}");
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
    reading.sample(SampleAmount::Work(10)).expect("sample");
    reading.verify().expect("right");
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
    assert_eq!(gone.cause, FailureCause::Environment);
    assert!(gone.reason.contains("does not exist"), "{gone}");
    let full = cause(dir.path(), &plain.with_size("size", 1 << 60));
    assert_eq!(full.cause, FailureCause::Environment);
    assert!(full.reason.contains("needs 1.00 EiB") || full.reason.contains("needs 1 EiB"), "{full}");
}

#[test]
fn direct_io_in_memory_is_refused_before_a_file_is_made() {
    if !Path::new("/dev/shm").is_dir() {
        return;
    }
    let prepared = Bench::at(Path::new("/dev/shm")).prepare(&case("read", "random", "io_uring", "direct"));
    assert_eq!(prepared.map(|_| ()).expect_err("refused").cause, FailureCause::NotHere);
}

fn measured(id: &str, amount: SampleAmount) -> (Sample, Facts) {
    let case: Case = format!("disk.io/{id}").parse().expect("an id");
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut prepared = Bench::at(dir.path()).prepare(&case).expect("prepare");
    prepared.sample(SampleAmount::Seconds(0.001)).expect("warm-up");
    let sample = prepared.sample(amount).expect("sample");
    let facts = prepared.verify().unwrap_or_else(|why| panic!("{case}: {why}"));
    assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
    (sample, facts)
}

#[test]
fn buffered_cases_begin_with_the_file_in_the_page_cache() {
    let case = "op=read/pattern=random/block=4K/depth=1/size=16M/threads=1/engine=mmap/cache=buffered";
    let (_, facts) = measured(case, SampleAmount::Work(3));
    let share = facts.achieved.get(&PAGE_CACHE).expect("a share");
    assert!(share > 0.99, "{share}");
    let warning = |case: &str| {
        let (_, facts) = measured(case, SampleAmount::Work(3));
        facts.warnings.iter().find(|w| w.code() == "page-cache").expect("used").to_string()
    };
    assert!(warning(case).contains("--cache direct"));
    let holds = !warning(&case.replace("block=4K", "block=8")).contains("--cache direct");
    assert!(holds, "no sector is so small");
}

#[test]
fn a_direct_case_after_a_buffered_one_finds_no_page_of_it() {
    // Without direct I/O there is no such case.
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("temporary directory");
    let bench = Bench::at(dir.path());
    let share = |cache: &str| {
        let id = format!("disk.io/block=4K/size=16M/engine=psync/cache={cache}");
        let mut prepared = bench.prepare(&id.parse().expect("an id")).ok()?;
        prepared.sample(SampleAmount::Work(3)).expect("sample");
        prepared.verify().expect("right").achieved.get(&PAGE_CACHE)
    };
    assert!(share("buffered").is_some_and(|share| share > 0.99));
    assert!(share("direct").is_none_or(|share| share < 0.01));
}

#[test]
fn every_operation_pattern_and_engine_counts_and_is_right() {
    let tail = "depth=3/size=4M/threads=2/engine=io_uring/cache=buffered";
    for id in [
        "op=append/pattern=sequential/block=4K",
        "op=mixed/read-share=70/pattern=zipf/block=4K",
        "op=copy/pattern=random/block=64K",
        "op=write/pattern=strided/block=4K@70+64K@30",
        "op=read/pattern=backward/block=1M",
        "op=read/pattern=same/block=4K",
        "op=write/pattern=random/block=1",
        "op=read/pattern=random/block=8",
    ] {
        let (sample, facts) = measured(&format!("{id}/{tail}"), SampleAmount::Work(50));
        assert!((sample.values["rate"] * sample.elapsed - 100.0).abs() < 1e-6, "{id}: two threads, 50 each");
        assert!(sample.histograms.iter().all(|h| h.buckets.iter().map(|b| b.1).sum::<u64>() <= 100));
        assert!(facts.warnings.iter().any(|w| w.code() == "page-cache"), "{id}");
        if id.contains("copy") {
            let same = |name: &str| (sample.values[name] / sample.values["throughput"] - 1.0).abs() < 1e-9;
            assert!(same("read") && same("write"));
            assert!(sample.values["read-latency"] + sample.values["write-latency"] > 0.0);
        }
    }
    for engine in ["psync", "mmap", "io_uring+sqpoll"] {
        for sync in ["each", "every:3", "end"] {
            let id = format!("op=write/block=4K/size=4M/engine={engine}/cache=buffered/sync={sync}");
            let (sample, _) = measured(&id, SampleAmount::Work(7));
            assert_eq!(sample.values.contains_key("sync"), sync != "each", "{id}");
        }
    }
}

#[test]
fn a_fixed_amount_is_each_threads_or_all_threads() {
    let base = "op=read/pattern=random/block=4K/depth=2/size=4M/threads=3/engine=io_uring/cache=buffered";
    for (tail, all, asked) in
        [("count=50", 150.0, 50), ("count=50/scaling=strong", 50.0, 50), ("volume=40K", 30.0, 10)]
    {
        let (sample, facts) = measured(&format!("{base}/{tail}"), SampleAmount::Seconds(0.001));
        assert!((sample.values["rate"] * sample.elapsed - all).abs() < 1e-6, "{tail}");
        assert_eq!(facts.achieved.get(&COUNT), Some(f64::from(asked)), "{tail}");
        assert_eq!(facts.achieved.get(&VOLUME), Some(f64::from(asked) * 4096.0), "{tail}");
    }
}

#[test]
fn an_open_loop_reports_the_rate_that_it_reached() {
    let base = "op=read/pattern=random/block=4K/depth=4/size=4M/threads=2/engine=io_uring/cache=buffered";
    let (sample, facts) = measured(&format!("{base}/rate=2000/arrivals=even"), SampleAmount::Seconds(0.05));
    assert_eq!(sample.histograms[0].metric, "latency");
    assert!(facts.achieved.get(&TRANSFER_RATE).is_some_and(|rate| rate > 0.0));
    let (_, facts) = measured(&format!("{base}/rate=9e6"), SampleAmount::Seconds(0.01));
    assert!(facts.warnings.iter().any(|w| w.code() == "rate-not-held"), "{:?}", facts.warnings);
}

#[test]
fn a_search_ends_where_the_engine_does() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let tail = "depth=8/size=1M/threads=1/engine=psync/cache=buffered/latency-target=p99:60s";
    let case: Case = format!("disk.io/op=read/pattern=random/block=4K/{tail}").parse().expect("an id");
    let mut prepared = Bench::at(dir.path()).prepare(&case).expect("prepare");
    prepared.sample(SampleAmount::Seconds(0.001)).expect("search");
    let sample = prepared.sample(SampleAmount::Seconds(0.001)).expect("sample");
    assert!(sample.curve.iter().all(|point| point["depth"] == 1.0), "{:?}", sample.curve);
    let facts = prepared.verify().expect("right");
    assert_eq!(facts.achieved.get(&DEEPEST_QUEUE), Some(Some(1)));
    let reported =
        |w: &Note| w.code() == "depth-not-reached" && w.to_string().contains("depth 1 instead of 8: psync");
    assert!(facts.warnings.iter().any(reported), "{:?}", facts.warnings);

    assert!(ids("latency-target=p99=2ms")[0].contains("/depth=256/"));
    assert!(ids("latency-target=p99=2ms/engine=psync")[0].contains("/depth=1/"));
}

#[test]
fn what_job_files_ask_for_is_a_case() {
    let id = |lists| ids(lists).remove(0);
    assert!(id("layout=shared/threads=4").contains("/threads=4/layout=shared/"));
    assert!(!id("layout=private/threads=4").contains("layout"));
    assert!(id("op=write/sync=fsync 8").ends_with("/sync=fsync:8"));
    assert!(id("op=write/sync=o_sync").ends_with("/sync=o_sync"));
    assert!(id("cache=cold").contains("/cache=cold"));
    assert!(id("block=512@1+4K@1/align=4K/pattern=random").contains("/align=4K/"));
}
