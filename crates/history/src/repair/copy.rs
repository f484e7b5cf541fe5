//! A copy of a damaged history, opened so that what can be reached in it can be read, row by row.
//!
//! Nothing of its schema is believed but where its tables begin: it may be damaged, or made to do harm. A row that cannot be
//! read because the system refuses a call is not a damaged one: [`Reading`] keeps the two apart.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::{Deref, Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi, params};

use crate::error::is_of_the_system;
use crate::place::beside;
use crate::schema;

/// Objects of a layout that are looked at.
const MOST_OBJECTS: usize = 1000;

/// Bytes that a row takes at least, with its document.
const LEAST_ROW: i64 = 16;

/// Rows that are looked for one by one between two that can be read.
const MOST_SINGLE: i64 = 1_000_000;

/// The tables that are read, with their columns as they lie in a row. Rows of the first schema end before `origin`.
const TABLES: [(&str, &str); 5] = [
    (
        "run",
        "CREATE TABLE run (number INTEGER PRIMARY KEY, id, started, state, plan, machine, host, elapsed_s, header, \
         origin DEFAULT 'own', note)",
    ),
    ("measurement", "CREATE TABLE measurement (run, position, case_id, status, document)"),
    ("tag", "CREATE TABLE tag (name, run, PRIMARY KEY (name, run)) WITHOUT ROWID"),
    ("floor", "CREATE TABLE floor (number INTEGER PRIMARY KEY, machine, document)"),
    ("sqlite_sequence", "CREATE TABLE sqlite_sequence(name,seq)"),
];

/// A damaged history that is read, and the first call that the system refused meanwhile.
pub(super) struct Reading {
    connection: Connection,
    refused: RefCell<Option<rusqlite::Error>>,
}

impl Reading {
    /// Nothing of it was read yet.
    pub(super) fn of(connection: Connection) -> Self {
        Self { connection, refused: RefCell::new(None) }
    }

    /// What was read; `None` where it is damaged or not there.
    pub(super) fn known<T>(&self, read: rusqlite::Result<T>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(e) => {
                if is_of_the_system(&e) {
                    self.refused.borrow_mut().get_or_insert(e);
                }
                None
            }
        }
    }

    /// Whether all that was not read is damaged or not there.
    ///
    /// # Errors
    /// The first call that the system refused.
    pub(super) fn finished(self) -> rusqlite::Result<()> {
        self.refused.into_inner().map_or(Ok(()), Err)
    }
}

impl Deref for Reading {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// Opens the copy for reading; where its first page, with marks and layout, is unreadable, with that of a fresh history.
/// Of its layout only the places of the tables are believed: whatever else stands there is not used.
pub(super) fn readable(copy: &Path, fresh: &Path) -> rusqlite::Result<Connection> {
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
    mend_versions(copy)?;
    let connection = open()?;
    let laid_out = roots(&connection).and_then(|roots| lay_out(&connection, &roots));
    let mark = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0));
    match (laid_out, mark) {
        // The copy is ours to write: where SQLite only reads it, its header is damaged.
        (Err(e), _) | (_, Err(e)) if is_of_the_system(&e) && !is_read_only(&e) => return Err(e),
        (Ok(()), Ok(_)) => {
            drop(connection);
            return open();
        }
        // Somebody else's, and readable.
        (_, Ok(other)) if other != schema::APPLICATION => return Err(rusqlite::Error::InvalidQuery),
        _ => drop(connection),
    }
    transplant(copy, fresh).map_err(|e| refused_by_system(ffi::SQLITE_IOERR, &e))?;
    let connection = open()?;
    lay_out(&connection, &roots(&connection)?)?;
    drop(connection);
    open()
}

fn is_read_only(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ReadOnly)
}

/// The bytes of a database's header that hold its write and its read version
/// (<https://sqlite.org/fileformat2.html>, 1.3).
const VERSIONS: Range<usize> = 18..20;

/// The version of a database with a rollback journal and of one with a log; SQLite knows no later one.
const KNOWN_VERSIONS: RangeInclusive<u8> = 1..=2;

/// The version that fits the copy's journals.
fn version_of(copy: &Path) -> u8 {
    if beside(copy, "-wal").exists() { *KNOWN_VERSIONS.end() } else { *KNOWN_VERSIONS.start() }
}

/// Gives the copy known versions where those in its header are damaged, and leaves the rest of its first page as it is.
fn mend_versions(copy: &Path) -> rusqlite::Result<()> {
    let refused = |code: i32| move |e: std::io::Error| refused_by_system(code, &e);
    let file =
        fs::OpenOptions::new().read(true).write(true).open(copy).map_err(refused(ffi::SQLITE_IOERR))?;
    let mut header = [0; VERSIONS.end];
    match file.read_exact_at(&mut header, 0) {
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
        read => read.map_err(refused(ffi::SQLITE_IOERR_READ))?,
    }
    let versions = &mut header[VERSIONS];
    if versions.iter().all(|version| KNOWN_VERSIONS.contains(version)) {
        return Ok(());
    }
    versions.fill(version_of(copy));
    file.write_all_at(versions, VERSIONS.start as u64).map_err(refused(ffi::SQLITE_IOERR_WRITE))
}

/// What the system refused, as SQLite would have said it.
fn refused_by_system(code: i32, error: &std::io::Error) -> rusqlite::Error {
    let code = ffi::Error::new(code);
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}

/// The first page of each table. An error where that of runs is unknown.
fn roots(from: &Connection) -> rusqlite::Result<BTreeMap<String, i64>> {
    const SELECT: &str = "
        SELECT name, rootpage FROM main.sqlite_master
        WHERE type = 'table' AND name = tbl_name AND typeof(name) = 'text' AND typeof(rootpage) = 'integer'
          AND rootpage > 1";
    let mut statement = from.prepare(SELECT)?;
    let found = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    let known = |(name, _): &(String, i64)| TABLES.iter().any(|(table, _)| table == name);
    let mut roots = BTreeMap::new();
    for one in found.take(MOST_OBJECTS) {
        match one {
            Ok(one) => roots.extend(Some(one).filter(known)),
            Err(e) if is_of_the_system(&e) => return Err(e),
            Err(_) => break,
        }
    }
    if roots.contains_key("run") { Ok(roots) } else { Err(rusqlite::Error::InvalidQuery) }
}

/// Puts these tables, without constraint, index or trigger, in the place of the copy's layout.
fn lay_out(copy: &Connection, roots: &BTreeMap<String, i64>) -> rusqlite::Result<()> {
    let transaction = copy.unchecked_transaction()?;
    transaction.execute("DELETE FROM main.sqlite_master", [])?;
    for (table, text) in TABLES {
        let Some(root) = roots.get(table) else { continue };
        const INSERT: &str = "INSERT INTO main.sqlite_master VALUES ('table', ?1, ?1, ?2, ?3)";
        transaction.execute(INSERT, params![table, root, text])?;
    }
    transaction.commit()
}

/// Gives the copy the first page of a fresh history: the tables of runs and measurements begin on the same pages in all.
fn transplant(copy: &Path, fresh: &Path) -> std::io::Result<()> {
    const PAGE: usize = 4096;
    let mut page = vec![0; PAGE];
    fs::File::open(fresh)?.read_exact_at(&mut page, 0)?;
    let pages = fs::metadata(copy)?.len() / PAGE as u64;
    // The header's further fields: pages in the file, first free page and number of free pages; the size counts where 24 and 92 are equal.
    page[VERSIONS].fill(version_of(copy));
    page[28..32].copy_from_slice(&u32::try_from(pages).unwrap_or(u32::MAX).to_be_bytes());
    page[32..40].fill(0);
    let counter: [u8; 4] = [page[24], page[25], page[26], page[27]];
    page[92..96].copy_from_slice(&counter);
    fs::OpenOptions::new().write(true).open(copy)?.write_all_at(&page, 0)
}

/// More rows than a file of this length can hold: pages that lead to one another would give them without end.
fn most_rows(from: &Reading) -> usize {
    let number = |pragma: &str| {
        from.known(from.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))).unwrap_or(0)
    };
    usize::try_from(number("page_count").saturating_mul(number("page_size")) / LEAST_ROW)
        .unwrap_or(usize::MAX)
}

/// The rows of a table that can be reached: from both ends to the first that cannot, and one by one between.
pub(super) fn rows(from: &Reading, table: &str) -> Vec<i64> {
    let most = most_rows(from);
    let walk = |order: &str| -> Vec<i64> {
        let select = format!("SELECT rowid FROM {table} NOT INDEXED ORDER BY rowid {order}");
        let Some(mut statement) = from.known(from.prepare(&select)) else { return Vec::new() };
        let Some(found) = from.known(statement.query_map([], |row| row.get(0))) else { return Vec::new() };
        found.map_while(|row| from.known(row)).take(most).collect()
    };
    let (mut up, down) = (walk("ASC"), walk("DESC"));
    let (last, first) = (up.last().copied().unwrap_or(0), down.last().copied().unwrap_or(0));
    if first > last {
        let one = format!("SELECT rowid FROM {table} NOT INDEXED WHERE rowid = ?1");
        let there = |row: &i64| from.known(from.query_row(&one, [row], |row| row.get::<_, i64>(0))).is_some();
        let between = last.saturating_add(1)..first;
        up.extend(between.take(usize::try_from(MOST_SINGLE).unwrap_or(0)).filter(there));
    }
    up.extend(down);
    up.sort_unstable();
    up.dedup();
    up
}

/// The tags of each run, as far as they can be reached from both ends.
pub(super) fn tags(from: &Reading) -> BTreeMap<i64, BTreeSet<String>> {
    let most = most_rows(from);
    let mut found: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    for order in ["ASC", "DESC"] {
        let select = format!("SELECT run, name FROM tag ORDER BY name {order}, run {order}");
        let Some(mut statement) = from.known(from.prepare(&select)) else { continue };
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let Some(rows) = from.known(rows) else { continue };
        for (run, name) in rows.map_while(|row| from.known(row)).take(most) {
            found.entry(run).or_default().insert(name);
        }
    }
    found
}

/// The highest number that a run was ever given, where that is still told.
pub(super) fn last_number(from: &Reading) -> Option<i64> {
    let mut statement = from.known(from.prepare("SELECT name, seq FROM sqlite_sequence"))?;
    let all = from.known(statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?))))?;
    all.map_while(|row| from.known(row))
        .take(MOST_OBJECTS)
        .find(|(name, _)| name == "run")
        .map(|(_, number)| number)
}
