//! Figures over time, tags, baselines, imports and floors, and the way from the first schema.

use super::*;
use crate::case::Pattern;
use crate::compare::Floors;
use crate::fixture;

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::named(&directory.path().join("history.db"));
    let store = Store::open(&location).unwrap();
    (directory, store)
}

fn run(n: usize) -> Run {
    let id = format!("019aa5c3-{n:04x}-7c40-9d21-5b0c3f6a7e88");
    Run { id, started: format!("2026-11-{:02}T08:00:00Z", n % 28 + 1), ..fixture::run() }
}

fn stored(store: &mut Store, run: &Run) {
    store.begin(run).unwrap();
    store.finish(run).unwrap();
}

fn asked(cases: &str) -> Asked {
    Asked { cases: Pattern::parse(cases).unwrap(), metric: None, since: None, machine: None }
}

#[test]
fn figures_are_found_by_case_metric_time_and_machine() {
    let (_directory, mut store) = store();
    (0..3).for_each(|n| stored(&mut store, &run(n)));
    let count = |asked: &Asked| store.figures(asked).unwrap().len();
    assert_eq!(count(&asked("memory")), 3 * 4);
    assert_eq!(count(&asked("memory.*/op=triad/*")), 3);
    assert_eq!(count(&asked("*type=f64*")), 3 * 2);
    assert_eq!(count(&asked("gpu")), 0);
    let bus = Asked { metric: Some("bus".to_owned()), ..asked("memory") };
    assert_eq!(count(&bus), 3);
    assert_eq!(count(&Asked { since: Some("2026-11-02".to_owned()), ..asked("network.tcp") }), 2);
    assert_eq!(count(&Asked { machine: Some("bench-1".to_owned()), ..asked("network.tcp") }), 3);
    assert_eq!(count(&Asked { machine: Some("elsewhere".to_owned()), ..asked("network.tcp") }), 0);
    let found = store.figures(&asked("network.tcp")).unwrap();
    let metric = &fixture::run().measurements[11].metrics[0];
    assert_eq!((found[0].median, found[0].ci95), (metric.summary.median, metric.summary.ci95));
    assert_eq!(found[0].of_limit, metric.of_limit);
    // What is not to be believed is no figure.
    assert_eq!(count(&asked("*type=f32*")), 0);
}

#[test]
fn a_baseline_is_of_earlier_whole_runs_of_our_own() {
    let (_directory, mut store) = store();
    (0..4).for_each(|n| stored(&mut store, &run(n)));
    stored(&mut store, &Run { status: RunStatus::Partial, ..run(4) });
    assert!(store.import(&run(5)).unwrap());
    let mut elsewhere = run(6);
    elsewhere.machine.id = "m-2".to_owned();
    stored(&mut store, &elsewhere);
    stored(&mut store, &run(7));
    assert_eq!(store.baseline(&run(7), 10).unwrap(), [0, 1, 2, 3].map(|n| run(n).id));
    assert_eq!(store.baseline(&run(7), 2).unwrap(), [2, 3].map(|n| run(n).id));
    assert_eq!(store.baseline(&run(2), 10).unwrap(), [0, 1].map(|n| run(n).id), "not what came later");
    assert!(store.baseline(&run(0), 10).unwrap().is_empty());
}

#[test]
fn an_import_is_entered_once_and_stays_as_it_is() {
    let (_directory, mut store) = store();
    assert!(store.import(&run(1)).unwrap());
    assert!(!store.import(&Run { elapsed_s: 1.0, ..run(1) }).unwrap());
    assert_eq!(store.load("last").unwrap().elapsed_s, fixture::run().elapsed_s);
}

#[test]
fn an_unfinished_run_gives_way_to_more_of_all_its_machines_alone() {
    let (_directory, mut store) = store();
    let of = |nodes: &[&str], each: usize| {
        let whole = run(1).measurements;
        let on = |node: &&str| {
            let node = (*node).to_owned();
            whole.iter().take(each).map(move |m| Measurement { node: node.clone(), ..m.clone() })
        };
        Run { status: RunStatus::Partial, measurements: nodes.iter().flat_map(on).collect(), ..run(1) }
    };
    stored(&mut store, &of(&["a", "b"], 1));
    assert!(!store.import(&of(&["b"], 8)).unwrap(), "what a measured would be gone");
    assert_eq!(store.load("last").unwrap().measurements, of(&["a", "b"], 1).measurements);
    assert!(store.import(&of(&["a", "b", "c"], 2)).unwrap());
    assert_eq!(store.load("last").unwrap().measurements.len(), 6);
    assert!(!store.import(&of(&["a", "b", "c"], 1)).unwrap());
}

#[test]
fn tags_and_notes_belong_to_runs() {
    let (_directory, mut store) = store();
    (0..2).for_each(|n| stored(&mut store, &run(n)));
    store.tag("last", "before").unwrap();
    store.tag("last", "before").unwrap();
    store.tag("last~1", "before").unwrap();
    assert_eq!(store.tagged("before").unwrap(), [run(0).id, run(1).id]);
    assert!(store.untag("last", "before").unwrap());
    assert!(!store.untag("last", "before").unwrap());
    assert!(matches!(store.tag("last~9", "x"), Err(StoreError::NoSuchRun { .. })));
    store.note("last", "a note").unwrap();
}

#[test]
fn the_latest_floors_of_a_machine_count() {
    let (_directory, mut store) = store();
    let floors = |machine: &str, rounds| Floors { machine: machine.to_owned(), rounds, ..Floors::default() };
    [floors("m-1", 3), floors("m-1", 6), floors("m-2", 9)].iter().for_each(|f| store.keep_floors(f).unwrap());
    assert_eq!(store.floors("m-1").unwrap().unwrap().rounds, 6);
    assert_eq!(store.floors("m-3").unwrap(), None);
}

#[test]
fn a_history_of_the_first_schema_gets_its_figures() {
    let (directory, mut store) = store();
    stored(&mut store, &run(1));
    let wanted = store.figures(&asked("*")).unwrap();
    assert!(wanted.len() > 8);
    // As the first version left it.
    const BACK: &str = "
        DROP TABLE figure; DROP TABLE tag; DROP TABLE floor; DROP INDEX run_machine;
        ALTER TABLE run DROP COLUMN origin; ALTER TABLE run DROP COLUMN note;
        PRAGMA user_version = 1";
    store.connection.execute_batch(BACK).unwrap();
    let file = store.file.clone();
    drop(store);
    let store = Store::open(&Location::named(&file)).unwrap();
    assert_eq!(store.figures(&asked("*")).unwrap(), wanted);
    assert!(directory.path().join("history.db.v1").exists(), "a copy is kept");
}
