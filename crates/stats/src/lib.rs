//! Statistics over samples: pure functions of samples and seed, the same on any machine.
#![forbid(unsafe_code)]

mod bootstrap;
mod bucket;
mod changepoint;
mod convergence;
mod equivalence;
mod esd;
mod excluded;
mod holm;
mod outlier_distance;
mod samples;
mod scaling;
mod seed;
mod sequential;
mod steady;
mod summary;
#[cfg(test)]
mod testing;
mod times;
mod trend;
mod usl;

pub use bootstrap::{RESAMPLES, median_interval};
pub use bucket::{ArrivalStretch, Bucket, bucket, burst, sustained};
pub use changepoint::{MAX_CHANGES, MIN_SEGMENT, Segment, TimedPoint, segments, segments_of_many};
pub use convergence::{Budget, EndedBy, MAX_SAMPLES, MIN_SAMPLES, SamplingOutcome, StopRule};
pub use equivalence::{EquivalenceVerdict, MIN_PAIRS, Ratio};
pub use esd::without_outliers;
pub use excluded::{ALL_BUT_EXCLUDED, ExcludedShare, MOSTLY_EXCLUDED};
pub use holm::holm;
pub use outlier_distance::{FALSE_ALARMS, outlier_distance};
pub use samples::{Samples, median};
pub use scaling::{ScalingStep, scaling};
pub use seed::Seed;
pub use sequential::{MISSED, Sequential, SequentialDecision};
pub use steady::{MOST_ROUNDS, Steadiness, WINDOW_ROUNDS};
pub use summary::Summary;
pub use times::{Times, quantile_edge};
pub use trend::Trend;
pub use usl::{Coefficient, LoadPoint, Usl};
