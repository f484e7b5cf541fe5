//! Faults are made for real: killed writers, damaged files, links, directories that refuse.

mod query;
mod schema;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::fixture;

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn open(location: &Location) -> Result<Store, StoreError> {
    Store::open(location, None)
}

fn at(directory: &tempfile::TempDir) -> Location {
    Location::named(&directory.path().join("history.db"))
}

fn usual_below(directory: &tempfile::TempDir) -> Location {
    let around = Surroundings { data_home: Some(directory.path().join("share").into()), home: None };
    Location::usual(&around).unwrap()
}

fn run_with_id(id: &str) -> Run {
    Run { id: id.to_owned(), ..fixture::run() }
}

fn stored(store: &mut Store, run: &Run) {
    store.begin(run).unwrap();
    // By twos, and what is left.
    for (index, measured) in run.measurements.chunks(2).enumerate() {
        store.add(&run.id, 2 * index, measured).unwrap();
    }
    store.finish(run).unwrap();
}

/// As a run is after it was written and read: what is not in the document is gone.
fn as_read(run: &Run) -> Run {
    serde_json::from_str(&serde_json::to_string(run).unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn sqlite_is_not_one_of_those_with_the_wal_reset_bug() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[test]
fn a_run_comes_back_as_it_was() {
    let directory = temporary();
    let run = fixture::run();
    let mut store = open(&at(&directory)).unwrap();
    stored(&mut store, &run);
    assert_eq!(store.load(fixture::ID).unwrap(), as_read(&run));
    assert_eq!(Store::read(&at(&directory)).unwrap().load("last").unwrap(), as_read(&run));
}

#[test]
fn the_usual_place_is_private() {
    let directory = temporary();
    let location = usual_below(&directory);
    assert!(matches!(Store::read(&location), Err(StoreError::Missing { .. })));
    assert!(!directory.path().join("share").exists(), "reading makes nothing");
    drop(open(&location).unwrap());
    assert_eq!(mode(location.file().parent().unwrap()), 0o700);
    assert_eq!(mode(location.file()), 0o600);
    let left: Vec<_> = fs::read_dir(location.file().parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn commits_are_synced_and_the_log_is_used_where_it_may_be() {
    let directory = temporary();
    let store = open(&at(&directory)).unwrap();
    let pragma = |name: &str| -> String {
        store
            .connection
            .pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
            .map(|v| format!("{v:?}"))
            .unwrap()
    };
    let local = place::is_local(directory.path());
    assert_eq!(pragma("journal_mode"), if local { "Text(\"wal\")" } else { "Text(\"delete\")" });
    assert_eq!(pragma("synchronous"), if local { "Integer(2)" } else { "Integer(3)" });
    assert_eq!(pragma("busy_timeout"), "Integer(10000)");
}

#[test]
fn an_unfinished_run_is_partial_and_holds_what_was_added() {
    let directory = temporary();
    let run = fixture::run();
    let mut store = open(&at(&directory)).unwrap();
    store.begin(&run).unwrap();
    store.add(&run.id, 0, &run.measurements[..1]).unwrap();
    store.add(&run.id, 1, &run.measurements[1..2]).unwrap();
    let read = store.load("last").unwrap();
    assert_eq!(read.status, RunStatus::Partial);
    assert_eq!(read.measurements, as_read(&run).measurements[..2]);
    let line = &store.list().unwrap()[0];
    assert_eq!((line.status, line.counts.ok), (RunStatus::Partial, 2));
}

#[test]
fn finishing_replaces_what_was_added() {
    let directory = temporary();
    let mut run = fixture::run();
    let mut store = open(&at(&directory)).unwrap();
    store.begin(&run).unwrap();
    store.add(&run.id, 0, &run.measurements[9..10]).unwrap();
    run.status = RunStatus::Partial;
    store.finish(&run).unwrap();
    assert_eq!(store.load("last").unwrap(), as_read(&run));
}

#[test]
fn runs_of_one_millisecond_have_short_ids_of_their_own() {
    let directory = temporary();
    let mut store = open(&at(&directory)).unwrap();
    let ids = ["019aa5c3-2f1b-7000-8000-000000000001", "019aa5c3-2f1b-7000-8001-000000000001"];
    stored(&mut store, &run_with_id(ids[0]));
    assert_eq!(store.short(ids[0], 13).unwrap(), "019aa5c3-2f1b");
    stored(&mut store, &run_with_id(ids[1]));
    for id in ids {
        let short = store.short(id, 13).unwrap();
        assert_eq!((short.len(), store.load(&short).unwrap().id.as_str()), (23, id));
    }
    // Not to end in a dash.
    stored(&mut store, &run_with_id("019aa5c3-2f1b-7001-8001-000000000001"));
    assert_eq!(store.short("019aa5c3-2f1b-7001-8001-000000000001", 14).unwrap(), "019aa5c3-2f1b-7001");
}

#[test]
fn runs_are_listed_latest_first_by_order_of_entry_and_found_by_prefix() {
    let directory = temporary();
    let mut store = open(&at(&directory)).unwrap();
    // The second run began when the clock had been set back.
    let ids = ["019aa5c3-2f1b-7000-8000-000000000001", "019aa5c0-0000-7000-8000-000000000002"];
    for id in ids {
        stored(&mut store, &run_with_id(id));
    }
    let listed: Vec<String> = store.list().unwrap().into_iter().map(|l| l.id).collect();
    assert_eq!(listed, [ids[1], ids[0]]);
    let counts = Counts { ok: 10, invalid: 1, failed: 1, skipped: 1 };
    assert_eq!(store.list().unwrap()[0].counts, counts);
    assert_eq!(counts.total(), fixture::run().measurements.len());
    assert_eq!(store.load("last").unwrap().id, ids[1]);
    assert_eq!(store.load("019AA5C3").unwrap().id, ids[0]);
    assert_eq!(store.load(ids[0]).unwrap().id, ids[0]);
    let ambiguous = store.load("019aa5c").err().unwrap();
    assert!(matches!(ambiguous, StoreError::Ambiguous { .. }));
    // The candidates are named, so that one can be chosen.
    ids.iter().for_each(|id| assert!(ambiguous.to_string().contains(id), "{ambiguous}"));
    for wanted in ["01ff", "", "%", "latest", "'; DROP TABLE run"] {
        assert!(matches!(store.load(wanted), Err(StoreError::NoSuchRun { .. })), "{wanted}");
    }
}

#[test]
fn an_empty_history_has_no_last_run() {
    let directory = temporary();
    let store = open(&at(&directory)).unwrap();
    assert!(matches!(store.load("last"), Err(StoreError::NoSuchRun { .. })));
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn a_run_is_entered_once_and_before_its_measurements() {
    let directory = temporary();
    let run = fixture::run();
    let mut store = open(&at(&directory)).unwrap();
    assert!(matches!(store.add(&run.id, 0, &run.measurements[..1]), Err(StoreError::NoSuchRun { .. })));
    assert!(matches!(store.finish(&run), Err(StoreError::NoSuchRun { .. })));
    store.begin(&run).unwrap();
    assert!(matches!(store.begin(&run), Err(StoreError::Failed { .. })));
}

#[test]
fn reading_cannot_write() {
    let directory = temporary();
    stored(&mut open(&at(&directory)).unwrap(), &fixture::run());
    let mut store = Store::read(&at(&directory)).unwrap();
    assert!(store.begin(&run_with_id("019aa5c3-2f1b-7000-8000-000000000001")).is_err());
}

// Damaged, foreign and newer files.

/// Opening for writing and for reading must both fail with an error that names the file, and change nothing.
fn refused_and_kept(location: &Location) -> StoreError {
    let before = fs::read(location.file()).unwrap();
    let read = Store::read(location).unwrap_err();
    let error = open(location).unwrap_err();
    assert_eq!(read.to_string(), error.to_string());
    assert_eq!(fs::read(location.file()).unwrap(), before, "{error}");
    let text = error.to_string();
    assert!(text.contains("history.db") && !text.contains('\n'), "{text}");
    error
}

fn refused_content(content: &[u8]) -> StoreError {
    let directory = temporary();
    fs::write(at(&directory).file(), content).unwrap();
    refused_and_kept(&at(&directory))
}

fn whole_history() -> Vec<u8> {
    let directory = temporary();
    stored(&mut open(&at(&directory)).unwrap(), &fixture::run());
    fs::read(at(&directory).file()).unwrap()
}

#[test]
fn files_that_are_no_history_are_kept_untouched() {
    let whole = whole_history();
    let mut bad_header = whole.clone();
    bad_header[..16].fill(0);
    let text = b"these are my notes, please keep them ".repeat(100);
    for content in [&b""[..], b"x", &text, &bad_header, &whole[..whole.len() / 2], &whole[..100]] {
        let error = refused_content(content);
        let empty = content.is_empty() && matches!(error, StoreError::NoHistory { .. });
        assert!(empty || matches!(error, StoreError::Damaged { .. }), "{error}");
    }
}

#[test]
fn flipped_pages_are_found_and_kept_untouched() {
    let mut flipped = whole_history();
    // The root page of a table, by its number in the schema, is not known here: all pages but the first.
    for page in flipped.chunks_mut(4096).skip(1) {
        page[..8].fill(0xa5);
    }
    let error = refused_content(&flipped);
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn another_programs_database_is_kept_untouched() {
    let directory = temporary();
    let foreign = Connection::open(at(&directory).file()).unwrap();
    foreign.execute_batch("CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES ('x');").unwrap();
    drop(foreign);
    let error = refused_and_kept(&at(&directory));
    assert!(error.to_string().contains("another program's"), "{error}");
}

#[test]
fn a_newer_schema_is_refused_with_its_number() {
    let directory = temporary();
    drop(open(&at(&directory)).unwrap());
    let newer = Connection::open(at(&directory).file()).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let error = refused_and_kept(&at(&directory));
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("99"), "{error}");
}

#[test]
fn a_journal_without_its_database_is_kept() {
    for suffix in ["-wal", "-journal"] {
        let directory = temporary();
        let journal = directory.path().join(format!("history.db{suffix}"));
        fs::write(&journal, b"committed rows").unwrap();
        for refused in [open, Store::read] {
            let error = refused(&at(&directory)).unwrap_err();
            assert!(matches!(error, StoreError::Gone { .. }), "{error}");
        }
        assert_eq!(fs::read(&journal).unwrap(), b"committed rows");
        assert!(!at(&directory).file().exists());
    }
}

/// As when two first runs begin at once, and the other one is ahead.
#[test]
fn a_database_made_meanwhile_is_used_with_its_journal() {
    let directory = temporary();
    let location = at(&directory);
    let other = open(&location).unwrap();
    assert!(other.list().unwrap().is_empty());
    stored(&mut open(&location).unwrap(), &fixture::run());
    assert!(directory.path().join("history.db-wal").exists());
    super::schema::create(location.file(), None).unwrap();
    assert_eq!(open(&location).unwrap().load("last").unwrap(), as_read(&fixture::run()));
    drop(other);
}

#[test]
fn making_a_history_leaves_nothing_else() {
    let (directory, around) = (temporary(), temporary());
    let registry = Registry::at(&around.path().join("scratch"));
    drop(Store::open(&at(&directory), Some(&registry)).unwrap());
    let names = |path: &Path| -> Vec<_> {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(directory.path()), ["history.db"]);
    assert!(names(&around.path().join("scratch")).is_empty());
}

/// A kill can leave both names on a file system that gives the second before it takes the first.
#[test]
fn an_unfinished_name_of_a_history_is_removed() {
    let directory = temporary();
    drop(open(&at(&directory)).unwrap());
    let first = directory.path().join(leftover::unfinished_name());
    fs::hard_link(at(&directory).file(), &first).unwrap();
    drop(open(&at(&directory)).unwrap());
    assert!(!first.exists());
}

// Places that are not safe, or not there.

#[test]
fn links_are_refused_and_their_target_untouched() {
    let directory = temporary();
    let target = directory.path().join("victim.db");
    drop(open(&Location::named(&target)).unwrap());
    let before = fs::read(&target).unwrap();
    symlink(&target, at(&directory).file()).unwrap();
    assert!(open(&at(&directory)).unwrap_err().is_refusal());
    assert!(Store::read(&at(&directory)).unwrap_err().is_refusal());
    fs::remove_file(at(&directory).file()).unwrap();
    fs::hard_link(&target, at(&directory).file()).unwrap();
    assert!(open(&at(&directory)).unwrap_err().is_refusal());
    assert_eq!(fs::read(&target).unwrap(), before);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "no journal was made");
}

#[test]
fn a_dangling_link_is_not_filled() {
    let directory = temporary();
    symlink(directory.path().join("nowhere.db"), at(&directory).file()).unwrap();
    assert!(open(&at(&directory)).unwrap_err().is_refusal());
    assert!(!directory.path().join("nowhere.db").exists());
}

#[test]
fn a_linked_directory_is_followed() {
    let directory = temporary();
    fs::create_dir(directory.path().join("real")).unwrap();
    symlink("real", directory.path().join("home")).unwrap();
    let location = Location::named(&directory.path().join("home/history.db"));
    stored(&mut open(&location).unwrap(), &fixture::run());
    assert!(directory.path().join("real/history.db").exists());
}

#[test]
fn a_journal_that_is_a_link_is_not_written_through() {
    let directory = temporary();
    let location = at(&directory);
    drop(open(&location).unwrap());
    let victim = directory.path().join("victim");
    fs::write(&victim, b"precious").unwrap();
    symlink(&victim, directory.path().join("history.db-wal")).unwrap();
    assert!(open(&location).unwrap_err().is_refusal());
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn what_everyone_can_write_is_refused_with_the_remedy() {
    let directory = temporary();
    drop(open(&at(&directory)).unwrap());
    fs::set_permissions(at(&directory).file(), fs::Permissions::from_mode(0o666)).unwrap();
    let error = open(&at(&directory)).unwrap_err();
    assert!(error.is_refusal());
    assert!(error.to_string().contains("use another --store FILE"), "{error}");
}

#[test]
fn directories_and_devices_are_refused() {
    let directory = temporary();
    assert!(open(&Location::named(directory.path())).unwrap_err().is_refusal());
    assert!(open(&Location::named(Path::new("/dev/null"))).unwrap_err().is_refusal());
    assert!(open(&Location::named(Path::new("/"))).unwrap_err().is_refusal());
}

#[test]
fn a_place_that_cannot_be_made_is_merely_no_place() {
    // Nobody can make anything in /proc, root included.
    let around = Surroundings { data_home: Some("/proc/plimsoll-test".into()), home: None };
    let error = open(&Location::usual(&around).unwrap()).unwrap_err();
    assert!(error.is_no_place(), "{error}");
    let error = open(&Location::named(Path::new("/proc/history.db"))).unwrap_err();
    assert!(error.is_no_place(), "{error}");
    let error = open(&Location::named(Path::new("/nonexistent/history.db"))).unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

// Several processes, and those that are killed.

/// Runs the ignored test `name` of this binary as a process of its own.
fn child(name: &str, location: &Location) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &format!("tests::{name}")])
        .env("PLIMSOLL_TEST_STORE", location.file())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn location_of_child() -> Location {
    Location::named(Path::new(&std::env::var_os("PLIMSOLL_TEST_STORE").expect("run by another test")))
}

#[test]
#[ignore = "the child of a_killed_writer_loses_nothing_that_was_added"]
fn adds_until_it_is_killed() {
    let mut store = open(&location_of_child()).unwrap();
    let run = run_with_id(&uuid::Uuid::now_v7().to_string());
    store.begin(&run).unwrap();
    for index in 0.. {
        let measured = &run.measurements[index % run.measurements.len()];
        store.add(&run.id, index, std::slice::from_ref(measured)).unwrap();
        writeln!(std::io::stdout(), "added {index}").unwrap();
    }
}

#[test]
fn a_killed_writer_loses_nothing_that_was_added() {
    let directory = temporary();
    let location = at(&directory);
    for round in 0..4 {
        let mut writer = child("adds_until_it_is_killed", &location);
        let said = BufReader::new(writer.stdout.take().unwrap()).lines();
        let added =
            said.map_while(Result::ok).filter(|line| line.starts_with("added")).take(3 + 5 * round).count();
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(added, 3 + 5 * round);
        let store = open(&location).unwrap();
        let run = store.load("last").unwrap();
        assert_eq!(run.status, RunStatus::Partial);
        assert!(run.measurements.len() >= added);
        let whole = as_read(&fixture::run()).measurements;
        assert!(run.measurements.iter().enumerate().all(|(i, m)| *m == whole[i % whole.len()]));
        assert_eq!(store.list().unwrap().len(), round + 1);
        let sound: String = store.connection.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}

#[test]
#[ignore = "the child of eight_writers_at_once_are_all_stored"]
fn stores_three_runs() {
    for _ in 0..3 {
        stored(&mut open(&location_of_child()).unwrap(), &run_with_id(&uuid::Uuid::now_v7().to_string()));
    }
}

#[test]
fn eight_writers_at_once_are_all_stored() {
    let directory = temporary();
    let location = at(&directory);
    let writers: Vec<Child> = (0..8).map(|_| child("stores_three_runs", &location)).collect();
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let store = Store::read(&location).unwrap();
    let lines = store.list().unwrap();
    assert_eq!(lines.len(), 24);
    let whole = fixture::run().measurements.len();
    assert!(lines.iter().all(|l| l.status == RunStatus::Complete && l.counts.total() == whole));
}
