//! Detects siblings hidden by a hypervisor: two vCPUs on one core of the host. Together they do the
//! work of one, in every trial; other load does not follow the work of one CPU that closely.

use std::thread::sleep;
use std::time::Duration;

use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{Element, Op, find};
use plimsoll_metal::one_core::{SiblingTrial, time_siblings};

use plimsoll_machine::{CpuSet, Machine};

const SIBLING_TRIALS: usize = 5;
const TRIAL_PAUSE: Duration = Duration::from_millis(20);
const TWICE: std::ops::RangeInclusive<f64> = 1.8..=2.2;
/// Largest number of CPUs to test: larger guests are shown their siblings.
const MOST_CPUS: usize = 16;

/// Measures which CPUs share a core although the kernel shows a core for each, and records them in
/// `machine`. Does nothing outside virtual machines or under a CPU quota.
pub(super) fn look(machine: &mut Machine) {
    let quota = machine.cgroup.cpu_quota.as_ref();
    let held = quota.is_some_and(|quota| quota.cpus() < machine.cpu.allowed.len() as f64);
    if held || machine.virtualisation.is_virtual != Some(true) || !machine.cpu.hidden_siblings.is_empty() {
        return;
    }
    let Some(kernel) = find(Op::FMA, Element::F64, Isa::best()).and_then(|kernel| kernel.load().ok()) else {
        return;
    };
    let mut found: Vec<CpuSet> = Vec::new();
    for [a, b] in pairs(machine) {
        if found.iter().any(|set| set.contains(a) || set.contains(b)) {
            continue;
        }
        let trials = (0..SIBLING_TRIALS).map_while(|turn| {
            if turn > 0 {
                sleep(TRIAL_PAUSE);
            }
            time_siblings([a, b], turn % 2, &kernel).ok()
        });
        if are_siblings(trials) {
            found.push([a, b].into_iter().collect());
        }
    }
    machine.cpu.hidden_siblings = found;
}

/// Returns pairs of CPUs that may be siblings, as hypervisors number them: neighbours, and CPUs
/// half of the list apart. Empty for more than [`MOST_CPUS`] CPUs.
fn pairs(machine: &Machine) -> Vec<[usize; 2]> {
    let cpu = &machine.cpu;
    let alone = |number: &usize| cpu.logical(*number).is_none_or(|logical| logical.siblings.len() <= 1);
    let cpus: Vec<usize> = cpu.allowed.iter().filter(alone).collect();
    if cpus.len() > MOST_CPUS {
        return Vec::new();
    }
    let half = cpus.len() / 2;
    let neighbours = cpus.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    let halves = cpus.iter().zip(cpus.iter().skip(half)).take(half).map(|(a, b)| [*a, *b]);
    neighbours.chain(halves.filter(|_| half > 1)).collect()
}

fn are_siblings(trials: impl Iterator<Item = SiblingTrial>) -> bool {
    let agrees = |SiblingTrial { alone, both }: &SiblingTrial| {
        alone.iter().zip(both).all(|(alone, both)| TWICE.contains(&(both / alone)))
    };
    trials.take_while(agrees).count() == SIBLING_TRIALS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use plimsoll_machine::Root;
    use plimsoll_machine::fixture::Fixture;

    const SLICE: f64 = 25e-6;

    fn of(alone: [f64; 2], both: [f64; 2]) -> SiblingTrial {
        SiblingTrial { alone: alone.map(|times| times * SLICE), both: both.map(|times| times * SLICE) }
    }

    #[test]
    fn siblings_do_together_what_one_does_alone_every_time() {
        let siblings = of([1.0, 1.01], [2.01, 1.99]);
        let halves = of([1.0, 1.0], [1.0, 1.03]);
        assert!(are_siblings(vec![siblings; SIBLING_TRIALS].into_iter()));
        assert!(!are_siblings(vec![siblings; SIBLING_TRIALS - 1].into_iter()), "too few");
        assert!(!are_siblings(vec![halves; SIBLING_TRIALS].into_iter()));
        for other in [
            of([1.0, 2.0], [1.0, 2.0]),
            of([2.0, 2.0], [2.0, 2.0]),
            of([1.0, 1.0], [2.0, 1.0]),
            of([1.0, 1.0], [1.3, 1.3]),
            of([1.0, 1.0], [1.0, 1.0]),
            of([1.0, 0.0], [2.0, 0.0]),
        ] {
            let mut trials = vec![siblings; SIBLING_TRIALS];
            trials[SIBLING_TRIALS - 1] = other;
            assert!(!are_siblings(trials.into_iter()), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn a_noisy_neighbour_is_no_sibling(busy in prop::collection::vec(any::<[bool; 4]>(), SIBLING_TRIALS)) {
            prop_assume!(busy.iter().any(|moments| *moments != [false, false, true, true]));
            let times = |busy: bool| if busy { 2.0 } else { 1.0 };
            let trials = busy.into_iter().map(|[a, b, c, d]| of([times(a), times(b)], [times(c), times(d)]));
            prop_assert!(!are_siblings(trials));
        }
    }

    #[test]
    fn neighbours_and_halves_are_tried_where_the_kernel_shows_a_core_each() {
        let open = |name| Fixture::open(name).unwrap().machine();
        let mut machine = open("firecracker-zen4");
        assert_eq!(pairs(&machine), [[0, 1]]);
        machine.cpu.logical.clear();
        machine.cpu.allowed = "0-4".parse().unwrap();
        assert_eq!(pairs(&machine), [[0, 1], [2, 3], [0, 2], [1, 3]]);
        machine.cpu.allowed = "0-16".parse().unwrap();
        assert!(pairs(&machine).is_empty());
        assert!(pairs(&open("xeon-gold-6230-2s")).is_empty());
    }

    #[test]
    fn a_look_here_ends_and_no_cpu_has_two_siblings() {
        let mut machine = Machine::discover(&Root::live());
        look(&mut machine);
        let found = &machine.cpu.hidden_siblings;
        assert!(found.iter().all(|set| set.len() == 2));
        assert!(found.iter().enumerate().all(|(at, set)| found[..at].iter().all(|other| !other.meets(set))));
    }
}
