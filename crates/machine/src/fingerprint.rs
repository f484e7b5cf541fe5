use super::Machine;

/// Hashes processor, topology, caches, memory size in GiB, hypervisor and DMI product name to 16
/// hexadecimal digits: equal on machines of one kind, whatever their kernel and affinity.
pub(super) fn of(machine: &Machine) -> String {
    let cpu = &machine.cpu;
    let mut facts = vec![
        format!("{:?}", machine.kernel.architecture),
        format!("{:?} {:?} {:?} {:?} {:?}", cpu.model_name, cpu.vendor, cpu.family, cpu.model, cpu.stepping),
        format!("{:?}", cpu.arm),
        format!("{:?} {:?} {}", cpu.sockets, cpu.cores, cpu.logical.len()),
        format!("{:?}", machine.memory.total_bytes.map(|bytes| bytes.saturating_add(1 << 29) >> 30)),
        format!("{:?}", machine.memory.nodes.len()),
        format!("{:?} {:?}", machine.virtualisation.hypervisor, machine.virtualisation.product),
    ];
    for c in &cpu.caches {
        facts.push(format!("{} {:?} {:?} {}", c.level, c.kind, c.size_bytes, c.instances.len()));
    }
    let bytes = facts.iter().flat_map(|fact| fact.bytes().chain([0]));
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>. It need not be hard to invert.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;
