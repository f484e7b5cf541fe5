//! The history: every run and every measurement in one SQLite file, each committed when it is finished.
//!
//! A run is `begin` → `add` for each case → `finish`; whatever kills the process in between, what was added is
//! there, and the run loads as partial. Several processes may write at once. A file that is damaged, foreign, newer
//! or reached through a link is refused and left as it is.
#![forbid(unsafe_code)]

mod baseline;
mod error;
mod layout;
mod machines;
mod overview;
mod place;
mod publish;
mod query;
mod repair;
mod schema;
#[cfg(test)]
mod tests;

use plimsoll_compare as compare;
use plimsoll_machine as machine;
use plimsoll_model::{case, limit, measurement, metric};
use plimsoll_result::document;
#[cfg(test)]
use plimsoll_result::fixture;
use plimsoll_system::{leftover, links, trust};
use plimsoll_units::{quantity, text};

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use crate::document::{Run, RunStatus};
use crate::leftover::Registry;
use crate::measurement::{Measurement, Status};

pub use baseline::{ACCEPTED, Baseline, MOST_BASELINE, OpenLoss, PassedOver};
pub use error::StoreError;
pub use overview::Entry;
pub use place::{Location, Surroundings};
pub use publish::publish;
pub use query::{Asked, Began, Point, Trend};
pub use repair::{Repaired, repair};

/// All runs, without reading their headers.
const LINES: &str = "
    SELECT id, started, elapsed_s, plan, host, state,
           coalesce(ok, 0), coalesce(invalid, 0), coalesce(failed, 0), coalesce(skipped, 0),
           (SELECT group_concat(name, ' ') FROM tag WHERE tag.run = number), note
    FROM run INDEXED BY run_line LEFT JOIN (
        SELECT run, sum(status = 'ok') AS ok, sum(status = 'invalid') AS invalid,
               sum(status = 'failed') AS failed, sum(status = 'skipped') AS skipped
        FROM measurement INDEXED BY measurement_status GROUP BY run
    ) ON run = number
    ORDER BY number DESC";

/// An open history.
#[derive(Debug)]
pub struct Store {
    file: PathBuf,
    connection: Connection,
}

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Measured.
    pub ok: usize,
    /// Measured, and not to be believed.
    pub invalid: usize,
    /// Tried, and failed.
    pub failed: usize,
    /// Not tried.
    pub skipped: usize,
}

impl Counts {
    /// Counts measurements.
    pub fn of(measurements: &[Measurement]) -> Self {
        let count = |status| measurements.iter().filter(|m| m.status == status).count();
        Self {
            ok: count(Status::Ok),
            invalid: count(Status::Invalid),
            failed: count(Status::Failed),
            skipped: count(Status::Skipped),
        }
    }

    /// Those that are not zero, in words: `12 ok`, `1 skipped`.
    pub fn said(&self) -> Vec<String> {
        let kinds =
            [(self.ok, "ok"), (self.invalid, "invalid"), (self.failed, "failed"), (self.skipped, "skipped")];
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}")).collect()
    }

    /// All of them.
    pub fn total(&self) -> usize {
        self.ok + self.invalid + self.failed + self.skipped
    }
}

/// A stored run in one line.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLine {
    /// Its id.
    pub id: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Seconds that it took; 0 when it was killed.
    pub elapsed_s: f64,
    /// Name of its plan.
    pub plan: String,
    /// Name of the machine, where it has one.
    pub host: Option<String>,
    /// Complete or partial.
    pub status: RunStatus,
    /// What became of its cases.
    pub counts: Counts,
    /// What the user said about it.
    pub said: Said,
}

/// What the user said about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its tags, in the order of the alphabet.
    pub tags: Vec<String>,
    /// The note beside it.
    pub note: Option<String>,
}

impl Said {
    fn new(tags: Option<&str>, note: Option<String>) -> Self {
        let mut tags: Vec<String> = tags.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        tags.sort_unstable();
        Self { tags, note }
    }

    /// In one line: `before-upgrade · a note`; `None` where nothing was said.
    pub fn line(&self) -> Option<String> {
        let tags = (!self.tags.is_empty()).then(|| self.tags.join(", "));
        let parts: Vec<String> = tags.into_iter().chain(self.note.clone()).collect();
        (!parts.is_empty()).then(|| parts.join(" · "))
    }
}

impl Store {
    /// Opens the history for writing, and makes it if there is none; `registry` has its unfinished file meanwhile.
    ///
    /// # Errors
    /// See [`StoreError`]; nothing was changed then.
    pub fn open(location: &Location, registry: Option<&Registry>) -> Result<Self, StoreError> {
        let file = location.resolved(place::Make::Directory)?;
        if place::inspect(&file)?.is_none() {
            schema::create(&file, registry)?;
        }
        Self::existing(file)
    }

    /// Opens the history for reading.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is none, or as [`Store::open`].
    pub fn read(location: &Location) -> Result<Self, StoreError> {
        let store = Self::existing(location.resolved(place::Make::Nothing)?)?;
        store.connection.pragma_update(None, "query_only", true).map_err(|e| store.failed(&e))?;
        Ok(store)
    }

    fn existing(file: PathBuf) -> Result<Self, StoreError> {
        let connection = schema::open(&file, length(&file)?)?;
        Ok(Self { file, connection })
    }

    /// Enters a run that begins now. `header` is its document as far as it is known; measurements in it are not
    /// stored yet.
    ///
    /// # Errors
    /// The file cannot be written, or has a run of this id.
    pub fn begin(&mut self, header: &Run) -> Result<(), StoreError> {
        let text = self.header(header)?;
        let values = params![
            header.id,
            header.started,
            header.plan.name,
            header.machine.id,
            header.machine.host,
            header.elapsed_s,
            text
        ];
        const INSERT: &str = "INSERT INTO run (id, started, state, plan, machine, host, elapsed_s, header)
                              VALUES (?1, ?2, 'running', ?3, ?4, ?5, ?6, ?7)";
        self.connection.execute(INSERT, values).map_err(|e| self.failed(&e))?;
        Ok(())
    }

    /// Marks an interrupted run as running again; what was added before stays. One that was killed before its first case
    /// had ended may be resumed too.
    ///
    /// # Errors
    /// The file cannot be written, has no such run, or it is complete.
    pub fn resume(&mut self, run: &Run) -> Result<(), StoreError> {
        const UPDATE: &str = "UPDATE run SET state = 'running' WHERE id = ?1 AND state <> 'complete'";
        let changed = self.connection.execute(UPDATE, [&run.id]).map_err(|e| self.failed(&e))?;
        if changed == 1 { Ok(()) } else { Err(self.no_such(&run.id)) }
    }

    /// Enters measurements of the run, the first of them at that place in it, in one transaction: a machine of thousands
    /// hands many over at once. When this returns, a power cut does not undo it.
    ///
    /// # Errors
    /// The file cannot be written, or the run was not begun.
    pub fn add(&mut self, run: &str, first: usize, measured: &[Measurement]) -> Result<(), StoreError> {
        let number = self.number(run)?;
        let file = self.file.clone();
        let added = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|t| {
            insert_all(&t, number, first, measured)?;
            t.commit()
        });
        added.map_err(|e| StoreError::sqlite(&file, &e))
    }

    /// Replaces all that was entered of the run by its final document, in one transaction.
    ///
    /// # Errors
    /// The file cannot be written, or the run was not begun; what was added before is kept.
    pub fn finish(&mut self, run: &Run) -> Result<(), StoreError> {
        let number = self.number(&run.id)?;
        let header = self.header(run)?;
        let file = self.file.clone();
        let replaced = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|transaction| replace(transaction, number, &header, run));
        replaced.map_err(|e| StoreError::sqlite(&file, &e))
    }

    /// All runs, the latest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self) -> Result<Vec<RunLine>, StoreError> {
        let lines = || -> rusqlite::Result<Vec<RunLine>> {
            let mut statement = self.connection.prepare(LINES)?;
            statement.query_map([], run_line)?.collect()
        };
        lines().map_err(|e| self.failed(&e))
    }

    /// The run whose id is or begins with `wanted`, the latest for `last`, the one before it
    /// for `last~1`. One that was killed before
    /// [`Store::finish`] is partial and holds what was added.
    ///
    /// # Errors
    /// There is none, there are several, or the file cannot be read.
    pub fn load(&self, wanted: &str) -> Result<Run, StoreError> {
        let number = self.wanted(wanted)?;
        let (header, state, id) = self
            .connection
            .query_row("SELECT header, state, id FROM run WHERE number = ?1", [number], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
            })
            .map_err(|e| self.failed(&e))?;
        let mut run: Run = self.kept(&header)?;
        if run.id != id {
            return Err(StoreError::damaged(&self.file, "a run is entered under another id than its own"));
        }
        for document in self.documents(number)? {
            run.measurements.push(self.kept(&document)?);
        }
        if state == "running" {
            run.status = RunStatus::Partial;
            let points = run.measurements.iter().flat_map(|m| &m.metrics).flat_map(|m| &m.series);
            run.elapsed_s = points.map(|p| p.t).fold(run.elapsed_s, f64::max);
        }
        Ok(run)
    }

    /// Whether a run came from a file.
    ///
    /// # Errors
    /// There is no such run, or it cannot be read.
    pub fn is_imported(&self, wanted: &str) -> Result<bool, StoreError> {
        let number = self.wanted(wanted)?;
        let origin = self.connection.query_row(
            "SELECT origin = 'imported' FROM run WHERE number = ?1",
            [number],
            |row| row.get(0),
        );
        origin.map_err(|e| self.failed(&e))
    }

    fn wanted(&self, wanted: &str) -> Result<i64, StoreError> {
        match wanted.strip_prefix("last") {
            Some("") => self.back(0),
            Some(rest) => match rest.strip_prefix('~').and_then(|n| n.parse().ok()) {
                Some(back) => self.back(back),
                None => Err(self.no_such(wanted)),
            },
            None => self.matching(wanted),
        }
    }

    /// The run so many before the latest.
    fn back(&self, runs: u32) -> Result<i64, StoreError> {
        const SELECT: &str = "SELECT number FROM run ORDER BY number DESC LIMIT 1 OFFSET ?1";
        let found = self.connection.query_row(SELECT, [runs], |row| row.get(0)).optional();
        let wanted = || if runs == 0 { "last".to_owned() } else { format!("last~{runs}") };
        found.map_err(|e| self.failed(&e))?.ok_or_else(|| self.no_such(&wanted()))
    }

    fn matching(&self, wanted: &str) -> Result<i64, StoreError> {
        let is_id = !wanted.is_empty() && wanted.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        if !is_id {
            return Err(self.no_such(wanted));
        }
        let wanted = wanted.to_ascii_lowercase();
        // '~' sorts after every character of an id.
        const SELECT: &str =
            "SELECT number, id FROM run WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id LIMIT 4";
        let found = || -> rusqlite::Result<Vec<(i64, String)>> {
            let mut statement = self.connection.prepare(SELECT)?;
            statement.query_map([&wanted], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        match found().map_err(|e| self.failed(&e))?.as_slice() {
            [] => Err(self.no_such(&wanted)),
            [(number, _)] => Ok(*number),
            // One whose whole id was given is meant, whatever else begins so.
            all if let Some((number, _)) = all.iter().find(|(_, id)| *id == wanted) => Ok(*number),
            all => Err(StoreError::ambiguous(&wanted, all.iter().map(|(_, id)| id.as_str()))),
        }
    }

    /// The beginning of a run's id that tells it from all others, `least` characters at least.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn short(&self, id: &str, least: usize) -> Result<String, StoreError> {
        const SELECT: &str =
            "SELECT (SELECT max(id) FROM run WHERE id < ?1), (SELECT min(id) FROM run WHERE id > ?1)";
        let beside = self.connection.query_row(SELECT, [id], |row| {
            Ok([row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?])
        });
        let beside = beside.map_err(|e| self.failed(&e))?;
        let length = beside.iter().flatten().map(|other| apart(id, other)).fold(least, usize::max);
        Ok(id.chars().take(whole_part(length)).collect())
    }

    fn documents(&self, number: i64) -> Result<Vec<String>, StoreError> {
        const SELECT: &str = "SELECT document FROM measurement WHERE run = ?1 ORDER BY position";
        let documents = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare(SELECT)?;
            statement.query_map([number], |row| row.get(0))?.collect()
        };
        documents().map_err(|e| self.failed(&e))
    }

    fn number(&self, id: &str) -> Result<i64, StoreError> {
        let found = self.connection.query_row("SELECT number FROM run WHERE id = ?1", [id], |row| row.get(0));
        found.optional().map_err(|e| self.failed(&e))?.ok_or_else(|| self.no_such(id))
    }

    fn header(&self, run: &Run) -> Result<String, StoreError> {
        serde_json::to_string(&run.header()).map_err(|e| self.failed(&unwritable(e)))
    }

    fn parsed<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|e| StoreError::document(&self.file, &e))
    }

    /// As [`Self::parsed`], of what may be of an earlier schema.
    fn kept<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|e| StoreError::document(&self.file, &e))
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::sqlite(&self.file, error)
    }

    fn no_such(&self, wanted: &str) -> StoreError {
        StoreError::NoSuchRun { wanted: text::shown_within(wanted, 40), file: error::name(&self.file) }
    }
}

/// Characters of an id that tell it from another.
pub fn apart(id: &str, other: &str) -> usize {
    id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count() + 1
}

/// A length of an id that does not end in a dash.
pub fn whole_part(length: usize) -> usize {
    match length {
        9 | 14 | 19 | 24 => length + 1,
        other => other,
    }
}

/// Bytes in the file of a history, if it is there and may be used.
fn length(file: &Path) -> Result<u64, StoreError> {
    let Some(found) = place::inspect(file)? else {
        schema::refuse_leftovers(file)?;
        return Err(StoreError::Missing { file: error::name(file) });
    };
    Ok(found.len())
}

fn unwritable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

fn insert_all(
    connection: &Connection,
    run: i64,
    first: usize,
    measured: &[Measurement],
) -> rusqlite::Result<()> {
    (first..).zip(measured).try_for_each(|(index, measurement)| insert(connection, run, index, measurement))
}

fn insert(
    connection: &Connection,
    run: i64,
    index: usize,
    measurement: &Measurement,
) -> rusqlite::Result<()> {
    let document = serde_json::to_string(measurement).map_err(unwritable)?;
    let status = match measurement.status {
        Status::Ok => "ok",
        Status::Invalid => "invalid",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    };
    let id = measurement.case.id();
    let values = params![run, index as i64, id.as_str(), status, document];
    const INSERT: &str =
        "INSERT INTO measurement (run, position, case_id, status, document) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(INSERT)?.execute(values)?;
    if measurement.status == Status::Ok {
        insert_figures(connection, run, index, measurement)?;
    }
    Ok(())
}

fn insert_figures(
    connection: &Connection,
    run: i64,
    index: usize,
    measurement: &Measurement,
) -> rusqlite::Result<()> {
    const SERIES: &str = "
        INSERT INTO series (case_id, metric, unit, better, rank) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT DO UPDATE SET rank = excluded.rank WHERE excluded.rank < rank";
    const POINT: &str = "
        INSERT INTO point (series, run, position, median, of_limit)
        SELECT number, ?5, ?6, ?7, ?8 FROM series
        WHERE case_id = ?1 AND metric = ?2 AND unit = ?3 AND better = ?4";
    let id = measurement.case.id();
    for (rank, metric) in measurement.metrics.iter().enumerate() {
        let better = metric.better.word();
        let (id, unit, median) = (id.as_str(), metric.unit.name(), metric.summary.median);
        let series = params![id, metric.name, unit, better, rank as i64];
        connection.prepare_cached(SERIES)?.execute(series)?;
        let point = params![id, metric.name, unit, better, run, index as i64, median, metric.of_limit];
        connection.prepare_cached(POINT)?.execute(point)?;
    }
    Ok(())
}

fn replace(transaction: Transaction<'_>, number: i64, header: &str, run: &Run) -> rusqlite::Result<()> {
    transaction.execute(
        "UPDATE run SET header = ?2, state = ?3, elapsed_s = ?4 WHERE number = ?1",
        params![number, header, run.status.word(), run.elapsed_s],
    )?;
    transaction.execute("DELETE FROM measurement WHERE run = ?1", [number])?;
    transaction.execute("DELETE FROM point WHERE run = ?1", [number])?;
    insert_all(&transaction, number, 0, &run.measurements)?;
    transaction.commit()
}

fn run_line(row: &Row<'_>) -> rusqlite::Result<RunLine> {
    let count = |column| row.get::<_, i64>(column).map(|n| usize::try_from(n).unwrap_or(0));
    Ok(RunLine {
        id: row.get(0)?,
        started: row.get(1)?,
        elapsed_s: row.get(2)?,
        plan: row.get(3)?,
        host: row.get(4)?,
        status: RunStatus::of(row.get_ref(5)?.as_str()?),
        counts: Counts { ok: count(6)?, invalid: count(7)?, failed: count(8)?, skipped: count(9)? },
        said: Said::new(row.get::<_, Option<String>>(10)?.as_deref(), row.get(11)?),
    })
}
