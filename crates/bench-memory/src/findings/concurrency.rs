//! Finding: one thread has too few cache lines in flight for the memory channels (Little's law).

use plimsoll_bench_api::prelude::*;
use serde_json::json;

use crate::{Bandwidth, MemoryLatency};
use plimsoll_model::job::{MemorySite, PointerChase};
use plimsoll_model::limit::channels::CHANNELS;
use plimsoll_units::quantity::{percent, significant};

const NEAR_LIMIT_SHARE: f64 = 0.9;
/// Least gain of more threads; otherwise memory itself is the limit.
const MORE: f64 = 1.25;
const LINE_BYTES: f64 = 64.0;

struct ConcurrencyBound<'a> {
    one: &'a Measurement,
    many: &'a Measurement,
    share: f64,
    gain: f64,
}

/// Returns at most one finding: that a core's loads in flight limit the bandwidth of one thread, on
/// the operation that reaches the most of its limit.
pub(crate) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    let held = select(run, Bandwidth.name()).filter_map(|one| held(one, run));
    let best = held.max_by(|a, b| a.share.total_cmp(&b.share));
    best.and_then(|held| describe(&held, run)).into_iter().collect()
}

fn held<'a>(one: &'a Measurement, run: &'a [Measurement]) -> Option<ConcurrencyBound<'a>> {
    if one.case.threads() != 1 {
        return None;
    }
    let metric = one.headline()?;
    // A limit of a cache, or given by the user, does not support the conclusion.
    let limit = metric.limit.as_ref()?;
    if limit.source == LimitSource::User || limit.inputs.iter().all(|input| input.name != CHANNELS) {
        return None;
    }
    let share = metric.of_limit.filter(|share| *share < NEAR_LIMIT_SHARE)?;
    let most = metric.summary.ci95.map_or(metric.summary.median, |[_, high]| high);
    let gain = |m: &Measurement| {
        let rate = &m.headline()?.summary;
        Some(rate.ci95.map_or(rate.median, |[low, _]| low) / most)
    };
    let more = select(run, Bandwidth.name()).filter(|m| is_same_with_more(one, m));
    let more = more.filter_map(|m| Some((m, gain(m)?)));
    let (many, gain) = more.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (gain >= MORE).then_some(ConcurrencyBound { one, many, share, gain })
}

/// Returns whether `other` is `one` with more threads and equal bytes per thread or in total.
fn is_same_with_more(one: &Measurement, other: &Measurement) -> bool {
    let (a, b) = (MemorySite::of(&one.case), MemorySite::of(&other.case));
    let size = b.size == a.size || b.total() == a.size;
    let rest = |m: &Measurement| m.case.clone().without(&["threads", "size", "variant"]);
    let same = (&one.node, one.repeat, rest(one)) == (&other.node, other.repeat, rest(other));
    b.threads.count > 1 && size && same
}

fn describe(held: &ConcurrencyBound<'_>, run: &[Measurement]) -> Option<PlainFinding> {
    let rate = held.one.headline()?.summary.median;
    let latency = latency(held.one, run)?;
    let lines = rate * latency / LINE_BYTES;
    let threads = held.many.case.threads();
    let gain = held.many.headline()?.summary.median / rate;
    let text = format!(
        "memory: one thread reaches {} of the bandwidth of the memory channels. The limit is the core: it keeps {} cache lines of 64 bytes in flight, and each takes {}. {threads} threads reach {} × the rate",
        percent(held.share, 2),
        significant(lines, 2),
        Quantity::new(latency, Unit::Second),
        significant(gain, 3),
    );
    let evidence = json!({
        "case": held.one.case.id(),
        "of_limit": held.share,
        "latency": latency,
        "lines": lines,
        "more_threads": held.many.case.id(),
        "gain_at_least": held.gain,
    });
    Some(PlainFinding { topic: Topic::Concurrency, code: "concurrency", text, evidence })
}

/// Returns the latency of memory in s by the largest chase on the machine of `one`, `None` without
/// a chase through at least the bytes of `one` (at most 256 MiB are required).
fn latency(one: &Measurement, run: &[Measurement]) -> Option<f64> {
    let size = Some(MemorySite::of(&one.case).size).filter(|size| *size > 0)?;
    let least = size.min(256 << 20);
    let chases = select(run, MemoryLatency.name()).filter(|m| m.node == one.node);
    let chases = chases.filter_map(|m| Some((m, PointerChase::of(&m.case)?)));
    let of_memory: Vec<_> =
        chases.filter(|(_, chase)| chase.chases == 1 && chase.site.size >= least).collect();
    let largest = of_memory.iter().map(|(_, chase)| chase.site.size).max()?;
    // The fastest page size: the moved data has the largest pages too.
    let alike = of_memory.iter().filter(|(_, chase)| chase.site.size == largest);
    let latencies = alike.filter_map(|(m, _)| m.headline().map(|metric| metric.summary.median));
    latencies.filter(|latency| *latency > 0.0).reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::limit::{Input, Limit, LimitKind};
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::measured;

    const MAXIMUM: f64 = 400e9;

    fn moved(threads: u64, size: &str, rate: f64) -> Measurement {
        let id = format!("memory.bandwidth/op=read/size={size}/threads={threads}");
        let samples: Vec<f64> = (0..9).map(|i| rate * (1.0 + 0.001 * f64::from(i - 4))).collect();
        let mut made = measured(&id, Unit::BytePerSecond, Better::Higher, &samples);
        let metric = &mut made.metrics[0];
        let inputs = vec![Input::new(CHANNELS, 12.0, "1", "test")];
        metric.limit =
            Some(Limit::fixed(LimitKind::Ceiling, LimitSource::Rated, MAXIMUM, "channels × …", inputs));
        metric.of_limit = Some(rate / MAXIMUM);
        made
    }

    fn chased(size: &str, seconds: f64) -> Measurement {
        let id = format!("memory.latency/size={size}/pages=thp");
        measured(&id, Unit::Second, Better::Lower, &[seconds; 9])
    }

    #[test]
    fn one_core_that_leaves_memory_idle_is_told_with_its_lines() {
        let found = find(&[
            moved(1, "512M", 32e9),
            moved(2, "512M", 60e9),
            moved(4, "512M", 96e9),
            chased("16K", 1e-9),
            chased("512M", 100e-9),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].text,
            "memory: one thread reaches 8.0 % of the bandwidth of the memory channels. The limit is the core: it keeps 50 cache lines of 64 bytes in flight, and each takes 100 ns. 4 threads reach 3.00 × the rate"
        );
        assert!((found[0].evidence["lines"].as_f64().unwrap() - 50.0).abs() < 1e-9);
        let mut populated = moved(1, "512M", 32e9);
        populated.metrics[0].limit.iter_mut().for_each(|limit| limit.source = LimitSource::Derived);
        let found = find(&[populated, moved(2, "512M", 60e9), chased("512M", 100e-9)]);
        assert_eq!(found.len(), 1, "where the modules are known too");
        let in_all = [moved(1, "512M", 32e9), moved(2, "256M", 60e9), chased("512M", 100e-9)];
        assert_eq!(find(&in_all).len(), 1, "as many bytes in all are the same work");
    }

    #[test]
    fn it_is_silent_where_memory_is_the_limit_or_something_is_not_known() {
        let latency = || chased("512M", 100e-9);
        assert!(find(&[moved(1, "512M", 32e9), moved(2, "512M", 36e9), latency()]).is_empty(), "full");
        assert!(find(&[moved(1, "512M", 32e9), moved(2, "512M", 60e9)]).is_empty(), "no latency");
        assert!(find(&[moved(1, "512M", 32e9), moved(2, "512M", 60e9), chased("16K", 1e-9)]).is_empty());
        assert!(find(&[moved(1, "512M", 380e9), moved(2, "512M", 700e9), latency()]).is_empty(), "near");
        assert!(find(&[moved(1, "512M", 32e9), moved(2, "64K", 60e9), latency()]).is_empty(), "other work");
        let [mut cached, mut given] = [moved(1, "512M", 32e9), moved(1, "512M", 32e9)];
        cached.metrics[0].limit.iter_mut().for_each(|limit| limit.inputs.clear());
        given.metrics[0].limit.iter_mut().for_each(|limit| limit.source = LimitSource::User);
        assert!(find(&[cached, moved(2, "512M", 60e9), latency()]).is_empty(), "a cache's limit");
        assert!(find(&[given, moved(2, "512M", 60e9), latency()]).is_empty(), "the user's");
    }
}
