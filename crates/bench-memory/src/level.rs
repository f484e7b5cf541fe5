use plimsoll_machine::Machine;

use super::working_set;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLevel {
    pub(crate) number: u8,
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnsweringLevel {
    /// A cache of this level: each thread's share fits in the cache that its CPU uses.
    Cache(u8),
    /// A cache of this level in part: larger than the caches, but too small to neglect them.
    CacheAndMemory(u8),
    Memory,
    Unknown,
}

impl std::fmt::Display for AnsweringLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cache(level) => write!(f, "L{level}"),
            Self::CacheAndMemory(level) => write!(f, "L{level} and memory"),
            Self::Memory => f.write_str("memory"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Returns the data caches of `cpu` with known, ascending sizes, nearest first.
pub(crate) fn levels(machine: &Machine, cpu: usize) -> Vec<MemoryLevel> {
    let mut found: Vec<MemoryLevel> = Vec::new();
    for number in 1..=4 {
        let bytes = machine.cpu.cache_of(cpu, number).and_then(|cache| cache.size_bytes);
        let Some(bytes) = bytes else { continue };
        if found.last().is_none_or(|inner| inner.bytes < bytes) {
            found.push(MemoryLevel { number, bytes });
        }
    }
    found
}

/// Returns the nearest cache level that holds `size` bytes for a thread on each of `cpus`; `None`
/// if only memory does. A cache with unknown sharers counts as shared by all CPUs.
pub(crate) fn answering(machine: &Machine, cpus: &[usize], size: u64) -> Option<u8> {
    let first = cpus.first()?;
    let holds = |level: u8| {
        cpus.iter().all(|cpu| {
            let Some(cache) = machine.cpu.cache_of(*cpu, level) else { return false };
            let instance = cache.instances.iter().find(|sharers| sharers.contains(*cpu));
            let threads = match instance {
                Some(sharers) => cpus.iter().filter(|other| sharers.contains(**other)).count(),
                None => cpus.len(),
            };
            cache.size_bytes.is_some_and(|bytes| size.saturating_mul(threads as u64) <= bytes)
        })
    };
    levels(machine, *first).into_iter().map(|level| level.number).find(|level| holds(*level))
}

/// Returns the level that answers a thread on each of `cpus` with `size` bytes in `arrays` arrays,
/// of which it touches only cache lines of `lines` bytes in total.
pub(crate) fn answers(
    machine: &Machine,
    cpus: &[usize],
    [size, lines]: [u64; 2],
    arrays: u64,
) -> AnsweringLevel {
    let last = cpus.first().and_then(|cpu| levels(machine, *cpu).pop());
    let total = lines.saturating_mul(cpus.len() as u64);
    match (answering(machine, cpus, size), last) {
        (Some(level), _) => AnsweringLevel::Cache(level),
        (None, _) if total >= working_set::least(machine, cpus, arrays) => AnsweringLevel::Memory,
        (None, None) => AnsweringLevel::Unknown,
        (None, Some(last)) => AnsweringLevel::CacheAndMemory(last.number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{KIB, MIB, machine};

    #[test]
    fn the_level_depends_on_how_many_threads_share_a_cache() {
        let zen4 = machine("firecracker-zen4");
        let level = |cpus: &[usize], size| answers(&zen4, cpus, [size; 2], 1).to_string();
        assert_eq!(level(&[0], 32 * KIB), "L1");
        assert_eq!(level(&[0], 33 * KIB), "L2");
        assert_eq!(level(&[0, 1], 32 * KIB), "L1", "each CPU has its own");
        assert_eq!(level(&[0, 0], 32 * KIB), "L2", "two threads on one CPU");
        assert_eq!(level(&[0, 1], MIB), "L2");
        assert_eq!(level(&[0], 32 * MIB), "L3");
        assert_eq!(level(&[0, 1], 32 * MIB), "L3 and memory", "both share the third level");
        assert_eq!(level(&[0, 1], 67 * MIB), "L3 and memory", "level 2 counts as well");
        assert_eq!(level(&[0, 1], 68 * MIB), "memory");
        assert_eq!(answers(&zen4, &[0, 1], [64 * MIB; 2], 2), AnsweringLevel::CacheAndMemory(3));
        let chase = |lines| answers(&zen4, &[0], [512 * MIB, lines], 1);
        assert_eq!(chase(132 * MIB), AnsweringLevel::Memory);
        let wanted = AnsweringLevel::CacheAndMemory(3);
        assert_eq!(chase(131 * MIB), wanted, "a quarter of the lines may be in the cache");
        assert_eq!(level(&[], MIB), "unknown");
    }

    #[test]
    fn caches_of_whom_nobody_knows_the_sharers_are_shared_by_all() {
        let mut zen4 = machine("firecracker-zen4");
        for cache in &mut zen4.cpu.caches {
            for sharers in std::mem::take(&mut cache.instances) {
                for cpu in sharers.iter() {
                    cache.sharing_unknown.insert(cpu);
                }
            }
        }
        assert_eq!(answering(&zen4, &[0, 1], 16 * KIB), Some(1));
        assert_eq!(answering(&zen4, &[0, 1], 32 * KIB), Some(2));
        zen4.cpu.caches.clear();
        assert_eq!(answers(&zen4, &[0], [16 * KIB; 2], 1), AnsweringLevel::Unknown);
        assert_eq!(answers(&zen4, &[0], [1 << 30; 2], 1), AnsweringLevel::Memory);
    }
}
