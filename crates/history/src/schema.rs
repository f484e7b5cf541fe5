//! The layout of the history file. Another version (`PRAGMA user_version`) is refused, and so is another application's file.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{StoreError, name};
use super::layout::Layout;
use super::place::{beside, is_local};
use crate::leftover::{Registry, Unfinished};

/// "PLim" in ASCII, in the file's header: `file(1)` and we tell a history from other SQLite files by it.
pub(super) const APPLICATION: i64 = 0x504c_696d;

/// How long a writer waits for another.
const PATIENCE: Duration = Duration::from_secs(10);

/// Files up to this many bytes are checked whole when they are opened; that takes a tenth of a second at most.
/// Damage in larger ones is found when it is read.
const CHECKED_WHOLE: u64 = 32 << 20;

/// `header` is the run document without measurements; `state` is `running` until the run was finished. What is the same in all
/// runs is kept once (`series`), and the figures of one series lie side by side, in the order of runs: a question over time
/// reads their few pages. `rank` is the least place that the metric had among those of its case: 0 for a headline. What a list
/// of runs tells is in an index, so that no header is read for it.
pub(super) const LAYOUT: &str = "
    CREATE TABLE run (
        number    INTEGER PRIMARY KEY AUTOINCREMENT,
        id        TEXT NOT NULL UNIQUE,
        started   TEXT NOT NULL,
        state     TEXT NOT NULL CHECK (state IN ('running', 'complete', 'partial')),
        plan      TEXT NOT NULL,
        machine   TEXT NOT NULL,
        host      TEXT,
        elapsed_s REAL NOT NULL,
        header    TEXT NOT NULL,
        origin    TEXT NOT NULL DEFAULT 'own' CHECK (origin IN ('own', 'imported')),
        note      TEXT
    ) STRICT;
    CREATE INDEX run_machine ON run (machine, plan, number);
    CREATE INDEX run_line ON run (started, id, elapsed_s, plan, host, machine, state, note);
    CREATE TABLE measurement (
        run      INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        case_id  TEXT NOT NULL,
        status   TEXT NOT NULL CHECK (status IN ('ok', 'invalid', 'failed', 'skipped')),
        document TEXT NOT NULL,
        UNIQUE (run, position)
    ) STRICT;
    CREATE INDEX measurement_status ON measurement (run, status);
    CREATE INDEX measurement_case ON measurement (case_id, run);
    CREATE TABLE tag (
        name TEXT NOT NULL,
        run  INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
        PRIMARY KEY (name, run)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tag_run ON tag (run);
    CREATE TABLE floor (
        number   INTEGER PRIMARY KEY AUTOINCREMENT,
        machine  TEXT NOT NULL,
        document TEXT NOT NULL
    ) STRICT;
    CREATE INDEX floor_machine ON floor (machine, number);
    CREATE TABLE series (
        number  INTEGER PRIMARY KEY,
        case_id TEXT NOT NULL,
        metric  TEXT NOT NULL,
        unit    TEXT NOT NULL,
        better  TEXT NOT NULL,
        rank    INTEGER NOT NULL,
        UNIQUE (case_id, metric, unit, better)
    ) STRICT;
    CREATE TABLE point (
        series   INTEGER NOT NULL REFERENCES series (number),
        run      INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        median   REAL NOT NULL,
        of_limit REAL,
        PRIMARY KEY (series, run, position)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX point_run ON point (run);
";

/// The version of this layout.
const VERSION: i64 = 1;

/// Makes a new history that appears whole or not at all. When another process makes it first, that one is used.
pub(super) fn create(file: &Path, registry: Option<&Registry>) -> Result<(), StoreError> {
    refuse_leftovers(file)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    let failed = |e: std::io::Error| StoreError::not_writable(file, &e);
    let sqlite = |e: rusqlite::Error| StoreError::sqlite(file, &e);
    // In memory, so that a kill leaves one file at most, which is entered in the registry, and no journal.
    let mut connection = Connection::open_in_memory().map_err(sqlite)?;
    connection.pragma_update(None, "application_id", APPLICATION).map_err(sqlite)?;
    connection.execute_batch(LAYOUT).map_err(sqlite)?;
    connection.pragma_update(None, "user_version", VERSION).map_err(sqlite)?;
    let content = connection.serialize("main").map_err(sqlite)?;
    let mut made = Unfinished::new_in(directory, registry).map_err(failed)?;
    made.file.write_all(&content).and_then(|()| made.file.sync_all()).map_err(failed)?;
    match made.finish(|path| super::publish(path, file)) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(e) => return Err(failed(e)),
    }
    fs::File::open(directory).and_then(|d| d.sync_all()).map_err(failed)
}

/// A journal without its database holds committed rows, and SQLite would delete it with the new file's first use. Where
/// another process has made the database since it was looked for, the journal is that one's.
pub(super) fn refuse_leftovers(file: &Path) -> Result<(), StoreError> {
    for suffix in ["-wal", "-journal"] {
        let journal = beside(file, suffix);
        if fs::symlink_metadata(&journal).is_ok() && fs::symlink_metadata(file).is_err() {
            return Err(StoreError::Gone { file: name(file), journal: name(&journal) });
        }
    }
    Ok(())
}

/// Opens an existing history for use. A file that is none is left as it was.
pub(super) fn open(file: &Path, length: u64) -> Result<Connection, StoreError> {
    let sqlite = |e: rusqlite::Error| StoreError::sqlite(file, &e);
    let connection = looked_at(file, file, length)?;
    verify_write_version(&connection, file, file)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(sqlite)?;
    set_journal(&connection, file.parent().unwrap_or(Path::new("/"))).map_err(sqlite)?;
    Ok(connection)
}

/// Opens an existing file, or a copy of it, and makes sure that it is a history of a known version. Nothing is called damaged
/// before all of its bytes could be read and it was opened a second time: SQLite calls some failed reads damage.
///
/// # Errors
/// It is no history, newer, damaged, or the system refuses a call.
pub(super) fn looked_at(opened: &Path, file: &Path, length: u64) -> Result<Connection, StoreError> {
    match looked_at_once(opened, file, length) {
        Err(StoreError::Damaged { .. }) => {
            read_through(opened).map_err(|e| StoreError::not_readable(file, &e))?;
            looked_at_once(opened, file, length)
        }
        looked => looked,
    }
}

/// Reads every byte of the file and of its journals.
fn read_through(file: &Path) -> std::io::Result<()> {
    for suffix in ["", "-wal", "-journal"] {
        match fs::File::open(beside(file, suffix)) {
            Ok(mut open) => std::io::copy(&mut open, &mut std::io::sink()).map(drop)?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn looked_at_once(opened: &Path, file: &Path, length: u64) -> Result<Connection, StoreError> {
    let sqlite = |e: rusqlite::Error| StoreError::sqlite(file, &e);
    let connection = connect(opened).map_err(sqlite)?;
    // Until the file has proved to be a history, closing must not write a foreign journal into it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sqlite)?;
    verify_mark(&connection, file)?;
    verify_layout(&connection, file)?;
    verify_pages(&connection, file, length)?;
    Ok(connection)
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// Whether this is a history at all. It is asked first, so that nothing else is done to a foreign file.
fn verify_mark(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let mark = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0));
    match mark.map_err(|e| StoreError::sqlite(file, &e))? {
        APPLICATION => Ok(()),
        _ => Err(StoreError::damaged(file, "it is another program's database")),
    }
}

/// Whether the header of a file that the system lets write allows it too: SQLite only reads what has a later write version.
pub(super) fn verify_write_version(
    connection: &Connection,
    opened: &Path,
    file: &Path,
) -> Result<(), StoreError> {
    let is_read_only = connection.is_readonly("main").map_err(|e| StoreError::sqlite(file, &e))?;
    if is_read_only && fs::OpenOptions::new().write(true).open(opened).is_ok() {
        return Err(StoreError::damaged(file, "the write version in its header is unknown to SQLite"));
    }
    Ok(())
}

/// Whether its schema is, word for word, that of this version.
fn verify_layout(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let sqlite = |e: rusqlite::Error| StoreError::sqlite(file, &e);
    let found = version(connection).map_err(sqlite)?;
    if found > VERSION {
        return Err(StoreError::Newer { file: name(file), found, known: VERSION });
    }
    if found < VERSION {
        return Err(StoreError::damaged(file, format!("its header says schema {found}")));
    }
    let layout = Layout::of(connection).map_err(sqlite)?;
    match layout.difference(&Layout::expected().map_err(sqlite)?) {
        Some(difference) => Err(StoreError::damaged(
            file,
            format!("its schema is not that of version {VERSION}: {difference}"),
        )),
        None => Ok(()),
    }
}

/// Whether the pages of a file that is not too large for it fit together.
fn verify_pages(connection: &Connection, file: &Path, length: u64) -> Result<(), StoreError> {
    let sqlite = |e: rusqlite::Error| StoreError::sqlite(file, &e);
    if length <= CHECKED_WHOLE {
        let said: String =
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sqlite)?;
        if said != "ok" {
            return Err(StoreError::checked(file, &said));
        }
    }
    Ok(())
}

/// A write-ahead log where the file system allows it, else a rollback journal whose removal is synced too, so that
/// in both a committed row survives a power cut.
fn set_journal(connection: &Connection, directory: &Path) -> rusqlite::Result<()> {
    let (mode, sync) = if is_local(directory) { ("wal", "full") } else { ("delete", "extra") };
    // A file that can only be read keeps its mode; writing it fails later, with the reason.
    let _: String = connection.pragma_update_and_check(None, "journal_mode", mode, |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", sync)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
