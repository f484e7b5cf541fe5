use super::fact::{LEVEL, MEMORY_NODES, THREAD_BYTES, TOUCHED_BYTES, VARIANT};
use super::latency::{CYCLES, LOADS_PER_SECOND};
use super::*;
use crate::fixture::{
    GIB, KIB, MIB, group, in_context, machine, parse_group, this_machine, without_memory_on,
};
use plimsoll_bench_api::buffer::{PAGES, record_pages, reserve};
use plimsoll_bench_api::{Benchmark, Candidate, Parsed, PreparedCase};
use plimsoll_machine::fixture::Fixture;
use plimsoll_metal::buffer::Resident;
use plimsoll_model::job::{BlockJob, MemorySite, MemoryStream, PointerChase};
use plimsoll_model::sample::{FailureCause, SampleAmount};
use proptest::prelude::*;

fn ids(benchmark: &dyn Benchmark, machine: &Machine, group: &Group) -> Vec<String> {
    let candidates = benchmark.cases(machine, group).unwrap();
    candidates.iter().map(|candidate| candidate.case.id().to_string()).collect()
}

fn refused(candidates: &[Candidate]) -> Vec<&CannotMeasure> {
    candidates.iter().filter_map(|candidate| candidate.feasible.as_ref().err()).collect()
}

fn prepared(benchmark: &dyn Benchmark, case: &Case, machine: &Machine) -> PreparedCase {
    in_context(machine, |cx| benchmark.prepare(case, &parsed(case), cx))
}

fn parsed(case: &Case) -> Parsed {
    let candidate = Candidate::new(case.clone(), Ok(()));
    let candidate = match case.benchmark() {
        "memory.bandwidth" => candidate.parsed(&MemoryStream::of(case).unwrap()),
        "memory.block" => candidate.parsed(&BlockJob::of(case).unwrap()),
        _ => candidate.parsed(&PointerChase::of(case).unwrap()),
    };
    candidate.parsed
}

#[test]
fn each_array_over_all_threads_is_four_times_the_caches_of_their_cpus() {
    let zen4 = ids(&Bandwidth, &machine("firecracker-zen4"), &Group::default());
    assert_eq!(zen4.len(), 6);
    assert_eq!(zen4[0], "memory.bandwidth/op=read/size=132M/variant=best/pages=thp/threads=1");
    assert_eq!(zen4[5], "memory.bandwidth/op=triad/size=204M/variant=best/pages=thp/threads=2");
    let epyc = ids(&Bandwidth, &machine("epyc-7543-nps4"), &group(&[("op", &["copy"])]));
    assert_eq!(epyc[0], "memory.bandwidth/op=copy/size=260M/variant=best/pages=4k/threads=1");
}

#[test]
fn a_chase_has_half_of_each_cache_and_memory_by_the_lines_it_touches() {
    let zen4 = ids(&MemoryLatency, &machine("firecracker-zen4"), &group(&[("pages", &["4k"])]));
    let sizes = ["16K", "512K", "16M", "528M"];
    assert_eq!(zen4, sizes.map(|size| format!("memory.latency/size={size}/pages=4k")));
    let epyc = ids(&MemoryLatency, &machine("epyc-7543-nps4"), &group(&[("pages", &["thp"])]));
    assert_eq!(epyc.last().map(String::as_str), Some("memory.latency/size=520M/pages=thp"));
}

#[test]
fn small_pages_are_measured_beside_huge_ones_where_they_matter() {
    let ids = ids(&MemoryLatency, &machine("firecracker-zen4"), &Group::default());
    let wanted =
        [("16K", "thp"), ("512K", "thp"), ("16M", "thp"), ("528M", "thp"), ("16M", "4k"), ("528M", "4k")];
    assert_eq!(ids, wanted.map(|(size, pages)| format!("memory.latency/size={size}/pages={pages}")));
}

#[test]
fn several_chases_are_cases_of_their_own() {
    let machine = this_machine();
    let small = RequestedPages::small(&machine).word;
    let of = |chases: &str| parse_group(&format!("pages={small}/size=4K,1M/chases={chases}"));
    let found = MemoryLatency.cases(&machine, &of("1,10")).unwrap();
    let ids: Vec<String> = found.iter().map(|candidate| candidate.case.id().to_string()).collect();
    assert_eq!(ids[0], format!("memory.latency/size=4K/pages={small}"));
    assert_eq!(ids[3], format!("memory.latency/size=1M/pages={small}/chases=10"));
    let feasible: Vec<bool> = found.iter().map(|candidate| candidate.feasible.is_ok()).collect();
    assert_eq!(feasible, [true, false, true, true]);
    assert!(refused(&found)[0].reason.contains("at least 5K"));
    for wrong in ["0", "11"] {
        let why = MemoryLatency.cases(&machine, &of(wrong)).unwrap_err();
        assert!(why.contains("between 1 and 10"));
    }
    let mut prepared = prepared(&MemoryLatency, &found[3].case, &machine).unwrap();
    let sample = prepared.sample(SampleAmount::Seconds(0.01)).unwrap();
    let loads = sample.conditions.more.get(&LOADS_PER_SECOND).unwrap();
    assert!((loads * sample.values["latency"] - 10.0).abs() < 1e-6);
    prepared.verify().unwrap();
}

#[test]
fn unknown_caches_are_assumed_and_said() {
    let mut machine = machine("firecracker-zen4");
    machine.cpu.caches.clear();
    let both = ["memory.latency/size=1G/pages=thp", "memory.latency/size=1G/pages=4k"];
    assert_eq!(ids(&MemoryLatency, &machine, &Group::default()), both);
    assert!(ids(&Bandwidth, &machine, &Group::default())[0].contains("size=256M"));
    let mut facts = Facts::default();
    note_caches(&mut facts, &machine);
    assert_eq!(facts.warnings[0].code(), "caches-unknown");
}

#[test]
fn defaults_shrink_to_half_of_what_is_free_and_are_always_measured() {
    let mut machine = machine("firecracker-zen4");
    let one = group(&[("threads", &["1"])]);
    let triad = |machine: &Machine| Bandwidth.cases(machine, &one).unwrap().remove(2);
    for (available, wanted, level) in [
        (GIB, 396, AnsweringLevel::Memory),
        (385, 192, AnsweringLevel::CacheAndMemory(3)),
        (20, 8, AnsweringLevel::Cache(3)),
    ] {
        machine.memory.available_bytes = Some(if available == GIB { GIB } else { available * MIB });
        let candidate = triad(&machine);
        assert_eq!((candidate.case.number("size"), candidate.feasible.is_ok()), (Some(wanted * MIB), true));
        let stream = MemoryStream::of(&candidate.case).unwrap();
        assert_eq!(answers_stream(&machine, &stream), level, "so it is marked");
    }
    let chase = MemoryLatency.cases(&machine, &Group::default()).unwrap().pop().unwrap();
    assert_eq!((chase.case.number("size"), chase.feasible.is_ok()), (Some(8 * MIB), true));
}

#[test]
fn default_cases_can_be_measured_on_any_machine() {
    let mut machine = machine("epyc-7543-nps4");
    machine.memory.transparent_huge_pages = Some("always".to_owned());
    machine.cgroup.cpu_quota = None;
    let group = Group { budget: Some(42.0), ..Group::default() };
    for cpus in ["0", "0-63", "0-511"] {
        machine.cpu.allowed = cpus.parse().unwrap();
        for available in [256 * MIB, GIB, 4 * GIB, 2048 * GIB] {
            machine.memory.available_bytes = Some(available);
            for cache in [MIB, 32 * MIB, 480 * MIB, 2 * GIB] {
                for c in machine.cpu.caches.iter_mut().filter(|c| c.level == 3) {
                    c.size_bytes = Some(cache);
                }
                for benchmark in [&Bandwidth as &dyn Benchmark, &MemoryLatency] {
                    for Candidate { case, feasible, .. } in benchmark.cases(&machine, &group).unwrap() {
                        let each = case.number("size").unwrap();
                        let taken = rounded_to_pages(each, MemorySite::of(&case).pages).unwrap();
                        let fits = taken * case.threads() as u64 <= available / 2;
                        assert!(feasible.is_ok() && fits, "{case} of {available}");
                        assert!(each <= 600 * MIB, "{case}: too much to set up in time");
                    }
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_sum_before_it_is_allocated() {
    let mut machine = machine("firecracker-zen4");
    machine.memory.available_bytes = Some(GIB);
    let found = Bandwidth.cases(&machine, &group(&[("size", &["300M"]), ("threads", &["2", "3"])])).unwrap();
    let refused = refused(&found);
    assert_eq!(refused.len(), 3, "three operations, with three threads each");
    let wanted = "needs 3 × 300 MiB of memory, and only 896 MiB can be used: 1 GiB are available, of which 128 MiB stay free; \
                  use a smaller --size or fewer --threads";
    let is_wanted = |why: &&CannotMeasure| why.cause == FailureCause::Environment && why.reason == wanted;
    assert!(refused.iter().all(is_wanted), "{refused:?}");
    let candidates = MemoryLatency.cases(&machine, &group(&[("size", &["1G"])])).unwrap();
    assert!(self::refused(&candidates)[0].reason.starts_with("needs 1 × 1 GiB of memory"));
}

proptest! {
    #[test]
    fn no_sum_overflows(threads: u64, size: u64, available: u64) {
        let mut machine = Machine::discover(&plimsoll_machine::Root::at("/nonexistent"));
        machine.memory.available_bytes = Some(available);
        let fits = fits(&machine, threads, size, Pages::Thp).is_ok();
        let needed = u128::from(threads) * u128::from(size);
        if fits {
            prop_assert!(needed <= u128::from(available));
        } else {
            prop_assert!(needed + u128::from(threads) * u128::from(HUGE_PAGE) > u128::from(available - available.min(reserve(available))));
        }
    }
}

#[test]
fn wrong_values_are_named_with_what_is_right() {
    let machine = this_machine();
    let error = |benchmark: &dyn Benchmark, key, text| {
        benchmark.cases(&machine, &group(&[(key, &[text])])).unwrap_err()
    };
    assert!(error(&Bandwidth, "op", "stream").contains("one of read, write, copy"));
    assert!(error(&Bandwidth, "variant", "sse9").contains("--variant all --list"));
    assert!(error(&Bandwidth, "variant", "nt_ahead").contains("did you mean 'nt_ahead"));
    assert!(error(&Bandwidth, "threads", "0").contains("between 1"));
    assert!(error(&Bandwidth, "size", "8").contains("at least 4K"));
    assert!(error(&Bandwidth, "pages", "3m").contains("4k, thp, 2m or 1g"));
    assert!(error(&Bandwidth, "layout", "spread").contains("private, shared"));
    assert!(error(&MemoryLatency, "size", "0").contains("at least 1K"));
    assert!(error(&MemoryLatency, "pages", "huge").contains("4k, thp, 2m or 1g"));
}

#[test]
fn a_size_for_a_chase_alone_leaves_bandwidth_out() {
    let candidates = Bandwidth.cases(&this_machine(), &group(&[("size", &["2K"])])).unwrap();
    let refused = refused(&candidates);
    assert_eq!(refused.len(), candidates.len());
    assert!(refused.iter().all(|why| why.cause == FailureCause::NotHere));
    assert!(refused[0].reason.contains("must be at least 4K"));
}

#[test]
fn a_variant_goes_with_the_operations_that_have_it() {
    let machine = this_machine();
    let of = |variants| group(&[("variant", variants), ("threads", &["1"])]);
    assert_eq!(ids(&Bandwidth, &machine, &of(&["portable", "best"])).len(), 6);
    if std::env::consts::ARCH == "x86_64" {
        let candidates = Bandwidth.cases(&machine, &of(&["nt_avx512"])).unwrap();
        let ops: Vec<_> = candidates.iter().filter_map(|candidate| candidate.case.word("op")).collect();
        assert_eq!(ops, ["copy", "triad"], "reading has no stores");
        let available = plimsoll_metal::isa::Isa::Avx512.available().is_ok();
        assert!(candidates.iter().all(|candidate| candidate.feasible.is_ok() == available));
    }
}

#[test]
fn every_operation_is_measured_and_verified() {
    let machine = this_machine();
    for op in ["read", "write", "copy", "scale", "add", "triad", "update"] {
        let case = format!("memory.bandwidth/op={op}/size=1M/threads=2").parse().unwrap();
        let mut prepared = prepared(&Bandwidth, &case, &machine).unwrap();
        let sample = prepared.sample(SampleAmount::Work(10 * MIB)).unwrap();
        let again = prepared.sample(SampleAmount::Work(sample.work.unwrap())).unwrap();
        assert_eq!(again.work, sample.work, "{op}: an amount repeats exactly");
        assert!(sample.values["bandwidth"] > 0.0, "{op}");
        assert!(sample.values["bandwidth"] <= sample.values["bus_bandwidth"], "{op}");
        let facts = prepared.verify().unwrap();
        assert!(facts.achieved.get(&VARIANT).is_some());
        assert!(facts.achieved.get(&LEVEL).is_some());
        let size = facts.achieved.get(&THREAD_BYTES).unwrap();
        assert!(size <= MIB && size > MIB - 16 * KIB, "{op}: {size}");
    }
}

#[test]
fn all_variants_are_listed_and_best_is_one_case() {
    let machine = this_machine();
    let of = |lists| Bandwidth.cases(&machine, &parse_group(lists)).unwrap();
    assert_eq!(of("variant=best/threads=1/op=copy").len(), 1);
    let all = of("variant=all/threads=1/op=copy");
    let available: Vec<String> = plimsoll_metal::stream::available(plimsoll_metal::stream::StreamOp::Copy)
        .map(|kernel| kernel.variant())
        .collect();
    let names: Vec<&str> = all.iter().filter_map(|candidate| candidate.case.word("variant")).collect();
    assert_eq!(names, available);
    assert!(all.iter().all(|candidate| candidate.feasible.is_ok()));
}

#[test]
fn a_sweep_is_every_power_of_two_to_eight_times_the_last_level_cache() {
    let machine = machine("firecracker-zen4");
    let sizes = |benchmark: &dyn Benchmark, lists| -> Vec<u64> {
        let candidates = benchmark.cases(&machine, &parse_group(lists)).unwrap();
        candidates.iter().filter_map(|candidate| candidate.case.number("size")).collect()
    };
    let wanted: Vec<u64> = (12..=28).map(|power| 1 << power).collect();
    assert_eq!(sizes(&MemoryLatency, "size=sweep/pages=4k"), wanted);
    assert_eq!(sizes(&Bandwidth, "size=sweep/pages=4k/op=read/threads=1"), wanted);
    let found = sizes(&MemoryLatency, "size=sweep,5G,8K/pages=4k");
    assert_eq!((found.len(), found.last()), (wanted.len() + 1, Some(&(5 * GIB))));
}

#[test]
fn a_shared_array_has_every_threads_part_in_it() {
    let machine = this_machine();
    for op in ["read", "copy", "triad", "update"] {
        let case = format!("memory.bandwidth/op={op}/size=1M/layout=shared/threads=3").parse().unwrap();
        let mut prepared = prepared(&Bandwidth, &case, &machine).unwrap();
        let sample = prepared.sample(SampleAmount::Work(30 * MIB)).unwrap();
        assert!(sample.values["bandwidth"] > 0.0, "{op}");
        let size = prepared.verify().unwrap().achieved.get(&THREAD_BYTES).unwrap();
        assert!(size <= MIB && size > MIB - 16 * KIB, "{op}: {size}");
    }
    let ids = ids(&Bandwidth, &machine, &parse_group("layout=private,shared/op=read/threads=2"));
    assert_eq!(ids.len(), 2);
    assert!(!ids[0].contains("layout") && ids[1].contains("/layout=shared/threads=2"), "{ids:?}");
}

#[test]
fn reserved_pages_that_are_not_there_are_refused_with_the_number_and_the_rest_goes_on() {
    let mut machine = machine("firecracker-zen4");
    let group = group(&[("pages", &["thp", "2m", "1g"]), ("size", &["100M"])]);
    let feasible = |machine: &Machine| -> Vec<bool> {
        let candidates = MemoryLatency.cases(machine, &group).unwrap();
        candidates.iter().map(|candidate| candidate.feasible.is_ok()).collect()
    };
    machine.memory.huge_pages.clear();
    assert_eq!(feasible(&machine), [true, false, false]);
    let candidates = MemoryLatency.cases(&machine, &group).unwrap();
    let why = refused(&candidates);
    assert_eq!(why[0].cause, FailureCause::NotHere);
    let wanted = "needs 50 reserved pages of 2 MiB, and 0 are free \
                  (/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages); use --pages thp";
    assert_eq!(why[0].reason, wanted);
    assert!(why[1].reason.starts_with("needs 1 reserved page of 1 GiB"));
    let pool = |size_bytes, free| HugePages { size_bytes, total: free, free };
    machine.memory.huge_pages = vec![pool(2 * MIB, Some(50)), pool(GIB, None)];
    assert_eq!(feasible(&machine), [true, true, false]);
    machine.memory.huge_pages = vec![pool(2 * MIB, Some(49)), pool(GIB, Some(1))];
    assert_eq!(feasible(&machine), [true, false, true]);
}

#[test]
fn a_named_variant_is_the_one_that_runs() {
    let machine = this_machine();
    let case = Case::of("memory.bandwidth").with_word("op", "copy").with_size("size", MIB);
    let portable = case.clone().with_word("variant", "portable");
    let mut prepared_portable = prepared(&Bandwidth, &portable, &machine).unwrap();
    prepared_portable.sample(SampleAmount::Work(10 * MIB)).unwrap();
    let facts = prepared_portable.verify().unwrap();
    assert_eq!(facts.achieved.get(&VARIANT).as_deref(), Some("portable"));
    let unknown = prepared(&Bandwidth, &case.with_word("variant", "magic"), &machine).err().unwrap();
    assert_eq!(unknown.cause, FailureCause::NotHere);
}

#[test]
fn a_chase_is_measured_and_verified() {
    let machine = this_machine();
    for (size, pages) in [(16 * KIB, RequestedPages::small(&this_machine()).word), (3 * MIB, "thp")] {
        let case = Case::of("memory.latency").with_size("size", size).with_word("pages", pages);
        let mut prepared = prepared(&MemoryLatency, &case, &machine).unwrap();
        let sample = prepared.sample(SampleAmount::Seconds(0.01)).unwrap();
        assert!(sample.values["latency"] > 0.0 && sample.work.unwrap() > 0);
        let cycles = sample.conditions.more.get(&CYCLES);
        assert_eq!(cycles.is_some(), sample.conditions.clock_hz.is_some());
        let facts = prepared.verify().unwrap();
        assert!(facts.achieved.get(&TOUCHED_BYTES).unwrap() <= size);
    }
}

#[test]
fn memory_that_cannot_be_had_is_said_and_nothing_breaks() {
    let machine = this_machine();
    let case = Case::of("memory.bandwidth").with_word("op", "read").with_size("size", 1 << 60);
    let why = prepared(&Bandwidth, &case, &machine).err().unwrap();
    assert!(why.cause == FailureCause::Environment && why.reason.contains("choose a smaller size"), "{why}");
    let case = Case::of("memory.latency").with_size("size", 1 << 39);
    let why = prepared(&MemoryLatency, &case, &machine).err().unwrap();
    assert_eq!(why.cause, FailureCause::Environment, "{why}");
}

#[test]
fn pages_other_than_asked_for_are_told() {
    let small = RequestedPages::small(&this_machine()).word.to_owned();
    let reported = |asked, bytes, huge_bytes| {
        let mut facts = Facts::default();
        record_pages(&mut facts, asked, &[Resident { bytes, huge_bytes, reserved_bytes: 0 }]);
        let codes: Vec<_> = facts.warnings.iter().map(|warning| warning.code().to_owned()).collect();
        (facts.achieved.get(&PAGES), codes)
    };
    assert_eq!(reported(Pages::Thp, 4 * MIB, 4 * MIB), (Some("thp".to_owned()), vec![]));
    assert_eq!(reported(Pages::Small, 4 * MIB, 0), (Some(small.clone()), vec![]));
    let differs = vec!["pages-differ".to_owned()];
    assert_eq!(reported(Pages::Thp, 4 * MIB, 0), (Some(small.clone()), differs.clone()));
    let wanted = (Some(format!("50 % thp, the rest {small}")), differs);
    assert_eq!(reported(Pages::Thp, 4 * MIB, 2 * MIB), wanted);
    assert_eq!(reported(Pages::Thp, 0, 0), (None, vec![]));
}

/// AArch64 kernels have pages of 4, 16 or 64 KiB, and transparent huge pages of 2, 32 or 512 MiB.
#[test]
fn pages_have_the_name_of_what_the_kernel_has() {
    for (huge, own, usual) in [(2 << 20, "4k", "thp"), (32 << 20, "16k", "16k"), (512 << 20, "64k", "64k")] {
        let fixture = Fixture::open("graviton2-container").unwrap();
        let thp = "sys/kernel/mm/transparent_hugepage";
        fixture.write(&format!("{thp}/enabled"), b"[always] madvise never\n").unwrap();
        fixture.write(&format!("{thp}/hpage_pmd_size"), format!("{huge}\n").as_bytes()).unwrap();
        let machine = fixture.machine();
        let pages = |group: &Group| pages(&machine, group).map(|found| found[0].word);
        assert_eq!(pages(&Group::default()), Ok(usual), "{huge}");
        assert_eq!(pages(&group(&[("pages", &[own])])), Ok(own));
        let other = if own == "4k" { "64k" } else { "4k" };
        for benchmark in [&Bandwidth as &dyn Benchmark, &MemoryLatency] {
            let cases = benchmark.cases(&machine, &group(&[("pages", &[other])])).unwrap();
            let all = refused(&cases);
            assert_eq!(all.len(), cases.len());
            assert!(all[0].reason.contains(&format!("pages are {own}, not {other}")), "{}", all[0]);
        }
    }
}

#[test]
fn threads_of_a_node_without_memory_are_told_that_they_use_anothers() {
    let machine = without_memory_on(0);
    let [own, other] = [0, 1].map(|node| machine.memory.nodes[node].cpus.iter().next());
    let remarks = |cpus: &[Option<usize>]| {
        let mut facts = Facts::default();
        note_nodes(&mut facts, &machine, None, &cpus.iter().flatten().copied().collect::<Vec<usize>>());
        facts.warnings.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    assert_eq!(remarks(&[other]), [""; 0]);
    let reported = remarks(&[other, own]);
    assert!(reported.len() == 1 && reported[0].contains("node 0 of CPU 0 has no memory"), "{reported:?}");
}

#[test]
fn a_chase_stays_within_the_group_asked_for() {
    let machine = this_machine();
    let small = RequestedPages::small(&machine).word;
    let of = |groups: &str| parse_group(&format!("group={groups}/pages={small}/size=4M"));
    let found = MemoryLatency.cases(&machine, &of("256K,1G")).unwrap();
    let ids: Vec<String> = found.iter().map(|candidate| candidate.case.id().to_string()).collect();
    assert_eq!(ids, ["", "/group=1G"].map(|rest| format!("memory.latency/size=4M/pages={small}{rest}")));
    for candidate in found {
        let mut prepared = prepared(&MemoryLatency, &candidate.case, &machine).unwrap();
        assert!(prepared.sample(SampleAmount::Seconds(0.01)).unwrap().values["latency"] > 0.0);
        prepared.verify().unwrap();
    }
    for wrong in ["0", "100", "5000"] {
        let why = MemoryLatency.cases(&machine, &of(&format!("{wrong},4K"))).unwrap_err();
        assert!(why.starts_with("group must be a multiple of 4K"), "{why}");
    }
}

#[test]
fn memory_of_a_node_is_taken_from_it() {
    let machine = this_machine();
    let refused = |e: &CannotMeasure| {
        e.reason.contains("Operation not permitted") || e.reason.contains("not implemented")
    };
    if affinity::allocate_on_node(Some(0), || ()).is_err_and(|e| refused(&e))
        || machine.memory.nodes.iter().all(|node| node.id != 0)
    {
        use std::io::Write;
        writeln!(std::io::stderr(), "SKIPPED the memory of a node: no node 0 with memory").unwrap();
        return;
    }
    for id in [
        "memory.latency/size=1M",
        "memory.bandwidth/op=copy/size=1M/threads=2",
        "memory.bandwidth/op=read/size=1M/layout=shared",
        "memory.block/block=64/size=1M/threads=1",
    ] {
        let case: Case = id.parse().unwrap();
        let benchmark = SUBSYSTEM.find(case.benchmark()).unwrap();
        let mut there = prepared(benchmark, &case.clone().with_count("node", 0), &machine).unwrap();
        assert!(there.sample(SampleAmount::Seconds(0.01)).unwrap().elapsed > 0.0);
        let facts = there.verify().unwrap();
        let elsewhere = facts.warnings.iter().find(|warning| warning.code() == "pages-elsewhere");
        assert_eq!(elsewhere.map(ToString::to_string), None, "{case}");
        assert!(facts.achieved.get(&MEMORY_NODES).unwrap().iter().all(|node| *node == 0), "{case}");
        let nowhere = prepared(benchmark, &case.clone().with_count("node", 999), &machine);
        assert!(nowhere.err().unwrap().reason.contains("NUMA node 999"), "{case}");
    }
}
