use std::collections::BTreeSet;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;
use rand::seq::SliceRandom;

use plimsoll_machine::{Cpu, CpuSet};

/// Largest number of CPUs with all pairs; beyond it the number of pairs is constant.
pub(super) const ALL_PAIRS_OF: usize = 64;
const MOST_PAIRS: usize = pairs_of(ALL_PAIRS_OF);

pub(super) const fn pairs_of(things: usize) -> usize {
    things * things.saturating_sub(1) / 2
}

/// Returns the pairs to measure: all, or above [`ALL_PAIRS_OF`] CPUs the SMT siblings and then
/// pairs at random distances in the list (by `seed`), equally many per CPU.
pub(super) fn choose_pairs(cpu: &Cpu, cpus: &CpuSet, seed: u64) -> Vec<[usize; 2]> {
    let list: Vec<usize> = cpus.iter().collect();
    let count = list.len();
    if count <= ALL_PAIRS_OF {
        let after = |i: usize| list[i + 1..].iter().map(move |b| [i, *b]);
        return (0..count).flat_map(after).map(|[i, b]| [list[i], b]).collect();
    }
    let mut chosen: BTreeSet<[usize; 2]> = BTreeSet::new();
    for &a in &list {
        let siblings = cpu.logical(a).map(|logical| &logical.siblings);
        let later = siblings.into_iter().flat_map(|set| set.iter()).filter(|b| *b > a && cpus.contains(*b));
        chosen.extend(later.map(|b| [a, b]));
    }
    let mut distances: Vec<usize> = (1..=count / 2).collect();
    distances.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let around =
        distances.into_iter().flat_map(|distance| (0..count).map(move |i| [i, (i + distance) % count]));
    for [i, j] in around {
        if chosen.len() >= MOST_PAIRS {
            break;
        }
        let (a, b) = (list[i], list[j]);
        chosen.insert([a.min(b), a.max(b)]);
    }
    chosen.into_iter().take(MOST_PAIRS).collect()
}

/// Returns what two CPUs share: `smt` (a core), else a cache (`l2`), else `package`, else `None`.
pub(super) fn shared_resource(cpu: &Cpu, [a, b]: [usize; 2]) -> Option<String> {
    let (first, second) = (cpu.logical(a)?, cpu.logical(b)?);
    if first.siblings.contains(b) {
        return Some("smt".to_owned());
    }
    let both = |set: &CpuSet| set.contains(a) && set.contains(b);
    let caches = cpu.caches.iter().filter(|cache| cache.holds_data() && cache.instances.iter().any(both));
    let nearest = caches.map(|cache| cache.level).min().map(|level| format!("l{level}"));
    let package = || (first.package? == second.package?).then(|| "package".to_owned());
    nearest.or_else(package)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::cpu::{CacheKind, CpuCache, Logical};

    fn cpu(cores: usize) -> Cpu {
        let set = |cpus: &[usize]| cpus.iter().copied().collect::<CpuSet>();
        let logical = (0..2 * cores).map(|id| Logical {
            id,
            core: u32::try_from(id % cores).ok(),
            package: Some(u32::from(id % cores >= cores / 2)),
            siblings: set(&[id % cores, id % cores + cores]),
            online: true,
            capacity: None,
        });
        let l3 = |group: usize| (0..2 * cores).filter(|id| id % cores / 4 == group).collect::<CpuSet>();
        let cache = CpuCache {
            level: 3,
            kind: CacheKind::Unified,
            size_bytes: None,
            line_bytes: None,
            ways: None,
            instances: (0..cores.div_ceil(4)).map(l3).collect(),
            sharing_unknown: CpuSet::default(),
        };
        Cpu { logical: logical.collect(), caches: vec![cache], ..Cpu::default() }
    }

    fn first(count: usize) -> CpuSet {
        (0..count).collect()
    }

    #[test]
    fn all_pairs_of_a_few_cpus_once_each() {
        let allowed: CpuSet = [1, 4, 6].into_iter().collect();
        assert_eq!(choose_pairs(&cpu(4), &allowed, 0), [[1, 4], [1, 6], [4, 6]]);
        assert_eq!(choose_pairs(&cpu(32), &first(64), 0).len(), MOST_PAIRS);
        assert!(choose_pairs(&cpu(4), &first(1), 0).is_empty());
        assert!(choose_pairs(&cpu(4), &first(0), 0).is_empty());
    }

    #[test]
    fn of_many_cpus_a_choice_with_all_siblings_and_every_cpu() {
        for cores in [33, 96, 512] {
            let all = first(2 * cores);
            let pairs = choose_pairs(&cpu(cores), &all, 7);
            assert_eq!(pairs.len(), MOST_PAIRS);
            assert!((0..cores).all(|a| pairs.contains(&[a, a + cores])));
            assert!(all.iter().all(|one| pairs.iter().filter(|pair| pair.contains(&one)).count() >= 2));
            assert!(pairs.iter().all(|[a, b]| a < b && *b < 2 * cores));
            assert_eq!(pairs, choose_pairs(&cpu(cores), &all, 7));
            assert_ne!(pairs, choose_pairs(&cpu(cores), &all, 8));
        }
    }

    #[test]
    fn the_nearest_shared_thing_is_named() {
        let cpu = cpu(16);
        let what = |a, b| shared_resource(&cpu, [a, b]);
        assert_eq!(what(3, 19).as_deref(), Some("smt"));
        assert_eq!(what(0, 3).as_deref(), Some("l3"));
        assert_eq!(what(0, 4).as_deref(), Some("package"));
        assert_eq!(what(0, 12), None);
        assert_eq!(what(0, 99), None);
    }
}
