use std::sync::LazyLock;

use plimsoll_machine::cgroup::{CpuQuota, IoLimit};
use plimsoll_machine::{Root, Storage};
use plimsoll_model::limit::{Limit, LimitKind, LimitSource};
use plimsoll_model::measurement::{Note, SamplePoint};
use plimsoll_model::view::testing::peak;

use super::*;
use proptest::prelude::*;

fn find(measurements: &[Measurement]) -> Vec<Finding> {
    super::find(measurements, &Machines::new())
}

/// Summarized once: this takes far longer than the rule.
static PEAK: LazyLock<Measurement> = LazyLock::new(|| peak(1, 100.0));

pub(super) fn on(node: &str, rate: f64) -> Measurement {
    let mut measurement = Measurement { node: node.to_owned(), ..PEAK.clone() };
    let summary = &mut measurement.metrics[0].summary;
    summary.median *= rate / 100.0;
    summary.ci95 = summary.ci95.map(|ends| ends.map(|end| end * rate / 100.0));
    measurement
}

#[test]
fn the_slow_machine_is_named_with_its_cause_and_no_other_is() {
    let mut all: Vec<_> = (0..4).map(|i| on(&format!("n{i}"), 100.0 + f64::from(i) * 0.2)).collect();
    all[2] = on("n2", 55.0);
    all[2].conditions.throttled = Some(0.44);
    let found = find(&all);
    assert_eq!(found.len(), 1, "{found:?}");
    let told = "n2: cpu fma f64 avx2: 55.0 FLOP/s, 45 % below the median of 4 machines. Likely cause: throttled by the CPU quota 44 % of the time";
    assert_eq!(found[0].text, told);
    assert_eq!(found[0].evidence["worse"], true);
}

#[test]
fn those_that_are_better_are_told_in_a_line() {
    let mut all: Vec<_> = (0..8).map(|i| on(&format!("n{i}"), 100.0 + f64::from(i) * 0.1)).collect();
    (all[2], all[5]) = (on("n2", 150.0), on("n5", 50.0));
    let found = find(&all);
    let texts: Vec<(&str, &str)> = found.iter().map(|f| (f.code.as_str(), f.text.as_str())).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].0 == OUTLIER && texts[0].1.starts_with("n5: "), "{texts:?}");
    let ahead = "better than the rest: n2: cpu fma f64 avx2: 150 FLOP/s, 49 % above the median of 8 machines";
    assert_eq!(texts[1], (AHEAD, ahead));
    all[6] = on("n6", 200.0);
    let text = &find(&all)[1].text;
    let start = "2 figures are better than the rest: n6: ";
    assert!(text.starts_with(start) && text.contains("; n2: "), "{text}");
}

#[test]
fn interruptions_that_the_figure_excludes_are_found_in_the_wall_clock_rate() {
    let with = |node: &str, share: f64| {
        let mut one = on(node, 100.0);
        let point =
            |t| SamplePoint { t: f64::from(t), delivered: Some(100.0 * share), ..SamplePoint::default() };
        one.metrics[0].series = (0..6).map(point).collect();
        one.conditions.excluded = Some(1.0 - share);
        one
    };
    let mut all: Vec<_> = (0..8).map(|i| with(&format!("n{i}"), 0.99)).collect();
    assert_eq!(find(&all), []);
    all[3] = with("n3", 0.4);
    let found = find(&all);
    assert_eq!(found.len(), 1, "{found:?}");
    let text = &found[0].text;
    assert!(text.contains("delivered rate 40.0 FLOP/s, 60 % below the median of 8 machines"), "{text}");
    assert!(text.ends_with("Likely cause: threads interrupted 60 % of the time"), "{text}");
    // Fewer interruptions than usual are not reported.
    all[3] = with("n3", 2.0);
    assert_eq!(find(&all), []);
    // A difference of the headline is reported once.
    all[3] = with("n3", 0.4);
    all[3].metrics[0].summary.median *= 0.4;
    assert_eq!(find(&all).len(), 1);
    let two = find(&[with("a", 0.99), with("b", 0.4)]);
    assert!(two[0].text.ends_with("Likely cause on b: threads interrupted 60 % of the time"), "{two:?}");
}

#[test]
fn what_all_machines_have_is_no_cause() {
    let mut all: Vec<_> = (0..5).map(|i| on(&format!("n{i}"), 100.0)).collect();
    all[4] = on("n4", 50.0);
    all.iter_mut().for_each(|m| m.conditions.waited = Some(0.8));
    assert!(find(&all)[0].text.ends_with("Cause unknown"), "{:?}", find(&all));
    all[4].conditions.waited = Some(0.9);
    assert!(find(&all)[0].text.ends_with("threads waited for a CPU 90 % of the time"));
}

#[test]
fn a_slower_clock_is_a_cause() {
    let mut all: Vec<_> = (0..5).map(|i| on(&format!("n{i}"), 100.0)).collect();
    all.iter_mut().for_each(|m| m.conditions.clock_hz = Some(3e9));
    all[4] = on("n4", 80.0);
    all[4].conditions.clock_hz = Some(2.4e9);
    assert!(find(&all)[0].text.ends_with("its core clock is 20 % lower"), "{:?}", find(&all));
    let hot = || Note { code: Warning::TOO_HOT.to_owned(), text: String::new() };
    all[4].warnings.push(hot());
    let text = find(&all)[0].text.clone();
    assert!(text.ends_with("its core clock is 20 % lower, because its processor was too hot"), "{text}");
    all[4].conditions.clock_hz = None;
    let text = find(&all)[0].text.clone();
    assert!(text.ends_with("its processor slowed itself down because it was too hot"), "{text}");
    all.iter_mut().for_each(|m| m.warnings = vec![hot()]);
    assert!(find(&all)[0].text.ends_with("Cause unknown"), "{:?}", find(&all));
}

#[test]
fn a_narrower_bucket_and_fewer_channels_are_causes() {
    let mut all: Vec<_> = (0..4).map(|i| on(&format!("n{i}"), 100.0)).collect();
    all[1] = on("n1", 50.0);
    all[1].conditions.more.set(&SHAPED, 1e8);
    let text = find(&all)[0].text.clone();
    assert!(text.ends_with("a shaper (queueing discipline) limits its interface to 100 Mbit/s"), "{text}");
    for measurement in &mut all {
        measurement.conditions.more.set(&SHAPED, 4e8);
    }
    all[1].conditions.more.set(&SHAPED, 1e8);
    assert!(find(&all)[0].text.ends_with("to 100 Mbit/s, the others' to 400 Mbit/s"));
    all.iter_mut().for_each(|m| m.conditions.more = Default::default());
    let channels = |value| Input::new("channels", value, "1", "test");
    for (index, measurement) in all.iter_mut().enumerate() {
        let inputs = vec![channels(if index == 1 { 1.0 } else { 2.0 })];
        measurement.metrics[0].limit =
            Some(Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, 1.0, "", inputs));
    }
    assert!(find(&all)[0].text.ends_with("its limit is lower too: channels 1, on most others 2"));
}

/// Ten nodes with two memory channels at 100, five with one channel at 50.
fn mixed() -> Vec<Measurement> {
    let one = |i: u32| {
        let (channels, rate) = if i < 10 { (2.0, 100.0) } else { (1.0, 50.0) };
        let mut made = on(&format!("n{i:02}"), rate + f64::from(i % 3) * 0.1);
        let measured = Input::new("clock", 3e9 + f64::from(i), "Hz", "test");
        let inputs = vec![Input::new("channels", channels, "1", "test"), measured];
        made.metrics[0].limit = Some(Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, 1.0, "", inputs));
        made
    };
    (0..15).map(one).collect()
}

#[test]
fn machines_are_compared_with_those_that_have_the_same() {
    let mut all = mixed();
    assert_eq!(find(&all), []);
    // As fast as nodes with one channel; and slower than they are.
    all[3].metrics[0].summary.median *= 0.5;
    all[12].metrics[0].summary.median *= 0.5;
    let found = find(&all);
    assert_eq!(found.len(), 2, "{found:?}");
    for (name, group) in [("n03: ", "of 10 machines"), ("n12: ", "of 5 machines")] {
        let is_told = found.iter().any(|f| f.text.starts_with(name) && f.text.contains(group));
        assert!(is_told, "{found:?}");
    }
    // Four are no group: they are compared with the rest, and their property is the cause.
    let few: Vec<Measurement> = mixed().into_iter().take(14).collect();
    let found = find(&few);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].text.ends_with("its limit is lower too: channels 1, on most others 2"), "{found:?}");
}

/// Six copies of one document and three different ones: the equal measured clock makes no group.
#[test]
fn what_was_measured_makes_no_kind() {
    let one = |i: u32| {
        let (clock, rate) = if i < 6 { (0, 100.0) } else { (i, 80.0 + f64::from(i) * 4.0) };
        let mut made = on(&format!("n{i}"), rate);
        let inputs = vec![Input::new("clock", 3_123_456_789.012_345 + f64::from(clock), "Hz", "test")];
        made.metrics[0].limit = Some(Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, 1.0, "", inputs));
        made
    };
    let group = |all: &[Measurement]| {
        group_by_properties(all.iter().map(|m| NodeFigure::of(m, &m.metrics[0])).collect())
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>()
    };
    assert_eq!(group(&(0..9).map(one).collect::<Vec<_>>()), [9]);
    assert_eq!(group(&mixed()), [5, 10]);
    for few_digits in [1e10, 2.933e9, 25.6e9, 64.0, 0.5, 1448.0] {
        assert!(!is_measured(few_digits), "{few_digits}");
    }
    assert!(is_measured(3_692_478_116.213_4) && is_measured(1.0 / 3.0));
}

#[test]
fn another_device_is_a_cause_of_cases_with_files_alone() {
    let mut all: Vec<_> = (0..8).map(|i| on(&format!("n{i}"), 100.0)).collect();
    all[2] = on("n2", 40.0);
    let names: Vec<String> = (0..8).map(|i| format!("n{i}")).collect();
    let device = |i: usize| if i == 2 { "a slow disk" } else { "a fast disk" }.to_owned();
    let machine = Machine::discover(&Root::live());
    let known = |i: usize| NodeFacts { machine: &machine, device: Some(device(i)) };
    let devices: Machines<'_> = names.iter().enumerate().map(|(i, name)| (name.as_str(), known(i))).collect();
    assert!(super::find(&all, &devices)[0].text.ends_with("Cause unknown"));
    all.iter_mut().for_each(|m| m.case = "disk.io/op=read/block=4K".parse().unwrap());
    let text = super::find(&all, &devices).remove(0).text;
    assert!(text.ends_with("its files are on a slow disk, those of most others on a fast disk"), "{text}");
}

/// Returns the facts of `names`: the second machine for n2, the first for the rest.
fn with_group<'a>(names: &'a [String], machines: &'a [Machine; 2]) -> Machines<'a> {
    let known = |i: usize| NodeFacts { machine: &machines[usize::from(i == 2)], device: None };
    names.iter().enumerate().map(|(i, name)| (name.as_str(), known(i))).collect()
}

#[test]
fn a_cpu_quota_that_the_others_do_not_have_is_a_cause() {
    let names: Vec<String> = (0..8).map(|i| format!("n{i}")).collect();
    let mut free = Machine::discover(&Root::live());
    (free.cgroup.cpu_quota, free.cgroup.io) = (None, Vec::new());
    let mut held = free.clone();
    held.cgroup.cpu_quota = Some(CpuQuota { quota_us: 50_000, period_us: 100_000, group: String::new() });
    let mut all: Vec<_> = names.iter().map(|name| on(name, 100.0)).collect();
    // All wait for their CPUs: that explains nothing.
    all.iter_mut().for_each(|m| m.conditions.waited = Some(0.5));
    all[2] = on("n2", 49.0);
    let found = |all: &[Measurement], machines: [Machine; 2]| {
        super::find(all, &with_group(&names, &machines)).remove(0).text
    };
    let text = found(&all, [free.clone(), held.clone()]);
    assert!(text.ends_with("Likely cause: a CPU quota of 0.50 CPUs"), "{text}");
    (all[2].conditions.throttled, all[2].conditions.waited) = (Some(0.33), Some(0.52));
    let text = found(&all, [free.clone(), held.clone()]);
    assert!(text.ends_with("a CPU quota of 0.50 CPUs (throttled 33 % of the time)"), "{text}");
    // Each loss is compared with its own usual value.
    let text = found(&all, [free.clone(), free.clone()]);
    assert!(text.ends_with("throttled by the CPU quota 33 % of the time"), "{text}");
    // A quota that all nodes have explains nothing.
    (all[2].conditions.throttled, all[2].conditions.waited) = (None, None);
    assert!(found(&all, [held.clone(), held]).ends_with("Cause unknown"));
}

/// Returns what is found of n2 among eight machines, whose results are `usual` and that of n2 is
/// `slow`; `limits` are those of the disk on the other machines and on n2.
fn found_under(limits: [Option<&IoLimit>; 2], case: &str, unit: Unit, [usual, slow]: [f64; 2]) -> String {
    let names: Vec<String> = (0..8).map(|i| format!("n{i}")).collect();
    let of = |name: &String| {
        let mut made = on(name, 100.0);
        made.case = case.parse().unwrap();
        let metric = &mut made.metrics[0];
        metric.unit = unit;
        metric.better = if unit == Unit::Second { Better::Lower } else { Better::Higher };
        metric.summary.ci95 = None;
        metric.summary.median = if name == "n2" { slow } else { usual };
        made
    };
    let all: Vec<_> = names.iter().map(of).collect();
    let machines = limits.map(|limit| {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.storage = Some(Storage { number: "254:0".parse().ok(), ..Storage::default() });
        machine.cgroup.io = limit.cloned().into_iter().collect();
        machine
    });
    super::find(&all, &with_group(&names, &machines)).remove(0).text
}

#[test]
fn an_io_limit_near_the_figure_is_a_cause_also_of_a_latency() {
    let limit = |bytes| IoLimit { device: "254:0".to_owned(), read_bytes: Some(bytes), ..IoLimit::default() };
    let [near, far] = [limit(20 << 20), limit(200 << 20)];
    let found = |limits| found_under(limits, "disk.io/op=read/block=1M", Unit::BytePerSecond, [1e9, 21e6]);
    let text = found([None, Some(&near)]);
    assert!(text.ends_with("Likely cause: a control group limits the device to 21.0 MB/s"), "{text}");
    assert!(found([Some(&near); 2]).ends_with("Cause unknown"), "all have it");
    assert!(found([None, Some(&far)]).ends_with("Cause unknown"), "far above the result");
    let limit = IoLimit { device: "254:0".to_owned(), reads: Some(200), ..IoLimit::default() };
    let case = "disk.io/op=read/pattern=random/block=4K/depth=1/threads=1";
    let found = |rest, slow| found_under([rest, Some(&limit)], case, Unit::Second, [1e-4, slow]);
    // 200 reads per second, one at a time, take 5 ms each.
    let text = found(None, 5.1e-3);
    assert!(text.ends_with("Likely cause: a control group limits the device to 200 IOPS"), "{text}");
    assert!(found(Some(&limit), 5.1e-3).ends_with("Cause unknown"), "all have it");
    assert!(found(None, 5e-4).ends_with("Cause unknown"), "it explains no tenth of that latency");
}

#[test]
fn a_figure_of_which_most_is_excluded_accuses_no_machine() {
    let mut all: Vec<_> = (0..8).map(|i| on(&format!("n{i}"), 100.0)).collect();
    all[2] = on("n2", 40.0);
    assert_eq!(find(&all).len(), 1);
    all[2].conditions.excluded = Some(0.6);
    assert_eq!(find(&all), []);
}

#[test]
fn of_two_machines_the_difference_is_told_and_of_one_nothing() {
    let (mut one, mut other) = (on("a", 90.0), on("b", 60.0));
    assert_eq!(find(&[one.clone(), on("b", 91.0)]), []);
    (one.metrics[0].of_limit, other.metrics[0].of_limit) = (Some(0.9), Some(0.6));
    let text = &find(&[one, other])[0].text;
    assert!(text.ends_with("33 % less. b is further from its limit: it reaches 60 % of it"), "{text}");
    assert_eq!(find(&[on("a", 1.0), peak(2, 100.0)]), []);
}

proptest! {
    /// Nodes that differ by less than the floor are no outliers, however many there are.
    #[test]
    fn small_differences_are_no_outliers(rates in prop::collection::vec(99.0..101.0_f64, 2..50)) {
        let all: Vec<_> = rates.iter().enumerate().map(|(i, r)| on(&format!("n{i}"), *r)).collect();
        prop_assert_eq!(find(&all), []);
    }

    /// One node far from the rest is the only finding.
    #[test]
    fn one_far_machine_is_found(n in 3..40_usize, share in 0.3..0.9_f64, place: prop::sample::Index) {
        let mut all: Vec<_> = (0..n).map(|i| on(&format!("n{i}"), 100.0)).collect();
        let slow = place.index(n);
        all[slow] = on("slow", 100.0 * share);
        let found = find(&all);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(&found[0].evidence["node"], "slow");
    }
}
