use plimsoll_bench_api::prelude::*;
use plimsoll_metal::gemm::{self, CoreCaches};
use plimsoll_metal::isa::Isa;
use plimsoll_metal::team::Team;
use plimsoll_metal::watch::TeamClocks;

mod burst;
pub(super) mod limit;
pub(super) mod matrix;

pub(super) use burst::{products, systems};

use super::how::clocks_of;
use super::matrix::named_isas;
use super::{DenseProblem, RATE_METRIC, RESIDUAL, TIME_METRIC};
use matrix::THRESHOLD;
use plimsoll_bench_api::buffer::{budget, check_budget, human};
use plimsoll_machine::cpu::CoreKind;

pub(super) const MOST_ROWS: u64 = i32::MAX as u64;
/// Default columns per block: the best of those tried on Zen 4 (see docs/src/performance.md).
pub(super) const DEFAULT_BLOCK_COLUMNS: u64 = 192;
pub(super) const MAX_THREADS: u64 = 1 << 12;
/// Default orders are multiples of this, and so of every register tile.
const ROUND: u64 = 240;
const SAMPLES_OF_A_BUDGET: f64 = 9.0;

/// Returns a case for each combination of `affinity` and `threads` that `group` requests.
pub(super) fn seats(machine: &Machine, group: &Group, defaults: &[u64]) -> Result<Vec<Case>, String> {
    let threads = counts_in_range(group, "threads", defaults, MAX_THREADS)?;
    check_affinities(machine, group)?;
    let places = group.each_of(vec![Case::of("")], "affinity");
    Ok(Case::with_each(places, "threads", threads.into_iter().map(Value::Count)))
}

/// Returns operations per byte of solving the case's system, 2/3 n³ ÷ 16 n²; `None` without `n`.
pub(super) fn of_a_system(case: &Case) -> Option<f64> {
    Some(2.0 * DenseProblem::of(case).n? as f64 / 3.0 / (2.0 * 8.0))
}

pub(super) const METRICS: [Metric; 3] = [
    Metric::new(RATE_METRIC, Unit::FlopPerSecond, Better::Higher)
        .about("operations per second, counted as HPL and textbooks do"),
    Metric::new(TIME_METRIC, Unit::Second, Better::Lower)
        .about("time of one solution or product")
        .shown_between("in", ""),
    Metric::new(RESIDUAL, Unit::One, Better::Lower)
        .about("how far the answer is from right, as HPL scales it")
        .informative()
        .shown_between("residual", ""),
];

/// Returns the sample of `operations` operations in `elapsed` seconds with this `residual` (error);
/// `clocks` of the threads of `team` give the mean clock, and that of each of `kinds` of cores.
pub(super) fn sample(
    [operations, elapsed, residual]: [f64; 3],
    team: &Team,
    clocks: &TeamClocks,
    kinds: &[CoreKind],
) -> Sample {
    let named = [(RATE_METRIC, operations / elapsed), (TIME_METRIC, elapsed), (RESIDUAL, residual)];
    let each: Vec<_> = team.cpus().iter().copied().zip(clocks.each_hz.iter().copied()).collect();
    let more = clocks_of(kinds, &each);
    Sample {
        elapsed,
        values: named.map(|(name, value)| (name.to_owned(), value)).into(),
        conditions: Conditions { clock_hz: clocks.mean_hz(), more, ..Conditions::default() },
        ..Sample::default()
    }
}

/// Returns the distinct requested instruction sets. Fails for an unknown name.
pub(super) fn isas(group: &Group) -> Result<Vec<Isa>, String> {
    super::foreign::check(group)?;
    let all: Vec<Isa> = burst::available().collect();
    named_isas(&group.words("isa", &["best"]), gemm::best_isa(), &all)
}

pub(super) fn distinct<T: Clone + Eq + std::hash::Hash>(mut all: Vec<T>) -> Vec<T> {
    let mut seen = std::collections::HashSet::new();
    all.retain(|one| seen.insert(one.clone()));
    all
}

/// Returns the matrix order for about the `wanted` seconds, less if time budget or memory is short.
pub(super) fn default_order(machine: &Machine, group: &Group, isa: Isa, wanted: OrderTarget) -> u64 {
    let cpus = machine.cpu_capacity().max(1.0);
    let assumed_rate = match isa {
        Isa::Avx512 => 50e9,
        Isa::Avx2 => 30e9,
        _ => 8e9,
    };
    let share =
        group.budget.map_or(f64::INFINITY, |budget| budget / wanted.cases as f64 / SAMPLES_OF_A_BUDGET);
    let seconds = wanted.seconds.min(share);
    let order = (seconds * cpus * assumed_rate / wanted.work).cbrt();
    let memory =
        budget(machine).map_or(f64::INFINITY, |bytes| (bytes as f64 / wanted.bytes_per_element).sqrt());
    (order.min(memory) as u64 / ROUND * ROUND).max(ROUND)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OrderTarget {
    /// Operations ÷ order³.
    pub(super) work: f64,
    pub(super) seconds: f64,
    pub(super) cases: usize,
    pub(super) bytes_per_element: f64,
}

/// Fails if `bytes` exceed the memory budget; in the error `sum` explains the amount and `less` is
/// the remedy, such as "a smaller --n".
pub(super) fn fits(machine: &Machine, bytes: usize, sum: &str, less: &str) -> Result<(), CannotMeasure> {
    let needs = format!("{} of memory ({sum})", human(bytes as u64));
    check_budget(machine, Some(bytes as u64), &needs, less)
}

/// Returns the L1 and L2 cache sizes per core of the first thread's CPU; small defaults if unknown.
pub(super) fn caches(machine: &Machine, threads: &Threads) -> CoreCaches {
    let modest = CoreCaches::default();
    let Some(cpu) = threads.cpus(machine).first().copied() else { return modest };
    let share = |level: u8| {
        let cache = machine.cpu.cache_of(cpu, level)?;
        let sharers = cache.instances.iter().find(|set| set.contains(cpu));
        let cores = sharers.and_then(|set| machine.cpu.cores_of(set)).unwrap_or(1).max(1);
        usize::try_from(cache.size_bytes?).ok().map(|bytes| bytes / cores)
    };
    CoreCaches { first: share(1).unwrap_or(modest.first), second: share(2).unwrap_or(modest.second) }
}

/// Fails unless the `residual` of `operation` on `cpus` (called `what`) is below [`THRESHOLD`].
pub(super) fn check_residual(
    cpus: &[usize],
    operation: &str,
    residual: f64,
    what: &str,
) -> Result<(), CannotMeasure> {
    if residual < THRESHOLD {
        return Ok(());
    }
    let origin = match *cpus {
        [cpu] => WrongAnswerSource::Cpu(cpu),
        _ => WrongAnswerSource::Cpus(cpus.to_vec()),
    };
    let wrong = WrongAnswer::new(origin, operation, format!("a residual of {residual:.3e}"));
    Err(wrong.detail(format!("{what} must be below {THRESHOLD}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::group;
    use plimsoll_machine::Root;

    fn machine(allowed: &str, available: u64) -> Machine {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.cpu.allowed = allowed.parse().unwrap();
        machine.memory.available_bytes = Some(available);
        machine
    }

    #[test]
    fn the_default_order_follows_cpus_memory_and_budget() {
        let wanted = OrderTarget { work: 2.0 / 3.0, seconds: 2.5, cases: 1, bytes_per_element: 9.0 };
        let order = |cpus, available, group: &Group| {
            default_order(&machine(cpus, available), group, Isa::Avx512, wanted)
        };
        let open = Group::default();
        assert_eq!(order("0-1", 24 << 30, &open), 7200);
        assert!(order("0-127", 24 << 30, &open) > 24_000);
        assert!(order("0-127", 4 << 30, &open) < 22_000);
        let hurried = Group { budget: Some(9.0), ..Group::default() };
        assert_eq!(order("0-1", 24 << 30, &hurried), 5280);
        assert_eq!(order("0", 1 << 20, &open), ROUND);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_sum() {
        let machine = machine("0", 1 << 30);
        assert!(fits(&machine, 800 << 20, "", "").is_ok());
        let error = fits(&machine, 1 << 40, "3 matrices", "a smaller --n").unwrap_err().to_string();
        assert!(error.starts_with("needs 1 TiB of memory (3 matrices), and only "), "{error}");
    }

    #[test]
    fn instruction_sets_are_named_once() {
        let group = |words: &[&str]| group(&[("isa", words)]);
        assert_eq!(isas(&group(&["best", gemm::best_isa().name()])), Ok(vec![gemm::best_isa()]));
        assert_eq!(isas(&group(&["all"])).unwrap().first(), Some(&Isa::Portable));
        assert!(isas(&group(&["avx5\u{1b}"])).unwrap_err().starts_with("isa must be"));
    }

    #[test]
    fn caches_that_are_not_known_are_modest() {
        let one = Threads { count: 1, place: plimsoll_bench_api::ThreadOrder::Spread };
        assert_eq!(caches(&machine("0", 1 << 30), &one), CoreCaches::default());
    }
}
