//! A comparison with every kind of row, in every format.

mod simulation;

use super::*;
use crate::compare::{Floor, Floors, Noise, Side, compare};
use crate::fixture;
use crate::metric::Better;
use crate::quantity::Unit;
use crate::stats::{Samples, Seed, Summary};

fn comparison() -> Comparison {
    let floor = |benchmark: &str, metric: &str| Floor {
        benchmark: benchmark.to_owned(),
        metric: metric.to_owned(),
        case: None,
        noise: Noise { deviation: 0.004, freedom: 12.0, largest: 0.01 },
    };
    let floors = Floors {
        machine: "m-1".to_owned(),
        floors: vec![floor("network.tcp", "goodput"), floor("memory.latency", "latency")],
        ..Floors::default()
    };
    let a = fixture::run();
    let mut b = a.clone();
    b.version = "0.2.0".to_owned();
    for measurement in &mut b.measurements {
        let factor = match measurement.case.benchmark() {
            "cpu.peak" => 0.88,
            "memory.latency" => 0.9,
            _ => 1.002,
        };
        for metric in &mut measurement.metrics {
            metric.summary.median *= factor;
            metric.summary.ci95 = metric.summary.ci95.map(|ci| ci.map(|x| x * factor));
        }
    }
    b.measurements.remove(3);
    let side = |name: &str, run| Side { name: name.to_owned(), runs: vec![run] };
    compare(&side("before", a), &side("after", b), &[floors], None)
}

fn held() -> Vec<Holds> {
    vec![Holds {
        requirement: "cpu rate >= 95% of limit".to_owned(),
        case: Some("cpu.peak/op=fma".to_owned()),
        met: false,
        found: "103 GFLOP/s, 87.6 % of limit".to_owned(),
    }]
}

#[test]
fn the_table_at_140_and_80_columns() {
    insta::assert_snapshot!("compare_140", table(&comparison(), &held(), Shown::Telling, &Style::plain(140)));
    insta::assert_snapshot!("compare_80", table(&comparison(), &[], Shown::Telling, &Style::plain(80)));
}

#[test]
fn markdown_for_a_pull_request() {
    insta::assert_snapshot!(markdown(&comparison(), &held(), Shown::All, Missing::Fail));
}

#[test]
fn the_page_has_every_row_and_escapes_names() {
    let mut hostile = comparison();
    hostile.sides[0] = "<script>alert(1)</script>".to_owned();
    let page = crate::report::html::comparison(&hostile, &[], &held(), Shown::All).unwrap();
    assert_eq!(page.matches("<script").count(), 4, "two islands, the library and ours");
    assert_eq!(page.matches("<tr title").count(), hostile.compared.len());
    assert_eq!(page.matches("data-chart=").count(), 1);
    for told in ["NOT MET", "not met", "regression"] {
        assert_eq!(page.contains(told), told != "NOT MET", "{told}");
    }
    let nothing = Comparison { compared: Vec::new(), ..comparison() };
    let page = crate::report::html::comparison(&nothing, &[], &[], Shown::All).unwrap();
    assert!(page.contains("nothing to compare") && !page.contains("data-chart="));
}

#[test]
fn what_is_of_all_machines_is_named_after_none() {
    let mut row = comparison().compared.remove(0);
    row.node = Some("n1".to_owned());
    let mut of_one = |case: &str| {
        row.case = case.parse().unwrap();
        cells(&row)[0].starts_with("n1: ")
    };
    assert!(of_one("network.tcp/message=128K"));
    let shared = ["network.tcp/message=128K/server=nodes", "mpi.barrier", "cpu.hpl/n=500"];
    assert!(!shared.into_iter().any(&mut of_one));
    assert!(!of_one("network.tcp/message=128K/server=bisection"));
    assert!(!of_one("network.tcp/message=128K/server=bisection-back"));
}

#[test]
fn hostile_names_stay_in_their_cell() {
    let mut hostile = comparison();
    hostile.sides[0] = "<script>|\u{1b}[31m\n# x".to_owned();
    let text = markdown(&hostile, &[], Shown::Telling, Missing::Fail);
    assert!(!text.contains("<script>") && !text.contains('\u{1b}') && !text.contains("\n# x"), "{text}");
    let text = table(&hostile, &[], Shown::Telling, &Style::plain(100));
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn what_is_ignored_has_no_mark_of_a_failure() {
    let marked = |missing| markdown(&comparison(), &[], Shown::All, missing);
    let (fails, ignored) = (marked(Missing::Fail), marked(Missing::Ignore));
    assert!(
        fails.contains("- ❌ lost (") && ignored.contains("- ➖ lost (") && !ignored.contains('❌'),
        "{ignored}"
    );
}

#[test]
fn what_failed_is_named_with_its_loss() {
    let lines = failed(&comparison(), 0.05);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("rate: regression of 12"), "{lines:?}");
    assert!(failed(&comparison(), 0.5).is_empty());
    let of = |value: f64| {
        let mut made = fixture::measured("network.udp/message=1K", "loss", Unit::One, 1.0);
        let samples = Samples::new(vec![value; 5]).unwrap();
        made.metrics[0].better = Better::Lower;
        made.metrics[0].samples = vec![value; 5];
        made.metrics[0].summary = Summary::new(&samples, Seed::new(1, "", ""));
        Side { name: "side".to_owned(), runs: vec![fixture::run_of(vec![made])] }
    };
    let from_none = failed(&compare(&of(0.0), &of(0.06), &[], Some(0.05)), 0.05);
    assert!(from_none[0].ends_with("loss: regression from 0 to 6.00 %"), "{from_none:?}");
}
