//! Affinity of threads (`--affinity`) and NUMA node of their memory (`--node`). Free memory of a
//! bound node is compared before allocation, as Linux kills a process that needs more.

use std::collections::BTreeMap;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::numa::{on_node, resident_pages_by_node};

use super::fact::MEMORY_NODES;
use super::warning::MemoryWarning;
use super::{check_page_pool, fits, numa, pages_for, reserved_page, rounded_to_pages};
use plimsoll_bench_api::buffer::{human, reserve};
use plimsoll_model::job::MemorySite;

const NODE: &str = "node";

/// Returns a case for each combination of `affinity` and NUMA `node` that `group` requests. Without
/// `node`, each thread uses memory of its own node. Fails if this machine lacks a requested value.
pub(super) fn affinities(machine: &Machine, group: &Group) -> Result<Vec<Case>, String> {
    let known: Vec<String> = machine.memory.nodes.iter().map(|node| node.id.to_string()).collect();
    match group.numbers(NODE, &[]).iter().find(|node| !known.contains(&node.to_string())) {
        Some(node) if known.is_empty() => {
            return Err(format!(
                "--node {node} is not supported on this machine: the kernel shows no NUMA nodes"
            ));
        }
        Some(node) => {
            let known = known.join(", ");
            return Err(format!("node must be a NUMA node of this machine ({known}): {node} is not"));
        }
        None => check_affinities(machine, group)?,
    }
    let nodes = group.each_of(vec![Case::of("")], NODE);
    let places = group.each_of(vec![Case::of("")], "affinity");
    // The node stands before the affinity in an id, and varies first.
    Ok(places.iter().flat_map(|place| nodes.iter().map(|node| node.clone().with_params_of(place))).collect())
}

pub(super) fn bytes_per_thread(site: &MemorySite) -> usize {
    usize::try_from(site.size).unwrap_or(usize::MAX)
}

/// Fails unless the machine and, if `site` has one, the NUMA node have enough free memory for it.
pub(super) fn check_free_memory(site: &MemorySite, machine: &Machine) -> Result<(), CannotMeasure> {
    let threads = site.threads.count as u64;
    match reserved_page(site.pages) {
        Some(page) => {
            let needed = pages_for(threads, site.size, page);
            check_page_pool(&machine.memory.huge_pages, "/sys/kernel/mm/hugepages", page, needed)?;
        }
        None => fits(machine, threads, site.size, site.pages)?,
    }
    site.node.map_or(Ok(()), |node| fits_on(site, machine, node, threads))
}

fn fits_on(site: &MemorySite, machine: &Machine, id: usize, threads: u64) -> Result<(), CannotMeasure> {
    let size = site.size;
    let Some(node) = machine.memory.nodes.iter().find(|node| node.id == id) else { return Ok(()) };
    let total = node.total_bytes.unwrap_or(0);
    if total == 0 {
        let with: Vec<String> = numa::with_memory(machine).iter().map(ToString::to_string).collect();
        let with = with.join(", ");
        return Err(CannotMeasure::not_here(format!("node {id} has no memory; nodes with memory: {with}")));
    }
    if let Some(page) = reserved_page(site.pages) {
        let place = format!("/sys/devices/system/node/node{id}/hugepages");
        return check_page_pool(&node.huge_pages, &place, page, pages_for(threads, size, page));
    }
    let free = node.free_bytes.unwrap_or(total);
    let needed = rounded_to_pages(size, site.pages).and_then(|size| size.checked_mul(threads));
    let usable = free.saturating_sub(reserve(free));
    if needed.is_some_and(|needed| needed <= usable) {
        return Ok(());
    }
    Err(CannotMeasure::environment(format!(
        "needs {threads} × {} of memory on node {id}, and only {} can be used: {} are free there, of which {} stay free; use a smaller --size or another --node",
        human(size),
        human(usable),
        human(free),
        human(reserve(free))
    )))
}

/// Runs `work` so that memory first touched by this thread in it is on NUMA node `node`, if given.
pub(super) fn allocate_on_node<T>(node: Option<usize>, work: impl FnOnce() -> T) -> Result<T, CannotMeasure> {
    on_node(node, work).map_err(CannotMeasure::not_here)
}

/// Records in `facts` the NUMA nodes that `memory` is on, and a warning if they are not the node
/// `asked`; does nothing if `asked` is `None`.
pub(super) fn note_memory_nodes<'a>(
    facts: &mut Facts,
    asked: Option<usize>,
    memory: impl Iterator<Item = &'a [u8]>,
) {
    let Some(wanted) = asked else { return };
    let found = pages_by_node(memory);
    facts.achieved.set(&MEMORY_NODES, found.keys().copied().collect::<Vec<_>>());
    note_elsewhere(facts, wanted, &found);
}

/// Returns the number of pages of `memory` per NUMA node; empty if the kernel does not show it.
pub(super) fn pages_by_node<'a>(memory: impl Iterator<Item = &'a [u8]>) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    for (node, pages) in memory.filter_map(|bytes| resident_pages_by_node(bytes).ok()).flatten() {
        *found.entry(node).or_default() += pages;
    }
    found
}

pub(super) fn note_elsewhere(facts: &mut Facts, wanted: usize, found: &BTreeMap<usize, usize>) {
    let elsewhere: usize = found.iter().filter(|(node, _)| **node != wanted).map(|(_, pages)| pages).sum();
    if elsewhere > 0 {
        facts.warnings.push(MemoryWarning::PagesElsewhere { pages: elsewhere, node: wanted }.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{machine, parse_group, without_memory_on};
    use crate::{Bandwidth, Block, MemoryLatency};
    use plimsoll_bench_api::Benchmark;
    use plimsoll_machine::fixture::Fixture;
    use plimsoll_model::sample::FailureCause;

    fn asking(node: u64, size: &str) -> Group {
        parse_group(&format!("node={node}/size={size}/pages=4k"))
    }

    fn all() -> [&'static dyn Benchmark; 3] {
        [&Bandwidth, &Block, &MemoryLatency]
    }

    #[test]
    fn a_node_that_is_not_there_or_has_no_memory_is_refused() {
        let mut machine = without_memory_on(2);
        for benchmark in all() {
            let why = benchmark.cases(&machine, &asking(77, "64M")).unwrap_err();
            let start = "node must be a NUMA node of this machine (0, 1, 2, 3): 77 is not";
            assert!(why.starts_with(start), "{why}");
            let there = benchmark.cases(&machine, &asking(1, "64M")).unwrap();
            assert!(!there.is_empty());
            for candidate in there {
                assert_eq!(candidate.case.number("node"), Some(1), "{}", candidate.case);
                assert!(candidate.feasible.is_ok(), "{candidate:?}");
            }
            for candidate in benchmark.cases(&machine, &asking(2, "64M")).unwrap() {
                let why = candidate.feasible.unwrap_err();
                assert!(why.cause == FailureCause::NotHere, "{why}");
                assert!(why.reason.starts_with("node 2 has no memory"), "{why}");
            }
        }
        machine.memory.nodes.clear();
        assert!(MemoryLatency.cases(&machine, &asking(0, "64M")).unwrap_err().contains("no NUMA nodes"));
    }

    #[test]
    fn more_than_the_node_has_free_is_refused_with_the_sum() {
        let mut machine = machine("epyc-7543-nps4");
        for node in &mut machine.memory.nodes {
            node.free_bytes = Some(if node.id == 1 { 1 << 30 } else { 64 << 30 });
        }
        for benchmark in all() {
            let whys: Vec<bool> = [0, 1]
                .into_iter()
                .flat_map(|node| benchmark.cases(&machine, &asking(node, "1G")).unwrap())
                .filter(|candidate| candidate.case.threads() == 1)
                .map(|candidate| match candidate.feasible {
                    Ok(()) => candidate.case.number("node") == Some(0),
                    Err(why) => why.reason.starts_with("needs 1 × 1 GiB of memory on node 1, and only "),
                })
                .collect();
            assert!(whys.len() >= 2 && whys.iter().all(|right| *right), "{}: {whys:?}", benchmark.name());
        }
    }

    #[test]
    fn reserved_pages_are_those_of_the_node() {
        let fixture = Fixture::open("epyc-7543-nps4").unwrap();
        for (n, free) in [(0, "7\n"), (1, "0\n")] {
            let at = format!("sys/devices/system/node/node{n}/hugepages/hugepages-1048576kB/free_hugepages");
            fixture.write(&at, free.as_bytes()).unwrap();
        }
        fixture.write("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", b"7\n").unwrap();
        let mut machine = fixture.machine();
        machine.memory.nodes.iter_mut().for_each(|node| node.free_bytes = Some(0));
        let feasible = |node: u64, gib: u64| {
            let group = parse_group(&format!("node={node}/size={gib}G/pages=1g"));
            MemoryLatency.cases(&machine, &group).unwrap().remove(0).feasible
        };
        assert_eq!(feasible(0, 7), Ok(()));
        let why = feasible(1, 1).unwrap_err();
        let pool = "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages";
        assert!(why.cause == FailureCause::NotHere && why.reason.contains(pool), "{why}");
        assert!(feasible(2, 1).unwrap_err().reason.contains("0 are free"), "a node that shows no pool");
    }

    #[test]
    fn pages_on_another_node_are_counted_and_said() {
        let mut facts = Facts::default();
        note_memory_nodes(&mut facts, None, std::iter::empty());
        assert!(facts.achieved.is_empty() && facts.warnings.is_empty());
        note_elsewhere(&mut facts, 1, &BTreeMap::from([(1, 30)]));
        assert!(facts.warnings.is_empty());
        note_elsewhere(&mut facts, 1, &BTreeMap::from([(0, 3), (1, 30), (2, 4)]));
        assert!(facts.warnings[0].to_string().starts_with("7 of the pages"), "{:?}", facts.warnings);
    }
}
