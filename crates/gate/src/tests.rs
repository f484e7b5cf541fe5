#![allow(clippy::unwrap_used)]

use plimsoll_machine::BusyProcess;
use plimsoll_machine::cgroup::IoLimit;
use plimsoll_machine::fixture::Fixture;
use plimsoll_machine::health::{Drive, LinkPace, PcieLink, Smart};
use plimsoll_model::fixture::derived;
use plimsoll_model::limit::LimitKind;
use plimsoll_model::measurement::Status;
use plimsoll_model::sample::WrongAnswerSource;
use plimsoll_model::view::testing::peak;
use plimsoll_result::document::Run;
use plimsoll_result::fixture::run_of;
use plimsoll_stats::Seed;
use plimsoll_units::quantity::Unit;
use rand::RngExt;

use super::*;
use GateAnswer::{Healthy, Sick, Unknown};

const RATES: Rates = Rates { false_alarms: 1e-4, loss: 0.1 };

fn changed<T>(mut it: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut it);
    it
}

fn bare() -> Machine {
    changed(Fixture::unpack("").unwrap().machine(), |it| it.virtualisation.is_virtual = Some(false))
}

fn guest() -> Machine {
    changed(bare(), |it| {
        it.virtualisation.hypervisor = Some("KVM".to_owned());
        it.virtualisation.is_virtual = Some(true);
    })
}

fn case() -> Case {
    peak(1, 1.0).case
}

/// Returns a measurement at `share` of its limit, without waits.
fn made(share: f64) -> Measurement {
    let mut measurement = peak(1, 100.0 * share);
    measurement.metrics[0].of_limit = Some(share);
    measurement.metrics[0].limit = Some(derived(100.0, LimitKind::Ceiling, ""));
    measurement.conditions.waited = Some(0.0);
    measurement
}

fn failed(share: f64, reason: &str) -> Measurement {
    Measurement { status: Status::Failed, reason: Some(reason.to_owned()), ..made(share) }
}

fn nobody() -> Others {
    Others::default()
}

fn hog() -> Others {
    Others { cpus: 1.0, most: Some(BusyProcess { id: 4711, name: "stress-ng".to_owned(), cpus: 1.0 }) }
}

/// Returns the gate of these cases, which has taken these measurements as their first.
fn begun(cases: &[Case], on: &Machine, usual: &[UsualFigures], measured: &[Measurement]) -> Gate {
    let mut gate = Gate::new(cases, on, usual, RATES);
    gate.record_first(measured, false);
    gate
}

/// Returns the gate of the case of `first`, which takes that and then `then` until it is decided.
fn gated(on: &Machine, usual: &[UsualFigures], [first, then]: [&Measurement; 2], others: &Others) -> Gate {
    let mut gate = begun(std::slice::from_ref(&first.case), on, usual, std::slice::from_ref(first));
    for _ in 0..100 {
        match gate.next() {
            Some(_) => gate.record_repetition(then, others),
            None => return gate,
        }
    }
    panic!("it does not end: {:?}", gate.verdict());
}

fn answer(machine: &Machine, measurement: &Measurement, others: &Others) -> GateVerdict {
    gated(machine, &[], [measurement, measurement], others).verdict()
}

#[test]
fn what_reaches_its_limit_is_healthy_and_what_is_low_once_is_measured_again() {
    let verdict = answer(&bare(), &made(0.995), &nobody());
    assert_eq!((verdict.answer, verdict.line.as_str()), (Healthy, "healthy: 2 checks passed"));
    let gate = gated(&bare(), &[], [&made(0.5), &made(0.99)], &nobody());
    assert_eq!((gate.verdict().answer, gate.checks[0].repetitions.len()), (Healthy, 1));
}

fn wrong(origin: WrongAnswerSource) -> Measurement {
    let answer = WrongAnswer::new(origin, "fma_f64_avx2", "9.25");
    let like = failed(0.5, &answer.to_string());
    let (metrics, cause) = (Vec::new(), Some(Lost::WrongAnswer));
    Measurement { metrics, cause, wrong_answer: Some(Box::new(answer)), ..like }
}

#[test]
fn a_wrong_answer_is_sick_at_once_also_on_a_guest_beside_other_work_and_of_a_network_unknown() {
    let storage = WrongAnswerSource::Storage { path: "/dev/sdb".to_owned(), offset: 4096 };
    for origin in [WrongAnswerSource::Cpu(57), WrongAnswerSource::Cpus(vec![0, 1]), storage] {
        let failed = wrong(origin);
        let named = failed.wrong_answer.as_deref().unwrap().headline();
        let at_once = gated(&guest(), &[], [&failed, &failed], &hog());
        let later = gated(&guest(), &[], [&made(0.5), &failed], &hog());
        for verdict in [at_once.verdict(), later.verdict()] {
            assert_eq!((verdict.answer, verdict.cause), (Sick, Some("wrong-answer")), "{named}");
            assert!(verdict.line.contains(&named), "{}", verdict.line);
        }
        assert_eq!(at_once.checks[0].repetitions.len(), 0);
    }
    assert_eq!(answer(&bare(), &wrong(WrongAnswerSource::Network), &nobody()).answer, Unknown);
}

#[test]
fn what_cannot_be_told_from_chance_is_not_judged() {
    let gate = Gate::new(&[case()], &bare(), &[], Rates { false_alarms: 1.5, ..RATES });
    assert!(gate.checks.is_empty());
    assert_eq!(gate.unjudged.len(), 2);
    assert!(gate.unjudged.iter().all(|it| it.case == case()), "{:?}", gate.unjudged);
}

#[test]
fn the_case_that_is_next_is_the_one_that_is_spread() {
    let (other, low) = (peak(2, 1.0).case, made(0.5));
    let low_other = Measurement { case: other.clone(), ..low.clone() };
    let mut gate = begun(&[case(), other.clone()], &bare(), &[], &[low.clone(), low_other.clone()]);
    assert_eq!(gate.next(), Some(&case()));
    let fewest = gate.repetitions_to_spread();
    gate.record_repetition(&low, &nobody());
    // Each case is measured once more before any is measured twice more.
    assert_eq!((gate.next(), gate.repetitions_to_spread()), (Some(&other), fewest));
    gate.record_repetition(&low_other, &nobody());
    gate.record_repetition(&low_other, &nobody());
    assert_eq!((gate.next(), gate.repetitions_to_spread()), (Some(&other), fewest - 2));
}

fn allowed(quota_us: u64) -> plimsoll_machine::cgroup::CpuQuota {
    plimsoll_machine::cgroup::CpuQuota { quota_us, period_us: 100_000, group: "/job".to_owned() }
}

/// Returns a measurement near its limit whose threads a quota stopped, and that waited.
fn throttled(share: f64, waited: f64) -> Measurement {
    changed(made(0.99), |m| (m.conditions.throttled, m.conditions.waited) = (Some(share), Some(waited)))
}

/// Returns a measurement near its limit with another figure.
fn at(value: f64) -> Measurement {
    changed(made(0.99), |m| m.metrics[0].summary.median = value)
}

/// Returns what is usual on `now` after twelve runs on `before` with figures of about 1000.
fn usual_of(id: &str, unit: Unit, before: &Machine, now: &Machine) -> Vec<UsualFigures> {
    let figures = (0..12).map(|n| figure(id, unit, 1000.0 + f64::from(n % 3), None));
    vec![usual_after(figures, before, now)]
}

#[test]
fn a_quota_makes_it_sick_with_its_cause_also_on_a_guest_and_no_known_limit_unknown() {
    let stopped = throttled(0.49, 0.5);
    let half = changed(guest(), |it| it.cgroup.cpu_quota = Some(allowed(50_000)));
    for others in [nobody(), hog()] {
        let verdict = answer(&half, &stopped, &others);
        assert_eq!(verdict.line, "sick: CPU quota of 0.50 CPUs, throttled 49 % of the time");
        assert_eq!((verdict.answer, verdict.cause), (Sick, Some("cpu-quota")));
    }
    assert_eq!(gated(&half, &[], [&stopped, &stopped], &nobody()).checks[1].repetitions.len(), 3);
    // A namespace may hide the size of its quota; other processes may then use it up.
    let verdict = answer(&guest(), &stopped, &nobody());
    assert_eq!(verdict.line, "sick: a CPU quota, throttled 49 % of the time");
    assert_eq!(answer(&guest(), &stopped, &hog()).cause, Some("busy"));
    let gate = begun(&[case()], &bare(), &[], &[throttled(0.5, 0.5)]);
    let of_limit = gate.checks.iter().find(|check| check.quantity == CheckedQuantity::OfLimit).unwrap();
    let CheckProgress::NotReported(why) = of_limit.state else { panic!("{:?}", of_limit.state) };
    assert!(why.contains("quota") && !why.contains("not known"), "{why}");
}

#[test]
fn a_quota_that_others_of_the_group_use_up_is_no_reason() {
    let machine = changed(bare(), |it| it.cgroup.cpu_quota = Some(allowed(1_600_000)));
    // The kernel counts the stops of all CPUs of the group.
    assert_eq!(answer(&machine, &throttled(1.0, 0.02), &hog()).line, "healthy: 2 checks passed");
    for (others, cause) in [(nobody(), "preempted"), (hog(), "busy")] {
        let verdict = answer(&machine, &throttled(1.0, 0.3), &others);
        assert_eq!((verdict.answer, verdict.cause), (Unknown, Some(cause)), "{}", verdict.line);
    }
}

#[test]
fn a_disk_of_its_own_that_is_low_is_sick_where_nobody_shares_the_machine() {
    let id = "disk.io/op=read/block=1M";
    let mut machine = bare();
    machine.storage = plimsoll_model::fixture::machine().storage;
    machine.storage.as_mut().unwrap().disks[0].kind = plimsoll_machine::disk::DiskKind::Sata;
    let mut now = figure(id, Unit::BytePerSecond, 700.0, None);
    now.metrics.push(changed(now.metrics[0].clone(), |each| each.name = "await".to_owned()));
    let disturbed = changed(now.clone(), |it| it.metrics[1].samples.truncate(8));
    let usual = usual_of(id, Unit::BytePerSecond, &machine, &machine);
    let answer = |machine: &Machine| {
        let mut gate = begun(std::slice::from_ref(&now.case), machine, &usual, std::slice::from_ref(&now));
        gate.record_repetition(&disturbed, &nobody());
        gate.record_repetition(&now, &hog());
        while gate.next().is_some() {
            gate.record_repetition(&now, &nobody());
        }
        gate.verdict()
    };
    assert_eq!(answer(&machine).line, "sick: disk read 1 MiB 30 % below usual; cause unknown");
    machine.virtualisation.is_virtual = Some(true);
    assert_eq!(answer(&machine).answer, Unknown);
}

#[test]
fn a_case_that_fails_or_is_broken_off_is_unknown_also_where_nothing_says_what_is_usual() {
    let other: Case = "network.tcp/direction=up".parse().unwrap();
    let failed = |why| Measurement { case: other.clone(), metrics: Vec::new(), ..failed(0.99, why) };
    let used_up = failed("--budget was used up before this case's turn");
    let late = Measurement { status: Status::Skipped, cause: Some(Lost::OutOfTime), ..used_up };
    let (over, refused) = ("the time of the gate was over", "connection refused");
    for (measured, why) in [(None, over), (Some(late), over), (Some(failed(refused)), refused)] {
        let mut gate = Gate::new(&[case(), other.clone()], &bare(), &[], RATES);
        assert_eq!(gate.unjudged.len(), 1);
        gate.record_first(&[vec![made(0.995)], Vec::from_iter(measured)].concat(), false);
        let verdict = gate.verdict();
        assert_eq!((verdict.answer, verdict.cause), (Unknown, Some("not-measured")));
        assert!(verdict.line.ends_with(&format!("TCP writes: {why}")), "{}", verdict.line);
    }
}

#[test]
fn a_disk_or_link_that_others_may_use_is_not_sick_for_a_low_figure() {
    for (id, unit) in [
        ("disk.io/op=read/block=1M", Unit::BytePerSecond),
        ("network.tcp/streams=1/direction=up/server=n2", Unit::BitPerSecond),
    ] {
        let now = figure(id, unit, 700.0, None);
        let usual = usual_of(id, unit, &bare(), &bare());
        let verdict = gated(&bare(), &usual, [&now, &now], &nobody()).verdict();
        assert_eq!(verdict.answer, Unknown, "{}", verdict.line);
        assert!(verdict.line.contains("30 % below usual"), "{}", verdict.line);
    }
}

#[test]
fn figures_of_another_disk_say_nothing_of_this_one() {
    let on = |model: &str| {
        let mut storage = plimsoll_model::fixture::machine().storage.unwrap();
        storage.disks[0].model = Some(model.to_owned());
        Machine { storage: Some(storage), ..bare() }
    };
    let id = "disk.io/op=read/block=1M";
    let judged = |machine: &Machine| {
        let usual = usual_of(id, Unit::BytePerSecond, &on("fast"), machine);
        Gate::new(&[id.parse().unwrap()], machine, &usual, RATES).unjudged.is_empty()
    };
    assert!(judged(&on("fast")) && !judged(&on("slow")));
}

#[test]
fn what_others_take_is_never_sick_and_told_in_80_characters() {
    // The figure itself excludes interruptions.
    let crowded = |share| changed(made(share), |m| m.conditions.waited = Some(0.5));
    let verdict = answer(&bare(), &crowded(0.99), &hog());
    assert_eq!(verdict.line, "healthy: 1 check passed; others use 1.0 CPUs, most of it stress-ng (pid 4711)");
    let verdict = answer(&bare(), &crowded(0.7), &hog());
    assert_eq!((verdict.answer, verdict.cause), (Unknown, Some("busy")));
    let begin = "unknown: others use 1.0 CPUs, most of it stress-ng (pid 4711)";
    assert!(verdict.line.starts_with(begin), "{}", verdict.line);
    let stolen = changed(made(0.7), |m| m.conditions.steal = Some(0.3));
    assert_eq!(answer(&bare(), &stolen, &nobody()).cause, Some("stolen"));
    let process = BusyProcess { id: u32::MAX, name: "a very long name".repeat(9), cpus: 1.0 };
    let verdict = answer(&bare(), &made(0.5), &Others { cpus: 1.0, most: Some(process) });
    assert!(verdict.line.chars().count() <= 80 && verdict.line.ends_with('…'), "{}", verdict.line);
}

#[test]
fn a_loss_without_a_cause_is_sick_where_nobody_shares_the_machine() {
    let low = made(0.8);
    let verdict = answer(&bare(), &low, &nobody());
    assert_eq!(verdict.line, "sick: cpu fma f64 avx2 20 % below its limit; cause unknown");
    let verdict = answer(&guest(), &low, &nobody());
    assert_eq!(verdict.line, "unknown: cpu fma f64 avx2 20 % below its limit; others may be the cause");
    let not_known = changed(bare(), |it| it.virtualisation.is_virtual = None);
    let container = changed(bare(), |it| it.virtualisation.container = Some("docker".to_owned()));
    for machine in [not_known, container] {
        assert_eq!(answer(&machine, &low, &nobody()).answer, Unknown, "{machine:?}");
    }
}

#[test]
fn what_cannot_be_measured_or_judged_is_unknown() {
    let killed = failed(0.5, "the worker was killed");
    let first = answer(&bare(), &killed, &nobody());
    assert!(first.line.contains("cpu fma f64 avx2: failed: the worker was killed"), "{}", first.line);
    let again = gated(&bare(), &[], [&made(0.5), &killed], &nobody()).verdict();
    assert!(again.line.ends_with("failed: the worker was killed"), "{}", again.line);
    assert_eq!([first, again].map(|it| (it.answer, it.cause)), [(Unknown, Some("not-measured")); 2]);
    assert_eq!(begun(&[], &bare(), &[], &[]).verdict().cause, Some("not-judged"));
    assert_eq!(begun(&[case()], &bare(), &[], &[]).verdict().answer, Unknown);
}

fn with_cpus(cpus: usize) -> Machine {
    changed(bare(), |it| it.cpu.allowed = CpuSet::from_iter(0..cpus))
}

fn history(values: &[f64], machine: &Machine) -> UsualFigures {
    usual_after(values.iter().map(|value| peak(1, *value)), machine, &bare())
}

fn usual_after(all: impl Iterator<Item = Measurement>, was: &Machine, now: &Machine) -> UsualFigures {
    let run = |made| Run { machine: was.clone(), ..run_of(vec![made]) };
    UsualFigures::from_history(&all.map(run).collect::<Vec<_>>(), now).unwrap()
}

#[test]
fn fewer_cpus_and_less_memory_than_before_need_no_measurement() {
    let of = |cpus, gib: u64| changed(with_cpus(cpus), |it| it.memory.total_bytes = Some(gib << 30));
    let (before, now) = (of(2, 8), of(1, 4));
    let usual = [history(&[100.0, 100.0, 101.0, 100.5], &before)];
    let verdict = |machine| gated(machine, &usual, [&made(0.99), &made(0.99)], &nobody()).verdict();
    assert_eq!(verdict(&now).line, "sick: 1 CPU usable, 2 before; memory 4 GiB, 8 GiB before");
    assert_eq!(verdict(&before).answer, Healthy);
}

#[test]
fn a_quota_of_more_cpus_than_there_are_and_memory_that_a_kernel_reserves_are_no_loss() {
    let of = |cpus, quota: u64| {
        changed(with_cpus(cpus), |it| it.cgroup.cpu_quota = Some(allowed(quota * 100_000)))
    };
    let codes = |usual: &Machine, now: &Machine| -> Vec<&str> {
        MachineLoss::find_losses(usual, now, "before").iter().map(MachineLoss::code).collect()
    };
    assert_eq!(codes(&of(4, 8), &of(4, 5)), Vec::<&str>::new());
    assert_eq!(codes(&of(4, 8), &of(4, 3)), ["cpu-quota"]);
    assert_eq!(codes(&of(4, 8), &of(2, 2)), ["fewer-cpus"]);
    let of = |gib: f64| changed(bare(), |it| it.memory.total_bytes = Some((gib * 2_f64.powi(30)) as u64));
    let missing = |usual, now| !codes(&of(usual), &of(now)).is_empty();
    // Large share but little memory; much memory but a small share; both.
    assert!(!missing(4.0, 3.1) && !missing(64.0, 62.0) && !missing(8.0, 16.0));
    assert!(missing(16.0, 14.9) && missing(64.0, 60.0));
}

#[test]
fn the_history_finds_what_the_limit_cannot() {
    let values: Vec<f64> = (0..12).map(|n| 100.0 + f64::from(n % 4) * 0.3).collect();
    let usual = [history(&values, &bare())];
    let verdict = gated(&bare(), &usual, [&at(80.0), &at(80.0)], &nobody()).verdict();
    assert_eq!(verdict.line, "sick: cpu fma f64 avx2 20 % below usual; cause unknown");
}

/// Returns a measurement of `case`; `shaped` is the rate in bit/s that a shaper limits it to.
fn figure(case: &str, unit: Unit, value: f64, shaped: Option<f64>) -> Measurement {
    let mut it = peak(1, value);
    (it.case, it.metrics[0].unit) = (case.parse().unwrap(), unit);
    if let Some(rate) = shaped {
        it.conditions.more.set(&plimsoll_bench_network::condition::SHAPED, rate);
    }
    it
}

/// Returns the verdict about `now` on `is` after `before` on `was`, too varied to be usual.
fn after(before: &[Measurement], was: &Machine, now: &Measurement, is: &Machine) -> GateVerdict {
    let usual = [usual_after(before.iter().cloned(), was, is)];
    let mut gate = Gate::new(std::slice::from_ref(&now.case), is, &usual, RATES);
    assert_eq!((gate.checks.len(), gate.unjudged.len()), (0, 1));
    gate.record_first(std::slice::from_ref(now), false);
    gate.verdict()
}

#[test]
fn a_shaper_below_what_is_usual_is_a_reason_where_it_is_new() {
    let link = |value, shaped| {
        figure("network.tcp/message=128K/streams=1/direction=up", Unit::BitPerSecond, value, shaped)
    };
    let of = |before: Option<f64>, now| {
        let before = [2e9, 6e9, 9e9].map(|value| link(value, before));
        after(&before, &bare(), &now, &bare())
    };
    let verdict = of(None, link(0.97e9, Some(1e9)));
    assert_eq!(verdict.line, "sick: a shaper limits the interface to 1.00 Gbit/s, usual is 6.00 Gbit/s");
    assert_eq!((verdict.answer, verdict.cause), (Sick, Some("shaper")));
    // The shaper was there before; it allows the usual figure; the sent data does not exceed it.
    assert_eq!(of(Some(1e9), link(0.97e9, Some(1e9))).answer, Unknown);
    assert_eq!(of(None, link(5.8e9, Some(5.9e9))).answer, Unknown);
    assert_eq!(of(None, link(5.8e9, Some(1e9))).answer, Unknown);
    assert_eq!(of(Some(4e9), link(0.97e9, Some(1e9))).answer, Sick);
    // One earlier run under the shaper does not make it usual.
    let before = [link(2e9, None), link(6e9, None), link(0.97e9, Some(1e9))];
    assert_eq!(after(&before, &bare(), &link(0.97e9, Some(1e9)), &bare()).cause, Some("shaper"));
    assert_eq!(of(None, link(5.8e9, Some(5e9))).answer, Unknown);
}

/// Returns a machine whose control group has this limit on its disk.
fn limited(limit: IoLimit) -> Machine {
    let mut machine = bare();
    let number = Some("254:0".parse().unwrap());
    machine.storage = Some(plimsoll_machine::Storage { number, ..Default::default() });
    machine.cgroup.io = vec![IoLimit { device: "254:0".to_owned(), ..limit }];
    machine
}

#[test]
fn a_limit_of_the_group_beyond_what_is_usual_is_a_reason_whatever_short_samples_show() {
    let read = |value| {
        let case = "disk.io/op=read/pattern=random/block=4K/depth=1/threads=1";
        let better = plimsoll_model::metric::Better::Lower;
        changed(figure(case, Unit::Second, value, None), |made| made.metrics[0].better = better)
    };
    let by_reads = |reads: Option<u64>| limited(IoLimit { reads, ..IoLimit::default() });
    let before = [5e-5, 1e-4, 3e-4].map(read);
    let of = |was: Option<u64>, now| after(&before, &by_reads(was), &read(5e-3), &by_reads(now));
    assert_eq!((of(None, Some(200)).answer, of(None, Some(200)).cause), (Sick, Some("io-limit")));
    assert_eq!(of(Some(200), Some(200)).answer, Unknown, "it is usual");
    assert_eq!(of(None, Some(50_000)).answer, Unknown, "it allows what is usual");
    let read = |value| {
        let case = "disk.io/op=read/pattern=sequential/block=1M/depth=8/size=64M";
        figure(case, Unit::BytePerSecond, value, None)
    };
    let by_bytes = |read_bytes: Option<u64>| limited(IoLimit { read_bytes, ..IoLimit::default() });
    let of = |before, now| after(&[2e8, 5e8, 9e8].map(read), &by_bytes(before), &read(5e8), &by_bytes(now));
    let verdict = of(None, Some(250_000_000));
    assert_eq!(verdict.line, "sick: a control group limits the device to 250 MB/s, usual is 500 MB/s");
    assert_eq!((verdict.answer, verdict.cause), (Sick, Some("io-limit")));
    assert_eq!(of(Some(250_000_000), Some(250_000_000)).answer, Unknown);
    assert_eq!(of(None, Some(500_000_000)).answer, Unknown);
    assert_eq!(of(None, None).answer, Unknown);
}

#[test]
fn a_quota_that_is_usual_is_no_reason() {
    let with = |quota: Option<u64>| changed(guest(), |it| it.cgroup.cpu_quota = quota.map(allowed));
    let of = |before: Option<u64>, values: &[f64], made: &Measurement| {
        let usual = [history(values, &with(before))];
        gated(&with(Some(50_000)), &usual, [made, made], &nobody()).verdict()
    };
    let (stopped, values) = (throttled(0.49, 0.5), [100.0, 100.5, 99.5]);
    // One run under the quota does not make it usual.
    assert_eq!(of(Some(50_000), &values[..2], &stopped).cause, Some("cpu-quota"));
    assert_eq!(of(None, &values, &stopped).cause, Some("cpu-quota"));
    assert_eq!(of(Some(80_000), &values, &stopped).cause, Some("cpu-quota"));
    assert_eq!(of(Some(50_000), &values, &stopped).answer, Healthy);
    // A figure that is low under the usual quota has another cause, possibly other processes.
    let lower = changed(stopped, |it| it.metrics[0].summary.median = 60.0);
    let verdict = of(Some(50_000), &values, &lower);
    assert_eq!((verdict.answer, verdict.cause), (Unknown, None));
}

#[test]
fn what_half_of_a_fleet_has_is_not_what_is_usual_of_it() {
    let (large, small) = (with_cpus(64), with_cpus(62));
    let differences = |machines: [&Machine; 6]| {
        let fleet = fleet_of(0, &machines.map(|machine| (machine, 100.0)));
        UsualFigures::from_fleet(&fleet, &small).unwrap().differences(&small)
    };
    assert!(differences([&large, &large, &large, &small, &small, &small]).is_empty());
    assert_eq!(differences([&large, &large, &large, &large, &small, &small]).len(), 1);
    // Different quotas hide no CPU.
    let held = changed(large.clone(), |it| it.cgroup.cpu_quota = Some(allowed(800_000)));
    let found = differences([&held, &large, &held, &large, &held, &large]);
    assert_eq!(found.iter().map(MachineLoss::code).collect::<Vec<_>>(), ["fewer-cpus"]);
}

/// Returns a gathered run of (machine, figure) with numbered names, as n0 if `first` is 0.
fn fleet_of(first: usize, machines: &[(&Machine, f64)]) -> Run {
    let mut all = Run { nodes: Vec::new(), ..run_of(Vec::new()) };
    for (n, (machine, value)) in (first..).zip(machines) {
        let name = format!("n{n}");
        let machine = Machine { host: Some(name.clone()), ..(*machine).clone() };
        all.nodes.push(plimsoll_result::document::Node { name: name.clone(), machine: Some(machine) });
        all.measurements.push(Measurement { node: name, ..peak(1, *value) });
    }
    all
}

#[test]
fn a_fleet_says_what_is_usual_for_its_kind() {
    let here = Machine { host: Some("n0".to_owned()), id: "a".to_owned(), ..bare() };
    let other_kind = Machine { id: "b".to_owned(), ..bare() };
    // The machine itself and other kinds do not define what is usual.
    let made_of = |count: usize| -> Vec<(&Machine, f64)> {
        let kind = |n: usize| if (1..=4).contains(&n) { &other_kind } else { &here };
        let rate = |n: usize| if n <= 4 { 10.0 } else { 100.0 + (n % 3) as f64 * 0.1 };
        (0..count).map(|n| (kind(n), rate(n))).collect()
    };
    assert!(UsualFigures::from_fleet(&fleet_of(0, &made_of(9)), &here).is_err(), "four of its kind");
    let usual = [UsualFigures::from_fleet(&fleet_of(0, &made_of(12)), &here).unwrap()];
    let verdict = gated(&here, &usual, [&at(80.0), &at(80.0)], &nobody()).verdict();
    assert_eq!(verdict.line, "sick: cpu fma f64 avx2 20 % below its fleet; cause unknown");
    assert_eq!(gated(&here, &usual, [&at(100.0), &at(100.0)], &nobody()).verdict().answer, Healthy);
}

#[test]
fn a_machine_that_lost_memory_since_its_fleet_was_gathered_is_of_the_kind_that_it_was() {
    let of = |gib: u64, id: &str| {
        let machine = Machine { host: Some("n0".to_owned()), id: id.to_owned(), ..bare() };
        changed(machine, |it| it.memory.total_bytes = Some(gib << 30))
    };
    let (before, now) = (of(64, "a"), of(32, "b"));
    let machines = [(&before, 100.0); 6];
    let usual = [UsualFigures::from_fleet(&fleet_of(0, &machines), &now).unwrap()];
    let verdict = gated(&now, &usual, [&made(0.99), &made(0.99)], &nobody()).verdict();
    assert_eq!(verdict.line, "sick: memory 32 GiB, 64 GiB in the fleet");
    // A matching host name is enough to leave a node out, whatever the user called it: four remain.
    // It does not identify a machine that had more memory: many may have the host name of an image.
    let renamed = |count: usize, name: &str| {
        changed(fleet_of(0, &machines[..count]), |it| it.nodes[0].name = name.to_owned())
    };
    assert!(UsualFigures::from_fleet(&fleet_of(1, &machines[1..]), &before).is_ok());
    let is_known =
        |fleet: &Run| [&before, &now].map(|machine| UsualFigures::from_fleet(fleet, machine).is_ok());
    assert_eq!(is_known(&renamed(5, "10.0.0.1")), [false, false]);
    assert_eq!(is_known(&renamed(6, "10.0.0.1")), [true, false]);
    let nameless = Machine { host: Some("localhost".to_owned()), ..now.clone() };
    assert!(UsualFigures::from_fleet(&renamed(6, "localhost"), &nameless).is_err());
    // Several nodes with the same host name.
    let mut copies = fleet_of(0, &machines);
    copies.nodes.iter_mut().for_each(|node| {
        node.name.insert(0, 'x');
        node.machine.as_mut().unwrap().host = Some("n0".to_owned());
    });
    copies.measurements.iter_mut().for_each(|measurement| measurement.node.insert(0, 'x'));
    assert_eq!(is_known(&copies), [true, false]);
    // The wording of the evidence may have changed.
    let reworded = changed(now.clone(), |it| it.virtualisation.evidence.push("another".to_owned()));
    assert!(UsualFigures::from_fleet(&fleet_of(0, &machines), &reworded).is_ok());
    // A machine in a container now, or with another instance type, is another.
    let contained = changed(now.clone(), |it| it.virtualisation.container = Some("lxc".to_owned()));
    assert!(UsualFigures::from_fleet(&fleet_of(0, &machines), &contained).is_err());
    let typed = |machine: &Machine, instance: &str| {
        changed(machine.clone(), |it| it.virtualisation.instance = Some(instance.to_owned()))
    };
    assert!(is_same_machine(&before, &typed(&now, "m4.xlarge")));
    assert!(is_same_machine(&typed(&before, "m4.xlarge"), &typed(&now, "m4.xlarge")));
    assert!(!is_same_machine(&typed(&before, "m4.2xlarge"), &typed(&now, "m4.xlarge")));
    // Without a node of its own, or with one of another processor, its kind has too few machines.
    assert!(UsualFigures::from_fleet(&fleet_of(1, &machines[1..]), &now).is_err());
    let other = changed(now, |it| it.cpu.model_name = Some("another".to_owned()));
    assert!(UsualFigures::from_fleet(&fleet_of(0, &machines), &other).is_err());
}

/// Realistic noise: mostly small, sometimes a large loss, and bursts of a few in a row.
#[test]
fn of_a_thousand_gates_on_a_healthy_machine_none_is_sick_and_a_loss_is_found() {
    let mut generator = Seed::new(26, "gate", "noise").generator();
    let values: Vec<f64> = (0..10).map(|_| 100.0 * (1.0 + generator.random_range(-0.01..0.01))).collect();
    let usual = [history(&values, &bare())];
    let (template, machine) = (made(0.99), bare());
    let mut gates = |whole: f64, count: usize| -> usize {
        let mut one = || {
            let mut gate = Gate::new(&[case()], &machine, &usual, RATES);
            let mut figure = || {
                let is_lost = generator.random_range(0.0..1.0) < 0.08;
                let lost = if is_lost { generator.random_range(0.1..0.6) } else { 0.0 };
                let median = whole * (1.0 - lost) * (1.0 + generator.random_range(-0.01..0.01));
                changed(template.clone(), |it| it.metrics[0].summary.median = median)
            };
            gate.record_first(&[figure()], false);
            while gate.next().is_some() {
                gate.record_repetition(&figure(), &nobody());
            }
            gate.verdict().answer == Sick
        };
        (0..count).filter(|_| one()).count()
    };
    assert_eq!(gates(100.0, 1000), 0);
    assert!(gates(90.0, 200) >= 190);
}

#[test]
fn a_fault_that_the_system_tells_is_a_reason_and_wear_is_not() {
    let mut gate = begun(&[case()], &bare(), &[], &[made(0.99)]);
    gate.faults = vec![HardwareFault::NvmeWorn { drive: "nvme0".to_owned(), percent: 104 }];
    assert_eq!((gate.next(), gate.verdict().answer), (None, Healthy));
    // CPUs work at their critical temperature by design; slots may have fewer lanes than both ends.
    let sensor = "coretemp".to_owned();
    let hot = HardwareFault::TooHot { sensor, celsius: 100.0, critical: 100.0 };
    gate.faults.extend([hot, narrow(4), lost(1)]);
    assert_eq!(gate.verdict().answer, Healthy);
    gate.faults.push(HardwareFault::EdacUncorrected { controller: "mc0".to_owned(), count: 2 });
    assert_eq!((gate.verdict().answer, gate.verdict().cause), (Sick, Some("edac-uncorrected")));
}

fn narrow(lanes: u32) -> HardwareFault {
    health(lanes, None).faults().remove(0)
}

fn lost(count: u64) -> HardwareFault {
    health(16, Some(count)).faults().remove(0)
}

/// Returns the health of a machine with a link of `lanes` lanes and a drive with `lost` media
/// errors.
fn health(lanes: u32, lost: Option<u64>) -> Health {
    let pace = |lanes| LinkPace { transfers_per_s: 8_000_000_000, lanes };
    let (device, what) = ("0000:41:00.0".to_owned(), "NIC".to_owned());
    let links = vec![PcieLink { device, what, now: pace(lanes), possible: pace(16), saves_power: false }];
    let mut page = [0; 512];
    page[3] = 100;
    let smart = Smart::parse(&page).unwrap();
    let drive =
        |media_errors| Drive { name: "nvme0".to_owned(), smart: Smart { media_errors, ..smart.clone() } };
    Health { links, drives: lost.map(drive).into_iter().collect(), ..Health::default() }
}

#[test]
fn narrow_links_and_lost_data_are_a_reason_where_they_are_new() {
    let answer = |before: Option<Health>, fault: HardwareFault| {
        let shown = |shown| plimsoll_result::document::NodeHealth { node: "localhost".to_owned(), shown };
        let health = before.map(shown).into_iter().collect();
        let run = Run { health, machine: bare(), ..run_of(vec![peak(1, 100.0)]) };
        let usual = [UsualFigures::from_history(&[run], &bare()).unwrap()];
        let mut gate = begun(&[case()], &bare(), &usual, &[made(0.99)]);
        gate.faults = vec![fault];
        gate.verdict()
    };
    assert_eq!(answer(Some(health(4, Some(1))), narrow(4)).answer, Healthy);
    assert_eq!(answer(Some(health(4, Some(1))), lost(1)).answer, Healthy);
    assert_eq!(answer(Some(health(4, Some(1))), lost(2)).line, "sick: nvme0: media errors: 2; not so before");
    let narrower = answer(Some(health(16, Some(0))), narrow(4));
    assert_eq!((narrower.answer, narrower.cause), (Sick, Some("pcie-link")));
    // Faster than when idle, at another address, with more lanes; one such link more.
    let other = |lanes: u32, address: &str| {
        let mut health = health(lanes, None);
        health.links[0].now.transfers_per_s *= 2;
        health.links[0].device = address.to_owned();
        health.faults().remove(0)
    };
    assert_eq!(answer(Some(health(4, None)), other(4, "0000:42:00.0")).answer, Healthy);
    assert_eq!(answer(Some(health(4, None)), other(8, "0000:41:00.0")).answer, Healthy);
    assert_eq!(answer(Some(health(8, None)), other(4, "0000:41:00.0")).answer, Sick);
    // An idle GPU may save power by fewer lanes.
    let with_gpu = changed(health(4, None), |it| it.links[0].saves_power = true);
    let idle = with_gpu.faults().remove(0);
    assert_eq!(answer(Some(health(16, None)), idle.clone()).answer, Healthy);
    let mut gate = Gate::new(&[case()], &bare(), &[], RATES);
    (gate.before, gate.faults) = (Some(health(4, None)), vec![idle, narrow(4)]);
    assert!(gate.accusing_fault().is_none());
    // A bridge whose GPU was taken out.
    assert_eq!(answer(Some(with_gpu), narrow(4)).answer, Healthy);
    // The kernel renumbers drives at each boot.
    let mut renamed = health(4, Some(2));
    renamed.drives[0].name = "nvme1".to_owned();
    renamed.drives.extend(health(4, Some(0)).drives);
    assert_eq!(answer(Some(renamed), lost(2)).answer, Healthy);
    // The earlier run could not query the drive, or recorded nothing.
    assert_eq!(answer(Some(health(4, None)), lost(1)).answer, Healthy);
    assert_eq!(answer(None, narrow(4)).answer, Healthy);
}

#[test]
fn a_proof_names_its_cpus_and_a_missing_one_is_unknown() {
    let proof: Case = "cpu.integrity/count=30/affinity=0/threads=1".parse().unwrap();
    let cases = [case(), proof.clone()];
    let gate = Gate::new(&cases, &with_cpus(2), &[], RATES);
    assert!(gate.checks.iter().all(|check| check.case != proof) && gate.unjudged.is_empty());
    let figure = made(0.99);
    let proven = Measurement { case: proof, ..made(0.99) };
    let with = |measurements: &[Measurement]| begun(&cases, &with_cpus(2), &[], measurements);
    let all = with(&[figure.clone(), proven.clone()]);
    assert_eq!(all.proven.to_string(), "0");
    assert_eq!(all.verdict().line, "healthy: 2 checks passed, CPU 0 proven");
    let missing = with(std::slice::from_ref(&figure)).verdict();
    assert_eq!((missing.answer, missing.cause), (Unknown, Some("not-measured")));
    let wrong = WrongAnswer::new(WrongAnswerSource::Cpu(0), "sha256", "0f");
    let status = Status::Failed;
    let sick = with(&[figure, Measurement { status, wrong_answer: Some(Box::new(wrong)), ..proven }]);
    assert_eq!(sick.verdict().line, "sick: CPU 0 computed 0f in sha256 (wrong answer)");
    assert!(sick.proven.is_empty() && sick.next().is_none());
}
