//! Each undoubted point of a report is drawn once with its source; doubted ones have their own
//! mark.

use std::collections::BTreeSet;

use plimsoll_model::measurement::{SamplePoint, ToolResult};
use plimsoll_result::fixture;

use super::super::data::{ChartSeries, SeriesRole};
use super::super::{ReferenceFigure, page as page_of};
use super::*;

/// A run with all points of a report, each at 1.5 × the published value.
fn replay(baseline: &PublishedReport) -> Run {
    crate::report::published::tests::replay(baseline, |figure| {
        let (value, unit) = figure.base.unwrap_or((1e-6, plimsoll_units::quantity::Unit::Second));
        Some((value.max(1e-12) * 1.5, unit))
    })
}

fn reports() -> Vec<PublishedReport> {
    plimsoll_published::names().into_iter().filter_map(plimsoll_published::find).collect()
}

fn of_role(charts: &[Chart], role: SeriesRole) -> Vec<&ChartSeries> {
    charts.iter().flat_map(|chart| &chart.series).filter(|one| one.role == role).collect()
}

fn drawn(series: &[&ChartSeries]) -> usize {
    series.iter().flat_map(|one| &one.points).filter(|p| p[1].is_some()).count()
}

fn charts(run: &Run) -> Vec<Chart> {
    of(run).unwrap().parts.into_iter().flat_map(|(_, charts)| charts).collect()
}

#[test]
fn each_believed_point_of_a_report_is_drawn_once_with_its_source() {
    for baseline in reports() {
        let mut figures = charts(&replay(&baseline));
        figures.retain(|c| c.y.unit != "%" && !c.title.ends_with("efficiency"));
        let own = of_role(&figures, SeriesRole::Published);
        let believed = baseline.own_points().filter(|(figure, _)| figure.believed().is_some()).count();
        assert_eq!(drawn(&own), believed, "{}", baseline.name);
        for series in own {
            assert_eq!((series.name.as_str(), series.labels.len()), ("published", series.points.len()));
            let reported = series.points.iter().zip(&series.labels).filter(|(p, _)| p[1].is_some());
            assert!(reported.clone().all(|(_, label)| label.contains("printed")), "{:?}", series.labels);
            let at: BTreeSet<u64> = reported.map(|(p, _)| p[0].unwrap().to_bits()).collect();
            assert_eq!(at.len(), drawn(&[series]), "a point stands twice in {}", series.name);
        }
        // Doubted points have a reason.
        let doubted = of_role(&figures, SeriesRole::Doubted);
        let labels: Vec<&String> = doubted.into_iter().flat_map(|one| &one.labels).collect();
        for (figure, _) in baseline.own_points().filter(|(f, _)| f.base.is_some_and(|(v, _)| v > 0.0)) {
            let doubt = figure.doubt.map(|doubt| doubt.to_string()).unwrap_or_default();
            assert!(labels.iter().any(|label| label.contains(&doubt)) || doubt.is_empty(), "{doubt}");
        }
        assert!(figures.iter().all(|c| !c.x.name.is_empty() && !c.y.name.is_empty() && !c.y.unit.is_empty()));
    }
}

#[test]
fn each_published_efficiency_is_drawn() {
    let baseline = plimsoll_published::find("hyperion-prometheus").unwrap();
    let mut charts = charts(&replay(&baseline));
    charts.retain(|c| c.title.ends_with("efficiency"));
    let printed = baseline.figures.iter().filter(|f| f.source.starts_with("efficiency")).count();
    let roles = [SeriesRole::Published, SeriesRole::Program, SeriesRole::Doubted];
    assert_eq!(roles.iter().map(|role| drawn(&of_role(&charts, *role))).sum::<usize>(), printed);
}

#[test]
fn marks_and_titles_are_of_every_metric_and_stand_on_the_page() {
    for baseline in reports() {
        let run = replay(&baseline);
        let marks = super::super::published(&run);
        for (_, matched) in baseline.own_points().filter(|(figure, _)| figure.believed().is_some()) {
            let (case, metric) = (matched.case.id(), matched.metric);
            let is_it = |mark: &ReferenceFigure| mark.case == case.as_str() && mark.metric == metric;
            assert!(marks.iter().any(is_it), "{}: {case} {metric}", baseline.name);
        }
        assert!(marks.iter().all(|mark| mark.name == baseline.title()), "{}", baseline.name);
        let page = page_of(&[run], &[]).unwrap();
        let mut plots = plots(&baseline, 1.0);
        plots.retain(|plot| plot.table.kind == plimsoll_published::tables::TableKind::Own);
        let titles: BTreeSet<&String> = plots.iter().map(|plot| &plot.table.title).collect();
        for title in &titles {
            assert!(page.contains(&format!("<strong>{title}</strong>")), "{title}");
        }
        assert_eq!(titles.len(), plots.len(), "{}", baseline.name);
    }
}

#[test]
fn the_reports_together_have_all_believed_points() {
    let reports = reports();
    let runs: Vec<Run> = reports.iter().map(replay).collect();
    let charts = together(&runs);
    let points = reports.iter().flat_map(PublishedReport::own_points);
    let believed = points.filter(|(figure, _)| figure.believed().is_some() && !figure.threads.is_empty());
    let wanted = believed.filter(|(figure, _)| ["throughput", "latency"].contains(&figure.metric));
    assert_eq!(drawn(&of_role(&charts, SeriesRole::Published)), wanted.count());
    for subsystem in ["CPU", "Memory", "Disk", "Network"] {
        let title = format!("{subsystem} throughput of all reports");
        assert!(charts.iter().any(|c| c.title == title), "{title}");
    }
    assert_eq!(together(&[fixture::run()]), []);
}

#[test]
fn a_series_of_the_plan_stands_with_the_report_and_nowhere_else() {
    let mut run = replay(&plimsoll_published::find("ec2-t2micro").unwrap());
    let group = "[[group]]\nbenchmark = 'cpu.peak'\nop = 'add'\ntype = 'i32'\nthreads = 4\n";
    run.plan.text = format!("{group}series = 600\nsample-time = '1s'\n");
    let id = "cpu.peak/op=add/type=i32/threads=4";
    let mut timed = fixture::measured(id, "rate", plimsoll_units::quantity::Unit::OpPerSecond, 1e10);
    let point = |n: u32| SamplePoint { t: f64::from(n), ..SamplePoint::default() };
    timed.metrics[0].series = (0..30).map(point).collect();
    timed.metrics[0].samples = vec![1e10; 30];
    run.measurements.push(timed);
    let over_time = |run: &Run| {
        let page = page_of(std::slice::from_ref(run), &[]).unwrap();
        page.matches("over time\",\"note\"").count()
    };
    assert_eq!(over_time(&run), 1);
    run.plan.name = "another".to_owned();
    assert_eq!(over_time(&run), 1);
}

#[test]
fn what_a_run_lacks_is_named() {
    let mut run = replay(&plimsoll_published::find("chameleon-kvm").unwrap());
    run.measurements.retain(|m| m.case.subsystem() == "cpu");
    let found = of(&run).unwrap();
    assert!(found.parts.iter().all(|(subsystem, _)| *subsystem == "cpu"));
    let text = found.section(&run).into_string();
    assert!(text.contains("Not in this run: ") && text.contains("Disk latency: random read"), "{text}");
    assert!(of(&fixture::run()).is_none());
}

#[test]
fn an_efficiency_of_the_prose_is_at_the_point_that_it_is_of() {
    let at = |name: &str, title: &str| -> Vec<String> {
        let charts = charts(&replay(&plimsoll_published::find(name).unwrap()));
        let chart = charts.iter().find(|c| c.title == title).unwrap();
        let published = of_role(std::slice::from_ref(chart), SeriesRole::Published);
        published.into_iter().flat_map(|one| one.labels.clone()).filter(|label| !label.is_empty()).collect()
    };
    let floats = at("ec2-t2micro", "CPU throughput: float-ops, efficiency");
    assert_eq!(floats, ["1 thread, printed 53.59 %"], "of 20.58 GFLOPS");
    let tcp = at("ec2-t2micro", "Network throughput: tcp, efficiency");
    assert_eq!(tcp, ["1 KiB, 1 thread, printed 90 %"], "of 750.464 Mbps");
}

#[test]
fn what_a_tool_did_otherwise_is_in_the_hover() {
    let case = "disk.io/op=read/pattern=random/block=1K/threads=1";
    let mut disk = fixture::measured(case, "throughput", plimsoll_units::quantity::Unit::BytePerSecond, 20e6);
    let mut tool_result = ToolResult::of(&fixture::tool_run("java", &[(20e6, 800e6)]), 0.03);
    tool_result.warnings = vec![fixture::note("reference-differs", "it used the page cache")];
    disk.metrics[0].tool_results = vec![tool_result];
    let mut run = fixture::run_of(vec![disk]);
    run.plan.name = "ec2-t2micro-java".to_owned();
    let charts = charts(&run);
    let chart = charts.iter().find(|c| c.title == "Disk throughput: random read").unwrap();
    let tool = chart.series.iter().find(|one| one.role == SeriesRole::Tool).unwrap();
    assert_eq!(tool.labels, ["1 KiB, 1 thread, java, it used the page cache"]);
}

/// Charts of each table of a report, by title.
fn of_tables(run: &Run) -> Vec<(String, Vec<DrawnChart>)> {
    let replays = crate::report::published::replays(std::slice::from_ref(run));
    let filled = crate::report::published::filled_reports(&replays);
    filled[0].tables.iter().map(|one| (one.table.title.clone(), tables::charts(one))).collect()
}

#[test]
fn each_table_has_its_figure_with_few_series() {
    let is_it = |one: &DrawnChart| match one {
        Ok(chart) => (1..=8).contains(&chart.series.len()),
        Err(missing) => !missing.why.is_empty(),
    };
    for baseline in reports() {
        for (title, drawn) in of_tables(&replay(&baseline)) {
            assert!(!drawn.is_empty() && drawn.iter().all(is_it), "{}: {title}", baseline.name);
        }
    }
}

#[test]
fn the_efficiency_of_a_latency_is_the_same_in_table_and_chart() {
    use plimsoll_model::limit::LimitKind;
    let mut run = replay(&plimsoll_published::find("hyperion-prometheus").unwrap());
    for metric in run.measurements.iter_mut().flat_map(|m| &mut m.metrics).filter(|m| m.name == "latency") {
        metric.limit = Some(fixture::derived(metric.summary.median / 4.0, LimitKind::Floor, "device"));
    }
    let all = of_tables(&run);
    let (_, drawn) = all.iter().find(|(title, _)| title == "disk latency").unwrap();
    let charts = drawn.iter().flatten();
    let in_table: Vec<Chart> = charts.filter(|chart| chart.title.ends_with("efficiency")).cloned().collect();
    let mut split = self::charts(&run);
    split.retain(|c| c.title.starts_with("Disk latency") && c.title.ends_with("efficiency"));
    for charts in [&in_table, &split] {
        let own = of_role(charts, SeriesRole::Own);
        let points = || own.iter().flat_map(|one| &one.points).filter_map(|p| p[1]);
        assert!(points().count() > 0);
        assert!(points().all(|share| (share - 25.0).abs() < 1e-6), "limit ÷ measured");
    }
}
