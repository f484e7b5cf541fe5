//! A comparison with each kind of row, in each format.

mod simulation;

use super::*;
use plimsoll_compare::{CompareOptions, ComparedSide, Floors, NoiseFloor, Prices, RunNoise, Score, compare};
use plimsoll_model::metric::Better;
use plimsoll_result::fixture;
use plimsoll_units::quantity::Unit;
use unicode_width::UnicodeWidthStr;

use super::rows::name;
use crate::report::{Style, html};

fn table(comparison: &Comparison, held: &[RequirementResult], shown: ShownMetrics, style: &Style) -> String {
    super::table(&Sides { comparison, sides: &[], held, shown, missing: Missing::Fail, style })
}

fn markdown(of: &Comparison, held: &[RequirementResult], shown: ShownMetrics, missing: Missing) -> String {
    super::markdown(&Sides { comparison: of, sides: &[], held, shown, missing, style: &Style::plain(100) })
}

fn page_of(comparison: &Comparison, held: &[RequirementResult], shown: ShownMetrics) -> String {
    let (missing, style) = (Missing::Fail, &Style::plain(100));
    html::comparison(&Sides { comparison, sides: &[], held, shown, missing, style }).unwrap()
}

fn comparison() -> Comparison {
    let noise = RunNoise { deviation: 0.004, freedom: 12.0, largest: 0.01 };
    let floors = [("network.tcp", "goodput"), ("memory.latency", "latency")].map(|(benchmark, metric)| {
        let (benchmark, metric) = (benchmark.to_owned(), metric.to_owned());
        NoiseFloor { benchmark, metric, case: None, noise }
    });
    let floors = Floors { machine: "m-1".to_owned(), floors: floors.into(), ..Floors::default() };
    let a = fixture::run();
    let mut b = a.clone();
    b.version = "0.2.0".to_owned();
    for measurement in &mut b.measurements {
        let factor = match measurement.case.benchmark() {
            "cpu.peak" => 0.88,
            "memory.latency" => 0.9,
            _ => 1.002,
        };
        measurement.scale(factor);
    }
    b.measurements.remove(3);
    let side = |name: &str, run| ComparedSide { name: name.to_owned(), runs: vec![run] };
    compare(&[side("before", a), side("after", b)], &[floors], &CompareOptions::default())
}

fn held() -> Vec<RequirementResult> {
    let (requirement, case) = ("cpu rate >= 95% of limit".to_owned(), Some("cpu.peak/op=fma".to_owned()));
    let found = "103 GFLOP/s, 87.6 % of limit".to_owned();
    vec![RequirementResult { requirement, case, met: false, found }]
}

#[test]
fn the_table_at_140_and_80_columns() {
    let at = |width, held: &[_]| table(&comparison(), held, ShownMetrics::Telling, &Style::plain(width));
    insta::assert_snapshot!("compare_140", at(140, &held()));
    insta::assert_snapshot!("compare_80", at(80, &[]));
}

#[test]
fn markdown_for_a_pull_request() {
    insta::assert_snapshot!(markdown(&comparison(), &held(), ShownMetrics::All, Missing::Fail));
}

#[test]
fn the_page_has_every_row_and_escapes_names() {
    let mut hostile = comparison();
    hostile.sides[0] = "<script>alert(1)</script>".to_owned();
    let page = page_of(&hostile, &held(), ShownMetrics::All);
    assert_eq!(page.matches("<script").count(), 4, "two islands, the library and ours");
    assert_eq!(page.matches("<tr title").count(), hostile.compared.len());
    assert_eq!(page.matches("data-chart=").count(), 1);
    assert!(page.contains("not met") && page.contains("regression") && !page.contains("NOT MET"));
    let nothing = Comparison { compared: Vec::new(), ranked: Vec::new(), ..comparison() };
    let page = page_of(&nothing, &[], ShownMetrics::All);
    assert!(page.contains("nothing to compare") && !page.contains("data-chart="));
}

#[test]
fn what_is_of_all_machines_is_named_after_none() {
    let of_one = |case: &str| name(&case.parse().unwrap(), Some("n1"), None).starts_with("n1: ");
    assert!(of_one("network.tcp/message=128K"));
    let shared = ["network.tcp/message=128K/server=nodes", "mpi.barrier", "cpu.hpl/n=500"];
    assert!(!shared.into_iter().any(of_one));
    assert!(!of_one("network.tcp/message=128K/server=bisection"));
    assert!(!of_one("network.tcp/message=128K/server=bisection-back"));
}

#[test]
fn hostile_names_stay_in_their_cell() {
    let mut hostile = comparison();
    hostile.sides[0] = "<script>|\u{1b}[31m\n# x".to_owned();
    let text = markdown(&hostile, &[], ShownMetrics::Telling, Missing::Fail);
    assert!(!text.contains("<script>") && !text.contains('\u{1b}') && !text.contains("\n# x"), "{text}");
    let text = table(&hostile, &[], ShownMetrics::Telling, &Style::plain(100));
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn what_is_ignored_has_no_mark_of_a_failure() {
    let marked = |missing| markdown(&comparison(), &[], ShownMetrics::All, missing);
    let (fails, ignored) = (marked(Missing::Fail), marked(Missing::Ignore));
    assert!(fails.contains("- ❌ lost ("), "{fails}");
    assert!(ignored.contains("- ➖ lost (") && !ignored.contains('❌'), "{ignored}");
}

#[test]
fn what_failed_is_named_with_its_loss() {
    let lines = failed(&comparison(), 0.05);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("rate: regression of 12"), "{lines:?}");
    assert!(failed(&comparison(), 0.5).is_empty());
    let of = |value: f64| {
        let loss = fixture::metric_of("loss", Unit::One, vec![value; 5]);
        let mut made = fixture::of_metric("network.udp/message=1K", loss);
        made.metrics[0].better = Better::Lower;
        ComparedSide { name: "side".to_owned(), runs: vec![fixture::run_of(vec![made])] }
    };
    let wanted = CompareOptions { fail_on: Some(0.05), ..CompareOptions::default() };
    let from_none = failed(&compare(&[of(0.0), of(0.06)], &[], &wanted), 0.05);
    assert!(from_none[0].ends_with("loss: regression from 0 to 6.00 %"), "{from_none:?}");
    let of_three = failed(&compare(&[of(0.0), of(0.0), of(0.06)], &[], &wanted), 0.05);
    assert!(of_three.len() == 1 && of_three[0].ends_with("from 0 to 6.00 % in C"), "{of_three:?}");
}

/// Four sides with prices and weights; one lacks the case.
fn several() -> Comparison {
    let side = |(name, isa, runs, rate): (&str, &str, u32, f64)| {
        let run = |n: u32| {
            let case = format!("cpu.peak/op=fma/type=f64/isa={isa}/threads=2");
            let rate = rate * (1.0 + 0.002 * f64::from(n % 3));
            let mut made = fixture::measured(&case, "rate", Unit::FlopPerSecond, rate);
            made.metrics[0].of_limit = Some(0.8123);
            fixture::run_of(vec![made])
        };
        ComparedSide { name: name.to_owned(), runs: (0..runs).map(run).collect() }
    };
    let mut sides = [
        ("c7i", "avx2", 5, 101e9),
        ("m7a", "avx512", 5, 200e9),
        ("a | hostile\u{1b}[31m name", "avx2", 5, 99e9),
        ("t3", "avx2", 1, 90e9),
    ]
    .map(side);
    sides[1].runs[0].machine.kernel.release = Some("6.8".to_owned());
    sides[3].runs[0].measurements.clear();
    let prices = Some(Prices { values: vec![0.1, 0.25, 0.1, 0.1], unit: "$/h".to_owned() });
    let weights = ["cpu.peak", "disk.io"].map(|name| (name.to_owned(), 1.0)).into();
    let mut made = compare(&sides, &[], &CompareOptions { fail_on: Some(0.05), prices, weights });
    made.scores = vec![Score { side: 1, value: 1.0, half: Some(0.02) }];
    made
}

#[test]
fn several_sides_read_like_this() {
    let at = |width| table(&several(), &[], ShownMetrics::Telling, &Style::plain(width));
    insta::assert_snapshot!("several_140", at(140));
    insta::assert_snapshot!("several_80", at(80));
    let text = markdown(&several(), &[], ShownMetrics::Telling, Missing::Fail);
    insta::assert_snapshot!("several_markdown", text);
    let page = page_of(&several(), &[], ShownMetrics::Telling);
    for part in ["Performance against price", "Each figure as a share of the best", SCORE, "rank by price"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn each_side_of_a_metric_has_a_row_with_as_many_cells_as_the_head() {
    let text = csv::text(&several());
    let rows: Vec<Vec<&str>> = text.split_terminator("\r\n").map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 4 + 1, "head, four sides, a score: {text}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    let of = |row: usize, name: &str| rows[row][rows[0].iter().position(|one| *one == name).unwrap()];
    let m7a = ["side", "best_rank", "worst_rank", "unit", "verdict"].map(|name| of(2, name));
    assert_eq!(m7a, ["m7a", "1", "1", "FLOP/s", "improvement"]);
    assert_eq!(["side", "value", "price", "price_unit"].map(|name| of(4, name)), ["t3", "", "0.1", "$/h"]);
    assert_eq!(["case", "metric", "side", "value"].map(|name| of(5, name)), ["", "score", "m7a", "1"]);
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_narrow_terminal_has_less_and_the_figures_stay() {
    for width in [40, 60, 80] {
        let text = table(&several(), &[], ShownMetrics::Telling, &Style::plain(width));
        assert!(text.lines().all(|line| line.width() <= width.max(80)), "{text}");
        assert!(text.contains("200 GFLOP/s") && text.contains("rank"), "{text}");
    }
}

#[test]
fn a_reason_has_its_names_and_not_too_many() {
    let one = |n: usize| Unweighed { name: format!("n{n}"), why: format!("of {}", n % 2) };
    let lines = unweighed(&(0..20).map(one).collect::<Vec<_>>());
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("not in the score, because of 0: n0, n2,"), "{lines:?}");
    assert!(lines[0].ends_with("n14 and 2 more"), "{lines:?}");
}
