use std::collections::{BTreeMap, BTreeSet};

use super::*;
use plimsoll_command::cli::{Common, Measurable};
use plimsoll_command::resolve;
use plimsoll_machine::fixture::Fixture;
use plimsoll_model::case::CaseGlob;

/// Returns the cases of a report's plan, each with its stated number of samples.
fn planned(name: &str) -> Vec<(Case, Option<u32>)> {
    let plan = resolve::plan(&Measurable::Plan(name.to_owned()), &Common::default()).unwrap();
    let machine = Fixture::open("firecracker-zen4").unwrap().machine();
    let planned = resolve::planned(&plan, &machine).unwrap().into_iter();
    planned.map(|one| (one.candidate.case, one.sampling.samples)).collect()
}

fn cases(name: &str) -> Vec<Case> {
    planned(name).into_iter().map(|(case, _)| case).collect()
}

const CONDITIONS: &[&str] = &["tcp_retransmits", "tcp_cwnd", "near_cpu", "far_cpu"];

#[test]
fn every_row_is_matched_to_a_case_or_says_why_not() {
    for (name, rows, matched) in [
        ("ec2-t2micro", 233, 225),
        ("chameleon-baremetal", 127, 117),
        ("chameleon-kvm", 349, 323),
        ("hyperion-prometheus", 622, 622),
        ("ec2-t2micro-java", 406, 401),
    ] {
        let baseline = find(name).unwrap();
        let cases = cases(name);
        assert_eq!(baseline.figures.len(), rows, "{name}");
        assert_eq!(baseline.figures.iter().filter(|f| f.matched.is_some()).count(), matched, "{name}");
        for figure in &baseline.figures {
            let Some(matched) = &figure.matched else {
                assert!(figure.unmatched.len() > 10, "{name}: {figure:?}");
                continue;
            };
            assert!(figure.unmatched.is_empty() || figure.base.is_none(), "{name}: {figure:?}");
            let case = cases.iter().find(|case| matched.measures_same(case, 1.0));
            let case = case.unwrap_or_else(|| panic!("{name}: no case for {} of {figure:?}", matched.case));
            if CONDITIONS.contains(&matched.metric) {
                continue;
            }
            let metrics = plimsoll_bench::find(case.benchmark()).unwrap().metrics(case);
            let metric = metrics.iter().find(|metric| metric.name == matched.metric);
            let metric = metric.unwrap_or_else(|| panic!("{name}: {case} has no {}", matched.metric));
            let unit = figure.base.map_or(metric.unit, |(_, unit)| unit);
            assert!(unit == metric.unit || matched.is_derived(), "{name}: {figure:?}");
        }
    }
}

#[test]
fn every_point_of_a_design_has_a_case_of_its_own() {
    for name in names() {
        let (baseline, cases) = (find(name).unwrap(), cases(name));
        let mut taken: BTreeMap<String, BTreeSet<[&str; 5]>> = BTreeMap::new();
        for figure in baseline.figures.iter().filter(|f| f.is_own_point()) {
            let matched = figure.matched.as_ref().unwrap();
            let point = [figure.operation, figure.pattern, figure.precision, figure.bytes, figure.threads];
            let case = cases.iter().find(|case| matched.measures_same(case, 1.0)).unwrap();
            taken.entry(format!("{case} {}", matched.metric)).or_default().insert(point);
        }
        for (case, points) in taken {
            assert_eq!(points.len(), 1, "{name}: {case} stands for {points:?}");
        }
    }
}

#[test]
fn what_the_notes_doubt_has_its_verdict_and_is_never_divided_by() {
    let of = |name: &str, id: &str, metric: &str| {
        let case: Case = id.parse().unwrap();
        let figure = find(name).unwrap().own_figure(&case, metric).cloned();
        figure.unwrap_or_else(|| panic!("{name}: nothing for {id}"))
    };
    let impossible = [
        ("hyperion-prometheus", "network.tcp/message=32K/streams=4", "goodput"),
        ("hyperion-prometheus", "network.latency/protocol=udp/message=1/streams=1", "rtt"),
        ("hyperion-prometheus", "network.latency/protocol=tcp/message=1/streams=1", "rtt"),
        ("hyperion-prometheus", "disk.io/op=read/pattern=random/block=1K/threads=1", "rate"),
        ("chameleon-baremetal", "disk.io/op=read/pattern=random/block=8K/threads=1", "throughput"),
        ("ec2-t2micro", "disk.io/op=write/pattern=random/block=1M/threads=1", "throughput"),
        ("ec2-t2micro", "disk.io/op=write/pattern=sequential/block=1/threads=1", "throughput"),
        ("ec2-t2micro", "network.tcp/message=64K/streams=1", "goodput"),
    ];
    let not_comparable = [
        ("chameleon-kvm", "cpu.peak/op=fma/type=f64/threads=8/scaling=strong", "rate"),
        ("chameleon-kvm", "memory.block/op=read-write/pattern=sequential/block=80M/threads=8", "throughput"),
        ("chameleon-kvm", "network.latency/protocol=tcp/message=8K/streams=1", "rtt"),
        ("chameleon-baremetal", "memory.block/op=read/pattern=random/block=8/threads=1", "latency"),
    ];
    let impossible = impossible.map(|one| ("impossible", one));
    let not_comparable = not_comparable.map(|one| ("not comparable", one));
    for (verdict, (name, id, metric)) in impossible.into_iter().chain(not_comparable) {
        let figure = of(name, id, metric);
        assert_eq!(figure.doubt.map(|doubt| doubt.verdict), Some(verdict), "{name} {id} {metric}");
        assert_eq!(figure.believed(), None);
        assert_eq!(find(name).unwrap().samples(&id.parse().unwrap(), metric), Vec::<f64>::new());
    }
    let sound = of("hyperion-prometheus", "cpu.peak/op=add/type=i8/threads=1/scaling=strong", "rate");
    assert_eq!((sound.value, sound.unit, sound.believed()), ("2.183406", "GigaOPS", Some(2.183406e9)));
    let t2: Case = "cpu.peak/op=add/type=i32/threads=1/scaling=strong".parse().unwrap();
    assert_eq!(find("ec2-t2micro").unwrap().samples(&t2, "rate").len(), 3);
}

#[test]
fn a_selector_takes_further_parameters_and_no_other_values() {
    let counted = CountedAs::Per(1.0);
    let matched = |selector: &str| Matched { case: selector.parse().unwrap(), metric: "rate", counted };
    let case: Case =
        "cpu.peak/op=add/type=i8/isa=avx512/threads=2/work=1000000000000/scaling=strong".parse().unwrap();
    assert!(matched("cpu.peak/op=add/threads=2").measures_same(&case, 1.0));
    assert!(!matched("cpu.peak/op=add/threads=1").measures_same(&case, 1.0));
    assert!(!matched("cpu.peak/op=add/affinity=compact").measures_same(&case, 1.0));
    assert!(!matched("cpu.linpack").measures_same(&case, 1.0));
}

#[test]
fn all_names_are_built_in_plans() {
    let plans = plimsoll_model::plan::built_in::names();
    assert!(names().iter().all(|name| plans.contains(name)));
    assert!(find("hyperion").is_none());
}

#[test]
fn a_report_is_a_run_of_the_same_cases_without_what_cannot_be_true() {
    use plimsoll_result::fixture;
    let sound = "cpu.peak/op=add/type=i8/isa=avx512/threads=1/work=1000000000/scaling=strong";
    let goodput = fixture::metric_of("goodput", Unit::BitPerSecond, vec![4e10]);
    let past = fixture::of_metric("network.tcp/message=32K/streams=4", goodput);
    let here = fixture::of_metric(sound, fixture::metric_of("rate", Unit::OpPerSecond, vec![4e11]));
    let like = Run { measurements: vec![here, past], ..fixture::run() };
    let run = find("hyperion-prometheus").unwrap().as_run(&like);
    assert_eq!(run.measurements.len(), 1);
    assert_eq!(run.measurements[0].case.to_string(), sound);
    assert_eq!(run.measurements[0].metrics[0].samples, [2.183406e9]);
    assert_eq!(run.machine.host.as_deref(), Some("Hyperion, disk: Prometheus"));
}

/// Cases per experiment, from the designs: operations × blocks × threads.
const EXPERIMENTS: &[(&str, &str, usize)] = &[
    ("ec2-t2micro", "cpu.peak/op=add/type=i32*scaling=strong", 3),
    ("ec2-t2micro", "cpu.peak/op=fma/type=f64*scaling=strong", 3),
    ("ec2-t2micro", "cpu.peak/op=mix/type=f64*scaling=strong", 3),
    ("ec2-t2micro", "cpu.peak/*/threads=4", 3),
    ("ec2-t2micro", "cpu.linpack/*", 4),
    ("ec2-t2micro", "disk.io/*", 4 * 3 * 2),
    ("ec2-t2micro", "network.tcp/*scaling=strong", 3 * 2),
    ("ec2-t2micro", "network.udp/*scaling=strong", 3 * 2),
    ("ec2-t2micro", "network.{tcp,udp}/message={128K,8K}/*", 2),
    ("chameleon-kvm", "network.{tcp,udp}/message={128K,1470}/*", 2),
    ("ec2-t2micro", "network.latency/protocol={tcp,udp}/*", 2 * 3 * 2),
    ("chameleon-baremetal", "cpu.peak/op={add,fma}/*", 2 * 4),
    ("chameleon-baremetal", "memory.block/*/block={8K,8M,80M}/*", 3 * 3 * 4),
    ("chameleon-baremetal", "memory.block/*/block=8/*", 2 * 4),
    ("chameleon-baremetal", "disk.io/*/block={8K,8M,80M}/*", 3 * 3 * 4),
    ("chameleon-baremetal", "disk.io/*/block=8/*", 2 * 4),
    ("chameleon-baremetal", "network.{tcp,udp}/*scaling=strong", 2 * 4),
    ("chameleon-baremetal", "network.latency/protocol={tcp,udp}/*", 2 * 4),
    ("chameleon-kvm", "cpu.peak/op={add,fma}/*", 2 * 4),
    ("chameleon-kvm", "cpu.linpack/n=2000/*/threads=2", 1),
    ("chameleon-kvm", "memory.block/*/block={8K,8M,80M}/*", 3 * 3 * 4),
    ("chameleon-kvm", "memory.block/*/block=8/*", 3 * 4),
    ("chameleon-kvm", "disk.io/*/block={8,8K,8M,80M}/*", 3 * 4 * 4),
    ("chameleon-kvm", "disk.io/*/block=64K/*", 9),
    ("chameleon-kvm", "network.{tcp,udp}/*scaling=strong", 2 * 4),
    ("chameleon-kvm", "network.latency/*/message=8K/*", 2 * 4),
    ("hyperion-prometheus", "cpu.peak/op={add,fma}/*", 4 * 3),
    ("hyperion-prometheus", "cpu.linpack/*", 3),
    ("hyperion-prometheus", "memory.block/*/block={1K,1M,10M}/*volume=100G*", 2 * 3 * 3),
    ("hyperion-prometheus", "memory.block/*/block=1/*count=100000000*", 2 * 3),
    ("hyperion-prometheus", "disk.io/*/block={1M,10M,100M}/*size=10G*volume=10G*", 4 * 3 * 3),
    ("hyperion-prometheus", "disk.io/*/block=1K/*count=1000000*", 2 * 8),
    ("hyperion-prometheus", "network.{tcp,udp}/message={1K,32K}/*volume=1G/scaling=strong", 2 * 2 * 4),
    ("hyperion-prometheus", "network.latency/protocol={tcp,udp}/message=1/*count=1000000*strong", 2 * 4),
    ("ec2-t2micro-java", "cpu.peak/op={add,fma}/*scaling=strong", 2 * 3),
    ("ec2-t2micro-java", "cpu.peak/*/threads=4", 3),
    ("ec2-t2micro-java", "disk.io/*", 4 * 3 * 2),
    ("ec2-t2micro-java", "network.tcp/message={1,1K,1M}/*count=1000/scaling=strong", 3 * 2),
    ("ec2-t2micro-java", "network.udp/message={1,1K,65507}/*", 3 * 2),
];

#[test]
fn no_point_of_any_experiment_is_missing() {
    for (name, glob, count) in EXPERIMENTS {
        let glob = CaseGlob::parse(glob).unwrap();
        let cases = cases(name);
        let found: Vec<&Case> = cases.iter().filter(|case| glob.matches(case.id().as_str())).collect();
        assert_eq!(found.len(), *count, "{name} {}: {found:#?}", glob.text);
    }
}

#[test]
fn round_trips_come_after_the_echoes_that_are_their_limit() {
    for report in names() {
        let cases = cases(report);
        let first = |protocol: &str| {
            let begin = format!("network.latency/protocol={protocol}");
            cases.iter().position(|case| case.id().as_str().starts_with(&begin))
        };
        assert!(first("icmp").is_some() && first("icmp") < first("tcp").min(first("udp")), "{report}");
    }
}

#[test]
fn stated_numbers_of_samples_are_taken() {
    let samples = |name: &str, part: &str| -> Vec<Option<u32>> {
        let all = planned(name).into_iter().filter(|(case, _)| case.to_string().contains(part));
        let mut found: Vec<Option<u32>> = all.map(|(_, samples)| samples).collect();
        found.dedup();
        found
    };
    assert_eq!(samples("ec2-t2micro", "scaling=strong"), [Some(3)]);
    assert_eq!(samples("ec2-t2micro", "cpu.linpack"), [Some(4), Some(2)]);
    assert_eq!(samples("ec2-t2micro-java", "scaling=strong"), [Some(3)]);
    for name in ["ec2-t2micro", "ec2-t2micro-java"] {
        let plan = plimsoll_model::plan::built_in::find(name).unwrap().text;
        assert_eq!(plan.matches("series = 600\nsample-time = \"1s\"").count(), 2, "{name}");
    }
    assert_eq!(samples("chameleon-kvm", "cpu.linpack"), [Some(20)]);
    assert_eq!(samples("hyperion-prometheus", "disk.io"), [Some(1)]);
    assert_eq!(samples("hyperion-prometheus", "volume=1G/scaling=strong"), [Some(100)]);
}

#[test]
fn a_number_of_the_text_alone_is_neither_impossible_nor_not_comparable() {
    let report = find("ec2-t2micro").unwrap();
    let linpack = report.figures.iter().find(|f| f.value == "30.47").unwrap();
    assert_eq!(linpack.doubt.map(|doubt| doubt.verdict), Some("in no table"));
    let no_unit = find("chameleon-baremetal").unwrap();
    let no_unit = no_unit.figures.iter().filter(|f| f.metric == "latency" && f.unit.is_empty());
    let verdicts: Vec<Option<&str>> = no_unit.map(|f| f.doubt.map(|doubt| doubt.verdict)).collect();
    assert_eq!(verdicts, [Some("not comparable"); 24], "eight latencies of memory, disk and network each");
}

#[test]
fn every_doubt_is_one_of_the_list_and_every_one_of_the_list_is_had() {
    let numbers = REPORTS.iter().flat_map(|[.., numbers]| rows::<21>(numbers));
    let named: BTreeSet<&str> = numbers.map(|columns| columns[20]).filter(|name| !name.is_empty()).collect();
    let listed: BTreeSet<&str> = rows::<3>(DOUBTS).map(|[name, ..]| name).collect();
    assert_eq!(named, listed);
    assert!(listed.into_iter().all(|name| doubt(name).is_some()));
    let figures = || names().into_iter().flat_map(|name| find(name).unwrap().figures);
    let doubted = |wanted: &str| figures().filter(|f| f.doubt.is_some_and(|d| d.verdict == wanted)).count();
    assert_eq!(["impossible", "not comparable", "in no table"].map(doubted), [634, 173, 5]);
}

#[test]
fn a_time_for_each_operation_of_all_threads_is_ours_by_their_number() {
    let case: Case = "memory.block/op=read-write/pattern=random/block=1/threads=4".parse().unwrap();
    let report = find("hyperion-prometheus").unwrap();
    let figure = report.own_figure(&case, "latency").unwrap();
    let matched = figure.matched.as_ref().unwrap();
    assert_eq!((figure.value, matched.counted), ("0.033241", CountedAs::Per(4.0)));
    assert!((figure.believed().unwrap() - 132.964e-9).abs() < 1e-15);
    assert!((matched.as_published(132.964e-9) - 33.241e-9).abs() < 1e-15);
    let is_theory = |f: &&PublishedFigure| {
        (f.source, f.metric) == ("theoretical", "latency")
            && f.matched.as_ref().is_some_and(|matched| matched.measures_same(&case, 1.0))
    };
    let theory = report.figures.iter().find(is_theory).unwrap();
    assert_eq!(theory.matched.as_ref().unwrap().counted, CountedAs::Per(1.0), "a limit is of one access");
}

#[test]
fn amounts_and_times_follow_from_rates() {
    let report = find("chameleon-kvm").unwrap();
    let of = |pattern: &str, operation: &str, metric: &str| {
        let is = |f: &&PublishedFigure| (f.pattern, f.operation, f.metric) == (pattern, operation, metric);
        let figure = report.figures.iter().find(is).unwrap();
        (figure, figure.matched.as_ref().unwrap())
    };
    let (_, second) = of("iperf3;client;3-4s", "tcp", "transfer");
    assert_eq!((second.metric, second.as_published(8e9)), ("goodput", 1e9));
    let (_, ten) = of("iperf2;server;total", "udp", "datagrams");
    assert_eq!((ten.metric, ten.as_published(90.0)), ("messages", 900.0));
    let (time, stream) = of("run=chameleon", "triad", "time-min");
    assert_eq!((stream.metric, stream.as_published(24e9)), ("bandwidth", 0.01));
    assert_eq!(time.as_ours(), Some(240e6 / 0.020082));
    let (window, windows) = of("iperf3;client;all-intervals", "tcp", "congestion-window");
    assert_eq!((windows.metric, window.base), ("tcp_cwnd", Some((3.25 * 1_048_576.0, Unit::Byte))));
}

#[test]
fn datagrams_of_a_round_trip_are_not_those_of_a_stream() {
    for name in ["ec2-t2micro", "ec2-t2micro-java"] {
        let report = find(name).unwrap();
        let trip: Case = "network.latency/protocol=udp/message=1/streams=2".parse().unwrap();
        let stream: Case = "network.udp/message=1/streams=2".parse().unwrap();
        assert_eq!(report.own_figure(&trip, "goodput").unwrap().metric, "throughput");
        assert!(report.own_figure(&stream, "goodput").is_none());
    }
}

#[test]
fn each_limit_of_a_report_has_its_derivation() {
    for name in names() {
        let report = find(name).unwrap();
        for limit in report.figures.iter().filter(|figure| figure.source == "theoretical") {
            let text = report.derivation(limit.subsystem, limit.metric);
            assert!(text.is_some_and(|text| !text.is_empty()), "{name}: {limit:?}");
        }
    }
    let report = find("chameleon-kvm").unwrap();
    let inputs = report.derivation("cpu", "throughput").unwrap();
    assert!(inputs.contains("2.29 GHz") && inputs.contains("73.28"), "{inputs}");
    assert_eq!(report.derivation("disk", "latency"), None);
}
