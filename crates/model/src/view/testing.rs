//! Synthetic measurements for tests of findings, also of other crates (feature `testing`).
#![allow(clippy::unwrap_used)]

use plimsoll_stats::{Samples, Seed};
use plimsoll_units::quantity::Unit;

use crate::fixture::measured_on;
use crate::measurement::{Measurement, MetricResult, Note};
use crate::metric::Better;

/// Returns a valid measurement of case `id` whose headline has these samples.
pub fn measured(id: &str, unit: Unit, better: Better, samples: &[f64]) -> Measurement {
    let proved = Samples::new(samples.to_vec()).unwrap();
    let metric = MetricResult::of("value", unit, better, &proved, Seed::new(0, id, "value"));
    measured_on("here", id, metric)
}

/// Returns a `cpu.peak` measurement with nine samples within 0.4 % of `rate` (FLOP/s).
pub fn peak(threads: u32, rate: f64) -> Measurement {
    let samples: Vec<f64> = (0..9).map(|i| rate * (1.0 + 0.001 * f64::from(i - 4))).collect();
    let id = format!("cpu.peak/op=fma/type=f64/isa=avx2/threads={threads}");
    measured(&id, Unit::FlopPerSecond, Better::Higher, &samples)
}

/// Adds a warning with this code.
pub fn warned(mut measurement: Measurement, code: &str) -> Measurement {
    measurement.warnings.push(Note { code: code.to_owned(), text: String::new() });
    measurement
}
