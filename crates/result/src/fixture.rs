//! Synthetic runs for tests of this and other crates (feature `testing`).
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use plimsoll_model::limit::{Limit, LimitKind};
use plimsoll_model::measurement::{Measurement, Note, Status, ToolResult};
use plimsoll_model::sample::{FailureCause, ToolRun};
use plimsoll_model::warning::Warning;
use plimsoll_stats::EndedBy;
use plimsoll_units::quantity::Unit;

use crate::document::{Finding, Node, NodeHealth, PlanInfo, RUN_SCHEMA, Run, RunStatus};

pub use plimsoll_model::fixture::*;

/// Id of [`run`].
pub const ID: &str = "019aa5c3-2f1b-7c40-9d21-5b0c3f6a7e88";

/// Returns a complete run of one node, `bench-1`, with these measurements.
pub fn run_of(measurements: Vec<Measurement>) -> Run {
    let machine = machine();
    Run {
        schema: RUN_SCHEMA.to_owned(),
        id: ID.to_owned(),
        started: "2026-11-21T08:19:04.123Z".to_owned(),
        elapsed_s: 47.3,
        clock_steps: Vec::new(),
        health: Vec::new(),
        version: "0.1.0".to_owned(),
        seed: 42,
        status: RunStatus::Complete,
        plan: PlanInfo {
            name: "quick".to_owned(),
            samples: None,
            sample_time: 0.1,
            precision: 0.01,
            budget: Some(48.0),
            cases: measurements.len(),
            repeat: 1,
            scale: 1.0,
            hash: String::new(),
            text: String::new(),
            notes: Vec::new(),
        },
        nodes: vec![Node { name: "bench-1".to_owned(), machine: None }],
        machine,
        findings: vec![Finding {
            code: "scaling".to_owned(),
            text: "cpu.peak fma f64 scales 1.01 × on 2 threads: these 2 CPUs share one core".to_owned(),
            evidence: serde_json::json!({ "threads": [1, 2], "rate": [117.4e9, 118.1e9] }),
        }],
        measurements,
    }
}

/// Returns `run` with all its results once on each of these nodes.
pub fn on_nodes(run: &Run, nodes: &[impl AsRef<str>]) -> Run {
    let names = || nodes.iter().map(|node| node.as_ref().to_owned());
    let on =
        |node: String| run.measurements.iter().map(move |m| Measurement { node: node.clone(), ..m.clone() });
    let measurements = names().flat_map(on).collect();
    Run { nodes: names().map(|name| Node { name, machine: None }).collect(), measurements, ..run.clone() }
}

/// Returns the health of a node with a hot drive on a narrow link and all kinds of facts.
pub fn node_health(node: &str) -> NodeHealth {
    let shown = serde_json::json!({
        "microcode": ["0x1"],
        "mitigations": { "mds": "Mitigation: Clear CPU buffers" },
        "links": [{
            "device": "0000:41:00.0",
            "what": "NVMe drive",
            "now": { "transfers_per_s": 8_000_000_000_u64, "lanes": 2 },
            "possible": { "transfers_per_s": 8_000_000_000_u64, "lanes": 4 },
            "saves_power": false,
        }],
        "sensors": [{ "chip": "nvme", "label": "Composite", "celsius": 85.5, "critical": 85.0 }],
        "drives": [{
            "name": "nvme0", "critical_warning": 2, "kelvin": 358, "spare_percent": 100, "spare_threshold_percent": 10,
            "used_percent": 3, "read_bytes": 0, "written_bytes": 512_000, "power_on_hours": 9, "unsafe_shutdowns": 0,
            "media_errors": 1,
        }],
        "counters": { "throttled": { "cores": { "0:1": 3 }, "packages": {} } },
        "missing": ["energy"],
    });
    NodeHealth { node: node.to_owned(), shown: serde_json::from_value(shown).unwrap() }
}

/// Returns a run with each kind of row of the results table.
pub fn run() -> Run {
    // Made once: confidence intervals are expensive in debug builds.
    static RUN: LazyLock<Run> = LazyLock::new(varied);
    RUN.clone()
}

fn varied() -> Run {
    run_of(vec![
        cpu("f64", 1, 117.4e9, 117.9e9),
        cpu("f64", 2, 118.1e9, 118.2e9),
        invalid(cpu("f32", 1, 260.0e9, 236.1e9)),
        with_bus(memory("triad", 11.2e9, 0.004), 14.9e9),
        warned(memory("read", 13.4e9, 0.06)),
        chase(512 << 10, 3.8e-9),
        chase(1 << 30, 104e-9),
        disk_latency(),
        disk_rate(),
        stopped(
            "disk.io/op=write/pattern=sequential/block=1M/depth=8/threads=1",
            FailureCause::Environment,
            "no space: needs 1 GiB, has 0.4 GiB below the reserve on /srv; free some or choose another --dir",
        ),
        stopped(
            "disk.fsync/block=4K/threads=1",
            FailureCause::NotHere,
            "tmpfs has nothing to flush to; choose a --dir on a disk",
        ),
        network(),
        round_trip(),
    ])
}

fn with_bus(mut made: Measurement, value: f64) -> Measurement {
    made.metrics.push(metric("bus_bandwidth", Unit::BytePerSecond, value, 0.004));
    made
}

fn invalid(mut made: Measurement) -> Measurement {
    made.status = Status::Invalid;
    made.reason = Some("rate is 110.1 % of its limit: the clock probe was disturbed".to_owned());
    made
}

fn memory(op: &str, value: f64, spread: f64) -> Measurement {
    let id = format!("memory.bandwidth/op={op}/size=512M/variant=best/pages=thp/threads=2");
    let reason = "the memory's type and channels are not told to this virtual machine; give --limits FILE";
    let mut made = of_metric(&id, metric("bandwidth", Unit::BytePerSecond, value, spread));
    made.achieved.put("variant", "avx512-nt");
    made.limited(Limit::unknown(LimitKind::Ceiling, reason))
}

fn warned(mut made: Measurement) -> Measurement {
    made.warnings = vec![
        Note::from(Warning::NotConverged { reached: 0.031, wanted: 0.01, by: EndedBy::SampleCap }),
        Note {
            code: "disturbed".to_owned(),
            text: "disturbed: 7.2 % of the time was stolen or preempted and is set aside; stop other work or choose a quieter host".to_owned(),
        },
    ];
    made
}

fn chase(bytes: u64, value: f64) -> Measurement {
    let size = plimsoll_units::quantity::format_size(bytes);
    let made =
        measured(&format!("memory.latency/size={size}/pages=thp/threads=1"), "latency", Unit::Second, value);
    if bytes < 1 << 20 { made.limited(derived(3.8e-9, LimitKind::Floor, "14 cycles ÷ clock")) } else { made }
}

fn disk_latency() -> Measurement {
    let id = "disk.io/op=read/pattern=random/block=4K/depth=1/engine=io_uring/cache=direct/threads=1";
    measured(id, "latency", Unit::Second, 87e-6).distributed(87e-6).limited(Limit::unknown(
        LimitKind::Floor,
        "nothing is known of the device behind vda (virtio); give --limits FILE",
    ))
}

fn disk_rate() -> Measurement {
    let id = "disk.io/op=read/pattern=random/block=4K/depth=32/engine=io_uring/cache=direct/threads=1";
    let mut made = measured(id, "rate", Unit::IoPerSecond, 152_300.0);
    made.metrics.push(metric("latency", Unit::Second, 201e-6, 0.01));
    made.distributed(201e-6).limited(Limit::unknown(
        LimitKind::Ceiling,
        "nothing is known of the device behind vda (virtio); give --limits FILE",
    ))
}

fn stopped(id: &str, cause: FailureCause, reason: &str) -> Measurement {
    let mut made = measured(id, "rate", Unit::PerSecond, 1.0);
    made.metrics.clear();
    made.status = if cause == FailureCause::NotHere { Status::Skipped } else { Status::Failed };
    (made.cause, made.reason) = (Some(cause), Some(reason.to_owned()));
    made
}

fn network() -> Measurement {
    let mut made =
        measured("network.tcp/message=64K/streams=1/direction=up", "goodput", Unit::BitPerSecond, 31.4e9);
    made.achieved.put("link", "loopback");
    let mut limit = derived(88.0e9, LimitKind::Ceiling, "copy bandwidth ÷ 2 copies");
    limit.reason = Some("loopback: memory, not a link".to_owned());
    made.limited(limit)
}

fn round_trip() -> Measurement {
    let id = "network.latency/protocol=tcp/message=1/streams=1";
    let mut made = measured(id, "rtt", Unit::Second, 12.4e-6).distributed(12.4e-6);
    made.achieved.put("link", "loopback");
    made.limited(Limit::unknown(
        LimitKind::Floor,
        "loopback has no physical link; measure with a server on another machine",
    ))
}

/// Returns a run with one result compared with a reference tool and two without that tool.
pub fn with_tools() -> Run {
    let long =
        "disk.io/op=read/pattern=random/block=1M/depth=1/threads=2/engine=psync/volume=10M/scaling=strong";
    let mut all = Vec::new();
    for (id, absent) in [(long, false), ("cpu.peak/op=add/type=i8", true), ("cpu.peak/op=add/type=i16", true)]
    {
        let mut made = of_metric(id, metric_of("rate", Unit::BytePerSecond, vec![1e9, 1.1e9]));
        made.metrics[0].tool_results = vec![tool_result(absent)];
        all.push(made);
    }
    run_of(all)
}

fn tool_result(absent: bool) -> ToolResult {
    let pairs = [(10.0, 9.8), (10.1, 9.9), (10.0, 9.9), (9.9, 9.8), (10.0, 9.7)];
    let pairs = pairs.map(|(own, tool_result)| (own * 1e8, tool_result * 1e8));
    let unavailable = absent.then(|| "not installed; apt-get install iozone3".to_owned());
    let tool_run = tool_run("iozone", &pairs[..if absent { 0 } else { pairs.len() }]);
    ToolResult::of(&ToolRun { unavailable, ..tool_run }, 0.03)
}
