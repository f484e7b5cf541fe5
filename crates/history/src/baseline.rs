//! The runs that a later run is compared with.

use std::collections::HashMap;

use rusqlite::{Row, params};

use super::query::series;
use super::{Store, StoreError};
use crate::case::Case;
use crate::compare::lasting::{self, Series};
use crate::document::Run;
use crate::limit::median;

/// Most runs of a baseline.
pub const MOST_BASELINE: usize = 100;

/// Most earlier runs that are searched for a lasting loss.
const MAX_SEARCHED: usize = 1000;

/// The tag of a run whose level was accepted: no earlier run is in a baseline.
pub const ACCEPTED: &str = "accepted";

/// Runs that no baseline takes, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// They came from a file.
    pub imported: usize,
    /// They did not end by themselves.
    pub partial: usize,
    /// They measured nothing.
    pub empty: usize,
}

/// A metric that has been worse since a run and was not accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoss {
    /// The case.
    pub case: Case,
    /// The metric.
    pub metric: String,
    /// Id of the first run with the loss.
    pub since: String,
    /// Start of that run, RFC 3339.
    pub started: String,
    /// The share by which the figure changed since.
    pub change: f64,
}

/// The runs that a later run is compared with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    /// Their ids, the oldest first.
    pub runs: Vec<String>,
    /// The losses since which runs are left out, the oldest first.
    pub open: Vec<OpenLoss>,
}

/// A run of the plan on the machine that a baseline may have.
struct Candidate {
    number: i64,
    id: String,
    started: String,
}

/// Which runs of a plan are searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The runs before the run, and the run itself if it was accepted.
    Before,
    /// The runs up to the run.
    Through,
}

impl Store {
    /// The last finished own run of the plan on the machine that measured anything, before this one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn run_before(&self, run: &Run) -> Result<Option<String>, StoreError> {
        let candidates = self.candidates(run, Until::Before)?;
        Ok(candidates.into_iter().map(|one| one.id).rfind(|id| *id != run.id))
    }

    /// At most `count` finished own runs of the plan on the machine before this one, since the last accepted one. Runs since a loss
    /// that lasts are left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn baseline(&self, run: &Run, count: usize) -> Result<Baseline, StoreError> {
        let candidates = self.candidates(run, Until::Before)?;
        let found = self.earlier(run, &candidates, count)?;
        let open = |loss: lasting::OpenLoss| {
            let since = candidates.get(loss.since)?;
            Some(OpenLoss {
                case: loss.case,
                metric: loss.metric,
                since: since.id.clone(),
                started: since.started.clone(),
                change: loss.change,
            })
        };
        let runs = found.baseline.into_iter().filter_map(|index| Some(candidates.get(index)?.id.clone()));
        Ok(Baseline { runs: runs.collect(), open: found.open.into_iter().filter_map(open).collect() })
    }

    /// Accepts the level of a run: baselines begin with the first run that has it. The id of that run.
    ///
    /// # Errors
    /// The run is not stored, or the file cannot be written.
    pub fn accept(&mut self, run: &Run) -> Result<String, StoreError> {
        let candidates = self.candidates(run, Until::Through)?;
        let found = self.earlier(run, &candidates, MOST_BASELINE)?;
        let first = found.open.last().and_then(|loss| candidates.get(loss.since));
        let first = first.map_or_else(|| run.id.clone(), |first| first.id.clone());
        self.tag(&first, ACCEPTED)?;
        Ok(first)
    }

    fn earlier(
        &self,
        run: &Run,
        candidates: &[Candidate],
        count: usize,
    ) -> Result<lasting::Earlier, StoreError> {
        let floors = self.floors(&run.machine.id)?;
        let series = self.figures(candidates).map_err(|e| self.failed(&e))?;
        let count = count.min(MOST_BASELINE);
        Ok(lasting::baseline(&series, candidates.len(), count, floors.as_ref()))
    }

    /// The oldest first.
    fn candidates(&self, run: &Run, until: Until) -> Result<Vec<Candidate>, StoreError> {
        const SELECT: &str = "
            WITH latest (number) AS (
                SELECT coalesce((SELECT number FROM run WHERE id = ?3), 9223372036854775807)
            ), accepted (number) AS (
                SELECT run.number FROM run JOIN tag ON tag.run = run.number AND tag.name = ?4, latest
                WHERE machine = ?1 AND plan = ?2 AND run.number <= latest.number
            )
            SELECT run.number, id, started FROM run, latest
            WHERE machine = ?1 AND plan = ?2 AND state = 'complete' AND origin = 'own'
              AND EXISTS (SELECT 1 FROM measurement WHERE run = run.number AND status = 'ok')
              AND (run.number < latest.number
                   OR run.number = latest.number AND (?5 OR run.number IN (SELECT number FROM accepted)))
              AND run.number >= coalesce((SELECT max(number) FROM accepted), 0)
            ORDER BY run.number DESC LIMIT ?6";
        let values = params![
            run.machine.id,
            run.plan.name,
            run.id,
            ACCEPTED,
            until == Until::Through,
            MAX_SEARCHED as i64
        ];
        let candidate =
            |row: &Row<'_>| Ok(Candidate { number: row.get(0)?, id: row.get(1)?, started: row.get(2)? });
        let found = || -> rusqlite::Result<Vec<Candidate>> {
            let mut statement = self.connection.prepare_cached(SELECT)?;
            let mut found: Vec<Candidate> =
                statement.query_map(values, candidate)?.collect::<rusqlite::Result<_>>()?;
            found.reverse();
            Ok(found)
        };
        found().map_err(|e| self.failed(&e))
    }

    /// The figures of these runs, by series; the median if a run has several of one case.
    fn figures(&self, candidates: &[Candidate]) -> rusqlite::Result<Vec<Series>> {
        const SERIES: &str = "SELECT number, rank, case_id, metric, unit, better FROM series";
        const POINTS: &str = "SELECT series, median FROM point WHERE run = ?1 ORDER BY series, position";
        let mut statement = self.connection.prepare_cached(SERIES)?;
        let known = statement.query_map([], series)?.collect::<rusqlite::Result<Vec<_>>>()?;
        let mut figures: HashMap<i64, Vec<(usize, f64)>> = HashMap::new();
        let mut statement = self.connection.prepare_cached(POINTS)?;
        for (index, run) in candidates.iter().enumerate() {
            let point = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?));
            let points = statement.query_map([run.number], point)?.collect::<rusqlite::Result<Vec<_>>>()?;
            for of_series in points.chunk_by(|a, b| a.0 == b.0) {
                let values = of_series.iter().map(|(_, value)| *value).collect();
                let value = median(values).unwrap_or(f64::NAN);
                figures.entry(of_series[0].0).or_default().push((index, value));
            }
        }
        let series = known.into_iter().flatten().filter_map(|known| {
            let case: Case = known.case.parse().ok()?;
            Some(Series {
                case,
                metric: known.metric,
                better: known.better,
                figures: figures.remove(&known.number)?,
            })
        });
        Ok(series.collect())
    }

    /// The runs of the plan on the machine before this one that no baseline takes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn not_in_baseline(&self, of: &Run) -> Result<PassedOver, StoreError> {
        const SELECT: &str = "
            SELECT coalesce(sum(origin <> 'own'), 0),
                   coalesce(sum(origin = 'own' AND state <> 'complete'), 0),
                   coalesce(sum(origin = 'own' AND state = 'complete' AND NOT EXISTS (
                       SELECT 1 FROM measurement WHERE run = number AND status = 'ok')), 0)
            FROM run
            WHERE machine = ?1 AND plan = ?2 AND id <> ?3
              AND number < coalesce((SELECT number FROM run WHERE id = ?3), 9223372036854775807)";
        let count =
            |row: &Row<'_>, column| row.get::<_, i64>(column).map(|n| usize::try_from(n).unwrap_or(0));
        let found = self.connection.query_row(SELECT, params![of.machine.id, of.plan.name, of.id], |row| {
            Ok(PassedOver { imported: count(row, 0)?, partial: count(row, 1)?, empty: count(row, 2)? })
        });
        found.map_err(|e| self.failed(&e))
    }
}
