use super::dense::distinct;
use super::fact::CPUS;
use super::warning::CpuWarning;
use plimsoll_bench_api::fixed::{Scaling, scaling};
use plimsoll_bench_api::prelude::*;
use plimsoll_machine::cpu::CoreKind;
use plimsoll_model::job::cpu::CpuKernel;
use plimsoll_model::sample::Numbers;

/// Returns all combinations of the requested affinities, amounts of work and scalings with each
/// number of `threads`, as cases with these parameters. Fails for an amount of 0, or for strong
/// scaling without an amount.
pub(super) fn thread_options(machine: &Machine, group: &Group, threads: &[u64]) -> Result<Vec<Case>, String> {
    check_affinities(machine, group)?;
    if group.asked_numbers("work").is_some_and(|works| works.contains(&0)) {
        return Err("work must be at least 1: 0 is not".to_owned());
    }
    let places = group.each_of(vec![Case::of("cpu.peak")], "affinity");
    // The number of threads stands before the amount in an id, and varies first.
    let cases = Case::with_each(places, "threads", [Value::Count(1)]);
    let cases = group.each_of(group.each_of(cases, "work"), "scaling");
    for case in &cases {
        if scaling(case)? == Scaling::Strong && CpuKernel::of(case).work.is_none() {
            return Err("--scaling strong requires --work, such as 1e12".to_owned());
        }
    }
    Ok(Case::with_each(cases, "threads", threads.iter().copied().map(Value::Count)))
}

/// Mean clock of the CPUs of one kind, with a name per kind from [`word_of`].
pub const KIND_CLOCK: OwnCondition = OwnCondition::new("clock_hz_{}");

/// Returns the name of a kind of core for use in condition names: spaces become underscores.
pub fn word_of(kind: &CoreKind) -> String {
    kind.name.replace(' ', "_")
}

/// Returns the kinds of core among `cpus`; empty if the machine has one kind.
pub(super) fn kinds(machine: &Machine, cpus: &CpuSet) -> Vec<CoreKind> {
    machine.cpu.kinds.iter().filter(|kind| kind.cpus.meets(cpus)).cloned().collect()
}

pub(super) fn clocks_of(kinds: &[CoreKind], clocks: &[(usize, Option<f64>)]) -> Numbers {
    let mut known = Numbers::default();
    for kind in kinds {
        let own = clocks.iter().filter(|(cpu, _)| kind.cpus.contains(*cpu));
        let seen: Vec<f64> = own.filter_map(|(_, clock)| *clock).collect();
        if !seen.is_empty() {
            known.set_of(&KIND_CLOCK, &word_of(kind), seen.iter().sum::<f64>() / seen.len() as f64);
        }
    }
    known
}

pub(super) fn note_threads(facts: &mut Facts, machine: &Machine, cpus: &[usize]) {
    let distinct: CpuSet = cpus.iter().copied().collect();
    facts.achieved.set(&CPUS, distinct.iter().collect::<Vec<_>>());
    plimsoll_bench_api::note_threads(facts, machine, cpus);
    let shared = siblings(machine, &distinct);
    if !shared.is_empty() {
        facts.warnings.push(CpuWarning::SmtSiblings(shared).into());
    }
}

fn siblings(machine: &Machine, cpus: &CpuSet) -> Vec<CpuSet> {
    let logical = cpus.iter().filter_map(|cpu| machine.cpu.logical(cpu));
    let groups = logical.map(|logical| logical.siblings.common(cpus));
    distinct(groups.filter(|group| group.len() > 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::Root;
    use plimsoll_machine::fixture::two_cores;

    #[test]
    fn each_kind_has_the_mean_of_its_own_clocks() {
        let kind = |name: &str, cpus: &str| CoreKind { name: name.to_owned(), cpus: cpus.parse().unwrap() };
        let kinds = [kind("cpu_core", "0-1"), kind("cpu_atom", "2-3"), kind("other one", "4")];
        let clocks = [(0, Some(5e9)), (1, Some(4e9)), (2, None), (3, Some(3e9)), (4, None)];
        let wanted = [("clock_hz_cpu_core".to_owned(), 4.5e9), ("clock_hz_cpu_atom".to_owned(), 3e9)];
        assert_eq!(clocks_of(&kinds, &clocks), wanted.into_iter().collect());
    }

    #[test]
    fn siblings_are_told_once_and_only_among_the_cpus_in_use() {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.cpu.logical = two_cores();
        let among = |cpus: &str| {
            let found = siblings(&machine, &cpus.parse().unwrap());
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(among("0-3"), ["0,2", "1,3"]);
        assert_eq!(among("0-2"), ["0,2"]);
        assert!(among("0-1").is_empty() && among("7").is_empty());
    }
}
