//! Memory figures: limited by the channels' bandwidth; impossible if the arrays fit in a cache.

use plimsoll_bench_memory::{BANDWIDTH_METRIC, BUS_BANDWIDTH};
use plimsoll_machine::Machine;
use plimsoll_reference::stated::{EquivalentCase, MemoryUse, StatedFigure};
use plimsoll_units::quantity::{Quantity, Unit};

use crate::ask::{HIGHEST_CLOCK, HeldFigure, ask};
use crate::cores::at_highest_clock;
use crate::{CheckedMachine, ImpossibleCause};

/// Working set beyond any cache, to derive the limit of main memory.
const BEYOND_CACHES: u64 = 1 << 44;
/// Minimum size of each array relative to the caches (rule of STREAM, McCalpin 1995).
const TIMES_LAST_LEVEL: f64 = 4.0;
/// Bytes that fit in the first-level cache of any processor of the last twenty years.
const FIRST_LEVEL: f64 = (16 << 10) as f64;
/// Four times the largest last-level cache sold (AMD EPYC 9684X, 1152 MiB, 2023).
const SURELY_MEMORY: f64 = 4.0 * (1152 << 20) as f64;

pub(crate) fn held(figure: &StatedFigure, used: &MemoryUse, place: &CheckedMachine<'_>) -> HeldFigure {
    let fits = used.footprint.and_then(|bytes| fitting_cache(place.machine, figure, bytes));
    if used.may_be_cache && fits.is_some() {
        return of_a_cache(figure, place);
    }
    let mut held = ask(figure, place.machine, |like| vec![asked(figure, like, Some(BEYOND_CACHES))]);
    held.possible =
        "bits and bytes confused, a cache that answered, the figures of several machines added up";
    let Some(array) = used.array else {
        held.doubt =
            Some("its file does not say how large the arrays were, and a cache may have answered".to_owned());
        return held;
    };
    if let Some(cache) = fits {
        let size = bytes(used.footprint);
        let answered = format!("the working set of {size} fits in {cache}: this is not memory bandwidth");
        held.sure = Some((ImpossibleCause::CacheAnswered, answered));
    } else if array < caches(place.machine).map_or(SURELY_MEMORY, |bytes| bytes * TIMES_LAST_LEVEL) {
        let small = format!(
            "its arrays of {} are below 4 times the caches of level 2 and the last level ({}), so caches answer in part",
            bytes(used.array),
            bytes(caches(place.machine)),
        );
        held.likely = Some((ImpossibleCause::CacheAnswered, small.clone()));
        held.doubt = Some(small);
    }
    held
}

/// Returns whether the verdict depends on this machine's caches: not for data of at most 16 KiB.
pub(crate) fn depends_on_caches(used: &MemoryUse) -> bool {
    used.footprint.is_none_or(|bytes| bytes > FIRST_LEVEL)
}

fn of_a_cache(figure: &StatedFigure, place: &CheckedMachine<'_>) -> HeldFigure {
    let mut held = ask(figure, place.machine, |like| vec![asked(figure, like, None)]);
    held.limit = held.limit.map(at_highest_clock);
    held.possible = "bits and bytes confused, the figure of many threads taken for one";
    held.note = Some("cache bandwidth: the working set fits in a cache".to_owned());
    held
}

/// Returns a copy of `like` with the highest clock, parameter `size` of `size` bytes (`None`: no
/// change), and the value of `figure`, taken as B/s, as both bandwidth and bus bandwidth.
fn asked(figure: &StatedFigure, like: &EquivalentCase, size: Option<u64>) -> EquivalentCase {
    let mut like = like.clone();
    if let Some(size) = size {
        like.case = like.case.with_size("size", size);
    }
    for metric in [BANDWIDTH_METRIC, BUS_BANDWIDTH] {
        like.sample.values.insert(metric.to_owned(), figure.value);
    }
    like.sample.conditions.clock_hz = Some(HIGHEST_CLOCK);
    like
}

/// Returns the name of a cache at least twice as large as `footprint` bytes, if one is known.
fn fitting_cache(machine: &Machine, figure: &StatedFigure, footprint: f64) -> Option<String> {
    if footprint <= FIRST_LEVEL {
        return Some("a first-level cache".to_owned());
    }
    let (all, instances) = machine.cpu.last_level_of(&machine.cpu.allowed)?;
    let threads = figure.like.as_ref().map_or(1, |like| like.case.threads().max(1)) as u64;
    let reach = all as f64 / instances.max(1) as f64 * threads.min(instances.max(1)) as f64;
    // Half of the cache, as it holds other data too.
    let cache = format!("the last-level cache ({})", bytes(Some(reach)));
    (footprint <= reach / 2.0).then_some(cache)
}

/// Returns the summed bytes of the last-level and all level-2 caches; `None` if unknown.
fn caches(machine: &Machine) -> Option<f64> {
    let cpu = &machine.cpu;
    cpu.last_level_bytes().map(|bytes| bytes.saturating_add(cpu.level_2_of(&cpu.allowed)) as f64)
}

fn bytes(bytes: Option<f64>) -> String {
    bytes.map_or_else(|| "unknown".to_owned(), |bytes| Quantity::new(bytes, Unit::Byte).to_string())
}
