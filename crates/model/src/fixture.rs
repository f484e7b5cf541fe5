//! Fixtures for tests, also of other crates (feature `testing`).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use plimsoll_machine::disk::DiskKind;
use plimsoll_machine::fixture::{disk, mounted};
use plimsoll_machine::{Machine, Root, Storage};
use plimsoll_stats::{Samples, Seed};
use plimsoll_units::quantity::Unit;

use crate::case::{Case, Key};
use crate::limit::{Input, Limit, LimitKind, LimitSource, Question};
use crate::measurement::{Measurement, MetricResult, Note, SamplePoint, Status};
use crate::metric::Better;
use crate::plan::Group;
use crate::sample::{Conditions, Match, Paired, Sample, ToolRun};

/// Returns a virtual machine with 2 CPUs of an AMD EPYC, 24 GiB and one virtio disk.
pub fn machine() -> Machine {
    let mut machine = Machine::discover(&Root::at("/nonexistent"));
    machine.id = "m-1".to_owned();
    machine.host = Some("bench-1".to_owned());
    machine.cpu.model_name = Some("AMD EPYC 9R14".to_owned());
    machine.cpu.vendor = Some("AuthenticAMD".to_owned());
    (machine.cpu.family, machine.cpu.model, machine.cpu.stepping) = (Some(25), Some(17), Some(1));
    machine.cpu.allowed = "0-1".parse().unwrap();
    machine.cpu.online = machine.cpu.allowed.clone();
    (machine.cpu.threads, machine.cpu.cores, machine.cpu.sockets) = (2, Some(1), Some(1));
    machine.memory.total_bytes = Some(24 << 30);
    machine.memory.available_bytes = Some(22 << 30);
    machine.virtualisation.hypervisor = Some("Firecracker".to_owned());
    let mut disk = disk("vda", DiskKind::Virtio, None);
    (disk.size_bytes, disk.logical_sector_bytes, disk.read_only) = (Some(100 << 30), Some(512), Some(false));
    let mut file_system = mounted("ext4");
    (file_system.mount_point, file_system.source) = ("/".to_owned(), "/dev/vda".to_owned());
    file_system.options = vec!["rw".to_owned()];
    let (path, device, file_system) = ("/srv/data".to_owned(), Some("vda".to_owned()), Some(file_system));
    machine.storage = Some(Storage { path, file_system, device, disks: vec![disk], ..Storage::default() });
    machine
}

/// Returns the group of a plan with these parameters, each with values as they are typed.
pub fn group(lists: &[(&str, &[&str])]) -> Group {
    lists.iter().fold(Group::default(), |group, (key, texts)| {
        let key = Key::find(key).unwrap();
        group.with(key.name, texts.iter().map(|text| key.parse(text).unwrap()).collect())
    })
}

/// Returns the group of a plan with `lists`, such as `op=read/block=4K,8K`; empty without any.
pub fn parse_group(lists: &str) -> Group {
    lists.split('/').filter(|list| !list.is_empty()).fold(Group::default(), |group, list| {
        let (key, texts) = list.split_once('=').unwrap();
        let key = Key::find(key).unwrap();
        group.with(key.name, texts.split(',').map(|text| key.parse(text).unwrap()).collect())
    })
}

/// Returns the `limits` of `metric` of a case on `machine`.
pub fn limits_of(
    limits: impl Fn(&Question<'_>) -> Vec<Limit>,
    (machine, case, metric): (&Machine, &Case, &str),
    samples: &[Sample],
) -> Vec<Limit> {
    limits(&Question { machine, case, metric, samples, evidence: &[] })
}

/// Returns a measurement of case `id` with metric `name`: ten samples within 0.4 % of `value`.
pub fn measured(id: &str, name: &str, unit: Unit, value: f64) -> Measurement {
    of_metric(id, metric(name, unit, value, 0.004))
}

/// Returns a measurement of case `id` with this metric alone.
pub fn of_metric(id: &str, metric: MetricResult) -> Measurement {
    let mut made = measured_on("bench-1", id, metric);
    made.conditions.steal = Some(0.0);
    made
}

/// Returns a measurement of case `id` on `node` with this metric, and nothing known beside it.
pub(crate) fn measured_on(node: &str, id: &str, metric: MetricResult) -> Measurement {
    Measurement {
        case: id.parse().unwrap(),
        node: node.to_owned(),
        repeat: 0,
        status: Status::Ok,
        reason: None,
        metrics: vec![metric],
        achieved: Default::default(),
        conditions: Conditions::default(),
        warnings: Vec::new(),
        cause: None,
        wrong_answer: None,
    }
}

/// Returns a metric with ten samples within ± `spread` (0.01 is 1 %) of `value`.
pub fn metric(name: &str, unit: Unit, value: f64, spread: f64) -> MetricResult {
    let place = |i: i32| f64::from((i * 7) % 10) / 4.5 - 1.0;
    metric_of(name, unit, (0..10).map(|i| value * (1.0 + spread * place(i))).collect())
}

/// Returns a metric with `samples` 0.1 s apart; lower is better if `unit` is seconds.
pub fn metric_of(name: &str, unit: Unit, samples: Vec<f64>) -> MetricResult {
    let point = |i: usize| SamplePoint { t: i as f64 * 0.1, steal: Some(0.0), ..SamplePoint::default() };
    let better = if unit == Unit::Second { Better::Lower } else { Better::Higher };
    let proved = Samples::new(samples.clone()).unwrap();
    let series = (0..samples.len()).map(point).collect();
    MetricResult { series, ..MetricResult::of(name, unit, better, &proved, Seed::new(1, "case", name)) }
}

/// Returns a warning with this code and text.
pub fn note(code: &str, text: &str) -> Note {
    Note { code: code.to_owned(), text: text.to_owned() }
}

impl Measurement {
    /// Multiplies the median of each metric and its interval by `factor`.
    pub fn scale(&mut self, factor: f64) {
        for summary in self.metrics.iter_mut().map(|metric| &mut metric.summary) {
            summary.median *= factor;
            summary.ci95 = summary.ci95.map(|ends| ends.map(|end| end * factor));
        }
    }

    /// Sets the limit of the first metric, and which share of the limit its median reaches.
    pub fn limited(mut self, limit: Limit) -> Self {
        let headline = &mut self.metrics[0];
        headline.of_limit = limit.value.map(|value| limit.share(headline.summary.median, value));
        headline.limit = Some(limit);
        self
    }

    /// Gives the first metric in seconds percentiles and a histogram with median `p50` seconds.
    pub fn distributed(mut self, p50: f64) -> Self {
        let tail = [("p50", 1.0), ("p90", 1.2), ("p95", 1.4), ("p99", 2.1), ("p99.9", 9.0), ("max", 41.0)];
        let latency = self.metrics.iter_mut().find(|m| m.unit == Unit::Second).unwrap();
        latency.percentiles = Some(tail.iter().map(|(n, x)| ((*n).to_owned(), x * p50)).collect());
        latency.histogram = Some(vec![(p50, 900), (p50 * 2.1, 90), (p50 * 41.0, 10)]);
        self
    }
}

/// Returns a run of reference tool `tool`; `pairs` are (our, its) values of metric `rate`.
pub fn tool_run(tool: &str, pairs: &[(f64, f64)]) -> ToolRun {
    ToolRun {
        name: tool.to_owned(),
        version: None,
        metric: "rate".to_owned(),
        definition: Match::Exact,
        note: String::new(),
        command: Vec::new(),
        input: BTreeMap::new(),
        achieved: Default::default(),
        pairs: pairs.iter().map(|&(own, tool)| Paired { own, tool }).collect(),
        warnings: Vec::new(),
        unavailable: None,
    }
}

/// Returns a derived limit of `value`; its only input is a clock of 3.684 GHz.
pub fn derived(value: f64, kind: LimitKind, formula: &str) -> Limit {
    let inputs = vec![Input::new("clock", 3.684e9, "Hz", "measured during the case")];
    Limit::fixed(kind, LimitSource::Derived, value, formula, inputs)
}

/// Returns a `cpu.peak` FMA measurement of number type `kind`; `value` and `limit` in FLOP/s.
pub fn cpu(kind: &str, threads: u64, value: f64, limit: f64) -> Measurement {
    let id = format!("cpu.peak/op=fma/type={kind}/isa=avx512/threads={threads}");
    let limit = derived(limit, LimitKind::Ceiling, "pipes × lanes × 2 × clock × cores");
    let mut made = measured(&id, "rate", Unit::FlopPerSecond, value).limited(limit);
    made.conditions.clock_hz = Some(3.684e9);
    made
}
