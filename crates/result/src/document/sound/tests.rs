//! Documents with own results pass the check, with varying limits and unusual results.

use plimsoll_machine::cgroup::CpuQuota;
use plimsoll_machine::cpu::CoreKind;
use plimsoll_machine::fixture::Fixture;
use plimsoll_machine::{Machine, Root};
use plimsoll_model::case::Case;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_model::limit::{LimitEvidence, LimitSource};
use plimsoll_model::sample::{Facts, Outcome, Sample};

use super::*;
use crate::evaluate::Maker;
use crate::fixture;

/// A sample of `value` under these conditions.
fn sample(at: usize, metric: &str, value: f64, clock: f64, more: &[(&str, f64)]) -> Sample {
    let more = more.iter().map(|(kind, clock)| (format!("clock_hz_{kind}"), *clock)).collect();
    Sample {
        at: at as f64,
        elapsed: 3600.0,
        values: [(metric.to_owned(), value)].into(),
        conditions: Conditions { clock_hz: Some(clock), more, ..Conditions::default() },
        ..Sample::default()
    }
}

/// Returns the measurement of `samples` under a limits file's text, as read from its document.
fn read_again(machine: &Machine, id: &str, samples: Vec<Sample>, limits: &str) -> Measurement {
    let user_limits = match limits {
        "" => UserLimits::default(),
        limits => UserLimits::parse(limits).unwrap(),
    };
    let maker = Maker { machine, node: "bench-1", seed: 7, user_limits: &user_limits, margin: 0.03 };
    let case: Case = id.parse().unwrap();
    let outcome =
        Outcome { case, repeat: 0, samples, facts: Facts::default(), tool_results: Vec::new(), ended: None };
    let one = maker.measurement(&outcome, LimitEvidence::default());
    let mut run = fixture::run_of(vec![one.clone(), Measurement { repeat: 1, ..one.clone() }]);
    run.nodes.push(crate::document::Node { name: "bench-2".to_owned(), machine: None });
    run.measurements.push(Measurement { node: "bench-2".to_owned(), ..one });
    let text = serde_json::to_string(&run).unwrap();
    let read = Run::parse(&text).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(serde_json::to_string(&read).unwrap(), text, "{id}");
    read.measurements[0].clone()
}

/// Returns how the limit of the headline varies.
fn varies(one: &Measurement) -> Option<Varies> {
    one.metrics[0].limit.as_ref().filter(|limit| limit.value.is_some()).map(Limit::varies)
}

/// Returns a limits file with one limit.
fn limits(id: &str, metric: &str, unit: &str, value: f64, kind: &str) -> String {
    format!(
        "[[limit]]\nmatch = '{id}'\nmetric = '{metric}'\nunit = '{unit}'\nvalue = {value:e}\nkind = '{kind}'\nsource = 'x'\n"
    )
}

fn zen4() -> Machine {
    Fixture::open("firecracker-zen4").unwrap().machine()
}

const PEAK: &str = "cpu.peak/op=fma/type=f64/isa=avx2/threads=";

#[test]
fn limits_that_follow_the_clock_come_back() {
    let clocks = [2e9, 4e9, 3e9, 3.5e9];
    let block = "memory.block/op=read/pattern=sequential/block=64/size=16K/threads=1";
    for (id, metric, values) in [
        (format!("{PEAK}1"), "rate", [30e9, 20e9, 41e9, 10e9]),
        ("memory.bandwidth/op=read/size=16K/threads=1".to_owned(), "bandwidth", [90e9, 70e9, 100e9, 9e9]),
        ("memory.latency/size=16K/threads=1".to_owned(), "latency", [9e-9, 2e-9, 5e-9, 1e-6]),
        (block.to_owned(), "throughput", [90e9, 70e9, 100e9, 9e9]),
        (block.to_owned(), "latency", [9e-9, 2e-9, 5e-9, 1e-6]),
    ] {
        let each = values.iter().zip(clocks).enumerate();
        let samples = each.map(|(at, (value, clock))| sample(at, metric, *value, clock, &[])).collect();
        let one = read_again(&zen4(), &id, samples, "");
        let varies = varies(&one);
        // Kernels for x86-64 are not built on other architectures.
        let is_there = varies.is_some() || id.starts_with("cpu") && !cfg!(target_arch = "x86_64");
        assert!(is_there && varies.is_none_or(|varies| varies == Varies::WithClock), "{id}: {varies:?}");
    }
}

#[test]
fn limits_under_a_quota_and_of_credits_come_back() {
    let mut machine = zen4();
    machine.cgroup.cpu_quota =
        Some(CpuQuota { quota_us: 50_000, period_us: 100_000, group: "/half".to_owned() });
    let samples = vec![sample(0, "rate", 9e9, 2e9, &[]), sample(1, "rate", 20e9, 4e9, &[])];
    read_again(&machine, &format!("{PEAK}2"), samples, "");
    let mut burstable = zen4();
    burstable.virtualisation.instance = Some("t2.micro".to_owned());
    burstable.virtualisation.system_vendor = Some("Xen".to_owned());
    // Full speed for 160 minutes, then the baseline.
    let rates = [40e9, 41e9, 4.2e9, 4.1e9, 4e9];
    let samples = rates.iter().enumerate().map(|(at, rate)| sample(at, "rate", *rate, 3e9, &[])).collect();
    let one = read_again(&burstable, &format!("{PEAK}1"), samples, "");
    assert!(!cfg!(target_arch = "x86_64") || varies(&one) == Some(Varies::Otherwise), "{one:?}");
}

#[test]
fn limits_of_cores_of_several_kinds_come_back() {
    // Alder Lake: the clock over all cores differs from the clock per kind.
    let mut hybrid = Machine::discover(&Root::at("/nonexistent"));
    hybrid.cpu.vendor = Some("GenuineIntel".to_owned());
    (hybrid.cpu.family, hybrid.cpu.model) = (Some(6), Some(0x97));
    hybrid.cpu.allowed = "0-3".parse().unwrap();
    let kind = |name: &str, cpus: &str| CoreKind { name: name.to_owned(), cpus: cpus.parse().unwrap() };
    hybrid.cpu.kinds = vec![kind("cpu_core", "0-1"), kind("cpu_atom", "2-3")];
    let at = |at, core, atom| sample(at, "rate", 100e9, 3e9, &[("cpu_core", core), ("cpu_atom", atom)]);
    let samples = vec![at(0, 5e9, 4e9), at(1, 3e9, 2e9), at(2, 5e9, 1e9), at(3, 2e9, 2e9)];
    let one = read_again(&hybrid, &format!("{PEAK}4"), samples, "");
    if cfg!(target_arch = "x86_64") {
        let headline = &one.metrics[0];
        assert_eq!(varies(&one), Some(Varies::Otherwise), "{:?}", headline.limit);
        let of_median = headline.summary.median / headline.limit.as_ref().unwrap().value.unwrap();
        assert!(headline.of_limit.is_some_and(|share| !is_rounded(share, of_median)), "{headline:?}");
    }
}

#[test]
fn samples_of_zero_and_limits_from_the_user_come_back() {
    let latency = "memory.latency/size=1G/threads=1";
    let rate = "memory.bandwidth/op=read/size=1G/threads=1";
    for (id, metric, unit, kind, values, has_share) in [
        (latency, "latency", "s", "floor", vec![0.0, 0.0, 0.0, 2e-6, 4e-6], true),
        (latency, "latency", "s", "floor", vec![2e-6, 3e-6, 9e-6, 4e-6], true),
        (latency, "latency", "s", "floor", vec![0.0, 0.0], false),
        (rate, "bandwidth", "B/s", "ceiling", vec![0.0, 0.0, 5e-7], true),
        (rate, "bandwidth", "B/s", "ceiling", vec![0.0], true),
        (rate, "bandwidth", "B/s", "ceiling", vec![7.0, 8.0], true),
    ] {
        let each = values.iter().enumerate();
        let samples = each.map(|(at, one)| sample(at, metric, *one, 1e9 * (at + 1) as f64, &[])).collect();
        let one = read_again(&zen4(), id, samples, &limits(id, metric, unit, 1e-6, kind));
        let headline = one.metrics.iter().find(|one| one.name == metric).unwrap();
        let mut limits = headline.limit.iter().chain(&headline.other_limits);
        assert!(limits.any(|limit| limit.source == LimitSource::User), "{id}");
        assert_eq!(headline.of_limit.is_some(), has_share, "{id} {values:?}: {:?}", headline.of_limit);
    }
}

#[test]
fn limits_that_are_refuted_come_back() {
    // Above the chip data: that limit is refuted, and none or the user's limit remains.
    let id = format!("{PEAK}1");
    for limits in ["", &limits(&id, "rate", "FLOP/s", 9e12, "ceiling")] {
        let samples = vec![sample(0, "rate", 1e12, 3e9, &[]), sample(1, "rate", 1.1e12, 2e9, &[])];
        let one = read_again(&zen4(), &id, samples, limits);
        let refuted = one.metrics[0].other_limits.iter().any(|limit| limit.refuted.is_some());
        assert_eq!(refuted, cfg!(target_arch = "x86_64"), "{one:?}");
        assert_eq!(one.metrics[0].of_limit.is_some(), !limits.is_empty());
    }
}
