#![allow(clippy::unwrap_used)]

use plimsoll_result::fixture::run_of;

use super::*;

pub(crate) fn begun() -> WatchOrder {
    WatchOrder {
        schema: String::new(),
        seconds: 60.0,
        every: 5.0,
        shares: WatchResources { cpu: 0.02, disk: 1e9, network: 1e9 },
        idle_only: false,
        dir: Some(PathBuf::from("/data")),
        server: None,
        only: vec!["cpu".to_owned()],
        run: run_of(Vec::new()),
    }
}

fn passed(at: f64) -> JournalEntry {
    let spent = WatchResources { cpu: 0.25, ..WatchResources::default() };
    JournalEntry::Passed(WatchMark { at, busy: Some(0.5), spent })
}

#[test]
fn what_was_added_is_there_and_half_a_line_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.db.watch");
    let mut journal = WatchJournal::make(&path, begun()).unwrap();
    [1.0, 2.0].into_iter().for_each(|at| journal.add(&passed(at)).unwrap());
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    // Wherever a kill cuts the file, complete lines remain and the next line is complete.
    let lines: Vec<usize> =
        whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
    for cut in lines[0]..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let expected = lines[1..].iter().filter(|end| **end <= cut).count();
        let mut journal = WatchJournal::open(&path).unwrap();
        assert_eq!(journal.read_and_repair().unwrap().passed.len(), expected, "cut at {cut}");
        journal.add(&passed(9.0)).unwrap();
        drop(journal);
        let kept = JournalContent::read(&path).unwrap();
        assert_eq!(kept.passed.len(), expected + 1, "cut at {cut}");
        assert_eq!((kept.reached, kept.begun.dir.clone()), (9.0, Some(PathBuf::from("/data"))));
        assert_eq!(kept.spent.cpu, 0.25 * (expected + 1) as f64);
    }
}

#[test]
fn one_process_watches_and_nothing_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.db.watch");
    assert!(matches!(WatchJournal::open(&path), Err(JournalError::Missing { .. })));
    let journal = WatchJournal::make(&path, begun()).unwrap();
    assert!(matches!(WatchJournal::open(&path), Err(JournalError::Running { .. })));
    assert!(matches!(WatchJournal::make(&path, begun()), Err(JournalError::Running { .. })));
    drop(journal);
    assert!(matches!(WatchJournal::make(&path, begun()), Err(JournalError::Unfinished { .. })));
    WatchJournal::open(&path).unwrap().remove().unwrap();
    assert!(!path.exists());
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(matches!(JournalContent::read(&path), Err(JournalError::Foreign { .. })));
    assert!(WatchJournal::make(&path, begun()).is_err() && WatchJournal::open(&path).is_err());
    for foreign in ["", "hello\n", "{}\n", "{\"session\":{}}\n"] {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, foreign).unwrap();
        let error = JournalContent::read(&path).unwrap_err();
        assert!(matches!(error, JournalError::Foreign { .. }), "{foreign}: {error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}
