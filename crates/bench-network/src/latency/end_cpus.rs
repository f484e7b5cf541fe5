//! Placement of both ends of a round trip, which decides what is measured: a wake-up takes a few µs
//! on an awake CPU and tens of µs across idle ones.

use std::collections::BTreeSet;

use crate::EndPlacement;
use crate::fact::{PLACEMENT, PLACEMENTS};
use plimsoll_bench_api::ThreadOrder as Order;
use plimsoll_bench_api::prelude::*;
use plimsoll_server::traffic::PinnedCpus;

pub(super) const SAME_CPU: &str = "same-cpu";

/// One placement: the client on the first CPU of a list, the server on CPU `far`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndCpus {
    pub(super) name: &'static str,
    pub(super) far: usize,
}

/// Returns one placement per kind of distance between the first of `cpus` and another one (such as
/// same core), nearest first. Polling ends share a CPU only if there is no other.
pub(super) fn candidate_placements(machine: &Machine, cpus: &[usize], polls: bool) -> Vec<EndCpus> {
    let Some(first) = cpus.first() else { return Vec::new() };
    let mut found: Vec<EndCpus> = Vec::new();
    for (far, cpu) in cpus.iter().enumerate() {
        let name = relation(machine, *first, *cpu);
        let alone = cpus.iter().all(|cpu| cpu == first);
        if (name != SAME_CPU || !polls || alone) && found.iter().all(|seats| seats.name != name) {
            found.push(EndCpus { name, far });
        }
    }
    found.sort_by_key(|seats| RELATIONS.iter().position(|name| *name == seats.name));
    found
}

const RELATIONS: [&str; 6] =
    [SAME_CPU, "smt-siblings", "shared-cache", "two-cores", "separate-caches", "two-sockets"];

/// Returns how two CPUs are related, such as `smt-siblings`.
pub(super) fn relation(machine: &Machine, one: usize, other: usize) -> &'static str {
    let logical = |cpu| machine.cpu.logical(cpu);
    let package = |cpu| logical(cpu).and_then(|l| l.package);
    if one == other {
        return SAME_CPU;
    }
    if logical(one).is_some_and(|l| l.siblings.contains(other)) {
        return "smt-siblings";
    }
    if package(one).zip(package(other)).is_some_and(|(one, other)| one != other) {
        return "two-sockets";
    }
    let last = machine.cpu.caches.iter().filter(|cache| cache.holds_data()).max_by_key(|cache| cache.level);
    match last.and_then(|cache| cache.instances.iter().find(|cpus| cpus.contains(one))) {
        Some(sharers) if sharers.contains(other) => "shared-cache",
        Some(_) => "separate-caches",
        None => "two-cores",
    }
}

/// Returns the placement on the CPUs of `order`, each taken once: the client's threads use them
/// from the first on, the server's from the second on (one CPU serves both ends).
pub(super) fn ordered_placement(machine: &Machine, order: &Order) -> EndPlacement {
    let mut cpus = order.cpus(machine, machine.cpu.allowed.len());
    let mut known = BTreeSet::new();
    cpus.retain(|cpu| known.insert(*cpu));
    let near = PinnedCpus(cpus);
    EndPlacement { far: near.starting_at(1), near }
}

/// Describes the placement, with the median round-trip time of each other placement tried; `None`
/// if no placement is recorded.
pub(super) fn describe_placement(measurement: &Measurement) -> Option<String> {
    let own = measurement.achieved.get(&PLACEMENT)?;
    let words = |name: &str| match name {
        "same-cpu" => "one CPU".to_owned(),
        "smt-siblings" => "two threads of one core".to_owned(),
        "shared-cache" => "two cores that share a cache".to_owned(),
        "separate-caches" => "cores of two caches".to_owned(),
        other => plimsoll_units::text::shown_within(&other.replace('-', " "), 32),
    };
    let tried = measurement.achieved.get(&PLACEMENTS).unwrap_or_default();
    let others = tried.iter().filter(|(name, _)| **name != own).map(|(name, time)| {
        format!("on {}, the median is {}", words(name), Quantity::new(*time, Unit::Second))
    });
    let others: Vec<String> = others.collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
    Some(format!("client and server on {}{others}", words(&own)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::fixture::Fixture;
    use proptest::prelude::*;

    fn machine(name: &str) -> Machine {
        Fixture::open(name).unwrap().machine()
    }

    #[test]
    fn one_cpu_has_one_way_and_more_have_others() {
        let machine = machine("firecracker-zen4");
        let cpus: Vec<usize> = machine.cpu.allowed.iter().collect();
        assert_eq!(candidate_placements(&machine, &cpus[..1], false), [EndCpus { name: SAME_CPU, far: 0 }]);
        assert_eq!(candidate_placements(&machine, &cpus[..1], true), [EndCpus { name: SAME_CPU, far: 0 }]);
        let all = candidate_placements(&machine, &cpus, false);
        assert!(all.len() > 1 && all[0].name == SAME_CPU, "{all:?}");
        assert!(candidate_placements(&machine, &cpus, true).iter().all(|seats| seats.name != SAME_CPU));
        assert_eq!(candidate_placements(&machine, &[], false), []);
    }

    #[test]
    fn a_place_that_was_asked_for_is_kept() {
        let machine = machine("firecracker-zen4");
        let of = |place: &str| {
            let placement = ordered_placement(&machine, &Order::read(place, &machine).unwrap());
            (placement.near.0, placement.far.0)
        };
        assert_eq!(of("0"), (vec![0], vec![0]));
        assert_eq!(of("0-1"), (vec![0, 1], vec![1, 0]));
    }

    proptest! {
        #[test]
        fn every_way_names_how_its_cpus_lie(polls: bool, skip in 0usize..8) {
            let machine = machine("firecracker-zen4");
            let cpus: Vec<usize> = machine.cpu.allowed.iter().skip(skip).collect();
            for seats in candidate_placements(&machine, &cpus, polls) {
                prop_assert_eq!(seats.name, relation(&machine, cpus[0], cpus[seats.far]));
            }
        }
    }
}
