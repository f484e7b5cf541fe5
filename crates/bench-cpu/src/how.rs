use plimsoll_bench_api::fixed::{Scaling, scaling};
use plimsoll_bench_api::requested_affinities;
use plimsoll_machine::cpu::CoreKind;
use plimsoll_machine::{CpuSet, Machine};
use plimsoll_model::case::Case;
use plimsoll_model::plan::Group;
use plimsoll_model::sample::{Numbers, OwnCondition};

pub(super) struct ThreadOptions {
    place: Option<String>,
    work: Option<u64>,
    scaling: Option<String>,
}

impl ThreadOptions {
    pub(super) fn named(&self, case: Case, threads: u64) -> Case {
        let case = with_affinity(case, self.place.as_deref(), threads);
        let case = match self.work {
            Some(work) => case.with_count("work", work),
            None => case,
        };
        match &self.scaling {
            Some(scaling) => case.with_word("scaling", scaling),
            None => case,
        }
    }
}

pub(super) fn with_affinity(case: Case, place: Option<&str>, threads: u64) -> Case {
    let case = match place {
        Some(place) => case.with_word("affinity", place),
        None => case,
    };
    case.with_count("threads", threads)
}

/// Returns all combinations of the requested affinities, amounts of work and scalings. Fails for an
/// amount of 0, or for strong scaling without an amount.
pub(super) fn thread_options(machine: &Machine, group: &Group) -> Result<Vec<ThreadOptions>, String> {
    let words = |key: &str| -> Vec<Option<String>> {
        let words = group.words(key, &[]);
        if words.is_empty() { vec![None] } else { words.into_iter().map(Some).collect() }
    };
    let works: Vec<Option<u64>> = match group.asked_numbers("work") {
        Some(works) if works.contains(&0) => return Err("work must be at least 1: 0 is not".to_owned()),
        Some(works) => works.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let mut hows = Vec::new();
    for place in requested_affinities(machine, group)? {
        for &work in &works {
            for word in words("scaling") {
                let how = ThreadOptions { place: place.clone(), work, scaling: word };
                if scaling(&how.named(Case::of("cpu.peak"), 1))? == Scaling::Strong && work.is_none() {
                    let why = "--scaling strong requires --work, such as 1e12";
                    return Err(why.to_owned());
                }
                hows.push(how);
            }
        }
    }
    Ok(hows)
}

/// Mean clock of the CPUs of one kind, with a name per kind from [`word_of`].
pub const KIND_CLOCK: OwnCondition =
    OwnCondition::new("clock_hz_{}", "Hz", "mean clock of the CPUs of a kind");

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

pub(super) fn siblings(machine: &Machine, cpus: &CpuSet) -> Vec<CpuSet> {
    let mut groups: Vec<CpuSet> = Vec::new();
    for cpu in cpus.iter() {
        let group = machine.cpu.logical(cpu).map(|logical| logical.siblings.common(cpus));
        if let Some(group) = group.filter(|group| group.len() > 1 && !groups.contains(group)) {
            groups.push(group);
        }
    }
    groups
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
        assert_eq!(clocks_of(&kinds, &clocks), wanted.into());
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
