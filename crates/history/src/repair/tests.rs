//! Damage is made for real, in the bytes of the file.

use super::*;
use crate::fixture;
use crate::tests::open;

fn repair(location: &Location) -> Result<Repaired, StoreError> {
    super::repair(location, None)
}

const RUNS: usize = 12;

/// A history of runs with tags and a note; its place, and the runs.
fn history(directory: &Path) -> (Location, Vec<Run>) {
    let location = Location::named(&directory.join("history.db"));
    let mut store = open(&location).unwrap();
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
    let refused = open(&location).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }));
    assert!(
        refused.to_string().contains("perhaps --store names another file (file is not a database)"),
        "{refused}"
    );
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
fn what_is_entered_under_another_id_is_found_and_repaired() {
    for change in [
        "UPDATE run SET id = '019aa5c3-2f1b-7c40-9d21-ffffffffffff' WHERE number = 3",
        "UPDATE measurement SET case_id = 'cpu.peak/threads=7' WHERE position = 0 AND run = 3",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (location, runs) = history(directory.path());
        let raw = Connection::open(location.file()).unwrap();
        assert_eq!(raw.execute(change, []).unwrap(), 1);
        drop(raw);
        let foreign = Store::read(&location).unwrap().load("019aa5c3-2f1b-7c40-9d21-ffffffffffff");
        assert!(!change.contains("run SET") || matches!(foreign, Err(StoreError::Damaged { .. })));
        let repaired = repair(&location).unwrap();
        assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS, 0, 0), "{change}");
        assert!(repaired.kept.is_some());
        assert_eq!(same(&location, &runs), RUNS);
        assert_eq!(Store::read(&location).unwrap().load(&runs[2].id).unwrap(), runs[2]);
    }
}

/// A history with these runs alone, the first measurements of each where it was not finished.
fn rewritten(location: &Location, runs: &[Run], status: RunStatus) -> Vec<u8> {
    fs::remove_file(location.file()).unwrap();
    let mut store = open(location).unwrap();
    for run in runs {
        store.begin(run).unwrap();
        match status {
            RunStatus::Complete => store.finish(run).unwrap(),
            RunStatus::Partial => store.add(&run.id, 0, &run.measurements[..2]).unwrap(),
        }
    }
    drop(store);
    fs::read(location.file()).unwrap()
}

#[test]
fn a_journal_of_another_database_costs_nothing() {
    for status in [RunStatus::Complete, RunStatus::Partial] {
        let directory = tempfile::tempdir().unwrap();
        let (location, runs) = history(directory.path());
        rewritten(&location, &runs, status);
        let other = Connection::open(directory.path().join("other.db")).unwrap();
        other
            .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (a); INSERT INTO t VALUES (1);")
            .unwrap();
        let journal = beside(location.file(), "-wal");
        fs::copy(directory.path().join("other.db-wal"), &journal).unwrap();
        let foreign = fs::read(&journal).unwrap();
        assert!(matches!(Store::read(&location), Err(StoreError::Damaged { .. })));
        let repaired = repair(&location).unwrap();
        assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS, 0, 0), "{status:?}");
        assert_eq!(same(&location, &runs), RUNS);
        assert_eq!(fs::read(beside(&repaired.kept.unwrap(), "-wal")).unwrap(), foreign);
    }
}

#[test]
fn a_damaged_id_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (location, runs) = history(directory.path());
    // As it stands in the table itself, before the time: its indices have other neighbours.
    let stored = format!("{}{}", runs[3].id, runs[3].started).into_bytes();
    damage(&location, |bytes| {
        let at = bytes.windows(stored.len()).position(|window| window == stored).unwrap();
        bytes[at] = b'x';
    });
    let repaired = repair(&location).unwrap();
    assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS, 0, 0));
    assert_eq!(same(&location, &runs), RUNS);
}

/// Leaves the journal of another history beside this one: the last of its runs, changed so, without the pages before it.
fn leave_journal_of_another(location: &Location, change: &str) {
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Location::named(&elsewhere.path().join("history.db"));
    for n in 100..108 {
        // Closed each time but the last: the journal holds one run.
        let mut newer = open(&other).unwrap();
        let run = Run { id: format!("019aa5c3-2f1b-7c40-9d21-{n:012x}"), ..fixture::run() };
        newer.begin(&run).unwrap();
        newer.finish(&run).unwrap();
        if n == 107 {
            newer.connection.execute_batch(change).unwrap();
            fs::copy(beside(other.file(), "-wal"), beside(location.file(), "-wal")).unwrap();
        }
    }
}

#[test]
fn a_journal_of_another_history_costs_nothing() {
    for status in [RunStatus::Complete, RunStatus::Partial] {
        let directory = tempfile::tempdir().unwrap();
        let (location, runs) = history(directory.path());
        // A backup of fewer runs, beside which the newer journal was left.
        let before = rewritten(&location, &runs[6..], status);
        leave_journal_of_another(&location, "");
        let repaired = repair(&location).unwrap();
        assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS - 6, 0, 0), "{status:?}");
        assert_eq!(same(&location, &runs), RUNS - 6);
        assert_eq!(fs::read(repaired.kept.unwrap()).unwrap(), before, "no page of the journal came into it");
    }
}

#[test]
fn a_journal_of_a_later_plimsolls_history_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (location, runs) = history(directory.path());
    rewritten(&location, &runs[6..], RunStatus::Complete);
    let later = "UPDATE run SET header = json_set(header, '$.status', 'later', '$.version', '99.0.0')";
    leave_journal_of_another(&location, later);
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("history.db");
    for suffix in ["", "-wal"] {
        fs::copy(beside(location.file(), suffix), beside(&copy, suffix)).unwrap();
    }
    let with = saved_from(&copy, location.file(), &copies.path().join("fresh.db"));
    assert!(matches!(with, Err(StoreError::Unknown { .. })));
    let repaired = repair(&location).unwrap();
    assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS - 6, 0, 0));
    assert_eq!(same(&location, &runs), RUNS - 6);
}

#[test]
fn looking_at_a_history_writes_nothing_into_it() {
    let directory = tempfile::tempdir().unwrap();
    let (location, _) = history(directory.path());
    let mut open = open(&location).unwrap();
    let run = Run { id: "019aa5c3-2f1b-7c40-9d21-0000000000ff".to_owned(), ..fixture::run() };
    open.begin(&run).unwrap();
    // As a writer that was killed leaves it.
    let copied = tempfile::tempdir().unwrap();
    let copy = Location::named(&copied.path().join("history.db"));
    for suffix in ["", "-wal"].iter().filter(|suffix| beside(location.file(), suffix).exists()) {
        fs::copy(beside(location.file(), suffix), beside(copy.file(), suffix)).unwrap();
    }
    let before = fs::read(copy.file()).unwrap();
    let repaired = repair(&copy).unwrap();
    assert_eq!((repaired.runs, repaired.kept), (RUNS + 1, None));
    assert_eq!(fs::read(copy.file()).unwrap(), before);
}

/// Leaves the history as a writer of this kind does that is killed within a transaction, its pages half written.
fn killed_within_a_transaction(location: &Location) {
    let mut raw = Connection::open(location.file()).unwrap();
    raw.execute_batch("PRAGMA journal_mode = delete; PRAGMA cache_size = 2;").unwrap();
    let transaction = raw.transaction().unwrap();
    transaction.execute("UPDATE run SET header = header || ' '", []).unwrap();
    let copies = tempfile::tempdir().unwrap();
    for suffix in ["", "-journal"] {
        fs::copy(beside(location.file(), suffix), copies.path().join(format!("history{suffix}"))).unwrap();
    }
    transaction.rollback().unwrap();
    drop(raw);
    for suffix in ["", "-journal"] {
        fs::copy(copies.path().join(format!("history{suffix}")), beside(location.file(), suffix)).unwrap();
    }
}

#[test]
fn a_journal_is_not_rolled_back_into_what_is_left_as_it_is() {
    let later = "UPDATE run SET header = json_set(header, '$.status', 'later', '$.version', '99.0.0')";
    for (change, is_known) in [("", true), (later, false)] {
        let directory = tempfile::tempdir().unwrap();
        let (location, _) = history(directory.path());
        Connection::open(location.file()).unwrap().execute_batch(change).unwrap();
        let committed = fs::read(location.file()).unwrap();
        killed_within_a_transaction(&location);
        let files = || ["", "-journal"].map(|suffix| fs::read(beside(location.file(), suffix)).unwrap());
        let before = files();
        assert!(before[0] != committed && before[1].len() > 4096);
        match repair(&location) {
            Ok(repaired) => assert_eq!((repaired.runs, repaired.kept, is_known), (RUNS, None, true)),
            Err(e) => assert!(matches!(e, StoreError::Unknown { .. }) && !is_known, "{e}"),
        }
        assert!(files() == before, "{change}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left");
    }
}

#[test]
fn what_a_later_plimsoll_wrote_is_not_given_up() {
    let later = "UPDATE run SET header = json_set(header, '$.version', '99.0.0');";
    let schema = "UPDATE run SET header = json_set(header, '$.schema', 'plimsoll.run/9');";
    let of_run = "UPDATE run SET header = json_set(header, '$.status', 'later');";
    let of_measurement = "UPDATE measurement SET document = json_set(document, '$.status', 'later');";
    for (says, unknown) in [(later, of_run), (later, of_measurement), (schema, of_run)] {
        let directory = tempfile::tempdir().unwrap();
        let (location, _) = history(directory.path());
        Connection::open(location.file()).unwrap().execute_batch(&format!("{says}{unknown}")).unwrap();
        for lost in [0, 4096] {
            // The second time with damage that is mended elsewhere.
            let before = damage(&location, |bytes| bytes[..lost].fill(0));
            assert!(matches!(repair(&location), Err(StoreError::Unknown { .. })), "{says}{unknown}");
            assert_eq!(fs::read(location.file()).unwrap(), before);
        }
    }
}

#[test]
fn a_flipped_letter_is_not_a_later_plimsolls() {
    let directory = tempfile::tempdir().unwrap();
    let (location, runs) = history(directory.path());
    let raw = Connection::open(location.file()).unwrap();
    let change = r#"UPDATE measurement SET document = replace(document, '"status"', '"stauus"')
                    WHERE position = 0 AND run = (SELECT max(number) FROM run)"#;
    assert_eq!(raw.execute(change, []).unwrap(), 1);
    drop(raw);
    let repaired = repair(&location).unwrap();
    assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS, 1, 0));
    assert_eq!(same(&location, &runs), RUNS);
    assert!(!is_later(&format!(r#"{{"version": "0.0.9", "schema": "{SCHEMA}"}}"#)));
    assert!(!is_later(r#"{"version": 7}"#) && !is_later("{") && is_later(r#"{"version": "99.0.0"}"#));
}

#[test]
fn what_is_no_history_is_not_touched() {
    let foreign = tempfile::tempdir().unwrap();
    let other = foreign.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);").unwrap();
    for content in [Vec::new(), "my notes ".repeat(2000).into_bytes(), fs::read(&other).unwrap()] {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::named(&directory.path().join("history.db"));
        fs::write(location.file(), &content).unwrap();
        assert!(matches!(repair(&location), Err(StoreError::NoHistory { .. })));
        assert_eq!(fs::read(location.file()).unwrap(), content);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left");
    }
}

#[test]
fn a_damaged_write_version_is_found_and_costs_nothing() {
    for (at, value) in [(18, 9), (18, 0xff), (19, 0), (19, 9)] {
        let directory = tempfile::tempdir().unwrap();
        let (location, runs) = history(directory.path());
        let damaged = damage(&location, |bytes| bytes[at] = value);
        if at == 18 {
            let refused = open(&location).unwrap_err();
            assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
            assert!(refused.to_string().contains("write version"), "{refused}");
        }
        let repaired = repair(&location).unwrap();
        if let Some(kept) = &repaired.kept {
            assert_eq!(fs::read(kept).unwrap(), damaged);
        }
        assert_eq!((repaired.runs, repaired.partly, repaired.lost), (RUNS, 0, 0), "{at} {value}");
        assert!(repaired.kept.is_some() || value == 0, "{at} {value}");
        assert_eq!(same(&location, &runs), RUNS);
        let mut store = open(&location).unwrap();
        let run = Run { id: "019aa5c3-2f1b-7c40-9d21-0000000000ff".to_owned(), ..fixture::run() };
        store.begin(&run).unwrap();
        store.finish(&run).unwrap();
    }
}

/// A page beyond the first is damaged too: the layout is still that of the file.
#[test]
fn a_damaged_write_version_does_not_hide_other_damage() {
    let directory = tempfile::tempdir().unwrap();
    let (location, runs) = history(directory.path());
    damage(&location, |bytes| {
        bytes[18] = 9;
        let cut = bytes.len() * 3 / 4;
        bytes.truncate(cut);
    });
    let repaired = repair(&location).unwrap();
    assert!(repaired.kept.is_some() && repaired.runs >= 4, "{repaired:?}");
    assert_eq!(same(&location, &runs), repaired.runs);
}

#[test]
fn two_reads_are_the_same_only_with_the_same_figures_tags_notes_origin_and_noise() {
    let directory = tempfile::tempdir().unwrap();
    let (location, runs) = history(directory.path());
    rewritten(&location, &runs[..2], RunStatus::Partial);
    let saved = |change: &str| {
        let fresh = directory.path().join(format!("{}.db", change.len()));
        fs::copy(location.file(), &fresh).unwrap();
        Connection::open(&fresh).unwrap().execute_batch(change).unwrap();
        let file = location.file().to_owned();
        Saved { fresh, repaired: Repaired { file, kept: None, runs: 2, partly: 2, lost: 0 } }
    };
    let first = saved("");
    assert!(first.is_same_as(&saved(" ")).unwrap());
    for change in [
        "UPDATE measurement SET document = json_set(document, '$.reason', 'another') WHERE run = 1 AND position = 1",
        "UPDATE run SET note = 'another' WHERE number = 2",
        "UPDATE run SET origin = 'imported' WHERE number = 2",
        "INSERT INTO tag VALUES ('another', 1)",
        "INSERT INTO floor (machine, document) VALUES ('another', '{}')",
    ] {
        let other = saved(change);
        assert!(!first.is_same_as(&other).unwrap() && !other.is_same_as(&first).unwrap(), "{change}");
        // With the journal or without, as much was read.
        assert!(first.has_all_of(&other).unwrap() && other.has_all_of(&first).unwrap(), "{change}");
    }
}
