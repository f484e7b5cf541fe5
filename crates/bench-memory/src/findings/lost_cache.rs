use plimsoll_bench_api::prelude::*;
use serde_json::json;

use crate::MemoryLatency;
use crate::fact::LEVEL;
use plimsoll_model::job::MemorySite;

/// Share of memory latency from which on memory answered; caches are at least 3 times as fast.
const AS_MEMORY: f64 = 0.8;

/// Returns at most one finding: the smallest working set that fits a cache, yet is slow as memory.
pub(crate) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    let smaller = |level: &str| level != "memory";
    let in_a_cache =
        select(run, MemoryLatency.name()).filter(|m| m.achieved.get(&LEVEL).as_deref().is_some_and(smaller));
    let lost = in_a_cache.filter_map(|cached| Some((cached, find_same_in_memory(cached, run)?)));
    let smallest = lost.min_by_key(|(cached, _)| MemorySite::of(&cached.case).size);
    smallest
        .and_then(|(cached, memory)| describe(cached, memory, find_fast_in_cache(cached, run)))
        .into_iter()
        .collect()
}

/// Returns a measurement of the run with equal size and machine, but 2.5 times as fast as `cached`.
fn find_fast_in_cache<'a>(cached: &Measurement, run: &'a [Measurement]) -> Option<&'a Measurement> {
    let latency = median(cached)?;
    let key = |m: &Measurement| (MemorySite::of(&m.case).size, m.achieved.get(&LEVEL));
    let is_alike = |m: &&Measurement| m.node == cached.node && key(m) == key(cached);
    select(run, MemoryLatency.name())
        .filter(is_alike)
        .find(|m| median(m).is_some_and(|near| near < AS_MEMORY / 2.0 * latency))
}

/// Returns the run's equal chase in memory if `cached` takes at least 80 % of its latency.
fn find_same_in_memory<'a>(cached: &Measurement, run: &'a [Measurement]) -> Option<&'a Measurement> {
    let latency = median(cached)?;
    let rest = |m: &Measurement| m.case.clone().without(&["size"]);
    let is_same = |m: &&Measurement| {
        m.achieved.get(&LEVEL).as_deref() == Some("memory")
            && (&m.node, m.repeat, rest(m)) == (&cached.node, cached.repeat, rest(cached))
    };
    select(run, MemoryLatency.name())
        .filter(is_same)
        .find(|m| median(m).is_some_and(|far| latency >= AS_MEMORY * far))
}

fn median(measurement: &Measurement) -> Option<f64> {
    measurement.headline().map(|metric| metric.summary.median).filter(|latency| *latency > 0.0)
}

fn describe(cached: &Measurement, memory: &Measurement, quick: Option<&Measurement>) -> Option<PlainFinding> {
    let (size, level) = (MemorySite::of(&cached.case).size, cached.achieved.get(&LEVEL)?);
    let (near, far) = (median(cached)?, median(memory)?);
    let time = |seconds: f64| Quantity::new(seconds, Unit::Second);
    let but = quick.and_then(|quick| Some((crate::SUBSYSTEM.label(&quick.case), time(median(quick)?))));
    let why = match but {
        Some((case, quick)) => {
            format!(
                "In this run '{case}' took only {quick}, so other cores or guests used that cache for a time"
            )
        }
        None => "Other cores or guests use that cache, or this guest gets only a part of it".to_owned(),
    };
    let text = format!(
        "{}: {}, about the latency of memory ({}), although {} fits in the {level} cache. {why}",
        crate::SUBSYSTEM.label(&cached.case),
        time(near),
        time(far),
        Quantity::new(size as f64, Unit::Byte),
    );
    let evidence = json!({ "case": cached.case.id(), "latency": near, "memory": memory.case.id(), "latency_of_memory": far });
    Some(PlainFinding { topic: Topic::Limit, code: "cache-lost", text, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::measured;

    fn chased(level: &str, size: &str, pages: &str, seconds: f64) -> Measurement {
        let id = format!("memory.latency/size={size}/pages={pages}");
        let mut made = measured(&id, Unit::Second, Better::Lower, &[seconds; 9]);
        made.achieved.set(&LEVEL, level.to_owned());
        made
    }

    fn texts(measurements: &[Measurement]) -> Vec<String> {
        find(measurements).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn the_smallest_area_that_memory_answered_is_named() {
        let memory = || chased("memory", "512M", "thp", 141e-9);
        let found = texts(&[
            chased("L2", "512K", "thp", 3.7e-9),
            chased("L3", "24M", "thp", 146e-9),
            chased("L3", "16M", "thp", 145e-9),
            memory(),
        ]);
        let wanted = "memory latency 16 MiB: 145 ns, about the latency of memory (141 ns), although 16 MiB \
                      fits in the L3 cache. Other cores or guests use that cache, or this guest gets only a \
                      part of it";
        assert_eq!(found, [wanted]);
        let two = texts(&[chased("L3", "16M", "thp", 145e-9), chased("L3", "16M", "4k", 13e-9), memory()]);
        let end = "In this run 'memory latency 16 MiB pages 4k' took only 13.0 ns, so other cores or guests \
                   used that cache for a time";
        assert!(two[0].ends_with(end), "{two:?}");
        assert!(texts(&[chased("L3", "16M", "thp", 13e-9), memory()]).is_empty(), "the cache answered");
        assert!(texts(&[chased("L3", "16M", "4k", 145e-9), memory()]).is_empty(), "other pages");
        assert!(texts(&[chased("L3", "16M", "thp", 145e-9)]).is_empty(), "memory was not measured");
    }
}
