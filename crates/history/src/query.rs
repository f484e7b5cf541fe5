//! What is asked of the history beside whole runs: figures over time, tags, notes, baselines, noise floors, imports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::{OptionalExtension, Row, params};

use super::{Said, Store, StoreError, insert};
use crate::case::Pattern;
use crate::compare::Floors;
use crate::document::Run;
use crate::machine::EffectiveCache;
use crate::metric::Better;
use crate::quantity::Unit;

/// One metric of one case on one machine, over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    /// Fingerprint of the machine.
    pub machine: String,
    /// Name of the machine, where it has one.
    pub host: Option<String>,
    /// Id of the case.
    pub case: String,
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Its direction.
    pub better: Better,
    /// At least one, in the order in which the runs were entered: clocks can be set back, the order cannot.
    pub points: Vec<Point>,
}

/// The figure of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Of which run.
    pub run: Arc<Began>,
    /// The median of its samples, in the trend's unit.
    pub median: f64,
    /// Its share of the limit.
    pub of_limit: Option<f64>,
}

/// A run, and when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    /// Its id.
    pub id: String,
    /// When it began, RFC 3339.
    pub started: String,
}

/// Which figures are asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of which cases.
    pub cases: Pattern,
    /// The metric; the headline where none is named.
    pub metric: Option<String>,
    /// Every metric, where none is named.
    pub all: bool,
    /// Not before this time, RFC 3339 in UTC.
    pub since: Option<String>,
    /// On machines whose fingerprint or name is this.
    pub machine: Option<String>,
}

/// The figures of a series, which lie side by side in this order.
pub(super) const POINTS: &str = "
    SELECT run, position, median, of_limit FROM point
    WHERE series = ?1 AND run BETWEEN ?2 AND ?3 ORDER BY run, position";

impl Store {
    /// The figures that are asked for, by machine, and of each machine in the order in which cases were first entered.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn trends(&self, asked: &Asked) -> Result<Vec<Trend>, StoreError> {
        let trends = || -> rusqlite::Result<Vec<Trend>> {
            let runs = self.runs(asked)?;
            let mut found = Vec::new();
            for series in self.series(asked)? {
                self.collect(&series, &runs, &mut found)?;
            }
            found.sort_by(|a: &Found, b| a.place().cmp(&b.place()));
            Ok(found.into_iter().map(|f| f.trend).collect())
        };
        trends().map_err(|e| self.failed(&e))
    }

    /// The runs of the time and machine that are asked for, by their numbers.
    fn runs(&self, asked: &Asked) -> rusqlite::Result<BTreeMap<i64, OfRun>> {
        const SELECT: &str = "
            SELECT number, id, started, machine, host FROM run
            WHERE (?1 IS NULL OR started >= ?1) AND (?2 IS NULL OR machine = ?2 OR host = ?2)";
        let mut statement = self.connection.prepare_cached(SELECT)?;
        let run = |row: &Row<'_>| {
            let began = Arc::new(Began { id: row.get(1)?, started: row.get(2)? });
            Ok((row.get(0)?, OfRun { began, machine: row.get(3)?, host: row.get(4)? }))
        };
        statement.query_map(params![asked.since, asked.machine], run)?.collect()
    }

    /// The series of the cases and the metric that are asked for, but for those whose unit or direction this version
    /// does not know.
    fn series(&self, asked: &Asked) -> rusqlite::Result<Vec<Series>> {
        // The index is by case: where all begin alike, only those are read.
        let prefix = match &asked.cases {
            Pattern::Name(name) => name.as_str(),
            Pattern::Glob(glob) => literal_head(glob.glob().glob()),
        };
        const SELECT: &str = "
            SELECT number, rank, case_id, metric, unit, better FROM series
            WHERE case_id >= ?1 AND case_id < ?1 || char(1114111)
              AND (?2 OR rank = 0)";
        let mut statement = self.connection.prepare_cached(SELECT)?;
        let all = statement.query_map(params![prefix, asked.all || asked.metric.is_some()], series)?;
        let all = all.collect::<rusqlite::Result<Vec<Option<Series>>>>()?;
        let meant = |s: &Series| {
            let named = |name: &String| s.metric == *name;
            asked.cases.matches(&s.case) && asked.metric.as_ref().is_none_or(named)
        };
        Ok(all.into_iter().flatten().filter(meant).collect())
    }

    /// Puts the figures of a series to the trends, one for each machine.
    fn collect(
        &self,
        series: &Series,
        runs: &BTreeMap<i64, OfRun>,
        found: &mut Vec<Found>,
    ) -> rusqlite::Result<()> {
        let (Some((oldest, _)), Some((newest, _))) = (runs.first_key_value(), runs.last_key_value()) else {
            return Ok(());
        };
        let own = found.len();
        let mut statement = self.connection.prepare_cached(POINTS)?;
        let mut rows = statement.query(params![series.number, oldest, newest])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let Some(run) = runs.get(&number) else { continue };
            let same = |f: &&mut Found| f.trend.machine == run.machine && f.trend.host == run.host;
            let point = Point { run: run.began.clone(), median: row.get(2)?, of_limit: row.get(3)? };
            match found[own..].iter_mut().find(same) {
                Some(f) => f.trend.points.push(point),
                None => {
                    let first = [number, row.get(1)?, series.rank];
                    found.push(Found { first, trend: series.trend(run, point) });
                }
            }
        }
        Ok(())
    }

    /// The runs that bear a tag, the oldest first; empty where nobody does.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn tagged(&self, tag: &str) -> Result<Vec<String>, StoreError> {
        const SELECT: &str =
            "SELECT id FROM tag JOIN run ON run.number = tag.run WHERE name = ?1 ORDER BY number";
        self.ids(SELECT, params![tag])
    }

    /// How much of its last-level cache the machine had in its latest own run that looked; `None` where none of the last few
    /// did.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn effective_cache(&self, machine: &str) -> Result<Option<EffectiveCache>, StoreError> {
        const SELECT: &str = "
            SELECT found FROM (
                SELECT number, json_extract(header, '$.machine.cpu.effective_cache') AS found FROM run
                WHERE machine = ?1 AND origin = 'own' ORDER BY number DESC LIMIT 32)
            WHERE found IS NOT NULL ORDER BY number DESC LIMIT 1";
        let found = self.connection.query_row(SELECT, [machine], |row| row.get::<_, String>(0)).optional();
        found.map_err(|e| self.failed(&e))?.map(|text| self.parsed(&text)).transpose()
    }

    pub(super) fn ids(&self, select: &str, values: impl rusqlite::Params) -> Result<Vec<String>, StoreError> {
        let ids = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare_cached(select)?;
            statement.query_map(values, |row| row.get(0))?.collect()
        };
        ids().map_err(|e| self.failed(&e))
    }

    /// Gives a run a tag; more than one run may bear it.
    ///
    /// # Errors
    /// There is no such run, or the file cannot be written.
    pub fn tag(&mut self, run: &str, tag: &str) -> Result<(), StoreError> {
        let number = self.wanted(run)?;
        let put = self
            .connection
            .execute("INSERT OR IGNORE INTO tag (name, run) VALUES (?1, ?2)", params![tag, number]);
        put.map(drop).map_err(|e| self.failed(&e))
    }

    /// Takes a tag from a run. Whether it bore it.
    ///
    /// # Errors
    /// There is no such run, or the file cannot be written.
    pub fn untag(&mut self, run: &str, tag: &str) -> Result<bool, StoreError> {
        let number = self.wanted(run)?;
        let gone =
            self.connection.execute("DELETE FROM tag WHERE name = ?1 AND run = ?2", params![tag, number]);
        gone.map(|n| n > 0).map_err(|e| self.failed(&e))
    }

    /// Writes a note beside a run, in the place of an older one; an empty one removes it.
    ///
    /// # Errors
    /// There is no such run, or the file cannot be written.
    pub fn note(&mut self, run: &str, text: &str) -> Result<(), StoreError> {
        let number = self.wanted(run)?;
        let text = (!text.is_empty()).then_some(text);
        let put =
            self.connection.execute("UPDATE run SET note = ?2 WHERE number = ?1", params![number, text]);
        put.map(drop).map_err(|e| self.failed(&e))
    }

    /// What the user said about a run.
    ///
    /// # Errors
    /// There is no such run, or the file cannot be read.
    pub fn said(&self, run: &str) -> Result<Said, StoreError> {
        const SELECT: &str = "
            SELECT (SELECT group_concat(name, ' ') FROM tag WHERE tag.run = number), note FROM run WHERE number = ?1";
        let number = self.wanted(run)?;
        let said = self.connection.query_row(SELECT, [number], |row| {
            Ok(Said::new(row.get::<_, Option<String>>(0)?.as_deref(), row.get(1)?))
        });
        said.map_err(|e| self.failed(&e))
    }

    /// Enters a run that another history, or a file, had. `false`: it is here already, and stays as it is; but one that
    /// this history could not finish gives way to more measurements of all its machines.
    ///
    /// # Errors
    /// The file cannot be written; then nothing of the run is in it.
    pub fn import(&mut self, run: &Run) -> Result<bool, StoreError> {
        let header = self.header(run)?;
        let nodes: BTreeSet<&str> = run.measurements.iter().map(|m| m.node.as_str()).collect();
        let nodes = serde_json::to_string(&nodes).map_err(|e| self.failed(&super::unwritable(e)))?;
        let file = self.file.clone();
        let entered = || -> rusqlite::Result<bool> {
            let transaction =
                self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            // What a machine measured that the new document knows nothing of would be gone.
            const KNOWN: &str = "
                SELECT number, state <> 'complete'
                    AND (SELECT count(*) FROM measurement WHERE run = number) < ?2
                    AND NOT EXISTS (
                        SELECT json_extract(document, '$.node') FROM measurement WHERE run = number
                        EXCEPT SELECT value FROM json_each(?3))
                FROM run WHERE id = ?1";
            let measured = run.measurements.len() as i64;
            let known = transaction.query_row(KNOWN, params![run.id, measured, nodes], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
            });
            match known.optional()? {
                Some((number, true)) => {
                    return super::replace(transaction, number, &header, run).map(|()| true);
                }
                Some(_) => return Ok(false),
                None => {}
            }
            const INSERT: &str = "
                INSERT INTO run (id, started, state, plan, machine, host, elapsed_s, header, origin)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'imported')";
            let values = params![
                run.id,
                run.started,
                run.status.word(),
                run.plan.name,
                run.machine.id,
                run.machine.host,
                run.elapsed_s,
                header
            ];
            transaction.execute(INSERT, values)?;
            let number = transaction.last_insert_rowid();
            for (index, measurement) in run.measurements.iter().enumerate() {
                insert(&transaction, number, index, measurement)?;
            }
            transaction.commit()?;
            Ok(true)
        };
        let mut entered = entered;
        entered().map_err(|e| StoreError::sqlite(&file, &e))
    }

    /// Keeps what doctor measured.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_floors(&mut self, floors: &Floors) -> Result<(), StoreError> {
        let text = serde_json::to_string(floors).map_err(|e| self.failed(&super::unwritable(e)))?;
        let put = self
            .connection
            .execute("INSERT INTO floor (machine, document) VALUES (?1, ?2)", params![floors.machine, text]);
        put.map(drop).map_err(|e| self.failed(&e))
    }

    /// What doctor measured last on a machine.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn floors(&self, machine: &str) -> Result<Option<Floors>, StoreError> {
        const SELECT: &str = "SELECT document FROM floor WHERE machine = ?1 ORDER BY number DESC LIMIT 1";
        let found = self.connection.query_row(SELECT, [machine], |row| row.get::<_, String>(0)).optional();
        let floors: Option<Floors> =
            found.map_err(|e| self.failed(&e))?.map(|text| self.parsed(&text)).transpose()?;
        Ok(floors)
    }

    /// All that doctor measured, as machine and document, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn all_floors(&self) -> Result<Vec<(String, String)>, StoreError> {
        let all = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement =
                self.connection.prepare("SELECT machine, document FROM floor ORDER BY number")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        all().map_err(|e| self.failed(&e))
    }
}

/// The characters of a glob before the first that has a meaning.
fn literal_head(glob: &str) -> &str {
    &glob[..glob.find(['*', '?', '[', '{', '\\']).unwrap_or(glob.len())]
}

/// What the history tells of a run besides its figures.
struct OfRun {
    began: Arc<Began>,
    machine: String,
    host: Option<String>,
}

/// What all figures of a metric of a case have in common.
pub(super) struct Series {
    pub(super) number: i64,
    rank: i64,
    pub(super) case: String,
    pub(super) metric: String,
    unit: Unit,
    pub(super) better: Better,
}

impl Series {
    fn trend(&self, of: &OfRun, first: Point) -> Trend {
        Trend {
            machine: of.machine.clone(),
            host: of.host.clone(),
            case: self.case.clone(),
            metric: self.metric.clone(),
            unit: self.unit,
            better: self.better,
            points: vec![first],
        }
    }
}

/// A trend, and where its first figure stands in the history.
struct Found {
    /// Number of the run, position of the case in it, rank of the series.
    first: [i64; 3],
    trend: Trend,
}

impl Found {
    /// What trends are sorted by.
    fn place(&self) -> (&Option<String>, &str, [i64; 3]) {
        (&self.trend.host, &self.trend.machine, self.first)
    }
}

/// `None` for a unit or direction that this version does not know.
pub(super) fn series(row: &Row<'_>) -> rusqlite::Result<Option<Series>> {
    let better = match row.get_ref(5)?.as_str()? {
        "higher" => Some(Better::Higher),
        "lower" => Some(Better::Lower),
        _ => None,
    };
    let (Some(unit), Some(better)) = (Unit::from_name(row.get_ref(4)?.as_str()?), better) else {
        return Ok(None);
    };
    let (number, rank) = (row.get(0)?, row.get(1)?);
    Ok(Some(Series { number, rank, case: row.get(2)?, metric: row.get(3)?, unit, better }))
}
