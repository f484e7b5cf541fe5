//! Findings from searches over the queue depth: saturation points, and latency targets.

use serde_json::json;

use crate::fact::{self, DEEPEST_QUEUE, TARGET_HELD, WITHIN_TARGET};
use crate::io::DiskIo;
use crate::metrics::{DEPTH_METRIC, LATENCY_METRIC, RATE_METRIC, THREADS_METRIC};
use crate::saturation::DiskSaturation;
use crate::words::lone_engine;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::disk::DiskTransfers;
use plimsoll_model::words;
use plimsoll_units::quantity::{percent, percent_below};

const LEAST_POINTS: usize = 3;

/// Returns a finding for each measurement of `disk.knee` with a saturation point, and of `disk.io`
/// with a latency target.
pub(crate) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    run.iter().filter_map(|made| saturation(made).or_else(|| within(made))).collect()
}

struct DepthPoint<'a> {
    point: &'a CurvePoint,
    threads: f64,
    depth: f64,
    rate: f64,
}

impl<'a> DepthPoint<'a> {
    fn of(point: &'a CurvePoint) -> Option<Self> {
        let number = |name: &str| point.get(name).copied().filter(|value| value.is_finite());
        Some(DepthPoint {
            point,
            threads: number(THREADS_METRIC)?,
            depth: number(DEPTH_METRIC)?,
            rate: number(RATE_METRIC)?,
        })
    }

    fn place(&self) -> String {
        let threads = Some(self.threads).filter(|threads| *threads > 1.0);
        let threads = threads.map(|threads| format!(" on each of {threads} threads")).unwrap_or_default();
        format!("depth {}{threads}", self.depth)
    }

    fn rate(&self) -> String {
        Quantity::new(self.rate, Unit::IoPerSecond).to_string()
    }

    /// Formats the time called `name` ("latency") with a unit, "85.2 µs"; `None` if it is missing.
    fn time(&self, name: &str) -> Option<String> {
        let seconds = self.point.get(name).copied().filter(|seconds| seconds.is_finite())?;
        Some(Quantity::new(seconds, Unit::Second).to_string())
    }
}

fn searched(measurement: &Measurement) -> Option<(Vec<DepthPoint<'_>>, usize)> {
    let points: Vec<DepthPoint<'_>> =
        measurement.headline()?.curve.as_ref()?.iter().filter_map(DepthPoint::of).collect();
    let threads = measurement.achieved.get(&fact::FIGURE_THREADS)? as f64;
    let depth = measurement.achieved.get(&DEEPEST_QUEUE)?? as f64;
    let chosen = points.iter().position(|at| at.threads == threads && at.depth == depth)?;
    Some((points, chosen))
}

fn saturation(measurement: &Measurement) -> Option<PlainFinding> {
    if measurement.case.benchmark() != DiskSaturation.name() {
        return None;
    }
    let (points, chosen) = searched(measurement)?;
    if points.len() < LEAST_POINTS {
        return None;
    }
    let (saturation, one) = (&points[chosen], points.first()?);
    let most = points.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))?;
    let of_one = points.iter().any(|at| at.threads > 1.0) && saturation.threads == 1.0;
    let text = format!(
        "{}: {}{}: {}, {} of the highest rate ({} in all, at {}). Mean latency {} ({} with one transfer in flight)",
        words::full(DiskSaturation.descriptor().words, &measurement.case),
        saturation.place(),
        if of_one { " on 1 thread" } else { "" },
        saturation.rate(),
        percent(saturation.rate / most.rate, 3),
        most.rate(),
        most.place(),
        saturation.time(LATENCY_METRIC)?,
        one.time(LATENCY_METRIC)?,
    );
    let evidence = evidence(measurement, saturation, &points);
    Some(PlainFinding { topic: Topic::Queue, code: "queue-knee", text, evidence })
}

fn within(measurement: &Measurement) -> Option<PlainFinding> {
    let target = DiskTransfers::of(&measurement.case).ok()?.target?;
    let (percentile, bound) = (target.percentile(), target.time());
    let (points, chosen) = searched(measurement)?;
    let found = &points[chosen];
    let next = points.iter().filter(|at| at.depth > found.depth).min_by(|a, b| a.depth.total_cmp(&b.depth));
    let next = next.and_then(|next| Some((next.place(), next.time(&percentile)?)));
    let (place, rate) = (found.place(), found.rate());
    let beyond = match (next, lone_engine(measurement)) {
        (Some((next, time)), _) => format!("up to {place} ({rate}); {next} gave {time}"),
        (None, Some(engine)) => format!("at {place} ({rate}), the only depth of {engine}"),
        (None, None) => format!("up to {place} ({rate}), the deepest queue that it tried"),
    };
    let case = words::full(DiskIo.descriptor().words, &measurement.case);
    let missed = measurement.achieved.get(&TARGET_HELD) == Some(false);
    let share = measurement.achieved.get(&WITHIN_TARGET);
    let text = match share.filter(|_| missed) {
        Some(share) => format!(
            "{case}: the search met {percentile} ≤ {bound} {beyond}. Measured again at {place}, only {} of the transfers took at most {bound}, and {percentile} requires {} %. Use a longer --sample-time or a wider --latency-target",
            percent_below(share),
            percentile.trim_start_matches('p')
        ),
        None => format!("{case}: the search met {percentile} ≤ {bound} {beyond}"),
    };
    let evidence = evidence(measurement, found, &points);
    Some(PlainFinding { topic: Topic::Queue, code: "latency-target", text, evidence })
}

fn evidence(
    measurement: &Measurement,
    chosen: &DepthPoint<'_>,
    points: &[DepthPoint<'_>],
) -> serde_json::Value {
    let curve: Vec<&CurvePoint> = points.iter().map(|at| at.point).collect();
    json!({ "case": measurement.case.id(), "chosen": chosen.point, "curve": curve })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::measurement::Status;
    use plimsoll_model::view::testing::measured;

    fn searched(id: &str, points: &[(f64, f64, f64)], chosen: (u64, u64)) -> Measurement {
        let mut made = measured(id, Unit::IoPerSecond, Better::Higher, &[38e3; 6]);
        let point = |(threads, depth, rate): &(f64, f64, f64)| {
            let latency = threads * depth / rate;
            let names = ["threads", "depth", "rate", "latency", "p99"].map(str::to_owned);
            names.into_iter().zip([*threads, *depth, *rate, latency, 2.0 * latency]).collect()
        };
        made.metrics[0].curve = Some(points.iter().map(point).collect());
        made.achieved.put("threads", chosen.0);
        made.achieved.put("deepest", chosen.1);
        made
    }

    const CURVE: [(f64, f64, f64); 5] =
        [(1.0, 1.0, 10e3), (1.0, 2.0, 20e3), (1.0, 4.0, 38e3), (1.0, 8.0, 39e3), (2.0, 4.0, 40e3)];

    #[test]
    fn a_knee_is_told_with_the_most_and_with_both_latencies() {
        let made = searched("disk.knee/op=read", &CURVE, (1, 4));
        let found = find(&[made]);
        let expected = "disk saturation point, read: depth 4 on 1 thread: 38.0 kIOPS, 95.0 % of the highest rate (40.0 kIOPS in all, at depth 4 \
             on each of 2 threads). Mean latency 105 µs (100 µs with one transfer in flight)";
        assert_eq!(found[0].text, expected);
        assert_eq!(found[0].code, "queue-knee");
        assert_eq!(found[0].evidence["curve"].as_array().map(Vec::len), Some(5));
    }

    #[test]
    fn a_latency_target_is_told_with_what_lies_beyond() {
        let id = "disk.io/op=read/latency-target=p99:250us";
        let lead = "disk read latency-target p99:250us: the search met p99 ≤ 250us";
        let text = |made: Measurement| find(&[made]).remove(0).text;
        let four = searched(id, &CURVE[..4], (1, 4));
        let wanted = format!("{lead} up to depth 4 (38.0 kIOPS); depth 8 gave 410 µs");
        assert_eq!(text(four.clone()), wanted);
        let deepest = text(searched(id, &CURVE[..3], (1, 4)));
        assert!(deepest.contains("depth 4 (38.0 kIOPS), the deepest queue that it tried"), "{deepest}");

        let mut alone = searched(id, &CURVE[..1], (1, 1));
        alone.achieved.put("engine", "psync");
        assert_eq!(text(alone), format!("{lead} at depth 1 (10.0 kIOPS), the only depth of psync"));

        let mut missed = four;
        missed.achieved.put("target_held", false);
        missed.achieved.put("within_target", 0.989_98);
        let again = "Measured again at depth 4, only 98.99 % of the transfers took at most 250us, and p99 \
             requires 99 %. Use a longer --sample-time or a wider --latency-target";
        assert_eq!(text(missed), format!("{wanted}. {again}"));
    }

    #[test]
    fn what_is_no_search_or_found_nothing_says_nothing() {
        let mut none = searched("disk.io/op=read/latency-target=p99:1us", &CURVE, (1, 4));
        none.achieved.put("deepest", serde_json::Value::Null);
        let mut invalid = searched("disk.knee/op=read", &CURVE, (1, 4));
        invalid.status = Status::Invalid;
        let short = searched("disk.knee/op=read", &CURVE[..2], (1, 2));
        let other = searched("disk.io/op=read", &CURVE, (1, 4));
        assert_eq!(find(&[none, invalid, short, other]), []);
    }
}
