//! Results over time.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll_model::case::Pattern;
use plimsoll_model::metric::Better;
use plimsoll_units::quantity::Unit;

use super::index::IndexedSeries;
use super::{RunSummary, Store, StoreError};

/// Results of one metric of one case on one machine over time.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricTrend {
    /// Fingerprint of the machine.
    pub machine: String,
    /// Host name, if known.
    pub host: Option<String>,
    /// Case ID.
    pub case: String,
    /// Metric name.
    pub metric: String,
    /// Unit of the metric.
    pub unit: Unit,
    /// Whether higher or lower is better.
    pub better: Better,
    /// At least one point, the oldest first.
    pub points: Vec<TrendPoint>,
}

/// Result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendPoint {
    /// The run.
    pub run: Arc<RunStart>,
    /// Median of the samples, in the trend's unit.
    pub median: f64,
    /// Share of the limit.
    pub of_limit: Option<f64>,
}

/// A run and its start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunStart {
    /// Run ID.
    pub id: String,
    /// Start time, RFC 3339.
    pub started: String,
}

/// Selection of results.
#[derive(Clone, Debug)]
pub struct TrendQuery {
    /// Selected cases.
    pub cases: Pattern,
    /// Metric; `None` for the headline.
    pub metric: Option<String>,
    /// Every metric, if none is named.
    pub all: bool,
    /// Earliest start, RFC 3339 in UTC.
    pub since: Option<String>,
    /// Fingerprint or host name of the machine.
    pub machine: Option<String>,
}

impl TrendQuery {
    fn is_of(&self, run: &RunSummary) -> bool {
        let since = self.since.as_ref().is_none_or(|since| run.started >= *since);
        let is_machine = |machine: &String| run.machine == *machine || run.host.as_ref() == Some(machine);
        since && self.machine.as_ref().is_none_or(is_machine)
    }

    fn is_about(&self, series: &IndexedSeries) -> bool {
        let metric = match &self.metric {
            Some(metric) => series.metric == *metric,
            None => self.all || series.rank == 0,
        };
        metric && self.cases.matches(&series.case)
    }
}

impl Store {
    /// Returns a series for each machine, case and metric that `asked` selects, ordered by host,
    /// machine and first measurement; the points are the oldest first.
    pub fn trends(&self, asked: &TrendQuery) -> Result<Vec<MetricTrend>, StoreError> {
        let index = self.index()?;
        let wanted: Vec<bool> = index.series.iter().map(|series| asked.is_about(series)).collect();
        let mut places: HashMap<(usize, &str, Option<&str>), usize> = HashMap::new();
        let mut found: Vec<MetricTrend> = Vec::new();
        for indexed in index.runs.iter().filter(|indexed| asked.is_of(&indexed.summary)) {
            let run = &indexed.summary;
            let began = Arc::new(RunStart { id: run.id.clone(), started: run.started.clone() });
            for &(number, median, of_limit) in indexed.figures.iter().filter(|figure| wanted[figure.0]) {
                let key = (number, run.machine.as_str(), run.host.as_deref());
                let place = *places.entry(key).or_insert_with(|| {
                    let IndexedSeries { case, metric, unit, better, .. } = index.series[number].clone();
                    let (machine, host, points) = (run.machine.clone(), run.host.clone(), Vec::new());
                    found.push(MetricTrend { machine, host, case, metric, unit, better, points });
                    found.len() - 1
                });
                found[place].points.push(TrendPoint { run: began.clone(), median, of_limit });
            }
        }
        found.sort_by(|a, b| (&a.host, &a.machine).cmp(&(&b.host, &b.machine)));
        Ok(found)
    }
}
