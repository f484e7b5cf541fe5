use plimsoll_bench_api::prelude::*;
use serde_json::json;

use crate::{BANDWIDTH_METRIC, LATENCY_METRIC, LoadedLatency};
use plimsoll_units::quantity::percent;
use plimsoll_units::text::format_count;

/// Least rise over the unloaded latency, as a share, for a saturation point; less is noise.
const LEAST_RISE: f64 = 0.10;
const LEAST_POINTS: usize = 5;

/// Returns a finding for each `memory.loaded-latency` with a curve that starts without load.
pub(crate) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    select(run, LoadedLatency.name()).filter_map(describe).collect()
}

/// A point of the curve, in bytes per second and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LoadedPoint {
    bandwidth: f64,
    latency: f64,
}

impl LoadedPoint {
    fn of(point: &CurvePoint) -> Option<Self> {
        let at = Self { bandwidth: *point.get(BANDWIDTH_METRIC)?, latency: *point.get(LATENCY_METRIC)? };
        (at.bandwidth.is_finite() && at.latency.is_finite()).then_some(at)
    }
}

fn describe(measurement: &Measurement) -> Option<PlainFinding> {
    let curve = measurement.headline()?.curve.as_ref()?;
    let mut points: Vec<LoadedPoint> = curve.iter().filter_map(LoadedPoint::of).collect();
    points.sort_by(|a, b| a.bandwidth.total_cmp(&b.bandwidth));
    let (idle, most) = (*points.first()?, *points.last()?);
    if points.len() < LEAST_POINTS || idle.bandwidth > 0.0 || most.bandwidth <= 0.0 || idle.latency <= 0.0 {
        return None;
    }
    let top = points.iter().map(|at| at.latency).fold(0.0, f64::max);
    let rise = top / idle.latency - 1.0;
    let time = |seconds: f64| Quantity::new(seconds, Unit::Second).to_string();
    let rate = |bytes: f64| Quantity::new(bytes, Unit::BytePerSecond).to_string();
    let saturation_point = (rise >= LEAST_RISE).then(|| saturation_point(&points, top)).flatten();
    let loading = measurement.case.threads().saturating_sub(1);
    let who = format_count(loading, "loading thread");
    let text = match saturation_point {
        Some(saturation_point) => format!(
            "memory latency under load: saturation point at {}, where the latency is {} ({} without load). The highest bandwidth of {who} is {}, \
             with a latency of {}",
            rate(saturation_point.bandwidth),
            time(saturation_point.latency),
            time(idle.latency),
            rate(most.bandwidth),
            time(most.latency)
        ),
        None => format!(
            "memory latency under load: no saturation point up to {}, the highest bandwidth of {who}: the latency stays within {} of the {} \
             without load",
            rate(most.bandwidth),
            percent(LEAST_RISE, 2),
            time(idle.latency)
        ),
    };
    let point = |at: &LoadedPoint| json!({ BANDWIDTH_METRIC: at.bandwidth, LATENCY_METRIC: at.latency });
    let evidence = json!({
        "case": measurement.case.id(),
        "saturation_point": saturation_point.as_ref().map(point),
        "unloaded": idle.latency,
        "rise": rise,
        "curve": points.iter().map(point).collect::<Vec<_>>(),
    });
    Some(PlainFinding { topic: Topic::Load, code: "latency-knee", text, evidence })
}

/// Returns the point farthest below the line from no load to the highest load at latency `top` (s),
/// or `None` if all are above (Satopää et al., "Finding a Kneedle in a Haystack", 2011).
fn saturation_point(points: &[LoadedPoint], top: f64) -> Option<LoadedPoint> {
    let (idle, most) = (points.first()?, points.last()?);
    let gain =
        |at: &LoadedPoint| at.bandwidth / most.bandwidth - (at.latency - idle.latency) / (top - idle.latency);
    let best = points.iter().max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
    (gain(best) > 0.0).then_some(*best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::measured;

    /// Returns a measurement with these points, in GB/s and ns.
    fn loaded(points: &[(i32, i32)]) -> Measurement {
        let id = "memory.loaded-latency/op=read/size=512M/threads=2";
        let mut made = measured(id, Unit::Second, Better::Lower, &[1e-7]);
        let point = |&(bandwidth, latency): &(i32, i32)| -> CurvePoint {
            let (bandwidth, latency) = (f64::from(bandwidth) * 1e9, f64::from(latency) * 1e-9);
            [("bandwidth".to_owned(), bandwidth), ("latency".to_owned(), latency)].into()
        };
        made.metrics[0].curve = Some(points.iter().map(point).collect());
        made
    }

    fn found(points: &[(i32, i32)]) -> Vec<PlainFinding> {
        find(&[loaded(points)])
    }

    #[test]
    fn the_knee_is_where_latency_begins_to_cost_more_than_bandwidth_gains() {
        let found = found(&[(0, 100), (5, 101), (10, 103), (20, 110), (30, 120), (35, 180), (37, 300)]);
        let wanted = "memory latency under load: saturation point at 30.0 GB/s, where the latency is 120 ns \
                      (100 ns without load). The highest bandwidth of 1 loading thread is 37.0 GB/s, with a \
                      latency of 300 ns";
        assert_eq!(found[0].text, wanted);
        assert_eq!(found[0].evidence["saturation_point"]["bandwidth"], 30e9);
        assert_eq!(found[0].evidence["curve"].as_array().unwrap().len(), 7);
    }

    #[test]
    fn a_flat_curve_has_no_knee_and_says_so() {
        let found = found(&[(0, 140), (5, 139), (10, 141), (20, 143), (37, 150)]);
        let wanted = "memory latency under load: no saturation point up to 37.0 GB/s, the highest bandwidth \
                      of 1 loading thread: the latency stays within 10 % of the 140 ns without load";
        assert_eq!(found[0].text, wanted);
        assert!(found[0].evidence["saturation_point"].is_null());
    }

    #[test]
    fn what_is_no_curve_from_no_load_on_says_nothing() {
        assert!(found(&[(0, 100), (5, 101), (10, 300)]).is_empty(), "too few");
        assert!(found(&[(1, 100), (5, 101), (10, 103), (20, 110), (30, 120)]).is_empty());
        assert!(found(&[(0, 100); 6]).is_empty(), "no load at all");
        let mut other = loaded(&[(0, 100); 6]);
        other.metrics[0].curve = None;
        assert!(find(&[other]).is_empty());
    }
}
