//! How large a working set is where none is asked for: beyond the caches of the CPUs that work, within half of the memory
//! that is there, and no more than can be set up in the time of a case.
//!
//! A default is never too large for the machine: where memory or time end below the caches, what answers is named (`level`).

use crate::case::Case;
use crate::machine::Machine;
use crate::placed;
use crate::plan::Group;

use super::{ASSUMED_LAST_LEVEL, HUGE_PAGE, SMALL_PAGE, TIMES_LAST_LEVEL};

/// Bytes per second at which a thread makes memory its own, where that was not measured: half of what slow virtual machines
/// of today do (4 to 8 GB/s).
const ASSUMED_RATE: f64 = 2.0 * (1_u64 << 30) as f64;
/// How often a case goes over its memory before and after sampling: touched, filled, summed, tried, checked, given back.
const PASSES: f64 = 6.0;
/// Cases among which a run's budget is divided, about: as many as `quick` has.
const CASES: f64 = 24.0;
/// Bounds of the time of a case that this reckons with, in seconds: sizes are part of a case's name, so a short budget does
/// not change them, and a long one is not there to be spent on setting up.
const SECONDS: [f64; 2] = [1.75, 6.0];

/// The last-level caches of these CPUs as far as they are theirs, in bytes; assumed where unknown.
pub(super) fn last_level(machine: &Machine, cpus: &[usize]) -> u64 {
    let all = machine.cpu.last_level_of(&cpus.iter().copied().collect());
    let Some((bytes, instances)) = all else { return ASSUMED_LAST_LEVEL };
    let effective = machine.cpu.effective_cache.as_ref().map(|effective| effective.bytes);
    effective.map_or(bytes, |one| bytes.min(one.saturating_mul(instances)))
}

/// So many bytes over all threads on these CPUs count as memory, with so many arrays in each working set: each array, over
/// all threads, four times the caches.
///
/// It is not enough that all arrays together are: what non-temporal stores write never gets into a cache, so that the
/// arrays read have it to themselves (triad on a Zen 4 with 32 MiB: 111 GB/s with 128 MiB in all, 92 with 384, 88 with
/// 1.5 GiB).
pub(super) fn least(machine: &Machine, cpus: &[usize], arrays: u64) -> u64 {
    last_level(machine, cpus).saturating_mul(TIMES_LAST_LEVEL).saturating_mul(arrays)
}

/// The same for a case of `arrays` arrays.
pub(super) fn least_of(machine: &Machine, case: &Case, arrays: u64) -> u64 {
    least(machine, &placed(machine, case), arrays)
}

/// Bytes for each of `threads`, in whole huge pages: a share of `total`, within what memory and time allow. Where many
/// threads have little memory, so that not even one such page is left for each: in small ones.
pub(super) fn share(machine: &Machine, group: &Group, threads: u64, total: u64) -> u64 {
    let threads = threads.max(1);
    let half = machine.memory_available_bytes().map_or(u64::MAX, |available| available / 2);
    let bound = snapped(half / threads).min(in_time(machine, group));
    let page = if bound < HUGE_PAGE { SMALL_PAGE } else { HUGE_PAGE };
    total.div_ceil(threads).next_multiple_of(HUGE_PAGE).min(bound / page * page).max(SMALL_PAGE)
}

/// The next lower power of two, or one and a half times one: what is available is another number at each start, and sizes
/// are in the names of cases, which are to be the same in the next run.
fn snapped(bytes: u64) -> u64 {
    let power = 1 << bytes.max(1).ilog2();
    if bytes - power.min(bytes) >= power / 2 { power + power / 2 } else { power.min(bytes) }
}

/// Bytes that a thread can set up, try and check in the time of a case.
fn in_time(machine: &Machine, group: &Group) -> u64 {
    let [shortest, longest] = SECONDS;
    let seconds = group.budget.map_or(longest, |budget| (budget / CASES).clamp(shortest, longest));
    let rate = machine.cpu.effective_cache.as_ref().map_or(ASSUMED_RATE, |effective| effective.fill_rate);
    (rate * seconds / PASSES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::EffectiveCache;
    use crate::machine::fixture::{Fault, Fixture};
    use crate::place;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// Two CPUs that are told of 480 MiB.
    fn huge_cache() -> Result<Machine, Fault> {
        let mut machine = Fixture::open("firecracker-zen4")?.machine();
        let last = machine.cpu.caches.iter_mut().filter(|cache| cache.level == 3);
        last.for_each(|cache| cache.size_bytes = Some(480 * MIB));
        Ok(machine)
    }

    #[test]
    fn the_caches_are_those_of_the_cpus_that_work() -> Result<(), Fault> {
        // Eight caches of 32 MiB.
        let epyc = Fixture::open("epyc-7543-nps4")?.machine();
        assert_eq!(last_level(&epyc, &place(&epyc, 1)), 32 * MIB);
        let all = epyc.cpu.allowed.len();
        assert_eq!(last_level(&epyc, &place(&epyc, all)), 256 * MIB);
        assert_eq!(last_level(&epyc, &[]), ASSUMED_LAST_LEVEL);
        Ok(())
    }

    #[test]
    fn a_measured_cache_stands_for_each_of_its_kind() -> Result<(), Fault> {
        let mut machine = huge_cache()?;
        assert_eq!(last_level(&machine, &[0, 1]), 480 * MIB);
        machine.cpu.effective_cache = Some(EffectiveCache { bytes: 128 * MIB, fill_rate: 1e9 });
        assert_eq!(last_level(&machine, &[0, 1]), 128 * MIB, "both share it");
        machine.cpu.effective_cache = Some(EffectiveCache { bytes: GIB, fill_rate: 1e9 });
        assert_eq!(last_level(&machine, &[0]), 480 * MIB);
        Ok(())
    }

    #[test]
    fn what_is_asked_for_is_bounded_by_memory_and_time() -> Result<(), Fault> {
        let mut machine = huge_cache()?;
        let quick = Group { budget: Some(42.0), ..Group::default() };
        machine.memory.available_bytes = Some(2 << 40);
        let wanted = least(&machine, &[0], 3);
        assert_eq!(wanted, 12 * 480 * MIB);
        assert_eq!(share(&machine, &quick, 1, wanted), 596 * MIB);
        assert_eq!(share(&machine, &quick, 512, wanted), 12 * MIB);
        assert_eq!(share(&machine, &Group::default(), 1, wanted), 2 * GIB);
        machine.memory.available_bytes = Some(GIB);
        assert_eq!(share(&machine, &quick, 1, wanted), 512 * MIB);
        assert_eq!(share(&machine, &quick, 2, wanted), 256 * MIB);
        for available in [800, 900, 1000] {
            machine.memory.available_bytes = Some(available * MIB);
            assert_eq!(share(&machine, &quick, 1, wanted), 384 * MIB, "{available} MiB are there");
        }
        machine.memory.available_bytes = Some(0);
        assert_eq!(share(&machine, &quick, 2, wanted), SMALL_PAGE);
        machine.memory.available_bytes = Some(GIB);
        assert_eq!(share(&machine, &quick, 512, wanted), MIB, "no huge page for each");
        machine.memory.available_bytes = None;
        machine.cpu.effective_cache = Some(EffectiveCache { bytes: 128 * MIB, fill_rate: 1e9 });
        assert_eq!(share(&machine, &quick, 1, 100 * GIB), 278 * MIB);
        Ok(())
    }
}
