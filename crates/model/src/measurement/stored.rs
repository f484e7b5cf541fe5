//! A metric as it is stored: the values of its series are its samples.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Matrix, MetricResult, PeerResult, Point};
use crate::limit::Limit;
use crate::metric::Better;
use crate::quantity::Unit;
use crate::sample;
use crate::stats::Summary;

/// The fields of [`MetricResult`].
#[derive(Deserialize)]
pub(super) struct Stored {
    name: String,
    unit: Unit,
    better: Better,
    samples: Vec<f64>,
    series: Vec<Point>,
    summary: Summary,
    #[serde(default)]
    percentiles: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    histogram: Option<Vec<(f64, u64)>>,
    #[serde(default)]
    matrix: Option<Matrix>,
    #[serde(default)]
    curve: Option<Vec<sample::Point>>,
    limit: Option<Limit>,
    other_limits: Vec<Limit>,
    of_limit: Option<f64>,
    peers: Vec<PeerResult>,
}

impl From<Stored> for MetricResult {
    fn from(stored: Stored) -> Self {
        let values = stored.samples.iter().copied().chain(std::iter::repeat(f64::NAN));
        let series = stored.series.into_iter().zip(values);
        Self {
            name: stored.name,
            unit: stored.unit,
            better: stored.better,
            series: series.map(|(point, value)| Point { value, ..point }).collect(),
            samples: stored.samples,
            summary: stored.summary,
            percentiles: stored.percentiles,
            histogram: stored.histogram,
            matrix: stored.matrix,
            curve: stored.curve,
            limit: stored.limit,
            other_limits: stored.other_limits,
            of_limit: stored.of_limit,
            peers: stored.peers,
        }
    }
}
