//! Measures the usable part of a large last-level cache, once per run: a guest of two CPUs sees the
//! whole cache of its host, but may have a small part.

use std::time::{Duration, Instant};

use plimsoll_metal::buffer::Pages;
use plimsoll_metal::chase::{Chase, ChaseShape, LINE_BYTES};
use plimsoll_metal::clock::thread_cpu_time;
use plimsoll_metal::team::Team;

use plimsoll_bench_api::spread_cpus;
use plimsoll_machine::{EffectiveCache, Machine};

use super::levels;
use super::working_set::chip_caches;

/// A cache with more bytes per sharing CPU is measured: one that is stacked, or of a whole host.
const LARGE: u64 = 64 << 20;
/// A cache larger than this part of the available memory is measured too.
const PART_OF_MEMORY: u64 = 8;
/// Smallest and largest area, in bytes; powers of two.
const AREAS: [u64; 2] = [8 << 20, 512 << 20];
const AREA_TIME: Duration = Duration::from_millis(20);
/// Most CPU time of all areas together.
const ALL_AREAS_TIME: Duration = Duration::from_secs(1);
const MAX_AREAS_TIME: Duration = Duration::from_secs(3);
/// Least ratio of the slowest to the fastest area that shows two levels.
const TWO_LEVELS: f64 = 1.5;
/// Lowest fill rate in bytes per second; a slower one was caused by other work.
const LEAST_RATE: f64 = (1_u64 << 30) as f64;
/// Passes over an area during its setup: page faults, then links.
const PASSES: f64 = 2.0;
/// Seconds per load that separate a last-level cache (15 to 75 ns in servers) from memory (90 ns
/// and more) if all areas are equally fast.
const OF_MEMORY: f64 = 85e-9;
/// Bytes that the cycle visits completely before it goes on, to exclude address translation.
const GROUP: usize = 64 * 4096;

/// Bytes of an area, and seconds per load in it.
type AreaTime = (u64, f64);

/// Measures within 3 s how much of the last-level cache the default CPU can use. `None` if that
/// fails, or for a cache of at most 64 MiB per sharing CPU and 1/8 of the available memory.
pub(super) fn look(machine: &Machine) -> Option<EffectiveCache> {
    let cpu = *spread_cpus(machine, 1).first()?;
    let shown = levels(machine, cpu).pop()?.bytes;
    // A hypervisor may show less than the chip has.
    let nominal = chip_caches(machine, &[cpu]).map_or(shown, |chip| chip.bytes.max(shown));
    let available = machine.memory_available_bytes().unwrap_or(u64::MAX);
    let last = (1..=4).rev().find_map(|level| machine.cpu.cache_of(cpu, level));
    let instance = last.and_then(|cache| cache.instances.iter().find(|set| set.contains(cpu)));
    let sharers = instance.map_or(1, |set| set.common(&machine.cpu.allowed).len() as u64);
    if !is_worth_measuring(nominal, sharers, available) {
        return None;
    }
    let largest = AREAS[1].min(available / 4);
    let mut team = Team::new(&[cpu]).ok()?;
    let (steps, fill_rate) = team.run(|_| time_areas(largest)).ok()?.pop()?;
    Some(EffectiveCache {
        // Lines used by other work now may be free later; a cache of this size is taken as stated.
        bytes: first_slow_area(&steps).unwrap_or(nominal).max(LARGE).min(nominal),
        fill_rate: rounded(fill_rate?).max(LEAST_RATE),
    })
}

/// Returns whether `nominal` bytes of cache are over 64 MiB per sharing CPU or 1/8 of the memory.
fn is_worth_measuring(nominal: u64, sharers: u64, available: u64) -> bool {
    nominal / sharers.max(1) > LARGE || nominal > available / PART_OF_MEMORY
}

/// Times loads in areas of 8, 16 … MiB up to `largest` bytes; returns also the best fill rate, B/s.
fn time_areas(largest: u64) -> (Vec<AreaTime>, Option<f64>) {
    let (begun, on_cpu) = (Instant::now(), thread_cpu_time());
    let (mut steps, mut rate) = (Vec::new(), None::<f64>);
    let areas = std::iter::successors(Some(AREAS[0]), |bytes| bytes.checked_mul(2));
    for bytes in areas.take_while(|bytes| *bytes <= largest) {
        let before = thread_cpu_time();
        let Some(step) = time_area(bytes) else { break };
        steps.push(step);
        let took = thread_cpu_time().saturating_sub(before);
        let setting_up = took.saturating_sub(AREA_TIME).as_secs_f64();
        // The fastest one: interruptions only make it slower.
        let this = (setting_up > 0.0).then(|| PASSES * bytes as f64 / setting_up);
        rate = this.into_iter().chain(rate).reduce(f64::max);
        let used = thread_cpu_time().saturating_sub(on_cpu);
        if used + took * 2 > ALL_AREAS_TIME || begun.elapsed() > MAX_AREAS_TIME {
            break;
        }
    }
    (steps, rate)
}

/// Returns the median time of dependent loads of every line in an area; `None` if out of memory.
fn time_area(bytes: u64) -> Option<AreaTime> {
    const STEPS: u64 = 4096;
    let shape = ChaseShape {
        bytes: usize::try_from(bytes).ok()?,
        stride: LINE_BYTES,
        group: Some(GROUP),
        pages: Pages::Thp,
        chases: 1,
        seed: bytes,
        node: None,
    };
    let mut chase = Chase::new(shape).ok()?;
    let (begun, mut times) = (thread_cpu_time(), Vec::new());
    while thread_cpu_time().saturating_sub(begun) < AREA_TIME {
        let start = Instant::now();
        chase.walk(STEPS);
        times.push(start.elapsed().as_secs_f64() / STEPS as f64);
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).map(|seconds| (bytes, *seconds))
}

/// Returns the bytes of the first area with loads slower than the geometric mean of fastest and
/// slowest. If all are equally fast, returns the first area if as slow as memory, else `None`.
fn first_slow_area(steps: &[AreaTime]) -> Option<u64> {
    let least = steps.iter().map(|(_, seconds)| *seconds).reduce(f64::min)?;
    let most = steps.iter().map(|(_, seconds)| *seconds).reduce(f64::max)?;
    if most < least * TWO_LEVELS {
        return steps.first().filter(|_| least > OF_MEMORY).map(|(bytes, _)| *bytes);
    }
    let middle = (least * most).sqrt();
    steps.iter().find(|(_, seconds)| *seconds > middle).map(|(bytes, _)| *bytes)
}

/// Rounds `rate` down to a power of two, so that sizes derived from it repeat in the next run.
fn rounded(rate: f64) -> f64 {
    rate.log2().floor().exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::MIB;

    fn steps(times: &[f64]) -> Vec<AreaTime> {
        let areas = std::iter::successors(Some(AREAS[0]), |bytes| bytes.checked_mul(2));
        areas.zip(times).map(|(bytes, ns)| (bytes, ns * 1e-9)).collect()
    }

    #[test]
    fn the_knee_is_where_loads_become_slow() {
        assert_eq!(first_slow_area(&steps(&[28.0, 29.0, 31.0, 35.0, 90.0, 110.0, 115.0])), Some(128 * MIB));
        assert_eq!(first_slow_area(&steps(&[12.0, 13.0, 70.0, 90.0])), Some(32 * MIB));
        assert_eq!(first_slow_area(&steps(&[28.0, 29.0, 30.0, 31.0, 33.0, 35.0, 38.0])), None, "all of it");
        assert_eq!(first_slow_area(&steps(&[140.0, 144.0, 146.0])), Some(8 * MIB), "others have all of it");
        assert_eq!(first_slow_area(&[]), None);
    }

    #[test]
    fn only_large_caches_are_looked_at() {
        assert!(is_worth_measuring(480 * MIB, 2, 23 << 30));
        assert!(!is_worth_measuring(480 * MIB, 96, 1 << 40), "its own host");
        assert!(!is_worth_measuring(32 * MIB, 2, 23 << 30));
        assert!(is_worth_measuring(96 * MIB, 1, 23 << 30));
        assert!(is_worth_measuring(32 * MIB, 2, 200 * MIB));
        assert!(!is_worth_measuring(32 * MIB, 8, 1 << 30));
    }

    #[test]
    fn loads_are_timed_in_every_area() {
        let (steps, rate) = time_areas(AREAS[0] * 2);
        assert!(!steps.is_empty() && steps.iter().all(|step| step.1 > 0.0), "{steps:?}");
        assert!(rate.is_none_or(|rate| rate > 0.0));
        assert_eq!(rounded(5.1e9), 4_294_967_296.0);
        assert!(time_areas(0).0.is_empty());
    }
}
