//! `--scale`: multiplies volumes, work, file sizes and the length of series. Minimums keep each
//! case meaningful: two blocks per thread, 50 messages or operations, files of 64 MiB with room for
//! two blocks of each thread in any case of the group.

use crate::case::{Case, KEYS, Key, SWEEP, ScaledAmount, Value};
use crate::plan::Group;

/// Parameters that fix the amount of a sample.
pub const SCALED_KEYS: [&str; 3] = ["work", "volume", "count"];

/// Function that returns whether the benchmark with this name uses test files.
pub type OnFiles = fn(&str) -> bool;

fn amount(key: &str) -> Option<ScaledAmount> {
    KEYS.iter().find(|row| row.name == key)?.amount
}

fn workers() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| key.axis.is_some_and(|axis| axis.workers))
}

fn of_one() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| key.is_transfer_size)
}

const LEAST_FILE: u64 = 64 << 20;
/// Minimum operations per thread; fewer mostly measure start and end.
pub const LEAST_OPERATIONS: u64 = 50;
/// Minimum samples of a series; fewer show no trend.
pub const LEAST_SERIES: u32 = 30;
const LEAST_ORDER: u64 = 64;
const LEAST_WORK: u64 = 1_000_000;

/// Returns `samples` of a time series × `scale`, at least [`LEAST_SERIES`] but not above `samples`.
pub fn series(samples: u32, scale: f64) -> u32 {
    let scaled = (f64::from(samples) * scale.min(1.0)).round() as u32;
    scaled.max(LEAST_SERIES.min(samples))
}

/// Returns `seconds` per sample of a series × `scale`, not below `usual` (seconds of other cases).
pub fn series_sample_time(seconds: f64, scale: f64, usual: f64) -> f64 {
    if scale >= 1.0 { seconds } else { (seconds * scale).max(seconds.min(usual)) }
}

/// Returns the group with its amounts (work, bytes, files) × `scale`, in parts with one transfer
/// size and one number of workers each. `on_files` returns whether a benchmark uses test files.
pub fn scaled(group: &Group, scale: f64, on_files: OnFiles) -> Vec<Group> {
    if scale == 1.0 || !KEYS.iter().any(|key| key.amount.is_some() && group.asked(key.name)) {
        return vec![group.clone()];
    }
    let (room, mut parts) = (room(group), parts(group));
    parts.iter_mut().for_each(|part| shrink(part, scale, room, on_files));
    parts
}

/// Returns the minimum bytes of the file for all cases of the group: two blocks per thread.
fn room(group: &Group) -> u64 {
    block(group).saturating_mul(2).saturating_mul(threads(group))
}

/// Splits the group into parts with one transfer size and one number of threads or streams.
fn parts(group: &Group) -> Vec<Group> {
    of_one().chain(workers()).fold(vec![group.clone()], |parts, key| {
        parts.into_iter().flat_map(|part| split_values(part, key.name)).collect()
    })
}

/// Returns a function that maps cases of `groups` after scaling by `scale` to the plan's amounts,
/// so that equal cases compare at any scale. It returns other cases unchanged.
pub fn unscaling(groups: &[Group], scale: f64, on_files: OnFiles) -> impl Fn(&Case) -> Case + use<> {
    let pairs = |group: &Group| {
        let room = room(group);
        let pair = move |stated: Group| {
            let mut small = stated.clone();
            shrink(&mut small, scale, room, on_files);
            (small, stated)
        };
        parts(group).into_iter().map(pair)
    };
    let parts: Vec<(Group, Group)> = groups.iter().filter(|_| scale != 1.0).flat_map(pairs).collect();
    move |case: &Case| {
        let of = |(small, _): &&(Group, Group)| small.benchmarks.iter().any(|name| name == case.benchmark());
        let found = parts.iter().filter(of).find_map(|(small, stated)| restored(small, stated, case));
        found.unwrap_or_else(|| case.clone())
    }
}

/// Returns `case` of `small` (`stated` after scaling) with the amounts of `stated`; else `None`.
fn restored(small: &Group, stated: &Group, case: &Case) -> Option<Case> {
    let several = |value: &Value| value.word().is_some_and(|word| word == "all" || word == SWEEP);
    let mut amounts = Vec::new();
    for (key, values) in &small.lists {
        let Some(value) = case.get(key).filter(|_| !values.iter().any(several)) else { continue };
        let place = values.iter().position(|one| one == value)?;
        if amount(key).is_some() {
            amounts.push((*key, stated.lists.get(key)?.get(place)?.clone()));
        }
    }
    Some(amounts.into_iter().fold(case.clone(), |made, (key, value)| made.with(key, value)))
}

fn split_values(group: Group, key: &'static str) -> Vec<Group> {
    let Some(values) = group.lists.get(key).cloned() else { return vec![group] };
    let with = |value| {
        let mut part = group.clone();
        part.lists.insert(key, vec![value]);
        part
    };
    values.into_iter().map(with).collect()
}

/// Multiplies the amounts of `part` by `scale`, but not below minimums: `room` bytes for a file.
fn shrink(part: &mut Group, scale: f64, room: u64, on_files: OnFiles) {
    let files = part.benchmarks.iter().any(|name| on_files(name));
    let (block, threads) = (block(part), threads(part));
    let least = if part.asked("message") { LEAST_OPERATIONS } else { 2 };
    for (key, values) in &mut part.lists {
        let at_least = |n: u64, least: u64| times(n, scale).max(n.min(least));
        let rule = |n: u64| match amount(key) {
            Some(ScaledAmount::Bytes) => at_least(n, block.saturating_mul(least).saturating_mul(threads)),
            Some(ScaledAmount::Transfers) => at_least(n, LEAST_OPERATIONS.saturating_mul(threads)),
            Some(ScaledAmount::Operations) => at_least(n, LEAST_WORK),
            Some(ScaledAmount::Order) => scaled_order(n, scale),
            Some(ScaledAmount::File) if files => times(n, scale).max(LEAST_FILE).max(room),
            Some(ScaledAmount::File) | None => n,
        };
        for value in values {
            if let Value::Size(n) | Value::Count(n) = value {
                *n = rule(*n);
            }
        }
    }
}

/// Returns the order `n` of a matrix × ∛`scale`, but at least 64 (or `n`, if smaller).
pub fn scaled_order(n: u64, scale: f64) -> u64 {
    if scale == 1.0 { n } else { times(n, scale.cbrt()).max(n.min(LEAST_ORDER)) }
}

fn times(n: u64, factor: f64) -> u64 {
    // The cast saturates.
    ((n as f64 * factor).round() as u64).max(1)
}

fn block(part: &Group) -> u64 {
    of_one().flat_map(|key| part.numbers(key.name, &[])).max().unwrap_or(1)
}

fn threads(part: &Group) -> u64 {
    workers().flat_map(|key| part.numbers(key.name, &[])).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;

    fn on_files(name: &str) -> bool {
        name.starts_with("disk.")
    }

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn of(benchmark: &str, lists: &[(&str, &[&str])]) -> Group {
        Group { benchmarks: vec![benchmark.to_owned()], ..fixture::group(lists) }
    }

    #[test]
    fn a_group_has_one_file_with_room_for_two_blocks_of_each_thread() {
        let lists: [(&str, &[&str]); 4] =
            [("block", &["1M", "100M"]), ("threads", &["1", "4"]), ("size", &["10G"]), ("volume", &["10G"])];
        let group = of("disk.io", &lists);
        let parts = scaled(&group, 0.001, on_files);
        let files: Vec<u64> = parts.iter().flat_map(|part| part.numbers("size", &[])).collect();
        assert_eq!(files, [800 * MIB; 4]);
        let volumes: Vec<u64> = parts.iter().flat_map(|part| part.numbers("volume", &[])).collect();
        assert_eq!(volumes, [10_737_418, 10_737_418, 200 * MIB, 800 * MIB]);
        assert_eq!(scaled(&group, 1.0, on_files), [group]);
    }

    #[test]
    fn memory_keeps_its_region_and_a_system_its_shape() {
        let memory = of("memory.block", &[("size", &["1G"]), ("volume", &["100G"])]);
        let part = &scaled(&memory, 0.01, on_files)[0];
        assert_eq!((part.numbers("size", &[]), part.numbers("volume", &[])), (vec![GIB], vec![GIB]));
        let linpack = of("cpu.linpack", &[("n", &["10000", "1000"])]);
        assert_eq!(scaled(&linpack, 0.001, on_files)[0].numbers("n", &[]), [1000, 100]);
    }

    #[test]
    fn a_series_is_shorter_and_never_below_thirty() {
        let lengths = [(600, 0.1), (600, 0.001), (3, 0.1), (600, 1.0)].map(|(n, scale)| series(n, scale));
        assert_eq!(lengths, [60, 30, 3, 600]);
        assert_eq!([series_sample_time(1.0, 0.5, 0.2), series_sample_time(1.0, 0.001, 0.2)], [0.5, 0.2]);
        assert_eq!([series_sample_time(0.1, 0.5, 0.2), series_sample_time(1.0, 1.0, 0.2)], [0.1, 1.0]);
    }

    #[test]
    fn a_scaled_case_is_stated_by_its_plan() {
        let group =
            of("memory.block", &[("block", &["8K", "80M"]), ("threads", &["1", "2"]), ("volume", &["1G"])]);
        let case = |block: &str, volume: &str, threads: u32| -> Case {
            format!("memory.block/op=write/block={block}/threads={threads}/volume={volume}").parse().unwrap()
        };
        let groups = [of("disk.io", &[("volume", &["1G"])]), group];
        for (block, volume, threads) in [("8K", "1073742", 1), ("80M", "160M", 1), ("80M", "320M", 2)] {
            let stated = unscaling(&groups, 0.001, on_files)(&case(block, volume, threads));
            assert_eq!(stated, case(block, "1G", threads), "{block}");
        }
        let foreign = case("4K", "1073742", 1);
        assert_eq!(unscaling(&groups, 0.001, on_files)(&foreign), foreign);
        assert_eq!(unscaling(&groups, 1.0, on_files)(&case("8K", "1G", 1)), case("8K", "1G", 1));
    }

    proptest! {
        #[test]
        fn nothing_grows_but_a_small_file(scale in 1e-9..1.0_f64, n in 1..u64::MAX, threads in 1..200_u64) {
            for key in ["volume", "count", "work"] {
                let value = if key == "volume" { Value::Size(n) } else { Value::Count(n) };
                let threads = vec![Value::Count(threads)];
                let group = of("memory.block", &[]).with("threads", threads).with(key, vec![value]);
                let got = scaled(&group, scale, on_files)[0].numbers(key, &[])[0];
                prop_assert!((1..=n).contains(&got) || n == 0, "{key}: {n} became {got}");
            }
        }
    }
}
