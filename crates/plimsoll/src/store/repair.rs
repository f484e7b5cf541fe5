//! What can be read of a damaged history, saved into a new one.
//!
//! The damaged file is never written: a copy of it is read, row by row, and only when the new history is whole does it
//! take the place of the old one, which stays beside it under another name.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::error::{StoreError, name};
use super::place::{self, Location, beside};
use super::{Store, schema};
use crate::compare::Floors;
use crate::document::{Run, RunStatus};
use crate::measurement::Measurement;

/// What became of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The history.
    pub file: PathBuf,
    /// The damaged file, kept; `None`: nothing was damaged, and nothing done.
    pub kept: Option<PathBuf>,
    /// Runs in the history now.
    pub runs: usize,
    /// Of them, those of which measurements are lost.
    pub partly: usize,
    /// Runs that could not be read.
    pub lost: usize,
}

/// Files of SQLite beside a database.
const JOURNALS: [&str; 2] = ["-wal", "-journal"];

/// Rows that are looked for one by one between two that can be read.
const MOST_SINGLE: i64 = 1_000_000;

/// Saves what can be read. A history without damage is left as it is.
///
/// # Errors
/// There is no file, it is refused, newer or another program's, nothing of it can be read, or there is no room for a copy.
pub fn repair(location: &Location) -> Result<Repaired, StoreError> {
    let file = location.resolved(place::Make::Nothing)?;
    if let Some(runs) = whole(&file)? {
        return Ok(Repaired { file, kept: None, runs, partly: 0, lost: 0 });
    }
    let failed = |e: std::io::Error| StoreError::not_writable(&file, &e);
    let directory = file.parent().unwrap_or(Path::new("/"));
    let work = tempfile::Builder::new().prefix(".history-repair-").tempdir_in(directory).map_err(failed)?;
    let fresh = work.path().join("history.db");
    schema::create(&fresh)?;
    let copied = |name: &str, suffixes: &[&str]| -> std::io::Result<PathBuf> {
        let copy = work.path().join(name);
        for suffix in suffixes.iter().filter(|suffix| beside(&file, suffix).exists()) {
            fs::copy(beside(&file, suffix), beside(&copy, suffix))?;
        }
        Ok(copy)
    };
    let whole = copied("damaged.db", &["", JOURNALS[0], JOURNALS[1]]).map_err(failed)?;
    let damaged = match readable(&whole, &fresh) {
        Ok(damaged) => damaged,
        // A journal of another database hides all of this one.
        Err(_) => {
            let alone = copied("alone.db", &[""]).map_err(failed)?;
            readable(&alone, &fresh).map_err(|_| nothing(&file))?
        }
    };
    let mut store = Store::existing(fresh.clone())?;
    let mut repaired = Repaired { file: file.clone(), kept: None, runs: 0, partly: 0, lost: 0 };
    save(&damaged, &mut store, &mut repaired)?;
    if repaired.runs == 0 {
        return Err(nothing(&file));
    }
    let closed = store.connection.close();
    closed.map_err(|(_, e)| StoreError::sqlite(&fresh, &e))?;
    repaired.kept = Some(exchange(&file, &fresh).map_err(failed)?);
    Ok(repaired)
}

fn nothing(file: &Path) -> StoreError {
    StoreError::NoHistory { file: name(file), why: "nothing of one can be read in it".to_owned() }
}

/// The number of runs in an undamaged history; `None` where it is damaged.
fn whole(file: &Path) -> Result<Option<usize>, StoreError> {
    let sqlite = |e: rusqlite::Error| StoreError::sqlite(file, &e);
    let checked = || -> Result<Option<usize>, StoreError> {
        let store = Store::existing(file.to_owned())?;
        // Opening checks small files only.
        let check = "PRAGMA integrity_check(1)";
        let said: String = store.connection.query_row(check, [], |row| row.get(0)).map_err(sqlite)?;
        let runs = store.list()?;
        // Of what stands in a page nobody but its reader knows whether it is damaged.
        runs.iter().try_for_each(|run| store.load(&run.id).map(drop))?;
        Ok((said == "ok").then_some(runs.len()))
    };
    match checked() {
        Err(StoreError::Damaged { .. }) => Ok(None),
        other => other,
    }
}

/// Opens the copy for reading; where its first page, with marks and layout, is unreadable, with that of a fresh history.
fn readable(copy: &Path, fresh: &Path) -> rusqlite::Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(copy, flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // Damage in the layout's own rows is passed over.
        connection.pragma_update(None, "writable_schema", true)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        Ok(connection)
    };
    let has_runs = |c: &Connection| c.prepare("SELECT number, header, state FROM run LIMIT 1").is_ok();
    let mark = |c: &Connection| c.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0));
    let connection = open()?;
    match mark(&connection) {
        Ok(_) if has_runs(&connection) => return Ok(connection),
        // Somebody else's, and readable.
        Ok(other) if other != schema::APPLICATION => return Err(rusqlite::Error::InvalidQuery),
        _ => drop(connection),
    }
    transplant(copy, fresh).map_err(|_| rusqlite::Error::InvalidQuery)?;
    let connection = open()?;
    if has_runs(&connection) { Ok(connection) } else { Err(rusqlite::Error::InvalidQuery) }
}

/// Gives the copy the first page of a fresh history: the tables of runs and measurements begin on the same pages in all.
fn transplant(copy: &Path, fresh: &Path) -> std::io::Result<()> {
    const PAGE: usize = 4096;
    let mut page = vec![0; PAGE];
    fs::File::open(fresh)?.read_exact_at(&mut page, 0)?;
    let pages = fs::metadata(copy)?.len() / PAGE as u64;
    // The header's fields (https://sqlite.org/fileformat2.html, 1.3): write and read version (1: rollback journal, 2: log),
    // pages in the file, first free page and number of free pages; the size counts where 24 and 92 are equal.
    let log = if beside(copy, "-wal").exists() { 2 } else { 1 };
    page[18..20].fill(log);
    page[28..32].copy_from_slice(&u32::try_from(pages).unwrap_or(u32::MAX).to_be_bytes());
    page[32..40].fill(0);
    let counter: [u8; 4] = [page[24], page[25], page[26], page[27]];
    page[92..96].copy_from_slice(&counter);
    fs::OpenOptions::new().write(true).open(copy)?.write_all_at(&page, 0)
}

/// The rows of a table that can be reached: from both ends to the first that cannot, and one by one between.
fn rows(from: &Connection, table: &str) -> Vec<i64> {
    let walk = |order: &str| -> Vec<i64> {
        let select = format!("SELECT rowid FROM {table} NOT INDEXED ORDER BY rowid {order}");
        let Ok(mut statement) = from.prepare(&select) else { return Vec::new() };
        let Ok(found) = statement.query_map([], |row| row.get(0)) else { return Vec::new() };
        found.map_while(Result::ok).collect()
    };
    let (mut up, down) = (walk("ASC"), walk("DESC"));
    let (last, first) = (up.last().copied().unwrap_or(0), down.last().copied().unwrap_or(0));
    if first > last {
        let one = format!("SELECT rowid FROM {table} NOT INDEXED WHERE rowid = ?1");
        let there = |row: &i64| from.query_row(&one, [row], |row| row.get::<_, i64>(0)).is_ok();
        up.extend((last + 1..first).take(usize::try_from(MOST_SINGLE).unwrap_or(0)).filter(there));
    }
    up.extend(down);
    up.sort_unstable();
    up.dedup();
    up
}

/// A row of the table of runs.
struct Header {
    run: Run,
    origin: String,
    note: Option<String>,
}

fn save(from: &Connection, to: &mut Store, repaired: &mut Repaired) -> Result<(), StoreError> {
    let measured = measurements(from);
    let mut highest = 0;
    for number in rows(from, "run") {
        highest = highest.max(number);
        let Some(mut header) = header(from, number) else { continue };
        let known = measured.get(&number).map(Vec::as_slice).unwrap_or_default();
        let documents = known.iter().map(|row| document(from, *row));
        header.run.measurements = documents.flatten().collect();
        let cases = header.run.plan.cases;
        if header.run.measurements.len() < known.len()
            || header.run.status == RunStatus::Complete && header.run.measurements.len() < cases
        {
            header.run.status = RunStatus::Partial;
            repaired.partly += 1;
        }
        if to.import(&header.run)? {
            repaired.runs += 1;
            told(from, number, &header, to).map_err(|e| to.failed(&e))?;
        }
    }
    // Numbers are given in order and never again.
    let before = from.query_row("SELECT seq FROM sqlite_sequence WHERE name = 'run'", [], |row| row.get(0));
    let begun: i64 = before.unwrap_or(highest).max(highest);
    repaired.lost = usize::try_from(begun).unwrap_or(0).saturating_sub(repaired.runs);
    floors(from, to)
}

/// The rows of each run's measurements, in their order.
fn measurements(from: &Connection) -> BTreeMap<i64, Vec<i64>> {
    let mut found: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    let of = "SELECT run, position FROM measurement NOT INDEXED WHERE rowid = ?1";
    for row in rows(from, "measurement") {
        let place =
            from.prepare_cached(of).and_then(|mut s| s.query_row([row], |r| Ok((r.get(0)?, r.get(1)?))));
        if let Ok((run, position)) = place {
            found.entry(run).or_default().push((position, row));
        }
    }
    let ordered = |(run, mut rows): (i64, Vec<(i64, i64)>)| {
        rows.sort_unstable();
        (run, rows.into_iter().map(|(_, row)| row).collect())
    };
    found.into_iter().map(ordered).collect()
}

fn header(from: &Connection, number: i64) -> Option<Header> {
    // A history of the first schema has neither origin nor note.
    let text: String = from
        .query_row("SELECT header FROM run NOT INDEXED WHERE rowid = ?1", [number], |row| row.get(0))
        .ok()?;
    let run: Run = serde_json::from_str(&text).ok()?;
    uuid::Uuid::try_parse(&run.id).ok()?;
    let more = from.query_row("SELECT origin, note FROM run NOT INDEXED WHERE rowid = ?1", [number], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    let (origin, note) = more.unwrap_or(("own".to_owned(), None));
    let state = from.query_row("SELECT state FROM run NOT INDEXED WHERE rowid = ?1", [number], |row| {
        row.get::<_, String>(0)
    });
    let status = match state.as_deref() {
        Ok("complete") => RunStatus::Complete,
        _ => RunStatus::Partial,
    };
    Some(Header { run: Run { status, ..run }, origin, note })
}

fn document(from: &Connection, row: i64) -> Option<Measurement> {
    let select = "SELECT document FROM measurement NOT INDEXED WHERE rowid = ?1";
    let text: String =
        from.prepare_cached(select).ok()?.query_row([row], |row| row.get(0)).optional().ok()??;
    serde_json::from_str(&text).ok()
}

/// Origin, note and tags of a run.
fn told(from: &Connection, number: i64, header: &Header, to: &mut Store) -> rusqlite::Result<()> {
    let origin = if header.origin == "imported" { "imported" } else { "own" };
    to.connection.execute(
        "UPDATE run SET origin = ?2, note = ?3 WHERE id = ?1",
        params![header.run.id, origin, header.note],
    )?;
    let tags: rusqlite::Result<Vec<String>> = from
        .prepare_cached("SELECT name FROM tag WHERE run = ?1")
        .and_then(|mut s| s.query_map([number], |row| row.get(0))?.collect());
    for tag in tags.unwrap_or_default() {
        to.connection.execute(
            "INSERT OR IGNORE INTO tag (name, run) SELECT ?1, number FROM run WHERE id = ?2",
            params![tag, header.run.id],
        )?;
    }
    Ok(())
}

fn floors(from: &Connection, to: &mut Store) -> Result<(), StoreError> {
    for row in rows(from, "floor") {
        let text = from
            .query_row("SELECT document FROM floor WHERE rowid = ?1", [row], |row| row.get::<_, String>(0));
        if let Some(floors) = text.ok().and_then(|text| serde_json::from_str::<Floors>(&text).ok()) {
            to.keep_floors(&floors)?;
        }
    }
    Ok(())
}

/// Puts the new history in the place of the damaged one, which keeps another name; where that is.
fn exchange(file: &Path, fresh: &Path) -> std::io::Result<PathBuf> {
    let free = |n: &u32| fs::symlink_metadata(beside(file, &format!(".damaged{n}"))).is_err();
    let number = (1..1000).find(free).ok_or(std::io::ErrorKind::AlreadyExists)?;
    let kept = beside(file, &format!(".damaged{number}"));
    for suffix in [""].iter().chain(&JOURNALS) {
        let from = beside(file, suffix);
        if fs::metadata(&from).is_ok_and(|found| found.len() > 0) {
            fs::hard_link(&from, beside(&kept, suffix))
                .or_else(|_| fs::copy(&from, beside(&kept, suffix)).map(drop))?;
        }
    }
    // The old journals must not be taken for the new file's.
    for suffix in JOURNALS.iter().chain(&["-shm"]) {
        match fs::remove_file(beside(file, suffix)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    fs::rename(fresh, file)?;
    fs::File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()?;
    Ok(kept)
}

impl Repaired {
    /// The name of the damaged file, for people.
    pub fn kept_name(&self) -> Option<String> {
        self.kept.as_deref().map(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const RUNS: usize = 12;

    /// A history of runs with tags and a note; its place, and the runs.
    fn history(directory: &Path) -> (Location, Vec<Run>) {
        let location = Location::named(&directory.join("history.db"));
        let mut store = Store::open(&location).unwrap();
        let made = |n: usize| {
            let mut run = fixture::run();
            run.id = format!("019aa5c3-2f1b-7c40-9d21-{n:012x}");
            // Documents as long as those of real runs: some pages of the file each.
            run.findings[0].text = "long ".repeat(2000);
            // As it is read again: what is not written is not compared.
            serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap()
        };
        let runs: Vec<Run> = (0..RUNS).map(made).collect();
        for run in &runs {
            store.begin(run).unwrap();
            store.finish(run).unwrap();
        }
        for run in &runs {
            store.tag(&run.id, "before").unwrap();
            store.note(&run.id, "new kernel").unwrap();
        }
        (location, runs)
    }

    /// The runs that are in it now, all of them as they were.
    fn same(location: &Location, runs: &[Run]) -> usize {
        let store = Store::read(location).unwrap();
        let lines = store.list().unwrap();
        for line in &lines {
            let run = store.load(&line.id).unwrap();
            let old = runs.iter().find(|r| r.id == run.id).unwrap();
            assert!(run.measurements.iter().all(|m| old.measurements.contains(m)));
            assert_eq!(run.status == RunStatus::Complete, run.measurements.len() == old.measurements.len());
        }
        lines.len()
    }

    fn damage(location: &Location, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = fs::read(location.file()).unwrap();
        change(&mut bytes);
        fs::write(location.file(), &bytes).unwrap();
        bytes
    }

    #[test]
    fn an_undamaged_history_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let (location, _) = history(directory.path());
        let before = fs::read(location.file()).unwrap();
        let repaired = repair(&location).unwrap();
        assert_eq!((repaired.runs, repaired.kept), (RUNS, None));
        assert_eq!(fs::read(location.file()).unwrap(), before);
        assert!(matches!(
            repair(&Location::named(Path::new("/nonexistent/x.db"))),
            Err(StoreError::Missing { .. })
        ));
    }

    #[test]
    fn a_lost_header_costs_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (location, runs) = history(directory.path());
        let damaged = damage(&location, |bytes| bytes[..4096].fill(0));
        assert!(matches!(Store::open(&location), Err(StoreError::Damaged { .. })));
        let repaired = repair(&location).unwrap();
        assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS, 0, 0));
        assert_eq!(same(&location, &runs), RUNS);
        assert_eq!(fs::read(repaired.kept.unwrap()).unwrap(), damaged, "the damaged file is kept");
    }

    #[test]
    fn every_damaged_page_costs_its_own_runs_alone() {
        let whole = tempfile::tempdir().unwrap();
        let (location, runs) = history(whole.path());
        let bytes = fs::read(location.file()).unwrap();
        let pages = bytes.len() / 4096;
        assert!(pages > 60, "{pages}");
        let root = |table: &str| -> usize {
            let of = "SELECT rootpage - 1 FROM sqlite_master WHERE name = ?1";
            let history = Connection::open(location.file()).unwrap();
            let page: i64 = history.query_row(of, [table], |row| row.get(0)).unwrap();
            page.try_into().unwrap()
        };
        let (of_runs, of_measurements) = (root("run"), root("measurement"));
        // All of them would take long; the first are the roots of tables and indices, of the rest every seventh is taken.
        for page in (1..16).chain((16..pages).step_by(7)) {
            let directory = tempfile::tempdir().unwrap();
            let location = Location::named(&directory.path().join("history.db"));
            fs::write(location.file(), &bytes).unwrap();
            damage(&location, |bytes| bytes[page * 4096..(page + 1) * 4096].fill(0xa5));
            let repaired = match repair(&location) {
                Ok(repaired) => repaired,
                // Without the root no run is found: the one page that costs all.
                Err(e) => {
                    assert!(page == of_runs && matches!(e, StoreError::NoHistory { .. }), "page {page}: {e}");
                    continue;
                }
            };
            assert_eq!(same(&location, &runs), repaired.runs, "page {page}");
            let few = repaired.runs + 3 >= RUNS && (repaired.partly <= 3 || page == of_measurements);
            assert!(few, "page {page}: {repaired:?}");
        }
    }

    #[test]
    fn a_truncated_history_keeps_what_is_left_with_tags_and_notes() {
        let directory = tempfile::tempdir().unwrap();
        let (location, runs) = history(directory.path());
        damage(&location, |bytes| bytes.truncate(bytes.len() * 3 / 4));
        let repaired = repair(&location).unwrap();
        assert!(repaired.kept.is_some() && repaired.runs >= 4, "{repaired:?}");
        assert_eq!(same(&location, &runs), repaired.runs);
        assert!(repair(&location).unwrap().kept.is_none(), "once repaired it is whole");
        let store = Store::read(&location).unwrap();
        for line in store.list().unwrap() {
            assert_eq!(
                (line.said.tags, line.said.note.as_deref()),
                (vec!["before".to_owned()], Some("new kernel"))
            );
        }
    }

    #[test]
    fn damage_within_a_document_is_found_and_repaired() {
        let directory = tempfile::tempdir().unwrap();
        let (location, runs) = history(directory.path());
        // No character, in the first measurement of the last run: every page still fits.
        let raw = Connection::open(location.file()).unwrap();
        let change = "UPDATE measurement SET document = CAST(x'7bff' AS TEXT)
                      WHERE position = 0 AND run = (SELECT max(number) FROM run)";
        assert_eq!(raw.execute(change, []).unwrap(), 1);
        drop(raw);
        let read = || Store::read(&location).and_then(|store| store.load("last"));
        assert!(matches!(read(), Err(StoreError::Damaged { .. })));
        let repaired = repair(&location).unwrap();
        assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS, 1, 0));
        assert_eq!((read().unwrap().status, same(&location, &runs)), (RunStatus::Partial, RUNS));
    }

    #[test]
    fn a_journal_of_another_database_costs_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (location, runs) = history(directory.path());
        let other = Connection::open(directory.path().join("other.db")).unwrap();
        other
            .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (a); INSERT INTO t VALUES (1);")
            .unwrap();
        let journal = beside(location.file(), "-wal");
        fs::copy(directory.path().join("other.db-wal"), &journal).unwrap();
        let foreign = fs::read(&journal).unwrap();
        assert!(matches!(Store::read(&location), Err(StoreError::Damaged { .. })));
        let repaired = repair(&location).unwrap();
        assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS, 0, 0));
        assert_eq!(same(&location, &runs), RUNS);
        assert_eq!(fs::read(beside(&repaired.kept.unwrap(), "-wal")).unwrap(), foreign);
    }

    #[test]
    fn what_is_no_history_is_not_touched() {
        let foreign = tempfile::tempdir().unwrap();
        let other = foreign.path().join("other.db");
        Connection::open(&other)
            .unwrap()
            .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);")
            .unwrap();
        for content in [Vec::new(), "my notes ".repeat(2000).into_bytes(), fs::read(&other).unwrap()] {
            let directory = tempfile::tempdir().unwrap();
            let location = Location::named(&directory.path().join("history.db"));
            fs::write(location.file(), &content).unwrap();
            assert!(matches!(repair(&location), Err(StoreError::NoHistory { .. })));
            assert_eq!(fs::read(location.file()).unwrap(), content);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left");
        }
    }
}
