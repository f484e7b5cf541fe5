//! What stands beside the heading of a group: the part of the machine that it measures.

use crate::bench::network::fact::LINK;
use crate::limit::microarchitecture::Core;
use crate::machine::{Cpu, Machine, Storage};
use crate::measurement::Measurement;
use crate::quantity::{Quantity, Unit};

/// Heading of a subsystem.
pub(super) fn title(subsystem: &str) -> &str {
    match subsystem {
        "cpu" => "CPU",
        "memory" => "Memory",
        "disk" => "Disk",
        "network" => "Network",
        "mpi" => "MPI between machines",
        other => other,
    }
}

/// What is measured, the most telling first. `first` is the group's first measurement.
pub(super) fn context(machine: &Machine, first: &Measurement) -> Vec<String> {
    match first.case.subsystem() {
        "cpu" => cpu(machine),
        "memory" => memory(machine),
        "disk" => machine.storage.as_ref().map(disk).unwrap_or_default(),
        "network" => network(first),
        _ => Vec::new(),
    }
}

fn cpu(machine: &Machine) -> Vec<String> {
    let cpu = &machine.cpu;
    let mut parts = vec![cpu.model_name.clone().unwrap_or_else(|| "unknown model".to_owned())];
    let core = Core::of(machine, cpu.allowed.first().unwrap_or(0)).ok();
    parts.extend(core.map(|core| core.name));
    parts.push(cpus(cpu));
    parts.extend(machine.virtualisation.hypervisor.clone());
    parts
}

fn cpus(cpu: &Cpu) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let allowed = match cpu.allowed.len() {
        n if n < cpu.threads => format!("{n} of {}", count(cpu.threads, "CPU")),
        n => count(n, "CPU"),
    };
    match cpu.cores_of(&cpu.allowed).or(cpu.cores) {
        Some(cores) => format!("{allowed} on {}", count(cores, "core")),
        None => allowed,
    }
}

fn memory(machine: &Machine) -> Vec<String> {
    let size = |bytes: u64| Quantity::new(bytes as f64, Unit::Byte).to_string();
    let mut parts = Vec::new();
    parts.extend(machine.memory.total_bytes.map(size));
    parts.extend(machine.cpu.last_level_bytes().map(|bytes| format!("last-level cache {}", size(bytes))));
    if machine.memory.nodes.len() > 1 {
        parts.push(format!("{} NUMA nodes", machine.memory.nodes.len()));
    }
    parts
}

fn disk(storage: &Storage) -> Vec<String> {
    let mut parts = vec![storage.path.clone()];
    parts.extend(storage.file_system.as_ref().map(|fs| fs.fs_type.clone()));
    parts.extend(storage.layers.iter().map(|layer| layer.name.clone()));
    parts.extend(storage.disks.iter().map(|disk| {
        let kind = serde_json::to_value(disk.kind).ok();
        let kind = kind.as_ref().and_then(|k| k.as_str()).unwrap_or("disk");
        let words = [Some(disk.name.as_str()), disk.model.as_deref(), Some(kind)];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }));
    parts
}

fn network(first: &Measurement) -> Vec<String> {
    match first.achieved.get(&LINK).as_deref() {
        Some("loopback") => vec!["loopback: memory, not a link".to_owned()],
        Some(link) => vec![link.to_owned()],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_subsystem_tells_what_it_measures() {
        let run = fixture::run();
        let of = |index: usize| context(&run.machine, &run.measurements[index]).join(" · ");
        assert_eq!(of(0), "AMD EPYC 9R14 · Zen 4 · 2 CPUs on 1 core · Firecracker");
        assert_eq!(of(3), "24 GiB");
        assert_eq!(of(7), "/srv/data · ext4 · vda virtio");
        assert_eq!(of(11), "loopback: memory, not a link");
    }

    #[test]
    fn cpus_that_are_not_allowed_are_told() {
        let mut machine = fixture::machine();
        machine.cpu.threads = 64;
        machine.cpu.cores = Some(32);
        assert_eq!(cpus(&machine.cpu), "2 of 64 CPUs on 32 cores");
        machine.cpu.cores = None;
        assert_eq!(cpus(&machine.cpu), "2 of 64 CPUs");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut machine = fixture::machine();
        machine.storage = None;
        machine.memory.total_bytes = None;
        let run = fixture::run();
        assert!(context(&machine, &run.measurements[7]).is_empty());
        assert!(context(&machine, &run.measurements[3]).is_empty());
    }
}
