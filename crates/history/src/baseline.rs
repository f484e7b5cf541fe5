use std::collections::BTreeMap;

use plimsoll_compare::lasting::{self, MetricSeries};
use plimsoll_model::case::Case;
use plimsoll_model::limit::median;
use plimsoll_result::document::{Run, RunStatus};

use super::index::{Index, Indexed};
use super::{RunSummary, Store, StoreError};

/// Largest number of runs of a baseline.
pub const MOST_BASELINE: usize = 100;

/// Most earlier runs that are searched for a lasting regression.
const MAX_SEARCHED: usize = 1000;

/// Tag of a run whose level was accepted: no earlier run is in a baseline.
pub const ACCEPTED: &str = "accepted";

/// Number of runs excluded from every baseline, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedRuns {
    /// Runs of another machine or from a file.
    pub imported: usize,
    /// Interrupted runs.
    pub partial: usize,
    /// Runs without a successful measurement.
    pub empty: usize,
}

/// A lasting regression that no user accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRegression {
    /// The case.
    pub case: Case,
    /// The metric.
    pub metric: String,
    /// ID of the first run with the regression.
    pub since: String,
    /// Start of that run, RFC 3339.
    pub started: String,
    /// Relative change since then.
    pub change: f64,
}

/// The runs with which a later run is compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BaselineRuns {
    /// Run IDs, the oldest first.
    pub runs: Vec<String>,
    /// Open regressions, the oldest first; runs since then are excluded.
    pub open: Vec<OpenRegression>,
}

impl Store {
    /// Returns the ID of the last complete run with results that a baseline of `run` may use, with
    /// the same plan and machine and not imported; `None` without one.
    pub fn run_before(&self, run: &Run) -> Result<Option<String>, StoreError> {
        let candidates = self.candidates(run, false)?;
        Ok(candidates.iter().map(|one| one.summary.id.clone()).rfind(|id| *id != run.id))
    }

    /// Returns at most `count` earlier complete runs with the plan and machine of `run`, from the
    /// last accepted run on. Runs since a lasting regression, which `open` lists, are excluded.
    pub fn baseline(&self, run: &Run, count: usize) -> Result<BaselineRuns, StoreError> {
        let candidates = self.candidates(run, false)?;
        let found = self.earlier(run, &candidates, count)?;
        let open = |loss: lasting::LastingLoss| {
            let lasting::LastingLoss { case, metric, since, change, .. } = loss;
            let RunSummary { id: since, started, .. } = candidates.get(since)?.summary.clone();
            Some(OpenRegression { case, metric, since, started, change })
        };
        let runs =
            found.baseline.into_iter().filter_map(|index| Some(candidates.get(index)?.summary.id.clone()));
        Ok(BaselineRuns { runs: runs.collect(), open: found.open.into_iter().filter_map(open).collect() })
    }

    /// Tags as accepted the run in which the latest regression of a case that lasts at `run` began,
    /// else `run`. Later baselines start at the tagged run. Returns the ID of that run.
    pub fn accept(&mut self, run: &Run) -> Result<String, StoreError> {
        let candidates = self.candidates(run, true)?;
        let found = self.earlier(run, &candidates, MOST_BASELINE)?;
        let first = found.open.last().and_then(|loss| candidates.get(loss.since));
        let first = first.map_or_else(|| run.id.clone(), |first| first.summary.id.clone());
        self.tag(&first, ACCEPTED)?;
        Ok(first)
    }

    fn earlier(
        &self,
        run: &Run,
        candidates: &[&Indexed],
        count: usize,
    ) -> Result<lasting::Earlier, StoreError> {
        let floors = self.floors(&run.machine.id);
        let series = metric_series(self.index()?, candidates);
        let count = count.min(MOST_BASELINE);
        Ok(lasting::baseline(&series, candidates.len(), count, floors.as_ref()))
    }

    /// Returns whether the stored `run` was measured on the host of the run `of`, and not imported.
    fn is_own(&self, run: &RunSummary, of: &Run) -> bool {
        run.host == of.machine.host && !self.remarks().is_imported(&run.id)
    }

    /// Returns the runs with the plan and machine of `of`, up to `of` itself, the oldest first.
    fn runs_up_to(&self, of: &Run) -> Result<Vec<&Indexed>, StoreError> {
        let runs = &self.index()?.runs;
        let end = runs.iter().position(|run| run.summary.id == of.id).map_or(runs.len(), |at| at + 1);
        let same = |run: &RunSummary| run.machine == of.machine.id && run.plan == of.plan.name;
        Ok(runs[..end].iter().filter(|run| same(&run.summary)).collect())
    }

    /// Returns the runs that a baseline of `run` may use, oldest first: from the last accepted run
    /// on, at most [`MAX_SEARCHED`]. Includes `run` if `with_run`, or if it is accepted.
    fn candidates(&self, run: &Run, with_run: bool) -> Result<Vec<&Indexed>, StoreError> {
        let remarks = self.remarks();
        let mut found = Vec::new();
        for one in self.runs_up_to(run)?.into_iter().rev() {
            let RunSummary { id, status, counts, .. } = &one.summary;
            let is_accepted = remarks.has(id, ACCEPTED);
            let is_whole = *status == RunStatus::Complete && counts.ok > 0;
            let is_meant = *id != run.id || with_run || is_accepted;
            if is_whole && is_meant && self.is_own(&one.summary, run) {
                found.push(one);
            }
            if is_accepted || found.len() == MAX_SEARCHED {
                break;
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Counts the earlier runs with the plan and machine of `of` that no baseline uses, by reason.
    pub fn count_skipped(&self, of: &Run) -> Result<SkippedRuns, StoreError> {
        let mut found = SkippedRuns::default();
        let runs = self.runs_up_to(of)?.into_iter().map(|run| &run.summary);
        for run in runs.filter(|run| run.id != of.id) {
            match (self.is_own(run, of), run.status) {
                (false, _) => found.imported += 1,
                (true, RunStatus::Partial) => found.partial += 1,
                (true, RunStatus::Complete) => found.empty += usize::from(run.counts.ok == 0),
            }
        }
        Ok(found)
    }
}

/// Returns a series per case and metric. Each value has the index of its run in `candidates` and
/// the result: the median, if the run measured the case several times.
fn metric_series(index: &Index, candidates: &[&Indexed]) -> Vec<MetricSeries> {
    let mut all: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
    for (number, run) in candidates.iter().enumerate() {
        let mut values: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for &(series, median, _) in &run.figures {
            values.entry(series).or_default().push(median);
        }
        for (series, values) in values {
            all.entry(series).or_default().push((number, median(values).unwrap_or(f64::NAN)));
        }
    }
    let one = |(number, figures): (usize, Vec<(usize, f64)>)| {
        let known = index.series.get(number)?;
        let case: Case = known.case.parse().ok()?;
        Some(MetricSeries { case, metric: known.metric.clone(), better: known.better, figures })
    };
    all.into_iter().filter_map(one).collect()
}
