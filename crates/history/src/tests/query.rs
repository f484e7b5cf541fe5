//! Tests of trends, tags, baselines, imports and noise floors.

use plimsoll_compare::Floors;
use plimsoll_machine::EffectiveCache;
use plimsoll_model::case::Pattern;
use plimsoll_model::metric;
use plimsoll_result::fixture;

use super::super::*;
use super::{run, store, stored};

pub(super) fn asked(cases: &str) -> TrendQuery {
    TrendQuery { cases: Pattern::parse(cases).unwrap(), metric: None, all: false, since: None, machine: None }
}

#[test]
fn figures_are_found_by_case_metric_time_and_machine_and_all_of_them_where_asked_for() {
    let (_directory, store) = store(3);
    let count =
        |asked: &TrendQuery| store.trends(asked).unwrap().iter().map(|t| t.points.len()).sum::<usize>();
    assert_eq!(count(&asked("memory")), 3 * 4);
    assert_eq!(count(&asked("memory.*/op=triad/*")), 3);
    assert_eq!(count(&asked("*type=f64*")), 3 * 2);
    assert_eq!(count(&asked("gpu")), 0);
    let bus = TrendQuery { metric: Some("bus_bandwidth".to_owned()), ..asked("memory") };
    assert_eq!(count(&bus), 3);
    assert_eq!(count(&TrendQuery { since: Some("2026-11-02".to_owned()), ..asked("network.tcp") }), 2);
    assert_eq!(count(&TrendQuery { machine: Some("bench-1".to_owned()), ..asked("network.tcp") }), 3);
    assert_eq!(count(&TrendQuery { machine: Some("elsewhere".to_owned()), ..asked("network.tcp") }), 0);
    let found = store.trends(&asked("network.tcp")).unwrap();
    let metric = &fixture::run().measurements[11].metrics[0];
    let of = |t: &MetricTrend| (t.metric.clone(), t.unit, t.better, t.host.clone());
    assert_eq!(of(&found[0]), (metric.name.clone(), metric.unit, metric.better, Some("bench-1".to_owned())));
    let ids: Vec<&str> = found[0].points.iter().map(|p| p.run.id.as_str()).collect();
    assert_eq!(ids, [0, 1, 2].map(|n| run(n).id));
    let point = &found[0].points[0];
    assert_eq!((point.median, point.of_limit), (metric.summary.median, metric.of_limit));
    assert_eq!(count(&asked("*type=f32*")), 0);
    let metrics = |all: bool| {
        let found = store.trends(&TrendQuery { all, ..asked("memory.bandwidth") }).unwrap();
        found.into_iter().map(|trend| trend.metric).collect::<Vec<_>>()
    };
    let headlines = metrics(false);
    assert!(headlines.iter().all(|name| name == "bandwidth"), "{headlines:?}");
    assert!(metrics(true).len() > headlines.len() && metrics(true).contains(&"bus_bandwidth".to_owned()));
}

#[test]
fn a_list_has_the_machine_and_the_nodes_of_each_run() {
    let (_directory, mut store) = store(1);
    let mut later = run(1);
    later.nodes = vec![later.nodes[0].clone(); 3];
    later.machine.id = "another".to_owned();
    store.begin(&later.header()).unwrap();
    store.tag(&run(0).id, "nightly").unwrap();
    let lines = store.list().unwrap();
    let reported = |n: usize| (lines[n].id.clone(), lines[n].machine.clone(), lines[n].nodes);
    assert_eq!(reported(1), (run(0).id, run(0).machine.id, 1));
    assert_eq!(reported(0), (later.id.clone(), "another".to_owned(), 3));
    assert_eq!((lines[1].remarks.line(), lines[0].status), (Some("nightly".to_owned()), RunStatus::Partial));
}

#[test]
fn what_a_machine_has_of_its_cache_is_that_of_its_latest_own_run_that_looked() {
    let (_directory, mut store) = store(0);
    let found = |n: usize, bytes: Option<u64>| {
        let mut run = run(n);
        run.machine.cpu.effective_cache = bytes.map(|bytes| EffectiveCache { bytes, fill_rate: 2e9 });
        run
    };
    let machine = run(0).machine;
    assert_eq!(store.effective_cache(&machine).unwrap(), None);
    for (n, bytes) in [(0, Some(64)), (1, Some(128)), (2, None)] {
        stored(&mut store, &found(n, bytes));
    }
    assert!(store.import(&found(3, Some(256))).unwrap());
    assert_eq!(store.effective_cache(&machine).unwrap().map(|found| found.bytes), Some(128));
    assert_eq!(store.effective_cache(&Machine { id: "another".to_owned(), ..machine }).unwrap(), None);
}

#[test]
fn a_baseline_is_of_earlier_whole_runs_of_our_own() {
    let (_directory, mut store) = store(4);
    stored(&mut store, &Run { status: RunStatus::Partial, ..run(4) });
    assert!(store.import(&run(5)).unwrap());
    let mut elsewhere = run(6);
    elsewhere.machine.id = "m-2".to_owned();
    stored(&mut store, &elsewhere);
    stored(&mut store, &run(7));
    assert_eq!(store.baseline(&run(7), 10).unwrap().runs, [0, 1, 2, 3].map(|n| run(n).id));
    assert_eq!(store.baseline(&run(7), 2).unwrap().runs, [2, 3].map(|n| run(n).id));
    assert_eq!(store.baseline(&run(2), 10).unwrap().runs, [0, 1].map(|n| run(n).id), "not what came later");
    assert!(store.baseline(&run(0), 10).unwrap().runs.is_empty());
    // A run that measured nothing or was imported is in no baseline.
    let mut empty = run(8);
    empty.measurements.iter_mut().for_each(|m| {
        (m.status, m.reason) = (Status::Failed, Some("no space left".to_owned()));
        m.metrics.clear();
    });
    stored(&mut store, &empty);
    store.import(&run(9)).unwrap();
    let last = run(10);
    store.begin(&last).unwrap();
    let taken = store.baseline(&last, 10).unwrap().runs;
    assert!(!taken.contains(&empty.id) && !taken.contains(&run(9).id), "{taken:?}");
    let left = store.count_skipped(&last).unwrap();
    assert!(left.imported == 2 && left.partial == 1 && left.empty == 1, "{left:?}");
}

#[test]
fn runs_with_a_lasting_loss_are_no_baseline_until_they_are_accepted() {
    let (_directory, mut store) = store(0);
    let at = |n: usize, level: f64| {
        let mut run = run(n);
        for metric in run.measurements.iter_mut().flat_map(|m| &mut m.metrics) {
            let level = if metric.better == metric::Better::Higher { level } else { 1.0 / level };
            let summary = &mut metric.summary;
            let values = [&mut summary.min, &mut summary.median, &mut summary.max].into_iter();
            let scale = |value: &mut f64| *value *= level * (1.0 + 0.002 * (n % 3) as f64);
            values.chain(&mut metric.samples).for_each(scale);
            (metric.limit, metric.of_limit) = (None, None);
        }
        run
    };
    (0..16).for_each(|n| stored(&mut store, &at(n, 1.0)));
    (16..26).for_each(|n| stored(&mut store, &at(n, 0.7)));
    let last = run(25);
    let ids = |numbers: std::ops::Range<usize>| numbers.map(|n| run(n).id).collect::<Vec<_>>();
    let found = store.baseline(&last, 10).unwrap();
    assert_eq!(found.runs, ids(6..16));
    let since = (run(16).id, run(16).started);
    assert!(!found.open.is_empty());
    for loss in &found.open {
        assert_eq!((loss.since.clone(), loss.started.clone()), since, "{loss:?}");
    }
    assert_eq!(store.run_before(&last).unwrap(), Some(run(24).id));
    assert_eq!(store.accept(&last).unwrap(), run(16).id);
    assert_eq!(store.baseline(&last, 10).unwrap(), BaselineRuns { runs: ids(16..25), open: Vec::new() });
    assert_eq!(store.baseline(&run(15), 10).unwrap().runs, ids(5..15));
    assert_eq!(store.baseline(&run(16), 10).unwrap().runs, ids(16..17));
    assert_eq!(store.accept(&last).unwrap(), last.id);
}

#[test]
fn an_import_is_entered_once_and_unfinished_ones_give_way_to_more_of_all_machines_alone() {
    let (_directory, mut store) = store(0);
    assert!(store.import(&run(0)).unwrap());
    assert!(!store.import(&Run { elapsed_s: 1.0, ..run(0) }).unwrap());
    assert_eq!(store.load("last").unwrap().elapsed_s, fixture::run().elapsed_s);
    let of = |nodes: &[&str], each: usize| {
        let mut part = Run { status: RunStatus::Partial, ..run(1) };
        part.measurements.truncate(each);
        fixture::on_nodes(&part, nodes)
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
    let (_directory, mut store) = store(2);
    store.tag("last", "before").unwrap();
    store.tag("last", "before").unwrap();
    store.tag("last~1", "before").unwrap();
    assert_eq!(store.tagged("before").unwrap(), [run(0).id, run(1).id]);
    assert!(store.untag("last", "before").unwrap());
    assert!(!store.untag("last", "before").unwrap());
    assert!(matches!(store.tag("last~9", "x"), Err(StoreError::NoSuchRun(_))));
    store.note("last", "a note").unwrap();
}

#[test]
fn the_latest_floors_of_a_machine_count() {
    let (_directory, mut store) = store(0);
    let floors = |machine: &str, rounds| Floors { machine: machine.to_owned(), rounds, ..Floors::default() };
    [floors("m-1", 3), floors("m-1", 6), floors("m-2", 9)].iter().for_each(|f| store.keep_floors(f).unwrap());
    assert_eq!(store.floors("m-1").unwrap().rounds, 6);
    assert_eq!(store.floors("m-3"), None);
}

#[test]
fn each_machine_has_its_own_trends_in_the_order_of_its_cases() {
    let (_directory, mut store) = store(1);
    let mut elsewhere = run(1);
    (elsewhere.machine.id, elsewhere.machine.host) = ("m-2".to_owned(), Some("a-bench".to_owned()));
    stored(&mut store, &elsewhere);
    stored(&mut store, &run(2));
    let found = store.trends(&asked("*")).unwrap();
    let (first, second) = found.split_at(found.len() / 2);
    assert!(first.iter().all(|t| t.machine == "m-2" && t.points.len() == 1), "{first:?}");
    assert!(second.iter().all(|t| t.machine != "m-2" && t.points.len() == 2), "{second:?}");
    let measured = fixture::run().measurements.into_iter().filter(|m| m.status == Status::Ok);
    let cases: Vec<String> = measured.map(|m| m.case.id().as_str().to_owned()).collect();
    assert_eq!(second.iter().map(|t| t.case.clone()).collect::<Vec<_>>(), cases);
}

#[test]
fn a_metric_that_once_was_the_headline_is_one_trend() {
    let (_directory, mut store) = store(0);
    let mut turned = run(1);
    turned.measurements.iter_mut().for_each(|m| m.metrics.reverse());
    stored(&mut store, &turned);
    stored(&mut store, &run(2));
    let bus = TrendQuery { metric: Some("bus_bandwidth".to_owned()), ..asked("memory") };
    let found = store.trends(&bus).unwrap();
    assert_eq!(found.iter().map(|t| t.points.len()).collect::<Vec<_>>(), [2]);
    let program = TrendQuery { metric: Some("bandwidth".to_owned()), ..asked("memory.bandwidth") };
    let headlines = store.trends(&asked("memory.bandwidth")).unwrap();
    assert!(store.trends(&program).unwrap().iter().all(|t| headlines.contains(t)));
}
