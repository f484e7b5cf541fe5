//! Measured counterpart of a published point: samples, limit, reference tools.

use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_published::Matched;
use plimsoll_result::document::Run;
use plimsoll_units::text::shown_within;
use std::collections::BTreeSet;

use crate::report::published::today::MeasuredByTool;

pub(super) struct PointToday<'a> {
    metric: &'a str,
    matched: &'a Matched,
    all: Vec<&'a Measurement>,
}

impl<'a> PointToday<'a> {
    pub(super) fn of(run: &'a Run, matched: &'a Matched) -> Self {
        let is = |m: &&Measurement| m.status == Status::Ok && matched.measures_same(&m.case, run.plan.scale);
        Self { metric: matched.metric, matched, all: run.measurements.iter().filter(is).collect() }
    }

    fn metrics(&self) -> impl Iterator<Item = &'a MetricResult> {
        self.all.iter().filter_map(|m| m.metrics.iter().find(|metric| metric.name == self.metric))
    }

    pub(super) fn measurements(&self) -> &[&'a Measurement] {
        &self.all
    }

    /// Returns mean, minimum and maximum of the samples in the report's unit; `None` without
    /// samples.
    pub(super) fn figure(&self) -> Option<[f64; 3]> {
        let samples = self.metrics().flat_map(|metric| &metric.samples);
        let samples: Vec<f64> = samples.map(|sample| self.matched.as_published(*sample)).collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
        let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (!samples.is_empty() && mean > 0.0).then_some([mean, least, most])
    }

    pub(super) fn limit(&self) -> Option<f64> {
        let limit = self.metrics().find_map(|metric| metric.limit.as_ref()?.value)?;
        Some(self.matched.as_published(limit))
    }

    /// Returns which share of the limit (1 is all) `figure` reaches; `None` without a limit.
    /// `figure` is in the report's unit.
    pub(super) fn share(&self, figure: f64) -> Option<f64> {
        let limit = self.metrics().find_map(|metric| metric.limit.as_ref().filter(|l| l.value.is_some()))?;
        Some(limit.share(figure, self.matched.as_published(limit.value?)))
    }

    pub(super) fn unit(&self) -> Option<plimsoll_units::quantity::Unit> {
        self.metrics().map(|metric| metric.unit).next()
    }

    /// Returns the tools' results in the report's unit, converted from another metric if necessary.
    pub(super) fn tools(&self) -> Vec<MeasuredByTool<'a>> {
        let mut names = BTreeSet::new();
        let all = self.all.iter().flat_map(|measurement| MeasuredByTool::all(measurement, self.metric));
        let all = all.map(|tool| MeasuredByTool {
            figure: self.matched.as_published(tool.figure),
            differs: shown_within(&tool.differs, 200),
            ..tool
        });
        let found: Vec<_> = all.filter(|tool| tool.figure > 0.0 && names.insert(tool.name)).collect();
        let tools: Vec<&str> = found.iter().map(|tool| tool.name).collect();
        let is_pass = |name: &str| {
            tools.iter().any(|tool| name.strip_prefix(tool).is_some_and(|rest| rest.starts_with(' ')))
        };
        found.into_iter().filter(|tool| !is_pass(tool.name)).collect()
    }
}
