//! Measured counterpart of a published point: samples, limit, reference tools.

use plimsoll_bench::converted;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_published::Matched;
use plimsoll_result::document::Run;

#[derive(Clone)]
pub(super) struct ToolToday<'a> {
    pub(super) name: &'a str,
    pub(super) figure: f64,
    pub(super) differs: String,
}

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
    pub(super) fn tools(&self) -> Vec<ToolToday<'a>> {
        let mut found: Vec<ToolToday<'a>> = Vec::new();
        for measurement in &self.all {
            let own = measurement.metrics.iter().filter(|m| m.name == self.metric);
            let others = measurement.metrics.iter().filter(|m| m.name != self.metric);
            for metric in own.chain(others) {
                for tool_result in &metric.tool_results {
                    let figure = tool_result
                        .median
                        .and_then(|median| converted(&measurement.case, median, &metric.name, self.metric));
                    let figure = figure.map(|ours| self.matched.as_published(ours));
                    if let Some(figure) = figure.filter(|f| *f > 0.0)
                        && !found.iter().any(|tool| tool.name == tool_result.tool)
                    {
                        let differs: Vec<&str> =
                            tool_result.warnings.iter().map(|note| note.text.as_str()).collect();
                        let differs = plimsoll_units::text::shown_within(&differs.join("; "), 200);
                        found.push(ToolToday { name: &tool_result.tool, figure, differs });
                    }
                }
            }
        }
        let tools: Vec<&str> = found.iter().map(|tool| tool.name).collect();
        let is_pass = |name: &str| {
            tools.iter().any(|tool| name.strip_prefix(tool).is_some_and(|rest| rest.starts_with(' ')))
        };
        found.into_iter().filter(|tool| !is_pass(tool.name)).collect()
    }
}
