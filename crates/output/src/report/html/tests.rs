//! The page as text: allowed contents, and data for each chart; `tests/html.rs` tests it in a
//! browser.

use plimsoll_result::fixture;
use plimsoll_units::quantity::Unit;
use proptest::prelude::*;
use rand::SeedableRng as _;

use super::*;

fn page_of(run: &Run) -> String {
    page(std::slice::from_ref(run), &[]).unwrap()
}

/// Reads of `size` bytes by these threads, at 10 GB/s each.
fn bandwidth(size: &str, threads: u32) -> Measurement {
    let id = format!("memory.bandwidth/op=read/size={size}/threads={threads}");
    fixture::measured(&id, "bandwidth", Unit::BytePerSecond, 1e10 * f64::from(threads))
}

/// The runs that `plimsoll import` reads from the page.
fn read_again(page: &str) -> Vec<Run> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), page).unwrap();
    Run::read_all(file.path()).unwrap()
}

/// The page without scripts and style.
fn markup(page: &str) -> String {
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, _) = rest.split_once("<script").unwrap();
    format!("{head}{body}")
}

#[test]
fn one_file_without_a_network() {
    let page = page_of(&fixture::run());
    assert!(page.len() < 8 << 20, "{}", page.len());
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!markup(&page).replace("href=\"#", "").contains(outside), "{outside}");
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    assert_eq!(page.matches("<script").count(), 5);
    assert_eq!(page.matches("</script>").count(), 5);
}

#[test]
fn a_page_holds_the_documents_of_its_runs_and_nothing_in_them_ends_their_element() {
    let mut first = fixture::run();
    first.machine.host = Some("</script><!-- \u{2028} & \n{\"schema\": \"plimsoll.run/1\"}".to_owned());
    let runs = [first, Run { id: "01900000-0000-7000-8000-000000000002".to_owned(), ..fixture::run() }];
    let page = page(&runs, &[]).unwrap();
    assert_eq!(page.matches("</script>").count(), 6);
    let read = read_again(&page);
    let text = |run: &Run| serde_json::to_string(run).unwrap();
    assert_eq!(read.iter().map(text).collect::<Vec<_>>(), runs.iter().map(text).collect::<Vec<_>>());
    assert!(page.contains("plimsoll import PAGE.html"));
}

#[test]
fn documents_that_have_no_room_are_named_with_the_reason() {
    let mut rng = chacha20::ChaCha8Rng::seed_from_u64(1);
    // Incompressible.
    let noise: String = (0..6 << 20).map(|_| char::from(rng.random_range(b'0'..=b'z'))).collect();
    let id = |n: u32| format!("01900000-0000-7000-8000-00000000000{n}");
    let large = |n: u32| {
        let mut run = Run { id: id(n), ..fixture::run() };
        run.plan.text.clone_from(&noise);
        run
    };
    let runs = [large(1), large(2), Run { id: id(3), ..fixture::run() }];
    let page = page(&runs, &[]).unwrap();
    assert!(page.len() < 12 << 20, "{}", page.len());
    let reported = "A page holds at most 8 MiB of run documents, so these runs have only their figures here";
    assert!(page.contains(&format!("{reported}: {}; ", id(2))));
    let read = read_again(&page);
    assert_eq!(read.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), [id(1), id(3)]);
    assert_eq!(page.matches("\"about\":\"").count(), 3, "the figures of all are here");
}

#[test]
fn the_policy_names_exactly_these_scripts() {
    let page = page_of(&fixture::run());
    for text in [LIBRARY.to_owned(), script()] {
        assert!(page.contains(&format!("<script>{text}</script>")));
        assert!(page.contains(&hash(&text).replace('\'', "&#39;")) || page.contains(&hash(&text)));
    }
    assert!(page.contains("default-src 'none'") || page.contains("default-src &#39;none&#39;"));
    // Hash of the empty text.
    assert_eq!(hash(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
}

#[test]
fn the_first_screen_answers_the_five_questions() {
    let page = markup(&page_of(&fixture::run()));
    for answer in [
        "bench-1",
        "AMD EPYC 9R14",
        "Limits: ",
        "Conditions: ",
        "Reference tools: ",
        "Findings",
        "13 cases",
        "117 GFLOP/s",
        "99.6 %",
        "these 2 CPUs share one core",
    ] {
        assert!(page.contains(answer), "{answer}");
    }
}

#[test]
fn cases_that_failed_alike_are_one_line() {
    let mut run = fixture::run();
    run.measurements.truncate(7);
    for (index, measurement) in run.measurements.iter_mut().enumerate() {
        let reason = if index == 6 { "no right" } else { "no room" };
        (measurement.status, measurement.reason) = (Status::Failed, Some(reason.to_owned()));
    }
    let page = markup(&page_of(&run));
    let (_, findings) = page.split_once("<h3>Findings</h3>").unwrap();
    assert!(findings.contains(" and 2 more: failed: no room</li>"), "{findings}");
    assert_eq!((findings.matches("no room</li>").count(), findings.matches("no right</li>").count()), (1, 1));
}

#[test]
fn each_row_tells_its_interval_and_its_warnings() {
    let mut run = fixture::run();
    let note = |code| fixture::note(code, "<why>");
    run.measurements.iter_mut().for_each(|m| m.warnings.clear());
    run.measurements[0].warnings = vec![note("disturbed"), note("cpu-quota"), note("disturbed")];
    run.measurements[1].warnings = vec![note("disturbed")];
    let page = markup(&page_of(&run));
    let rows: Vec<&str> = page.split("class=\"gauge").skip(2).collect();
    assert_eq!(rows.len(), run.measurements.len());
    for text in ["! disturbed, cpu quota<", "; warnings: disturbed, cpu quota", "&lt;why&gt;"] {
        assert!(rows[0].contains(text), "{text}");
    }
    for (row, measurement) in rows.iter().zip(&run.measurements) {
        let has = |text: &str| row.contains(text);
        assert_eq!(has("class=\"warned\""), !measurement.warnings.is_empty(), "{row}");
        let Some(metric) = measurement.metrics.first() else { continue };
        assert!(has("<span class=\"interval\" title=\"95 % interval of the median\">± "), "{row}");
        // Without a limit, the line is empty.
        let known = metric.limit.as_ref().is_some_and(|limit| limit.value.is_some());
        assert_eq!((has("class=\"fill"), has("no limit known")), (known, !known), "{row}");
    }
    assert!(page.contains("13 cases: 10 ok · 1 invalid · 1 failed · 1 skipped, 2 with warnings"), "{page}");
    assert!(page.contains("2 disturbed · 1 cpu quota"));
}

#[test]
fn charts_between_machines_are_titled_in_words() {
    let made = |message: &str| {
        let id = format!("mpi.latency/message={message}/server=nodes");
        fixture::measured(&id, "latency", Unit::Second, 1e-6)
    };
    let charts = charts::sweeps(&fixture::run_of(["1", "1K", "1M"].map(made).to_vec()), "mpi", &[]);
    assert_eq!(charts[0].title, "mpi.latency by message · between machines");
}

#[test]
fn every_chart_has_a_place_and_data() {
    let mut run = fixture::run();
    run.measurements.extend([("4K", 1e-9), ("512M", 9e-8)].map(|(size, latency)| {
        let id = format!("memory.latency/size={size}/pages=thp/threads=1");
        fixture::measured(&id, "latency", Unit::Second, latency)
    }));
    let samples = (0..40).map(|i| 1e11 + f64::from(i % 3)).collect();
    run.measurements[0].metrics[0] = fixture::metric_of("rate", Unit::FlopPerSecond, samples);
    let body = page::body(&run, &[], 0);
    let (markup, charts) = (body.whole(), body.charts);
    let markup = markup.into_string();
    let titles: Vec<&str> = charts.iter().map(|c| c.title.as_str()).collect();
    let wanted =
        ["memory.latency by size", "cpu.peak rate by threads", "over time", "Latency of single", "Roofline"];
    assert!(wanted.iter().all(|wanted| titles.iter().any(|t| t.contains(wanted))), "{titles:?}");
    let ids: std::collections::BTreeSet<&str> = charts.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids.len(), charts.len());
    for chart in &charts {
        assert!(markup.contains(&format!("data-chart=\"{}\"", chart.id)), "{}", chart.id);
        assert!(chart.series.iter().any(|s| !s.points.is_empty()), "{}", chart.title);
    }
    assert_eq!(markup.matches("data-chart=").count(), charts.len());
}

#[test]
fn the_last_run_is_a_mark() {
    let run = fixture::run();
    let page = page(std::slice::from_ref(&run), &last_run(&run)).unwrap();
    assert!(page.contains("mark before") && page.contains("last run (2026-11-21 08:19)"));
}

#[test]
fn a_published_figure_of_the_same_case_is_a_mark() {
    let report = plimsoll_published::find("ec2-t2micro").unwrap();
    let (figure, matched) = report.own_points().find(|(figure, _)| figure.believed().is_some()).unwrap();
    let (value, unit) = figure.base.unwrap();
    let id = matched.case.id();
    let mut run = fixture::run_of(vec![fixture::measured(id.as_str(), matched.metric, unit, value * 1.5)]);
    assert!(published(&run).is_empty(), "the plan is another one");
    run.plan.name = "ec2-t2micro".to_owned();
    let references = published(&run);
    assert!(references.iter().any(|r| r.value == value && r.class == PUBLISHED), "{references:?}");
    let legend = page_of(&run);
    assert!(legend.contains("mark published"));
    assert!(legend.contains("key published\"></span>published (EC2 t2.micro, 2016) "), "{}", markup(&legend));
    let two = fixture::run_of(vec![bandwidth("512M", 1), bandwidth("512M", 2)]);
    let of = |m: &Measurement| ReferenceFigure::new(PUBLISHED, "a report", m, &m.metrics[0], 7e9);
    let references: Vec<ReferenceFigure> = two.measurements.iter().map(of).collect();
    let chart = charts::sweeps(&two, "memory", &references).into_iter().next().unwrap();
    let extras = chart.series.iter().find(|s| s.role == data::SeriesRole::Published).unwrap();
    assert_eq!((extras.name.as_str(), extras.points.len(), extras.points[1][1]), ("a report", 2, Some(7e9)));
    assert!(published(&fixture::run_of(Vec::new())).is_empty());
}

#[test]
fn what_differs_in_one_way_is_laid_over_each_other() {
    for (id, metric, names) in [
        ("cpu.peak/op=fma/type=@/threads", "rate", ["f64", "f32"]),
        ("memory.block/op=write/pattern=@/size=1G/block=4K/threads", "throughput", ["sequential", "random"]),
        ("disk.io/op=@/pattern=random/block=4K/threads", "rate", ["read", "write"]),
        ("network.@/message=1K/streams", "goodput", ["tcp", "udp"]),
    ] {
        let subsystem = id.split('.').next().unwrap();
        let at = |name: &str, n: u32| {
            let id = format!("{}={n}", id.replace('@', name));
            fixture::measured(&id, metric, Unit::One, f64::from(n))
        };
        let run = fixture::run_of(names.iter().flat_map(|name| [at(name, 1), at(name, 2)]).collect());
        let own = |c: data::Chart| -> Vec<String> {
            let of_role = c.series.into_iter().filter(|s| s.role == data::SeriesRole::Own);
            of_role.map(|s| s.name).collect()
        };
        let found: Vec<_> = charts::sweeps(&run, subsystem, &[]).into_iter().map(own).collect();
        assert!(found.iter().any(|found| *found == names), "{subsystem}: {found:?}");
    }
}

#[test]
fn a_gauge_without_an_interval_has_no_gap_and_a_tiny_share_stays_within_its_column() {
    let page = |mut made: Measurement, ci95: Option<[f64; 2]>, share: f64| {
        (made.metrics[0].summary.ci95, made.metrics[0].of_limit) = (ci95, Some(share));
        markup(&page_of(&fixture::run_of(vec![made])))
    };
    let none = fixture::measured("null/threads=1", "rate", Unit::IoPerSecond, 0.0);
    let spoken = page(none, Some([0.0, 0.0]), 0.5);
    assert!(spoken.contains("IOPS, 50.0 % of its limit"), "{spoken}");
    let tiny = page(fixture::cpu("f64", 2, 117.4e9, 118.0e9), None, 2.56e-6);
    assert!(tiny.contains("&lt;0.01 %<span class=\"of\"> of 118 GFLOP/s"), "{tiny}");
}

/// Usual values are hidden, but a case with one still differs from a case without the parameter.
#[test]
fn a_stated_usual_value_is_another_chart_with_the_same_title() {
    let moved = |cache: &str, depth: u32| {
        let id = format!("disk.io/op=read/pattern=random/block=4K{cache}/depth={depth}");
        fixture::measured(&id, "rate", Unit::IoPerSecond, 1e4 * f64::from(depth))
    };
    let all = ["", "/cache=direct"].iter().flat_map(|cache| [1, 2, 4].map(|depth| moved(cache, depth)));
    let charts = charts::sweeps(&fixture::run_of(all.collect()), "disk", &[]);
    let points: Vec<usize> = charts.iter().map(|c| c.series[0].points.len()).collect();
    assert_eq!(points, [3, 3]);
    assert!(charts[0].title == charts[1].title && !charts[0].title.contains("direct"), "{}", charts[0].title);
}

#[test]
fn delivered_figures_are_a_line_of_their_own() {
    let mut all =
        [1, 2].map(|threads| fixture::cpu("f64", threads, 59e9 * threads as f64, 60e9 * threads as f64));
    let charts = |all: &[Measurement]| charts::sweeps(&fixture::run_of(all.to_vec()), "cpu", &[]);
    let delivered = |charts: &[data::Chart]| -> Vec<Vec<Vec<Option<f64>>>> {
        let series = charts.iter().flat_map(|chart| &chart.series);
        series.filter(|s| s.role == data::SeriesRole::Delivered).map(|s| s.points.clone()).collect()
    };
    assert!(delivered(&charts(&all)).is_empty());
    (all[1].conditions.excluded, all[1].conditions.delivered) = (Some(0.5), Some(60e9));
    let made = charts(&all);
    let [rates, shares] = delivered(&made).try_into().unwrap();
    assert_eq!((rates[0][1], shares[0][1]), (Some(60e9), Some(50.0)));
}

#[test]
fn as_much_memory_in_all_is_one_curve_by_threads() {
    let titles = |of_two: &str| -> Vec<String> {
        let run = fixture::run_of(vec![bandwidth("512M", 1), bandwidth(of_two, 2)]);
        charts::sweeps(&run, "memory", &[]).into_iter().map(|c| c.title).collect()
    };
    let found = titles("256M");
    assert!(found.iter().any(|t| t.contains("by threads") && t.contains("size 512 MiB in all")), "{found:?}");
    let found = titles("512M");
    assert!(found.iter().any(|t| t.contains("by threads")), "{found:?}");
    assert!(found.iter().all(|t| !t.contains("in all")), "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn names_never_become_markup(name in "(<script>|</script>|\"|'|&|\u{1b}|\u{202e}|\\PC){1,24}") {
        let hostile = format!("<b>{name}</b>");
        let mut run = fixture::run();
        run.machine.host = Some(hostile.clone());
        run.machine.cpu.model_name = Some(hostile.clone());
        run.findings[0].text = hostile.clone();
        run.plan.name = hostile.clone();
        run.measurements[2].reason = Some(hostile.clone());
        run.measurements[9].reason = Some(hostile);
        let page = page_of(&run);
        prop_assert!(!markup(&page).contains("<b>"));
        prop_assert_eq!(page.find(['\u{202e}', '\u{1b}']), None);
        prop_assert_eq!(page.matches("<script").count(), 5);
    }
}

#[test]
fn outliers_are_open_and_come_before_the_machines_that_are_lost() {
    let mut run = fixture::run();
    let finding = |code: &str, text: String, worse: bool| {
        let (code, evidence) = (code.to_owned(), serde_json::json!({ "worse": worse }));
        plimsoll_result::document::Finding { code, text, evidence }
    };
    let lost = (0..7).map(|n| finding("machine-lost", format!("n{n} is gone"), false));
    run.findings = lost.chain((10..18).map(|n| finding("outlier", format!("n{n} is slow"), true))).collect();
    let page = parts::findings(&run).into_string();
    let (open, more) = page.split_once("<details>").unwrap();
    assert!((10..18).all(|n| open.contains(&format!("n{n} is slow"))), "{page}");
    assert!(!open.contains("is gone") && more.matches("is gone").count() == 7, "{page}");
}

/// The number of charts of a replay's tables and time series, and the titles of those by operation
/// and of all reports together.
pub(in crate::report) fn figures_of_replay(run: &Run) -> (usize, [Vec<String>; 2]) {
    let replays = replays(std::slice::from_ref(run));
    let of_tables = filled_reports(&replays)[0].tables.iter().flat_map(reports::charts).count();
    let by_operation = reports::of(run).unwrap().parts.into_iter().flat_map(|(_, charts)| charts);
    let titles = |all: Vec<data::Chart>| all.into_iter().map(|chart| chart.title).collect();
    let together = titles(reports::together(std::slice::from_ref(run)));
    (of_tables + reports::series(run).len(), [titles(by_operation.collect()), together])
}
