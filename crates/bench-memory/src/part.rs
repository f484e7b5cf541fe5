use super::human;
use plimsoll_bench_api::Subsystem;
use plimsoll_machine::Machine;

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
    help: &[
        (
            "size",
            "working set of each thread, all its arrays together, such as 64M; sweep: each power of two from 4K to beyond the caches [default: beyond the caches; memory.latency: also in each cache]",
        ),
        (
            "scaling",
            "with --only memory.block, and --volume or --count: weak (each thread does that amount) or strong (the threads divide it) [default: weak]",
        ),
    ],
    context: |machine, _| context(machine),
    asked_first: &["op", "size", "threads", "pattern", "pages", "affinity"],
    of_each_thread: &["size"],
    sweeps_sizes: true,
    ..Subsystem::USUAL
};

fn context(machine: &Machine) -> Vec<String> {
    let (total, nodes) = (machine.memory.total_bytes.map(human), machine.memory.nodes.len());
    let last = machine.cpu.last_level_bytes().map(|bytes| format!("last-level cache {}", human(bytes)));
    let nodes = (nodes > 1).then(|| format!("{nodes} NUMA nodes"));
    [total, last, nodes].into_iter().flatten().collect()
}
