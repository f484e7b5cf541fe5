//! Default size of a working set: beyond the caches of the working CPUs, at most half of the
//! available memory, and no more than can be set up in a case's time.

use plimsoll_bench_api::prelude::*;
use plimsoll_model::limit::microarchitecture::Core;

use super::{ASSUMED_LAST_LEVEL, HUGE_PAGE, SMALL_PAGE, TIMES_LAST_LEVEL};

/// Assumed bytes per second that a thread fills: half that of slow virtual machines (4 to 8 GB/s).
const ASSUMED_RATE: f64 = 2.0 * (1_u64 << 30) as f64;
/// Passes of a case over its memory outside samples: touch, fill, sum, trial, check, release.
const PASSES: f64 = 6.0;
/// Approximate number of cases that share a run's budget, as in `quick`.
const CASES: f64 = 24.0;
/// Shortest and longest assumed time of a case, in seconds. Sizes are part of a case's name, so a
/// short budget does not change them; a long one is not for setup.
const SECONDS: [f64; 2] = [1.75, 6.0];

/// Least default bytes of each array per thread: four times the caches are not enough for every
/// replacement policy. A Graviton3 (64 threads, 64 MiB of level 2) reads 393 GB/s of 4 MiB each,
/// 293 of 32 and 283 of 512 MiB (github.com/SpareCores/sc-inspector-data, c7g.metal, bw_mem).
const LEAST_EACH: u64 = 32 << 20;

/// Returns the bytes of the last-level and level-2 caches of `cpus` in total; 64 MiB if unknown.
pub(super) fn caches(machine: &Machine, cpus: &[usize]) -> u64 {
    all_caches(machine, cpus, false)
}

/// Like [`caches`]; in a guest, if `possibly`, with the chip's own last level if that is larger.
fn all_caches(machine: &Machine, cpus: &[usize], possibly: bool) -> u64 {
    let set: CpuSet = cpus.iter().copied().collect();
    let Some(shown) = machine.cpu.last_level_of(&set) else { return ASSUMED_LAST_LEVEL };
    let possible = possible(machine, cpus, shown);
    let measured = machine.cpu.effective_cache.as_ref().map(|effective| effective.bytes);
    let last = match measured {
        // The measured size may exceed the shown one.
        Some(one) => possible.0.min(one.saturating_mul(possible.1)),
        None if possibly || possible.1 > shown.1 => possible.0,
        None => shown.0,
    };
    last.saturating_add(machine.cpu.level_2_of(&set))
}

/// Returns (total bytes, number) of the last-level caches: as `shown`, or the chip's if larger.
fn possible(machine: &Machine, cpus: &[usize], shown: (u64, u64)) -> (u64, u64) {
    let Some(chip) = chip_caches(machine, cpus) else { return shown };
    let instances = chip.instances.max(shown.1);
    (shown.0.max(chip.bytes.saturating_mul(instances)), instances)
}

/// Last-level caches of the chip itself, whatever a hypervisor shows.
pub(super) struct ChipCaches {
    /// Largest size of one, in bytes.
    pub(super) bytes: u64,
    /// Least number that the cores of these CPUs can share.
    pub(super) instances: u64,
}

/// Returns the last-level caches of the chip of `cpus`; `None` on bare metal or if unknown.
pub(super) fn chip_caches(machine: &Machine, cpus: &[usize]) -> Option<ChipCaches> {
    if machine.virtualisation.is_virtual == Some(false) {
        return None;
    }
    let core = Core::of(machine, *cpus.first()?).ok()?;
    let bytes = core.l3_most.filter(|bytes| *bytes > 0)?;
    let cores = machine.cpu.cores_of(&cpus.iter().copied().collect()).unwrap_or(1) as u64;
    let instances = core.l3_cores.map_or(1, |most| cores.div_ceil(most.max(1)));
    Some(ChipCaches { bytes, instances })
}

/// Returns the least total bytes of `arrays` arrays to measure memory: each four times the caches.
/// Non-temporal stores leave the caches to the arrays that are read (triad on a Zen 4 with 32 MiB:
/// 111 GB/s with 128 MiB, 88 with 1.5 GiB).
pub(super) fn least(machine: &Machine, cpus: &[usize], arrays: u64) -> u64 {
    caches(machine, cpus).saturating_mul(TIMES_LAST_LEVEL).saturating_mul(arrays)
}

/// Returns the desired total bytes of `arrays` arrays by default: beyond the largest caches that
/// the machine may have, and at least [`LEAST_EACH`] per array and thread.
pub(super) fn default_total_bytes(machine: &Machine, cpus: &[usize], arrays: u64) -> u64 {
    let beyond_caches = all_caches(machine, cpus, true).saturating_mul(TIMES_LAST_LEVEL);
    beyond_caches.max(LEAST_EACH.saturating_mul(cpus.len() as u64)).saturating_mul(arrays)
}

/// Returns the default bytes per thread, all its `arrays` arrays together, for `threads` threads.
pub(super) fn default_size(machine: &Machine, group: &Group, threads: u64, arrays: u64) -> u64 {
    let cpus = spread_cpus(machine, usize::try_from(threads).unwrap_or(usize::MAX));
    bytes_per_thread(machine, group, threads, default_total_bytes(machine, &cpus, arrays))
}

/// Returns `total` ÷ `threads` in whole huge pages, at most what half of the available memory and
/// the time of a case allow; in small pages if that is less than a huge page.
pub(super) fn bytes_per_thread(machine: &Machine, group: &Group, threads: u64, total: u64) -> u64 {
    let threads = threads.max(1);
    let half = machine.memory_available_bytes().map_or(u64::MAX, |available| available / 2);
    let bound = snapped(half / threads).min(bytes_in_case_time(machine, group));
    let page = if bound < HUGE_PAGE { SMALL_PAGE } else { HUGE_PAGE };
    total.div_ceil(threads).next_multiple_of(HUGE_PAGE).min(bound / page * page).max(SMALL_PAGE)
}

/// Rounds down to 2^n or 1.5 × 2^n bytes: available memory varies from start to start, and sizes
/// are part of case names that should repeat in the next run.
fn snapped(bytes: u64) -> u64 {
    let power = 1 << bytes.max(1).ilog2();
    if bytes - power.min(bytes) >= power / 2 { power + power / 2 } else { power.min(bytes) }
}

/// Returns the bytes that a thread can set up, try and check in the time of a case.
fn bytes_in_case_time(machine: &Machine, group: &Group) -> u64 {
    let [shortest, longest] = SECONDS;
    let seconds = group.budget.map_or(longest, |budget| (budget / CASES).clamp(shortest, longest));
    let rate = machine.cpu.effective_cache.as_ref().map_or(ASSUMED_RATE, |effective| effective.fill_rate);
    (rate * seconds / PASSES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{GIB, MIB, machine};
    use plimsoll_machine::EffectiveCache;

    fn huge_cache() -> Machine {
        let mut machine = machine("firecracker-zen4");
        let last = machine.cpu.caches.iter_mut().filter(|cache| cache.level == 3);
        last.for_each(|cache| cache.size_bytes = Some(480 * MIB));
        machine
    }

    #[test]
    fn the_caches_are_those_of_the_cpus_that_work() {
        let epyc = machine("epyc-7543-nps4");
        assert_eq!(caches(&epyc, &spread_cpus(&epyc, 1)), 32 * MIB + MIB / 2);
        let all = epyc.cpu.allowed.len();
        assert_eq!(caches(&epyc, &spread_cpus(&epyc, all)), (256 + 16) * MIB);
        assert_eq!(caches(&epyc, &[]), ASSUMED_LAST_LEVEL);
    }

    fn default_of(name: &str) -> (Machine, u64) {
        let machine = machine(name);
        let size = default_size(&machine, &Group::default(), machine.cpu.allowed.len() as u64, 1);
        (machine, size)
    }

    #[test]
    fn level_2_counts_and_each_thread_has_32_mib_of_each_array() {
        for (name, mib) in [
            ("working-set-in-l2-graviton3", 64 + 32),
            ("working-set-in-l2-graviton4", 96 * 2 + 36),
            ("working-set-in-l3-turin", 96 + 12 * 32),
        ] {
            let (machine, size) = default_of(name);
            let cpus = spread_cpus(&machine, machine.cpu.allowed.len());
            assert_eq!(caches(&machine, &cpus), mib * MIB, "{name}");
            assert_eq!(size, 32 * MIB, "{name}");
        }
    }

    #[test]
    fn a_guest_is_not_believed_that_its_cache_is_smaller_than_the_chips() {
        let (milan, size) = default_of("azure-shows-one-small-l3");
        assert_eq!(size, 32 * MIB);
        let all = spread_cpus(&milan, 96);
        assert_eq!(caches(&milan, &all), (6 * 32 + 24) * MIB);
        let (emerald, size) = default_of("two-sockets-shown-as-one-8570");
        assert!(size * 48 >= 1200 * MIB, "{size}");
        let one = bytes_per_thread(&emerald, &Group::default(), 1, default_total_bytes(&emerald, &[0], 1));
        assert!(one >= 1200 * MIB, "{one}");
        let mut measured = emerald;
        measured.cpu.effective_cache = Some(EffectiveCache { bytes: 128 * MIB, fill_rate: 1e9 });
        assert_eq!(caches(&measured, &[0]), (128 + 4) * MIB);
    }

    #[test]
    fn a_measured_cache_stands_for_each_of_its_kind() {
        let mut machine = huge_cache();
        assert_eq!(caches(&machine, &[0, 1]), 482 * MIB);
        machine.cpu.effective_cache = Some(EffectiveCache { bytes: 128 * MIB, fill_rate: 1e9 });
        assert_eq!(caches(&machine, &[0, 1]), 130 * MIB, "both share it");
        machine.cpu.effective_cache = Some(EffectiveCache { bytes: GIB, fill_rate: 1e9 });
        assert_eq!(caches(&machine, &[0]), 481 * MIB);
    }

    #[test]
    fn what_is_asked_for_is_bounded_by_memory_and_time() {
        let mut machine = huge_cache();
        let quick = Group { budget: Some(42.0), ..Group::default() };
        machine.memory.available_bytes = Some(2 << 40);
        let wanted = least(&machine, &[0], 3);
        assert_eq!(wanted, 12 * 481 * MIB);
        assert_eq!(bytes_per_thread(&machine, &quick, 1, wanted), 596 * MIB);
        assert_eq!(bytes_per_thread(&machine, &quick, 512, wanted), 12 * MIB);
        assert_eq!(bytes_per_thread(&machine, &Group::default(), 1, wanted), 2 * GIB);
        machine.memory.available_bytes = Some(GIB);
        assert_eq!(bytes_per_thread(&machine, &quick, 1, wanted), 512 * MIB);
        assert_eq!(bytes_per_thread(&machine, &quick, 2, wanted), 256 * MIB);
        for available in [800, 900, 1000] {
            machine.memory.available_bytes = Some(available * MIB);
            assert_eq!(bytes_per_thread(&machine, &quick, 1, wanted), 384 * MIB, "{available} MiB are there");
        }
        machine.memory.available_bytes = Some(0);
        assert_eq!(bytes_per_thread(&machine, &quick, 2, wanted), SMALL_PAGE);
        machine.memory.available_bytes = Some(GIB);
        assert_eq!(bytes_per_thread(&machine, &quick, 512, wanted), MIB, "no huge page for each");
        machine.memory.available_bytes = None;
        machine.cpu.effective_cache = Some(EffectiveCache { bytes: 128 * MIB, fill_rate: 1e9 });
        assert_eq!(bytes_per_thread(&machine, &quick, 1, 100 * GIB), 278 * MIB);
    }
}
