//! Schemas that are not a history's: a damaged version, views, triggers, and whatever else SQLite would run.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::super::*;
use super::open;
use crate::fixture;

fn repair(location: &Location) -> Result<Repaired, StoreError> {
    super::super::repair(location, None)
}

/// A query that never ends.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n";

fn history(directory: &Path) -> Location {
    let location = Location::named(&directory.join("history.db"));
    let mut store = open(&location).unwrap();
    store.begin(&fixture::run()).unwrap();
    store.finish(&fixture::run()).unwrap();
    store.tag(fixture::ID, "before").unwrap();
    location
}

/// The file after somebody ran `change` in it, with all rights over the schema.
fn changed(location: &Location, change: &str) {
    let other = Connection::open(location.file()).unwrap();
    other.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).unwrap();
    other.pragma_update(None, "foreign_keys", false).unwrap();
    other.pragma_update(None, "writable_schema", true).unwrap();
    other.execute_batch(change).unwrap_or_else(|e| panic!("{change}: {e}"));
    // All in one file, so that it can be compared.
    other.pragma_update(None, "journal_mode", "delete").unwrap();
}

/// Opening is refused in a line that names the file and the remedy, and the file is as before.
#[track_caller]
fn refused(location: &Location, change: &str) -> String {
    let before = std::fs::read(location.file()).unwrap();
    let read = Store::read(location).unwrap_err();
    let error = open(location).unwrap_err();
    assert_eq!(read.to_string(), error.to_string());
    assert_eq!(std::fs::read(location.file()).unwrap(), before, "{change}: {error}");
    let text = error.to_string();
    assert!(text.contains("history.db") && text.contains("history repair"), "{change}: {text}");
    assert!(!text.contains('\n'), "{change}: {text}");
    text
}

#[test]
fn a_damaged_version_is_told_and_repaired() {
    for version in ["0", "2", "-1", "2147483647", "-2147483648", "83886083"] {
        let directory = tempfile::tempdir().unwrap();
        let location = history(directory.path());
        let whole = Store::read(&location).unwrap().load("last").unwrap();
        changed(&location, &format!("PRAGMA user_version = {version}"));
        refused(&location, version);
        let repaired = repair(&location).unwrap();
        assert_eq!((repaired.runs, repaired.partly, repaired.lost), (1, 0, 0), "{version}");
        assert!(repaired.kept.is_some(), "{version}: the file as it was is kept");
        let store = open(&location).unwrap();
        assert_eq!(store.load("last").unwrap(), whole, "{version}");
        assert_eq!(store.said("last").unwrap().tags, ["before"], "{version}");
        assert_eq!(repair(&location).unwrap().kept, None, "{version}: it is whole now");
    }
}

#[test]
fn a_version_that_is_newer_with_other_tables_or_other_runs_is_not_repaired() {
    for change in [
        "ALTER TABLE run ADD COLUMN colour TEXT; PRAGMA user_version = 2",
        r#"UPDATE run SET header = replace(header, '"version":"', '"version":"9'); PRAGMA user_version = 2"#,
    ] {
        let directory = tempfile::tempdir().unwrap();
        let location = history(directory.path());
        changed(&location, change);
        refused(&location, change);
        assert!(matches!(repair(&location), Err(StoreError::Newer { found: 2, .. })), "{change}");
    }
}

/// What somebody may have put into a history, or in the place of its parts.
fn hostile() -> Vec<String> {
    let steals = "DELETE FROM run; DELETE FROM measurement;";
    let mut all = vec![
        "CREATE VIEW more AS SELECT 1".to_owned(),
        "CREATE TABLE more (x)".to_owned(),
        "CREATE VIRTUAL TABLE more USING fts5 (x)".to_owned(),
        "CREATE INDEX more ON run (note)".to_owned(),
        "DROP INDEX run_line".to_owned(),
        "CREATE UNIQUE INDEX more ON run (plan)".to_owned(),
        "CREATE INDEX more ON run (abs(number))".to_owned(),
        "ANALYZE".to_owned(),
        "ALTER TABLE run ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000)))".to_owned(),
        "ALTER TABLE measurement ADD COLUMN more TEXT DEFAULT 'x'".to_owned(),
        format!("CREATE TRIGGER more AFTER INSERT ON run BEGIN {steals} END"),
        format!("CREATE TRIGGER more AFTER UPDATE ON run BEGIN {steals} END"),
        "DROP INDEX measurement_case; DROP INDEX measurement_status; DROP TABLE measurement".to_owned(),
        "UPDATE sqlite_master SET sql = replace(sql, 'TEXT NOT NULL UNIQUE', 'TEXT NOT NULL') WHERE name = 'run'".to_owned(),
        "UPDATE sqlite_master SET sql = replace(sql, 'STRICT', '') WHERE name = 'measurement'".to_owned(),
        "UPDATE sqlite_master SET sql = replace(sql, '''running'', ', '') WHERE name = 'run'".to_owned(),
    ];
    // A view that never ends, in the place of each table.
    for table in ["run", "measurement", "tag", "floor", "series", "point"] {
        all.push(format!(
            "ALTER TABLE {table} RENAME TO other; CREATE VIEW {table} AS SELECT x AS number, x AS rowid, * FROM ({ENDLESS})"
        ));
        all.push(format!(
            "UPDATE sqlite_master SET sql = 'CREATE VIEW {table} AS {ENDLESS}', rootpage = 0 WHERE name = '{table}'"
        ));
    }
    // One that has the name by which SQLite knows the schema itself.
    all.push(
        "INSERT INTO sqlite_master VALUES ('view', 'sqlite_schema', 'sqlite_schema', 0, \
         'CREATE VIEW sqlite_schema AS SELECT 1 AS type, 2 AS name, 3 AS tbl_name, 4 AS sql')"
            .to_owned(),
    );
    all
}

#[test]
fn a_schema_that_is_not_a_historys_is_never_used_and_repaired_without_running_it() {
    for change in hostile() {
        let directory = tempfile::tempdir().unwrap();
        let location = history(directory.path());
        changed(&location, &change);
        refused(&location, &change);
        match repair(&location) {
            Ok(repaired) => assert_eq!(repaired.lost, 0, "{change}"),
            // Its runs have no name any more under which they are looked for.
            Err(e) => assert!(matches!(e, StoreError::NoHistory { .. }), "{change}: {e}"),
        }
        let whole = !change.contains("RENAME") && !change.contains("VIEW") && !change.contains("DROP TABLE");
        if whole {
            let store = open(&location).unwrap();
            assert_eq!(store.load("last").unwrap().measurements.len(), fixture::run().measurements.len());
        }
    }
}

/// Pages that lead to one another give a table more rows than there are atoms.
#[test]
fn pages_that_lead_to_one_another_do_not_hold_a_repair() {
    let directory = tempfile::tempdir().unwrap();
    let location = history(directory.path());
    let root: i64 = Connection::open(location.file())
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_master WHERE name = 'floor'", [], |row| row.get(0))
        .unwrap();
    let mut bytes = std::fs::read(location.file()).unwrap();
    // An interior page (https://sqlite.org/fileformat2.html, 1.6) with 300 children, all of them itself or the next one.
    let leaf = u32::try_from(bytes.len() / 4096 + 20).unwrap();
    let interior = |child: u32| {
        let mut page = vec![0_u8; 4096];
        page[0] = 5;
        page[3..5].copy_from_slice(&300_u16.to_be_bytes());
        page[8..12].copy_from_slice(&child.to_be_bytes());
        for cell in 0..300_u16 {
            let at = 4096 - 6 * (cell + 1);
            page[usize::from(12 + 2 * cell)..][..2].copy_from_slice(&at.to_be_bytes());
            page[usize::from(at)..][..4].copy_from_slice(&child.to_be_bytes());
            page[usize::from(at) + 4..][..2].copy_from_slice(&[0x81, 0x00]);
        }
        page[5..7].copy_from_slice(&(4096_u16 - 1800).to_be_bytes());
        page
    };
    let first = leaf - 19;
    let at = usize::try_from(root - 1).unwrap() * 4096;
    bytes[at..at + 4096].copy_from_slice(&interior(first));
    for number in first..leaf {
        bytes.extend(interior((number + 1).min(leaf - 1)));
    }
    let pages = u32::try_from(bytes.len() / 4096).unwrap();
    bytes[28..32].copy_from_slice(&pages.to_be_bytes());
    std::fs::write(location.file(), &bytes).unwrap();
    refused(&location, "pages");
    assert_eq!(repair(&location).unwrap().runs, 1);
}
