//! Placement of threads: which CPUs they are pinned to, and in which order.

use std::cmp::Reverse;
use std::collections::HashMap;

use plimsoll_machine::{CpuSet, Machine};
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::plan::Group;

/// Order in which threads take CPUs; after the last it restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ThreadOrder {
    /// Alternating sockets, one CPU per core before SMT siblings, the fastest kind of core first.
    Spread,
    /// All siblings of a core before the next core, all cores of a socket before the next socket.
    Compact,
    /// These CPUs in ascending order.
    Cpus(CpuSet),
}

impl ThreadOrder {
    /// Parses `spread`, `compact` or CPUs (`0-3,8`); fails for CPUs that this process may not use.
    pub fn read(word: &str, machine: &Machine) -> Result<Self, String> {
        let (placement, allowed) = (Self::parse(word)?, &machine.cpu.allowed);
        let wrong =
            |cpu| format!("affinity: CPU {cpu} may not be used: this process is allowed CPUs {allowed}");
        placement.foreign(machine).map_or(Ok(()), |cpu| Err(wrong(cpu))).map(|()| placement)
    }

    fn parse(word: &str) -> Result<Self, String> {
        match (word, word.parse::<CpuSet>()) {
            ("spread", _) => Ok(Self::Spread),
            ("compact", _) => Ok(Self::Compact),
            (_, Ok(cpus)) if cpus.is_empty() => Err("affinity: no CPU is named".to_owned()),
            (_, Ok(cpus)) => Ok(Self::Cpus(cpus)),
            _ => {
                let shown = plimsoll_units::text::shown(word);
                Err(format!("affinity must be spread, compact or CPUs such as 0-3: '{shown}' is not"))
            }
        }
    }

    /// Returns the first CPU in [`ThreadOrder::Cpus`] that this process may not use, if any.
    fn foreign(&self, machine: &Machine) -> Option<usize> {
        let Self::Cpus(cpus) = self else { return None };
        cpus.iter().find(|cpu| !machine.cpu.allowed.contains(*cpu))
    }

    /// Returns the CPU number of each of `threads` threads, repeating if there are fewer CPUs;
    /// empty if the order has no CPU that this process may use.
    pub fn cpus(&self, machine: &Machine, threads: usize) -> Vec<usize> {
        let mut order: Vec<CpuPosition> = cpu_positions(machine);
        match self {
            Self::Spread => {
                order.sort_by_key(|at| (at.sibling, Reverse(at.capacity), at.in_package, at.package, at.cpu));
            }
            Self::Compact => order.sort_by_key(|at| (at.package, Reverse(at.capacity), at.core, at.cpu)),
            Self::Cpus(cpus) => order.retain(|at| cpus.contains(at.cpu)),
        }
        order.iter().map(|at| at.cpu).cycle().take(threads).collect()
    }
}

/// Fails if an `affinity` in `group` is invalid or names a CPU that this process may not use.
pub fn check_affinities(machine: &Machine, group: &Group) -> Result<(), String> {
    let words = group.words("affinity", &[]);
    words.iter().try_for_each(|word| ThreadOrder::read(word, machine).map(|_| ()))
}

/// Threads of a case with their placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threads {
    /// Number of threads.
    pub count: usize,
    /// Placement.
    pub place: ThreadOrder,
}

impl Threads {
    /// Reads number and CPU order of a case's threads; [`ThreadOrder::Spread`] without an affinity.
    pub fn of(case: &Case) -> Self {
        let place = case.word("affinity").and_then(|word| ThreadOrder::parse(word).ok());
        Self { count: case.threads(), place: place.unwrap_or(ThreadOrder::Spread) }
    }

    /// Returns the CPU number of each thread; in spread order if a listed CPU may not be used.
    pub fn cpus(&self, machine: &Machine) -> Vec<usize> {
        let place = if self.place.foreign(machine).is_some() { &ThreadOrder::Spread } else { &self.place };
        place.cpus(machine, self.count)
    }
}

/// Returns the CPU number of each thread of a case, by its `affinity` (spread by default).
pub fn cpus_of_case(machine: &Machine, case: &Case) -> Vec<usize> {
    Threads::of(case).cpus(machine)
}

/// Returns the CPU number of each of `threads` threads in the default order, spread.
pub fn spread_cpus(machine: &Machine, threads: usize) -> Vec<usize> {
    ThreadOrder::Spread.cpus(machine, threads)
}

struct CpuPosition {
    cpu: usize,
    package: u32,
    /// Relative speed of its kind of core; 0 if unknown.
    capacity: u32,
    /// First CPU of its core; the CPU itself if it has no known siblings.
    core: usize,
    sibling: usize,
    /// Index among the CPUs of its package with this `sibling`.
    in_package: usize,
}

/// Identifies a core: its first CPU or, if the kernel lists no siblings, package and core number.
/// The core number alone is not unique: kernels that read a device tree restart it in each cluster.
#[derive(PartialEq, Eq, Hash)]
enum CoreKey {
    First(usize),
    Numbers(u32, u32),
}

fn cpu_positions(machine: &Machine) -> Vec<CpuPosition> {
    let mut cores: HashMap<CoreKey, Vec<usize>> = HashMap::new();
    let mut taken: HashMap<(u32, usize), usize> = HashMap::new();
    let position = |cpu: usize| {
        let logical = machine.cpu.logical(cpu);
        let package = logical.and_then(|l| l.package).unwrap_or(0);
        let (mut core, mut sibling) = (cpu, 0);
        // Without siblings and a core number, nothing is known to be shared.
        let key = logical.and_then(|l| match l.siblings.first() {
            Some(first) => Some(CoreKey::First(first)),
            None => l.core.map(|core| CoreKey::Numbers(package, core)),
        });
        if let Some(key) = key {
            let members = cores.entry(key).or_default();
            (core, sibling) = (members.first().copied().unwrap_or(cpu), members.len());
            members.push(cpu);
        }
        let next = taken.entry((package, sibling)).or_default();
        *next += 1;
        let capacity = logical.and_then(|l| l.capacity).unwrap_or(0);
        CpuPosition { cpu, package, capacity, core, sibling, in_package: *next - 1 }
    };
    machine.cpu.allowed.iter().map(position).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::Root;
    use plimsoll_machine::cpu::Logical;

    use super::*;

    /// Two sockets, two cores each: siblings are 0 and 4, 1 and 5 (socket 0), 2 and 6, 3 and 7.
    fn machine() -> Machine {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.cpu.allowed = "0-7".parse().unwrap();
        let logical = |id: usize| {
            let (core, package) = (Some(id as u32 % 2), Some(id as u32 % 4 / 2));
            let siblings = [id % 4, id % 4 + 4].into_iter().collect();
            Logical { id, core, package, siblings, online: true, capacity: None }
        };
        machine.cpu.logical = (0..8).map(logical).collect();
        machine
    }

    #[test]
    fn spread_takes_sockets_in_turn_and_siblings_last_compact_the_reverse() {
        let machine = machine();
        assert_eq!(spread_cpus(&machine, 8), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(ThreadOrder::Compact.cpus(&machine, 8), [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(ThreadOrder::read("6,0-1", &machine).unwrap().cpus(&machine, 5), [0, 1, 6, 0, 1]);
        let mut nowhere = machine;
        nowhere.cpu.allowed = CpuSet::default();
        assert!(spread_cpus(&nowhere, 3).is_empty());
    }

    #[test]
    fn the_quickest_kind_of_core_comes_first() {
        // Like RK3588: CPUs 0-3 small, 4-7 large in two clusters that restart core numbers.
        let mut machine = machine();
        for cpu in &mut machine.cpu.logical {
            cpu.package = Some(0);
            cpu.core = Some(cpu.id as u32 % 2);
            cpu.siblings = CpuSet::single(cpu.id);
            cpu.capacity = Some(if cpu.id < 4 { 414 } else { 1024 });
        }
        assert_eq!(spread_cpus(&machine, 8), [4, 5, 6, 7, 0, 1, 2, 3]);
        assert_eq!(ThreadOrder::Compact.cpus(&machine, 5), [4, 5, 6, 7, 0]);
    }

    #[test]
    fn where_nothing_is_told_every_cpu_is_a_core() {
        let mut machine = machine();
        machine.cpu.logical.clear();
        assert_eq!(spread_cpus(&machine, 3), [0, 1, 2]);
        assert_eq!(ThreadOrder::Compact.cpus(&machine, 3), [0, 1, 2]);
    }

    #[test]
    fn wrong_places_are_refused_in_one_line() {
        let error = |word: &str| ThreadOrder::read(word, &machine()).unwrap_err();
        assert_eq!(error("0,9"), "affinity: CPU 9 may not be used: this process is allowed CPUs 0-7");
        let wide = error("wide\u{1b}\n");
        assert!(wide.starts_with("affinity must be spread, compact or CPUs such as 0-3: 'wide"), "{wide}");
        assert!(!wide.contains(['\u{1b}', '\n']));
    }
}
