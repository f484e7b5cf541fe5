use super::human;
use plimsoll_bench_api::Subsystem;
use plimsoll_machine::Machine;
use plimsoll_model::limit::LimitSource;
use plimsoll_model::measurement::Measurement;

/// The memory benchmarks.
pub static SUBSYSTEM: Subsystem = Subsystem {
    name: "memory",
    benchmarks: &[
        &crate::Bandwidth,
        &crate::MemoryLatency,
        &crate::Block,
        &crate::LoadedLatency,
        &crate::Numa,
    ],
    title: "Memory",
    synonyms: &["mem", "ram"],
    about: "Bandwidth, latency, loaded latency",
    help: &[(
        "size",
        "working set: bytes per thread of all its arrays together; sweep: each power of two from 4K to well past the caches",
    )],
    context: |machine, first| {
        let mut parts = context(machine);
        parts.extend(of_the_socket(first).then(|| "limits: socket max".to_owned()));
        parts
    },
    asked_first: &["op", "size", "threads", "pattern", "pages", "affinity"],
    of_each_thread: &["size"],
    sweeps_sizes: true,
    ..Subsystem::USUAL
};

fn context(machine: &Machine) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(machine.memory.total_bytes.map(human));
    parts.extend(machine.cpu.last_level_bytes().map(|bytes| format!("last-level cache {}", human(bytes))));
    if machine.memory.nodes.len() > 1 {
        parts.push(format!("{} NUMA nodes", machine.memory.nodes.len()));
    }
    parts
}

/// Returns whether the headline's limit is that of a fully populated socket: a guest may have less.
fn of_the_socket(measurement: &Measurement) -> bool {
    let limit = measurement.metrics.first().and_then(|metric| metric.limit.as_ref());
    limit.is_some_and(|limit| limit.source == LimitSource::Rated)
}
