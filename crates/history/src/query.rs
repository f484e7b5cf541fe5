//! Results over time.

use std::sync::Arc;

use plimsoll_model::case::Pattern;
use plimsoll_model::metric::Better;
use plimsoll_units::quantity::Unit;

use super::index::{Facts, Series};
use super::{Store, StoreError};

/// Results of one metric of one case on one machine over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
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
    pub points: Vec<Point>,
}

/// Result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The run.
    pub run: Arc<Began>,
    /// Median of the samples, in the trend's unit.
    pub median: f64,
    /// Share of the limit.
    pub of_limit: Option<f64>,
}

/// A run and its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    /// Run ID.
    pub id: String,
    /// Start time, RFC 3339.
    pub started: String,
}

/// Selection of results.
#[derive(Clone, Debug)]
pub struct Asked {
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

impl Asked {
    fn is_of(&self, run: &Facts) -> bool {
        let since = self.since.as_ref().is_none_or(|since| run.started >= *since);
        let is_machine = |machine: &String| run.machine == *machine || run.host.as_ref() == Some(machine);
        since && self.machine.as_ref().is_none_or(is_machine)
    }

    fn is_about(&self, series: &Series) -> bool {
        let metric = match &self.metric {
            Some(metric) => series.metric == *metric,
            None => self.all || series.rank == 0,
        };
        metric && self.cases.matches(&series.case)
    }
}

impl Store {
    /// Returns the selected results by machine, in the order of first measurement of the cases.
    pub fn trends(&self, asked: &Asked) -> Result<Vec<Trend>, StoreError> {
        let index = self.index()?;
        let wanted: Vec<bool> = index.series.iter().map(|series| asked.is_about(series)).collect();
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); wanted.len()];
        let mut found: Vec<Trend> = Vec::new();
        for run in index.runs.iter().map(|run| &run.facts).filter(|run| asked.is_of(run)) {
            let began = Arc::new(Began { id: run.id.clone(), started: run.started.clone() });
            for &(number, median, of_limit) in run.figures.iter().filter(|figure| wanted[figure.0]) {
                let point = Point { run: began.clone(), median, of_limit };
                let same =
                    |place: &&usize| found[**place].machine == run.machine && found[**place].host == run.host;
                match places[number].iter().find(same) {
                    Some(&place) => found[place].points.push(point),
                    None => {
                        places[number].push(found.len());
                        found.push(trend(run, &index.series[number], point));
                    }
                }
            }
        }
        found.sort_by(|a, b| (&a.host, &a.machine).cmp(&(&b.host, &b.machine)));
        Ok(found)
    }
}

fn trend(run: &Facts, series: &Series, first: Point) -> Trend {
    Trend {
        machine: run.machine.clone(),
        host: run.host.clone(),
        case: series.case.clone(),
        metric: series.metric.clone(),
        unit: series.unit,
        better: series.better,
        points: vec![first],
    }
}
