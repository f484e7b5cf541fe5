//! The memory benchmarks as a part of a report.

use super::human;
use crate::bench::Subsystem;
use crate::machine::Machine;

/// The memory benchmarks.
pub static PART: Subsystem = Subsystem {
    name: "memory",
    title: "Memory",
    context: |machine, _| context(machine),
    asked_first: &["op", "size", "threads", "pattern", "pages", "place"],
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
