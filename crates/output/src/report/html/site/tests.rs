mod directory;

use std::sync::Arc;

use plimsoll_history::{CaseCounts, RunRemarks, RunStart, RunSummary, TrendPoint};
use plimsoll_result::document::RunStatus;
use plimsoll_result::fixture;
use proptest::prelude::*;

use super::plot::plot;
use super::*;

const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=\"alert(1)\">\u{1b}[31m\u{202e}'&";

fn id(n: usize) -> String {
    format!("019aa5c3-{n:04x}-7c40-9d21-5b0c3f6a7e88")
}

pub(in crate::report) fn entry(n: usize) -> RunSummary {
    let (id, started) = (id(n), format!("2026-11-{:02}T08:00:00Z", n % 28 + 1));
    let (plan, machine, host) = (HOSTILE.to_owned(), "m-1".to_owned(), Some(HOSTILE.to_owned()));
    let (status, counts) = (RunStatus::Complete, CaseCounts { ok: 3, ..CaseCounts::default() });
    let (tags, note) = (["nightly".to_owned()].into(), Some(HOSTILE.to_owned()));
    let remarks = RunRemarks { tags, note, imported: false };
    RunSummary { id, started, elapsed_s: 12.0, plan, machine, host, nodes: 1, status, counts, remarks }
}

pub(in crate::report) fn trend(metric: &str, values: &[f64]) -> MetricTrend {
    let run = |n: usize| Arc::new(RunStart { id: id(n), started: entry(n).started });
    let point = |(n, &median): (usize, &f64)| TrendPoint { run: run(n), median, of_limit: Some(0.5) };
    let (machine, host) = ("m-1".to_owned(), Some(HOSTILE.to_owned()));
    let (case, metric) = ("memory.bandwidth/op=read/threads=2".to_owned(), metric.to_owned());
    let (unit, better) = (plimsoll_units::quantity::Unit::BytePerSecond, plimsoll_bench::Better::Higher);
    let points = values.iter().enumerate().map(point).collect();
    MetricTrend { machine, host, case, metric, unit, better, points }
}

/// 20 GB/s, and 18 GB/s from the 15th run.
pub(in crate::report) fn stepped() -> Vec<f64> {
    (0..24).map(|n| (if n < 14 { 20e9 } else { 18e9 }) * (1.0 + 0.002 * f64::from(n % 3))).collect()
}

fn of<'a>(entries: &'a [RunSummary], run: &Run, redacted: bool) -> OfMachine<'a> {
    let runs = entries.iter().map(|entry| ListedRun::new(entry, run)).collect();
    let series = series(vec![trend("bandwidth", &stepped()), trend(HOSTILE, &[1.0, 2.0])]);
    OfMachine { page: names::machine("m-1", 0), fingerprint: HOSTILE, host: None, runs, series, redacted }
}

/// Checks for elements made by text, control characters, scripts and external resources.
#[track_caller]
fn harmless(page: &str) {
    for wrong in ["<script", "<img", "onerror=\"", "http://", "https://", "\u{1b}", "\u{202e}", "javascript:"]
    {
        let at = page.find(wrong).map(|at| &page[at.saturating_sub(80)..]);
        assert!(at.is_none(), "{wrong}: {}", at.unwrap_or_default().chars().take(160).collect::<String>());
    }
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    assert!(page.contains(policy));
}

#[test]
fn a_change_is_told_at_its_run_on_both_pages() {
    let entries: Vec<RunSummary> = (0..24).map(entry).collect();
    let run = fixture::run();
    let of = of(&entries, &run, false);
    let says = "20.0 GB/s → 18.0 GB/s, −10 %";
    let page = machine(&of);
    let step = format!("<a href=\"../{}\">2026-11-15 08:00 UTC", names::run(&id(14)));
    assert!(page.contains(&step) && page.contains(says), "{page}");
    assert_eq!(page.matches("class=\"mark regression\"").count(), 1);
    assert_eq!(page.matches("class=\"level\"").count(), 2);
    assert!(page.matches("<circle").count() == 24 + 2, "every run can be reached");
    let index = index(&[of]);
    assert!(index.contains(&format!("<a href=\"{}\">2026-11-15", names::run(&id(14)))), "{index}");
    assert!(index.contains(says) && index.contains("1 machine, 24 runs"));
}

#[test]
fn hostile_names_tags_and_documents_do_nothing() {
    let entries: Vec<RunSummary> = (0..24).map(entry).collect();
    let mut made = fixture::run();
    made.machine.host = Some(HOSTILE.to_owned());
    made.machine.cpu.model_name = Some(HOSTILE.to_owned());
    made.plan.name = HOSTILE.to_owned();
    harmless(&machine(&of(&entries, &made, false)));
    harmless(&index(&[of(&entries, &made, false)]));
    let report = run(&made, &names::machine("m-1", 0)).unwrap();
    assert!(!report.contains("<script>alert") && !report.contains("<img"), "the report");
    let empty = index(&[]);
    harmless(&empty);
    assert!(empty.contains("0 machines, 0 runs") && empty.contains("has no runs yet"), "{empty}");
}

#[test]
fn of_a_redacted_site_what_the_history_and_the_user_call_things_is_left_out() {
    let mut entries: Vec<RunSummary> = (0..24).map(entry).collect();
    for line in &mut entries {
        (line.plan, line.host) = ("secret plan".to_owned(), Some("secret host".to_owned()));
        line.remarks.tags = ["secret-tag".to_owned()].into();
        line.remarks.note = Some("secret note".to_owned());
    }
    let run = fixture::run();
    let open = machine(&of(&entries, &run, false));
    assert!(open.contains("secret-tag · secret note"));
    for page in [machine(&of(&entries, &run, true)), index(&[of(&entries, &run, true)])] {
        assert!(!page.contains("secret"));
    }
}

#[test]
fn the_report_has_its_library_in_a_file_of_the_site_and_its_policy_names_it() {
    let page = run(&fixture::run(), &names::machine("m-1", 0)).unwrap();
    let (file, text) = library();
    assert!(!page.contains(text), "it is not within");
    assert!(page.contains(&format!("source: \"../{file}\"")));
    assert!(page.contains(&format!("script-src {} {} file:;", hash(LIBRARY), hash(&script()))));
    assert!(page.contains(&format!("<script>{}</script>", script())));
    assert!(page.contains("href=\"../index.html\""));
}

#[test]
fn repeats_of_a_run_are_one_figure_and_the_first_metric_of_a_case_is_its_headline() {
    let mut repeated = trend("x", &[1.0, 2.0, 9.0, 4.0]);
    let run = repeated.points[0].run.clone();
    repeated.points[1].run = run.clone();
    repeated.points[2].run = run;
    let other = MetricTrend { case: "memory.latency".to_owned(), ..trend("y", &[1.0]) };
    let all = series(vec![repeated, trend("y", &[1.0]), other]);
    let medians: Vec<f64> = all[0].trend.points.iter().map(|point| point.median).collect();
    assert_eq!(medians, [2.0, 4.0]);
    assert_eq!(all.iter().map(|one| one.headline).collect::<Vec<_>>(), [true, false, true]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_figures_stay_in_their_drawing(values in prop::collection::vec(-1e300f64..1e300, 1..900)) {
        let all = series(vec![trend("bandwidth", &values)]);
        let drawn = plot(&all[0], &between(&all[0].trend, &all[0].levels)).into_string();
        prop_assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{}", drawn);
        let path = drawn.split("path class=\"line\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        for place in path.split(['M', 'L']).skip(1) {
            let (x, y) = place.split_once(' ').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            prop_assert!((0.0..=560.0).contains(&x) && (0.0..=120.0).contains(&y), "{}", place);
        }
        prop_assert!(path.matches(['M', 'L']).count() <= 402);
    }
}
