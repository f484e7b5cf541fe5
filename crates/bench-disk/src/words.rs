//! Results of searches over the queue depth, in words for a measurement's row.

use crate::fact::{self, DEEPEST_QUEUE, ENGINE, TARGET_HELD};
use crate::metrics::{DEPTH_METRIC, LATENCY_METRIC, RATE_METRIC, THREADS_METRIC};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::disk::{DiskEngine, DiskTransfers};
use plimsoll_units::text::format_count;

pub(super) const CURVES: &[Curve] = &[
    Curve { x: DEPTH_METRIC, x_unit: "", log: true, y: RATE_METRIC, y_unit: "IO/s" },
    Curve { x: DEPTH_METRIC, x_unit: "", log: true, y: LATENCY_METRIC, y_unit: "s" },
    Curve { x: THREADS_METRIC, x_unit: "", log: true, y: RATE_METRIC, y_unit: "IO/s" },
];

/// Formats a point of a depth search: `depth 8 ×2 250 kIOPS` (2 threads); `None` if incomplete.
pub(super) fn point(point: &CurvePoint) -> Option<String> {
    let (threads, depth, rate) =
        (*point.get(THREADS_METRIC)?, *point.get(DEPTH_METRIC)?, *point.get(RATE_METRIC)?);
    let times = if threads > 1.0 { format!(" ×{threads}") } else { String::new() };
    Some(format!("depth {depth}{times} {}", Quantity::new(rate, Unit::IoPerSecond)))
}

/// Describes the result of a latency search: "p99 ≤ 1 ms up to depth 16"; `None` if there is none.
pub(super) fn deepest(measurement: &Measurement) -> Option<String> {
    let target = DiskTransfers::of(&measurement.case).ok()?.target?;
    let target = format!("{} ≤ {}", target.percentile(), target.time());
    let held = measurement.achieved.get(&TARGET_HELD)?;
    let lone = lone_engine(measurement);
    Some(match measurement.achieved.get(&DEEPEST_QUEUE)? {
        None if held => format!("{target} at depth 1, the search was inconclusive"),
        None => format!("{target} at no depth"),
        Some(1) if held && let Some(lone) = lone => format!("{target} at depth 1, the only one of {lone}"),
        Some(depth) if held => format!("{target} up to depth {depth}"),
        Some(depth) => format!("{target} up to depth {depth} in the search, not in the samples"),
    })
}

/// Returns the name of the engine that did the work if it has one transfer at a time; else `None`.
pub(super) fn lone_engine(measurement: &Measurement) -> Option<&'static str> {
    DiskEngine::parse_synchronous(&measurement.achieved.get(&ENGINE)?).map(DiskEngine::word)
}

/// Describes the saturation point of a measurement: "at depth 8 on 2 threads"; `None` without one.
pub(super) fn saturation(measurement: &Measurement) -> Option<String> {
    let (depth, threads) =
        (measurement.achieved.get(&DEEPEST_QUEUE)??, measurement.achieved.get(&fact::FIGURE_THREADS)?);
    Some(format!("at depth {depth} on {}", format_count(threads, "thread")))
}
