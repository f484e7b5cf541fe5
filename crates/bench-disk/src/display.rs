//! Formatting of sizes, distributions and the location of the data.

use plimsoll_bench_api::prelude::*;
use plimsoll_model::sample::Histogram;
use plimsoll_stats::Times;

pub(crate) fn human(n: u64) -> Quantity {
    Quantity::new(n as f64, Unit::Byte)
}

pub(crate) fn distribution(metric: &str, times: &Times) -> Histogram {
    Histogram { metric: metric.to_owned(), buckets: times.buckets() }
}

/// Returns, for messages, the path of the device to test or, without one, "a test file in DIR".
pub(crate) fn path_of(cx: &Context<'_>) -> String {
    match &cx.options.target {
        Some(target) => plimsoll_units::text::shown_path(&target.device),
        None => format!("a test file in {}", plimsoll_units::text::shown_path(&cx.options.dir)),
    }
}
