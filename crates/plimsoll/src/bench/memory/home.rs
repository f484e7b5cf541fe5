//! Where a working set lives: the cache that holds it, or memory.

use super::{TIMES_LAST_LEVEL, last_level};
use crate::machine::{CpuSet, Machine};

/// The nearest cache level that holds what all the threads that share each cache work on, such as `L2`; else `memory`.
/// `bytes` is what one thread works on, `cpus` the CPU of each thread.
pub(super) fn home(machine: &Machine, cpus: &[usize], bytes: u64) -> String {
    if machine.cpu.caches.is_empty() {
        return "unknown".to_owned();
    }
    for level in 1..=4 {
        if !cpus.is_empty() && cpus.iter().all(|cpu| holds(machine, cpus, *cpu, level, bytes)) {
            return format!("L{level}");
        }
    }
    let total = bytes.saturating_mul(cpus.len() as u64);
    if total >= last_level(machine).saturating_mul(TIMES_LAST_LEVEL) {
        "memory".to_owned()
    } else {
        "memory, in part the last cache".to_owned()
    }
}

/// Whether the cache of this level that `cpu` uses holds `bytes` of each thread that uses it.
fn holds(machine: &Machine, cpus: &[usize], cpu: usize, level: u8, bytes: u64) -> bool {
    let Some(cache) = machine.cpu.cache_of(cpu, level) else { return false };
    let alone = CpuSet::single(cpu);
    let sharers = cache.instances.iter().find(|set| set.contains(cpu)).unwrap_or(&alone);
    let threads = cpus.iter().filter(|other| sharers.contains(**other)).count() as u64;
    cache.size_bytes.is_some_and(|size| bytes.saturating_mul(threads) <= size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::{Fault, Fixture};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn threads_that_share_a_cache_share_its_room() -> Result<(), Fault> {
        // 32 KiB and 1 MiB for each core, 32 MiB for both.
        let mut machine = Fixture::open("firecracker-zen4")?.machine();
        let of = |machine: &Machine, cpus: &[usize], bytes| home(machine, cpus, bytes);
        assert_eq!(of(&machine, &[0], 32 * KIB), "L1");
        assert_eq!(of(&machine, &[0, 1], 32 * KIB), "L1", "each has its own");
        assert_eq!(of(&machine, &[0, 0], 32 * KIB), "L2", "both are on one");
        assert_eq!(of(&machine, &[0], 33 * KIB), "L2");
        assert_eq!(of(&machine, &[0], 32 * MIB), "L3");
        assert_eq!(of(&machine, &[0, 1], 16 * MIB), "L3");
        assert_eq!(of(&machine, &[0, 1], 17 * MIB), "memory, in part the last cache");
        assert_eq!(of(&machine, &[0, 1], 64 * MIB), "memory");
        assert_eq!(of(&machine, &[0], u64::MAX), "memory");
        machine.cpu.caches.clear();
        assert_eq!(of(&machine, &[0], 1), "unknown");
        Ok(())
    }
}
